"""`Options` holds the user's options for readings; `option` declares each one for Python, TOML and the command line."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, shown
from sensormend.files import open_text
from sensormend.methods import BATCH, ONLINE
from sensormend.pipeline.times import duration, in_words
from sensormend.readings import DAY

__all__ = [
    "COLUMNS",
    "DASHBOARD",
    "EVERY",
    "LOOPBACK",
    "Declaration",
    "Options",
    "Validator",
    "choice",
    "column",
    "declarations",
    "flag",
    "matches",
    "number",
    "option",
    "path",
    "read_toml",
    "refused",
    "span",
    "split_names",
    "text",
    "whole",
]

LONGEST_TITLE = 120
"""The maximum number of characters of a title."""

EVERY = ""
"""The key of `fill`, `valid`, `tolerance`, `units` and `names` that applies to every variable."""

LOOPBACK = "127.0.0.1"
DASHBOARD = (LOOPBACK, 8464)
"""The default address of the dashboard."""

Validator = Callable[[str, Any], Any]
"""Takes the name of an option and its value, and returns the value to use, or raises a `ConfigError`."""


@dataclass(frozen=True)
class Declaration:
    """The declaration of an option.

    Attributes
    ----------
    validator
        Checks the value given in Python, in a TOML file or on the command line.
    help
        The text of `--help`.
    group
        Its heading in `--help`; empty if it is not on the command line.
    command
        The only command that takes it; None for all.
    key
        Its name, where it differs from the field's.
    flag
        Its name on the command line, where it differs from the key.
    parse
        Converts the typed text to a value for the validator.
    repeated
        Whether it may be given several times.
    leading_hyphen
        Whether the typed text may begin with a `-`.
    """

    validator: Validator
    help: str
    group: str = ""
    command: str | None = None
    key: str = ""
    flag: str | None = None
    parse: Callable[[Any], Any] | None = None
    repeated: bool = False
    leading_hyphen: bool = False

    @property
    def kind(self) -> Any:
        """The type that the command line reads."""
        return list[str] if self.repeated else _KINDS.get(self.validator, str)


def option(validator: Validator, help: str, default: Any = None, *, secret: bool = False, **more: Any) -> Any:  # noqa: A002
    """Declare an option: a field of a dataclass, with the rest of its `Declaration`.

    A default that is a class is called; a `secret` option is left out of the `repr`.
    """
    initial: dict[str, Any] = {"default_factory": default} if isinstance(default, type) else {"default": default}
    return field(**initial, repr=not secret, metadata={"option": Declaration(validator, help, **more)})


def declarations(declared: type) -> dict[str, Declaration]:
    """Return the options that a dataclass declares, by the names of their fields."""
    return {entry.name: entry.metadata["option"] for entry in fields(declared) if "option" in entry.metadata}


def refused(name: str, wanted: str, value: Any) -> ConfigError:
    """Return the error for a value of the wrong form; passwords in addresses are not shown."""
    got = shown(repr(value))
    return ConfigError(f"{name} is {wanted}; got {got if len(got) <= 60 else f'{got[:57]}...'}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _validator(accepts: Callable[[Any], bool], wanted: str, convert: Callable[[Any], Any] | None = None) -> Validator:
    """Return a validator that refuses values that it does not accept with "NAME is WANTED"."""

    def validate(name: str, value: Any) -> Any:
        if not accepts(value):
            raise refused(name, wanted, value)
        return convert(value) if convert else value

    return validate


column = _validator(lambda value: isinstance(value, str), "the name of a column")
_title = _validator(
    lambda value: isinstance(value, str) and 0 < len(value.strip()) <= LONGEST_TITLE,
    f"a text of up to {LONGEST_TITLE} characters",
    str.strip,
)
path = _validator(lambda value: isinstance(value, str | os.PathLike) and str(value) != "", "a path", Path)
flag = _validator(lambda value: isinstance(value, bool), "true or false")
whole = _validator(lambda value: _is_whole(value) and value >= 1, "a whole number, 1 or more")
number = _validator(lambda value: _is_number(value) and 0 < value < math.inf, "a number above 0", float)
_seed = _validator(_is_whole, "a whole number")


def choice(*words: str) -> Validator:
    """Return a validator of a choice of words."""
    return _validator(lambda value: value in words, " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))), str)


def text(name: str, value: Any) -> str:
    """Validate a text; a password is not shown in the message."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError("password is a text") if name == "password" else refused(name, "a text", value)
    return value


def span(name: str, value: Any) -> int:
    """Validate a duration."""
    if not isinstance(value, str | timedelta):
        raise refused(name, "a number and a unit, like 15min, 1h or 1d", value)
    try:
        return duration(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _share(name: str, value: Any) -> float:
    if not _is_number(value):
        raise refused(name, "a number", value)
    if not 0 < value < 1:
        raise ConfigError(f"{name} is a share between 0 and 1; got {value!r}")
    return float(value)


def _columns(name: str, value: Any) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, Sequence) or not all(isinstance(entry, str) for entry in value):
        raise refused(name, "a list of column names", value)
    return tuple(value)


def _sensor_names(name: str, value: Any) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, Sequence) or not all(isinstance(entry, str) and entry for entry in value):
        raise refused(name, "a list of names of sensors", value)
    return tuple(dict.fromkeys(value))


def _typed_names(typed: Sequence[str]) -> list[str]:
    return [name for entry in typed for name in split_names(entry)]


def _per_variable(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {EVERY: value}


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    value = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not all(map(_is_number, value)):
        raise refused(name, "a list of numbers", value)
    return tuple(float(entry) for entry in value)


def _texts(name: str, value: Any) -> dict[str, str]:
    if not all(isinstance(entry, str) for entry in _per_variable(value).values()):
        raise refused(name, "a text, or a text per variable", value)
    return dict(_per_variable(value))


def _fill(name: str, value: Any) -> dict[str, tuple[float, ...]]:
    return {variable: _numbers(name, values) for variable, values in _per_variable(value).items()}


def _limits(name: str, value: Any) -> dict[str, tuple[float, float]]:
    limits = {}
    for variable, pair in _per_variable(value).items():
        numbers = _numbers(name, pair)
        if len(numbers) != 2 or not numbers[0] < numbers[1]:
            raise refused(name, "a lowest and a highest value, like [-40, 50]", pair)
        limits[variable] = (numbers[0], numbers[1])
    return limits


def _tolerances(name: str, value: Any) -> dict[str, float]:
    for entry in _per_variable(value).values():
        if not _is_number(entry) or not 0 <= entry < math.inf:
            raise refused(name, "a number, 0 or more, or one for each variable", entry)
    return {variable: float(entry) for variable, entry in _per_variable(value).items()}


def split_names(typed: str) -> list[str]:
    """Return the parts of a comma-separated text.

    Examples
    --------
    >>> split_names("temp, humidity")
    ['temp', 'humidity']
    """
    return [name.strip() for name in typed.split(",") if name.strip()]


def _typed_numbers(typed: str, flag: str, like: str) -> list[float]:
    try:
        return [float(part) for part in typed.split(",")]
    except ValueError:
        raise ConfigError(f"--{flag} takes numbers like {like}; got {typed!r}") from None


def _typed_fill(typed: str) -> list[float]:
    return [] if typed.strip().lower() == "none" else _typed_numbers(typed, "fill", "-999,85")


def _typed_limits(typed: Sequence[str]) -> dict[str, list[float]]:
    entries = [entry.rpartition("=") for entry in typed]
    return {name.strip() or EVERY: _typed_numbers(pair, "valid", "-40,50 or temp=-40,50") for name, _, pair in entries}


def _typed_tolerances(typed: Sequence[str]) -> dict[str, float]:
    tolerances = {}
    for entry in typed:
        name, _, digits = entry.rpartition("=")
        try:
            tolerances[name.strip() or EVERY] = float(digits)
        except ValueError:
            raise ConfigError(f"--tolerance takes a number like 0.5 or temp=0.5; got {entry!r}") from None
    return tolerances


_KINDS: dict[Validator, type] = {path: Path, flag: bool, whole: int, number: float, _share: float}
_column = partial(option, column, group="columns")
_data = partial(option, group="data")


@dataclass(frozen=True)
class Options:
    """Options for reading and cleaning; what is not given is found from the data."""

    sensor: str | None = _column("The column with the sensor's name.")
    time: str | None = _column(
        "The column with the time. Times with an offset become UTC; without one they are taken as they are."
    )
    value: str | None = _column("The column with the reading.")
    variable: str | None = _column("The column that says what was measured, where there are several things.")
    latitude: str | None = _column("The column with the latitude; a sensor whose place changes becomes a new one.")
    longitude: str | None = _column("The column with the longitude.")
    owner_flag: str | None = option(
        column,
        "The column with the owners' flags, where its name does not say so; it is kept beside ours as owner_flag.",
        group="columns",
        command="clean",
    )
    owner_wrong: tuple[str, ...] = option(
        _columns,
        "The owners' flags that say that a reading is wrong: 4,bad; those of QARTOD, IOC, SaQC and NERRS are known.",
        (),
        group="columns",
        command="clean",
        parse=split_names,
        leading_hyphen=True,
    )
    networks: str | None = option(
        column,
        "The column that says which network a reading is from. Each is cleaned on its own, into OUT/<network>, and "
        "OUT/networks.csv has a line for each.",
        group="networks",
        command="clean",
    )
    sensor_from_file: bool = option(flag, "The sensor is the name of the file.", False, group="columns")
    variables: tuple[str, ...] = option(
        _columns,
        "The columns that are variables, where each has its own: temp,humidity.",
        (),
        group="columns",
        parse=split_names,
    )
    sensors: tuple[str, ...] = option(
        _columns, "The columns that are sensors, where each has its own: a,b,c.", (), group="columns", parse=split_names
    )
    step: int | None = _data(span, "The step of the grid: 15min, 1h. Several readings in a step are averaged.")
    period: int | None = _data(span, "The cycle that repeats: 1d, 7d.")
    fill: Mapping[str, tuple[float, ...]] | None = _data(
        _fill,
        'Values that stand for "no reading": -999,85. By default they are found; `none` says that there are none.',
        parse=_typed_fill,
        leading_hyphen=True,
    )
    valid: Mapping[str, tuple[float, float]] = _data(
        _limits,
        "The lowest and the highest value that are possible: -40,50, or for one variable temp=-40,50; may be repeated. "
        "What lies beyond is flagged as implausible.",
        dict,
        parse=_typed_limits,
        repeated=True,
        leading_hyphen=True,
    )
    tolerance: Mapping[str, float] = _data(
        _tolerances,
        "The accuracy of the probes: 0.5, or for one variable temp=0.5; may be repeated. Nothing that is off by less "
        "is flagged; by default the step of the readings.",
        dict,
        parse=_typed_tolerances,
        repeated=True,
    )
    maintenance: Path | None = _data(
        path,
        "A CSV file of what you know: sensor, from, to, action. The action is ignore (do not look), recalibrated (the "
        "level from then on is right), real (it was odd, but true) or removed (it is not there any more).",
    )
    known: tuple[str, ...] = _data(
        _sensor_names,
        "The sensors that are admitted: names or patterns like S*,gate-7; may be repeated. The readings of all others "
        "but references are passed over.",
        (),
        parse=_typed_names,
        repeated=True,
    )
    reference: tuple[str, ...] = _data(
        _sensor_names,
        "A reference sensor, which judges others and is never judged: a name, no pattern; may be repeated.",
        (),
        parse=_typed_names,
        repeated=True,
    )
    coordinates: Path | None = _data(path, "A CSV file of where the sensors stand: sensor, latitude, longitude.")
    gone_after: int = _data(
        span, "How long a sensor may be silent before it is taken to be gone; 30d by default.", 30 * DAY
    )
    interval: float = option(
        _share, "How much of the truth the interval is to hold; 0.9 by default.", 0.9, group="output"
    )
    method: str = option(
        choice("network", *ONLINE, *BATCH),
        "The model: network, or a published method: olrtr and other online ones, rtr and trpca for clean only.",
        "network",
        group="method",
    )
    rank: int | None = option(whole, "The rank of an online method's dictionaries; 3 for olrtr.", group="method")
    alpha: float | None = option(
        number, "The alpha of olrtr: less of it flags more; by default it follows from the readings.", group="method"
    )
    passes: int = option(whole, "How often an online method walks the archive.", 1, group="method", command="clean")
    seed: int = option(_seed, "For the random axes by which the sensors of a large network are compared.", 0)
    one_pass: bool = option(
        flag,
        "Meet every day for the first time, as a live feed would; by default the first four weeks are cleaned again "
        "with what was learned from them, and readings from before a fault was seen are marked too.",
        False,
        group="output",
        command="clean",
    )
    per_reading: bool = option(
        flag, "A row for every reading rather than for every slot.", False, group="output", command="clean"
    )
    wide: bool = option(
        flag,
        "The cleaned values alone as one table, a column per sensor, or per variable where there are several; OUT ends "
        "in .csv, .csv.gz or .parquet, and the rows with their flags are in OUT.meta.",
        False,
        group="output",
        command="clean",
    )
    flags: str | None = option(
        choice("qartod", "ioc", "saqc", "nerrs"),
        "Write the flags in another vocabulary too, into flags.csv: qartod, ioc, saqc or nerrs.",
        group="output",
        command="clean",
    )
    title: str | None = option(
        _title, "What the network is called on the page and in the report; the name of OUT without it.", group="output"
    )
    units: Mapping[str, str] = option(
        _texts, "What variables are measured in, for pictures and NetCDF: a text for all, or one per variable.", dict
    )
    names: Mapping[str, str] = option(_texts, "What variables are called there, in the same way.", dict)

    @classmethod
    def of(cls, **values: Any) -> Options:
        """Return validated options; an option that is None has its default."""
        declared = declarations(cls)
        for name in values:
            if name not in declared:
                raise ConfigError(f"there is no option {name!r}; there are {', '.join(sorted(declared))}")
        options = cls(
            **{name: declared[name].validator(name, value) for name, value in values.items() if value is not None}
        )
        if options.wide and options.per_reading:
            raise ConfigError("a wide table has one value per sensor and slot: give wide or per_reading, not both")
        if options.step and options.period and options.period % options.step:
            raise ConfigError(
                f"a period of {in_words(options.period)} is not a whole number of steps of {in_words(options.step)}"
            )
        options.check_method()
        return options

    def check_method(self) -> None:
        """Refuse settings that the method does not have."""
        online = self.method in ONLINE
        for name in ("rank", "passes"):
            if getattr(self, name) != getattr(Options, name) and not online:
                raise ConfigError(f"{name} is a setting of online methods, as with method olrtr; not of {self.method}")
        if self.alpha is not None and self.method != "olrtr":
            raise ConfigError(f"alpha is a setting of olrtr; not of {self.method}")
        if self.reference and self.method != "network":
            raise ConfigError(f"reference is a setting of method network; {self.method} judges all sensors alike")
        if self.one_pass and (self.method in BATCH or self.passes > 1):
            raise ConfigError(
                f"one_pass sees every period once; method {self.method} goes through the archive more than once here"
            )

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], **values: Any) -> Options:
        """Read options from a TOML file; paths in it are relative to its folder, and `values` take precedence."""
        path = Path(path)
        table = read_toml(path)
        for name, declaration in declarations(cls).items():
            if declaration.kind is Path and isinstance(table.get(name), str):
                table[name] = path.parent / table[name]
        try:
            return cls.of(**{**table, **{name: value for name, value in values.items() if value is not None}})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def admits(self, sensor: str) -> bool:
        """Return whether a sensor is among the known ones, where these are given; a reference always is.

        Examples
        --------
        >>> options = Options.of(known=["S*", "gate"], reference=["mast"])
        >>> [options.admits(name) for name in ("S01", "gate", "gates", "mast")], Options().admits("any")
        ([True, True, False, True], True)
        """
        return not self.known or sensor in self.reference or any(matches(sensor, known) for known in self.known)

    def find_fill(self, variable: str) -> tuple[float, ...] | None:
        """Return the fill values given for a variable; None if none are given."""
        return None if self.fill is None else self.fill.get(variable, self.fill.get(EVERY))

    def find_valid(self, variable: str) -> tuple[float, float]:
        """Return the limits given for a variable."""
        return self.valid.get(variable, self.valid.get(EVERY, (-math.inf, math.inf)))

    def limits_given(self, variable: str) -> bool:
        """Return whether the user gave limits for a variable."""
        return variable in self.valid or EVERY in self.valid

    def per_variable(self) -> dict[str, Mapping[str, Any]]:
        """Return the options that are given per variable."""
        return {name: getattr(self, name) or {} for name in ("valid", "fill", "tolerance", "units", "names")}

    def refuse_unknown(self, variables: Sequence[str]) -> None:
        """Refuse limits, fill values, tolerances, units and names of unknown variables."""
        for name, values in self.per_variable().items():
            unknown = sorted(set(values).difference(variables, [EVERY]))
            if unknown:
                known = ", ".join(variable for variable in variables if variable) or "one variable, which has no name"
                raise ConfigError(f"{name} names variable {unknown[0]!r}; there is {known}")


def matches(sensor: str, known: str) -> bool:
    """Return whether a sensor has a name, or one of a pattern.

    Examples
    --------
    >>> matches("S01", "S*"), matches("a[1]", "a[1]"), matches("S01", "s01")
    (True, True, False)
    """
    return sensor == known or fnmatchcase(sensor, known)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        with open_text(path) as file:
            return tomllib.loads(file.read())
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from None


COLUMNS = tuple(name for name, declaration in declarations(Options).items() if declaration.validator is column)
"""The options that name a column."""
