"""`clean_table` cleans a pandas or polars frame or an `xarray.DataArray`, and `Frame` gives rows back in its kind."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sensormend.archive.cleaning import Report, collect_notes, run_record
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.staging import Staging
from sensormend.io.table_layout import TableLayout, is_quantity
from sensormend.pipeline.cleaner import InMemory, cleaner_for, walk
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.owner_flags import with_owner_flags
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.survey import Survey, survey_readings
from sensormend.pipeline.tally import Tally, mark_dated_back
from sensormend.pipeline.times import parse_time
from sensormend.pipeline.units import collect_units, described
from sensormend.readings import NOTHING, ORIGINS, REASONS, Flag, NameIndex, Readings, Rows, find_spans

__all__ = [
    "CleanedTable",
    "Frame",
    "LabelledArray",
    "TableKind",
    "clean_table",
    "is_frame",
    "is_series",
    "lines_table",
    "make_columns",
    "read_rows",
    "sorted_rows",
]  # fmt: skip

TIMES = ("start", "end", "first", "last", "incident")
"""Fields of `FaultInterval` and `SensorSummary` that are times."""


class TableKind(Protocol):
    """The kind of table that readings came in, which results are given back in."""

    def rows_table(self, rows: Rows, record: Mapping[str, Any]) -> Any:
        """Return a table with a line per row; `record` has units and names."""
        ...

    def cleaned_wide(self, rows: Rows) -> Any:
        """Return a wide table of the cleaned values."""
        ...

    def flags_wide(self, rows: Rows) -> Any:
        """Return a wide table of the flags."""
        ...

    def table(self, columns: Mapping[str, Any]) -> Any:
        """Return columns as a table."""
        ...


@dataclass(frozen=True, eq=False)
class CleanedTable:
    """What cleaning a table of readings gave.

    Attributes
    ----------
    rows, faults, sensors
        What OUT/data, faults.csv and sensors.csv would have.
    run
        What run.json would have.
    kind
        The kind of table that the readings came in.
    """

    rows: Rows
    faults: list[FaultInterval]
    sensors: list[SensorSummary]
    run: dict[str, Any]
    kind: TableKind


def clean_table(readings: Any, options: Options) -> CleanedTable:
    """Clean a table of readings in memory: a pandas or polars frame, a pandas Series or an `xarray.DataArray`."""
    kind: Frame | LabelledArray
    started = monotonic()
    with Staging(None) as staging:
        if is_frame(readings) or is_series(readings):
            kind = Frame.of(readings, options, staging)
            sensors = staging.sensors
            positions = [Position(sensors[code], time, *degrees) for code, time, *degrees in staging.locations]
            attributes: dict[str, dict[str, Any]] = {EVERY: {"units": staging.unit}} if staging.unit else {}
        elif hasattr(readings, "dims") and hasattr(readings, "coords"):
            kind = LabelledArray.of(readings, options, staging)
            positions, attributes = kind.positions(), kind.attributes()
        elif hasattr(readings, "collect"):
            raise InputError(f"clean takes a frame that is there; .collect() the {type(readings).__name__} first")
        else:
            raise InputError(
                "clean takes a pandas or polars frame, an xarray.DataArray, or the path of a file, "
                f"not {type(readings).__name__}"
            )
        rejected, notes = staging.left_out, staging.notes
        # The staging is closed before they are mended.
        survey, table = survey_readings(staging.sample(), options), staging.all_readings()
        words = staging.owner_flags
        flagged = staging.flagged() if words else NOTHING
    if rejected:
        warnings.warn(f"{rejected} readings a year and more from all others were left out", stacklevel=3)
    places = Places.read(options.coordinates) if options.coordinates else Places.of(positions, table.sensors)
    rows, report = _clean(table, survey, options, places, notes, rejected=rejected, started=started)
    if words:
        grid = None if options.per_reading else survey.grid
        rows = with_owner_flags(rows, places.rename_moved(flagged), words, grid)
    if isinstance(kind, LabelledArray):
        kind.places = places.coordinates
    run = run_record(report, options, fill=survey.fill, variables=table.variables, owner_flags=words)
    run |= collect_units(described(table.variables, options, attributes, survey.usual))
    return CleanedTable(rows, report.faults, report.summaries, run, kind)


def _clean(
    readings: Readings,
    survey: Survey,
    options: Options,
    places: Places,
    notes: Sequence[str],
    *,
    rejected: int,
    started: float,
) -> tuple[Rows, Report]:
    readings = places.rename_moved(readings)
    source = InMemory(readings, survey.grid)
    cleaner = cleaner_for(survey, readings.variables, options)
    if not options.one_pass:
        cleaner.spans = find_spans(readings)
    tally = Tally(survey.grid, readings.variables)
    parts = []
    for cleaned_period in walk(source, cleaner, one_pass=options.one_pass, passes=options.passes):
        tally.add(cleaned_period)
        parts.append(cleaned_period.output)
    for remark in cleaner.unjudged_remarks():
        warnings.warn(remark, stacklevel=4)
    rows = Rows.concatenate(parts)
    if not options.one_pass:
        before = rows
        faults = [fault for fault in tally.faults if fault.dated_back]
        rows, marked = mark_dated_back(before, faults, cleaner.maintenance, survey.grid, cleaner.find_correction_limits)
        tally.count_dated_back(before, marked)
    copies, intervals = tally.copies(), tally.intervals()
    noted = (*notes, *collect_notes(survey, options, cleaner, copies))
    report = Report(
        out=Path(), grid=survey.grid, readings=len(readings), rejected=rejected,
        sensors=len(cleaner.sensors), periods=len(source.periods), flags=tally.flags, filled=tally.filled,
        corrected=tally.corrected, notes=noted, faults=intervals,
        summaries=tally.summaries(places, intervals), seconds=monotonic() - started, withheld=cleaner.withheld,
        copies=copies, fill=tally.fill,
    )  # fmt: skip
    return sorted_rows(rows), report


def sorted_rows(rows: Rows) -> Rows:
    """Return rows in the order of a frame: by the name of the sensor, then by variable and time."""
    rank = np.argsort(np.argsort(np.array(rows.sensors, dtype=object)))
    return rows.taken(np.lexsort((rows.time, rows.variable, rank[rows.sensor])))


def is_frame(thing: object) -> bool:
    """Return whether an object is a frame that can be read."""
    return nw.dependencies.is_into_dataframe(thing)


def is_series(thing: object) -> bool:
    """Return whether an object is a pandas Series."""
    return nw.dependencies.is_pandas_series(thing)


@dataclass(frozen=True, eq=False)
class Frame:
    """A pandas or polars frame of readings, and its layout.

    Attributes
    ----------
    source, layout
        The table of readings, and the roles of its columns.
    indexed
        The times were the index of a pandas frame.
    series
        The name of a pandas Series; None for a frame.
    zone
        The time zone of its times; None where they have none.
    """

    source: nw.DataFrame[Any]
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

    @classmethod
    def of_files(cls) -> Frame:
        """Return the kind of frame for readings that came in files: pandas where it is installed, else polars."""
        if not find_spec("pandas") and not find_spec("polars"):
            raise SensormendError("a result in memory needs pandas or polars: pip install pandas")
        return cls(
            nw.from_dict({"time": []}, backend="pandas" if find_spec("pandas") else "polars"),
            TableLayout("time", "sensor", "value", ("value",)),
        )

    def rows_table(self, rows: Rows, record: Mapping[str, Any]) -> Any:
        """Return a frame with a line per row, in the zone of the input; a pandas frame gets `record` as its `attrs`."""
        frame = self.make_table(make_columns(rows))
        if self.source.implementation.is_pandas():
            frame.attrs.update(record)
        return frame

    def table(self, columns: Mapping[str, Any]) -> Any:
        """Return columns as a frame, times in the zone of the input."""
        return self.make_table(columns)

    def cleaned_wide(self, rows: Rows) -> Any:
        """Return the cleaned values as a wide frame with the names of the input's columns; NaN where there is no row.

        A column per sensor; where there are several variables, a column per variable and one of sensors.
        """
        return self._wide(rows, rows.cleaned, np.nan)

    def flags_wide(self, rows: Rows) -> Any:
        """Return the flags as a wide frame, as `cleaned_wide`; where there is no row a reading is missing."""
        return self._wide(rows, rows.flag, int(Flag.MISSING))

    def _wide(self, rows: Rows, values: NDArray[Any], absent: float) -> Any:
        several = len(rows.variables) > 1
        names, code = (rows.variables, rows.variable) if several else (rows.sensors, rows.sensor)
        lines = rows.sensor if several else np.zeros(len(rows), dtype=np.int64)
        order = np.lexsort((rows.time, lines))
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(rows.time[order]) != 0) | (np.diff(lines[order]) != 0)
        line = np.empty(order.size, dtype=np.int64)
        line[order] = np.cumsum(new) - 1
        cells = np.full((len(names), int(new.sum())), absent, dtype=values.dtype)
        cells[code, line] = values
        first = order[new]
        present = np.unique(code).tolist()
        position = {name: index for index, name in enumerate(self.layout.columns)}
        present.sort(key=lambda number: (position.get(names[number], len(position)), names[number]))
        time = "time" if self.layout.parts or self.layout.clock else self.layout.time
        columns: dict[str, Any] = {}
        if several:
            columns["sensor" if self.layout.beside else self.layout.sensor or "sensor"] = np.array(
                rows.sensors, dtype=object
            )[rows.sensor[first]]
        columns[time] = rows.time[first].astype("datetime64[us]")
        columns |= {names[number]: cells[number] for number in present}
        frame = self.make_table(columns)
        if self.series is not None:
            return frame.set_index(time)[names[present[0]]].rename(self.series[0])
        return frame.set_index(time) if self.indexed else frame

    def make_table(self, columns: Mapping[str, Any]) -> Any:
        """Return columns as a frame of the same kind; missing values are null where the kind of frame has it."""
        named = dict(columns)
        # Polars makes an object column of an array of texts whose first entry is None, as before the first reading.
        polars = self.source.implementation.is_polars()
        unknown = [name for name, column in named.items() if polars and len(column) and column[0] is None]
        named |= {name: list(named[name]) for name in unknown}
        table = nw.from_dict(named, backend=self.source.implementation)
        if polars:
            table = table.with_columns(
                nw.selectors.by_dtype(nw.Float64).fill_nan(None), *(nw.col(name).cast(nw.String) for name in unknown)
            )
        times = [name for name, column in columns.items() if getattr(column, "dtype", np.dtype(object)).kind == "M"]
        return self._in_zone(table.to_native(), times)

    def _in_zone(self, frame: Any, times: Sequence[str]) -> Any:
        """Return a frame with its times, which are UTC, in the zone of the input."""
        if self.zone is None:
            return frame
        if self.source.implementation.is_pandas():
            local = {name: frame[name].dt.tz_localize("UTC").dt.tz_convert(self.zone) for name in times}
            return frame.assign(**local)
        zoned = [nw.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone(self.zone) for name in times]
        return nw.from_native(frame, eager_only=True).with_columns(*zoned).to_native()


class LabelledArray:
    """An `xarray.DataArray` or `Dataset` of time and station; results are a Dataset with CF attributes, and frames.

    `places` has the positions of the stations that are written into a Dataset.
    """

    def __init__(self, array: Any, options: Options) -> None:
        if options.wide:
            raise ConfigError("an array of time and station is wide already; leave wide out")
        self._array, self._options = array, options
        self.places: Mapping[str, tuple[float, float]] = {}

    @classmethod
    def of(cls, array: Any, options: Options, staging: Staging) -> LabelledArray:
        """Read an array into an empty staging."""
        kind = cls(array, options)
        staging.load_array(array, options)
        return kind

    def positions(self) -> list[Position]:
        """Return the positions of the stations."""
        from sensormend.io.netcdf import read_locations

        return [Position(name, 0, *place) for name, place in read_locations(self._array, self._options).items()]

    def attributes(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of the variables."""
        from sensormend.io.netcdf import read_attributes

        return read_attributes(self._array, self._options)

    def rows_table(self, rows: Rows, record: Mapping[str, Any]) -> Any:
        """Return a Dataset of time and station."""
        from sensormend.io.netcdf import make_dataset

        return make_dataset(rows, self.places, described(rows.variables, self._options, self.attributes()))

    def cleaned_wide(self, rows: Rows) -> Any:
        """Return the cleaned values, which are in the Dataset."""
        return self.rows_table(rows, {})

    def flags_wide(self, rows: Rows) -> Any:
        """Return the flags: a DataArray, or a Dataset where there are several variables."""
        dataset = self.rows_table(rows, {})
        names = [name for name in dataset.data_vars if str(name).endswith("_flag")]
        return dataset[names[0]] if len(names) == 1 else dataset[names]

    def table(self, columns: Mapping[str, Any]) -> Any:
        """Return columns as a pandas frame, which xarray needs as well."""
        import pandas

        return pandas.DataFrame(dict(columns))


def make_columns(rows: Rows) -> dict[str, NDArray[Any]]:
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
    if rows.owner is not None:
        named["owner_flag"] = np.array([None, *rows.owner_flags[1:]], dtype=object)[rows.owner]
    return named


def lines_table(kind: TableKind, lines: Sequence[Any], entry_type: type) -> Any:
    """Return faults or summaries of sensors as a table with their fields as columns."""
    columns: dict[str, Any] = {}
    for entry in fields(entry_type):
        column = [getattr(line, entry.name) for line in lines]
        if entry.name in TIMES:
            columns[entry.name] = np.array(column, dtype="datetime64[us]")
        else:
            # Without lines the types of the columns come from the fields.
            columns[entry.name] = column or np.array([], dtype="<U1" if entry.type == "str" else float)
    return kind.table(columns)


def read_rows(frame: Any) -> Rows:
    """Return the rows of a frame that `clean` returned: the inverse of `make_columns`."""
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
        time = np.array([parse_time(text) for text in time], dtype=np.int64)
    numbers: dict[str, Any] = {
        name: columns[name].astype(np.float64) for name in ("value", "cleaned", "lower", "upper")
    }
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
