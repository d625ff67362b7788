"""`Checkpoint` keeps the state of a run: one that was interrupted goes on with the same readings and options."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, StateError
from sensormend.files import read_state, sync, write_state
from sensormend.io import postgres
from sensormend.io.metadata import read_json, write_json
from sensormend.io.options import Options
from sensormend.io.sources import SourcePaths, find, is_stream
from sensormend.model.auto import AutoOLRTR
from sensormend.pipeline.mender import Mender
from sensormend.pipeline.tally import Tally

__all__ = ["Checkpoint", "changed_options", "fetch", "identity_of", "job_of", "put"]


def job_of(identity: list[list[str | int]], options: Options, before: str | None, work: Path) -> str:
    """Return what a run is about as a fingerprint; refuse to go on with another one.

    Parameters
    ----------
    identity
        Of the readings.
    options
        What the user says; what is in the files that they name counts too.
    before
        The fingerprint of the interrupted run; None where there is none.
    work
        Where that run was, for a message.
    """
    contents = [path.read_bytes() for path in (options.maintenance, options.coordinates) if path and path.is_file()]
    job = hashlib.sha256(
        json.dumps(
            [identity, changed_options(options), [hashlib.sha256(part).hexdigest() for part in contents]]
        ).encode()
    ).hexdigest()
    if (before or job) != job:
        raise ConfigError(f"the interrupted run in {work} had other readings or options; --overwrite starts over")
    return job


def identity_of(source: SourcePaths) -> list[list[str | int]]:
    """Return what was given, and how large and how old each file is: another archive is another job."""
    if not isinstance(source, str | os.PathLike):
        return [entry for part in source for entry in identity_of(part)]
    given = os.fspath(source)
    if given.startswith(postgres.SCHEMES):
        return [[postgres.shown(given)]]
    if given == "-" or is_stream(Path(given)):
        return [[given]]
    files = [(file.shown, file.path.stat()) for file in find(given, Path())]
    return [[shown, stat.st_size, stat.st_mtime_ns] for shown, stat in files]


def changed_options(options: Options) -> dict[str, Any]:
    """Return the options that are not the defaults, as JSON has them."""
    plain = asdict(Options())
    return {name: value if isinstance(value, int | float | str | list | tuple | dict) else str(value)
            for name, value in asdict(options).items() if value != plain[name]}  # fmt: skip


STATE_VERSION = 3
"""1 has no episodes, 2 does not know where they were first seen."""


class Checkpoint:
    """The `state` folder of an OUT.

    `checkpoint.json` names the folder that holds the newest whole state; it is replaced when that folder is complete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "checkpoint.json"

    @property
    def _record(self) -> dict[str, Any]:
        return read_json(self._file)

    @property
    def job(self) -> str | None:
        """What the run is about, as a fingerprint; None before the first one."""
        return self._record.get("job")

    @property
    def replaces(self) -> bool:
        """Whether the run may replace an OUT that is there."""
        return bool(self._record.get("replaces"))

    def begin(self, job: str, *, replaces: bool) -> None:
        """Say what the run is about."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.job is None:
            write_json(self._file, {"job": job, "replaces": replaces})

    @property
    def place(self) -> Path | None:
        """The folder of the newest whole state; None where there is none."""
        name = self._record.get("place")
        return None if name is None else self.folder / name

    def save(self, mender: Mender, tally: Tally) -> None:
        """Keep the state after the mender's last period."""
        with self.changing(f"period-{mender.period}") as place:
            put(place, mender, tally)

    @contextmanager
    def changing(self, name: str) -> Iterator[Path]:
        """Give a new folder for a state; it is the newest one when all that belongs to it was written."""
        before = self._record
        if before.get("place") == name:
            name = f"{name}-again"  # the one that is there is needed until the other is whole
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        try:
            place.mkdir(parents=True)
            yield place
            sync(place)
            write_json(self._file, {**before, "place": name})
        except BaseException:
            # On a disk that is full, half a state would only take space.
            if self._record.get("place") != name:
                shutil.rmtree(place, ignore_errors=True)
            raise
        sync(self.folder)
        # The one before, and what was left of those in which somebody was killed.
        for other in self.folder.glob(f"{name.partition('-')[0]}-*"):
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)

    def restore(self, mender: Mender, tally: Tally) -> bool:
        """Go on from the last state; False where there is none."""
        if self.place is None:
            return False
        fetch(self.place, mender, tally)
        return True

    def leave(self) -> None:
        """Leave the model and the mender for a live feed that goes on from here, and nothing else."""
        place = self.place
        assert place is not None
        for name in ("model.npz", "mender.npz"):
            os.replace(place / name, self.folder / name)
        write_json(self._file, {"finished": True})
        shutil.rmtree(place)


def put(place: Path, mender: Mender, tally: Tally) -> None:
    """Write model, mender and tally into a folder."""
    mender.model.save(place / "model.npz")
    mender.save(place / "mender.npz")
    settings, arrays = tally.state()
    write_state(place / "tally.npz", method="Tally", version=STATE_VERSION, settings=settings, arrays=arrays)


def fetch(place: Path, mender: Mender, tally: Tally) -> None:
    """Read model, mender and tally from a folder."""
    try:
        tally.restore(*read_state(place / "tally.npz", method="Tally", version=STATE_VERSION))
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{place} is broken; --overwrite starts over") from error
    mender.model = AutoOLRTR.load(place / "model.npz")
    mender.restore(place / "mender.npz")
