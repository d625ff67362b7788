"""The confidence of a fault is the share of such faults that owners confirm; its probability is the model's own."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from sensormend import NetworkModel
from sensormend.model import estimation
from sensormend.model.records import DRIFT, GAIN, NOISE, OFFSET, STUCK
from simulated_city import small_city

# Compiled, it can be called by compiled functions only; with NUMBA_DISABLE_JIT there is no `py_func`.
compiled_share = getattr(estimation.confirmed_share, "py_func", estimation.confirmed_share)
confirmed_share = partial(compiled_share, weight=estimation.TRUE_WEIGHT)


@pytest.mark.parametrize("kind", [OFFSET, DRIFT, NOISE])
def test_a_fault_is_confirmed_the_more_the_larger_it_is_and_the_more_others_tell(kind: int) -> None:
    """Of faults that few others predict, one in nine was confirmed at one standard deviation."""
    by_size = [confirmed_share(kind, sign * size, 2.0, 2.0, 0.2) for size, sign in ((2, 1), (7, -1), (16, 1), (60, 1))]
    assert by_size == pytest.approx([0.11, 0.50, 0.80, 0.97], abs=0.01)
    by_support = [confirmed_share(kind, 2.0, 2.0, support, 0.2) for support in (1.0, 3.0, 6.0, 12.0)]
    assert by_support == pytest.approx([0.11, 0.11, 0.50, 0.89], abs=0.01)
    by_error = [confirmed_share(kind, 2.0, 2.0, 3.0, eta) for eta in (0.5, 0.15, 0.075)]
    assert by_error == pytest.approx([0.11, 0.11, 0.50], abs=0.01)


def test_the_share_of_gains_and_stuck_readings_does_not_go_by_their_size() -> None:
    assert confirmed_share(STUCK, 1e-3, 1.0, 1.0, 0.2) == confirmed_share(STUCK, 900.0, 1.0, 12.0, 0.2) == 0.9
    gains = [confirmed_share(GAIN, size, 1.0, 2.0, 0.2) for size in (0.1, 3.0)]
    assert gains == pytest.approx([0.4, 0.4], abs=0.01)
    assert confirmed_share(OFFSET, 0.0, 1.0, 1.0, 0.2) > 0.0


def test_a_small_fault_has_a_lower_confidence_than_a_large_one_and_as_high_a_probability() -> None:
    truth = small_city(8, 30).truth
    spread = np.std(truth)
    strongest = {}
    for size in (4.0, 25.0):
        readings, model = truth.copy(), NetworkModel()
        readings[2, 6:18, 25] += size * spread
        faults = [fault for day in range(30) for fault in model.update(readings[..., day]).faults if fault.sensor == 2]
        strongest[size] = max(faults, key=lambda fault: fault.probability)
    assert all(fault.probability > 0.95 for fault in strongest.values())
    assert strongest[4.0].confidence < strongest[25.0].confidence


def test_what_many_others_tell_is_wrong_however_small_and_its_confidence_is_the_share_that_owners_confirm() -> None:
    """Twelve others decide that half a standard deviation is wrong; on its own chart hardly anyone would see it."""
    truth = small_city(30, 30).truth
    readings, model = truth.copy(), NetworkModel()
    readings[2, 6:18, 25] += 1.5 * np.std(truth)
    own = [fault for day in range(30) for fault in model.update(readings[..., day]).faults if fault.sensor == 2]
    fault = max(own, key=lambda fault: fault.probability)
    assert fault.kind in ("offset", "drift", "noise")
    assert fault.probability > 0.9
    assert 0.5 < fault.confidence < 0.85


@pytest.mark.parametrize("sensors", [2, 4])
def test_no_reading_of_a_doubtful_fault_is_wrong(sensors: int) -> None:
    """Also where it has one or two readings, which makes it a spike."""
    random, slots, days = np.random.default_rng(0), 96, 40
    steps = random.normal(0, 0.1, (sensors + 1, days * slots)) * np.append(np.full(sensors, 0.5), 1.0)[:, None]
    course = np.zeros(steps.shape)
    for t in range(1, days * slots):
        course[:, t] = 0.97 * course[:, t - 1] + steps[:, t]
    series = 10 + course[:-1] + course[-1]
    for line in series:
        for t in random.integers(5 * slots, days * slots - 5, 60).tolist():
            line[t : t + int(random.integers(1, 3))] += 1.5 * random.uniform(-1, 1)
    model, n_doubtful = NetworkModel(), 0
    for day in range(days):
        result = model.update(series[:, day * slots : (day + 1) * slots].round(2))
        for fault in result.faults:
            begin = max(0, fault.start - day * slots)
            end = slots if fault.end is None else fault.end - day * slots + 1
            if fault.confidence < 0.5 and begin < end:
                n_doubtful += 1
                assert not result.wrong[int(fault.sensor), begin:end].any()
    assert n_doubtful > 3
