"""`layout_of` finds which key of a JSON object is what; `aligned_columns` reads many objects that are all alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.io.options import Options
from sensormend.io.table_layout import Kind, TableLayout, called, kind_of, recognise
from sensormend.io.times import EARLIEST, LATEST
from sensormend.stream.formats.topics import TopicFields
from sensormend.stream.formats.values import (
    NO_READING,
    NO_SENSOR,
    NOT_A_NUMBER,
    NOT_A_TIME,
    TOO_DEEP,
    InvalidReadingError,
    scale_of,
)

__all__ = ["NESTED", "ObjectLayout", "aligned_columns", "flattened", "layout_of"]

NESTED = 4
"""Objects within objects are named `a.b.c`, as `clean` names them; deeper ones are refused."""

_WEAK = ("id", "name", "code")
# Under these names a small number is a clock that was not set; under others that mean a time it is rather a flag.
_SURE = ("time", "timestamp", "datetime", "ts", "epoch", "unix", "unixtime")
_NOW = "\0received"

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:Z|\+00:00)?", re.ASCII)
_NUMBERS = ({int}, {float}, {int, float})


@dataclass(frozen=True)
class ObjectLayout:
    """How objects with the same keys are read.

    Attributes
    ----------
    time
        The key of the time; None where it is the time of arrival.
    sensor, variable
        The keys of these names; None where the topic, or `names`, has them.
    columns
        The keys of the numbers.
    names
        What each number is of: the variable, or the sensor where `across` says so; None where another key or the
        topic says it.
    across
        The columns are sensors.
    simple
        One number, and nothing in the object that is not read.
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


def flattened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without objects in it.

    Examples
    --------
    >>> flattened({"device": {"id": "a"}, "temp": 20.5})
    {'device.id': 'a', 'temp': 20.5}
    """
    flat: dict[str, Any] = {}
    _flatten(entry, "", 1, flat)
    return flat


def _flatten(entry: Mapping[str, Any], above: str, depth: int, flat: dict[str, Any]) -> None:
    if depth > NESTED:
        raise InvalidReadingError(TOO_DEEP)
    for key, value in entry.items():
        if type(value) is dict:
            _flatten(value, f"{above}{key}.", depth + 1, flat)
        else:
            flat[above + key] = value


def layout_of(entry: Mapping[str, Any], options: Options, topic: TopicFields) -> ObjectLayout:
    """Find out how an object is to be read.

    Parameters
    ----------
    entry
        The object, without others in it.
    options
        What the user says about keys goes before every guess.
    topic
        What the topic says; only whether it says it matters here.

    Raises
    ------
    InvalidReadingError
        The layout cannot be recognised.
    """
    kinds = {key: _kind(key, value, options) for key, value in entry.items()}
    asked = _about(options, kinds)
    timed = _find_time(kinds, entry, asked)
    if not timed:
        kinds[_NOW] = "time"
        asked = replace(asked, time=_NOW)
    asked, hidden = _find_sensor(kinds, asked, options, topic)
    columns = [(key, kind) for key, kind in kinds.items() if key not in hidden]
    try:
        recognised = recognise(columns, asked, "")
    except ConfigError:
        raise InvalidReadingError(_why(kinds, entry, asked)) from None
    if recognised.across == "sensor" and not asked.sensors and not timed:
        raise InvalidReadingError(NO_SENSOR)  # any object with two numbers would be sensors and the time of arrival
    return _object_layout(recognised, entry, topic.variable is not None)


def _object_layout(layout: TableLayout, entry: Mapping[str, Any], in_topic: bool) -> ObjectLayout:
    names: tuple[str | None, ...] = layout.columns
    if layout.across == "value":
        # Messages come one by one: what is alone in this one may be among others in the next.
        elsewhere = layout.variable is not None or in_topic
        names = (None,) if elsewhere else (layout.name,)
    time = None if layout.time == _NOW else layout.time
    clock = layout.clock if time is not None else None
    alone = len(layout.columns) == 1 and layout.across != "sensor" and layout.latitude is None and clock is None
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
        simple=alone and len(layout.used) == len(entry) + (time is None),
    )


def _kind(key: str, value: Any, options: Options) -> Kind:
    if type(value) is int or type(value) is float:
        return "number"
    if type(value) is str:
        kind = kind_of([value])
        if kind != "other":
            return kind
    elif value is not None:
        return "other"
    # Nothing in it. Where one key has the number, that is a reading without one; a wide object just lacks a cell.
    return "number" if key == options.value or (options.value is None and called("value", key)) else "other"


def _about(options: Options, kinds: Mapping[str, Kind]) -> Options:
    """Return what the user says, without the keys that this object does not have.

    The variables are those that may come, in whatever way: an object that has none of them as keys may be a long one.
    """
    present: dict[str, Any] = {
        role: tuple(key for key in getattr(options, role) if _alike(key, kinds)) for role in ("variables", "sensors")
    }
    long = options.value is not None and _alike(options.value, kinds) is not None
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
        present[role] = key if key is not None and _alike(key, kinds) else None
    return replace(options, **present)


def _alike(key: str, kinds: Mapping[str, Kind]) -> str | None:
    plain = _plain(key)
    return key if key in kinds else next((name for name in kinds if _plain(name) == plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _find_time(kinds: dict[str, Kind], entry: Mapping[str, Any], asked: Options) -> bool:
    """Say whether an object has a time; numbers that mean none are put aside, texts that should be one refused."""
    if asked.time is not None:
        key = _alike(asked.time, kinds)
        if key is not None and kinds[key] == "other" and not isinstance(entry[key], str | None):
            raise InvalidReadingError(NOT_A_TIME)
        return key is not None and kinds[key] != "other"
    known = [key for key in kinds if called("time", key)]
    for key in known:
        if kinds[key] == "number" and _plain(key) not in _SURE and _small(entry[key]):
            kinds[key] = "other"
    if any(kind in ("time", "date") for kind in kinds.values()) or any(kinds[key] == "number" for key in known):
        return True
    strange = [key for key in known if _plain(key) in _SURE and not isinstance(entry[key], int | float | str | None)]
    strange += [key for key in known if _plain(key) in _SURE and isinstance(entry[key], bool)]
    if strange or any(kinds[key] == "text" for key in known):
        raise InvalidReadingError(NOT_A_TIME)
    return False


def _small(value: Any) -> bool:
    try:
        return abs(float(value)) < 1e8
    except (ValueError, OverflowError):
        return False


def _find_sensor(
    kinds: Mapping[str, Kind], asked: Options, options: Options, topic: TopicFields
) -> tuple[Options, set[str]]:
    """Return where the sensor's name is to be looked for, and the keys in which it is not."""
    if asked.sensors:
        return replace(asked, sensor=None), set()
    if options.sensor is not None:
        key = _alike(options.sensor, kinds)
        if key is not None and kinds[key] != "other":
            return replace(asked, sensor=key), set()
        if topic.sensor is None:
            raise InvalidReadingError(NO_SENSOR)
        return replace(asked, sensor=None, sensor_from_file=True), set()
    known = {key for key in kinds if called("sensor", key)}
    named = {key for key in known if kinds[key] in ("text", "number", "time", "date", "clock")}
    weak = {key for key in named if topic.sure and _plain(key) in _WEAK}
    if topic.sensor is not None and not named - weak:
        return replace(asked, sensor_from_file=True), weak
    if known and not named:
        raise InvalidReadingError(NO_SENSOR)
    # A name like 2020-01-01 or 12:00 is a name all the same where its key says so.
    odd = next((key for key in named - weak if kinds[key] in ("time", "date", "clock")), None)
    return (replace(asked, sensor=odd) if odd is not None else asked), weak


def _why(kinds: Mapping[str, Kind], entry: Mapping[str, Any], asked: Options) -> str:
    """Say why an object could not be recognised."""
    if any(called("value", key) and kinds[key] in ("text", "time", "date", "clock", "other") and entry[key] is not None
           for key in entry):  # fmt: skip
        return NOT_A_NUMBER
    numbers = [key for key, kind in kinds.items() if kind == "number" and not called("time", key)]
    if not numbers:
        return NO_READING
    return NO_READING if asked.sensor_from_file or asked.sensor is not None else NO_SENSOR


def aligned_columns(
    entries: Sequence[Any],
    layout: ObjectLayout,
    sensors: Mapping[str, int],
    variables: Mapping[str, int],
    variable: str | None,
    moment: Callable[[Any], int | None],
) -> tuple[NDArray[Any], ...] | None:
    """Return sensor, variable, time and value of objects; None where one of them needs a closer look.

    `layout` is how the first of them is read, a simple one; `sensors` and `variables` are the names that are known,
    `variable` is the topic's, and `moment` reads a written time.
    """
    keys = [layout.sensor, layout.time, layout.columns[0], *([layout.variable] if layout.variable is not None else [])]
    try:
        # As many keys, and these among them: there are no others.
        if set(map(len, entries)) != {len(keys)}:
            return None
        columns = list(zip(*map(itemgetter(*keys), entries), strict=True))
        sensor = list(map(sensors.__getitem__, columns[0]))
        if layout.variable is not None:
            of = np.array(list(map(variables.__getitem__, columns[3])), np.int32)
        else:
            of = np.full(len(entries), variables[layout.names[0] or variable or ""], np.int32)
        time = _times(columns[1], moment)
        if time is None or set(map(type, columns[2])) not in _NUMBERS:
            return None
        value = np.array(columns[2], np.float64)
    except (KeyError, TypeError, OverflowError, InvalidReadingError):
        return None
    return np.array(sensor, np.int32), of, time, value


def _times(written: Sequence[Any], moment: Callable[[Any], int | None]) -> NDArray[np.int64] | None:
    kinds = set(map(type, written))
    if kinds == {str}:
        alike = _written(written)
        # None, for no time at all, is no number: TypeError
        return np.array(list(map(moment, written)), np.int64) if alike is None else alike
    if kinds not in ({int}, {float}):
        return None
    count: NDArray[Any] = np.array(written, np.int64 if kinds == {int} else np.float64)
    least, most = float(np.abs(count).min()), float(np.abs(count).max())
    scale = scale_of(most)
    if not most < 1e19 or scale != scale_of(least):
        return None
    if kinds == {int}:
        count = count * scale if scale else count // 1000
    elif scale:
        count = np.rint(count * scale)
    else:
        return None
    return count.astype(np.int64) if count.min() >= EARLIEST and count.max() <= LATEST else None


def _written(written: Sequence[str]) -> NDArray[np.int64] | None:
    """Return ISO times in UTC that are all written alike; a third of the time it takes one by one."""
    form = _ISO.fullmatch(written[0])
    length = len(written[0])
    joined = "".join(written)
    if form is None or not joined.isascii() or set(map(len, written)) != {length}:
        return None
    letters = np.frombuffer(joined.encode(), np.uint8).reshape(-1, length)
    first = letters[0]
    digit = (first >= 48) & (first <= 57)
    here = letters[:, digit]
    if (letters[:, ~digit] != first[~digit]).any() or here.min() < 48 or here.max() > 57:
        return None
    end = form.end(1)
    try:
        time = np.ascontiguousarray(letters[:, :end]).view(f"S{end}").ravel().astype("datetime64[us]").view(np.int64)
    except ValueError:
        return None
    return time if time.min() >= EARLIEST and time.max() <= LATEST else None
