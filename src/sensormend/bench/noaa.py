"""`Noaa` makes the paper's table on a year of temperatures at 37 stations with added faults."""

from __future__ import annotations

from pathlib import Path

from sensormend.bench.charts import score_chart
from sensormend.bench.contestants import chosen, line_up, run_contestant
from sensormend.bench.data import load_network
from sensormend.bench.experiment import (
    COST,
    ERRORS,
    RELATIVE_ERROR,
    Experiment,
    Job,
    Row,
    RunPlan,
    about,
    detection,
    labelled,
    runs_note,
)
from sensormend.bench.measure import measured
from sensormend.bench.tables import NOAA, Frame, ResultTable, summarize
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.scores import DROPPED, paper_scores

__all__ = ["Noaa"]

SETTINGS = {"100 %": 1.0, "90 %": 0.9}
SENSORS, SLOTS, DAYS, QUICK_DAYS = 37, 24, 364, 40
THRESHOLD = 0.01
COLUMNS = (
    "re", "f1", "f1_best", "re_text", "re_code", "missing", "faulty", "repaired", "trusted", "seconds", "peak_mb",
)  # fmt: skip


class Noaa(Experiment):
    """5 % of the sensor-days drawn at random, all or 90 % observed, day after day."""

    name = "noaa"
    title = "NOAA temperatures"
    caption = "F1 at the paper's rule and at the best threshold, and the errors at missing and faulty readings."

    def prepare(self, plan: RunPlan) -> None:
        """Locate the year of temperatures."""
        load_network("noaa")

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return every method at both observation ratios."""
        contestants, days = line_up("noaa"), QUICK_DAYS if plan.quick else DAYS
        return [
            Job(self.name, name, setting, observed, trial, seed,
                (("days", days), ("kind", contestants[name].kind)),
                contestants[name].cost * contestants[name].passes * SENSORS * SLOTS * days)
            for name in chosen(plan.methods, "noaa")
            for setting, observed in SETTINGS.items()
            for trial, seed in plan.seeds
        ]  # fmt: skip

    def run(self, job: Job) -> list[Row]:
        """Add faults to the year and clean it, a day at a time; batch methods get all of it."""
        spoilt = degrade(load_network("noaa")[..., : job.option("days")], Case("uniform", observed=job.x), job.seed)
        contestant = line_up("noaa")[job.method]
        days = [spoilt.readings[..., day] for day in range(job.option("days"))]
        with measured() as cost:
            recovery = run_contestant(contestant, days, job.seed)
        scores = paper_scores(recovery, spoilt, dropped=DROPPED)
        extra = {"days": len(days), "passes": contestant.passes}
        return [{**scores, "seconds": cost.seconds, "peak_mb": cost.peak_mb, **extra}]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return one table per observation ratio, with the paper's values."""
        tables = []
        for setting in SETTINGS:
            own = rows[rows["setting"] == setting]
            if own.empty:
                continue
            note = " ".join([
                runs_note(own, plan), f"37 sensors, {QUICK_DAYS if plan.quick else DAYS} days, 5 % of the sensor-days",
                "faulty, errors in deg C.", RELATIVE_ERROR, detection(THRESHOLD), ERRORS, COST, "The paper's RE stands",
                "beside RE; it does not print by which of the three it was made.", about(own, "noaa"),
            ])  # fmt: skip
            paper = {(labelled(name), at, figure): value for (name, at), scores in NOAA.items()
                     for figure, value in zip(("re", "f1"), scores, strict=True)}  # fmt: skip
            title, also = f"{self.title}, {setting} observed", {"setting": "observed"}
            tables.append(summarize(own, COLUMNS, also=also, paper=paper, title=title, note=note))
        return tables

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw F1 and the errors."""
        return score_chart(rows, folder, self.stem(plan), title=self.heading(plan))
