"""OUT while it is written: beside its place, and there only when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sensormend.errors import ConfigError, StorageError
from sensormend.files import locked
from sensormend.io.export import export, export_wide
from sensormend.io.folder import ending_of

__all__ = ["Target"]

LOCK = ".lock"


@dataclass(frozen=True)
class Target:
    """Where the result goes.

    Attributes
    ----------
    path
        The OUT: a folder, or a file by its ending.
    ending
        The ending of a single file; empty for a folder.
    """

    path: Path
    ending: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Target:
        """Look at a path."""
        path = Path(path)
        if not path.name or path.name in (".", ".."):
            raise ConfigError(f"OUT is a folder or a file that is not there yet, not {str(path)!r}")
        return cls(path, ending_of(path) or "")

    @property
    def work(self) -> Path:
        """The folder in which everything is written."""
        return self.path.with_name(f"{self.path.name}.partial")

    @property
    def folder(self) -> Path:
        """Where the work folder goes at the end: OUT itself, or what stands beside a single file."""
        return self.path.with_name(f"{self.path.name}.meta") if self.ending else self.path

    @contextmanager
    def claimed(self, sources: Iterable[Path], *, overwrite: bool, resume: bool, replaces: bool) -> Iterator[None]:
        """Have the work folder for this process alone, empty or as it was left; refuse to touch what is not ours.

        Parameters
        ----------
        sources
            The files of the readings, which nothing may replace.
        overwrite, resume
            What the user allows.
        replaces
            Whether an OUT that is there may go: now, or when the run that is resumed began.
        """
        self._refuse_what_is_there(overwrite=overwrite, resume=resume, replaces=replaces)
        self._refuse_to_replace(sources)
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write to {self.work}: {error.strerror}") from error
        with locked(self.work / LOCK, f"another run is writing {self.path}: wait for it"):
            if not resume:
                self._empty()
            yield

    def _refuse_what_is_there(self, *, overwrite: bool, resume: bool, replaces: bool) -> None:
        if overwrite and resume:
            raise ConfigError("--resume goes on with what is there and --overwrite starts over: say one of them")
        for there in dict.fromkeys((self.path, self.folder)):
            if os.path.lexists(there) and not replaces:
                raise ConfigError(f"{there} is there already; --overwrite replaces it")
            if there.is_dir() and not (there / "run.json").exists() and any(there.iterdir()):
                raise ConfigError(f"{there} is a folder that sensormend did not write; --overwrite does not replace it")
        if resume and not self.work.exists():
            raise ConfigError(f"there is nothing to resume: {self.work} is not there")
        if self.work.exists() and not resume and not overwrite:
            raise ConfigError(
                f"{self.work} is left from an interrupted run; --resume goes on with it, --overwrite starts over"
            )

    def _refuse_to_replace(self, sources: Iterable[Path]) -> None:
        ours = {there.resolve() for there in (self.path, self.folder, self.work)}
        for file in sources:
            place = file.resolve()
            if not ours.isdisjoint((place, *place.parents)):
                raise ConfigError(f"{file} is among the readings and would be replaced; choose another OUT")

    def _empty(self) -> None:
        for entry in self.work.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()

    def give_up(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.work, ignore_errors=True)

    def export(self, attributes: Mapping[str, Mapping[str, Any]], *, wide: bool = False) -> None:
        """Make the one file that was asked for out of the rows; these go, but stay beside a wide one without flags."""
        path = self.work / f"rows{self.ending}"
        if wide:
            export_wide(self.work, path)
        else:
            export(self.work, path, attributes=attributes)
            shutil.rmtree(self.work / "data")

    def publish(self) -> None:
        """Put everything in its place; what was there goes when the new is there."""
        replaced = [there for there in dict.fromkeys((self.path, self.folder)) if os.path.lexists(there)]
        aside = Path(mkdtemp(prefix=f".{self.path.name[:100]}-", dir=self.path.parent)) if replaced else None
        for there in replaced:
            assert aside is not None
            os.replace(there, aside / there.name)
        (self.work / LOCK).unlink(missing_ok=True)
        if self.ending:
            os.replace(self.work / f"rows{self.ending}", self.path)
        os.replace(self.work, self.folder)
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
