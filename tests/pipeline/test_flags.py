"""Of all that is known about a cell the strongest decides its flag, in whatever order it is given."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sensormend.pipeline.flags import Mark, flag_cells
from sensormend.readings import REASONS

DRIFT = REASONS.index("drift")
STRENGTH = {mark: number for number, mark in enumerate(Mark)}


@given(st.permutations(list(Mark)), st.sets(st.sampled_from(list(Mark))))
def test_the_strongest_mark_holds(order: list[Mark], chosen: set[Mark]) -> None:
    marks = {mark: np.array([mark in chosen, False]) for mark in order}
    flag, reason = flag_cells([1, 3], [0, 4], marks, kind=DRIFT)
    assert (flag[1], reason[1]) == (3, 4), "a cell without a mark stays"
    code, word = max(chosen, key=STRENGTH.__getitem__).value if chosen else (1, "")
    assert (flag[0], REASONS[reason[0]]) == (code, "drift" if word is None else word)


def test_what_is_given_is_not_changed() -> None:
    flag, reason = np.ones(2, dtype=np.int8), np.zeros(2, dtype=np.int8)
    flag_cells(flag, reason, {Mark.WRONG: np.array([True, False]), Mark.REAL: None}, kind=DRIFT)
    assert flag.tolist() == [1, 1]
    assert reason.tolist() == [0, 0]
