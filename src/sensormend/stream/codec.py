"""Functions here convert inputs, readings and deliveries to bytes and back: a JSON header, then raw arrays."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.pipeline.places import Position
from sensormend.readings import NOTHING, IntArray, Readings, Rows
from sensormend.stream.arrivals import Arrived, Damage, DamageNoticed, End, Input, MaintenanceChanged, Rejected, Tick
from sensormend.stream.deliveries import Alert, Delivery

__all__ = [
    "delivery_from_bytes",
    "delivery_to_bytes",
    "input_from_bytes",
    "input_to_bytes",
    "pack",
    "readings_from_bytes",
    "readings_to_bytes",
    "unpack",
]

VERSION = 1
HEAD = struct.Struct("<II")
"""The version of the format, and the length of the JSON that follows."""

ALIGNED = 8
"""The alignment of arrays in bytes: numpy is slower on arrays that are not aligned."""

ARRIVED, OTHER = b"A", b"O"
"""The first byte of an input: `Arrived`, or another."""

NUMBERS = ("value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a JSON header and arrays as bytes.

    Examples
    --------
    >>> header, arrays = unpack(pack({"a": 1}, {"b": np.arange(3)}))
    >>> header, arrays["b"].tolist()
    ({'a': 1}, [0, 1, 2])
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    description = {
        "header": dict(header),
        "arrays": [(name, array.dtype.str, array.shape) for name, array in contiguous.items()],
    }
    text = json.dumps(description, separators=(",", ":")).encode("ascii")
    parts: list[Any] = [HEAD.pack(VERSION, len(text)), text, _padding(HEAD.size + len(text))]
    for array in contiguous.values():
        parts += (array.data if array.size else b"", _padding(array.nbytes))
    return b"".join(parts)


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays, which are read-only views of `content`.

    Raises
    ------
    StateError
        The content was not written by `pack`.
    """
    try:
        version, length = HEAD.unpack_from(content)
        if version != VERSION:
            raise StateError(f"a record has form {version}, this version of sensormend reads form {VERSION}")
        description = json.loads(content[HEAD.size : HEAD.size + length])
        offset = _aligned(HEAD.size + length)
        arrays = {}
        for name, dtype, shape in description["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(content, dtype, count, offset).reshape(shape)
            offset = _aligned(offset + arrays[name].nbytes)
        return description["header"], arrays
    except StateError:
        raise
    except (struct.error, ValueError, TypeError, KeyError) as error:
        raise StateError(f"a record is not what sensormend wrote: {error}") from None


def readings_to_bytes(readings: Readings) -> bytes:
    """Return readings as bytes, with the names that occur in them."""
    return pack(*_parts(readings, ("time", "value")))


def readings_from_bytes(content: bytes) -> Readings:
    """Return the readings that `readings_to_bytes` wrote."""
    return _readings(*unpack(content))


def input_to_bytes(item: Input) -> bytes:
    """Return an input as bytes; of an `Arrived` everything but `acknowledge`."""
    if isinstance(item, Tick):
        return OTHER + pack({"tick": item.time}, {})
    if isinstance(item, End):
        return OTHER + pack({"end": True}, {})
    if isinstance(item, MaintenanceChanged):
        return OTHER + pack({"maintenance": [astuple(note) for note in item.maintenance.notes]}, {})
    if isinstance(item, DamageNoticed):
        return OTHER + pack({"damage": [astuple(one) for one in item.damage], "at": item.at}, {})
    header: dict[str, Any] = {"received": item.received}
    if item.rejected:
        header["rejected"] = [astuple(fields) for fields in item.rejected]
    if item.positions:
        header["positions"] = [astuple(fields) for fields in item.positions]
    if item.mark is not None:
        header["mark"] = item.mark
    names, arrays = _parts(item.readings, ("time", "value"))
    return ARRIVED + pack({**header, **names}, arrays)


def input_from_bytes(content: bytes) -> Input:
    """Return the input that `input_to_bytes` wrote; its `acknowledge` does nothing."""
    header, arrays = unpack(content[1:])
    if content[:1] == ARRIVED:
        return Arrived(
            _readings(header, arrays),
            header["received"],
            [Rejected(*fields) for fields in header.get("rejected", ())],
            [Position(*fields) for fields in header.get("positions", ())],
            header.get("mark"),
        )
    if "tick" in header:
        return Tick(header["tick"])
    if "damage" in header:
        return DamageNoticed(tuple(Damage(*one) for one in header["damage"]), header["at"])
    if "maintenance" in header:
        return MaintenanceChanged(Maintenance(tuple(Note(*note) for note in header["maintenance"])))
    return End()


def delivery_to_bytes(delivery: Delivery) -> bytes:
    """Return a delivery as bytes, with the names that occur in its rows."""
    header: dict[str, Any] = {
        "kind": delivery.kind,
        "start": delivery.start,
        "end": delivery.end,
        "health": [astuple(fields) for fields in delivery.health],
        "alerts": [astuple(fields) for fields in delivery.alerts],
    }
    if delivery.rows is None:
        return pack(header, {})
    names, arrays = _parts(delivery.rows, ("time", *NUMBERS))
    return pack({**header, **names}, arrays)


def delivery_from_bytes(content: bytes) -> Delivery:
    """Return the delivery that `delivery_to_bytes` wrote."""
    header, arrays = unpack(content)
    return Delivery(
        header["kind"],
        header["start"],
        header["end"],
        Rows(**_columns(header, arrays)) if arrays else None,
        [Health(*fields) for fields in header["health"]],
        [Alert(*fields) for fields in header["alerts"]],
    )


def _parts(table: Readings | Rows, columns: Sequence[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of readings or rows; both are empty for no readings."""
    header: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    if len(table) or isinstance(table, Rows):
        _add_names("sensor", table.sensors, table.sensor, header, arrays)
        _add_names("variable", table.variables, table.variable, header, arrays)
        arrays |= {name: getattr(table, name) for name in columns}
    return header, arrays


def _readings(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Readings:
    return Readings(**_columns(header, arrays)) if arrays else NOTHING


def _columns(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the columns and the names of readings or rows."""
    names = {f"{kind}s": _names(kind, header, arrays) for kind in ("sensor", "variable")}
    return {**arrays, **names}


def _add_names(
    kind: str, names: Sequence[str], codes: IntArray, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Add codes and only the names that they refer to: a network may have many more."""
    used = np.zeros(len(names), np.bool_)
    used[codes] = True
    if not used.all():
        names = [names[place] for place in np.flatnonzero(used).tolist()]
        codes = (np.cumsum(used) - 1).astype(codes.dtype)[codes]
    arrays[kind] = codes
    # One text for all of them: JSON takes three times as long for 5,000 names. One that holds the separator is rare.
    text = "\0".join(names)
    if text.count("\0") == len(names) - 1 and text.isascii():
        arrays[f"{kind}s"] = np.frombuffer(text.encode("ascii"), np.uint8)
    else:
        header[f"{kind}s"] = list(names)


def _names(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Sequence[str]:
    text = arrays.get(f"{kind}s")
    return header[f"{kind}s"] if text is None else text.tobytes().decode("ascii").split("\0")


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNED) * ALIGNED


def _padding(size: int) -> bytes:
    return bytes(-size % ALIGNED)
