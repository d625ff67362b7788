"""`Noaa` and `Aot` run methods on the two networks of the paper.

Of the year of temperatures at 37 stations the truth is known, and faults are added. The Array of Things in Chicago has
real faults without labels, and a reference station nearby.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sensormend.bench.charts import score_chart
from sensormend.bench.contestants import chosen, line_up, measure_contestant
from sensormend.bench.data import load_network, load_reference
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
    runs_only,
)
from sensormend.bench.tables import AOT, NOAA, Bar, Frame, ResultTable, summarize
from sensormend.recovery import FloatArray
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.scores import DROPPED, paper_scores

__all__ = ["Aot", "Noaa", "correlation"]

SLOTS, QUICK_DAYS = 24, 40

SETTINGS = {"100 %": 1.0, "90 %": 0.9}
NOAA_SENSORS = 37
THRESHOLD = 0.01
NOAA_COLUMNS = (
    "re", "f1", "f1_best", "re_text", "re_code", "missing", "faulty", "repaired", "trusted", "seconds", "peak_mb",
)  # fmt: skip


class Noaa(Experiment):
    """5 % of the sensor-days drawn at random, all or 90 % observed, day after day."""

    name = "noaa"
    title = "NOAA temperatures"
    caption = "F1 at the paper's rule and at the best threshold, and the errors at missing and faulty readings."

    @staticmethod
    def days(plan: RunPlan) -> int:
        """Return the number of days of the year that are used."""
        return QUICK_DAYS if plan.quick else 364

    def prepare(self, plan: RunPlan) -> None:
        """Locate the year of temperatures."""
        load_network("noaa")

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return every method at both observation ratios."""
        contestants, days, jobs = line_up("noaa"), self.days(plan), []
        for name in chosen(plan.methods, "noaa"):
            options = {"days": days, "kind": contestants[name].kind}
            weight = contestants[name].cost * contestants[name].passes * NOAA_SENSORS * SLOTS * days
            for setting, observed in SETTINGS.items():
                jobs += self.trials(plan, name, setting, observed, options, weight)
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Add faults to the year and clean it, a day at a time; batch methods get all of it."""
        spoilt = degrade(load_network("noaa")[..., : job.option("days")], Case("uniform", observed=job.x), job.seed)
        contestant = line_up("noaa")[job.method]
        days = [spoilt.readings[..., day] for day in range(job.option("days"))]
        recovery, costs = measure_contestant(contestant, days, job.seed)
        scores = paper_scores(recovery, spoilt, dropped=DROPPED)
        return [{**scores, **costs, "days": len(days), "passes": contestant.passes}]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return one table per observation ratio, with the paper's values."""
        tables = []
        for setting in SETTINGS:
            own = rows[rows["setting"] == setting]
            if own.empty:
                continue
            note = " ".join([
                runs_note(own, plan), f"37 sensors, {self.days(plan)} days, 5 % of the sensor-days",
                "faulty, errors in deg C.", RELATIVE_ERROR, detection(THRESHOLD), ERRORS, COST, "The paper's RE stands",
                "beside RE; it does not print by which of the three it was made.", about(own, "noaa"),
            ])  # fmt: skip
            paper = {(labelled(name), at, figure): value for (name, at), scores in NOAA.items()
                     for figure, value in zip(("re", "f1"), scores, strict=True)}  # fmt: skip
            title, also = f"{self.title}, {setting} observed", {"setting": "observed"}
            tables.append(summarize(own, NOAA_COLUMNS, also=also, paper=paper, title=title, note=note))
        return tables

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw F1 and the errors."""
        return score_chart(rows, folder, self.stem(plan), title=self.heading(plan))


AOT_SENSORS = 52
RAW = {"readings": "readings", "zeros": "missing as 0"}
AOT_COLUMNS = ("correlation", "lowest", "highest", "seconds", "peak_mb")
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

    @staticmethod
    def days(plan: RunPlan) -> int:
        """Return the number of days of the year that are used."""
        return QUICK_DAYS if plan.quick else 365

    def prepare(self, plan: RunPlan) -> None:
        """Find the readings and the reference station."""
        load_network("aot")
        load_reference()

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the raw readings, then every method; NetworkModel with one pass and with three."""
        contestants, days = line_up("aot"), self.days(plan)
        once = replace(plan, trials=1)
        jobs = [job for setting in RAW.values()
                for job in self.trials(once, "raw", setting, 0, {"days": days, "kind": "raw"}, 1.0)]  # fmt: skip
        for name in chosen(plan.methods, "aot"):
            contestant = contestants[name]
            # Without random numbers every trial would be the same.
            trials = once if contestant.kind in ("batch", "plain") else plan
            for passes in (1, 3) if contestant.kind == "ours" else (contestant.passes,):
                label = "all at once" if not contestant.online else "1 pass" if passes == 1 else f"{passes} passes"
                options = {"days": days, "kind": contestant.kind, "passes": passes}
                weight = contestant.cost * passes * AOT_SENSORS * SLOTS * days
                jobs += self.trials(trials, name, label, passes, options, weight)
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
        passes = job.option("passes")
        recovery, costs = measure_contestant(line_up("aot")[job.method], days, job.seed, passes=passes)
        costs |= {"days": len(days), "passes": passes}
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
            for column, value in zip(AOT_COLUMNS, published[method], strict=False)
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
            f"{runs_only(methods if len(methods) else rows, plan)} {self.days(plan)} days, none "
            "left out; methods that draw nothing run once. Mean over sensors of the correlation with the reference "
            "station, and the range in deg C. expected is what the paper judges, cleaned what a user gets. No RE and "
            f"no F1 here: it is not known which readings are wrong. {COST} {about(rows, 'aot')}"
        )
        also = {"setting": "passes", "output": "output"}
        return [summarize(rows, AOT_COLUMNS, also=also, bars=bars, paper=paper, title=self.title, note=note)]


def _range(values: FloatArray) -> dict[str, float]:
    return {"lowest": float(np.nanmin(values)), "highest": float(np.nanmax(values))}
