"""`clean_archive` cleans an archive: it stages the readings, cleans them period by period, and publishes the rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from sensormend.archive.checkpoint import Checkpoint, changed_options, fingerprint_job, identify_source, list_files
from sensormend.errors import ConfigError, InputError, StateError
from sensormend.files import Closing, now, surroundings
from sensormend.io.folder import write_flags
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, write_csv, write_json
from sensormend.io.sources import SourcePaths, find_format
from sensormend.io.staging import Staging
from sensormend.io.target import Target
from sensormend.io.writing import MonthlyWriter, RowSpool
from sensormend.model.precompile import is_precompiled, precompile
from sensormend.pipeline.channel_states import count_sensors
from sensormend.pipeline.cleaner import Cleaner, cleaner_for, walk
from sensormend.pipeline.copies import sentences
from sensormend.pipeline.faults import FaultInterval, SensorSummary
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.maintenance import ALL, Maintenance
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.owner_flags import with_owner_flags
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.published import method_sentence
from sensormend.pipeline.survey import Survey, survey_readings
from sensormend.pipeline.tally import Tally, mark_dated_back
from sensormend.pipeline.units import collect_units, described
from sensormend.readings import Readings

__all__ = ["Report", "Stages", "clean_archive", "collect_notes", "run_record"]

CHECKPOINT = 20.0
"""Seconds between two checkpoints: at most this much work is lost by a kill."""

READ_AHEAD = 200_000
"""Readings that are fetched from the staging at once: 6 MB, and as much for the next group."""

SMALL = 1_000_000
"""Bytes of files below which the readings are staged in memory, and read again by a run that is resumed: a network of
a few sensors takes half the time."""

Stages = Callable[[str, int], Callable[[float], None]]
"""Called at the start of a stage with its name and its number of readings (0 where that is not known yet); returns a
callback for the completed share, 0 to 1."""


def _quiet(name: str, readings: int) -> Callable[[float], None]:
    return lambda done: None


@dataclass(frozen=True)
class Report:
    """The result of a run, for the summary and for run.json."""

    out: Path
    grid: Grid
    readings: int
    rejected: int
    sensors: int
    periods: int
    flags: dict[int, int]
    filled: int
    corrected: int
    notes: tuple[str, ...]
    faults: list[FaultInterval]
    summaries: list[SensorSummary]
    seconds: float
    withheld: Mapping[str, int] = field(default_factory=dict)
    copies: Sequence[Mapping[str, Sequence[str]]] = ()
    fill: int = 0

    @property
    def states(self) -> dict[str, int]:
        """The number of sensors in each state at the end."""
        return count_sensors({(entry.sensor, entry.variable): entry.state for entry in self.summaries})


def clean_archive(
    source: SourcePaths,
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    stages: Stages = _quiet,
    part: Mapping[str, Any] | None = None,
) -> Report:
    """Clean the readings of a source into `out`, a folder or a .csv, .parquet or .nc file.

    Parameters
    ----------
    source
        Files, a folder, a pattern, `-`, or a `postgresql://` address.
    out
        The output folder, which must not exist yet.
    options
        The user's options; the rest is found from the data.
    overwrite
        Replace an existing `out`.
    resume
        Continue an interrupted run.
    stages
        Called with the progress of the work.
    part
        For one network of a source of many: entries of run.json that replace those of this run.
    """
    options, target = options or Options(), Target.of(out)
    if options.per_reading and target.ending == ".nc":
        raise ConfigError("rows per reading have times of their own and do not fit into NetCDF; choose another OUT")
    if options.wide and target.ending not in (".csv", ".csv.gz", ".parquet"):
        raise ConfigError("wide makes one table: choose an OUT that ends in .csv, .csv.gz or .parquet")
    if options.networks:
        raise ConfigError("networks keeps several networks apart: see sensormend.cluster.clean_networks")
    started = monotonic()
    surroundings()  # The commit is read once: it is that of the code that runs, not of a checkout that changed since.
    identity = identify_source(source)
    files = list_files(identity)
    checkpoint = Checkpoint(target.work / "state")
    with target.claimed(files, overwrite=overwrite, resume=resume, replaces=overwrite or checkpoint.replaces):
        try:
            checkpoint.begin(fingerprint_job(identity, options, checkpoint.job, target.work), replaces=overwrite)
            run = _ArchiveRun(source, identity, target, options, checkpoint, stages, part)
            report = run.clean(started)
            run.finish(report)
        except (InputError, ConfigError):
            # The same call would fail in the same way: there is nothing to resume.
            if not resume:
                target.give_up()
            raise
        target.publish()
    return report


@dataclass(eq=False)
class _ArchiveRun:
    """One run over one archive, in its work folder."""

    source: SourcePaths
    identity: list[list[str | int]]
    target: Target
    options: Options
    checkpoint: Checkpoint
    stages: Stages
    part: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        self.staging, self.survey = self._stage()
        self.places = self._places()

    def clean(self, started: float) -> Report:
        """Clean every period and write its rows."""
        staging, survey, one_pass = self.staging, self.survey, self.options.one_pass
        cleaner = cleaner_for(survey, staging.variables, self.options)
        tally = Tally(survey.grid, staging.variables)
        resumed = self.checkpoint.restore(cleaner, tally)
        if not one_pass:
            cleaner.spans = staging.spans(self.places.rename_moved, self.places.moved)
        source = _ReadAhead(staging, self.places, survey.grid)
        if not resumed:
            passes = self.options.passes
            source.training = sum(map(len, cleaner.training_periods(source.periods, one_pass=one_pass, passes=passes)))
        if self.options.method == "network" and not is_precompiled():
            # By itself: it has nothing to do with how fast readings are mended.
            self.stages("compiling", 0)
            precompile()
        source.progress = self.stages("cleaning", staging.readings)
        saved = monotonic()
        # What a run that was killed has written after its last checkpoint is written again.
        begun = None if cleaner.period is None else survey.grid.period_start(cleaner.period + 1)
        with self._output(begun) as output, ThreadPoolExecutor(1) as executor, source:
            written: Future[Any] | None = None
            for cleaned_period in walk(source, cleaner, one_pass=one_pass, passes=self.options.passes):
                tally.add(cleaned_period)
                if written is not None:
                    written.result()
                written = executor.submit(
                    output.write, cleaned_period.output, survey.grid.period_start(cleaned_period.period)
                )
                # A push over silent periods returns several results; the cleaner's state is that of the last one.
                if cleaned_period.period == cleaner.period and monotonic() - saved > CHECKPOINT:
                    written.result()
                    output.sync()
                    self.checkpoint.save(cleaner, tally)
                    saved = monotonic()
            if written is not None:
                written.result()
            if isinstance(output, MonthlyWriter):
                output.sync()
            elif not tally.looked_back:
                self._write(cleaner, tally, output)
        if self.target.ending or monotonic() - started > CHECKPOINT:
            # What is left is to export a single file, which may fail by itself; a short run into a folder is repeated.
            self.checkpoint.save(cleaner, tally)
        self.checkpoint.keep(cleaner)
        copies, faults = tally.copies(), tally.intervals()
        return Report(
            out=self.target.path,
            grid=survey.grid,
            readings=staging.readings,
            rejected=staging.rejected,
            sensors=len(cleaner.sensors),
            periods=len(source.periods),
            flags=tally.flags,
            filled=tally.filled,
            corrected=tally.corrected,
            notes=(
                *staging.notes,
                *collect_notes(survey, self.options, cleaner, copies, self._remarks()),
            ),
            faults=faults,
            summaries=tally.summaries(self.places, faults),
            seconds=monotonic() - started,
            withheld=cleaner.withheld,
            copies=copies,
            fill=tally.fill,
        )

    def _output(self, start: int | None) -> RowSpool | MonthlyWriter:
        """Return what takes the rows of each period: with look-ahead they may change until all are known."""
        work, is_final = self.target.work, self.options.one_pass and not self.staging.owner_flags
        return MonthlyWriter(work, start) if is_final else RowSpool(work / "spool", start)

    def _write(self, cleaner: Cleaner, tally: Tally, spool: RowSpool) -> None:
        """Write all rows, with the readings marked that faults were dated back to, and the owners' flags."""
        grid, words = self.survey.grid, self.staging.owner_flags
        faults = [] if self.options.one_pass else [fault for fault in tally.faults if fault.dated_back]
        first = np.array([fault.first for fault in faults], dtype=np.int64)
        with MonthlyWriter(self.target.work) as writer:
            for rows, periods in spool.parts(cleaner.sensors, self.staging.variables):
                # Marked are readings of the period before the first wrong one.
                near = np.flatnonzero((first > rows.time.min()) & (first <= rows.time.max() + grid.period))
                after, marked = mark_dated_back(
                    rows, [faults[k] for k in near], cleaner.maintenance, grid, cleaner.find_correction_limits
                )
                tally.count_dated_back(rows, marked)
                if words:
                    came = self.staging.flagged(int(rows.time.min()) - grid.step, int(rows.time.max()) + grid.step)
                    came = self.places.rename_moved(came)
                    after = with_owner_flags(after, came, words, None if self.options.per_reading else grid)
                for start, place in periods:
                    writer.write(after.taken(place), start)
            writer.sync()
        tally.looked_back = True

    def finish(self, report: Report) -> None:
        """Write the files beside the rows, and remove the temporary ones."""
        work = self.target.work
        # Not `astuple`, which copies every value.
        write_csv(work / "faults.csv", FAULTS_HEADER, (tuple(vars(fault).values()) for fault in report.faults))
        write_csv(work / "sensors.csv", SENSORS_HEADER, (tuple(vars(entry).values()) for entry in report.summaries))
        if report.rejected:
            self.staging.write_rejected(work / "rejected.csv")
        attributes, owner_flags = self._attributes(), self.staging.owner_flags
        if self.target.ending == ".nc":  # which has no place for them
            owner_flags = ()
        if self.options.flags:
            write_flags(work, self.options.flags)
        self.staging.close()
        record = run_record(report, self.options, fill=self.survey.fill, variables=self.staging.variables,
                            source=self.identity, owner_flags=owner_flags)  # fmt: skip
        write_json(work / "run.json", record | dict(self.part or {}) | collect_units(attributes))
        if self.target.ending:
            self.target.export(attributes, wide=self.options.wide)
        self.checkpoint.leave()
        for name in ("staging", "spool"):
            shutil.rmtree(work / name, ignore_errors=True)

    def _stage(self) -> tuple[Staging, Survey]:
        folder = self.target.work / "staging"
        try:
            staging = Staging.open(folder)
        except StateError:
            shutil.rmtree(folder, ignore_errors=True)
            # What is not a file cannot be read again.
            sizes = [int(entry[1]) if len(entry) > 1 else SMALL for entry in self.identity]
            staging = Staging(folder, in_memory=sum(sizes) < SMALL)
            staging.load(self.source, self.options, self.stages("reading", 0))
        survey = survey_readings(staging.sample(), self.options)
        grid = survey.grid
        staging.sort(grid.early, grid.period, grid.origin, self.stages("sorting", staging.readings))
        return staging, survey

    def _places(self) -> Places:
        if self.options.coordinates:
            return Places.read(self.options.coordinates)
        sensors = self.staging.sensors
        positions = [Position(sensors[code], time, *degrees) for code, time, *degrees in self.staging.locations]
        for path in self._netcdf_files():
            from sensormend.io.netcdf import read_locations

            positions += [
                Position(sensor, 0, *degrees) for sensor, degrees in read_locations(path, self.options).items()
            ]
        return Places.of(positions, sensors)

    def _netcdf_files(self) -> list[Path]:
        """Return the NetCDF files of the source, which also hold attributes of the variables."""
        files = list_files(self.identity)
        return [path for path in files if find_format(path) == "netcdf"]

    def _attributes(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of the variables: units, standard names."""
        attributes: dict[str, dict[str, Any]] = {EVERY: {"units": self.staging.unit}} if self.staging.unit else {}
        for path in self._netcdf_files():
            from sensormend.io.netcdf import read_attributes

            attributes.update(read_attributes(path, self.options))
        return described(self.staging.variables, self.options, attributes, self.survey.usual)

    def _remarks(self) -> list[str]:
        """Return remarks on the sensors: those that moved, and those in maintenance.csv without a reading."""
        remarks = [
            f"{sensor} moved: from then on it is {self.places.stays[sensor][1][1]}" for sensor in self.places.moved
        ]
        # A part of many networks shares one file of notes, which also names the sensors of the others.
        if self.options.maintenance and self.part is None:
            names = {note.sensor for note in Maintenance.read(self.options.maintenance).notes}
            names -= {ALL, *self.staging.sensors, *self.places.coordinates}
            remarks += [
                f"{self.options.maintenance.name} names {name}, of which there is no reading" for name in sorted(names)
            ]
        return remarks


def collect_notes(
    survey: Survey, options: Options, cleaner: Cleaner, copies: Sequence[dict[str, list[str]]],
    remarks: Sequence[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    """Return notes on a run: its readings, its method, `remarks` on sensors, copies, and what was not judged."""
    method = filter(None, [method_sentence(options)])
    return (*survey.notes, *method, *remarks, *sentences(copies), *cleaner.remarks())


def run_record(
    report: Report, options: Options, *, fill: Any, variables: Sequence[str],
    source: Sequence[Sequence[str | int]] = (), owner_flags: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the content of run.json."""
    return {
        "command": "clean",
        "finished": now(),
        "seconds": round(report.seconds, 2),
        "source": source,
        "options": changed_options(options),
        "grid": report.grid.record(),
        "fill": fill,
        "variables": list(variables),
        "sensors": report.sensors,
        "periods": report.periods,
        "readings": report.readings,
        "rejected": report.rejected,
        "flags": report.flags,
        "fill_slots": report.fill,
        "filled": report.filled,
        "corrected": report.corrected,
        "faults": len(report.faults),
        "states": report.states,
        "withheld": dict(report.withheld),
        "copies": list(report.copies),
        "notes": list(report.notes),
        "surroundings": surroundings(),
        **({"owner_flags": list(owner_flags[1:])} if owner_flags else {}),
    }


class _ReadAhead(Closing):
    """Reads the staged readings in groups of periods, the next group while the present one is mended."""

    def __init__(self, staging: Staging, places: Places, grid: Grid) -> None:
        self.periods: Sequence[int] = [int(period) for period in staging.periods]
        self._index = {period: index for index, period in enumerate(self.periods)}
        self._staging, self._places, self._grid = staging, places, grid
        # Each group is read from all runs of the staging.
        self._group_size = max(1, READ_AHEAD * len(self.periods) // max(staging.readings, 1))
        self._reader = ThreadPoolExecutor(1)
        self._next: dict[int, Future[dict[int, Readings]]] = {}
        self._present: tuple[int, dict[int, Readings]] = (-1, {})
        # The number of reads that only train the model, for the progress.
        self.training = 0
        self._reads = 0
        self.progress: Callable[[float], None] = lambda done: None

    def close(self) -> None:
        """Stop reading ahead."""
        self._reader.shutdown(cancel_futures=True)

    def read(self, period: int) -> Readings:
        """Return the readings of a period, with moved sensors renamed."""
        index = self._index[period]
        group = index // self._group_size
        if self._present[0] != group:
            self._present = (-1, {})
            future = self._next.pop(group, None) or self._reader.submit(self._read_group, group)
            self._present = (group, future.result())
            following = (group + 1) * self._group_size < len(self.periods)
            self._next = {group + 1: self._reader.submit(self._read_group, group + 1)} if following else {}
        done = self._reads if self._reads < self.training else index + self.training
        self._reads += 1
        self.progress(done / (len(self.periods) + self.training))
        return self._places.rename_moved(self._present[1][period])

    def _read_group(self, group: int) -> dict[int, Readings]:
        periods = self.periods[group * self._group_size : (group + 1) * self._group_size]
        readings = self._staging.read(periods[0], periods[-1] - periods[0] + 1)
        ends = np.searchsorted(self._grid.find_period(readings.time), periods, side="right").tolist()
        starts = [0, *ends[:-1]]
        return {period: readings.taken(slice(start, end))
                for period, start, end in zip(periods, starts, ends, strict=True)}  # fmt: skip
