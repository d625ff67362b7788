from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.simulate.degrade import EARLIEST, KINDS, LASTING_DAYS, LONGEST_RUN, SOUND_AFTER, UNIT, Case, degrade


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
    observed = np.isfinite(case.readings)
    assert observed.mean() == pytest.approx(0.8, abs=0.02)
    np.testing.assert_array_equal(case.readings[observed], sound[observed])


def test_outages_take_whole_days() -> None:
    case = degrade(truth(), Case("none", observed=0.9, outages=True), seed=0)
    silent = np.isnan(case.readings).all(axis=1)
    np.testing.assert_array_equal(np.isnan(case.readings).any(axis=1), silent)
    assert silent.mean() == pytest.approx(0.1, abs=0.02)


def test_runs_are_at_most_a_week() -> None:
    case = degrade(truth(days=200), Case("offset", observed=1.0), seed=0)
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
        elif kind == "offset":
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


@given(st.integers(0, 10**6), st.sampled_from([24, 48]), st.sampled_from(["mix", *KINDS]))
def test_hourly_faults_are_as_described(seed: int, slots: int, fault: str) -> None:
    sound = np.random.default_rng(seed).normal(10, 5, (6, slots, 70))
    case = degrade(sound, Case(fault, observed=1.0, hourly=True), seed=seed)
    assert 0.05 <= case.wrong.mean() < 0.05 + 7 * slots / (6 * slots * 70)
    line = np.zeros((6, 70 * slots), dtype=bool)
    for one in case.faults:
        assert 3 <= one.length <= 7 * slots
        assert 0 <= one.start < one.stop <= 70 * slots
        assert not line[one.sensor, max(0, one.start - slots) : one.stop + slots].any(), "a day apart"
        line[one.sensor, one.start : one.stop] = True
    np.testing.assert_array_equal(np.moveaxis(case.wrong, 1, 2).reshape(6, -1), line)
    np.testing.assert_array_equal(case.readings[~case.wrong], sound[~case.wrong])
    np.testing.assert_array_equal(case.wrong.any(axis=1), case.kind != "")
    np.testing.assert_array_equal(case.faulty, case.wrong.mean(axis=1) >= 1 / 3)
    assert list(case.faults) == sorted(case.faults, key=lambda one: (one.sensor, one.start))


def test_hourly_faults_begin_at_any_slot_and_are_log_uniform() -> None:
    case = degrade(truth(60, 364), Case("mix", hourly=True), seed=1)
    lengths = np.log([fault.length for fault in case.faults])
    # A long fault finds room less often than a short one, by a few per cent.
    quantiles = np.quantile(lengths, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quantiles, np.log(3) + np.array([0.25, 0.5, 0.75]) * np.log(56), atol=0.15)
    assert len({fault.start % 24 for fault in case.faults}) == 24
    assert {fault.kind for fault in case.faults} == set(KINDS)
    assert np.isnan(case.readings).mean() == pytest.approx(0.1, abs=0.01)


def test_an_hourly_fault_does_to_its_readings_what_its_kind_says() -> None:
    sound = truth(20, 120)
    line = np.moveaxis(sound, 1, 2).reshape(20, -1)
    unit, overall = sound.std() / UNIT, sound.mean()
    case = degrade(sound, Case("mix", observed=1.0, hourly=True), seed=2)
    readings = np.moveaxis(case.readings, 1, 2).reshape(20, -1)
    for fault in case.faults:
        span = fault.sensor, slice(fault.start, fault.stop)
        before, after = line[span], readings[span]
        moved = after - before
        if fault.kind == "stuck":
            assert (after == before[0]).all()
        elif fault.kind == "offset":
            assert np.ptp(moved) == pytest.approx(0, abs=1e-9)
            assert 5 * unit <= abs(moved[0]) <= 10 * unit
        elif fault.kind == "drift":
            np.testing.assert_allclose(np.abs(moved), np.linspace(2, 15, moved.size) * unit)
        elif fault.kind == "gain":
            gain = (after - overall) / (before - overall)
            assert np.ptp(gain) == pytest.approx(0, abs=1e-9)
            assert -1 <= gain[0] <= 0.3


@pytest.mark.parametrize("fault", ["uniform", "mix", *KINDS])
def test_faults_of_whole_days_are_wrong_in_all_their_slots(fault: str) -> None:
    case = degrade(truth(), Case(fault), seed=5)
    np.testing.assert_array_equal(case.wrong, np.repeat(case.faulty[:, None, :], 24, axis=1))
    listed = np.zeros(case.faulty.shape, dtype=bool)
    for one in case.faults:
        assert one.start % 24 == one.stop % 24 == 0
        assert (case.kind[one.sensor, one.start // 24 : one.stop // 24] == one.kind).all()
        listed[one.sensor, one.start // 24 : one.stop // 24] = True
    np.testing.assert_array_equal(listed, case.faulty)


def test_some_sensors_keep_their_faults_under_their_new_numbers() -> None:
    case = degrade(truth(), Case("mix", hourly=True), seed=5)
    rows = np.array([7, 2, 3])
    part = case.of_sensors(rows)
    np.testing.assert_array_equal(part.readings, case.readings[rows])
    np.testing.assert_array_equal(part.wrong, case.wrong[rows])
    wrong = np.zeros((3, 60 * 24), dtype=bool)
    for fault in part.faults:
        wrong[fault.sensor, fault.start : fault.stop] = True
    np.testing.assert_array_equal(wrong, np.moveaxis(part.wrong, 1, 2).reshape(3, -1))


@given(st.integers(0, 10**6), st.sampled_from([4, 24]), st.sampled_from(["offset", "drift"]), st.integers(170, 200))
def test_lasting_faults_are_as_described(seed: int, slots: int, fault: str, days: int) -> None:
    sound = np.random.default_rng(seed).normal(10, 5, (20, slots, days))
    case = degrade(sound, Case(fault, share=0.15, observed=1.0, lasting=0.5), seed=seed)
    assert len({one.sensor for one in case.faults}) == len(case.faults) == 3
    moved = np.moveaxis(case.readings - sound, 1, 2).reshape(20, -1)
    wrong = np.moveaxis(case.wrong, 1, 2).reshape(20, -1)
    unit = sound.std() / UNIT
    for one in case.faults:
        assert one.kind == fault
        assert one.length == LASTING_DAYS * slots
        assert one.start >= EARLIEST * slots
        assert one.stop <= (days - SOUND_AFTER) * slots
        inside = moved[one.sensor, one.start : one.stop]
        size = 0.5 * unit if fault == "offset" else 0.5 * unit * np.arange(inside.size) / slots
        np.testing.assert_allclose(np.abs(inside), np.broadcast_to(size, inside.shape), atol=1e-9)
        assert len(set(np.sign(inside[1:]))) == 1, "to one side"
        assert wrong[one.sensor].sum() == one.length
    assert not moved[~wrong].any()
    assert wrong.sum() == 3 * LASTING_DAYS * slots


def test_lasting_faults_begin_at_any_hour_and_go_both_ways() -> None:
    starts, signs = set(), set()
    for seed in range(40):
        sound = truth(20, 230)
        case = degrade(sound, Case("offset", share=0.15, observed=1.0, lasting=3.0), seed=seed)
        for one in case.faults:
            starts.add(one.start % 24)
            day = one.start // 24 + 1
            signs.add(float(np.sign(case.readings[one.sensor, 0, day] - sound[one.sensor, 0, day])))
    assert len(starts) == 24
    assert signs == {-1.0, 1.0}


def test_lasting_faults_need_a_bias_or_a_drift_and_enough_days() -> None:
    with pytest.raises(ValueError, match="lasting"):
        Case("stuck", lasting=3.0)
    with pytest.raises(ValueError, match="lasting"):
        Case("offset", hourly=True, lasting=3.0)
    with pytest.raises(ValueError, match="170 days of data, not 169"):
        degrade(truth(4, 169), Case("offset", lasting=3.0), seed=0)
    assert len(degrade(truth(4, 170), Case("offset", share=0.15, lasting=3.0), seed=0).faults) == 1


@pytest.mark.parametrize("fault", ["none", "uniform"])
def test_what_is_of_whole_days_cannot_be_hourly(fault: str) -> None:
    with pytest.raises(ValueError, match="hourly"):
        Case(fault, hourly=True)
