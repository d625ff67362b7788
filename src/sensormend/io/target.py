"""OUT while it is written: beside its place, and there only when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError, SensormendError
from sensormend.io.export import export
from sensormend.io.folder import ending_of

__all__ = ["Target"]


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

    def claim(self, *, overwrite: bool, resume: bool) -> bool:
        """Make the work folder and say whether it is new; refuse to touch what is there unless told to."""
        if overwrite and resume:
            raise ConfigError("--resume goes on with what is there and --overwrite starts over: say one of them")
        if not overwrite:
            for there in {self.path, self.folder}:
                if there.exists():
                    raise ConfigError(f"{there} is there already; --overwrite replaces it")
        if self.work.exists() and not resume:
            if not overwrite:
                raise ConfigError(
                    f"{self.work} is left from an interrupted run; --resume goes on with it, --overwrite starts over"
                )
            shutil.rmtree(self.work)
        if resume and not self.work.exists():
            raise ConfigError(f"there is nothing to resume: {self.work} is not there")
        if resume:
            return False
        try:
            self.work.mkdir(parents=True)
        except OSError as error:
            raise SensormendError(f"cannot write to {self.work}: {error.strerror}") from error
        return True

    def export(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Make the one file that was asked for out of the rows, and drop those."""
        export(self.work, self.work / f"rows{self.ending}", attributes=attributes)
        shutil.rmtree(self.work / "data")

    def publish(self, *, overwrite: bool) -> None:
        """Put everything in its place."""
        old = self.path.with_name(f"{self.path.name}.old")
        replaced = [there for there in dict.fromkeys((self.path, self.folder)) if there.exists()] if overwrite else []
        shutil.rmtree(old, ignore_errors=True)
        for there in replaced:
            old.mkdir(exist_ok=True)
            os.replace(there, old / there.name)
        (self.work / ".lock").unlink(missing_ok=True)
        if self.ending:
            os.replace(self.work / f"rows{self.ending}", self.path)
        os.replace(self.work, self.folder)
        shutil.rmtree(old, ignore_errors=True)
