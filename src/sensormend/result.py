"""`clean` cleans a table or files of readings and returns a `Result`: rows, faults, flags, and what to do with them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sensormend.archive.cleaning import clean_archive
from sensormend.archive.frames import CleanedTable, Frame, clean_table, lines_table, sorted_rows
from sensormend.errors import ConfigError
from sensormend.io.folder import Archive
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, write_csv, write_json
from sensormend.io.writing import MonthlyWriter
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.options import Options
from sensormend.pipeline.sentences import (
    fault_sentence,
    how_far_judged,
    percent,
    readable,
    states_in_words,
    who,
    without_number,
)
from sensormend.readings import DAY, Flag, Rows

if TYPE_CHECKING:
    from sensormend.explain.context import TimeLike
    from sensormend.web.server import Server

__all__ = ["Result", "clean"]

MOST_FAULTS = 5
"""Faults in the short HTML of a result."""


def clean(readings: Any, **settings: Any) -> Result:
    """Clean a table or a file of readings: flag wrong values, fill gaps, and give an interval for each estimate.

    Parameters
    ----------
    readings
        A pandas or polars frame, long (sensor, time, value) or wide (a column per sensor, or per variable beside a
        column of sensors), a pandas Series with an index of times, which is one sensor, an `xarray.DataArray` of
        (time, station), or the path of a file, a folder or a pattern of files. Columns are recognised by their names.
    **settings
        Any of `sensormend.pipeline.options.Options`: the columns (`sensor`, `time`, `value`, `variable`,
        `variables`, `sensors`, `latitude`, `longitude`), the grid (`step="1h"`, `period="1d"`), `fill=[-999]`,
        `valid=[-40, 50]`, `maintenance="maintenance.csv"`, `coordinates="places.csv"`, `gone_after="30d"`,
        `interval=0.9`, `method="olrtr"`, `one_pass=True`, `per_reading=True`, `units="°C"`, `names="air temperature"`;
        and `wide=True`, so that `data` is a wide table of the cleaned values.

    Examples
    --------
    >>> import numpy as np, polars
    >>> random, hours = np.random.default_rng(0), np.arange(24 * 30)
    >>> weather = 10 + 5 * np.sin(hours / 24 * 2 * np.pi) + random.normal(size=hours.size).cumsum() / 5
    >>> wide = {name: weather + random.normal(size=hours.size) / 5 for name in "abcdef"}
    >>> wide["c"][480:528] += 8
    >>> times = np.datetime64("2024-06-01T00", "us") + hours * np.timedelta64(3600, "s")
    >>> result = clean(polars.DataFrame({"time": times, **wide}))
    >>> result.data.filter(polars.col("flag") == 4).group_by("sensor", "reason").len().rows()
    [('c', 'offset', 48)]
    >>> print(result.summary().splitlines()[0])
    All 6 sensors are healthy.
    """
    options = Options.of(**settings)
    if options.networks:
        raise ConfigError("a result is one network; split it, or see sensormend.cluster.clean_networks for files")
    if options.flags:
        raise ConfigError("flags writes a file beside the rows of an OUT; sensormend.io.folder has the codes")
    if isinstance(readings, str | os.PathLike):
        return Result(_CleanedFiles(os.fspath(readings), options), wide=options.wide)
    return Result(clean_table(readings, options), wide=options.wide)


class Result:
    """What `clean` returns.

    Frames are of the kind of the input, with times in its time zone; of files they are pandas (polars where pandas is
    not installed), and times are UTC. Of an `xarray.DataArray` the data is a Dataset with CF attributes.
    """

    def __init__(self, cleaned: CleanedTable | _CleanedFiles, *, wide: bool = False) -> None:
        self._cleaned, self._wide = cleaned, wide

    @cached_property
    def data(self) -> Any:
        """The rows, one per sensor and slot, as the command line writes them.

        Columns: sensor, time (the start of the slot), value (raw), n, cleaned, lower, upper, flag (QARTOD: 1 good,
        2 not evaluated, 3 suspect, 4 fail, 9 missing), reason, origin, and variable where there are several, or it has
        a name. With `wide=True` the cleaned values alone: a column per sensor, or per variable and one of sensors; for
        a Series, a Series.
        """
        kind, rows = self._cleaned.kind, self.rows
        return kind.cleaned_wide(rows) if self._wide else kind.rows_table(rows, self._cleaned.run)

    @cached_property
    def faults(self) -> Any:
        """The faults, a line each, as in faults.csv; the columns of their times are `start` and `end`."""
        return lines_table(self._cleaned.kind, self._cleaned.faults, FaultInterval)

    @cached_property
    def flags(self) -> Any:
        """The flags as a wide table: a column per sensor, or per variable and one of sensors."""
        return self._cleaned.kind.flags_wide(self.rows)

    @cached_property
    def sensors(self) -> Any:
        """A summary of each sensor, as in sensors.csv."""
        return lines_table(self._cleaned.kind, self._cleaned.sensors, SensorSummary)

    @property
    def rows(self) -> Rows:
        """The rows as arrays."""
        return self._cleaned.rows

    @property
    def run(self) -> dict[str, Any]:
        """What run.json has: the grid, the options, counts, notes."""
        return self._cleaned.run

    def summary(self) -> str:
        """Return the state of the network, counts of readings and faults, and notes, in a few lines."""
        run = self.run
        flags = {int(flag): count for flag, count in run["flags"].items()}
        # A fill value has flag 4 and does not count as a reading.
        missing = flags.get(Flag.MISSING, 0) + run["fill_slots"]
        present = sum(flags.values()) - missing
        shares = (
            f"{percent(flags.get(Flag.FAIL, 0) - run['fill_slots'], present)} of {run['readings']:,} readings are "
            f"wrong, {percent(flags.get(Flag.SUSPECT, 0), present)} are suspect; "
            f"{percent(missing, sum(flags.values()))} of the slots have no reading."
        )
        lines = [
            states_in_words(run["states"]),
            how_far_judged(flags, *without_number(self._cleaned.sensors)),
            fault_sentence(self._cleaned.faults),
            shares,
            *(f"Note: {note}" for note in run["notes"]),
        ]
        return "\n".join(filter(None, lines))

    def plot(self, sensor: str | None = None, ax: Any = None, *, variable: str | None = None) -> Any:
        """Draw one sensor over time, or without one the health of all, and return the matplotlib figure.

        Parameters
        ----------
        sensor
            The name of the sensor.
        ax
            The axes to draw on; by default those of a new figure.
        variable
            The variable, where there are several.
        """
        from sensormend.plot import course, health

        if sensor is None:
            return health(self, variable=variable, ax=ax)
        return course(self, sensor, variable=variable, ax=ax)

    def explain(self, sensor: str, time: TimeLike, variable: str | None = None) -> str:
        """Return one paragraph on why the reading of a sensor at a time has its flag."""
        from sensormend.explain.context import microseconds, reading_context
        from sensormend.explain.paragraph import paragraph

        with Archive(self._out) as archive:
            return paragraph(reading_context(archive, archive.check_sensor(sensor), microseconds(time), variable))

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, one HTML file, and return its path."""
        from sensormend.report import write_report

        return write_report(self._out, path)

    def serve(self, port: int = 0, *, open_page: bool = False) -> Server:
        """Serve the dashboard on this machine, by default on a free port, until `close()` of the returned server.

        Parameters
        ----------
        port
            The port; 0 takes a free one.
        open_page
            Open the page in the browser.
        """
        from sensormend.web.server import Server

        server = Server(self._out, port=port)
        server.start()
        if open_page:
            import webbrowser

            webbrowser.open(server.address)
        return server

    def __repr__(self) -> str:
        """Return the state of the network in one line."""
        return f"<Result: {states_in_words(self.run['states'])}>"

    def _repr_html_(self) -> str:
        """Return the summary and the longest faults, for a notebook."""
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines()[:4])
        certain = [fault for fault in self._cleaned.faults if not fault.doubtful]
        longest = sorted(certain, key=lambda fault: fault.start - fault.end)[:MOST_FAULTS]
        if not longest:
            return lines
        cells = (
            "".join(f"<td>{escape(text)}</td>" for text in
                    (who(fault.sensor, fault.variable), readable(fault.start), fault.sentence))
            for fault in longest
        )  # fmt: skip
        head = "<tr><th>sensor</th><th>since</th><th>what it does</th></tr>"
        return f"{lines}<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

    @cached_property
    def _out(self) -> Path:
        """An output folder with the result, in a temporary folder that lasts as long as this object."""
        if isinstance(self._cleaned, _CleanedFiles):
            return self._cleaned.out
        out, cleaned = _temporary_folder(self) / "readings", self._cleaned
        out.mkdir()
        with MonthlyWriter(out) as writer:
            rows = self.rows.taken(self.rows.time.argsort(kind="stable"))
            for start in range(int(rows.time[0]) // DAY * DAY, int(rows.time[-1]) + 1, DAY):
                first, last = rows.time.searchsorted([start, start + DAY]).tolist()
                writer.write(rows.taken(slice(first, last)), start)
            writer.flush()
        write_csv(out / "faults.csv", FAULTS_HEADER, map(_fields, cleaned.faults))
        write_csv(out / "sensors.csv", SENSORS_HEADER, map(_fields, cleaned.sensors))
        write_json(out / "run.json", cleaned.run)
        return out


class _CleanedFiles:
    """The result of cleaning files: an output in a temporary folder, whose rows are read when they are needed."""

    def __init__(self, source: str, options: Options) -> None:
        self.kind = Frame.of_files()
        self.out = _temporary_folder(self) / (Path(source).stem if Path(source).exists() else "readings")
        clean_archive(source, self.out, replace(options, wide=False))
        with Archive(self.out) as archive:
            self.faults, self.sensors, self.run = archive.faults(), archive.sensors(), archive.run()

    @cached_property
    def rows(self) -> Rows:
        """The rows, in the order of those of a frame."""
        with Archive(self.out) as archive:
            return sorted_rows(archive.rows())


def _temporary_folder(owner: object) -> Path:
    """Return a new folder that is removed when its owner is forgotten, or the program ends."""
    folder = mkdtemp(prefix="sensormend-")
    finalize(owner, rmtree, folder, ignore_errors=True)
    return Path(folder)


def _fields(line: FaultInterval | SensorSummary) -> list[object]:
    return list(vars(line).values())
