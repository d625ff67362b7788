"""The sensor mode: second moments of a neighbourhood, leaning on a dictionary of few patterns.

The covariance that predicts a sensor from the others is a mixture of the second moments themselves and of what
`rank` patterns and an own noise per sensor explain of them. Rank and mixture are chosen by how well readings
are predicted that the prediction did not see.
"""

from __future__ import annotations

import numpy as np

from sensormend.auto.conditioning import condition
from sensormend.auto.memory import Channels, Hood, Pools
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "MEMORY",
    "RANKS",
    "SHRINKAGES",
    "covariance",
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


def covariance(hood: Hood, channels: Channels, rank: int, shrinkage: int) -> FloatArray:
    """Return the covariance of a neighbourhood's members at these rungs."""
    known = channels.days[hood.members] > 0
    size = known.size
    if not known.any():
        return np.eye(size)
    correlation, spread = _correlation(hood)
    spread = _steadied(spread, channels.days[hood.members])
    patterns = _patterns(hood.dictionary.astype(float), correlation, min(RANKS[rank], max(1, size - 1)))
    share = SHRINKAGES[shrinkage]
    mixed = (1 - share) * correlation + share * (patterns @ patterns.T)
    if not known.all():
        mixed, spread = newborn_rows(mixed, spread, known)
    np.fill_diagonal(mixed, 1 + 1e-6)
    return np.asarray(mixed * spread[:, None] * spread)


def _correlation(hood: Hood) -> tuple[FloatArray, FloatArray]:
    variance = np.maximum(hood.moments.diagonal().astype(float), 1e-24)
    correlation = hood.moments / np.sqrt(variance[:, None] * variance)
    correlation = np.clip(correlation, -0.9999, 0.9999)
    np.fill_diagonal(correlation, 1.0)
    return correlation, np.sqrt(variance)


def _steadied(spread: FloatArray, days: FloatArray) -> FloatArray:
    """Let the spread of channels that joined older ones lean on theirs: a lively fortnight is not their nature."""
    joined = days.max() > days + KIN_SPREAD_DAYS
    if joined.all() or not joined.any():
        return spread
    trust = np.where(joined, days / (days + KIN_SPREAD_DAYS), 1.0)
    return np.asarray(np.median(spread[~joined]) ** (1 - trust) * spread**trust)


def _patterns(dictionary: FloatArray, correlation: FloatArray, rank: int) -> FloatArray:
    """Return the `rank` strongest patterns, none of which explains more of a member than there is."""
    inner = dictionary.T @ correlation @ dictionary
    strength, turn = np.linalg.eigh((inner + inner.T) / 2)
    rank = min(rank, strength.size)
    patterns = dictionary @ (turn[:, -rank:] * np.sqrt(np.maximum(strength[-rank:], 0)))
    explained = (patterns**2).sum(axis=1, keepdims=True)
    return np.asarray(patterns * np.sqrt((1 - 1e-6) / np.maximum(explained, 1 - 1e-6)))


def refresh(hood: Hood, channels: Channels, born: BoolArray) -> None:
    """Turn the dictionary towards the strongest patterns of the moments: one step of subspace iteration."""
    correlation, _ = _correlation(hood)
    correlation[(channels.days[hood.members] == 0) & ~born] = 0
    columns = min(hood.members.size, RANKS[-1])
    if hood.dictionary.shape != (hood.members.size, columns):
        _, vectors = np.linalg.eigh(correlation)
        hood.dictionary = vectors[:, -columns:].astype(np.float32)
    else:
        turned, _ = np.linalg.qr(correlation @ hood.dictionary + 1e-9 * hood.dictionary)
        hood.dictionary = turned.astype(np.float32)


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
    hood: Hood,
    channels: Channels,
    completed: FloatArray,
    uncertainty: FloatArray,
    born: BoolArray,
    prior: FloatArray,
) -> None:
    """Fold one period's completed deviations into the second moments.

    Past and present are weighted by outer products, which keeps the moments positive definite although young
    channels learn faster; the price is that their correlations grow from below.
    """
    days = channels.days[hood.members]
    known = days > 0
    if born.any() and known.any():
        hood.moments[born] = prior[born]
        hood.moments[:, born] = prior[:, born]
    base = max(1 / (days.max() + 1), 1 - MEMORY)
    rate = np.clip(1 / (days + KIN_DAYS), base, min(HASTE * base, 1.0))
    rate = np.where(known | born, rate, 0.0)
    past, present = np.sqrt(1 - rate), np.sqrt(rate)
    today = completed @ completed.T / completed.shape[1] + uncertainty
    moments = hood.moments * (past[:, None] * past) + today * (present[:, None] * present)
    hood.moments = moments.astype(np.float32)


def try_rungs(pools: Pools, samples: list[tuple[Hood, FloatArray, BoolArray]], channels: Channels) -> tuple[int, int]:
    """Compare the rungs beside the present ones on hidden readings; return the steps to the better one.

    Every reading is predicted from the others with moments that have not seen this period yet.
    """
    options = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    here = _miss(samples, channels, pools.rank, pools.shrinkage)
    widest = max(hood.members.size for hood, _, _ in samples)
    for index, (up, along) in enumerate(options):
        rank, shrinkage = pools.rank + up, pools.shrinkage + along
        if 0 <= rank < len(RANKS) and 0 <= shrinkage < len(SHRINKAGES) and RANKS[rank] < widest:
            gain = _miss(samples, channels, rank, shrinkage) - here
            pools.trials[index] = PATIENCE * pools.trials[index] + gain
        else:
            pools.trials[index] = 0.0
    best = int(np.argmin(pools.trials))
    if pools.trials[best] >= -0.02:
        return 0, 0
    pools.trials[:] = 0.0
    return options[best]


def _miss(samples: list[tuple[Hood, FloatArray, BoolArray]], channels: Channels, rank: int, shrinkage: int) -> float:
    """Mean log square error of leave-one-out predictions, every member counting the same."""
    logs = []
    for hood, deviation, trusted in samples:
        prior = covariance(hood, channels, rank, shrinkage)
        error = np.where(trusted, deviation - condition(prior, deviation, trusted).expected, 0.0)
        count = trusted.sum(axis=1)
        there = (count > 0) & (channels.days[hood.members] > 0)
        mean = (error**2).sum(axis=1)[there] / count[there]
        logs.append(np.log(mean + 1e-10 * prior.diagonal()[there]))
    return float(np.concatenate(logs).mean()) if logs else 0.0
