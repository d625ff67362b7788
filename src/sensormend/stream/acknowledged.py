"""`Acknowledged` records beside the journal how much was acknowledged, so that a loss of the journal is noticed."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sensormend.files import Closing, sync

__all__ = ["Acknowledged"]

SLOT = 1024
"""Bytes of a record. There are two, which are written in turn: a torn write leaves the other one."""


class Acknowledged(Closing):
    """A small file with the newest record of what was acknowledged; after a power cut it may have an older one.

    Attributes
    ----------
    record
        What was written last; empty before the first record.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "acknowledged")
    ...     with Acknowledged(path) as file:
    ...         file.write({"number": 7})
    ...         file.write({"number": 8})
    ...     Acknowledged.read(path)["number"]
    8
    """

    def __init__(self, path: Path) -> None:
        self.record: dict[str, Any] = self.read(path) or {}
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        self._turn = int(self.record.pop("turn", 0))
        if os.fstat(self._handle).st_size != 2 * SLOT or not self._turn:
            os.ftruncate(self._handle, 2 * SLOT)
            self.write(self.record)
            self.sync()
            sync(path.parent)

    @staticmethod
    def read(path: Path) -> dict[str, Any] | None:
        """Return the newest record of a file, with its `turn`; None where there is none or no sound one."""
        try:
            content = path.read_bytes()
        except OSError:
            return None
        newest: dict[str, Any] | None = None
        for start in (0, SLOT):
            crc, _, text = content[start : start + SLOT].rstrip(b" \0").partition(b" ")
            try:
                if int(crc, 16) != zlib.crc32(text):
                    continue
                record = json.loads(text)
                if newest is None or record["turn"] > newest["turn"]:
                    newest = record
            except (ValueError, KeyError, TypeError):
                continue
        return newest

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a record; it survives the end of this process, and a power cut after `sync`."""
        turn = self._turn + 1
        text = json.dumps({**record, "turn": turn}, separators=(",", ":")).encode("ascii")
        content = b"%08x %s" % (zlib.crc32(text), text)
        assert len(content) <= SLOT
        # After a failure the same place is written again: the other one has the newest whole record.
        self._put(content.ljust(SLOT), turn % 2 * SLOT)
        self._turn, self.record = turn, dict(record)

    def sync(self) -> None:
        """Wait until it is on disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _put(self, content: bytes, start: int) -> None:
        os.lseek(self._handle, start, os.SEEK_SET)
        while content:
            content = content[os.write(self._handle, content) :]
