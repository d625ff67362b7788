"""Faults that last are found, followed, corrected, and end when they end."""

from __future__ import annotations

import numpy as np
import pytest

import hostile
from networks import Floats, sound
from sensormend import AutoOLRTR, Recovery

SENSORS, DAYS, SLOTS = 16, 170, 24
BEGIN, END = 80, 150
WHO = 5


def spoilt(offset: float = 0.0, rate: float = 0.0, seed: int = 3) -> tuple[Floats, Floats]:
    """Return readings of which one sensor is off from noon of day BEGIN to the morning of day END, and the truth."""
    truth = sound(SENSORS, DAYS, seed=seed)
    line = np.moveaxis(truth, 1, 2).reshape(SENSORS, -1).copy()
    first, last = BEGIN * SLOTS + 12, END * SLOTS + 6
    line[WHO, first:last] += offset + rate * np.arange(last - first) / SLOTS
    return np.moveaxis(line.reshape(SENSORS, DAYS, SLOTS), 2, 1), truth


def through(readings: Floats, model: AutoOLRTR | None = None) -> Recovery:
    model = AutoOLRTR() if model is None else model
    return Recovery.stack([model.update(readings[..., day]) for day in range(readings.shape[-1])])


def rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def test_a_steady_offset_is_corrected_closer_than_estimated() -> None:
    readings, truth = spoilt(offset=5.0)
    result = through(readings)
    inside = (WHO, slice(None), slice(BEGIN + 10, END))
    assert result.wrong[inside].mean() > 0.99
    assert result.corrected[inside].mean() > 0.9
    assert rms((result.cleaned - truth)[inside]) < 0.6 * rms((result.low_rank - truth)[inside])
    lower, upper = result.lower, result.upper
    assert lower is not None
    assert upper is not None
    assert np.mean((lower <= truth)[inside] & (truth <= upper)[inside]) > 0.8
    assert result.wrong[WHO, 8:, END].sum() + result.wrong[WHO, :, END + 1 :].sum() == 0, "sound at once when it ends"
    (fault,) = [fault for fault in result.faults if fault.sensor == WHO and fault.kind == "offset"][:1]
    assert abs(fault.start - (BEGIN * SLOTS + 12)) <= 2
    assert fault.size == pytest.approx(5.0, abs=1.2)
    others = np.delete(np.arange(SENSORS), WHO)
    assert result.wrong[others].mean() < 0.002


def test_a_drift_is_found_followed_and_over_when_repaired() -> None:
    readings, truth = spoilt(rate=0.15)
    result = through(readings)
    found = np.flatnonzero(result.wrong[WHO].mean(axis=0) > 0.5)
    assert BEGIN < found[0] < BEGIN + 35
    assert result.wrong[WHO, :, found[0] + 1 : END].mean() > 0.95
    last = slice(END - 15, END)
    assert rms((result.cleaned - truth)[WHO, :, last]) < 0.25 * rms((readings - truth)[WHO, :, last])
    assert result.wrong[WHO, :, END + 1 :].mean() < 0.02, "no sound day pays for the fault before it"
    at_the_end = [fault for fault in result.faults if fault.sensor == WHO and fault.end is not None][-1]
    assert at_the_end.start < found[0] * SLOTS, "its start is dated back"
    assert at_the_end.size == pytest.approx(0.15 * (END - BEGIN), rel=0.3)


def test_silence_closes_nothing() -> None:
    readings, _ = spoilt(offset=5.0)
    readings[WHO, :, 100:120] = np.nan
    result = through(readings)
    assert result.wrong[WHO, :, 120:140].mean() > 0.99
    back = {fault.id for fault in result.faults if fault.sensor == WHO and fault.start < 100 * SLOTS}
    assert len(back) == 1, "one fault, before and after"


def test_seasons_are_no_faults() -> None:
    readings = hostile.seasons(days=900)
    result = through(readings)
    lasting = [
        fault for fault in result.faults
        if (fault.end if fault.end is not None else 900 * SLOTS) - fault.start >= 14 * SLOTS
    ]  # fmt: skip
    assert len({(fault.sensor, fault.start) for fault in lasting}) <= len(readings) * 900 / 3652
    assert (result.wrong | result.doubtful).mean() < 0.02


def test_a_lone_sensor_that_stands_still_or_shows_what_never_was() -> None:
    line = np.moveaxis(sound(1, 120, seed=2), 1, 2).reshape(-1).copy()
    line[60 * SLOTS : 63 * SLOTS] = line[60 * SLOTS]
    line[90 * SLOTS + 3 : 91 * SLOTS] = 75.0
    result = through(np.moveaxis(line.reshape(1, 120, SLOTS), 2, 1))
    assert result.wrong[0, :, 60:63].mean() > 0.95
    assert result.wrong[0, 3:, 90].all()
    rest = np.ones(120, dtype=bool)
    rest[[60, 61, 62, 90]] = False
    assert (result.wrong | result.doubtful)[0][:, rest].mean() < 0.02


@pytest.mark.parametrize("sensors", [1, 3, 8])
def test_a_wrong_day_of_daily_data_leaves_everything_finite(sensors: int) -> None:
    days = sound(sensors, 200, seed=6).mean(axis=1, keepdims=True)
    days[0, 0, 150] = 80.0
    model = AutoOLRTR()
    result = through(days, model)
    assert np.isfinite(result.cleaned).all()
    assert result.wrong[:, :, 10:].mean() < 0.02
    if sensors > 3:
        assert result.wrong[0, 0, 150]
        assert abs(result.cleaned[0, 0, 150] - 80) > 30
