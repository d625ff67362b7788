"""`ListSource` yields readings from a list; `run_service` watches them into an OUT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.io.folder import Archive
from sensormend.readings import HOUR, Readings, Rows
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.stream import Event
from simulated_city import START

__all__ = [
    "ListSource", "assert_same_rows", "by_time", "concatenated", "hourly", "read_rows", "readings_in_turn",
    "run_service", "settings",
]  # fmt: skip


class ListSource(Source):
    """Arrivals from a list, once, from after the mark; `stop` is called with the number of each."""

    def __init__(
        self,
        parts: Sequence[Readings],
        mark: Any = None,
        *,
        live: bool = False,
        stop: Callable[[int], None] | None = None,
    ) -> None:
        self.live = live
        self._parts, self._next, self._stop = parts, 0 if mark is None else mark + 1, stop
        self.acknowledged: list[int] = []

    def read(self, wait: float) -> Arrived | None:
        if self._next >= len(self._parts):
            return None
        number, self._next = self._next, self._next + 1
        if self._stop is not None:
            self._stop(number)
        return Arrived(self._parts[number], clock(), mark=number, acknowledge=lambda: self.acknowledged.append(number))


def by_time(readings: Readings) -> Readings:
    """Return readings as a live network sends them: by time."""
    return readings.taken(np.lexsort((readings.sensor, readings.time)))


def hourly(readings: Readings, hours: int = 1) -> list[Readings]:
    """Cut readings into parts of so many hours."""
    readings = by_time(readings)
    edges = np.flatnonzero(np.diff(readings.time // (hours * HOUR))) + 1
    return [readings.taken(slice(*span)) for span in zip([0, *edges], [*edges, len(readings)], strict=True)]


def concatenated(parts: Iterable[Readings]) -> Readings:
    """Return one of parts that have the same names."""
    parts = list(parts)
    columns = {name: np.concatenate([getattr(part, name) for part in parts])
               for name in ("sensor", "variable", "time", "value")}  # fmt: skip
    return Readings(parts[0].sensors, parts[0].variables, **columns)


def settings(out: Path, **options: Any) -> Settings:
    """Return settings for an hourly feed without sinks."""
    return Settings.of(**{"source": "-", "out": out, "step": "1h", "period": "1d", "metrics": "off", **options})


def run_service(
    out: Path, parts: Sequence[Readings], on_event: Callable[[Event | None], None] = lambda event: None, **options: Any
) -> Service:
    """Watch parts to their end."""
    service = Service(settings(out, **options), lambda mark, memory: ListSource(parts, mark), on_event=on_event)
    service.run()
    return service


def read_rows(out: Path) -> Rows:
    """Return all rows of an OUT."""
    return Archive(out).rows()


def assert_same_rows(one: Rows, other: Rows) -> None:
    """Assert that rows are the same, bit by bit."""
    assert one.sensors == other.sensors
    assert one.variables == other.variables
    for name in ("sensor", "variable", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def readings_in_turn(count: int, *, sensors: int = 3, start: int = START, names: str = "abc") -> Readings:
    """Return readings of sensors that take turns, an hour apart."""
    sensor = np.arange(count) % sensors
    return Readings(tuple(names), ("",), sensor, 0 * sensor, start + np.arange(count) * HOUR, np.arange(count) / 2)
