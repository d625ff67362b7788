"""What is wrong, said so that whoever goes out and repairs understands it."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

from sensormend.flags import Flag
from sensormend.io.metadata import SensorSummary
from sensormend.readings import DAY, HOUR, MINUTE, SECOND

__all__ = [
    "Figures",
    "Measures",
    "Story",
    "counted",
    "gather",
    "how_far_judged",
    "how_long",
    "how_often",
    "little_judged",
    "measured",
    "number",
    "percent",
    "sentence",
    "signed",
    "size_words",
    "too_far",
    "without_number",
]

OFTEN = tuple(
    (count * unit, count, name)
    for unit, name, counts in (
        (SECOND, "second", (1, 2, 5, 10, 15, 20, 30, 45)),
        (MINUTE, "minute", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50)),
        (HOUR, "hour", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18)),
        (DAY, "day", range(1, 366)),
    )
    for count in counts
)
"""How often people say that something comes."""

MINUS = "\N{MINUS SIGN}"

BETWEEN = [math.sqrt(less * more) for (less, *_), (more, *_) in pairwise(OFTEN)]


class Figures(Protocol):
    """What the wrong readings of a fault add up to.

    Attributes
    ----------
    count, value, distance, square, farthest
        How many they are, their sum, the sum of their distances from what was expected, of the squares of these, and
        the largest one.
    """

    count: int
    value: float
    distance: float
    square: float
    farthest: float


class Story(Figures, Protocol):
    """What a sentence is told from: a fault of `tally.py`."""

    sensor: str
    variable: str
    start: int
    end: int

    @property
    def size(self) -> float:
        """How large it is by the model; NaN where that is not known."""
        ...

    @property
    def reason(self) -> str:
        """Why."""
        ...


class Measures(NamedTuple):
    """Figures in words.

    Attributes
    ----------
    level, expected
        What it read, and what was expected, on average.
    off, side
        How far apart these are, and whether it read `above` or `below`.
    scatter, farthest
        How far it was off as a rule, and at most.
    """

    level: str
    expected: str
    off: str
    side: str
    scatter: str
    farthest: str


def measured(found: Figures) -> Measures:
    """Put figures into words."""
    count = max(found.count, 1)
    return Measures(
        level=number(found.value / count),
        expected=number((found.value - found.distance) / count),
        off=number(abs(found.distance / count)),
        side="above" if found.distance > 0 else "below",
        scatter=number(math.sqrt(found.square / count)),
        farthest=number(abs(found.farthest)),
    )


def gather(mine: Figures, later: Figures) -> None:
    """Add later figures to mine."""
    mine.count, mine.value = mine.count + later.count, mine.value + later.value
    mine.distance, mine.square = mine.distance + later.distance, mine.square + later.square
    mine.farthest = max(mine.farthest, later.farthest, key=abs)


def too_far(found: Figures, others: str) -> str:
    """Say why readings cannot be.

    Parameters
    ----------
    found
        What they add up to.
    others
        Whom they are held against, as the end of "what".
    """
    # Without an estimate the network has not judged it: then somebody has said what can be.
    return (
        f"{measured(found).scatter} off what {others}, too far to be true"
        if found.square
        else "beyond the limits given"
    )


def number(value: float) -> str:
    """Write a number with as many digits as a person reads.

    Examples
    --------
    >>> number(12.3456), number(0.01234), number(1234.5)
    ('12.3', '0.0123', '1234')
    >>> number(7.5e-9)
    '7.5e-09'
    """
    if not math.isfinite(value):
        return "nothing"
    if 0 < abs(value) < 1e-5:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(digits, 6)}f}"


def signed(value: float) -> str:
    """Write a distance with its sign and the two digits that a person reads.

    Examples
    --------
    >>> signed(2.13), signed(-0.0456), signed(123.4), signed(0.0)
    ('+2.1', '\u22120.046', '+123', '0')
    """
    if not math.isfinite(value) or not value:
        return "0" if value == 0 else "unknown"
    # Rounded to two digits first: 9.96 is 10, and not 10.0.
    size = float(f"{abs(value):.2g}")
    digits = max(0, 1 - math.floor(math.log10(size)))
    text = f"{abs(value):.{digits}f}" if digits < 7 else f"{size:.2g}"
    return f"{'+' if value > 0 else MINUS}{text}"


def size_words(reason: str, size: float, rate: float) -> str:
    """Say how large a fault is that shifts or stretches what a sensor reads; nothing for any other.

    Examples
    --------
    >>> size_words("drifting", 2.13, 0.04), size_words("offset", -1.6, 0.0), size_words("gain", 0.71, 0.0)
    ('+2.1, rising', '\u22121.6', '\u00d70.71')
    """
    if not math.isfinite(size):
        return ""
    if reason == "gain":
        return f"\N{MULTIPLICATION SIGN}{signed(size).removeprefix('+')}"
    if reason not in ("offset", "drifting"):
        return ""
    course = {True: ", rising", False: ", falling"}[rate > 0] if reason == "drifting" and rate else ""
    return f"{signed(size)}{course if math.isfinite(rate) else ''}"


def how_long(span: int) -> str:
    """Say how long something lasts.

    Examples
    --------
    >>> how_long(36 * HOUR), how_long(121 * MINUTE)
    ('36 hours', '2 hours')
    >>> how_long(49_031_800), how_long(SECOND)
    ('49 seconds', '1 second')
    """
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        if span >= 2 * unit or span == unit:
            count = span / unit
            text = f"{count:.0f}" if count >= 10 or unit == SECOND else f"{count:.1f}".removesuffix(".0")
            return f"{text} {name}{'' if text == '1' else 's'}"
    return f"{span / SECOND:.2g} seconds"


def how_often(span: int) -> str:
    """Say how often something comes that comes about once in a span, as a person would.

    Examples
    --------
    >>> [how_often(minutes * MINUTE) for minutes in (14, 61, 119, 23 * 60 + 20, 62 * 60)]
    ['every 15 minutes', 'every hour', 'every 2 hours', 'every day', 'every 3 days']
    """
    _, count, name = OFTEN[bisect(BETWEEN, span)]
    return f"every {name}" if count == 1 else f"every {count} {name}s"


def sentence(fault: Story) -> str:
    """Tell a fault in one plain sentence with its numbers."""
    of = f" {fault.variable}" if fault.variable else ""
    read = measured(fault)
    lasted = how_long(fault.end - fault.start)
    who = f"{fault.sensor}{of}"
    told = {
        "silent": f"{who} sent nothing for {lasted}",
        "stuck": f"{who} stood still near {read.level} for {lasted} while the others moved",
        "offset": f"{who} read {read.off} {read.side} what the others say, for {lasted}",
        "drifting": f"{who} drifted away from the others for {lasted}, by up to {read.farthest}",
        "noisy": f"{who} scattered by {read.scatter} around what the others say, for {lasted}",
        "gain": f"{who} moved {_how_much(fault.size)} the others let expect, by up to {read.farthest}, for {lasted}",
        "spike": f"{who} read {read.level} where {read.expected} was expected",
        "implausible": f"{who} read {read.level} on average for {lasted}, {too_far(fault, 'the others say')}",
    }
    return told.get(fault.reason, f"{who} was {read.scatter} off for {lasted}") + "."


def _how_much(gain: float) -> str:
    return f"{number(gain)} times as much as" if math.isfinite(gain) else "more or less than"


def percent(part: float, whole: float = 1.0) -> str:
    """Say a share; what is there is never said to be nothing, and what is lacking never to be all.

    Examples
    --------
    >>> percent(1, 3), percent(1, 3000), percent(0), percent(0.9999), percent(1)
    ('33 %', 'under 0.1 %', '0 %', 'over 99.9 %', '100 %')
    """
    share = part / whole if whole else 0.0
    if not math.isfinite(share) or share <= 0:
        return "0 %"
    if share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return (
        f"{share:.0%}".replace("%", " %") if 0.1 <= share < 0.995 or share >= 1 else f"{share:.1%}".replace("%", " %")
    )


def counted(count: int, one: str, many: str = "") -> str:
    """Return so many of something.

    Examples
    --------
    >>> counted(1, "sensor"), counted(2000, "sensor")
    ('1 sensor', '2,000 sensors')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def how_far_judged(flags: Mapping[int, int], sensors: int = 0, without_number: int = 0) -> str:
    """Say how much was judged, in one sentence; empty where nothing came at all.

    It comes first wherever a result is summed up: what was not judged would read as if it were sound.

    Parameters
    ----------
    flags
        How many readings have each flag.
    sensors, without_number
        How many sensors there are, and from how many of them no number ever came.

    Examples
    --------
    >>> how_far_judged({1: 0, 2: 48, 9: 2})
    'Nothing was judged: all readings have flag 2 and are kept as they came.'
    >>> how_far_judged({1: 10, 2: 30})
    'Only 25 % of the readings were judged: the others have flag 2 and are kept as they came.'
    >>> how_far_judged({1: 90, 2: 10}, 52, 5)
    '90 % of the readings were judged; from 5 of 52 sensors no number came.'
    >>> how_far_judged({1: 90, 9: 10})
    'All readings were judged.'
    >>> how_far_judged({9: 10}, 1, 1)
    'Nothing was judged: no number came.'
    """
    unjudged, judged = flags.get(Flag.NOT_EVALUATED, 0), _judged(flags)
    dead = f"; from {without_number:,} of {counted(sensors, 'sensor')} no number came." if without_number else "."
    kept = "the others have flag 2 and are kept as they came"
    if not judged and not unjudged:
        return "Nothing was judged: no number came." if flags.get(Flag.MISSING, 0) else ""
    if not judged:
        return f"Nothing was judged: all readings have flag 2 and are kept as they came{dead}"
    if not unjudged:
        return f"All readings were judged{dead}"
    share = percent(judged, judged + unjudged)
    if judged < unjudged:
        return f"Only {share} of the readings were judged: {kept}{dead}"
    return f"{share} of the readings were judged{dead}"


def little_judged(flags: Mapping[int, int]) -> bool:
    """Say whether less than half of the readings were judged."""
    return _judged(flags) < flags.get(Flag.NOT_EVALUATED, 0)


def _judged(flags: Mapping[int, int]) -> int:
    return sum(flags.get(flag, 0) for flag in (Flag.GOOD, Flag.SUSPECT, Flag.FAIL))


def without_number(entries: Iterable[SensorSummary]) -> tuple[int, int]:
    """Return how many sensors there are, and from how many of them no number ever came.

    One that is known only by a period that is not over has no figures yet, and is not counted.
    """
    readings: dict[str, int] = {}
    for entry in entries:
        if math.isfinite(entry.share_missing):
            readings[entry.sensor] = readings.get(entry.sensor, 0) + entry.readings
    return len(readings), sum(count == 0 for count in readings.values())
