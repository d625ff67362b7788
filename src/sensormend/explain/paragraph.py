"""Why a reading has its flag, in one paragraph with its numbers and the sensors that contradict it."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from sensormend.explain.context import BEFORE, Case, Moment, look_up, moment_of, when
from sensormend.explain.correlated import ENOUGH
from sensormend.io.folder import Archive
from sensormend.io.options import EVERY
from sensormend.pipeline.sentences import how_long
from sensormend.readings import DAY, MEANINGS, Flag

__all__ = ["Moment", "explain", "explained"]

FEW = 4
"""Fill values that are worth naming; the list of those that are known everywhere is longer."""


def explain(out: str | os.PathLike[str], sensor: str, time: Moment, variable: str | None = None) -> str:
    """Say in one paragraph why the reading of a sensor at a time has its flag.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote.
    sensor
        Its name.
    time
        A time within the slot: ISO text, microseconds since 1970, or a datetime; UTC where no zone is said.
    variable
        Needed where the sensor measures several.
    """
    archive = Archive(out)
    return explained(look_up(archive, archive.known(sensor), moment_of(time), variable))


def explained(case: Case) -> str:
    """Tell what was looked up."""
    told = [
        *_opening(case),
        *_verdict(case),
        *_estimate(case),
        *_interval(case),
        *_testimony(case),
    ]
    return " ".join(told)


def _opening(case: Case) -> list[str]:
    row = case.row
    flag = f"flag {int(row.flag)} ({MEANINGS[row.flag].replace('_', ' ')}{f', {row.reason}' if row.reason else ''})"
    if math.isnan(row.value):
        return [f"{case.who} has no value at {when(row.time)} UTC: {flag}."]
    mean = f", the mean of {row.n} readings" if row.n > 1 else ""
    return [f"{case.who} read {case.number(row.value)} at {when(row.time)} UTC{mean}: {flag}."]


def _verdict(case: Case) -> list[str]:
    """Say what the reason means, with the numbers that belong to it."""
    row = case.row
    if row.flag == Flag.GOOD:
        return ["Nothing speaks against it, and it is trusted as it is."]
    if row.flag == Flag.MISSING:
        return [_missing(case)]
    if row.flag == Flag.NOT_EVALUATED:
        return [_not_evaluated(case)]
    told = {
        "duplicate": "Several readings with different values came for the same time; the last one was kept.",
        "late": "It came after its period was closed, and took no part in the judgement.",
        "alone": "Too few other sensors are related to it to judge it.",
        "offset": "It keeps a distance from what the others let expect.",
        "drifting": "It moves away from what the others let expect, further and further.",
    }
    special = {"stuck": _stuck, "spike": _spike, "noisy": _noisy, "gain": _gain, "implausible": _implausible}
    said = special[row.reason](case) if row.reason in special else told.get(row.reason, "")
    mild = "It is in doubt, but not past the threshold, and so it is kept." if _is_mild(case) else ""
    return [text for text in (said, mild) if text]


def _is_mild(case: Case) -> bool:
    replaced = case.row.estimated or case.row.corrected
    return case.row.flag == Flag.SUSPECT and case.row.reason != "duplicate" and not replaced


def _missing(case: Case) -> str:
    if case.row.reason == "silent":
        heard = np.flatnonzero((case.own.n > 0) & (case.own.time < case.row.time))
        last = f"; its last reading before is from {when(int(case.own.time[heard[-1]]))}" if heard.size else ""
        return f"The sensor sent nothing in that whole period{last}."
    if case.row.reason == "fill":
        values = _per_variable(case.run.get("fill"), case.variable)
        known = f" ({', '.join(f'{value:g}' for value in values)})" if 0 < len(values) <= FEW else ""
        return f"What came was no number, or a value that stands for one that is missing{known}."
    return "No reading came for it, though others of the same period did."


def _per_variable(said: Any, variable: str) -> list[float]:
    """Return the numbers that run.json has for a variable, or for all of them."""
    found = said.get(variable, said.get(EVERY)) if isinstance(said, dict) else None
    return [float(value) for value in found] if isinstance(found, list) else []


def _not_evaluated(case: Case) -> str:
    if case.row.reason == "alone":
        return "Too few other sensors are related to it to judge it, so it is kept as it is."
    heard = case.own.time[case.own.n > 0]
    young = heard.size and case.row.time - heard[0] < BEFORE - DAY
    since = f" (the first reading is from {when(int(heard[0]))})" if young else ""
    return f"It was not judged: the model did not know the sensor well yet{since}, or people said to leave it alone."


def _stuck(case: Case) -> str:
    heard = np.flatnonzero(case.own.n > 0)
    values, here = case.own.value[heard], int(np.searchsorted(heard, case.place))
    same = values == case.row.value
    before = int(np.argmin(np.append(same[:here][::-1], False)))
    after = int(np.argmin(np.append(same[here:], False)))
    run = heard[here - before : here + after]
    moved = _moved(case, int(case.own.time[run[0]]), int(case.own.time[run[-1]])) if run.size else ""
    if run.size < 3:
        return f"It hardly moves{_moved(case, case.row.time - DAY // 2, case.row.time + DAY // 2)}."
    return (
        f"It stands still: {run.size} readings in a row, from {when(int(case.own.time[run[0]]))} to "
        f"{when(int(case.own.time[run[-1]]))}, are {case.number(case.row.value)}{moved}."
    )


def _moved(case: Case, start: int, end: int) -> str:
    """Say how far the others moved meanwhile."""
    told = []
    for name, rows in case.courses.items():
        values = rows.value[(rows.flag == Flag.GOOD) & (rows.time >= start) & (rows.time <= end)]
        if values.size > 1:
            told.append(f"{name} by {case.number(float(np.ptp(values)))}")
    return f"; meanwhile the others moved, {_joined(told)}" if told else ""


def _spike(case: Case) -> str:
    good = (case.own.flag == Flag.GOOD) & (np.abs(case.own.time - case.row.time) <= DAY)
    before, after = np.flatnonzero(good[: case.place]), np.flatnonzero(good[case.place + 1 :]) + case.place + 1
    near = [("before it", before[-1:]), ("after it", after[:1])]
    told = [f"{case.number(float(case.own.value[k[0]]))} {when}" for when, k in near if k.size]
    return f"It alone stands out of its hours: the sensor read {_joined(told)}." if told else "It alone stands out."


def _noisy(case: Case) -> str:
    day = (np.abs(case.own.time - case.row.time) <= DAY // 2) & (case.own.n > 0)
    jumps = np.abs(np.diff(case.own.value[day]))
    usual = np.abs(np.diff(case.usual.value[case.usual.flag == Flag.GOOD]))
    if not jumps.size or not usual.size:
        return "It scatters more than it should."
    return (
        f"It scatters: from one reading to the next it jumped by {case.number(float(jumps.mean()))} on average in the "
        f"day around, where {case.number(float(usual.mean()))} is usual for it."
    )


def _gain(case: Case) -> str:
    day = (np.abs(case.own.time - case.row.time) <= DAY // 2) & (case.own.n > 0) & np.isfinite(case.own.cleaned)
    if day.sum() < 2:
        return "Its swings are not those that the others let expect."
    read, expected = (float(np.ptp(column[day])) for column in (case.own.value, case.own.cleaned))
    return f"In the day around it swung by {case.number(read)} where {case.number(expected)} was to be expected."


def _implausible(case: Case) -> str:
    options = case.run.get("options")
    limits = _per_variable(options.get("valid") if isinstance(options, dict) else None, case.variable)
    if len(limits) == 2 and not limits[0] <= case.row.value <= limits[1]:
        return f"It is outside the limits given, {limits[0]:g} to {limits[1]:g}."
    return "It is so far from everything the network reads that it cannot be."


def _estimate(case: Case) -> list[str]:
    row = case.row
    if math.isnan(row.cleaned):
        return ["There is no estimate: nothing is known of it yet."]
    if not row.estimated and not row.corrected:
        return []
    interval = f" ({case.number(row.lower)} to {case.number(row.upper)})" if row.upper > row.lower else ""
    if row.corrected:
        return [
            f"With its fault taken out it is {case.number(row.cleaned)}{interval}, which stands in its place: that is "
            "surer than the network's estimate."
        ]
    if math.isnan(row.value):
        return [f"The network's estimate in its place is {case.number(row.cleaned)}{interval}."]
    off = row.value - row.cleaned
    side = "above" if off > 0 else "below"
    return [
        f"That is {case.number(abs(off))} {side} the network's estimate, {case.number(row.cleaned)}{interval}, "
        "which stands in its place."
    ]


def _interval(case: Case) -> list[str]:
    fault = case.fault
    if fault is None:
        return []
    score = f", score {fault.score:.1f} where 1 is the threshold" if fault.score > 0 else ""
    # A row that is final stays as it was judged; the list of faults is dated by what came later.
    whose = "Later readings showed that it belongs" if case.row.flag == Flag.GOOD else "It belongs"
    told = (
        f"{whose} to a fault ({fault.reason}{score}) of {how_long(fault.end - fault.start)}, "
        f"from {when(fault.start)} to {when(fault.end)}"
    )
    return [f"{told}: {fault.sentence}" if fault.sentence else f"{told}."]


def _testimony(case: Case) -> list[str]:
    """Say what those most like it read, and whether that fits."""
    value = case.row.value
    if not case.others and case.run.get("sensors") == 1:
        return ["There is no other sensor: only its own past could tell."]
    if not case.others:
        known = int((case.usual.flag == Flag.GOOD).sum()) >= ENOUGH
        return ["No other sensor that is like it had a good reading then." if known
                else "There are too few good readings before it to say which sensors are like it."]  # fmt: skip
    told = []
    for witness in case.others:
        text = f"{witness.sensor} read {case.number(witness.value)}, which lets expect {case.number(witness.says)} here"
        if math.isfinite(value):
            text += f", {case.number(abs(value - witness.says))} off where {case.number(witness.spread)} is usual"
        told.append(f"{text} (correlation {witness.likeness:.2f})")
    several, span = len(case.others) > 1, "before the fault" if case.fault else "before"
    like = f"The sensor{'s' if several else ''} most like it over the 30 days {span}"
    return [f"{like}{_stand(case, several)}: {'; '.join(told)}."]


def _stand(case: Case, several: bool) -> str:
    """Say which side the others are on."""
    value, many = case.row.value, len(case.others)
    if math.isnan(value):
        return ""
    against = sum(witness.contradicts(value) for witness in case.others)
    if against == many:
        return " contradict it" if several else " contradicts it"
    if against:
        return f" are divided, {against} of {many} against it"
    if case.row.flag in (Flag.FAIL, Flag.SUSPECT):
        # A sensor that stands still is right twice a day.
        return f" d{'o' if several else 'oes'} not contradict this one reading by itself"
    return " agree with it" if several else " agrees with it"


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
