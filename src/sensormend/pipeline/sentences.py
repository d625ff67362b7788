"""`what_it_does` describes a fault in plain English; the other functions write sizes, times, shares and counts."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from sensormend.pipeline.faults import FaultInterval, ReadingSums, SensorSummary
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Flag

__all__ = [
    "ADVICE",
    "DEVICE_ADVICE",
    "comma",
    "contradiction_sentence",
    "counted",
    "enumeration",
    "fault_sentence",
    "faults_in_words",
    "how_far_judged",
    "how_long",
    "how_often",
    "learning_sentence",
    "little_judged",
    "number",
    "percent",
    "readable",
    "signed",
    "size_words",
    "states_in_words",
    "unsigned",
    "what_it_does",
    "who",
    "without_number",
]

INTERVALS = tuple(
    (count * unit, count, name)
    for unit, name, counts in (
        (SECOND, "second", (1, 2, 5, 10, 15, 20, 30, 45)),
        (MINUTE, "minute", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50)),
        (HOUR, "hour", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18)),
        (DAY, "day", range(1, 366)),
    )
    for count in counts
)
"""The intervals in which `how_often` is expressed."""

MINUS = "\N{MINUS SIGN}"

LONGEST_CLIMB, LEAST_READINGS = 3 * DAY, 3
"""The longest duration and the least number of readings of an implausible fault that is described by the course of its
readings: over more days they rise and fall by themselves, as those of a drift do in a day."""

ADVICE = {
    "stuck": "Check whether it is frozen, blocked or disconnected, then restart or replace it.",
    "noise": "Check the cable, the supply and the mounting; a loose contact looks like this.",
    "drift": "Clean it and compare it with a reference; then calibrate or replace it.",
    "offset": "Compare it with a reference on the spot: it needs a calibration, or it was moved.",
    "gain": "Check its range and scaling, then calibrate it.",
    "implausible": "Check the wiring and what the logger takes for its unit.",
    "spike": "Single wrong values: check the contact and the transmission if they become more.",
    "silent": "Check the supply and the connection.",
    "outlier": "Compare it with its neighbours: the method says that it is wrong, not how.",
}
"""Advice for each reason."""

DEVICE_ADVICE = (
    "Several variables at once point at the device: check its supply, its clock, and whether it is where it should be, "
    "in the water or in the air."
)
"""Advice if variables of one sensor fail together."""

INTERVAL_EDGES = [math.sqrt(less * more) for (less, *_), (more, *_) in pairwise(INTERVALS)]


def number(value: float) -> str:
    """Return a number with three significant digits, without an exponent unless it is tiny.

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


def _as_read(value: float) -> str:
    """Return a number like `number` without zeros at its end: a sensor read 5.5, not 5.50."""
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def signed(value: float) -> str:
    """Return a distance with its sign and two significant digits.

    Examples
    --------
    >>> signed(2.13), signed(-0.0456), signed(123.4), signed(0.0)
    ('+2.1', '\u22120.046', '+123', '0')
    """
    if not math.isfinite(value) or not value:
        return "0" if value == 0 else "unknown"
    # Rounded to two digits first: 9.96 becomes 10, not 10.0.
    size = float(f"{abs(value):.2g}")
    digits = max(0, 1 - math.floor(math.log10(size)))
    text = f"{abs(value):.{digits}f}" if digits < 7 else f"{size:.2g}"
    return f"{'+' if value > 0 else MINUS}{text}"


def unsigned(value: float) -> str:
    """Return a distance without its sign, with two significant digits."""
    return signed(abs(value)).removeprefix("+")


def who(sensor: str, variable: str) -> str:
    """Return the name of a channel.

    Examples
    --------
    >>> who("S12", "pm25")
    'S12 pm25'
    """
    return f"{sensor} {variable}".strip()


def size_words(reason: str, size: float, rate: float) -> str:
    """Return the size of an offset, a drift or a gain in words; empty for other kinds.

    Examples
    --------
    >>> size_words("drift", 2.13, 0.04), size_words("offset", -1.6, 0.0), size_words("gain", 0.71, 0.0)
    ('+2.1, rising', '\u22121.6', '\u00d70.71')
    """
    if not math.isfinite(size):
        return ""
    if reason == "gain":
        return f"\N{MULTIPLICATION SIGN}{signed(size).removeprefix('+')}"
    if reason not in ("offset", "drift"):
        return ""
    return f"{signed(size)}{_course(rate) if reason == 'drift' else ''}"


def _course(rate: float) -> str:
    """Return whether a drift rises or falls."""
    if not math.isfinite(rate) or rate == 0:
        return ""
    return ", rising" if rate > 0 else ", falling"


def how_long(span: int) -> str:
    """Return a duration in words.

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
    """Return a rounded interval in words.

    Examples
    --------
    >>> [how_often(minutes * MINUTE) for minutes in (14, 61, 119, 23 * 60 + 20, 62 * 60)]
    ['every 15 minutes', 'every hour', 'every 2 hours', 'every day', 'every 3 days']
    """
    _, count, name = INTERVALS[bisect(INTERVAL_EDGES, span)]
    return f"every {name}" if count == 1 else f"every {count} {name}s"


def readable(time: int) -> str:
    """Return a time as text, UTC, to the minute.

    Examples
    --------
    >>> readable(1714521600_000000)
    '2024-05-01 00:00'
    """
    try:
        return datetime.fromtimestamp(time // SECOND, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def contradiction_sentence(name: str, size: float, growth: float, unit: str, others: Sequence[str], since: int) -> str:
    """Return one sentence on an open offset or drift and the sensors that contradict it; `growth` is that of a day.

    Examples
    --------
    >>> contradiction_sentence("S50", 7.21, 0.16, "°C", ["S47", "S13", "S34"], 1708041600_000000)
    'S50 reads 7.2 °C above what S47, S13 and S34 imply, growing 0.16 a day since 2024-02-16 00:00.'
    >>> contradiction_sentence("S50", -7.21, 0.0, "", ["S47"], 1708041600_000000)
    'S50 reads 7.2 below what S47 implies since 2024-02-16 00:00.'
    """
    *first, last = others
    who_else = f"{', '.join(first)} and {last} imply" if first else f"{last} implies"
    side, grows = ("above", growth > 0) if size > 0 else ("below", growth < 0)
    course = f", {'growing' if grows else 'shrinking'} {unsigned(growth)} a day" if growth else ""
    return (
        f"{name} reads {unsigned(size)} {unit}".rstrip() + f" {side} what {who_else}{course} since {readable(since)}."
    )


def comma(words: str) -> str:
    """Return the separator between what a fault does and its time."""
    return "," if "," in words else ""


def what_it_does(reason: str, size: float, rate: float, sums: ReadingSums, span: int, *, over: bool) -> str:
    """Describe what a faulty sensor does, or did if it is `over`, in the words that all outputs share.

    Parameters
    ----------
    reason, size, rate
        The kind of the fault, its size by the model, NaN where that is not known, and the growth of it in a period.
    sums
        The sums over its readings.
    span
        Its duration in microseconds.
    """

    def verb(present: str, past: str) -> str:
        return past if over else present

    count = max(sums.count, 1)
    mean, deviation = sums.value / count, math.sqrt(sums.square / count)
    shift = size if math.isfinite(size) else sums.distance / count
    side = "high" if shift > 0 else "low"
    # Of doubtful readings, which are kept, the distances are 0.
    scatter = deviation or (size if math.isfinite(size) else 0.0)
    change = sums.last_value - sums.first_value
    climbs = span <= LONGEST_CLIMB and sums.count >= LEAST_READINGS and abs(change) >= 0.5 * abs(sums.farthest) > 0
    if reason == "implausible" and climbs:
        climb = verb("climbs", "climbed") if change > 0 else verb("falls", "fell")
        return f"{climb} from {_as_read(sums.first_value)} to {_as_read(sums.last_value)}"
    gain = "more or less than"
    if math.isfinite(size):
        gain = f"{unsigned(size)} times as much as" if size > 0 else "against what"
    # Doubtful readings are kept, so that `square` is 0 and the size is by the model; without a size the readings were
    # judged by the user's limits alone.
    far = f"{unsigned(size)} off" if math.isfinite(size) else "an impossible value"
    if sums.square:
        far = f"up to {unsigned(sums.farthest)} off, too far to be true"
    expected = f" where {number(mean - sums.distance / count)} was expected" if sums.square else ", far from all others"
    words = {
        "silent": verb("has sent nothing", "sent nothing"),
        "fill": f"{verb('has sent', 'sent')} {number(sums.last_value)} only, which stands for no value",
        "stuck": f"{verb('is', 'was')} stuck at {_as_read(shift if math.isfinite(size) else sums.last_value)}",
        "offset": f"{verb('reads', 'read')} {unsigned(shift)} {side}",
        "drift": f"{verb('reads', 'drifted to')} {unsigned(shift)} {side}{'' if over else _course(rate)}",
        "noise": f"{verb('scatters', 'scattered')} {f'by {unsigned(scatter)}' if scatter else 'more than usual'}",
        "gain": f"{verb('moves', 'moved')} {gain} the others predict",
        "spike": f"read {number(mean)}{expected}",
        "implausible": f"{verb('reads', 'read')} {_as_read(sums.last_value)}, {far}",
        "outlier": f"{verb('is', 'was')} {unsigned(deviation)} from the low-rank part of the network",
    }
    return words.get(reason, f"{verb('is', 'was')} {unsigned(deviation)} off")


def percent(part: float, whole: float = 1.0) -> str:
    """Return a share in per cent; a share above 0 is not rounded to 0 %, nor one below 1 to 100 %.

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
    digits = 0 if 0.1 <= share < 0.995 or share >= 1 else 1
    return f"{100 * share:.{digits}f} %"


def enumeration(words: Sequence[str], most: int | None = None) -> str:
    """Join words with commas and "and"; of more than `most`, the first ones and the number of the others.

    Examples
    --------
    >>> enumeration(["a", "b", "c"]), enumeration(["a", "b"]), enumeration(["a"]), enumeration([])
    ('a, b and c', 'a and b', 'a', '')
    >>> enumeration(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    if most is not None and len(words) > most:
        words = [*words[:most], f"{len(words) - most:,} more"]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "sensor"), counted(2000, "sensor")
    ('1 sensor', '2,000 sensors')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def states_in_words(states: Mapping[str, int]) -> str:
    """Return one or two sentences on the number of sensors in each state.

    Examples
    --------
    >>> states_in_words({"healthy": 45, "faulty": 4, "silent": 1})
    '45 of 50 sensors are healthy. 4 are faulty, 1 is silent.'
    >>> states_in_words({"healthy": 3}), states_in_words({"healthy": 1}), states_in_words({"learning": 2})
    ('All 3 sensors are healthy.', '1 sensor is healthy.', 'Nothing is judged yet, of 2 sensors.')
    >>> states_in_words({"ended": 1, "faulty": 1, "healthy": 1}), states_in_words({"faulty": 2})
    ('1 of 3 sensors is healthy. 1 is faulty, 1 has ended.', 'None of 2 sensors is healthy. 2 are faulty.')

    A sensor that has ended is not known to be ill.

    >>> states_in_words({"ended": 4, "suspect": 1}), states_in_words({"ended": 1})
    ('4 of 5 sensors have ended. 1 is suspect.', '1 sensor has ended.')
    """
    total, healthy = sum(states.values()), states.get("healthy", 0)
    sensors = counted(total, "sensor")
    if not total:
        return "No sensor has reported for long enough to be judged."
    if healthy == total:
        return f"All {sensors} are healthy." if total > 1 else f"{sensors} is healthy."
    if states.get("learning", 0) == total:
        return f"Nothing is judged yet, of {sensors}."
    others = [
        f"{states[state]:,} {_is_or_are(states[state])} {state}"
        for state in ("faulty", "silent", "suspect", "recovering", "learning")
        if states.get(state)
    ]
    ended = states.get("ended", 0)
    have_ended = f"{'has' if ended == 1 else 'have'} ended"
    if ended and not healthy:
        all_of_them = f"All {sensors}" if total > 1 else sensors
        first = f"{all_of_them if ended == total else f'{ended:,} of {sensors}'} {have_ended}."
        return f"{first} {', '.join(others)}." if others else first
    others += [f"{ended:,} {have_ended}"] if ended else []
    first = f"{healthy:,} of {sensors} {_is_or_are(healthy)} healthy" if healthy else f"None of {sensors} is healthy"
    return f"{first}. {', '.join(others)}."


def learning_sentence(done: int, needed: int, first: int, *, daily: bool) -> str:
    """Return how far a network has learned of which nothing can be judged before `first`.

    Examples
    --------
    >>> learning_sentence(0, 5, 1704499200_000000, daily=True)
    'Still learning: day 1 of 5, first verdicts on 2024-01-06.'
    """
    date = readable(first).removesuffix(" 00:00")
    return f"Still learning: {'day' if daily else 'period'} {done + 1} of {needed}, first verdicts on {date}."


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def faults_in_words(faults: Iterable[FaultInterval]) -> str:
    """Return the number of faults, the lines of faults.csv, and how many of them are silences.

    Examples
    --------
    >>> silence = FaultInterval("a", "", 0, 1, "silent", math.nan, "")
    >>> faults_in_words([]), faults_in_words([silence]), faults_in_words([silence] * 2)
    ('no faults', '1 fault, a silence', '2 faults, all of them silences')
    >>> faults_in_words([silence, FaultInterval("a", "", 0, 1, "stuck", 2.0, "")])
    '2 faults, 1 of them a silence'
    """
    reasons = [fault.reason for fault in faults]
    silences = reasons.count("silent")
    if not reasons:
        return "no faults"
    words = counted(len(reasons), "fault")
    if not silences:
        return words
    if silences == len(reasons):
        return f"{words}, {'a silence' if silences == 1 else 'all of them silences'}"
    return f"{words}, {silences:,} of them {'a silence' if silences == 1 else 'silences'}"


def fault_sentence(faults: Iterable[FaultInterval]) -> str:
    """Return one sentence on the number of faults.

    Examples
    --------
    >>> fault_sentence([]), fault_sentence([FaultInterval("a", "", 0, 1, "stuck", 2.0, "")])
    ('There are no faults.', 'There is 1 fault.')
    """
    words = faults_in_words(faults)
    return f"There {'is' if words.startswith('1 fault') else 'are'} {words}."


def how_far_judged(flags: Mapping[int, int], sensors: int = 0, without_number: int = 0) -> str:
    """Return one sentence on how many readings were judged; empty if there is none.

    It comes first in every summary: readings that were not judged would otherwise read as sound. `flags` has the number
    of readings by flag, `without_number` is the number of sensors that never reported a number.

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
    unjudged_words = "the others have flag 2 and are kept as they came"
    if not judged and not unjudged:
        return "Nothing was judged: no number came." if flags.get(Flag.MISSING, 0) else ""
    if not judged:
        return f"Nothing was judged: all readings have flag 2 and are kept as they came{dead}"
    if not unjudged:
        return f"All readings were judged{dead}"
    share = percent(judged, judged + unjudged)
    if judged < unjudged:
        return f"Only {share} of the readings were judged: {unjudged_words}{dead}"
    return f"{share} of the readings were judged{dead}"


def little_judged(flags: Mapping[int, int]) -> bool:
    """Return whether less than half of the readings were judged."""
    return _judged(flags) < flags.get(Flag.NOT_EVALUATED, 0)


def _judged(flags: Mapping[int, int]) -> int:
    return sum(flags.get(flag, 0) for flag in (Flag.GOOD, Flag.SUSPECT, Flag.FAIL))


def without_number(entries: Iterable[SensorSummary]) -> tuple[int, int]:
    """Return the number of sensors, and of those that never reported a number.

    A sensor that is known only from a period that is not over has no counts yet, and is left out.
    """
    readings: dict[str, int] = {}
    for entry in entries:
        if math.isfinite(entry.share_missing):
            readings[entry.sensor] = readings.get(entry.sensor, 0) + entry.readings
    return len(readings), sum(count == 0 for count in readings.values())
