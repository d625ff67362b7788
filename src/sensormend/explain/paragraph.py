"""`explain` returns a paragraph that states why a reading has its flag."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from sensormend.explain.context import (
    ENOUGH,
    USUAL_SPAN,
    ReadingContext,
    TimeLike,
    microseconds,
    reading_context,
    time_text,
)
from sensormend.io.folder import Archive
from sensormend.pipeline.options import EVERY
from sensormend.pipeline.sentences import enumeration, how_long
from sensormend.readings import DAY, MEANINGS, Flag

__all__ = ["TimeLike", "comparison", "explain", "paragraph", "verdict"]

MOST_LISTED = 4
"""The maximum number of fill values that are listed; the built-in list is longer."""


def explain(out: str | os.PathLike[str], sensor: str, time: TimeLike, variable: str | None = None) -> str:
    """Return a paragraph that states why the reading of a sensor at a time has its flag.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote.
    sensor
        Its name.
    time
        A time within the slot: ISO text, microseconds since 1970, or a datetime; UTC where no zone is given.
    variable
        Required where the sensor measures several.
    """
    archive = Archive(out)
    return paragraph(reading_context(archive, archive.check_sensor(sensor), microseconds(time), variable))


def paragraph(context: ReadingContext) -> str:
    """Return the explanation of a reading."""
    return f"{verdict(context)} {_correlated(context)}"


def verdict(context: ReadingContext) -> str:
    """Return the explanation of a reading without what the correlated sensors read."""
    parts = (_opening(context), _verdict(context), _estimate(context), _interval(context))
    return " ".join(part for part in parts if part)


def comparison(context: ReadingContext) -> str:
    """Return whether the correlated sensors contradict the reading, or why none is compared with it."""
    return f"{_describe_agreement(context)}." if context.correlated else _correlated(context)


def _opening(context: ReadingContext) -> str:
    row = context.row
    flag = f"flag {int(row.flag)} ({MEANINGS[row.flag].replace('_', ' ')}{f', {row.reason}' if row.reason else ''})"
    if math.isnan(row.value):
        return f"{context.who} has no value at {time_text(row.time)}: {flag}."
    mean = f", the mean of {row.n} readings" if row.n > 1 else ""
    return f"{context.who} read {context.reading(row.value)} at {time_text(row.time)}{mean}: {flag}."


def _verdict(context: ReadingContext) -> str:
    """Return the meaning of the reason, with its numbers."""
    row = context.row
    if row.flag == Flag.GOOD:
        return "Nothing contradicts it, and it is trusted as it is."
    if row.flag == Flag.MISSING or row.reason == "fill":
        return _missing(context)
    if row.flag == Flag.NOT_EVALUATED:
        return _not_evaluated(context)
    plain = {
        "duplicate": "Several readings with different values came for the same time; the last one was kept.",
        "late": "It came after its period was closed, and took no part in the judgement.",
        "alone": "Too few other sensors are related to it to judge it.",
        "outlier": "The method flags the whole period of this sensor as an outlier; it knows no kinds of faults.",
        "offset": "It keeps a distance from what the other sensors predict.",
        "drift": "It moves further and further away from what the other sensors predict.",
    }
    special = {"stuck": _stuck, "spike": _spike, "noise": _noisy, "gain": _gain, "implausible": _implausible}
    words = special[row.reason](context) if row.reason in special else plain.get(row.reason, "")
    if row.flag == Flag.SUSPECT and row.reason != "duplicate" and not row.estimated and not row.corrected:
        words = f"{words} It is in doubt, but nothing surer is known, and so it is kept.".lstrip()
    return words


def _missing(context: ReadingContext) -> str:
    if context.row.reason == "silent":
        earlier = context.own.time[(context.own.n > 0) & (context.own.time < context.row.time)]
        last = f"; its last reading before is from {time_text(int(earlier[-1]))}" if earlier.size else ""
        return f"The sensor sent nothing in that whole period{last}."
    if context.row.reason == "fill":
        values = _per_variable(context.run.get("fill"), context.variable)
        shown = f" ({', '.join(f'{value:g}' for value in values)})" if 0 < len(values) <= MOST_LISTED else ""
        if math.isfinite(context.row.value):
            return f"It is a fill value, which stands for a reading that is missing{shown}."
        return "What came was not a number."
    return "No reading came for it, though others of the same period did."


def _per_variable(by_variable: Any, variable: str) -> list[float]:
    """Return the numbers in run.json for a variable, or for all variables."""
    values = by_variable.get(variable, by_variable.get(EVERY)) if isinstance(by_variable, dict) else None
    return [float(value) for value in values] if isinstance(values, list) else []


def _not_evaluated(context: ReadingContext) -> str:
    if context.row.reason == "alone":
        return "Too few other sensors are related to it to judge it, so it is kept as it is."
    times = context.own.time[context.own.n > 0]
    new = times.size and context.row.time - times[0] < USUAL_SPAN - DAY
    since = f" (the first reading is from {time_text(int(times[0]))})" if new else ""
    return f"It was not judged: the model did not know the sensor well yet{since}, or it was to be ignored."


def _stuck(context: ReadingContext) -> str:
    present = np.flatnonzero(context.own.n > 0)
    same, own = context.own.value[present] == context.row.value, int(np.searchsorted(present, context.place))
    before = int(np.argmin(np.append(same[:own][::-1], False)))
    after = int(np.argmin(np.append(same[own:], False)))
    times = context.own.time[present[own - before : own + after]].tolist()
    if len(times) < 3:
        return f"It hardly moves{_moved(context, context.row.time - DAY // 2, context.row.time + DAY // 2)}."
    return (
        f"It stands still: {len(times)} readings in a row, from {time_text(times[0])} to {time_text(times[-1])}, "
        f"are {context.reading(context.row.value)}{_moved(context, times[0], times[-1])}."
    )


def _moved(context: ReadingContext, start: int, end: int) -> str:
    """Return how far the correlated sensors moved in a span."""
    moves = []
    for name, rows in context.courses.items():
        values = rows.value[(rows.flag == Flag.GOOD) & (rows.time >= start) & (rows.time <= end)]
        if values.size > 1:
            moves.append(f"{name} by {context.number(float(np.ptp(values)))}")
    return f"; meanwhile the others moved, {enumeration(moves)}" if moves else ""


def _spike(context: ReadingContext) -> str:
    good = (context.own.flag == Flag.GOOD) & (np.abs(context.own.time - context.row.time) <= DAY)
    before, after = np.flatnonzero(good[: context.place]), np.flatnonzero(good[context.place + 1 :]) + context.place + 1
    neighbours = [("before it", before[-1:]), ("after it", after[:1])]
    values = [f"{context.number(float(context.own.value[k[0]]))} {when}" for when, k in neighbours if k.size]
    detail = f": the sensor read {enumeration(values)}" if values else ""
    return f"It alone differs from the readings around it{detail}."


def _noisy(context: ReadingContext) -> str:
    day = (np.abs(context.own.time - context.row.time) <= DAY // 2) & (context.own.n > 0)
    jumps = np.abs(np.diff(context.own.value[day]))
    usual = np.abs(np.diff(context.usual.value[context.usual.flag == Flag.GOOD]))
    if not jumps.size or not usual.size:
        return "It scatters more than it should."
    if jumps.mean() <= usual.mean():
        return "It scatters around what the others predict, but jumps no more than usual from one reading to the next."
    return (
        f"It scatters: from one reading to the next it jumped by {context.number(float(jumps.mean()))} on average in "
        f"the day around, where {context.number(float(usual.mean()))} is usual for it."
    )


def _gain(context: ReadingContext) -> str:
    day = (np.abs(context.own.time - context.row.time) <= DAY // 2) & (context.own.n > 0)
    day &= np.isfinite(context.own.cleaned)
    if day.sum() < 2:
        return "Its variation is not what the other sensors predict."
    read, expected = (float(np.ptp(column[day])) for column in (context.own.value, context.own.cleaned))
    return f"In the day around it swung by {context.number(read)} where {context.number(expected)} was to be expected."


def _implausible(context: ReadingContext) -> str:
    options = context.run.get("options")
    limits = _per_variable(options.get("valid") if isinstance(options, dict) else None, context.variable)
    if len(limits) == 2 and not limits[0] <= context.row.value <= limits[1]:
        return f"It is outside the limits given, {limits[0]:g} to {limits[1]:g}."
    if context.row.flag == Flag.SUSPECT:
        return "It is far from everything the network reads."
    return "It is so far from everything the network reads that it cannot be."


def _estimate(context: ReadingContext) -> str:
    row = context.row
    if math.isnan(row.cleaned):
        return (
            "There is no estimate: nothing is known of it yet, or it was withheld for lying far outside all readings."
        )
    if not row.estimated and not row.corrected:
        return ""
    interval = f" ({context.number(row.lower)} to {context.number(row.upper)})" if row.upper > row.lower else ""
    if row.corrected:
        return (
            f"With its fault taken out it is {context.number(row.cleaned)}{interval}, which stands in its place: that "
            "is surer than the network's estimate."
        )
    if math.isnan(row.value):
        return f"The network's estimate in its place is {context.number(row.cleaned)}{interval}."
    distance = row.value - row.cleaned
    side = "above" if distance > 0 else "below"
    return (
        f"That is {context.number(abs(distance))} {side} the network's estimate, "
        f"{context.number(row.cleaned)}{interval}, which stands in its place."
    )


def _interval(context: ReadingContext) -> str:
    fault = context.fault
    if fault is None:
        return ""
    score = f", score {fault.score:.1f} where 1 is the threshold" if fault.score > 0 else ""
    # A final row is never changed; the start of a fault may be dated back by later readings.
    belongs = "Later readings showed that it belongs" if context.row.flag == Flag.GOOD else "It belongs"
    return (
        f"{belongs} to a fault ({fault.reason}{score}) of {how_long(fault.end - fault.start)}, from "
        f"{time_text(fault.start)} to {time_text(fault.end)}{f': {fault.sentence}' if fault.sentence else '.'}"
    )


def _correlated(context: ReadingContext) -> str:
    """Return the readings of the most correlated sensors, and whether they contradict this one."""
    value = context.row.value
    if not context.correlated and context.run.get("sensors") == 1:
        return "There is no other sensor: it is judged by its own past alone."
    if not context.correlated:
        if int((context.usual.flag == Flag.GOOD).sum()) >= ENOUGH:
            return "No other sensor that is like it had a good reading then."
        return "There are too few good readings before it to say which sensors are like it."
    lines = []
    for other in context.correlated:
        read, expected, usual = map(context.number, (other.value, other.expected, other.spread))
        text = f"{other.sensor} read {read}, which predicts {expected} here"
        if math.isfinite(value):
            text += f", {context.number(abs(value - other.expected))} off where {usual} is usual"
        lines.append(f"{text} (correlation {other.likeness:.2f})")
    return f"{_describe_agreement(context)}: {'; '.join(lines)}."


def _describe_agreement(context: ReadingContext) -> str:
    several, span = len(context.correlated) > 1, "before the fault" if context.fault else "before"
    return f"The sensor{'s' if several else ''} most like it over the 30 days {span}{_agreement(context, several)}"


def _agreement(context: ReadingContext, several: bool) -> str:
    """Return whether the correlated sensors contradict the reading."""
    value, count = context.row.value, len(context.correlated)
    if math.isnan(value):
        return ""
    against = sum(other.contradicts(value) for other in context.correlated)
    if against == count:
        return " contradict it" if several else " contradicts it"
    if against:
        return f" are divided, {against} of {count} against it"
    if context.row.flag in (Flag.FAIL, Flag.SUSPECT):
        # A single reading of a stuck sensor can be right by chance.
        return f" d{'o' if several else 'oes'} not contradict this one reading by itself"
    return " agree with it" if several else " agrees with it"
