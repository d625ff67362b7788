"""Scores by reading and delays of alarms, beside the same counted one reading at a time."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from sensormend.bench.fault_bench import alarms_by_slot, delays, latency_scores
from sensormend.recovery import Fault, Recovery
from sensormend.simulate.degrade import Case, Degraded, InjectedFault, degrade
from sensormend.simulate.scores import lasting_scores, reading_scores, which_detected

SENSORS, SLOTS, DAYS = 5, 6, 14
"""Slots of four hours: a fault of three of them is not short."""


def judged(readings: NDArray[np.float64], wrong: NDArray[np.bool_], faults: tuple[Fault, ...] = ()) -> Recovery:
    """Return a recovery that judges these readings wrong, and is off by 0.3 in all it estimates."""
    estimate = np.full(readings.shape, 0.3)
    cleaned = np.where(np.isfinite(readings) & ~wrong, readings, estimate)
    fibers = np.zeros((readings.shape[0], *readings.shape[2:]))
    nothing = np.zeros(readings.shape, dtype=bool)
    return Recovery(
        expected=estimate, outliers=np.where(wrong, readings - estimate, 0.0), wrong=wrong, doubtful=nothing,
        spikes=nothing, corrected=nothing, cleaned=cleaned, lower=cleaned - 1, upper=cleaned + 1,
        faulty=fibers > 0, suspect=fibers > 0,
        evaluated=fibers == 0, score=fibers, reason=np.full(fibers.shape, ""), faults=faults, iterations=1,
    )  # fmt: skip


def drawn(seed: int) -> tuple[Recovery, Degraded]:
    """Draw a case of faults at any slot, and verdicts that are often right."""
    random = np.random.default_rng(seed)
    case = degrade(random.normal(0, 1, (SENSORS, SLOTS, DAYS)), Case("mix", 0.2, 0.7, hourly=True), seed)
    wrong = np.isfinite(case.readings) & np.where(random.random(case.wrong.shape) < 0.7, case.wrong, ~case.wrong)
    return judged(case.readings, wrong), case


def root_mean_square(errors: list[float]) -> float:
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else math.nan


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits) if hits else math.nan


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_scores_by_reading_against_counting_them(seed: int, dropped: int) -> None:
    recovery, case = drawn(seed)
    assert recovery.lower is not None
    assert recovery.upper is not None
    hits, false, missed, sound_readings = 0, 0, 0, 0
    wrong, sound, missing, missing_sound = [], [], [], []
    inside_missing, inside_wrong = [], []
    for sensor in range(SENSORS):
        for day in range(dropped, DAYS):
            for slot in range(SLOTS):
                at = sensor, slot, day
                error = recovery.cleaned[at] - case.truth[at]
                inside = bool(recovery.lower[at] <= case.truth[at] <= recovery.upper[at])
                if np.isnan(case.readings[at]):
                    missing.append(error)
                    if not case.wrong[at]:
                        missing_sound.append(error)
                        inside_missing.append(inside)
                elif case.wrong[at]:
                    wrong.append(error)
                    hits += recovery.wrong[at]
                    missed += not recovery.wrong[at]
                    if recovery.wrong[at]:
                        inside_wrong.append(inside)
                else:
                    sound.append(error)
                    sound_readings += 1
                    false += recovery.wrong[at]
    detected: dict[str, list[bool]] = {"short": [], "middle": [], "long": []}
    for fault in case.faults:
        cells = [(fault.sensor, slot % SLOTS, slot // SLOTS) for slot in range(fault.start, fault.stop)]
        cells = [cell for cell in cells if cell[2] >= dropped and np.isfinite(case.readings[cell])]
        if cells:
            hours = 4 * (fault.stop - fault.start)
            length = "short" if hours < 12 else "long" if hours > 48 else "middle"
            detected[length].append(any(recovery.wrong[cell] for cell in cells))
    result = asdict(reading_scores(recovery, case, dropped=dropped))
    precision, recall = hits / (hits + false), hits / (hits + missed)
    expected = {
        "f1": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall,
        "sound_flagged": false / sound_readings, "error_wrong": root_mean_square(wrong),
        "error_sound": root_mean_square(sound), "error_missing": root_mean_square(missing),
        "error_missing_sound": root_mean_square(missing_sound),
        "coverage_missing": share(inside_missing), "coverage_wrong": share(inside_wrong),
        **{f"detected_{name}": share(hit) for name, hit in detected.items()},
    }  # fmt: skip
    assert result == pytest.approx(expected, nan_ok=True)


def test_doubtful_readings_count_where_they_are_asked_for() -> None:
    recovery, case = drawn(2)
    doubtful = recovery.wrong & (np.random.default_rng(2).random(recovery.wrong.shape) < 0.5)
    parted = replace(recovery, wrong=recovery.wrong & ~doubtful, doubtful=doubtful)
    both = asdict(reading_scores(parted, case, dropped=0, with_doubtful=True))
    assert both == pytest.approx(asdict(reading_scores(recovery, case, dropped=0)), nan_ok=True)
    assert reading_scores(parted, case, dropped=0).recall < both["recall"]


@given(st.integers(0, 10**6), st.integers(0, 30))
def test_lasting_scores_against_counting_readings(seed: int, dropped: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.normal(0, 1, (8, SLOTS, 175))
    case = degrade(truth, Case("offset", share=0.25, observed=0.8, lasting=20.0), seed)
    wrong = np.isfinite(case.readings) & np.where(random.random(case.wrong.shape) < 0.9, case.wrong, ~case.wrong)
    doubtful = wrong & (random.random(wrong.shape) < 0.3)
    recovery = replace(judged(case.readings, wrong & ~doubtful), doubtful=doubtful)
    assert recovery.lower is not None
    assert recovery.upper is not None
    hits, missed, false, false_wrong, sound_readings = 0, 0, 0, 0, 0
    after, inside = [], []
    errors: dict[str, list[float]] = {"wrong": [], "raw": [], "sound": []}
    for sensor in range(8):
        stops = [fault.stop for fault in case.faults if fault.sensor == sensor]
        for day in range(dropped, 175):
            for slot in range(SLOTS):
                at = sensor, slot, day
                if np.isnan(case.readings[at]):
                    continue
                error = recovery.cleaned[at] - truth[at]
                if case.wrong[at]:
                    hits += wrong[at]
                    missed += not wrong[at]
                    errors["wrong"].append(error)
                    errors["raw"].append(case.readings[at] - truth[at])
                    if wrong[at]:
                        inside.append(bool(recovery.lower[at] <= truth[at] <= recovery.upper[at]))
                else:
                    sound_readings += 1
                    false += wrong[at]
                    false_wrong += recovery.wrong[at]
                    errors["sound"].append(error)
                    if any(0 <= day * SLOTS + slot - stop < 10 * SLOTS for stop in stops):
                        after.append(bool(wrong[at]))
    assert len(after) > 50, "both faults end before the data does"
    result = asdict(lasting_scores(recovery, case, dropped=dropped))
    assert result == pytest.approx({
        "precision": hits / (hits + false), "recall": hits / (hits + missed),
        **{f"error_{name}": root_mean_square(values) for name, values in errors.items()},
        "sound_flagged": false / sound_readings, "sound_wrong": false_wrong / sound_readings,
        "after_flagged": share(after), "coverage_wrong": share(inside), "false_lasting": 0.0,
    })  # fmt: skip
    assert result["error_raw"] == pytest.approx(20 * case.truth.std() / 11.5)


def test_false_lasting_faults_are_those_of_two_weeks_and_more_on_sensors_without_one() -> None:
    case = degrade(np.zeros((4, SLOTS, 175)), Case("offset", share=0.25, lasting=3.0), 0)
    (injected,) = case.faults
    sound = [sensor for sensor in range(4) if sensor != injected.sensor]

    def reported(number: int, sensor: int, start: int, end: int | None) -> Fault:
        return Fault(number, sensor, 0, "offset", start, end, 1.0, 0.0, 0.99)

    first = 100 * SLOTS
    faults = (
        reported(1, injected.sensor, injected.start, None),  # there is one
        reported(2, sound[0], first, first + 14 * SLOTS - 1),  # two weeks
        reported(3, sound[0], first, first + 14 * SLOTS - 2),  # a slot less
        reported(4, sound[1], 161 * SLOTS, None),  # open for two weeks at the end
        reported(5, sound[1], 162 * SLOTS, None),
        reported(6, sound[2], 0, 23 * SLOTS),  # less than two weeks after the days that are dropped
    )
    recovery = judged(case.readings, np.zeros(case.readings.shape, dtype=bool), faults)
    years = 3 * (175 - 10) / 365.25
    assert lasting_scores(recovery, case, dropped=10).false_lasting == pytest.approx(2 / years * 10)
    alone = lasting_scores(recovery, case, dropped=10, unscored=(sound[0],))
    assert alone.false_lasting == pytest.approx(1 / (years * 2 / 3) * 10)


def test_unscored_sensors_count_for_nothing() -> None:
    recovery, case = drawn(1)
    rows = np.array([0, 2, 4])
    alone = reading_scores(recovery.of_sensors(rows), case.of_sensors(rows), dropped=0)
    assert asdict(reading_scores(recovery, case, dropped=0, unscored=(1, 3))) == pytest.approx(
        asdict(alone), nan_ok=True
    )


def test_a_fault_without_a_reading_cannot_be_detected() -> None:
    readings = np.zeros((1, SLOTS, 2))
    readings[0, :, 1] = np.nan
    case = Degraded(
        readings, np.zeros_like(readings), np.zeros(readings.shape, dtype=bool), np.zeros((1, 2), dtype=bool),
        np.full((1, 2), ""), (InjectedFault(0, "offset", 2, 5), InjectedFault(0, "offset", SLOTS, 2 * SLOTS)),
    )  # fmt: skip
    recovery = judged(readings, np.isfinite(readings))
    assert which_detected(recovery, case, dropped=0) == [(case.faults[0], True)]
    assert which_detected(recovery, case, dropped=1) == []


def test_methods_without_an_interval_have_no_coverage() -> None:
    recovery, case = drawn(3)
    bare = Recovery(**{**vars(recovery), "lower": None, "upper": None})
    result = reading_scores(bare, case, dropped=0)
    assert np.isnan([result.coverage_missing, result.coverage_wrong]).all()


class Scripted:
    """A model that calls every reading above a limit wrong, and has open faults at the slots it is given."""

    def __init__(self, opens: dict[int, set[int]], limit: float = 4.0) -> None:
        self.opens, self.limit, self.day = opens, limit, 0
        self.asked: list[tuple[int, int]] = []

    def update(self, minibatch: ArrayLike) -> Recovery:
        self.day += 1
        return self.estimate(minibatch)

    def estimate(self, minibatch: ArrayLike) -> Recovery:
        readings = np.asarray(minibatch)
        seen = int(np.isfinite(readings).any(axis=0).nonzero()[0].max())
        now = self.day * SLOTS + seen
        self.asked.append((self.day, seen))
        faults = tuple(
            Fault(sensor, sensor, 0, "offset", 0, None if now in self.opens.get(sensor, ()) else 0, 1.0, 0.0, 1.0)
            for sensor in range(len(readings))
        )
        return judged(readings, readings > self.limit, faults)


def test_alarms_come_from_open_faults_and_from_the_newest_reading_only() -> None:
    readings = np.zeros((3, SLOTS, 4))
    readings[0, 2, 2] = 9.0
    readings[0, 3, 2] = np.nan
    readings[0, 5, 1] = 9.0
    case = Degraded.by_day(readings, np.zeros_like(readings), np.full((3, 4), ""))
    model = Scripted({1: {2 * SLOTS + 4, 1}, 2: {3 * SLOTS}})
    alarms = alarms_by_slot(model, case, first=2)
    # The wrong reading of sensor 0 is its newest one for one more slot; what was before day 2 was not asked for.
    assert {tuple(at) for at in np.argwhere(alarms).tolist()} == {(0, 2, 2), (0, 3, 2), (1, 4, 2), (2, 0, 3)}
    assert [day for day, _ in model.asked].count(2) == SLOTS + 1, "after each slot, and the update of the day before"


def test_delays_by_hand() -> None:
    readings = np.zeros((4, 24, 5))
    readings[1, 0:2, 3] = np.nan
    faults = (
        InjectedFault(0, "offset", 72, 78),  # six hours, alarm at its third reading
        InjectedFault(0, "offset", 20, 90),  # began before the first day asked
        InjectedFault(1, "offset", 72, 100),  # its first two readings are missing
        InjectedFault(2, "offset", 72, 77),  # five hours only
        InjectedFault(3, "offset", 80, 90),  # the alarm comes when it is over
    )
    wrong = np.zeros((4, 120), dtype=bool)
    for fault in faults[:1] + faults[2:]:
        wrong[fault.sensor, fault.start : fault.stop] = True
    raised = np.zeros((4, 120), dtype=bool)
    raised[0, [60, 74, 75, 79]] = raised[1, [72, 98]] = raised[3, 90] = True
    inside, alarms = (np.moveaxis(cells.reshape(4, 5, 24), 1, 2) for cells in (wrong, raised))
    case = Degraded(readings, readings, inside, np.any(inside, axis=1), np.full((4, 5), ""), faults)
    assert delays(alarms, case, first=3) == [2.0, 24.0, np.inf]
    result = latency_scores(alarms, case, first=3)
    assert result.faults == 3
    assert result.never == pytest.approx(1 / 3)
    assert (result.within_3, result.within_6, result.within_24) == pytest.approx((1 / 3, 1 / 3, 2 / 3))
    # From day 3 on 192 sensor-hours, 49 in faults; alarms outside faults are those at 79 and 90.
    assert result.false_alarms == pytest.approx(2 / (192 - 6 - 28 - 5 - 10))
    alone = latency_scores(alarms, case, first=3, unscored=(0, 1, 2))
    assert (alone.faults, alone.never) == (1, 1.0)
