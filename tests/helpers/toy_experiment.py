"""`ToyExperiment` takes no time; the tests of the bench's runner and store use it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from sensormend.bench.experiment import Experiment, Job, Row, RunPlan
from sensormend.bench.tables import Frame, ResultTable, summarize
from sensormend.errors import DivergenceError, SensormendError


class ToyExperiment(Experiment):
    """RE is x / 10 plus the trial; `wild` diverges at 2, `broken` cannot."""

    name = "toy"
    title = "A <toy> & more"
    caption = 'What a "toy" does'
    done: ClassVar[list[str]] = []

    def prepare(self, plan: RunPlan) -> None:
        if plan.option("data") == "absent":
            raise SensormendError("absent is not here")

    def jobs(self, plan: RunPlan) -> list[Job]:
        kinds = {"NetworkModel": "ours", "wild": "online", "broken": "batch"}
        names = ["NetworkModel", "wild"] if plan.methods == "all" else plan.methods.split(",")
        return [
            Job(self.name, name, f"x = {x}", x, trial, seed, (("kind", kinds[name]),), weight=x)
            for name in names
            for x in (1, 2, 3)
            for trial, seed in plan.seeds
        ]

    def run(self, job: Job) -> list[Row]:
        type(self).done.append(job.key)
        if job.method == "broken":
            raise SensormendError("broken cannot")
        if job.method == "wild" and job.x == 2:
            raise DivergenceError("off to infinity")
        return [{"re": job.x / 10 + job.trial, "seconds": 0.5}]

    def tables(self, rows: Frame, plan: RunPlan) -> list[ResultTable]:
        return [summarize(rows, ["re"], at="x", axis="x", title="Toy: RE", note="RE of <toys>.")]

    def charts(self, rows: Frame, plan: RunPlan, folder: Path) -> list[Path]:
        for ending in ("png", "svg"):
            (folder / f"toy.{ending}").write_bytes(b"picture")
        return [folder / "toy.png", folder / "toy.svg"]
