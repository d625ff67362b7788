"""Joining decides when a channel that is new in a known network counts, and which new ones are a network of their own.

A channel that joins is on trial: it is predicted from known channels and predicts no other, since its partition owns
nothing else, and the known ones are its halo. It agrees with them in a period in which it departs no farther from their
common course than they do. After several such periods it is known. One that does not agree with them, but moves as
other new ones do, is in a network apart, together with these.

References
----------
.. [1] A. P. Dempster, "Covariance Selection", Biometrics 28, 1972: the completion of the largest determinant.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.model.partition import FLOOR, Partitioning
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["AGREED_PERIODS", "START_PERIODS", "alike", "complete_moments", "departure", "moved_score"]

START_PERIODS = 7
"""Periods of the oldest channel of a variable up to which all that come are known: the first week of a network."""
AGREED_PERIODS = 5
"""Periods of agreement, less twice those without, after which a channel is known."""
AGREED_DISTANCE = 3.0
"""Usual distances of known channels from their common course that a new one may depart from where it was before."""
WRONG_SHARE = 0.33
"""Of its readings in a period: one that is wrong more often does not agree."""
ALIKE_READINGS = 6
"""Readings in common from which two courses are compared."""
ALIKE_SHARE = 0.5
"""What a new channel's likest companion leaves of its variance, over what its likest known channel leaves, at most."""
UNLIKE_SHARE = 0.1
"""What the latter leaves at least: barometers of one network agree to within a hundredth, some of them better."""
MOST_COMPARED = 500
"""New channels of a variable whose courses are compared with each other in a period."""
MOST_ON_TRIAL = 10_000
"""Channels on trial, each with about 30 kB for a partition of its own; more are in a network apart at once."""


def moved_score(score: NDArray[np.int16], agreed: BoolArray) -> NDArray[np.int16]:
    """Return the scores after a period with agreement or without.

    Examples
    --------
    >>> moved_score(np.array([0, 4, 1, 4], np.int16), np.array([True, True, False, False])).tolist()
    [1, 5, 0, 2]
    """
    moved: NDArray[np.int16] = np.where(agreed, score + 1, np.maximum(score - 2, 0)).astype(np.int16)
    return moved


def complete_moments(
    old: Partitioning, moments: NDArray[Any], new: Partitioning, guests: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Write the moments of partitions that grew by former guests: what two have in common is what their hosts say.

    `moments` are those of the `old` partitions, `out` those of the `new` ones; channels have the same numbers in both.
    A guest i brings the regression on the halo B that it had, and what that leaves of its variance. With all other
    members j, given B, it has nothing in common [1]_:

        beta = S_BB^-1 S_Bi in its own partition,      S_ij = beta' S_Bj
    """
    for piece in np.unique(new.home[guests]):
        members = new.members[piece, : new.size[piece]]
        is_guest = np.isin(members, guests)
        if is_guest.all():
            continue
        source = old.home[members[~is_guest][0]]
        before = old.members[source, : old.size[source]]
        if not np.isin(members[~is_guest], before).all():
            # It was partitioned again.
            continue
        rows = _places(before, members[~is_guest])
        value = np.zeros((members.size, members.size))
        value[np.ix_(~is_guest, ~is_guest)] = moments[source][np.ix_(rows, rows)]
        is_known = ~is_guest
        for place in np.flatnonzero(is_guest):
            own = old.home[members[place]]
            beside = old.members[own, : old.size[own]]
            hosts = np.flatnonzero(is_known & np.isin(members, beside) & (np.diagonal(value) > 0))
            rows = _places(beside, members[hosts])
            learned = moments[own].astype(float)
            among, row = learned[np.ix_(rows, rows)], learned[0, rows]
            beta = np.linalg.solve(among + FLOOR * np.diag(np.diagonal(among)), row)
            left = max(learned[0, 0] - 2 * beta @ row + beta @ among @ beta, FLOOR * learned[0, 0])
            value[place, is_known] = value[is_known, place] = (value[hosts].T @ beta)[is_known]
            # How far it goes within months is hardly known: at least as far as the median channel does.
            usual = np.median(np.diagonal(value)[is_known])
            value[place, place] = max(left + beta @ value[np.ix_(hosts, hosts)] @ beta, usual)
            is_known[place] = True
        out[piece] = 0
        out[piece, : members.size, : members.size] = value


def _places(members: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return where some of the members are."""
    order = np.argsort(members)
    return np.asarray(order[np.searchsorted(members[order], wanted)])


def departure(
    course: FloatArray, known: FloatArray, level: FloatArray, variance: float, last: float
) -> tuple[float, float]:
    """Return how far a channel departs from known ones in a period, over its limit, and its distance from them.

    Both are NaN where its readings do not tell. With m(t) the median course of the known channels k about their levels,

        z(t) = y(t) - m(t),        departure = mean over t of (z(t) - last)^2
        limit = max(9 x median over k of the mean of (y_k(t) - level_k - m(t))^2, variance / number of k)

    Parameters
    ----------
    course, known
        The readings of the channel, (slot,), and of those that it is compared with, (channel, slot); NaN where missing.
    level, variance
        Of the known channels, and the usual variance of their deviations.
    last
        The mean of z in the channel's last period.
    """
    seen = np.isfinite(known)
    deviation = (known - level[:, None])[seen.any(axis=1)]
    n_known = np.isfinite(deviation).sum(axis=1)
    with warnings.catch_warnings():
        # Slots in which no known channel has a reading.
        warnings.simplefilter("ignore", RuntimeWarning)
        common = np.nanmedian(deviation, axis=0) if len(deviation) else np.full(len(course), np.nan)
        usual = float(np.median(np.nanmean((deviation - common) ** 2, axis=1))) if len(deviation) else np.nan
    distance = (course - common)[np.isfinite(course) & np.isfinite(common)]
    if not distance.size or 2 * distance.size < np.median(n_known):
        return np.nan, np.nan
    limit = max(AGREED_DISTANCE**2 * usual, variance / len(deviation))
    return float(np.mean((distance - last) ** 2)) / max(limit, 1e-12), float(distance.mean())


def alike(course: FloatArray, known: FloatArray) -> BoolArray:
    """Return which of some courses, (channel, slot), are explained better by another of them than by any known one.

    Missing readings are NaN.

    Examples
    --------
    >>> hour = np.arange(24.0)
    >>> course = np.array([np.sin(hour), np.sin(hour) + 0.1 * np.cos(9 * hour), np.cos(hour)])
    >>> alike(course, np.array([np.sin(hour / 3)])).tolist()
    [True, True, False]
    """
    own = _correlation(course, course)
    np.fill_diagonal(own, -1.0)
    best, best_known = own.max(axis=1, initial=0.0), _correlation(course, known).max(axis=1, initial=0.0)
    left = 1 - best_known**2
    explained: BoolArray = (left > UNLIKE_SHARE) & (1 - best**2 <= ALIKE_SHARE * left)
    return explained


def _correlation(courses: FloatArray, others: FloatArray) -> FloatArray:
    """Return the correlations of courses with others over the slots that they share; 0 where these are few."""
    seen, seen_others = np.isfinite(courses).astype(float), np.isfinite(others).astype(float)
    x, y = np.nan_to_num(courses), np.nan_to_num(others)
    count = np.maximum(seen @ seen_others.T, 1.0)
    mean_x, mean_y = (x @ seen_others.T) / count, (seen @ y.T) / count
    variance_x = ((x**2) @ seen_others.T) / count - mean_x**2
    variance_y = (seen @ (y**2).T) / count - mean_y**2
    covariance = (x @ y.T) / count - mean_x * mean_y
    is_known = (count >= ALIKE_READINGS) & (variance_x > 1e-8) & (variance_y > 1e-8)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = covariance / np.sqrt(variance_x * variance_y)
    return np.where(is_known, np.clip(correlation, -1.0, 1.0), 0.0)
