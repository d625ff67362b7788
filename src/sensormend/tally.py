"""What is told at the end: every fault with its span, and every sensor with its figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.flags import REASONS, Flag
from sensormend.grid import Grid
from sensormend.io.metadata import FaultInterval, SensorSummary
from sensormend.mending import Mended
from sensormend.places import Places
from sensormend.sentences import gather, sentence

__all__ = ["Fault", "Tally"]

SILENT = REASONS.index("silent")
ONCE = 1 << 30


@dataclass
class Fault:
    """One fault of one channel, from its first wrong slot to the end of its last.

    Attributes
    ----------
    start, end
        Microseconds since 1970, UTC.
    slots
        How many slots each reason had.
    score
        The highest score of its fibers.
    count, value, distance, square, farthest
        Its readings: how many, their sum, the sum of their distances from what was expected, of the squares of these,
        and the largest one.
    """

    sensor: str
    variable: str
    start: int
    end: int
    slots: dict[int, int] = field(default_factory=dict)
    score: float = 0.0
    count: int = 0
    value: float = 0.0
    distance: float = 0.0
    square: float = 0.0
    farthest: float = 0.0

    @property
    def reason(self) -> str:
        """The reason that most of its slots have."""
        return REASONS[max(self.slots, key=lambda code: (self.slots[code], -code))]

    def takes(self, later: Fault) -> bool:
        """Say whether a later part goes on where this one stopped, and take it in if it does."""
        if later.start != self.end or (SILENT in self.slots) != (SILENT in later.slots):
            return False
        self.end = later.end
        for code, count in later.slots.items():
            self.slots[code] = self.slots.get(code, 0) + count
        self.score = max(self.score, later.score)
        gather(self, later)
        return True


COUNTS = ("slots", "missing", "faulty", "good", "readings", "square")


class Tally:
    """Counts, period by period."""

    def __init__(self, grid: Grid, variables: Sequence[str]) -> None:
        self.grid, self.variables = grid, tuple(variables)
        self.sensors: Sequence[str] = ()
        self.faults: list[Fault] = []
        self._open: dict[tuple[int, int], Fault] = {}
        self._counts = np.zeros((len(COUNTS), 0, len(self.variables)))
        self._span = np.zeros((2, 0, len(self.variables)), dtype=np.int64)
        self.flags = dict.fromkeys(map(int, Flag), 0)
        self.filled = 0

    def add(self, mended: Mended) -> None:
        """Take in a period."""
        rows, slots = mended.rows, self.grid.slots
        if not len(rows):
            return
        self.sensors = rows.sensors
        self._grow(len(rows.sensors))
        sensor, variable = rows.sensor[::slots], rows.variable[::slots]
        flag, n, origin = (array.reshape(-1, slots) for array in (rows.flag, rows.n, rows.origin))
        for code, count in enumerate(np.bincount(rows.flag, minlength=10)):
            if code in self.flags:
                self.flags[code] += int(count)
        self.filled += int((origin == 2).sum())
        value = rows.value.reshape(-1, slots)
        good = (flag == Flag.GOOD) & np.isfinite(mended.network)
        square = np.where(good, value - mended.network, 0.0) ** 2
        news = (
            np.full(sensor.size, slots),
            (flag == Flag.MISSING).sum(axis=1),
            (flag == Flag.FAIL).sum(axis=1),
            good.sum(axis=1),
            n.sum(axis=1),
            square.sum(axis=1),
        )
        for which, count in enumerate(news):
            self._counts[which][sensor, variable] += count
        self._heard(mended.period, sensor, variable, n > 0)
        self._note_faults(mended, sensor, variable)

    def _grow(self, sensors: int) -> None:
        more = sensors - self._counts.shape[1]
        if more > 0:
            pad = ((0, 0), (0, more), (0, 0))
            self._counts, self._span = np.pad(self._counts, pad), np.pad(self._span, pad)

    def _heard(
        self, period: int, sensor: NDArray[np.integer], variable: NDArray[np.integer], there: NDArray[np.bool_]
    ) -> None:
        some = there.any(axis=1)
        times = self.grid.times_of(period)
        first = times[there.argmax(axis=1)]
        last = times[there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)]
        mine = sensor[some], variable[some]
        self._span[0][mine] = np.where(self._span[1][mine] == 0, first[some], self._span[0][mine])
        self._span[1][mine] = last[some]

    def _note_faults(self, mended: Mended, sensor: NDArray[np.integer], variable: NDArray[np.integer]) -> None:
        """Cut each channel's period into runs of wrong or silent slots, and let them go on from the one before."""
        rows, slots, step = mended.rows, self.grid.slots, self.grid.step
        reason = rows.reason.reshape(-1, slots)
        fail = rows.flag.reshape(-1, slots) == Flag.FAIL
        wrong = fail | (reason == SILENT)
        # A fiber is faulty as a whole, the slots without a reading too.
        whole = (fail | (rows.flag.reshape(-1, slots) == Flag.MISSING)).all(axis=1) & fail.any(axis=1)
        span = wrong | whole[:, None]
        busy = np.flatnonzero(wrong.any(axis=1))
        times = self.grid.times_of(mended.period)
        value, cleaned = rows.value.reshape(-1, slots), rows.cleaned.reshape(-1, slots)
        for row in busy:
            key = (int(sensor[row]), int(variable[row]))
            edges = np.flatnonzero(np.diff(np.concatenate([[False], span[row], [False]])))
            for begin, end in edges.reshape(-1, 2):
                part = self._part(
                    rows.sensors[key[0]],
                    key[1],
                    int(times[begin]),
                    int(times[end - 1]) + step,
                    reason[row, begin:end],
                    wrong[row, begin:end],
                    value[row, begin:end],
                    cleaned[row, begin:end],
                    float(mended.score[row]),
                )
                before = self._open.get(key)
                if before is None or not before.takes(part):
                    self.faults.append(part)
                    self._open[key] = part

    def _part(
        self,
        sensor: str,
        variable: int,
        start: int,
        end: int,
        reason: NDArray[np.int8],
        wrong: NDArray[np.bool_],
        value: NDArray[np.float64],
        cleaned: NDArray[np.float64],
        score: float,
    ) -> Fault:
        here = np.isfinite(value)
        distance = np.where(here & np.isfinite(cleaned), value - cleaned, 0.0)
        codes, counts = np.unique(reason[wrong], return_counts=True)
        return Fault(
            sensor,
            self.variables[variable],
            start,
            end,
            slots={int(code): int(count) for code, count in zip(codes, counts, strict=True)},
            score=score,
            count=int(here.sum()),
            value=float(value[here].sum()),
            distance=float(distance.sum()),
            square=float((distance**2).sum()),
            farthest=float(distance[np.abs(distance).argmax()]),
        )

    def settled(self, end: int) -> list[FaultInterval]:
        """Return the faults that were over before `end`, where the last period ended, and forget them."""
        going_on = [fault for fault in self.faults if fault.end >= end]
        self.faults = [fault for fault in self.faults if fault.end < end]
        told = self.intervals()
        self.faults = going_on
        self._open = {key: fault for key, fault in self._open.items() if fault.end >= end}
        return told

    def intervals(self) -> list[FaultInterval]:
        """Return the faults in the order of their beginnings."""
        told = [
            FaultInterval(
                fault.sensor,
                fault.variable,
                fault.start,
                fault.end,
                fault.reason,
                # A single reading has a limit of its own, which it is past; its fiber's score does not know it.
                math.nan if fault.reason == "silent" else round(max(fault.score, 1.0), 3),
                sentence(fault),
            )
            for fault in self._joined()
        ]
        return sorted(told, key=lambda fault: (fault.start, fault.sensor, fault.variable))

    def _joined(self) -> list[Fault]:
        """Return the faults, a sensor that was silent in all its variables at once being one of them."""
        variables = dict.fromkeys(self.sensors, 0)
        for sensor, listed in zip(self.sensors, (self._counts[0] > 0).sum(axis=1), strict=True):
            variables[sensor] = int(listed)
        silent = Counter((fault.sensor, fault.start, fault.end) for fault in self.faults if SILENT in fault.slots)
        joined: list[Fault] = []
        for fault in self.faults:
            span = (fault.sensor, fault.start, fault.end)
            if SILENT not in fault.slots or silent[span] < max(variables[fault.sensor], 2):
                joined.append(fault)
            elif silent[span] < ONCE:
                silent[span] = ONCE
                joined.append(replace(fault, variable=""))
        return joined

    def summaries(self, places: Places) -> list[SensorSummary]:
        """Return the figures of every channel that ever said something, by sensor."""
        counts = dict(zip(COUNTS, self._counts, strict=True))
        found = []
        for sensor in sorted(range(len(self.sensors)), key=lambda row: self.sensors[row]):
            latitude, longitude = places.coordinates.get(self.sensors[sensor], (math.nan, math.nan))
            for variable, name in enumerate(self.variables):
                here = {key: float(table[sensor, variable]) for key, table in counts.items()}
                if here["slots"] == 0:
                    continue
                heard = here["readings"] > 0
                found.append(
                    SensorSummary(
                        sensor=self.sensors[sensor],
                        variable=name,
                        readings=int(here["readings"]),
                        share_missing=round(here["missing"] / here["slots"], 6),
                        share_faulty=round(here["faulty"] / max(here["slots"] - here["missing"], 1), 6),
                        usual_error=math.sqrt(here["square"] / here["good"]) if here["good"] else math.nan,
                        latitude=latitude,
                        longitude=longitude,
                        first=int(self._span[0][sensor, variable]) if heard else None,
                        last=int(self._span[1][sensor, variable]) if heard else None,
                    )
                )
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it as what a state file holds."""
        open_faults = {id(fault): index for index, fault in enumerate(self.faults)}
        settings = {
            "sensors": list(self.sensors),
            "faults": [[_plain(getattr(fault, entry.name)) for entry in fields(Fault)] for fault in self.faults],
            "open": [[*key, open_faults[id(fault)]] for key, fault in self._open.items()],
            "flags": {str(code): count for code, count in self.flags.items()},
            "filled": self.filled,
        }
        return settings, {"counts": self._counts, "span": self._span}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.sensors = settings["sensors"]
        self.faults = [_fault(values) for values in settings["faults"]]
        self._open = {(sensor, variable): self.faults[index] for sensor, variable, index in settings["open"]}
        self.flags = {int(code): count for code, count in settings["flags"].items()}
        self.filled = settings["filled"]
        self._counts, self._span = arrays["counts"], arrays["span"]


def _plain(value: Any) -> Any:
    return {str(key): count for key, count in value.items()} if isinstance(value, dict) else value


def _fault(values: list[Any]) -> Fault:
    named = dict(zip((entry.name for entry in fields(Fault)), values, strict=True))
    named["slots"] = {int(code): count for code, count in named["slots"].items()}
    return Fault(**named)
