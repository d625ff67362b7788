"""What the explanation of residuals keeps to, whatever they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import kernels
from oracles.following import beam_of, followed, rows_of
from oracles.hypotheses import Case, Channel, Episode, Floats
from sensormend.model import faults

SEEDS = st.integers(0, 2**32 - 1)
MEMORIES = st.sampled_from([0.0, 0.5, 0.9])
TIMES = (faults.START, faults.LAST_T, faults.SOUND_T, faults.LAST_WRONG)


def sound_case(random: np.random.Generator, phi: float, slots: int) -> Case:
    """Return a sound channel with normal innovations of the scale 1, as the engine would describe it."""
    deviation = (1 - phi**2) ** -0.5
    channel = Channel(
        phi=phi, tau=5 * deviation, slope=10 * deviation, begin=-11.0, wander=2 * deviation, slots=24, freedom=4.5,
        noisy=2.5 * deviation,
    )  # fmt: skip
    residual, last = np.zeros(slots), 0.0
    for t in range(slots):
        last = residual[t] = phi * last + random.normal()
    return Case(
        channel, last=0.0, last_time=239, level=0.0, start=240, observed=np.ones(slots, np.bool_), residual=residual,
        expected=4 * np.sin(np.arange(slots) / 24 * 2 * np.pi), repeated=np.ones(slots), scale=np.ones(slots),
    )  # fmt: skip


def with_offset(case: Case, first: int, last: int, size: float) -> Case:
    """Add an offset of so many standard deviations of the residual."""
    residual = case.residual.copy()
    residual[first : last + 1] += size * (1 - case.channel.phi**2) ** -0.5
    return replace(case, residual=residual)


def any_case(seed: int) -> Case:
    """Return a channel with gaps, repeats and one or two faults of any size."""
    random = np.random.default_rng(seed)
    case = sound_case(random, float(random.choice([0.0, 0.5, 0.9])), 60)
    for _ in range(random.integers(0, 3)):
        first, last = np.sort(random.integers(0, 60, 2))
        case = with_offset(case, first, last, random.normal() * 12)
    noise = np.where(random.random(60) < 0.1, random.normal(0, 20, 60), 0)
    repeated = np.where(random.random(60) < 0.1, -3.0, 1.0)
    return replace(case, residual=case.residual + noise, repeated=repeated, observed=random.random(60) < 0.8)


def best_episodes(case: Case) -> tuple[Episode, ...]:
    return rows_of(case, *followed(case))[0].story


def same_verdicts(case: Case, one: Floats, two: Floats) -> None:
    """Assert that hypotheses are the same up to rounding and the kind of faults of one reading.

    An offset, a drift and noise of one reading may be equally likely to the last bit, and rounding says which is kept.
    """
    shares = np.zeros((2, case.observed.size))
    logl = []
    for beam, share in zip((one, two), shares, strict=True):
        kernels.wrong_probability(beam, case.start, share)
        logl.append(np.sort(beam[:, faults.LOGL]))
    np.testing.assert_allclose(logl[0], logl[1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=1e-6)
    spans = ({(episode.first, episode.last) for episode in rows_of(case, beam, 0.0)[0].story} for beam in (one, two))
    assert next(spans) == next(spans)


@settings(max_examples=100)
@given(SEEDS, MEMORIES)
def test_a_sound_channel_stays_sound(seed: int, phi: float) -> None:
    assert best_episodes(sound_case(np.random.default_rng(seed), phi, 240)) == ()


@settings(max_examples=100)
@given(SEEDS, MEMORIES, st.integers(1, 40), st.integers(4, 30), st.sampled_from([-10.0, 10.0]))
def test_an_offset_is_dated_within_one_reading(seed: int, phi: float, first: int, length: int, size: float) -> None:
    case = with_offset(sound_case(np.random.default_rng(seed), phi, 80), first, first + length - 1, size)
    (episode,) = best_episodes(case)
    assert abs(episode.first - first) <= 1
    assert abs(episode.last - (first + length - 1)) <= 1


def test_no_offset_is_lost_to_a_gain_near_one() -> None:
    lost = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        first, length = int(random.integers(1, 40)), int(random.integers(6, 30))
        case = with_offset(sound_case(random, 0.0, 80), first, first + length - 1, -10.0)
        lost += best_episodes(case) == ()
    assert lost == 0


@given(SEEDS, MEMORIES, st.integers(1, 40), st.sampled_from([-10.0, 10.0]))
def test_an_offset_that_lasts_is_open(seed: int, phi: float, first: int, size: float) -> None:
    case = with_offset(sound_case(np.random.default_rng(seed), phi, 60), first, 59, size)
    beam, _ = followed(case)
    best = beam[kernels.best_hypothesis(beam)]
    assert best[faults.KIND] != faults.SOUND
    assert abs(best[faults.START] - (240 + first)) <= 1
    assert best[faults.LAST_WRONG] == 240 + 59


@given(SEEDS, MEMORIES, st.integers(1, 20), st.sampled_from([-10.0, 10.0]), st.floats(0.1, 0.7))
def test_missing_readings_do_not_split_a_fault(seed: int, phi: float, first: int, size: float, lost: float) -> None:
    random = np.random.default_rng(seed)
    case = with_offset(sound_case(random, phi, 60), first, first + 30, size)
    observed = np.ones(60, np.bool_)
    observed[first + 1 : first + 30] = random.random(29) >= lost
    story = best_episodes(replace(case, observed=observed))
    assert len(story) == 1
    # Its last reading, in the numbers of those that came in.
    assert abs(story[0].last - (observed[: first + 31].sum() - 1)) <= 1


@given(SEEDS, st.integers(-240, 10**6))
def test_time_has_no_origin(seed: int, shift: int) -> None:
    case = any_case(seed)
    later = replace(case, start=case.start + shift, last_time=case.last_time + shift)
    beam, best = followed(case)
    moved, best_moved = followed(later)
    assert best == best_moved
    kept = beam[:, faults.LOGL] > faults.NONE
    np.testing.assert_array_equal(kept, moved[:, faults.LOGL] > faults.NONE)
    beam, moved = beam[kept], moved[kept]
    for field in range(faults.FIELDS):
        episode = (field - faults.ENDED) % faults.EPISODE if field >= faults.ENDED else -1
        known = beam[:, field] > faults.NONE
        if field in (faults.SOUND_T, faults.LAST_WRONG):
            # 0 until a first fault begins.
            known &= beam[:, faults.COUNT] > 0
        if field in TIMES or episode in (0, 1):
            np.testing.assert_array_equal(
                beam[known, field] + shift * (beam[known, field] != 0), moved[known, field], err_msg=str(field)
            )
        else:
            np.testing.assert_array_equal(beam[:, field], moved[:, field], err_msg=str(field))


@given(SEEDS, st.sampled_from([1e-3, 0.5, 3.0, 1e4]))
def test_a_unit_changes_no_verdict(seed: int, factor: float) -> None:
    case = any_case(seed)
    channel = case.channel
    channel = replace(
        channel, tau=factor * channel.tau, slope=factor * channel.slope, wander=factor * channel.wander,
        noisy=factor * channel.noisy,
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
    sound = kernels.wrong_probability(beam, case.start, share)
    rows = rows_of(case, beam, best)
    weight = np.exp([row.log_likelihood - best for row in rows])
    weight /= weight.sum()
    slots = case.slots
    expected, now_sound = np.zeros(60), 0.0
    for row, probability in zip(rows, weight, strict=True):
        for episode in row.story:
            expected[slots[episode.first] : slots[episode.last] + 1] += probability
        now_sound += 0.0 if row.is_open else probability
    assert (share >= 0).all()
    assert (share <= 1 + 1e-12).all()
    np.testing.assert_allclose(share, expected, atol=1e-12)
    assert sound == pytest.approx(now_sound, abs=1e-12)


def same_beams(one: Floats, two: Floats) -> None:
    kept = one[:, faults.LOGL] > faults.NONE
    np.testing.assert_array_equal(kept, two[:, faults.LOGL] > faults.NONE)
    np.testing.assert_array_equal(one[kept], two[kept])


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
