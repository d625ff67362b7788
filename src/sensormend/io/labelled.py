"""Labelled arrays on their way in: NetCDF files, `xarray.DataArray` and `xarray.Dataset` of time and station."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.options import Options
from sensormend.readings import Readings

__all__ = [
    "CELLS",
    "attributes_of",
    "locations_of",
    "microseconds_of",
    "netcdf_libraries",
    "opened",
    "readings_of",
    "texts_of",
]

CELLS = 2_000_000
"""Cells that are held at a time, of each column: 16 MB of doubles, some 150 MB for all of them."""

KEPT = ("units", "units_metadata", "standard_name", "long_name")
"""What is taken over of a variable's attributes."""

_UNNAMED = "__unnamed__"


def netcdf_libraries() -> tuple[Any, Any, Any]:
    """Return xarray, h5netcdf and h5py, or say how to get them."""
    try:
        xarray, h5netcdf, h5py = (import_module(name) for name in ("xarray", "h5netcdf", "h5py"))
    except ImportError:
        raise SensormendError(
            "NetCDF needs xarray, h5netcdf and h5py: install them with pip install 'sensormend[netcdf]'"
        ) from None
    return xarray, h5netcdf, h5py


@dataclass(frozen=True, eq=False)
class _Series:
    """A variable of a dataset as sensors over time."""

    name: str
    array: Any
    time: str
    station: str | None
    sensors: tuple[str, ...]


def readings_of(source: Any, options: Options | None = None) -> Iterator[Readings]:
    """Give the readings of an array of time and station, some at a time, in order of time.

    All parts count in the same names. Cells without a number are no readings.

    Parameters
    ----------
    source
        A NetCDF file, an `xarray.DataArray` or an `xarray.Dataset`. Every numeric variable that has the time and at
        most one other dimension is read, but for those that only say something about another one.
    options
        `time` and `sensor` may name coordinates, `variables` or `value` the variables to take.
    """
    options = options or Options()
    with opened(source) as (dataset, shown):
        series = _found(dataset, options, shown)
        sensors = tuple(dict.fromkeys(name for entry in series for name in entry.sensors))
        code = {name: number for number, name in enumerate(sensors)}
        variables = tuple(entry.name for entry in series)
        width = sum(len(entry.sensors) for entry in series)
        times = {entry.time: microseconds_of(dataset[entry.time], shown) for entry in series}
        longest = max(time.size for time in times.values())
        step = max(1, CELLS // max(width, 1))
        for begin in range(0, max(longest, 1), step):
            parts = [
                _part(entry, number, times[entry.time], code, slice(begin, begin + step))
                for number, entry in enumerate(series)
            ]
            sensor, variable, time, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            order = np.argsort(time, kind="stable")
            yield Readings(sensors, variables, sensor[order], variable[order], time[order], value[order])


def locations_of(source: Any, options: Options | None = None) -> dict[str, tuple[float, float]]:
    """Return where the sensors of a dataset stand, those that it knows of."""
    options = options or Options()
    with opened(source) as (dataset, shown):
        found = {}
        for entry in _found(dataset, options, shown):
            place = [
                _coordinate(dataset, said, standard, names, entry.station)
                for said, standard, names in (
                    (options.latitude, "latitude", ("lat", "latitude")),
                    (options.longitude, "longitude", ("lon", "long", "lng", "longitude")),
                )
            ]
            if place[0] is None or place[1] is None:
                continue
            for name, latitude, longitude in zip(entry.sensors, place[0], place[1], strict=True):
                if np.isfinite(latitude) and np.isfinite(longitude):
                    found[name] = (float(latitude), float(longitude))
    return found


def attributes_of(source: Any, options: Options | None = None) -> dict[str, dict[str, Any]]:
    """Return what a dataset says of its variables: units, standard and long names."""
    with opened(source) as (dataset, shown):
        return {
            entry.name: {key: entry.array.attrs[key] for key in KEPT if key in entry.array.attrs}
            for entry in _found(dataset, options or Options(), shown)
        }


@contextmanager
def opened(source: Any) -> Iterator[tuple[Any, str]]:
    """Have a source as a dataset, and what to call it."""
    xarray, _, _ = netcdf_libraries()
    if isinstance(source, xarray.Dataset):
        yield source, "the dataset"
    elif isinstance(source, xarray.DataArray):
        # An array without a name becomes a variable that nobody else can be called.
        yield source.to_dataset(name=_UNNAMED if source.name is None else source.name), "the array"
    else:
        path = Path(source)
        try:
            with path.open("rb") as file:
                # The classic format is not HDF5; scipy reads it.
                engine = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
            dataset = xarray.open_dataset(path, engine=engine, decode_timedelta=False)
        except FileNotFoundError:
            raise InputError(f"there is no file {source}") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{source} cannot be read as NetCDF: {str(error).splitlines()[0]}") from None
        with dataset:
            yield dataset, path.name


def _found(dataset: Any, options: Options, shown: str) -> list[_Series]:
    """Find the variables with their times and stations."""
    aside = {
        word
        for array in dataset.variables.values()
        for key in ("ancillary_variables", "bounds", "grid_mapping")
        for word in str({**array.attrs, **array.encoding}.get(key, "")).replace(":", " ").split()
    }
    wanted = options.variables or ((options.value,) if options.value else ())
    for name in wanted:
        if name not in dataset.data_vars:
            raise ConfigError(f"{shown} has no variable {name!r}; there are {_listed(dataset.data_vars)}")
    found, refused = [], []
    for name in wanted or dataset.data_vars:
        array = dataset[name]
        if array.dtype.kind not in "fiu" or (not wanted and (name in aside or "flag_values" in array.attrs)):
            continue
        time = _time_of(dataset, array, options)
        others = [] if time is None else [dim for dim in array.dims if dim not in dataset[time].dims]
        if time is None or len(others) > 1:
            refused.append(f"{name} ({', '.join(map(str, array.dims))})")
            continue
        station = str(others[0]) if others else None
        sensors = _sensors(dataset, array, station, options, shown)
        called = "" if name == _UNNAMED else str(array.attrs.get("sensormend_variable", name))
        found.append(_Series(called, array, time, station, sensors))
    if found:
        return found
    seen = f"; it has {_listed(refused)}" if refused else ""
    raise InputError(f"{shown} has no numeric variable over a time and at most one other dimension, the stations{seen}")


def _time_of(dataset: Any, array: Any, options: Options) -> str | None:
    """Return the name of an array's one-dimensional time coordinate."""
    if options.time is not None:
        if options.time not in dataset.variables:
            raise ConfigError(f"there is no time {options.time!r}; there are {_listed(dataset.variables)}")
        return options.time if set(dataset[options.time].dims) <= set(array.dims) else None
    fitting = [
        str(name)
        for name, variable in dataset.variables.items()
        if variable.ndim == 1 and variable.dims[0] in array.dims and _is_time(variable)
    ]
    # The dimension's own coordinate goes first: others may be the time of a calibration or of arrival.
    return min(fitting, key=lambda name: (name not in dataset.dims, name.lower() != "time"), default=None)


def _is_time(variable: Any) -> bool:
    return variable.dtype.kind == "M" or (variable.dtype.kind == "O" and hasattr(_first(variable), "calendar"))


def _first(variable: Any) -> Any:
    return variable.values.flat[0] if variable.size else None


def _sensors(dataset: Any, array: Any, station: str | None, options: Options, shown: str) -> tuple[str, ...]:
    if station is None:
        label = dataset.variables.get(options.sensor) if options.sensor else None
        source = Path(str(dataset.encoding.get("source", ""))).stem
        return (texts_of(label.values.reshape(1))[0],) if label is not None and label.size == 1 else (source or shown,)
    labels = {name: variable for name, variable in dataset.variables.items() if variable.dims == (station,)}
    if options.sensor is not None and options.sensor not in labels:
        raise ConfigError(f"{shown} has no names {options.sensor!r} along {station}; there are {_listed(labels)}")
    roles = [name for name, variable in labels.items() if variable.attrs.get("cf_role") == "timeseries_id"]
    words = [name for name, variable in labels.items() if variable.dtype.kind in "OSUT"]
    chosen = options.sensor or next(iter([*roles, *(name for name in words if name == station), *words]), None)
    if chosen is None:
        chosen = station if station in labels else None
    names = texts_of(labels[chosen].values) if chosen is not None else [str(k) for k in range(array.sizes[station])]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise InputError(f"{shown} has more than one station {min(twice)!r}; name another coordinate with --sensor")
    return tuple(names)


def texts_of(values: NDArray[Any]) -> list[str]:
    """Return names as text, whatever they were kept as; bytes come from arrays of characters, which are padded."""
    return [entry.decode("utf-8", "replace").strip(" \0") if isinstance(entry, bytes) else str(entry)
            for entry in values.tolist()]  # fmt: skip


def microseconds_of(time: Any, shown: str) -> NDArray[np.int64]:
    """Return the times of a coordinate."""
    if time.dtype.kind != "M":
        raise InputError(
            f"the times of {shown} ({time.name}) are no times of the standard calendar: "
            "they need units like 'hours since 1970-01-01'"
        )
    values = np.asarray(time.values)
    microseconds: NDArray[np.int64] = values.astype("datetime64[us]").astype(np.int64)
    return microseconds


def _part(
    entry: _Series, number: int, times: NDArray[np.int64], code: Mapping[str, int], part: slice
) -> tuple[NDArray[Any], ...]:
    """Return the readings of one variable in a stretch of time: sensor, variable, time, value."""
    dim = next(dim for dim in entry.array.dims if dim != entry.station)
    array = entry.array.isel({dim: part})
    array = array.transpose(dim, entry.station) if entry.station else array
    value = np.asarray(array.values, dtype=np.float64).reshape(-1, len(entry.sensors))
    time = times[part]
    here = np.isfinite(value) & (time != np.iinfo(np.int64).min)[:, None]
    row, column = np.nonzero(here)
    sensor = np.array([code[name] for name in entry.sensors], dtype=np.int32)
    return sensor[column], np.full(row.size, number, np.int32), time[row], value[row, column]


def _coordinate(
    dataset: Any, said: str | None, standard: str, names: Sequence[str], station: str | None
) -> NDArray[np.float64] | None:
    shape = () if station is None else (station,)
    fitting = {name: variable for name, variable in dataset.variables.items() if variable.dims == shape}
    if said is not None:
        if said not in fitting:
            raise ConfigError(f"there is no {standard} {said!r} per station; there are {_listed(fitting)}")
        chosen: Any = said
    else:
        told = [name for name, variable in fitting.items() if variable.attrs.get("standard_name") == standard]
        chosen = next(iter([*told, *(name for name in fitting if str(name).lower() in names)]), None)
    if chosen is None or fitting[chosen].dtype.kind not in "fiu":
        return None
    return np.asarray(fitting[chosen].values, dtype=np.float64).reshape(-1)


def _listed(names: Iterable[Any]) -> str:
    words = [str(name) for name in names]
    return ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "") if words else "none"
