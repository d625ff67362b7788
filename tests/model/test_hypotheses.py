"""What `follow` keeps and what it ends with are what an enumeration of all stories says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracles.following import followed, rows_of
from oracles.hypotheses import KINDS, Case, Channel, Episode, best_story, explain

SEEDS = st.integers(0, 2**32 - 1)
NOT_REPEATED, REPEATED = 1.0, -5.0
CLOSE = 1e-8
"""Log-likelihoods are below 1,000; over 30,000 hypotheses rounding stayed below 1e-12."""


def drawn_channel(random: np.random.Generator) -> Channel:
    tau = random.uniform(1, 8)
    return Channel(
        phi=float(random.choice([0.0, 0.3, 0.7, 0.97])), tau=tau, slope=2 * tau, begin=-random.uniform(2, 26),
        wander=random.uniform(0.1, 4), slots=int(random.choice([4, 24])), freedom=random.uniform(3, 10),
        noisy=random.uniform(0.5, 5), usually=float(random.choice([0.0, 1.0, 10.0])),
    )  # fmt: skip


@settings(max_examples=150)
@given(SEEDS, st.integers(1, 5))
def test_every_hypothesis_has_the_likelihood_of_its_story(seed: int, readings: int) -> None:
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
    assert len({row.story for row in rows}) == len(rows)
    for row in rows:
        explanation = explain(case, row.story)
        assert explanation is not None
        assert row.log_likelihood == pytest.approx(explanation.log_likelihood, rel=0, abs=CLOSE)
        assert row.level == pytest.approx(explanation.level, rel=0, abs=CLOSE)
        np.testing.assert_allclose(row.sizes, explanation.sizes, rtol=0, atol=CLOSE)


def usual_channel(phi: float) -> Channel:
    """Return a channel whose innovations have the scale 1, as the engine would describe it."""
    deviation = (1 - phi**2) ** -0.5
    return Channel(
        phi=phi, tau=5 * deviation, slope=10 * deviation, begin=-11.0, wander=2 * deviation, slots=4, freedom=4.5,
        noisy=2.5 * deviation,
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
        usual_channel(phi), last=0.0, last_time=start - 1, level=0.0, start=start, observed=np.ones(slots, np.bool_),
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
    elif episode.kind == "drifting":
        residual[inside] += sign * (10 + 5 * np.arange(length))
    elif episode.kind == "gain":
        residual[inside] -= 3 * case.expected[inside]
    elif episode.kind == "noisy":
        residual[inside] = size * random.choice([-1, 1], length) * random.uniform(0.5, 1.5, length)
    else:
        # A sensor that repeats itself while the network moves on.
        residual[inside] = sign * 5.0 * np.arange(1, length + 1)
        repeated[inside] = REPEATED
    return replace(case, residual=residual, repeated=repeated)


def assert_the_best(case: Case, episodes: int, kinds: tuple[str, ...] = KINDS) -> None:
    story, log_likelihood, margin = best_story(case, episodes, kinds)
    rows = rows_of(case, *followed(case))
    # Where two stories are about as likely, rounding might decide.
    assume(margin > 1e-6)
    assert rows[0].story == story
    assert rows[0].log_likelihood == pytest.approx(log_likelihood, rel=0, abs=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]), st.integers(0, 9), st.integers(0, 9))
def test_the_best_hypothesis_is_the_best_of_all_stories(kind: str, seed: int, phi: float, one: int, other: int) -> None:
    random = np.random.default_rng(seed)
    case = with_fault(sound_case(random, phi, 10), Episode(kind, min(one, other), max(one, other)), random)
    assert_the_best(case, 1)


@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]))
def test_a_sound_window_is_best_explained_as_sound(seed: int, phi: float) -> None:
    case = sound_case(np.random.default_rng(seed), phi, 10)
    assert_the_best(case, 1)
    assert rows_of(case, *followed(case))[0].story == ()


@settings(max_examples=8)
@given(SEEDS, st.sampled_from([0.0, 0.5, 0.9]))
def test_two_episodes_in_one_window(seed: int, phi: float) -> None:
    random = np.random.default_rng(seed)
    case = sound_case(random, phi, 9)
    kinds = tuple(random.choice(["offset", "noisy", "drifting"], 2))
    case = with_fault(case, Episode(kinds[0], 1, 3), random)
    case = with_fault(case, Episode(kinds[1], 6, 8), random)
    assert_the_best(case, 2, ("offset", "noisy", "drifting"))
