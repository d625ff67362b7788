"""Arrays of NumPy and tensors of torch, by the names that both know: the array API."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError

__all__ = ["Array", "as_like", "is_tensor", "namespace", "on_host"]

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
