"""`Faults` adds known faults to sound readings, and scores what methods detect and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sensormend.bench.charts import score_chart
from sensormend.bench.contestants import chosen, line_up, measure_contestant
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
    runs_note,
    runs_only,
)
from sensormend.bench.measure import measured
from sensormend.bench.tables import Bar, Frame, ResultTable, summarize
from sensormend.errors import ConfigError
from sensormend.recovery import BoolArray, FloatArray, Recovery
from sensormend.simulate.degrade import EARLIEST, KINDS, LASTING_DAYS, SOUND_AFTER, Case, Degraded, degrade, in_time
from sensormend.simulate.scores import DROPPED, lasting_scores, paper_scores, reading_scores

__all__ = [
    "BARS",
    "CASES",
    "FIRST_DAY",
    "EstimatingModel",
    "Faults",
    "LatencyScores",
    "alarms_by_slot",
    "chosen_cases",
    "delays",
    "latency_scores",
]

FIRST_DAY = 30
"""The first day on which a model is evaluated after every slot; until then it learns."""
SHORTEST = 6.0
"""The minimum duration in hours of a fault that is counted."""


class EstimatingModel(Protocol):
    """A model that can estimate a period that is not over."""

    def update(self, minibatch: ArrayLike) -> Recovery:
        """Recover one period and learn from it."""
        ...

    def estimate(self, minibatch: ArrayLike) -> Recovery:
        """Recover one period and learn nothing."""
        ...


@dataclass(frozen=True)
class LatencyScores:
    """How soon faults of 6 h and more raise an alarm.

    Attributes
    ----------
    faults
        Number of faults from the first evaluated day on, with at least one reading.
    within_3, within_6, within_24
        The share with an alarm within so many hours of its first reading, which is hour 0.
    never
        The share without an alarm before the end.
    false_alarms
        The share of the sensor-slots outside faults that have an alarm.
    """

    faults: int
    within_3: float
    within_6: float
    within_24: float
    never: float
    false_alarms: float


def alarms_by_slot(model: EstimatingModel, case: Degraded, *, first: int = FIRST_DAY) -> BoolArray:
    """Return the sensors that have an alarm after each slot: (sensor, slot, day), False before day `first`.

    After every slot `estimate` is called with the day so far, the later slots NaN. A sensor has an alarm where it has
    an open fault, or where its newest reading of that day is judged wrong.
    """
    sensors, slots, days = case.readings.shape
    alarms = np.zeros((sensors, slots, days), dtype=bool)
    for day in range(days):
        readings = case.readings[..., day]
        if day >= first:
            observed = np.isfinite(readings)
            for slot in range(slots):
                so_far = np.where(np.arange(slots) <= slot, readings, np.nan)
                alarms[:, slot, day] = _alarms(model.estimate(so_far), observed[:, : slot + 1])
        model.update(readings)
    return alarms


def _alarms(recovery: Recovery, observed: BoolArray) -> BoolArray:
    """Return which sensors have an alarm in the recovery of a day so far; `observed` is (sensor, slot so far)."""
    sensors, slots = observed.shape
    newest = slots - 1 - np.argmax(observed[:, ::-1], axis=1)
    alarms: BoolArray = observed.any(axis=1) & recovery.wrong[np.arange(sensors), newest]
    alarms[[int(fault.sensor) for fault in recovery.faults if fault.end is None]] = True
    return alarms


def delays(alarms: BoolArray, case: Degraded, *, first: int = FIRST_DAY) -> list[float]:
    """Return the hours from the first reading of each fault to its first alarm, infinite where it has none.

    Faults count that begin on day `first` or later, last 6 h or more, and have a reading. An alarm after the end of a
    fault is a false one.
    """
    observed, raised = in_time(np.isfinite(case.readings)), in_time(alarms)
    slots = case.readings.shape[1]
    hours = 24 / slots
    counted = []
    for fault in case.faults:
        readings = np.flatnonzero(observed[fault.sensor, fault.start : fault.stop])
        if fault.start < first * slots or hours * fault.length < SHORTEST or not readings.size:
            continue
        alarm = np.flatnonzero(raised[fault.sensor, fault.start + readings[0] : fault.stop])
        counted.append(hours * float(alarm[0]) if alarm.size else float("inf"))
    return counted


def latency_scores(
    alarms: BoolArray, case: Degraded, *, first: int = FIRST_DAY, unscored: Sequence[int] = ()
) -> LatencyScores:
    """Score the alarms of `alarms_by_slot`, without the sensors `unscored`."""
    rows = np.setdiff1d(np.arange(alarms.shape[0]), unscored)
    alarms, case = alarms[rows], case.of_sensors(rows)
    hours = np.array(delays(alarms, case, first=first))
    sound = ~case.wrong[..., first:]

    def share(mask: BoolArray) -> float:
        return float(mask.mean()) if mask.size else float("nan")

    return LatencyScores(
        faults=hours.size,
        within_3=share(hours <= 3),
        within_6=share(hours <= 6),
        within_24=share(hours <= 24),
        never=share(np.isinf(hours)),
        false_alarms=share(alarms[..., first:][sound]),
    )


CASES: dict[str, Case] = {
    "uniform-90": Case("uniform", observed=0.9),
    "uniform-100": Case("uniform", observed=1.0),
    "mix-90": Case("mix", observed=0.9),
    "mix-outages": Case("mix", observed=0.9, outages=True),
    "none-90": Case("none", share=0.0, observed=0.9),
    "hours-90": Case("mix", observed=0.9, hourly=True),
    "latency": Case("mix", share=0.04, observed=0.9, hourly=True),
}
LATENCY = "latency"
LASTING: dict[str, Case] = {
    "lasting-offset-3": Case("offset", share=0.15, lasting=3.0),
    "lasting-offset-6": Case("offset", share=0.15, lasting=6.0),
    "lasting-drift-15": Case("drift", share=0.15, lasting=0.15),
    "lasting-drift-05": Case("drift", share=0.15, lasting=0.05),
}
LASTING_LEAST = EARLIEST + LASTING_DAYS + SOUND_AFTER
"""Days of data that these cases need."""


SMALL: dict[str, int] = {f"small-{count}": count for count in (1, 2, 3, 5, 8)}
"""`hours-90` on this many sensors, drawn at random from the network."""
DRAWS = 3
"""Draws of the sensors of a `small` case in one trial, since sensors differ in how hard they are to judge."""
SINGLE_KINDS: dict[str, Case] = {f"{kind}-90": Case(kind, observed=0.9) for kind in KINDS}
KINDS_AND_OUTAGES: dict[str, Case] = {f"{kind}-outages": Case(kind, observed=0.9, outages=True) for kind in KINDS}
EVERY_CASE = {
    **CASES,
    **SINGLE_KINDS,
    **KINDS_AND_OUTAGES,
    **LASTING,
    **dict.fromkeys(SMALL, CASES["hours-90"]),
}
GROUPS = {
    "all": list(CASES),
    "kinds": list(SINGLE_KINDS),
    "outages": list(KINDS_AND_OUTAGES),
    "lasting": list(LASTING),
    "small": list(SMALL),
    "everything": list(EVERY_CASE),
}

COLUMNS = (
    "f1", "f1_best", "precision", "recall", "missing", "faulty", "repaired", "trusted", "false_alarms",
    "coverage_missing", "coverage_repaired", "seconds",
)  # fmt: skip
ASIDE = ("reading_f1", "re", "re_text", "re_code", "re_cleaned", "peak_mb")
READING_COLUMNS = (
    "f1", "precision", "recall", "sound_flagged", "detected_short", "detected_middle", "detected_long", "missing",
    "faulty", "trusted", "coverage_missing", "coverage_repaired", "seconds",
)  # fmt: skip
LASTING_COLUMNS = (
    "recall", "precision", "faulty", "raw", "trusted", "sound_flagged", "sound_wrong", "after_flagged",
    "false_lasting", "coverage_repaired", "seconds",
)  # fmt: skip
LATENCY_COLUMNS = ("within_3", "within_6", "within_24", "never", "false_alarms", "faults", "seconds")
THRESHOLD = 0.01
SENSORS, DAYS, SLOTS, QUICK_DAYS = 50, 364, 24, 40
LATENCY_DAYS = 120
QUICK_CASES = "uniform-90,mix-90"

_COVERAGE = {"coverage_missing": Bar(0.87, 0.93), "coverage_repaired": Bar(0.87, 0.93)}


def _bars(f1: float | None, missing: float | None, repaired: float | None, alarms: float) -> dict[str, Bar]:
    bars = {"trusted": Bar(high=0.35), "false_alarms": Bar(high=alarms), **_COVERAGE}
    if f1 is not None:
        bars["f1"] = Bar(low=f1)
    if missing is not None:
        bars["missing"] = Bar(high=missing)
    if repaired is not None:
        bars["repaired"] = Bar(high=repaired)
    return bars


def _lasting_bars(recall: float, error: float) -> dict[str, Bar]:
    everywhere = {"trusted": Bar(high=0.45), "sound_flagged": Bar(high=0.4), "false_lasting": Bar(high=1.0)}
    return {"recall": Bar(low=recall), "faulty": Bar(high=error), **everywhere}


def _small_bars(f1: float, missing: float) -> dict[str, Bar]:
    return {"f1": Bar(low=f1), "sound_flagged": Bar(high=1.2), "missing": Bar(high=missing)}


BARS: dict[str, dict[str, Bar]] = {
    "uniform-90": _bars(0.977, 0.74, 1.10, 0.3),
    "uniform-100": _bars(0.96, None, 1.15, 0.5),
    "mix-90": _bars(0.94, 0.74, 1.20, 0.4),
    "mix-outages": _bars(0.92, 1.18, 1.25, 0.35),
    "none-90": _bars(None, 0.72, None, 0.8),
    "hours-90": {
        "f1": Bar(low=0.87),
        "sound_flagged": Bar(high=0.4),
        "detected_short": Bar(low=0.60),
        "detected_middle": Bar(low=0.85),
        "detected_long": Bar(low=0.97),
        "faulty": Bar(high=2.3),
        **_COVERAGE,
    },
    "latency": {
        "within_3": Bar(low=0.45),
        "within_6": Bar(low=0.60),
        "within_24": Bar(low=0.80),
        "never": Bar(high=0.15),
        "false_alarms": Bar(high=0.5),
    },
    "lasting-offset-3": _lasting_bars(0.70, 1.6),
    "lasting-offset-6": _lasting_bars(0.90, 1.2),
    "lasting-drift-15": _lasting_bars(0.60, 1.9),
    "lasting-drift-05": _lasting_bars(0.25, 2.1),
    "small-1": _small_bars(0.40, 0.86),
    "small-2": _small_bars(0.45, 1.0),
    "small-3": _small_bars(0.58, 1.0),
    "small-5": _small_bars(0.72, 0.95),
    "small-8": _small_bars(0.80, 0.82),
}
"""Targets of NetworkModel on `noaa`: errors in deg C, false alarms and sound readings flagged in per cent."""


BY_READING = (
    "F1, precision, recall: of the readings judged wrong. sound flagged: share of the sound readings that were. found: "
    "share of the faults, by how long they last, of which any reading was judged wrong. missing, faulty, trusted: root "
    "mean square error of the cleaned values where no reading came, at all wrong readings, judged so or not, and at "
    "sound ones. coverage: share of true values inside the interval, 0.9 by its promise, at missing readings outside "
    "faults and at wrong readings that were judged so."
)
BY_HOUR = (
    f"From day {FIRST_DAY} on the method is asked after every slot about the day so far. within, "
    "never: share of the faults of 6 h and more that raised an alarm within so many hours of their first reading, or "
    "not before they ended. An alarm is an open fault, or a newest reading that is judged wrong. false alarms: share "
    "of the sensor-hours outside faults that have one."
)

BY_SMALL = (
    f"So many sensors, drawn at random from the network; every trial is the mean over {DRAWS} draws. A reading counts "
    "as judged wrong where it is wrong or doubtful. missing: outside faults."
)
BY_LASTING = (
    "Offsets of so many units, and drifts of so many hundredths of a unit a day, in 15 % of the sensors, each once, "
    f"for {LASTING_DAYS} days. A reading is flagged where it is judged wrong or doubtful; recall and precision are of "
    "the flagged readings. faulty, raw, trusted: root mean square error of the cleaned values at all wrong readings, "
    "of these readings as they came, and of the cleaned values at sound ones. flagged after: share of the readings of "
    "the ten days after a fault that are flagged. false lasting: faults reported for 14 days or more of sensors "
    "without one, in ten sensor-years. coverage: share of true values inside the interval, 0.9 by its promise, at "
    "wrong readings that are flagged."
)

_NAMES = {
    "error_wrong": "faulty",
    "error_raw": "raw",
    "error_sound": "trusted",
    "error_missing": "missing",
    "coverage_wrong": "coverage_repaired",
}
"""Scores by reading, and their columns."""
_PER_CENT = ("sound_flagged", "sound_wrong", "after_flagged")


def _in_columns(scores: dict[str, Any]) -> dict[str, Any]:
    """Return scores by reading under the names of the columns, shares of sound readings in per cent."""
    return {_NAMES.get(name, name): 100 * value if name in _PER_CENT else value for name, value in scores.items()}


def _by_reading(recovery: Recovery, case: Degraded, unscored: Sequence[int], *, few: bool = False) -> dict[str, Any]:
    """Return the scores by reading of a network, or of a `few` sensors, of which less can be known."""
    scores = asdict(reading_scores(recovery, case, dropped=DROPPED, unscored=unscored, with_doubtful=few))
    outside_faults = scores.pop("error_missing_sound")
    # Inside a fault the truth of a lone sensor cannot be estimated.
    return _in_columns(scores | ({"error_missing": outside_faults} if few else {}))


def _means(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every score over the runs that have it; NaN where none has."""
    columns = {name: [one[name] for one in scores if np.isfinite(one[name])] for name in scores[0]}
    return {name: float(np.mean(values)) if values else float("nan") for name, values in columns.items()}


def chosen_cases(names: str) -> list[str]:
    """Return the cases that a comma-separated list names.

    `all` are those of `CASES`, `kinds` each kind alone, `outages` each kind alone in a network with outages, `lasting`
    faults of months, `small` networks of a few sensors, and `everything` all of them.
    """
    cases: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        for case in GROUPS.get(name, [name]):
            if case not in EVERY_CASE:
                raise ConfigError(f"no case {case!r}; known: {', '.join([*GROUPS, *EVERY_CASE])}")
            if case not in cases:
                cases.append(case)
    return cases


def _group(case: str) -> str:
    """Return by what the scores of a case are: by day or by reading, or those of a group of cases of its own."""
    for name, cases in (("latency", (LATENCY,)), ("lasting", LASTING), ("small", SMALL)):
        if case in cases:
            return name
    return "by reading" if EVERY_CASE[case].hourly else "by day"


class Faults(Experiment):
    """Cases of `docs/faults.md` on a network of real or simulated readings."""

    name = "faults"
    title = "Fault bench"
    caption = "F1 and the errors at missing readings and in faulty fibers of every method, case by case."

    def stem(self, plan: RunPlan) -> str:
        """Return the name of the files: one for each network and each unusual setting."""
        unusual = "".join(f"_without_{number}" for number in plan.option("unscored", ()))
        return f"faults_{Path(plan.option('data', 'noaa')).stem}{unusual}"

    def prepare(self, plan: RunPlan) -> None:
        """Locate the readings."""
        data = plan.option("data", "noaa")
        sensors, slots = plan.option("sensors"), plan.option("slots", SLOTS)
        count = load_network(data, sensors=sensors, days=DROPPED + 1, slots=slots).shape[0]
        beyond = [number for number in plan.option("unscored", ()) if not 0 <= number < count]
        if beyond:
            raise ConfigError(f"--unscored: {data} has sensors 0 to {count - 1}, not {beyond[0]}")
        available = count - len(plan.option("unscored", ()))
        for name in self._cases(plan):
            if SMALL.get(name, 0) > available:
                raise ConfigError(f"--cases {name} draws {SMALL[name]} sensors, and {data} has {available} of them")

    def _cases(self, plan: RunPlan) -> list[str]:
        return chosen_cases(plan.option("cases", QUICK_CASES if plan.quick else "all"))

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return every method on every case."""
        contestants = line_up("faults")
        days = plan.option("days", QUICK_DAYS if plan.quick else DAYS)
        if days <= DROPPED:
            raise ConfigError(f"the first {DROPPED} days are for learning: --days must be more, not {days}")
        shared = {"data": plan.option("data", "noaa"), "sensors": plan.option("sensors"), "days": days,
                 "slots": plan.option("slots", SLOTS), "unscored": plan.option("unscored", ())}  # fmt: skip
        if plan.option("digest"):
            shared["digest"] = plan.option("digest")
        cases = self._cases(plan)
        if days < LASTING_LEAST and any(case in LASTING for case in cases):
            raise ConfigError(f"faults that last {LASTING_DAYS} days need --days {LASTING_LEAST} or more, not {days}")
        jobs = []
        for name in chosen(plan.methods, "faults"):
            contestant = contestants[name]
            size = contestant.cost * contestant.passes * (shared["sensors"] or SENSORS) * shared["slots"]
            for case in cases:
                options, weight = shared | {"kind": contestant.kind}, size * days
                if case in SMALL:
                    weight = weight * DRAWS * SMALL[case] / (shared["sensors"] or SENSORS)
                if case == LATENCY:
                    # Only NetworkModel can estimate a day that is not over.
                    if contestant.kind != "ours":
                        continue
                    options |= {"days": min(days, LATENCY_DAYS)}
                    weight = size * (options["days"] + max(options["days"] - FIRST_DAY, 0) * shared["slots"])
                jobs += self.trials(plan, name, case, list(EVERY_CASE).index(case), options, weight)
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Add faults to the readings, clean them, and score the result."""
        size = {name: job.option(name) for name in ("sensors", "days", "slots")}
        truth = load_network(job.option("data"), seed=job.seed, **size)[..., : job.option("days")]
        if job.setting in SMALL:
            return [self._run_small(job, truth)]
        spoilt = degrade(truth, EVERY_CASE[job.setting], job.seed)
        contestant = line_up("faults")[job.method]
        days = [spoilt.readings[..., day] for day in range(truth.shape[-1])]
        unscored: tuple[int, ...] = job.option("unscored")
        scores: dict[str, Any]
        if job.setting == LATENCY:
            model: Any = contestant.make(job.seed)
            with measured() as cost:
                alarms = alarms_by_slot(model, spoilt)
            scores = asdict(latency_scores(alarms, spoilt, unscored=unscored))
            scores["false_alarms"] *= 100
            return [{**scores, "seconds": cost.seconds, "peak_mb": cost.peak_mb, "days": len(days)}]
        recovery, costs = measure_contestant(contestant, days, job.seed)
        if job.setting in LASTING:
            scores = _in_columns(asdict(lasting_scores(recovery, spoilt, dropped=DROPPED, unscored=unscored)))
            if contestant.kind != "ours":
                # Only NetworkModel reports faults with start and end.
                scores["false_lasting"] = float("nan")
        elif EVERY_CASE[job.setting].hourly:
            scores = _by_reading(recovery, spoilt, unscored)
        else:
            scores = paper_scores(recovery, spoilt, dropped=DROPPED, unscored=unscored)
            if spoilt.wrong.any():
                scores["reading_f1"] = _by_reading(recovery, spoilt, unscored)["f1"]
        return [{**scores, **costs, "days": len(days)}]

    def _run_small(self, job: Job, truth: FloatArray) -> Row:
        """Draw a few sensors, add faults and clean them, several times; return the means."""
        sensors, contestant = SMALL[job.setting], line_up("faults")[job.method]
        random = np.random.default_rng((job.seed, sensors))
        drawn_from = np.setdiff1d(np.arange(truth.shape[0]), job.option("unscored"))
        scores = []
        for draw in range(DRAWS):
            rows = random.choice(drawn_from, sensors, replace=False)
            spoilt = degrade(truth[rows], EVERY_CASE[job.setting], DRAWS * job.seed + draw)
            days = [spoilt.readings[..., day] for day in range(truth.shape[-1])]
            recovery, costs = measure_contestant(contestant, days, job.seed)
            scores.append(_by_reading(recovery, spoilt, (), few=True) | costs)
        return {**_means(scores), "days": truth.shape[-1]}

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return the tables, with targets beside NetworkModel."""
        data, left_out = plan.option("data", "noaa"), plan.option("unscored", ())
        # The targets were set for all days and all sensors of one network, and apply to nothing else.
        judged = data == "noaa" and not left_out and not plan.quick and plan.option("days", DAYS) == DAYS
        bars = {
            ("NetworkModel", case, figure): bar for case, own in BARS.items() if judged for figure, bar in own.items()
        }
        runs = runs_note(rows, plan)
        if left_out:
            runs += f" Sensors in the network but not in the scores: {', '.join(map(str, left_out))}."
        by_day = " ".join(
            [runs, detection(THRESHOLD), ERRORS, "Errors in the unit of the data.",
             "false alarms: share of the sound sensor-days that were flagged.",
             "coverage: share of true values inside the interval, 0.9 by its promise.", COST, about(rows, "faults")]
        )  # fmt: skip
        groups, units = rows["setting"].map(_group), "Errors in the unit of the data."
        latency = rows[groups == "latency"]
        hours = f"{runs_only(latency, plan)} {latency['days'].max()} days. {BY_HOUR} {COST}"
        more = f"{runs} {RELATIVE_ERROR} RE of cleaned: of the cleaned values on sound fibers, Frobenius norm. {COST}"
        tables = []
        for group, name, metrics, note in (
            ("by day", "", COLUMNS, by_day),
            (
                "by reading",
                "faults that begin at any hour, by reading",
                READING_COLUMNS,
                f"{runs} {BY_READING} {units}",
            ),
            ("lasting", "faults that last 90 days", LASTING_COLUMNS, f"{runs} {BY_LASTING} {units}"),
            ("small", "a few sensors, by reading", READING_COLUMNS, f"{runs} {BY_READING} {BY_SMALL} {units}"),
            ("latency", "hours until a fault is reported", LATENCY_COLUMNS, hours),
            ("by day", "relative errors and memory", ASIDE, more),
        ):
            own, title = rows[groups == group], f"{self.heading(plan)}: {name}" if name else self.heading(plan)
            if len(own):
                tables.append(
                    summarize(own, metrics, also={"setting": "case"}, bars=bars, title=title, note=note,
                              aside=metrics is ASIDE)
                )  # fmt: skip
        return tables

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw F1 and the errors of every method, case by case."""
        # Lasting faults are scored by recall and precision, not by F1.
        drawn = rows[~rows["setting"].isin([LATENCY, *LASTING])]
        return score_chart(drawn, folder, self.stem(plan), title=self.heading(plan)) if len(drawn) else []

    def heading(self, plan: RunPlan) -> str:
        """Return the title with the network, also for the default one."""
        return super().heading(replace(plan, options=(("data", "noaa"), *plan.options)))
