"""`find_layout` recognises the roles of keys of a JSON object; `aligned_columns` decodes objects of one layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.io.table_layout import Kind, TableLayout, called, find_kind, recognise
from sensormend.io.time_formats import EARLIEST, LATEST
from sensormend.pipeline.options import Options
from sensormend.stream.formats.presets import is_diagnostic
from sensormend.stream.formats.topics import TopicFields
from sensormend.stream.formats.values import (
    NO_READING,
    NO_SENSOR,
    NOT_A_NUMBER,
    NOT_A_TIME,
    NOT_MEASURED,
    TOO_DEEP,
    InvalidReadingError,
    find_scale,
)

__all__ = ["NESTED", "ObjectLayout", "aligned_columns", "find_layout", "flattened"]

NESTED = 4
"""The maximum number of levels of objects within objects, whose keys are `a.b.c` as for `clean`; deeper ones are
refused."""

_GENERIC_NAMES = ("id", "name", "code")
# Under these names a small number is a clock that was not set; under other names of times it is rather a flag.
_TIME_NAMES = ("time", "timestamp", "datetime", "ts", "epoch", "unix", "unixtime")
_ARRIVAL = "\0received"

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:Z|\+00:00)?", re.ASCII)
_NUMBERS = ({int}, {float}, {int, float})


@dataclass(frozen=True)
class ObjectLayout:
    """The roles of the keys of objects.

    Attributes
    ----------
    time
        The key of the time; None for the time of arrival.
    sensor, variable
        The keys of these names; None if they are in the topic or in `names`.
    columns
        The keys of the numbers.
    names
        The variable of each number, or the sensor if `across`; None if it is under another key or in the topic.
    across
        Whether the columns are sensors.
    latitude, longitude
        The keys of the position.
    clock
        The key of the time of day, where the date has a key of its own.
    simple
        Whether there is one number, and every key is used.
    passed
        The keys of numbers about the device or the message, which are not variables unless options name them.
    """

    time: str | None
    sensor: str | None
    variable: str | None
    columns: tuple[str, ...]
    names: tuple[str | None, ...]
    across: bool = False
    latitude: str | None = None
    longitude: str | None = None
    clock: str | None = None
    simple: bool = False
    passed: tuple[str, ...] = ()


def flattened(entry: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, Any]:
    """Return an object with the keys of nested objects joined by points.

    Examples
    --------
    >>> flattened({"device": {"id": "a"}, "temp": 20.5})
    {'device.id': 'a', 'temp': 20.5}
    """
    if depth > NESTED:
        raise InvalidReadingError(TOO_DEEP)
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        if type(value) is dict:
            flat |= flattened(value, f"{prefix}{key}.", depth + 1)
        else:
            flat[prefix + key] = value
    return flat


def find_layout(entry: Mapping[str, Any], options: Options, topic: TopicFields) -> ObjectLayout:
    """Recognise the layout of a flat object, or raise an `InvalidReadingError`.

    The roles that options give to keys take precedence. Of the topic only the presence of its names matters.
    """
    kinds = {key: _kind(key, value, options) for key, value in entry.items()}
    present = _present_options(options, kinds)
    timed = _has_time(kinds, entry, present)
    if not timed and (key := _inner_time(kinds, entry)) is not None:
        present, timed = replace(present, time=key), True
    if not timed:
        kinds[_ARRIVAL] = "time"
        present = replace(present, time=_ARRIVAL)
    present, hidden = _find_sensor(kinds, present, options, topic)
    passed = _diagnostic_keys(kinds, options)
    # Those that may have another role, like `id`, are left out of the readings below.
    hidden |= {key for key in passed if not any(called(role, key) for role in ("sensor", "variable", "time", "value"))}
    columns = [(key, kind) for key, kind in kinds.items() if key not in hidden]
    try:
        recognised = recognise(columns, present, "")
    except ConfigError:
        reason = _reason({key: kind for key, kind in kinds.items() if key not in passed}, entry, present)
        raise InvalidReadingError(NOT_MEASURED if passed and reason == NO_READING else reason) from None
    recognised, passed = _measured(recognised, passed)
    if recognised.across == "sensor" and not present.sensors and not timed:
        raise InvalidReadingError(NO_SENSOR)  # else any object with two numbers would be two sensors
    return _object_layout(recognised, entry, topic.variable is not None, passed)


def _diagnostic_keys(kinds: Mapping[str, Kind], options: Options) -> tuple[str, ...]:
    """Return the keys of numbers that are not measured; none where the options name the readings."""
    if options.value is not None or options.variables or options.sensors:
        return ()
    return tuple(key for key, kind in kinds.items() if kind == "number" and is_diagnostic(key))


def _measured(layout: TableLayout, passed: tuple[str, ...]) -> tuple[TableLayout, tuple[str, ...]]:
    """Return a layout without the columns that are not measured, and those of them that have no other role."""
    columns = tuple(column for column in layout.columns if column not in passed)
    if not columns:
        raise InvalidReadingError(NOT_MEASURED)
    layout = replace(layout, columns=columns)
    return layout, tuple(key for key in passed if key not in layout.used)


def _object_layout(
    layout: TableLayout, entry: Mapping[str, Any], in_topic: bool, passed: tuple[str, ...]
) -> ObjectLayout:
    names: tuple[str | None, ...] = layout.columns
    if layout.across == "value":
        # A number that is alone in this message may be one of several in the next.
        names = (None,) if layout.variable is not None or in_topic else (layout.name,)
    time = None if layout.time == _ARRIVAL else layout.time
    clock = layout.clock if time is not None else None
    single = len(layout.columns) == 1 and layout.across != "sensor" and layout.latitude is None and clock is None
    return ObjectLayout(
        time,
        layout.sensor,
        layout.variable,
        layout.columns,
        names,
        layout.across == "sensor",
        layout.latitude,
        layout.longitude,
        clock,
        simple=single and len(layout.used) == len(entry) + (time is None),
        passed=passed,
    )


def _kind(key: str, value: Any, options: Options) -> Kind:
    if type(value) is int or type(value) is float:
        return "number"
    if type(value) is str:
        kind = find_kind([value])
        if kind != "other":
            return kind
    elif value is not None:
        return "other"
    # A missing value: under the key of the number it is a reading without a number, in a wide object an empty cell.
    return "number" if key == options.value or (options.value is None and called("value", key)) else "other"


def _present_options(options: Options, kinds: Mapping[str, Kind]) -> Options:
    """Return the options without the keys that this object does not have.

    An object that has none of the variables as keys may be a long one.
    """
    present: dict[str, Any] = {
        role: tuple(key for key in getattr(options, role) if _matching(key, kinds)) for role in ("variables", "sensors")
    }
    long = options.value is not None and _matching(options.value, kinds) is not None
    if long or present["sensors"]:
        present["variables"] = ()
    elif options.sensors or (options.value is not None and not present["variables"]):
        raise InvalidReadingError(NO_READING)
    elif options.variables and not present["variables"]:
        values = [kind for key, kind in kinds.items() if called("value", key)]
        if "number" not in values:
            raise InvalidReadingError(NOT_A_NUMBER if values else NO_READING)
    for role in ("time", "value", "variable", "latitude", "longitude"):
        key = getattr(options, role)
        present[role] = key if key is not None and _matching(key, kinds) else None
    return replace(options, **present)


def _matching(key: str, kinds: Mapping[str, Kind]) -> str | None:
    """Return the key of an object that is this one, apart from case and punctuation."""
    normal = _normal(key)
    return key if key in kinds else next((name for name in kinds if _normal(name) == normal), None)


def _normal(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _has_time(kinds: dict[str, Kind], entry: Mapping[str, Any], options: Options) -> bool:
    """Return whether an object has a time; mark numbers that are none, and refuse texts that should be one."""
    if options.time is not None:
        key = _matching(options.time, kinds)
        if key is not None and kinds[key] == "other" and not isinstance(entry[key], str | None):
            raise InvalidReadingError(NOT_A_TIME)
        return key is not None and kinds[key] != "other"
    candidates = [key for key in kinds if called("time", key)]
    sure = {key for key in candidates if _normal(key) in _TIME_NAMES}
    for key in candidates:
        if kinds[key] == "number" and key not in sure and _is_small(entry[key]):
            kinds[key] = "other"
    if any(kind in ("time", "date") for kind in kinds.values()) or any(kinds[key] == "number" for key in candidates):
        return True
    if any(type(entry[key]) not in (int, float, str, type(None)) for key in sure) or any(
        kinds[key] == "text" for key in candidates
    ):
        raise InvalidReadingError(NOT_A_TIME)
    return False


def _inner_time(kinds: Mapping[str, Kind], entry: Mapping[str, Any]) -> str | None:
    """Return the key of the only time within a nested object, like `params.ts`; None for none or several."""
    inner = [
        key
        for key, kind in kinds.items()
        if "." in key and _normal(key.rpartition(".")[2]) in _TIME_NAMES
        if kind == "time" or (kind == "number" and not _is_small(entry[key]))
    ]
    return inner[0] if len(inner) == 1 else None


def _is_small(value: Any) -> bool:
    try:
        return abs(float(value)) < 1e8
    except (ValueError, OverflowError):
        return False


def _find_sensor(
    kinds: Mapping[str, Kind], present: Options, options: Options, topic: TopicFields
) -> tuple[Options, set[str]]:
    """Return the options with the key of the sensor, and the keys that must not be taken for it."""
    if present.sensors:
        return replace(present, sensor=None), set()
    if options.sensor is not None:
        key = _matching(options.sensor, kinds)
        if key is not None and kinds[key] != "other":
            return replace(present, sensor=key), set()
        if topic.sensor is None:
            raise InvalidReadingError(NO_SENSOR)
        return replace(present, sensor=None, sensor_from_file=True), set()
    candidates = {key for key in kinds if called("sensor", key)}
    named = {key for key in candidates if kinds[key] != "other"}
    generic = {key for key in named if topic.sure and _normal(key) in _GENERIC_NAMES}
    if topic.sensor is not None and not named - generic:
        return replace(present, sensor_from_file=True), generic
    if candidates and not named:
        raise InvalidReadingError(NO_SENSOR)
    # A name like 2020-01-01 or 12:00 is a name under the key of a sensor.
    time_like = next((key for key in named - generic if kinds[key] in ("time", "date", "clock")), None)
    return (replace(present, sensor=time_like) if time_like is not None else present), generic


def _reason(kinds: Mapping[str, Kind], entry: Mapping[str, Any], options: Options) -> str:
    """Return the reason why an object could not be recognised."""
    if any(called("value", key) and kinds[key] != "number" and entry[key] is not None for key in entry):
        return NOT_A_NUMBER
    numbers = [key for key, kind in kinds.items() if kind == "number" and not called("time", key)]
    if not numbers or options.sensor_from_file or options.sensor is not None:
        return NO_READING
    return NO_SENSOR


def aligned_columns(
    entries: Sequence[Any],
    layout: ObjectLayout,
    sensors: Mapping[str, int],
    variables: Mapping[str, int],
    variable: str | None,
    parse_time: Callable[[Any], int | None],
) -> tuple[NDArray[Any], ...] | None:
    """Return the sensors, variables, times and values of objects; None if they have to be decoded one by one.

    `layout` is that of the first object, a simple one; `sensors` and `variables` are the codes of known names, and
    `variable` is the topic's.
    """
    keys = [layout.sensor, layout.time, layout.columns[0], *([layout.variable] if layout.variable is not None else [])]
    try:
        # As many keys, with these among them: there are no others.
        if set(map(len, entries)) != {len(keys)}:
            return None
        columns = list(zip(*map(itemgetter(*keys), entries), strict=True))
        sensor = list(map(sensors.__getitem__, columns[0]))
        if layout.variable is not None:
            codes = np.array(list(map(variables.__getitem__, columns[3])), np.int32)
        else:
            codes = np.full(len(entries), variables[layout.names[0] or variable or ""], np.int32)
        time = _times(columns[1], parse_time)
        if time is None or set(map(type, columns[2])) not in _NUMBERS:
            return None
        value = np.array(columns[2], np.float64)
    except (KeyError, TypeError, OverflowError, InvalidReadingError):
        return None
    return np.array(sensor, np.int32), codes, time, value


def _times(contents: Sequence[Any], parse_time: Callable[[Any], int | None]) -> NDArray[np.int64] | None:
    kinds = set(map(type, contents))
    if kinds == {str}:
        times = _iso_times(contents)
        # A missing time is None, which numpy refuses with a TypeError.
        return np.array(list(map(parse_time, contents)), np.int64) if times is None else times
    if kinds not in ({int}, {float}):
        return None
    count: NDArray[Any] = np.array(contents, np.int64 if kinds == {int} else np.float64)
    smallest, largest = float(np.abs(count).min()), float(np.abs(count).max())
    scale = find_scale(largest)
    if not largest < 1e19 or scale != find_scale(smallest):
        return None
    if kinds == {int}:
        count = count * scale if scale else count // 1000
    elif scale:
        count = np.rint(count * scale)
    else:
        return None
    return count.astype(np.int64) if count.min() >= EARLIEST and count.max() <= LATEST else None


def _iso_times(texts: Sequence[str]) -> NDArray[np.int64] | None:
    """Return ISO times in UTC that all have the same format, three times as fast as one by one; None for others."""
    match, length, joined = _ISO.fullmatch(texts[0]), len(texts[0]), "".join(texts)
    if match is None or not joined.isascii() or set(map(len, texts)) != {length}:
        return None
    letters = np.frombuffer(joined.encode(), np.uint8).reshape(-1, length)
    is_digit = (letters >= 48) & (letters <= 57)
    other = ~is_digit[0]
    if (is_digit != is_digit[0]).any() or (letters[:, other] != letters[0, other]).any():
        return None
    end = match.end(1)
    try:
        time = np.ascontiguousarray(letters[:, :end]).view(f"S{end}").ravel().astype("datetime64[us]").view(np.int64)
    except ValueError:
        return None
    return time if time.min() >= EARLIEST and time.max() <= LATEST else None
