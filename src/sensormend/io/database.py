"""The embedded engine and its one file: asked in SQL, and one line says so where there is no room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from sensormend.errors import StorageError
from sensormend.io.tables import Engine, reason_of

__all__ = ["Database", "Progress", "nobody"]

Progress = Callable[[float], None]
"""Is told how much is done, 0 to 1; may be called from another thread."""


class Database:
    """One file of the embedded engine, and the folder for what does not fit into memory.

    Parameters
    ----------
    folder
        Where the file lies, with all that has to be written down on the way.
    memory
        What the engine may use; what is larger goes to the folder.

    Attributes
    ----------
    engine
        The connection, while there is one.
    """

    def __init__(self, folder: Path, memory: str) -> None:
        self.folder = folder
        self.engine: Engine = None
        self._memory = memory

    @property
    def path(self) -> Path:
        """Return the file."""
        return self.folder / "staging.duckdb"

    def connect(self) -> None:
        """Open the file, or make it."""
        config: dict[str, Any] = {
            "memory_limit": self._memory,
            "temp_directory": str(self.folder / "tmp"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        try:
            self.engine = duckdb.connect(str(self.path), config=config)
        except (OSError, duckdb.Error) as error:
            raise StorageError(f"{self.folder}: cannot stage readings here: {reason_of(error)}") from None
        self.ask("SET TimeZone = 'UTC'")
        self.ask("SET preserve_insertion_order = true")
        self.ask("SET enable_progress_bar = true; SET enable_progress_bar_print = false")

    def close(self) -> None:
        """Let go of the file."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def ask(self, sql: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of an answer."""
        # An answer that is not fetched to its end keeps the connection busy.
        try:
            rows: list[tuple[Any, ...]] = self.engine.execute(sql, given).fetchall()
        except duckdb.Error as error:
            # A file of ours in it: the disk is full. Else it is rather the fault of what is read, and said there.
            ours = any(str(path) in str(error) for path in (self.path, self.folder / "tmp"))
            lacking = isinstance(error, (duckdb.OutOfMemoryException, duckdb.IOException))
            if not ours and (not lacking or "read_csv" in sql or "read_parquet" in sql):
                raise
            raise StorageError(f"{self.folder}: no room to stage readings: {reason_of(error)}") from None
        return rows

    def columns(self, sql: str) -> dict[str, Any]:
        """Return the columns of an answer, as arrays."""
        try:
            columns: dict[str, Any] = self.engine.execute(sql).fetchnumpy()
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            raise StorageError(f"{self.folder}: no room to read staged readings: {reason_of(error)}") from None
        return columns

    @contextmanager
    def told(self, progress: Progress, begin: float, end: float) -> Iterator[None]:
        """Say how far the engine is, five times a second, while it works."""
        finished = threading.Event()

        def look() -> None:
            while not finished.wait(0.2):
                share = self.engine.query_progress() / 100
                if 0 <= share <= 1:
                    progress(begin + share * (end - begin))

        if progress is nobody:
            yield
            return
        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()
        progress(end)


def nobody(share: float) -> None:
    """Tell nobody."""
