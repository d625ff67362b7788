"""Counters, states and constants have no level that a fault could change: they pass through as they came."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sensormend import clean
from sensormend.pipeline.cleaner import InMemory, cleaner_for, walk
from sensormend.pipeline.options import Options
from sensormend.pipeline.survey import CONSTANT, COUNTER, STATE, WithoutLevel, survey_readings, without_level
from sensormend.readings import HOUR, Flag, Readings

HOURS = 24 * 40
RANDOM = np.random.default_rng(0)
CLOCK = np.arange(HOURS)
NOISE = RANDOM.normal(size=HOURS)
POWER = np.where(CLOCK % 24 < 8, 0.0, RANDOM.gamma(2, 2, HOURS))
WET = (CLOCK % 24 > 0) & (RANDOM.random(HOURS) < 0.3)
RAIN_OF_A_DAY = np.cumsum(np.where(WET, 0.2, 0.0).reshape(-1, 24), axis=1).reshape(-1).round(1)
TEMPERATURE = 15 + 6 * np.sin(CLOCK / 24 * 2 * np.pi) + 0.3 * NOISE


def channels(*values: np.ndarray) -> Readings:
    sensor = np.repeat(np.arange(len(values)), HOURS)
    time = np.tile(HOUR * CLOCK.astype(np.int64), len(values))
    names = tuple(f"s{number}" for number in range(len(values)))
    return Readings(names, ("x",), sensor, 0 * sensor, time, np.concatenate(values))


def frame(**values: np.ndarray) -> pd.DataFrame:
    time = pd.Timestamp("2023-01-01") + pd.to_timedelta(CLOCK, unit="h")
    return pd.concat([pd.DataFrame({"time": time, "sensor": name, "value": own}) for name, own in values.items()])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.cumsum(POWER), COUNTER),
        (np.round(np.cumsum(POWER) % 500, 1), COUNTER),
        (np.cumsum(POWER) - np.repeat(np.cumsum(POWER)[::240], 240), COUNTER),
        (np.cumsum(POWER) + 5 * NOISE, ""),
        (-50 + 0.01 * CLOCK + 0.3 * NOISE, ""),
        ((CLOCK % 24 > 6).astype(float), STATE),
        (np.where(CLOCK % 24 > 6, 21.5, 17.0) + np.where(CLOCK // 200 % 2, 0.5, 0.0), STATE),
        (np.round(TEMPERATURE), ""),
        (np.round(TEMPERATURE / 5) * 5, ""),
        (np.where(RANDOM.random(HOURS) < 0.05, 0.2, 0.0), ""),
        (np.full(HOURS, 7.0), CONSTANT),
        (RAIN_OF_A_DAY, COUNTER),
        (np.maximum.accumulate(np.where(CLOCK % 40 == 7, 0.2 * CLOCK, 0.0)).round(1), COUNTER),
    ],
)
def test_counters_states_and_constants_are_told_from_what_has_a_level(value: np.ndarray, kind: str) -> None:
    channels_of = without_level(channels(value))
    assert channels_of == (WithoutLevel((kind,)) if kind else None)


def test_a_day_is_too_short_to_tell() -> None:
    day = channels(np.cumsum(POWER)).taken(CLOCK < 24 * 5)
    assert without_level(day) is None


def test_one_of_many_is_named_and_of_most_the_variable_is_one() -> None:
    counter = np.cumsum(POWER)
    assert without_level(channels(TEMPERATURE, counter, TEMPERATURE + 1)) == WithoutLevel((COUNTER,), ("s1",))
    assert without_level(channels(*[counter * k for k in range(1, 6)], TEMPERATURE)) == WithoutLevel((COUNTER,))
    # Of gauges without rain nothing is known.
    dry = np.where(np.isin(CLOCK, (300, 301)), 0.2, 0.0)
    assert without_level(channels(RAIN_OF_A_DAY, 2 * RAIN_OF_A_DAY, dry)) == WithoutLevel((COUNTER,))
    # A sensor that stands still all the time beside others that move is broken, not a constant, unless the columns of a
    # table may be anything.
    still = channels(TEMPERATURE, np.full(HOURS, 7.0))
    assert without_level(still) is None
    assert without_level(still, is_table=True) == WithoutLevel((CONSTANT,), ("s1",))


def test_a_counter_that_begins_anew_and_a_pump_pass_through_beside_what_is_judged() -> None:
    meter, pump = np.round(np.cumsum(POWER) % 700, 1), np.where(CLOCK // 30 % 3 == 0, 1.0, 0.0)
    warm = TEMPERATURE.copy()
    warm[500] += 40
    result = clean(frame(meter=meter, pump=pump, temperature=warm, other=TEMPERATURE + 0.2 * RANDOM.normal(size=HOURS)))
    rows = result.data.set_index("sensor")
    for name in ("meter", "pump"):
        assert set(rows.loc[name, "flag"]) == {Flag.NOT_EVALUATED}
        np.testing.assert_array_equal(rows.loc[name, "cleaned"], rows.loc[name, "value"])
    assert rows.loc["temperature", "flag"].tolist()[500] == Flag.FAIL
    assert set(rows.loc["other", "flag"]) <= {Flag.GOOD, Flag.NOT_EVALUATED}
    assert not {"meter", "pump"} & set(result.faults["sensor"])


def test_ten_meters_that_begin_anew_are_not_impossible() -> None:
    result = clean(frame(**{f"m{k}": np.cumsum(POWER * k) % (300 * k) for k in range(1, 11)}))
    assert set(result.data["flag"]) == {Flag.NOT_EVALUATED}


def test_constants_are_not_wrong_beside_each_other() -> None:
    result = clean(frame(a=np.full(HOURS, 7.0), b=np.full(HOURS, 7.0), c=np.zeros(HOURS)))
    assert set(result.data["flag"]) == {Flag.NOT_EVALUATED}


def test_a_restored_cleaner_knows_them(tmp_path: Path) -> None:
    readings = channels(np.cumsum(POWER), TEMPERATURE)
    survey = survey_readings(readings, Options())
    assert survey.unjudged == {"x": WithoutLevel((COUNTER,), ("s0",))}
    assert "x of s0 is a counter: it is not judged" in survey.notes
    cleaner = cleaner_for(survey, ("x",), Options())
    periods = list(walk(InMemory(readings.taken(readings.time < 20 * 24 * HOUR), survey.grid), cleaner))
    assert {row.flag.tolist()[0] for row in (periods[-1].rows.taken(periods[-1].rows.sensor == 0),)} == {2}
    cleaner.save(tmp_path / "cleaner.npz")
    other = cleaner_for(survey_readings(channels(TEMPERATURE, TEMPERATURE), Options()), ("x",), Options())
    other.restore(tmp_path / "cleaner.npz")
    assert other._unjudged == {"x": ("s0",)}
