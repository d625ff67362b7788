"""Readings of periods that are not over, and how far the network's time has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.mender import NEVER
from sensormend.readings import IntArray, Readings

__all__ = ["Names", "Watermark", "Window"]


class Names:
    """The names of sensors or variables, each with a number that it keeps."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._code_of = {name: code for code, name in enumerate(names)}
        self._known: Sequence[str] = ()
        self._codes = np.empty(0, dtype=np.int64)
        self.all: tuple[str, ...] = tuple(names)

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, name: object) -> bool:
        return name in self._code_of

    def lacking(self, names: Sequence[str], used: IntArray) -> list[int]:
        """Return which of `names` are used and not ours yet, as they count in `names`, in the order of their use."""
        self._look_up(names)
        return list(dict.fromkeys(used[self._codes[used] < 0].tolist()))

    def codes(self, names: Sequence[str], used: IntArray) -> NDArray[np.int64]:
        """Return our number for every one of `used`, which count in `names`; names that are new get theirs."""
        self._look_up(names)
        codes = self._codes[used]
        if codes.size and codes.min() < 0:
            new = [names[code] for code in dict.fromkeys(used[codes < 0].tolist())]
            for name in dict.fromkeys(new):
                self._code_of[name] = len(self._code_of)
            # Never changed in place: whoever keeps the names sees by it that there are others.
            self.all = tuple(self._code_of)
            self._codes = np.array([self._code_of.get(name, -1) for name in names], dtype=np.int64)
            codes = self._codes[used]
        return codes

    def _look_up(self, names: Sequence[str]) -> None:
        if names is not self._known:
            self._known = names
            self._codes = np.array([self._code_of.get(name, -1) for name in names], dtype=np.int64)


class Window:
    """Readings on the pile, in the order in which they came, until their period is over."""

    COLUMNS = (("sensor", np.int64), ("variable", np.int64), ("time", np.int64), ("value", np.float64))

    def __init__(self) -> None:
        self._size = 0
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in self.COLUMNS}
        self._of_sensor = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._size

    def count(self, sensors: int) -> NDArray[np.int64]:
        """Return how many readings each of so many sensors has on the pile."""
        more = sensors - self._of_sensor.size
        if more > 0:
            self._of_sensor = np.concatenate([self._of_sensor, np.zeros(more, dtype=np.int64)])
        return self._of_sensor

    def column(self, name: str) -> NDArray[Any]:
        """Return one column of the pile."""
        return self._columns[name][: self._size]

    def add(self, readings: Readings) -> None:
        """Put readings on the pile."""
        size = self._size + len(readings)
        for name, kind in self.COLUMNS:
            old = self._columns[name]
            if old.size < size:
                room = np.empty(max(2 * old.size, size, 1024), dtype=kind)
                room[: self._size] = old[: self._size]
                self._columns[name] = old = room
            old[self._size : size] = getattr(readings, name)
        self._size = size
        if len(readings):
            np.add.at(self.count(int(readings.sensor.max()) + 1), readings.sensor, 1)

    def readings(self, chosen: NDArray[np.bool_] | slice, sensors: Sequence[str], variables: Sequence[str]) -> Readings:
        """Return some of the pile."""
        taken = {name: self.column(name)[chosen] for name, _ in self.COLUMNS}
        return Readings(sensors, variables, **taken)

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Leave these on the pile and no others."""
        left = {name: self.column(name)[chosen] for name, _ in self.COLUMNS}
        self._size, self._columns = int(chosen.sum()), left
        self._of_sensor = np.bincount(self.column("sensor"))

    def renumber(self, variable: NDArray[np.int64]) -> None:
        """Give every variable another number, by its present one."""
        self._columns["variable"] = variable[self.column("variable")]
        self._columns = {name: self.column(name) for name, _ in self.COLUMNS}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the pile as a state file holds it."""
        return {f"window_{name}": self.column(name) for name, _ in self.COLUMNS}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._columns = {name: arrays[f"window_{name}"] for name, _ in self.COLUMNS}
        self._size = self._columns["time"].size
        self._of_sensor = np.bincount(self.column("sensor"))


class Watermark:
    """How far the network's time has come, by its readings; one wrong clock does not move it.

    It is the newest time that a quarter of the sensors, and at least two, have reached. Sensors that are ahead of all
    others by two periods are believed when nobody else has said a word since: the others are dead, not behind.

    Parameters
    ----------
    leap
        A period: how far ahead is too far to be the same day.
    gone_after
        Sensors that are so far behind do not count.

    Attributes
    ----------
    time, readings
        How far it has come, and how far by readings alone; microseconds since 1970, UTC.
    fixed
        It does not go back: something was closed by it. Before that a first sensor whose clock is ahead is outvoted.
    """

    def __init__(self, leap: int, gone_after: int) -> None:
        self.leap, self.gone_after = leap, gone_after
        self.time, self.readings, self.fixed = NEVER, NEVER, False
        self._newest = np.empty(0, dtype=np.int64)
        self._turn = np.empty(0, dtype=np.int64)
        self._turns = 0
        self._ahead_since: int | None = None

    @property
    def newest(self) -> int:
        """The newest time of all, believed or not."""
        return int(self._newest.max()) if self._newest.size else NEVER

    def see(
        self, sensor: NDArray[np.int64], time: NDArray[np.int64], counting: NDArray[np.bool_] | None = None
    ) -> None:
        """Take note of readings.

        Parameters
        ----------
        sensor, time
            Whose they are, and of when.
        counting
            Of which sensors a quarter has to be there; None for all of them.
        """
        if not sensor.size:
            return
        more = int(sensor.max()) + 1 - self._newest.size
        if more > 0:
            self._newest = np.concatenate([self._newest, np.full(more, NEVER)])
            self._turn = np.concatenate([self._turn, np.full(more, -1)])
        self._turns += 1
        np.maximum.at(self._newest, sensor, time)
        self._turn[sensor] = self._turns
        reached = self._reached(counting)
        self.readings = max(self.readings, reached) if self.fixed else reached
        self.time = max(self.time, reached) if self.fixed else reached

    def move(self, time: int) -> None:
        """Say that the time has come without a reading: the clock says so."""
        self.time = max(self.time, time)

    def _reached(self, counting: NDArray[np.bool_] | None) -> int:
        top = int(self._newest.max())
        newest = self._newest if counting is None else self._newest[: counting.size][counting[: self._newest.size]]
        newest = newest[newest > max(self.time - self.gone_after, NEVER)]
        if not newest.size:
            return top
        needed = min(newest.size, max(2, -(-newest.size // 4)))
        reached = int(np.partition(newest, newest.size - needed)[newest.size - needed])
        if top - reached <= self.leap:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = self._turns
        elif top - reached > 2 * self.leap and not (self._turn[self._newest <= reached] > self._ahead_since).any():
            return top
        return reached

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it as a state file holds it."""
        told = {
            "time": self.time,
            "readings": self.readings,
            "fixed": self.fixed,
            "turns": self._turns,
            "ahead_since": self._ahead_since,
        }
        return told, {"newest": self._newest, "turn": self._turn}

    def restore(self, told: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.time, self.readings = told["time"], told["readings"]
        self.fixed, self._turns = told["fixed"], told["turns"]
        self._ahead_since = told["ahead_since"]
        self._newest, self._turn = arrays["newest"], arrays["turn"]
