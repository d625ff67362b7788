"""Which key of a JSON object is what: by the names that `clean` knows, found once per set of keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.options import Options
from sensormend.io.table_layout import Kind, TableLayout, called, kind_of, recognise
from sensormend.stream.formats.refused import NO_READING, NO_SENSOR, NOT_A_NUMBER, NOT_A_TIME, TOO_DEEP, Refused
from sensormend.stream.formats.topics import Told

__all__ = ["NESTED", "Shape", "flattened", "shape_of"]

NESTED = 4
"""Objects within objects are named `a.b.c`, as `clean` names them; deeper ones are refused."""

_WEAK = ("id", "name", "code")
# Under these names a small number is a clock that was not set; under others that mean a time it is rather a flag.
_SURE = ("time", "timestamp", "datetime", "ts", "epoch", "unix", "unixtime")
_NOW = "\0received"


@dataclass(frozen=True)
class Shape:
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
        raise Refused(TOO_DEEP)
    for key, value in entry.items():
        if type(value) is dict:
            _flatten(value, f"{above}{key}.", depth + 1, flat)
        else:
            flat[above + key] = value


def shape_of(entry: Mapping[str, Any], options: Options, topic: Told) -> Shape:
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
    Refused
        Where it cannot be found out.
    """
    kinds = {key: _kind(key, value, options) for key, value in entry.items()}
    said = _about(options, kinds)
    timed = _find_time(kinds, entry, said)
    if not timed:
        kinds[_NOW] = "time"
        said = replace(said, time=_NOW)
    said, hidden = _find_sensor(kinds, said, options, topic)
    columns = [(key, kind) for key, kind in kinds.items() if key not in hidden]
    try:
        layout = recognise(columns, said, "")
    except ConfigError:
        raise Refused(_why(kinds, entry, said)) from None
    if layout.across == "sensor" and not said.sensors and not timed:
        raise Refused(NO_SENSOR)  # any object with two numbers would be sensors and the time of arrival
    return _shape(layout, entry, topic.variable is not None)


def _shape(layout: TableLayout, entry: Mapping[str, Any], in_topic: bool) -> Shape:
    names: tuple[str | None, ...] = layout.columns
    if layout.across == "value":
        # Messages come one by one: what is alone in this one may be among others in the next.
        elsewhere = layout.variable is not None or in_topic
        names = (None,) if elsewhere else (layout.name,)
    time = None if layout.time == _NOW else layout.time
    shape = Shape(
        time,
        layout.sensor,
        layout.variable,
        layout.columns,
        names,
        layout.across == "sensor",
        layout.latitude,
        layout.longitude,
        layout.clock if time is not None else None,
    )
    simple = len(shape.columns) == 1 and not shape.across and shape.latitude is None and shape.clock is None
    return replace(shape, simple=simple and len(layout.used) == len(entry) + (time is None))


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
    there: dict[str, Any] = {
        role: tuple(key for key in getattr(options, role) if _alike(key, kinds)) for role in ("variables", "sensors")
    }
    long = options.value is not None and _alike(options.value, kinds) is not None
    if long or there["sensors"]:
        there["variables"] = ()
    elif options.sensors or (options.value is not None and not there["variables"]):
        raise Refused(NO_READING)
    elif options.variables and not there["variables"]:
        values = [kind for key, kind in kinds.items() if called("value", key)]
        if "number" not in values:
            raise Refused(NOT_A_NUMBER if values else NO_READING)
    for role in ("time", "value", "variable", "latitude", "longitude"):
        key = getattr(options, role)
        there[role] = key if key is not None and _alike(key, kinds) else None
    return replace(options, **there)


def _alike(key: str, kinds: Mapping[str, Kind]) -> str | None:
    plain = _plain(key)
    return key if key in kinds else next((name for name in kinds if _plain(name) == plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _find_time(kinds: dict[str, Kind], entry: Mapping[str, Any], said: Options) -> bool:
    """Say whether an object has a time; numbers that mean none are put aside, texts that should be one refused."""
    if said.time is not None:
        key = _alike(said.time, kinds)
        if key is not None and kinds[key] == "other" and not isinstance(entry[key], str | None):
            raise Refused(NOT_A_TIME)
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
        raise Refused(NOT_A_TIME)
    return False


def _small(value: Any) -> bool:
    try:
        return abs(float(value)) < 1e8
    except (ValueError, OverflowError):
        return False


def _find_sensor(kinds: Mapping[str, Kind], said: Options, options: Options, topic: Told) -> tuple[Options, set[str]]:
    """Return where the sensor's name is to be looked for, and the keys in which it is not."""
    if said.sensors:
        return replace(said, sensor=None), set()
    if options.sensor is not None:
        key = _alike(options.sensor, kinds)
        if key is not None and kinds[key] != "other":
            return replace(said, sensor=key), set()
        if topic.sensor is None:
            raise Refused(NO_SENSOR)
        return replace(said, sensor=None, sensor_from_file=True), set()
    known = {key for key in kinds if called("sensor", key)}
    named = {key for key in known if kinds[key] in ("text", "number", "time", "date", "clock")}
    weak = {key for key in named if topic.sure and _plain(key) in _WEAK}
    if topic.sensor is not None and not named - weak:
        return replace(said, sensor_from_file=True), weak
    if known and not named:
        raise Refused(NO_SENSOR)
    # A name like 2020-01-01 or 12:00 is a name all the same where its key says so.
    odd = next((key for key in named - weak if kinds[key] in ("time", "date", "clock")), None)
    return (replace(said, sensor=odd) if odd is not None else said), weak


def _why(kinds: Mapping[str, Kind], entry: Mapping[str, Any], said: Options) -> str:
    """Say why an object could not be recognised."""
    if any(called("value", key) and kinds[key] in ("text", "time", "date", "clock", "other") and entry[key] is not None
           for key in entry):  # fmt: skip
        return NOT_A_NUMBER
    numbers = [key for key, kind in kinds.items() if kind == "number" and not called("time", key)]
    if not numbers:
        return NO_READING
    return NO_READING if said.sensor_from_file or said.sensor is not None else NO_SENSOR
