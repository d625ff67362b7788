"""`DiskRetry` retries disk operations while the disk is full or too many files are open, or a folder is gone."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sensormend.errors import StorageError, one_line
from sensormend.stream.logs import ConditionLog
from sensormend.stream.metrics import Metrics

__all__ = ["DiskRetry", "StoppedError"]

_Result = TypeVar("_Result")

RETRY_INTERVAL = 1.0
"""Seconds between two attempts."""

GONE_WAIT = 60.0
"""Seconds to wait for a folder that is gone: a disk may be mounted again, and a folder moved back."""

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

_log = logging.getLogger("sensormend.stream")


class StoppedError(Exception):
    """The service was stopped while it could not continue."""


class DiskRetry:
    """Calls a function that writes to disk until it succeeds; failures are logged once, and the caller waits.

    It waits for a full disk until there is space, and for a free descriptor where too many files are open. A folder
    that was deleted, moved or unmounted is unlikely to come back: after `GONE_WAIT` seconds that is an error. The
    folder has to exist before each attempt; otherwise some writes would create it again, empty.
    """

    def __init__(self, stopping: threading.Event, metrics: Metrics, folder: Path) -> None:
        self._stopping, self._metrics, self._folder = stopping, metrics, folder
        self._identity: tuple[int, int] | None = None
        self._full = ConditionLog(_log, "the disk cannot be written", "the disk can be written again")
        self._no_descriptor = ConditionLog(_log, "too many files are open", "files can be opened again")
        self._gone = ConditionLog(_log, f"{folder} is gone, or something in it", f"{folder} is back")

    def __call__(self, act: Callable[[], _Result]) -> _Result:
        """Call it until it succeeds, and return its result; a `StoppedError` if the service is stopped before that."""
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
                    for condition in (self._full, self._no_descriptor, self._gone):
                        condition.end()
                    self._metrics.disk_error = None
                return result

    def _wait(self, error: OSError | StorageError, gone_since: float | None) -> None:
        reason, condition, what = one_line(error), self._full, "the disk was full"
        if gone_since is not None:
            reason = f"{self._folder} is gone, or something in it: {reason}"
            condition, what = self._gone, "its folder was gone"
        elif _no_descriptor_left(error):
            reason = f"too many files are open; raise the limit (ulimit -n, or LimitNOFILE of the unit): {reason}"
            condition, what = self._no_descriptor, "too many files were open"
        # Set before it is logged: a reader of the log may query the health at once.
        self._metrics.disk_error = reason
        self._metrics.beat()
        condition.begin(error=reason)
        if gone_since is not None and time.monotonic() - gone_since > GONE_WAIT:
            raise StorageError(
                f"{reason}; waited for {GONE_WAIT:.0f} s. What was acknowledged is stored there: mount or move it "
                "back and start again, or watch into another OUT"
            ) from error
        # Not `Event.wait`: a signal handler that sets the event meanwhile could deadlock.
        time.sleep(RETRY_INTERVAL)
        if self._stopping.is_set():
            raise StoppedError(f"while {what}") from error

    def _is_missing(self, error: OSError | StorageError) -> bool:
        """Return whether the cause is a missing folder or file rather than missing space."""
        cause = error if isinstance(error, OSError) else error.__cause__
        missing = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
        return missing or not self._folder_is_the_same()

    def _folder_is_the_same(self) -> bool:
        """Return whether the folder is still the one of the start, not a new one of the same name."""
        try:
            status = self._folder.stat()
        except OSError:
            return False
        self._identity = self._identity or (status.st_dev, status.st_ino)
        return self._identity == (status.st_dev, status.st_ino)


def _no_descriptor_left(error: OSError | StorageError) -> bool:
    """Return whether no further file can be opened; errors of SQLite and DuckDB do not always say so."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTOR:
        return True
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as failure:
        return failure.errno in _NO_DESCRIPTOR
    return False
