"""`sensormend check` verifies the output folder of a `watch` that is not running."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from sensormend.cli.arguments import FLAG
from sensormend.errors import ConfigError, MissingError, SensormendError

__all__ = ["check"]


def check(out: Path, /, *, as_json: Annotated[bool, Parameter(name="--json", **FLAG)] = False) -> None:
    """Check whether anything in the output folder of a `watch` is missing or damaged.

    The service has to be stopped. Nothing is changed. The exit code is 0 if all is sound, 1 if not; each line says what
    is missing or damaged, and how many readings of which span are gone with it.

    Parameters
    ----------
    out
        The OUT of `watch`.
    as_json
        Print JSON.
    """
    from sensormend.files import is_locked
    from sensormend.io.metadata import read_json
    from sensormend.stream.integrity import inspect
    from sensormend.stream.service_state import ServiceState

    if not out.exists():
        raise MissingError(f"there is no folder {out}")
    if not out.is_dir():
        raise ConfigError(f"{out} is a file; the OUT of a watch is a folder")
    state = ServiceState(out)
    if not state.is_begun:
        command = read_json(out / "run.json").get("command")
        if command == "clean":
            raise ConfigError(
                f"{out} was written by clean: there is nothing to check, only the OUT of a watch has a state"
            )
        if command == "watch":
            raise SensormendError(f"{out} has lost its state: a start is refused, and its rows cannot be verified")
        raise ConfigError(f"{out} is not the OUT of a watch")
    if is_locked(state.folder / "lock"):
        raise ConfigError(f"sensormend is watching into {out}: stop it first")
    result = inspect(out)
    if as_json:
        sys.stdout.write(json.dumps([damage.fields() for damage in result.damage], indent=2) + "\n")
    else:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        for damage in result.damage:
            console.print(damage.sentence)
        count = len(result.manifest.files)
        if not result.damage:
            console.print(f"{out} is sound: {count:,} files of rows and readings, the state and the tables.")
    if result.damage:
        parts = "part is" if len(result.damage) == 1 else "parts are"
        raise SensormendError(
            f"{len(result.damage)} {parts} missing or damaged; the next start continues from the rest"
        )
