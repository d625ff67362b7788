"""The way through an archive: its first weeks are learned from before they are mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sensormend.mending import Mended, Mender
from sensormend.readings import Readings

__all__ = ["WARM_UP", "Source", "walk"]

WARM_UP = 28
"""Periods that are learned from twice. On simulated networks the error over them falls by a twelfth (PM2.5) to nine
tenths (benchmarks/first_weeks.py); a model that only answers the second time and learns nothing is no better."""


class Source(Protocol):
    """Readings that can be had period by period."""

    @property
    def periods(self) -> Sequence[int]:
        """The periods that have readings, in order."""
        ...

    def read(self, period: int) -> Readings:
        """Return the readings of one period."""
        ...


def walk(source: Source, mender: Mender, *, one_pass: bool = False) -> Iterator[Mended]:
    """Mend all periods that the mender has not seen yet.

    An archive has no need to wait until the model is grown up: a scout goes ahead through the first weeks, and they are
    mended with what it learned. With `one_pass` every period is met for the first time, as in a live feed.
    """
    first = None if one_pass or mender.period is not None else source.periods[0]
    if first is not None:
        scout = mender.twin()
        for period in source.periods:
            if period < first + WARM_UP:
                scout.push(source.read(int(period)))
        mender.model.rewind()
    for period in source.periods:
        if mender.period is None or period > mender.period:
            yield from mender.push(source.read(int(period)))
