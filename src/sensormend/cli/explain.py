"""`sensormend explain` prints why a reading has its flag, or lists faults with the command that explains each."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from sensormend.cli.arguments import FLAG
from sensormend.errors import ConfigError, InputError

__all__ = ["explain"]

MOST_CLOSED = 10
"""The number of closed faults that are listed if none is open."""


def explain(
    out: Path,
    sensor: str | None = None,
    time: str | None = None,
    /,
    *,
    variable: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", **FLAG)] = False,
) -> None:
    """Explain in one paragraph why a reading has its flag.

    Without TIME it lists the faults of the sensor, and without SENSOR the open faults of the network, or where none is
    open the ten strongest, each with the command that explains it.

    Parameters
    ----------
    out
        The OUT of `clean` or `watch`: a folder, or a single file.
    sensor
        The sensor's name.
    time
        A time within the slot, in UTC: 2019-07-14T15:00.
    variable
        The variable, where there are several.
    as_json
        Print JSON.
    """
    if sensor is None or time is None:
        _list_faults(out, sensor, variable, as_json=as_json)
        return
    from sensormend.explain.context import microseconds, reading_context
    from sensormend.explain.paragraph import paragraph
    from sensormend.io.folder import Archive
    from sensormend.pipeline.times import iso

    try:
        moment = microseconds(time)
    except InputError as error:
        raise ConfigError(str(error)) from None
    with Archive(out) as archive:
        context = reading_context(archive, archive.check_sensor(sensor), moment, variable)
    text = paragraph(context)
    if as_json:
        entry = {"sensor": context.sensor, "variable": context.variable, "time": iso(context.row.time), "text": text}
        _print_json(entry | {"flag": int(context.row.flag), "reason": context.row.reason})
    else:
        Console(highlight=False).print(text, markup=False)


def _list_faults(out: Path, sensor: str | None, variable: str | None, *, as_json: bool) -> None:
    """List the open faults of an OUT, without any the strongest, or all faults of a sensor, the newest first."""
    from sensormend.pipeline.channel_states import is_open
    from sensormend.pipeline.sentences import faults_in_words, readable
    from sensormend.pipeline.times import iso
    from sensormend.views.channel_status import all_faults
    from sensormend.views.fault_list import select_faults
    from sensormend.views.reader import OutReader

    with OutReader(out) as reader:
        if sensor is not None and reader.archive is not None:
            reader.archive.check_sensor(sensor)
        names = reader.variables if sensor is None else reader.channels.get(sensor, ())
        if variable is not None and variable not in names:
            raise ConfigError(f"there is no variable {variable!r}; there is {', '.join(names) or 'none'}")
        faults = select_faults(reader, sensor=sensor, variable=variable, state="open" if sensor is None else "all")
        closed = sensor is None and not faults
        if closed:
            faults = [fault for fault in select_faults(reader, variable=variable) if fault.reason != "silent"]
            faults = sorted(faults, key=lambda fault: (fault.doubtful, -fault.score))[:MOST_CLOSED]
        faults.sort(key=lambda fault: -fault.start)
        end, count = reader.tables_end(), faults_in_words(all_faults(reader))
        commands = [
            # A silence of all variables has none: any of them explains it.
            _command(out, fault.sensor, fault.variable or variable or reader.channels[fault.sensor][0],
                     iso(reader.slot((fault.start + fault.end) // 2)))
            for fault in faults
        ]  # fmt: skip
    if as_json:
        _print_json([
            {"sensor": fault.sensor, "variable": fault.variable, "from": iso(fault.start), "to": iso(fault.end),
             "open": is_open(fault, end), "reason": fault.reason, "sentence": fault.sentence, "command": command}
            for fault, command in zip(faults, commands, strict=True)
        ])  # fmt: skip
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if sensor is not None:
        console.print(f"{sensor} has {faults_in_words(faults)}.")
    else:
        at = "" if end is None else f" at {readable(end)}"
        strongest = " These were the strongest." if faults else ""
        console.print(
            f"No fault is open in {out}{at}.{strongest}" if closed else f"These faults are open in {out}{at}."
        )
    for fault, command in zip(faults, commands, strict=True):
        until = "open" if is_open(fault, end) else f"to {readable(fault.end)}"
        console.print(f"\n{fault.sentence} ({fault.reason}, from {readable(fault.start)}, {until})\n    {command}")
    if sensor is None:
        listing = f"sensormend explain {shlex.quote(str(out))} SENSOR"
        console.print(f"\nIn all there are {count}. {listing} lists those of one sensor.")


def _command(out: Path, sensor: str, variable: str, time: str) -> str:
    option = f" --variable {shlex.quote(variable)}" if variable else ""
    return f"sensormend explain {shlex.quote(str(out))} {shlex.quote(sensor)} {time[:16]}{option}"


def _print_json(content: object) -> None:
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
