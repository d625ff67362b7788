"""`sensormend clean` and `sensormend explain`: what a person types, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from cyclopts import Group, Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from sensormend.errors import ConfigError
from sensormend.options import EVERY, Options
from sensormend.summary import summary

__all__ = ["STDIN", "clean", "explain"]

STDIN = "standard input"
"""What stands for a lone `-`, which the parser of the command line would take for an option."""

COLUMNS = Group("Which column is what (recognised by their names; say it where that fails)", sort_key=1)
KNOWN = Group("What you know about the data", sort_key=2)
OUTPUT = Group("Output", sort_key=3)


def clean(
    *paths: Annotated[str, Parameter(name="READINGS... OUT", negative=())],
    config: Annotated[Path | None, Parameter(group=COLUMNS)] = None,
    sensor: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    time: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    value: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    variable: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    sensor_from_file: Annotated[bool, Parameter(group=COLUMNS, negative=(), show_default=False)] = False,
    variables: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    sensors: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    latitude: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    longitude: Annotated[str | None, Parameter(group=COLUMNS)] = None,
    step: Annotated[str | None, Parameter(group=KNOWN)] = None,
    period: Annotated[str | None, Parameter(group=KNOWN)] = None,
    fill: Annotated[str | None, Parameter(group=KNOWN, allow_leading_hyphen=True)] = None,
    valid: Annotated[list[str] | None, Parameter(group=KNOWN, allow_leading_hyphen=True, negative=())] = None,
    maintenance: Annotated[Path | None, Parameter(group=KNOWN)] = None,
    coordinates: Annotated[Path | None, Parameter(group=KNOWN)] = None,
    gone_after: Annotated[str | None, Parameter(group=KNOWN)] = None,
    interval: Annotated[float | None, Parameter(group=OUTPUT)] = None,
    one_pass: Annotated[bool, Parameter(group=OUTPUT, negative=(), show_default=False)] = False,
    per_reading: Annotated[bool, Parameter(group=OUTPUT, negative=(), show_default=False)] = False,
    overwrite: Annotated[bool, Parameter(group=OUTPUT, negative=(), show_default=False)] = False,
    resume: Annotated[bool, Parameter(group=OUTPUT, negative=(), show_default=False)] = False,
) -> None:
    """Mend an archive: find the sensors that lie, fill what is missing, say how sure that is.

    READINGS is a CSV (also .gz), Parquet, newline-JSON or NetCDF file, a folder or a pattern of them, `-` for standard
    input, or `postgresql://user@host/database?table=name`. A table may be long (sensor, time, value) or wide (a column
    per sensor, or per variable with one file per site). The files need not be in order, nor fit into memory.

    OUT is a folder that is not there yet: its rows lie in data/date=.../*.parquet, one per sensor and slot, with the
    raw value, the cleaned one, its interval, a QARTOD flag (1 good, 2 not evaluated, 3 suspect, 4 fail, 9 missing) and
    a reason; faults.csv lists what is wrong from when to when, sensors.csv has a line per sensor. An OUT that ends in
    .csv, .csv.gz, .parquet or .nc is one file, with the rest in OUT.meta. Raw values are never changed.

    There is nothing to tune. The step of the grid and its daily or weekly period are found from the data, and so are
    fill values like -9999. Try `sensormend clean readings.csv mended`, then look at mended/faults.csv.

    Parameters
    ----------
    paths
        The readings, one or several, and at last where the result goes.
    config
        A TOML file with any of the options below, by the same names: `sensor = "node_id"`, `valid = [-40, 50]`.
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
    maintenance
        A CSV file of what you know: sensor, from, to, action. The action is ignore (do not look), recalibrated (the
        sensor starts over) or real (it was odd, but true).
    coordinates
        A CSV file of where the sensors stand: sensor, latitude, longitude.
    gone_after
        How long a sensor may be silent before it is taken to be gone; 30d by default.
    interval
        How much of the truth the interval is to hold; 0.9 by default.
    one_pass
        Meet every day for the first time, as a live feed would; by default the first four weeks are cleaned again
        with what was learned from them.
    per_reading
        A row for every reading rather than for every slot.
    overwrite
        Replace an OUT that is there.
    resume
        Go on with a run that was interrupted; the result is the same as in one go.
    """
    from sensormend.archive import clean_archive

    if len(paths) < 2:
        raise ConfigError("clean needs READINGS and OUT: sensormend clean readings.csv mended")
    *readings, out = ["-" if path == STDIN else path for path in paths]
    said: dict[str, Any] = {
        "sensor": sensor, "time": time, "value": value, "variable": variable, "latitude": latitude,
        "longitude": longitude, "sensor_from_file": sensor_from_file or None, "variables": _list(variables),
        "sensors": _list(sensors), "step": step, "period": period, "fill": _fill(fill), "valid": _valid(valid),
        "maintenance": maintenance, "coordinates": coordinates, "gone_after": gone_after, "interval": interval,
        "one_pass": one_pass or None, "per_reading": per_reading or None,
    }  # fmt: skip
    options = Options.from_toml(config, **said) if config else Options.of(**said)
    with _stages() as stages:
        source = readings[0] if len(readings) == 1 else readings
        report = clean_archive(source, out, options, overwrite=overwrite, resume=resume, stages=stages)
    Console(soft_wrap=False).print(summary(report))


def explain(out: Path, sensor: str, time: str, *, variable: str | None = None) -> None:
    """Say in one paragraph why a reading has its flag.

    Parameters
    ----------
    out
        What `clean` wrote: a folder, or a single file.
    sensor
        The sensor's name.
    time
        When, in UTC: 2019-07-14T15:00. Any time within the slot will do.
    variable
        What was measured, where there are several things.
    """
    from sensormend.explain import explain as told

    Console(highlight=False).print(told(out, sensor, time, variable), markup=False)


def _list(given: str | None) -> list[str] | None:
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


class _Speed(ProgressColumn):
    """Readings per second."""

    def render(self, task: Task) -> Text:
        """Say how many readings are done in a second."""
        readings = task.fields.get("readings", 0)
        if not readings or not task.elapsed or not task.percentage:
            return Text("")
        return Text(f"{readings * task.percentage / 100 / task.elapsed:,.0f} readings/s", style="progress.data.speed")


@contextmanager
def _stages() -> Iterator[Callable[[str, int], Callable[[float], None]]]:
    """Show on stderr how far each stage of the work is: a bar on a terminal, a line at its end elsewhere."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description:<8}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Speed(),
        TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    current: list[tuple[str, int, float]] = []

    def finish() -> None:
        while current:
            name, readings, began = current.pop()
            seconds = perf_counter() - began
            speed = f", {readings / seconds:,.0f} readings/s" if readings and seconds > 0 else ""
            console.print(f"{name:<8} {seconds:.1f} s{speed}", highlight=False)

    def begin(name: str, readings: int) -> Callable[[float], None]:
        finish()
        current.append((name, readings, perf_counter()))
        for old in bars.task_ids:
            bars.remove_task(old)
        task = bars.add_task(name, total=1.0, readings=readings)
        return lambda done: bars.update(task, completed=done)

    with bars:
        yield begin
    finish()
