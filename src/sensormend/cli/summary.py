"""What `sensormend clean` says at its end: what came, what was found, who is worst, and what to type next."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from sensormend.io.metadata import FaultInterval, iso
from sensormend.io.options import in_words
from sensormend.pipeline.sentences import how_far_judged, how_long, little_judged, without_number
from sensormend.readings import Flag

if TYPE_CHECKING:
    from sensormend.cluster import NetworksReport
    from sensormend.pipeline.archive import Report

__all__ = ["networks_summary", "summary", "worst"]

WORST = 5


def summary(report: Report) -> RenderableType:
    """Return the last page of a run."""
    slots = sum(report.flags.values()) or 1
    present = slots - report.flags[Flag.MISSING]
    figures = Table.grid(padding=(0, 2))
    figures.add_column(style="dim")
    figures.add_column()

    def share(count: int, whole: int) -> str:
        return f"{count:,} ({count / max(whole, 1):.1%})"

    figures.add_row("sensors", f"{report.sensors:,}")
    rejected = f", {report.rejected:,} rows rejected (rejected.csv)" if report.rejected else ""
    figures.add_row("readings", f"{report.readings:,}{rejected}")
    figures.add_row("grid", f"{in_words(report.grid.step)} in a period of {in_words(report.grid.period)}")
    figures.add_row("missing slots", share(report.flags[Flag.MISSING], slots))
    figures.add_row("faulty", share(report.flags[Flag.FAIL], present))
    figures.add_row("suspect", share(report.flags[Flag.SUSPECT], present))
    figures.add_row("not evaluated", share(report.flags[Flag.NOT_EVALUATED], present))
    figures.add_row("filled or replaced", share(report.filled, slots))
    if report.corrected:
        figures.add_row("corrected", share(report.corrected, slots))
    figures.add_row("seconds", f"{report.seconds:.1f}")
    judged = how_far_judged(report.flags, *without_number(report.summaries))
    why = _why_not(report) if little_judged(report.flags) else ""
    parts: list[RenderableType] = [f"[bold]{judged}[/]{why}", ""] if judged else []
    parts.append(figures)
    parts += [f"note: {escape(note)}" for note in report.notes]
    found = worst(report.faults)
    if found:
        table = Table(
            "sensor", "variable", "faulty", "reasons", "longest", box=None, padding=(0, 2), title_justify="left"
        )
        for (sensor, variable), faults in found:
            reasons: Counter[str] = Counter()
            for fault in faults:
                reasons[fault.reason] += fault.end - fault.start
            longest = max(faults, key=lambda fault: fault.end - fault.start)
            table.add_row(
                escape(sensor),
                escape(variable),
                how_long(sum(fault.end - fault.start for fault in faults)),
                ", ".join(reason for reason, _ in reasons.most_common(3)),
                f"{longest.reason} {iso(longest.start)[:10]}",
            )
        parts += ["", "[bold]The worst of them[/]", table]
    out = escape(shlex.quote(str(report.out)))
    parts += ["", _next(report, found, out)]
    parts.append(f"Look at it: [bold]sensormend serve {out}[/]; as one file: [bold]sensormend report {out}[/]")
    return Group(*parts)


def networks_summary(report: NetworksReport) -> RenderableType:
    """Return the last page of a run over many networks."""
    done = [network for network in report.networks if network.outcome == "done"]
    figures = Table.grid(padding=(0, 2))
    figures.add_column(style="dim")
    figures.add_column()
    figures.add_row("networks", f"{len(report.networks):,}, {len(done):,} of them cleaned")
    figures.add_row("sensors", f"{sum(network.sensors for network in done):,}")
    rejected = f", {report.rejected:,} rows rejected (rejected.csv)" if report.rejected else ""
    figures.add_row("readings", f"{report.readings:,}{rejected}")
    figures.add_row("faulty sensor-days", f"{sum(network.faulty_sensor_days for network in done):,}")
    figures.add_row("filled or replaced", f"{sum(network.filled for network in done):,}")
    figures.add_row("seconds", f"{report.seconds:.1f}")
    parts: list[RenderableType] = [figures]
    if done:
        worst_one = max(done, key=lambda network: network.faulty_sensor_days / max(network.sensors, 1))
        one = escape(shlex.quote(f"{report.out}/{worst_one.folder}"))
        parts += ["", f"Look at the one with most faults: [bold]sensormend serve {one}[/]"]
    return Group(*parts)


def worst(faults: list[FaultInterval]) -> list[tuple[tuple[str, str], list[FaultInterval]]]:
    """Return the channels that were wrong for longest, each with its faults, without silence and what is doubtful."""
    by_channel: dict[tuple[str, str], list[FaultInterval]] = defaultdict(list)
    for fault in faults:
        if fault.reason != "silent" and not fault.doubtful:
            by_channel[fault.sensor, fault.variable].append(fault)
    length = {key: sum(fault.end - fault.start for fault in found) for key, found in by_channel.items()}
    return [(key, by_channel[key]) for key in sorted(length, key=lambda key: (-length[key], key))[:WORST]]


def _next(report: Report, found: list[tuple[tuple[str, str], list[FaultInterval]]], out: str) -> str:
    if not found:
        return f"{_nothing_found(report)} The rows are in [bold]{out}[/]."
    (sensor, variable), faults = found[0]
    longest = max(faults, key=lambda fault: fault.end - fault.start)
    named = f" --variable {escape(shlex.quote(variable))}" if variable else ""
    middle = iso((longest.start + longest.end) // 2 // report.grid.step * report.grid.step)[:16]
    return f"Why? Type: [bold]sensormend explain {out} {escape(shlex.quote(sensor))} {middle}{named}[/]"


def _why_not(report: Report) -> str:
    """Say why little was judged, where the length of the archive is the cause."""
    from sensormend.model.auto import LEARNING

    if report.periods > 2 * LEARNING:
        return ""
    return (
        f" A sensor is judged when it was heard in {LEARNING} periods, here of {in_words(report.grid.period)}; there "
        f"are {report.periods:,} with readings."
    )


def _nothing_found(report: Report) -> str:
    """Say that nothing wrong was found, as far as anything was judged, and by what."""
    flags = report.flags
    if flags[Flag.MISSING] == sum(flags.values()):
        return "There is no number at all."
    if not flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL]:
        return "Nothing was judged."
    doubtful = f", but {flags[Flag.SUSPECT]:,} readings are doubtful" if flags[Flag.SUSPECT] else ""
    among = " among the readings that were judged" if flags[Flag.NOT_EVALUATED] else ""
    alone = (
        " With one or two sensors only their own past can tell, which hardly sees an offset or a drift."
        if report.sensors <= 2
        else ""
    )
    return f"Nothing wrong was found{among}{doubtful}.{alone}"
