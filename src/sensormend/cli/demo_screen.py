"""What the terminal shows while `sensormend demo` runs."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from sensormend.pipeline.sentences import counted, readable
from sensormend.readings import Flag
from sensormend.stream.deliveries import Alert
from sensormend.stream.service import Service
from sensormend.stream.sources.city import City
from sensormend.stream.stream import AlertsRaised, Event

__all__ = ["Screen"]

NEWEST = 4
NAMED = 8
"""Alerts, and sensors by name, that are shown."""

REFRESH, LINE = 0.12, 3.0
"""Seconds between two looks of the table, and between two lines where there is no terminal."""

LATELY = 3.0
"""Seconds over which readings are counted."""

NAMES = {"faulty": "fault", "silent": "silence"}


class Screen:
    """A small table on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    page, aside
        Where the table goes, and where the lines go.
    service, city
        What is shown.
    days, seconds
        When it ends; None for the end that somebody else makes.
    address
        Of the page that shows more.
    """

    def __init__(
        self,
        page: Console,
        aside: Console,
        service: Service,
        city: City,
        *,
        days: int | None = None,
        seconds: float | None = None,
        address: str = "",
    ) -> None:
        self._service, self._city, self._days, self._seconds = service, city, days, seconds
        self._aside, self._address = aside, address
        self._live = Live(console=page, auto_refresh=False) if page.is_terminal else None
        self._newest: deque[Alert] = deque(maxlen=NEWEST)
        self._now: dict[str, dict[str, str]] = {state: {} for state in NAMES}
        self._found = dict.fromkeys(NAMES, 0)
        self.faulty: dict[str, Alert] = {}
        # By sensor: the newest alert that it is faulty.
        self._counted: deque[tuple[float, int]] = deque()
        self._began = self._drawn = perf_counter()

    def __enter__(self) -> Self:
        self._began = self._drawn = perf_counter()
        self._counted.append((self._began, 0))
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

    def see(self, event: Event | None) -> None:
        """Take in what the service did, and end it when its time is over."""
        if isinstance(event, AlertsRaised):
            for alert in event.alerts:
                self._note(alert)
        now = perf_counter()
        if self._seconds is not None and now - self._began > self._seconds:
            self._service.stop()
        if now - self._drawn > (LINE if self._live is None else REFRESH):
            self._show()

    def _note(self, alert: Alert) -> None:
        self._newest.append(alert)
        for sensor in alert.sensors:
            for sensors in self._now.values():
                sensors.pop(sensor, None)
            if alert.state == "faulty":
                self.faulty[sensor] = alert
            if alert.state in self._now:
                self._now[alert.state][sensor] = alert.reason
                self._found[alert.state] += alert.before == "well" or alert.state == "silent"

    def _show(self) -> None:
        self._drawn = perf_counter()
        self._counted.append((self._drawn, self._service.status().readings))
        while len(self._counted) > 2 and self._drawn - self._counted[1][0] > LATELY:
            self._counted.popleft()
        if self._live is None:
            self._aside.print(self._line(), highlight=False, soft_wrap=True)
        else:
            self._live.update(self.table(), refresh=True)

    @property
    def _speed(self) -> float:
        """Readings in a second, lately: a city that has come to its pace is slower than it was."""
        (began, before), (now, count) = self._counted[0], self._counted[-1]
        return (count - before) / max(now - began, 1e-9)

    def _day(self) -> str:
        status = self._service.status()
        reached = "-" if status.reached is None else readable(status.reached)[:10]
        return f"{reached} (day {len(self._city.drawn)}{f' of {self._days}' if self._days else ''})"

    def _line(self) -> str:
        found = " and ".join(counted(self._found[state], name) for state, name in NAMES.items())
        now = " and ".join(f"{len(self._now[state])} {state}" for state in NAMES)
        return f"{self._day()}: {self._speed:,.0f} readings/s; {found} found; {now} now"

    def table(self) -> RenderableType:
        """Return what is to be seen now."""
        status, stream = self._service.status(), self._service.stream
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", min_width=10)
        grid.add_column()
        if self._address:
            grid.add_row("page", f"[bold]{escape(self._address)}[/]")
        grid.add_row("city", f"{status.sensors} sensors, {self._city.quantity}")
        grid.add_row("day", self._day())
        grid.add_row("readings", f"{status.readings:,} ({self._speed:,.0f} per second)")
        if stream.mender is not None:
            values = sum(stream.tally.flags.values())
            missing = stream.tally.flags[Flag.MISSING]
            share = stream.tally.filled / max(values, 1)
            grid.add_row("mended", f"{share:.1%} of {values:,} values ({missing / max(values, 1):.1%} never came)")
        grid.add_row("found", ", ".join(counted(self._found[state], name) for state, name in NAMES.items()))
        grid.add_row("faulty now", _named(self._now["faulty"], "bold red"))
        grid.add_row("silent now", _named(self._now["silent"], "bold yellow"))
        for place in range(NEWEST):
            alert = self._newest[-1 - place] if place < len(self._newest) else None
            grid.add_row("" if place else "newest", _told(alert) if alert else "")
        return Panel(grid, title="sensormend, live", title_align="left", border_style="dim")


def _named(sensors: dict[str, str], style: str) -> str:
    """Name some of the sensors, and why."""
    if not sensors:
        return "[dim]none[/]"
    told = [f"[{style}]{escape(name)}[/]{f' {why}' if why else ''}" for name, why in sorted(sensors.items())[:NAMED]]
    more = len(sensors) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _told(alert: Alert) -> str:
    style = {"faulty": "red", "silent": "yellow", "well": "green"}[alert.state]
    return f"[{style}]{escape(alert.sentence)}[/]"
