"""Times are exact to the slot on a clock that single precision cannot count: a century of minutes is 2^25.6 slots."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from checks import state
from networks import Floats, update_all
from sensormend import NetworkModel
from sensormend.recovery import Recovery

LEARNED, DAYS = 20, 50
TURN = 6
"""Periods after which the model does the same again: what it tries alternates, and so do the readings it hides."""


def spoilt(slots: int) -> Floats:
    """Readings (sensor, slot, day) with an offset, a drift, a stuck sensor and a small step, none at a day's start."""
    random = np.random.default_rng(3)
    length, onset = slots * DAYS, slots * LEARNED
    weather = lfilter([1.0], [1.0, -0.99], random.normal(0, 0.5, length))
    own = lfilter([1.0], [1.0, -0.8], random.normal(0, 0.1, (10, length)))
    day = 5 * np.sin(2 * np.pi * np.arange(length) / slots)
    readings = np.asarray(15 + day + weather + own + random.normal(0, 0.1, own.shape))
    readings[3, onset + slots * 7 // 10 : onset + slots * 20] += 5
    readings[5, onset + slots * 10 // 3 : onset + slots * 7 // 2] = 15
    readings[6, onset + slots * 21 // 5 :] += 0.6
    drifting = slice(onset + slots * 36 // 7, onset + slots * 25)
    readings[7, drifting] += np.linspace(0, 6, drifting.stop - drifting.start)
    return readings.reshape(-1, DAYS, slots).transpose(0, 2, 1)


def later(model: NetworkModel, periods: int, folder: Path) -> NetworkModel:
    """Return a model that knows the same, many periods later."""
    arrays = state(model, folder)
    header = json.loads(str(arrays["header"]))
    header["settings"]["state"]["clock"] += periods
    np.savez(folder / "later.npz", **{**arrays, "header": np.array(json.dumps(header))})
    return NetworkModel.load(folder / "later.npz")


@pytest.mark.parametrize("slots", [24, 288])
def test_a_clock_beyond_single_precision_is_exact(slots: int, tmp_path: Path) -> None:
    readings = spoilt(slots)
    early = NetworkModel()
    update_all(early, readings[..., :LEARNED])
    # Nothing that is open ties the later model to the earlier clock.
    early.rewind()
    periods = TURN * (2**24 // (TURN * slots) + 1)
    late = later(early, periods, tmp_path)
    count = 0
    for day in range(LEARNED, DAYS):
        if day == LEARNED + 15:
            late.save(tmp_path / "state.npz")
            late = NetworkModel.load(tmp_path / "state.npz")
        one, other = early.update(readings[..., day]), late.update(readings[..., day])
        assert_same_but_later(one, other, periods * slots)
        count += len(other.faults)
        assert all(fault.start > 2**24 for fault in other.faults)
    assert count > DAYS - LEARNED, "the faults last for weeks"


def assert_same_but_later(early: Recovery, late: Recovery, slots: int) -> None:
    """Assert that two recoveries are equal to the bit, but for the times of their faults."""
    for field in fields(Recovery):
        if field.name != "faults":
            one, other = getattr(early, field.name), getattr(late, field.name)
            np.testing.assert_array_equal(one, other, err_msg=field.name)
    shifted = [
        replace(fault, start=fault.start + slots, end=None if fault.end is None else fault.end + slots)
        for fault in early.faults
    ]
    assert shifted == list(late.faults)
