"""The module provides the tensor operations that all methods share, and validates their readings and labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sensormend.errors import ConfigError, ShapeError, ValueRangeError
from sensormend.recovery import FloatArray

__all__ = ["as_labels", "as_readings", "check_fiber_axis", "fiber_norms", "fold", "unfold"]

LARGEST = 1e100
"""The largest allowed reading: squares of larger ones overflow in the methods."""


def unfold(tensor: FloatArray, mode: int) -> FloatArray:
    """Lay a tensor out as a matrix whose rows run along `mode` and whose columns are its fibers.

    The columns keep the order of the other axes, the last of them fastest.

    Examples
    --------
    >>> unfold(np.arange(8.0).reshape(2, 2, 2), 1)
    array([[0., 1., 4., 5.],
           [2., 3., 6., 7.]])
    """
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def fold(matrix: FloatArray, mode: int, shape: tuple[int, ...]) -> FloatArray:
    """Undo `unfold`: return the matrix as a tensor of `shape`.

    Examples
    --------
    >>> tensor = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.all(fold(unfold(tensor, 2), 2, tensor.shape) == tensor))
    True
    """
    return np.moveaxis(matrix.reshape(shape[mode], *shape[:mode], *shape[mode + 1 :]), 0, mode)


def fiber_norms(tensor: FloatArray, fiber_axis: int) -> FloatArray:
    """Return the Euclidean norm of every fiber, with `fiber_axis` kept as an axis of length 1.

    Examples
    --------
    >>> fiber_norms(np.array([[3.0, 4.0], [0.0, 0.0]]), 1)
    array([[5.],
           [0.]])
    """
    norms: FloatArray = np.sqrt(np.sum(np.square(tensor), axis=fiber_axis, keepdims=True))
    return norms


def check_fiber_axis(fiber_axis: object, *, after_sensors: bool = True) -> int:
    """Return `fiber_axis` as an int, or refuse it; with `after_sensors` also refuse axis 0, that of the sensors."""
    if isinstance(fiber_axis, bool) or not isinstance(fiber_axis, int | np.integer) or fiber_axis < 0:
        raise ConfigError(f"fiber_axis is the number of the slot axis, 0 or more; got {fiber_axis!r}")
    if after_sensors and fiber_axis == 0:
        raise ConfigError("fiber_axis must be 1 or more: axis 0 is the sensors")
    return int(fiber_axis)


def as_readings(
    readings: ArrayLike,
    *,
    fiber_axis: int = 1,
    min_axes: int = 2,
    max_axes: int | None = None,
    keep_single: bool = False,
) -> FloatArray:
    """Return readings as a float64 array in which NaN is missing, or refuse them with a one-line error.

    The masked entries of a masked array count as missing; with `keep_single`, float32 stays. The result may share
    memory with the input: copy it before writing to it.

    Raises
    ------
    ShapeError
        Ragged readings, the wrong number of axes, or an axis of length 0.
    ValueRangeError
        Text, complex numbers, dates, objects, booleans, infinities or numbers too large to be squared.

    Examples
    --------
    >>> as_readings([[1, 2], [3, None]])
    Traceback (most recent call last):
    sensormend.errors.ValueRangeError: readings must be real numbers, NaN where missing; got object
    """
    mask = np.ma.getmaskarray(readings) if isinstance(readings, np.ma.MaskedArray) else None
    try:
        array = np.asarray(readings)
    except ValueError:
        raise ShapeError("readings must form a full grid; got rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise ValueRangeError(f"readings must be real numbers, NaN where missing; got {array.dtype.name}")
    _check_axes(array.shape, fiber_axis, min_axes, max_axes)
    if keep_single and array.dtype == np.float32 and mask is None:
        values = array
    else:
        # A wider float that overflows here becomes inf and is refused below.
        with np.errstate(over="ignore"):
            values = array.astype(np.float64, copy=mask is not None)
    if mask is not None:
        values[mask] = np.nan
    _check_range(values)
    return values


def _check_axes(shape: tuple[int, ...], fiber_axis: int, min_axes: int, max_axes: int | None) -> None:
    needed = max(min_axes, fiber_axis + 1)
    if len(shape) < needed:
        raise ShapeError(f"readings need {needed} axes or more with fiber_axis={fiber_axis}; got shape {shape}")
    if max_axes is not None and len(shape) > max_axes:
        raise ShapeError(f"readings can have at most {max_axes} axes; got shape {shape}")
    if 0 in shape:
        raise ShapeError(f"readings need at least one cell along every axis; got shape {shape}")


def _check_range(values: FloatArray) -> None:
    """Refuse infinities and values too large to be squared; NaN is missing, and allowed."""
    largest = max(abs(float(end.reduce(values, axis=None))) for end in (np.fmax, np.fmin))
    if largest > LARGEST:
        if np.isinf(largest):
            raise ValueRangeError("readings must be finite, with NaN where missing; got inf")
        raise ValueRangeError(f"readings must not exceed {LARGEST:g}; use another unit")


def as_labels(sensors: Sequence[Hashable], count: int) -> tuple[str | int, ...]:
    """Return the labels of a sensor axis of length `count` as plain text and whole numbers, or refuse them.

    Only text and whole numbers are allowed, because labels must survive a state file unchanged.

    Raises
    ------
    ShapeError
        Too many, too few or repeated labels.
    ValueRangeError
        Labels that are neither text nor whole numbers.
    """
    # Plain text, as nearly all labels are, needs no look at each of them.
    labels: list[str | int] = [label for label in sensors if type(label) is str]
    is_plain = len(labels) == len(sensors)
    labels = labels if is_plain else []
    for label in () if is_plain else sensors:
        if isinstance(label, str):
            labels.append(str(label))
        elif isinstance(label, int | np.integer) and not isinstance(label, bool):
            labels.append(int(label))
        else:
            raise ValueRangeError(f"sensor labels must be text or whole numbers; got {label!r}")
    if len(labels) != count:
        raise ShapeError(f"got {len(labels)} labels for {count} sensors")
    if len(set(labels)) != count:
        raise ShapeError("sensor labels must differ from each other; got one twice")
    return tuple(labels)
