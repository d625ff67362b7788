"""`PipeSource` reads lines on standard input, or on any pipe: each is a message."""

from __future__ import annotations

import os
import select
import time

from sensormend.io.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock
from sensormend.stream.formats.decoding import LARGEST, Decoder
from sensormend.stream.formats.values import TOO_LARGE

__all__ = ["PipeSource"]

BLOCK = 1 << 18
MOST = 4 << 20
"""Bytes of one `read`."""


class PipeSource(Source):
    """Newline JSON: whatever `sensormend.stream.formats.decoding.Decoder` takes, a message per line.

    Parameters
    ----------
    options
        Which key is what, where that cannot be recognised.
    descriptor
        Where from; standard input by default.
    """

    def __init__(self, options: Options | None = None, descriptor: int = 0) -> None:
        self._decoder = Decoder(options)
        self._descriptor = descriptor
        self._rest: list[bytes] = []
        self._held = 0
        self._line = self._given = 0
        self._rejected: list[Rejected] = []
        self._over = False
        self._skipping = False

    def read(self, wait: float) -> Arrived | None:
        """Return what has come; see `Source.read`."""
        if self._over and self._line == self._given:
            return None
        end = time.monotonic() + wait
        took = 0
        while took < MOST and not self._over:
            # What is there is taken; for more there is no waiting.
            left = 0.0 if self._line > self._given else max(end - time.monotonic(), 0.0)
            if not select.select([self._descriptor], [], [], left)[0]:
                break
            block = os.read(self._descriptor, BLOCK)
            took += len(block)
            self._take(block)
        if self._line == self._given:
            return None if self._over else Arrived(NOTHING, clock())
        readings, refused, positions = self._decoder.take()
        rejected, self._rejected, self._given = [*self._rejected, *refused], [], self._line
        return Arrived(readings, clock(), rejected, positions)

    def _take(self, block: bytes) -> None:
        self._over = not block
        *lines, rest = block.split(b"\n")
        received = clock()
        for line in lines:
            self._message(b"".join([*self._rest, line]), received)
            self._rest, self._held, self._skipping = [], 0, False
        self._rest.append(rest)
        self._held += len(rest)
        if self._held > LARGEST:
            # A line without end must not fill the memory; its beginning is enough for the rejection.
            self._rest, self._held, self._skipping = [b"".join(self._rest)[:LARGEST]], 0, True
        if self._over and any(self._rest):
            self._message(b"".join(self._rest), received)

    def _message(self, line: bytes, received: int) -> None:
        self._line += 1
        where = f"line {self._line}"
        if self._skipping:
            self._rejected.append(Rejected(where, TOO_LARGE, line[:120].decode(errors="replace")))
        elif line.strip():
            self._decoder.add(line, received, None, where)
