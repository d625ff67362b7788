"""The owners' flags beside ours: slot by slot as the plain way does it, and what they say."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.pipeline.grid import ANCHOR, Grid
from sensormend.pipeline.owner_flags import APART, WRONG, says_wrong, with_owner_flags, words, wrong_flags
from sensormend.readings import DAY, HOUR, MINUTE, Readings, Rows

SENSORS, VARIABLES, FLAGS = ("a", "b", "c"), ("temp", "rain"), ("", "1", "4", "<-3> [x]")


def rows_at(times: list[int]) -> Rows:
    """Return rows of every channel at some times."""
    size = len(SENSORS) * len(VARIABLES) * len(times)
    sensor, variable, time = (axis.ravel() for axis in np.meshgrid(range(3), range(2), times, indexing="ij"))
    number, code = np.ones(size), np.ones(size, np.int8)
    return Rows(SENSORS, VARIABLES, sensor, variable, time, number, np.ones(size, np.int32), number, number, number,
                code, code, code)  # fmt: skip


READINGS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-30, 5 * 60), st.integers(1, len(FLAGS) - 1)),
    max_size=40,
)


@given(READINGS, st.sampled_from([0, 10 * MINUTE]), st.booleans())
def test_a_slot_has_the_flags_of_its_readings(
    readings: list[tuple[int, int, int, int]], early: int, per_reading: bool
) -> None:
    grid = Grid(HOUR, DAY, early)
    rows = rows_at([ANCHOR + minute * MINUTE for minute in (range(0, 60, 7) if per_reading else range(0, 240, 60))])
    # Other names in another order, and one that has no rows.
    names, quantities = ("z", "c", "b", "a"), ("rain", "temp")
    columns = [np.array(column, dtype=np.int64) for column in zip(*readings, strict=True)] or [
        np.empty(0, np.int64)
    ] * 4
    sensor, variable, minute, flag = columns
    flagged = Readings(names, quantities, sensor, variable, ANCHOR + minute * MINUTE, flag.astype(np.float64))
    with_flags = with_owner_flags(rows, flagged, FLAGS, None if per_reading else grid)
    expected = defaultdict(set)
    for a, b, at, code in readings:
        time = ANCHOR + at * MINUTE
        if not per_reading:
            time = ANCHOR + (at * MINUTE + early) // HOUR * HOUR
        expected[names[a], quantities[b], time].add(code)
    assert with_flags.owner is not None
    for row in range(len(rows)):
        name = (SENSORS[rows.sensor[row]], VARIABLES[rows.variable[row]], int(rows.time[row]))
        assert with_flags.owner_flags[with_flags.owner[row]] == APART.join(
            FLAGS[code] for code in sorted(expected[name])
        )


@pytest.mark.parametrize(
    ("flag", "wrong", "expected"),
    [
        ("4", WRONG, True), ("4.0", WRONG, True), ("04", WRONG, False), ("BAD", WRONG, True), ("255.0", WRONG, True),
        ("1; Fail", WRONG, True), ("1; 3", WRONG, False), ("", WRONG, False), ("<-3>", WRONG, True),
        # NERRS has 4 for what was not checked.
        ("<4>", WRONG, False), ("<4> [CCU]", words(["4"]), True), ("R", words(["r ", "X"]), True),
    ],
)  # fmt: skip
def test_what_a_flag_says(flag: str, wrong: set[str], expected: bool) -> None:
    assert says_wrong(flag, wrong) is expected


def test_what_was_given_to_clean_holds() -> None:
    assert wrong_flags({}) is WRONG
    assert wrong_flags({"options": {"owner_wrong": []}}) is WRONG
    assert wrong_flags({"options": {"owner_wrong": ["R", " "]}}) == {"r"}


def test_rows_are_joined_with_the_flags_of_both() -> None:
    plain = rows_at([0])
    one = with_owner_flags(plain, _flagged(0, 2), FLAGS, None)
    other = with_owner_flags(plain, _flagged(0, 1), ("", "other"), None)
    joined = Rows.concatenate([plain, one, other])
    assert joined.owner is not None
    texts = [joined.owner_flags[code] for code in joined.owner]
    assert texts == [""] * 6 + ["4"] + [""] * 5 + ["other"] + [""] * 5
    part = joined.taken(np.array([12, 6]))
    assert part.owner is not None
    assert [part.owner_flags[code] for code in part.owner] == ["other", "4"]


def _flagged(time: int, code: int) -> Readings:
    zero = np.zeros(1, np.int64)
    return Readings(SENSORS, VARIABLES, zero, zero, np.array([time]), np.array([float(code)]))
