"""The grid and the fill values, found from readings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sensormend.errors import ConfigError, InputError
from sensormend.pipeline.options import Options
from sensormend.pipeline.survey import STEPS, fill_values, survey_readings, survey_start
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings
from simulated_city import START, city_readings


def course(times: list[np.ndarray], seed: int = 0) -> Readings:
    """One sensor per array of times."""
    random = np.random.default_rng(seed)
    sensor = np.repeat(np.arange(len(times)), [len(own) for own in times])
    time = np.concatenate(times).astype(np.int64)
    names = tuple(f"s{number}" for number in range(len(times)))
    return Readings(names, ("",), sensor, sensor * 0, time, random.normal(size=time.size))


def ticks(step: int, days: float, phase: int = 0) -> np.ndarray:
    return START + phase + np.arange(int(days * DAY / step), dtype=np.int64) * step


@pytest.mark.parametrize("step", [5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR])
def test_the_step_is_found_and_the_period_is_a_day(step: int) -> None:
    grid = survey_readings(course([ticks(step, 20)] * 3), Options()).grid
    assert (grid.step, grid.period, grid.early) == (step, DAY, 0)


def test_daily_readings_have_a_week() -> None:
    grid = survey_readings(course([ticks(DAY, 200)] * 3), Options()).grid
    assert (grid.step, grid.period) == (DAY, 7 * DAY)


@pytest.mark.parametrize(("period", "noted"), [("3h", True), ("36h", True), ("1d", False), ("7d", False)])
def test_a_period_that_is_not_a_number_of_days_is_noted(period: str, noted: bool) -> None:
    survey = survey_readings(course([ticks(HOUR, 20)] * 3), Options.of(period=period))
    assert any(period in note for note in survey.notes) == noted
    # Whether a short recording repeats every day is not known.
    short = survey_readings(course([ticks(MINUTE, 0.5)] * 3), Options.of(period=period))
    assert not any(period in note for note in short.notes)


def test_a_short_fast_recording_has_a_shorter_period() -> None:
    grid = survey_readings(course([ticks(10 * SECOND, 0.5)] * 3), Options()).grid
    assert (grid.step, grid.period) == (15 * SECOND, HOUR)


def test_readings_finer_than_five_minutes_are_averaged_with_a_note() -> None:
    survey = survey_readings(course([ticks(30 * SECOND, 12)] * 2), Options())
    assert (survey.grid.step, survey.grid.period) == (5 * MINUTE, DAY)
    assert survey.notes == ("readings every 30s are averaged over 5min",)
    assert survey_readings(course([ticks(30 * SECOND, 12)] * 2), Options(step=MINUTE)).grid.step == MINUTE


def test_gaps_and_a_few_slow_sensors_do_not_change_the_step() -> None:
    random = np.random.default_rng(1)
    fast = [ticks(HOUR, 40)[random.random(960) > 0.3] for _ in range(8)]
    assert survey_readings(course([*fast, ticks(6 * HOUR, 40)]), Options()).grid.step == HOUR


def test_times_at_random_get_a_step_that_they_fill() -> None:
    random = np.random.default_rng(2)
    loose = [START + np.sort(random.integers(0, 30 * DAY, 30 * 144)) for _ in range(5)]
    grid = survey_readings(course(loose), Options()).grid
    assert 10 * MINUTE <= grid.step <= 30 * MINUTE


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([MINUTE * 15, HOUR]), st.integers(-60, 60), st.integers(0, 99))
def test_jitter_puts_no_two_readings_into_one_slot(step: int, minute: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    exact = ticks(step, 12) + minute * MINUTE
    jittered = exact + random.integers(-step // 10, step // 10, exact.size)
    grid = survey_readings(course([jittered, np.sort(jittered + 7 * SECOND)]), Options()).grid
    slot = grid.find_period(jittered) * grid.slots + grid.find_slot(jittered)
    assert grid.step == step
    assert (np.diff(slot) == 1).all()


def test_all_steps_fit_their_period() -> None:
    assert all(DAY % step == 0 for step in STEPS if step <= DAY)


def test_one_reading_each_is_a_table_of_hours_and_none_at_all_is_refused() -> None:
    lone = course([ticks(HOUR, 20)[:1], ticks(HOUR, 20)[:1]])
    survey = survey_readings(lone, Options())
    assert survey.grid.step == HOUR
    assert survey.notes == ("every sensor has a single reading: the step is taken to be an hour",)
    assert survey_readings(lone, Options(step=MINUTE)).grid.step == MINUTE
    with pytest.raises(InputError, match="give step"):
        survey_start(lone, Options())
    with pytest.raises(InputError, match="no reading at all"):
        survey_readings(lone.taken(slice(0, 0)), Options())


def values(size: int = 5000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(15, 8, size)


@pytest.mark.parametrize("code", [-9999.0, -999.0, 85.0, -127.0, 9.969209968386869e36])
def test_known_fill_values_are_found_where_they_lie_far_off(code: float) -> None:
    value = values()
    value[::97] = code
    fill, unknown = fill_values(value, np.repeat([0, 1], 2500))
    assert code in fill
    assert not unknown


def test_a_value_in_the_midst_of_the_others_is_no_fill_value() -> None:
    pressure = np.random.default_rng(0).normal(1005, 8, 5000).round(0)
    warm = np.random.default_rng(0).normal(70, 20, 5000).round(0)
    assert 999.0 not in fill_values(pressure, np.zeros(5000, dtype=int))[0]
    assert 85.0 not in fill_values(warm, np.zeros(5000, dtype=int))[0]


@pytest.mark.parametrize(("off", "is_fill"), [(0.6, False), (0.01, True)])
def test_off_is_no_fill_value(off: float, is_fill: bool) -> None:
    """A pump that runs at 7 to 19, or a burner at 50 to 80 %, and is off for hours."""
    random = np.random.default_rng(0)
    runs = np.repeat(random.random(1250) < off, 4)
    pump = np.where(runs, 0.0, random.uniform(50, 80, 5000).round(1))
    assert (0.0 in fill_values(pump, np.zeros(5000, dtype=int))[0]) == is_fill


def test_an_unknown_value_that_comes_back_far_off_is_found_and_one_that_stays_is_not() -> None:
    value = values()
    value[::101] = 901.3
    fill, unknown = fill_values(value, np.repeat([0, 1], 2500))
    assert unknown == [901.3]
    assert 901.3 in fill
    stuck = values()
    stuck[1000:1200] = 901.3
    assert not fill_values(stuck, np.zeros(5000, dtype=int))[1]


@pytest.mark.parametrize("seed", range(5))
def test_ordinary_readings_hold_no_fill_values_of_their_own(seed: int) -> None:
    random = np.random.default_rng(seed)
    rain = np.where(random.random(20000) < 0.05, random.gamma(0.6, 4, 20000), 0).round(1)
    dust = np.exp(random.normal(2, 1, 20000)).round(0)
    for skewed in (rain, dust, city_readings(8, 40, seed).value.round(1)):
        assert not fill_values(skewed, np.sort(np.arange(skewed.size) % 10))[1]


def test_a_sensor_that_never_moves_still_has_its_fill_values() -> None:
    still = np.zeros(500)
    still[::9] = -9999
    fill, unknown = fill_values(still, np.zeros(500, dtype=int))
    assert -9999 in fill
    assert not unknown


def test_given_fill_values_take_precedence_over_recognised_ones() -> None:
    readings = city_readings()
    readings.value[::50] = -999
    assert -999 in survey_readings(readings, Options()).fill[""]
    assert survey_readings(readings, Options.of(fill=[])).fill[""] == ()
    assert survey_readings(readings, Options.of(fill=[7])).fill[""] == (7.0,)


def test_limits_take_precedence_over_a_guessed_fill_value() -> None:
    readings = city_readings()
    readings.value[::50] = 999.5
    assert 999.5 in survey_readings(readings, Options()).fill[""]
    survey = survey_readings(readings, Options.of(valid=[-40, 50]))
    assert 999.5 not in survey.fill[""]
    assert -9999 in survey.fill[""]
    assert not survey.notes


@pytest.mark.parametrize(("period", "slots"), [("365d", 288), ("1439min", 20), ("7d", 168), ("36h", 36)])
def test_a_given_period_is_divided_into_slots_or_refused(period: str, slots: int) -> None:
    options = Options.of(period=period)
    grid = survey_readings(course([ticks(HOUR, 40)] * 3), options).grid
    assert grid.slots == slots
    with pytest.raises(ConfigError, match="has no two steps"):
        survey_readings(course([ticks(HOUR, 40)] * 3), Options.of(period="1h", step="1h"))


def test_a_table_whose_hours_were_not_read_is_refused() -> None:
    readings = city_readings()
    dates = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable,
                     readings.time // DAY * DAY, readings.value)  # fmt: skip
    with pytest.raises(InputError, match="is the hour"):
        survey_readings(dates, Options())
