"""`Decoder` makes readings of messages.

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
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.io.options import Options
from sensormend.io.table_layout import MISSING
from sensormend.pipeline.places import MOVED, Position
from sensormend.readings import DAY, Readings
from sensormend.stream.arrivals import Rejected
from sensormend.stream.formats.recognition import ObjectLayout, aligned_columns, flattened, layout_of
from sensormend.stream.formats.senml import is_senml, resolved
from sensormend.stream.formats.topics import Topics
from sensormend.stream.formats.values import (
    BAD_NAME,
    NO_READING,
    NO_SENSOR,
    NOT_A_NUMBER,
    NOT_A_READING,
    NOT_JSON,
    NOT_UTF8,
    RETAINED_OLD,
    RETAINED_TIMELESS,
    TOO_DEEP,
    TOO_LARGE,
    InvalidReadingError,
    NameTable,
    number,
    time_from,
)

__all__ = ["LARGEST", "Decoded", "Decoder", "DecodingBuffer"]

MOST_SENSORS, MOST_VARIABLES = 100_000, 1_000
"""Most names that are cached from one `take` to the next; beyond that the cache is cleared, which bounds the
memory. No sensor is refused for that here: `stream.admission` decides it."""

MOST_REFUSED = 1_000
"""Rejections of one message that are listed one by one; one entry counts the others."""

SHOWN = 120
"""Letters of what was refused that are kept."""

LARGEST = 16 << 20
"""Bytes of a message; a list of a quarter of a million readings has as many."""

MOST_READINGS = 1_000_000
"""Of one message."""

MOST_KEYS = 1_000
"""Of one object."""

REMEMBERED = 2_000
"""Written times that are not worked out again; beyond it all are forgotten."""

SHAPES = 1_000_000
"""Most letters of all keys of cached layouts; beyond that the cache is cleared."""

_parse: Callable[[str], Any] = json.JSONDecoder().decode


class Decoded(NamedTuple):
    """What some messages held."""

    readings: Readings
    rejected: list[Rejected]
    positions: list[Position]


class DecodingBuffer:
    """Collects readings, what was refused, and places."""

    def __init__(self) -> None:
        self._forget()
        self._clear()
        self.begin(0, "", False)

    def _forget(self) -> None:
        self.sensors, self.variables = NameTable(NO_SENSOR), NameTable(BAD_NAME, empty=True)
        self._last: dict[str, Position] = {}

    def _clear(self) -> None:
        self._sensor: list[int] = []
        self._variable: list[int] = []
        self._time: list[int] = []
        self._value: list[float] = []
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._count = 0
        self._rejected: list[Rejected] = []
        self._positions: list[Position] = []

    def __len__(self) -> int:
        return self._count + len(self._time)

    def begin(self, received: int, where: str, retained: bool) -> None:
        """Say of what message all that follows is."""
        self.received, self.retained = received, retained
        self._where, self._refused = where, 0
        self._before = len(self)

    def end(self, message: Any) -> None:
        """Say that the message is over; one of which nothing was kept and nothing refused has nothing in it."""
        if not self._refused and len(self) == self._before:
            self.refuse(NO_READING, message)
        if self._refused > MOST_REFUSED:
            more = f"and {self._refused - MOST_REFUSED:,} more in this message"
            self._rejected.append(Rejected(self._where, NO_READING, more))

    def refuse(self, reason: str, content: Any) -> None:
        """Note what is no reading."""
        self._refused += 1
        if self._refused <= MOST_REFUSED:
            self._rejected.append(Rejected(self._where, reason, _shown(content)))

    def keep(self, sensor: Any, variable: Any, time: int | None, value: float) -> None:
        """Take a reading, or refuse it; names are remembered only where all of it is right."""
        if self.retained and (time is None or time < self.received - DAY):
            raise InvalidReadingError(RETAINED_TIMELESS if time is None else RETAINED_OLD)
        try:
            code, of = self.sensors.codes[sensor], self.variables.codes[variable]
        except (KeyError, TypeError):
            if sensor is None or sensor == "":
                raise InvalidReadingError(NO_SENSOR) from None
            name = self.variables.checked(variable, "")
            code = self.sensors.code(sensor)
            of = self.variables.code(name)
        self._sensor.append(code)
        self._variable.append(of)
        self._time.append(self.received if time is None else time)
        self._value.append(value)

    def add(self, sensor: NDArray[Any], variable: NDArray[Any], time: NDArray[Any], value: NDArray[Any]) -> None:
        """Take many readings."""
        self._settle()
        self._parts.append((sensor, variable, time, value))
        self._count += time.size

    def place(self, sensor: Any, time: int | None, latitude: Any, longitude: Any) -> None:
        """Record the reported position of a sensor that has readings, if it is new."""
        try:
            name, north, east = self.sensors.checked(sensor), number(latitude), number(longitude)
        except InvalidReadingError:
            return
        # 0, 0 and NaN: a receiver that does not know where it is.
        if not (abs(north) <= 90 and abs(east) <= 360) or not (north or east) or name not in self.sensors.codes:
            return
        here = Position(name, self.received if time is None else time, north, east)
        last = self._last.get(name)
        if last is None or here.metres_from(last) > MOVED:
            self._last[name] = here
            self._positions.append(here)

    def take(self) -> Decoded:
        """Return what there is, and begin anew."""
        self._settle()
        parts = self._parts
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        sensor, variable, time, value = columns
        value[~np.isfinite(value)] = math.nan
        readings = Readings(self.sensors.listed, self.variables.listed or ("",), sensor, variable, time, value)
        taken = Decoded(readings, self._rejected, self._positions)
        self._clear()
        if len(self.sensors.codes) > MOST_SENSORS or len(self.variables.codes) > MOST_VARIABLES:
            self._forget()
        return taken

    def _settle(self) -> None:
        """Make arrays of what was collected one by one."""
        if self._time or not self._parts:
            sensor, variable = np.array(self._sensor, np.int32), np.array(self._variable, np.int32)
            self._parts.append((sensor, variable, np.array(self._time, np.int64), np.array(self._value, np.float64)))
            self._count += len(self._time)
            self._sensor, self._variable, self._time, self._value = [], [], [], []


def _shown(content: Any) -> str:
    """Return the beginning of what came, as text that any file can hold."""
    if isinstance(content, bytes):
        return content[: 4 * SHOWN].decode(errors="replace")[:SHOWN]
    try:
        return json.dumps(content)[:SHOWN]
    except (ValueError, RecursionError):
        return ""


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
        self._layouts: dict[tuple[bool, bool, bool], dict[Any, ObjectLayout | None]] = defaultdict(dict)
        self._letters = 0
        self._moments: dict[str, int] = {}
        self._buffer = DecodingBuffer()
        self._topic = self._topics.default

    def __len__(self) -> int:
        """Return how many readings there are to be taken."""
        return len(self._buffer)

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
            Its origin in rejections; the topic by default.
        retained
            Whether it is a retained message: readings older than a day, or without a time of their own, are refused.
        """
        self._topic = self._topics.default if topic is None else self._topics.fields(topic)
        (gathered := self._buffer).begin(received, (where or topic or "")[:SHOWN], retained)
        try:
            if len(payload) > LARGEST:
                raise InvalidReadingError(TOO_LARGE)
            self._read(payload.decode())
        except InvalidReadingError as refused:
            gathered.refuse(refused.reason, payload)
        except UnicodeDecodeError:
            gathered.refuse(NOT_UTF8, payload)
        except RecursionError:
            gathered.refuse(TOO_DEEP, payload)
        gathered.end(payload)

    def take(self) -> Decoded:
        """Return what there is, and begin anew."""
        return self._buffer.take()

    def _read(self, text: str) -> None:
        if text[:1] not in ("{", "["):
            text = text.lstrip("\ufeff \t\r\n")
        if text[:1] not in ("{", "["):
            self._bare(text.rstrip())
            return
        content = _parsed(text)
        if type(content) is list:
            self._list(content)
        elif "v" in content and is_senml((content,)):
            self._senml([content])
        else:
            self._object(content)

    def _bare(self, text: str) -> None:
        """Read a number whose sensor is in the topic."""
        if not text:
            raise InvalidReadingError(NO_READING)
        if text in ("true", "false"):
            raise InvalidReadingError(NOT_A_NUMBER)
        try:
            value = number(_parsed(text) if text[0] == '"' else text)
        except InvalidReadingError:
            raise InvalidReadingError(NOT_JSON) from None
        self._buffer.keep(self._topic.sensor, self._topic.variable, None, value)

    def _list(self, entries: list[Any]) -> None:
        if not entries:
            raise InvalidReadingError(NO_READING)
        if len(entries) > MOST_READINGS:
            raise InvalidReadingError(TOO_LARGE)
        if is_senml(entries):
            self._senml(entries)
            return
        if self._columns(entries):
            return
        for entry in entries:
            try:
                if type(entry) is not dict:
                    raise InvalidReadingError(NOT_A_READING)
                self._object(entry)
            except InvalidReadingError as refused:
                self._buffer.refuse(refused.reason, entry)

    def _columns(self, entries: list[Any]) -> bool:
        """Take a list whose objects are all alike at once, which is twice as fast; say whether that could be."""
        if len(entries) < 4 or self._buffer.retained or type(entries[0]) is not dict:
            return False
        try:
            layout = self._layout(entries[0])
        except InvalidReadingError:
            return False
        if layout is None or not layout.simple or layout.sensor is None or layout.time is None:
            return False
        sensors, variables = self._buffer.sensors.codes, self._buffer.variables.codes
        columns = aligned_columns(entries, layout, sensors, variables, self._topic.variable, self._moment)
        if columns is not None:
            self._buffer.add(*columns)
        return columns is not None

    def _senml(self, pack: list[Any]) -> None:
        places: dict[tuple[str | None, int | None], dict[str, float]] = {}
        for record, resolved_record in resolved(pack, self._buffer.received):
            try:
                if isinstance(resolved_record, InvalidReadingError):
                    raise resolved_record
                if resolved_record is None:
                    continue
                sensor, variable = resolved_record.named(self._topic, self._options.variables)
                if resolved_record.place:
                    places.setdefault((sensor, resolved_record.time), {})[resolved_record.unit] = resolved_record.value
                else:
                    self._buffer.keep(sensor, variable, resolved_record.time, resolved_record.value)
            except InvalidReadingError as refused:
                self._buffer.refuse(refused.reason, record)
        for (sensor, time), place in places.items():
            self._buffer.place(sensor, time, place.get("lat"), place.get("lon"))

    def _layout(self, entry: dict[str, Any]) -> ObjectLayout | None:
        """Return how objects with such keys are read; None for those that have objects in them."""
        topic = self._topic
        layouts = self._layouts[topic.sensor is not None, topic.variable is not None, topic.sure]
        key = (tuple(entry), tuple(map(type, entry.values())))
        try:
            return layouts[key]
        except KeyError:
            if len(entry) > MOST_KEYS:
                raise InvalidReadingError(TOO_LARGE) from None
            layout = None if dict in key[1] else layout_of(entry, self._options, topic)
            letters = 2 * len(entry) + sum(map(len, entry))
            if letters < SHAPES // 10:
                self._letters += letters
                if self._letters > SHAPES:
                    self._layouts.clear()
                    self._letters = letters
                    layouts = self._layouts[topic.sensor is not None, topic.variable is not None, topic.sure]
                layouts[key] = layout
            return layout

    def _object(self, entry: dict[str, Any]) -> None:
        layout = self._layout(entry)
        if layout is None:
            entry = flattened(entry)
            layout = self._layout(entry)
            assert layout is not None
        try:
            self._read_as(entry, layout)
        except InvalidReadingError as refused:
            # Its texts may be of another kind than those of the first that had these keys.
            other = layout_of(entry, self._options, self._topic)
            if other == layout:
                raise refused
            self._read_as(entry, other)

    def _read_as(self, entry: dict[str, Any], layout: ObjectLayout) -> None:
        time = None
        if layout.time is not None:
            written = entry[layout.time]
            time = self._moment(written if layout.clock is None else f"{str(written)[:10]} {entry[layout.clock]}")
        sensor = self._topic.sensor if layout.sensor is None else entry[layout.sensor]
        if len(layout.columns) == 1 and not layout.across:
            name = layout.names[0]
            if name is None:
                name = self._topic.variable if layout.variable is None else entry[layout.variable]
            self._buffer.keep(sensor, name, time, number(entry[layout.columns[0]]))
        else:
            self._wide(entry, layout, sensor, time)
        if layout.latitude is not None and layout.longitude is not None and not layout.across:
            self._buffer.place(sensor, time, entry[layout.latitude], entry[layout.longitude])

    def _wide(self, entry: dict[str, Any], layout: ObjectLayout, sensor: Any, time: int | None) -> None:
        cells = [(column, name, entry[column]) for column, name in zip(layout.columns, layout.names, strict=True)]
        cells = [cell for cell in cells if cell[2] is not None and cell[2] != ""]
        if not cells:
            raise InvalidReadingError(NO_READING)
        for column, name, written in cells:
            try:
                if layout.across:
                    self._buffer.keep(name, self._topic.variable, time, number(written))
                else:
                    self._buffer.keep(sensor, name, time, number(written))
            except InvalidReadingError as refused:
                self._buffer.refuse(refused.reason, {column: written})

    def _moment(self, written: Any) -> int | None:
        """Return a time; None where there is none in it."""
        if written is None:
            return None
        if type(written) is not str:
            return time_from(written)
        try:
            return self._moments[written]
        except KeyError:
            if written.strip().lower() in MISSING:
                return None
            time = time_from(written)
            if len(self._moments) >= REMEMBERED:
                self._moments.clear()
            self._moments[written] = time
            return time


def _parsed(text: str) -> Any:
    try:
        return _parse(text)
    except ValueError:
        raise InvalidReadingError(NOT_JSON) from None
