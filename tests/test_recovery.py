from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from sensormend.methods.base import published_recovery
from sensormend.recovery import Recovery


def recovery(shape: tuple[int, ...], value: float, fiber_axis: int = 1) -> Recovery:
    return published_recovery(
        np.full(shape, value),
        np.full(shape, value + 1),
        np.zeros(shape),
        fiber_axis=fiber_axis,
        threshold=0.5,
        iterations=2,
    )


def test_periods_stack_along_a_new_last_axis() -> None:
    joined = Recovery.stack([recovery((3, 4), value) for value in (0.0, 1.0)])
    assert joined.cleaned.shape == (3, 4, 2)
    assert joined.faulty.shape == (3, 2)
    assert joined.iterations == 4
    assert joined.lower is None
    np.testing.assert_array_equal(joined.cleaned[0, 0], [0.0, 1.0])


def test_minibatches_concatenate_and_can_be_cut_short() -> None:
    joined = Recovery.concatenate([recovery((3, 4, 2), value) for value in (0.0, 1.0)])
    assert joined.cleaned.shape == (3, 4, 4)
    cut = joined.first(3)
    assert cut.cleaned.shape == (3, 4, 3)
    assert cut.reason.shape == (3, 3)
    np.testing.assert_array_equal(cut.cleaned[0, 0], [0.0, 0.0, 1.0])


def test_intervals_are_joined() -> None:
    parts = [replace(part, lower=part.cleaned - 1, upper=part.cleaned + 1)
             for part in (recovery((2, 3), 0.0), recovery((2, 3), 1.0))]  # fmt: skip
    joined = Recovery.stack(parts)
    assert joined.lower is not None
    assert joined.upper is not None
    np.testing.assert_array_equal(joined.upper - joined.lower, np.full((2, 3, 2), 2.0))


def test_a_recovery_is_frozen() -> None:
    result = recovery((2, 3), 0.0)
    for field in fields(Recovery):
        with pytest.raises(FrozenInstanceError):
            setattr(result, field.name, None)


def test_the_published_verdict_by_hand() -> None:
    readings = np.array([[1.0, 2.0], [np.nan, 4.0], [5.0, 6.0]])
    outliers = np.array([[0.0, -0.6], [0.0, 0.5], [0.0, 0.0]])
    result = published_recovery(readings, np.full((3, 2), 9.0), outliers, fiber_axis=1, threshold=0.5, iterations=1)
    np.testing.assert_array_equal(result.faulty, [True, False, False])
    np.testing.assert_allclose(result.score, [1.2, 1.0, 0.0])
    np.testing.assert_array_equal(result.cleaned, [[9.0, 9.0], [9.0, 4.0], [5.0, 6.0]])
