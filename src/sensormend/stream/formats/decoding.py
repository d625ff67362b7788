"""`Decoder` decodes messages to readings.

A message is one JSON object, a list of them, SenML, a format of `presets`, or a number with its sensor in the topic.
docs/operations.md describes them; in short:

- an object of a preset has its sensor, time and numbers where the preset says; options that name a sensor, a time or
  variables take precedence, and so does the sensor of a topic's pattern;
- any other object is long (sensor, time, value, perhaps variable) or wide (a key per variable), its keys named as
  `clean` recognises them or `Options` name them; keys of nested objects are `a.b`; the last of a repeated key counts;
- without a sensor the object belongs to the topic's; without a time it has the time of arrival;
- a lone number under a name like `temp` is of the variable `temp`, since another message may have others; in a long
  object, and under a name like `value`, it is of the named variable, or of the unnamed one;
- the variables in `Options` are all that may come: the keys of a wide object, or the only variable;
- null, `""`, NaN, infinities and words like "NA" are a reading without a number, or an empty cell of a wide object;
- booleans, lists and other texts are refused; of a list only the invalid readings are refused;
- numbers about the device or the message (counters, ids, batteries, signals) are not variables unless options say so.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sensormend.io.table_layout import MISSING
from sensormend.pipeline.options import Options
from sensormend.pipeline.places import MOVED, Position
from sensormend.pipeline.units import spelled
from sensormend.readings import DAY, Readings
from sensormend.stream.arrivals import Rejected
from sensormend.stream.formats.presets import (
    BY_KEYS,
    SENML,
    Preset,
    Unreadable,
    at,
    find_preset,
    is_diagnostic,
    is_place,
    with_zone,
)  # fmt: skip
from sensormend.stream.formats.recognition import NESTED, ObjectLayout, aligned_columns, find_layout, flattened
from sensormend.stream.formats.senml import is_senml, resolve
from sensormend.stream.formats.topics import TopicFields, Topics
from sensormend.stream.formats.values import (
    BAD_NAME,
    NO_READING,
    NO_SENSOR,
    NOT_A_NUMBER,
    NOT_A_READING,
    NOT_IN_FORMAT,
    NOT_JSON,
    NOT_MEASURED,
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
from sensormend.stream.logs import say

__all__ = ["LARGEST", "Decoded", "Decoder"]

MOST_SENSORS, MOST_VARIABLES = 100_000, 1_000
"""The maximum number of names that are cached from one `take` to the next; beyond that the cache is cleared, which
bounds the memory. Sensors are refused by `stream.admission`, not here."""

MOST_REFUSED = 1_000
"""The number of rejections of one message that are listed individually; one entry counts the others."""

SHOWN = 120
"""The maximum number of characters of a refused input that are recorded."""

LARGEST = 16 << 20
"""The maximum number of bytes of a message: a list of a quarter of a million readings."""

MOST_READINGS = 1_000_000
"""The maximum number of entries of one message."""

MOST_KEYS = 1_000
"""The maximum number of keys of one object."""

MOST_TIMES = 2_000
"""The maximum number of cached texts of times; beyond that the cache is cleared."""

MOST_LETTERS = 1_000_000
"""The maximum number of letters of all keys of cached layouts; beyond that the cache is cleared."""

MOST_PASSED = 200
"""The maximum number of names of numbers that were passed over, and of units, that are recorded."""

_ZONE = re.compile(r".*(Z|UTC|GMT|[+-]\d\d:?\d\d)\s*", re.IGNORECASE | re.DOTALL)

_log = logging.getLogger("sensormend.stream")

_parse: Callable[[str], Any] = json.JSONDecoder().decode


class Decoded(NamedTuple):
    """The content of some messages."""

    readings: Readings
    rejected: list[Rejected]
    positions: list[Position]


class _Buffer:
    """Collects readings, rejections and positions."""

    def __init__(self) -> None:
        self._clear_names()
        self._clear()
        self.begin(0, "", False)

    def _clear_names(self) -> None:
        self.sensors, self.variables = NameTable(NO_SENSOR), NameTable(BAD_NAME, empty=True)
        self._last_positions: dict[str, Position] = {}

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
        """Begin a message."""
        self.received, self.retained = received, retained
        self._where, self._refused = where, 0
        self._start = len(self)

    def end(self, message: Any) -> None:
        """End a message; one without readings and rejections is refused."""
        if not self._refused and len(self) == self._start:
            self.refuse(NO_READING, message)
        if self._refused > MOST_REFUSED:
            more = f"and {self._refused - MOST_REFUSED:,} more in this message"
            self._rejected.append(Rejected(self._where, NO_READING, more))

    def refuse(self, reason: str, content: Any) -> None:
        """Add a rejection."""
        self._refused += 1
        if self._refused <= MOST_REFUSED:
            self._rejected.append(Rejected(self._where, reason, _shown(content)))

    def add(self, sensor: Any, variable: Any, time: int | None, value: float) -> None:
        """Add a reading, or refuse it; its names are recorded only if all of it is valid."""
        if self.retained and (time is None or time < self.received - DAY):
            raise InvalidReadingError(RETAINED_TIMELESS if time is None else RETAINED_OLD)
        try:
            sensor_code, variable_code = self.sensors.codes[sensor], self.variables.codes[variable]
        except (KeyError, TypeError):
            if sensor is None or sensor == "":
                raise InvalidReadingError(NO_SENSOR) from None
            name = self.variables.checked("" if variable is None else variable)
            sensor_code = self.sensors.code(sensor)
            variable_code = self.variables.code(name)
        self._sensor.append(sensor_code)
        self._variable.append(variable_code)
        self._time.append(self.received if time is None else time)
        self._value.append(value)

    def add_columns(self, columns: tuple[NDArray[Any], ...]) -> None:
        """Add readings as columns of sensor, variable, time and value."""
        self._pack()
        self._parts.append(columns)
        self._count += columns[0].size

    def add_position(self, sensor: Any, time: int | None, latitude: Any, longitude: Any) -> None:
        """Add the reported position of a sensor that has readings, if it is new."""
        try:
            name, north, east = self.sensors.checked(sensor), number(latitude), number(longitude)
        except InvalidReadingError:
            return
        # A receiver without a position reports 0, 0 or NaN.
        if not (abs(north) <= 90 and abs(east) <= 360) or not (north or east) or name not in self.sensors.codes:
            return
        position = Position(name, self.received if time is None else time, north, east)
        last = self._last_positions.get(name)
        if last is None or position.metres_from(last) > MOVED:
            self._last_positions[name] = position
            self._positions.append(position)

    def take(self) -> Decoded:
        """Return everything that was added, and clear the buffer."""
        self._pack()
        parts = self._parts
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        sensor, variable, time, value = columns
        value[~np.isfinite(value)] = math.nan
        readings = Readings(self.sensors.names, self.variables.names or ("",), sensor, variable, time, value)
        decoded = Decoded(readings, self._rejected, self._positions)
        self._clear()
        if len(self.sensors.codes) > MOST_SENSORS or len(self.variables.codes) > MOST_VARIABLES:
            self._clear_names()
        return decoded

    def _pack(self) -> None:
        """Convert readings that were added one by one to columns."""
        if self._time or not self._parts:
            sensor, variable = np.array(self._sensor, np.int32), np.array(self._variable, np.int32)
            self._parts.append((sensor, variable, np.array(self._time, np.int64), np.array(self._value, np.float64)))
            self._count += len(self._time)
            self._sensor, self._variable, self._time, self._value = [], [], [], []


def _shown(content: Any) -> str:
    """Return the beginning of an input as text that any file can hold."""
    if isinstance(content, bytes):
        return content[: 4 * SHOWN].decode(errors="replace")[:SHOWN]
    try:
        return json.dumps(content)[:SHOWN]
    except (ValueError, RecursionError):
        return ""


class Decoder:
    """Decodes messages and collects their readings.

    Parameters
    ----------
    options
        The roles of keys that cannot be recognised.
    patterns
        Patterns of topics, as for `sensormend.stream.formats.topics.Topics`.
    form
        The only format to decode, one of `sensormend.stream.formats.presets.FORMATS`; by default it is recognised.

    Attributes
    ----------
    formats
        What messages were taken for so far: the name of the format, and a sentence.
    passed
        The names of numbers about the device or the message, which are not readings.
    units
        The units of variables, as far as messages or formats have them.

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

    def __init__(self, options: Options | None = None, patterns: Sequence[str] = (), form: str | None = None) -> None:
        self._options = Options() if options is None else options
        named = self._options.value is not None or self._options.variable is not None or self._options.sensors
        self._form = form if form is not None or not named else BY_KEYS
        self.formats: dict[str, str] = {}
        self.passed: set[str] = set()
        self.units: dict[str, str] = {}
        only = self._options.variables[0] if len(self._options.variables) == 1 else None
        self._topics = Topics(patterns, only)
        self._layouts: dict[tuple[Any, ...], ObjectLayout | Preset | None] = {}
        self._letters = 0
        self._times: dict[str, int] = {}
        self._buffer = _Buffer()
        self._topic, self._topic_name = self._topics.default, ""

    def add(
        self, payload: bytes, received: int, topic: str | None = None, where: str | None = None, retained: bool = False
    ) -> None:
        """Decode a message with its time of arrival; rejections name `where`, or the topic.

        Of a retained message, readings older than a day and readings without a time are refused.
        """
        self._topic = self._topics.default if topic is None else self._topics.fields(topic)
        self._topic_name = topic or ""
        buffer = self._buffer
        buffer.begin(received, (where or topic or "")[:SHOWN], retained)
        try:
            if len(payload) > LARGEST:
                raise InvalidReadingError(TOO_LARGE)
            self._decode(payload.decode())
        except InvalidReadingError as refused:
            buffer.refuse(str(refused), payload)
        except UnicodeDecodeError:
            buffer.refuse(NOT_UTF8, payload)
        except RecursionError:
            buffer.refuse(TOO_DEEP, payload)
        buffer.end(payload)

    def take(self) -> Decoded:
        """Return the content of all messages since the last call."""
        return self._buffer.take()

    def _decode(self, text: str) -> None:
        if text[:1] not in ("{", "["):
            text = text.lstrip("\ufeff \t\r\n")
        if text[:1] not in ("{", "["):
            self._decode_text(text.rstrip())
            return
        content = _parsed(text)
        if type(content) is list:
            self._decode_list(content)
        elif self._form == SENML or ("v" in content and self._form is None and is_senml((content,))):
            self._decode_senml([content])
        else:
            self._decode_object(content)

    def _decode_text(self, text: str) -> None:
        """Decode a text that is not JSON: one of a preset, or a number whose sensor is in the topic."""
        if not text:
            raise InvalidReadingError(NO_READING)
        preset = None if self._topic.sure and "=" not in text else find_preset(text, self._topic_name, self._form)
        if preset is not None:
            self._add_preset(text, preset)
            return
        self._check_form(BY_KEYS)
        if text in ("true", "false"):
            raise InvalidReadingError(NOT_A_NUMBER)
        try:
            value = number(_parsed(text) if text[0] == '"' else text)
        except InvalidReadingError:
            raise InvalidReadingError(NOT_JSON) from None
        variable = self._topic.variable
        if variable and is_diagnostic(variable) and variable not in self._options.variables:
            self._record_passed([variable])
            raise InvalidReadingError(NOT_MEASURED)
        self._buffer.add(self._topic.sensor, variable, None, value)
        self._record_format("number", "a number alone: the sensor is in the topic, the time is that of arrival")

    def _decode_list(self, entries: list[Any]) -> None:
        if not entries:
            raise InvalidReadingError(NO_READING)
        if len(entries) > MOST_READINGS:
            raise InvalidReadingError(TOO_LARGE)
        if self._form == SENML or (self._form is None and is_senml(entries)):
            self._decode_senml(entries)
            return
        if self._decode_columns(entries):
            return
        for entry in entries:
            try:
                if type(entry) is not dict:
                    raise InvalidReadingError(NOT_A_READING)
                self._decode_object(entry)
            except InvalidReadingError as refused:
                self._buffer.refuse(str(refused), entry)

    def _decode_columns(self, entries: list[Any]) -> bool:
        """Decode a list of objects with the same layout at once, which is twice as fast; return whether it is one."""
        if len(entries) < 4 or self._buffer.retained or type(entries[0]) is not dict:
            return False
        try:
            layout = self._layout(entries[0])
        except InvalidReadingError:
            return False
        if not isinstance(layout, ObjectLayout) or not layout.simple or layout.sensor is None or layout.time is None:
            return False
        sensors, variables = self._buffer.sensors.codes, self._buffer.variables.codes
        columns = aligned_columns(entries, layout, sensors, variables, self._topic.variable, self._time)
        if columns is not None:
            self._buffer.add_columns(columns)
        return columns is not None

    def _decode_senml(self, pack: list[Any]) -> None:
        self._record_format(
            SENML, "SenML: the sensor is bn or the topic, the variable n or the unit, the time bt and t"
        )
        positions: dict[tuple[str | None, int | None], dict[str, float]] = {}
        for record, resolved in resolve(pack, self._buffer.received):
            try:
                if isinstance(resolved, InvalidReadingError):
                    raise resolved
                if resolved is None:
                    continue
                sensor, variable = resolved.names(self._topic, self._options.variables)
                if resolved.unit in ("lat", "lon"):
                    positions.setdefault((sensor, resolved.time), {})[resolved.unit] = resolved.value
                else:
                    self._buffer.add(sensor, variable, resolved.time, resolved.value)
                    self._record_unit(variable, resolved.unit)
            except InvalidReadingError as refused:
                self._buffer.refuse(str(refused), record)
        for (sensor, time), position in positions.items():
            self._buffer.add_position(sensor, time, position.get("lat"), position.get("lon"))

    def _layout(self, entry: dict[str, Any], *, by_keys: bool = False) -> ObjectLayout | Preset | None:
        """Return the layout of objects with such keys, or the preset unless it is to be decoded `by_keys`.

        None if they have objects or lists in them: then more than the keys decides whether they are of a preset.
        """
        topic, types = self._topic, tuple(map(type, entry.values()))
        key = (tuple(entry), types, topic.sensor is not None, topic.variable is not None, topic.sure, by_keys)
        try:
            return self._layouts[key]
        except KeyError:
            if len(entry) > MOST_KEYS:
                raise InvalidReadingError(TOO_LARGE) from None
            layout: ObjectLayout | Preset | None = None
            if by_keys:
                layout = self._layout_by_keys(entry)
            elif dict not in types and list not in types:
                layout = find_preset(entry, "", self._form) or self._layout_by_keys(entry)
            letters = 2 * len(entry) + sum(map(len, entry))
            if letters < MOST_LETTERS // 10:
                self._letters += letters
                if self._letters > MOST_LETTERS:
                    self._layouts.clear()
                    self._letters = letters
                self._layouts[key] = layout
            return layout

    def _layout_by_keys(self, entry: dict[str, Any]) -> ObjectLayout:
        self._check_form(BY_KEYS)
        layout = find_layout(entry, self._options, self._topic)
        self._record_passed(layout.passed)
        sensor = "as keys" if layout.across else layout.sensor or "in the topic"
        numbers = ", ".join(layout.columns[:10])
        sentence = (
            f"JSON by its keys: the sensor is {sensor}, the time {layout.time or 'of arrival'}, numbers: {numbers}"
        )
        self._record_format(BY_KEYS, sentence)
        return layout

    def _decode_object(self, entry: dict[str, Any]) -> None:
        layout = self._layout(entry)
        if layout is None:
            layout = find_preset(entry, self._topic_name, self._form)
        if layout is None:
            self._check_form(BY_KEYS)
            entry = flattened(entry)
            layout = self._layout(entry, by_keys=True)
            assert layout is not None
        if isinstance(layout, Preset):
            self._add_preset(entry, layout)
            return
        try:
            self._add(entry, layout)
        except InvalidReadingError as refused:
            # Its texts may be of another kind than those of the first object with these keys.
            own_layout = find_layout(entry, self._options, self._topic)
            if own_layout == layout:
                raise refused
            self._add(entry, own_layout)

    def _check_form(self, name: str) -> None:
        """Refuse a message that would be decoded otherwise than in the format that the user names."""
        if self._form not in (None, name):
            raise InvalidReadingError(NOT_IN_FORMAT)

    def _record_format(self, name: str, sentence: str) -> None:
        """Log what messages are taken for, when a format is first seen."""
        if name not in self.formats:
            self.formats[name] = sentence
            say(_log, logging.INFO, f"messages are {sentence}", format=name)

    def _record_passed(self, names: Iterable[str]) -> None:
        """Log the names of numbers that are not readings, each once."""
        new = [name for name in names if name not in self.passed][: MOST_PASSED - len(self.passed)]
        if new:
            self.passed.update(new)
            hint = "variables names all that are readings"
            say(_log, logging.INFO, "passed over: numbers about the device or the message", names=new, hint=hint)

    def _add_preset(self, message: Any, preset: Preset) -> None:
        """Add the readings of a message in the format of a preset; an invalid row is refused alone."""
        self._record_format(preset.name, preset.sentence)
        measured = passed = False
        try:
            rows = list(preset.rows(message, self._topic_name))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            # The keys are those of the format, and something else is under them.
            raise InvalidReadingError(NOT_IN_FORMAT) from None
        for row in rows:
            try:
                if isinstance(row, Unreadable):
                    self._buffer.refuse(row.reason, row.content)
                    measured = True
                    continue
                if preset.wraps:
                    self._add_wrapped(row)
                    measured = True
                    continue
                before = len(self._buffer)
                passed |= self._add_row(message, row, preset)
                measured |= len(self._buffer) > before
            except InvalidReadingError as refused:
                self._buffer.refuse(str(refused), row)
                measured = True
            except (AttributeError, IndexError, KeyError, TypeError):
                self._buffer.refuse(NOT_IN_FORMAT, message)
                measured = True
        if not measured:
            raise InvalidReadingError(NOT_MEASURED if passed else NO_READING)

    def _add_wrapped(self, row: Mapping[str, Any]) -> None:
        """Add a message in another one, which has the sensor where this one has none."""
        outer, form = self._topic, self._form
        self._form = form and BY_KEYS
        if not outer.sure:
            self._topic = TopicFields(str(row["sensor"]), outer.variable, sure=True)
        try:
            self._decode_object(row["data"])
        finally:
            self._topic, self._form = outer, form

    def _add_row(self, message: Any, row: Mapping[str, Any], preset: Preset) -> bool:
        """Add the readings of one sensor at one time; return whether it has numbers that were passed over."""
        sensor, time = self._read_sensor(message, row, preset), self._read_time(message, row, preset)
        numbers = _numbers(at(row, preset.values) if preset.values else row)
        chosen, passed = self._chosen(numbers, preset)
        self._record_passed(passed)
        units = at(row, preset.units)
        for name, value in chosen:
            variable = name or self._topic.variable
            self._buffer.add(sensor, variable, time, value)
            unit = (units.get(name) if isinstance(units, Mapping) else None) or preset.known_units.get(name)
            self._record_unit(variable, unit)
        if chosen and preset.latitude:
            latitude, longitude = (_first(row, paths) for paths in (preset.latitude, preset.longitude))
            self._buffer.add_position(sensor, time, latitude, longitude)
        return bool(passed)

    def _record_unit(self, variable: str | None, unit: Any) -> None:
        if isinstance(unit, str) and unit and len(self.units) < MOST_PASSED:
            self.units.setdefault(variable or "", spelled(unit))

    def _read_sensor(self, message: Any, row: Mapping[str, Any], preset: Preset) -> Any:
        if self._options.sensor is not None:
            content = at(row, self._options.sensor)
            return content if content is not None else at(message, self._options.sensor)
        if self._topic.sure:
            return f"{self._topic.sensor}/{row['probe']}" if "probe" in row else self._topic.sensor
        content = _first(row, preset.sensor)
        return content if content is not None else self._topic.sensor

    def _read_time(self, message: Any, row: Mapping[str, Any], preset: Preset) -> int | None:
        path = self._options.time
        content = _first(row, preset.time) if path is None else at(row, path)
        if content is None and path is not None:
            content = at(message, path)
        time = self._time(content)
        zoneless = preset.local and type(content) is str and not _ZONE.fullmatch(content)
        return with_zone(time, self._buffer.received) if zoneless and time is not None else time

    def _chosen(self, numbers: dict[str, float], preset: Preset) -> tuple[list[tuple[str, float]], list[str]]:
        """Return the readings among the numbers of a row, and the names of those that were passed over."""
        if not self._options.variables:
            passed = [name for name in numbers if name in preset.apart or is_diagnostic(name) or is_place(name)]
            return [(name, value) for name, value in numbers.items() if name not in passed], passed
        chosen = []
        for variable in self._options.variables:
            name = variable.removeprefix(f"{preset.values}.")
            if name in numbers:
                chosen.append((name, numbers[name]))
        if not chosen and len(numbers) == 1 and self._topic.variable is not None and "" in numbers:
            chosen = [("", numbers[""])]
        return chosen, []

    def _add(self, entry: dict[str, Any], layout: ObjectLayout) -> None:
        time = None
        if layout.time is not None:
            content = entry[layout.time]
            time = self._time(content if layout.clock is None else f"{str(content)[:10]} {entry[layout.clock]}")
        sensor = self._topic.sensor if layout.sensor is None else entry[layout.sensor]
        if len(layout.columns) == 1 and not layout.across:
            name = layout.names[0]
            if name is None:
                name = self._topic.variable if layout.variable is None else entry[layout.variable]
            self._buffer.add(sensor, name, time, number(entry[layout.columns[0]]))
        else:
            self._add_wide(entry, layout, sensor, time)
        if layout.latitude is not None and layout.longitude is not None and not layout.across:
            self._buffer.add_position(sensor, time, entry[layout.latitude], entry[layout.longitude])

    def _add_wide(self, entry: dict[str, Any], layout: ObjectLayout, sensor: Any, time: int | None) -> None:
        cells = [(column, name, entry[column]) for column, name in zip(layout.columns, layout.names, strict=True)]
        cells = [cell for cell in cells if cell[2] is not None and cell[2] != ""]
        if not cells:
            raise InvalidReadingError(NO_READING)
        for column, name, content in cells:
            channel: tuple[Any, Any] = (name, self._topic.variable) if layout.across else (sensor, name)
            try:
                self._buffer.add(*channel, time, number(content))
            except InvalidReadingError as refused:
                self._buffer.refuse(str(refused), {column: content})

    def _time(self, content: Any) -> int | None:
        """Return a time; None for a missing one."""
        if content is None:
            return None
        if type(content) is not str:
            return time_from(content)
        try:
            return self._times[content]
        except KeyError:
            if content.strip().lower() in MISSING:
                return None
            time = time_from(content)
            if len(self._times) >= MOST_TIMES:
                self._times.clear()
            self._times[content] = time
            return time


def _first(row: Mapping[str, Any], paths: Sequence[str]) -> Any:
    """Return what a row has at the first of some paths that it has."""
    return next((content for path in paths if (content := at(row, path)) is not None), None)


def _numbers(values: Any, prefix: str = "", depth: int = 1) -> dict[str, float]:
    """Return the numbers of an object and of those in it, whose names are joined by points; without missing ones."""
    numbers: dict[str, float] = {}
    if not isinstance(values, Mapping) or depth > NESTED:
        return numbers
    if len(values) > MOST_KEYS:
        raise InvalidReadingError(TOO_LARGE)
    for key, content in values.items():
        if type(content) is dict:
            numbers |= _numbers(content, f"{prefix}{key}.", depth + 1)
        elif type(content) in (int, float, str):
            with suppress(InvalidReadingError):
                value = number(content)
                if not math.isnan(value):
                    numbers[f"{prefix}{key}"] = value
    return numbers


def _parsed(text: str) -> Any:
    try:
        return _parse(text)
    except ValueError:
        raise InvalidReadingError(NOT_JSON) from None
