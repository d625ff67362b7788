"""The end of what a probe can measure, and what was never seen before, are no faults of what comes there by steps."""

import numpy as np
import pytest
from scipy.signal import lfilter

from sensormend import NetworkModel

DAYS, SLOTS = 50, 24


def run(series: np.ndarray, slots: int = SLOTS) -> tuple[np.ndarray, list[str]]:
    """Return which readings of (sensor, slot of all days) are wrong, and the kinds of the faults."""
    model, wrong, kinds = NetworkModel(), [], set()
    for day in range(series.shape[1] // slots):
        result = model.update(series[:, day * slots : (day + 1) * slots])
        wrong.append(result.wrong)
        kinds |= {fault.kind for fault in result.faults}
    return np.concatenate(wrong, axis=1), sorted(kinds)


def saturating() -> np.ndarray:
    """Three probes of places that agree in part, and end at 10 for days at a time."""
    random, keep = np.random.default_rng(1), np.exp(-1 / 100)

    def noise() -> np.ndarray:
        return lfilter([np.sqrt(1 - keep * keep)], [1, -keep], random.normal(size=60 * SLOTS))

    common = noise()
    series = [9 + 2 * common + 1.6 * noise() + 0.05 * random.normal(size=common.size) for _ in range(3)]
    return np.minimum(np.round(np.maximum(series, 2), 1), 10)


def test_a_probe_at_the_end_of_what_it_can_measure_is_not_stuck() -> None:
    series = saturating()
    wrong, kinds = run(series)
    assert (series == 10).mean() > 0.2
    assert wrong.mean() < 0.01
    assert "stuck" not in kinds


def test_one_that_jumps_there_among_probes_that_agree_is_wrong() -> None:
    random, hours = np.random.default_rng(3), np.arange(DAYS * SLOTS)
    course = 50 + 25 * np.sin(hours / 24 * 2 * np.pi / 9) + 15 * np.sin(hours / 24 * 2 * np.pi)
    series = np.minimum(np.round(course + random.normal(0, 1.0, (3, hours.size)), 1), 80)
    begin = int(np.flatnonzero((course < 30) & (hours > 30 * SLOTS))[0])
    series[0, begin : begin + 2 * SLOTS] = 80
    wrong, _ = run(series)
    assert wrong[0, begin : begin + 2 * SLOTS].mean() > 0.5


@pytest.mark.parametrize("hours", [48, 1, 0])
def test_a_flood_of_a_lone_channel_comes_by_steps_and_a_fault_jumps(hours: int) -> None:
    """A brook rises within an hour, by several readings; what is there from one reading to the next has jumped."""
    slots = 96
    random, time = np.random.default_rng(2), np.arange(DAYS * slots)
    level = 1.0 + 0.1 * np.sin(time / slots * 2 * np.pi) + 0.005 * random.normal(size=time.size)
    since, rising = time - 35 * slots, max(hours * slots / 24, 1e-9)
    flood = np.clip(since / rising, 0, 1) * np.exp(-np.clip(since - rising, 0, None) / (8 * slots))
    wrong, _ = run((level + 2.0 * flood)[None], slots)
    share = wrong[0, (since >= 0) & (since < 5 * slots)].mean()
    assert share < 0.02 if hours else share > 0.5


def test_dry_soil_of_a_lone_probe_gets_wet_within_hours() -> None:
    random, hours = np.random.default_rng(0), np.arange(120 * SLOTS)
    soil = 0.14 + 0.004 * np.sin(hours / 24 * 2 * np.pi) + 0.0005 * random.normal(size=hours.size)
    rain = 60 * SLOTS + 5
    soil[rain : rain + 2] += 0.055, 0.11
    soil[rain + 2 :] += 0.14 * np.exp(-np.arange(hours.size - rain - 2) / (60 * 24))
    wrong, _ = run(np.round(soil, 3)[None])
    assert not wrong.any()


@pytest.mark.parametrize("swing", [0.0004, 0.002])
def test_a_slow_channel_stands_still_for_days_within_a_step_of_what_the_others_say(swing: float) -> None:
    random, hours = np.random.default_rng(0), np.arange(60 * SLOTS)
    common = np.sin(hours / 24 / 9)
    near = [0.2 + 0.03 * k + 0.004 * common + 0.0005 * random.normal(size=hours.size) for k in range(4)]
    wrong, _ = run(np.round([*near, 0.3224 + swing * common], 3))
    assert not wrong.any()


@pytest.mark.parametrize("plateaus", [None, [(-0.12, 0.12)]])
def test_water_that_freezes_is_not_wrong(plateaus: list[tuple[float, float] | None] | None) -> None:
    """The others say that it should be colder than ice."""
    random, hours = np.random.default_rng(0), np.arange(SLOTS)
    model, wrong = NetworkModel(plateaus=plateaus), 0
    for day in range(50):
        level = 4 + 2 * np.sin(day / 4) if day < 44 else 1.5
        water = level + 1.5 * np.sin((hours - 9) / SLOTS * 2 * np.pi) + np.linspace(0, 1, 8)[:, None]
        water += 0.1 * random.normal(size=(8, SLOTS))
        water[0] = np.maximum(water[0] - 2, 0)
        wrong += int(model.update(np.round(water, 2)).wrong.sum())
    assert (water[0] == 0).sum() > 10
    assert wrong == 0


def test_water_that_freezes_slowly_stands_still_at_its_plateau_and_is_not_stuck() -> None:
    def kinds(plateaus: list[tuple[float, float] | None] | None) -> set[str]:
        random, hours = np.random.default_rng(0), np.arange(SLOTS)
        model, seen = NetworkModel(plateaus=plateaus), set()
        for day in range(50):
            level = 4 + 2 * np.sin(day / 4) if day < 44 else 2.0
            water = level + 0.3 * np.sin((hours - 9) / SLOTS * 2 * np.pi) + np.linspace(0, 1, 8)[:, None]
            water += 0.1 * random.normal(size=(8, SLOTS))
            water[0] = np.maximum(water[0] - 2, 0)
            if day >= 44:
                water[0, water[0] < 0.5] = 0
            seen |= {fault.kind for fault in model.update(np.round(water, 2)).faults}
        return seen

    assert kinds(None) == {"stuck"}
    assert kinds([(-0.12, 0.12)]) == set()


@pytest.mark.parametrize(("level", "is_wrong"), [(3.0, False), (15.0, True)])
def test_a_channel_that_stands_still_is_stuck_unless_the_others_would_have_it_there(
    level: float, is_wrong: bool
) -> None:
    """Clean air, to whole units."""
    random, hours = np.random.default_rng(1), np.arange(SLOTS)
    model, wrong = NetworkModel(), 0
    for day in range(45):
        air = 30 + 15 * np.sin(day / 3) + 10 * np.sin(hours / SLOTS * 2 * np.pi) + 2 * random.normal(size=(8, SLOTS))
        if day >= 40:
            air = 3 + 0.7 * random.normal(size=(8, SLOTS))
        air = np.round(np.maximum(air, 0))
        if day >= 40:
            air[0] = level
        result = model.update(air)
        wrong += int(result.wrong[0].sum()) if day >= 40 else 0
    assert (wrong > 3 * SLOTS) == is_wrong
    assert wrong == 0 or is_wrong
