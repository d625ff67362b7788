"""NetworkModel detects each kind of fault, corrects it with an interval, and flags no weather."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from networks import LEARNED, Floats, fault_free, observed_mask, partition_small_networks, regions, trained, update_all
from sensormend import NetworkModel
from sensormend.model.arrays import CORRECTED, WRONG
from sensormend.recovery import Recovery
from sensormend.simulate.degrade import Case, degrade

LATER = slice(LEARNED, None)


def broken(line: Floats, kind: str, random: np.random.Generator) -> Floats:
    """Return what a broken sensor reports in place of `line`; sizes as in `simulate/degrade.py`, in degrees."""
    if kind == "stuck":
        return np.full_like(line, line[0])
    if kind == "offset":
        return line + 8
    if kind == "drift":
        return line + np.linspace(2, 15, line.size)
    if kind == "noise":
        return line + random.normal(0, 6, line.size)
    if kind == "gain":
        return np.asarray(line.mean() - (line - line.mean()))
    return random.uniform(-35, 45, line.size)


FITTING = {
    "stuck": {"stuck"},
    "offset": {"offset"},
    "drift": {"drift", "offset"},
    "noise": {"noise"},
    # Mirrored at its mean of three days, it is off for a day and wrong in its course.
    "gain": {"gain", "drift", "noise", "offset"},
    "uniform": {"noise", "implausible"},
}


@pytest.mark.parametrize("kind", FITTING)
@pytest.mark.parametrize("partitioned", [False, True])
def test_each_kind_of_fault_is_detected_and_named(
    kind: str, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    sensors = 60 if partitioned else 16
    if partitioned:
        partition_small_networks(monkeypatch)
    truth = fault_free(sensors)[..., LEARNED : LEARNED + 3]
    detected, fitting, off, false = [], [], [], 0
    for ill in (2, 5, 7):
        readings = truth.copy()
        readings[ill] = broken(truth[ill].T.ravel(), kind, random).reshape(3, 24).T
        result = update_all(trained(sensors=sensors, partitioned=partitioned), readings)
        # The first third of a drift is no larger than what a sound sensor does now and then.
        days = slice(1, None) if kind == "drift" else slice(None)
        detected += result.faulty[ill, days].tolist()
        fitting += [word in FITTING[kind] for word in result.reason[ill][result.faulty[ill]].tolist()]
        false += int(result.faulty.sum() - result.faulty[ill].sum())
        assert (result.score[ill][result.faulty[ill]] > 1).all()
        off.append(np.abs(result.cleaned - truth)[ill][:, result.faulty[ill]].mean())
    assert np.mean(off) < 1.2
    assert np.mean(detected) >= 0.8
    assert np.mean(fitting) >= 0.75
    assert false <= 1


def test_a_mix_of_faults_is_detected_without_false_alarms() -> None:
    case = degrade(fault_free(20, 60, seed=3), Case("mix", observed=0.9), seed=0)
    result = NetworkModel().recover(case.readings)
    late = slice(10, None)
    # A wrong gain in a mild winter is small: it may be overlooked.
    clear = case.faulty & (case.kind != "gain")
    # Three steps of a coarse sensor may be doubted only.
    assert result.faulty[:, late][clear[:, late]].mean() > 0.7
    assert (result.faulty | result.suspect)[:, late][clear[:, late]].mean() > 0.75
    assert (result.faulty & ~case.faulty)[:, late].sum() / (~case.faulty)[:, late].sum() < 0.02
    reasons = set(np.unique(result.reason[result.faulty]).tolist())
    assert reasons <= {"stuck", "noise", "drift", "offset", "gain", "implausible"}
    assert (result.reason[~result.faulty & ~result.suspect & result.evaluated] == "").all()
    assert not (result.faulty & result.suspect).any()
    assert (result.score[result.faulty] > 1).all()


def test_suspect_fibers_lie_between_sound_and_faulty() -> None:
    truth = fault_free()[..., LEARNED]
    verdicts = []
    for offset in np.linspace(0, 3, 61):
        readings = truth.copy()
        readings[3] += offset
        result = trained().estimate(readings)
        verdicts.append((bool(result.suspect[3]), bool(result.faulty[3]), float(result.score[3])))
        if result.suspect[3]:
            assert result.reason[3] == "offset"
            np.testing.assert_array_equal(result.cleaned[3], readings[3])
    order = [2 * faulty + suspect for suspect, faulty, _ in verdicts]
    assert order == sorted(order)
    assert {0, 1, 2} == set(order)
    # Below half of its threshold the evidence is not worth a closer look everywhere.
    scores = [score for _, _, score in verdicts if score > 0.5]
    # A further round of judging may change a little of what the others say.
    assert np.diff(scores).min() > -0.1
    assert scores[-1] == max(scores)


def spiked(day: int, sensors: int, random: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """A sound day with one reading of some sensors 15 degrees off, and where."""
    readings = fault_free()[..., day].copy()
    at = np.zeros(readings.shape, dtype=bool)
    at[random.choice(16, sensors, replace=False), random.integers(0, 24, sensors)] = True
    readings[at] += random.choice([-15.0, 15.0], sensors)
    return readings, at


def test_what_the_engine_corrected_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine writes a code and its own `cleaned` for a reading with its fault taken out."""
    from sensormend.model.state import Result, State

    before = State.run

    def correcting(self: State, readings: Floats, *, learning: bool) -> Result:
        result = before(self, readings, learning=learning)
        estimates = result.estimates
        wrong = (estimates.code == WRONG) | (estimates.code == CORRECTED)
        estimates.code[wrong] = CORRECTED
        estimates.cleaned[wrong] = readings[wrong] - 4.0
        estimates.lower[wrong], estimates.upper[wrong] = readings[wrong] - 4.5, readings[wrong] - 3.5
        return result

    days = fault_free(8, 30).copy()
    days[3, 10:, 29] += 4.0
    plain = NetworkModel().recover(days)
    monkeypatch.setattr(State, "run", correcting)
    result = NetworkModel().recover(days)
    np.testing.assert_array_equal(result.wrong, plain.wrong)
    np.testing.assert_array_equal(result.corrected, plain.wrong & ~plain.spikes)
    assert result.corrected[3, 10:, 29].all()
    taken_out = result.corrected
    np.testing.assert_array_equal(result.cleaned[taken_out], days[taken_out] - 4.0)
    assert result.lower is not None
    np.testing.assert_array_equal(result.lower[taken_out], days[taken_out] - 4.5)
    np.testing.assert_array_equal(result.expected, plain.expected)
    np.testing.assert_array_equal(result.outliers[taken_out], (days - plain.expected)[taken_out])
    part = result.of_sensors(np.array([3]))
    np.testing.assert_array_equal(part.corrected, taken_out[[3]])


def test_spikes_are_replaced_and_the_fiber_stays_sound() -> None:
    random = np.random.default_rng(0)
    model = trained()
    for day in range(LEARNED, LEARNED + 10):
        readings, at = spiked(day, 1, random)
        result = model.update(readings)
        np.testing.assert_array_equal(result.spikes, at)
        assert not result.faulty.any()
        assert np.abs(result.cleaned - fault_free()[..., day])[at].max() < 2
        np.testing.assert_array_equal(result.cleaned[~at], readings[~at])
        np.testing.assert_allclose(result.outliers[at], (readings - result.cleaned)[at])
        assert not result.outliers[~at].any()
        assert result.lower is not None
        assert result.upper is not None
        assert (result.lower < result.upper)[at].all()


def test_spikes_of_two_sensors_on_one_day() -> None:
    """Two spikes within two hours at sensors that predict each other may hide behind each other; most are found."""
    random = np.random.default_rng(0)
    model = trained()
    missed = false = 0
    for day in range(LEARNED, LEARNED + 10):
        readings, at = spiked(day, 2, random)
        result = model.update(readings)
        assert not result.faulty.any()
        missed += int((at & ~result.wrong).sum())
        false += int((result.wrong & ~at).sum())
        assert (result.wrong | result.doubtful)[at].all()
    assert missed <= 1
    assert false <= 2


def test_trusted_readings_are_untouched_bit_for_bit() -> None:
    case = degrade(fault_free(12, 40), Case("mix", share=0.1), seed=1)
    result = NetworkModel().recover(case.readings)
    assert result.lower is not None
    assert result.upper is not None
    trusted = np.isfinite(case.readings) & ~result.wrong & ~result.doubtful
    for given_back in (result.cleaned, result.lower, result.upper):
        np.testing.assert_array_equal(given_back[trusted].view(np.int64), case.readings[trusted].view(np.int64))
    assert not result.outliers[trusted].any()
    replaced = result.wrong & ~result.corrected
    assert replaced.any()
    np.testing.assert_allclose(result.outliers[replaced], (case.readings - result.cleaned)[replaced])
    assert (result.lower <= result.cleaned).all()
    assert (result.cleaned <= result.upper).all()


def coverage(result: Recovery, truth: Floats, at: NDArray[np.bool_]) -> float:
    assert result.lower is not None
    assert result.upper is not None
    return float(np.mean(((result.lower <= truth) & (truth <= result.upper))[at]))


@pytest.mark.parametrize(("climate", "interval"), [("city", 0.9), ("skewed", 0.9), ("city", 0.6)])
def test_the_interval_covers_what_it_says(climate: str, interval: float) -> None:
    truth = fault_free(14, 70, climate=climate)
    hidden = ~observed_mask(0.9, truth.shape)
    result = NetworkModel(interval=interval).recover(np.where(hidden, np.nan, truth))
    hidden[..., :15] = False
    assert coverage(result, truth, hidden) == pytest.approx(interval, abs=0.05)


def test_the_interval_of_silent_days_covers_too() -> None:
    truth = fault_free(14, 80, seed=5)
    silent = ~observed_mask(0.9, (14, 80), seed=2)
    result = NetworkModel().recover(np.where(silent[:, None, :], np.nan, truth))
    silent[:, :15] = False
    at = np.broadcast_to(silent[:, None, :], truth.shape)
    assert coverage(result, truth, at) == pytest.approx(0.9, abs=0.06)


def test_a_silent_day_is_estimated_better_than_by_the_mean_of_the_others() -> None:
    truth = fault_free(14, 60, seed=5)
    silent = ~observed_mask(0.9, (14, 60), seed=2)
    silent[:, :15] = False
    readings = np.where(silent[:, None, :], np.nan, truth)
    result = NetworkModel().recover(readings)
    at = np.broadcast_to(silent[:, None, :], truth.shape)
    ours = np.sqrt(np.mean((result.cleaned - truth)[at] ** 2))
    level = np.nanmean(readings[..., :15], axis=(1, 2))[:, None, None]
    others = np.nanmean(readings - level, axis=0) + level
    assert ours < 0.8 * np.sqrt(np.mean((others - truth)[at] ** 2))


@pytest.mark.parametrize("climate", ["city", "dense", "skewed", "pressure", "sparse"])
def test_a_cold_start_evaluates_no_sensor_and_never_flags_the_network(climate: str) -> None:
    readings = fault_free(14, 25, seed=7, climate=climate)
    result = NetworkModel().recover(readings)
    assert not result.evaluated[:, :5].any()
    assert not result.faulty[:, :5].any()
    assert result.evaluated[:, 8:].mean() > 0.8
    assert result.faulty.mean() < 0.03
    assert result.faulty.mean(axis=0).max() < 0.25
    assert np.isfinite(result.cleaned).all()


def test_gaps_of_the_second_day_are_filled_sensibly() -> None:
    truth = fault_free()[..., :4]
    hidden = ~observed_mask(0.8, truth.shape)
    result = NetworkModel().recover(np.where(hidden, np.nan, truth))
    hidden[..., 0] = False
    assert np.sqrt(np.mean((result.cleaned - truth)[hidden] ** 2)) < 1.0


@pytest.mark.parametrize("size", [30.0, 1000.0, -1e6])
def test_a_huge_fault_on_day_one_does_not_poison(size: float) -> None:
    truth = fault_free()[..., :20]
    readings = truth.copy()
    readings[3, :, 0] += size
    readings[9, 5:15, 0] = size
    hidden = ~observed_mask(0.9, truth.shape)
    hidden[..., :8] = False
    result = NetworkModel().recover(np.where(hidden, np.nan, readings))
    clean = NetworkModel().recover(np.where(hidden, np.nan, truth))
    others = np.setdiff1d(np.arange(16), [3, 9])
    assert not result.faulty[others].any()
    assert result.faulty[:, 10:].mean() < 0.02

    def error(one: Recovery) -> float:
        return float(np.sqrt(np.mean((one.cleaned - truth)[hidden] ** 2)))

    assert error(result) < 1.25 * error(clean)


def test_a_front_is_weather() -> None:
    """Every sensor falls by 9 to 13 degrees within hours, each at its own time."""
    random = np.random.default_rng(0)
    model = trained()
    readings = fault_free()[..., LEARNED].copy()
    passing = 10 + 4 * np.argsort(np.argsort(readings[:, 0])) / 16
    readings -= random.uniform(9, 13, (16, 1)) / (1 + np.exp(-(np.arange(24) - passing[:, None])))
    result = model.update(readings)
    assert result.evaluated.all()
    assert result.faulty.sum() <= 1
    day_after = model.update(fault_free()[..., LEARNED + 1] - 11)
    assert day_after.faulty.sum() <= 1


@pytest.mark.parametrize("sizes", [(40, 5), (12, 4), (30, 10, 10), (60, 30, 30, 10, 10, 10)])
def test_a_region_with_weather_of_its_own_is_sound(sizes: tuple[int, ...]) -> None:
    """Few sensors are far from all others for days, the first ones among them; one of them that is wrong is found."""
    flagged = fibers = 0
    for seed in range(3):
        readings = regions(sizes, 25, seed)
        model = NetworkModel()
        result = update_all(model, readings[..., :24])
        flagged, fibers = flagged + int(result.faulty.sum()), fibers + result.faulty.size
        assert result.evaluated[:, 10:].all()
        wrong = readings[..., 24].copy()
        wrong[-2] += 5
        result = model.update(wrong)
        assert np.isin(np.flatnonzero(result.faulty), [len(wrong) - 2]).all()
        assert (result.faulty | result.suspect)[len(wrong) - 2]
    assert flagged <= 0.001 * fibers


@pytest.mark.parametrize("partitioned", [False, True])
def test_sensors_that_stand_still_are_wrong_and_the_others_are_not(
    partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if partitioned:
        partition_small_networks(monkeypatch)
    readings = regions((50,), 12)
    readings[:4] = 60.0
    result = update_all(NetworkModel(), readings)
    assert result.faulty[:4, 8:].all()
    assert not result.faulty[4:].any()


def test_a_gusty_day_is_weather() -> None:
    """Every sensor goes its own way, by several times its usual distance from the others: no sensor is at fault."""
    flagged = []
    for seed in range(4):
        gusts = np.random.default_rng(seed).normal(0, 2, (16, 24 + 3))
        readings = fault_free()[..., LEARNED] + sum(gusts[:, lag : lag + 24] for lag in range(4)) / 2
        flagged.append(int(trained().update(readings).faulty.sum()))
    assert max(flagged) <= 2
    assert sum(flagged) <= 3


def test_smoke_is_weather() -> None:
    random = np.random.default_rng(0)
    model = trained("skewed")
    plume = np.exp(-(((np.arange(24) - random.uniform(9, 15, (16, 1))) / 5) ** 2))
    result = model.update(fault_free(climate="skewed")[..., LEARNED] * (1 + random.uniform(4, 9, (16, 1)) * plume))
    assert result.faulty.sum() <= 1


def test_a_heat_wave_hides_no_fault() -> None:
    readings = fault_free()[..., LEARNED] + 10
    readings[5] += 9
    result = trained().update(readings)
    assert result.faulty[5]
    assert result.faulty.sum() <= 2


def test_an_offset_stays_wrong_for_as_long_as_it_lasts() -> None:
    readings = fault_free()[..., LATER].copy()
    readings[7, :, 15:50] += 8
    result = update_all(trained(), readings)
    faulty = result.faulty[7]
    assert faulty[15:30].all()
    assert (result.faulty | result.suspect)[7, 15:50].all(), "doubtful where the season may have done as much"
    assert not faulty[:15].any()
    assert not faulty[50:].any()
    assert result.faulty.sum() - faulty.sum() <= 1
    fault = next(one for one in result.faults if one.sensor == 7 and one.kind != "spike")
    assert (fault.kind, fault.start) == ("offset", 24 * (LEARNED + 15))
    assert fault.size == pytest.approx(8, abs=1)


@pytest.mark.parametrize("kind", ["stuck", "noise", "uniform"])
def test_a_broken_sensor_stays_flagged_for_forty_days(kind: str) -> None:
    readings = fault_free()[..., LEARNED : LEARNED + 40].copy()
    readings[4] = broken(readings[4].T.ravel(), kind, np.random.default_rng(0)).reshape(40, 24).T
    result = update_all(trained(), readings)
    assert (result.faulty | result.suspect)[4].mean() >= 0.8
    assert result.faulty[4].mean() >= 0.75
    assert result.faulty.sum() - result.faulty[4].sum() <= 2
    truth = fault_free()[4, :, LEARNED : LEARNED + 40]
    assert np.sqrt(np.mean((result.cleaned[4] - truth)[:, result.faulty[4]] ** 2)) < 2.5


def test_a_repaired_sensor_is_trusted_again() -> None:
    readings = fault_free()[..., LEARNED : LEARNED + 30].copy()
    readings[4, :, :10] += np.random.default_rng(0).normal(0, 6, (24, 10))
    result = update_all(trained(), readings)
    assert result.faulty[4, :10].all()
    assert not result.faulty[4, 12:].any()


@pytest.mark.parametrize("climate", ["skewed", "zeros"])
def test_a_skewed_quantity_is_never_negative(climate: str) -> None:
    truth = fault_free(14, 60, seed=2, climate=climate)
    case = degrade(truth, Case("mix", observed=0.8), seed=0)
    readings = np.maximum(case.readings, 0)
    model = NetworkModel()
    result = model.recover(readings)
    assert result.lower is not None
    late = slice(8, None)
    for value in (result.cleaned, result.expected, result.lower):
        assert np.nanmin(value[..., late]) >= 0
    hidden = np.isnan(readings)
    hidden[..., :15] = False
    others = np.abs(truth.mean(axis=0) - truth)[hidden].mean()
    assert np.abs(result.cleaned - truth)[hidden].mean() < others


def test_unrelated_sensors_are_judged_by_their_own_past() -> None:
    result = NetworkModel().recover(np.random.default_rng(0).normal(size=(5, 24, 15)))
    assert not result.faulty.any()
    assert result.evaluated[:, 8:].all()


def test_unrelated_sensors_do_not_make_each_other_wrong() -> None:
    readings = np.random.default_rng(0).normal(size=(5, 24, 15))
    readings[1] *= 10
    assert not NetworkModel().recover(readings).faulty.any()


def test_a_sensor_that_has_nothing_to_do_with_the_others_is_judged_by_its_own_past() -> None:
    readings = fault_free()[:8, :, :40].copy()
    readings[3] = fault_free(seed=9)[0, :, 40:80] - fault_free(seed=9)[0, :, 40:80].mean() + readings[3].mean()
    result = NetworkModel().recover(readings)
    others = np.arange(8) != 3
    assert result.evaluated[:, 10:].all()
    assert result.faulty[others].sum() <= 2
    assert result.faulty[3, 20:].sum() <= 2


def test_of_a_pair_the_one_that_departs_from_its_past_is_wrong() -> None:
    """In its first month it is doubtful: its range is not known yet."""
    readings = fault_free()[:2, :, :40].copy()
    readings[0, :, [15, 35]] += 30
    result = NetworkModel().recover(readings)
    assert result.evaluated[:, 6:].all()
    assert np.argwhere(result.faulty).tolist() == [[0, 35]]
    assert result.doubtful[0, :, 15].any()
    np.testing.assert_array_equal(result.cleaned[1], readings[1])


def test_a_single_sensor_is_judged_by_its_own_past() -> None:
    result = update_all(NetworkModel(), fault_free()[:1, :, :40])
    assert result.evaluated[:, 6:].all()
    assert not result.faulty.any()
    assert (result.reason == "").all()


def test_a_lone_sensor_that_stands_still_is_suspect_from_where_it_begins() -> None:
    readings = np.round(fault_free()[:1, :, :41])
    _, lengths = np.unique(np.cumsum(np.diff(readings[0].T.ravel()[: 40 * 24]) != 0), return_counts=True)
    assert lengths.max() >= 4  # so that the first hours of the day look like any others
    readings[0, 3:, 40] = readings[0, 3, 40]
    result = update_all(NetworkModel(), readings)
    assert (result.wrong | result.doubtful)[0, 5:, 40].all()
    assert result.reason[0, 40] == "stuck"
    assert not (result.wrong | result.doubtful)[0, :, 10:40].any()


def test_the_season_is_followed() -> None:
    """Over half a year the level of a sensor in the shade moves away from the others' by four degrees."""
    readings = fault_free(10, 180, seed=4).copy()
    readings[2] += np.linspace(0, 4, 24 * 180).reshape(180, 24).T
    result = NetworkModel().recover(readings)
    assert result.faulty[2].sum() == 0
    assert result.faulty.mean() < 0.01


def test_several_variables_each_on_its_own_scale() -> None:
    warm, wet = fault_free(10, 40), fault_free(10, 40, climate="skewed")
    readings = np.stack([warm, wet], axis=1)
    readings[3, 0, :, 33] += 9
    readings[6, 1, :, 36] = np.random.default_rng(0).uniform(0, 200, 24)
    readings[1, :, :, 38] = np.nan
    results = []
    for unit in (1.0, 1000.0):
        scaled = readings * np.array([1.0, unit])[None, :, None, None]
        results.append(update_all(NetworkModel(fiber_axis=2), scaled))
    one, other = results
    assert one.cleaned.shape == readings.shape
    assert one.faulty.shape == (10, 2, 40)
    assert one.faulty[3, 0, 33]
    assert one.faulty[6, 1, 36]
    assert one.faulty.sum() <= 6
    assert np.isfinite(one.cleaned).all()
    np.testing.assert_array_equal(one.faulty, other.faulty)
    np.testing.assert_array_equal(one.reason, other.reason)
    np.testing.assert_allclose(other.cleaned[:, 0], one.cleaned[:, 0], rtol=1e-6)
    np.testing.assert_allclose(other.cleaned[:, 1], 1000 * one.cleaned[:, 1], rtol=1e-6, atol=1e-6)


def test_each_variable_is_mended_as_if_it_were_alone(tmp_path: Path) -> None:
    """Two variables in one call, and from a file, are the same as each of them in a model of its own."""
    both = np.stack([fault_free(8, 20, seed=6), 1000 - 2 * fault_free(8, 20, seed=6)], axis=1)
    both[:, 0, :, 15] = np.nan
    both[2, 1, 5, 17] = np.nan
    model, apart = NetworkModel(fiber_axis=2), [NetworkModel(), NetworkModel()]
    labels = [f"s{number}" for number in range(8)]
    for day in range(20):
        if day == 10:
            model.save(tmp_path / "state.npz")
            model = NetworkModel.load(tmp_path / "state.npz").copy()
        if day == 19:
            peek = model.estimate(both[..., day], labels)
        result = model.update(both[..., day], labels)
        for variable, alone in enumerate(apart):
            expected = alone.update(both[:, variable, :, day], labels)
            for field in ("cleaned", "lower", "upper", "expected", "faulty", "score", "reason"):
                np.testing.assert_array_equal(getattr(result, field)[:, variable], getattr(expected, field))
    np.testing.assert_array_equal(peek.cleaned, result.cleaned)
    assert model.sensors == apart[0].sensors
    assert model.periods == 20


def quiet(readings: Floats) -> Recovery:
    """Walk readings with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return NetworkModel().recover(readings)


def test_degenerate_networks() -> None:
    truth = fault_free(5, 12)
    constant, silent, lone = truth.copy(), truth.copy(), np.full((5, 24, 4), np.nan)
    constant[2] = 7.0
    silent[2] = np.nan
    silent[..., 6] = np.nan
    lone[1, 3, 2] = 4.0
    for readings in (constant, silent, np.zeros((5, 24, 8)), np.full((1, 24, 8), 3.5), truth[:1], truth[:, :2]):
        result = quiet(readings)
        read = np.isfinite(readings).any(axis=(1, 2))
        assert np.isfinite(result.cleaned[read][..., 1:]).all()
        assert np.isfinite(result.expected[read][..., 1:]).all()
        assert np.isnan(result.cleaned[~read]).all(), "nothing is known of a sensor without a reading"
    never = quiet(np.full((3, 24, 4), np.nan))
    assert np.isnan(never.cleaned).all()
    assert not never.evaluated.any()
    assert not never.faulty.any()
    once = quiet(lone)
    assert np.isnan(once.cleaned[..., :2]).all()
    assert np.isfinite(once.cleaned[1, :, 2]).all()
    assert once.cleaned[1, 3, 2] == 4.0
    assert not once.evaluated.any()


def test_one_slot_per_period() -> None:
    readings = fault_free(5, 12)[:, :1]
    assert np.isfinite(quiet(readings).cleaned[..., 1:]).all()


def test_three_readings_a_day_are_enough() -> None:
    readings = np.full((8, 24, 40), np.nan)
    readings[:, [7, 14, 21]] = fault_free()[:8, [7, 14, 21], :40]
    readings[..., 35] = np.nan
    result = quiet(readings)
    assert result.evaluated[:, 36:].any()
    assert np.isfinite(result.cleaned[..., 35]).all()


@settings(max_examples=15)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from([2, 5, 24]),
    st.sampled_from([0.02, 0.3, 0.9]),
    st.sampled_from(["weather", "steps", "zeros", "sizes"]),
)
def test_nothing_crashes_warns_or_forgets(seed: int, sensors: int, slots: int, share: float, kind: str) -> None:
    random = np.random.default_rng(seed)
    readings = random.normal(0, 1, (slots, 9)) + random.normal(0, 0.3, (sensors, slots, 9))
    if kind == "steps":
        readings = readings.round()
    elif kind == "zeros":
        readings = np.maximum(readings, 0) ** 3
    elif kind == "sizes":
        readings *= 10.0 ** random.integers(-9, 9, (sensors, 1, 1))
    observed = random.random(readings.shape) < share
    readings[~observed] = np.nan
    result = quiet(readings)
    # A sensor that was read once can be estimated ever after. Nothing is learned of a first period left as it is, and
    # in the first period itself there is no range yet that an estimate could be bounded by.
    learned = observed.copy()
    learned[..., 0] &= not np.array_equal(result.cleaned[..., 0], readings[..., 0], equal_nan=True)
    was_read = np.broadcast_to(np.maximum.accumulate(learned.any(axis=1), axis=1)[:, None], observed.shape)
    assert np.isfinite(result.cleaned[..., 1:][was_read[..., 1:]]).all()
    silent = ~np.maximum.accumulate(observed.any(axis=(0, 1)))
    assert np.isnan(result.cleaned[..., silent]).all()
    assert not result.evaluated[:, :5].any()
    assert np.isfinite(result.score).all()


@pytest.mark.parametrize("sensors", [5, 16])
def test_hours_without_any_reading_follow_the_hours_around_them(sensors: int) -> None:
    truth = fault_free()[:sensors, :, LEARNED : LEARNED + 20]
    readings = truth.copy()
    readings[:, 11:16, 4::5] = np.nan
    readings[:, 20:, 6::5] = np.nan
    model = NetworkModel()
    update_all(model, fault_free()[:sensors, :, :LEARNED])
    result = update_all(model, readings)
    gap = np.isnan(readings)
    slots = np.arange(24)
    line = np.array(
        [[np.interp(slots, slots[~gone], day[~gone]) for gone, day in zip(gap[row].T, readings[row].T, strict=True)]
         for row in range(sensors)]
    ).transpose(0, 2, 1)  # fmt: skip
    miss, straight = (np.sqrt(np.mean((estimate - truth)[gap] ** 2)) for estimate in (result.cleaned, line))
    assert miss < 1.2 * straight
    assert result.lower is not None
    assert result.upper is not None
    inside = (result.lower <= truth) & (truth <= result.upper)
    assert inside[gap].mean() > 0.75


def test_a_spike_goes_before_what_stands_beside_it() -> None:
    readings = fault_free()[..., LEARNED : LEARNED + 5].copy()
    # Everything that one station measures at that hour.
    other = fault_free(seed=2)
    both = np.stack([readings, 50 + other[..., LEARNED : LEARNED + 5]], axis=1)
    learned = np.stack([fault_free()[..., :LEARNED], 50 + other[..., :LEARNED]], axis=1)
    both[3, :, 12, 2] += np.array([-14, -30])
    model = NetworkModel(fiber_axis=2)
    for day in range(LEARNED):
        model.update(learned[..., day])
    results = [model.update(both[..., day]) for day in range(5)]
    assert np.argwhere(results[2].spikes[3]).tolist() == [[0, 12], [1, 12]]
    assert not results[2].faulty[3].any()


def test_the_other_variables_of_a_sensor_say_nothing_about_it() -> None:
    random = np.random.default_rng(0)
    weather = random.normal(size=(24, 40)).cumsum(axis=0)
    readings = weather + 0.1 * random.normal(size=(3, 4, 24, 40))
    readings[1:, :, :, 30:] = np.nan
    result = update_all(NetworkModel(fiber_axis=2), readings)
    assert result.evaluated[0, :, 10:].all()
    assert not result.faulty.any()
    one = update_all(NetworkModel(), readings[:, 0])
    np.testing.assert_array_equal(result.cleaned[:, 0], one.cleaned)


def test_a_lone_sensor_s_spike_and_impossible_day_are_seen() -> None:
    readings = fault_free()[:1, :, :40].copy()
    readings[0, 9, 30] += 90
    readings[0, :, 35] += 90
    result = update_all(NetworkModel(), readings)
    assert np.argwhere(result.spikes[0]).tolist() == [[9, 30]]
    assert np.flatnonzero(result.faulty[0]).tolist() == [35]


def test_rewinding_forgets_what_was_going_on_and_nothing_else() -> None:
    model = trained()
    before = model.copy()
    model.rewind()
    assert model.periods == before.periods
    day = fault_free()[..., LEARNED].copy()
    day[4, 5:9] = np.nan
    one, other = model.estimate(day), before.estimate(day)
    np.testing.assert_allclose(one.cleaned, other.cleaned, atol=1.5)
    NetworkModel().rewind()


@pytest.mark.parametrize("hours", [1, 2, 4, 8, 12])
def test_a_feed_that_begins_in_the_evening_is_judged_as_soon_as_another(hours: int) -> None:
    readings = fault_free()[:6, :, :14].copy()
    readings[:, : 24 - hours, 0] = np.nan
    model = NetworkModel()
    result = update_all(model, readings)
    assert not result.evaluated[:, :6].any()
    assert result.evaluated[:, 6:].all()
    np.testing.assert_array_equal(result.cleaned[..., 0], readings[..., 0])


def test_after_a_first_day_of_a_reading_or_two_each_no_sensor_is_implausible() -> None:
    """How they move is not known yet: which of them is far from the others must not be learned from such a day."""
    for seed in range(4):
        readings = regions((12, 4), 20, seed)
        first = readings[..., 0]
        first[np.random.default_rng(seed).random(first.shape) < 0.95] = np.nan
        result = update_all(NetworkModel(), readings)
        assert not result.faulty.any()
        assert result.evaluated[:, 10:].mean() > 0.98


def test_a_network_that_reports_in_the_afternoon_only_is_learned() -> None:
    readings = fault_free()[..., :30].copy()
    readings[:, :12] = np.nan
    result = update_all(NetworkModel(), readings)
    assert result.evaluated[:, 8:].mean() > 0.9


def test_having_waited_is_remembered(tmp_path: Path) -> None:
    readings = fault_free()[..., :3].copy()
    readings[:, :12] = np.nan
    model = NetworkModel()
    model.update(readings[..., 0])
    model.save(tmp_path / "state.npz")
    for other in (model.copy(), NetworkModel.load(tmp_path / "state.npz")):
        other.update(readings[..., 1])
        assert other.periods == 1
    assert model.periods == 0


@pytest.mark.parametrize("unit", [1.0, 1e-6])
@pytest.mark.parametrize("huge", [1e35, 1e40, 1e90, -1e99])
def test_one_absurd_reading_does_not_end_the_model(huge: float, unit: float) -> None:
    random, model = np.random.default_rng(0), NetworkModel()
    hours = np.sin(np.arange(24) / 24 * 2 * np.pi)
    for day in range(12):
        level = 10 + 3 * random.normal() + 5 * hours + np.arange(8)[:, None]
        readings = unit * (level + 0.3 * random.normal(size=(8, 24)))
        expected = readings.copy()
        if day in (0, 7):
            readings[3, 5] = huge
        result = model.update(readings)
    assert not result.faulty.any()
    np.testing.assert_array_equal(result.cleaned, expected)
    gap = readings.copy()
    gap[3, 5:9] = np.nan
    assert np.abs(model.estimate(gap).cleaned - expected).max() < 2 * unit
