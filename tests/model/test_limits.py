"""The end of what a probe can measure, and what was never seen before, are no faults of what comes there by steps."""

import numpy as np
import pytest

from sensormend import NetworkModel

DAYS, SLOTS = 50, 24


def run(series: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return which readings of (sensor, slot of all days) are wrong, and the kinds of the faults."""
    model, wrong, kinds = NetworkModel(), [], set()
    for day in range(series.shape[1] // SLOTS):
        result = model.update(series[:, day * SLOTS : (day + 1) * SLOTS])
        wrong.append(result.wrong)
        kinds |= {fault.kind for fault in result.faults}
    return np.concatenate(wrong, axis=1), sorted(kinds)


def saturating() -> np.ndarray:
    """Three probes of unlike places that end at 100, for days at a time."""
    random, hours = np.random.default_rng(1), np.arange(DAYS * SLOTS)
    swings = [60 + 60 * np.sin(hours / 24 * 2 * np.pi / length + phase) for length, phase in ((9, 0), (11, 2), (13, 4))]
    noise = random.normal(0, 1.0, (3, hours.size))
    return np.minimum(np.round(np.maximum(np.array(swings) + noise, 3 + np.abs(noise)), 1), 100)


def test_a_probe_at_the_end_of_what_it_can_measure_is_not_stuck() -> None:
    series = saturating()
    wrong, _ = run(series)
    # Until the first probe was there the end is not known.
    later = np.arange(DAYS * SLOTS) >= 15 * SLOTS
    assert (series[:, later] == 100).mean() > 0.2
    assert wrong[:, later].mean() < 0.01


def test_one_that_jumps_there_among_probes_that_agree_is_wrong() -> None:
    random, hours = np.random.default_rng(3), np.arange(DAYS * SLOTS)
    course = 50 + 25 * np.sin(hours / 24 * 2 * np.pi / 9) + 15 * np.sin(hours / 24 * 2 * np.pi)
    series = np.minimum(np.round(course + random.normal(0, 1.0, (3, hours.size)), 1), 80)
    begin = int(np.flatnonzero((course < 30) & (hours > 30 * SLOTS))[0])
    series[0, begin : begin + 2 * SLOTS] = 80
    wrong, _ = run(series)
    assert wrong[0, begin : begin + 2 * SLOTS].mean() > 0.5


@pytest.mark.parametrize("hours", [48, 1])
def test_a_flood_of_a_lone_channel_comes_by_steps_and_a_fault_jumps(hours: int) -> None:
    random, time = np.random.default_rng(2), np.arange(DAYS * SLOTS)
    level = 1.0 + 0.1 * np.sin(time / 24 * 2 * np.pi) + 0.02 * random.normal(size=time.size)
    begin = 35 * SLOTS
    rise = np.clip((time - begin) / hours, 0, 1) * np.exp(-np.clip(time - begin - hours, 0, None) / 200)
    wrong, _ = run((level + 2.0 * rise)[None])
    share = wrong[0, begin : begin + 5 * SLOTS].mean()
    assert share < 0.02 if hours > 1 else share > 0.5
