"""Hypotheses follow a channel: their likelihoods are those of an enumeration of all histories, and invariants hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checks import assert_same_array
from oracles import kernels
from oracles.following import Beam, beam_of, followed, rows_of
from oracles.hypotheses import KINDS, Case, Channel, Episode, best_history, explain
from sensormend.model.hypotheses import NONE
from sensormend.model.records import SOUND

SEEDS = st.integers(0, 2**32 - 1)
MEMORIES = st.sampled_from([0.0, 0.5, 0.9])
TIMES = ("start", "last_t", "sound_t", "last_wrong")
NOT_REPEATED, REPEATED = 1.0, -5.0
CLOSE = 1e-8
"""Log-likelihoods are below 1,000; over 30,000 hypotheses rounding stayed below 1e-12."""


def drawn_channel(random: np.random.Generator) -> Channel:
    tau = random.uniform(1, 8)
    return Channel(
        phi=float(random.choice([0.0, 0.3, 0.7, 0.97])), tau=tau, drift_sd=2 * tau,
        log_prior=-random.uniform(2, 26), wander=random.uniform(0.1, 4), slots=int(random.choice([4, 24])),
        freedom=random.uniform(3, 10), noise_sd=random.uniform(0.5, 5),
        usual_distance=float(random.choice([0.0, 1.0, 10.0])),
    )  # fmt: skip


@settings(max_examples=150)
@given(SEEDS, st.integers(1, 5))
def test_every_hypothesis_has_the_likelihood_of_its_history(seed: int, readings: int) -> None:
    # With fewer than six readings, none is turned back into a sound span.
    random = np.random.default_rng(seed)
    slots = 2 * readings
    observed = np.zeros(slots, np.bool_)
    observed[random.permutation(slots)[:readings]] = True
    start = int(random.integers(0, 100_000))
    case = Case(
        drawn_channel(random), last=random.normal(), last_time=start - int(random.integers(1, 4)), level=0.05,
        start=start, observed=observed,
        residual=random.normal(size=slots) * random.choice([1, 3, 10], slots) + random.choice([0, 0, 20]),
        expected=3 * random.normal(size=slots),
        repeated=np.where(random.random(slots) < 0.3, -random.uniform(0, 4, slots), NOT_REPEATED),
        scale=random.uniform(0.3, 2, slots),
    )  # fmt: skip
    rows = rows_of(case, *followed(case))
    assert rows
    assert len({row.history for row in rows}) == len(rows)
    for row in rows:
        explanation = explain(case, row.history)
        assert explanation is not None
        assert row.log_likelihood == pytest.approx(explanation.log_likelihood, rel=0, abs=CLOSE)
        assert row.level == pytest.approx(explanation.level, rel=0, abs=CLOSE)
        np.testing.assert_allclose(row.sizes, explanation.sizes, rtol=0, atol=CLOSE)


def test_a_sensor_gets_stuck_in_a_fault_without_a_sound_reading() -> None:
    """Eight readings that are far off, and then the last of them again and again while the others move."""
    random = np.random.default_rng(0)
    residual = np.concatenate([random.normal(size=6), 15 + random.normal(size=8), 16 + 0.3 * np.arange(1, 21)])
    repeated = np.full(residual.size, NOT_REPEATED)
    repeated[14:] = -4.0
    size = residual.size
    case = Case(
        usual_channel(0.5, 24), last=0.0, last_time=23, level=0.0, start=24, observed=np.ones(size, np.bool_),
        residual=residual, expected=np.zeros(size), repeated=repeated, scale=np.ones(size),
    )  # fmt: skip
    best = rows_of(case, *followed(case))[0]
    assert [episode.kind for episode in best.history] == ["offset", "stuck"]
    offset, stuck = best.history
    assert (offset.first, offset.last + 1, stuck.last) == (6, stuck.first, size - 1)
    assert stuck.first == 14
    explanation = explain(case, best.history)
    assert explanation is not None
    assert best.log_likelihood == pytest.approx(explanation.log_likelihood, rel=0, abs=CLOSE)


def usual_channel(phi: float, slots: int) -> Channel:
    """Return a channel whose innovations have the scale 1, as the engine would describe it."""
    deviation = (1 - phi**2) ** -0.5
    return Channel(
        phi=phi, tau=5 * deviation, drift_sd=10 * deviation, log_prior=-11.0, wander=2 * deviation, slots=slots,
        freedom=4.5, noise_sd=2.5 * deviation,
    )  # fmt: skip


def sound_case(random: np.random.Generator, phi: float, slots: int) -> Case:
    """Return a window of a sound channel without a reading far off."""
    residual, last = np.zeros(slots), 0.0
    for t in range(slots):
        last = residual[t] = phi * last + random.uniform(-1, 1)
    start = 24 * int(random.integers(1, 1000))
    # Away from 0, so that a wrong gain shows at once: a fault begins with a reading that is not where it should be.
    expected = random.choice([-1, 1], slots) * random.uniform(3, 9, slots)
    return Case(
        usual_channel(phi, 4), last=0.0, last_time=start - 1, level=0.0, start=start, observed=np.ones(slots, np.bool_),
        residual=residual, expected=expected, repeated=np.full(slots, NOT_REPEATED), scale=np.ones(slots),
    )  # fmt: skip


def with_fault(case: Case, episode: Episode, random: np.random.Generator) -> Case:
    """Put a large fault into a sound window in which every slot has a reading."""
    inside = slice(episode.first, episode.last + 1)
    length = episode.last + 1 - episode.first
    residual, repeated = case.residual.copy(), case.repeated.copy()
    sign, size = random.choice([-1, 1]), random.uniform(25, 60)
    if episode.kind == "offset":
        residual[inside] += sign * size
    elif episode.kind == "drift":
        residual[inside] += sign * (10 + 5 * np.arange(length))
    elif episode.kind == "gain":
        residual[inside] -= 3 * case.expected[inside]
    elif episode.kind == "noise":
        residual[inside] = size * random.choice([-1, 1], length) * random.uniform(0.5, 1.5, length)
    else:
        # A sensor that repeats itself while the network moves on.
        residual[inside] = sign * 5.0 * np.arange(1, length + 1)
        repeated[inside] = REPEATED
    return replace(case, residual=residual, repeated=repeated)


def assert_the_best(case: Case, episodes: int, kinds: tuple[str, ...] = KINDS) -> None:
    history, log_likelihood, margin = best_history(case, episodes, kinds)
    rows = rows_of(case, *followed(case))
    # Where two histories are about as likely, rounding might decide.
    assume(margin > 1e-6)
    assert rows[0].history == history
    assert rows[0].log_likelihood == pytest.approx(log_likelihood, rel=0, abs=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]), st.integers(0, 9), st.integers(0, 9))
def test_the_best_hypothesis_is_the_best_of_all_histories(
    kind: str, seed: int, phi: float, one: int, other: int
) -> None:
    random = np.random.default_rng(seed)
    case = with_fault(sound_case(random, phi, 10), Episode(kind, min(one, other), max(one, other)), random)
    assert_the_best(case, 1)


@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]))
def test_a_sound_window_is_best_explained_as_sound(seed: int, phi: float) -> None:
    case = sound_case(np.random.default_rng(seed), phi, 10)
    assert_the_best(case, 1)
    assert rows_of(case, *followed(case))[0].history == ()


@settings(max_examples=8)
@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]))
def test_two_episodes_in_one_window(seed: int, phi: float) -> None:
    random = np.random.default_rng(seed)
    case = sound_case(random, phi, 9)
    kinds = tuple(random.choice(["offset", "noise", "drift"], 2))
    case = with_fault(case, Episode(kinds[0], 1, 3), random)
    case = with_fault(case, Episode(kinds[1], 6, 8), random)
    assert_the_best(case, 2, ("offset", "noise", "drift"))


def normal_case(random: np.random.Generator, phi: float, slots: int) -> Case:
    """Return a sound channel with normal innovations of the scale 1, as the engine would describe it."""
    residual, last = np.zeros(slots), 0.0
    for t in range(slots):
        last = residual[t] = phi * last + random.normal()
    return Case(
        usual_channel(phi, 24), last=0.0, last_time=239, level=0.0, start=240, observed=np.ones(slots, np.bool_),
        residual=residual, expected=4 * np.sin(np.arange(slots) / 24 * 2 * np.pi), repeated=np.ones(slots),
        scale=np.ones(slots),
    )  # fmt: skip


def with_offset(case: Case, first: int, last: int, size: float) -> Case:
    """Add an offset of so many standard deviations of the residual."""
    residual = case.residual.copy()
    residual[first : last + 1] += size * (1 - case.channel.phi**2) ** -0.5
    return replace(case, residual=residual)


def any_case(seed: int) -> Case:
    """Return a channel with gaps, repeats and one or two faults of any size."""
    random = np.random.default_rng(seed)
    case = normal_case(random, float(random.choice([0.0, 0.5, 0.9])), 60)
    for _ in range(random.integers(0, 3)):
        first, last = np.sort(random.integers(0, 60, 2))
        case = with_offset(case, first, last, random.normal() * 12)
    noise = np.where(random.random(60) < 0.1, random.normal(0, 20, 60), 0)
    repeated = np.where(random.random(60) < 0.1, -3.0, 1.0)
    return replace(case, residual=case.residual + noise, repeated=repeated, observed=random.random(60) < 0.8)


def best_episodes(case: Case) -> tuple[Episode, ...]:
    return rows_of(case, *followed(case))[0].history


def same_verdicts(case: Case, one: Beam, two: Beam) -> None:
    """Assert that hypotheses are the same up to rounding and the kind of faults of one reading.

    An offset, a drift and noise of one reading may be equally likely to the last bit, and rounding says which is kept.
    """
    shares = np.zeros((2, case.observed.size))
    logl = []
    for beam, share in zip((one, two), shares, strict=True):
        kernels.wrong_probability(beam, case.start, share)
        logl.append(np.sort(beam["logl"]))
    np.testing.assert_allclose(logl[0], logl[1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=1e-6)
    spans = ({(episode.first, episode.last) for episode in rows_of(case, beam, 0.0)[0].history} for beam in (one, two))
    assert next(spans) == next(spans)


@settings(max_examples=100)
@given(SEEDS, MEMORIES)
def test_a_sound_channel_stays_sound(seed: int, phi: float) -> None:
    assert best_episodes(normal_case(np.random.default_rng(seed), phi, 240)) == ()


@settings(max_examples=100)
@given(SEEDS, MEMORIES, st.integers(1, 40), st.integers(4, 30), st.sampled_from([-10.0, 10.0]))
def test_an_offset_is_dated_within_one_reading(seed: int, phi: float, first: int, length: int, size: float) -> None:
    case = with_offset(normal_case(np.random.default_rng(seed), phi, 80), first, first + length - 1, size)
    (episode,) = best_episodes(case)
    assert abs(episode.first - first) <= 1
    assert abs(episode.last - (first + length - 1)) <= 1


def test_no_offset_is_lost_to_a_gain_near_one() -> None:
    lost = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        first, length = int(random.integers(1, 40)), int(random.integers(6, 30))
        case = with_offset(normal_case(random, 0.0, 80), first, first + length - 1, -10.0)
        lost += best_episodes(case) == ()
    assert lost == 0


@given(SEEDS, MEMORIES, st.integers(1, 40), st.sampled_from([-10.0, 10.0]))
def test_an_offset_that_lasts_is_open(seed: int, phi: float, first: int, size: float) -> None:
    case = with_offset(normal_case(np.random.default_rng(seed), phi, 60), first, 59, size)
    beam, _ = followed(case)
    best = beam[kernels.best_hypothesis(beam)]
    assert best.kind != SOUND
    assert abs(best.start - (240 + first)) <= 1
    assert best.last_wrong == 240 + 59


@given(SEEDS, MEMORIES, st.integers(1, 20), st.sampled_from([-10.0, 10.0]), st.floats(0.1, 0.7))
def test_missing_readings_do_not_split_a_fault(seed: int, phi: float, first: int, size: float, lost: float) -> None:
    random = np.random.default_rng(seed)
    case = with_offset(normal_case(random, phi, 60), first, first + 30, size)
    observed = np.ones(60, np.bool_)
    observed[first + 1 : first + 30] = random.random(29) >= lost
    history = best_episodes(replace(case, observed=observed))
    assert len(history) == 1
    # Its last reading, in the numbers of those that came in.
    assert abs(history[0].last - (observed[: first + 31].sum() - 1)) <= 1


@given(SEEDS, st.integers(-240, 10**6))
def test_time_has_no_origin(seed: int, shift: int) -> None:
    case = any_case(seed)
    later = replace(case, start=case.start + shift, last_time=case.last_time + shift)
    beam, best = followed(case)
    moved, best_moved = followed(later)
    assert best == best_moved
    used = beam["logl"] > NONE
    np.testing.assert_array_equal(used, moved["logl"] > NONE)
    beam, moved = beam[used], moved[used]
    for field in TIMES:
        # 0 until a first fault begins.
        known = (beam["count"] > 0) | (field in ("start", "last_t"))
        beam[field][known & (beam[field] != 0)] += shift
        moved[field][~known] = beam[field][~known]
    ended = beam["ended"]["kind"] != SOUND
    for field in ("first", "last"):
        beam["ended"][field][ended] += shift
    assert_same_array(beam, moved, "beam")


@given(SEEDS, st.sampled_from([1e-3, 0.5, 3.0, 1e4]))
def test_a_unit_changes_no_verdict(seed: int, factor: float) -> None:
    case = any_case(seed)
    channel = case.channel
    channel = replace(
        channel, tau=factor * channel.tau, drift_sd=factor * channel.drift_sd, wander=factor * channel.wander,
        noise_sd=factor * channel.noise_sd,
    )  # fmt: skip
    scaled = replace(
        case, channel=channel, last=factor * case.last, level=factor * case.level, residual=factor * case.residual,
        expected=factor * case.expected, scale=factor * case.scale,
    )  # fmt: skip
    (beam, best), (other, other_best) = followed(case), followed(scaled)
    # A density is per unit.
    assert other_best + case.observed.sum() * np.log(factor) == pytest.approx(best, abs=1e-6)
    same_verdicts(case, beam, other)


@given(SEEDS)
def test_probabilities(seed: int) -> None:
    case = any_case(seed)
    beam, best = followed(case)
    share = np.full(60, np.nan)
    kernels.wrong_probability(beam, case.start, share)
    rows = rows_of(case, beam, best)
    weight = np.exp([row.log_likelihood - best for row in rows])
    weight /= weight.sum()
    slots = case.slots
    expected = np.zeros(60)
    for row, probability in zip(rows, weight, strict=True):
        for episode in row.history:
            expected[slots[episode.first] : slots[episode.last] + 1] += probability
    assert (share >= 0).all()
    assert (share <= 1 + 1e-12).all()
    np.testing.assert_allclose(share, expected, atol=1e-12)


def same_beams(one: Beam, two: Beam) -> None:
    used = one["logl"] > NONE
    np.testing.assert_array_equal(used, two["logl"] > NONE)
    assert_same_array(one[used], two[used], "beam")


@given(SEEDS)
def test_slots_without_a_reading_change_nothing(seed: int) -> None:
    case = any_case(seed)
    gone = ~case.observed
    other = replace(
        case, residual=np.where(gone, np.nan, case.residual), expected=np.where(gone, np.inf, case.expected),
        repeated=np.where(gone, -9.0, case.repeated), scale=np.where(gone, 0.0, case.scale),
    )  # fmt: skip
    (one, best), (two, other_best) = followed(case), followed(other)
    assert best == other_best
    same_beams(one, two)


@given(SEEDS)
def test_a_window_without_readings_changes_nothing(seed: int) -> None:
    case = any_case(seed)
    beam, _ = followed(case)
    silent = replace(case, start=case.start + 60, observed=np.zeros(60, np.bool_))
    after, best = followed(silent, beam.copy())
    assert best == 0
    same_beams(beam, after)


@given(SEEDS, st.integers(0, 60))
def test_where_windows_are_cut_does_not_matter(seed: int, cut: int) -> None:
    case = any_case(seed)
    whole, best = followed(case)
    parts, total = beam_of(case), 0.0
    for start, stop in ((0, cut), (cut, 60)):
        window = {
            name: getattr(case, name)[start:stop] for name in ("observed", "residual", "expected", "repeated", "scale")
        }
        parts, gained = followed(replace(case, start=case.start + start, **window), parts)
        total += gained
    assert total == pytest.approx(best, abs=1e-9)
    same_verdicts(case, whole, parts)
