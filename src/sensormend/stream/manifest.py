"""`Manifest` lists files with their sizes and checksums, so that what is missing or damaged is noticed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensormend.io.folder import covered, dates_of, parse_span

__all__ = ["Manifest"]

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
        """Return the manifest whose `to_dict` has gone through JSON."""
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
