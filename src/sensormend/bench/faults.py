"""The fault bench: known faults in sound readings, found and repaired by methods that are told nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sensormend.bench.charts import faults_chart
from sensormend.bench.contestants import chosen, line_up, mend
from sensormend.bench.data import load_network
from sensormend.bench.experiment import Experiment, Job, Plan, Row, on_large_path
from sensormend.bench.gather import COST, ERRORS, RELATIVE_ERROR, about, by_method, detection, runs_told
from sensormend.bench.measure import measured
from sensormend.bench.scores import DROPPED, paper_scores
from sensormend.bench.tables import Bar, Figures
from sensormend.errors import ConfigError
from sensormend.faults import KINDS, Case, degrade

__all__ = ["BARS", "CASES", "Faults", "chosen_cases"]

CASES: dict[str, Case] = {
    "uniform-90": Case("uniform", observed=0.9),
    "uniform-100": Case("uniform", observed=1.0),
    "mix-90": Case("mix", observed=0.9),
    "mix-outages": Case("mix", observed=0.9, outages=True),
    "none-90": Case("none", share=0.0, observed=0.9),
}
SINGLE_KINDS: dict[str, Case] = {f"{kind}-90": Case(kind, observed=0.9) for kind in KINDS}
KINDS_AND_OUTAGES: dict[str, Case] = {f"{kind}-outages": Case(kind, observed=0.9, outages=True) for kind in KINDS}
EVERY_CASE = {**CASES, **SINGLE_KINDS, **KINDS_AND_OUTAGES}
GROUPS = {
    "all": list(CASES),
    "kinds": list(SINGLE_KINDS),
    "outages": list(KINDS_AND_OUTAGES),
    "everything": list(EVERY_CASE),
}

COLUMNS = (
    "f1", "f1_best", "precision", "recall", "missing", "faulty", "repaired", "trusted", "false_alarms",
    "coverage_missing", "coverage_repaired", "seconds",
)  # fmt: skip
ASIDE = ("re", "re_text", "re_code", "re_cleaned", "peak_mb")
THRESHOLD = 0.01
SENSORS, DAYS, SLOTS, QUICK_DAYS = 50, 364, 24, 40
QUICK_CASES = "uniform-90,mix-90"

_COVERAGE = {"coverage_missing": Bar(0.87, 0.93), "coverage_repaired": Bar(0.85, 0.95)}


def _bars(f1: float | None, missing: float | None, repaired: float | None, alarms: float) -> dict[str, Bar]:
    bars = {"trusted": Bar(high=0.35), "false_alarms": Bar(high=alarms), **_COVERAGE}
    if f1 is not None:
        bars["f1"] = Bar(low=f1)
    if missing is not None:
        bars["missing"] = Bar(high=missing)
    if repaired is not None:
        bars["repaired"] = Bar(high=repaired)
    return bars


BARS: dict[str, dict[str, Bar]] = {
    "uniform-90": _bars(0.96, 0.72, 1.15, 0.5),
    "uniform-100": _bars(0.96, None, 1.15, 0.5),
    "mix-90": _bars(0.90, 0.74, 1.30, 0.6),
    "mix-outages": _bars(0.88, 1.30, 1.40, 0.6),
    "none-90": _bars(None, 0.72, None, 0.8),
}
"""What AutoOLRTR should reach on the `noaa` network, errors in deg C, false alarms in per cent."""


def chosen_cases(names: str) -> list[str]:
    """Return the cases that a comma-separated list names.

    `all` are the five, `kinds` each kind alone, `outages` each kind alone in a network with outages, and
    `everything` all of them.
    """
    found: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        for case in GROUPS.get(name, [name]):
            if case not in EVERY_CASE:
                raise ConfigError(f"no case {case!r}; known: {', '.join([*GROUPS, *EVERY_CASE])}")
            if case not in found:
                found.append(case)
    return found


class Faults(Experiment):
    """Cases of `docs/faults.md` on a network of real or simulated readings."""

    name = "faults"
    title = "Fault bench"
    caption = "F1 and the errors at missing readings and in faulty fibers of every method, case by case."

    def stem(self, plan: Plan) -> str:
        """Return the name of the files: one for each network, and for what is unusual about a run."""
        unusual = "_large" if plan.option("large") else ""
        unusual += "".join(f"_without_{number}" for number in plan.option("unscored", ()))
        return f"faults_{Path(plan.option('data', 'noaa')).stem}{unusual}"

    def prepare(self, plan: Plan) -> None:
        """Find the readings."""
        data = plan.option("data", "noaa")
        sensors, slots = plan.option("sensors"), plan.option("slots", SLOTS)
        count = load_network(data, sensors=sensors, days=DROPPED + 1, slots=slots).shape[0]
        beyond = [number for number in plan.option("unscored", ()) if not 0 <= number < count]
        if beyond:
            raise ConfigError(f"--unscored: {data} has sensors 0 to {count - 1}, not {beyond[0]}")

    def jobs(self, plan: Plan) -> list[Job]:
        """Return every method on every case."""
        contestants = line_up("faults")
        days = plan.option("days", QUICK_DAYS if plan.quick else DAYS)
        if days <= DROPPED:
            raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
        known = {"data": plan.option("data", "noaa"), "sensors": plan.option("sensors"), "days": days,
                 "slots": plan.option("slots", SLOTS), "unscored": plan.option("unscored", ())}  # fmt: skip
        if plan.option("digest"):
            known["digest"] = plan.option("digest")
        cases = chosen_cases(plan.option("cases", QUICK_CASES if plan.quick else "all"))
        found = []
        for name in on_large_path(plan, chosen(plan.methods, "faults")):
            contestant = contestants[name]
            options = tuple(sorted((known | {"kind": contestant.kind}).items()))
            weight = contestant.cost * contestant.passes * (known["sensors"] or SENSORS) * known["slots"] * days
            found += [
                Job(self.name, name, case, list(EVERY_CASE).index(case), trial, seed, options, weight)
                for case in cases
                for trial, seed in plan.seeds
            ]
        return found

    def run(self, job: Job) -> list[Row]:
        """Spoil the readings, mend them, and judge what came out."""
        size = {name: job.option(name) for name in ("sensors", "days", "slots")}
        truth = load_network(job.option("data"), seed=job.seed, **size)[..., : job.option("days")]
        spoilt = degrade(truth, EVERY_CASE[job.setting], job.seed)
        contestant = line_up("faults")[job.method]
        days = [spoilt.readings[..., day] for day in range(truth.shape[-1])]
        with measured() as cost:
            recovery = mend(contestant, days, job.seed)
        scores = paper_scores(recovery, spoilt, dropped=DROPPED, unscored=job.option("unscored"))
        return [{**scores, "seconds": cost.seconds, "peak_mb": cost.peak_mb, "days": len(days)}]

    def tables(self, rows: Sequence[Row], plan: Plan) -> list[Figures]:
        """Lay out one table, the bars beside AutoOLRTR."""
        if not rows:
            return []
        data, left_out = plan.option("data", "noaa"), plan.option("unscored", ())
        # The bars were set for all days and all sensors of one network: anything else is no answer to them.
        judged = data == "noaa" and not left_out and not plan.quick and plan.option("days", DAYS) == DAYS
        bars = {
            (method, case): bars
            for method in ("AutoOLRTR", "AutoOLRTR large path")
            for case, bars in (BARS.items() if judged else ())
        }
        told = runs_told(rows, plan)
        if left_out:
            told += f" Sensors in the network but not in the scores: {', '.join(map(str, left_out))}."
        note = " ".join(
            [told, detection(THRESHOLD), ERRORS, "Errors in the unit of the data.",
             "false alarms: share of the sound sensor-days that were flagged.",
             "coverage: share of true values inside the interval, 0.9 by its promise.", COST, about(rows, "faults")]
        )  # fmt: skip
        more = f"{told} {RELATIVE_ERROR} RE of cleaned: of the cleaned values on sound fibers, Frobenius norm. {COST}"
        title, case = self.heading(plan), {"setting": "case"}
        return [
            by_method(rows, COLUMNS, also=case, bars=bars, title=title, note=note),
            by_method(rows, ASIDE, also=case, title=f"{title}: relative errors and memory", note=more, aside=True),
        ]

    def charts(self, rows: Sequence[Row], plan: Plan, folder: Path) -> list[Path]:
        """Draw F1 and the errors of every method, case by case."""
        return faults_chart(rows, folder, self.stem(plan), title=self.heading(plan)) if rows else []

    def heading(self, plan: Plan) -> str:
        """Return the title with the network, the usual one too."""
        return super().heading(replace(plan, options=(("data", "noaa"), *plan.options)))
