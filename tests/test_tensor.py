from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import methods as oracle
from sensormend.errors import ConfigError, ShapeError, ValueRangeError
from sensormend.tensor import as_labels, as_readings, check_fiber_axis, fiber_norms, fold, unfold

shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


@given(shapes, st.data())
def test_unfold_and_fold_are_those_of_the_oracle(shape: tuple[int, ...], data: st.DataObject) -> None:
    mode = data.draw(st.integers(0, len(shape) - 1))
    tensor = np.arange(float(np.prod(shape))).reshape(shape)
    matrix = unfold(tensor, mode)
    np.testing.assert_array_equal(matrix, oracle.unfold(tensor, mode))
    np.testing.assert_array_equal(fold(matrix, mode, shape), tensor)


def test_fiber_norms_by_hand() -> None:
    tensor = np.array([[[3.0, 1.0], [4.0, 0.0]]])
    np.testing.assert_allclose(fiber_norms(tensor, 1), [[[5.0, 1.0]]])
    np.testing.assert_allclose(fiber_norms(tensor, 2)[0, :, 0], [np.sqrt(10), 4.0])


def test_readings_become_float64_and_keep_their_nan() -> None:
    readings = as_readings(np.array([[1, 2], [3, np.nan]], dtype=np.float32))
    assert readings.dtype == np.float64
    assert np.isnan(readings[1, 1])
    assert as_readings([[1, 2], [3, 4]]).dtype == np.float64


def test_masked_entries_are_missing_and_the_input_keeps_its_values() -> None:
    masked = np.ma.masked_equal(np.array([[1.0, -9999.0]]), -9999.0)
    assert np.isnan(as_readings(masked)[0, 1])
    assert masked.data[0, 1] == -9999.0


@pytest.mark.parametrize(
    ("readings", "error", "says"),
    [
        (np.ones((2, 2), dtype=complex), ValueRangeError, "complex128"),
        (np.array([["a", "b"]]), ValueRangeError, "real numbers"),
        (np.array([[1.0, None]], dtype=object), ValueRangeError, "object"),
        (np.array([[True, False]]), ValueRangeError, "bool"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ValueRangeError, "datetime64"),
        (np.array([[1.0, np.inf]]), ValueRangeError, "inf"),
        (np.array([[1.0, -np.inf]]), ValueRangeError, "inf"),
        (np.array([[1.0, -1e200]]), ValueRangeError, "exceed"),
        (np.ones(3), ShapeError, "2 axes"),
        (1.0, ShapeError, "2 axes"),
        (np.ones((0, 3)), ShapeError, "at least one cell"),
        (np.ones((3, 0)), ShapeError, "at least one cell"),
        ([[1.0], [1.0, 2.0]], ShapeError, "different lengths"),
    ],
)
def test_bad_readings_get_one_clear_line(readings: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        as_readings(readings)
    assert "\n" not in str(caught.value)


def test_the_slot_axis_is_required() -> None:
    with pytest.raises(ShapeError, match="3 axes or more"):
        as_readings(np.ones((2, 2)), fiber_axis=2)
    with pytest.raises(ShapeError, match="at most 2"):
        as_readings(np.ones((2, 2, 2)), max_axes=2)


@pytest.mark.parametrize("fiber_axis", [-1, 1.0, True, "1", None])
def test_a_wrong_fiber_axis_is_refused(fiber_axis: object) -> None:
    with pytest.raises(ConfigError, match="fiber_axis"):
        check_fiber_axis(fiber_axis)


def test_labels_lose_their_numpy_types() -> None:
    labels = as_labels(["north", np.str_("south"), np.int64(7)], 3)
    assert labels == ("north", "south", 7)
    assert [type(label) for label in labels] == [str, str, int]


def test_wrong_labels_are_refused() -> None:
    with pytest.raises(ShapeError, match="2 labels for 3"):
        as_labels(["a", "b"], 3)
    with pytest.raises(ShapeError, match="twice"):
        as_labels(["a", "a"], 2)
    with pytest.raises(ValueRangeError, match="text or whole numbers"):
        as_labels([(1, 2)], 1)
