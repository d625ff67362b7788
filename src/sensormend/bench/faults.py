"""The fault bench: known faults in sound readings, found and repaired by methods that are told nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from time import perf_counter

from sensormend.bench.contestants import CONTESTANTS
from sensormend.bench.data import load_network
from sensormend.bench.scores import DROPPED_DAYS, score
from sensormend.bench.tables import Bar, Figures, mean_and_spread
from sensormend.errors import ConfigError
from sensormend.faults import KINDS, Case, degrade

__all__ = ["BARS", "CASES", "Job", "chosen_cases", "figures", "run_job", "run_jobs"]

CASES: dict[str, Case] = {
    "uniform-90": Case("uniform", observed=0.9),
    "uniform-100": Case("uniform", observed=1.0),
    "mix-90": Case("mix", observed=0.9),
    "mix-outages": Case("mix", observed=0.9, outages=True),
    "none-90": Case("none", share=0.0, observed=0.9),
}
SINGLE_KINDS: dict[str, Case] = {f"{kind}-90": Case(kind, observed=0.9) for kind in KINDS}

COLUMNS = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "missing": "missing",
    "repaired": "repaired",
    "trusted": "trusted",
    "false_alarms": "false alarms, %",
    "re": "RE",
    "coverage_missing": "coverage, missing",
    "coverage_repaired": "coverage, repaired",
    "seconds": "seconds",
}

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


@dataclass(frozen=True)
class Job:
    """One run: a method on one case of one network with one seed."""

    data: str
    case: str
    method: str
    seed: int
    sensors: int | None = None
    days: int = 364
    slots: int = 24
    unscored: tuple[int, ...] = ()


def chosen_cases(names: str) -> list[str]:
    """Return the cases that a comma-separated list names; `all` are the five, `kinds` each kind alone."""
    found: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        group = {"all": list(CASES), "kinds": list(SINGLE_KINDS)}.get(name, [name])
        for case in group:
            if case not in CASES and case not in SINGLE_KINDS:
                raise ConfigError(f"no case {case!r}; known: all, kinds, {', '.join([*CASES, *SINGLE_KINDS])}")
            if case not in found:
                found.append(case)
    return found


def run_job(job: Job) -> dict[str, float]:
    """Run one job and return its scores, false alarms in per cent, and its seconds."""
    truth = load_network(job.data, seed=job.seed, sensors=job.sensors, days=job.days, slots=job.slots)
    case = {**CASES, **SINGLE_KINDS}[job.case]
    spoilt = degrade(truth, case, job.seed)
    started = perf_counter()
    recovery = CONTESTANTS[job.method](job.seed).recover(spoilt.readings)
    seconds = perf_counter() - started
    scores = asdict(score(recovery, spoilt, unscored=job.unscored))
    if not spoilt.faulty.any():
        scores |= dict.fromkeys(("f1", "precision", "recall"), float("nan"))
    return {**scores, "false_alarms": 100 * scores["false_alarms"], "seconds": seconds}


def run_jobs(jobs: list[Job], *, processes: int = 1) -> Iterator[tuple[Job, dict[str, float]]]:
    """Yield every job with its scores as it ends; several `processes` only where asked for."""
    if processes == 1:
        for job in jobs:
            yield job, run_job(job)
        return
    with ProcessPoolExecutor(processes) as pool:
        waiting = {pool.submit(run_job, job): job for job in jobs}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def figures(results: list[tuple[Job, dict[str, float]]]) -> Figures:
    """Gather runs into one table: the mean over the seeds, its spread, and the bar where there is one."""
    data = results[0][0].data
    pairs = sorted({(job.method, job.case) for job, _ in results}, key=_in_order)
    cells = []
    for method, case in pairs:
        runs = [scores for job, scores in results if (job.method, job.case) == (method, case)]
        # The bars were set for all sensors: a table that leaves some out is no answer to them.
        for_all = data == "noaa" and method.startswith("AutoOLRTR") and not results[0][0].unscored
        bars = BARS.get(case, {}) if for_all else {}
        cells.append([(*mean_and_spread([run[name] for run in runs]), bars.get(name)) for name in COLUMNS])
    seeds = len({job.seed for job, _ in results})
    left_out = ", ".join(map(str, results[0][0].unscored))
    return Figures(
        title=f"Fault bench on {data}",
        note=(
            f"Mean ± standard deviation over seeds ({seeds}), first {DROPPED_DAYS} days dropped. missing, "
            "repaired, trusted: RMSE of the cleaned values in the unit of the data. RE: relative error of "
            "the cleaned values on sound fibers, Frobenius."
            + (f" Sensors in the network but not in the scores: {left_out}." if left_out else "")
        ),
        labels=("method", "case"),
        rows=pairs,
        columns=tuple(COLUMNS.values()),
        cells=cells,
    )


def _in_order(pair: tuple[str, str]) -> tuple[int, int]:
    return list(CONTESTANTS).index(pair[0]), [*CASES, *SINGLE_KINDS].index(pair[1])
