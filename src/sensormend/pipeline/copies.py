"""`CopyCounter` counts equal readings of channels, to name the sensors that report the readings of one source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.grid import Grid
from sensormend.pipeline.sentences import enumeration
from sensormend.readings import DAY
from sensormend.recovery import FloatArray

__all__ = ["MOST_CHANNELS", "CopyCounter", "sentences"]

MOST_CHANNELS = 100
"""The maximum number of channels of a variable for which pairs are counted: 4,950 pairs."""

LEAST_DAYS, LEAST_MOVES, SHARE = 14, 50, 0.95
"""Two channels are copies if they have readings in common for at least two weeks, move in at least 50 of these slots,
and are equal in at least 95 % of the slots in which they move."""

ENOUGH_MOVES = 200
"""The number of moves after which a pair that is equal in less than half of them is no longer counted: after the first
weeks hardly any pair is left."""

ROUNDING = 1e-9
"""The size of a rounding error, as a share of the reading."""

MOST_SENTENCES, MOST_NAMES = 5, 8
"""Groups, and sensors of one group, that are named in the notes; `run.json` has all."""

PAIRS = 5000
"""Pairs that are counted at a time: 12 MB where a period has 288 slots."""

VARIABLE, FIRST, SECOND, COMMON, MOVES, EQUAL = range(6)
"""Rows of the table of pairs: the variable, the two sensors, and the numbers of slots."""


class CopyCounter:
    """Counts, for every pair of channels of a small variable, the slots in which they move and those that are equal.

    Readings are equal if they are the same number, or the same number rounded to the coarser of two resolutions. Slots
    in which neither moves do not count: all rain gauges read 0 most of the time.

    Parameters
    ----------
    grid
        Slots and periods.
    variables
        The number of variables.
    """

    def __init__(self, grid: Grid, variables: int) -> None:
        self._least_common = -(-LEAST_DAYS * DAY // grid.step)
        self._pairs = np.zeros((6, 0), dtype=np.int64)
        self._members: list[list[int]] = [[] for _ in range(variables)]
        self._counted = np.ones(variables, dtype=bool)
        # By channel, sensor and variable: whether its pairs are counted, and the value of the last slot.
        self._is_member = np.zeros((0, variables), dtype=np.bool_)
        self._last = np.full((0, variables), np.nan)

    def add(
        self,
        sensor: NDArray[np.integer],
        variable: NDArray[np.integer],
        value: FloatArray,
        step: FloatArray,
    ) -> None:
        """Count the readings of one period, (channel, slot); `step` is the resolution of each channel, or NaN."""
        reporting = np.isfinite(value).any(axis=1) & self._counted[variable]
        self._grow(int(sensor.max(initial=-1)) + 1)
        new = reporting & ~self._is_member[sensor, variable]
        for number in np.unique(variable[new]).tolist():
            self._join(number, sensor[new & (variable == number)].tolist())
        rows = np.flatnonzero(reporting & self._counted[variable])
        sensor, variable, value = sensor[rows], variable[rows], value[rows]
        earlier = np.concatenate([self._last[sensor, variable][:, None], value[:, :-1]], axis=1)
        self._last[:] = np.nan
        self._last[sensor, variable] = value[:, -1]
        row_of = np.full(self._last.shape, -1)
        row_of[sensor, variable] = np.arange(rows.size)
        first, second = (row_of[self._pairs[part], self._pairs[VARIABLE]] for part in (FIRST, SECOND))
        own = np.flatnonzero((first >= 0) & (second >= 0))
        for begin in range(0, own.size, PAIRS):
            part = own[begin : begin + PAIRS]
            self._count(part, first[part], second[part], value, earlier, step[rows])
        different = (self._pairs[MOVES] >= ENOUGH_MOVES) & (2 * self._pairs[EQUAL] < self._pairs[MOVES])
        if different.any():
            self._pairs = self._pairs[:, ~different]

    def groups(self, sensors: Sequence[str], variables: Sequence[str]) -> list[dict[str, list[str]]]:
        """Return the sensors that report the same, with the variables in which they do, as they stand in run.json."""
        pairs = self._pairs
        same = (pairs[COMMON] >= self._least_common) & (pairs[MOVES] >= LEAST_MOVES)
        same &= pairs[EQUAL] >= SHARE * pairs[MOVES]
        variables_of: dict[tuple[str, ...], list[str]] = {}
        for number, name in enumerate(variables):
            chosen = pairs[:, same & (pairs[VARIABLE] == number)]
            for group in _connected(chosen[FIRST].tolist(), chosen[SECOND].tolist()):
                variables_of.setdefault(tuple(sorted(sensors[row] for row in group)), []).append(name)
        return [{"sensors": list(names), "variables": variables_of[names]} for names in sorted(variables_of)]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays of a state file."""
        known = np.argwhere(np.isfinite(self._last)).tolist()
        last = [[sensor, variable, float(self._last[sensor, variable])] for sensor, variable in known]
        return {"members": self._members, "last": last}, {"pairs": self._pairs, "counted": self._counted}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore a state."""
        self._members = settings["members"]
        self._pairs, self._counted = arrays["pairs"], arrays["counted"]
        self._grow(1 + max((sensor for members in self._members for sensor in members), default=-1))
        for variable, members in enumerate(self._members):
            self._is_member[members, variable] = True
        for sensor, variable, value in settings["last"]:
            self._last[sensor, variable] = value

    def _grow(self, sensors: int) -> None:
        """Grow the arrays to so many sensors."""
        more = sensors - len(self._last)
        if more > 0:
            self._is_member = np.pad(self._is_member, ((0, more), (0, 0)))
            self._last = np.pad(self._last, ((0, more), (0, 0)), constant_values=np.nan)

    def _join(self, variable: int, sensors: list[int]) -> None:
        """Add the pairs of new channels of a variable; count none of it if it has more than can be counted."""
        members = self._members[variable]
        if len(members) + len(sensors) > MOST_CHANNELS:
            self._counted[variable], self._members[variable] = False, []
            self._pairs = self._pairs[:, self._pairs[VARIABLE] != variable]
            return
        for sensor in sensors:
            pairs = np.zeros((6, len(members)), dtype=np.int64)
            pairs[VARIABLE], pairs[FIRST], pairs[SECOND] = variable, members, sensor
            self._pairs = np.concatenate([self._pairs, pairs], axis=1)
            members.append(sensor)
        self._is_member[sensors, variable] = True

    def _count(
        self, own: NDArray[np.intp], first: NDArray[np.int64], second: NDArray[np.int64],
        value: FloatArray, earlier: FloatArray, step: FloatArray,
    ) -> None:  # fmt: skip
        """Count the slots of the `own` pairs, whose channels are the rows `first` and `second`.

        `earlier` has the value of the slot before each.
        """
        with np.errstate(invalid="ignore"):
            present = np.isfinite(value)
            moved = present & np.isfinite(earlier) & (value != earlier)
            common = present[first] & present[second]
            coarser = step[first] > 1.5 * step[second], step[second] > 1.5 * step[first]
            # Of two resolutions the coarser one decides when something moves.
            moves = common & ((moved[first] & ~coarser[1][:, None]) | (moved[second] & ~coarser[0][:, None]))
            nearness = np.where(coarser[0] | coarser[1], 0.5 * np.fmax(step[first], step[second]), 0.0)
            nearness[~np.isfinite(nearness)] = 0.0
            one = value[first]
            equal = np.abs(one - value[second]) <= nearness[:, None] * (1 + 1e-6) + ROUNDING * np.abs(one)
        self._pairs[COMMON, own] += common.sum(axis=1)
        self._pairs[MOVES, own] += moves.sum(axis=1)
        self._pairs[EQUAL, own] += (moves & equal).sum(axis=1)


def _connected(first: list[int], second: list[int]) -> list[set[int]]:
    """Return the groups of sensors that pairs connect."""
    group_of: dict[int, set[int]] = {}
    for one, other in zip(first, second, strict=True):
        joined = group_of.get(one, {one}) | group_of.get(other, {other})
        for member in joined:
            group_of[member] = joined
    return list({id(group): group for group in group_of.values()}.values())


def sentences(groups: Sequence[dict[str, list[str]]]) -> list[str]:
    """Return the groups of copies in words, one line each.

    Examples
    --------
    >>> sentences([{"sensors": ["Dongsi", "Nongzhanguan", "Tiantan"], "variables": ["PRES"]}])
    ['Dongsi, Nongzhanguan and Tiantan have the same PRES']
    >>> sentences([{"sensors": ["a", "b"], "variables": [""]}])
    ['a and b have the same readings']
    """
    lines = []
    for group in groups[:MOST_SENTENCES]:
        names, more = group["sensors"][:MOST_NAMES], len(group["sensors"]) - MOST_NAMES
        names = [*names, f"{more} others"] if more > 0 else names
        variables = [name or "readings" for name in group["variables"]]
        lines.append(f"{enumeration(names)} have the same {enumeration(variables)}")
    if len(groups) > MOST_SENTENCES:
        more = len(groups) - MOST_SENTENCES
        lines.append(f"{more} more groups of sensors have the same readings: see copies in run.json")
    return lines
