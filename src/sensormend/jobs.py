"""What a run is about, so that one that was interrupted goes on with the same readings and options or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io import postgres
from sensormend.io.sources import find, is_stream
from sensormend.options import Options

__all__ = ["Source", "identity_of", "job_of", "told_options"]

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


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
    kept = [path.read_bytes() for path in (options.maintenance, options.coordinates) if path and path.is_file()]
    job = hashlib.sha256(
        json.dumps([identity, told_options(options), [hashlib.sha256(part).hexdigest() for part in kept]]).encode()
    ).hexdigest()
    if (before or job) != job:
        raise ConfigError(f"the interrupted run in {work} had other readings or options; --overwrite starts over")
    return job


def identity_of(source: Source) -> list[list[str | int]]:
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


def told_options(options: Options) -> dict[str, Any]:
    """Return the options that somebody said, as JSON has them."""
    plain = asdict(Options())
    return {name: value if isinstance(value, int | float | str | list | tuple | dict) else str(value)
            for name, value in asdict(options).items() if value != plain[name]}  # fmt: skip
