"""`Manifest` lists files with their sizes and checksums, so that what is missing or damaged is noticed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.errors import StateError
from sensormend.files import sync
from sensormend.io.folder import covered, dates_of, span_of
from sensormend.io.metadata import read_json, write_json

__all__ = ["Manifest", "Rewritten"]

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
    def load(cls, path: Path) -> Manifest:
        """Read a manifest.

        Raises
        ------
        StateError
            It is missing or damaged.
        """
        try:
            content = read_json(path)
            files = {name: (size, crc, rows) for name, (size, crc, rows) in content["files"].items()}
            manifest = cls(files, content["dates_from"], content["periods_from"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{path} is missing or damaged") from error
        if content.get("crc") != manifest._crc():
            raise StateError(f"{path} is damaged")
        return manifest

    def save(self, path: Path) -> None:
        """Write it."""
        write_json(path, {**self._content(), "crc": self._crc()})

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
        """Take in what was done to files after the manifest was written, of which `names` were written again."""
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
        if self.dates_from is not None and dates_of(path.parent).stop <= self.dates_from:
            return True
        return path in covered([path, *path.parent.glob("*.parquet")])

    def _merged_into(self, name: str) -> list[str]:
        """Return the files whose rows are also in this one."""
        part = Path(name).parent
        first, last = span_of(Path(name))
        spans = {other: span_of(Path(other)) for other in self.files if Path(other).parent == part and other != name}
        return [other for other, span in spans.items() if first <= span[0] and span[1] <= last]

    def _content(self) -> dict[str, Any]:
        return {"files": self.files, "dates_from": self.dates_from, "periods_from": self.periods_from}

    def _crc(self) -> int:
        return zlib.crc32(repr((sorted(self.files.items()), self.dates_from, self.periods_from)).encode())


class Rewritten:
    """The files of a manifest that were written again since: their names are on disk before they are replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names = set(self.read(path))

    @staticmethod
    def read(path: Path) -> list[str]:
        """Return the names."""
        try:
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def add(self, name: str) -> None:
        """Add a name durably."""
        if name in self._names:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        sync(self.path)
        if not self._names:
            sync(self.path.parent)
        self._names.add(name)

    def clear(self) -> None:
        """Forget all names, when a manifest has the files as they are."""
        if self._names:
            self.path.unlink(missing_ok=True)
            self._names = set()


def _checksum(path: Path) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file."""
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc
