"""Scores of an example small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sensormend.bench.scores import score
from sensormend.faults import Degraded
from sensormend.recovery import Recovery


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
        low_rank=cleaned,
        outliers=np.zeros(truth.shape),
        spikes=np.zeros(truth.shape, dtype=bool),
        cleaned=cleaned,
        lower=cleaned - 1.5,
        upper=cleaned + 1.5,
        faulty=flagged,
        suspect=np.zeros((2, 3), dtype=bool),
        evaluated=np.ones((2, 3), dtype=bool),
        score=np.ones((2, 3)),
        reason=np.full((2, 3), ""),
        iterations=1,
    )
    kind = np.where(faulty, "bias", "")
    return recovery, Degraded(readings, truth, faulty, kind)


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
    without = score(recovery, case, dropped=0, unscored=(1,))
    assert without.precision == 1.0
    assert without.recall == pytest.approx(1 / 2)
    assert np.isnan(without.false_alarms), "sensor 0 has no sound day with a reading"
    alone = score(recovery, case, dropped=0, unscored=(0,))
    assert alone.false_alarms == pytest.approx(1 / 3)
    assert alone.missing == pytest.approx(2.0)
