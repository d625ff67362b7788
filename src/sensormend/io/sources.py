"""`find` returns the files of a source: a folder, a pattern, standard input, or a database."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from sensormend.errors import ConfigError, InputError, MissingError, shown
from sensormend.files import is_stream
from sensormend.io import postgres

__all__ = ["InputFile", "SourcePaths", "find", "find_format", "ignored_files", "listed", "stem"]

SourcePaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, a folder, a pattern, `-` for standard input, a `postgresql://` address, or several of these."""

Format = Literal["csv", "parquet", "json", "netcdf", "excel"]

_ENDINGS: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".ndjson", ".jsonl", ".json"), "json"),
    **dict.fromkeys((".nc", ".nc4", ".cdf", ".h5"), "netcdf"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls"), "excel"),
}
# A folder of readings may hold notes and settings too; these endings are read only where there are no others.
_UNSURE = (".txt", ".dat", ".json", ".h5", ".cdf")


@dataclass(frozen=True)
class InputFile:
    """A file of readings.

    Attributes
    ----------
    shown
        Its name in messages, as the user gave it.
    in_folder
        It was found in a folder, which may also hold files without readings.
    sensor
        The sensor where no column names one: the file's name; None for standard input and databases.
    """

    path: Path
    shown: str
    format: Format
    in_folder: bool = False
    sensor: str | None = None


def find(source: SourcePaths, spool: Path) -> list[InputFile]:
    """Return the files of a source in the order in which they are read: those of a folder or a pattern by name.

    Standard input, pipes of a shell and databases are copied into the folder `spool`; anything else that is not a
    regular file might never end, and is refused.
    """
    if not isinstance(source, str | os.PathLike):
        files = [file for entry in source for file in find(entry, spool)]
        if not files:
            raise MissingError("no file of readings was given")
        return files
    name = os.fspath(source)
    if name == "-":
        return [_spooled(sys.stdin.buffer, spool, "standard input")]
    if name.startswith(postgres.SCHEMES):
        return [InputFile(postgres.spooled(name, spool), shown(name), "csv")]
    if not name:
        raise ConfigError("READINGS is empty; give a file, a folder, a pattern or -")
    path = Path(name)
    if path.is_dir():
        return _folder(path)
    if is_stream(path):
        with path.open("rb") as stream:
            return [_spooled(stream, spool, name)]
    if path.exists():
        return [_file(path, name)]
    if glob.has_magic(name):
        matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
        paths = [path for match in matches for path in (_below(match) if match.is_dir() else [match])]
        if paths:
            return [_file(path, str(path)) for path in paths]
        raise MissingError(f"no file matches {name}")
    raise MissingError(f"there is no file or folder {name}")


def ignored_files(source: SourcePaths) -> list[str]:
    """Return the files of the folders in a source that are not read, by their endings."""
    if not isinstance(source, str | os.PathLike):
        return [name for entry in source for name in ignored_files(entry)]
    folder = Path(source)
    if not os.fspath(source) or not folder.is_dir():
        return []
    return [str(file) for file in sorted(set(_visible(folder)).difference(_below(folder)))]


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return names joined by commas; of many, the first ones and the number of the others.

    Examples
    --------
    >>> listed("abcd", most=2)
    'a, b and 2 more'
    """
    names = list(names)
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def _folder(folder: Path) -> list[InputFile]:
    files = _below(folder)
    for file in files:
        if not file.exists():
            raise MissingError(f"{file} is a link to nowhere")
        try:
            str(file).encode()
        except UnicodeEncodeError:
            raise InputError(f"{str(file)!a}: a name that is not UTF-8 cannot be read; rename the file") from None
    if not files:
        raise MissingError(f"{folder}: the folder has no CSV, Parquet, JSON, Excel or NetCDF file")
    return [_file(file, str(file), in_folder=True) for file in files]


def _file(path: Path, shown: str, in_folder: bool = False) -> InputFile:
    if path.exists() and not path.is_file():
        raise InputError(f"{shown} is not a regular file but a pipe or a device, which may never end; give it as -")
    return InputFile(path, shown, find_format(path) or "csv", in_folder, stem(path))


def stem(path: Path) -> str:
    """Return the name of a file without its ending.

    Examples
    --------
    >>> stem(Path("site.7.csv.gz"))
    'site.7'
    """
    return Path(path.name.removesuffix(".gz")).stem


def _below(folder: Path) -> list[Path]:
    """Return the files of readings below a folder, sorted, without hidden and incomplete ones."""
    files = sorted(file for file in _visible(folder) if find_format(file))
    return [file for file in files if not _unpacked_name(file).endswith(_UNSURE)] or files


def _visible(folder: Path) -> list[Path]:
    """Return the files below a folder that are neither hidden nor written by `clean`."""
    # `~$`: Excel writes such a lock file beside an open workbook.
    hidden = (".", "_", "~$")
    files: list[Path] = []
    for path, folders, names in os.walk(folder):
        inside = Path(path)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(hidden)
            and not name.endswith((".partial", ".meta"))
            and not (inside / name / "run.json").exists()
        ]
        files += [
            inside / name for name in names if not name.startswith(hidden) and not (inside / f"{name}.meta").is_dir()
        ]
    return files


def _unpacked_name(path: Path) -> str:
    return path.name.lower().removesuffix(".gz")


def find_format(path: Path) -> Format | None:
    """Return the format of a file by its ending; None for an unknown one."""
    name = _unpacked_name(path)
    return next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)


def _spooled(stream: IO[bytes], spool: Path, shown: str) -> InputFile:
    """Copy a stream to a file, since it is read twice."""
    spool.mkdir(parents=True, exist_ok=True)
    path = spool / f"stream-{len(list(spool.glob('stream-*')))}"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    with path.open("rb") as file:
        head = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    kinds: dict[bytes, Format] = {b"{": "json", b"[": "json", b"PAR1": "parquet", b"PK\x03\x04": "excel"}
    kind: Format = next((kind for first, kind in kinds.items() if head.startswith(first)), "csv")
    if path.stat().st_size == 0:
        raise InputError(f"{shown} is empty")
    packed = head.startswith(b"\x1f\x8b")
    # The engine chooses the format by the ending.
    named = path.with_name(f"{path.name}.{'xlsx' if kind == 'excel' else kind}{'.gz' if packed else ''}")
    os.replace(path, named)
    return InputFile(named, shown, kind)
