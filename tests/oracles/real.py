"""Readings and labels compared one after the other, the oracle of `archives.judging`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

__all__ = ["Reading", "agreement", "changes", "distances", "events", "impossible", "shares"]

WRONG = ("bad", "corrected", "maintenance")
FLAGGED = (4, 9)


@dataclass(frozen=True)
class Reading:
    """A reading with its label and what was made of it; flag 0 and cleaned None where it has no row."""

    sensor: str
    variable: str
    value: float
    label: str
    corrected: float | None
    flag: int
    cleaned: float | None


def channel(reading: Reading) -> tuple[str, str]:
    return reading.sensor, reading.variable


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def quantile(values: list[float], share: float) -> float:
    """Interpolate between the two values next to a share of the way from the lowest to the highest."""
    ordered = sorted(values)
    exact = share * (len(ordered) - 1)
    below = int(exact)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (exact - below) * (ordered[above] - ordered[below])


def events(readings: list[Reading]) -> tuple[list[list[Reading]], list[list[Reading]]]:
    """Return the runs of readings with wrong labels and the runs of flagged ones, by channel, of scored readings."""
    scored = [reading for reading in readings if reading.label in ("", *WRONG)]
    labelled, flagged = [], []
    for _, members in groupby(scored, key=channel):
        series = list(members)
        labelled += [list(run) for wrong, run in groupby(series, key=lambda one: one.label in WRONG) if wrong]
        flagged += [list(run) for wrong, run in groupby(series, key=lambda one: one.flag in FLAGGED) if wrong]
    return labelled, flagged


def agreement(readings: list[Reading]) -> dict[str, float]:
    right = missed = false = sound = 0
    for reading in readings:
        if reading.label in WRONG:
            right += reading.flag in FLAGGED
            missed += reading.flag not in FLAGGED
        elif reading.label == "":
            false += reading.flag in FLAGGED
            sound += reading.flag not in FLAGGED
    labelled, flagged = events(readings)
    touched = sum(any(one.flag in FLAGGED for one in run) for run in labelled)
    confirmed = sum(any(one.label in WRONG for one in run) for run in flagged)
    return {
        "precision": ratio(right, right + false),
        "recall": ratio(right, right + missed),
        "labelled": ratio(right + missed, right + missed + false + sound),
        "event_precision": ratio(confirmed, len(flagged)),
        "flagged_events": len(flagged),
        "event_recall": ratio(touched, len(labelled)),
        "labelled_events": len(labelled),
    }


def shares(readings: list[Reading]) -> tuple[float, float]:
    """Return the shares with flag 4 and with flag 3: of good readings, or of all where no label is wrong."""
    if any(reading.label in WRONG for reading in readings):
        good = [reading for reading in readings if reading.label == ""]
        with_row = [reading for reading in good if reading.flag]
    else:
        good = with_row = [reading for reading in readings if reading.label not in ("event", "pair")]
    flagged = sum(reading.flag in FLAGGED for reading in good)
    return ratio(flagged, len(good)), ratio(sum(reading.flag == 3 for reading in with_row), len(with_row))


def changes(readings: list[Reading], least: int) -> dict[tuple[str, str], float]:
    """Return the change of each series with more than `least` readings; NaN where it has no size to compare with."""
    result = {}
    for names, members in groupby(readings, key=channel):
        pairs = [(one.value, one.cleaned) for one in members if one.label not in WRONG and one.cleaned is not None]
        if len(pairs) <= least:
            continue
        raw, cleaned = [value for value, _ in pairs], [value for _, value in pairs]
        if min(raw) >= 0:
            result[names] = sum(cleaned) / sum(raw) - 1 if sum(raw) else float("nan")
        else:
            spread = quantile(raw, 0.95) - quantile(raw, 0.05)
            result[names] = (fmean(cleaned) - fmean(raw)) / spread if spread else float("nan")
    return result


def distances(readings: list[Reading]) -> dict[str, tuple[float, float, int]]:
    """Return the distances of raw and cleaned values from the owners', and the number of readings, by group."""
    spreads = {}
    for names, members in groupby(readings, key=channel):
        good = [one.value for one in members if one.label == ""]
        if good:
            spreads[names] = quantile(good, 0.95) - quantile(good, 0.05)
    groups: dict[str, list[tuple[float, float] | None]] = {"all": [], "flag 4": [], "wrong readings": []}
    for one in readings:
        truth = one.corrected if one.corrected is not None else one.value if one.label == "" else None
        if truth is None or one.cleaned is None or channel(one) not in spreads:
            continue
        spread = spreads[channel(one)]
        pair = (abs(one.value - truth) / spread, abs(one.cleaned - truth) / spread) if spread else None
        groups["all"].append(pair)
        if one.flag == 4:
            groups["flag 4"].append(pair)
        if pair is not None and pair[0] > 1e-6:
            groups["wrong readings"].append(pair)
    result = {}
    for name, pairs in groups.items():
        known = [pair for pair in pairs if pair is not None]
        if known:
            result[name] = fmean(raw for raw, _ in known), fmean(cleaned for _, cleaned in known), len(pairs)
    return result


def impossible(readings: list[Reading], estimates: list[tuple[str, float]]) -> dict[str, tuple[int, float, float]]:
    """Return the number of estimates that cannot be, the lowest and the highest, by variable."""
    labelled = any(reading.label == "" for reading in readings)
    result: dict[str, list[float]] = {}
    for variable, estimate in estimates:
        sound = [
            one.value for one in readings
            if one.variable == variable and (one.label == "" if labelled else one.flag == 1)
        ]  # fmt: skip
        if not sound:
            continue
        low, high = min(sound), max(sound)
        too_low = estimate < low - 0.1 * (high - low) or (low >= 0 and estimate < 0)
        too_high = estimate > high + 0.1 * (high - low)
        if variable.lower().startswith("rh") or "humid" in variable.lower():
            too_high = too_high or (quantile(sound, 0.999) <= 100 < estimate)
        if too_low or too_high:
            result.setdefault(variable, []).append(estimate)
    return {name: (len(values), min(values), max(values)) for name, values in result.items()}
