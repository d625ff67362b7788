"""`Output` writes the output of `watch`: rows, tables and provisional values; it also compacts and drops old dates."""

from __future__ import annotations

import csv
import glob
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sensormend.errors import InputError, StateError, StorageError
from sensormend.files import now, replacing, set_aside, surroundings, sync
from sensormend.io.folder import covered, parse_dates, parse_span
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, csv_lines, write_csv, write_json
from sensormend.io.sql import first_line, literal
from sensormend.io.writing import RowWriter
from sensormend.pipeline.copies import sentences
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.places import Places
from sensormend.pipeline.times import iso
from sensormend.pipeline.units import collect_units, described, sent
from sensormend.readings import DAY, Readings, Rows
from sensormend.stream.arrivals import Rejected
from sensormend.stream.integrity import Manifest, is_readable
from sensormend.stream.late import LateReadingStore, correct
from sensormend.stream.logs import say
from sensormend.stream.stream import LateReadings, PeriodFinal, Stream

__all__ = [
    "AppendOnlyTable",
    "Correction",
    "Output",
    "compact_date",
    "dates",
    "drop_dates",
    "remove_leftovers",
]

_log = logging.getLogger("sensormend.stream")

BLOCK = 1 << 20
"""Bytes of a table that are copied at a time."""

DELETED = "gone="
"""The prefix of the folder of a date while it is being deleted."""

REJECTED_HEADER = ("received", "where", "reason", "text")
REJECTED_LIMIT = 16 << 20
"""Bytes of rejected.csv before it is renamed; there are never more than two such files."""


class AppendOnlyTable:
    """A CSV file whose first `length` bytes never change; the rest is rewritten.

    From `limit` bytes on, the file is renamed to `NAME.old.csv` and a new one begun. `crc` is the checksum of the first
    `length` bytes.
    """

    def __init__(
        self, path: Path, header: Sequence[str], length: int = 0, *, crc: int | None = None, limit: int | None = None
    ) -> None:
        self.path, self.header, self._limit = path, header, limit
        if length and (not path.exists() or path.stat().st_size < length):
            length, crc = 0, None
        self.length, self.crc = length, _prefix_crc(path, length) if crc is None else crc

    def salvage(self, end: int | None = None) -> None:
        """Keep the whole lines of a damaged file, or of its first `end` bytes; the file itself is set aside."""
        if not self.path.exists():
            return
        text = self.path.read_bytes()[:end].decode("utf-8", "replace")
        lines = csv.reader(line for line in text.splitlines(keepends=True) if "\0" not in line and "\ufffd" not in line)
        whole = [line for line in lines if len(line) == len(self.header) and line != list(self.header)]
        os.replace(self.path, set_aside(self.path))
        self.length = self.crc = 0
        content = StringIO()
        csv.writer(content, lineterminator="\n").writerows([self.header, *whole])
        self._append(content.getvalue().encode())

    def adopt(self) -> None:
        """Take all lines of the file as settled."""
        if self.path.exists():
            content = self.path.read_bytes()
            self.length = content.rfind(b"\n") + 1
            self.crc = zlib.crc32(content[: self.length])

    def write(self, settled: Iterable[Sequence[object]], open_lines: Iterable[Sequence[object]] = ()) -> None:
        """Add settled lines, followed by lines that may change; readers see the old file or the new one."""
        lines = self._encoded(settled)
        with replacing(self.path) as new, new.open("wb") as file:
            if self.length:
                with self.path.open("rb") as old:
                    for start in range(0, self.length, BLOCK):
                        file.write(old.read(min(BLOCK, self.length - start)))
                    if file.tell() < self.length:
                        raise OSError(f"{self.path} became shorter while it was copied")
            file.write(lines)
            file.write(csv_lines(self.header, open_lines).encode())
            file.flush()
            os.fsync(file.fileno())
        self._count(lines)

    def append(self, lines: Iterable[Sequence[object]]) -> None:
        """Add settled lines at the end of the file, without a copy of it."""
        self._append(self._encoded(lines))

    def _append(self, content: bytes) -> None:
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(content)
        self._count(content)

    def _count(self, settled: bytes) -> None:
        self.length, self.crc = self.length + len(settled), zlib.crc32(settled, self.crc)

    def _encoded(self, lines: Iterable[Sequence[object]]) -> bytes:
        return csv_lines(self.header, chain(() if self.length else [self.header], lines)).encode()

    def rotate(self) -> None:
        """Rename a full file; to be called when no state refers to it any more."""
        if self._limit is not None and self.length > self._limit:
            shutil.move(self.path, self.path.with_suffix(".old.csv"))
            self.length = self.crc = 0


def _prefix_crc(path: Path, length: int) -> int:
    """Return the checksum of the first bytes of a file."""
    crc = 0
    if length:
        with path.open("rb") as file:
            while length > 0 and (block := file.read(min(BLOCK, length))):
                crc, length = zlib.crc32(block, crc), length - len(block)
    return crc


def dates(folder: Path) -> dict[int, Path]:
    """Return the folders of an output folder's dates by their days since 1970, in order."""
    folders = {}
    for part in sorted((folder / "data").glob("date=*")):
        with suppress(ValueError):
            folders[parse_dates(part).start] = part
    return folders


def compact_date(folder: Path, date: int) -> Path | None:
    """Merge the files of a date into one, sorted by sensor, variable and time, and return it; None if there is none.

    The new file is named by its first and last period. As soon as it has that name, `data_files` skips the files that
    it was made of: a reader sees every row once, also after a crash while these still exist; `remove_leftovers` removes
    them. If one of these periods is written again, as by a replay, that file is skipped too. So this is only for
    periods whose rows will not change. `date` is in days since 1970.
    """
    part = folder / "data" / f"date={np.datetime64(date, 'D')}"
    _remove(covered(list(part.glob("*.parquet"))))
    files = sorted(part.glob("*.parquet"))
    if len(files) < 2:
        return files[0] if files else None
    spans = [parse_span(file) for file in files]
    merged = part / f"part-{min(first for first, _ in spans)}-{max(last for _, last in spans)}.parquet"
    _merge(files, merged)
    # The new name has to survive a power cut before the old files are deleted.
    sync(part)
    _remove(set(files) - {merged})
    return merged


def drop_dates(folder: Path, before: int) -> list[int]:
    """Remove the dates before `before`, and return them; both in days since 1970."""
    old = {date: part for date, part in dates(folder).items() if date < before}
    for part in old.values():
        # The rename removes all of its rows at once; no reader opens what is left of it after a crash.
        deleted = part.with_name(f"{DELETED}{part.name.removeprefix('date=')}")
        try:
            if deleted.exists():
                shutil.rmtree(deleted)
            part.rename(deleted)
            shutil.rmtree(deleted)
        except OSError as error:
            raise StorageError(f"cannot remove {part}: {error.strerror or error}") from error
    return list(old)


def remove_leftovers(folder: Path) -> None:
    """Remove what `compact_date` and `drop_dates` left when they were interrupted."""
    for part in dates(folder).values():
        _remove(covered(list(part.glob("*.parquet"))))
    for deleted in (folder / "data").glob(f"{DELETED}*"):
        shutil.rmtree(deleted, ignore_errors=True)


def _merge(files: list[Path], merged: Path) -> None:
    listed = ", ".join(literal(glob.escape(str(file))) for file in files)
    try:
        with replacing(merged) as new, duckdb.connect(config={"threads": 1}) as engine:
            source = f"read_parquet([{listed}], hive_partitioning = false)"
            columns = [line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
            order = ", ".join(name for name in ("sensor", "variable", "time") if name in columns)
            engine.execute(f"COPY (SELECT * FROM {source} ORDER BY {order}) TO {literal(new)} "
                           "(FORMAT parquet, USE_TMP_FILE false)")  # fmt: skip
            sync(new)
    except duckdb.Error as error:
        raise StorageError(f"cannot write {merged}: {first_line(error)}") from error


def _remove(files: set[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot remove {file}: {error.strerror or error}") from error


@dataclass(frozen=True, eq=False)
class Correction:
    """Rows of a final period that late readings corrected.

    Attributes
    ----------
    place
        The number of the last event that it follows from.
    new, repeated
        The number of late readings that were new, and of repetitions.
    """

    place: int
    period: int
    rows: Rows
    new: int
    repeated: int


class Output:
    """Writes everything in an output folder.

    Every method may be repeated, as it is after a crash, with the same result. Readings are stored for `late_for`, for
    corrections by late ones, and rows are kept for `keep`, or for ever.

    Parameters
    ----------
    lengths
        What `state` returned; None if it is not known any more, and the tables go on as they are.
    manifest
        The files as of the last checkpoint.
    unsound
        Those of them, and of the tables, that are missing or damaged.
    rewritten, rewriting
        Those that were written again since; called with the name of one that is about to be.
    """

    def __init__(
        self,
        folder: Path,
        *,
        late_for: int,
        keep: int | None,
        compact: bool,
        lengths: Mapping[str, int] | None = None,
        manifest: Manifest | None = None,
        unsound: Sequence[str] = (),
        rewritten: Iterable[str] = (),
        rewriting: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.folder, self._late_for, self._keep, self._compact = folder.absolute(), late_for, keep, compact
        folder = self.folder
        self.manifest, self._rewriting = manifest or Manifest(), rewriting
        self._set_aside(unsound)
        self.writer = RowWriter(folder, self._before_replacing)
        remove_leftovers(folder)
        _remove(set((folder / "state").glob("*.new")))
        self._store = LateReadingStore(folder / "state" / "kept", self._before_replacing)
        self.manifest.adopt(folder, rewritten)
        known = lengths or {}
        self._faults = AppendOnlyTable(
            folder / "faults.csv", FAULTS_HEADER, known.get("faults", 0), crc=known.get("faults_crc")
        )
        self._rejected = AppendOnlyTable(
            folder / "rejected.csv", REJECTED_HEADER, known.get("rejected", 0), crc=known.get("rejected_crc"),
            limit=REJECTED_LIMIT,
        )  # fmt: skip
        for table in (self._faults, self._rejected):
            if table.path.name in unsound:
                table.salvage(known.get(table.path.stem))
            elif lengths is None:
                table.adopt()
        self._settled: list[FaultInterval] = []
        self._tidied = known.get("tidied", -1)
        self._late: dict[int, tuple[int, list[tuple[int, Readings]]]] = {}
        self._started, self._surroundings = now(), surroundings()

    def state(self) -> dict[str, int]:
        """Return the settled lengths of the tables."""
        return {
            "faults": self._faults.length,
            "faults_crc": self._faults.crc,
            "rejected": self._rejected.length,
            "rejected_crc": self._rejected.crc,
            "tidied": self._tidied,
        }

    def _set_aside(self, unsound: Sequence[str]) -> None:
        """Rename rows that cannot be read, and make readings that are gone unreadable: nothing can be added to them."""
        for name in unsound:
            path = self.folder / name
            if name.endswith(".kept") and not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"")
            elif name.endswith(".parquet") and path.exists() and not is_readable(path):
                os.replace(path, set_aside(path))
            if name in self.manifest.files:
                self.manifest.note(self.folder, {path: self.manifest.files[name][2]})

    def _before_replacing(self, path: Path) -> None:
        name = path.relative_to(self.folder).as_posix()
        if name in self.manifest.files:
            self._rewriting(name)

    def finish(self, event: PeriodFinal, start: int, record: int) -> None:
        """Write the rows of a period that is over."""
        self.writer.write(event.cleaned_period.output, start)
        self._store.put(event.cleaned_period.period, event.readings, record)

    def collect(self, event: LateReadings, record: int, place: int) -> None:
        """Collect late readings: many of one period cost hardly more than one."""
        _, late = self._late.get(event.period, (0, []))
        late.append((record, event.readings))
        self._late[event.period] = (place, late)

    def correct_late(self, stream: Stream) -> Iterator[Correction]:
        """Correct rows by the collected late readings, period by period."""
        assert stream.cleaner is not None
        survey, options = stream.survey, stream.options
        for period, (place, late) in sorted(self._late.items(), key=lambda entry: entry[1][0]):
            try:
                readings, new = self._store.add(period, late)
                fill = [survey.fill.get(name, ()) for name in readings.variables]
                valid = [options.find_valid(name) for name in readings.variables]
                turns = {number: survey.circular[name] for number, name in enumerate(readings.variables)
                         if name in survey.circular}  # fmt: skip
                rows = correct(self.writer, self.folder, stream.cleaner.grid, period, readings, new, fill, valid, turns)
            except (InputError, StateError) as error:
                # A damaged file, which would fail again after every start.
                say(_log, logging.ERROR, "late readings correct nothing", error=error)
            else:
                count = int(new.sum())
                repeated = sum(len(more) for _, more in late) - count
                yield Correction(place, period, rows, count, repeated)
            del self._late[period]

    def reject(self, rejected: Sequence[Rejected], received: int) -> None:
        """Write rejections to rejected.csv."""
        self._rejected.append((received, entry.where, entry.reason, entry.text) for entry in rejected)

    def provisional(self, rows: Rows | None, reached: int) -> None:
        """Write the provisional rows of open periods; remove the file for None."""
        path = self.folder / "state" / "provisional.parquet"
        if rows is None:
            path.unlink(missing_ok=True)
        else:
            self.writer.write_file(path, rows, {"reached": iso(reached), "made": now()})

    def describe(self, stream: Stream, settings: Mapping[str, Any], units: Mapping[str, str] | None = None) -> None:
        """Write faults.csv, sensors.csv, alerts.json and run.json; `units` are those that messages have."""
        sensors = [asdict(health) for health in stream.health()]
        write_json(self.folder / "state" / "alerts.json", {"at": now(), "sensors": sensors})
        if stream.cleaner is not None and stream.closed is not None:
            tally, grid = stream.tally, stream.cleaner.grid
            # The tally drops them; if the disk is full, the next attempt needs them.
            self._settled += tally.pop_finished(grid.period_start(stream.closed + 1))
            faults = tally.intervals()
            self._faults.write(map(astuple, self._settled), map(astuple, faults))
            self._settled = []
            places = Places(coordinates={**stream.coordinates, **stream.places.coordinates})
            write_csv(self.folder / "sensors.csv", SENSORS_HEADER, map(astuple, tally.summaries(places, faults)))
        write_json(self.folder / "run.json", self._record(stream, settings, units or {}))

    def tidy(self, stream: Stream) -> None:
        """Merge the files of each date that is over, and drop what is older than `late_for` and `keep`."""
        if stream.cleaner is None or stream.closed is None:
            return
        grid = stream.cleaner.grid
        end = grid.period_start(stream.closed + 1)
        over = end // DAY
        self._store.drop(grid.find_period(end - self._late_for))
        if self._compact and grid.period < DAY and over - 1 > self._tidied:
            for date in dates(self.folder):
                if self._tidied < date < over:
                    compact_date(self.folder, date)
        self._tidied = max(self._tidied, over - 1)
        if self._keep is not None:
            drop_dates(self.folder, (end - self._keep) // DAY)
        self.manifest.adopt(self.folder, ())

    def sync(self, stream: Stream) -> None:
        """Write all to disk, so that it survives a power cut; rename a full rejected.csv before a checkpoint."""
        written = {**self.writer.unsynced, **self._store.unsynced}
        self.writer.sync()
        self._store.sync()
        self.manifest.note(self.folder, written)
        if stream.cleaner is not None and stream.closed is not None:
            # What `tidy` may drop after the checkpoint.
            end = stream.cleaner.grid.period_start(stream.closed + 1)
            self.manifest.periods_from = stream.cleaner.grid.find_period(end - self._late_for)
            self.manifest.dates_from = None if self._keep is None else (end - self._keep) // DAY
        # A state refers to the length of these: a file that is shorter after a power cut would be begun again.
        for table in (self._faults, self._rejected):
            if table.path.exists():
                sync(table.path)
        sync(self.folder)
        self._rejected.rotate()

    def close(self) -> None:
        """Close the files."""
        self.writer.close()

    def _record(self, stream: Stream, settings: Mapping[str, Any], units: Mapping[str, str]) -> dict[str, Any]:
        record: dict[str, Any] = {"command": "watch", "started": self._started, "updated": now(), **settings}
        if stream.cleaner is not None:
            grid, tally = stream.cleaner.grid, stream.tally
            copies = tally.copies()
            record |= {
                "grid": grid.record(),
                "fill": stream.survey.fill,
                "variables": list(stream.cleaner.variables),
                "sensors": len(stream.sensors),
                "readings": stream.readings,
                "closed": None if stream.closed is None else iso(grid.period_start(stream.closed + 1)),
                "flags": tally.flags,
                "filled": tally.filled,
                "corrected": tally.corrected,
                "withheld": stream.cleaner.withheld,
                "copies": copies,
                "notes": [*stream.survey.notes, *sentences(copies), *stream.cleaner.remarks()],
                **collect_units(described(stream.cleaner.variables, stream.options, sent(units))),
            }  # fmt: skip
        return {**record, "surroundings": self._surroundings}
