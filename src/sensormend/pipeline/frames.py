"""`clean_table` mends a pandas or polars frame or an `xarray.DataArray`, and `Frame` gives rows back in its kind."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError, SensormendError, ValueRangeError
from sensormend.io.metadata import FaultInterval, SensorSummary, time_of
from sensormend.io.options import EVERY, Options
from sensormend.io.staging import SAMPLE_READINGS, sampled_sensors
from sensormend.io.table_layout import MISSING, Kind, TableLayout, is_quantity, kind_of, recognise
from sensormend.io.times import plausible_periods, typed_time
from sensormend.io.units import described, record_of
from sensormend.pipeline.archive import Report, notes_of, run_record
from sensormend.pipeline.cleaner import InMemory, cleaner_for, walk
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.survey import survey_readings
from sensormend.pipeline.tally import Tally, mark_dated_back
from sensormend.readings import DAY, HOUR, MINUTE, ORIGINS, REASONS, SECOND, Flag, Readings, Rows, spans_of
from sensormend.recovery import FloatArray

__all__ = ["CleanedTable", "Frame", "LabelledArray", "TableKind", "clean_table", "columns_of", "is_frame", "is_series",
           "lines_table", "rows_of", "sorted_rows"]  # fmt: skip

INSPECTED = 200
"""Texts of a column that are inspected to recognise its kind."""

TIMES = ("start", "end", "first", "last")
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
    """Mend a table of readings in memory: a pandas or polars frame, a pandas Series or an `xarray.DataArray`."""
    kind: TableKind
    if is_frame(readings) or is_series(readings):
        kind = frame = Frame.of(readings, options)
        table, positions = frame.readings(), frame.positions()
        attributes = {EVERY: {"units": frame.layout.unit}} if frame.layout.unit else {}
    elif hasattr(readings, "dims") and hasattr(readings, "coords"):
        kind = labelled = LabelledArray(readings, options)
        table, positions, attributes = labelled.readings(), labelled.positions(), labelled.attributes()
    elif hasattr(readings, "collect"):
        raise InputError(f"clean takes a frame that is there; .collect() the {type(readings).__name__} first")
    else:
        raise InputError(
            "clean takes a pandas or polars frame, an xarray.DataArray, or the path of a file, "
            f"not {type(readings).__name__}"
        )
    places = Places.read(options.coordinates) if options.coordinates else Places.of(positions, table.sensors)
    rows, report, run = _mend(table, options, places)
    if isinstance(kind, LabelledArray):
        kind.places = places.coordinates
    run |= record_of(described(table.variables, options, attributes))
    return CleanedTable(rows, report.faults, report.summaries, run, kind)


def _mend(readings: Readings, options: Options, places: Places) -> tuple[Rows, Report, dict[str, Any]]:
    started = monotonic()
    count = len(readings)
    readings = _without_wrong_clocks(readings)
    survey = survey_readings(_sample(readings), options)
    readings = places.rename_moved(readings)
    source = InMemory(readings, survey.grid)
    cleaner = cleaner_for(survey, readings.variables, options)
    if not options.one_pass:
        cleaner.spans = spans_of(readings)
    tally = Tally(survey.grid, readings.variables)
    parts = []
    for mended in walk(source, cleaner, one_pass=options.one_pass, passes=options.passes):
        tally.add(mended)
        parts.append(mended.output)
    for remark in cleaner.unjudged_remarks():
        warnings.warn(remark, stacklevel=4)
    rows = Rows.concatenate(parts)
    if not options.one_pass:
        before = rows
        faults = [fault for fault in tally.faults if fault.dated_back]
        rows, marked = mark_dated_back(before, faults, cleaner.maintenance, survey.grid, cleaner.limits_of)
        tally.count_dated_back(before, marked)
    copies = tally.copies()
    report = Report(
        out=Path(), grid=survey.grid, readings=len(readings), rejected=count - len(readings),
        sensors=len(cleaner.sensors), periods=len(source.periods), flags=tally.flags, filled=tally.filled,
        corrected=tally.corrected, notes=notes_of(survey, options, cleaner, copies), faults=tally.intervals(),
        summaries=tally.summaries(places), seconds=monotonic() - started, withheld=cleaner.withheld, copies=copies,
        fill=tally.fill,
    )  # fmt: skip
    return sorted_rows(rows), report, run_record(report, options, fill=survey.fill, variables=readings.variables)


def sorted_rows(rows: Rows) -> Rows:
    """Return rows in the order of a frame: by the name of the sensor, then by variable and time."""
    rank = np.argsort(np.argsort(np.array(rows.sensors, dtype=object)))
    return rows.taken(np.lexsort((rows.time, rows.variable, rank[rows.sensor])))


def _sample(readings: Readings) -> Readings:
    """Return the readings of some sensors, the same ones as of a file."""
    counts = np.bincount(readings.sensor, minlength=len(readings.sensors))
    by_name = sorted(np.flatnonzero(counts).tolist(), key=lambda code: readings.sensors[code])
    chosen = [by_name[place] for place in sampled_sensors(counts[by_name].tolist())]
    sample = readings.taken(np.isin(readings.sensor, chosen))
    if len(sample) > SAMPLE_READINGS:
        sample = sample.taken(np.sort(np.argsort(sample.time, kind="stable")[:SAMPLE_READINGS]))
    return sample


def _without_wrong_clocks(readings: Readings) -> Readings:
    """Drop readings whose clock was not set, with a warning."""
    days, day, counts = np.unique(readings.time // DAY, return_inverse=True, return_counts=True)
    plausible = plausible_periods(days, counts, DAY)[day]
    if plausible.all():
        return readings
    warnings.warn(f"{np.sum(~plausible)} readings a year and more from all others were left out", stacklevel=5)
    return readings.taken(plausible)


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
    def of(cls, frame: Any, options: Options) -> Frame:
        """Recognise the layout of a frame; a pandas index with a meaning becomes a column."""
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
        kinds = [(name, _kind(table[name])) for name in table.columns]
        layout = recognise(kinds, options, "the frame")
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

    def readings(self) -> Readings:
        """Return the readings, in the order of the rows."""
        layout, table = self.layout, self.source
        columns = [_numbers(table[name]) for name in layout.columns]
        time = np.repeat(self.times(), len(columns))
        value = np.stack(columns, axis=1).ravel() if columns else np.zeros(0)

        def names(role: str, column: str | None, otherwise: str) -> tuple[Sequence[str], NDArray[np.int64]]:
            if column is not None:
                distinct, codes = _codes(table[column])
                return distinct, np.repeat(codes, len(columns))
            if layout.across == role:
                return layout.columns, np.tile(np.arange(len(columns)), len(table))
            return (otherwise,), np.zeros(value.size, dtype=np.int64)

        sensors, sensor = names("sensor", layout.sensor, "sensor")
        variables, variable = names("variable", layout.variable, layout.name)
        readings = Readings(sensors, variables, sensor, variable, time, value)
        # An empty cell of a wide table is no reading, as in a file.
        return readings if layout.across == "value" else readings.taken(~np.isnan(value))

    def times(self) -> NDArray[np.int64]:
        """Return the times of the rows, composed where they are in several columns."""
        layout, table = self.layout, self.source
        parts = {unit: table[name] for unit, name in layout.parts}
        time = _dates(parts) if "year" in parts else _times(table[layout.time])
        if layout.clock is not None:
            time = time + _clocks(table[layout.clock])
        for unit, length in (("hour", HOUR), ("minute", MINUTE), ("second", SECOND)):
            if unit in parts:
                time = time + _offsets(parts[unit], unit, length)
        return time

    def positions(self) -> list[Position]:
        """Return the positions of the sensors, with their times."""
        layout = self.layout
        if layout.latitude is None or layout.longitude is None or layout.sensor is None:
            return []
        names, sensor = _codes(self.source[layout.sensor])
        time = self.times()
        place = np.stack([_numbers(self.source[name]) for name in (layout.latitude, layout.longitude)], axis=1)
        placed = np.flatnonzero(np.isfinite(place).all(axis=1))
        placed = placed[np.lexsort((time[placed], sensor[placed]))]
        new = np.ones(placed.size, dtype=bool)
        new[1:] = (np.diff(sensor[placed]) != 0) | (np.diff(place[placed].round(4), axis=0) != 0).any(axis=1)
        return [Position(names[sensor[row]], int(time[row]), *place[row].tolist()) for row in placed[new]]

    def rows_table(self, rows: Rows, record: Mapping[str, Any]) -> Any:
        """Return a frame with a line per row, in the zone of the input; a pandas frame gets `record` as its `attrs`."""
        frame = self.table_of(columns_of(rows))
        if self.source.implementation.is_pandas():
            frame.attrs.update(record)
        return frame

    def table(self, columns: Mapping[str, Any]) -> Any:
        """Return columns as a frame, times in the zone of the input."""
        return self.table_of(columns)

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
            columns[self.layout.sensor or "sensor"] = np.array(rows.sensors, dtype=object)[rows.sensor[first]]
        columns[time] = rows.time[first].astype("datetime64[us]")
        columns |= {names[number]: cells[number] for number in present}
        frame = self.table_of(columns)
        if self.series is not None:
            return frame.set_index(time)[names[present[0]]].rename(self.series[0])
        return frame.set_index(time) if self.indexed else frame

    def table_of(self, columns: Mapping[str, Any]) -> Any:
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

    def readings(self) -> Readings:
        """Return the readings."""
        from sensormend.io.netcdf import readings_of

        parts = [part for part in readings_of(self._array, self._options) if len(part)]
        if not parts:
            raise InputError("there is no reading at all")
        columns = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("sensor", "variable", "time", "value")
        )
        return Readings(parts[-1].sensors, parts[-1].variables, *columns)

    def positions(self) -> list[Position]:
        """Return the positions of the stations."""
        from sensormend.io.netcdf import locations_of

        return [Position(name, 0, *place) for name, place in locations_of(self._array, self._options).items()]

    def attributes(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of the variables."""
        from sensormend.io.netcdf import attributes_of

        return attributes_of(self._array, self._options)

    def rows_table(self, rows: Rows, record: Mapping[str, Any]) -> Any:
        """Return a Dataset of time and station."""
        from sensormend.io.netcdf import dataset_of

        return dataset_of(rows, self.places, described(rows.variables, self._options, self.attributes()))

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


def rows_of(frame: Any) -> Rows:
    """Return the rows of a frame that `clean` returned: the inverse of `columns_of`."""
    table = nw.from_native(frame, eager_only=True)
    needed = ("sensor", "time", "value", "cleaned", "lower", "upper", "flag", "reason")
    lacking = [name for name in needed if name not in table.columns]
    if lacking:
        raise InputError(f"the frame has no column {lacking[0]!r}: give what clean() returned")
    if not len(table):
        raise InputError("the frame has no rows")
    sensors, sensor = _codes(table["sensor"])
    named = "variable" in table.columns and not table["variable"].is_null().all()
    variables, variable = _codes(table["variable"]) if named else ((EVERY,), np.zeros(len(table), dtype=np.int64))

    def coded(name: str, words: Sequence[str]) -> NDArray[np.int8]:
        distinct, code = _codes(table[name].cast(nw.String).fill_null(""))
        return np.array([words.index(word) if word in words else 0 for word in distinct], dtype=np.int8)[code]

    origin = coded("origin", ORIGINS) if "origin" in table.columns else np.zeros(len(table), dtype=np.int8)
    numbers = {name: _numbers(table[name]) for name in ("value", "cleaned", "lower", "upper")}
    count = table["n"].to_numpy() if "n" in table.columns else np.isfinite(numbers["value"])
    return Rows(
        sensors, variables, sensor, variable, _times(table["time"]), n=count.astype(np.int32), **numbers,
        flag=table["flag"].to_numpy().astype(np.int8), reason=coded("reason", REASONS), origin=origin,
    )  # fmt: skip


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


def _kind(column: nw.Series[Any]) -> Kind:
    dtype = column.dtype
    if dtype == nw.Date:
        return "date"
    if dtype == nw.Datetime:
        # A column of hours is only added to times without an hour.
        hours = column.dt.timestamp("us").drop_nulls().to_numpy() % DAY
        return "time" if hours.any() else "date"
    if dtype.is_numeric():
        return "number"
    if dtype == nw.String or dtype == nw.Categorical or dtype == nw.Enum or dtype == nw.Object:
        entries = column.drop_nulls().head(INSPECTED).to_list()
        return kind_of([str(entry) for entry in entries]) if entries else "other"
    return "other"


def _codes(column: nw.Series[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the distinct names of a column, sorted, and the index of each row's name."""
    if column.is_null().any():
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {column.name!r} is empty in row {row}; a reading without a name cannot be mended")
    names = column.unique().to_list()
    # Spaces around a name do not belong to it, as in a file.
    texts = sorted({str(name).strip() for name in names})
    code = {text: index for index, text in enumerate(texts)}
    codes = column.replace_strict(names, [code[str(name).strip()] for name in names], return_dtype=nw.Int64)
    return tuple(texts), codes.to_numpy()


def _times(column: nw.Series[Any]) -> NDArray[np.int64]:
    """Return times in microseconds since 1970, UTC; without a zone they are taken as they are."""
    if column.is_null().any():
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"column {column.name!r} has no time in row {row}")
    dtype = column.dtype
    if dtype == nw.Date:
        column = column.cast(nw.Datetime("us"))
    elif dtype.is_numeric():
        return _epochs(column)
    elif dtype != nw.Datetime:
        return _written_times(column)
    return column.dt.timestamp("us").to_numpy().astype(np.int64)


def _dates(parts: Mapping[str, nw.Series[Any]]) -> NDArray[np.int64]:
    """Return the times of dates with columns of year, month and day."""
    year, month, day = (_wholes(parts[unit]) if unit in parts else np.ones(1, dtype=np.int64)
                        for unit in ("year", "month", "day"))  # fmt: skip
    year = year + np.where((year >= 0) & (year < 70), 2000, np.where((year >= 70) & (year < 100), 1900, 0))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    dates = months.astype("datetime64[D]") + (day - 1)
    wrong = (month < 1) | (month > 12) | (dates.astype("datetime64[M]") != months)
    if "day of year" in parts:
        count = _wholes(parts["day of year"])
        dates, wrong = dates + (count - 1), wrong | (count < 1) | (count > 366)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        written = "-".join(str(column[row]) for column in parts.values())
        raise InputError(
            f"columns {', '.join(column.name for column in parts.values())}: {written} in row {row} is no date"
        )
    microseconds: NDArray[np.int64] = dates.astype("datetime64[us]").astype(np.int64)
    return microseconds


def _wholes(column: nw.Series[Any]) -> NDArray[np.int64]:
    numbers = _numbers(column)
    _refuse(column, ~(numbers == np.trunc(numbers)), "which is no whole number")
    return numbers.astype(np.int64)


def _offsets(column: nw.Series[Any], unit: str, length: int) -> NDArray[np.int64]:
    """Return the hours, minutes or seconds of a column in microseconds; hours may be written as 1330."""
    numbers = _numbers(column)
    if unit == "hour" and np.nanmax(numbers, initial=0.0) >= 100:
        numbers = numbers // 100 + numbers % 100 / 60
    _refuse(column, ~((numbers >= 0) & (numbers <= (24 if unit == "hour" else 60))), f"which is no {unit}")
    return np.round(numbers * length).astype(np.int64)


def _clocks(column: nw.Series[Any]) -> NDArray[np.int64]:
    """Return the microseconds since midnight of texts like 06:30, 6:30:15 or 6:30 pm."""
    times: dict[str, int] = {}
    for text in {str(entry) for entry in column.to_list()}:
        shape = re.fullmatch(r"\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*([ap]m)?\s*", text, re.IGNORECASE)
        if not shape:
            raise InputError(f"column {column.name!r} has {text!r}, which is no time of the day like 06:30")
        half = (shape[4] or "").lower()
        hour = int(shape[1]) % 12 + 12 * (half == "pm") if half else int(shape[1])
        times[text] = hour * HOUR + int(shape[2]) * MINUTE + round(float(shape[3] or 0) * SECOND)
    return np.array([times[str(entry)] for entry in column.to_list()], dtype=np.int64)


def _refuse(column: nw.Series[Any], wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"column {column.name!r} has {column[row]!r} in row {row}, {why}")


def _epochs(column: nw.Series[Any]) -> NDArray[np.int64]:
    """Return the times of numbers: seconds, milliseconds, micro- or nanoseconds since 1970, or like 20200131."""
    numbers = _numbers(column)
    written = typed_time(float(np.nanmedian(numbers)))
    if written is None:
        raise InputError(
            f"column {column.name!r} holds no times, but for example {column[0]!r}; name the right one with time="
        )
    if written.name == "strptime":
        texts = (f"{number:.0f}" for number in numbers)
        times = [datetime.strptime(text, written.formats[0]) for text in texts]
        return np.array(times, dtype="datetime64[us]").astype(np.int64)
    if column.dtype.is_integer():
        integers = column.to_numpy().astype(np.int64)
        return integers * written.scale if written.scale else integers // 1000
    return np.round(numbers * (written.scale or 1e-3)).astype(np.int64)


def _written_times(column: nw.Series[Any]) -> NDArray[np.int64]:
    times = {}
    for text in column.unique().to_list():
        try:
            times[text] = time_of(str(text))
        except ValueError:
            raise InputError(
                f"column {column.name!r} has {str(text)!r}, which is no time like 2020-03-01 06:00; "
                "make it a column of times first"
            ) from None
    return np.array([times[text] for text in column.to_list()], dtype=np.int64)


def _numbers(column: nw.Series[Any]) -> FloatArray:
    """Return numbers, NaN for empty cells; other text is refused."""
    if column.dtype.is_numeric():
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    values = []
    for row, entry in enumerate(column.to_list()):
        text = "" if entry is None else str(entry).strip()
        try:
            values.append(float("nan") if text.lower() in MISSING else float(text))
        except ValueError:
            raise ValueRangeError(f"column {column.name!r} has {text!r} in row {row}, which is no number") from None
    return np.array(values, dtype=np.float64)
