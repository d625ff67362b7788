"""`sensormend demo` replays a simulated city as a live feed, serves its page, and compares the rows with the truth."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sensormend.cli.bench import wide_console
from sensormend.errors import ConfigError, SensormendError, StorageError
from sensormend.pipeline.options import DASHBOARD

__all__ = ["demo", "has_screen", "served"]

if TYPE_CHECKING:
    from sensormend.cli.clean import Channels
    from sensormend.recovery import Recovery
    from sensormend.simulate.network import Network, StagedFaults
    from sensormend.stream.stream import Event


FIRST_DAYS = 90
"""The number of days that are replayed at once, in a few seconds, so that the model has learned and the page has
content."""

LIVE_DAYS = 270
"""The number of days after these if no end is given: almost two hours at the usual pace."""

PACE = 1.0
"""Simulated hours per second after the first days: a day is final every 24 seconds."""

DEFAULT_SECONDS = 60.0
"""Seconds after which the demo ends without a terminal, where Ctrl-C is not available."""

MARK = "demo.json"
"""The file that marks an OUT as written by the demo, which may replace it."""


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
    """Watch a simulated city live: sensors break and fall silent, and sensormend finds them and cleans their data.

    The first 90 days of the city are replayed at once, the others hour by hour. The service of `watch` cleans them
    from the readings alone and writes to OUT, which a page in your browser shows. Ctrl-C ends the demo, which then
    compares the faults found with those put in.

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
    from sensormend.cli.watch import stop_on_signals
    from sensormend.pipeline.maintenance import EVER, Note, write_note
    from sensormend.pipeline.options import EVERY, Options
    from sensormend.pipeline.sentences import readable
    from sensormend.readings import DAY, HOUR
    from sensormend.simulate.network import ACCEPTED_FROM, StagedFaults, assembled, stream, write_readings
    from sensormend.simulate.scores import DROPPED
    from sensormend.stream.service import Service
    from sensormend.stream.settings import Settings
    from sensormend.stream.sources.replay_source import ReplaySource
    from sensormend.stream.stream import AlertsRaised

    for name, value in (("seconds", seconds), ("pace", pace)):
        if value is not None and not value > 0:
            raise ConfigError(f"--{name} must be above 0, not {value:g}")
    if days is not None and days <= DROPPED:
        raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
    # Not rich's own check: with FORCE_COLOR it takes a pipe for a terminal.
    if days is None and seconds is None and not sys.stdout.isatty():
        seconds = DEFAULT_SECONDS
    live_days = LIVE_DAYS if seconds is None else ceil(seconds * pace / 24) + 1
    staged = StagedFaults(sensors, FIRST_DAYS)
    simulated = islice(stream(sensors, seed=seed, climate=climate), days or FIRST_DAYS + live_days)
    drawn = [staged(number, day) for number, day in enumerate(simulated)]
    network = assembled(drawn, seed=seed, climate=climate)
    _empty(out)
    readings, notes = out / "readings.csv", out / "maintenance.csv"
    write_readings(readings, network)
    first = int(network.times[0, 0].astype("datetime64[us]").astype(np.int64))
    write_note(notes, Note(staged.accepted, first + ACCEPTED_FROM * DAY, EVER, "recalibrated", ""))
    # Compile the engine before the clock starts, which takes a minute the first time.
    NetworkModel().update(np.eye(4))
    console = wide_console()
    options = Options(step=HOUR, period=DAY, maintenance=notes, units={EVERY: network.climate.unit})
    live_from, speed = (None, None) if days else (first + FIRST_DAYS * DAY, pace * 3600)
    started, opened = time.monotonic(), False

    def on_event(event: Event | None) -> None:
        nonlocal opened
        state = service.status()
        if seconds is not None and time.monotonic() - started > seconds:
            service.stop()
        if state.reached is not None:
            now = (
                f"{readable(state.reached)}: {state.readings:,} readings, {state.faulty} faulty, {state.silent} silent"
            )
            progress.update(now)
        if live_from is None or state.reached is None or state.reached < live_from:
            return
        if not opened:
            opened = True
            console.print(f"{FIRST_DAYS} days are loaded; from now on a second is {pace:g} h. Newly found:")
            if address and browser and has_screen():
                threading.Thread(target=_open, args=(address,), daemon=True).start()
        for alert in event.alerts if isinstance(event, AlertsRaised) else ():
            console.print(alert.sentence, soft_wrap=True, markup=False, highlight=False)

    service = Service(
        Settings(f"replay:{readings}", out, options, metrics=None),
        lambda mark, state: ReplaySource(
            str(readings), options, state.folder / "replay", mark=mark, speed=speed, paced_from=live_from
        ),
        on_event=on_event,
    )
    # The demo prints the alerts itself; they are not logged as well.
    logging.getLogger("sensormend").addHandler(logging.NullHandler())
    with stop_on_signals(service.stop), served(out, port, notes) as address:
        duration = f"for {days} days" if days else f"for {seconds:g} seconds" if seconds else "day after day"
        city = f"{sensors} sensors of a simulated city, {network.climate.quantity} {duration}"
        console.print(f"{city}; sensormend is given the readings only.", soft_wrap=True)
        page = f"Look at it in a browser: {address}" if address else "No page: pip install 'sensormend[web]'"
        console.print(page + ("" if days or seconds else " (Ctrl-C ends it)"), soft_wrap=True, markup=False)
        sys.stdout.flush()
        with Console(stderr=True).status("") as progress:
            service.run()
    done = service.status().periods
    if done <= DROPPED:
        console.print(f"It ended after {done} days; what was found is judged from {DROPPED + 1} days on.")
        return
    _show_results(console, assembled(drawn[:done], seed=seed, climate=climate), staged, out)


@contextmanager
def served(out: Path, port: int | None, edit: Path | None = None) -> Iterator[str]:
    """Serve an OUT on a port of this machine, and yield its address; "" where the extra for it is not installed.

    Without `port`, it is the usual one or, if that is taken, a free one. Notes from the page go to the file `edit`.
    """
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        yield ""
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
        yield server.address


def has_screen() -> bool:
    """Return whether the program runs on a terminal with a screen that can show a browser."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_display and sys.stdout.isatty()


def _open(address: str) -> None:
    with suppress(OSError, webbrowser.Error):  # the address is printed as well
        webbrowser.open(address)


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


def _show_results(console: Console, network: Network, staged: StagedFaults, out: Path) -> None:
    """Print the scores, draw the picture, and print the next commands."""
    from dataclasses import replace

    import numpy as np

    from sensormend.cli.clean import explain_command, worst_channels
    from sensormend.io.folder import Archive
    from sensormend.methods.interpolation import as_series, from_series, interpolate
    from sensormend.readings import HOUR
    from sensormend.simulate.scores import DROPPED, recovery_of_rows, score

    recovery = recovery_of_rows(Archive(out).rows(), network)
    # A sensor without readings so far has no rows, and cannot be judged.
    network = replace(network, truth=np.where(np.isnan(recovery.cleaned), np.nan, network.truth))
    case, unit = network.degraded(), network.climate.unit
    scores = score(recovery, case)
    line = from_series(interpolate(as_series(case.readings, 1)), case.readings.shape, 1)
    lined = score(replace(recovery, cleaned=line, lower=None, upper=None), case)
    console.print(
        f"\nPut in on {network.readings.shape[-1]} days: {len(network.faults)} faults and {network.spikes.sum()} "
        f"single wrong readings. The first {DROPPED} days, in which it learns, are not counted.\n",
        soft_wrap=True,
    )
    console.print(_faults_table(network, recovery))
    console.print(
        f"false alarms: {scores.false_alarms:.2%} of the sound sensor-days; F1 {scores.f1:.3f}", highlight=False
    )
    console.print(
        f"root mean square error, {unit}: {scores.missing:.2f} where readings are missing (a straight line: "
        f"{lined.missing:.2f}), {scores.repaired:.2f} where they were repaired ({lined.repaired:.2f})",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    _show_staged(console, network, recovery, staged)
    channels = worst_channels(Archive(out).faults())
    try:
        path = _draw(out, network, channels)
        console.print(f"\nPicture: [bold]{escape(str(path))}[/]", soft_wrap=True)
    except SensormendError as error:
        console.print(f"\nNo picture: {error}", soft_wrap=True, markup=False)
    name = escape(shlex.quote(str(out)))
    commands = [
        f"The cleaned readings: [bold]{name}/data[/]; what to repair: [bold]{name}/faults.csv[/]",
        f"Look again: [bold]sensormend serve {name}[/]; as one file: [bold]sensormend report {name}[/]",
        *([explain_command(name, channels, HOUR)] if channels else []),
        "Your own feed: [bold]sensormend watch mqtt://broker/city/# mended[/]",
    ]
    console.print("\n".join(commands), soft_wrap=True)


def _draw(out: Path, network: Network, channels: Channels) -> Path:
    """Draw the worst sensor over four weeks, with its truth, above the health of all sensors."""
    import numpy as np

    from sensormend.plot import course, health
    from sensormend.plot.style import blank, heading, save, styled
    from sensormend.readings import DAY

    # Of a network without faults any sensor is shown, from its first day on.
    sensor, start = network.sensors[0], int(network.times[0, 0].astype("datetime64[us]").astype(int))
    if channels:
        (sensor, _), faults = channels[0]
        start = max(start, max(faults, key=lambda fault: fault.end - fault.start).start - 10 * DAY)
    truth = network.truth[network.sensors.index(sensor)].T.reshape(-1)
    clock = network.times.T.reshape(-1)
    first = np.datetime64(start, "us")
    shown = (clock >= first) & (clock < first + 28 * DAY)
    with styled():
        figure = blank(11, 7.6)
        heading(figure, f"A simulated network of {len(network.sensors)} sensors, cleaned live from the readings alone")
        above, below = figure.subplots(2, 1, height_ratios=(1.15, 1))
        above.plot(clock[shown], truth[shown], color="#1f2933", lw=0.9, ls=(0, (1, 1.4)), label="truth", zorder=6)
        course(out, sensor, first, first + 28 * DAY, ax=above)
        above.set_ylabel(f"{network.climate.quantity} of {sensor}, {network.climate.unit}")
        health(out, ax=below)
        return save(figure, out / "demo.png")


def _faults_table(network: Network, recovery: Recovery) -> Table:
    """Return a table of the faults put in and found."""
    from sensormend.simulate.scores import faults_by_kind

    table = Table("fault", title="Faults put in and faults found", title_justify="left")
    for name in ("put in", "found", "missed", "sensor-days", "of them found"):
        table.add_column(name, justify="right")
    for row in faults_by_kind(network, recovery):
        days = (str(row.days), f"{row.days_detected / row.days:.0%}") if row.days else ("", "")
        kind = "spike (single reading)" if row.kind == "spike" else row.kind
        table.add_row(kind, str(row.put_in), str(row.detected), str(row.missed), *days)
    return table


def _show_staged(console: Console, network: Network, recovery: Recovery, staged: StagedFaults) -> None:
    """Print the results on the sensors that drift and jump in every demo, and on the one whose level is accepted."""
    import numpy as np

    from sensormend.simulate.network import ACCEPTED_FROM, DRIFTS_FROM, LEAST_SENSORS

    if staged.sensors < LEAST_SENSORS or network.readings.shape[-1] <= ACCEPTED_FROM + 1:
        return
    row = network.sensors.index(staged.drifting)
    truth, read, cleaned = (part[row, :, DRIFTS_FROM:] for part in (network.truth, network.readings, recovery.cleaned))
    before, after = (float(np.sqrt(np.nanmean((values - truth) ** 2))) for values in (read, cleaned))
    flagged = recovery.wrong[network.sensors.index(staged.accepted), :, ACCEPTED_FROM + 1 :].mean()
    console.print(
        f"{staged.drifting} drifts: as it came it is off by {before:.1f}, corrected by {after:.1f}. {staged.accepted} "
        f"was shifted, and maintenance.csv accepts its new level from day {ACCEPTED_FROM} on: {1 - flagged:.0%} of its "
        "readings since are trusted.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
