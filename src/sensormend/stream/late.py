"""`LateReadingStore` stores the readings of final periods; `correct` corrects their rows when readings come late."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.files import replacing, sync
from sensormend.io.folder import data_files, file_rows, parse_span
from sensormend.io.writing import RowWriter, part_name
from sensormend.pipeline.grid import Grid, Placed, place
from sensormend.pipeline.verdicts import Mark, flag_cells
from sensormend.readings import DAY, REASONS, Flag, Readings, Rows, join, recoded
from sensormend.recovery import BoolArray
from sensormend.stream.codec import pack, readings_from_bytes, readings_to_bytes, unpack

__all__ = ["LateReadingStore", "correct"]

_Table = TypeVar("_Table", Readings, Rows)

CRC = 4
"""Bytes of the checksum at the start of a file."""

LATE = REASONS.index("late")
CHANGED = ("value", "n", "flag", "reason")
"""The columns that a late reading can change."""


class LateReadingStore:
    """A file per period: its readings, and for each the number of its record in the journal.

    By that number a record that is replayed after a crash finds the readings that were stored before it. `replacing` is
    called with a file before it is replaced; `unsynced` has the files since the last `sync`, each with its number of
    readings.
    """

    def __init__(self, folder: Path, replacing: Callable[[Path], None] = lambda path: None) -> None:
        self.folder, self._replacing = folder, replacing
        self.unsynced: dict[Path, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, period: int, readings: Readings, record: int) -> None:
        """Store the readings of a period that this record closed."""
        self._write(period, readings, np.full(len(readings), record, dtype=np.int64), record)

    def add(self, period: int, late: Sequence[tuple[int, Readings]]) -> tuple[Readings, BoolArray]:
        """Store late readings too, each with its record; return all of the period's, and which of them are new.

        A repetition is not stored again.
        """
        readings, records, closed = self._read(period)
        if readings is None:
            readings = late[0][1].taken(slice(0, 0))
        before = records < late[0][0]
        # Names are only ever added: the last readings have the names of all.
        all_readings = join([readings.taken(before), Readings.concatenate([more for _, more in late])])
        count = [len(more) for _, more in late]
        records = np.concatenate([records[before], np.repeat([record for record, _ in late], count)])
        new = np.arange(len(records)) >= before.sum()
        unchanged = ~new | _is_first(all_readings)
        all_readings, records, new = all_readings.taken(unchanged), records[unchanged], new[unchanged]
        if new.any() or not before.all():
            self._write(period, all_readings, records, closed, safely=True)
        return all_readings, new

    def drop(self, before: int) -> None:
        """Delete the periods before this one."""
        for file in self.folder.glob("*.kept"):
            if int(file.stem) < before:
                file.unlink(missing_ok=True)
                self.unsynced.pop(file, None)

    def sync(self) -> None:
        """Write everything to disk."""
        for file in self.unsynced:
            sync(file)
        if self.unsynced:
            sync(self.folder)
        self.unsynced = {}

    def _file(self, period: int) -> Path:
        return self.folder / f"{period}.kept"

    def _write(
        self, period: int, readings: Readings, records: NDArray[np.int64], closed: int, *, safely: bool = False
    ) -> None:
        packed = np.frombuffer(readings_to_bytes(readings), dtype=np.uint8)
        content = pack({"closed": closed}, {"records": records, "readings": packed})
        if self._file(period).exists():
            self._replacing(self._file(period))
        with replacing(self._file(period)) as new:
            new.write_bytes(zlib.crc32(content).to_bytes(CRC, "little") + content)
            if safely:
                # It replaces a file that cannot be restored from the journal.
                sync(new)
        self.unsynced[self._file(period)] = len(readings)

    def _read(self, period: int) -> tuple[Readings | None, NDArray[np.int64], int]:
        try:
            content = self._file(period).read_bytes()
            if len(content) < CRC or zlib.crc32(content[CRC:]) != int.from_bytes(content[:CRC], "little"):
                raise StateError("it is not what was written")
            header, arrays = unpack(content[CRC:])
            return readings_from_bytes(arrays["readings"].tobytes()), arrays["records"], header["closed"]
        except FileNotFoundError:
            return None, np.empty(0, dtype=np.int64), -1
        except (KeyError, TypeError, StateError) as error:
            raise StateError(f"{self._file(period)} is broken: {error}") from None


def _is_first(readings: Readings) -> BoolArray:
    """Return which readings are not exact repetitions of earlier ones."""
    columns = [readings.sensor, readings.variable, readings.time, readings.value.view(np.int64)]
    order = np.lexsort((np.arange(len(readings)), *columns))
    first = np.ones(len(readings), dtype=bool)
    if len(readings) > 1:
        first[order[1:]] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return first


def correct(
    writer: RowWriter,
    folder: Path,
    grid: Grid,
    period: int,
    readings: Readings,
    late: BoolArray,
    fill: Sequence[Sequence[float]],
    valid: Sequence[tuple[float, float]],
    circular: Mapping[int, float] | None = None,
) -> Rows:
    """Correct the rows of the slots of a final period that have late readings, in `folder`, and return these rows.

    `value` and `n` are those of all readings of the slot. A row without a judged reading gets flag 2: the late one has
    not been judged. A row whose late reading differs from another of the same time gets 3; a row with only readings
    beyond the limits gets 4 and `implausible`, one with only fill values 4 and `fill`. Otherwise the flag stays. The
    reason is `late`, except where the flag is 4: then it is still that of the fault. `cleaned`, `lower`, `upper` and
    `origin` do not change. A sensor without a row gets one, with nothing cleaned. A late reading that changes nothing
    gives no row: a repetition, a reading without a number, or one beyond the limits or a fill value beside others.

    The result depends only on the readings and on the rows of the final period. It may be repeated, as it is after a
    crash, and returns the same rows again.

    `readings` are those of the period in order of arrival, `late` says which of them came after the rows were written;
    `fill` and `valid` are the fill values and limits of each of their variables, `circular` those that are directions.
    """
    affected, cells = _affected(grid, readings, late)
    change = _change(grid, readings.taken(affected), late[affected], fill, valid, circular, cells)
    if not len(change.rows):
        return change.rows
    corrected = []
    for path, part in _by_file(folder, grid.period_start(period), change):
        if path is None:
            writer.write(part.rows, grid.period_start(period))
            corrected.append(part.rows)
            continue
        before = file_rows(path)
        after, rows_changed = _applied(before, part)
        if not _is_unchanged(before, after):
            writer.rewrite(path, after)
        corrected.append(after.taken(rows_changed))
    return join(corrected)


@dataclass(frozen=True, eq=False)
class _Change:
    """The changes of rows by late readings.

    Attributes
    ----------
    rows
        The rows as they are where there was no row before.
    before
        The number of readings that each row had.
    beyond
        Whether all of these were beyond the limits or fill values.
    """

    rows: Rows
    before: NDArray[np.int32]
    beyond: BoolArray

    def taken(self, which: BoolArray) -> _Change:
        """Return the selected changes."""
        return _Change(self.rows.taken(which), self.before[which], self.beyond[which])


def _affected(grid: Grid, readings: Readings, late: BoolArray) -> tuple[BoolArray, NDArray[np.int64]]:
    """Return which readings share a slot with a late one, and the slots: rows of sensor, variable and slot."""
    slots, variables = grid.slots, len(readings.variables)
    cell = (readings.sensor.astype(np.int64) * variables + readings.variable) * slots + grid.find_slot(readings.time)
    changed = np.unique(cell[late])
    cells = np.stack([changed // slots // variables, changed // slots % variables, changed % slots], axis=1)
    return np.isin(cell, changed), cells


def _change(
    grid: Grid,
    readings: Readings,
    late: BoolArray,
    fill: Sequence[Sequence[float]],
    valid: Sequence[tuple[float, float]],
    circular: Mapping[int, float] | None,
    cells: NDArray[np.int64],
) -> _Change:
    channels, of_cell = np.unique(cells[:, :2], axis=0, return_inverse=True)
    code = channels[:, 0] * len(readings.variables) + channels[:, 1]
    channel = np.searchsorted(code, readings.sensor.astype(np.int64) * len(readings.variables) + readings.variable)

    def placed(which: BoolArray) -> Placed:
        return place(grid, readings.taken(which), channel[which], len(channels), fill, valid, circular)

    before, after = placed(~late), placed(np.ones(late.size, dtype=bool))
    at = (of_cell.ravel(), cells[:, 2])
    different = np.zeros(len(cells), dtype=bool)
    for name in ("value", "n", "implausible", "coded", "contradictory"):
        old, new = getattr(before, name)[at], getattr(after, name)[at]
        different |= (old != new) & ~((old != old) & (new != new))
    at = (at[0][different], at[1][different])
    cells, count = cells[different], int(different.sum())
    nothing, contradictory = np.full(count, np.nan), after.contradictory[at]
    implausible, coded = after.implausible[at], after.coded[at]
    start = grid.period_start(int(grid.find_period(readings.time[:1])[0])) if len(readings) else 0
    # A late reading has not been judged: its reason is `late` whatever it contradicts.
    marks = {Mark.DOUBTFUL: contradictory, Mark.IMPLAUSIBLE: implausible, Mark.FILL: coded}
    flag, reason = flag_cells(np.full(count, Flag.NOT_EVALUATED), np.full(count, LATE), marks, kind=LATE)
    rows = Rows(
        sensors=readings.sensors,
        variables=readings.variables,
        sensor=cells[:, 0].astype(np.int32),
        variable=cells[:, 1].astype(np.int32),
        time=start + cells[:, 2] * grid.step,
        value=after.value[at],
        n=after.n[at],
        cleaned=nothing, lower=nothing, upper=nothing,
        flag=flag,
        reason=reason,
        origin=np.zeros(count, np.int8),
    )  # fmt: skip
    return _Change(rows, before.n[at], (before.implausible | before.coded)[at])


def _by_file(folder: Path, start: int, change: _Change) -> Iterator[tuple[Path | None, _Change]]:
    """Yield each file with its changes; None instead of a file that does not exist yet."""
    dates, (period, _) = change.rows.time // DAY, parse_span(Path(part_name(start)))
    for date in np.unique(dates).tolist():
        spans = {file: parse_span(file) for file in data_files(folder, date * DAY, (date + 1) * DAY)}
        file = next((file for file, (first, last) in spans.items() if first <= period <= last), None)
        yield file, change.taken(dates == date)


def _applied(before: Rows, change: _Change) -> tuple[Rows, NDArray[np.intp]]:
    """Return a file's rows with the changes applied, and the indices of the changed rows."""
    rows = recoded(change.rows, before)
    candidates = np.flatnonzero(np.isin(before.time, rows.time) & np.isin(before.sensor, rows.sensor))
    row_of = dict(zip(_cells(before.taken(candidates)), candidates.tolist(), strict=True))
    row = np.array([row_of.get(cell, -1) for cell in _cells(rows)], dtype=np.intp)
    new = row < 0
    added = rows.taken(new)
    row[new] = len(before) + np.arange(len(added))
    after = Rows.concatenate([before, added])
    columns = {name: getattr(after, name).copy() for name in CHANGED}
    old, part = row[~new], change.taken(~new)
    old_flag, new_flag = before.flag[old], part.rows.flag
    # Readings beyond the limits that were not failed are covered by a note on maintenance, which still holds.
    covered = part.beyond & (old_flag < Flag.SUSPECT)
    unchanged = covered | ((part.before > 0) & ~part.beyond & (new_flag < Flag.FAIL))
    contradictory = unchanged & (new_flag == Flag.SUSPECT) & (old_flag < Flag.SUSPECT)
    flag, reason = flag_cells(
        np.where(unchanged, old_flag, new_flag),
        np.where(unchanged, before.reason[old], part.rows.reason),
        {Mark.DOUBTFUL: contradictory},
        kind=LATE,
    )
    columns["flag"][old], columns["reason"][old] = flag, np.where(flag < Flag.FAIL, LATE, reason)
    columns["value"][old], columns["n"][old] = part.rows.value, part.rows.n
    return replace(after, **columns), row


def _cells(rows: Rows) -> Iterator[tuple[int, int, int]]:
    return zip(rows.sensor.tolist(), rows.variable.tolist(), rows.time.tolist(), strict=True)


def _is_unchanged(before: Rows, after: Rows) -> bool:
    return len(before) == len(after) and all(
        np.array_equal(getattr(before, name), getattr(after, name), equal_nan=True) for name in CHANGED
    )
