"""`Aot` runs methods on the Array of Things in Chicago: real faults without labels, and a reference station nearby."""

from __future__ import annotations

import numpy as np

from sensormend.bench.contestants import chosen, line_up, run_contestant
from sensormend.bench.data import load_network, load_reference
from sensormend.bench.experiment import COST, Experiment, Job, Row, RunPlan, about, labelled, runs_only
from sensormend.bench.measure import measured
from sensormend.bench.tables import AOT, Bar, Frame, ResultTable, summarize
from sensormend.recovery import FloatArray

__all__ = ["Aot", "correlation"]

SENSORS, SLOTS, DAYS, QUICK_DAYS = 52, 24, 365, 40
RAW = {"readings": "readings", "zeros": "missing as 0"}
COLUMNS = ("correlation", "lowest", "highest", "seconds", "peak_mb")
LEAST_CORRELATION, MARGIN = 0.978, 2.0
"""The target of NetworkModel in one pass, and by how much in deg C its range may exceed that of the readings."""


def correlation(estimate: FloatArray, reference: FloatArray) -> float:
    """Return the mean over sensors of the correlation with the reference, where both are known."""
    rows = []
    for sensor in estimate:
        common = np.isfinite(sensor) & np.isfinite(reference)
        if common.sum() > 2 and np.std(sensor[common]) > 0:
            rows.append(float(np.corrcoef(sensor[common], reference[common])[0, 1]))
    return float(np.mean(rows)) if rows else float("nan")


class Aot(Experiment):
    """A year of 52 city sensors, 16 % missing: three passes for the published online methods, one for NetworkModel."""

    name = "aot"
    title = "Array of Things"

    def prepare(self, plan: RunPlan) -> None:
        """Find the readings and the reference station."""
        load_network("aot")
        load_reference()

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the raw readings, then every method; NetworkModel with one pass and with three."""
        days = QUICK_DAYS if plan.quick else DAYS
        contestants = line_up("aot")
        jobs = [
            Job(self.name, "raw", setting, 0, 0, plan.seed, (("days", days), ("kind", "raw")))
            for setting in RAW.values()
        ]
        for name in chosen(plan.methods, "aot"):
            contestant = contestants[name]
            # Without random numbers every trial would be the same.
            seeds = plan.seeds[:1] if contestant.kind in ("batch", "plain") else plan.seeds
            for passes in (1, 3) if contestant.kind == "ours" else (contestant.passes,):
                label = "all at once" if not contestant.online else "1 pass" if passes == 1 else f"{passes} passes"
                options = (("days", days), ("kind", contestant.kind), ("passes", passes))
                weight = contestant.cost * passes * SENSORS * SLOTS * days
                jobs += [Job(self.name, name, label, passes, trial, seed, options, weight) for trial, seed in seeds]
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Clean the year; return correlation and range of both outputs."""
        readings = load_network("aot")[..., : job.option("days")]
        reference = load_reference()[..., : job.option("days")]
        if job.method == "raw":
            # The range is that of the readings: a zero for a missing value is not a temperature.
            taken = np.nan_to_num(readings) if job.setting == RAW["zeros"] else readings
            return [{"output": "raw", **_range(readings), "correlation": correlation(taken, reference)}]
        days = [readings[..., day] for day in range(readings.shape[-1])]
        with measured() as cost:
            recovery = run_contestant(line_up("aot")[job.method], days, job.seed, passes=job.option("passes"))
        costs = {"seconds": cost.seconds, "peak_mb": cost.peak_mb, "days": len(days), "passes": job.option("passes")}
        return [
            {"output": name, **_range(values), "correlation": correlation(values, reference), **costs}
            for name, values in (("expected", recovery.expected), ("cleaned", recovery.cleaned))
        ]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return correlation and range; the paper's beside `expected`, a target beside NetworkModel's."""
        rows = rows.assign(output=rows["output"].fillna("-"))
        keys = set(rows[["kind", "method", "setting", "output"]].itertuples(index=False, name=None))
        published = {labelled(name): values for name, values in AOT.items()}
        paper = {
            (method, setting, output, column): value
            for _, method, setting, output in keys
            if method in published and output in ("expected", "raw") and setting != RAW["readings"]
            for column, value in zip(COLUMNS, published[method], strict=False)
        }
        raw, bars = rows[rows["kind"] == "raw"], {}
        if len(raw) and not plan.quick:
            low, high = raw["lowest"].iloc[0], raw["highest"].iloc[0]
            targets = {
                "correlation": Bar(low=LEAST_CORRELATION),
                "lowest": Bar(low - MARGIN, low + MARGIN),
                "highest": Bar(high - MARGIN, high + MARGIN),
            }
            bars = {(*key, column): bar for kind, *key in keys if kind == "ours" and key[1] == "1 pass"
                    for column, bar in targets.items()}  # fmt: skip
        methods = rows[rows["kind"] != "raw"]
        note = (
            f"{runs_only(methods if len(methods) else rows, plan)} {QUICK_DAYS if plan.quick else DAYS} days, none "
            "left out; methods that draw nothing run once. Mean over sensors of the correlation with the reference "
            "station, and the range in deg C. expected is what the paper judges, cleaned what a user gets. No RE and "
            f"no F1 here: it is not known which readings are wrong. {COST} {about(rows, 'aot')}"
        )
        also = {"setting": "passes", "output": "output"}
        return [summarize(rows, COLUMNS, also=also, bars=bars, paper=paper, title=self.title, note=note)]


def _range(values: FloatArray) -> dict[str, float]:
    return {"lowest": float(np.nanmin(values)), "highest": float(np.nanmax(values))}
