"""Compiled functions as Python can call them; by themselves only compiled ones can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from sensormend.model import hypotheses, prediction, records, wander

__all__ = [
    "add_conditional_covariance", "best_hypothesis", "calibrate", "change", "copy_channel", "fault_size", "follow",
    "interpolate_gaps", "invert", "leave_one_out", "limit", "predicted_change", "push_level", "scale_of",
    "shift_history", "sound_only", "take_alike", "wrong_probability",
]  # fmt: skip


def _callable(function: Any) -> Callable[..., Any]:
    # Not cached: numba would not notice that what it calls has changed.
    @numba.njit
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call  # type: ignore[no-any-return]


add_conditional_covariance = _callable(prediction.add_conditional_covariance)
interpolate_gaps = _callable(prediction.interpolate_gaps)
invert = _callable(prediction.invert)
leave_one_out = _callable(prediction.leave_one_out)
take_alike = _callable(prediction.take_alike)
best_hypothesis = _callable(hypotheses.best_hypothesis)
fault_size = _callable(hypotheses.fault_size)
follow = _callable(hypotheses.follow)
sound_only = _callable(hypotheses.sound_only)
wrong_probability = _callable(hypotheses.wrong_probability)
copy_channel = _callable(records.copy_channel)
calibrate = _callable(wander._calibrate)
change = _callable(wander._change)
limit = _callable(wander._limit)
predicted_change = _callable(wander._predicted_change)
push_level = _callable(wander._push_level)
scale_of = _callable(wander._scale_of)
shift_history = _callable(wander._shift_history)
