"""`sensormend clean` and `sensormend explain`: what a person types, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from sensormend.cli.arguments import COLUMNS, FLAG, MANY, OUTPUT, STDIN, Said
from sensormend.cli.summary import networks_summary, summary
from sensormend.errors import ConfigError, SensormendError
from sensormend.io.options import Options

__all__ = ["clean", "explain"]


def clean(
    *paths: Annotated[str, Parameter(name="READINGS... OUT", negative=())],
    config: Annotated[Path | None, Parameter(group=COLUMNS)] = None,
    networks: Annotated[str | None, Parameter(group=MANY)] = None,
    cluster: Annotated[str | None, Parameter(group=MANY)] = None,
    one_pass: Annotated[bool, Parameter(group=OUTPUT, **FLAG)] = False,
    per_reading: Annotated[bool, Parameter(group=OUTPUT, **FLAG)] = False,
    wide: Annotated[bool, Parameter(group=OUTPUT, **FLAG)] = False,
    overwrite: Annotated[bool, Parameter(group=OUTPUT, **FLAG)] = False,
    resume: Annotated[bool, Parameter(group=OUTPUT, **FLAG)] = False,
    said: Said | None = None,
) -> None:
    """Mend an archive: find the sensors that lie, fill what is missing, say how sure that is.

    READINGS is a CSV (also .gz), Parquet, newline-JSON, Excel or NetCDF file, a folder or a pattern of them, `-` for
    standard input, or `postgresql://user@host/database?table=name`. A table may be long (sensor, time, value) or wide
    (a column per sensor, or per variable with one file per site). The files need not be in order, nor fit into memory.

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
    networks
        The column that says which network a reading is from. Each is mended on its own, into OUT/<network>, and
        OUT/networks.csv has a line for each.
    cluster
        Spread the networks over a Dask cluster: the address of its scheduler, tcp://host:8786. Its workers have to see
        OUT by the same path.
    one_pass
        Meet every day for the first time, as a live feed would; by default the first four weeks are cleaned again
        with what was learned from them, and readings from before a fault was seen are marked too.
    per_reading
        A row for every reading rather than for every slot.
    wide
        The cleaned values alone as one table, a column per sensor, or per variable where there are several; OUT ends in
        .csv, .csv.gz or .parquet, and the rows with their flags are in OUT.meta.
    overwrite
        Replace an OUT that is there.
    resume
        Go on with a run that was interrupted; the result is the same as in one go.
    said
        What you know about the readings.
    """
    from sensormend.pipeline.archive import clean_archive

    if len(paths) < 2:
        raise ConfigError("clean needs READINGS and OUT: sensormend clean readings.csv mended")
    *readings, out = ["-" if path == STDIN else path for path in paths]
    told = (said or Said()).told() | {"one_pass": one_pass or None, "per_reading": per_reading or None}
    told |= {"networks": networks, "wide": wide or None}
    options = Options.from_toml(config, **told) if config else Options.of(**told)
    source = readings[0] if len(readings) == 1 else readings
    if options.networks:
        _clean_networks(source, out, cluster, options, overwrite=overwrite, resume=resume)
        return
    if cluster:
        raise ConfigError("--cluster spreads many networks, kept apart by --networks COLUMN; say which column that is")
    with _stages() as stages:
        report = clean_archive(source, out, options, overwrite=overwrite, resume=resume, stages=stages)
    Console(soft_wrap=False).print(summary(report))


def _clean_networks(
    source: str | list[str], out: str, cluster: str | None, options: Options, *, overwrite: bool, resume: bool
) -> None:
    from sensormend.cluster import clean_networks

    with _stages() as stages:
        report = clean_networks(
            source, out, cluster=cluster, options=options, overwrite=overwrite, resume=resume, stages=stages
        )
    Console(soft_wrap=False).print(networks_summary(report))
    if report.failed:
        raise SensormendError(
            f"{len(report.failed):,} of {len(report.networks):,} networks were not cleaned: see {out}/networks.csv"
        )


def explain(out: Path, sensor: str, time: str, *, variable: str | None = None) -> None:
    """Say in one paragraph why a reading has its flag.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote: a folder, or a single file.
    sensor
        The sensor's name.
    time
        When, in UTC: 2019-07-14T15:00. Any time within the slot will do.
    variable
        What was measured, where there are several things.
    """
    from sensormend.explain.paragraph import explain as told

    Console(highlight=False).print(told(out, sensor, time, variable), markup=False)


class _Speed(ProgressColumn):
    """Readings per second."""

    def render(self, task: Task) -> Text:
        """Say how many readings are done in a second."""
        readings = task.fields.get("readings", 0)
        if not readings or not task.elapsed or not task.percentage:
            return Text("")
        return Text(f"{readings * task.percentage / 100 / task.elapsed:,.0f} readings/s", style="progress.data.speed")


@contextmanager
def _stages() -> Iterator[Callable[[str, int], Callable[..., None]]]:
    """Show on stderr how far each stage of the work is: a bar on a terminal, a line at its end elsewhere."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description:<8}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Speed(),
        TextColumn("{task.fields[beside]}"), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    current: list[tuple[str, int, float]] = []
    said: dict[str, str] = {}

    def finish() -> None:
        while current:
            name, readings, began = current.pop()
            seconds = perf_counter() - began
            speed = f", {readings / seconds:,.0f} readings/s" if readings and seconds > 0 else ""
            beside = f", {said.pop(name)}" if said.get(name) else ""
            console.print(f"{name:<8} {seconds:.1f} s{speed}{beside}", highlight=False)

    def begin(name: str, readings: int) -> Callable[..., None]:
        finish()
        current.append((name, readings, perf_counter()))
        for old in bars.task_ids:
            bars.remove_task(old)
        task = bars.add_task(name, total=1.0, readings=readings, beside="")

        def tell(done: float, beside: str = "") -> None:
            said[name] = beside
            bars.update(task, completed=done, beside=beside)

        return tell

    with bars:
        yield begin
    finish()
