"""Arrays of NumPy and tensors of torch, by the names that both know: the array API."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sensormend.errors import ConfigError, ShapeError, ValueRangeError
from sensormend.recovery import FloatArray

__all__ = [
    "Array",
    "as_labels",
    "as_like",
    "as_readings",
    "check_fiber_axis",
    "fiber_norms",
    "fold",
    "is_tensor",
    "namespace",
    "on_host",
    "unfold",
]

Array = Any
"""A NumPy array or a torch tensor; what is known of its kind is in the docstrings."""


def is_tensor(array: object) -> bool:
    """Say whether this is a torch tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: object) -> Any:
    """Return the functions that go with an array: `numpy`, or torch by the array API's names."""
    if not is_tensor(array):
        return np
    try:
        from array_api_compat import torch
    except ModuleNotFoundError:
        raise ConfigError("torch tensors need array-api-compat: pip install 'sensormend[gpu]'") from None
    return torch


def on_host(array: Array) -> NDArray[Any]:
    """Return a NumPy array of it; a tensor is fetched from its device."""
    if is_tensor(array):
        fetched: NDArray[Any] = array.detach().cpu().numpy()
        return fetched
    return np.asarray(array)


def as_like(values: NDArray[Any], array: Array) -> Array:
    """Return values where `array` lives: as they are for NumPy (or None), or as a tensor on its device."""
    if not is_tensor(array):
        return values
    return namespace(array).asarray(np.ascontiguousarray(values), device=array.device)


LARGEST = 1e100
"""Readings beyond this would overflow in the squares that every method learns from."""


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
    """Undo `unfold`: give the matrix back as a tensor of `shape`.

    Examples
    --------
    >>> tensor = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.all(fold(unfold(tensor, 2), 2, tensor.shape) == tensor))
    True
    """
    others = shape[:mode] + shape[mode + 1 :]
    return np.moveaxis(matrix.reshape(shape[mode], *others), 0, mode)


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
    """Return `fiber_axis` as an int, or refuse it; with `after_sensors` the first axis too, that of the sensors."""
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
    """Return readings as a float64 array in which NaN is missing, or refuse them with one clear line.

    The result may share memory with the input: whoever wants to write copies first.

    Parameters
    ----------
    readings
        Whole or real numbers. The masked entries of a masked array count as missing.
    fiber_axis
        The axis of the slots; the readings must have it.
    min_axes, max_axes
        How many axes the method takes.
    keep_single
        Leave single precision as it is, and a torch tensor where it is; else that is fetched.

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
    if is_tensor(readings):
        tensor: FloatArray = _tensor_readings(readings, fiber_axis, min_axes, max_axes)
        return tensor if keep_single else on_host(tensor).astype(np.float64, copy=False)
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
        # A wider float that overflows here becomes inf and is refused below as what it is.
        with np.errstate(over="ignore"):
            values = array.astype(np.float64, copy=mask is not None)
    if mask is not None:
        values[mask] = np.nan
    _check_range(float(np.fmax.reduce(values, axis=None)), float(np.fmin.reduce(values, axis=None)))
    return values


def _tensor_readings(readings: Any, fiber_axis: int, min_axes: int, max_axes: int | None) -> Any:
    """Check a torch tensor as `as_readings` checks an array; single and double precision stay as they are."""
    xp, readings = namespace(readings), readings.detach()
    if readings.dtype.is_complex or readings.dtype == xp.bool:
        raise ValueRangeError(f"readings must be real numbers, NaN where missing; got {readings.dtype}")
    _check_axes(tuple(readings.shape), fiber_axis, min_axes, max_axes)
    if not readings.dtype.is_floating_point:
        readings = readings.double()
    elif readings.dtype not in (xp.float32, xp.float64):
        readings = readings.float()
    there = readings.nan_to_num(nan=0.0, posinf=xp.inf, neginf=-xp.inf)
    _check_range(float(there.max()), float(there.min()))
    return readings


def _check_axes(shape: tuple[int, ...], fiber_axis: int, min_axes: int, max_axes: int | None) -> None:
    needed = max(min_axes, fiber_axis + 1)
    if len(shape) < needed:
        raise ShapeError(f"readings need {needed} axes or more with fiber_axis={fiber_axis}; got shape {shape}")
    if max_axes is not None and len(shape) > max_axes:
        raise ShapeError(f"readings can have at most {max_axes} axes; got shape {shape}")
    if 0 in shape:
        raise ShapeError(f"readings need at least one cell along every axis; got shape {shape}")


def _check_range(largest: float, smallest: float) -> None:
    """Refuse what is too large to be squared; NaN is no reading, and passes."""
    reach = max(abs(largest), abs(smallest))
    if reach > LARGEST:
        if np.isinf(reach):
            raise ValueRangeError("readings must be finite, with NaN where missing; got inf")
        raise ValueRangeError(f"readings must not exceed {LARGEST:g}; use another unit")


def as_labels(sensors: Sequence[Hashable], count: int) -> tuple[str | int, ...]:
    """Return the labels of a sensor axis of length `count` as plain text and whole numbers, or refuse them.

    Only text and whole numbers are taken, because labels have to come back from a state file as they were.

    Raises
    ------
    ShapeError
        Too many, too few or repeated labels.
    ValueRangeError
        Labels that are neither text nor whole numbers.
    """
    labels: list[str | int] = []
    for label in sensors:
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
