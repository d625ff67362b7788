"""How fast the online methods learn, with small minibatches and with large ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sensormend.bench.charts import convergence_chart
from sensormend.bench.contestants import chosen, line_up, mend
from sensormend.bench.experiment import Experiment, Job, Plan, Row
from sensormend.bench.gather import pivot, runs_only
from sensormend.bench.measure import measured
from sensormend.bench.paper import CLAIMS
from sensormend.bench.simulation import drawn
from sensormend.bench.tables import Figures
from sensormend.recovery import BoolArray, FloatArray

__all__ = ["Convergence", "relative_error"]

METHODS = "AutoOLRTR,OLRTR"
MINIBATCHES, QUICK_MINIBATCHES = 50, 20
SHOWN = (1, 2, 3, 5, 10, 20, 30, 50, 100)


def relative_error(low_rank: FloatArray, truth: FloatArray, faulty: BoolArray) -> float:
    """Return the relative error on truly sound fibers, Frobenius norm; `faulty` is (sensor, period)."""
    sound = np.broadcast_to(~faulty[:, None, :], truth.shape)
    norm = float(np.linalg.norm(truth[sound]))
    return float(np.linalg.norm((low_rank - truth)[sound])) / norm if norm else float("nan")


class Convergence(Experiment):
    """RE of each minibatch, for minibatches of 1, 10 and 50 periods."""

    name = "convergence"
    title = "Convergence"
    caption = "Relative error of each minibatch against its number, for minibatches of 1, 10 and 50 periods."

    def jobs(self, plan: Plan) -> list[Job]:
        """Return the online methods that were asked for, OLRTR and AutoOLRTR if none."""
        size, count = (20 if plan.quick else 50), self._minibatches(plan)
        contestants = line_up("simulated", rank=3)
        found = []
        for name in chosen(METHODS if plan.methods == "all" else plan.methods, "simulated"):
            contestant = contestants[name]
            if not contestant.online:
                continue
            for periods in (1, 10) if plan.quick else (1, 10, 50):
                options = {"size": size, "rank": 3, "periods": periods, "minibatches": count, "observed": 0.9,
                           "share": 0.05, "kind": contestant.kind}  # fmt: skip
                weight = contestant.cost * size**2 * periods * count
                found += [
                    Job(
                        self.name, name, f"I3 = {periods}", periods, trial, seed, tuple(sorted(options.items())), weight
                    )
                    for trial, seed in plan.seeds
                ]
        return found

    def run(self, job: Job) -> list[Row]:
        """Return a row for each minibatch."""
        parts, periods = drawn(job), job.option("periods")
        contestant = line_up("simulated", rank=job.option("rank"))[job.method]
        with measured() as cost:
            recovery = mend(contestant, [part.readings for part in parts], job.seed, passes=1)
        rows: list[Row] = []
        for number, part in enumerate(parts):
            estimate = recovery.low_rank[..., number * periods : (number + 1) * periods]
            rows.append({"minibatch": number + 1, "re": relative_error(estimate, part.truth, part.faulty)})
        return [row | {"minibatches": len(parts), "seconds": cost.seconds, "peak_mb": cost.peak_mb} for row in rows]

    def tables(self, rows: Sequence[Row], plan: Plan) -> list[Figures]:
        """Lay out RE at some minibatches."""
        count = self._minibatches(plan)
        shown = [row for row in rows if row["status"] == "diverged" or row["minibatch"] in SHOWN]
        size = 20 if plan.quick else 50
        note = (
            f"{runs_only(rows, plan)} {count} minibatches of {size} x {size} x I3, none left out; rank 3, 5 % of the "
            "fibers faulty, 90 % observed. RE: relative error of the low-rank part of that minibatch alone, the truly "
            "faulty fibers zeroed, Frobenius norm. No F1 here. "
            f"{CLAIMS[self.name]}"
        )
        if not shown:
            return []
        return [
            pivot(shown, "re", axis="minibatch", at="minibatch", also={"setting": "minibatches"},
                  title="Convergence: RE of each minibatch", note=note)
        ]  # fmt: skip

    def charts(self, rows: Sequence[Row], plan: Plan, folder: Path) -> list[Path]:
        """Draw RE against the number of the minibatch."""
        return convergence_chart(rows, folder, title=self.heading(plan)) if rows else []

    def _minibatches(self, plan: Plan) -> int:
        return plan.minibatches or (QUICK_MINIBATCHES if plan.quick else MINIBATCHES)
