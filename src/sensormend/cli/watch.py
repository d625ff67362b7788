"""`sensormend watch` runs the service that mends a live feed."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import Parameter

from sensormend.cli.app import STDIN
from sensormend.cli.arguments import FLAG, GROUPS, Arguments, declared_options
from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.stream.settings import Settings

__all__ = ["WatchArguments", "open_dashboard", "stop_on_signals", "watch"]

_log = logging.getLogger("sensormend.stream")


@declared_options("watch", Settings, Options)
class WatchArguments(Arguments):
    """The options of `watch`."""


def watch(
    source: Annotated[str | None, Parameter(negative=())] = None,
    out: Annotated[Path | None, Parameter(negative=())] = None,
    /,
    *,
    config: Annotated[Path | None, Parameter(group=GROUPS["feed"])] = None,
    arguments: WatchArguments | None = None,
    verbose: Annotated[bool, Parameter(group=GROUPS["alerts"], **FLAG)] = False,
) -> None:
    """Clean a live feed: clean values as they come, a list of what to repair, an alert when a sensor fails.

    SOURCE is a broker (mqtt://host/city/+/temp, mqtts://...), a table (postgresql://host/database?table=readings), a
    topic (kafka://host/topic), a server (sensorthings://host/v1.1), an address at which to listen for InfluxDB line
    protocol (influx://127.0.0.1:8086), a folder in which files appear, `-` for messages on standard input, or
    replay:READINGS for anything that `clean` reads. A message is a JSON reading, a list of them, what LoRaWAN networks
    and other devices send, or a bare number with the sensor in the topic: mqtt://host/city/{sensor}/temp. `sensormend
    probe SOURCE` shows what a feed is taken for.

    OUT is a folder, written as `clean` writes it. A period is written when it is over and its grace has passed; rows
    of the present one are in state/provisional.parquet. A message is acknowledged when it is on disk. Started again
    with the same OUT, after a crash or years later, it continues where it stopped. Ctrl-C or SIGTERM end it cleanly.

    There is nothing to tune. Try `sensormend watch replay:readings.csv mended`.

    Parameters
    ----------
    source
        The source of the readings.
    out
        The folder for the results.
    config
        A TOML file with any of the options below, by the same names, and with SOURCE and OUT as `source` and `out`.
    arguments
        Options for the feed and its readings.
    verbose
        Log when each period is final.
    """
    from sensormend.stream.logs import setup
    from sensormend.stream.service import open_service

    if source is not None and out is None and config is None:
        raise ConfigError("watch needs SOURCE and OUT: sensormend watch mqtt://localhost/city/# mended")
    options = (arguments or WatchArguments()).to_dict()
    settings = Settings.of(config, source="-" if source == STDIN else source, out=out, **options)
    setup(settings.log, "debug" if verbose else "info")
    with open_service(settings, open_dashboard) as service, stop_on_signals(service.stop):
        service.run()


@contextmanager
def open_dashboard(settings: Settings) -> Iterator[None]:
    """Serve the dashboard while the service runs, if the settings ask for it."""
    if settings.serve is None:
        yield
        return
    from sensormend.stream.logs import say
    from sensormend.stream.service_state import ServiceState
    from sensormend.web.server import Server
    from sensormend.web.sessions import read_token

    edit = settings.options.maintenance if settings.serve_edit else None
    with Server(settings.out, *settings.serve, read_token(settings.serve_token_file), edit) as server:
        state = ServiceState(settings.out)
        state.claim()
        state.begin()
        server.start()
        say(_log, logging.INFO, "the dashboard is shown", address=server.address)
        yield


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C stop the service cleanly; a second one ends it at once, also without loss."""

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
