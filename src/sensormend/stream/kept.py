"""Readings of periods that are over, kept for as long as a late one may correct them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.files import beside, sync
from sensormend.readings import Readings
from sensormend.recovery import BoolArray
from sensormend.stream.codec import pack, readings_from_bytes, readings_to_bytes, unpack
from sensormend.stream.window import Names

__all__ = ["Kept"]

COLUMNS = ("sensor", "variable", "time", "value")


class Kept:
    """A file per period: its readings, and the record of the journal by which each of them came.

    By that number a record that is gone through again, after a crash, finds what there was before it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unsynced: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, period: int, readings: Readings, record: int) -> None:
        """Keep the readings of a period that this record closed."""
        self._write(period, readings, np.full(len(readings), record, dtype=np.int64), record)

    def add(self, period: int, late: Sequence[tuple[int, Readings]]) -> tuple[Readings, BoolArray]:
        """Keep late readings too, each with its record; return all of the period's, and which of them are new.

        One that is there already is not kept again.
        """
        readings, records, closed = self._read(period)
        if readings is None:
            readings = late[0][1].taken(slice(0, 0))
        before = records < late[0][0]
        # Names only ever grow: those of the last have the others'.
        last = late[-1][1]
        columns = {name: np.concatenate([getattr(more, name) for _, more in late]) for name in COLUMNS}
        together = _joined(readings.taken(before), Readings(last.sensors, last.variables, **columns))
        count = [len(more) for _, more in late]
        records = np.concatenate([records[before], np.repeat([record for record, _ in late], count)])
        new = np.arange(len(records)) >= before.sum()
        stays = ~new | _first_said(together)
        together, records, new = together.taken(stays), records[stays], new[stays]
        if new.any() or not before.all():
            self._write(period, together, records, closed, safely=True)
        return together, new

    def drop(self, before: int) -> None:
        """Forget the periods before this one."""
        for file in self.folder.glob("*.kept"):
            if int(file.stem) < before:
                file.unlink(missing_ok=True)
                self._unsynced.discard(file)

    def sync(self) -> None:
        """Return when everything is on the disk."""
        for file in self._unsynced:
            sync(file)
        if self._unsynced:
            sync(self.folder)
        self._unsynced = set()

    def _file(self, period: int) -> Path:
        return self.folder / f"{period}.kept"

    def _write(
        self, period: int, readings: Readings, records: NDArray[np.int64], closed: int, *, safely: bool = False
    ) -> None:
        content = pack({"closed": closed}, {"records": records, "readings": _bytes(readings_to_bytes(readings))})
        with beside(self._file(period)) as new:
            new.write_bytes(content)
            if safely:
                # It takes the place of what no journal can bring back.
                sync(new)
        self._unsynced.add(self._file(period))

    def _read(self, period: int) -> tuple[Readings | None, NDArray[np.int64], int]:
        try:
            header, arrays = unpack(self._file(period).read_bytes())
            return readings_from_bytes(arrays["readings"].tobytes()), arrays["records"], header["closed"]
        except FileNotFoundError:
            return None, np.empty(0, dtype=np.int64), -1
        except (KeyError, StateError) as error:
            raise StateError(f"{self._file(period)} is broken: {error}") from None


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


def _first_said(readings: Readings) -> BoolArray:
    """Say which readings are not repetitions of earlier ones, to the last bit."""
    columns = [readings.sensor, readings.variable, readings.time, readings.value.view(np.int64)]
    order = np.lexsort((np.arange(len(readings)), *columns))
    first = np.ones(len(readings), dtype=bool)
    if len(readings) > 1:
        first[order[1:]] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return first


def _joined(first: Readings, then: Readings) -> Readings:
    sensors, variables = Names(first.sensors), Names(first.variables)
    sensor = np.concatenate([first.sensor, sensors.codes(then.sensors, then.sensor)]).astype(np.int64)
    variable = np.concatenate([first.variable, variables.codes(then.variables, then.variable)]).astype(np.int64)
    times, values = np.concatenate([first.time, then.time]), np.concatenate([first.value, then.value])
    return Readings(sensors.all, variables.all, sensor, variable, times, values)
