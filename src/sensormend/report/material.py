"""All that the page is written from, gathered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sensormend.errors import InputError
from sensormend.io.metadata import FaultInterval
from sensormend.pipeline.sentences import counted
from sensormend.report.counting import Counts, count
from sensormend.views.digest import Name
from sensormend.views.look import Look
from sensormend.views.matrix import Matrix, matrix
from sensormend.views.network import Network, network
from sensormend.views.now import NOTHING, RANKS, WRONG, Standing, going_on, standings

__all__ = ["MOST_VARIABLES", "Material", "Trouble", "gathered"]

MOST_VARIABLES = 6
"""So many variables have pictures; a city measures fewer, and a page with more has no end."""


@dataclass(frozen=True)
class Trouble:
    """What was wrong with a channel in all its time.

    Attributes
    ----------
    faulty, silent
        For how long, microseconds.
    reasons
        How long each reason had it.
    faults
        What faults.csv says of it.
    """

    sensor: str
    variable: str
    faulty: int
    silent: int
    reasons: Counter[str]
    faults: tuple[FaultInterval, ...]

    @property
    def longest(self) -> FaultInterval:
        """The longest of its faults, a silence only where there is nothing else."""
        return max(self.faults, key=lambda fault: (fault.reason != "silent", fault.end - fault.start))


@dataclass(frozen=True)
class Material:
    """What the page is written from.

    Attributes
    ----------
    look, network
        The OUT, and what it is like.
    start, end
        From when to when values are final; `end` is left out.
    counts
        What was filled.
    matrix
        Everybody on every day, those with most trouble first.
    now, open
        How every channel is, and the faults that go on.
    troubles
        Channels with something wrong, the worst first.
    variables
        Those that have pictures.
    """

    look: Look
    network: Network
    start: int
    end: int
    counts: Counts
    matrix: Matrix
    now: dict[Name, Standing]
    open: dict[Name, FaultInterval]
    troubles: tuple[Trouble, ...]
    variables: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether more than one thing is measured."""
        return len(self.look.variables) > 1

    def many(self, count: int) -> str:
        """Say so many sensors; where they measure several things, so many series of one thing each."""
        return counted(count, "series", "series") if self.several else counted(count, "sensor")

    @property
    def step(self) -> int:
        """Microseconds of a slot."""
        return self.look.step

    def wrong_now(self) -> list[Standing]:
        """Return who is faulty, silent or gone, the worst and longest first."""
        found = [one for one in self.now.values() if one.state in WRONG]
        return sorted(found, key=lambda one: (RANKS.index(one.state), one.since or 0, one.sensor, one.variable))

    def gone(self) -> list[tuple[str, int]]:
        """Return sensors that people have removed, and when they were last heard; the latest first."""
        here = {sensor for sensor, _ in self.now}
        heard: dict[str, int] = {}
        for entry in self.look.summaries:
            if entry.sensor not in here and entry.last is not None:
                heard[entry.sensor] = max(entry.last, heard.get(entry.sensor, entry.last))
        return sorted(heard.items(), key=lambda one: (-one[1], one[0]))

    def open_fault(self, one: Standing) -> FaultInterval | None:
        """Return the fault that goes on at a channel; a silence of all its variables has no variable."""
        names = ((one.sensor, ""), (one.sensor, one.variable))
        return next((self.open[name] for name in names if name in self.open), None)


def gathered(look: Look, done: Callable[[float], None] | None = None) -> Material:
    """Gather it all.

    Parameters
    ----------
    look
        The OUT.
    done
        Is told how much is done, from 0 to 1.

    Raises
    ------
    InputError
        Where nothing is final yet, or there is no row.
    """
    # The tables of a watch that runs fast are behind its rows; a report is of one moment.
    end, archive = look.told(), look.archive
    if end is None or archive is None:
        raise InputError(
            f"no period is final yet in {look.name}: there is nothing to report before its first period and the grace "
            "are over"
            if look.provisional is not None or (look.folder / "state" / "watch.json").exists()
            else f"there are no rows in {look.name}: there is nothing to report"
        )
    span = archive.span()
    assert span is not None
    end = max(end, span[0] + look.step)
    return Material(
        look=look,
        network=network(look),
        start=span[0],
        end=end,
        counts=count(look.folder, look.step, end, len(look.summaries), done),
        matrix=matrix(look, start=span[0], end=end, limit=1 << 60),
        now={name: one for name, one in standings(look).items() if one.state != NOTHING},
        open=_open(look, end),
        troubles=_troubles(look),
        variables=look.variables[:MOST_VARIABLES],
    )


def _open(look: Look, end: int) -> dict[Name, FaultInterval]:
    """Return the faults that go on."""
    return {(fault.sensor, fault.variable): fault for fault in look.faults if going_on(fault, end)}


def _troubles(look: Look) -> tuple[Trouble, ...]:
    by_channel: dict[Name, list[FaultInterval]] = {}
    for fault in (fault for fault in look.faults if not fault.doubtful):
        # A sensor that is silent in all its variables has one line, without a variable.
        of = look.channels.get(fault.sensor, ()) if fault.reason == "silent" and not fault.variable else ()
        for variable in of or (fault.variable,):
            by_channel.setdefault((fault.sensor, variable), []).append(fault)
    found = []
    for (sensor, variable), faults in by_channel.items():
        reasons: Counter[str] = Counter()
        for fault in faults:
            reasons[fault.reason] += fault.end - fault.start
        silent = reasons["silent"]
        found.append(Trouble(sensor, variable, reasons.total() - silent, silent, reasons, tuple(faults)))
    return tuple(sorted(found, key=lambda one: (-one.faulty, -one.silent, one.sensor, one.variable)))
