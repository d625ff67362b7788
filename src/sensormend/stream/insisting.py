"""A disk that is full is waited for, and for a while a folder that is gone."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sensormend.errors import StorageError
from sensormend.stream.logs import Once
from sensormend.stream.metrics import NoMetrics

__all__ = ["Insisting", "StoppedError"]

_Result = TypeVar("_Result")

RETRY = 1.0
"""Seconds between two tries."""

GONE = 60.0
"""Seconds for which a folder that is gone is waited for: a disk may be mounted again, and a folder moved back."""

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)

_log = logging.getLogger("sensormend.stream")


class StoppedError(Exception):
    """Somebody wants it to end while it cannot go on."""


class Insisting:
    """Does what needs the disk when the disk lets us; says so once, and nothing goes on before that.

    A full disk is waited for until there is room. A folder that was deleted, moved or unmounted will hardly come back:
    after `GONE` seconds that is an error.

    Parameters
    ----------
    stopping
        Set when somebody wants it to end.
    metrics
        Told why nothing can be written.
    folder
        Without which nothing is done: much of what is written would make it anew, without what was in it.
    """

    def __init__(self, stopping: threading.Event, metrics: NoMetrics, folder: Path) -> None:
        self._stopping, self._metrics, self._folder = stopping, metrics, folder
        self._first: tuple[int, int] | None = None
        self._full = Once(_log, "the disk cannot be written", "the disk can be written again")
        self._gone = Once(_log, f"{folder} is gone, or something in it", f"{folder} is there again")

    def __call__(self, act: Callable[[], _Result]) -> _Result:
        """Do it, which may be begun several times.

        Raises
        ------
        StoppedError
            It could not be done, and nobody wants to wait for it.
        StorageError
            A folder is gone, and does not come back.
        """
        gone_since: float | None = None
        while True:
            try:
                if not self._is_there():
                    raise FileNotFoundError(errno.ENOENT, "it is not the folder that it was", str(self._folder))
                done = act()
            except (OSError, StorageError) as error:
                said = " ".join(str(error).split())
                gone_since = (gone_since or time.monotonic()) if self._is_gone(error) else None
                if gone_since is not None:
                    said = f"{self._folder} is gone, or something in it: {said}"
                # Told before it is said: whoever hears it may ask.
                self._metrics.disk(said)
                self._metrics.beat()
                (self._full if gone_since is None else self._gone).begin(error=said)
                if gone_since is not None and time.monotonic() - gone_since > GONE:
                    raise StorageError(
                        f"{said}; waited for {GONE:.0f} s. What was acknowledged is in its journal: mount or move it "
                        "back and start again, or watch into another OUT"
                    ) from error
                # Not `wait`: a signal's handler that sets it meanwhile could wait for us.
                time.sleep(RETRY)
                if self._stopping.is_set():
                    why = "while the disk was full" if gone_since is None else "while its folder was gone"
                    raise StoppedError(why) from error
            else:
                self._full.end()
                self._gone.end()
                self._metrics.disk(None)
                return done

    def _is_gone(self, error: OSError | StorageError) -> bool:
        """Say whether it is a folder or a file that is missing, and not room."""
        cause = error if isinstance(error, OSError) else error.__cause__
        missing = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
        return missing or not self._is_there()

    def _is_there(self) -> bool:
        """Say whether the folder is the one that was there at first: another of its name has nothing in it."""
        try:
            seen = self._folder.stat()
        except OSError:
            return False
        self._first = self._first or (seen.st_dev, seen.st_ino)
        return self._first == (seen.st_dev, seen.st_ino)
