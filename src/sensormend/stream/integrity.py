"""`inspect` finds what is missing or damaged in the output folder of a `watch`, which a `Manifest` lists."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.errors import SensormendError
from sensormend.io.folder import covered, file_rows, parse_dates, parse_span
from sensormend.io.metadata import read_json
from sensormend.readings import DAY, NOTHING
from sensormend.stream.arrivals import Arrived, Damage
from sensormend.stream.codec import input_from_bytes, unpack
from sensormend.stream.service_state import STORE
from sensormend.stream.store import Store, copied

__all__ = ["Inspection", "Manifest", "inspect", "is_readable"]


BLOCK = 1 << 20
"""Bytes that are read at a time."""


@dataclass
class Manifest:
    """The files of rows and the stored readings of an output folder as of a checkpoint.

    Attributes
    ----------
    files
        By path below the folder: size, checksum, and number of rows.
    dates_from, periods_from
        Rows of earlier dates, and readings of earlier periods, may have been dropped since.
    """

    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    dates_from: int | None = None
    periods_from: int | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Manifest:
        """Return the manifest from its `to_dict` after a round trip through JSON."""
        return cls(**{**content, "files": {name: tuple(entry) for name, entry in content["files"].items()}})

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return dict(vars(self))

    def note(self, folder: Path, written: Mapping[Path, int]) -> None:
        """Take in files as they are now, with their numbers of rows; those that are gone are left out."""
        for path, rows in written.items():
            name = path.relative_to(folder).as_posix()
            self.files.pop(name, None)
            if path.exists():
                self.files[name] = (*_checksum(path), rows)

    def merged(self, folder: Path, path: Path) -> None:
        """Take in a file of rows in place of those that were merged into it."""
        names = self._merged_into(path.relative_to(folder).as_posix())
        rows = sum(self.files.pop(name)[2] for name in names)
        self.note(folder, {path: rows})

    def adopt(self, folder: Path, names: Iterable[str]) -> None:
        """Include the changes to files since the manifest was written; `names` were written again."""
        for name in names:
            if name in self.files:
                self.note(folder, {folder / name: self.files[name][2]})
        for name in [name for name in self.files if not (folder / name).exists()]:
            path = folder / name
            wide = [other for other in path.parent.glob("*.parquet") if path in covered([path, other])]
            if wide and name in self.files:
                self.merged(folder, wide[0])
            self.files.pop(name, None)

    def problems(self, folder: Path, limit: int | None = None) -> Iterable[tuple[str, str]]:
        """Yield the files that are missing or damaged, and how: `gone`, `damaged`.

        Parameters
        ----------
        limit
            Only the newest files, up to so many bytes in all, are read; of the others the sizes are compared.
        """
        read = 0
        for name in sorted(self.files, reverse=True):
            size, crc, _ = self.files[name]
            path = folder / name
            if not path.exists():
                if not self._may_be_gone(folder, name):
                    yield name, "gone"
                continue
            if path.stat().st_size != size:
                yield name, "damaged"
                continue
            read += size
            if (limit is None or read <= limit) and _checksum(path) != (size, crc):
                yield name, "damaged"

    def _may_be_gone(self, folder: Path, name: str) -> bool:
        """Return whether a file was dropped or merged after the manifest was written."""
        path = folder / name
        if path.suffix == ".kept":
            return self.periods_from is not None and int(path.stem) < self.periods_from
        if self.dates_from is not None and parse_dates(path.parent).stop <= self.dates_from:
            return True
        return path in covered([path, *path.parent.glob("*.parquet")])

    def _merged_into(self, name: str) -> list[str]:
        """Return the files whose rows are also in this one."""
        part = Path(name).parent
        first, last = parse_span(Path(name))
        spans = {other: parse_span(Path(other)) for other in self.files if Path(other).parent == part and other != name}
        return [other for other, span in spans.items() if first <= span[0] and span[1] <= last]


def _checksum(path: Path) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file."""
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc


MOST_FILES = 5
"""The number of files with the same problem that are listed individually; more become one entry."""

TABLES = ("faults.csv", "rejected.csv")
"""Tables whose settled lines are only there."""


@dataclass
class Inspection:
    """What `inspect` found.

    Attributes
    ----------
    damage
        All that is missing or damaged.
    manifest
        The files as of the checkpoint, without those that are gone.
    unsound
        The files that are missing or damaged, by their paths in the folder.
    """

    damage: list[Damage] = field(default_factory=list)
    manifest: Manifest = field(default_factory=Manifest)
    unsound: list[str] = field(default_factory=list)


def inspect(out: Path, store: Store | None = None, limit: int | None = None) -> Inspection:
    """Return what is missing or damaged in an output folder, in which no service runs; nothing is changed.

    Parameters
    ----------
    store
        The store of the folder; by default a copy of it.
    limit
        As for `Manifest.problems`.
    """
    if store is None:
        with copied(out / "state" / STORE) as copy:
            return inspect(out, copy, limit)
    result, acknowledged = Inspection(), store.acknowledged.record
    saved = _inspect_store(result, store)
    if saved:
        result.manifest = Manifest.of(saved["manifest"])
        _inspect_files(result, out, store.rewritten, limit)
        _inspect_tables(result, out, saved["tables"])
    if store.unsound["acknowledged"]:
        result.damage.append(
            Damage("state/acknowledged", "is gone or damaged: a loss of what came last would not show")
        )
    if "name" in acknowledged and _name(out / "state" / "watch.json") != acknowledged["name"]:
        result.damage.append(Damage("state/watch.json", "is gone or damaged: it is written again"))
        result.unsound.append("state/watch.json")
    return result


def _inspect_store(result: Inspection, store: Store) -> dict[str, Any]:
    """Compare the store with what was acknowledged, and return what the service saved with the checkpoint."""
    acknowledged = store.acknowledged.record
    last = acknowledged.get("checkpoint") or {}

    def note(problem: str, readings: int = 0, start: int | None = None, end: int | None = None) -> None:
        if start is not None and end is not None and end < start:
            # Everything up to the newest reading was final: nothing that was open is gone.
            start = end = None
        result.damage.append(Damage(f"state/{STORE}", problem, readings, start, end))

    if store.problem:
        note(f"is damaged ({store.problem}): a start sets it aside, and uses what can be read of it")
    elif store.gone and not last:
        note("is gone")
    saved: dict[str, Any] = {}
    if store.checkpoint is not None:
        number, content = store.checkpoint
        saved = unpack(content)[0]
    else:
        number = int(last.get("number", 0))
        if last or store.unsound["checkpoint"]:
            how = "is gone, with its checkpoint" if store.gone else "has lost its checkpoint"
            problem = f"{how}: what was learned is lost, and the model begins anew"
            note(problem, last.get("open", 0), last.get("final"), last.get("newest"))
    _inspect_inputs(note, store, number, saved or {"total": last.get("readings", 0), "newest": last.get("newest")})
    gone = store.unsound["outbox"] + max(0, int(acknowledged.get("deliveries", 0)) - store.next)
    if gone:
        waiting = min(gone, int(acknowledged.get("waiting", 0)))
        note(f"lacks {gone:,} deliveries, {waiting:,} of which waited for sinks")
    if store.unsound["sinks"]:
        note(f"does not know what {store.unsound['sinks']} sinks have: they get again what is left")
    return saved


def _inspect_inputs(note: Callable[..., None], store: Store, number: int, saved: Mapping[str, Any]) -> None:
    """Count the readings that are lacking, by the counts beside the inputs and in `state/acknowledged`."""
    acknowledged = store.acknowledged.record
    count, newest, again = int(saved["total"]), saved["newest"], saved.get("mark") is not None

    def lacking(until: int, readings: int, start: int | None, end: int | None, more: str = "") -> None:
        note(f"lacks {until - number:,} inputs that were acknowledged{more}", readings, start, end)

    for own, before, content in store.inputs(number):
        item = input_from_bytes(content)
        times = item.readings.time if isinstance(item, Arrived) else NOTHING.time
        if own > number:
            lacking(own, max(before - count, 0), newest, int(times[0]) if times.size else newest)
        number, count = own + 1, max(count, before) + times.size
        if isinstance(item, Arrived):
            again |= item.mark is not None
            newest = item.newest(newest)
    if number < store.next_input:
        # A source that can be read again continues after the last input that is there.
        readings = max(int(acknowledged.get("readings", 0)) - count, 0)
        if again:
            lacking(store.next_input, 0, None, None, ": they are read again from the source")
        else:
            lacking(store.next_input, readings, newest, acknowledged.get("newest"))


def _inspect_files(result: Inspection, out: Path, rewritten: Collection[str], limit: int | None) -> None:
    """Compare the rows and the stored readings with the manifest of the checkpoint."""
    by_problem: dict[str, list[str]] = {}
    for name, how in result.manifest.problems(out, limit):
        if how == "damaged" and name in rewritten and is_readable(out / name):
            continue
        if not name.endswith(".parquet"):
            problem = f"is {how}: late readings of its period correct nothing"
        elif how == "damaged":
            problem = "is not what was written" if is_readable(out / name) else "is damaged: a start sets it aside"
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
    dates = [parse_dates(Path(name).parent) for name in names]
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
    """Return the checksum of the first bytes of a file; None if it is shorter."""
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
