"""A disk that is full is waited for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sensormend.errors import SensormendError
from sensormend.live.logs import Once
from sensormend.live.metrics import NoMetrics

__all__ = ["Insisting", "StoppedError"]

_Result = TypeVar("_Result")

RETRY = 1.0
"""Seconds between two tries."""

_log = logging.getLogger("sensormend.live")


class StoppedError(Exception):
    """Somebody wants it to end while it cannot go on."""


class Insisting:
    """Does what needs the disk when the disk lets us; says so once, and nothing goes on before that.

    Parameters
    ----------
    stopping
        Set when somebody wants it to end.
    metrics
        Told why nothing can be written.
    """

    def __init__(self, stopping: threading.Event, metrics: NoMetrics) -> None:
        self._stopping, self._metrics = stopping, metrics
        self._full = Once(_log, "the disk cannot be written", "the disk can be written again")

    def __call__(self, act: Callable[[], _Result]) -> _Result:
        """Do it, which may be begun several times.

        Raises
        ------
        StoppedError
            It could not be done, and nobody wants to wait for it.
        """
        while True:
            try:
                done = act()
            except (OSError, SensormendError) as error:
                # Those of our own kinds that say more are no matter of the disk.
                if isinstance(error, SensormendError) and type(error) is not SensormendError:
                    raise
                said = " ".join(str(error).split())
                # Told before it is said: whoever hears it may ask.
                self._metrics.disk(said)
                self._metrics.beat()
                self._full.begin(error=said)
                # Not `wait`: a signal's handler that sets it meanwhile could wait for us.
                time.sleep(RETRY)
                if self._stopping.is_set():
                    raise StoppedError("while the disk was full") from error
            else:
                self._full.end()
                self._metrics.disk(None)
                return done
