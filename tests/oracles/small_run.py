"""A small network, taken through the model in a process of its own: `python -m oracles.small_run FILE FILL`.

With NUMBA_DISABLE_JIT=1 nothing is compiled, and the engine is the Python that it is written in. Memory that was not
written to is full of FILL then.
"""

from __future__ import annotations

import sys
from dataclasses import astuple, fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from networks import partition_small_networks
from sensormend import NetworkModel
from sensormend.model import engine
from sensormend.model.records import Record
from sensormend.recovery import Recovery

__all__ = ["recovered", "small_network", "written"]

PERIODS = 14


def small_network(sensors: int) -> NDArray[np.float64]:
    """Return (sensor, slot, period) with gaps, an offset over three periods, a spike and a sensor that is stuck."""
    random = np.random.default_rng(3)
    slots = 6
    weather = np.cumsum(random.normal(0, 0.5, slots * PERIODS)) + 4 * np.sin(np.arange(slots * PERIODS) * np.pi / 3)
    line = 10 + weather + np.arange(sensors)[:, None] + 0.3 * random.normal(size=(sensors, slots * PERIODS))
    line[1, 50:65] += 9
    line[2, 70] -= 15
    line[3, 66:78] = line[3, 66]
    line[random.random(line.shape) < 0.05] = np.nan
    return np.ascontiguousarray(line.reshape(sensors, PERIODS, slots).swapaxes(1, 2))


def recovered(*, partitioned: bool) -> Recovery:
    """Return what the model makes of the network; `partitioned` cuts one of six sensors into two partitions."""
    with pytest.MonkeyPatch.context() as patch:
        if partitioned:
            partition_small_networks(patch, owned=3, halo=2)
        return NetworkModel().recover(small_network(6 if partitioned else 4))


def written(result: Recovery) -> dict[str, Any]:
    """Return a recovery as arrays."""
    arrays = {
        field.name: np.asarray(getattr(result, field.name)) for field in fields(Recovery) if field.name != "faults"
    }
    arrays["kinds"] = np.array([fault.kind for fault in result.faults])
    numbers = [[np.nan if value is None else value for value in astuple(fault) if value != fault.kind]
               for fault in result.faults]  # fmt: skip
    return {**arrays, "faults": np.array(numbers, float)}


def filled(value: float) -> Any:
    """Return an `np.empty` whose arrays are full of a value."""

    def empty(shape: Any, dtype: Any = float, order: Any = "C") -> Any:
        return np.full(shape, value, dtype, order)

    return empty


def as_double(value: Any) -> Any:
    """Let numbers in single precision be computed with in double."""
    return float(value) if isinstance(value, np.float32) else value


class Doubles(np.ndarray[Any, Any]):
    """Numbers kept in single precision and computed with in double, as compiled code does and NumPy does not."""

    def __getitem__(self, key: Any) -> Any:
        return as_double(super().__getitem__(key))


def in_double(numbers: Any) -> Any:
    """Let the arrays of named tuples that are in single precision be computed with in double."""
    if isinstance(numbers, tuple):
        return type(numbers)(*(in_double(value) for value in numbers))
    single = isinstance(numbers, np.ndarray) and numbers.dtype == np.float32
    return numbers.view(Doubles) if single else numbers


def main(path: str, fill: str) -> None:
    """Write both runs to a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", filled(float(fill)))
        patch.setattr(Record, "__getattr__", lambda record, name: as_double(record[name]))
        run_block: Any = engine.run_block
        patch.setattr(
            engine, "run_block", lambda network, period, *rest: run_block(in_double(network), in_double(period), *rest)
        )
        runs = {name: written(recovered(partitioned=name == "partitioned")) for name in ("single", "partitioned")}
    np.savez(path, **{f"{name}_{key}": value for name, run in runs.items() for key, value in run.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
