"""The sensor mode: second moments of a neighbourhood, leaning on a dictionary of few patterns.

The covariance that predicts a sensor from the others is a mixture of the second moments themselves and of what
`rank` patterns and an own noise per sensor explain of them. Rank and mixture are chosen by how well readings
are predicted that the prediction did not see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sensormend.auto.conditioning import condition
from sensormend.auto.copies import tell_apart
from sensormend.auto.memory import Hood, Pools
from sensormend.auto.neighbourhoods import IntArray
from sensormend.auto.stack import Stack
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "MEMORY",
    "RANKS",
    "SHRINKAGES",
    "Outlook",
    "Sample",
    "learn_moments",
    "newborn_rows",
    "refresh",
    "try_rungs",
]

MEMORY = 0.98
"""Weight of the past per period: about 50 periods. NOAA hardly cares between 0.97 and 0.985."""

RANKS = (1, 2, 3, 5, 8, 12)
SHRINKAGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)

PATIENCE = 0.9
"""Memory of the trials; a rung is taken when it gained 2 % over about ten periods."""

KIN_DAYS = 3.0
"""What the others' ways count for, in days, when a sensor joins them."""

KIN_SPREAD_DAYS = 10.0
"""Days after which the spread of a sensor that joined counts as much as that of the others."""

HASTE = 4.0
"""How much faster than the rest a young channel may learn."""

KINSHIP = 0.9
"""A sensor never seen before is taken to follow the others nearly as well as they follow each other."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the covariance of a stack of neighbourhoods is made of, at whatever rungs.

    `patterns` are all of the dictionary's, the strongest last; `usable` is how many a neighbourhood of that size has
    a use for. `copies` are members that report the same today, None where there are none.
    """

    correlation: FloatArray
    spread: FloatArray
    patterns: FloatArray
    known: BoolArray
    real: BoolArray
    usable: IntArray
    copies: BoolArray | None = None

    @classmethod
    def of(cls, stack: Stack, days: FloatArray, copies: BoolArray | None = None) -> Outlook:
        """Look at the neighbourhoods' moments and dictionaries; `days` are the members'."""
        correlation, spread = _correlation(stack.moments())
        _steady(spread, days, stack.real)
        patterns = _patterns(stack.dictionary().astype(float), correlation)
        known, usable = (days > 0) & stack.real, np.maximum(stack.size - 1, 1)
        return cls(correlation, spread, patterns, known, stack.real, usable, copies)

    def covariance(self, rank: int, shrinkage: int) -> FloatArray:
        """Return the covariance of the members at these rungs."""
        patterns = self._strongest(RANKS[rank])
        share = SHRINKAGES[shrinkage]
        mixed = patterns @ patterns.transpose(0, 2, 1)
        mixed *= share
        mixed += (1 - share) * self.correlation
        spread = self.spread
        if (self.known != self.real).any():
            spread = spread.copy()
            for index in np.flatnonzero((self.known != self.real).any(axis=1)).tolist():
                self._with_newborns(index, mixed, spread)
        diagonal = mixed.reshape(mixed.shape[0], -1)[:, :: mixed.shape[1] + 1]
        diagonal[:] = 1 + 1e-6
        mixed *= spread[:, :, None]
        mixed *= spread[:, None, :]
        if self.copies is not None:
            tell_apart(mixed, self.copies)
        return mixed

    def _strongest(self, rank: int) -> FloatArray:
        """Return the `rank` strongest patterns, none of which explains more of a member than there is."""
        columns = self.patterns.shape[2]
        strongest = self.patterns[:, :, max(columns - rank, 0) :]
        if (self.usable < strongest.shape[2]).any():
            place = np.arange(strongest.shape[2])
            strongest = strongest * (place >= (strongest.shape[2] - self.usable)[:, None])[:, None, :]
        explained = np.einsum("hmk,hmk->hm", strongest, strongest)
        return np.asarray(strongest * np.sqrt((1 - 1e-6) / np.maximum(explained, 1 - 1e-6))[:, :, None])

    def _with_newborns(self, index: int, mixed: FloatArray, spread: FloatArray) -> None:
        size = int(self.real[index].sum())
        known = self.known[index, :size]
        if known.any():
            here = index, slice(size), slice(size)
            mixed[here], spread[index, :size] = newborn_rows(mixed[here], spread[index, :size], known)
        else:
            mixed[index], spread[index] = 0.0, 1 / np.sqrt(1 + 1e-6)


def _correlation(moments: NDArray[np.float32]) -> tuple[FloatArray, FloatArray]:
    stack, size, _ = moments.shape
    variance = np.maximum(moments.diagonal(axis1=1, axis2=2).astype(float), 1e-24)
    spread = np.sqrt(variance)
    correlation = moments / (spread[:, :, None] * spread[:, None, :])
    np.minimum(np.maximum(correlation, -0.9999, out=correlation), 0.9999, out=correlation)
    correlation.reshape(stack, -1)[:, :: size + 1] = 1.0
    return correlation, spread


def _steady(spread: FloatArray, days: FloatArray, real: BoolArray) -> None:
    """Let the spread of channels that joined older ones lean on theirs: a lively fortnight is not their nature."""
    if days.max() <= days.min() + KIN_SPREAD_DAYS:
        return
    oldest = (days * real).max(axis=1)
    days = np.where(real, days, np.inf)
    mixed = oldest > days.min(axis=1) + KIN_SPREAD_DAYS
    for index in np.flatnonzero(mixed).tolist():
        joined = oldest[index] > days[index] + KIN_SPREAD_DAYS
        own = days[index, joined]
        trust = own / (own + KIN_SPREAD_DAYS)
        others = np.median(spread[index, ~joined & real[index]])
        spread[index, joined] = others ** (1 - trust) * spread[index, joined] ** trust


def _patterns(dictionary: FloatArray, correlation: FloatArray) -> FloatArray:
    """Return the dictionary turned to its principal patterns, each as long as it is strong, the strongest last."""
    inner = dictionary.transpose(0, 2, 1) @ (correlation @ dictionary)
    strength, turn = np.linalg.eigh((inner + inner.transpose(0, 2, 1)) / 2)
    return np.asarray(dictionary @ (turn * np.sqrt(np.maximum(strength, 0))[:, None, :]))


def refresh(hood: Hood, taken: BoolArray) -> None:
    """Turn the dictionary towards the strongest patterns of the moments: one step of subspace iteration.

    Members that are not `taken` have no moments yet.
    """
    correlation = _correlation(hood.moments[None])[0][0]
    correlation *= taken[:, None]
    size = len(correlation)
    columns = min(size, RANKS[-1])
    if hood.dictionary.shape == (size, columns):
        dictionary = hood.dictionary.astype(float)
        turned, _ = np.linalg.qr(correlation @ dictionary + 1e-9 * dictionary)
        hood.dictionary = turned.astype(np.float32)
    else:
        _, vectors = np.linalg.eigh(correlation)
        hood.dictionary = vectors[:, -columns:].astype(np.float32)


def newborn_rows(correlation: FloatArray, spread: FloatArray, known: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Give members that were never seen the correlations of an average member."""
    average = correlation[known].mean(axis=0) * KINSHIP
    level = float(np.clip(average[known].mean() * KINSHIP, 0, 1))
    filled = correlation.copy()
    filled[~known] = average
    filled[:, ~known] = average[:, None]
    filled[np.ix_(~known, ~known)] = level
    return filled, np.where(known, spread, np.median(spread[known]))


def learn_moments(
    hood: Hood, days: FloatArray, completed: FloatArray, uncertainty: FloatArray, born: BoolArray, prior: FloatArray
) -> None:
    """Fold one period's completed deviations, (member, slot), into the second moments; `days` are the members'.

    Past and present are weighted by outer products, which keeps the moments positive definite although young
    channels learn faster; the price is that their correlations grow from below.
    """
    known: BoolArray = np.asarray(days > 0)
    before = hood.moments.copy()
    if born.any() and known.any():
        np.copyto(before, prior, where=born[:, None] | born, casting="same_kind")
    base = max(1 / (days.max() + 1), 1 - MEMORY)
    rate = np.clip(1 / (days + KIN_DAYS), base, min(HASTE * base, 1.0))
    rate *= known | born
    past, present = np.sqrt(1 - rate), np.sqrt(rate)
    today = completed @ completed.T
    today /= completed.shape[1]
    today += uncertainty
    moments = before * (past[:, None] * past)
    today *= present[:, None] * present
    moments += today
    hood.moments = moments.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Sample:
    """Neighbourhoods on which rungs are tried, and what they read: (neighbourhood, member, slot).

    `expected` is what the present rungs make of it, where that is known.
    """

    stack: Stack
    outlook: Outlook
    deviation: FloatArray
    trusted: BoolArray
    expected: FloatArray | None


def try_rungs(pools: Pools, sample: Sample) -> tuple[int, int]:
    """Compare the rungs beside the present ones on hidden readings; return the steps to the better one.

    Every reading is predicted from the others with moments that have not seen this period yet.
    """
    options = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    widest = int(sample.stack.size.max())
    rungs = [(pools.rank + up, pools.shrinkage + along) for up, along in options]
    open_to = [
        0 <= rank < len(RANKS) and 0 <= shrinkage < len(SHRINKAGES) and RANKS[rank] < widest
        for rank, shrinkage in rungs
    ]
    tried = [rung for rung, there in zip(rungs, open_to, strict=True) if there]
    here, *beside = _miss(sample, (pools.rank, pools.shrinkage), tried)
    for index, there in enumerate(open_to):
        pools.trials[index] = PATIENCE * pools.trials[index] + beside.pop(0) - here if there else 0.0
    best = int(np.argmin(pools.trials))
    if pools.trials[best] >= -0.02:
        return 0, 0
    pools.trials[:] = 0.0
    return options[best]


def _miss(sample: Sample, present: tuple[int, int], beside: list[tuple[int, int]]) -> list[float]:
    """Mean log square error of leave-one-out predictions at each of the rungs, every member counting the same."""
    trusted = sample.trusted
    rungs = beside if sample.expected is not None else [present, *beside]
    priors = np.concatenate([sample.outlook.covariance(*rung) for rung in rungs])
    times = (len(rungs), 1, 1)
    view = condition(
        priors,
        np.tile(sample.deviation, times),
        np.tile(trusted, times),
        np.tile(sample.stack.real, times[:2]),
    )
    expected = view.expected.reshape(len(rungs), *trusted.shape)
    if sample.expected is not None:
        expected = np.concatenate([sample.expected[None], expected])
    error = (sample.deviation - expected) * trusted
    count = trusted.sum(axis=2)
    there = count > 0
    square = np.einsum("rhms,rhms->rhm", error, error)[:, there] / count[there]
    # No rung changes how much a member varies.
    variance = priors[: len(trusted)].diagonal(axis1=1, axis2=2)[there]
    return [float(value) for value in np.log(square + 1e-10 * variance).mean(axis=1)]
