"""`DiskRetry` tries again what the disk refuses: for as long as it is full, and for a while when a folder is gone."""

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
from sensormend.stream.metrics import Metrics

__all__ = ["DiskRetry", "StoppedError"]

_Result = TypeVar("_Result")

RETRY = 1.0
"""Seconds between two tries."""

GONE = 60.0
"""Seconds for which a folder that is gone is waited for: a disk may be mounted again, and a folder moved back."""

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)

_log = logging.getLogger("sensormend.stream")


class StoppedError(Exception):
    """The service was stopped while it could not go on."""


class DiskRetry:
    """Calls what needs the disk until the disk lets it; logs that once, and nothing goes on before.

    A full disk is waited for until there is space. A folder that was deleted, moved or unmounted will hardly come back:
    after `GONE` seconds that is an error.

    Parameters
    ----------
    stopping
        Set when the service is to end.
    metrics
        Gets the reason why nothing can be written.
    folder
        Without which nothing is tried: much of what is written would make it anew, without what was in it.
    """

    def __init__(self, stopping: threading.Event, metrics: Metrics, folder: Path) -> None:
        self._stopping, self._metrics, self._folder = stopping, metrics, folder
        self._identity: tuple[int, int] | None = None
        self._full = Once(_log, "the disk cannot be written", "the disk can be written again")
        self._gone = Once(_log, f"{folder} is gone, or something in it", f"{folder} is back")

    def __call__(self, act: Callable[[], _Result]) -> _Result:
        """Call it, perhaps several times, and return what it returns.

        Raises
        ------
        StoppedError
            It could not be done before the service was stopped.
        StorageError
            A folder is gone, and does not come back.
        """
        gone_since: float | None = None
        while True:
            try:
                if not self._folder_is_the_same():
                    raise FileNotFoundError(errno.ENOENT, "it is not the folder that it was", str(self._folder))
                result = act()
            except (OSError, StorageError) as error:
                gone_since = (gone_since or time.monotonic()) if self._is_missing(error) else None
                self._wait(error, gone_since)
            else:
                if self._metrics.disk_error is not None:
                    self._full.end()
                    self._gone.end()
                    self._metrics.disk_error = None
                return result

    def _wait(self, error: OSError | StorageError, gone_since: float | None) -> None:
        reason = " ".join(str(error).split())
        if gone_since is not None:
            reason = f"{self._folder} is gone, or something in it: {reason}"
        # Set before it is logged: whoever reads the log may ask for the health.
        self._metrics.disk_error = reason
        self._metrics.beat()
        (self._full if gone_since is None else self._gone).begin(error=reason)
        if gone_since is not None and time.monotonic() - gone_since > GONE:
            raise StorageError(
                f"{reason}; waited for {GONE:.0f} s. What was acknowledged is in its journal: mount or move it "
                "back and start again, or watch into another OUT"
            ) from error
        # Not `wait`: a signal's handler that sets it meanwhile could wait for us.
        time.sleep(RETRY)
        if self._stopping.is_set():
            why = "while the disk was full" if gone_since is None else "while its folder was gone"
            raise StoppedError(why) from error

    def _is_missing(self, error: OSError | StorageError) -> bool:
        """Return whether a folder or a file is missing, rather than space."""
        cause = error if isinstance(error, OSError) else error.__cause__
        missing = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
        return missing or not self._folder_is_the_same()

    def _folder_is_the_same(self) -> bool:
        """Return whether the folder is the one of the start: another of its name has nothing in it."""
        try:
            seen = self._folder.stat()
        except OSError:
            return False
        self._identity = self._identity or (seen.st_dev, seen.st_ino)
        return self._identity == (seen.st_dev, seen.st_ino)
