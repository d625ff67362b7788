"""`sensormend demo` runs a simulated city live, and serves its page."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from sensormend.cli.bench import wide_console
from sensormend.errors import ConfigError, StorageError
from sensormend.io.options import DASHBOARD

__all__ = ["DemoPage", "demo", "has_screen", "served"]

if TYPE_CHECKING:
    from sensormend.simulate.staged_faults import StagedFaults
    from sensormend.stream.service import Service
    from sensormend.stream.stream import Event


MISSING_EXTRA = "No page to look at: it needs fastapi and uvicorn, pip install 'sensormend[web]'"

FIRST_DAYS = 90
"""Days that are replayed at once, in a few seconds, so that the model has learned and the page has content."""

PACE = 1.0
"""Simulated hours per second after that: a day is final every 24 seconds."""

DEFAULT_SECONDS = 60.0
"""Seconds after which the demo ends without a terminal, where Ctrl-C is not available."""

MARK = "demo.json"
"""The file that marks an OUT as written by the demo, which may replace it."""


class DemoPage:
    """The page of a demo: its address, empty where there is none, and a line to print about it."""

    def __init__(self, address: str, message: str) -> None:
        self.address, self.message = address, message
        self._opened = False

    def open(self) -> None:
        """Open the page in the user's browser, once, without waiting for it."""
        if self.address and not self._opened:
            self._opened = True
            threading.Thread(target=_open, args=(self.address,), daemon=True).start()


@contextmanager
def served(out: Path, port: int | None, edit: Path | None = None) -> Iterator[DemoPage]:
    """Serve an OUT on a port of this machine; without `port`, on the usual one or, if that is taken, on a free one.

    Notes from the page go to the file `edit`, if given.
    """
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        yield DemoPage("", MISSING_EXTRA)
        return
    from sensormend.web.server import Server

    try:
        server = Server(out, port=DASHBOARD[1] if port is None else port, edit=edit)
    except ConfigError:
        if port is not None:
            raise
        server = Server(out, port=0, edit=edit)
    with server:
        server.start()
        yield DemoPage(server.address, f"Look at it in a browser: {server.address}")


def has_screen() -> bool:
    """Return whether the program runs on a terminal with a screen that can show a browser."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_display and sys.stdout.isatty()


def _open(address: str) -> None:
    with suppress(OSError, webbrowser.Error):  # the address is printed as well
        webbrowser.open(address)


def demo(
    *,
    seconds: float | None = None,
    days: int | None = None,
    sensors: int = 50,
    seed: int = 0,
    climate: str = "city",
    pace: float = PACE,
    port: int | None = None,
    browser: Annotated[bool, Parameter(name="--open", negative="--no-open")] = True,
    out: Path = Path("demo"),
) -> None:
    """Watch a simulated city live: sensors break and fall silent, and sensormend finds them and mends their data.

    The first 90 days of the city are replayed at once, the others hour by hour. The service of `watch` mends them from
    the readings alone and writes to OUT, which a page in your browser shows. Ctrl-C ends the demo, which then compares
    the faults found with those put in.

    Parameters
    ----------
    seconds
        The duration in seconds; by default until Ctrl-C, or a minute where there is no terminal.
    days
        The duration in simulated days, all of them at full speed.
    sensors
        The number of sensors.
    seed
        Another seed is another city.
    climate
        What they measure: city (temperature), dense, skewed (PM2.5), zeros, pressure or sparse.
    pace
        Simulated hours per second.
    port
        The port of the page; by default 8464, or a free one.
    browser
        Open the page in a browser, where there is a screen.
    out
        The folder for rows, alerts and the picture; that of an earlier demo is replaced.
    """
    import numpy as np

    from sensormend import NetworkModel
    from sensormend.cli.demo_screen import Screen, show_results
    from sensormend.io.options import Options
    from sensormend.readings import DAY, HOUR
    from sensormend.simulate.scores import DROPPED
    from sensormend.simulate.staged_faults import StagedFaults
    from sensormend.stream.service import Service
    from sensormend.stream.settings import Settings
    from sensormend.stream.sources.city import City

    if seconds is not None and not seconds > 0:
        raise ConfigError(f"--seconds must be above 0, not {seconds:g}")
    # Not rich's own check: with FORCE_COLOR it takes a pipe for a terminal.
    if days is None and seconds is None and not sys.stdout.isatty():
        seconds = DEFAULT_SECONDS
    if days is not None and days <= DROPPED:
        raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
    staged = StagedFaults(sensors, FIRST_DAYS)
    city = City(
        sensors, days=days, seed=seed, climate=climate, pace=None if days else pace, at_once=FIRST_DAYS, change=staged
    )
    _empty(out)
    notes = _write_maintenance(out, staged)
    # Compile the engine before the clock starts, which takes a minute the first time.
    NetworkModel().update(np.eye(4))
    console = wide_console()
    settings = Settings("a simulated city", out, Options(step=HOUR, period=DAY, maintenance=notes), metrics=None)

    def on_event(event: Event | None) -> None:
        screen.update(event)
        if city.paced and browser and has_screen():
            page.open()

    service = Service(settings, lambda mark, memory: city, on_event=on_event)
    # The screen shows the alerts; they are not logged as well.
    logging.getLogger("sensormend").addHandler(logging.NullHandler())
    with _stoppable(service), served(out, port, notes) as page:
        duration = f"for {days} days" if days else f"for {seconds:g} seconds" if seconds else "day after day"
        network = f"{sensors} sensors of a simulated city, {city.quantity} {duration}"
        console.print(f"{network}; sensormend is given the readings only.", soft_wrap=True)
        console.print(page.message + ("" if days or seconds else " (Ctrl-C ends it)"), soft_wrap=True, markup=False)
        sys.stdout.flush()
        lines = Console(stderr=True)
        with Screen(console, lines, service, city, days=days, seconds=seconds, address=page.address) as screen:
            service.run()
    show_results(console, service, city, out, seed, climate, staged, screen.faulty.get(staged.jumping))


def _write_maintenance(out: Path, staged: StagedFaults) -> Path:
    """Write a maintenance.csv that accepts the new level of a sensor, and return its path."""
    from sensormend.pipeline.maintenance import EVER, Note, write_note
    from sensormend.readings import DAY
    from sensormend.simulate.staged_faults import ACCEPTED_FROM
    from sensormend.stream.sources.city import FIRST

    path = out / "maintenance.csv"
    write_note(path, Note(staged.accepted, FIRST + ACCEPTED_FROM * DAY, EVER, "recalibrated", ""))
    return path


def _empty(out: Path) -> None:
    """Remove the OUT of an earlier demo; refuse to remove anything else."""
    from sensormend.files import locked
    from sensormend.io.metadata import write_json
    from sensormend.stream.service_state import ServiceState

    state = out / "state"
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; choose another folder with --out")
    entries = {entry.name for entry in out.iterdir()} if out.exists() else set()
    if not (state / MARK).exists() and entries - {"demo.png"}:
        raise ConfigError(f"{out} is a folder that the demo did not write; choose another with --out")
    try:
        state.mkdir(parents=True, exist_ok=True)
        with locked(state / "lock", f"another demo is running in {out}: wait for it, or choose another --out"):
            for entry in out.iterdir():
                if entry.is_dir() and not entry.is_symlink() and entry != state:
                    shutil.rmtree(entry)
                elif entry != state:
                    entry.unlink()
        shutil.rmtree(state)
        state.mkdir()
        write_json(state / MARK, {"demo": True})
        # The page is served before the first reading, and needs an existing OUT.
        ServiceState(out).begin()
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {error.strerror or error}") from error


@contextmanager
def _stoppable(service: Service) -> Iterator[None]:
    """Let the first Ctrl-C stop the service only; the second one ends the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        service.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
