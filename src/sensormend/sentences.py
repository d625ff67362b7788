"""What is wrong, said so that whoever goes out and repairs understands it."""

from __future__ import annotations

import math
from typing import Protocol

from sensormend.readings import DAY, HOUR, MINUTE

__all__ = ["Story", "how_long", "number", "sentence"]


class Story(Protocol):
    """What a sentence is told from: a fault of `tally.py`."""

    sensor: str
    variable: str
    start: int
    end: int
    count: int
    value: float
    distance: float
    square: float
    farthest: float

    @property
    def reason(self) -> str:
        """Why."""
        ...


def number(value: float) -> str:
    """Write a number with as many digits as a person reads.

    Examples
    --------
    >>> number(12.3456), number(0.01234), number(1234.5)
    ('12.3', '0.0123', '1234')
    """
    if not math.isfinite(value):
        return "nothing"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(digits, 6)}f}"


def how_long(span: int) -> str:
    """Say how long something lasts.

    Examples
    --------
    >>> how_long(36 * HOUR)
    '36 hours'
    """
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if span >= 2 * unit or span == unit:
            count = span / unit
            text = f"{count:.0f}" if count >= 10 or count == round(count) else f"{count:.1f}"
            return f"{text} {name}{'' if text == '1' else 's'}"
    return f"{span / 1e6:g} seconds"


def sentence(fault: Story) -> str:
    """Tell a fault in one plain sentence with its numbers."""
    of = f" {fault.variable}" if fault.variable else ""
    count = max(fault.count, 1)
    off, scatter = fault.distance / count, math.sqrt(fault.square / count)
    side = "above" if off > 0 else "below"
    lasted = how_long(fault.end - fault.start)
    who = f"{fault.sensor}{of}"
    told = {
        "silent": f"{who} sent nothing for {lasted}",
        "stuck": f"{who} stood still near {number(fault.value / count)} for {lasted} while the others moved",
        "offset": f"{who} read {number(abs(off))} {side} what the others say, for {lasted}",
        "drifting": f"{who} drifted away from the others for {lasted}, by up to {number(abs(fault.farthest))}",
        "noisy": f"{who} scattered by {number(scatter)} around what the others say, for {lasted}",
        "gain": f"{who} moved more or less than the others let expect, by up to {number(abs(fault.farthest))}, "
        f"for {lasted}",
        "spike": f"{who} read {number(fault.value / count)} where {number((fault.value - fault.distance) / count)} "
        "was expected",
        "implausible": f"{who} read {number(fault.value / count)} on average for {lasted}, which cannot be",
    }
    return told.get(fault.reason, f"{who} was {number(scatter)} off for {lasted}") + "."
