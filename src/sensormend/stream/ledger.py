"""CSV files that grow for years: what is settled stays, and only the rest is written again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from sensormend.files import beside
from sensormend.io.metadata import csv_lines

__all__ = ["Ledger"]

BLOCK = 1 << 20


class Ledger:
    """A table of which the first `length` bytes are settled.

    Parameters
    ----------
    path, header
        Where it lies and what its columns are.
    length
        How much of it is settled, as a checkpoint has it; what was written since is written again.
    limit
        From so many bytes on the settled part is put aside as `NAME.old.csv` and a new one begun; never by default.
    """

    def __init__(self, path: Path, header: Sequence[str], length: int = 0, *, limit: int | None = None) -> None:
        self.path, self.header, self.length, self._limit = path, header, length, limit
        if length and (not path.exists() or path.stat().st_size < length):
            self.length = 0

    def write(self, settled: Iterable[Sequence[object]], going_on: Iterable[Sequence[object]] = ()) -> None:
        """Settle some lines, and have others after them that may change; readers see the old file or the new one."""
        lines = csv_lines(self.header, settled).encode()
        if not self.length:
            lines = csv_lines(self.header, [self.header]).encode() + lines
        with beside(self.path) as new, new.open("wb") as file:
            if self.length:
                with self.path.open("rb") as old:
                    _copy(old.fileno(), file.fileno(), self.length)
                file.seek(0, os.SEEK_END)
            file.write(lines)
            file.write(csv_lines(self.header, going_on).encode())
            file.flush()
            os.fsync(file.fileno())
        self.length += len(lines)

    def append(self, lines: Iterable[Sequence[object]]) -> None:
        """Settle some lines at the end of the file, without a copy of it."""
        content = csv_lines(self.header, lines).encode()
        if not self.length:
            content = csv_lines(self.header, [self.header]).encode() + content
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(content)
        self.length += len(content)

    def turn(self) -> None:
        """Put a file that is full aside; to be called when no state refers to it any more."""
        if self._limit is not None and self.length > self._limit:
            shutil.move(self.path, self.path.with_suffix(".old.csv"))
            self.length = 0


def _copy(source: int, target: int, length: int) -> None:
    while length > 0:
        block = os.read(source, min(length, BLOCK))
        if not block:
            raise OSError("the file became shorter while it was copied")
        length -= len(block)
        while block:
            block = block[os.write(target, block) :]
