"""`sensormend clean` mends an archive, and prints a summary of the readings, the faults and the next commands."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sensormend.cli.app import STDIN
from sensormend.cli.arguments import FLAG, GROUPS, Arguments, declared_options
from sensormend.errors import ConfigError, SensormendError
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.options import Options
from sensormend.pipeline.sentences import (
    counted,
    fault_sentence,
    how_far_judged,
    how_long,
    little_judged,
    percent,
    states_in_words,
    without_number,
)
from sensormend.pipeline.times import in_words, iso
from sensormend.readings import Flag

__all__ = ["Channels", "CleanArguments", "clean", "explain_command", "worst_channels"]

if TYPE_CHECKING:
    from sensormend.archive.cleaning import Report
    from sensormend.cluster import NetworksReport


MOST_CHANNELS = 5
"""The number of channels in the list of the worst."""

Channels = list[tuple[tuple[str, str], list[FaultInterval]]]
"""Sensor and variable of channels, each with its faults."""


@declared_options("clean", Options)
class CleanArguments(Arguments):
    """The options of `clean`."""


def clean(
    *paths: Annotated[str, Parameter(name="READINGS... OUT", negative=())],
    config: Annotated[Path | None, Parameter(group=GROUPS["columns"])] = None,
    arguments: CleanArguments | None = None,
    cluster: Annotated[str | None, Parameter(group=GROUPS["networks"])] = None,
    overwrite: Annotated[bool, Parameter(group=GROUPS["output"], **FLAG)] = False,
    resume: Annotated[bool, Parameter(group=GROUPS["output"], **FLAG)] = False,
) -> None:
    """Clean an archive: find the sensors that report wrong values, fill gaps, and give intervals.

    READINGS is a CSV (also .gz), Parquet, newline-JSON, Excel or NetCDF file, a folder or a pattern of them, `-` for
    standard input, or `postgresql://user@host/database?table=name`. A table may be long (sensor, time, value) or wide
    (a column per sensor, or per variable with one file per site). The files need not be in order, nor fit into memory.

    OUT is a folder that does not exist yet: its rows are in data/month=.../*.parquet, one per sensor and slot, with the
    raw value, the cleaned one, its interval, a QARTOD flag (1 good, 2 not evaluated, 3 suspect, 4 fail, 9 missing) and
    a reason; faults.csv lists the faults with start and end, sensors.csv has a line per sensor. An OUT that ends in
    .csv, .csv.gz, .parquet or .nc is one file, with the rest in OUT.meta. Raw values are never changed.

    There is nothing to tune. The step of the grid and its daily or weekly period are found from the data, and so are
    fill values like -9999. Try `sensormend clean readings.csv mended`, then look at mended/faults.csv.

    Parameters
    ----------
    paths
        The readings, one or several, and last the OUT.
    config
        A TOML file with any of the options below, by the same names: `sensor = "node_id"`, `valid = [-40, 50]`.
    arguments
        Options for the readings.
    cluster
        Spread the networks over a Dask cluster: the address of its scheduler, tcp://host:8786. Its workers must have
        access to OUT under the same path.
    overwrite
        Replace an existing OUT.
    resume
        Continue an interrupted run; the result is the same as without the interruption.
    """
    from sensormend.archive.cleaning import clean_archive

    if len(paths) < 2:
        raise ConfigError("clean needs READINGS and OUT: sensormend clean readings.csv mended")
    *readings, out = ["-" if path == STDIN else path for path in paths]
    values = (arguments or CleanArguments()).to_dict()
    options = Options.from_toml(config, **values) if config else Options.of(**values)
    source = readings[0] if len(readings) == 1 else readings
    if options.networks:
        _clean_networks(source, out, cluster, options, overwrite=overwrite, resume=resume)
        return
    if cluster:
        raise ConfigError("--cluster spreads many networks, kept apart by --networks COLUMN; name that column")
    with _stages() as stages:
        report = clean_archive(source, out, options, overwrite=overwrite, resume=resume, stages=stages)
    Console(soft_wrap=False).print(_summary(report))


def _clean_networks(
    source: str | list[str], out: str, cluster: str | None, options: Options, *, overwrite: bool, resume: bool
) -> None:
    from sensormend.cluster import clean_networks

    with _stages() as stages:
        report = clean_networks(
            source, out, cluster=cluster, options=options, overwrite=overwrite, resume=resume, stages=stages
        )
    Console(soft_wrap=False).print(_networks_summary(report))
    if report.failed:
        raise SensormendError(
            f"{len(report.failed):,} of {len(report.networks):,} networks were not cleaned: see {out}/networks.csv"
        )


class _Speed(ProgressColumn):
    """Readings per second."""

    def render(self, task: Task) -> Text:
        """Return the number of readings per second as text."""
        readings = task.fields.get("readings", 0)
        if not readings or not task.elapsed or not task.percentage:
            return Text("")
        return Text(f"{readings * task.percentage / 100 / task.elapsed:,.0f} readings/s", style="progress.data.speed")


@contextmanager
def _stages() -> Iterator[Callable[[str, int], Callable[..., None]]]:
    """Show the progress of each stage on stderr: a bar on a terminal, elsewhere a line at its end."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description:<8}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Speed(),
        TextColumn("{task.fields[beside]}"), TimeRemainingColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    current: list[tuple[str, int, float]] = []
    remarks: dict[str, str] = {}

    def finish() -> None:
        while current:
            name, readings, start = current.pop()
            seconds = perf_counter() - start
            speed = f", {readings / seconds:,.0f} readings/s" if readings and seconds > 0 else ""
            beside = f", {remarks.pop(name)}" if remarks.get(name) else ""
            console.print(f"{name:<8} {seconds:.1f} s{speed}{beside}", highlight=False)

    def begin(name: str, readings: int) -> Callable[..., None]:
        finish()
        current.append((name, readings, perf_counter()))
        for former in bars.task_ids:
            bars.remove_task(former)
        task = bars.add_task(name, total=1.0, readings=readings, beside="")

        def update(done: float, beside: str = "") -> None:
            remarks[name] = beside
            bars.update(task, completed=done, beside=beside)

        return update

    with bars:
        yield begin
    finish()


def _summary(report: Report) -> RenderableType:
    """Return the summary of a run."""
    slots = sum(report.flags.values()) or 1
    missing = report.flags[Flag.MISSING] + report.fill
    present = slots - missing

    def share(count: int, total: int) -> str:
        return f"{count:,} ({percent(count, total)})"

    rows = {
        "readings": _counted_readings(report),
        "grid": f"{in_words(report.grid.step)} in a period of {in_words(report.grid.period)}",
        "missing slots": share(missing, slots),
        "wrong readings": share(report.flags[Flag.FAIL] - report.fill, present),
        "suspect readings": share(report.flags[Flag.SUSPECT], present),
        "not evaluated": share(report.flags[Flag.NOT_EVALUATED], present),
        "filled or replaced": share(report.filled, slots),
        **({"corrected": share(report.corrected, slots)} if report.corrected else {}),
        "seconds": f"{report.seconds:.1f}",
    }
    judged = how_far_judged(report.flags, *without_number(report.summaries))
    reason = _too_short(report) if little_judged(report.flags) else ""
    parts: list[RenderableType] = [f"[bold]{judged}[/]{reason}"] if judged else []
    parts += [states_in_words(report.states), fault_sentence(report.faults), ""]
    parts += [_grid(rows), *(f"note: {escape(note)}" for note in report.notes), ""]
    out = escape(shlex.quote(str(report.out)))
    channels = worst_channels(report.faults)
    if channels:
        parts += ["[bold]The worst of them[/]", _channels_table(channels), ""]
        parts.append(explain_command(out, channels, report.grid.step))
    else:
        parts.append(f"{_no_faults(report)} The rows are in [bold]{out}[/].")
    parts.append(f"Look at it: [bold]sensormend serve {out}[/]; as one file: [bold]sensormend report {out}[/]")
    return Group(*parts)


def _networks_summary(report: NetworksReport) -> RenderableType:
    """Return the summary of a run over many networks."""
    done = [network for network in report.networks if network.outcome == "done"]
    rows = {
        "networks": f"{len(report.networks):,}, {len(done):,} of them cleaned",
        "sensors": f"{sum(network.sensors for network in done):,}",
        "readings": _counted_readings(report),
        "faulty sensor-days": f"{sum(network.faulty_sensor_days for network in done):,}",
        "filled or replaced": f"{sum(network.filled for network in done):,}",
        "seconds": f"{report.seconds:.1f}",
    }
    parts: list[RenderableType] = [_grid(rows)]
    if done:
        worst = max(done, key=lambda network: network.faulty_sensor_days / max(network.sensors, 1))
        out = escape(shlex.quote(f"{report.out}/{worst.folder}"))
        parts += ["", f"Look at the one with most faults: [bold]sensormend serve {out}[/]"]
    return Group(*parts)


def _counted_readings(report: Report | NetworksReport) -> str:
    rejected = f", {report.rejected:,} rows rejected (rejected.csv)" if report.rejected else ""
    return f"{report.readings:,}{rejected}"


def _grid(rows: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for row in rows.items():
        table.add_row(*row)
    return table


def _channels_table(channels: Channels) -> Table:
    table = Table("sensor", "variable", "faulty", "reasons", "longest", box=None, padding=(0, 2), title_justify="left")
    for (sensor, variable), faults in channels:
        reasons: Counter[str] = Counter()
        for fault in faults:
            reasons[fault.reason] += _length(fault)
        longest = max(faults, key=_length)
        table.add_row(
            escape(sensor),
            escape(variable),
            how_long(reasons.total()),
            ", ".join(reason for reason, _ in reasons.most_common(3)),
            f"{longest.reason} {iso(longest.start)[:10]}",
        )
    return table


def worst_channels(faults: list[FaultInterval]) -> Channels:
    """Return the channels that were wrong for longest, each with its faults, without silence and doubtful faults."""
    by_channel: dict[tuple[str, str], list[FaultInterval]] = defaultdict(list)
    for fault in faults:
        if fault.reason != "silent" and not fault.doubtful:
            by_channel[fault.sensor, fault.variable].append(fault)
    return sorted(by_channel.items(), key=lambda entry: (-sum(map(_length, entry[1])), entry[0]))[:MOST_CHANNELS]


def explain_command(out: str, channels: Channels, step: int) -> str:
    """Return the command that explains the middle of the longest fault of the first channel."""
    (sensor, variable), faults = channels[0]
    longest = max(faults, key=_length)
    option = f" --variable {escape(shlex.quote(variable))}" if variable else ""
    middle = iso((longest.start + longest.end) // 2 // step * step)[:16]
    return f"Why? Type: [bold]sensormend explain {out} {escape(shlex.quote(sensor))} {middle}{option}[/]"


def _length(fault: FaultInterval) -> int:
    return fault.end - fault.start


def _too_short(report: Report) -> str:
    """Return why few readings were judged, where the length of the archive is the cause."""
    from sensormend.model.network_model import LEARNING_PERIODS

    if report.periods > 2 * LEARNING_PERIODS:
        return ""
    return (
        f" A sensor is judged after {LEARNING_PERIODS} periods with readings, here of {in_words(report.grid.period)}; "
        f"there are {report.periods:,} with readings."
    )


def _no_faults(report: Report) -> str:
    """Return the message for a run without faults, with the limits of what was judged."""
    flags = report.flags
    if flags[Flag.MISSING] + report.fill == sum(flags.values()):
        return "There is no number at all."
    if not flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL]:
        return "Nothing was judged."
    suspect = flags[Flag.SUSPECT]
    doubtful = f", but {counted(suspect, 'reading')} {'is' if suspect == 1 else 'are'} doubtful" if suspect else ""
    among = " among the readings that were judged" if flags[Flag.NOT_EVALUATED] else ""
    alone = (
        " One or two sensors are judged by their own past only, which rarely shows an offset or a drift."
        if report.sensors <= 2
        else ""
    )
    return f"Nothing wrong was found{among}{doubtful}.{alone}"
