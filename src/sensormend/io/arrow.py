"""Rows as an Arrow IPC file (Feather), for what changes every few minutes and is read by others at once.

Everything that reads Arrow reads it: polars, pandas with pyarrow, R, JavaScript. Written by hand, since pyarrow is
larger than all else that sensormend needs, for one file with eleven plain columns.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import InputError
from sensormend.files import beside
from sensormend.io.flatbuffers import Scalar, Structs, Table, TableReader, encode
from sensormend.io.writing import COLUMNS, named
from sensormend.readings import ORIGINS, REASONS, Rows

__all__ = ["read_arrow", "write_arrow"]

MAGIC = b"ARROW1"
SCHEMA, BATCH = 1, 3
"""What a message can be."""

VERSION = 4
"""The format's fifth, in use since 2020."""

BLOCK, BUFFER, NODE = "qi4xq", "qq", "qq"

# The number of a type in Arrow's union of types, its fields, and the number as numpy has it; None for text.
_TYPES: dict[str, tuple[int, dict[int, Scalar], str | None]] = {
    "VARCHAR": (5, {}, None),
    "TIMESTAMP": (10, {0: Scalar("h", 2)}, "<i8"),
    "DOUBLE": (3, {0: Scalar("h", 2)}, "<f8"),
    "INTEGER": (2, {0: Scalar("i", 32), 1: Scalar("?", 1)}, "<i4"),
    "TINYINT": (2, {0: Scalar("i", 8), 1: Scalar("?", 1)}, "|i1"),
}


def write_arrow(path: str | os.PathLike[str], rows: Rows, metadata: Mapping[str, str] | None = None) -> None:
    """Write rows to a file that takes its place when it is whole.

    Parameters
    ----------
    path
        The file.
    rows
        In the order in which they are to stand in it.
    metadata
        What the file is to say about itself.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sensormend.readings import Rows
    >>> one, zero = np.ones(2), np.zeros(2, np.int8)
    >>> rows = Rows(("roof", "yard"), ("",), np.arange(2), zero, np.arange(2), one, np.ones(2, np.int32), one, one, one,
    ...             zero + 1, zero, zero + 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrow(f"{folder}/provisional.arrow", rows, {"watermark": "2019-01-01T12:00:00Z"})
    ...     rows, told = read_arrow(f"{folder}/provisional.arrow")
    >>> rows.sensors, told
    (('roof', 'yard'), {'watermark': '2019-01-01T12:00:00Z'})
    """
    columns = [name for name in COLUMNS if name != "variable" or named(rows.variables)]
    schema = _schema(columns, metadata or {})
    nodes, buffers, body = _body(rows, columns)
    batch: Table = {0: Scalar("q", len(rows)), 1: Structs(NODE, nodes), 2: Structs(BUFFER, buffers)}
    size = sum(map(len, body))
    first, second = _message(SCHEMA, schema, 0), _message(BATCH, batch, size)
    block = (8 + len(first), len(second), size)
    footer = encode({0: Scalar("h", VERSION), 1: schema, 2: Structs(BLOCK, ()), 3: Structs(BLOCK, (block,))})
    end = struct.pack("<iI", -1, 0)
    with beside(Path(path)) as new:
        parts = (MAGIC, bytes(2), first, second, *body, end, footer, struct.pack("<i", len(footer)), MAGIC)
        new.write_bytes(b"".join(parts))


def read_arrow(path: str | os.PathLike[str]) -> tuple[Rows, dict[str, str]]:
    """Read what `write_arrow` wrote: the rows, and what the file says about itself.

    Raises
    ------
    InputError
        Where there is no such file, or it is another.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return _rows_of(data)
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise InputError(f"{path} is not an Arrow file that sensormend wrote, or it is broken") from error


def _schema(columns: Sequence[str], metadata: Mapping[str, str]) -> Table:
    fields = []
    for name in columns:
        number, settings, _ = _TYPES[COLUMNS[name]]
        # An empty list of children, since some readers do not take none for that.
        fields.append({0: name, 1: Scalar("?", 1), 2: Scalar("B", number), 3: settings, 5: []})
    told = [{0: key, 1: value} for key, value in metadata.items()]
    return {1: fields, 2: told} if told else {1: fields}


def _message(kind: int, header: Table, size: int) -> bytes:
    """Return a message as it stands before its body."""
    text = encode({0: Scalar("h", VERSION), 1: Scalar("B", kind), 2: header, 3: Scalar("q", size)})
    return struct.pack("<iI", -1, len(text)) + text


def _body(rows: Rows, columns: Sequence[str]) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[bytes]]:
    """Return each column's length and nulls, where its buffers lie, and what is in them."""
    nodes, buffers, body, at = [], [], [], 0
    for name in columns:
        here, parts = _column(rows, name)
        nodes.append((len(rows), int(len(rows) - here.sum())))
        mask = b"" if here.all() else np.packbits(here, bitorder="little").tobytes()
        for part in (mask, *parts):
            buffers.append((at, len(part)))
            body += [part, bytes(-len(part) % 8)]
            at += len(part) + -len(part) % 8
    return nodes, buffers, body


def _column(rows: Rows, name: str) -> tuple[NDArray[np.bool_], list[bytes]]:
    """Return where a column has something, and the bytes of its buffers."""
    column, kind = getattr(rows, name), _TYPES[COLUMNS[name]][2]
    everywhere = np.ones(len(rows), dtype=bool)
    if kind is not None:
        here = ~np.isnan(column) if kind == "<f8" else everywhere
        return here, [np.where(here, column, 0).astype(kind).tobytes()]
    here = column > 0 if name == "origin" else everywhere
    texts = [text.encode() for text in _words(rows, name)]
    codes = column.astype(np.intp)
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes[codes] if len(rows) else sizes[:0])])
    if ends[-1] >= 2**31:
        raise InputError("the names of these rows are more than 2 GB: an Arrow file cannot hold them")
    return here, [ends.astype("<i4").tobytes(), b"".join(map(texts.__getitem__, codes.tolist()))]


def _words(rows: Rows, name: str) -> Sequence[str]:
    return {"sensor": rows.sensors, "variable": rows.variables, "reason": REASONS, "origin": ORIGINS}[name]


def _rows_of(data: bytes) -> tuple[Rows, dict[str, str]]:
    if not (data.startswith(MAGIC) and data.endswith(MAGIC)):
        raise ValueError("no Arrow file")
    (size,) = struct.unpack("<i", data[-10:-6])
    footer = TableReader.root(data[-10 - size : -10] if 0 < size <= len(data) - 10 else b"")
    schema, blocks = footer.table(1), footer.structs(3, BLOCK)
    if schema is None or len(blocks) != 1 or footer.structs(2, BLOCK):
        raise ValueError("not one batch without dictionaries")
    columns = [field.text(0) for field in schema.tables(1)]
    if columns not in ([*COLUMNS][:-1], [*COLUMNS]):
        raise ValueError("other columns")
    for field in schema.tables(1):
        number, settings, _ = _TYPES[COLUMNS[field.text(0)]]
        kind = field.table(3)
        wanted = [held.value for held in settings.values()]
        if kind is None or field.number(2, "B") != number or field.table(4) is not None:
            raise ValueError("another type")
        if [kind.number(place, held.code) for place, held in settings.items()] != wanted:
            raise ValueError("another type")
    told = {entry.text(0): entry.text(1) for entry in schema.tables(2)}
    ((start, length, size),) = blocks
    batch = TableReader.root(data[start + 8 : start + length] if start >= 0 <= length else b"").table(2)
    body = data[start + length : start + length + size]
    if batch is None or batch.table(3) is not None or len(body) != size:
        raise ValueError("compressed or cut short")
    return _decoded(columns, batch, body), told


def _decoded(columns: Sequence[str], batch: TableReader, body: bytes) -> Rows:
    count, buffers = batch.number(0, "q"), iter(batch.structs(2, BUFFER))
    if count < 0 or count > len(body):
        raise ValueError("more rows than there is room for")

    def following() -> bytes:
        offset, size = next(buffers, (-1, 0))
        if offset < 0 or size < 0 or offset + size > len(body):
            raise ValueError("a column that lies outside")
        return body[offset : offset + size]

    held: dict[str, Any] = {}
    names: dict[str, Sequence[str]] = {"variable": ("",)}
    for column in columns:
        mask, kind = following(), _TYPES[COLUMNS[column]][2]
        here = np.ones(count, dtype=bool)
        if mask:
            here = np.unpackbits(np.frombuffer(mask, np.uint8), count=count, bitorder="little") > 0
        if kind is not None:
            numbers = np.frombuffer(following(), kind, count).astype(np.dtype(kind).newbyteorder("="))
            held[column] = np.where(here, numbers, np.nan) if kind == "<f8" else numbers
            continue
        ends, text = np.frombuffer(following(), "<i4", count + 1).tolist(), following()
        texts = [text[first:last] for first, last in pairwise(ends)]
        known: dict[bytes, int] = {}
        codes = np.array([known.setdefault(one, len(known)) for one in texts], dtype=np.int32)
        words = [one.decode() for one in known]
        if column in ("reason", "origin"):
            # A word of a later version is none here, as in the Parquet files.
            fixed = REASONS if column == "reason" else ORIGINS
            places = np.array([fixed.index(word) if word in fixed else 0 for word in words], dtype=np.int8)
            held[column] = places[codes] if count else np.empty(0, np.int8)
        else:
            held[column], names[column] = codes, tuple(words)
    held.setdefault("variable", np.zeros(count, np.int32))
    return Rows(names["sensor"], names["variable"], **held)
