"""The data of the benches: real networks where they lie on this machine, simulated ones anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from sensormend.errors import SensormendError
from sensormend.recovery import FloatArray
from sensormend.simulate import city
from sensormend.weather import CLIMATES

__all__ = ["NETWORKS", "load_network", "load_reference", "real_data"]

REAL = {"noaa": "noaa_TEM.mat", "aot": "aot_12M.mat"}
NETWORKS = (*REAL, *CLIMATES)
SIZES = {"sparse": 8}
HOURS = 24


def load_network(
    name: str, *, seed: int = 0, sensors: int | None = None, days: int = 364, slots: int = HOURS
) -> FloatArray:
    """Return sound readings (sensor, slot, day): a name in `NETWORKS`, or a `.mat`, `.npy` or `.npz` file.

    A file holds (sensor, slot, day), or (sensor, hour) with whole days one after the other; in a `.mat` the
    variable is `Obs2`. The size and the seed apply to simulated networks.
    """
    if name in CLIMATES:
        count = SIZES.get(name, 50) if sensors is None else sensors
        return city(count, days, slots=slots, seed=seed, climate=name, faults=False).truth
    if name in REAL:
        return _by_day(_mat(real_data(REAL[name]), "Obs2"))
    path = Path(name)
    if not path.is_file():
        raise SensormendError(f"no data {name!r}: give a file or one of {', '.join(NETWORKS)}")
    return _by_day(_from_file(path))


def load_reference() -> FloatArray:
    """Return the reference station of the `aot` network, (slot, day)."""
    return np.asarray(_by_day(_mat(real_data("noaa_chi_12M.mat"), "noaa"))[0])


def real_data(file: str) -> Path:
    """Find a file of real data: in `$SENSORMEND_DATA`, else in `shared/data` beside the project."""
    told = os.environ.get("SENSORMEND_DATA")
    places = [Path(told)] if told else [Path.cwd() / "../shared/data", _beside_project() / "shared/data"]
    for place in places:
        if (place / file).is_file():
            return place / file
    raise SensormendError(f"{file} is not here: set SENSORMEND_DATA to the folder that has it")


def _beside_project() -> Path:
    """Return the folder around the checkout; an installed package finds nothing there, which is harmless."""
    return Path(__file__).resolve().parents[4]


def _mat(path: Path, variable: str) -> FloatArray:
    try:
        content = loadmat(path, variable_names=[variable])
    except (MatReadError, ValueError, NotImplementedError) as error:
        raise SensormendError(f"{path} cannot be read as a MATLAB file: {error}") from error
    if variable not in content:
        raise SensormendError(f"{path} has no variable {variable!r}")
    return np.asarray(content[variable], dtype=float)


def _from_file(path: Path) -> FloatArray:
    if path.suffix == ".mat":
        return _mat(path, "Obs2")
    try:
        content = np.load(path, allow_pickle=False)
        return np.asarray(content if isinstance(content, np.ndarray) else content[content.files[0]], dtype=float)
    except (ValueError, OSError, IndexError) as error:
        raise SensormendError(f"{path} holds no array of readings: {error}") from error


def _by_day(readings: FloatArray) -> FloatArray:
    if readings.ndim == 3:
        return readings
    if readings.ndim != 2 or readings.shape[1] % HOURS:
        raise SensormendError(
            f"readings must be (sensor, slot, day) or (sensor, hour) with whole days, not {readings.shape}"
        )
    return np.moveaxis(readings.reshape(readings.shape[0], -1, HOURS), 2, 1)
