"""OUT while it is watched: rows, faults, sensors, what was refused, what is provisional."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.errors import InputError, StateError
from sensormend.files import now, surroundings, sync
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, FaultInterval, iso, write_csv, write_json
from sensormend.io.options import in_words
from sensormend.io.writing import RowWriter
from sensormend.pipeline.places import Places
from sensormend.readings import DAY, Readings, Rows
from sensormend.stream import keeping
from sensormend.stream.arrivals import Rejected
from sensormend.stream.events import Final, Late
from sensormend.stream.kept import Kept
from sensormend.stream.late import correct
from sensormend.stream.ledger import Ledger
from sensormend.stream.logs import say
from sensormend.stream.stream import Stream

__all__ = ["Output"]

_log = logging.getLogger("sensormend.stream")

REJECTED_HEADER = ("received", "where", "reason", "text")
REJECTED_LIMIT = 16 << 20
"""Bytes of rejected.csv before it is put aside; there are never more than two of them."""


class Output:
    """Everything that is written into an OUT.

    All of it may be done again, as it is after a crash, and comes out the same.

    Parameters
    ----------
    folder
        The OUT.
    late_for
        How long readings are kept for late ones.
    keep
        How long rows are kept; None for ever.
    compact
        Whether the files of a date that is over are made one.
    told
        What the state says of the tables' lengths.
    """

    def __init__(
        self, folder: Path, *, late_for: int, keep: int | None, compact: bool, told: Mapping[str, int] | None = None
    ) -> None:
        told = told or {}
        self.folder, self._late_for, self._keep, self._compact = folder, late_for, keep, compact
        self.writer = RowWriter(folder)
        keeping.tidy(folder)
        self._kept = Kept(folder / "state" / "kept")
        self._faults = Ledger(folder / "faults.csv", FAULTS_HEADER, told.get("faults", 0))
        self._rejected = Ledger(folder / "rejected.csv", REJECTED_HEADER, told.get("rejected", 0), limit=REJECTED_LIMIT)
        self._settled: list[FaultInterval] = []
        self._tidied = told.get("tidied", -1)
        self._late: dict[int, tuple[int, list[tuple[int, Readings]]]] = {}
        self._started, self._surroundings = now(), surroundings()

    def state(self) -> dict[str, int]:
        """Return how far the tables are settled."""
        return {"faults": self._faults.length, "rejected": self._rejected.length, "tidied": self._tidied}

    def final(self, event: Final, start: int, record: int) -> None:
        """Write the rows of a period that is over."""
        self.writer.write(event.mended.output, start)
        self._kept.put(event.mended.period, event.readings, record)

    def hold(self, event: Late, record: int, place: int) -> None:
        """Hold late readings back: many of one period cost hardly more than one."""
        _, held = self._late.get(event.period, (0, []))
        held.append((record, event.readings))
        self._late[event.period] = (place, held)

    def late(self, stream: Stream) -> Iterator[tuple[int, int, Rows, int, int]]:
        """Correct rows by the late readings that were held back, period by period.

        Yields the place of the last event that it follows from, the period, its corrected rows, how many of the
        readings were new, and how many had come before.
        """
        assert stream.mender is not None
        survey, options = stream.survey, stream.options
        for period, (place, held) in sorted(self._late.items(), key=lambda entry: entry[1][0]):
            try:
                readings, new = self._kept.add(period, held)
                fill = [survey.fill.get(name, ()) for name in readings.variables]
                valid = [options.valid_of(name) for name in readings.variables]
                rows = correct(self.writer, self.folder, stream.mender.grid, period, readings, new, fill, valid)
            except (InputError, StateError) as error:
                # A file that somebody spoilt: it would be the same after every start.
                say(_log, logging.ERROR, "late readings correct nothing", error=error)
            else:
                count = int(new.sum())
                yield place, period, rows, count, sum(len(more) for _, more in held) - count
            del self._late[period]

    def refuse(self, rejected: Sequence[Rejected], received: int) -> None:
        """Note what was refused."""
        self._rejected.append((received, one.where, one.reason, one.text) for one in rejected)

    def provisional(self, rows: Rows | None, reached: int) -> None:
        """Show what is known of the periods that are not over."""
        path = self.folder / "state" / "provisional.parquet"
        path.with_suffix(".arrow").unlink(missing_ok=True)  # as an earlier version wrote it
        if rows is None:
            path.unlink(missing_ok=True)
        else:
            self.writer.write_file(path, rows, {"reached": iso(reached), "made": now()})

    def describe(self, stream: Stream, about: Mapping[str, Any]) -> None:
        """Write what stands beside the rows: faults, sensors, alerts, the run."""
        write_json(
            self.folder / "state" / "alerts.json",
            {"at": now(), "sensors": [asdict(one) for one in stream.health()]},
        )
        if stream.mender is None or stream.closed is None:
            write_json(self.folder / "run.json", self._record(stream, about))
            return
        tally, grid = stream.tally, stream.mender.grid
        # The tally forgets them; should the disk be full, they are needed for the next try.
        self._settled += tally.pop_finished(grid.start_of(stream.closed + 1))
        self._faults.write(map(astuple, self._settled), map(astuple, tally.intervals()))
        self._settled = []
        places = Places(coordinates={**stream.coordinates, **stream.places.coordinates})
        write_csv(self.folder / "sensors.csv", SENSORS_HEADER, map(astuple, tally.summaries(places)))
        write_json(self.folder / "run.json", self._record(stream, about))

    def tidy(self, stream: Stream) -> None:
        """Make one file of each date that is over, and drop what is older than anybody wants to keep."""
        if stream.mender is None or stream.closed is None:
            return
        grid = stream.mender.grid
        end = grid.start_of(stream.closed + 1)
        over = end // DAY
        self._kept.drop(int(grid.period_of(np.array([end - self._late_for]))[0]))
        if self._compact and grid.period < DAY and over - 1 > self._tidied:
            for date in keeping.dates(self.folder):
                if self._tidied < date < over:
                    keeping.compact(self.folder, date)
        self._tidied = max(self._tidied, over - 1)
        if self._keep is not None:
            keeping.drop(self.folder, (end - self._keep) // DAY)

    def sync(self) -> None:
        """Return when all rows, tables and kept readings would outlast a power cut."""
        self.writer.sync()
        self._kept.sync()
        # A state counts on the length of these: one that came back shorter would be begun anew.
        for table in (self._faults, self._rejected):
            if table.path.exists():
                sync(table.path)
        sync(self.folder)

    def turn(self) -> None:
        """Put a full table of refusals aside, before a state counts on it."""
        self._rejected.turn()

    def close(self) -> None:
        """Let go of the files."""
        self.writer.close()

    def _record(self, stream: Stream, about: Mapping[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = {"command": "watch", "started": self._started, "updated": now(), **about}
        if stream.mender is not None:
            grid, tally = stream.mender.grid, stream.tally
            record |= {
                "grid": {
                    "step": in_words(grid.step), "period": in_words(grid.period), "early_seconds": grid.early / 1e6
                },
                "fill": stream.survey.fill,
                "variables": list(stream.mender.variables),
                "sensors": len(stream.sensors),
                "readings": stream.readings,
                "closed": None if stream.closed is None else iso(grid.start_of(stream.closed + 1)),
                "flags": tally.flags,
                "filled": tally.filled,
                "corrected": tally.corrected,
                "notes": list(stream.survey.notes),
            }  # fmt: skip
        return {**record, "surroundings": self._surroundings}
