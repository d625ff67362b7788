"""`sensormend watch`: what a person types, and what they are told."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from sensormend.cli.arguments import FLAG, OUTPUT, STDIN, Said, listed
from sensormend.errors import ConfigError

if TYPE_CHECKING:
    from sensormend.stream.settings import Settings

__all__ = ["open_dashboard", "stopping", "watch"]

_log = logging.getLogger("sensormend.stream")

LIVE = Group("The feed", sort_key=0)
TELL = Group("Who is told", sort_key=4)


def watch(
    source: Annotated[str | None, Parameter(negative=())] = None,
    out: Annotated[Path | None, Parameter(negative=())] = None,
    /,
    *,
    config: Annotated[Path | None, Parameter(group=LIVE)] = None,
    start_from: Annotated[Path | None, Parameter(name="--from", group=LIVE)] = None,
    grace: Annotated[str | None, Parameter(group=LIVE)] = None,
    late_for: Annotated[str | None, Parameter(group=LIVE)] = None,
    speed: Annotated[float | None, Parameter(group=LIVE)] = None,
    topics: Annotated[str | None, Parameter(group=LIVE)] = None,
    pattern: Annotated[str | None, Parameter(group=LIVE)] = None,
    user: Annotated[str | None, Parameter(group=LIVE)] = None,
    password_file: Annotated[Path | None, Parameter(group=LIVE)] = None,
    ca: Annotated[Path | None, Parameter(group=LIVE)] = None,
    keep: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    sink: Annotated[list[str] | None, Parameter(group=OUTPUT, negative=())] = None,
    backlog: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    alert: Annotated[list[str] | None, Parameter(group=TELL, negative=())] = None,
    after: Annotated[int | None, Parameter(group=TELL)] = None,
    well_after: Annotated[int | None, Parameter(group=TELL)] = None,
    stood: Annotated[str | None, Parameter(group=TELL)] = None,
    stood_readings: Annotated[int | None, Parameter(group=TELL)] = None,
    metrics: Annotated[str | None, Parameter(group=TELL)] = None,
    serve: Annotated[str | None, Parameter(group=TELL)] = None,
    serve_token_file: Annotated[Path | None, Parameter(group=TELL)] = None,
    serve_edit: Annotated[bool | None, Parameter(group=TELL, **FLAG)] = None,
    log: Annotated[str | None, Parameter(group=TELL)] = None,
    verbose: Annotated[bool, Parameter(group=TELL, **FLAG)] = False,
    said: Said | None = None,
) -> None:
    """Mend a live feed: clean values as they come, a list of what to repair, an alert when a sensor fails.

    SOURCE is a broker (mqtt://host/city/+/temp, mqtts://...), a folder in which files appear, `-` for newline JSON on
    standard input, or replay:READINGS for anything that `clean` reads. A message is a JSON reading, a list of them,
    SenML, or a bare number with the sensor in the topic: mqtt://host/city/{sensor}/temp.

    OUT is a folder. It is written as `clean` writes it, a period when it is over and its grace has passed; what is
    known of the present one is in state/provisional.parquet. A message is acknowledged when it is on disk.
    Started again with the same OUT, after a crash or years later, it goes on where it was. Ctrl-C or SIGTERM end it
    cleanly.

    There is nothing to tune. Try `sensormend watch replay:readings.csv mended`.

    Parameters
    ----------
    source
        Where readings come from.
    out
        The folder for the results.
    config
        A TOML file with any of the options below, by the same names, and with SOURCE and OUT as `source` and `out`.
    start_from
        The OUT of an archive: its model judges the first day already.
    grace
        How long a finished period waits for late readings before it is final; one step by default.
    late_for
        How far back readings that are later still correct their own row; 30d by default.
    speed
        Seconds of a replay in one second; as fast as possible by default.
    topics
        What to subscribe to, with commas between; by default what SOURCE says.
    pattern
        What topics mean: city/{sensor}/{variable}.
    user
        Who we are to the broker. The password is in --password-file or in SENSORMEND_MQTT_PASSWORD.
    password_file
        A file with the password.
    ca
        The certificates to trust, for mqtts://; those of the system by default.
    keep
        Drop rows that are older than this: 365d. By default they are kept for ever.
    sink
        Where else results go: mqtt://host/prefix or postgresql://host/database?table=name; may be repeated.
    backlog
        How much may wait on disk for sinks that are away; 1GB by default.
    alert
        Who is told when a sensor turns faulty, silent or well again: mqtt://host/topic, https://..., or
        "command: words"; may be repeated.
    after
        Faulty periods in a row until a sensor is reported whose fault is not sure; 2 by default.
    well_after
        Sound periods in a row until it is well again; 2 by default.
    stood
        How long a sure fault has to stand until it is reported; 1h by default.
    stood_readings
        In how many readings; 3 by default.
    metrics
        Where to show /metrics for Prometheus and /healthz; 127.0.0.1:9464 by default, or off.
    serve
        Show the dashboard too: --serve alone at 127.0.0.1:8464, or say where.
    serve_token_file
        A file with the token that opens it; needed where other machines can reach it.
    serve_edit
        Let it add notes to the --maintenance file; they hold from the period on that is open then.
    log
        text or json, on standard error.
    verbose
        Say when each period is final.
    said
        What you know about the readings.
    """
    from sensormend.stream.logs import setup
    from sensormend.stream.service import open_service
    from sensormend.stream.settings import Settings

    if source is not None and out is None and config is None:
        raise ConfigError("watch needs SOURCE and OUT: sensormend watch mqtt://localhost/city/# mended")
    typed: dict[str, Any] = {
        "source": "-" if source == STDIN else source, "out": out, "start_from": start_from, "grace": grace,
        "late_for": late_for, "speed": speed, "topics": listed(topics), "pattern": listed(pattern), "user": user,
        "password_file": password_file, "ca": ca, "keep": keep, "sinks": sink, "backlog": backlog, "alerts": alert,
        "after": after, "well_after": well_after, "stood": stood, "stood_readings": stood_readings,
        "metrics": metrics, "serve": serve,
        "serve_token_file": serve_token_file, "serve_edit": serve_edit, "log": log,
    }  # fmt: skip
    settings = Settings.of(config, **typed, **(said or Said()).told())
    setup(settings.log, "debug" if verbose else "info")
    with open_service(settings, open_dashboard) as service:
        stopping(service.stop)
        service.run()


@contextmanager
def open_dashboard(settings: Settings) -> Iterator[None]:
    """Serve the dashboard of a service that is about to begin, where the settings ask for it."""
    if settings.serve is None:
        yield
        return
    from sensormend.stream.logs import say
    from sensormend.stream.service_state import ServiceState
    from sensormend.web.server import Server
    from sensormend.web.sessions import read_token

    edit = settings.options.maintenance if settings.serve_edit else None
    with Server(settings.out, *settings.serve, read_token(settings.serve_token_file), edit) as server:
        memory = ServiceState(settings.out)
        memory.claim()
        memory.begin()
        server.start()
        say(_log, logging.INFO, "the dashboard is shown", address=server.address)
        yield


def stopping(stop: Callable[[], None]) -> None:
    """Let SIGTERM and Ctrl-C end it cleanly; a second one ends it at once, which loses nothing either."""

    def asked(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
