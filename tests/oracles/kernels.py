"""Compiled functions as Python can call them; by themselves only compiled ones can."""

from __future__ import annotations

from typing import Any

import numba

from sensormend.model import hypotheses, prediction

__all__ = [
    "add_conditional_covariance", "best_hypothesis", "fault_size", "follow", "invert", "leave_one_out", "sound_only",
    "wrong_probability",
]  # fmt: skip


def _invert(a: Any, n: Any, work: Any) -> Any:
    return prediction.invert(a, n, work)


def _leave_one_out(
    precision: Any, n: Any, deviation: Any, trusted: Any, slot: Any, expected: Any, variance: Any, algebra: Any
) -> None:  # fmt: skip
    prediction.leave_one_out(precision, n, deviation, trusted, slot, expected, variance, algebra)


def _add_conditional_covariance(
    precision: Any, n: Any, trusted: Any, slot: Any, weight: Any, out: Any, algebra: Any
) -> None:
    prediction.add_conditional_covariance(precision, n, trusted, slot, weight, out, algebra)


def _sound_only(beam: Any, residual: Any, time: Any, level: Any) -> None:
    hypotheses.sound_only(beam, residual, time, level)


def _follow(beam: Any, fresh: Any, start: Any, begin: Any, series: Any, q: Any) -> Any:
    return hypotheses.follow(beam, fresh, start, begin, series, q)


def _best_hypothesis(beam: Any) -> Any:
    return hypotheses.best_hypothesis(beam)


def _fault_size(beam: Any, b: Any) -> Any:
    return hypotheses.fault_size(beam, b)


def _wrong_probability(beam: Any, start: Any, share: Any) -> Any:
    return hypotheses.wrong_probability(beam, start, share)


# Not cached: numba would not notice that what they call has changed.
invert = numba.njit(_invert)
leave_one_out = numba.njit(_leave_one_out)
add_conditional_covariance = numba.njit(_add_conditional_covariance)
sound_only = numba.njit(_sound_only)
follow = numba.njit(_follow)
best_hypothesis = numba.njit(_best_hypothesis)
fault_size = numba.njit(_fault_size)
wrong_probability = numba.njit(_wrong_probability)
