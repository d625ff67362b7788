"""`sentence` tells a fault in plain words; the other functions write sizes, times, shares and counts."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from sensormend.io.metadata import SensorSummary
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Flag

__all__ = [
    "FaultDescription",
    "FaultEffect",
    "ReadingSums",
    "add_sums",
    "comma",
    "counted",
    "how_far_judged",
    "how_long",
    "how_often",
    "little_judged",
    "number",
    "percent",
    "readable",
    "sentence",
    "signed",
    "size_words",
    "unsigned",
    "what_it_does",
    "who",
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

CLIMB, FEW = 3 * DAY, 3
"""How long a fault lasts at most, and how many readings it has at least, that is told by where its readings went: over
more days they go up and down by themselves."""

BETWEEN = [math.sqrt(less * more) for (less, *_), (more, *_) in pairwise(OFTEN)]


class ReadingSums(Protocol):
    """What the wrong readings of a fault add up to.

    Attributes
    ----------
    count, value, distance, square, farthest
        How many they are, their sum, the sum of their distances from what was expected, of the squares of these, and
        the largest one.
    first_value, last_value
        The first and the last of them; NaN where there is none.
    """

    count: int
    value: float
    distance: float
    square: float
    farthest: float
    first_value: float
    last_value: float


class FaultEffect(ReadingSums, Protocol):
    """What a fault does to the readings."""

    @property
    def size(self) -> float:
        """How large it is by the model; NaN where that is not known."""
        ...

    @property
    def rate(self) -> float:
        """By how much that grows in a period."""
        ...

    @property
    def reason(self) -> str:
        """Why."""
        ...


class FaultDescription(FaultEffect, Protocol):
    """What a sentence is told from: a fault of `tally.py`."""

    sensor: str
    variable: str
    start: int
    end: int

    @property
    def doubtful(self) -> bool:
        """Whether none of its readings is judged wrong."""
        ...


def add_sums(mine: ReadingSums, later: ReadingSums) -> None:
    """Add later figures to mine."""
    mine.count, mine.value = mine.count + later.count, mine.value + later.value
    mine.distance, mine.square = mine.distance + later.distance, mine.square + later.square
    mine.farthest = max(mine.farthest, later.farthest, key=abs)
    mine.first_value = later.first_value if math.isnan(mine.first_value) else mine.first_value
    mine.last_value = mine.last_value if math.isnan(later.last_value) else later.last_value


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


def unsigned(value: float) -> str:
    """Write a distance without its sign, with the two digits that a person reads."""
    return signed(abs(value)).removeprefix("+")


def who(sensor: str, variable: str) -> str:
    """Name a channel.

    Examples
    --------
    >>> who("S12", "pm25")
    'S12 pm25'
    """
    return f"{sensor} {variable}".strip()


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


def readable(time: int) -> str:
    """Write a time as people read it.

    Examples
    --------
    >>> readable(1714521600_000000)
    '2024-05-01 00:00'
    """
    try:
        return datetime.fromtimestamp(time // SECOND, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def sentence(fault: FaultDescription, *, open_since: str = "") -> str:
    """Tell a fault in one plain sentence with its numbers: since when, where it is open, else for how long."""
    name = who(fault.sensor, fault.variable)
    span = fault.end - fault.start
    deed = what_it_does(fault, span, over=not open_since)
    if fault.doubtful and fault.reason != "silent":
        deed = f"is doubtful: it {deed}" if open_since else f"was doubtful: it {deed}"
    if fault.reason == "spike":
        return f"{name} {deed}."
    how = "since" if open_since else "within" if "drifted" in deed else "for"
    return f"{name} {deed}{comma(deed)} {how} {open_since or how_long(span)}."


def comma(deed: str) -> str:
    """Return what parts the words for a deed from those for its time."""
    return "," if "," in deed else ""


def what_it_does(fault: FaultEffect, span: int, *, over: bool) -> str:
    """Say what a sensor does, or did, in the words that table, page, report and alert have in common.

    Parameters
    ----------
    fault
        Its kind, its size, and what its readings add up to.
    span
        How long it lasts, in microseconds.
    over
        Whether it is over.
    """

    def verb(present: str, past: str) -> str:
        return past if over else present

    count = max(fault.count, 1)
    read, usually = fault.value / count, math.sqrt(fault.square / count)
    shift = fault.size if math.isfinite(fault.size) else fault.distance / count
    side = "high" if shift > 0 else "low"
    course = {1: ", rising", -1: ", falling"}.get(_sign(fault.rate), "")
    moved = fault.last_value - fault.first_value
    climbs = span <= CLIMB and fault.count >= FEW and abs(moved) >= 0.5 * abs(fault.farthest) > 0
    if fault.reason in ("drifting", "implausible") and climbs:
        way = verb("climbs", "climbed") if moved > 0 else verb("falls", "fell")
        return f"{way} from {number(fault.first_value)} to {number(fault.last_value)}"
    words = {
        "silent": verb("has sent nothing", "sent nothing"),
        "stuck": f"{verb('is', 'was')} stuck at {number(shift if math.isfinite(fault.size) else fault.last_value)}",
        "offset": f"{verb('reads', 'read')} {unsigned(shift)} {side}",
        "drifting": f"{verb('reads', 'drifted to')} {unsigned(shift)} {side}{'' if over else course}",
        "noisy": f"{verb('scatters', 'scattered')} by {unsigned(usually)}",
        "gain": f"{verb('moves', 'moved')} {_how_much(fault.size)} the others let expect",
        "spike": f"read {number(read)} where {number(read - fault.distance / count)} was expected",
        "implausible": f"{verb('reads', 'read')} {number(fault.last_value)}, {_too_far(fault)}",
    }
    return words.get(fault.reason, f"{verb('is', 'was')} {unsigned(usually)} off")


def _sign(value: float) -> int:
    return 0 if not math.isfinite(value) or value == 0 else 1 if value > 0 else -1


def _too_far(sums: ReadingSums) -> str:
    # Without an estimate the network has not judged it: then somebody has said what can be.
    off = f"up to {unsigned(sums.farthest)} off, too far to be true"
    return off if sums.square else "beyond the limits given"


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
    others = "the others have flag 2 and are kept as they came"
    if not judged and not unjudged:
        return "Nothing was judged: no number came." if flags.get(Flag.MISSING, 0) else ""
    if not judged:
        return f"Nothing was judged: all readings have flag 2 and are kept as they came{dead}"
    if not unjudged:
        return f"All readings were judged{dead}"
    share = percent(judged, judged + unjudged)
    if judged < unjudged:
        return f"Only {share} of the readings were judged: {others}{dead}"
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
