"""What is in messages: bytes in, readings out.

A message is one JSON object, a list of them, SenML, or a number with its sensor in the topic. docs/operations.md has
the whole of it; in short:

- an object is long (sensor, time, value, perhaps variable) or wide (a key per variable), its keys named as `clean`
  knows them or as `Options` say; objects in it count as `a.b`; the same key twice: the last holds;
- a sensor that the object does not name is the topic's; a time it does not name is that of arrival;
- a lone number under a name like `temp` is of the variable `temp`, since another message may have others; in a long
  object, and under a name like `value`, it is of the variable that is named, or of the unnamed one;
- variables that `Options` say are those that may come: the keys of a wide object, or the one that all is of;
- null, `""`, NaN, infinities and words like "NA" are a reading without a number; a wide object just lacks that cell;
- booleans, lists and other texts are refused; so is each bad reading of a list, and only that.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from sensormend.io.options import Options
from sensormend.io.table_layout import MISSING
from sensormend.stream.formats.columns import columns_of
from sensormend.stream.formats.gathering import SHOWN, Decoded, Gathering
from sensormend.stream.formats.moments import number, time_from
from sensormend.stream.formats.refused import (
    NO_READING,
    NOT_A_NUMBER,
    NOT_A_READING,
    NOT_JSON,
    NOT_UTF8,
    TOO_DEEP,
    TOO_LARGE,
    Refused,
)
from sensormend.stream.formats.senml import is_senml, resolved
from sensormend.stream.formats.shapes import Shape, flattened, shape_of
from sensormend.stream.formats.topics import Topics

__all__ = ["LARGEST", "Decoder"]

LARGEST = 16 << 20
"""Bytes of a message; a list of a quarter of a million readings has as many."""

MOST_READINGS = 1_000_000
"""Of one message."""

MOST_KEYS = 1_000
"""Of one object."""

REMEMBERED = 2_000
"""Written times that are not worked out again; beyond it all are forgotten."""

SHAPES = 1_000_000
"""Letters of all keys whose objects are not looked at again; the same. Who invents keys must not fill the memory."""

_parse: Callable[[str], Any] = json.JSONDecoder().decode


class Decoder:
    """Collects what messages hold.

    Parameters
    ----------
    options
        Which key is what, where that cannot be recognised.
    patterns
        What topics say, as `sensormend.stream.formats.topics.Topics` has it.

    Examples
    --------
    >>> decoder = Decoder()
    >>> decoder.add(b'{"sensor": "a", "time": 1577836800, "value": 20.5}', received=0)
    >>> decoder.add(b"21.5", received=0, topic="city/b")
    >>> decoder.add(b"on", received=0, topic="city/c")
    >>> readings, rejected, _ = decoder.take()
    >>> readings.sensors, readings.value.tolist(), rejected[0].reason
    (('a', 'b'), [20.5, 21.5], 'neither JSON nor a number')
    """

    def __init__(self, options: Options | None = None, patterns: Sequence[str] = ()) -> None:
        self._options = Options() if options is None else options
        only = self._options.variables[0] if len(self._options.variables) == 1 else None
        self._topics = Topics(patterns, only)
        self._shapes: dict[tuple[bool, bool, bool], dict[Any, Shape | None]] = defaultdict(dict)
        self._letters = 0
        self._moments: dict[str, int] = {}
        self._gathered = Gathering()
        self._told = self._topics.nothing

    def __len__(self) -> int:
        """Return how many readings there are to be taken."""
        return len(self._gathered)

    def add(
        self, payload: bytes, received: int, topic: str | None = None, where: str | None = None, retained: bool = False
    ) -> None:
        """Read a message.

        Parameters
        ----------
        payload
            The message.
        received
            When it came.
        topic
            Its topic, for a source that has topics.
        where
            Where it is from, for people; the topic where nothing is said.
        retained
            The broker kept it for whoever comes: what is older than a day, or has no time of its own, is refused.
        """
        self._told = self._topics.nothing if topic is None else self._topics.told(topic)
        (gathered := self._gathered).begin(received, (where or topic or "")[:SHOWN], retained)
        try:
            if len(payload) > LARGEST:
                raise Refused(TOO_LARGE)
            self._read(payload.decode())
        except Refused as refused:
            gathered.refuse(refused.reason, payload)
        except UnicodeDecodeError:
            gathered.refuse(NOT_UTF8, payload)
        except RecursionError:
            gathered.refuse(TOO_DEEP, payload)
        gathered.end(payload)

    def take(self) -> Decoded:
        """Return what there is, and begin anew."""
        return self._gathered.take()

    def _read(self, text: str) -> None:
        if text[:1] not in ("{", "["):
            text = text.lstrip("\ufeff \t\r\n")
        if text[:1] not in ("{", "["):
            self._bare(text.rstrip())
            return
        told = _parsed(text)
        if type(told) is list:
            self._list(told)
        elif "v" in told and is_senml((told,)):
            self._senml([told])
        else:
            self._object(told)

    def _bare(self, text: str) -> None:
        """Read a number whose sensor is in the topic."""
        if not text:
            raise Refused(NO_READING)
        if text in ("true", "false"):
            raise Refused(NOT_A_NUMBER)
        try:
            value = number(_parsed(text) if text[0] == '"' else text)
        except Refused:
            raise Refused(NOT_JSON) from None
        self._gathered.keep(self._told.sensor, self._told.variable, None, value)

    def _list(self, told: list[Any]) -> None:
        if not told:
            raise Refused(NO_READING)
        if len(told) > MOST_READINGS:
            raise Refused(TOO_LARGE)
        if is_senml(told):
            self._senml(told)
            return
        if self._columns(told):
            return
        for entry in told:
            try:
                if type(entry) is not dict:
                    raise Refused(NOT_A_READING)
                self._object(entry)
            except Refused as refused:
                self._gathered.refuse(refused.reason, entry)

    def _columns(self, told: list[Any]) -> bool:
        """Take a list whose objects are all alike at once, which is twice as fast; say whether that could be."""
        if len(told) < 4 or self._gathered.retained or type(told[0]) is not dict:
            return False
        try:
            shape = self._shape(told[0])
        except Refused:
            return False
        if shape is None or not shape.simple or shape.sensor is None or shape.time is None:
            return False
        sensors, variables = self._gathered.sensors.codes, self._gathered.variables.codes
        columns = columns_of(told, shape, sensors, variables, self._told.variable, self._moment)
        if columns is not None:
            self._gathered.add(*columns)
        return columns is not None

    def _senml(self, pack: list[Any]) -> None:
        places: dict[tuple[str | None, int | None], dict[str, float]] = {}
        for record, said in resolved(pack, self._gathered.received):
            try:
                if isinstance(said, Refused):
                    raise said
                if said is None:
                    continue
                sensor, variable = said.named(self._told, self._options.variables)
                if said.place:
                    places.setdefault((sensor, said.time), {})[said.unit] = said.value
                else:
                    self._gathered.keep(sensor, variable, said.time, said.value)
            except Refused as refused:
                self._gathered.refuse(refused.reason, record)
        for (sensor, time), place in places.items():
            self._gathered.place(sensor, time, place.get("lat"), place.get("lon"))

    def _shape(self, entry: dict[str, Any]) -> Shape | None:
        """Return how objects with such keys are read; None for those that have objects in them."""
        told = self._told
        shapes = self._shapes[told.sensor is not None, told.variable is not None, told.sure]
        key = (tuple(entry), tuple(map(type, entry.values())))
        try:
            return shapes[key]
        except KeyError:
            if len(entry) > MOST_KEYS:
                raise Refused(TOO_LARGE) from None
            shape = None if dict in key[1] else shape_of(entry, self._options, told)
            letters = 2 * len(entry) + sum(map(len, entry))
            if letters < SHAPES // 10:
                self._letters += letters
                if self._letters > SHAPES:
                    self._shapes.clear()
                    self._letters = letters
                    shapes = self._shapes[told.sensor is not None, told.variable is not None, told.sure]
                shapes[key] = shape
            return shape

    def _object(self, entry: dict[str, Any]) -> None:
        shape = self._shape(entry)
        if shape is None:
            entry = flattened(entry)
            shape = self._shape(entry)
            assert shape is not None
        try:
            self._shaped(entry, shape)
        except Refused as refused:
            # Its texts may be of another kind than those of the first that had these keys.
            other = shape_of(entry, self._options, self._told)
            if other == shape:
                raise refused
            self._shaped(entry, other)

    def _shaped(self, entry: dict[str, Any], shape: Shape) -> None:
        time = None
        if shape.time is not None:
            told = entry[shape.time]
            time = self._moment(told if shape.clock is None else f"{str(told)[:10]} {entry[shape.clock]}")
        sensor = self._told.sensor if shape.sensor is None else entry[shape.sensor]
        if len(shape.columns) == 1 and not shape.across:
            name = shape.names[0]
            if name is None:
                name = self._told.variable if shape.variable is None else entry[shape.variable]
            self._gathered.keep(sensor, name, time, number(entry[shape.columns[0]]))
        else:
            self._wide(entry, shape, sensor, time)
        if shape.latitude is not None and shape.longitude is not None and not shape.across:
            self._gathered.place(sensor, time, entry[shape.latitude], entry[shape.longitude])

    def _wide(self, entry: dict[str, Any], shape: Shape, sensor: Any, time: int | None) -> None:
        cells = [(column, name, entry[column]) for column, name in zip(shape.columns, shape.names, strict=True)]
        cells = [cell for cell in cells if cell[2] is not None and cell[2] != ""]
        if not cells:
            raise Refused(NO_READING)
        for column, name, told in cells:
            try:
                if shape.across:
                    self._gathered.keep(name, self._told.variable, time, number(told))
                else:
                    self._gathered.keep(sensor, name, time, number(told))
            except Refused as refused:
                self._gathered.refuse(refused.reason, {column: told})

    def _moment(self, told: Any) -> int | None:
        """Return a time; None where there is none in it."""
        if told is None:
            return None
        if type(told) is not str:
            return time_from(told)
        try:
            return self._moments[told]
        except KeyError:
            if told.strip().lower() in MISSING:
                return None
            found = time_from(told)
            if len(self._moments) >= REMEMBERED:
                self._moments.clear()
            self._moments[told] = found
            return found


def _parsed(text: str) -> Any:
    try:
        return _parse(text)
    except ValueError:
        raise Refused(NOT_JSON) from None
