"""What a user may say about readings: the same names for `clean()`, the command line and a TOML file."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.readings import DAY, HOUR, MINUTE, SECOND

__all__ = ["COLUMNS", "DASHBOARD", "EVERY", "LOOPBACK", "Options", "duration", "in_words", "read_toml"]

EVERY = ""
"""The key of `fill`, `valid` and `tolerance` that stands for every variable."""

COLUMNS = ("sensor", "time", "value", "variable", "latitude", "longitude", "networks")
"""The options that are the name of a column."""

LOOPBACK = "127.0.0.1"
DASHBOARD = (LOOPBACK, 8464)
"""Where the dashboard is served unless somebody says otherwise."""

UNITS = {"s": SECOND, "sec": SECOND, "min": MINUTE, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}


@dataclass(frozen=True)
class Options:
    """How the readings are to be read and mended; what is not said is found from the data.

    Attributes
    ----------
    sensor, time, value, variable, latitude, longitude
        The names of these columns.
    networks
        The column that says which network a reading is from, where each is to have a model of its own.
    sensor_from_file
        The sensor is the name of the file, without its ending.
    variables
        The columns that are variables, where each has its own.
    sensors
        The columns that are sensors, where each has its own.
    step, period
        The grid: `"15min"`, `"1h"`, `"1d"`.
    fill
        Values that stand for "no reading": a list, or a list per variable. An empty list: there are none.
    valid
        The lowest and the highest value that are possible: a pair, or a pair per variable.
    tolerance
        The accuracy of the probes: a number, or one per variable. Nothing that is off by less is flagged.
    maintenance
        A CSV file of what people know: sensor, from, to, action, and variable where it is about one only.
    coordinates
        A CSV file of where the sensors stand: sensor, latitude, longitude, and from, since when.
    gone_after
        How long a sensor may be silent before it is taken to be gone.
    interval
        Nominal coverage of `lower` ... `upper`.
    seed
        For the random axes by which the sensors of a large network are compared.
    one_pass
        Do not clean the first weeks again.
    per_reading
        A row for every reading rather than for every slot.
    wide
        Cleaned values alone, a column per sensor, or per variable beside a column of sensors where there are several.
    units, names
        What variables are measured in and called, for the axes of pictures and for NetCDF: a text for all, or one per
        variable.
    """

    sensor: str | None = None
    time: str | None = None
    value: str | None = None
    variable: str | None = None
    latitude: str | None = None
    longitude: str | None = None
    networks: str | None = None
    sensor_from_file: bool = False
    variables: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    step: int | None = None
    period: int | None = None
    fill: Mapping[str, tuple[float, ...]] | None = None
    valid: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=dict)
    maintenance: Path | None = None
    coordinates: Path | None = None
    gone_after: int = 30 * DAY
    interval: float = 0.9
    seed: int = 0
    one_pass: bool = False
    per_reading: bool = False
    wide: bool = False
    units: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, **said: Any) -> Options:
        """Return options from what a user said, in the user's own forms; None is not said."""
        known = {entry.name for entry in fields(cls)}
        for name in said:
            if name not in known:
                raise ConfigError(f"there is no option {name!r}; there are {', '.join(sorted(known))}")
        checked = {name: _FORMS.get(name, _plain)(name, given) for name, given in said.items() if given is not None}
        options = cls(**checked)
        if not 0 < options.interval < 1:
            raise ConfigError(f"interval is a share between 0 and 1; got {options.interval!r}")
        if options.wide and options.per_reading:
            raise ConfigError("a wide table has one value per sensor and slot: give wide or per_reading, not both")
        if options.step and options.period and options.period % options.step:
            raise ConfigError(
                f"a period of {in_words(options.period)} is no whole number of steps of {in_words(options.step)}"
            )
        return options

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], **said: Any) -> Options:
        """Read options from a TOML file; paths in it are meant from where it lies, what is `said` goes before it."""
        path = Path(path)
        written = read_toml(path)
        for name in ("maintenance", "coordinates"):
            if isinstance(written.get(name), str):
                written[name] = path.parent / written[name]
        try:
            return cls.of(**{**written, **{name: given for name, given in said.items() if given is not None}})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def fill_of(self, variable: str) -> tuple[float, ...] | None:
        """Return the fill values given for a variable; None where nothing was said."""
        return None if self.fill is None else self.fill.get(variable, self.fill.get(EVERY))

    def valid_of(self, variable: str) -> tuple[float, float]:
        """Return the limits given for a variable."""
        return self.valid.get(variable, self.valid.get(EVERY, (-math.inf, math.inf)))

    def units_of(self, variable: str) -> str:
        """Return the unit given for a variable; empty where nothing was said."""
        return self.units.get(variable, self.units.get(EVERY, ""))

    def name_of(self, variable: str) -> str:
        """Return what a variable is to be called; empty where nothing was said."""
        return self.names.get(variable, self.names.get(EVERY, ""))

    def per_variable(self) -> dict[str, Mapping[str, Any]]:
        """Return the options that say something of variables one by one."""
        return {
            "valid": self.valid,
            "fill": self.fill or {},
            "tolerance": self.tolerance,
            "units": self.units,
            "names": self.names,
        }

    def refuse_unknown(self, variables: Sequence[str]) -> None:
        """Refuse limits, fill values, tolerances, units and names of a variable that is not there."""
        for name, said in self.per_variable().items():
            unknown = sorted(set(said).difference(variables, [EVERY]))
            if unknown:
                there = ", ".join(variable for variable in variables if variable) or "one variable, which has no name"
                raise ConfigError(f"{name} speaks of {unknown[0]!r}; there is {there}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file that people keep."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from None


def duration(said: str | timedelta) -> int:
    """Return a duration like `15min`, `1h` or `1 d` in microseconds.

    Examples
    --------
    >>> duration("15min") // 1_000_000
    900
    """
    if isinstance(said, timedelta):
        said = f"{said / timedelta(seconds=1)}s"
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*([a-z]+)\s*", said.lower()) if isinstance(said, str) else None
    unit = UNITS.get(found[2]) or UNITS.get(found[2].rstrip("s")) or _long(found[2]) if found else None
    length = round(float(found[1] or 1) * unit) if found and unit else 0
    if length < 1:
        raise ConfigError(f"a duration is a number and a unit, like 15min, 1h or 1d; got {said!r}")
    return length


def _long(word: str) -> int | None:
    names = {"second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": 7 * DAY}
    return names.get(word.rstrip("s"))


def in_words(length: int) -> str:
    """Say a duration as `duration` reads it.

    Examples
    --------
    >>> in_words(900_000_000)
    '15min'
    """
    for name, unit in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        if length % unit == 0:
            return f"{length // unit}{name}"
    return f"{length / SECOND:g}s"


def _plain(name: str, given: Any) -> Any:
    kind: Any = Options.__dataclass_fields__[name].type
    if kind == "bool" and not isinstance(given, bool):
        raise ConfigError(f"{name} is true or false; got {given!r}")
    if kind == "int" and (isinstance(given, bool) or not isinstance(given, int)):
        raise ConfigError(f"{name} is a whole number; got {given!r}")
    if kind == "float" and (isinstance(given, bool) or not isinstance(given, int | float)):
        raise ConfigError(f"{name} is a number; got {given!r}")
    if name in COLUMNS and not isinstance(given, str):
        raise ConfigError(f"{name} is the name of a column; got {given!r}")
    return given


def _duration(name: str, given: Any) -> int:
    try:
        return duration(given)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _names(name: str, given: Any) -> tuple[str, ...]:
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, Sequence) or not all(isinstance(entry, str) for entry in given):
        raise ConfigError(f"{name} is a list of column names; got {given!r}")
    return tuple(given)


def _path(name: str, given: Any) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"{name} is the path of a CSV file; got {given!r}")
    return Path(given)


def _numbers(name: str, given: Any) -> tuple[float, ...]:
    given = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if any(isinstance(entry, bool) or not isinstance(entry, int | float) for entry in given):
        raise ConfigError(f"{name} is a list of numbers; got {given!r}")
    return tuple(float(entry) for entry in given)


def _texts(name: str, given: Any) -> dict[str, str]:
    per_variable = given if isinstance(given, Mapping) else {EVERY: given}
    if not all(isinstance(text, str) for text in per_variable.values()):
        raise ConfigError(f"{name} is a text, or a text per variable; got {given!r}")
    return dict(per_variable)


def _fill(name: str, given: Any) -> dict[str, tuple[float, ...]]:
    per_variable = given if isinstance(given, Mapping) else {EVERY: given}
    return {variable: _numbers(name, values) for variable, values in per_variable.items()}


def _valid(name: str, given: Any) -> dict[str, tuple[float, float]]:
    per_variable = given if isinstance(given, Mapping) else {EVERY: given}
    limits = {}
    for variable, pair in per_variable.items():
        numbers = _numbers(name, pair)
        if len(numbers) != 2 or not numbers[0] < numbers[1]:
            raise ConfigError(f"{name} is a lowest and a highest value, like [-40, 50]; got {pair!r}")
        limits[variable] = (numbers[0], numbers[1])
    return limits


def _tolerance(name: str, given: Any) -> dict[str, float]:
    per_variable = given if isinstance(given, Mapping) else {EVERY: given}
    for number in per_variable.values():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ConfigError(f"{name} is a number, 0 or more, or one for each variable; got {number!r}")
    return {variable: float(number) for variable, number in per_variable.items()}


_FORMS: dict[str, Any] = {
    **dict.fromkeys(("step", "period", "gone_after"), _duration),
    **dict.fromkeys(("variables", "sensors"), _names),
    **dict.fromkeys(("maintenance", "coordinates"), _path),
    **dict.fromkeys(("units", "names"), _texts),
    "fill": _fill,
    "valid": _valid,
    "tolerance": _tolerance,
}
