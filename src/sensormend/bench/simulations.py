"""`Size`, `Corruption` and others run the paper's simulations: low-rank minibatches with corrupted fibers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from sensormend.bench.charts import Panel, convergence_chart, line_charts
from sensormend.bench.contestants import chosen, line_up, measure_contestant
from sensormend.bench.experiment import (
    COST,
    ERRORS,
    RE,
    RE_CODE,
    RE_TEXT,
    Experiment,
    Job,
    Row,
    RunPlan,
    about,
    detection,
    runs_note,
    runs_only,
)
from sensormend.bench.tables import CLAIMS, Bar, Frame, ResultTable, summarize
from sensormend.recovery import BoolArray, FloatArray
from sensormend.simulate.degrade import Degraded
from sensormend.simulate.network import paper_tensor
from sensormend.simulate.scores import DROPPED, paper_scores

__all__ = [
    "FULL_SIZE",
    "QUICK_SIZE",
    "Convergence",
    "Corruption",
    "Magnitude",
    "Observation",
    "Setting",
    "Size",
    "Sweep",
    "drawn",
    "joined",
    "relative_error",
]

MINIBATCHES, QUICK_MINIBATCHES = 20, 12
FULL_SIZE, QUICK_SIZE = (50, 3), (15, 2)
"""Size and rank of a minibatch, where they are not varied."""
THRESHOLD = 1.0
"""In its simulations the paper counts a fiber as found where any |E| in it exceeds 1."""


@dataclass(frozen=True)
class Setting:
    """One point of a sweep: minibatches of `size` cubed, and their corruption."""

    x: float
    size: int = 50
    rank: int = 3
    observed: float = 1.0
    share: float = 0.05
    magnitude: float = 2.0


def drawn(job: Job) -> list[Degraded]:
    """Return the minibatches of a run."""
    names = ("size", "rank", "minibatches", "observed", "share", "magnitude", "periods")
    options = {name: job.option(name) for name in names if job.option(name) is not None}
    return list(paper_tensor(**options, seed=job.seed))


def joined(parts: Iterable[Degraded]) -> Degraded:
    """Return consecutive minibatches as one."""
    arrays = [(part.readings, part.truth, part.kind) for part in parts]
    readings, truth, kind = (np.concatenate(of, axis=-1) for of in zip(*arrays, strict=True))
    return Degraded.by_day(readings, truth, kind)


class Sweep(Experiment):
    """A simulation at several values of `x`: one table for each metric, one chart for all."""

    axis: ClassVar[str]
    """Title of x in the tables and charts."""
    log_x: ClassVar[bool] = False
    around: ClassVar[str]
    """Note on the fixed parameters; `{cube}` and `{rank}` are filled in."""
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {}
    """Targets of NetworkModel, by column and x."""

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return the points."""
        raise NotImplementedError

    def minibatches(self, plan: RunPlan) -> int:
        """Return the number of minibatches."""
        return plan.minibatches or (QUICK_MINIBATCHES if plan.quick else MINIBATCHES)

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return every method at every point, trial by trial."""
        count = self.minibatches(plan)
        jobs = []
        for name in chosen(plan.methods, "simulated"):
            for at in self.settings(quick=plan.quick):
                contestant = line_up("simulated", at.rank, at.size)[name]
                options = {k: v for k, v in asdict(at).items() if k != "x"} | {"minibatches": count}
                options |= {"kind": contestant.kind}
                weight = contestant.cost * contestant.passes * at.size**3 * count
                jobs += self.trials(plan, name, f"{self.axis} {at.x:g}", at.x, options, weight)
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Clean the minibatches one after the other; batch methods get them joined."""
        parts = drawn(job)
        contestant = line_up("simulated", job.option("rank"), job.option("size"))[job.method]
        recovery, costs = measure_contestant(contestant, [part.readings for part in parts], job.seed)
        case = joined(parts)
        scores = paper_scores(recovery, case, dropped=DROPPED * job.option("size"))
        extra = {"minibatches": job.option("minibatches"), "passes": contestant.passes}
        return [{**scores, **costs, **extra}]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return one table per metric, methods against x."""
        size, rank = QUICK_SIZE if plan.quick else FULL_SIZE
        around = self.around.format(cube=f"{size} x {size} x {size}", rank=rank)
        runs = f"{runs_note(rows, plan, minibatches=self.minibatches(plan))} {around}"
        methods, rule = about(rows, "simulated"), detection(THRESHOLD)
        # The targets of NetworkModel were set for the sizes of a full run.
        bars = {} if plan.quick else self.bars
        names = {
            "re": ("relative error (RE)", f"{RE} {CLAIMS.get(self.name, '')}"),
            "f1": ("F1 at the paper's rule", rule),
            "f1_best": ("F1 at the best threshold (oracle)", rule),
            "seconds": ("seconds", COST),
            "missing": ("error at missing readings", ERRORS),
            "faulty": ("error in faulty fibers", ERRORS),
            "re_text": ("relative error as in the paper's text", RE_TEXT),
            "re_code": ("relative error as in the authors' code", RE_CODE),
            "peak_mb": ("peak memory, MB", COST),
        }
        return [
            summarize(
                rows, [column], at="x", axis=self.axis, title=f"{self.title}: {words}", note=f"{runs} {note} {methods}",
                bars={("NetworkModel", x): bar for x, bar in bars.get(column, {}).items()},
                aside=column not in ("re", "f1", "f1_best", "seconds"),
            )
            for column, (words, note) in names.items()
            if rows[column].notna().any()
        ]  # fmt: skip

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw RE, F1 and time against x, as the paper does."""
        panels = [Panel("re", "RE", top=1.0), Panel("f1", "F1 score", top=1.0), Panel("seconds", "time (s)", log=True)]
        title = self.heading(plan)
        return line_charts(
            rows, folder, self.stem(plan), panels=panels, x_label=self.axis, title=title, log_x=self.log_x
        )


SIZES, QUICK_SIZES = (10, 20, 30, 40, 50), (10, 20)


class Size(Sweep):
    """Minibatches of I cubed, rank a tenth of I."""

    name = "size"
    title = "Size of the tensor"
    axis = "I"
    around = "Minibatches of I x I x I, rank 0.1 I, 10 % of the fibers faulty, 90 % observed."
    caption = "Relative error, F1 score and computation time of every method against the size I of the tensor."

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return I = 10 to 50."""
        return [
            Setting(size, size, round(0.1 * size), observed=0.9, share=0.1)
            for size in (QUICK_SIZES if quick else SIZES)
        ]


class Corruption(Sweep):
    """None to half of the fibers faulty."""

    name = "corruption"
    title = "Share of faulty fibers"
    axis = "corruption ratio"
    around = "Minibatches of {cube}, rank {rank}, all observed, faults from U(-2, 2)."
    caption = "Relative error, F1 score and computation time of every method against the share of faulty fibers."
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {"re": {0.3: Bar(high=0.03)}, "f1": {0.3: Bar(low=0.99)}}

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return 0 to 0.5."""
        shares = (0.1, 0.4) if quick else (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
        return [Setting(share, *(QUICK_SIZE if quick else FULL_SIZE), share=share) for share in shares]


class Magnitude(Sweep):
    """Faults from U(-m, m): at the small end they are as small as the readings themselves, or smaller."""

    name = "magnitude"
    title = "Magnitude of the faults"
    axis = "magnitude"
    log_x = True
    around = "Minibatches of {cube}, rank {rank}, all observed, 5 % of the fibers faulty, from U(-m, m)."
    caption = "Relative error, F1 score and computation time of every method against the magnitude of the faults."

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return m = 0.02 to 10; the readings have a standard deviation of about 0.02 and the paper's m is 2."""
        sizes = (0.1, 2.0) if quick else (0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
        return [Setting(m, *(QUICK_SIZE if quick else FULL_SIZE), magnitude=m) for m in sizes]


class Observation(Sweep):
    """All to half of the readings observed."""

    name = "observation"
    title = "Share of observed readings"
    axis = "observation ratio"
    around = "Minibatches of {cube}, rank {rank}, 5 % of the fibers faulty, from U(-2, 2)."
    caption = "Relative error, F1 score and computation time of every method against the share of observed readings."
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {
        "re": {0.9: Bar(high=0.01), 0.5: Bar(high=0.03)},
        "f1": {0.9: Bar(low=0.99), 0.5: Bar(low=0.99)},
    }

    def settings(self, *, quick: bool) -> list[Setting]:
        """Return 1 down to 0.5."""
        shares = (0.9, 0.5) if quick else (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
        return [Setting(share, *(QUICK_SIZE if quick else FULL_SIZE), observed=share) for share in shares]


METHODS = "NetworkModel,OLRTR"
CONVERGENCE_MINIBATCHES, QUICK_CONVERGENCE_MINIBATCHES = 50, 20
SHOWN = (1, 2, 3, 5, 10, 20, 30, 50, 100)


def relative_error(expected: FloatArray, truth: FloatArray, faulty: BoolArray) -> float:
    """Return the relative error on truly sound fibers, Frobenius norm; `faulty` is (sensor, period)."""
    sound = np.broadcast_to(~faulty[:, None, :], truth.shape)
    norm = float(np.linalg.norm(truth[sound]))
    return float(np.linalg.norm((expected - truth)[sound])) / norm if norm else float("nan")


class Convergence(Experiment):
    """RE of each minibatch, for minibatches of 1, 10 and 50 periods."""

    name = "convergence"
    title = "Convergence"
    caption = "Relative error of each minibatch against its number, for minibatches of 1, 10 and 50 periods."

    def jobs(self, plan: RunPlan) -> list[Job]:
        """Return the chosen online methods, by default OLRTR and NetworkModel."""
        size, count = (20 if plan.quick else 50), self._minibatches(plan)
        contestants = line_up("simulated", rank=3)
        jobs = []
        for name in chosen(METHODS if plan.methods == "all" else plan.methods, "simulated"):
            contestant = contestants[name]
            if not contestant.online:
                continue
            for periods in (1, 10) if plan.quick else (1, 10, 50):
                options = {"size": size, "rank": 3, "periods": periods, "minibatches": count, "observed": 0.9,
                           "share": 0.05, "kind": contestant.kind}  # fmt: skip
                weight = contestant.cost * size**2 * periods * count
                jobs += self.trials(plan, name, f"I3 = {periods}", periods, options, weight)
        return jobs

    def run(self, job: Job) -> list[Row]:
        """Return a row for each minibatch."""
        parts, periods = drawn(job), job.option("periods")
        contestant = line_up("simulated", rank=job.option("rank"))[job.method]
        recovery, costs = measure_contestant(contestant, [part.readings for part in parts], job.seed, passes=1)
        rows: list[Row] = []
        for number, part in enumerate(parts):
            estimate = recovery.expected[..., number * periods : (number + 1) * periods]
            rows.append({"minibatch": number + 1, "re": relative_error(estimate, part.truth, part.faulty)})
        return [row | {"minibatches": len(parts), **costs} for row in rows]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        """Return a table of RE at some minibatches."""
        count = self._minibatches(plan)
        shown = rows[(rows["status"] == "diverged") | rows["minibatch"].isin(SHOWN)]
        size = 20 if plan.quick else 50
        note = (
            f"{runs_only(rows, plan)} {count} minibatches of {size} x {size} x I3, none left out; rank 3, 5 % of the "
            "fibers faulty, 90 % observed. RE: relative error of the low-rank part of that minibatch alone, the truly "
            "faulty fibers zeroed, Frobenius norm. No F1 here. "
            f"{CLAIMS[self.name]}"
        )
        return [
            summarize(shown, ["re"], axis="minibatch", at="minibatch", also={"setting": "minibatches"},
                      title="Convergence: RE of each minibatch", note=note)
        ]  # fmt: skip

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        """Draw RE against the number of the minibatch."""
        return convergence_chart(rows, folder, title=self.heading(plan))

    def _minibatches(self, plan: RunPlan) -> int:
        return plan.minibatches or (QUICK_CONVERGENCE_MINIBATCHES if plan.quick else CONVERGENCE_MINIBATCHES)
