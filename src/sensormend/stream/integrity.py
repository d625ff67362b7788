"""`inspect` finds what is missing or damaged in the output folder of a `watch`, and how many readings are gone."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.errors import SensormendError, StateError
from sensormend.files import is_whole_state, read_header
from sensormend.io.folder import dates_of, file_rows
from sensormend.io.metadata import read_json
from sensormend.readings import DAY, NOTHING
from sensormend.stream.acknowledged import Acknowledged
from sensormend.stream.arrivals import Arrived, Damage
from sensormend.stream.codec import input_from_bytes, readings_before
from sensormend.stream.journal import stored_records
from sensormend.stream.manifest import Manifest, Rewritten

__all__ = ["Inspection", "inspect", "is_readable"]

CHECKPOINT_FILES = ("model.npz", "cleaner.npz", "tally.npz")
"""The files of a checkpoint beside stream.npz."""

MOST_FILES = 5
"""Files with the same problem that are listed one by one; more are one entry."""

TABLES = ("faults.csv", "rejected.csv")
"""Tables whose settled lines are only there."""


@dataclass
class Inspection:
    """What `inspect` found.

    Attributes
    ----------
    damage
        All that is missing or damaged.
    acknowledged
        The newest record of what was acknowledged; empty where there is none.
    place
        The folder of the checkpoint to go on from; None where there is none.
    manifest
        The files as of the checkpoint, without those that are gone.
    unsound
        The files that are missing or damaged, by their paths in the folder.
    """

    damage: list[Damage] = field(default_factory=list)
    acknowledged: dict[str, Any] = field(default_factory=dict)
    place: Path | None = None
    manifest: Manifest = field(default_factory=Manifest)
    unsound: list[str] = field(default_factory=list)


def inspect(out: Path, limit: int | None = None) -> Inspection:
    """Return what is missing or damaged in an output folder, in which no service runs; nothing is changed.

    Parameters
    ----------
    limit
        As for `Manifest.problems`.
    """
    result, state = Inspection(), out / "state"
    result.acknowledged = Acknowledged.read(state / "acknowledged") or {}
    saved = _inspect_checkpoint(result, state)
    _inspect_journal(result, state, saved)
    _inspect_queue(result, state)
    if result.place is not None:
        _inspect_files(result, out, limit)
        _inspect_tables(result, out, saved.get("tables", {}))
    if not result.acknowledged and (saved or any(True for _ in stored_records(state / "journal", 0))):
        result.damage.append(
            Damage("state/acknowledged", "is gone or damaged: a loss of what came last would not show")
        )
    if result.acknowledged.get("name") and _name(state / "watch.json") != result.acknowledged["name"]:
        result.damage.append(Damage("state/watch.json", "is gone or damaged: it is written again"))
        result.unsound.append("state/watch.json")
    return result


def _inspect_checkpoint(result: Inspection, state: Path) -> dict[str, Any]:
    """Find the checkpoint to go on from, and return what the service saved with it."""
    last = result.acknowledged.get("checkpoint")
    try:
        name = str(read_json(state / "checkpoint.json").get("place"))
    except SensormendError:
        name = ""
    broken: str | None
    if name.startswith("record-") and (state / name).is_dir():
        broken = _broken_file(state / name)
        if broken is None:
            result.place = state / name
    elif last is None and result.acknowledged:
        # A kill may leave a whole one before the first one counts.
        return {}
    else:
        folders = sorted(state.glob("record-*"), key=lambda path: int(path.name.split("-")[1]))
        whole = [folder for folder in folders if _broken_file(folder) is None]
        if not whole and last is None:
            return {}
        broken = "state/checkpoint.json"
        if whole:
            result.place = whole[-1]
            result.damage.append(Damage(broken, f"is gone or damaged: {result.place.name} is whole and used"))
    if result.place is None:
        last = last or {}
        consequence = "is gone or damaged: what was learned is lost, and the model begins anew"
        readings, start, end = last.get("open", 0), last.get("final"), last.get("newest")
        result.damage.append(Damage(str(broken), consequence, readings, start, end))
        return {}
    return dict(read_header(result.place / "stream.npz").get("service", {}))


def _broken_file(folder: Path) -> str | None:
    """Return the first file of a checkpoint that is missing or damaged; None where all are whole."""
    if not is_whole_state(folder / "stream.npz"):
        return f"state/{folder.name}/stream.npz"
    # Before the grid is known, there is only the stream.
    others = CHECKPOINT_FILES if "grid" in read_header(folder / "stream.npz").get("stream", {}) else ()
    return next((f"state/{folder.name}/{name}" for name in others if not is_whole_state(folder / name)), None)


def _inspect_journal(result: Inspection, state: Path, saved: Mapping[str, Any]) -> None:
    """Count the readings that the journal lacks, by the counts in its records and in `state/acknowledged`."""
    acknowledged, last = result.acknowledged, result.acknowledged.get("checkpoint") or {}
    number = int(saved.get("journal", last.get("number", 0)))
    count = int(saved.get("total", last.get("readings", 0)))
    newest, again = saved.get("newest", last.get("newest")), saved.get("mark") is not None
    expected = max(number, int(acknowledged.get("number", 0)))

    def lacking(until: int, readings: int, start: int | None, end: int | None, note: str = "") -> None:
        problem = f"lacks {until - number:,} records that were acknowledged{note}"
        result.damage.append(Damage("state/journal", problem, readings, start, end))

    for own, content in stored_records(state / "journal", number, expected):
        item, before = input_from_bytes(content), readings_before(content)
        times = item.readings.time if isinstance(item, Arrived) else NOTHING.time
        if own > number:
            lacking(own, max(before - count, 0), newest, int(times[0]) if times.size else newest)
        number, count = own + 1, max(count, before) + times.size
        if isinstance(item, Arrived):
            again |= item.mark is not None
            newest = item.newest(newest)
    if number < expected:
        # A source that can be read again continues after the last record that is there.
        readings = max(int(acknowledged.get("readings", 0)) - count, 0)
        if again:
            lacking(expected, 0, None, None, ": they are read again from the source")
        else:
            lacking(expected, readings, newest, acknowledged.get("newest"))


def _inspect_queue(result: Inspection, state: Path) -> None:
    """Compare the queue of deliveries with what was in it."""
    made, waiting = (int(result.acknowledged.get(name, 0)) for name in ("deliveries", "waiting"))
    path = state / "deliveries.sqlite"
    if not made and not path.exists():
        return
    try:
        count = _delivery_count(path)
    except OSError:
        # There is no room for a copy; the queue verifies itself when it is opened.
        return
    except sqlite3.Error as error:
        problem = f"is damaged ({' '.join(str(error).split())})"
    else:
        if count >= made:
            return
        problem = "is gone or older than it was"
    consequence = f"{waiting} deliveries that waited for sinks may be lost" if waiting else "no delivery waited"
    result.damage.append(Damage("state/deliveries.sqlite", f"{problem}: {consequence}"))


def _delivery_count(path: Path) -> int:
    """Return the place of the next delivery; an error is raised for a damaged queue. The file is not opened itself."""
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("", "-wal"):
            if (source := Path(f"{path}{ending}")).exists():
                shutil.copy(source, Path(folder, f"copy{ending}"))
        if not Path(folder, "copy").exists():
            return 0
        database = sqlite3.connect(Path(folder, "copy"))
        try:
            (state,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(state)
            if database.execute("PRAGMA user_version").fetchone() == (0,):
                return 0
            for crc, content in database.execute("SELECT crc, content FROM deliveries"):
                if zlib.crc32(content) != crc:
                    raise sqlite3.DatabaseError("a delivery is not what was written")
            (count,) = database.execute("SELECT COALESCE(MAX(place) + 1, 0) FROM deliveries").fetchone()
            return int(count)
        finally:
            database.close()


def _inspect_files(result: Inspection, out: Path, limit: int | None) -> None:
    """Compare the rows and the stored readings with the manifest of the checkpoint."""
    assert result.place is not None
    try:
        result.manifest = Manifest.load(result.place / "manifest.json")
    except StateError:
        problem = "is gone or damaged: whether rows are missing is not known"
        result.damage.append(Damage(f"state/{result.place.name}/manifest.json", problem))
        return
    rewritten = set(Rewritten.read(out / "state" / "rewritten"))
    by_problem: dict[str, list[str]] = {}
    for name, how in result.manifest.problems(out, limit):
        if how == "damaged" and name in rewritten and is_readable(out / name):
            continue
        if not name.endswith(".parquet"):
            problem = f"is {how}: late readings of its period correct nothing"
        elif how == "damaged":
            problem = "is not what was written" if is_readable(out / name) else "is damaged: it is set aside"
        else:
            problem = "is gone"
        by_problem.setdefault(problem, []).append(name)
        result.unsound.append(name)
    for problem, names in by_problem.items():
        for group in [names] if len(names) > MOST_FILES else [[name] for name in names]:
            result.damage.append(_of_files(group, problem, result.manifest))


def _of_files(names: Sequence[str], problem: str, manifest: Manifest) -> Damage:
    """Return the damage of one file, or of many with the same problem."""
    one = len(names) == 1
    if not names[0].endswith(".parquet"):
        return Damage(names[0] if one else "state/kept", problem if one else f"{problem}, {len(names):,} files")
    dates = [dates_of(Path(name).parent) for name in names]
    begin, end = min(each.start for each in dates) * DAY, max(each.stop for each in dates) * DAY
    rows = sum(manifest.files[name][2] for name in names)
    count = f"{rows:,} rows" if one else f"{rows:,} rows in {len(names):,} files"
    return Damage(names[0] if one else "data", f"{problem}; {count}", 0, begin, end)


def is_readable(path: Path) -> bool:
    """Return whether a file of rows can be read, or another file is not empty."""
    if path.suffix == ".parquet":
        try:
            file_rows(path)
        except SensormendError:
            return False
    return path.stat().st_size > 0


def _inspect_tables(result: Inspection, out: Path, saved: Mapping[str, Any]) -> None:
    """Compare the settled lines of tables with their checksums."""
    for name in TABLES:
        length, crc = saved.get(Path(name).stem, 0), saved.get(f"{Path(name).stem}_crc", 0)
        # A full table is renamed before a checkpoint.
        places = [out / name, (out / name).with_suffix(".old.csv")]
        if length and not any(_prefix(path, length) == crc for path in places):
            result.damage.append(Damage(name, f"is gone or damaged, with settled lines in its first {length:,} bytes"))
            result.unsound.append(name)


def _prefix(path: Path, length: int) -> int | None:
    """Return the checksum of the first bytes of a file; None where it is shorter."""
    try:
        with path.open("rb") as file:
            content = file.read(length)
    except FileNotFoundError:
        return None
    return zlib.crc32(content) if len(content) == length else None


def _name(path: Path) -> str | None:
    """Return the name of the service in watch.json; None where it cannot be read."""
    try:
        return str(read_json(path).get("name"))
    except SensormendError:
        return None
