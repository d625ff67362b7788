"""Why a reading has its flag, for a page."""

from __future__ import annotations

from dataclasses import dataclass

from sensormend.errors import InputError
from sensormend.explain.context import look_up
from sensormend.explain.paragraph import explained
from sensormend.views.look import Look, utc
from sensormend.views.neighbours import among

__all__ = ["Explanation", "explanation"]


@dataclass(frozen=True)
class Explanation:
    """Why a reading has its flag, in one paragraph; `time` is the beginning of its slot."""

    sensor: str
    variable: str
    time: str
    text: str


def explanation(look: Look, name: str, time: int, variable: str | None = None) -> Explanation:
    """Say why the reading of a sensor in the slot of a time has its flag."""
    look.known(name)
    variable = look.variable(variable, name)
    final = look.final()
    if look.archive is None or final is None or time >= final:
        raise InputError("nothing is final at that time yet; a reading is explained when its period is over")
    known = set(look.archive.names)
    case = look_up(look.archive, look.archive.known(name), time, variable,
                   [other for other in among(look, name, variable) if other in known])  # fmt: skip
    return Explanation(name, variable, utc(case.row.time) or "", explained(case))
