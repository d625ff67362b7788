"""Rows as CF-NetCDF has them: time x station, with flags that say what they mean.

CF-1.11, in short: 3.4 `ancillary_variables` name what is said about a variable's values, 3.5 `flag_values` are of the
flag's own type with one word of `flag_meanings` each, 9.3.1 series that share their times lie in one array, in any
order of its dimensions, and 9.1 makes coordinates mandatory for a `featureType`: without them it is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend import __version__
from sensormend.errors import ConfigError, InputError
from sensormend.files import beside
from sensormend.io import labelled
from sensormend.io.labelled import KEPT, microseconds_of, netcdf_libraries, opened, texts_of
from sensormend.io.units import unit_of
from sensormend.readings import MEANINGS, ORIGINS, REASONS, SECOND, Flag, Rows

__all__ = ["Attributes", "Locations", "dataset_of", "rows_of", "stretch_of", "write_netcdf"]

Locations = Mapping[str, tuple[float, float]]
"""Latitude and longitude by the name of the sensor."""

Attributes = Mapping[str, Mapping[str, Any]]
"""What is known of each variable: `units`, `standard_name`, `long_name`."""

LONG, WIDE = 1024, 256
"""Times and stations in a chunk of a file."""

EMPTY = {"value": np.nan, "cleaned": np.nan, "lower": np.nan, "upper": np.nan, "n": 0,
         "flag": int(Flag.MISSING), "reason": 0, "origin": 0}  # fmt: skip
TYPES = {"value": "f8", "cleaned": "f8", "lower": "f8", "upper": "f8", "n": "i4",
         "flag": "i1", "reason": "i1", "origin": "i1"}  # fmt: skip


def dataset_of(rows: Rows, locations: Locations | None = None, attributes: Attributes | None = None) -> Any:
    """Return rows as an `xarray.Dataset` on (time, station).

    A variable `v` comes with `v_cleaned`, `v_lower`, `v_upper`, `v_flag`, `v_reason`, `v_origin` and `v_n`; a cell
    without a row is missing, flag 9.

    Parameters
    ----------
    rows
        At most one per sensor, variable and time.
    locations, attributes
        What is known of the sensors and of the variables.
    """
    xarray, _, _ = netcdf_libraries()
    times = np.unique(rows.time)
    plan = _Plan.of(rows.sensors, rows.variables, times, locations, attributes)
    grids = plan.grids(rows, 0, times.size)
    dataset = xarray.Dataset(
        {name: (("time", "station"), grids[name], dict(told)) for name, told in plan.told.items()},
        coords={
            # Nanoseconds: older xarray knows no others, and they reach to 2262.
            "time": ("time", times.astype("datetime64[us]").astype("datetime64[ns]"), dict(TIME)),
            "station": ("station", np.array(plan.sensors, dtype=object), dict(STATION)),
            **{name: ("station", values, dict(told)) for name, (values, told) in plan.places.items()},
        },
        attrs=plan.overall,
    )
    dataset["time"].encoding = {"units": plan.time_units, "calendar": "standard", "dtype": "int64", "_FillValue": None}
    for name in (*plan.told, "lat", "lon"):
        if name in dataset.variables:
            dataset[name].encoding = {"_FillValue": np.nan if dataset[name].dtype.kind == "f" else None}
    return dataset


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
    """Write the same to a file, part by part, so that an archive need not fit into memory.

    Parameters
    ----------
    path
        Written beside and renamed.
    parts
        Rows in order of time; no time is in two parts.
    sensors, variables, times
        All that come up in them; times sorted.
    """
    _, h5netcdf, h5py = netcdf_libraries()
    target = Path(path)
    plan = _Plan.of(sensors, variables, times, locations, attributes)
    with beside(target) as new, h5netcdf.File(new, "w") as file:
        plan.prepare(file, h5py.string_dtype())
        for rows in parts:
            if not len(rows):
                continue
            begin, end = np.searchsorted(times, [rows.time.min(), rows.time.max() + 1])
            for name, grid in plan.grids(rows, int(begin), int(end)).items():
                file.variables[name][begin:end, :] = grid


TIME = {"standard_name": "time", "long_name": "start of the slot, UTC", "axis": "T"}
STATION = {"long_name": "name of the sensor", "cf_role": "timeseries_id"}


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a dataset will look like: its names and attributes."""

    sensors: tuple[str, ...]
    variables: tuple[str, ...]
    names: tuple[str, ...]
    times: NDArray[np.int64]
    told: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, tuple[NDArray[np.float64], Mapping[str, Any]]]
    overall: Mapping[str, str]

    @classmethod
    def of(
        cls,
        sensors: Sequence[str],
        variables: Sequence[str],
        times: NDArray[np.int64],
        locations: Locations | None,
        attributes: Attributes | None,
    ) -> _Plan:
        names = _names(variables)
        told: dict[str, dict[str, Any]] = {}
        for variable, name in zip(variables, names, strict=True):
            told |= _described(variable, name, (attributes or {}).get(variable, {}))
        places = {}
        known = [(locations or {}).get(sensor, (np.nan, np.nan)) for sensor in sensors]
        if np.isfinite(known).any():
            for axis, (name, standard, units) in enumerate(
                (("lat", "latitude", "degrees_north"), ("lon", "longitude", "degrees_east"))
            ):
                places[name] = (
                    np.array([place[axis] for place in known]),
                    {"standard_name": standard, "long_name": f"{standard} of the sensor", "units": units},
                )
        overall = {
            "Conventions": "CF-1.11",
            **({"featureType": "timeSeries"} if places else {}),
            "title": "Readings of a sensor network with flags and estimates",
            "history": f"mended with sensormend {__version__}",
            "source": f"sensormend {__version__}",
            "comment": "Flags are QARTOD's and judge the raw values; <variable>_cleaned has the reading where it is "
            "trusted and the estimate elsewhere, between <variable>_lower and <variable>_upper.",
        }
        return cls(tuple(sensors), tuple(variables), names, times, told, places, overall)

    @property
    def time_units(self) -> str:
        """Whole seconds where the times are."""
        return f"{'microseconds' if (self.times % SECOND).any() else 'seconds'} since 1970-01-01 00:00:00"

    def grids(self, rows: Rows, begin: int, end: int) -> dict[str, NDArray[Any]]:
        """Return rows as arrays of these times and all stations, by the name of their variable."""
        times = self.times[begin:end]
        place = {name: number for number, name in enumerate(self.sensors)}
        station = np.array([place[name] for name in rows.sensors] or [0])[rows.sensor]
        slot = np.searchsorted(times, rows.time)
        made = {}
        for variable, name in zip(self.variables, self.names, strict=True):
            code = rows.variables.index(variable) if variable in rows.variables else -1
            mine = rows.variable == code
            cells = slot[mine] * len(self.sensors) + station[mine]
            if np.bincount(cells, minlength=1).max() > 1:
                raise ConfigError(
                    "NetCDF has one value per station and time, and these rows have more: "
                    "write rows per reading to .csv or .parquet"
                )
            for column, empty in EMPTY.items():
                grid = np.full(times.size * len(self.sensors), empty, dtype=TYPES[column])
                grid[cells] = getattr(rows, column)[mine]
                made[_called(name, column)] = grid.reshape(times.size, len(self.sensors))
        return made

    def prepare(self, file: Any, text: Any) -> None:
        """Make the variables in a new file, and fill those without time."""
        file.attrs.update(self.overall)
        file.dimensions = {"time": self.times.size, "station": len(self.sensors)}
        scale = SECOND if self.time_units.startswith("seconds") else 1
        time = file.create_variable("time", ("time",), "i8", data=self.times // scale)
        time.attrs.update({**TIME, "units": self.time_units, "calendar": "standard"})
        names = np.array(self.sensors, dtype=object)
        station = file.create_variable("station", ("station",), text, data=names)
        station.attrs.update(STATION)
        for name, (values, told) in self.places.items():
            file.create_variable(name, ("station",), "f8", data=values, fillvalue=np.nan).attrs.update(told)
        # Two megabytes at most: a station's course and a day of all stations are both read in few pieces.
        long = min(stretch_of(len(self.sensors) * len(self.variables)), LONG)
        chunks = (min(max(self.times.size, 1), long), min(max(len(self.sensors), 1), WIDE))
        columns = {_called(name, column): column for name in self.names for column in EMPTY}
        for name, told in self.told.items():
            kind = TYPES[columns[name]]
            variable = file.create_variable(
                name, ("time", "station"), kind, chunks=chunks, compression="gzip", compression_opts=1,
                shuffle=True, fillvalue=np.nan if kind == "f8" else None,
            )  # fmt: skip
            variable.attrs.update(told)
            if self.places:
                variable.attrs["coordinates"] = " ".join(self.places)


def stretch_of(width: int) -> int:
    """Return how many times to write at once, of so many channels: what fits into memory, in whole chunks of the file.

    A chunk that is written in two goes is compressed twice.
    """
    most = max(1, labelled.CELLS // max(width, 1))
    return most // LONG * LONG or most


def _called(name: str, column: str) -> str:
    return name if column == "value" else f"{name}_{column}"


def _names(variables: Sequence[str]) -> tuple[str, ...]:
    """Return names that CF allows: letters, digits and underscores, no two alike."""
    taken = {"time", "station", "lat", "lon"}
    names = []
    for variable in variables:
        plain = re.sub(r"\W+", "_", unit_of(variable)[0], flags=re.ASCII).strip("_") or "value"
        plain = plain if plain[0].isalpha() else f"v_{plain}"
        name, more = plain, 1
        while not taken.isdisjoint(_called(name, column) for column in EMPTY):
            more += 1
            name = f"{plain}_{more}"
        taken |= {_called(name, column) for column in EMPTY}
        names.append(name)
    return tuple(names)


def _described(variable: str, name: str, known: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attributes of a variable and of what is said about it."""
    long_name = str(known.get("long_name", variable or "value"))
    same = {key: known[key] for key in KEPT if key in known and key != "long_name"}
    said = ("flag", "reason", "origin", "n", "cleaned", "lower", "upper")

    def coded(words: Mapping[int, str], what: str, standard_name: str) -> dict[str, Any]:
        return {
            "long_name": f"{what} {long_name}",
            "standard_name": standard_name,
            "flag_values": np.array(list(words), dtype=np.int8),
            "flag_meanings": " ".join(words.values()),
        }

    return {
        name: {
            "long_name": long_name, **same,
            "ancillary_variables": " ".join(_called(name, column) for column in said),
            "sensormend_variable": variable,
        },
        _called(name, "cleaned"): {"long_name": f"mended {long_name}", **same},
        _called(name, "lower"): {"long_name": f"lower end of the interval of mended {long_name}", **same},
        _called(name, "upper"): {"long_name": f"upper end of the interval of mended {long_name}", **same},
        _called(name, "n"): {
            "long_name": f"number of readings of {long_name}", "standard_name": "number_of_observations", "units": "1",
        },
        _called(name, "flag"): coded(
            {int(code): word for code, word in MEANINGS.items()}, "QARTOD flag of", "aggregate_quality_flag"
        ),
        _called(name, "reason"): coded(
            {code: word or "none" for code, word in enumerate(REASONS)}, "reason for the flag of", "quality_flag"
        ),
        _called(name, "origin"): coded(
            {code: word or "none" for code, word in enumerate(ORIGINS)}, "origin of mended", "status_flag"
        ),
    }  # fmt: skip


def rows_of(
    source: Any,
    sensors: Sequence[str] | None = None,
    start: int | None = None,
    end: int | None = None,
    variable: str | None = None,
) -> Rows:
    """Return the rows of a dataset that sensormend made, by time, station and variable.

    Cells that say nothing, missing and without an estimate, are no rows.
    """
    with opened(source) as (dataset, shown):
        names = {
            str(array.attrs["sensormend_variable"]): str(name)
            for name, array in dataset.data_vars.items()
            if "sensormend_variable" in array.attrs
        }
        if not names or "station" not in dataset.variables:
            raise InputError(f"{shown} is no dataset that sensormend wrote")
        times = microseconds_of(dataset["time"], shown)
        begin, stop = (0 if start is None else np.searchsorted(times, start),
                       times.size if end is None else np.searchsorted(times, end))  # fmt: skip
        stations = texts_of(dataset["station"].values)
        chosen = [k for k, name in enumerate(stations) if sensors is None or name in set(sensors)]
        some = dataset.isel(time=slice(int(begin), int(stop)), station=chosen)
        order = sorted(range(len(chosen)), key=lambda k: stations[chosen[k]])
        some = some.isel(station=order)
        labels = sorted(names if variable is None else [variable] if variable in names else [])
        parts = [[np.asarray(some[_called(names[label], column)].values) for column in EMPTY] for label in labels]
        stacked = [np.stack(column, axis=2) for column in zip(*parts, strict=True)] if parts else []
        columns = dict(zip(EMPTY, stacked, strict=True)) if parts else {key: np.empty((0, 0, 0)) for key in EMPTY}
        says = (
            (columns["flag"] != Flag.MISSING)
            | (columns["reason"] != 0)
            | (columns["origin"] != 0)
            | (columns["n"] != 0)
        )
        slot, station, which = np.nonzero(says)
        return Rows(
            tuple(stations[chosen[k]] for k in order),
            tuple(labels) or ("",),
            sensor=station.astype(np.int32),
            variable=which.astype(np.int32),
            time=times[int(begin) : int(stop)][slot],
            **{name: column[says].astype(TYPES[name]) for name, column in columns.items()},
        )
