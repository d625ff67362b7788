"""Everything that happens to the stream, in order, on disk before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.stream.arrivals import Arrived
from sensormend.stream.codec import arrived_from_bytes, arrived_to_bytes, pack, unpack
from sensormend.stream.events import Event
from sensormend.stream.log import Log
from sensormend.stream.stream import Stream

__all__ = ["End", "Happening", "Journal", "Noted", "Tick", "follow"]


@dataclass(frozen=True)
class Tick:
    """Time went on without a reading, to here."""

    time: int


@dataclass(frozen=True)
class End:
    """Nothing will come any more."""


@dataclass(frozen=True)
class Noted:
    """People know something else now."""

    maintenance: Maintenance


Happening = Arrived | Tick | End | Noted

ARRIVED, OTHER = b"A", b"O"


class Journal:
    """A log of happenings.

    Parameters
    ----------
    folder
        Where it lies.
    """

    def __init__(self, folder: Path) -> None:
        self._log = Log(folder)

    @property
    def next(self) -> int:
        """The number that the next record will have."""
        return self._log.next

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._log.size

    def write(self, happening: Happening) -> int:
        """Return its number when it is on the disk."""
        number = self._log.append(_bytes(happening))
        self._log.sync()
        return number

    def read(self, start: int) -> Iterator[tuple[int, Happening]]:
        """Yield what happened from a record on."""
        for number, content in self._log.read(start):
            yield number, _happening(content)

    def drop(self, before: int) -> None:
        """Forget what a checkpoint has."""
        self._log.drop(before)

    def close(self) -> None:
        """Let go of the file."""
        self._log.close()


def follow(stream: Stream, happening: Happening) -> Iterator[Event]:
    """Let it happen to the stream."""
    if isinstance(happening, Arrived):
        return stream.take(happening)
    if isinstance(happening, Tick):
        return stream.tick(happening.time)
    if isinstance(happening, End):
        return stream.end()
    stream.maintain(happening.maintenance)
    return iter(())


def _bytes(happening: Happening) -> bytes:
    if isinstance(happening, Arrived):
        return ARRIVED + arrived_to_bytes(happening)
    if isinstance(happening, Tick):
        return OTHER + pack({"tick": happening.time}, {})
    if isinstance(happening, End):
        return OTHER + pack({"end": True}, {})
    return OTHER + pack({"maintenance": [astuple(note) for note in happening.maintenance.notes]}, {})


def _happening(content: bytes) -> Happening:
    if content[:1] == ARRIVED:
        return arrived_from_bytes(content[1:])
    header, _ = unpack(content[1:])
    if "tick" in header:
        return Tick(header["tick"])
    if "maintenance" in header:
        return Noted(Maintenance(tuple(Note(*note) for note in header["maintenance"])))
    return End()
