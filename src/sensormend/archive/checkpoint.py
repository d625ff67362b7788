"""`Checkpoint` stores the state of a run, so that it can be resumed with the same readings and options."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, StateError, shown
from sensormend.files import StateFiles, is_stream, read_state, sync, write_state
from sensormend.io import postgres
from sensormend.io.metadata import read_json, write_json
from sensormend.io.sources import SourcePaths, find
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.options import Options
from sensormend.pipeline.tally import Tally

__all__ = ["Checkpoint", "changed_options", "fetch", "fingerprint_job", "identify_source", "list_files", "put"]


def fingerprint_job(identity: list[list[str | int]], options: Options, before: str | None, work: Path) -> str:
    """Return the fingerprint of a run: of its readings, its options, and the contents of the files that these name.

    If the interrupted run in the folder `work` had another fingerprint (`before`), it is refused to resume it.
    """
    contents = [path.read_bytes() for path in (options.maintenance, options.coordinates) if path and path.is_file()]
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    job = hashlib.sha256(json.dumps([identity, changed_options(options), digests]).encode()).hexdigest()
    if (before or job) != job:
        raise ConfigError(f"the interrupted run in {work} had other readings or options; --overwrite starts over")
    return job


def identify_source(source: SourcePaths) -> list[list[str | int]]:
    """Return the source as given, with the size and the modification time of each file."""
    if not isinstance(source, str | os.PathLike):
        return [entry for part in source for entry in identify_source(part)]
    address = os.fspath(source)
    if address.startswith(postgres.SCHEMES):
        return [[shown(address)]]
    if address == "-" or is_stream(Path(address)):
        return [[address]]
    files = [(file.shown, file.path.stat()) for file in find(address, Path())]
    return [[shown, stat.st_size, stat.st_mtime_ns] for shown, stat in files]


def list_files(identity: list[list[str | int]]) -> list[Path]:
    """Return the files of an identity; a database and a stream are none."""
    return [Path(str(entry[0])) for entry in identity if len(entry) > 1]


def changed_options(options: Options) -> dict[str, Any]:
    """Return the options that differ from the defaults, as JSON values."""
    # Not `asdict`, which copies every value.
    defaults = vars(Options())
    return {name: value if isinstance(value, int | float | str | list | tuple | dict) else str(value)
            for name, value in vars(options).items() if value != defaults[name]}  # fmt: skip


STATE_VERSION = 5


class Checkpoint:
    """The `state` folder of an output folder.

    `checkpoint.json` names the folder of the newest complete state; it is replaced when a newer folder is complete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "checkpoint.json"

    @property
    def _record(self) -> dict[str, Any]:
        return read_json(self._file)

    @property
    def job(self) -> str | None:
        """The fingerprint of the run; None before `begin`."""
        return self._record.get("job")

    @property
    def replaces(self) -> bool:
        """Whether the run may replace an existing output folder."""
        return bool(self._record.get("replaces"))

    def begin(self, job: str, *, replaces: bool) -> None:
        """Record the fingerprint of the run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.job is None:
            write_json(self._file, {"job": job, "replaces": replaces})

    @property
    def place(self) -> Path | None:
        """The folder of the newest complete state; None where there is none."""
        name = self._record.get("place")
        return None if name is None else self.folder / name

    def save(self, cleaner: Cleaner, tally: Tally) -> None:
        """Save the state after the cleaner's last period."""
        with self.changing(f"period-{cleaner.period}") as place:
            put(place, cleaner, tally)

    @contextmanager
    def changing(self, name: str) -> Iterator[Path]:
        """Yield a new folder for a state, which becomes the newest one when the block ends without an error."""
        before = self._record
        if before.get("place") == name:
            name = f"{name}-again"  # the existing one is needed until the new one is complete
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        try:
            place.mkdir(parents=True)
            yield place
            sync(place)
            write_json(self._file, {**before, "place": name})
        except BaseException:
            # On a full disk an incomplete state only takes space.
            if self._record.get("place") != name:
                shutil.rmtree(place, ignore_errors=True)
            raise
        sync(self.folder)
        # The state before, and incomplete ones of runs that were killed.
        for earlier in self.folder.glob(f"{name.partition('-')[0]}-*"):
            if earlier.name != name:
                shutil.rmtree(earlier, ignore_errors=True)

    def restore(self, cleaner: Cleaner, tally: Tally) -> bool:
        """Restore the last state; False where there is none."""
        if self.place is None:
            return False
        fetch(self.place, cleaner, tally)
        return True

    def keep(self, cleaner: Cleaner) -> None:
        """Write the model and the cleaner, from which `watch` can continue."""
        cleaner.model.save(self.folder / "model.npz")
        cleaner.save(self.folder / "cleaner.npz")

    def leave(self) -> None:
        """Remove what only a run that is resumed needs."""
        place = self.place
        write_json(self._file, {"finished": True})
        if place is not None:
            shutil.rmtree(place)


def put(place: Path | StateFiles, cleaner: Cleaner, tally: Tally) -> None:
    """Write model, cleaner and tally."""
    cleaner.model.save(place / "model.npz")
    cleaner.save(place / "cleaner.npz")
    settings, arrays = tally.state()
    write_state(place / "tally.npz", method="Tally", version=STATE_VERSION, settings=settings, arrays=arrays)


def fetch(place: Path | StateFiles, cleaner: Cleaner, tally: Tally) -> None:
    """Read model, cleaner and tally."""
    try:
        tally.restore(*read_state(place / "tally.npz", method="Tally", version=STATE_VERSION))
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{place} is broken; --overwrite starts over") from error
    cleaner.load_model(place / "model.npz")
    cleaner.restore(place / "cleaner.npz")
