"""One flag, one reason and one origin for every cell, from recoveries made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sensormend.pipeline.grid import Placed
from sensormend.pipeline.verdicts import Verdicts, judge, with_stuck
from sensormend.readings import ORIGINS, REASONS, Flag
from sensormend.recovery import Fault, Recovery

SLOTS = 24
FIRST_SLOT = 10 * SLOTS


def placed_of(value: NDArray[np.float64], **more: NDArray[np.bool_]) -> Placed:
    """Readings that came one per slot, NaN for none."""
    flat = value.reshape(-1, value.shape[2])
    nothing = np.zeros(flat.shape, dtype=bool)
    known = {"filled": nothing, "coded": nothing, "contradictory": nothing, "implausible": nothing} | {
        name: cells.reshape(flat.shape) for name, cells in more.items()
    }
    empty: Any = np.zeros(0, dtype=np.int64)
    return Placed(flat, np.isfinite(flat).astype(np.int32), **known, cell=empty, no_number=empty > 0, fill=empty > 0,
                  beyond=empty > 0, repeated=empty > 0)  # fmt: skip


def recovery_of(
    value: NDArray[np.float64],
    wrong: NDArray[np.bool_] | None = None,
    doubtful: NDArray[np.bool_] | None = None,
    spikes: NDArray[np.bool_] | None = None,
    corrected: NDArray[np.bool_] | None = None,
    faults: Sequence[Fault] = (),
    reason: str = "",
    evaluated: bool = True,
) -> Recovery:
    """What a model could say of readings whose estimate is 5 everywhere, and whose fault is an offset of 3."""
    nothing, fibers = np.zeros(value.shape, dtype=bool), np.zeros(value.shape[:2], dtype=bool)
    wrong = nothing if wrong is None else wrong
    doubtful = nothing if doubtful is None else doubtful
    corrected = nothing if corrected is None else corrected
    cleaned = np.where(corrected, value - 3.0, np.where(np.isnan(value) | wrong, 5.0, value))
    return Recovery(
        expected=np.full(value.shape, 5.0),
        outliers=np.where(wrong, value - 5.0, 0.0),
        wrong=wrong,
        doubtful=doubtful,
        spikes=nothing if spikes is None else spikes,
        corrected=corrected,
        cleaned=cleaned,
        lower=cleaned - 1.0,
        upper=cleaned + 1.0,
        # Verdicts on fibers are a summary: that they say the contrary here must not matter.
        faulty=np.asarray(~wrong.any(axis=2)),
        suspect=np.asarray(~doubtful.any(axis=2)),
        evaluated=fibers | evaluated,
        score=np.ones(fibers.shape),
        reason=np.full(fibers.shape, reason),
        faults=tuple(faults),
        iterations=1,
    )


def fault(sensor: str, kind: str, start: int, end: int | None, variable: int = 0, number: int = 0) -> Fault:
    """An episode from a slot of the period to another one of it."""
    last = None if end is None else FIRST_SLOT + end
    return Fault(number, sensor, variable, kind, FIRST_SLOT + start, last, 2.0, 0.0, 0.97)


def words(cells: Verdicts, sensor: int = 0, variable: int = 0) -> list[str]:
    return [REASONS[code] for code in cells.reason[sensor, variable].tolist()]


def at(shape: tuple[int, ...], sensor: int, slots: slice, variable: int = 0) -> NDArray[np.bool_]:
    cells = np.zeros(shape, dtype=bool)
    cells[sensor, variable, slots] = True
    return cells


VALUE = 10.0 + np.arange(2 * 2 * SLOTS, dtype=np.float64).reshape(2, 2, SLOTS)


def judged(recovery: Recovery, value: NDArray[np.float64] = VALUE, **more: Any) -> Verdicts:
    seen = np.isfinite(value)
    return judge(recovery, placed_of(value), seen, labels=("a", "b"), first_slot=FIRST_SLOT, **more)


def test_readings_before_noon_stay_good_when_a_sensor_breaks_at_noon() -> None:
    wrong = at(VALUE.shape, 1, slice(12, None))
    cells = judged(recovery_of(VALUE, wrong, faults=[fault("b", "offset", 12, None)]))
    assert cells.flag[1, 0].tolist() == [1] * 12 + [4] * 12
    assert words(cells, 1) == [""] * 12 + ["offset"] * 12
    assert cells.origin[1, 0].tolist() == [1] * 12 + [2] * 12
    np.testing.assert_array_equal(cells.cleaned[1, 0, :12], VALUE[1, 0, :12])
    assert set(cells.flag[0].ravel()) == set(cells.flag[1, 1]) == {Flag.GOOD}
    assert not cells.reason[0].any()


def test_a_reading_with_its_fault_taken_out_is_wrong_and_corrected() -> None:
    wrong, corrected = at(VALUE.shape, 1, slice(6, None)), at(VALUE.shape, 1, slice(12, None))
    recovery = recovery_of(VALUE, wrong, corrected=corrected, faults=[fault("b", "offset", 6, None)])
    cells = judged(recovery)
    assert cells.flag[1, 0].tolist() == [1] * 6 + [4] * 18
    assert [ORIGINS[code] for code in cells.origin[1, 0]] == ["observed"] * 6 + ["estimated"] * 6 + ["corrected"] * 12
    np.testing.assert_array_equal(cells.cleaned[1, 0, 12:], VALUE[1, 0, 12:] - 3.0)
    np.testing.assert_array_equal(cells.lower[1, 0, 12:], VALUE[1, 0, 12:] - 4.0)
    np.testing.assert_array_equal(cells.upper[1, 0, 12:], VALUE[1, 0, 12:] - 2.0)
    real = judged(recovery, real=at(VALUE.shape, 1, slice(20, None)))
    assert [ORIGINS[code] for code in real.origin[1, 0, 18:22]] == ["corrected"] * 2 + ["observed"] * 2
    np.testing.assert_array_equal(real.cleaned[1, 0, 20:], VALUE[1, 0, 20:])


def test_several_episodes_of_one_fiber_each_give_their_kind() -> None:
    wrong = at(VALUE.shape, 0, slice(0, 20), variable=1)
    faults = [
        fault("a", "stuck", -30, 4, variable=1, number=3),
        fault("a", "drift", 5, 12, variable=1, number=4),
        fault("a", "gain", 13, 16, variable=0, number=5),
        fault("c", "noise", 0, None, variable=1, number=6),
    ]
    cells = judged(recovery_of(VALUE, wrong, faults=faults, reason="implausible"))
    # What no episode covers has the reason of its fiber; those of other channels and sensors do not count.
    assert words(cells, 0, 1) == ["stuck"] * 5 + ["drift"] * 8 + ["implausible"] * 7 + [""] * 4
    assert not cells.reason[0, 0].any()


def test_of_episodes_that_overlap_the_one_begun_last_says_why() -> None:
    wrong = at(VALUE.shape, 0, slice(0, 8))
    faults = [fault("a", "spike", 3, 3, number=1), fault("a", "offset", -50, None)]
    cells = judged(recovery_of(VALUE, wrong, faults=faults))
    assert words(cells)[:9] == ["offset"] * 3 + ["spike"] + ["offset"] * 4 + [""]


def test_a_doubtful_reading_is_suspect_and_not_replaced() -> None:
    doubtful = at(VALUE.shape, 0, slice(6, 9))
    cells = judged(recovery_of(VALUE, doubtful=doubtful, faults=[fault("a", "drift", 6, None)]))
    assert cells.flag[0, 0].tolist() == [1] * 6 + [3] * 3 + [1] * 15
    assert words(cells)[5:10] == ["", "drift", "drift", "drift", ""]
    assert set(cells.origin.ravel()) == {1}
    np.testing.assert_array_equal(cells.cleaned, VALUE)


def test_an_offset_below_the_resolution_is_doubtful_only() -> None:
    wrong = at(VALUE.shape, 0, slice(6, 12))
    recovery = recovery_of(VALUE, wrong, corrected=wrong, faults=[fault("a", "offset", 6, 11)])
    for resolution, flag in ((2.1, 3), (1.9, 4), (np.nan, 4)):
        cells = judged(recovery, resolution=np.full(VALUE.shape[:2], resolution))
        assert cells.flag[0, 0].tolist() == [1] * 6 + [flag] * 6 + [1] * 12
        assert words(cells)[6:12] == ["offset"] * 6
        assert (cells.lower[0, 0, 6:12] <= VALUE[0, 0, 6:12] - 3).all()
    coarse = judged(recovery, resolution=np.full(VALUE.shape[:2], 2.1))
    np.testing.assert_array_equal(coarse.cleaned, VALUE)
    assert set(coarse.origin.ravel()) == {1}
    np.testing.assert_array_equal(coarse.upper[0, 0, 6:12], VALUE[0, 0, 6:12])
    stuck = recovery_of(VALUE, wrong, faults=[fault("a", "stuck", 6, 11)])
    assert 4 in judged(stuck, resolution=np.full(VALUE.shape[:2], 2.1)).flag


def test_spikes_are_called_so_and_nothing_around_them_is() -> None:
    spikes = at(VALUE.shape, 0, slice(7, 8))
    cells = judged(recovery_of(VALUE, spikes, spikes=spikes, reason="alone", evaluated=False))
    assert words(cells) == ["alone"] * 7 + ["spike"] + ["alone"] * 16
    assert cells.flag[0, 0].tolist() == [2] * 7 + [4] + [2] * 16


@pytest.mark.parametrize("reason", ["", "alone", "offset"])
def test_good_readings_have_no_reason(reason: str) -> None:
    good = judged(recovery_of(VALUE, reason=reason))
    assert set(good.flag.ravel()) == {1}
    assert not good.reason.any()
    unjudged = judged(recovery_of(VALUE, reason=reason, evaluated=False))
    assert set(unjudged.flag.ravel()) == {2}
    assert {REASONS[code] for code in unjudged.reason.ravel()} == {"alone" if reason == "alone" else ""}


def test_what_did_not_come_is_missing_also_within_an_episode() -> None:
    value = VALUE.copy()
    value[0, 0, 4:6] = np.nan
    value[1] = np.nan
    wrong = at(VALUE.shape, 0, slice(0, 12)) & np.isfinite(value)
    cells = judged(
        recovery_of(value, wrong, faults=[fault("a", "offset", 0, 11), fault("b", "offset", -9, None)]), value
    )
    assert cells.flag[0, 0].tolist() == [4] * 4 + [9] * 2 + [4] * 6 + [1] * 12
    assert words(cells)[3:7] == ["offset", "", "", "offset"]
    assert set(words(cells, 1)) == {"silent"}
    assert cells.origin[0, 0].tolist() == [2] * 12 + [1] * 12


def test_people_and_limits_go_before_the_model() -> None:
    wrong = at(VALUE.shape, 0, slice(None))
    real, hidden = at(VALUE.shape, 0, slice(0, 6)), at(VALUE.shape, 0, slice(6, 12))
    beyond, twice = at(VALUE.shape, 0, slice(12, 15)), at(VALUE.shape, 1, slice(0, 2))
    seen = np.isfinite(VALUE) & ~hidden & ~beyond
    placed = placed_of(VALUE, implausible=beyond, contradictory=twice)
    recovery = recovery_of(VALUE, wrong & seen, faults=[fault("a", "noise", 0, None)])
    cells = judge(recovery, placed, seen, hidden, real, labels=("a", "b"), first_slot=FIRST_SLOT)
    assert cells.flag[0, 0].tolist() == [1] * 6 + [2] * 6 + [4] * 12
    assert words(cells) == [""] * 12 + ["implausible"] * 3 + ["noise"] * 9
    np.testing.assert_array_equal(cells.cleaned[0, 0, :6], VALUE[0, 0, :6])
    assert cells.origin[0, 0].tolist() == [1] * 6 + [2] * 18
    assert cells.flag[1, 0].tolist() == [3] * 2 + [1] * 22
    assert words(cells, 1)[:3] == ["duplicate", "duplicate", ""]


def test_equal_readings_are_stuck_while_the_others_change() -> None:
    value = np.full((2, 1, SLOTS), 85.0)
    value[1, 0] += np.arange(SLOTS) % 2
    wrong = np.ones(value.shape, dtype=bool)
    faults = [Fault(row, row, 0, "gain", FIRST_SLOT, None, -0.045, 0.1, 0.99) for row in range(2)]
    recovery = replace(
        recovery_of(value, wrong, faults=faults), expected=np.broadcast_to(np.linspace(5.0, 9.0, SLOTS), value.shape)
    )

    def renamed(resolution: float, recovery: Recovery = recovery) -> Recovery:
        steps = np.full((2, 1), resolution)
        return with_stuck(recovery, value, labels=(0, 1), first_slot=FIRST_SLOT, resolution=steps)

    stuck, gain = renamed(0.1).faults
    assert (stuck.kind, stuck.size, stuck.rate, stuck.confidence) == ("stuck", 85.0, 0.0, 0.99)
    assert (gain.kind, gain.size) == ("gain", -0.045)
    assert [fault.kind for fault in renamed(2.0).faults] == ["gain", "gain"], "a coarse sensor would show nothing of it"
    assert [fault.kind for fault in renamed(np.nan).faults] == ["gain", "gain"]
    few = wrong & (np.arange(SLOTS) < 2)
    assert renamed(0.1, replace(recovery, wrong=few)).faults[0].kind == "gain", "two equal readings are chance"
    flagged = judge(renamed(0.1), placed_of(value), np.isfinite(value), labels=(0, 1), first_slot=FIRST_SLOT)
    assert {REASONS[code] for code in flagged.reason[0, 0]} == {"stuck"}
    assert {REASONS[code] for code in flagged.reason[1, 0]} == {"gain"}
