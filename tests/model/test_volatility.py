"""How rough the residual of a sound channel is, from period to period, and what a fault must exceed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from networks import fault_free
from sensormend import NetworkModel

SENSORS, SLOTS, PERIODS = 12, 24, 160


def network(volatility: float, seed: int = 3) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a network of common weather whose noise has another size every day, log normal, in every channel."""
    random = np.random.default_rng(seed)
    hours = np.arange(SLOTS * PERIODS)
    common = 10 + 5 * np.sin(2 * np.pi * hours / SLOTS) + lfilter([0.6], [1, -0.98], random.normal(size=hours.size))
    size = 0.3 * np.exp(volatility * random.normal(size=(SENSORS, PERIODS))).repeat(SLOTS, axis=1)
    readings = common + size * random.normal(size=(SENSORS, hours.size))
    return readings.reshape(SENSORS, PERIODS, SLOTS).transpose(0, 2, 1)


def learned(readings: np.ndarray[Any, np.dtype[np.float64]], folder: Path, name: str) -> np.ndarray[Any, Any]:
    """Return what a model that has seen the readings has saved under a name."""
    model = NetworkModel()
    model.recover(readings)
    model.save(folder / "state.npz")
    with np.load(folder / "state.npz") as saved:
        return np.asarray(saved[name])


def spread(readings: np.ndarray[Any, np.dtype[np.float64]], folder: Path) -> float:
    return float(learned(readings, folder, "variable_stats")["volatility"][0])


@pytest.mark.parametrize("volatility", [0.3, 0.6, 1.0])
def test_the_volatility_is_the_standard_deviation_of_the_log_of_a_periods_roughness(
    tmp_path: Path, volatility: float
) -> None:
    assert spread(network(volatility), tmp_path) == pytest.approx(volatility, rel=0.35)


def test_faults_in_a_tenth_of_the_periods_do_not_teach_it(tmp_path: Path) -> None:
    readings = network(0.4)
    random = np.random.default_rng(1)
    faulty = readings.copy()
    for sensor in range(SENSORS):
        faulty[sensor][:, random.random(PERIODS) < 0.1] += 20
    assert spread(faulty, tmp_path) == pytest.approx(spread(readings, tmp_path), rel=0.35)


def test_a_rough_period_of_a_volatile_channel_is_not_wrong_and_of_a_calm_one_is() -> None:
    """The same rough days, five times the usual noise, in networks that know them and that do not."""
    shares = []
    for volatility in (0.15, 1.0):
        readings = network(volatility)
        noise = np.random.default_rng(5).normal(0, 5 * 0.3, (SLOTS, 5))
        readings[4][:, 120:160:8] += noise
        result = NetworkModel().recover(readings)
        shares.append(result.faulty[4, 120:160:8].mean())
    assert shares[0] >= 0.8
    assert shares[1] <= 0.2


def test_a_second_moment_stays_within_what_the_range_allows(tmp_path: Path) -> None:
    readings = fault_free(14, 120, seed=2).copy()
    readings[3, :, 5:] = np.random.default_rng(0).choice([-900.0, 900.0], (SLOTS, 115))
    moments = learned(readings, tmp_path, "moments")
    assert np.isfinite(moments).all()
    assert moments[..., np.arange(14), np.arange(14)].max() < 1e3
