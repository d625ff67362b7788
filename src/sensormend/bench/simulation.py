"""The paper's simulations: low-rank minibatches with corrupted fibers, one thing varied at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from sensormend.bench.charts import Panel, line_charts
from sensormend.bench.contestants import chosen, line_up, mend
from sensormend.bench.experiment import Experiment, Job, Plan, Row
from sensormend.bench.gather import COST, ERRORS, RE, RE_CODE, RE_TEXT, about, detection, pivot, runs_told
from sensormend.bench.measure import measured
from sensormend.bench.paper import CLAIMS
from sensormend.bench.tables import Bar, Figures
from sensormend.simulate.faults import Degraded
from sensormend.simulate.network import paper_tensor
from sensormend.simulate.scores import DROPPED, paper_scores

__all__ = ["FULL_SIZE", "QUICK_SIZE", "Setting", "Sweep", "drawn", "joined"]

MINIBATCHES, QUICK_MINIBATCHES = 20, 12
FULL_SIZE, QUICK_SIZE = (50, 3), (15, 2)
"""Size and rank of a minibatch, where they are not what is varied."""
THRESHOLD = 1.0
"""In its simulations the paper counts a fiber as found where any |E| in it exceeds 1."""


@dataclass(frozen=True)
class Setting:
    """One point of a sweep: minibatches of `size` cubed, and what is done to them."""

    x: float
    size: int = 50
    rank: int = 3
    observed: float = 1.0
    share: float = 0.05
    magnitude: float = 2.0


def drawn(job: Job) -> list[Degraded]:
    """Return the minibatches of a run."""
    names = ("size", "rank", "minibatches", "observed", "share", "magnitude", "periods")
    told = {name: job.option(name) for name in names if job.option(name) is not None}
    return list(paper_tensor(**told, seed=job.seed))


def joined(parts: Iterable[Degraded]) -> Degraded:
    """Return consecutive minibatches as one."""
    arrays = [(part.readings, part.truth, part.kind) for part in parts]
    readings, truth, kind = (np.concatenate(of, axis=-1) for of in zip(*arrays, strict=True))
    return Degraded.by_day(readings, truth, kind)


class Sweep(Experiment):
    """A simulation at several values of `x`: one table for each figure, one chart for all."""

    axis: ClassVar[str]
    """What x is, in the tables and under the charts."""
    log_x: ClassVar[bool] = False
    around: ClassVar[str]
    """What stays as it is, in words; `{cube}` and `{rank}` stand for the size."""
    bars: ClassVar[Mapping[str, Mapping[float, Bar]]] = {}
    """What AutoOLRTR should reach, by column and x."""

    @abstractmethod
    def settings(self, *, quick: bool) -> list[Setting]:
        """Return the points."""

    def minibatches(self, plan: Plan) -> int:
        """Return how many there are."""
        return plan.minibatches or (QUICK_MINIBATCHES if plan.quick else MINIBATCHES)

    def jobs(self, plan: Plan) -> list[Job]:
        """Return every method at every point, trial by trial."""
        count = self.minibatches(plan)
        found = []
        for name in chosen(plan.methods, "simulated"):
            for at in self.settings(quick=plan.quick):
                contestant = line_up("simulated", at.rank, at.size)[name]
                options = {k: v for k, v in asdict(at).items() if k != "x"} | {"minibatches": count}
                options |= {"kind": contestant.kind}
                weight = contestant.cost * contestant.passes * at.size**3 * count
                found += [
                    Job(self.name, name, f"{self.axis} {at.x:g}", at.x, trial, seed,
                        tuple(sorted(options.items())), weight)
                    for trial, seed in plan.seeds
                ]  # fmt: skip
        return found

    def run(self, job: Job) -> list[Row]:
        """Mend the minibatches one after the other; batch methods see them joined."""
        parts = drawn(job)
        contestant = line_up("simulated", job.option("rank"), job.option("size"))[job.method]
        with measured() as cost:
            recovery = mend(contestant, [part.readings for part in parts], job.seed)
        whole = joined(parts)
        scores = paper_scores(recovery, whole, dropped=DROPPED * job.option("size"))
        told = {"minibatches": job.option("minibatches"), "passes": contestant.passes}
        return [{**scores, "seconds": cost.seconds, "peak_mb": cost.peak_mb, **told}]

    def tables(self, rows: Sequence[Row], plan: Plan) -> list[Figures]:
        """Lay out one table per figure, methods against x."""
        if not rows:
            return []
        size, rank = QUICK_SIZE if plan.quick else FULL_SIZE
        around = self.around.format(cube=f"{size} x {size} x {size}", rank=rank)
        told = f"{runs_told(rows, plan, minibatches=self.minibatches(plan))} {around}"
        last = about(rows, "simulated")
        rule = detection(THRESHOLD)
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
            pivot(
                rows, column, axis=self.axis, title=f"{self.title}: {words}", note=f"{told} {note} {last}",
                bars=self._bars(column, quick=plan.quick), aside=column not in ("re", "f1", "f1_best", "seconds"),
            )
            for column, (words, note) in names.items()
            if any(np.isfinite(row[column]) for row in rows)
        ]  # fmt: skip

    def charts(self, rows: Sequence[Row], plan: Plan, folder: Path) -> list[Path]:
        """Draw RE, F1 and time against x, as the paper does."""
        if not rows:
            return []
        panels = [Panel("re", "RE", top=1.0), Panel("f1", "F1 score", top=1.0), Panel("seconds", "time (s)", log=True)]
        title = self.heading(plan)
        return line_charts(
            rows, folder, self.stem(plan), panels=panels, x_label=self.axis, title=title, log_x=self.log_x
        )

    def _bars(self, column: str, *, quick: bool) -> dict[tuple[str, float], Bar]:
        """Return the bars by (method, x); they were set for the sizes of a full run."""
        if quick:
            return {}
        return {("AutoOLRTR", x): bar for x, bar in self.bars.get(column, {}).items()}
