"""`read_readings` and `write_netcdf` read and write arrays of time and station: NetCDF files and xarray's objects.

The sections of CF-1.11 that apply: 3.4, `ancillary_variables` lists the variables that describe another one; 3.5,
`flag_values` have the flag's own type and one entry of `flag_meanings` each; 9.3.1, series with common times share one
array, with its dimensions in any order; 9.1, a `featureType` requires coordinates, so it is left out without them.
The module needs the extra `netcdf`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend import __version__
from sensormend.errors import ConfigError, InputError, MissingError, SensormendError
from sensormend.files import replacing
from sensormend.io.sources import listed
from sensormend.io.sql import first_line
from sensormend.pipeline.options import Options
from sensormend.pipeline.units import split_unit
from sensormend.readings import DTYPES, MEANINGS, ORIGINS, REASONS, SECOND, Flag, NameIndex, Readings, Rows

__all__ = [
    "make_dataset",
    "plan_stretch",
    "read_attributes",
    "read_locations",
    "read_readings",
    "read_rows",
    "write_netcdf",
]

CELLS = 2_000_000
"""Cells of each column in memory at a time: 16 MB of doubles, about 150 MB for all columns."""

ATTRIBUTES = ("units", "units_metadata", "standard_name", "long_name")
"""The attributes that are copied from an input variable."""

_UNNAMED = "__unnamed__"
_DEFAULTS = Options()


def _netcdf_libraries() -> tuple[Any, Any]:
    """Return xarray and h5netcdf, or raise an error that says how to install them."""
    try:
        return import_module("xarray"), import_module("h5netcdf")
    except ImportError:
        raise SensormendError(
            "NetCDF needs xarray and h5netcdf: install them with pip install 'sensormend[netcdf]'"
        ) from None


@dataclass(frozen=True, eq=False)
class _StationSeries:
    """A variable of a dataset as sensors over time."""

    name: str
    array: Any
    time: str
    station: str | None
    sensors: tuple[str, ...]


def read_readings(source: Any, options: Options = _DEFAULTS) -> Iterator[Readings]:
    """Yield the readings of an array of time and station in parts, in order of time.

    All parts share `sensors` and `variables`. Cells without a number are not readings.

    Parameters
    ----------
    source
        A NetCDF file, an `xarray.DataArray` or an `xarray.Dataset`. Every numeric variable that has the time and at
        most one other dimension is read, except those that describe another variable (flags, bounds).
    options
        `time` and `sensor` may name coordinates, `variables` or `value` the variables to take.
    """
    with _opened_dataset(source) as (dataset, shown):
        series = _find_series(dataset, options, shown)
        sensors = tuple(dict.fromkeys(name for entry in series for name in entry.sensors))
        index = NameIndex(sensors)
        variables = tuple(entry.name for entry in series)
        width = sum(len(entry.sensors) for entry in series)
        times = {entry.time: _read_times(dataset[entry.time], shown) for entry in series}
        longest = max(time.size for time in times.values())
        step = max(1, CELLS // max(width, 1))
        for start in range(0, max(longest, 1), step):
            parts = [
                _part(entry, number, times[entry.time], index, slice(start, start + step))
                for number, entry in enumerate(series)
            ]
            sensor, variable, time, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            order = np.argsort(time, kind="stable")
            yield Readings(sensors, variables, sensor[order], variable[order], time[order], value[order])


def read_locations(source: Any, options: Options = _DEFAULTS) -> dict[str, tuple[float, float]]:
    """Return latitude and longitude of the sensors of a dataset, where it has them."""
    locations = {}
    with _opened_dataset(source) as (dataset, shown):
        for entry in _find_series(dataset, options, shown):
            latitudes = _coordinate(dataset, entry.station, options.latitude, "latitude", ("lat",))
            longitudes = _coordinate(dataset, entry.station, options.longitude, "longitude", ("lon", "long", "lng"))
            if latitudes is None or longitudes is None:
                continue
            for name, latitude, longitude in zip(entry.sensors, latitudes, longitudes, strict=True):
                if np.isfinite(latitude) and np.isfinite(longitude):
                    locations[name] = (float(latitude), float(longitude))
    return locations


def read_attributes(source: Any, options: Options = _DEFAULTS) -> dict[str, dict[str, Any]]:
    """Return the `ATTRIBUTES` of each variable of a dataset: units, standard and long names."""
    with _opened_dataset(source) as (dataset, shown):
        return {
            entry.name: {key: entry.array.attrs[key] for key in ATTRIBUTES if key in entry.array.attrs}
            for entry in _find_series(dataset, options, shown)
        }


@contextmanager
def _opened_dataset(source: Any) -> Iterator[tuple[Any, str]]:
    """Open a source as a dataset; also yield its name for messages."""
    xarray, _ = _netcdf_libraries()
    if isinstance(source, xarray.Dataset):
        yield source, "the dataset"
    elif isinstance(source, xarray.DataArray):
        # An unnamed array gets a reserved name that no other variable can have.
        yield source.to_dataset(name=_UNNAMED if source.name is None else source.name), "the array"
    else:
        path = Path(source)
        try:
            with path.open("rb") as file:
                # The classic format is not HDF5; scipy reads it.
                engine = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
            dataset = xarray.open_dataset(path, engine=engine, decode_timedelta=False)
        except FileNotFoundError:
            raise MissingError(f"there is no file {source}") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{source} cannot be read as NetCDF: {first_line(error)}") from None
        with dataset:
            yield dataset, path.name


def _find_series(dataset: Any, options: Options, shown: str) -> list[_StationSeries]:
    """Find the variables with their times and stations."""
    ancillary = {
        word
        for array in dataset.variables.values()
        for key in ("ancillary_variables", "bounds", "grid_mapping")
        for word in str({**array.attrs, **array.encoding}.get(key, "")).replace(":", " ").split()
    }
    wanted = options.variables or ((options.value,) if options.value else ())
    for name in wanted:
        if name not in dataset.data_vars:
            raise ConfigError(f"{shown} has no variable {name!r}; there are {_listed(dataset.data_vars)}")
    series, refused = [], []
    for name in wanted or dataset.data_vars:
        array = dataset[name]
        if array.dtype.kind not in "fiu" or (not wanted and (name in ancillary or "flag_values" in array.attrs)):
            continue
        time = _find_time(dataset, array, options)
        stations = [] if time is None else [dim for dim in array.dims if dim not in dataset[time].dims]
        if time is None or len(stations) > 1:
            refused.append(f"{name} ({', '.join(map(str, array.dims))})")
            continue
        station = str(stations[0]) if stations else None
        sensors = _sensors(dataset, array, station, options, shown)
        variable = "" if name == _UNNAMED else str(array.attrs.get("sensormend_variable", name))
        series.append(_StationSeries(variable, array, time, station, sensors))
    if not series:
        hint = f"; it has {_listed(refused)}" if refused else ""
        raise InputError(
            f"{shown} has no numeric variable over a time and at most one other dimension, the stations{hint}"
        )
    return series


def _find_time(dataset: Any, array: Any, options: Options) -> str | None:
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
    if variable.dtype.kind == "O" and variable.size:
        return hasattr(variable.values.flat[0], "calendar")
    return bool(variable.dtype.kind == "M")


def _sensors(dataset: Any, array: Any, station: str | None, options: Options, shown: str) -> tuple[str, ...]:
    if station is None:
        label = dataset.variables.get(options.sensor) if options.sensor else None
        source = Path(str(dataset.encoding.get("source", ""))).stem
        return (
            (_decode_names(label.values.reshape(1))[0],)
            if label is not None and label.size == 1
            else (source or shown,)
        )
    labels = {name: variable for name, variable in dataset.variables.items() if variable.dims == (station,)}
    if options.sensor is not None and options.sensor not in labels:
        raise ConfigError(f"{shown} has no names {options.sensor!r} along {station}; there are {_listed(labels)}")
    by_role = [name for name, variable in labels.items() if variable.attrs.get("cf_role") == "timeseries_id"]
    texts = [name for name, variable in labels.items() if variable.dtype.kind in "OSUT"]
    preferred = [*by_role, *([station] if station in texts else texts), *([station] if station in labels else [])]
    chosen = options.sensor or next(iter(preferred), None)
    names = (
        _decode_names(labels[chosen].values) if chosen is not None else [str(k) for k in range(array.sizes[station])]
    )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{shown} has more than one station {min(twice)!r}; name another coordinate with --sensor")
    return tuple(names)


def _decode_names(values: NDArray[Any]) -> list[str]:
    """Return names as text; bytes come from arrays of characters, which are padded."""
    return [entry.decode("utf-8", "replace").strip(" \0") if isinstance(entry, bytes) else str(entry)
            for entry in values.tolist()]  # fmt: skip


def _read_times(time: Any, shown: str) -> NDArray[np.int64]:
    """Return the times of a coordinate in microseconds since 1970."""
    if time.dtype.kind != "M":
        raise InputError(
            f"the times of {shown} ({time.name}) are not in the standard calendar: "
            "they need units like 'hours since 1970-01-01'"
        )
    return np.asarray(time.values).astype("datetime64[us]").astype(np.int64)


def _part(
    entry: _StationSeries, number: int, times: NDArray[np.int64], index: NameIndex, part: slice
) -> tuple[NDArray[Any], ...]:
    """Return the readings of one variable in a stretch of time: sensor, variable, time, value."""
    dim = next(dim for dim in entry.array.dims if dim != entry.station)
    array = entry.array.isel({dim: part})
    array = array.transpose(dim, entry.station) if entry.station else array
    value = np.asarray(array.values, dtype=np.float64).reshape(-1, len(entry.sensors))
    time = times[part]
    row, column = np.nonzero(np.isfinite(value) & (time != np.iinfo(np.int64).min)[:, None])
    return (
        index.codes(entry.sensors, column).astype(np.int32),
        np.full(row.size, number, np.int32),
        time[row],
        value[row, column],
    )


def _coordinate(
    dataset: Any, station: str | None, option: str | None, standard: str, short: Sequence[str]
) -> NDArray[np.float64] | None:
    """Return the latitudes or longitudes of the stations: by the user's option, the standard name, or the name."""
    shape = () if station is None else (station,)
    fitting = {name: variable for name, variable in dataset.variables.items() if variable.dims == shape}
    if option is not None and option not in fitting:
        raise ConfigError(f"there is no {standard} {option!r} per station; there are {_listed(fitting)}")
    by_standard = [name for name, variable in fitting.items() if variable.attrs.get("standard_name") == standard]
    by_name = [name for name in fitting if str(name).lower() in (standard, *short)]
    chosen: Any = option or next(iter(by_standard + by_name), None)
    if chosen is None or fitting[chosen].dtype.kind not in "fiu":
        return None
    return np.asarray(fitting[chosen].values, dtype=np.float64).reshape(-1)


def _listed(names: Iterable[Any]) -> str:
    return listed(map(str, names), most=8) or "none"


Locations = Mapping[str, tuple[float, float]]
"""Latitude and longitude by the name of the sensor."""

Attributes = Mapping[str, Mapping[str, Any]]
"""The attributes of each variable: `units`, `standard_name`, `long_name`."""

LONG, WIDE = 1024, 256
"""Times and stations in a chunk of a file."""

EMPTY = {"value": np.nan, "cleaned": np.nan, "lower": np.nan, "upper": np.nan, "n": 0,
         "flag": int(Flag.MISSING), "reason": 0, "origin": 0}  # fmt: skip
"""The columns of a variable, with the content of a cell without a row."""


TIME = {"standard_name": "time", "long_name": "start of the slot, UTC", "axis": "T"}
STATION = {"long_name": "name of the sensor", "cf_role": "timeseries_id"}
PLACES = {"lat": ("latitude", "degrees_north"), "lon": ("longitude", "degrees_east")}


def make_dataset(rows: Rows, locations: Locations | None = None, attributes: Attributes | None = None) -> Any:
    """Return rows as an `xarray.Dataset` on (time, station).

    A variable `v` comes with `v_cleaned`, `v_lower`, `v_upper`, `v_flag`, `v_reason`, `v_origin` and `v_n`; a cell
    without a row is missing, flag 9, and more than one row in a cell is refused.
    """
    return _StationTable(rows.sensors, rows.variables, np.unique(rows.time)).dataset(rows, locations, attributes)


def write_netcdf(
    path: str | os.PathLike[str],
    parts: Iterable[Rows],
    *,
    sensors: Sequence[str],
    variables: Sequence[str],
    times: NDArray[np.int64],
    locations: Locations | None = None,
    attributes: Attributes | None = None,
) -> None:
    """Write the dataset of `make_dataset` to a file, part by part, so that an archive need not fit into memory.

    `parts` are rows in order of time, no time in two of them; `sensors`, `variables` and the sorted `times` are all
    that occur in them.
    """
    _, h5netcdf = _netcdf_libraries()
    table = _StationTable(sensors, variables, times)
    empty: dict[str, Any] = {column: np.empty(0, dtype) for column, dtype in DTYPES.items()}
    none = Rows(sensors, variables, **empty)
    dataset = table.dataset(none, locations, attributes)
    with replacing(Path(path)) as new:
        # Xarray writes the file without any time; the parts are appended to it.
        dataset.to_netcdf(new, engine="h5netcdf", unlimited_dims=["time"], encoding=table.encoding(dataset))
        with h5netcdf.File(new, "a") as file:
            file.resize_dimension("time", times.size)
            file["time"][:] = times // table.unit
            for rows in parts:
                span = slice(*np.searchsorted(times, [rows.time.min(), rows.time.max() + 1]) if len(rows) else (0, 0))
                for name, cells in table.cells(rows, times[span]).items():
                    file[name][span, :] = cells


@dataclass(frozen=True, eq=False)
class _StationTable:
    """The layout of a dataset: its stations, variables and times, in microseconds."""

    sensors: Sequence[str]
    variables: Sequence[str]
    times: NDArray[np.int64]

    @property
    def unit(self) -> int:
        """The unit of the times in a file: seconds where all are whole seconds, else microseconds."""
        return 1 if (self.times % SECOND).any() else SECOND

    def dataset(self, rows: Rows, locations: Locations | None, attributes: Attributes | None) -> Any:
        """Return rows as a dataset with the attributes of CF."""
        xarray, _ = _netcdf_libraries()
        described: dict[str, dict[str, Any]] = {}
        for variable, name in zip(self.variables, _cf_names(self.variables), strict=True):
            described |= _described(variable, name, (attributes or {}).get(variable, {}))
        times = np.unique(rows.time)
        cells = self.cells(rows, times)
        dataset = xarray.Dataset(
            {name: (("time", "station"), cells[name], attrs) for name, attrs in described.items()},
            coords={
                # Nanoseconds: older xarray knows no others, and they reach to 2262.
                "time": ("time", times.astype("datetime64[us]").astype("datetime64[ns]"), dict(TIME)),
                "station": ("station", np.array(self.sensors, dtype=object), dict(STATION)),
            },
        )
        positions = np.array([(locations or {}).get(sensor, (np.nan, np.nan)) for sensor in self.sensors])
        has_places = bool(np.isfinite(positions).any())
        if has_places:
            for axis, (name, (standard, units)) in enumerate(PLACES.items()):
                attrs = {"standard_name": standard, "long_name": f"{standard} of the sensor", "units": units}
                dataset.coords[name] = ("station", positions[:, axis], attrs)
        dataset.attrs = {
            "Conventions": "CF-1.11",
            **({"featureType": "timeSeries"} if has_places else {}),
            "title": "Readings of a sensor network with flags and estimates",
            "history": f"cleaned with sensormend {__version__}",
            "source": f"sensormend {__version__}",
            "comment": "Flags are QARTOD's and judge the raw values; <variable>_cleaned has the reading where it is "
            "trusted and the estimate elsewhere, between <variable>_lower and <variable>_upper.",
        }
        units = f"{'seconds' if self.unit == SECOND else 'microseconds'} since 1970-01-01 00:00:00"
        dataset["time"].encoding = {"units": units, "calendar": "standard", "dtype": "int64", "_FillValue": None}
        for name in (*described, *(PLACES if has_places else ())):
            dataset[name].encoding = {"_FillValue": np.nan if dataset[name].dtype.kind == "f" else None}
        return dataset

    def cells(self, rows: Rows, times: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return rows as arrays (time, station) by the name of their variable."""
        station = NameIndex(self.sensors).codes(rows.sensors, rows.sensor)
        slot = np.searchsorted(times, rows.time)
        arrays = {}
        for variable, name in zip(self.variables, _cf_names(self.variables), strict=True):
            code = rows.variables.index(variable) if variable in rows.variables else -1
            mask = rows.variable == code
            place = slot[mask] * len(self.sensors) + station[mask]
            if np.bincount(place, minlength=1).max() > 1:
                raise ConfigError(
                    "NetCDF has one value per station and time, and these rows have more: "
                    "write rows per reading to .csv or .parquet"
                )
            for column, empty in EMPTY.items():
                array = np.full(times.size * len(self.sensors), empty, dtype=DTYPES[column])
                array[place] = getattr(rows, column)[mask]
                arrays[_column_name(name, column)] = array.reshape(times.size, len(self.sensors))
        return arrays

    def encoding(self, dataset: Any) -> dict[str, dict[str, Any]]:
        """Return how a dataset is stored in a file: in compressed chunks."""
        # Two megabytes at most: the series of one station and a day of all stations are both read in few chunks.
        long = min(plan_stretch(len(self.sensors) * len(self.variables)), LONG)
        chunks = (min(max(self.times.size, 1), long), min(max(len(self.sensors), 1), WIDE))
        stored = {"chunksizes": chunks, "compression": "gzip", "compression_opts": 1, "shuffle": True}
        return {name: {**array.encoding, **stored} for name, array in dataset.data_vars.items()}


def plan_stretch(width: int) -> int:
    """Return how many times of `width` channels to write at once: what fits into memory, in whole chunks of the file.

    A chunk that is written in two parts is compressed twice.
    """
    longest = max(1, CELLS // max(width, 1))
    return longest // LONG * LONG or longest


def _column_name(name: str, column: str) -> str:
    return name if column == "value" else f"{name}_{column}"


def _cf_names(variables: Sequence[str]) -> tuple[str, ...]:
    """Return names that CF allows: letters, digits and underscores, no two alike."""
    taken = {"time", "station", "lat", "lon"}
    names = []
    for variable in variables:
        plain = re.sub(r"\W+", "_", split_unit(variable)[0], flags=re.ASCII).strip("_") or "value"
        plain = plain if plain[0].isalpha() else f"v_{plain}"
        name, count = plain, 1
        while not taken.isdisjoint(_column_name(name, column) for column in EMPTY):
            count += 1
            name = f"{plain}_{count}"
        taken |= {_column_name(name, column) for column in EMPTY}
        names.append(name)
    return tuple(names)


def _described(variable: str, name: str, attributes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attributes of a variable and of its ancillary variables."""
    long_name = str(attributes.get("long_name", variable or "value"))
    same = {key: attributes[key] for key in ATTRIBUTES if key in attributes and key != "long_name"}
    ancillary = ("flag", "reason", "origin", "n", "cleaned", "lower", "upper")

    def coded(words: Mapping[int, str], subject: str, standard_name: str) -> dict[str, Any]:
        return {
            "long_name": f"{subject} {long_name}",
            "standard_name": standard_name,
            "flag_values": np.array(list(words), dtype=np.int8),
            "flag_meanings": " ".join(words.values()),
        }

    return {
        name: {
            "long_name": long_name, **same,
            "ancillary_variables": " ".join(_column_name(name, column) for column in ancillary),
            "sensormend_variable": variable,
        },
        _column_name(name, "cleaned"): {"long_name": f"cleaned {long_name}", **same},
        _column_name(name, "lower"): {"long_name": f"lower end of the interval of cleaned {long_name}", **same},
        _column_name(name, "upper"): {"long_name": f"upper end of the interval of cleaned {long_name}", **same},
        _column_name(name, "n"): {
            "long_name": f"number of readings of {long_name}", "standard_name": "number_of_observations", "units": "1",
        },
        _column_name(name, "flag"): coded(
            {int(code): word for code, word in MEANINGS.items()}, "QARTOD flag of", "aggregate_quality_flag"
        ),
        _column_name(name, "reason"): coded(
            {code: word or "none" for code, word in enumerate(REASONS)}, "reason for the flag of", "quality_flag"
        ),
        _column_name(name, "origin"): coded(
            {code: word or "none" for code, word in enumerate(ORIGINS)}, "origin of cleaned", "status_flag"
        ),
    }  # fmt: skip


def read_rows(
    source: Any,
    sensors: Sequence[str] | None = None,
    start: int | None = None,
    end: int | None = None,
    variable: str | None = None,
) -> Rows:
    """Return the rows of a dataset that sensormend made, by time, station and variable.

    Cells that are missing and have no estimate give no rows.
    """
    with _opened_dataset(source) as (dataset, shown):
        names = {
            str(array.attrs["sensormend_variable"]): str(name)
            for name, array in dataset.data_vars.items()
            if "sensormend_variable" in array.attrs
        }
        if not names or "station" not in dataset.variables:
            raise InputError(f"{shown} is not a dataset that sensormend wrote")
        times = _read_times(dataset["time"], shown)
        span = slice(0 if start is None else int(np.searchsorted(times, start)),
                     times.size if end is None else int(np.searchsorted(times, end)))  # fmt: skip
        stations = _decode_names(dataset["station"].values)
        wanted = set(stations if sensors is None else sensors)
        chosen = sorted((k for k, name in enumerate(stations) if name in wanted), key=lambda k: stations[k])
        part = dataset.isel(time=span, station=chosen)
        variables = sorted(name for name in names if variable in (None, name))
        shape = (len(variables), part.sizes["time"], len(chosen))
        columns = {}
        for column in EMPTY:
            grids = [part[_column_name(names[name], column)].values for name in variables]
            columns[column] = np.moveaxis(np.array(grids, DTYPES[column]).reshape(shape), 0, 2)
        present = columns["flag"] != Flag.MISSING
        for column in ("reason", "origin", "n"):
            present |= columns[column] != 0
        slot, station, number = np.nonzero(present)
        return Rows(
            tuple(stations[k] for k in chosen),
            tuple(variables) or ("",),
            sensor=station.astype(np.int32),
            variable=number.astype(np.int32),
            time=times[span][slot],
            **{column: grid[present] for column, grid in columns.items()},
        )
