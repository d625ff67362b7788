"""`score` compares a recovery with the known truth by fiber, `reading_scores` by reading.

`lasting_scores` is for faults of months, and `faults_by_kind` counts the faults put in and detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import CORRECTED, DAY, REASONS, Flag, NameIndex, Rows
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.simulate.degrade import Degraded, InjectedFault, by_day, in_time
from sensormend.simulate.network import CITY_KINDS, Network
from sensormend.tensor import unfold

__all__ = [
    "DROPPED",
    "KindCounts",
    "LastingScores",
    "ReadingScores",
    "Scores",
    "faults_by_kind",
    "lasting_scores",
    "paper_scores",
    "reading_scores",
    "recovery_of_rows",
    "score",
    "which_detected",
]

DROPPED = 10
"""Minibatches that are left out of the scores, as in the paper, since online methods start untrained."""


@dataclass(frozen=True)
class Scores:
    """One run's scores. Errors are root mean squares in the unit of the data; shares are of 1."""

    f1: float
    precision: float
    recall: float
    false_alarms: float
    missing: float
    repaired: float
    trusted: float
    re: float
    coverage_missing: float
    coverage_repaired: float


def score(recovery: Recovery, case: Degraded, *, dropped: int = DROPPED) -> Scores:
    """Score a recovery of (sensor, slot, day) readings, without the first `dropped` days."""
    days = slice(dropped, None)
    readings, truth = case.readings[..., days], case.truth[..., days]
    cleaned = recovery.cleaned[..., days]
    observed = np.isfinite(readings)
    judged = observed.any(axis=1)
    faulty, flagged = case.faulty[:, days], recovery.faulty[:, days]

    hits = int(np.sum(faulty & flagged & judged))
    false = int(np.sum(~faulty & flagged & judged))
    missed = int(np.sum(faulty & ~flagged & judged))
    sound_cells = np.broadcast_to(~faulty[:, None, :], readings.shape)
    known, error = np.isfinite(truth), cleaned - truth
    missing, sound = ~observed & sound_cells & known, observed & sound_cells & known
    repaired = (faulty & flagged & judged)[:, None, :] & known
    norm = np.sqrt(np.nansum(truth[sound_cells] ** 2))
    lost = np.sqrt(np.nansum(error[sound_cells] ** 2))

    return Scores(
        f1=_ratio(2 * hits, 2 * hits + false + missed),
        precision=_ratio(hits, hits + false),
        recall=_ratio(hits, hits + missed),
        false_alarms=_ratio(false, int(np.sum(~faulty & judged))),
        missing=_rms(error[missing]),
        repaired=_rms(error[repaired]),
        trusted=_rms(error[sound]),
        re=float(lost / norm) if norm else float("nan"),
        coverage_missing=_coverage(recovery, truth, missing),
        coverage_repaired=_coverage(recovery, truth, repaired),
    )


@dataclass(frozen=True)
class ReadingScores:
    """One run's scores by reading. Errors are root mean squares in the unit of the data; shares are of 1.

    Attributes
    ----------
    f1, precision, recall
        Of the readings judged wrong.
    sound_flagged
        The share of the sound readings that were judged wrong.
    error_wrong, error_sound, error_missing
        Errors of `cleaned` at the wrong readings, judged so or not, at the sound ones, and at missing ones.
    error_missing_sound
        The error of `cleaned` at missing readings outside faults.
    detected_short, detected_middle, detected_long
        The share of the faults under 12 h, of 12 to 48 h, and longer ones, of which any reading was judged wrong.
    coverage_missing, coverage_wrong
        The share of the truth inside the interval: at missing readings outside faults, and at the wrong readings that
        were judged so.
    """

    f1: float
    precision: float
    recall: float
    sound_flagged: float
    error_wrong: float
    error_sound: float
    error_missing: float
    error_missing_sound: float
    detected_short: float
    detected_middle: float
    detected_long: float
    coverage_missing: float
    coverage_wrong: float


SHORT, LONG = 12.0, 48.0
"""Hours: faults shorter than the first are short, longer than the second long."""


def reading_scores(
    recovery: Recovery,
    case: Degraded,
    *,
    dropped: int = DROPPED,
    unscored: Sequence[int] = (),
    with_doubtful: bool = False,
) -> ReadingScores:
    """Score a recovery of (sensor, slot, day) readings by reading, `Recovery.wrong` against `Degraded.wrong`.

    The first `dropped` days are left out, and so are the sensors `unscored`, whose truth is known to be wrong. With
    `with_doubtful`, doubtful readings count as judged wrong: for one or two sensors, judged by their own past, this is
    the strongest verdict.
    """
    if with_doubtful:
        recovery = replace(recovery, wrong=recovery.wrong | recovery.doubtful)
    recovery, case = _scored(recovery, case, unscored)
    days = slice(dropped, None)
    readings, truth, wrong = case.readings[..., days], case.truth[..., days], case.wrong[..., days]
    observed, flagged = np.isfinite(readings), recovery.wrong[..., days]
    hits = int(np.sum(observed & wrong & flagged))
    false = int(np.sum(observed & ~wrong & flagged))
    missed = int(np.sum(observed & wrong & ~flagged))
    known, error = np.isfinite(truth), recovery.cleaned[..., days] - truth
    hours = 24 / readings.shape[1]
    outcomes = [(hours * fault.length, hit) for fault, hit in which_detected(recovery, case, dropped=dropped)]

    def detected(least: float, most: float) -> float:
        judged = [hit for length, hit in outcomes if least <= length <= most]
        return _ratio(sum(judged), len(judged))

    return ReadingScores(
        f1=_ratio(2 * hits, 2 * hits + false + missed),
        precision=_ratio(hits, hits + false),
        recall=_ratio(hits, hits + missed),
        sound_flagged=_ratio(false, int(np.sum(observed & ~wrong))),
        error_wrong=_rms(error[observed & wrong & known]),
        error_sound=_rms(error[observed & ~wrong & known]),
        error_missing=_rms(error[~observed & known]),
        error_missing_sound=_rms(error[~observed & ~wrong & known]),
        detected_short=detected(0, np.nextafter(SHORT, 0)),
        detected_middle=detected(SHORT, LONG),
        detected_long=detected(np.nextafter(LONG, np.inf), np.inf),
        coverage_missing=_coverage(recovery, truth, ~observed & ~wrong & known),
        coverage_wrong=_coverage(recovery, truth, observed & wrong & flagged & known),
    )


@dataclass(frozen=True)
class LastingScores:
    """One run's scores where sensors are wrong for months. A reading is flagged where it is wrong or doubtful.

    Attributes
    ----------
    precision, recall
        Of the flagged readings.
    error_wrong, error_raw
        Root mean square errors of `cleaned` at the wrong readings, flagged or not, and of those readings themselves.
    error_sound
        The error of `cleaned` at the sound readings.
    sound_flagged, sound_wrong
        The share of the sound readings that are flagged, and that are judged wrong.
    after_flagged
        The share of the readings of the ten days after a fault that are flagged.
    coverage_wrong
        The share of the truth inside the interval, at the wrong readings that are flagged.
    false_lasting
        Faults reported for 14 days or more of sensors that have none, in ten sensor-years.
    """

    precision: float
    recall: float
    error_wrong: float
    error_raw: float
    error_sound: float
    sound_flagged: float
    sound_wrong: float
    after_flagged: float
    coverage_wrong: float
    false_lasting: float


LASTING, AFTER = 14, 10
"""The minimum number of days of a reported fault that counts as lasting, and the days after a fault that are scored
separately."""


def lasting_scores(
    recovery: Recovery, case: Degraded, *, dropped: int = DROPPED, unscored: Sequence[int] = ()
) -> LastingScores:
    """Score a recovery of (sensor, slot, day) readings of which some sensors are wrong for months.

    The first `dropped` days are left out, and so are the sensors `unscored`. The sensors have no labels: a reported
    fault has the row of its sensor.
    """
    _, slots, all_days = case.readings.shape
    scored = np.setdiff1d(np.arange(case.readings.shape[0]), unscored)
    spoilt = {fault.sensor for fault in case.faults}
    sound_sensors = {int(row) for row in scored if row not in spoilt}
    reported = 0
    for fault in recovery.faults:
        end = all_days * slots - 1 if fault.end is None else fault.end
        lasts = end + 1 - max(fault.start, dropped * slots) >= LASTING * slots
        reported += lasts and fault.sensor in sound_sensors
    sensor_years = len(sound_sensors) * (all_days - dropped) / 365.25

    recovery, case = _scored(recovery, case, unscored)
    after = np.zeros((scored.size, all_days * slots), dtype=bool)
    for injected in case.faults:
        after[injected.sensor, injected.stop : injected.stop + AFTER * slots] = True
    days = slice(dropped, None)
    truth, wrong = case.truth[..., days], case.wrong[..., days]
    after_faults = by_day(after, case.readings.shape)[..., days] & ~wrong
    observed, known = np.isfinite(case.readings[..., days]), np.isfinite(truth)
    judged_wrong = recovery.wrong[..., days]
    flagged = judged_wrong | recovery.doubtful[..., days]
    error = recovery.cleaned[..., days] - truth
    hits, sound = observed & wrong & flagged, observed & ~wrong

    def share(part: BoolArray, whole: BoolArray) -> float:
        return _ratio(int(np.sum(part & whole)), int(np.sum(whole)))

    return LastingScores(
        precision=share(hits, observed & flagged),
        recall=share(hits, observed & wrong),
        error_wrong=_rms(error[observed & wrong & known]),
        error_raw=_rms((case.readings[..., days] - truth)[observed & wrong & known]),
        error_sound=_rms(error[sound & known]),
        sound_flagged=share(flagged, sound),
        sound_wrong=share(judged_wrong, sound),
        after_flagged=share(flagged, observed & after_faults),
        coverage_wrong=_coverage(recovery, truth, hits & known),
        false_lasting=10 * reported / sensor_years if sensor_years > 0 else float("nan"),
    )


def which_detected(recovery: Recovery, case: Degraded, *, dropped: int = DROPPED) -> list[tuple[InjectedFault, bool]]:
    """Return the faults that have a reading after the first `dropped` days, each with whether one was judged wrong."""
    later = np.arange(case.readings.shape[2]) >= dropped
    observed, flagged = (in_time(cells & later) for cells in (np.isfinite(case.readings), recovery.wrong))
    spans = [(fault, (fault.sensor, slice(fault.start, fault.stop))) for fault in case.faults]
    return [(fault, bool((observed & flagged)[span].any())) for fault, span in spans if observed[span].any()]


@dataclass(frozen=True)
class KindCounts:
    """How many faults of one kind were put in and detected, and how many of their sensor-days."""

    kind: str
    put_in: int
    detected: int
    days: int
    days_detected: int

    @property
    def missed(self) -> int:
        """The number of faults that were not detected."""
        return self.put_in - self.detected


def recovery_of_rows(rows: Rows, network: Network) -> Recovery:
    """Return the rows of a network's readings as the `Recovery` of a method.

    Cells without a row, before the first reading of a sensor, are NaN.
    """
    shape = network.readings.shape
    sensor = NameIndex(network.sensors).codes(rows.sensors, rows.sensor)
    slot = (rows.time - int(network.times[0, 0].astype("datetime64[us]").astype(np.int64))) // (DAY // shape[1])
    simulated = slot < shape[1] * shape[2]
    cells = sensor[simulated], slot[simulated] % shape[1], slot[simulated] // shape[1]

    def laid_out(column: NDArray[Any], empty: float) -> NDArray[Any]:
        table = np.full(shape, empty, dtype=column.dtype)
        table[cells] = column[simulated]
        return table

    flag, reason = laid_out(rows.flag, Flag.MISSING), laid_out(rows.reason, 0)
    cleaned = laid_out(rows.cleaned, np.nan)
    wrong, spikes = flag == Flag.FAIL, (flag == Flag.FAIL) & (reason == REASONS.index("spike"))
    # A third of a day's readings, as for `Recovery.faulty`.
    faulty = wrong.any(axis=1) & (3 * wrong.sum(axis=1) >= np.isfinite(network.readings).sum(axis=1))
    counts = np.stack([(wrong & (reason == code)).sum(axis=1) for code in range(len(REASONS))])
    why = np.array(REASONS)[counts.argmax(axis=0)]
    return Recovery(
        expected=cleaned,
        outliers=np.where(wrong, network.readings - cleaned, 0.0),
        wrong=wrong,
        doubtful=flag == Flag.SUSPECT,
        spikes=spikes,
        corrected=laid_out(rows.origin, 0) == CORRECTED,
        cleaned=cleaned,
        lower=laid_out(rows.lower, np.nan),
        upper=laid_out(rows.upper, np.nan),
        faulty=faulty,
        suspect=(flag == Flag.SUSPECT).any(axis=1) & ~faulty,
        evaluated=~(flag == Flag.NOT_EVALUATED).any(axis=1),
        score=faulty.astype(np.float64),
        reason=np.where(wrong.any(axis=1), why, ""),
        faults=(),
        iterations=0,
    )


def faults_by_kind(network: Network, recovery: Recovery, *, dropped: int = DROPPED) -> list[KindCounts]:
    """Count, kind by kind, the faults put in after the first `dropped` days and those detected.

    A fault counts if it has at least one reading. It is detected if one of its readings is judged wrong.
    """
    scored = np.arange(network.readings.shape[2]) >= dropped
    observed = np.isfinite(network.readings) & network.wrong & scored
    caught = observed & recovery.wrong
    observed_series, caught_series = in_time(observed), in_time(caught)
    rows = []
    for kind in CITY_KINDS:
        spans = [(fault.sensor, slice(fault.start, fault.stop)) for fault in network.faults if fault.kind == kind]
        spans = [span for span in spans if observed_series[span].any()]
        days = observed.any(axis=1) & (network.kind == kind)
        rows.append(
            KindCounts(
                kind,
                put_in=len(spans),
                detected=sum(bool(caught_series[span].any()) for span in spans),
                days=int(days.sum()),
                days_detected=int((days & caught.any(axis=1)).sum()),
            )
        )
    spikes = network.spikes & scored
    put_in, detected = int(spikes.sum()), int((spikes & recovery.wrong).sum())
    return [*rows, KindCounts("spike", put_in, detected, put_in, detected)]


def paper_scores(recovery: Recovery, case: Degraded, *, dropped: int, unscored: Sequence[int] = ()) -> dict[str, float]:
    """Score a recovery of (sensor, slot, period) readings with everything that the paper's tables need.

    `re` takes `expected` with the truly faulty fibers zeroed, and Frobenius norms. `re_text` is the paper's text: the
    estimate is zeroed on the fibers that the method flagged, the truth on those that are faulty. `re_code` is the
    authors' code: as `re`, with spectral norms of the first unfolding. `f1_best` is what the best threshold on the
    method's own score would reach: an oracle. `faulty` is the error of `cleaned` in all faulty fibers, found or not.
    Cells whose truth is not known count for nothing, and neither do the sensors `unscored`. Without faults there is no
    F1.
    """
    recovery, case = _scored(recovery, case, unscored)
    usual = asdict(score(recovery, case, dropped=dropped))
    usual |= {"re_cleaned": usual["re"], "false_alarms": 100 * usual["false_alarms"]}
    if not case.faulty[:, dropped:].any():
        usual |= dict.fromkeys(("f1", "precision", "recall"), float("nan"))
    periods = slice(dropped, None)
    truth, estimate = case.truth[..., periods], recovery.expected[..., periods]
    cleaned = recovery.cleaned[..., periods]
    judged = np.isfinite(case.readings[..., periods]).any(axis=1)
    faulty, flagged = case.faulty[:, periods], recovery.faulty[:, periods]
    cells = np.broadcast_to(faulty[:, None, :], truth.shape)
    known = np.isfinite(truth)
    sound = np.where(cells | ~known, 0.0, truth)
    truly_sound = np.where(cells | ~known, 0.0, estimate)
    judged_sound = np.where(flagged[:, None, :] | ~known, 0.0, estimate)
    best, threshold = _best(recovery.score[:, periods][judged], faulty[judged])
    return usual | {
        "re": _relative(truly_sound, sound),
        "re_text": _relative(judged_sound, sound),
        "re_code": _relative(unfold(truly_sound, 0), unfold(sound, 0), order=2),
        "f1_best": best,
        "threshold_best": threshold,
        "faulty": _rms((cleaned - truth)[cells & known]),
        "iterations": float(recovery.iterations),
    }


def _scored(recovery: Recovery, case: Degraded, unscored: Sequence[int]) -> tuple[Recovery, Degraded]:
    """Return both without the sensors `unscored`."""
    if not unscored:
        return recovery, case
    rows = np.setdiff1d(np.arange(case.truth.shape[0]), unscored)
    return recovery.of_sensors(rows), case.of_sensors(rows)


def _relative(estimate: FloatArray, truth: FloatArray, order: int | None = None) -> float:
    """Return the norm of the error relative to that of the truth; NaN in the estimate counts as 0."""
    known = np.nan_to_num(estimate)
    size = float(np.linalg.norm(truth if order else truth.reshape(-1), order))
    lost = known - truth
    return float(np.linalg.norm(lost if order else lost.reshape(-1), order)) / size if size else float("nan")


def _best(scores: FloatArray, faulty: BoolArray) -> tuple[float, float]:
    """Return the best F1 that any threshold on the scores reaches, and that threshold."""
    total = int(faulty.sum())
    if not total:
        return float("nan"), float("nan")
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(faulty[order])
    f1 = 2 * hits / (np.arange(1, ranked.size + 1) + total)
    # A threshold cannot separate fibers of equal score.
    last = np.append(ranked[1:] != ranked[:-1], True)
    best = int(np.argmax(np.where(last, f1, -1.0)))
    return float(f1[best]), float(ranked[best])


def _coverage(recovery: Recovery, truth: FloatArray, cells: BoolArray) -> float:
    """Return the share of the truth inside the interval at some cells of the last days, as many as `truth` has."""
    if recovery.lower is None or recovery.upper is None or not cells.any():
        return float("nan")
    days = slice(recovery.lower.shape[-1] - truth.shape[-1], None)
    inside = (recovery.lower[..., days] <= truth) & (truth <= recovery.upper[..., days])
    return float(inside[cells].mean())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _rms(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(errors**2))) if errors.size else float("nan")
