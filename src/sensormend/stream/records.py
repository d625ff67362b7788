"""Records of a log as bytes: how one is written, and what of a file is whole."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import IO

from sensormend.errors import StateError

__all__ = ["HEAD", "broken", "length_of", "record", "walk", "whole"]

MAGIC = b"\xffSM\xfe"
"""How a record begins. No UTF-8 text has these bytes, so names and payloads in a record are not taken for another."""

HEAD = struct.Struct("<4sIQQI")
"""Magic, length of the payload, number, how many records were safe by then, crc32 of all that and of the payload."""


def record(payload: bytes, number: int, safe: int) -> bytes:
    """Return a record.

    Parameters
    ----------
    safe
        How many records are known to be on the disk. One that is broken although a later record says so was not torn by
        a kill or a power cut.
    """
    head = HEAD.pack(MAGIC, len(payload), number, safe, 0)[:-4]
    return b"".join((head, zlib.crc32(payload, zlib.crc32(head)).to_bytes(4, "little"), payload))


def walk(path: Path, first: int) -> tuple[list[int], int]:
    """Return where the whole records of a file begin, and where the last of them ends.

    Raises
    ------
    StateError
        One that was safe once is broken.
    """
    offsets: list[int] = []
    offset, size = 0, path.stat().st_size
    with path.open("rb") as opened:
        while head := opened.read(HEAD.size):
            length = length_of(head, first + len(offsets))
            # A length that the file cannot hold would be asked for in memory.
            if length is None or length > size - offset - HEAD.size or not whole(head, opened.read(length)):
                break
            offsets.append(offset)
            offset += HEAD.size + length
        if offset < size and _was_safe(opened, first + len(offsets), offset, size):
            raise broken(path, offset)
    return offsets, offset


def _was_safe(opened: IO[bytes], number: int, offset: int, size: int) -> bool:
    """Say whether a whole record after this place tells that the broken record here was on the disk once.

    Whole records after it alone do not: a power cut may have taken any part of what was not synced yet.
    """
    opened.seek(offset + 1)
    rest = opened.read()
    at = rest.find(MAGIC)
    while at >= 0:
        head = rest[at : at + HEAD.size]
        if len(head) == HEAD.size:
            _, length, later, safe, _ = HEAD.unpack(head)
            start = at + HEAD.size
            likely = number < later < number + size and number < safe <= later and start + length <= len(rest)
            if likely and whole(head, rest[start : start + length]):
                return True
        at = rest.find(MAGIC, at + 1)
    return False


def length_of(head: bytes, number: int) -> int | None:
    """Return the length of the payload; None where that is not the head of this record."""
    if len(head) < HEAD.size:
        return None
    magic, length, found, _, _ = HEAD.unpack(head)
    return int(length) if magic == MAGIC and found == number else None


def whole(head: bytes, payload: bytes) -> bool:
    """Say whether this is the payload that the head tells of."""
    _, length, _, _, crc = HEAD.unpack(head)
    return bool(len(payload) == length and zlib.crc32(payload, zlib.crc32(head[:-4])) == crc)


def broken(path: Path, offset: int) -> StateError:
    """Return the error for a record that was safe once."""
    return StateError(f"{path} is broken at byte {offset}: what was written there is not what is there now")
