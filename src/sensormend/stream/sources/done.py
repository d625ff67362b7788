"""Which files of a folder were read, on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sensormend.errors import StorageError
from sensormend.files import write_beside
from sensormend.stream.sources.looking import Seen

__all__ = ["Done"]


class Done:
    """The files that were read, numbered in that order; those that are gone are forgotten with a restart.

    Parameters
    ----------
    folder
        Where the list lies.
    root
        Where the files lie.
    count
        How many of them are done: what comes after them in the list is read again.
    """

    def __init__(self, folder: Path, root: Path, count: int) -> None:
        self._path = folder / "files.jsonl"
        self._begun = folder / "begun.json"
        self.count = count
        self._files: dict[str, Seen] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers: dict[str, int] = {}
            for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
                try:
                    number, *told = json.loads(line)
                    file = Seen(*told)
                except (ValueError, TypeError):
                    continue  # torn by a power cut: read again
                if number <= count and (root / file.name).exists():
                    self._files[file.name], numbers[file.name] = file, number
            with write_beside(self._path) as out:
                for name, file in self._files.items():
                    out.write(json.dumps([numbers[name], *file]) + "\n")
        except OSError as error:
            raise StorageError(f"{folder}: cannot be written: {error.strerror}") from None

    def __contains__(self, file: Seen) -> bool:
        return self._files.get(file.name) == file

    def add(self, files: Sequence[Seen]) -> None:
        """Remember files, on disk before anybody hears of them; where that fails nothing has happened."""
        size = self._path.stat().st_size
        try:
            with self._path.open("a", encoding="utf-8") as out:
                for number, file in enumerate(files, start=self.count + 1):
                    out.write(json.dumps([number, *file]) + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(self._path, size)
            raise
        self.count += len(files)
        self._files.update({file.name: file for file in files})

    def begin(self, key: str, files: Sequence[Seen]) -> None:
        """Remember files that are read in several parts, by a key that marks may have in place of them."""
        with write_beside(self._begun) as out:
            json.dump({"key": key, "files": files}, out)

    def begun(self, key: str) -> list[Seen]:
        """Return the files of a key, or none."""
        try:
            told = json.loads(self._begun.read_text(encoding="utf-8"))
            return [Seen(*file) for file in told["files"]] if told["key"] == key else []
        except (OSError, ValueError, TypeError, KeyError):
            return []
