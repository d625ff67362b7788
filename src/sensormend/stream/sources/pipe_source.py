"""`PipeSource` reads messages from standard input or another pipe, one per line."""

from __future__ import annotations

import os
import select
import time

from sensormend.pipeline.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.arrivals import Arrived, Rejected, Source, clock
from sensormend.stream.formats.decoding import LARGEST, Decoder
from sensormend.stream.formats.values import TOO_LARGE

__all__ = ["PipeSource"]

BLOCK = 1 << 18
MOST = 4 << 20
"""The maximum number of bytes of one system call, and of one `read`."""


class PipeSource(Source):
    """Newline JSON: each line is a message as `sensormend.stream.formats.decoding.Decoder` takes it."""

    def __init__(self, options: Options | None = None, descriptor: int = 0, form: str | None = None) -> None:
        self.decoder = Decoder(options, form=form)
        self.units = self.decoder.units
        self._descriptor = descriptor
        self._partial = bytearray()
        self._too_long = False
        self._line = self._returned = 0
        self._rejected: list[Rejected] = []
        self._ended = False

    def read(self, wait: float) -> Arrived | None:
        """Return the new inputs; see `Source.read`."""
        if self._ended and self._line == self._returned:
            return None
        end = time.monotonic() + wait
        size = 0
        while size < MOST and not self._ended:
            # With the first line the waiting ends.
            timeout = 0.0 if self._line > self._returned else max(end - time.monotonic(), 0.0)
            if not select.select([self._descriptor], [], [], timeout)[0]:
                break
            block = os.read(self._descriptor, BLOCK)
            size += len(block)
            self._add(block)
        if self._line == self._returned:
            return None if self._ended else Arrived(NOTHING, clock())
        readings, refused, positions = self.decoder.take()
        rejected, self._rejected, self._returned = [*self._rejected, *refused], [], self._line
        return Arrived(readings, clock(), rejected, positions)

    def _add(self, block: bytes) -> None:
        self._ended = not block
        *lines, rest = block.split(b"\n")
        received = clock()
        for line in lines:
            self._decode(bytes(self._partial) + line, received)
            self._partial.clear()
            self._too_long = False
        self._partial += rest
        if len(self._partial) > LARGEST:
            # An endless line must not fill the memory; its beginning is enough for the rejection.
            del self._partial[LARGEST:]
            self._too_long = True
        if self._ended and self._partial:
            self._decode(bytes(self._partial), received)

    def _decode(self, line: bytes, received: int) -> None:
        self._line += 1
        where = f"line {self._line}"
        if self._too_long:
            self._rejected.append(Rejected(where, TOO_LARGE, line[:120].decode(errors="replace")))
        elif line.strip():
            self.decoder.add(line, received, None, where)
