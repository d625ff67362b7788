"""Arrays of NumPy and tensors of torch for the tests that hold of both."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from servers import lacking

__all__ = ["KINDS", "Put", "the_torch"]

KINDS = ("numpy-float64", "numpy-float32", "torch-float64", "torch-float32")


def the_torch() -> Any:
    """Return torch, or say in one line that it is not there."""
    if find_spec("torch") is None or find_spec("array_api_compat") is None:
        lacking("torch and array-api-compat are not installed: pip install 'sensormend[gpu]'")
    return pytest.importorskip("torch")


class Put:
    """Put NumPy arrays where a kind of arrays lives, and floats in its precision."""

    def __init__(self, kind: str) -> None:
        library, precision = kind.split("-")
        self._torch = the_torch() if library == "torch" else None
        self.dtype = np.dtype(precision)

    def __call__(self, values: NDArray[Any] | None) -> Any:
        """Return a copy of its own."""
        if values is None:
            return None
        array = np.array(values, dtype=self.dtype if np.asarray(values).dtype.kind == "f" else None)
        return array if self._torch is None else self._torch.as_tensor(array)
