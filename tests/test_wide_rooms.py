"""The rooms of the engine for large networks beside those of the small one, in NumPy and in torch."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from networks import Floats, sound, walk
from sensormend import AutoOLRTR
from sensormend.arrays import namespace, on_host
from sensormend.auto import judge, judging, newborns, timeline
from sensormend.auto.memory import Hood
from sensormend.auto.wide import newcomers, sight, verdict
from sensormend.auto.wide import timeline as wide_timeline
from sensormend.auto.wide.kin import Kin
from sensormend.auto.wide.tools import inverse, masked_median
from tensors import KINDS, Put

SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
Bools = NDArray[np.bool_]


@pytest.fixture(scope="module", params=KINDS)
def put(request: pytest.FixtureRequest) -> Put:
    return Put(request.param)


def single(values: Floats) -> Floats:
    """Return what single precision makes of numbers, so that both sides are asked about the same."""
    return values.astype(np.float32).astype(np.float64)


def features(put: Put, residual: Floats, there: Bools, floor: Floats) -> Floats:
    steps = there[..., 1:] & there[..., :-1]
    found = sight.features(
        put(np.where(there, residual, 0.0)),
        put(np.where(there, 0.0, sight.HUGE)),
        put(np.where(steps, 0.0, sight.HUGE)),
        put(there.sum(axis=-1).astype(float)),
        put(steps.sum(axis=-1).astype(float)),
        put(floor),
    )
    return on_host(found)


@given(SEEDS, st.integers(1, 30), SHARES)
def test_features_are_those_of_the_small_engine(put: Put, seed: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    residual = single(random.standard_t(2, (2, 3, slots)))
    there = random.random(residual.shape) < share
    floor = random.choice([0.01, 0.3], (2, 3))
    found = features(put, residual, there, floor)
    for part in range(2):
        wanted = judge.features(np.where(there, residual, 0.0)[part], judge.Seen.of(there[part]), floor[part])
        np.testing.assert_allclose(found[part], wanted, atol=2e-3)


def test_features_of_readings_that_are_far_off(put: Put) -> None:
    residual, there = np.zeros((1, 1, 24)), np.ones((1, 1, 24), dtype=bool)
    residual[..., ::2], there[..., 5:9] = 1e12, False
    wanted = judge.features(np.where(there, residual, 0.0)[0], judge.Seen.of(there[0]), np.ones(1))
    np.testing.assert_allclose(features(put, residual, there, np.ones((1, 1)))[0], wanted, atol=1e-3)


@given(SEEDS, st.integers(1, 20), SHARES)
def test_the_longest_run_is_that_of_the_small_engine(put: Put, seed: int, slots: int, share: float) -> None:
    random = np.random.default_rng(seed)
    there = random.random((5, slots)) < share
    values = np.where(there, random.integers(0, 3, (5, slots)).astype(float), np.nan)
    length, first, last = (on_host(array) for array in sight.longest_run(put(values), put(there)))
    wanted, cells = judge.longest_run(values, there)
    np.testing.assert_array_equal(length, wanted)
    place = np.arange(slots)
    inside = there & (place >= first[:, None]) & (place <= last[:, None])
    np.testing.assert_array_equal(inside, cells)


@given(SEEDS, st.sampled_from([0.3, 0.5, 0.9, 1.0]), st.integers(4, 24))
def test_who_stands_still_is_seen_through_gaps(put: Put, seed: int, share: float, still: int) -> None:
    """Few fibers are looked at slot by slot; whoever stands still for long has to be among them."""
    random = np.random.default_rng(seed)
    raw = random.normal(size=(2, 4, 24))
    raw[1, 2, :still] = 7.0
    raw[0, 1, 24 - still :] = -3.0
    observed = random.random(raw.shape) < share
    raw = np.where(observed, raw, np.nan)
    count = observed.sum(axis=-1).astype(float)
    pairs = (observed[..., 1:] & observed[..., :-1]).sum(axis=-1).astype(float)
    length, long = sight._lengths(put(raw), put(observed), put(count), put(pairs))
    wanted, cells = judge.longest_run(raw.reshape(8, 24), observed.reshape(8, 24))
    for fiber in (1, 6):
        if wanted[fiber] < (judge.SHORTEST if share == 1 else 8):
            continue
        assert on_host(length).reshape(-1)[fiber] == wanted[fiber]
        at = on_host(long.fiber).tolist().index(fiber)
        slots = np.flatnonzero(cells[fiber])
        assert (int(long.first[at]), int(long.last[at])) == (slots[0], slots[-1])
    assert not set(on_host(long.fiber).tolist()) - set(np.flatnonzero(wanted >= judge.SHORTEST).tolist())


def test_a_stuck_sensor_that_reports_every_other_hour_stands_still(put: Put) -> None:
    raw = np.full((1, 1, 24), np.nan)
    raw[..., ::2] = 5.0
    observed = np.isfinite(raw)
    length, long = sight._lengths(put(raw), put(observed), put(np.full((1, 1), 12.0)), put(np.zeros((1, 1))))
    assert length[0, 0] == 12
    assert (int(long.first[0]), int(long.last[0])) == (0, 22)


def tables(random: np.random.Generator, slots: int, variables: int) -> Floats:
    """Return correlations in time that are valid, one for each variable."""
    lags = np.arange(timeline.AGE_LIMIT * slots + 1)
    found = [0.9 * np.exp(-lags / random.uniform(1, 30)) for _ in range(variables)]
    return np.stack([np.where(lags == 0, 1.0, table) for table in found])


@given(SEEDS, st.integers(1, 24), SHARES, st.sampled_from([1, 3]))
def test_residuals_carry_over_as_in_the_small_engine(
    put: Put, seed: int, slots: int, share: float, variables: int
) -> None:
    random = np.random.default_rng(seed)
    residual = single(random.normal(size=(6, slots)))
    trusted = random.random((6, slots)) < share
    last = single(random.normal(size=(6, 2)))
    age = np.cumsum(random.integers(1, 2 * slots + 1, (6, 2)), axis=1).astype(float)
    age[random.random(6) < 0.3, 1] = np.inf
    age[random.random(6) < 0.3] = np.inf
    table, variable = tables(random, slots, variables), random.integers(0, variables, 6)
    row, slot = np.nonzero(random.random((6, slots)) < 0.7)
    kinds = None if variables == 1 else put(variable[row])
    given_to = (put(last[row]), put(age[row]), put(table), kinds)
    if row.size == 0:
        return
    for found, there in (
        (wide_timeline.carry(put(slot), put(residual[row]), put(trusted[row]), *given_to), trusted),
        (wide_timeline.carry_past(put(slot), *given_to), None),
    ):
        wanted = timeline.carry_to(row, slot, residual, there, last, age, table, variable)
        np.testing.assert_allclose(on_host(found.residual), wanted.residual, atol=1e-3)
        np.testing.assert_allclose(on_host(found.open), wanted.open, atol=1e-3)


@given(SEEDS, st.integers(1, 12), SHARES, st.sampled_from([1, 2]))
def test_between_is_that_of_the_small_engine(put: Put, seed: int, slots: int, share: float, variables: int) -> None:
    random = np.random.default_rng(seed)
    residual, trusted = random.normal(size=(2, 3, slots)), random.random((2, 3, slots)) < share
    table, variable = tables(random, slots, variables), random.integers(0, variables, (2, 3))
    table[0, 1:] *= random.choice([0.0, 1.0])
    found = wide_timeline.between(put(residual), put(trusted), put(table), None if variables == 1 else put(variable))
    for part in range(2):
        wanted = timeline.between(residual[part], trusted[part], table, variable[part])
        np.testing.assert_allclose(on_host(found)[part], wanted, atol=1e-5)


def newcoming(seed: int, variables: int) -> dict[str, Any]:
    """Members of one part, some of them seen for the first time, on a day of which some readings are missing."""
    random = np.random.default_rng(seed)
    members, slots = int(random.integers(5, 12)), 24
    known = random.random(members) < random.choice([0, 0.5, 0.9])
    observed = random.random((members, slots)) < 0.9
    observed[random.random(members) < 0.1] = False
    day = np.sin(np.arange(slots) / 4) * random.uniform(0, 3)
    usual = np.where(known[:, None], random.normal(size=(members, 1)) + 0.3 * day, 0)
    expected = (0.5 * day + random.normal() * 0.5) * np.ones((members, 1))
    level = random.normal(size=(members, 1)) * random.choice([1, 8])
    deviation = np.where(known[:, None], expected, level + day + expected) + 0.2 * random.normal(size=(members, slots))
    return {
        "deviation": single(np.where(observed, deviation, 0)),
        "observed": observed,
        "known": known,
        "expected": single(expected),
        "usual": single(usual),
        "size": single(np.where(known, random.uniform(0.1, 0.5, members), 0)),
        "variable": random.integers(0, variables, members),
        "doubted": random.random(members) < 0.3,
        "streak": np.where(known, 0, random.integers(0, 4, members)).astype(float),
        "anchor": single(random.normal(size=members)),
    }


@given(SEEDS, st.sampled_from([1, 2]), st.integers(0, 3))
def test_newcomers_are_placed_as_in_the_small_engine(put: Put, seed: int, variables: int, padding: int) -> None:
    given_to = newcoming(seed, variables)
    with warnings.catch_warnings():
        # Slots in which nobody of a variable was seen.
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = newborns.first_look(**given_to)
    members = given_to["known"].size
    wide = {
        name: np.concatenate([value, np.repeat(value[:1], padding, axis=0)])[None]
        for name, value in given_to.items()
    }  # fmt: skip
    real = np.arange(members + padding)[None] < members
    wide["known"] = wide["known"] & real
    wide["observed"] = wide["observed"] & real[..., None]
    variable = wide.pop("variable")
    found = newcomers.first_look(
        **{name: put(value) for name, value in wide.items()},
        real=put(real),
        variable=None if variables == 1 else put(variable),
        variables=variables,
    )
    # An odd member of one variable makes the small engine forget the size of an odd one of another.
    exact = np.ones(members, dtype=bool) if variables == 1 else wanted.oddness <= 1
    for name in ("born", "oddness", "streak", "anchor", "deviation", "usual", "expected", "size"):
        one, other = getattr(wanted, name), on_host(getattr(found, name))[0, :members]
        rows = exact if name == "size" else slice(None)
        np.testing.assert_allclose(other[rows], one[rows], atol=1e-3, rtol=1e-3, err_msg=name)
    assert not on_host(found.born)[0, members:].any()


def covered(seed: int, members: int) -> Floats:
    random = np.random.default_rng(seed)
    factors = random.normal(size=(members, 3))
    covariance = factors @ factors.T + np.diag(random.uniform(0.2, 1, members))
    unit = 1 / np.sqrt(covariance.diagonal())
    return np.asarray(covariance * unit[:, None] * unit)


def near(put: Put) -> float:
    return 1e-9 if put.dtype == np.float64 else 1e-4


@pytest.mark.parametrize("members", [1, 2, 31, 32, 33, 64, 71])
def test_the_inverse_is_the_inverse(put: Put, members: int) -> None:
    matrices = np.stack([covered(seed, members) for seed in range(3)])
    given_in = put(matrices)
    found = on_host(inverse(given_in))
    assert found.dtype == put.dtype
    wanted = np.linalg.inv(matrices.astype(put.dtype).astype(float))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=near(put) * np.abs(wanted).max())
    np.testing.assert_array_equal(on_host(given_in), matrices.astype(put.dtype))


@pytest.mark.parametrize("members", [2, 8, 40, 64])
def test_what_is_not_positive_definite_is_inverted_as_if_it_were(put: Put, members: int) -> None:
    """Sensors that equal each other, moments that lost their definiteness, and one sound matrix among them."""
    random = np.random.default_rng(members)
    twins = np.ones((members, members))
    broken = covered(0, members)
    values, vectors = np.linalg.eigh(broken)
    values[0] = -0.05
    sound_one = covered(1, members)
    noisy = twins - np.diag(1e-3 * random.random(members))
    matrices = np.stack([twins, (vectors * values) @ vectors.T, noisy, sound_one])
    found = on_host(inverse(put(matrices))).astype(float)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, found.transpose(0, 2, 1), rtol=1e-4, atol=1e-3)
    assert (np.linalg.eigvalsh(found).min(axis=1) > -1e-3 * np.abs(found).max(axis=(1, 2))).all()
    wanted = np.linalg.inv(sound_one.astype(put.dtype).astype(float))
    np.testing.assert_allclose(found[3], wanted, rtol=0, atol=near(put) * np.abs(wanted).max())


@given(SEEDS, st.integers(1, 9), SHARES)
def test_the_masked_median(put: Put, seed: int, count: int, share: float) -> None:
    random = np.random.default_rng(seed)
    values, mask = random.normal(size=(3, 2, count)), random.random((3, 2, count)) < share
    found = on_host(masked_median(put(values), put(mask)))
    for at in np.ndindex(3, 2):
        inside = values[at][mask[at]]
        wanted = np.median(inside) if inside.size else np.nan
        np.testing.assert_allclose(found[at], wanted, rtol=1e-5)


@pytest.mark.parametrize("variables", [1, 2])
def test_medians_that_all_share_are_medians(put: Put, variables: int) -> None:
    random = np.random.default_rng(variables)
    values = random.normal(-2, 1.5, (301 * variables, 3))
    counts = random.random(301 * variables) < 0.8
    counts[variables - 1 :: variables] = variables == 1
    model: Any = SimpleNamespace(variables=variables)
    found = sight._medians(model, put(values), put(counts))
    for variable in range(variables):
        mine = values[variable::variables][counts[variable::variables]]
        if len(mine) == 0:
            assert np.isnan(found[variable]).all()
        else:
            np.testing.assert_allclose(found[variable], np.median(mine, axis=0), atol=1.5 / sight.PER_UNIT)


def test_what_all_share_is_what_the_small_engine_would_say() -> None:
    class Wide(AutoOLRTR):
        _wide = 1

    wide = Wide()
    walk(wide, sound(60, 12))
    model = wide._model
    assert model is not None
    common = sight.Common.of(model)
    model.channels = model.channels.moved(None, single=False)
    pooled = model.pooled(model.channels.median)
    widths = model.pooled(model.channels.high - model.channels.median)
    np.testing.assert_allclose(common.usual[0], pooled[0], atol=1.5 / sight.PER_UNIT)
    np.testing.assert_allclose(common.width[0], np.clip(widths[0], *judge.SPREAD), atol=1.5 / sight.PER_UNIT)
    np.testing.assert_allclose(common.ripple[0], model.ripple()[0], rtol=1e-6)
    readings = sound(60, 13)[..., 12]
    scaled = sight.forward(readings, common, None)
    np.testing.assert_allclose(scaled, model.scales.forward(readings, model.variable), atol=1e-5)
    np.testing.assert_allclose(sight.backward(scaled.astype(float), common, None), readings, rtol=0, atol=1e-5)


def related(put: Put, covariance: Floats) -> Kin:
    spread = np.sqrt(np.maximum(covariance.diagonal(), 1e-12))[None]
    return Kin(put(covariance[None]), put(spread), put(np.zeros((1, len(covariance), 0), dtype=np.int64)))


@given(SEEDS, st.integers(2, 14), st.sampled_from([0.4, 0.9, 1.0]), st.integers(0, 6), st.integers(1, 2))
def test_the_screen_sets_aside_whom_the_small_engine_does(
    put: Put, seed: int, members: int, share: float, far: int, variables: int
) -> None:
    random = np.random.default_rng(seed)
    deviation = single(random.normal(size=(members, 24)) * random.uniform(0.3, 2, (members, 1)))
    deviation[random.integers(0, members, far)] += random.uniform(-30, 30)
    observed = random.random((members, 24)) < share
    observed[random.random(members) < 0.1] = False
    known = random.random(members) < 0.9
    deviation = np.where(observed, deviation, 0.0)
    moments = np.diag(random.uniform(0.5, 2, members)).astype(np.float32)
    hood = Hood(np.arange(members), members, moments, np.zeros((members, 0), dtype=np.float32))
    model: Any = SimpleNamespace(hood=hood, variables=variables)
    today: Any = SimpleNamespace(judged=observed & known[:, None], deviation=deviation)
    wanted = judging.Verdict.open(members)
    factors = random.normal(size=(members, 3))
    prior = factors @ factors.T + np.eye(members)
    judging._screen(model, prior, today, wanted)
    padding = 2
    padded = [np.concatenate([array, np.repeat(array[:1], padding, axis=0)])[None] for array in (deviation, observed)]
    real = np.arange(members + padding)[None] < members
    variance = np.concatenate([moments.diagonal(), np.zeros(padding)])[None]
    seen = padded[1].any(axis=2) & np.concatenate([known, np.zeros(padding, dtype=bool)]) & real
    seeing: Any = SimpleNamespace(
        xp=namespace(put(variance)),
        variance=put(variance),
        observed=put(padded[1] & real[..., None]),
        deviation=put(padded[0]),
        variable=None,
        members=put(np.minimum(np.arange(members + padding), members - 1)[None]),
    )
    kin = related(put, np.pad(prior, (0, padding)))
    found = on_host(verdict._screen(model, seeing, kin, put(seen)))[0]
    np.testing.assert_array_equal(found[:members], wanted.flagged)
    assert not found[members:].any()


def test_the_few_who_measure_another_variable_are_not_far_from_everyone(put: Put) -> None:
    random = np.random.default_rng(0)
    variable = np.where(np.arange(20) < 6, 1, 0)[None]
    deviation = random.normal(0, 0.5, (1, 20, 24)) + 8.0 * variable[..., None]
    deviation[0, 3] -= 20
    deviation[0, 12] += 20
    seeing: Any = SimpleNamespace(
        xp=namespace(put(deviation)),
        variance=put(np.ones((1, 20))),
        observed=put(np.ones(deviation.shape, dtype=bool)),
        deviation=put(deviation),
        variable=put(variable),
        members=put(2 * np.arange(20)[None] + variable),
    )
    model: Any = SimpleNamespace(variables=2)
    found = on_host(verdict._screen(model, seeing, related(put, np.eye(20)), put(np.ones((1, 20), dtype=bool))))
    assert np.flatnonzero(found[0]).tolist() == [3, 12]
