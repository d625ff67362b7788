"""The few flatbuffers that an Arrow file needs, written and read by hand.

A table is a mapping from the numbers of its fields to what they hold. What a table refers to stands after it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Scalar", "Structs", "Table", "TableReader", "encode"]


@dataclass(frozen=True)
class Scalar:
    """A number, with its `struct` code: b, B, h, i, q, ?."""

    code: str
    value: int


@dataclass(frozen=True)
class Structs:
    """A vector of structs, with the `struct` code of one of them; all are aligned to 8 bytes."""

    code: str
    values: Sequence[tuple[int, ...]]


Table = Mapping[int, "Scalar | str | Structs | Mapping[int, Any] | Sequence[Mapping[int, Any]]"]


def encode(root: Table) -> bytes:
    """Return a table, and all that it refers to, as a flatbuffer whose length is a multiple of 8."""
    out = bytearray(8)
    struct.pack_into("<I", out, 0, _table(out, root))
    _pad(out, 8)
    return bytes(out)


def _table(out: bytearray, table: Table) -> int:
    """Append a table and return where it begins."""
    at, places = 4, {}
    for number, held in table.items():
        size = struct.calcsize(held.code) if isinstance(held, Scalar) else 4
        at += -at % size
        places[number] = at
        at += size
    slots = [places.get(number, 0) for number in range(max(places, default=-1) + 1)]
    directory = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), at, *slots)
    out += bytes(-(len(out) + len(directory)) % 8) + directory
    start = len(out)
    out += struct.pack("<i", len(directory)) + bytes(at - 4)
    for number, held in table.items():
        place = start + places[number]
        if isinstance(held, Scalar):
            struct.pack_into(f"<{held.code}", out, place, held.value)
        else:
            struct.pack_into("<I", out, place, _object(out, held) - place)
    return start


def _object(out: bytearray, held: Any) -> int:
    """Append what a field refers to and return where it begins."""
    if isinstance(held, Mapping):
        return _table(out, held)
    if isinstance(held, str):
        text = held.encode()
        _pad(out, 4)
        start = len(out)
        out += struct.pack("<I", len(text)) + text + b"\0"
        return start
    if isinstance(held, Structs):
        out += bytes(-(len(out) + 4) % 8)
        start = len(out)
        out += struct.pack("<I", len(held.values)) + b"".join(struct.pack(f"<{held.code}", *one) for one in held.values)
        return start
    _pad(out, 4)
    start = len(out)
    out += struct.pack("<I", len(held)) + bytes(4 * len(held))
    for place, table in zip(range(start + 4, len(out), 4), held, strict=True):
        struct.pack_into("<I", out, place, _table(out, table) - place)
    return start


def _pad(out: bytearray, size: int) -> None:
    out += bytes(-len(out) % size)


class TableReader:
    """A table in a flatbuffer. What points outside the buffer raises `ValueError`.

    Examples
    --------
    >>> table = TableReader.root(encode({0: "name", 2: Scalar("h", -3), 4: [{0: Scalar("?", 1)}, {}]}))
    >>> table.text(0), table.number(2, "h"), table.number(3, "q"), [one.number(0, "?") for one in table.tables(4)]
    ('name', -3, 0, [True, 0])
    """

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        directory = start - self._read("i", start)
        size = self._read("H", directory)
        self._slots = [self._read("H", directory + at) for at in range(4, size, 2)]

    @classmethod
    def root(cls, data: bytes) -> TableReader:
        """Return the table that a flatbuffer is."""
        if len(data) < 8:
            raise ValueError("too short")
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, code: str) -> int:
        """Return a number; 0 where it is not there."""
        place = self._place(field)
        return self._read(code, place) if place else 0

    def text(self, field: int) -> str:
        """Return a text; empty where it is not there."""
        start, size = self._vector(field)
        if start + size > len(self._data):
            raise ValueError("a text that does not end")
        return self._data[start : start + size].decode()

    def table(self, field: int) -> TableReader | None:
        """Return a table."""
        place = self._place(field)
        return TableReader(self._data, place + self._read("I", place)) if place else None

    def tables(self, field: int) -> list[TableReader]:
        """Return a vector of tables."""
        start, size = self._vector(field)
        if start + 4 * size > len(self._data):
            raise ValueError("a vector that does not end")
        return [TableReader(self._data, at + self._read("I", at)) for at in range(start, start + 4 * size, 4)]

    def structs(self, field: int, code: str) -> list[tuple[int, ...]]:
        """Return a vector of structs."""
        start, count = self._vector(field)
        size = struct.calcsize(f"<{code}")
        if start + count * size > len(self._data):
            raise ValueError("a vector that does not end")
        return [struct.unpack_from(f"<{code}", self._data, start + k * size) for k in range(count)]

    def _place(self, field: int) -> int:
        slot = self._slots[field] if field < len(self._slots) else 0
        return self._start + slot if slot else 0

    def _vector(self, field: int) -> tuple[int, int]:
        place = self._place(field)
        if not place:
            return 0, 0
        start = place + self._read("I", place)
        return start + 4, self._read("I", start)

    def _read(self, code: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(f"<{code}") > len(self._data):
            raise ValueError("something lies outside")
        number: int = struct.unpack_from(f"<{code}", self._data, at)[0]
        return number
