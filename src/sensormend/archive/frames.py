"""`clean` mends a pandas or polars frame or an `xarray.DataArray`, and returns the rows in the same kind of object."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError
from sensormend.io.staging import Staging
from sensormend.io.table_layout import TableLayout, is_quantity
from sensormend.pipeline.cleaner import InMemory, cleaner_for, walk
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.survey import Survey, survey_readings
from sensormend.pipeline.tally import Tally, mark_dated_back
from sensormend.pipeline.times import time_of
from sensormend.pipeline.units import described, record_of
from sensormend.readings import ORIGINS, REASONS, NameIndex, Readings, Rows, spans_of

__all__ = ["Cleaned", "Frame", "clean", "columns_of", "is_frame", "is_series", "rows_of"]

INSPECTED = 200
"""Texts of a column that are inspected to recognise its kind."""


class Cleaned(NamedTuple):
    """The result of `clean(..., details=True)`: three frames."""

    rows: Any
    faults: Any
    sensors: Any


def clean(readings: Any, *, details: bool = False, **settings: Any) -> Any:
    """Mend a table of readings: flag wrong values, fill gaps, and give an interval for each estimate.

    Parameters
    ----------
    readings
        A pandas or polars frame, long (sensor, time, value) or wide (a column per sensor, or per variable beside a
        column of sensors), a pandas Series with an index of times, which is one sensor, or an `xarray.DataArray` of
        (time, station). Columns are recognised by their names.
    details
        Return `Cleaned(rows, faults, sensors)`: the rows, a list of the faults with start and end, and a summary of
        each sensor.
    **settings
        Any of `sensormend.pipeline.options.Options`: the columns (`sensor`, `time`, `value`, `variable`,
        `variables`, `sensors`, `latitude`, `longitude`), the grid (`step="1h"`, `period="1d"`), `fill=[-999]`,
        `valid=[-40, 50]`, `maintenance="maintenance.csv"`, `coordinates="places.csv"`, `gone_after="30d"`,
        `interval=0.9`, `method="olrtr"`, `one_pass=True`, `per_reading=True`, `units="°C"`, `names="air temperature"`;
        and `wide=True` for a wide table.

    Returns
    -------
    frame
        A frame of the same kind, a row per sensor and slot: sensor, time (the start of the slot, UTC), value (raw), n,
        cleaned, lower, upper, flag (QARTOD: 1 good, 2 not evaluated, 3 suspect, 4 fail, 9 missing), reason, origin,
        and variable where there are several, or it has a name. With `wide=True` the cleaned values alone: a column per
        sensor, or per variable and one of sensors where there are several variables; for a Series, a Series. For a
        DataArray an `xarray.Dataset` with CF attributes.

    Examples
    --------
    >>> import numpy as np, polars
    >>> random, hours = np.random.default_rng(0), np.arange(24 * 30)
    >>> weather = 10 + 5 * np.sin(hours / 24 * 2 * np.pi) + random.normal(size=hours.size).cumsum() / 5
    >>> wide = {name: weather + random.normal(size=hours.size) / 5 for name in "abcdef"}
    >>> wide["c"][480:528] += 8
    >>> times = np.datetime64("2024-06-01T00", "us") + hours * np.timedelta64(3600, "s")
    >>> cleaned = clean(polars.DataFrame({"time": times, **wide}))
    >>> cleaned.filter(polars.col("flag") == 4).group_by("sensor", "reason").len().rows()
    [('c', 'offset', 48)]
    """
    options = Options.of(**settings)
    if options.networks:
        raise ConfigError("a frame is one network; split it, or see sensormend.cluster.clean_networks for files")
    if options.flags:
        raise ConfigError("flags writes a file beside the rows of an OUT; sensormend.io.vocabularies has the codes")
    if is_frame(readings) or is_series(readings):
        return _clean_frame(readings, options, details)
    if hasattr(readings, "dims") and hasattr(readings, "coords"):
        return _clean_labelled(readings, options, details)
    if hasattr(readings, "collect"):
        raise InputError(f"clean takes a frame that is there; .collect() the {type(readings).__name__} first")
    raise InputError(
        f"clean takes a pandas or polars frame or an xarray.DataArray, not {type(readings).__name__}; "
        "for files there is `sensormend clean READINGS OUT`"
    )


def _clean_frame(frame: Any, options: Options, details: bool) -> Any:
    with Staging(None) as staging:
        table = Frame.of(frame, options, staging)
        survey, readings = _surveyed(staging, options)
        places = _places(staging, options)
        unit = {EVERY: {"units": staging.unit}} if staging.unit else None
    rows, tally = _mend(readings, survey, options, places, details=details)
    record = record_of(described(readings.variables, options, unit))
    mended = table.wide(rows) if options.wide else table.like(columns_of(rows), record)
    if not details:
        return mended
    return Cleaned(mended, *map(table.like, _tables(tally, places)))


def _places(staging: Staging, options: Options) -> Places:
    if options.coordinates:
        return Places.read(options.coordinates)
    sensors = staging.sensors
    positions = (Position(sensors[code], time, *degrees) for code, time, *degrees in staging.locations)
    return Places.of(positions, sensors)


def _clean_labelled(array: Any, options: Options, details: bool) -> Any:
    from sensormend.io.netcdf import make_dataset, read_attributes, read_locations

    if options.wide:
        raise ConfigError("an array of time and station is wide already; leave wide out")
    if options.coordinates:
        places = Places.read(options.coordinates)
    else:
        places = Places.of(Position(name, 0, *degrees) for name, degrees in read_locations(array, options).items())
    with Staging(None) as staging:
        staging.load_array(array, options)
        survey, readings = _surveyed(staging, options)
    rows, tally = _mend(readings, survey, options, places, details=details)
    dataset = make_dataset(
        rows, places.coordinates, described(rows.variables, options, read_attributes(array, options))
    )
    if not details:
        return dataset
    import pandas

    return Cleaned(dataset, *map(pandas.DataFrame, _tables(tally, places)))


def _tables(tally: Tally, places: Places) -> list[dict[str, Any]]:
    """Return faults and sensors as the columns of frames."""
    return [_columns(tally.intervals(), FaultInterval), _columns(tally.summaries(places), SensorSummary)]


TIMES = {"start": "from", "end": "to", "first": "first", "last": "last"}
"""Fields of `FaultInterval` and `SensorSummary` that are times, and their columns."""


def _columns(lines: Sequence[Any], kind: type) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for entry in fields(kind):
        column = [getattr(line, entry.name) for line in lines]
        if entry.name in TIMES:
            columns[TIMES[entry.name]] = np.array(column, dtype="datetime64[us]")
        else:
            # Without lines the types of the columns come from the fields.
            columns[entry.name] = column or np.array([], dtype="<U1" if entry.type == "str" else float)
    return columns


def _surveyed(staging: Staging, options: Options) -> tuple[Survey, Readings]:
    """Return the survey and all readings, so that the staging can be closed before they are mended."""
    if staging.left_out:
        warnings.warn(f"{staging.left_out} readings a year and more from all others were left out", stacklevel=4)
    return survey_readings(staging.sample(), options), staging.all_readings()


def _mend(readings: Readings, survey: Survey, options: Options, places: Places, *, details: bool) -> tuple[Rows, Tally]:
    readings = places.rename_moved(readings)
    source = InMemory(readings, survey.grid)
    cleaner = cleaner_for(survey, readings.variables, options)
    if not options.one_pass:
        cleaner.spans = spans_of(readings)
    tally = Tally(survey.grid, readings.variables)
    parts = []
    for mended in walk(source, cleaner, one_pass=options.one_pass, passes=options.passes):
        if details or not options.one_pass:
            tally.add(mended)
        parts.append(mended.output)
    for remark in cleaner.unjudged_remarks():
        warnings.warn(remark, stacklevel=4)
    rows = Rows.concatenate(parts)
    if not options.one_pass:
        before = rows
        faults = [fault for fault in tally.faults if fault.dated_back]
        rows, marked = mark_dated_back(before, faults, cleaner.maintenance, survey.grid, cleaner.correction_limits_of)
        tally.count_dated_back(before, marked)
    rank = np.argsort(np.argsort(np.array(rows.sensors, dtype=object)))
    return rows.taken(np.lexsort((rows.time, rows.variable, rank[rows.sensor]))), tally


def is_frame(thing: object) -> bool:
    """Return whether an object is a frame that can be read."""
    return nw.dependencies.is_into_dataframe(thing)


def is_series(thing: object) -> bool:
    """Return whether an object is a pandas Series."""
    return nw.dependencies.is_pandas_series(thing)


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of readings in memory, and its layout.

    Attributes
    ----------
    table, layout
        The table, and the roles of its columns.
    indexed
        The times were the index of a pandas frame.
    series
        The name of a pandas Series; None for a frame.
    zone
        The time zone of its times; None where they have none.
    """

    table: nw.DataFrame[Any]
    layout: TableLayout
    indexed: bool = False
    series: tuple[Any] | None = None
    zone: Any = None

    @classmethod
    def of(cls, frame: Any, options: Options, staging: Staging) -> Frame:
        """Read a frame into an empty staging; a pandas index with a meaning becomes a column."""
        series = (frame.name,) if is_series(frame) else None
        if series:
            frame = _framed(frame)
        indexed = False
        zones: dict[str, Any] = {}
        if nw.dependencies.is_pandas_dataframe(frame):
            indexed = "datetime" in str(frame.index.dtype)
            frame, zones = _plain_pandas(frame)
        table = nw.from_native(frame, eager_only=True)
        if len(table) == 0:
            raise InputError("the frame has no rows")
        layout = staging.load_columns({name: _array(table[name]) for name in table.columns}, options)
        zone = zones.get(layout.time) or getattr(table[layout.time].dtype, "time_zone", None)
        return cls(table, layout, indexed, series, zone)

    def wide(self, rows: Rows) -> Any:
        """Return the cleaned values of rows as a wide frame of the same kind, with the names of the input's columns.

        A column per sensor; where there are several variables, a column per variable and one of sensors.
        """
        several = len(rows.variables) > 1
        names, code = (rows.variables, rows.variable) if several else (rows.sensors, rows.sensor)
        lines = rows.sensor if several else np.zeros(len(rows), dtype=np.int64)
        order = np.lexsort((rows.time, lines))
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(rows.time[order]) != 0) | (np.diff(lines[order]) != 0)
        line = np.empty(order.size, dtype=np.int64)
        line[order] = np.cumsum(new) - 1
        cleaned = np.full((len(names), int(new.sum())), np.nan)
        cleaned[code, line] = rows.cleaned
        first = order[new]
        present = np.unique(code).tolist()
        position = {name: index for index, name in enumerate(self.layout.columns)}
        present.sort(key=lambda number: (position.get(names[number], len(position)), names[number]))
        time = "time" if self.layout.parts or self.layout.clock else self.layout.time
        columns: dict[str, Any] = {}
        if several:
            columns[self.layout.sensor or "sensor"] = np.array(rows.sensors, dtype=object)[rows.sensor[first]]
        columns[time] = rows.time[first].astype("datetime64[us]")
        columns |= {names[number]: cleaned[number] for number in present}
        frame = self._in_zone(self.like(columns), time)
        if self.series is not None:
            return frame.set_index(time)[names[present[0]]].rename(self.series[0])
        return frame.set_index(time) if self.indexed else frame

    def _in_zone(self, frame: Any, time: str) -> Any:
        """Return a frame with its times, which are UTC, in the zone of the input."""
        if self.zone is None:
            return frame
        if self.table.implementation.is_pandas():
            return frame.assign(**{time: frame[time].dt.tz_localize("UTC").dt.tz_convert(self.zone)})
        zoned = nw.col(time).dt.replace_time_zone("UTC").dt.convert_time_zone(self.zone)
        return nw.from_native(frame, eager_only=True).with_columns(zoned).to_native()

    def like(self, columns: Mapping[str, Any], attrs: Mapping[str, Any] | None = None) -> Any:
        """Return columns as a frame of the same kind; missing values are null where the kind of frame has it.

        A pandas frame gets `attrs`.
        """
        named = dict(columns)
        # Polars makes an object column of an array of texts whose first entry is None, as before the first reading.
        polars = self.table.implementation.is_polars()
        unknown = [name for name, column in named.items() if polars and len(column) and column[0] is None]
        named |= {name: list(named[name]) for name in unknown}
        table = nw.from_dict(named, backend=self.table.implementation)
        if polars:
            table = table.with_columns(
                nw.selectors.by_dtype(nw.Float64).fill_nan(None), *(nw.col(name).cast(nw.String) for name in unknown)
            )
        frame = table.to_native()
        if attrs and self.table.implementation.is_pandas():
            frame.attrs.update(attrs)
        return frame


def columns_of(rows: Rows) -> dict[str, NDArray[Any]]:
    """Return rows as the columns of a frame, with names, reasons and origins as text."""
    sensors, variables = np.array(rows.sensors, dtype=object), np.array(rows.variables, dtype=object)
    origins = np.array([None, *ORIGINS[1:]], dtype=object)
    named = {
        "sensor": sensors[rows.sensor],
        "time": rows.time.astype("datetime64[us]"),
        "value": rows.value,
        "n": rows.n,
        "cleaned": rows.cleaned,
        "lower": rows.lower,
        "upper": rows.upper,
        "flag": rows.flag,
        "reason": np.array(REASONS, dtype=object)[rows.reason],
        "origin": origins[rows.origin],
    }
    if tuple(rows.variables) != (EVERY,):
        named["variable"] = variables[rows.variable]
    return named


def rows_of(frame: Any) -> Rows:
    """Return the rows of a frame that `clean` returned: the inverse of `columns_of`."""
    table = nw.from_native(frame, eager_only=True)
    needed = ("sensor", "time", "value", "cleaned", "lower", "upper", "flag", "reason")
    lacking = [name for name in needed if name not in table.columns]
    if lacking:
        raise InputError(f"the frame has no column {lacking[0]!r}: give what clean() returned")
    if not len(table):
        raise InputError("the frame has no rows")
    columns = {name: _array(table[name]) for name in table.columns}
    nameless = "variable" not in columns or table["variable"].is_null().all()
    sensors, sensor = _numbered(columns["sensor"])
    variables, variable = (
        ((EVERY,), np.zeros(len(table), dtype=np.int64)) if nameless else _numbered(columns["variable"])
    )

    def coded(name: str, words: Sequence[str]) -> NDArray[np.int8]:
        code = {word: number for number, word in enumerate(words)}
        return np.array([code.get(word, 0) for word in columns.get(name, [""] * len(table))], dtype=np.int8)

    time = columns["time"]
    if time.dtype == object:  # as in a CSV file
        time = np.array([time_of(text) for text in time], dtype=np.int64)
    numbers = {name: columns[name].astype(np.float64) for name in ("value", "cleaned", "lower", "upper")}
    count = columns["n"] if "n" in columns else np.isfinite(numbers["value"])
    return Rows(
        sensors, variables, sensor, variable, time.astype(np.int64), n=count.astype(np.int32), **numbers,
        flag=columns["flag"].astype(np.int8), reason=coded("reason", REASONS), origin=coded("origin", ORIGINS),
    )  # fmt: skip


def _numbered(names: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the distinct names of a column, sorted, and the number of each row's name."""
    index = NameIndex(sorted(set(map(str, names))))
    return index.all, np.array([index[str(name)] for name in names], dtype=np.int64)


def _plain_pandas(frame: Any) -> tuple[Any, dict[str, Any]]:
    """Return a pandas frame with single-level, distinct column names and times in UTC, and the zones that they had."""
    if frame.columns.nlevels > 1:
        raise InputError("the frame has columns with names of several levels; give each column one name")
    if _has_meaning(frame.index):
        repeated = [name for name in frame.index.names if name is not None and name in frame.columns]
        frame = frame.reset_index(level=repeated, drop=True) if repeated else frame
        frame = frame.reset_index() if _has_meaning(frame.index) else frame
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"the frame has two columns named {twice!r}")
    zoned = [name for name, dtype in frame.dtypes.items() if str(dtype).startswith(("datetime64[", "timestamp["))
             and ("," in str(dtype) or "tz=" in str(dtype))]  # fmt: skip
    # narwhals does not accept every zone of pandas; it accepts UTC.
    zones = {name: frame[name].dt.tz for name in zoned}
    return frame.assign(**{name: frame[name].dt.tz_convert("UTC").dt.tz_localize(None) for name in zoned}), zones


def _framed(series: Any) -> Any:
    """Return a Series with an index of times as a long frame of one sensor.

    Its name is the variable if it is that of a quantity, else the sensor.
    """
    if "datetime" not in str(series.index.dtype):
        raise InputError("a Series is one sensor and needs an index of times; give it one, or give a frame")
    name = "" if series.name is None else str(series.name)
    measured = is_quantity(name)
    frame = series.rename(name if measured else "value").rename_axis("time").reset_index()
    return frame.assign(sensor="sensor" if measured or not name else name)


def _has_meaning(index: Any) -> bool:
    return index.nlevels > 1 or index.name is not None or "datetime" in str(index.dtype)


def _array(column: nw.Series[Any]) -> NDArray[Any]:
    """Return a column for the engine: as numbers, times in UTC, or texts with None where there is nothing."""
    dtype = column.dtype
    missing = column.is_null()
    if dtype == nw.Date:
        column, dtype = column.cast(nw.Datetime("us")), nw.Datetime("us")
    if dtype == nw.Datetime:
        nothing = np.iinfo(np.int64).min  # NaT
        times: NDArray[Any] = column.dt.timestamp("us").fill_null(nothing).to_numpy().astype(np.int64)
        return times.view("datetime64[us]")
    if dtype.is_integer() and not missing.any():
        return column.to_numpy()
    if dtype.is_numeric():
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    empty = missing.to_list()
    return np.array([None if lacks else str(entry) for entry, lacks in zip(column.to_list(), empty, strict=True)],
                    dtype=object)  # fmt: skip
