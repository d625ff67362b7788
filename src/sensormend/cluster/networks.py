"""`clean_networks` cleans many networks, each with its own model and output, in this process or on a Dask cluster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import sensormend
from sensormend.archive.checkpoint import Checkpoint, changed_options, fingerprint_job, identify_source, list_files
from sensormend.archive.cleaning import clean_archive
from sensormend.cluster.connection import Client, check_workers, connected
from sensormend.cluster.splitting import NetworkPart, Stages, split
from sensormend.errors import ConfigError, DivergenceError, InputError, SensormendError, one_line
from sensormend.files import now, replacing, surroundings
from sensormend.io.metadata import read_faults, read_json, write_csv, write_json
from sensormend.io.sources import SourcePaths
from sensormend.io.target import Target
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Places
from sensormend.pipeline.times import duration

__all__ = ["NetworkTask", "NetworksReport", "Outcome", "clean_network", "clean_networks"]

FILES = 20
"""The number of input files that run.json of each network lists; that of the run lists all."""

NOT_WHOLE_PERIODS = ("spike", "silent")
"""Reasons of faults that are not counted in sensor-days."""


@dataclass(frozen=True)
class Outcome:
    """A line of networks.csv: `outcome` is `done`, or the reason why not in one line."""

    network: str
    folder: str
    sensors: int = 0
    periods: int = 0
    faulty_sensor_days: int = 0
    filled: int = 0
    seconds: float = 0.0
    outcome: str = "done"


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


@dataclass(frozen=True)
class NetworkTask:
    """The task to clean one network, with the options for it and entries for its run.json.

    The readings are in the folder `staging`, which has the same absolute path on every worker and belongs to one run
    with its options; the networks are written beside it. `version` is the sensormend of the run.
    """

    staging: Path
    part: NetworkPart
    options: Options
    record: Mapping[str, Any]
    version: str = sensormend.__version__

    @property
    def source(self) -> Path:
        """The file of its readings."""
        return self.staging / "parts" / f"{self.part.folder}.parquet"

    def outcome(self, **counts: Any) -> Outcome:
        """Return the outcome of this network."""
        return Outcome(self.part.network, self.part.folder, **counts)


def clean_networks(
    readings: SourcePaths,
    out: str | PathLike[str],
    network: str | None = None,
    cluster: str | Client | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    stages: Stages = lambda name, readings: lambda done, beside="": None,
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
        Continue an interrupted run with the networks that are not done.
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
    with nullcontext() if cluster is None else connected(cluster) as client:
        identity = identify_source(readings)
        checkpoint = Checkpoint(target.work / "state")
        may_replace = overwrite or checkpoint.replaces
        with target.claimed(list_files(identity), overwrite=overwrite, resume=resume, replaces=may_replace):
            try:
                job = fingerprint_job(identity, options, checkpoint.job, target.work)
                staging = target.work / f"staging-{job[:16]}"
                staging.mkdir(exist_ok=True)
                if client is not None:
                    check_workers(client, staging)
                checkpoint.begin(job, replaces=overwrite)
                parts = split(staging, readings, options, stages)
            except SensormendError as error:
                # The same call would fail in the same way, or nothing was done yet: there is nothing to resume.
                if not resume and (isinstance(error, InputError | ConfigError) or checkpoint.job is None):
                    target.give_up()
                raise
            shared = _share_files(options, staging)
            record = {"source": identity[:FILES], "options": changed_options(options)}
            tasks = [
                NetworkTask(staging, part, parts.options(shared, part), {**record, "network": part.network})
                for part in parts.parts
            ]
            stage = stages("cleaning", parts.readings)

            def progress(done: int, read: float) -> None:
                stage(read / max(parts.readings, 1), f"{done:,} of {len(tasks):,} networks")

            try:
                outcomes = _clean_here(tasks, progress) if client is None else _clean_on(client, tasks, progress)
                networks = tuple(sorted(outcomes, key=attrgetter("network")))
            except SensormendError as error:
                raise SensormendError(f"{error}; what is done is kept, the same call with --resume continues") from None
            report = NetworksReport(Path(out), networks, parts.readings, parts.rejected, monotonic() - started)
            write_csv(target.work / "networks.csv", [entry.name for entry in fields(Outcome)], map(asdict, networks))
            write_json(target.work / "run.json", _describe(report, identity, options))
            # The list of networks is removed first: without it, a staging that a kill leaves incomplete is made anew.
            (staging / "networks.json").unlink(missing_ok=True)
            shutil.rmtree(staging, ignore_errors=True)
            shutil.rmtree(checkpoint.folder, ignore_errors=True)
            target.publish()
    return report


def _clean_here(tasks: Sequence[NetworkTask], progress: Callable[[int, float], None]) -> Iterator[Outcome]:
    """Clean networks one after the other in this process."""
    read = 0
    for done, task in enumerate(tasks):

        def report(share: float, done: int = done, before: int = read, count: int = task.part.readings) -> None:
            progress(done, before + share * count)

        yield clean_network(task, report)
        read += task.part.readings
    progress(len(tasks), read)


def _clean_on(
    client: Client, tasks: Sequence[NetworkTask], progress: Callable[[int, float], None]
) -> Iterator[Outcome]:
    """Clean networks on the workers; Dask gives those of a worker that died to another one."""
    import distributed

    completed: Any = distributed.as_completed
    # The largest first, so that the run does not end with one large network on a single worker.
    futures = {client.submit(clean_network, task, priority=task.part.readings, pure=False): task for task in tasks}
    read = 0
    progress(0, 0)
    try:
        for done, future in enumerate(completed(list(futures), loop=client.loop), 1):
            task = futures[future]
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                yield task.outcome(outcome=f"its worker died {error.allowed_failures + 1} times; too little memory?")
            except (distributed.CancelledError, OSError):
                raise SensormendError(f"the scheduler at {client.scheduler.address} is lost") from None
            except SensormendError:
                raise
            except Exception as error:
                raise _stopped(task, error) from None
            read += task.part.readings
            progress(done, read)
    finally:
        if client.status == "running":
            client.cancel(list(futures))


def clean_network(task: NetworkTask, progress: Callable[[float], None] = lambda done: None) -> Outcome:
    """Clean a network, unless that is done.

    Errors are raised where the readings are not the cause: the disk, the worker.
    """
    out = task.staging.with_name(task.part.folder)
    try:
        if not (out / "run.json").exists():
            _write(task, out, progress)
    except (InputError, ConfigError, DivergenceError) as error:
        return task.outcome(outcome=one_line(error))
    except (SensormendError, OSError, MemoryError, ImportError) as error:
        raise _stopped(task, error) from None
    except Exception as error:
        return task.outcome(outcome=f"{type(error).__name__}: {one_line(error)}")
    run = read_json(out / "run.json")
    period = duration(run["grid"]["period"])
    faulty = {
        (fault.sensor, fault.variable, day)
        for fault in read_faults(out / "faults.csv")
        if fault.reason not in NOT_WHOLE_PERIODS and not fault.doubtful
        for day in range(fault.start // period, -(-fault.end // period))
    }
    counts = {name: run[name] for name in ("sensors", "periods", "filled", "seconds")}
    return task.outcome(faulty_sensor_days=len(faulty), **counts)


def _stopped(task: NetworkTask, error: BaseException) -> SensormendError:
    return SensormendError(f"network {task.part.network!r}: {one_line(error)}")


def _write(task: NetworkTask, out: Path, progress: Callable[[float], None]) -> None:
    """Write the output of a network in a folder of this attempt, and move it to its place when it is complete.

    Dask may have given up a worker that still runs, or the run may have been stopped: the first to end counts. Where
    the readings are gone, the run has ended, or was started anew with other options.
    """
    if task.version != sensormend.__version__:
        raise SensormendError(f"a worker with sensormend {sensormend.__version__} has joined, and {task.version} here")

    def report(done: float) -> None:
        if not task.source.exists():
            raise SensormendError(
                f"{task.source} is not visible on every worker: OUT has to lie on a shared file system"
            )
        progress(done)

    report(0.0)
    with TemporaryDirectory(dir=task.staging, ignore_cleanup_errors=True) as folder:
        written = Path(folder, task.part.folder)

        def stages(name: str, readings: int) -> Callable[[float], None]:
            return report if name == "cleaning" else lambda done: None

        clean_archive(task.source, written, task.options, stages=stages, part=task.record)
        report(1.0)
        try:
            os.rename(written, out)
        except OSError:
            if not (out / "run.json").exists():
                raise


def _share_files(options: Options, folder: Path) -> Options:
    """Copy the files that options name to a folder that every worker can read."""
    copies: dict[str, Any] = {}
    for name in ("maintenance", "coordinates"):
        if path := getattr(options, name):
            copies[name] = folder / f"{name}.csv"
            with replacing(copies[name]) as new:
                shutil.copyfile(path, new)
    return replace(options, **copies)


def _describe(report: NetworksReport, identity: list[list[str | int]], options: Options) -> dict[str, Any]:
    """Return the content of run.json."""
    totals = ("sensors", "filled", "faulty_sensor_days")
    return {
        "command": "clean",
        "finished": now(),
        "seconds": round(report.seconds, 2),
        "source": identity,
        "options": changed_options(options),
        "networks": len(report.networks),
        "failed": len(report.failed),
        "readings": report.readings,
        "rejected": report.rejected,
        **{name: sum(getattr(network, name) for network in report.networks) for name in totals},
        "surroundings": surroundings(),
    }
