"""A feed for the tests: readings that arrive in parts, and an OUT that they are watched into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from feeds import START
from sensormend.io.folder import Archive
from sensormend.readings import HOUR, Readings, Rows
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.stream import Event

__all__ = ["Given", "contents", "hourly", "in_order", "joined", "same_rows", "settings", "some_readings", "watched"]


class Given(Source):
    """Arrivals from a list, once; what was read before the mark is not read again."""

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


def in_order(readings: Readings) -> Readings:
    """Return readings as a live network sends them: by time."""
    return readings.taken(np.lexsort((readings.sensor, readings.time)))


def hourly(readings: Readings, hours: int = 1) -> list[Readings]:
    """Cut readings into parts of so many hours."""
    readings = in_order(readings)
    edges = np.flatnonzero(np.diff(readings.time // (hours * HOUR))) + 1
    return [readings.taken(slice(*span)) for span in zip([0, *edges], [*edges, len(readings)], strict=True)]


def joined(parts: Iterable[Readings]) -> Readings:
    """Make one of parts that have the same names."""
    parts = list(parts)
    columns = {name: np.concatenate([getattr(part, name) for part in parts])
               for name in ("sensor", "variable", "time", "value")}  # fmt: skip
    return Readings(parts[0].sensors, parts[0].variables, **columns)


def settings(out: Path, **said: Any) -> Settings:
    """Return settings for an hourly feed; nobody is told."""
    return Settings.of(**{"source": "-", "out": out, "step": "1h", "period": "1d", "metrics": "off", **said})


def watched(
    out: Path, parts: Sequence[Readings], seen: Callable[[Event | None], None] = lambda event: None, **said: Any
) -> Service:
    """Watch some parts to their end."""
    service = Service(settings(out, **said), lambda mark, memory: Given(parts, mark), on_event=seen)
    service.run()
    return service


def contents(out: Path) -> Rows:
    """Return all rows of an OUT."""
    return Archive(out).rows()


def same_rows(one: Rows, other: Rows) -> None:
    """Hold rows to be the same, bit by bit."""
    assert one.sensors == other.sensors
    assert one.variables == other.variables
    for name in ("sensor", "variable", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def some_readings(count: int, *, sensors: int = 3, start: int = START, names: str = "abc") -> Readings:
    """Return readings of sensors that take turns, an hour apart."""
    sensor = np.arange(count) % sensors
    return Readings(tuple(names), ("",), sensor, 0 * sensor, start + np.arange(count) * HOUR, np.arange(count) / 2)
