"""`run` performs the runs that are not done yet, stores every result at once, and reports the progress."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensormend.bench.experiment import Experiment, Job, Row, RunPlan
from sensormend.bench.fault_bench import Faults
from sensormend.bench.growth import Growth
from sensormend.bench.measure import workers
from sensormend.bench.paper_networks import Aot, Noaa
from sensormend.bench.result_store import ResultStore
from sensormend.bench.simulations import Convergence, Corruption, Magnitude, Observation, Size
from sensormend.bench.tables import ResultTable, write_tables
from sensormend.errors import ConfigError, DivergenceError, SensormendError
from sensormend.files import atomic_write, now, surroundings

__all__ = ["EXPERIMENTS", "Ran", "RunProgress", "perform", "run", "show", "write_index"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Size(),
        Corruption(),
        Magnitude(),
        Observation(),
        Convergence(),
        Noaa(),
        Aot(),
        Faults(),
        Growth(),
    )
}
"""All experiments, in the order of `bench all`."""


@dataclass(frozen=True)
class RunProgress:
    """The progress after a run: its name, runs done, all runs, and the share of the work, by the weight of runs."""

    doing: str
    done: int
    runs: int
    share: float


@dataclass(frozen=True)
class Ran:
    """One experiment that was run: its tables, and every file that was written for it."""

    name: str
    tables: list[ResultTable]
    written: list[Path]


def perform(job: Job) -> list[Row]:
    """Perform one run in this process; return its rows. Divergence is a result too."""
    experiment = EXPERIMENTS[job.experiment]
    try:
        rows = [{"status": "done", **row} for row in experiment.run(job)]
    except DivergenceError:
        rows = [{"status": "diverged"}]
    columns = job.row() | {"kind": job.option("kind", "plain")}
    return [columns | row for row in rows]


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
    with ResultStore(out) as store:
        todo = [(*pair, pair[0].jobs(pair[1])) for pair in wanted if _is_ready(*pair, complain)]
        if fresh:
            store.forget(job.key for *_, jobs in todo for job in jobs)
        waiting = [job for *_, jobs in todo for job in jobs if not store.has(job.key)]
        tick, weight = RunProgress("the first run", 0, len(waiting), 0.0), sum(job.weight for job in waiting)
        progress(tick)
        ran = []
        with _doing(processes, len(waiting)) as results:
            for experiment, plan, jobs in todo:
                missing = [job for job in jobs if not store.has(job.key)]
                record = _record(experiment, plan, jobs)
                before = store.records().get(experiment.stem(plan))
                if before and before["command"] == record["command"] and len(missing) < len(jobs):
                    # A continued experiment keeps its start; where no run is left it keeps its record.
                    record = record | {"started": before["started"]} if missing else dict(before)
                try:
                    for job, rows in results(missing):
                        store.append(job.key, rows)
                        doing = f"{job.experiment}: {job.method}, {job.setting}"
                        tick = RunProgress(doing, tick.done + 1, tick.runs, tick.share + job.weight / weight)
                        progress(tick)
                    done = show(experiment, plan, store)
                    record |= {"pictures": [path.name for path in done.written if path.suffix in (".png", ".svg")]}
                finally:
                    record |= {"ended": now()} if missing or "ended" not in record else {}
                    record |= {"done": sum(store.has(job.key) for job in jobs)}
                    record |= {"versions": store.versions(job.key for job in jobs)}
                    store.record(experiment.stem(plan), record)
                    store.seal()
                ran.append(Ran(done.name, done.tables, [*done.written, write_index(store)]))
    return ran


def _is_ready(
    experiment: Experiment, plan: RunPlan, complain: Callable[[str, SensormendError], None] | None
) -> bool:  # fmt: skip
    """Return whether an experiment has its data; complain where it has not."""
    try:
        experiment.prepare(plan)
    except SensormendError as error:
        if complain is None or isinstance(error, ConfigError):
            raise
        complain(experiment.name, error)
        return False
    return True


def show(experiment: Experiment, plan: RunPlan, store: ResultStore) -> Ran:
    """Write the tables and pictures of the runs of a plan that are in the store."""
    name = experiment.stem(plan)
    rows = store.rows(job.key for job in experiment.jobs(plan))
    if rows.empty:
        return Ran(name, [], [])
    tables = experiment.tables(rows, plan)
    return Ran(name, tables, write_tables(tables, store.folder, name) + experiment.charts(rows, plan, store.folder))


def write_index(store: ResultStore) -> Path:
    """Write `index.md`: the tables and pictures of every experiment in the folder, and how each was made."""
    lines = ["# sensormend bench", "", "All results are in results.parquet; run.json says how they were made."]
    for name, record in store.records().items():
        made = f"`{record['command']}`, sensormend {', '.join(record['versions'])}, {record['started']}"
        state = (
            "" if record["done"] == record["runs"] else f" **Unfinished: {record['done']} of {record['runs']} runs.**"
        )
        lines += ["", f"## {record['heading']}", "", f"Made by {made}.{state}", ""]
        lines += [f"![{record['caption']}]({file})\n" for file in record["pictures"] if file.endswith(".png")]
        if (tables := store.folder / f"{name}.md").is_file():
            lines.append(tables.read_text(encoding="utf-8"))
    with atomic_write(store.folder / "index.md") as file:
        file.write("\n".join([*lines, ""]))
    return store.folder / "index.md"


def _record(experiment: Experiment, plan: RunPlan, jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "command": shlex.join(["sensormend", "bench", experiment.name, *plan.words()]),
        "heading": experiment.heading(plan),
        "caption": f"{experiment.title}: {experiment.caption}",
        "trials": plan.repeats,
        "seeds": [seed for _, seed in plan.seeds],
        "runs": len(jobs),
        "started": now(),
        **surroundings(),
        "pictures": [],
    }


Results = Callable[[list[Job]], Iterator[tuple[Job, list[Row]]]]


@contextmanager
def _doing(processes: int, needed: int) -> Iterator[Results]:
    """Yield a function that performs jobs and yields each as it ends; in this process where `processes` is 0."""
    if not processes or not needed:
        yield lambda jobs: ((job, perform(job)) for job in jobs)
        return
    with workers(processes) as pool:
        yield lambda jobs: _pooled(pool, jobs)


def _pooled(pool: ProcessPoolExecutor, jobs: list[Job]) -> Iterator[tuple[Job, list[Row]]]:
    waiting = {pool.submit(perform, job): job for job in jobs}
    for ended in as_completed(waiting):
        yield waiting[ended], ended.result()
