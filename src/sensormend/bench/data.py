"""`load_network` returns real networks from a folder or from their authors, and simulated ones from a seed.

No data is bundled. A file is searched in `$SENSORMEND_DATA` (and nowhere else where that is set), then in
`shared/data` beside the project, then in a cache that is filled once from the public repository of the paper's
authors. A downloaded file is used only if its checksum is that of the file used for the published results.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from sensormend.errors import MissingError, SensormendError
from sensormend.recovery import FloatArray
from sensormend.simulate.network import city
from sensormend.simulate.weather import CLIMATES

__all__ = ["NETWORKS", "PUBLIC", "Public", "data_folders", "load_network", "load_reference", "real_data"]

REPOSITORY = "https://github.com/yuehu9/Online_Robust_Tensor_Recovery"
RAW_FILES = "https://raw.githubusercontent.com/yuehu9/Online_Robust_Tensor_Recovery"
SECONDS_TO_ANSWER = 30


@dataclass(frozen=True)
class Public:
    """A file of the authors' repository: its SHA-256, and its locations there, each as commit/path."""

    sha256: str
    places: tuple[str, ...]


# Commits are pinned, so that a later push cannot change the file.
PUBLIC: dict[str, Public] = {
    "noaa_TEM.mat": Public(
        "c415b7c445fb41f4714ce5c6ff18b5b3365e1d50e45a7a99251c77750204dd56",
        # The same year under its later and its earlier name; the checksum decides.
        (
            "d29e27eec001bf885d09ba8f98ff333c6e3a28d3/data/noaa_TEM.mat",
            "8fd25bca72457ce70e4c3353838a8cf17e5af640/data/NOAA_12M.mat",
        ),
    ),
    "aot_12M.mat": Public(
        "fcd8f0f2cf56562d249d5ec3de77ebb1950eef9976b4820ca7b1ba4d43ebc83b",
        ("5ba0278b3e35e56eb486c3981e69362128e45850/data/aot_12M.mat",),
    ),
    "noaa_chi_12M.mat": Public(
        "5f445c3b2b287e787403222d3206b5ecf92b2ce0b167d9e3860337901336d8cf",
        ("5ba0278b3e35e56eb486c3981e69362128e45850/data/noaa_chi_12M.mat",),
    ),
}
REAL = {"noaa": "noaa_TEM.mat", "aot": "aot_12M.mat"}
COPIES = "copies"
"""A dense city in which five sensors of twelve are copies of others."""
NETWORKS = (*REAL, *CLIMATES, COPIES)
SIZES = {"sparse": 8, COPIES: 12}
HOURS = 24
COPIED = 5 / 12
UNEQUAL = 0.05
"""Share of the readings of a copy that differ from its original by a step of the resolution."""


def load_network(
    name: str, *, seed: int = 0, sensors: int | None = None, days: int = 364, slots: int = HOURS
) -> FloatArray:
    """Return sound readings (sensor, slot, day): a name in `NETWORKS`, or a `.mat`, `.npy` or `.npz` file.

    A file holds (sensor, slot, day), or (sensor, hour) with whole days one after the other; in a `.mat` the
    variable is `Obs2`. The size and the seed apply to simulated networks.
    """
    if name in CLIMATES or name == COPIES:
        count = SIZES.get(name, 50) if sensors is None else sensors
        if name == COPIES:
            return _with_copies(count, days, slots, seed)
        return city(count, days, slots=slots, seed=seed, climate=name, faults=False).truth
    if name in REAL:
        return _by_day(_mat(real_data(REAL[name]), "Obs2"))
    path = Path(name)
    if not path.is_file():
        raise MissingError(f"no data {name!r}: give a file or one of {', '.join(NETWORKS)}")
    return _by_day(_from_file(path))


def _with_copies(sensors: int, days: int, slots: int, seed: int) -> FloatArray:
    """Return a dense city whose last sensors are copies of the first ones, sometimes off by a step of the resolution.

    Such sensors are common in real archives: one station under two names, or two probes in one box.
    """
    copies = round(COPIED * sensors)
    truth = city(sensors - copies, days, slots=slots, seed=seed, climate="dense", faults=False).truth
    random = np.random.default_rng((seed, sensors))
    step = min(CLIMATES["dense"].resolutions)
    originals = truth[:copies]
    moved = random.choice((-step, step), originals.shape) * (random.random(originals.shape) < UNEQUAL)
    return np.concatenate([truth, originals + moved])


def load_reference() -> FloatArray:
    """Return the reference station of the `aot` network, (slot, day)."""
    return np.asarray(_by_day(_mat(real_data("noaa_chi_12M.mat"), "noaa"))[0])


def data_folders() -> list[Path]:
    """Return the folders to search for data: `$SENSORMEND_DATA` alone, else `shared/data` beside the project."""
    folder = os.environ.get("SENSORMEND_DATA")
    return [Path(folder)] if folder else [Path.cwd() / "../shared/data", _beside_project() / "shared/data"]


def real_data(file: str, *, url: str | None = None) -> Path:
    """Return the path of a file in the folders that are searched; those in `PUBLIC` are downloaded where needed.

    `url` is a mirror that has the files directly under it; by default `$SENSORMEND_DATA_URL`, else the repository of
    the authors.
    """
    folder = os.environ.get("SENSORMEND_DATA")
    for place in data_folders():
        if (place / file).is_file():
            return place / file
    if folder:
        raise SensormendError(f"{file} is not in {folder}: set SENSORMEND_DATA to the folder that has it, or unset it")
    if file not in PUBLIC:
        raise SensormendError(f"{file} is not here: set SENSORMEND_DATA to the folder that has it")
    return _fetched(file, url or os.environ.get("SENSORMEND_DATA_URL"))


def _fetched(file: str, mirror: str | None) -> Path:
    """Return the file in the cache, downloaded if it is missing or its checksum differs."""
    instead = f"download it from {REPOSITORY}/tree/master/data and set SENSORMEND_DATA to its folder"
    try:
        pooch: Any = import_module("pooch")
    except ImportError:
        raise SensormendError(
            f"{file} is not here, and fetching it needs pooch: pip install 'sensormend[bench]', or {instead}"
        ) from None
    cache = Path(os.environ.get("SENSORMEND_CACHE") or pooch.os_cache("sensormend"))
    public = PUBLIC[file]
    urls = [f"{mirror.rstrip('/')}/{file}"] if mirror else [f"{RAW_FILES}/{place}" for place in public.places]
    trouble = ""
    for url in urls:
        ask = pooch.HTTPDownloader(timeout=SECONDS_TO_ANSWER)
        try:
            return Path(pooch.retrieve(url, f"sha256:{public.sha256}", fname=file, path=cache, downloader=ask))
        except ValueError:
            # pooch has deleted the file.
            trouble = f"what {url} sent is not the expected file (its SHA-256 differs)"
        except OSError as error:
            # A wrong file is a more useful message than a failed download.
            trouble = trouble or f"it could not be fetched ({_one_line(error)})"
    raise SensormendError(f"{file} is not here, and {trouble}: {instead}")


def _one_line(error: OSError) -> str:
    line = " ".join(str(error).split())
    return f"{type(error).__name__}: {line[:120]}{'...' if len(line) > 120 else ''}"


def _beside_project() -> Path:
    """Return the folder that contains the checkout; of an installed package it has no data."""
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
