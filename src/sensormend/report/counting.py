"""What was filled, and how sure that is: counted in one way through the rows, a few weeks at a time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.readings import DAY, HOUR
from sensormend.report.passing import STEADY, Part, parts_of

__all__ = ["CAUSES", "Channel", "Counts", "Stretch", "count"]

CAUSES = {
    "missing": "No reading came",
    "silent": "The sensor was silent for a whole period",
    "fill": "Something came, but no number",
    "faulty": "The reading was replaced: the sensor was faulty",
    "spike": "The reading was replaced: a single wrong value",
    "ignored": "People had said not to look",
}
"""Why a value is an estimate, in the order in which it is told."""

LONG, FEWEST = DAY, 3
"""A stretch of estimates of a day, and of so many values, is listed by itself."""

GAPS = ((0, "a single value"), (6 * HOUR, "up to 6 hours"), (DAY, "up to a day"), (7 * DAY, "up to a week"),
        (1 << 62, "longer than a week"))  # fmt: skip


@dataclass(frozen=True)
class Channel:
    """What there is of one variable of one sensor.

    Attributes
    ----------
    rows, estimated, corrected
        How many values it has, how many of them are estimates, and how many are readings with their fault taken out.
    heard, alone, unjudged
        How many have a reading; how many of these nobody could judge since it stands alone, and for another cause.
    first, last
        Of its rows.
    """

    rows: int
    estimated: int
    corrected: int
    heard: int
    alone: int
    unjudged: int
    first: int
    last: int


@dataclass(frozen=True)
class Stretch:
    """Values of a channel that are nothing but estimates, from `start` to before `end`."""

    sensor: str
    variable: str
    start: int
    end: int


@dataclass(frozen=True)
class Counts:
    """What the report says about filling.

    Attributes
    ----------
    step
        Microseconds of a slot.
    channels
        Each (sensor, variable).
    flags
        How many values have a flag.
    causes
        How many estimates there are of each (variable, cause).
    unknown
        Values of which nothing is known, not even an estimate.
    duplicates
        Readings that contradicted another one of the same time.
    widths
        How many estimates have an interval so wide, by (variable, cause): the width in 64ths of an octave.
    gaps
        How many stretches of estimates there are of each length, microseconds.
    stretches
        Those of a day and more that have several values, longest first.
    nobody
        From when to when nobody had a reading.
    unjudged
        Dates on which readings were not evaluated, for another cause than that they stand alone: how many were, and
        how many readings there were.
    spread
        By variable: the standard deviation of good readings over all, and among the sensors at one time.
    change
        By variable: how far a good reading is from the one before, and an estimate from the estimate before; root
        mean squares.
    """

    step: int
    channels: dict[tuple[str, str], Channel]
    flags: Counter[int]
    causes: Counter[tuple[str, str]]
    unknown: int
    duplicates: int
    widths: dict[tuple[str, str], Counter[int]]
    gaps: Counter[int]
    stretches: tuple[Stretch, ...]
    nobody: tuple[tuple[int, int], ...]
    unjudged: dict[int, tuple[int, int]]
    spread: dict[str, tuple[float, float]]
    change: dict[str, tuple[float, float]]

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(channel.rows for channel in self.channels.values())

    @property
    def estimated(self) -> int:
        """How many of them are estimates."""
        return sum(channel.estimated for channel in self.channels.values())

    @property
    def corrected(self) -> int:
        """How many of them are readings with their fault taken out."""
        return sum(channel.corrected for channel in self.channels.values())

    def half_width(self, variable: str, *causes: str, share: float = 0.5) -> float:
        """Return how far an interval reaches to either side; `share` of the estimates have a narrower one."""
        found: Counter[int] = Counter()
        for cause in causes or CAUSES:
            found += self.widths.get((variable, cause), Counter())
        return _quantile(found, share) / 2

    def gap_table(self) -> list[tuple[str, int, int]]:
        """Return for each kind of gap its words, how many there are, and how many values they have."""
        found = [[0, 0] for _ in GAPS]
        for length, times in self.gaps.items():
            kind = 0 if length <= self.step else next(
                number for number, (edge, _) in enumerate(GAPS) if number and length <= edge
            )  # fmt: skip
            found[kind][0] += times
            found[kind][1] += times * (length // self.step)
        return [(words, *pair) for (_, words), pair in zip(GAPS, found, strict=True) if pair[0]]  # type: ignore[misc]


def _quantile(found: Counter[int], share: float) -> float:
    """Return the width below which a share lies; the middle of its 64th of an octave, so it is within 1 %."""
    left = share * found.total()
    for bucket in sorted(found):
        left -= found[bucket]
        if left <= 0:
            return 0.0 if bucket <= STEADY else float(2 ** ((bucket + 0.5) / 64))
    return math.nan


@dataclass
class _Moments:
    """Count, mean and variance that take others in."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, count: int, mean: float, variance: float) -> None:
        """Take others in."""
        both = self.count + count
        apart = mean - self.mean
        self.variance = (
            self.count * self.variance + count * variance + apart**2 * self.count * count / both
        ) / both  # fmt: skip
        self.mean += apart * count / both
        self.count = both


@dataclass
class _Sums:
    """What is added up, part by part."""

    step: int
    channels: dict[tuple[str, str], Channel] = field(default_factory=dict)
    flags: Counter[int] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    widths: dict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    gaps: Counter[int] = field(default_factory=Counter)
    stretches: list[Stretch] = field(default_factory=list)
    nobody: list[tuple[int, int]] = field(default_factory=list)
    unjudged: dict[int, tuple[int, int]] = field(default_factory=dict)
    moments: dict[str, _Moments] = field(default_factory=lambda: defaultdict(_Moments))
    among: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    changes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * 4))
    open: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, part: Part) -> None:
        """Take in a part."""
        for sensor, variable, *figures in part.channels():
            before = self.channels.get((sensor, variable))
            new = Channel(*figures)
            self.channels[sensor, variable] = new if before is None else _both(before, new)
        for flag, values in part.flags():
            self.flags[flag] += values
        for variable, cause, bucket, values in part.widths():
            self.causes[variable, cause] += values
            if bucket is not None:
                self.widths[variable, cause][bucket] += values
        for kind, values in part.others():
            self.other[kind] += values
        for variable, *figures in part.levels():
            self.moments[variable].add(*figures)
        for variable, weight, total in part.spreads():
            self.among[variable][0] += weight
            self.among[variable][1] += total
        for variable, *figures in part.changes():
            self.changes[variable] = [old + new for old, new in zip(self.changes[variable], figures, strict=True)]
        for date, unjudged, heard in part.unjudged():
            self.unjudged[date] = (unjudged, heard)
        for length, times in part.short_gaps():
            self.gaps[length] += times
        self._stretch(part)
        for time in part.nobody():
            if self.nobody and time - self.nobody[-1][1] <= self.step // 2:
                self.nobody[-1] = (self.nobody[-1][0], time + self.step)
            else:
                self.nobody.append((time, time + self.step))

    def _stretch(self, part: Part) -> None:
        """Let what reached the end of the part before go on in this one."""
        going_on = dict(self.open)
        self.open = {}
        for sensor, variable, start, last in part.long_gaps():
            key, end = (sensor, variable), last + self.step
            before = going_on.get(key)
            if before is not None and start - before[1] <= self.step // 2:
                start = before[0]
                del going_on[key]
            if part.end is not None and end >= part.end - self.step // 2:
                self.open[key] = (start, end)
            else:
                self._over(key, start, end)
        for key, (start, end) in going_on.items():
            self._over(key, start, end)

    def _over(self, key: tuple[str, str], start: int, end: int) -> None:
        # Rows per reading do not lie on the grid; a gap is so many slots all the same.
        slots = max(round((end - start) / self.step), 1)
        self.gaps[slots * self.step] += 1
        if end - start >= max(LONG, FEWEST * self.step):
            self.stretches.append(Stretch(*key, start, end))

    def whole(self) -> Counts:
        """Return it all."""
        for key, (start, end) in self.open.items():
            self._over(key, start, end)
        return Counts(
            self.step,
            self.channels,
            self.flags,
            self.causes,
            self.other["unknown"],
            self.other["duplicate"],
            dict(self.widths),
            self.gaps,
            tuple(sorted(self.stretches, key=lambda found: (found.start - found.end, found.sensor, found.variable))),
            tuple(self.nobody),
            self.unjudged,
            {
                variable: (math.sqrt(level.variance), _root(*self.among[variable]))
                for variable, level in self.moments.items()
            },
            {variable: (_root(*sums[:2]), _root(*sums[2:])) for variable, sums in self.changes.items()},
        )


def count(folder: Path, step: int, end: int, channels: int, done: Callable[[float], None] | None = None) -> Counts:
    """Go through the rows of a folder once.

    Parameters
    ----------
    folder
        With `data/date=...` in it.
    step
        Microseconds of a slot.
    end
        What comes later is left out: a watch may be writing it now.
    channels
        About how many there are.
    done
        Is told how much is done, from 0 to 1.
    """
    sums = _Sums(step)
    for part, share in parts_of(folder, step, end, channels):
        sums.add(part)
        if done is not None:
            done(share)
    return sums.whole()


def _both(before: Channel, new: Channel) -> Channel:
    return Channel(
        before.rows + new.rows,
        before.estimated + new.estimated,
        before.corrected + new.corrected,
        before.heard + new.heard,
        before.alone + new.alone,
        before.unjudged + new.unjudged,
        min(before.first, new.first),
        max(before.last, new.last),
    )


def _root(weight: Any, total: Any) -> float:
    return math.sqrt(total / weight) if weight else math.nan
