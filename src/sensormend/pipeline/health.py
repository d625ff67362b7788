"""`states` computes the health of each channel on each of its days; `Health` is a line on what it is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.readings import DAY, REASONS, Flag, Rows
from sensormend.recovery import BoolArray

__all__ = [
    "ABSENT",
    "COUNTS",
    "HEALTH",
    "LETTERS",
    "NO_ROWS",
    "SPIKE",
    "Health",
    "by_trouble",
    "carry_over_gaps",
    "days_per_cell",
    "letters",
    "shade_words",
    "states",
    "states_by_cell",
    "trouble",
]


HEALTH = ("healthy", "filled", "suspect", "faulty", "silent", "not evaluated")

NO_ROWS, ABSENT = -1, "nothing"
"""The state of a day before a sensor's first row or after its last one."""

LETTERS = dict(zip(".sfuxon", (ABSENT, *HEALTH), strict=True))
"""The letters of the states in a health matrix."""

MAX_CELLS = 750
"""Cells in a row of a health matrix; beyond that a cell covers several days."""

COUNTS = ("slots", "missing", "faulty", "spikes", "suspect", "unjudged", "estimated")
"""The counts of a sensor's rows: all; without a reading or with a fill value; wrong in a longer fault; single wrong
ones; suspect; not evaluated; with an estimate as the cleaned value."""

WEIGHTS = {"faulty": 4.0, "silent": 2.0, "suspect": 1.0, "filled": 0.05}
"""The weight of a day by its state. A gap has no weight; a silent day has half the weight of a wrong one, which is
misleading."""

_LETTER_CODES = np.frombuffer("".join(LETTERS).encode("ascii"), np.uint8)
SPIKE, DUPLICATE, SILENT, ALONE, FILL = map(REASONS.index, ("spike", "duplicate", "silent", "alone", "fill"))


@dataclass(frozen=True)
class Health:
    """The health of one variable of one sensor.

    Attributes
    ----------
    state
        Its state, of `ChannelState`.
    reason
        The kind of its fault; empty for other states.
    since
        The start of the state; microseconds since 1970, UTC.
    heard
        The time of its last reading; None if there is none.
    """

    sensor: str
    variable: str
    state: str
    reason: str
    since: int
    heard: int | None


def states(counts: Mapping[str, NDArray[np.integer]]) -> NDArray[np.int8]:
    """Return the state, an index into `HEALTH`, for counts of any shape.

    Examples
    --------
    >>> zero = np.zeros(3, int)
    >>> of = {**dict.fromkeys(COUNTS, zero), "slots": np.array([24, 24, 24]), "missing": np.array([0, 3, 24])}
    >>> [HEALTH[state] for state in states(of)]
    ['healthy', 'filled', 'silent']
    """
    state = np.where(counts["slots"] > 0, HEALTH.index("healthy"), NO_ROWS).astype(np.int8)
    state[(counts["missing"] > 0) | (counts["spikes"] > 0)] = HEALTH.index("filled")
    state[counts["unjudged"] > 0] = HEALTH.index("not evaluated")
    state[counts["suspect"] > 0] = HEALTH.index("suspect")
    state[counts["faulty"] > 0] = HEALTH.index("faulty")
    state[(counts["slots"] > 0) & (counts["missing"] == counts["slots"])] = HEALTH.index("silent")
    return state


def days_per_cell(first: int, last: int, step: int) -> int:
    """Return the number of days in a cell of a health matrix, for a range of dates and the length of a slot.

    A cell is not shorter than a slot: the days between two values would look as if the sensor were gone.
    """
    return max(-(-(last - first + 1) // MAX_CELLS), -(-step // DAY), 1)


def states_by_cell(rows: Rows, first: int, last: int, days: int = 1) -> tuple[list[tuple[str, str]], NDArray[np.int8]]:
    """Return the channels (sensor, variable), and their states in cells of `days` days between two dates."""
    cells = (last - first) // days + 1
    rows = rows.taken((rows.time >= first * DAY) & (rows.time < (last + 1) * DAY))
    pairs, channel = np.unique(np.stack([rows.sensor, rows.variable]), axis=1, return_inverse=True)
    names = [(rows.sensors[sensor], rows.variables[variable]) for sensor, variable in pairs.T.tolist()]
    cell = channel.reshape(-1) * cells + (rows.time // DAY - first) // days
    missing, spike = (rows.flag == Flag.MISSING) | (rows.reason == FILL), rows.reason == SPIKE
    wrong = (rows.flag == Flag.FAIL) & ~missing
    counted = {
        "slots": np.ones(len(rows), dtype=bool),
        "missing": missing,
        "faulty": wrong & ~spike,
        "spikes": wrong & spike,
        "suspect": rows.flag == Flag.SUSPECT,
        "unjudged": rows.flag == Flag.NOT_EVALUATED,
    }
    counts = {
        name: np.bincount(cell[chosen], minlength=len(names) * cells).reshape(len(names), cells)
        for name, chosen in counted.items()
    }
    return names, states(counts)


def letters(state: NDArray[np.int8]) -> str:
    """Return one row of states as letters.

    Examples
    --------
    >>> letters(np.array([NO_ROWS, HEALTH.index("healthy"), HEALTH.index("faulty")]))
    '.sx'
    """
    return _LETTER_CODES[state - NO_ROWS].tobytes().decode("ascii")


def trouble(state: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the sum of `WEIGHTS` over each row of states (sensor, day)."""
    weights = np.array([0.0, *(WEIGHTS.get(word, 0.0) for word in HEALTH)])
    return np.asarray(weights[state - NO_ROWS].sum(axis=1))


def by_trouble(state: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the order of the rows of a health matrix, the worst first."""
    return np.argsort(-trouble(state), kind="stable")


def shade_words(own: Rows) -> NDArray[Any]:
    """Return the reason for which each row of one channel is shaded; empty if it is sound or a single wrong one."""
    words = np.full(len(own), "", dtype=object)
    wrong = (own.flag == Flag.FAIL) & (own.reason != SPIKE) & (own.reason != FILL)
    words[wrong] = [REASONS[code] or "faulty" for code in own.reason[wrong].tolist()]
    words[own.flag == Flag.SUSPECT] = "suspect"
    words[(own.flag == Flag.SUSPECT) & (own.reason == DUPLICATE)] = "duplicate"
    words[own.flag == Flag.NOT_EVALUATED] = "not evaluated"
    words[(own.flag == Flag.NOT_EVALUATED) & (own.reason == ALONE)] = "alone"
    missing = (own.flag == Flag.MISSING) | (own.reason == FILL)
    carry_over_gaps(words, missing)
    words[missing & (own.reason == SILENT)] = "silent"
    return words


def carry_over_gaps(words: NDArray[Any], missing: BoolArray) -> None:
    """Give missing readings between two with the same reason that reason: they belong to the same fault."""
    present, every_row = np.flatnonzero(~missing), np.arange(missing.size)
    if present.size:
        before = present[np.clip(np.searchsorted(present, every_row, side="right") - 1, 0, None)]
        after = present[np.clip(np.searchsorted(present, every_row), None, present.size - 1)]
        inside = (every_row > present[0]) & (every_row < present[-1])
        between = missing & inside & (words[before] == words[after])
        words[between] = words[before][between]
