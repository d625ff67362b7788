"""`Screen` shows a running `sensormend demo` on the terminal, and `show_results` its scores at the end."""

from __future__ import annotations

import shlex
from collections import deque
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from sensormend.cli.clean import explain_command, worst_channels
from sensormend.errors import SensormendError
from sensormend.io.folder import Archive
from sensormend.pipeline.sentences import counted, how_long, readable
from sensormend.plot.drawing import picture
from sensormend.readings import DAY, HOUR, Flag
from sensormend.recovery import BoolArray, Recovery
from sensormend.simulate.degrade import Degraded
from sensormend.simulate.network import Network, assembled
from sensormend.simulate.scores import (
    DROPPED,
    KindCounts,
    Scores,
    faults_by_kind,
    recovery_of_rows,
    score,
    straight_line,
)
from sensormend.simulate.staged_faults import ACCEPTED_FROM, DRIFTS_FROM, LEAST_SENSORS, StagedFaults
from sensormend.stream.deliveries import Alert
from sensormend.stream.service import Service
from sensormend.stream.sources.city import FIRST, City
from sensormend.stream.stream import AlertsRaised, Event

__all__ = ["Screen", "show_results"]

MOST_ALERTS, MOST_SENSORS = 4, 8
"""The numbers of alerts and of named sensors that are shown."""

REFRESH, LINE = 0.12, 3.0
"""Seconds between two updates of the table, and between two lines where there is no terminal."""

RATE_SPAN = 3.0
"""Seconds over which the rate of readings is measured."""

STATES = {"faulty": "fault", "silent": "silence"}
"""The states that are shown, with the noun for each."""


class Screen:
    """A small table on a terminal, elsewhere a line from time to time; `days` and `seconds` are the duration.

    Attributes
    ----------
    faulty
        The newest alert that a sensor is faulty, by sensor.
    """

    def __init__(
        self,
        console: Console,
        lines: Console,
        service: Service,
        city: City,
        *,
        days: int | None = None,
        seconds: float | None = None,
        address: str = "",
    ) -> None:
        self._service, self._city, self._days, self._seconds = service, city, days, seconds
        self._lines, self._address = lines, address
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._newest: deque[Alert] = deque(maxlen=MOST_ALERTS)
        self._now: dict[str, dict[str, str]] = {state: {} for state in STATES}
        self._detected = dict.fromkeys(STATES, 0)
        self.faulty: dict[str, Alert] = {}
        self._counts: deque[tuple[float, int]] = deque()
        self._start = self._drawn = perf_counter()

    def __enter__(self) -> Self:
        self._start = self._drawn = perf_counter()
        self._counts.append((self._start, 0))
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._show()
        if self._live is not None:
            self._live.stop()

    def update(self, event: Event | None) -> None:
        """Update the screen with an event of the service, and stop the service when its time is over."""
        if isinstance(event, AlertsRaised):
            for alert in event.alerts:
                self._add(alert)
        now = perf_counter()
        if self._seconds is not None and now - self._start > self._seconds:
            self._service.stop()
        if now - self._drawn > (LINE if self._live is None else REFRESH):
            self._show()

    def _add(self, alert: Alert) -> None:
        self._newest.append(alert)
        for sensor in alert.sensors:
            for sensors in self._now.values():
                sensors.pop(sensor, None)
            if alert.state == "faulty":
                self.faulty[sensor] = alert
            if alert.state in self._now:
                self._now[alert.state][sensor] = alert.reason
                self._detected[alert.state] += alert.before == "well" or alert.state == "silent"

    def _show(self) -> None:
        self._drawn = perf_counter()
        self._counts.append((self._drawn, self._service.status().readings))
        while len(self._counts) > 2 and self._drawn - self._counts[1][0] > RATE_SPAN:
            self._counts.popleft()
        if self._live is None:
            self._lines.print(self._line(), highlight=False, soft_wrap=True)
        else:
            self._live.update(self.table(), refresh=True)

    @property
    def _speed(self) -> float:
        """Return the readings per second of the last seconds: the first days are replayed faster than the others."""
        (start, first), (end, last) = self._counts[0], self._counts[-1]
        return (last - first) / max(end - start, 1e-9)

    def _day(self) -> str:
        status = self._service.status()
        reached = "-" if status.reached is None else readable(status.reached)[:10]
        return f"{reached} (day {len(self._city.drawn)}{f' of {self._days}' if self._days else ''})"

    def _line(self) -> str:
        detected = " and ".join(counted(self._detected[state], name) for state, name in STATES.items())
        now = " and ".join(f"{len(self._now[state])} {state}" for state in STATES)
        return f"{self._day()}: {self._speed:,.0f} readings/s; alerts of {detected}; {now} now"

    def table(self) -> RenderableType:
        """Return the present table."""
        status, stream = self._service.status(), self._service.stream
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", min_width=10)
        grid.add_column()
        if self._address:
            grid.add_row("page", f"[bold]{escape(self._address)}[/]")
        grid.add_row("city", f"{status.sensors} sensors, {self._city.quantity}")
        grid.add_row("day", self._day())
        grid.add_row("readings", f"{status.readings:,} ({self._speed:,.0f} per second)")
        if stream.cleaner is not None:
            values = sum(stream.tally.flags.values())
            filled, missing = (n / max(values, 1) for n in (stream.tally.filled, stream.tally.flags[Flag.MISSING]))
            grid.add_row("mended", f"{filled:.1%} of {values:,} values ({missing:.1%} never came)")
        grid.add_row("alerts of", ", ".join(counted(self._detected[state], name) for state, name in STATES.items()))
        grid.add_row("faulty now", _listed(self._now["faulty"], "bold red"))
        grid.add_row("silent now", _listed(self._now["silent"], "bold yellow"))
        lines = [*map(_alert_line, reversed(self._newest)), *[""] * MOST_ALERTS][:MOST_ALERTS]
        for place, line in enumerate(lines):
            grid.add_row("" if place else "newest", line)
        return Panel(grid, title="sensormend, live", title_align="left", border_style="dim")


def _listed(sensors: dict[str, str], style: str) -> str:
    """Return the names of some of the sensors with their reasons."""
    if not sensors:
        return "[dim]none[/]"
    first = sorted(sensors.items())[:MOST_SENSORS]
    names = [f"[{style}]{escape(name)}[/]{f' {reason}' if reason else ''}" for name, reason in first]
    more = len(sensors) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _alert_line(alert: Alert) -> str:
    style = {"faulty": "red", "silent": "yellow", "well": "green"}[alert.state]
    return f"[{style}]{escape(alert.sentence)}[/]"


def show_results(
    console: Console,
    service: Service,
    city: City,
    out: Path,
    seed: int,
    climate: str,
    staged: StagedFaults,
    alert: Alert | None,
) -> None:
    """Print the scores, and the next commands."""
    done = min(service.status().periods, len(city.drawn))
    if done <= DROPPED:
        console.print(f"It ended after {done} days; what was found is judged from {DROPPED + 1} days on.")
        return
    network = assembled(city.drawn[:done], seed=seed, climate=climate)
    recovery = recovery_of_rows(Archive(out).rows(), network)
    # A sensor without readings so far has no rows, and cannot be judged.
    network = replace(network, truth=np.where(np.isnan(recovery.cleaned), np.nan, network.truth))
    console.print(
        f"\nPut in on {done} days: {len(network.faults)} faults and {network.spikes.sum()} single wrong readings; "
        f"{np.isnan(network.readings).mean():.1%} of the readings were lost. "
        f"The tables are without the first {DROPPED} days, in which it learns."
    )
    scores = score(recovery, network.degraded())
    console.print(_faults_table(faults_by_kind(network, recovery), scores))
    console.print()
    console.print(_errors_table(network, recovery, scores))
    _show_staged(console, network, recovery, staged, alert, out)
    _draw(console, network, recovery, out)
    _show_commands(console, out)


def _show_staged(
    console: Console, network: Network, recovery: Recovery, staged: StagedFaults, alert: Alert | None, out: Path
) -> None:
    """Print the results on the three faults that every demo has."""
    days = network.readings.shape[-1]
    if staged.sensors < LEAST_SENSORS or days <= ACCEPTED_FROM + 1:
        return
    faults = Archive(out).faults()
    console.print("\nThree of them, closely:")
    if alert is not None:
        delay = f"alert {how_long(alert.at - alert.since)} after it began"
        console.print(f"  {alert.sentence}; {delay}.", soft_wrap=True, markup=False, highlight=False)
    drifts = [fault for fault in faults if fault.sensor == staged.drifting and fault.reason in ("drift", "offset")]
    if drifts and drifts[-1].start >= FIRST + DRIFTS_FROM * DAY:
        console.print(f"  {drifts[-1].sentence}", soft_wrap=True, markup=False, highlight=False)
    row, since = network.sensors.index(staged.drifting), slice(DRIFTS_FROM, None)
    truth, read, cleaned = (part[row, :, since] for part in (network.truth, network.readings, recovery.cleaned))
    before, after = (float(np.sqrt(np.nanmean((values - truth) ** 2))) for values in (read, cleaned))
    console.print(
        f"  As it came, {staged.drifting} is off by {before:.1f} since it began to drift, corrected by {after:.1f}.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    row = network.sensors.index(staged.accepted)
    flagged = recovery.wrong[row, :, ACCEPTED_FROM + 1 :].mean()
    console.print(
        f"  {staged.accepted} was shifted, and maintenance.csv accepts its new level from day {ACCEPTED_FROM} on: "
        f"{1 - flagged:.0%} of its readings since are trusted.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _draw(console: Console, network: Network, recovery: Recovery, out: Path) -> None:
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
            title=f"A simulated network of {len(network.sensors)} sensors, mended live from the readings alone",
        )
    except SensormendError as error:
        console.print(f"\nNo picture: {error}", soft_wrap=True, markup=False)
        return
    console.print(f"\nPicture: [bold]{escape(str(path))}[/]", soft_wrap=True)


def _show_commands(console: Console, out: Path) -> None:
    name = escape(shlex.quote(str(out)))
    console.print(
        f"The mended readings: [bold]{name}/data[/]; what to repair: [bold]{name}/faults.csv[/]", soft_wrap=True
    )
    console.print(
        f"Look again: [bold]sensormend serve {name}[/]; as one file: [bold]sensormend report {name}[/]", soft_wrap=True
    )
    channels = worst_channels(Archive(out).faults())
    if channels:
        console.print(explain_command(name, channels, HOUR), soft_wrap=True)
    console.print("Your own feed: [bold]sensormend watch mqtt://broker/city/# mended[/]", soft_wrap=True)


def _faults_table(rows: list[KindCounts], scores: Scores) -> Table:
    """Return a table of the faults put in and found."""
    table = Table(title="Faults put in and faults found", title_justify="left")
    table.add_column("fault")
    for name in ("put in", "found", "missed", "sensor-days", "of them found"):
        table.add_column(name, justify="right")
    for row in rows:
        share = f"{row.days_detected / row.days:.0%}" if row.days else "-"
        missed = f"[bold]{row.missed}[/]" if row.missed else "0"
        single = row.kind == "spike"
        table.add_row(
            "spike (single reading)" if single else row.kind,
            str(row.put_in),
            str(row.detected),
            missed,
            "" if single else str(row.days),
            "" if single else share,
        )
    total = [sum(getattr(row, name) for row in rows) for name in ("put_in", "detected", "missed")]
    table.add_section()
    days, detected = (sum(getattr(row, name) for row in rows[:-1]) for name in ("days", "days_detected"))
    table.add_row("all", *map(str, total), str(days), f"{detected / days:.0%}" if days else "-")
    table.caption = (
        f"false alarms: {scores.false_alarms:.2%} of the sound sensor-days; F1 {scores.f1:.3f}. A fault lasts from "
        "three hours to three weeks; a sensor-day counts from its first faulty hour. "
        "A fault of which no reading came is not counted."
    )
    table.caption_justify = "left"
    return table


def _errors_table(network: Network, recovery: Recovery, scores: Scores) -> Table:
    """Return a table of the errors and of those of linear interpolation, without and with the true faults given."""
    unit, case = network.climate.unit, network.degraded()
    table = Table(title=f"Root mean square error, {unit}", title_justify="left")
    table.add_column("")
    for name in ("missing", "repaired", "trusted", "inside the 90 % interval"):
        table.add_column(name, justify="right")
    nothing = np.zeros_like(case.faulty)
    rows = [
        ("sensormend", scores),
        ("a straight line", _line_scores(recovery, case, nothing)),
        ("a straight line, given every fault", _line_scores(recovery, case, case.faulty)),
    ]
    for name, row in rows:
        inside = f"{row.coverage_missing:.0%}, {row.coverage_repaired:.0%}" if row is scores else "-"
        table.add_row(name, f"{row.missing:.2f}", f"{row.repaired:.2f}", f"{row.trusted:.2f}", inside)
    table.caption = (
        "missing: readings that never came; repaired: sensor-days that were found faulty; trusted: readings "
        f"of sound sensor-days, single wrong ones among them. Without the first {DROPPED} days."
    )
    table.caption_justify = "left"
    return table


def _line_scores(recovery: Recovery, case: Degraded, excluded: BoolArray) -> Scores:
    """Score linear interpolation at the same cells as the recovery."""
    return score(replace(recovery, cleaned=straight_line(case.readings, excluded), lower=None, upper=None), case)
