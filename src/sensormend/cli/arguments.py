"""What is typed about readings, for `clean` and `watch` alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from sensormend.errors import ConfigError
from sensormend.io.options import EVERY

__all__ = ["COLUMNS", "FLAG", "KNOWN", "MANY", "OUTPUT", "STDIN", "Said", "listed"]

STDIN = "standard input"
"""What stands for a lone `-`, which the parser of the command line would take for an option."""

COLUMNS = Group("Which column is what (recognised by their names; say it where that fails)", sort_key=1)
KNOWN = Group("What you know about the data", sort_key=2)
OUTPUT = Group("Output", sort_key=3)
MANY = Group("Many networks at once", sort_key=4)

FLAG: dict[str, Any] = {"negative": (), "show_default": False}


@Parameter(name="*")
@dataclass(frozen=True)
class Said:
    """What is typed about readings.

    Attributes
    ----------
    sensor
        The column with the sensor's name.
    time
        The column with the time. Times with an offset become UTC; without one they are taken as they are.
    value
        The column with the reading.
    variable
        The column that says what was measured, where there are several things.
    sensor_from_file
        The sensor is the name of the file.
    variables
        The columns that are variables, where each has its own: temp,humidity.
    sensors
        The columns that are sensors, where each has its own: a,b,c.
    latitude
        The column with the latitude; a sensor whose place changes becomes a new one.
    longitude
        The column with the longitude.
    step
        The step of the grid: 15min, 1h. Several readings in a step are averaged.
    period
        The cycle that repeats: 1d, 7d.
    fill
        Values that stand for "no reading": -999,85. By default they are found; `none` says that there are none.
    valid
        The lowest and the highest value that are possible: -40,50, or for one variable temp=-40,50; may be repeated.
        What lies beyond is flagged as implausible.
    tolerance
        The accuracy of the probes: 0.5, or for one variable temp=0.5; may be repeated. Nothing that is off by less is
        flagged; by default the step of the readings.
    maintenance
        A CSV file of what you know: sensor, from, to, action. The action is ignore (do not look), recalibrated (the
        level from then on is right) or real (it was odd, but true).
    coordinates
        A CSV file of where the sensors stand: sensor, latitude, longitude.
    gone_after
        How long a sensor may be silent before it is taken to be gone; 30d by default.
    interval
        How much of the truth the interval is to hold; 0.9 by default.
    """

    sensor: Annotated[str | None, Parameter(group=COLUMNS)] = None
    time: Annotated[str | None, Parameter(group=COLUMNS)] = None
    value: Annotated[str | None, Parameter(group=COLUMNS)] = None
    variable: Annotated[str | None, Parameter(group=COLUMNS)] = None
    sensor_from_file: Annotated[bool, Parameter(group=COLUMNS, **FLAG)] = False
    variables: Annotated[str | None, Parameter(group=COLUMNS)] = None
    sensors: Annotated[str | None, Parameter(group=COLUMNS)] = None
    latitude: Annotated[str | None, Parameter(group=COLUMNS)] = None
    longitude: Annotated[str | None, Parameter(group=COLUMNS)] = None
    step: Annotated[str | None, Parameter(group=KNOWN)] = None
    period: Annotated[str | None, Parameter(group=KNOWN)] = None
    fill: Annotated[str | None, Parameter(group=KNOWN, allow_leading_hyphen=True)] = None
    valid: Annotated[list[str] | None, Parameter(group=KNOWN, allow_leading_hyphen=True, negative=())] = None
    tolerance: Annotated[list[str] | None, Parameter(group=KNOWN, negative=())] = None
    maintenance: Annotated[Path | None, Parameter(group=KNOWN)] = None
    coordinates: Annotated[Path | None, Parameter(group=KNOWN)] = None
    gone_after: Annotated[str | None, Parameter(group=KNOWN)] = None
    interval: Annotated[float | None, Parameter(group=OUTPUT)] = None

    def told(self) -> dict[str, Any]:
        """Return it as options take it; None for what was not said."""
        forms: dict[str, Any] = {
            "sensor_from_file": self.sensor_from_file or None,
            "variables": listed(self.variables),
            "sensors": listed(self.sensors),
            "fill": _fill(self.fill),
            "valid": _valid(self.valid),
            "tolerance": _tolerance(self.tolerance),
        }
        return {entry.name: forms.get(entry.name, getattr(self, entry.name)) for entry in fields(self)}


def listed(given: str | None) -> list[str] | None:
    """Return what was typed with commas between; None for what was not said."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _numbers(given: str, option: str, like: str) -> list[float]:
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        raise ConfigError(f"--{option} takes numbers like {like}; got {given!r}") from None


def _fill(given: str | None) -> list[float] | None:
    if given is None:
        return None
    return [] if given.strip().lower() == "none" else _numbers(given, "fill", "-999,85")


def _valid(given: Sequence[str] | None) -> dict[str, list[float]] | None:
    if not given:
        return None
    limits = {}
    for entry in given:
        name, _, pair = entry.rpartition("=")
        limits[name.strip() or EVERY] = _numbers(pair, "valid", "-40,50 or temp=-40,50")
    return limits


def _tolerance(given: Sequence[str] | None) -> dict[str, float] | None:
    if not given:
        return None
    limits = {}
    for entry in given:
        name, _, number = entry.rpartition("=")
        try:
            limits[name.strip() or EVERY] = float(number)
        except ValueError:
            raise ConfigError(f"--tolerance takes a number like 0.5 or temp=0.5; got {entry!r}") from None
    return limits
