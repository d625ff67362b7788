"""What people write down about their sensors while they are watched."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from sensormend.errors import ConfigError
from sensormend.pipeline.maintenance import Maintenance
from sensormend.stream.logs import Once

__all__ = ["Notes"]

LOOK = 5.0
"""Seconds between two looks."""

_log = logging.getLogger("sensormend.stream")


class Notes:
    """maintenance.csv, read again when it changes; one that cannot be read is told about, and changes nothing.

    Parameters
    ----------
    path
        Where it lies; None where nobody keeps one.

    Raises
    ------
    ConfigError
        It cannot be read at the start.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._next = 0.0
        self._illegible = Once(
            _log, "the notes on maintenance cannot be read; what they said before holds", "they can be read again"
        )
        self._news: Maintenance | None = Maintenance() if path is None else self._read(path)

    def news(self) -> Maintenance | None:
        """Return what they say, where that may be something else than before."""
        if self._news is None and self._path is not None and time.monotonic() >= self._next:
            try:
                self._news = self._read(self._path)
            except ConfigError as error:
                self._illegible.begin(error=error)
            else:
                self._illegible.end()
        news, self._news = self._news, None
        return news

    def _read(self, path: Path) -> Maintenance | None:
        self._next = time.monotonic() + LOOK
        try:
            found = path.stat()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp == self._seen:
            return None
        notes = Maintenance.read(path)
        self._seen = stamp
        return notes
