"""The page of a demo: served while it runs, and opened where there is a screen."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from sensormend.cli.bench import screen
from sensormend.errors import ConfigError, SensormendError, StorageError

__all__ = ["Window", "demo", "has_screen", "served"]

if TYPE_CHECKING:
    from sensormend.web.server import Server


LACKING = "No page to look at: it needs fastapi and uvicorn, pip install 'sensormend[web]'"


class Window:
    """Where the page is, and how it gets before somebody's eyes.

    Parameters
    ----------
    address
        Of the page; empty where there is none.
    said
        One line about it for a person.
    """

    def __init__(self, address: str, said: str) -> None:
        self.address, self.said = address, said
        self._opened = False

    def open(self) -> None:
        """Open the page in the user's browser, once, without waiting for it."""
        if self.address and not self._opened:
            self._opened = True
            threading.Thread(target=_open, args=(self.address,), daemon=True).start()


@contextmanager
def served(out: Path, port: int | None, edit: Path | None = None) -> Iterator[Window]:
    """Serve an OUT on a port of this machine; where nobody chose one and the usual one is taken, on a free one.

    Notes from the page go to the file `edit`, where there is one.
    """
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        yield Window("", LACKING)
        return
    with _bound(out, port, edit) as server:
        server.start()
        yield Window(server.address, f"Look at it in a browser: {server.address}")


def has_screen() -> bool:
    """Say whether somebody sits here, before a screen that can show a browser."""
    somewhere = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return somewhere and sys.stdout.isatty()


def _bound(out: Path, port: int | None, edit: Path | None) -> Server:
    from sensormend.web.server import Server

    if port is not None:
        return Server(out, port=port, edit=edit)
    try:
        return Server(out, edit=edit)
    except ConfigError:
        return Server(out, port=0, edit=edit)


def _open(address: str) -> None:
    try:
        webbrowser.open(address)
    except (OSError, webbrowser.Error):
        # The address is on the screen.
        return


if TYPE_CHECKING:
    from sensormend.cli.demo_faults import Staged
    from sensormend.recovery import Recovery
    from sensormend.simulate.network import Network
    from sensormend.stream.deliveries import Alert
    from sensormend.stream.service import Service
    from sensormend.stream.sources.city import City
    from sensormend.stream.stream import Event


FIRST_DAYS = 90
"""Days that come at once, in a few seconds: the model has learned, and there is something to see."""

PACE = 1.0
"""Hours of the city's time in a second after that: a day is final every 24 seconds."""

UNWATCHED = 60.0
"""Seconds after which it ends where nobody can press Ctrl-C."""

MARK = "demo.json"
"""In the state folder of an OUT that the demo wrote, and may replace."""


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
    """Watch a simulated city live: sensors break, lie and fall silent, and sensormend finds them and mends their data.

    The city's first 90 days come at once, the others hour by hour; the service that `watch` runs mends them, told
    nothing, and writes into OUT, which a page in your browser shows. Ctrl-C ends it; then what was found is held
    against what was put in.

    Parameters
    ----------
    seconds
        Go on for so many seconds; by default until Ctrl-C, or for a minute where there is no terminal.
    days
        Go on for so many days of the city's time, all of them as fast as it goes.
    sensors
        How many sensors it has.
    seed
        Another seed is another city.
    climate
        What they measure: city (temperature), dense, skewed (PM2.5), zeros, pressure or sparse.
    pace
        Hours of the city's time in a second.
    port
        Where the page is; by default 8464, or a free one.
    browser
        Open the page in a browser, where there is a screen.
    out
        The folder for rows, alerts and the picture; that of an earlier demo is replaced.
    """
    from sensormend.cli.demo_faults import Staged
    from sensormend.cli.demo_screen import Screen
    from sensormend.io.options import Options
    from sensormend.readings import DAY, HOUR
    from sensormend.simulate.scores import DROPPED
    from sensormend.stream.service import Service
    from sensormend.stream.settings import Settings
    from sensormend.stream.sources.city import City

    if seconds is not None and not seconds > 0:
        raise ConfigError(f"--seconds must be above 0, not {seconds:g}")
    # Not what rich takes for one: with FORCE_COLOR a pipe is a terminal too.
    if days is None and seconds is None and not sys.stdout.isatty():
        seconds = UNWATCHED
    if days is not None and days <= DROPPED:
        raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
    staged = Staged(sensors, FIRST_DAYS)
    city = City(
        sensors, days=days, seed=seed, climate=climate, pace=None if days else pace, at_once=FIRST_DAYS, change=staged
    )
    _empty(out)
    notes = _accepting(out, staged)
    _compile_engine()
    page = screen()
    settings = Settings("a simulated city", out, Options(step=HOUR, period=DAY, maintenance=notes), metrics=None)

    def look_on(event: Event | None) -> None:
        shown.see(event)
        if city.paced and browser and has_screen():
            window.open()

    service = Service(settings, lambda mark, memory: city, on_event=look_on)
    # Alerts are on the screen; nobody wants them twice.
    logging.getLogger("sensormend").addHandler(logging.NullHandler())
    with _stoppable(service), served(out, port, notes) as window:
        lasting = f"for {days} days" if days else f"for {seconds:g} seconds" if seconds else "day after day"
        told = f"{sensors} sensors of a simulated city, {city.quantity} {lasting}"
        page.print(f"{told}; nobody tells sensormend what breaks.", soft_wrap=True)
        page.print(window.said + ("" if days or seconds else " (Ctrl-C ends it)"), soft_wrap=True, markup=False)
        sys.stdout.flush()
        aside = Console(stderr=True)
        with Screen(page, aside, service, city, days=days, seconds=seconds, address=window.address) as shown:
            service.run()
    _tell(page, service, city, out, seed, climate, staged, shown.faulty.get(staged.jumping))


def _accepting(out: Path, staged: Staged) -> Path:
    """Write the file in which people say what they know: that the new level of a sensor is right."""
    from sensormend.cli.demo_faults import ACCEPTED_FROM
    from sensormend.pipeline.maintenance import EVER, Note, write_note
    from sensormend.readings import DAY
    from sensormend.stream.sources.city import FIRST

    path = out / "maintenance.csv"
    write_note(path, Note(staged.accepted, FIRST + ACCEPTED_FROM * DAY, EVER, "recalibrated", ""))
    return path


def _compile_engine() -> None:
    """Let the engine be compiled, which takes a minute the first time, before the clock starts."""
    import numpy as np

    from sensormend import AutoOLRTR

    AutoOLRTR().update(np.eye(4))


def _tell(
    page: Console, service: Service, city: City, out: Path, seed: int, climate: str, staged: Staged, alert: Alert | None
) -> None:
    """Say how good it was, and what to type next."""
    import numpy as np

    from sensormend.cli import demo_results as show
    from sensormend.io.folder import Archive
    from sensormend.simulate.network import assembled
    from sensormend.simulate.scores import DROPPED, score

    done = min(service.status().periods, len(city.drawn))
    if done <= DROPPED:
        page.print(f"It ended after {done} days; what was found is judged from {DROPPED + 1} days on.")
        return
    network = assembled(city.drawn[:done], seed=seed, climate=climate)
    recovery = show.as_recovery(Archive(out).rows(), network)
    # A sensor that was not heard yet has no rows, which nobody can judge.
    network = replace(network, truth=np.where(np.isnan(recovery.cleaned), np.nan, network.truth))
    page.print(
        f"\nPut in on {done} days: {len(network.faults)} faults and {network.spikes.sum()} single wrong readings; "
        f"{np.isnan(network.readings).mean():.1%} of the readings were lost. "
        f"The tables are without the first {DROPPED} days, in which it learns."
    )
    scores = score(recovery, network.degraded())
    page.print(show.faults_table(show.faults_found(network, recovery), scores))
    page.print()
    page.print(show.errors_table(network, recovery, scores))
    _tell_staged(page, network, recovery, staged, alert, out)
    _draw(page, network, recovery, out)
    _say_next(page, out)


def _tell_staged(
    page: Console, network: Network, recovery: Recovery, staged: Staged, alert: Alert | None, out: Path
) -> None:
    """Tell what became of the three faults that every demo has."""
    import numpy as np

    from sensormend.cli.demo_faults import ACCEPTED_FROM, DRIFTS_FROM, LEAST
    from sensormend.io.folder import Archive
    from sensormend.pipeline.sentences import how_long
    from sensormend.readings import DAY
    from sensormend.stream.sources.city import FIRST

    days = network.readings.shape[-1]
    if staged.sensors < LEAST or days <= ACCEPTED_FROM + 1:
        return
    faults = Archive(out).faults()
    page.print("\nThree of them, closely:")
    if alert is not None:
        took = how_long(alert.at - alert.since)
        page.print(f"  {alert.sentence}; told {took} after it began.", soft_wrap=True, markup=False, highlight=False)
    mine = [one for one in faults if one.sensor == staged.drifting and one.reason in ("drifting", "offset")]
    if mine and mine[-1].start >= FIRST + DRIFTS_FROM * DAY:
        page.print(f"  {mine[-1].sentence}", soft_wrap=True, markup=False, highlight=False)
    row, since = network.sensors.index(staged.drifting), slice(DRIFTS_FROM, None)
    truth, read, cleaned = (part[row, :, since] for part in (network.truth, network.readings, recovery.cleaned))
    off = [float(np.sqrt(np.nanmean((values - truth) ** 2))) for values in (read, cleaned)]
    page.print(
        f"  As it came, {staged.drifting} is off by {off[0]:.1f} since it began to drift, corrected by {off[1]:.1f}.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    row = network.sensors.index(staged.accepted)
    flagged = recovery.wrong[row, :, ACCEPTED_FROM + 1 :].mean()
    page.print(
        f"  {staged.accepted} was shifted, and maintenance.csv accepts its new level from day {ACCEPTED_FROM} on: "
        f"{1 - flagged:.0%} of its readings since are trusted.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _draw(page: Console, network: Network, recovery: object, out: Path) -> None:
    from sensormend.plot.drawing import picture
    from sensormend.recovery import Recovery

    assert isinstance(recovery, Recovery)
    try:
        path = picture(
            out / "demo.png",
            readings=network.readings,
            recovery=recovery,
            times=network.times,
            sensors=network.sensors,
            truth=network.truth,
            quantity=network.climate.quantity,
            unit=network.climate.unit,
            title=f"A simulated network of {len(network.sensors)} sensors, mended live, told nothing",
        )
    except SensormendError as error:
        page.print(f"\nNo picture: {error}", soft_wrap=True, markup=False)
        return
    page.print(f"\nPicture: [bold]{escape(str(path))}[/]", soft_wrap=True)


def _say_next(page: Console, out: Path) -> None:
    from sensormend.cli.summary import worst
    from sensormend.io.folder import Archive
    from sensormend.io.metadata import iso
    from sensormend.readings import HOUR

    name = escape(shlex.quote(str(out)))
    page.print(f"The mended readings: [bold]{name}/data[/]; what to repair: [bold]{name}/faults.csv[/]", soft_wrap=True)
    page.print(
        f"Look again: [bold]sensormend serve {name}[/]; as one file: [bold]sensormend report {name}[/]", soft_wrap=True
    )
    found = worst(Archive(out).faults())
    if found:
        (sensor, _), faults = found[0]
        longest = max(faults, key=lambda fault: fault.end - fault.start)
        middle = iso((longest.start + longest.end) // 2 // HOUR * HOUR)[:16]
        page.print(
            f"Why? Type: [bold]sensormend explain {name} {escape(shlex.quote(sensor))} {middle}[/]", soft_wrap=True
        )
    page.print("Your own feed: [bold]sensormend watch mqtt://broker/city/# mended[/]", soft_wrap=True)


def _empty(out: Path) -> None:
    """Take away what an earlier demo left; refuse to touch anything else."""
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
        # The page is there before the first reading: it must know that this will be an OUT.
        ServiceState(out).begin()
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {error.strerror or error}") from error


@contextmanager
def _stoppable(service: Service) -> Iterator[None]:
    """Let Ctrl-C end the service, not the program; the second one ends both."""
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
