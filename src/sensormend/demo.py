"""The first thing anyone runs: a simulated city, cleaned day by day, judged against its truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from rich.table import Table

from sensormend.bench.scores import DROPPED, Scores, score
from sensormend.faults import Degraded
from sensormend.methods.auto import AutoOLRTR
from sensormend.methods.base import OnlineMethod
from sensormend.recovery import FloatArray, Recovery
from sensormend.simulate import CITY_KINDS, Network

__all__ = ["KindFound", "clean_by_day", "errors_table", "faults_found", "faults_table", "straight_line"]


@dataclass(frozen=True)
class KindFound:
    """How many faults of one kind were put in and found, and how many of their sensor-days."""

    kind: str
    put_in: int
    found: int
    days: int
    days_found: int

    @property
    def missed(self) -> int:
        """Faults of which no day was found."""
        return self.put_in - self.found


def clean_by_day(
    network: Network, *, model: OnlineMethod | None = None, each_day: Callable[[], object] = lambda: None
) -> Recovery:
    """Clean a network as it would be cleaned live, one day after the other; `each_day` is told of each."""
    chosen = AutoOLRTR() if model is None else model
    parts = []
    for day in range(network.readings.shape[2]):
        parts.append(chosen.update(network.readings[..., day], sensors=network.sensors))
        each_day()
    return Recovery.stack(parts)


def faults_found(network: Network, recovery: Recovery, *, dropped: int = DROPPED) -> list[KindFound]:
    """Count, kind by kind, the faults put in after the first `dropped` days and those found.

    A fault counts where at least one reading of it came in. It is found when a day of it is flagged, or,
    where it lasts only hours, when one of its readings is marked as a spike.
    """
    sensors, slots, days = network.readings.shape
    there = np.isfinite(network.readings) & network.wrong
    there[..., :dropped] = False
    caught = there & (recovery.faulty[:, None, :] | recovery.spikes)
    in_time = [np.moveaxis(cells, 1, 2).reshape(sensors, days * slots) for cells in (there, caught)]
    rows = []
    for kind in CITY_KINDS:
        spans = [(fault.sensor, slice(fault.start, fault.stop)) for fault in network.faults if fault.kind == kind]
        came = [span for span in spans if in_time[0][span].any()]
        touched = there.any(axis=1) & (network.kind == kind)
        rows.append(
            KindFound(
                kind,
                put_in=len(came),
                found=sum(bool(in_time[1][span].any()) for span in came),
                days=int(touched.sum()),
                days_found=int((touched & caught.any(axis=1)).sum()),
            )
        )
    spikes = network.spikes.copy()
    spikes[..., :dropped] = False
    seen = spikes & (recovery.spikes | recovery.faulty[:, None, :])
    put_in, found = int(spikes.sum()), int(seen.sum())
    return [*rows, KindFound("spike", put_in, found, put_in, found)]


def straight_line(readings: FloatArray, faulty: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> FloatArray:
    """Fill gaps and what is said to be faulty by linear interpolation in time, sensor by sensor."""
    sensors, slots, days = readings.shape
    used = np.where(faulty[:, None, :], np.nan, readings)
    lines = np.moveaxis(used, 1, 2).reshape(sensors, -1)
    at = np.arange(lines.shape[1])
    for line in lines:
        good = np.isfinite(line)
        if good.any():
            line[~good] = np.interp(at[~good], at[good], line[good])
    return np.moveaxis(lines.reshape(sensors, days, slots), 2, 1)


def faults_table(rows: list[KindFound], scores: Scores) -> Table:
    """Lay out what was put in against what was found."""
    table = Table(title="Faults put in and faults found", title_justify="left")
    table.add_column("fault")
    for name in ("put in", "found", "missed", "sensor-days", "of them found"):
        table.add_column(name, justify="right")
    for row in rows:
        share = f"{row.days_found / row.days:.0%}" if row.days else "-"
        missed = f"[bold]{row.missed}[/]" if row.missed else "0"
        single = row.kind == "spike"
        table.add_row(
            "spike (single reading)" if single else row.kind,
            str(row.put_in),
            str(row.found),
            missed,
            "" if single else str(row.days),
            "" if single else share,
        )
    total = [sum(getattr(row, name) for row in rows) for name in ("put_in", "found", "missed")]
    table.add_section()
    days, found = (sum(getattr(row, name) for row in rows[:-1]) for name in ("days", "days_found"))
    table.add_row("all", *map(str, total), str(days), f"{found / days:.0%}" if days else "-")
    table.caption = (
        f"false alarms: {scores.false_alarms:.2%} of the sound sensor-days; F1 {scores.f1:.3f}. A fault lasts from "
        "three hours to three weeks; a sensor-day counts from its first faulty hour."
    )
    table.caption_justify = "left"
    return table


def errors_table(network: Network, recovery: Recovery, scores: Scores) -> Table:
    """Lay out the errors beside those of a straight line through the gaps, alone and told every fault."""
    unit, case = network.climate.unit, network.degraded()
    table = Table(title=f"Root mean square error, {unit}", title_justify="left")
    table.add_column("")
    for name in ("missing", "repaired", "trusted", "inside the 90 % interval"):
        table.add_column(name, justify="right")
    nothing = np.zeros_like(case.faulty)
    rows = [
        ("sensormend, told nothing", scores),
        ("a straight line, told nothing", _line_scores(recovery, case, nothing)),
        ("a straight line, told every fault", _line_scores(recovery, case, case.faulty)),
    ]
    for name, of in rows:
        inside = f"{of.coverage_missing:.0%}, {of.coverage_repaired:.0%}" if of is scores else "-"
        table.add_row(name, f"{of.missing:.2f}", f"{of.repaired:.2f}", f"{of.trusted:.2f}", inside)
    table.caption = (
        "missing: readings that never came; repaired: sensor-days that were found faulty; trusted: readings "
        f"of sound sensor-days, single wrong ones among them. Without the first {DROPPED} days."
    )
    table.caption_justify = "left"
    return table


def _line_scores(recovery: Recovery, case: Degraded, told: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Scores:
    """Score a straight line at the very cells where the recovery is scored."""
    return score(replace(recovery, cleaned=straight_line(case.readings, told), lower=None, upper=None), case)
