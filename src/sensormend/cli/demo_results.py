"""What `sensormend demo` tells at its end: a simulated city as it was mended, judged against its truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from sensormend.readings import CORRECTED, DAY, REASONS, Flag, Rows
from sensormend.recovery import FloatArray, Recovery
from sensormend.simulate.faults import Degraded
from sensormend.simulate.network import CITY_KINDS, Network
from sensormend.simulate.scores import DROPPED, Scores, score

__all__ = ["KindFound", "as_recovery", "errors_table", "faults_found", "faults_table", "straight_line"]

SPIKE = REASONS.index("spike")


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


def as_recovery(rows: Rows, network: Network) -> Recovery:
    """Return the rows that were made of a network's readings as what a method would have returned.

    Where a sensor has no row, since it was not heard yet, there is nothing: NaN.
    """
    shape = network.readings.shape
    order = {name: place for place, name in enumerate(network.sensors)}
    sensor = np.array([order[name] for name in rows.sensors], dtype=np.int64)[rows.sensor]
    slot = (rows.time - int(network.times[0, 0].astype("datetime64[us]").astype(np.int64))) // (DAY // shape[1])
    here = slot < shape[1] * shape[2]
    cells = sensor[here], slot[here] % shape[1], slot[here] // shape[1]

    def laid_out(column: NDArray[Any], empty: float) -> NDArray[Any]:
        table = np.full(shape, empty, dtype=column.dtype)
        table[cells] = column[here]
        return table

    flag, reason = laid_out(rows.flag, Flag.MISSING), laid_out(rows.reason, 0)
    cleaned = laid_out(rows.cleaned, np.nan)
    wrong, spikes = flag == Flag.FAIL, (flag == Flag.FAIL) & (reason == SPIKE)
    # A third of a day's readings, as `Recovery.faulty` has it.
    faulty = wrong.any(axis=1) & (3 * wrong.sum(axis=1) >= np.isfinite(network.readings).sum(axis=1))
    counts = np.stack([(wrong & (reason == code)).sum(axis=1) for code in range(len(REASONS))])
    why = np.array(REASONS)[counts.argmax(axis=0)]
    return Recovery(
        low_rank=cleaned,
        outliers=np.where(wrong, network.readings - cleaned, 0.0),
        wrong=wrong,
        doubtful=flag == Flag.SUSPECT,
        spikes=spikes,
        corrected=laid_out(rows.origin, 0) == CORRECTED,
        cleaned=cleaned,
        lower=laid_out(rows.lower, np.nan),
        upper=laid_out(rows.upper, np.nan),
        faulty=faulty,
        suspect=(flag == Flag.SUSPECT).any(axis=1) & ~faulty,
        evaluated=~(flag == Flag.NOT_EVALUATED).any(axis=1),
        score=faulty.astype(np.float64),
        reason=np.where(wrong.any(axis=1), why, ""),
        faults=(),
        iterations=0,
    )


def faults_found(network: Network, recovery: Recovery, *, dropped: int = DROPPED) -> list[KindFound]:
    """Count, kind by kind, the faults put in after the first `dropped` days and those found.

    A fault counts where at least one reading of it came in. It is found when one of its readings is judged wrong.
    """
    sensors, slots, days = network.readings.shape
    there = np.isfinite(network.readings) & network.wrong
    there[..., :dropped] = False
    caught = there & recovery.wrong
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
    seen = spikes & recovery.wrong
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
        "three hours to three weeks; a sensor-day counts from its first faulty hour. "
        "A fault of which no reading came is not counted."
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
