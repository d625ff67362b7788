"""`Growth` makes the paper's first figure: time and memory of batch and online methods against the number of days."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sensormend.bench.charts import Panel, line_charts
from sensormend.bench.contestants import chosen, line_up
from sensormend.bench.experiment import Experiment, Job, Row, RunPlan, about, runs_only
from sensormend.bench.measure import measured, workers
from sensormend.bench.tables import Frame, ResultTable, summarize
from sensormend.methods.base import OnlineMethod
from sensormend.simulate.network import city

__all__ = ["Growth"]

METHODS = "NetworkModel,OLRTR,RTR"
SENSORS, SLOTS = 50, 24
PANELS = (
    Panel("seconds", "computation time (s)", log=True),
    Panel("one_more", "time for one more day (s)", log=True),
    Panel("peak_mb", "peak memory (MB)", log=True),
)
ONE_MORE = "One more day: an online method takes that day alone (drawn: its mean), a batch method begins again."
LENGTHS, QUICK_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10_000), (10, 20, 40)


class Growth(Experiment):
    """Time and memory against the number of days; results are discarded, as in a service that forwards them."""

    name = "growth"
    title = "Time and memory against the length of the tensor"
    caption = "Computation time, time for one more day and peak memory of a batch method and of online methods."

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return RTR, OLRTR and NetworkModel, or the chosen methods, at every length."""
        contestants, jobs = line_up("faults"), []
        for name in chosen(METHODS if plan.methods == "all" else plan.methods, "faults"):
            options, cost = {"alone": not plan.quick, "kind": contestants[name].kind}, contestants[name].cost
            for days in QUICK_LENGTHS if plan.quick else LENGTHS:
                jobs += self.trials(plan, name, f"{days} days", days, options, cost * SENSORS * SLOTS * days)
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Clean days of a simulated city, in a separate process except in a quick run."""
        if not job.option("alone"):
            return [_measure(job)]
        # Memory that an earlier run left in the allocator would hide as much of this one's peak.
        with workers(1) as pool:
            return [pool.submit(_measure, job).result()]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return tables of seconds and memory against days."""
        note = (
            f"{runs_only(rows, plan)} A simulated city of {SENSORS} sensors, {SLOTS} slots a day. Online methods get a "
            "day at a time, and its result is thrown away when the next one comes; a batch method gets all days, and "
            "for one more day begins again. Seconds are processor time. Memory is what was used above what the process "
            "had with the readings. "
            f"No RE and no F1 here. {about(rows, 'faults')}"
        )
        titles = {"seconds": "Seconds against days", "peak_mb": "Peak memory in MB against days"}
        return [summarize(rows, [name], at="x", axis="days", title=title, note=note) for name, title in titles.items()]

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw total time, time for one more day, and memory."""
        more = rows["seconds"].where(rows["kind"] == "batch", rows["seconds"] / rows["x"])
        return line_charts(
            rows.assign(one_more=more), folder, self.name, panels=PANELS, x_label="length of the tensor (days)",
            title=self.heading(plan), log_x=True, note=ONE_MORE,
        )  # fmt: skip


def _measure(job: Job) -> Row:
    days = int(job.x)
    readings = city(SENSORS, days, slots=SLOTS, seed=job.seed).readings
    contestant = line_up("faults")[job.method]
    model = contestant.make(job.seed)
    if contestant.online and isinstance(model, OnlineMethod):
        # Each day is contiguous, as it would arrive: a slice of a longer tensor is slower to read.
        arriving = np.moveaxis(readings, -1, 0).copy()
        del readings
        with measured() as cost:
            for day in arriving:
                model.update(day)
    else:
        with measured() as cost:
            model.recover(readings)
    return {"days": days, "seconds": cost.processor, "peak_mb": cost.peak_mb}
