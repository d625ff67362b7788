"""clean(): a table of readings in, the same readings mended out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from sensormend.errors import ConfigError, InputError
from sensormend.io.metadata import FaultInterval, SensorSummary
from sensormend.io.options import EVERY, Options
from sensormend.io.times import plausible_periods
from sensormend.io.units import described, record_of
from sensormend.pipeline.frames import Frame, columns_of, is_frame, is_series
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.mender import Mender, walk
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.survey import Survey, look
from sensormend.pipeline.tally import Tally
from sensormend.pipeline.verdicts import remarked
from sensormend.readings import DAY, Readings, Rows

__all__ = ["Cleaned", "InMemory", "clean", "mender_for"]


class Cleaned(NamedTuple):
    """What `clean(..., details=True)` returns: three frames."""

    rows: Any
    faults: Any
    sensors: Any


def clean(readings: Any, *, details: bool = False, **said: Any) -> Any:
    """Mend a table of readings: find what is wrong, fill what is missing, say how sure that is.

    Parameters
    ----------
    readings
        A pandas or polars frame, long (sensor, time, value) or wide (a column per sensor, or per variable beside a
        column of sensors), a pandas Series with an index of times, which is one sensor, or an `xarray.DataArray` of
        (time, station). Columns are recognised by their names.
    details
        Return `Cleaned(rows, faults, sensors)`: the rows, a list of what is wrong from when to when, and the figures
        of each sensor.
    **said
        What you know better; see `sensormend.io.options.Options`: the columns (`sensor`, `time`, `value`, `variable`,
        `variables`, `sensors`, `latitude`, `longitude`), the grid (`step="1h"`, `period="1d"`), `fill=[-999]`,
        `valid=[-40, 50]`, `maintenance="maintenance.csv"`, `coordinates="places.csv"`, `gone_after="30d"`,
        `interval=0.9`, `one_pass=True`, `per_reading=True`, `units="°C"`, `names="air temperature"`; and `wide=True`
        for a wide table.

    Returns
    -------
    A frame of the same kind, a row per sensor and slot: sensor, time (the start of the slot, UTC), value (raw), n,
    cleaned, lower, upper, flag (QARTOD: 1 good, 2 not evaluated, 3 suspect, 4 fail, 9 missing), reason, origin, and
    variable where there are several, or it has a name. With `wide=True` the cleaned values alone: a column per sensor,
    or per variable beside the sensor where there are several; of a Series, a Series. For a DataArray an
    `xarray.Dataset` with CF attributes.

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
    options = Options.of(**said)
    if options.networks:
        raise ConfigError("a frame is one network; split it, or see sensormend.cluster.clean_networks for files")
    if is_frame(readings) or is_series(readings):
        frame = Frame.of(readings, options)
        return _clean_frame(frame, options, details)
    if hasattr(readings, "dims") and hasattr(readings, "coords"):
        return _clean_labelled(readings, options, details)
    if hasattr(readings, "collect"):
        raise InputError(f"clean takes a frame that is there; .collect() the {type(readings).__name__} first")
    raise InputError(
        f"clean takes a pandas or polars frame or an xarray.DataArray, not {type(readings).__name__}; "
        "for files there is `sensormend clean READINGS OUT`"
    )


def _clean_frame(frame: Frame, options: Options, details: bool) -> Any:
    readings, said = frame.readings(), options.coordinates
    places = Places.read(said) if said else Places.of(frame.positions(), readings.sensors)
    rows, tally = _mend(readings, options, places, details=details)
    unit = {EVERY: {"units": frame.layout.unit}} if frame.layout.unit else None
    record = record_of(described(readings.variables, options, unit))
    mended = frame.wide(rows) if options.wide else frame.like(columns_of(rows), record)
    if not details:
        return mended
    return Cleaned(mended, *(frame.like(_columns(*table)) for table in _tables(tally, places)))


def _clean_labelled(array: Any, options: Options, details: bool) -> Any:
    from sensormend.io.netcdf import attributes_of, dataset_of, locations_of, readings_of

    if options.wide:
        raise ConfigError("an array of time and station is wide already; leave wide out")
    parts = [part for part in readings_of(array, options) if len(part)]
    if not parts:
        raise InputError("there is no reading at all")
    last = parts[-1]
    whole = Readings(
        last.sensors,
        last.variables,
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("sensor", "variable", "time", "value")),
    )
    if options.coordinates:
        places = Places.read(options.coordinates)
    else:
        places = Places.of(Position(name, 0, *where) for name, where in locations_of(array, options).items())
    rows, tally = _mend(whole, options, places, details=details)
    dataset = dataset_of(rows, places.coordinates, described(rows.variables, options, attributes_of(array, options)))
    if not details:
        return dataset
    import pandas

    tables = (pandas.DataFrame(_columns(*table)) for table in _tables(tally, places))
    return Cleaned(dataset, *tables)


def _tables(tally: Tally, places: Places) -> tuple[tuple[Sequence[Any], type], ...]:
    return (tally.intervals(), FaultInterval), (tally.summaries(places), SensorSummary)


TIMES = {"start": "from", "end": "to", "first": "first", "last": "last"}


def _columns(lines: Sequence[Any], kind: type) -> dict[str, Any]:
    """Return what a CSV file of an OUT would hold as the columns of a frame."""
    columns: dict[str, Any] = {}
    for entry in fields(kind):
        column = [getattr(line, entry.name) for line in lines]
        if entry.name in TIMES:
            columns[TIMES[entry.name]] = np.array(column, dtype="datetime64[us]")
        else:
            # Without a line there is nothing that tells texts from numbers.
            columns[entry.name] = column or np.array([], dtype="<U1" if entry.type == "str" else float)
    return columns


def _mend(readings: Readings, options: Options, places: Places, *, details: bool) -> tuple[Rows, Tally]:
    readings = places.settle(_believed(readings))
    survey = look(readings, options)
    source = InMemory.of(readings, survey.grid)
    mender = mender_for(survey, readings.variables, options)
    tally = Tally(survey.grid, readings.variables)
    parts = []
    for mended in walk(source, mender, one_pass=options.one_pass):
        if details or not options.one_pass:
            tally.add(mended)
        parts.append(mended.asked)
    rows = Rows.concatenate(parts)
    if not options.one_pass:
        before = rows
        rows, which = remarked(before, tally.dated_back(), mender.maintenance, survey.grid.step)
        tally.note_remarked(before, which)
    rank = np.argsort(np.argsort(np.array(rows.sensors, dtype=object)))
    return rows.taken(np.lexsort((rows.time, rows.variable, rank[rows.sensor]))), tally


def _believed(readings: Readings) -> Readings:
    """Leave out readings whose clock was not set, and say so."""
    days, whose, counts = np.unique(readings.time // DAY, return_inverse=True, return_counts=True)
    meant = plausible_periods(days, counts, DAY)[whose]
    if meant.all():
        return readings
    warnings.warn(f"{np.sum(~meant)} readings a year and more from all others were left out", stacklevel=5)
    return readings.taken(meant)


def mender_for(survey: Survey, variables: Sequence[str], options: Options) -> Mender:
    """Return a mender for what was found and said."""
    options.refuse_unknown(variables)
    return Mender(
        survey.grid,
        variables,
        fill=survey.fill,
        valid=options.valid,
        tolerance=options.tolerance,
        maintenance=Maintenance.read(options.maintenance) if options.maintenance else None,
        gone_after=options.gone_after,
        interval=options.interval,
        seed=options.seed,
        per_reading=options.per_reading,
    )


@dataclass(frozen=True, eq=False)
class InMemory:
    """Readings sorted by period: a `Source`."""

    readings: Readings
    periods: Sequence[int]
    places: dict[int, slice]

    @classmethod
    def of(cls, readings: Readings, grid: Grid) -> InMemory:
        """Sort readings by period; within one they stay in the order in which they came."""
        period = grid.period_of(readings.time)
        order = np.argsort(period, kind="stable")
        found, first = np.unique(period[order], return_index=True)
        ends = np.append(first[1:], len(readings))
        places = {int(one): slice(int(start), int(end)) for one, start, end in zip(found, first, ends, strict=True)}
        return cls(readings.taken(order), list(places), places)

    def read(self, period: int) -> Readings:
        """Return the readings of one period."""
        return self.readings.taken(self.places[period])
