"""`clean_networks` cleans many networks, each with its own model and output, in this process or on a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

from sensormend.archive.checkpoint import Checkpoint, changed_options, fingerprint_job, identify_source, list_files
from sensormend.cluster.splitting import NetworkPart, NetworkParts, split
from sensormend.cluster.workers import (
    Client,
    NetworkTask,
    Outcome,
    Progress,
    check_workers,
    clean_here,
    clean_on_workers,
    connected,
)
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.files import now, replacing, surroundings
from sensormend.io.metadata import write_csv, write_json
from sensormend.io.sources import SourcePaths
from sensormend.io.target import Target
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Places

__all__ = ["NetworksReport", "Outcome", "clean_networks"]

FILES = 20
"""The number of input files that run.json of each network lists."""

FILE_OPTIONS = ("maintenance", "coordinates")
"""The options that name files, which must be readable by the workers."""

StageProgress = Callable[..., None]
"""Called with the completed share of a stage, 0 to 1, and a text with the numbers of networks and workers."""


NETWORKS_HEADER = tuple(entry.name for entry in fields(Outcome))


@dataclass(frozen=True)
class NetworksReport:
    """The result of a run: the outcome of every network, in order of name, and the totals."""

    out: Path
    networks: tuple[Outcome, ...]
    readings: int
    rejected: int
    seconds: float

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The networks that could not be cleaned."""
        return tuple(network for network in self.networks if network.outcome != "done")


def clean_networks(
    readings: SourcePaths,
    out: str | PathLike[str],
    network: str | None = None,
    cluster: str | Client | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    stages: Callable[[str, int], StageProgress] = lambda name, readings: lambda done, beside="": None,
) -> NetworksReport:
    """Clean many networks, each with a model of its own, into `out/<network>`.

    Parameters
    ----------
    readings
        Files, a folder, a pattern, `-`, or a `postgresql://` address.
    out
        A folder that must not exist yet. With a cluster, its workers must have access to it under the same path.
    network
        The column with the network of a reading; the same as `options.networks`.
    cluster
        The address of a scheduler, `tcp://host:port`, or a `distributed.Client`; this process alone by default.
    options
        As for `clean_archive`, for every network.
    overwrite
        Replace an existing `out`.
    resume
        Continue an interrupted run.
    stages
        Called with the progress of the work.

    Returns
    -------
    NetworksReport
        The outcome of each network; one whose readings cannot be cleaned does not stop the others.
    """
    options = options or Options()
    options = replace(options, networks=network or options.networks)
    # A path without a name, like `.`, is refused before it is made absolute for the workers.
    target = Target.of(Target.of(out).path.absolute())
    if not options.networks:
        raise ConfigError("many networks need the name of the column that keeps them apart: networks")
    if target.ending:
        raise ConfigError(f"many networks go into a folder, each into its own; {Path(out).name} would be one file")
    # Unreadable notes and coordinates are refused once, before every network fails on them.
    if options.maintenance:
        Maintenance.read(options.maintenance)
    if options.coordinates:
        Places.read(options.coordinates)
    started = monotonic()
    surroundings()  # The commit is read once: it is that of the code that runs, not of a checkout that changed since.
    with nullcontext(None) if cluster is None else connected(cluster) as client:
        identity = identify_source(readings)
        files = list_files(identity)
        checkpoint = Checkpoint(target.work / "state")
        with target.claimed(files, overwrite=overwrite, resume=resume, replaces=overwrite or checkpoint.replaces):
            run = _NetworksRun(target, options, identity, stages)
            try:
                job = fingerprint_job(identity, options, checkpoint.job, target.work)
                run.staging.mkdir(exist_ok=True)
                if client is not None:
                    check_workers(client, run.staging)
                checkpoint.begin(job, replaces=overwrite)
                run.stage(readings)
            except SensormendError as error:
                # The same call would fail in the same way, or nothing was done yet: there is nothing to resume.
                if not resume and (isinstance(error, InputError | ConfigError) or checkpoint.job is None):
                    target.give_up()
                raise
            report = run.clean(client, Path(out), started)
            run.finish(report)
            target.publish()
    return report


class _NetworksRun:
    """One run over many networks, in its work folder."""

    def __init__(
        self,
        target: Target,
        options: Options,
        identity: list[list[str | int]],
        stages: Callable[[str, int], StageProgress],
    ) -> None:
        self.target, self.options, self.identity, self.stages = target, options, identity, stages
        self.staging = target.work / "staging"
        self.parts = NetworkParts((), 0, ())

    def stage(self, source: SourcePaths) -> None:
        """Split the readings by network, unless that is done."""
        self.parts = split(
            self.staging, source, self.options, self.stages("reading", 0),
            lambda readings: self.stages("sorting", readings),
        )  # fmt: skip

    def clean(self, client: Client | None, out: Path, started: float) -> NetworksReport:
        """Clean every network that is not done yet."""
        tasks, progress = [self._task(part) for part in self.parts.parts], self._progress()
        try:
            outcomes = clean_on_workers(client, tasks, progress) if client else clean_here(tasks, progress)
            networks = tuple(sorted(outcomes, key=attrgetter("network")))
        except SensormendError as error:
            raise SensormendError(f"{error}; what is done is kept, the same call with --resume continues") from None
        return NetworksReport(out, networks, self.parts.readings, self.parts.rejected, monotonic() - started)

    def finish(self, report: NetworksReport) -> None:
        """Write the files beside the networks, and remove the temporary ones."""
        work = self.target.work
        write_csv(work / "networks.csv", NETWORKS_HEADER, map(asdict, report.networks))
        rejected = self.staging / "rejected.csv"
        if rejected.exists():  # otherwise it was moved by a run that was killed right after
            shutil.move(rejected, work / "rejected.csv")
        write_json(work / "run.json", self._record(report))
        for network in report.failed:
            shutil.rmtree(work / f"{network.folder}.partial", ignore_errors=True)
        # The list of networks is removed first: without it, a staging that a kill leaves incomplete is made anew.
        (self.staging / "networks.json").unlink(missing_ok=True)
        for name in ("staging", "state"):
            shutil.rmtree(work / name, ignore_errors=True)

    def _task(self, part: NetworkPart) -> NetworkTask:
        options = self.parts.options(self.options, part)
        copies: dict[str, Any] = {
            name: self._copied(name, path) for name in FILE_OPTIONS if (path := getattr(options, name))
        }
        record = {
            "source": _shortened(self.identity),
            "options": changed_options(self.options),
            "network": part.network,
        }
        return NetworkTask(self.target.work, part, replace(options, **copies), record)

    def _copied(self, name: str, path: Path) -> Path:
        """Copy a file of the user to a place that every worker can read, and return its path."""
        copy = self.staging / f"{name}.csv"
        if not copy.exists():
            with replacing(copy) as new:
                shutil.copyfile(path, new)
        return copy

    def _progress(self) -> Progress:
        total, readings = len(self.parts.parts), self.parts.readings
        stage = self.stages("cleaning", readings)

        def report(done: int, read: float, workers: int | None) -> None:
            counts = f"{done:,} of {total:,} networks"
            counts += "" if workers is None else f", {workers:,} worker{'s' * (workers != 1)}"
            stage(read / max(readings, 1), counts)

        return report

    def _record(self, report: NetworksReport) -> dict[str, Any]:
        return {
            "command": "clean",
            "finished": now(),
            "seconds": round(report.seconds, 2),
            "source": self.identity,
            "options": changed_options(self.options),
            "networks": len(report.networks),
            "failed": len(report.failed),
            "sensors": sum(network.sensors for network in report.networks),
            "readings": report.readings,
            "rejected": report.rejected,
            "filled": sum(network.filled for network in report.networks),
            "faulty_sensor_days": sum(network.faulty_sensor_days for network in report.networks),
            "surroundings": surroundings(),
        }


def _shortened(identity: list[list[str | int]]) -> list[list[str | int]]:
    """Return a shortened list of input files for run.json of each network; the whole list is in that of the run."""
    if len(identity) <= FILES:
        return identity
    return [*identity[:FILES], [f"and {len(identity) - FILES:,} more: see run.json of all networks"]]
