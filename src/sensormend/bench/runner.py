"""`run` performs the runs that are not done yet, stores every result at once, and reports the time left."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from sensormend.bench.experiment import Experiment, Job, Row, RunPlan
from sensormend.bench.measure import workers
from sensormend.bench.registry import EXPERIMENTS
from sensormend.bench.results_page import write_page
from sensormend.bench.store import Store
from sensormend.bench.tables import ResultTable, write_tables
from sensormend.errors import ConfigError, DivergenceError, SensormendError
from sensormend.files import now, surroundings

__all__ = ["Ran", "RunProgress", "TimeLeft", "perform", "run", "show", "show_again"]


@dataclass(frozen=True)
class RunProgress:
    """The progress after a run: its name, runs done, all runs, the share by cost, and the seconds left."""

    doing: str
    done: int
    runs: int
    share: float
    seconds_left: float


@dataclass(frozen=True)
class Ran:
    """One experiment that was run: its tables, and every file that was written for it."""

    name: str
    tables: list[ResultTable]
    written: list[Path]


@dataclass
class TimeLeft:
    """Estimates the time left, from the time per weight of each method's runs so far."""

    waiting: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    spent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    runs: int = 0

    def add(self, job: Job) -> None:
        """Add a run that is to be done."""
        self.waiting[job.method] += job.weight

    def done(self, job: Job, seconds: float) -> None:
        """Count a run as done."""
        self.runs += 1
        self.waiting[job.method] -= job.weight
        spent = self.spent[job.method]
        spent[0] += seconds
        spent[1] += job.weight

    @property
    def share(self) -> float:
        """Return the share of the work that is done, by weight."""
        done = sum(weight for _, weight in self.spent.values())
        return done / max(done + sum(self.waiting.values()), 1e-12)

    def left(self, processes: int = 1) -> float:
        """Return the seconds left; NaN before the first run ends."""
        seconds, weight = (sum(part) for part in zip(*self.spent.values(), strict=True)) if self.spent else (0.0, 0.0)
        if not weight:
            return float("nan")
        total = 0.0
        for method, waiting in self.waiting.items():
            own = self.spent.get(method)
            total += waiting * (own[0] / own[1] if own and own[1] else seconds / weight)
        return max(total, 0.0) / processes


def perform(job: Job) -> tuple[list[Row], float]:
    """Perform one run in this process; return its rows and its seconds. Divergence is a result too."""
    started = perf_counter()
    experiment = EXPERIMENTS[job.experiment]
    try:
        rows = [{"status": "done", **row} for row in experiment.run(job)]
    except DivergenceError:
        rows = [{"status": "diverged"}]
    columns = job.row() | {"kind": job.option("kind", "plain")}
    return [columns | row for row in rows], perf_counter() - started


def run(
    wanted: Sequence[tuple[Experiment, RunPlan]], out: Path, *, processes: int = 1, fresh: bool = False,
    progress: Callable[[RunProgress], None] = lambda tick: None,
    complain: Callable[[str, SensormendError], None] | None = None,
) -> list[Ran]:  # fmt: skip
    """Run experiments into a folder, each with its tables, pictures and the page as soon as it is done.

    With 0 `processes` they run in this one; with `fresh` runs that are done are repeated. `progress` is
    called after every run, `complain` for an experiment without data, which raises without it.
    """
    if processes < 0:
        raise ConfigError(f"--jobs must be 1 or more, not {processes}")
    todo: list[tuple[Experiment, RunPlan, list[Job]]] = []
    clock, ran = TimeLeft(), []
    with Store(out) as store:
        for experiment, plan in wanted:
            jobs = experiment.jobs(plan)
            try:
                experiment.prepare(plan)
            except ConfigError:
                raise
            except SensormendError as error:
                if complain is None:
                    raise
                complain(experiment.name, error)
                continue
            if fresh:
                store.forget(job.key for job in jobs)
            for job in jobs:
                if not store.has(job.key):
                    clock.add(job)
            todo.append((experiment, plan, jobs))
        waiting = sum(not store.has(job.key) for _, _, jobs in todo for job in jobs)
        progress(RunProgress("the first run", 0, waiting, 0.0, float("nan")))
        with _doing(processes, waiting) as results:
            for experiment, plan, jobs in todo:
                record, missing = _record(experiment, plan, jobs), [job for job in jobs if not store.has(job.key)]
                before = store.records().get(experiment.stem(plan))
                if before and before["plan"] == record["plan"] and len(missing) < len(jobs):
                    # A continued experiment keeps its start; where no run is left it keeps its record.
                    record = record | {"started": before["started"]} if missing else dict(before)
                try:
                    for job, rows, seconds in results(missing):
                        store.append(job.key, rows)
                        clock.done(job, seconds)
                        doing = f"{experiment.name}: {job.method}, {job.setting}"
                        left = clock.left(max(processes, 1))
                        progress(RunProgress(doing, clock.runs, waiting, clock.share, left))
                    done = show(experiment, plan, store)
                    record |= {"pictures": _pictures(done)}
                finally:
                    record |= {"ended": now()} if missing or "ended" not in record else {}
                    record |= {"done": sum(store.has(job.key) for job in jobs)}
                    store.record(experiment.stem(plan), record)
                    store.seal()
                page = write_page(store)
                ran.append(Ran(done.name, done.tables, [*done.written, page]))
    return ran


def show(experiment: Experiment, plan: RunPlan, store: Store) -> Ran:
    """Write the tables and pictures of the runs of a plan that are in the store."""
    name = experiment.stem(plan)
    rows = store.rows(job.key for job in experiment.jobs(plan))
    tables = experiment.tables(rows, plan)
    written = write_tables(tables, store.folder, name) if tables else []
    written += experiment.charts(rows, plan, store.folder)
    return Ran(name, tables, written)


def show_again(out: Path) -> Path:
    """Write again the tables, pictures and page of all results in a folder; return the page."""
    with Store(out) as store:
        for name, record in store.records().items():
            if record.get("experiment") in EXPERIMENTS:
                done = show(EXPERIMENTS[record["experiment"]], RunPlan.from_dict(record["plan"]), store)
                store.record(name, {**record, "pictures": _pictures(done)})
        return write_page(store)


def _pictures(done: Ran) -> list[str]:
    return [path.name for path in done.written if path.suffix in (".png", ".svg")]


def _record(experiment: Experiment, plan: RunPlan, jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "command": shlex.join(["sensormend", "bench", experiment.name, *plan.words()]),
        "plan": plan.to_dict(),
        "trials": plan.repeats,
        "seeds": [seed for _, seed in plan.seeds],
        "runs": len(jobs),
        "started": now(),
        **surroundings(),
        "pictures": [],
    }


Results = Callable[[list[Job]], Iterator[tuple[Job, list[Row], float]]]


@contextmanager
def _doing(processes: int, needed: int) -> Iterator[Results]:
    """Yield a function that performs jobs and yields each as it ends; in this process where `processes` is 0."""
    if not processes or not needed:
        yield lambda jobs: ((job, *perform(job)) for job in jobs)
        return
    with workers(processes) as pool:
        yield lambda jobs: _pooled(pool, jobs)


def _pooled(pool: ProcessPoolExecutor, jobs: list[Job]) -> Iterator[tuple[Job, list[Row], float]]:
    waiting: dict[Future[tuple[list[Row], float]], Job] = {pool.submit(perform, job): job for job in jobs}
    while waiting:
        for ended in wait(waiting, return_when=FIRST_COMPLETED).done:
            yield waiting.pop(ended), *ended.result()
