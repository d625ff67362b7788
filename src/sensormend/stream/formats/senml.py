"""`resolve` decodes SenML (RFC 8428): a pack of records whose base fields hold for those after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sensormend.readings import SECOND
from sensormend.stream.formats.topics import TopicFields
from sensormend.stream.formats.values import (
    NO_READING,
    NOT_A_NUMBER,
    NOT_A_READING,
    NOT_A_TIME,
    UNKNOWN_SENML,
    InvalidReadingError,
    epoch,
    in_range,
    number,
)

__all__ = ["SenmlRecord", "is_senml", "resolve", "split_name"]

VERSION = 10
RELATIVE = 1 << 28
"""Times below it, in seconds, are relative to the time of arrival."""

_BASES = ("bn", "bt", "bu", "bv", "bs", "bver")
_VALUES = ("v", "vs", "vb", "vd", "s")
_BASE_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("bn", (str,), NOT_A_READING),
    ("bu", (str,), NOT_A_READING),
    ("bt", (int, float), NOT_A_TIME),
    ("bv", (int, float), NOT_A_NUMBER),
)
_LABELS = frozenset((*_BASES, *_VALUES, "n", "u", "t", "ut"))


class SenmlRecord(NamedTuple):
    """A record with its base fields applied; `sensor` and `variable` are empty if it has no such name."""

    sensor: str
    variable: str
    unit: str
    time: int | None
    value: float

    def names(self, topic: TopicFields, variables: Sequence[str]) -> tuple[str | None, str]:
        """Return the sensor and the variable: those of its name, else of the topic; or the unit as variable.

        A name without a base name is the sensor's, unless the topic has the sensor and it is one of the variables.
        """
        sensor, variable = self.sensor, self.variable
        if not variable and topic.sensor is not None and sensor in variables:
            sensor, variable = "", sensor
        # Several quantities may share a name, and differ by their units.
        return sensor or topic.sensor, variable or topic.variable or self.unit


def is_senml(pack: Sequence[Any]) -> bool:
    """Return whether a list is SenML: its first record has a base name or version, or only SenML's own labels."""
    first = pack[0]
    if type(first) is not dict:
        return False
    if "bn" in first or "bver" in first:
        return True
    return first.keys() <= _LABELS and any(key in first for key in (*_VALUES, *_BASES))


def split_name(base: str, own: str) -> tuple[str, str]:
    """Return sensor and variable of a name.

    The variable is what follows the last `/` or `:` of the record's own name; where that has neither, all of it beside
    a base name. Without a base name an own name that is a URN, or has neither, is the sensor's.

    Examples
    --------
    >>> split_name("urn:dev:ow:10e2073a01080063:", "voltage")
    ('urn:dev:ow:10e2073a01080063', 'voltage')
    >>> split_name("city/", "north/temp"), split_name("", "urn:dev:ow:10e2073a01080063"), split_name("", "7/temp")
    (('city/north', 'temp'), ('urn:dev:ow:10e2073a01080063', ''), ('7', 'temp'))
    """
    cut = max(own.rfind("/"), -1 if not base and own.lower().startswith("urn:") else own.rfind(":"))
    if cut < 0:
        sensor, variable = (base, own) if base else (own, "")
    else:
        sensor, variable = base + own[:cut], own[cut + 1 :]
    return sensor.rstrip("/:"), variable


def resolve(pack: Sequence[Any], received: int) -> Iterator[tuple[Any, SenmlRecord | InvalidReadingError | None]]:
    """Yield every record of a pack with its resolved form, the error if it is invalid, or None for base fields only."""
    bases: dict[str, Any] = {"bn": "", "bt": 0, "bv": 0, "bu": ""}
    for record in pack:
        try:
            if type(record) is not dict:
                raise InvalidReadingError(NOT_A_READING)
            _update_bases(record, bases)
            yield record, _resolve(record, bases, received)
        except InvalidReadingError as refused:
            yield record, refused


def _update_bases(record: dict[str, Any], bases: dict[str, Any]) -> None:
    """Store base fields. A broken one invalidates all later records, which could belong to another sensor."""
    version = record.get("bver", VERSION)
    if type(version) is not int or version > VERSION or any(key.endswith("_") for key in record):
        bases["later"] = InvalidReadingError(UNKNOWN_SENML)
    for key, kinds, reason in _BASE_KINDS:
        if key in record:
            bases[key] = record[key] if type(record[key]) in kinds else InvalidReadingError(reason)
    for base in bases.values():
        if isinstance(base, InvalidReadingError):
            raise InvalidReadingError(*base.args)


def _resolve(record: dict[str, Any], bases: dict[str, Any], received: int) -> SenmlRecord | None:
    if not any(key in record for key in _VALUES):
        if "n" not in record and "t" not in record:
            return None
        if "bv" not in record and not bases["bv"]:
            raise InvalidReadingError(NO_READING)
    if "v" not in record and any(key in record for key in ("vs", "vb", "vd")):
        raise InvalidReadingError(NOT_A_NUMBER)
    if "v" not in record and "s" in record:
        raise InvalidReadingError(NO_READING)  # a sum over time is not a value at one time
    own, unit, time = record.get("n", ""), record.get("u", bases["bu"]), record.get("t", 0)
    if type(own) is not str or type(unit) is not str:
        raise InvalidReadingError(NOT_A_READING)
    if type(time) not in (int, float):
        raise InvalidReadingError(NOT_A_TIME)
    value = record.get("v", 0)
    if type(value) not in (int, float, type(None)):
        raise InvalidReadingError(NOT_A_NUMBER)
    sensor, variable = split_name(bases["bn"], own)
    timed = "t" in record or bases["bt"] != 0
    moment = _time(time + bases["bt"], received) if timed else None
    return SenmlRecord(sensor, variable, unit, moment, number(value) + number(bases["bv"]))


def _time(seconds: float, received: int) -> int:
    if not abs(seconds) < 1e11:
        raise InvalidReadingError(NOT_A_TIME)
    if seconds >= RELATIVE:
        return epoch(seconds)
    return in_range(received + round(seconds * SECOND))
