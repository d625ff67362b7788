"""Scores of an example small enough to do by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.model.network_model import NetworkModel
from sensormend.pipeline.cleaner import Cleaner
from sensormend.readings import DAY, Rows
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.simulate.degrade import Degraded
from sensormend.simulate.network import Network, city
from sensormend.simulate.scores import faults_by_kind, paper_scores, recovery_of_rows, score
from simulated_city import HOURLY, tensor_readings


def best_threshold(scores: FloatArray, faulty: BoolArray) -> float:
    """The best F1 that flagging everything at or above some score reaches, by trying every score."""
    best = 0.0
    for threshold in set(scores.tolist()):
        flagged = scores >= threshold
        hits = int(np.sum(flagged & faulty))
        best = max(best, 2 * hits / (int(flagged.sum()) + int(faulty.sum())))
    return best


def example() -> tuple[Recovery, Degraded]:
    """Two sensors, two slots, three days.

    Sensor 0 is faulty on days 0 and 1, sensor 1 never. Flagged are (0, 0), a hit, and (1, 1), a false alarm;
    (0, 1) is missed. Sensor 1 has no reading in slot 0 of day 2, and sensor 0 none at all on day 2.
    """
    truth = np.full((2, 2, 3), 10.0)
    readings = truth.copy()
    readings[0, :, 0], readings[0, :, 1] = 50.0, 60.0
    readings[1, 0, 2] = np.nan
    readings[0, :, 2] = np.nan
    faulty = np.array([[True, True, False], [False, False, False]])
    flagged = np.array([[True, False, True], [False, True, False]])
    cleaned = readings.copy()
    cleaned[0, :, 0] = 11.0, 13.0
    cleaned[1, :, 1] = 9.0, 10.0
    cleaned[1, 0, 2] = 12.0
    cleaned[0, :, 2] = 10.0
    recovery = Recovery(
        expected=cleaned,
        outliers=np.zeros(truth.shape),
        wrong=np.isfinite(readings) & flagged[:, None, :],
        doubtful=np.zeros(truth.shape, dtype=bool),
        spikes=np.zeros(truth.shape, dtype=bool),
        corrected=np.zeros(truth.shape, dtype=bool),
        cleaned=cleaned,
        lower=cleaned - 1.5,
        upper=cleaned + 1.5,
        faulty=flagged,
        suspect=np.zeros((2, 3), dtype=bool),
        evaluated=np.ones((2, 3), dtype=bool),
        score=np.ones((2, 3)),
        reason=np.full((2, 3), ""),
        faults=(),
        iterations=1,
    )
    kind = np.where(faulty, "offset", "")
    return recovery, Degraded.by_day(readings, truth, kind)


def test_scores_by_hand() -> None:
    result = score(*example(), dropped=0)
    # (0, 2) is flagged but has no reading: it is neither a hit nor a false alarm.
    assert result.precision == pytest.approx(1 / 2)
    assert result.recall == pytest.approx(1 / 2)
    assert result.f1 == pytest.approx(1 / 2)
    assert result.false_alarms == pytest.approx(1 / 3)
    # Missing in sound fibers: off by 2, 0, 0. Found fiber: by 1 and 3. Sound readings: off by 1 once in 5.
    assert result.missing == pytest.approx(np.sqrt(4 / 3))
    assert result.repaired == pytest.approx(np.sqrt(5))
    assert result.trusted == pytest.approx(np.sqrt(1 / 5))
    assert result.re == pytest.approx(np.sqrt(5) / np.sqrt(8 * 100))
    assert result.coverage_missing == pytest.approx(2 / 3)
    assert result.coverage_repaired == pytest.approx(1 / 2)


def test_the_first_days_are_dropped() -> None:
    result = score(*example(), dropped=1)
    assert np.isnan(result.repaired)
    assert result.recall == 0
    assert result.f1 == 0


def test_methods_without_an_interval_have_no_coverage() -> None:
    recovery, case = example()
    bare = Recovery(**{**vars(recovery), "lower": None, "upper": None})
    result = score(bare, case, dropped=0)
    assert np.isnan(result.coverage_missing)
    assert np.isnan(result.coverage_repaired)


def test_unscored_sensors_count_for_nothing() -> None:
    recovery, case = example()
    without = paper_scores(recovery, case, dropped=0, unscored=(1,))
    assert without["precision"] == 1.0
    assert without["recall"] == pytest.approx(1 / 2)
    assert np.isnan(without["false_alarms"]), "sensor 0 has no sound day with a reading"
    alone = paper_scores(recovery, case, dropped=0, unscored=(0,))
    assert alone["false_alarms"] == pytest.approx(100 / 3)
    assert alone["missing"] == pytest.approx(2.0)


def test_the_papers_scores_by_hand() -> None:
    result = paper_scores(*example(), dropped=0)
    # Sound fibers, all of truth 10: (0, 2) exact, (1, 0) exact, (1, 1) off by -1 in one slot, (1, 2) by 2 in one slot.
    assert result["re"] == pytest.approx(math.sqrt(5 / 800))
    # As found: (0, 0), (0, 2) and (1, 1) are zeroed in the estimate, (0, 0) and (0, 1) in the truth. So (0, 1) is off
    # by 60 twice, (0, 2) and (1, 1) by 10 twice each, (1, 2) by 2.
    assert result["re_text"] == pytest.approx(math.sqrt((7200 + 400 + 4) / 800))
    # All in (0, 0) and (0, 1): 1, 3 in the found one, 50 twice in the one that was missed.
    assert result["faulty"] == pytest.approx(math.sqrt((1 + 9 + 5000) / 4))
    error = np.array([[0, 0, 0, 0, 0, 0], [0, -1, 2, 0, 0, 0]])
    sound = np.array([[0, 0, 10, 0, 0, 10], [10, 10, 10, 10, 10, 10]])
    assert result["re_code"] == pytest.approx(np.linalg.svd(error)[1][0] / np.linalg.svd(sound)[1][0])
    # Every fiber has score 1: all or none is flagged. Two of the five with readings are faulty.
    assert result["f1_best"] == pytest.approx(4 / 7)
    assert result["threshold_best"] == 1
    assert result["iterations"] == 1
    usual = score(*example(), dropped=0)
    assert result["false_alarms"] == pytest.approx(100 * usual.false_alarms), "in percent"
    for name in ("f1", "precision", "recall", "missing", "repaired", "trusted", "coverage_missing"):
        assert result[name] == getattr(usual, name)


def test_the_papers_scores_drop_the_first_days_too() -> None:
    result = paper_scores(*example(), dropped=1)
    assert result["faulty"] == pytest.approx(50.0)
    assert result["re"] == pytest.approx(math.sqrt(5 / 600))
    assert result["f1_best"] == pytest.approx(2 / 4)


def test_without_faults_there_is_no_f1() -> None:
    recovery, case = example()
    sound = Degraded.by_day(case.readings, case.truth, np.full(case.kind.shape, ""))
    result = paper_scores(recovery, sound, dropped=0)
    assert np.isnan(result["f1_best"])
    assert np.isnan(result["threshold_best"])
    assert np.isnan(result["faulty"])


def test_cells_without_a_truth_count_as_zero() -> None:
    recovery, case = example()
    unknown = Recovery(**{**vars(recovery), "expected": np.full(case.truth.shape, np.nan)})
    assert paper_scores(unknown, case, dropped=0)["re"] == 1
    assert paper_scores(unknown, case, dropped=0)["re_code"] == pytest.approx(1)


def test_where_the_truth_is_not_known_nothing_counts() -> None:
    recovery, case = example()
    whole = paper_scores(recovery, case, dropped=0)
    truth = case.truth.copy()
    truth[1, 1, 0] = np.nan
    result = paper_scores(recovery, Degraded.by_day(case.readings, truth, case.kind), dropped=0)
    assert result["re"] == pytest.approx(math.sqrt(5 / 700))
    assert result["re_text"] == pytest.approx(math.sqrt((7200 + 400 + 4) / 700))
    assert np.isfinite(result["re_code"])
    assert result["faulty"] == whole["faulty"]


@given(st.integers(0, 10**6), st.sampled_from([2, 4, 50]))
def test_the_papers_scores_against_brute_force(seed: int, levels: int) -> None:
    """With few levels of the score there are ties; a tie is flagged as a whole or not at all."""
    random = np.random.default_rng(seed)
    shape, dropped = (4, 3, 6), int(random.integers(3))
    truth = random.normal(5, 2, shape)
    faulty = random.random((4, 6)) < 0.3
    readings = np.where(random.random(shape) < 0.5, np.nan, truth)
    estimate = truth + random.normal(0, 1, shape)
    points = random.integers(levels, size=(4, 6)) / levels * 2
    recovery = Recovery(
        expected=estimate,
        outliers=np.zeros(shape),
        wrong=np.isfinite(readings) & (points > 1)[:, None, :],
        doubtful=np.zeros(shape, dtype=bool),
        spikes=np.zeros(shape, dtype=bool),
        corrected=np.zeros(shape, dtype=bool),
        cleaned=estimate + 0.5,
        lower=None,
        upper=None,
        faulty=points > 1,
        suspect=np.zeros((4, 6), dtype=bool),
        evaluated=np.ones((4, 6), dtype=bool),
        score=points,
        reason=np.full((4, 6), ""),
        faults=(),
        iterations=3,
    )
    result = paper_scores(recovery, Degraded.by_day(readings, truth, np.where(faulty, "offset", "")), dropped=dropped)
    lost = {"re": 0.0, "re_text": 0.0}
    norm, inside = 0.0, []
    error, sound = np.zeros((4, 3, 6)), np.zeros((4, 3, 6))
    judged = []
    for sensor in range(4):
        for day in range(dropped, 6):
            flagged = bool(points[sensor, day] > 1)
            if np.isfinite(readings[sensor, :, day]).any():
                judged.append((points[sensor, day], faulty[sensor, day]))
            for slot in range(3):
                true, guess = truth[sensor, slot, day], estimate[sensor, slot, day]
                wanted = 0.0 if faulty[sensor, day] else true
                lost["re"] += 0.0 if faulty[sensor, day] else (guess - true) ** 2
                lost["re_text"] += ((0.0 if flagged else guess) - wanted) ** 2
                norm += wanted**2
                if faulty[sensor, day]:
                    inside.append((guess + 0.5 - true) ** 2)
                else:
                    error[sensor, slot, day], sound[sensor, slot, day] = guess - true, true
    for name, squares in lost.items():
        assert result[name] == pytest.approx(math.sqrt(squares / norm))
    spectral = [np.linalg.svd(part.reshape(4, -1))[1][0] for part in (error, sound)]
    assert result["re_code"] == pytest.approx(spectral[0] / spectral[1])
    assert result["faulty"] == pytest.approx(math.sqrt(np.mean(inside)) if inside else np.nan, nan_ok=True)
    scores, truly = np.array([one for one, _ in judged]), np.array([two for _, two in judged], dtype=bool)
    if truly.any():
        assert result["f1_best"] == pytest.approx(best_threshold(scores, truly))
        flags = scores >= result["threshold_best"]
        reached = 2 * int(np.sum(flags & truly)) / (int(flags.sum()) + int(truly.sum()))
        assert result["f1_best"] == pytest.approx(reached), "the threshold is the one that reaches it"
        assert np.isnan(result["f1"]) or result["f1"] <= result["f1_best"] + 1e-12
    else:
        assert np.isnan(result["f1_best"])


def mended(network: Network) -> Recovery:
    """Return what the model makes of a network, day by day."""
    model, days = NetworkModel(), range(network.readings.shape[2])
    return Recovery.stack([model.update(network.readings[..., day], sensors=network.sensors) for day in days])


def test_rows_are_judged_as_what_the_model_returned() -> None:
    network = city(10, 30, seed=1)
    cleaner = Cleaner(HOURLY)
    start = int(network.times[0, 0].astype("datetime64[us]").astype(np.int64))
    parts = []
    for day in range(30):
        readings = tensor_readings(network.readings[..., day : day + 1], start + day * DAY)
        (part,) = cleaner.push(replace(readings, sensors=network.sensors))
        parts.append(part.rows)
    actual, wanted = recovery_of_rows(Rows.concatenate(parts), network), mended(network)
    for name in ("faulty", "spikes"):
        np.testing.assert_array_equal(getattr(actual, name)[..., 1:], getattr(wanted, name)[..., 1:], err_msg=name)
    # Rows are bounded by the readings accepted so far, of which the first day has few; single estimates are withheld.
    withheld = np.isnan(actual.cleaned)
    assert withheld.mean() < 0.01
    np.testing.assert_array_equal(actual.cleaned[..., 1:], np.where(withheld, np.nan, wanted.cleaned)[..., 1:])
    for name, sign in (("lower", 1), ("upper", -1)):
        ours, theirs = (getattr(each, name)[..., 1:][~withheld[..., 1:]] for each in (actual, wanted))
        assert (sign * (ours - theirs) >= 0).all(), "bounds only make an interval narrower"
        assert np.mean(ours != theirs) < 0.001
    assert (actual.reason[actual.faulty] == wanted.reason[wanted.faulty]).all()


def test_faults_are_counted_once_each_and_spikes_apart() -> None:
    network = city(20, 60, seed=2)
    recovery = mended(network)
    rows = {row.kind: row for row in faults_by_kind(network, recovery, dropped=0)}
    assert sum(row.put_in for kind, row in rows.items() if kind != "spike") <= len(network.faults)
    assert rows["spike"].put_in == network.spikes.sum()
    for row in rows.values():
        assert 0 <= row.detected <= row.put_in
        assert 0 <= row.days_detected <= row.days
        assert row.missed == row.put_in - row.detected
