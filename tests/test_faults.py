from __future__ import annotations

import numpy as np
import pytest

from sensormend.faults import KINDS, LONGEST_RUN, UNIT, Case, degrade


def truth(sensors: int = 12, days: int = 60) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(0).normal(10, 5, (sensors, 24, days))


@pytest.mark.parametrize("fault", ["uniform", "mix", *KINDS])
def test_the_share_of_faults_is_as_asked_and_only_they_are_changed(fault: str) -> None:
    sound = truth()
    case = degrade(sound, Case(fault, share=0.1, observed=1.0), seed=3)
    assert case.faulty.mean() == pytest.approx(0.1, abs=0.03)
    np.testing.assert_array_equal(case.faulty, case.kind != "")
    untouched = np.broadcast_to(~case.faulty[:, None, :], sound.shape)
    np.testing.assert_array_equal(case.readings[untouched], sound[untouched])
    changed = (case.readings != sound).any(axis=1)
    np.testing.assert_array_equal(changed, case.faulty)
    np.testing.assert_array_equal(case.truth, sound)


def test_the_same_seed_gives_the_same_readings_and_another_others() -> None:
    one, again, other = (degrade(truth(), Case("mix"), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.readings, again.readings)
    assert not np.array_equal(one.faulty, other.faulty)


def test_without_faults_only_readings_are_missing() -> None:
    sound = truth()
    case = degrade(sound, Case("none", observed=0.8), seed=0)
    assert not case.faulty.any()
    there = np.isfinite(case.readings)
    assert there.mean() == pytest.approx(0.8, abs=0.02)
    np.testing.assert_array_equal(case.readings[there], sound[there])


def test_outages_take_whole_days() -> None:
    case = degrade(truth(), Case("none", observed=0.9, outages=True), seed=0)
    silent = np.isnan(case.readings).all(axis=1)
    np.testing.assert_array_equal(np.isnan(case.readings).any(axis=1), silent)
    assert silent.mean() == pytest.approx(0.1, abs=0.02)


def test_runs_are_at_most_a_week() -> None:
    case = degrade(truth(days=200), Case("bias", observed=1.0), seed=0)
    edges = np.diff(np.pad(case.faulty.astype(int), ((0, 0), (1, 1))), axis=1)
    lengths = np.argwhere(edges == -1)[:, 1] - np.argwhere(edges == 1)[:, 1]
    assert lengths.min() >= 1
    assert lengths.max() <= LONGEST_RUN


def test_each_kind_does_what_its_name_says() -> None:
    sound = truth(days=120)
    unit, overall = sound.std() / UNIT, sound.mean()
    for kind in KINDS:
        case = degrade(sound, Case(kind, observed=1.0), seed=4)
        sensor, first = np.argwhere(case.faulty & ~np.roll(case.faulty, 1, axis=1))[0]
        before, after = sound[sensor, :, first], case.readings[sensor, :, first]
        moved = after - before
        if kind == "stuck":
            assert (after == before[0]).all()
        elif kind == "bias":
            assert np.ptp(moved) == pytest.approx(0, abs=1e-9)
            assert 5 * unit <= abs(moved[0]) <= 10 * unit
        elif kind == "drift":
            assert abs(moved[0]) == pytest.approx(2 * unit)
            assert np.diff(np.abs(moved)).min() > 0
        elif kind == "noise":
            assert moved.std() == pytest.approx(6 * unit, rel=0.6)
        else:
            gain = (after - overall) / (before - overall)
            assert np.ptp(gain) == pytest.approx(0, abs=1e-9)
            assert -1 <= gain[0] <= 0.3


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="gremlin"):
        Case("gremlin")
