"""Directions: how they are recognised, and that they come back in degrees."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from list_source import assert_same_rows, hourly, read_rows, run_service
from sensormend import clean
from sensormend.archive.cleaning import clean_archive
from sensormend.pipeline.circular import components, wrapped
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.options import Options
from sensormend.pipeline.survey import survey_readings
from sensormend.readings import DAY, HOUR, REASONS, Flag, Readings, Rows
from simulated_city import HOURLY, START, all_rows

DAYS, SENSORS = 40, 8
BROKEN, STUCK, GAP = (3, slice(24 * 30, 24 * 33)), (5, slice(24 * 20, 24 * 22)), (6, slice(24 * 25, 24 * 25 + 12))


def course(seed: int = 0) -> np.ndarray:
    """True directions, (sensor, hour), which turn through north."""
    random = np.random.default_rng(seed)
    wind = 350 + np.cumsum(random.normal(0, 12, 24 * DAYS))
    return (wind + 2 * np.arange(SENSORS)[:, None] + random.normal(0, 6, (SENSORS, wind.size))) % 360


def degraded(truth: np.ndarray) -> np.ndarray:
    value = truth.copy()
    value[BROKEN] = (value[BROKEN] + 70) % 360
    value[STUCK] = value[STUCK][0]
    value[GAP] = np.nan
    return value


def table(value: np.ndarray, name: str) -> pd.DataFrame:
    hours = value.shape[1]
    time = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(hours), unit="h")
    random, rises = np.random.default_rng(1), 5 * np.sin(np.arange(hours) / 24 * 2 * np.pi)
    temp = 10 + rises + np.cumsum(random.normal(0, 1, hours)) / 5 + random.normal(0, 0.2, value.shape)
    parts = [pd.DataFrame({"sensor": f"s{row}", "time": time, "temp": temp[row], name: value[row]})
             for row in range(len(value))]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def readings_of(value: np.ndarray, name: str, start: int = START) -> Readings:
    sensors, hours = value.shape
    sensor, hour = np.repeat(np.arange(sensors), hours), np.tile(np.arange(hours), sensors)
    present = np.isfinite(value.ravel())
    whole = Readings(
        [f"s{row}" for row in range(sensors)], (name,), sensor, 0 * sensor, start + hour * HOUR, value.ravel()
    )
    return whole.taken(present)


@pytest.fixture(scope="module")
def cleaned() -> tuple[np.ndarray, pd.DataFrame, pd.DataFrame]:
    truth = course()
    result = clean(table(degraded(truth), "wind direction"))
    return truth, result.data[result.data.variable == "wind direction"], result.faults


def test_directions_come_back_in_degrees(cleaned: tuple[np.ndarray, pd.DataFrame, pd.DataFrame]) -> None:
    truth, rows, _ = cleaned
    value, mended = (rows[name].to_numpy().reshape(truth.shape) for name in ("value", "cleaned"))
    flag, origin = rows.flag.to_numpy().reshape(truth.shape), rows.origin.to_numpy().reshape(truth.shape)
    np.testing.assert_array_equal(value, degraded(truth))
    np.testing.assert_array_equal(mended[origin == "observed"], value[origin == "observed"])
    assert (flag[BROKEN] == Flag.FAIL).mean() > 0.9
    assert (flag[STUCK] == Flag.FAIL).mean() > 0.9
    assert (flag[GAP] == Flag.MISSING).all()
    sound = np.ones(truth.shape, dtype=bool)
    for part in (BROKEN, STUCK, GAP):
        sound[part] = False
    assert (flag[sound] == Flag.FAIL).mean() < 0.01
    for part in (BROKEN, STUCK, GAP):
        error = wrapped(mended[part] - truth[part])
        assert np.sqrt(np.mean(error**2)) < 12
    assert np.nanmin(mended) >= 0
    assert np.nanmax(mended) < 360


def test_the_interval_of_an_estimate_is_a_half_width_in_degrees(
    cleaned: tuple[np.ndarray, pd.DataFrame, pd.DataFrame],
) -> None:
    truth, rows, _ = cleaned
    lower, mended, upper = (rows[name].to_numpy().reshape(truth.shape)[GAP] for name in ("lower", "cleaned", "upper"))
    np.testing.assert_allclose(upper - mended, mended - lower)
    assert (upper - mended > 2).all()
    assert (upper - mended < 60).all()
    assert (np.abs(wrapped(truth[GAP] - mended)) < upper - mended).mean() > 0.6


def test_faults_of_directions_have_sizes_in_degrees(cleaned: tuple[np.ndarray, pd.DataFrame, pd.DataFrame]) -> None:
    truth, _, faults = cleaned
    stuck = faults[(faults.sensor == "s5") & (faults.reason == "stuck")]
    assert stuck["size"].tolist() == [truth[STUCK][0]]
    broken = faults[faults.sensor == "s3"]
    assert set(broken.reason) <= {"offset", "noise"}
    assert broken["size"].between(40, 110).all()


@pytest.mark.parametrize(
    ("name", "settings", "low", "expected"),
    [
        ("wind_direction", {}, 0, {"wind_direction": 0.0}),
        ("WDIR", {}, 0, {"WDIR": 0.0}),
        ("wd (deg)", {}, -180, {"wd (deg)": -180.0}),
        ("x", {"units": "degrees true"}, 0, {"x": 0.0}),
        ("x", {"names": "Wind direction"}, 0, {"x": 0.0}),
        ("x", {}, 0, {"x": 0.0}),
    ],
)
def test_directions_are_recognised(name: str, settings: dict[str, str], low: float, expected: dict[str, float]) -> None:
    value = (course() - low) % 360 + low
    survey = survey_readings(readings_of(value, name), Options.of(**settings))
    assert survey.circular == expected
    assert sum("direction" in note for note in survey.notes) == 1


def test_a_vane_with_a_wrong_zero_turns_from_0_to_360() -> None:
    value = np.random.default_rng(0).uniform(0, 360, (2, 2000))
    value[:, ::90] = -1.1
    assert survey_readings(readings_of(value, "wind direction"), Options()).circular == {"wind direction": 0.0}


def test_random_directions_are_recognised_by_name_alone() -> None:
    value = np.random.default_rng(0).uniform(0, 360, (SENSORS, 24 * 20))
    assert survey_readings(readings_of(value, "wind dir"), Options()).circular == {"wind dir": 0.0}
    assert survey_readings(readings_of(value, "x"), Options()).circular == {}


@pytest.mark.parametrize("name", ["wind speed", "wind_direction"])
def test_other_quantities_and_radians_are_not_directions(name: str) -> None:
    radians = np.radians(course())
    assert survey_readings(readings_of(radians, name), Options()).circular == {}


def test_several_readings_of_a_slot_have_the_direction_of_their_vectors() -> None:
    time = np.array([START, START + HOUR // 2, START + HOUR])
    readings = Readings(("a",), ("wd",), np.zeros(3, int), np.zeros(3, int), time, np.array([350.0, 20.0, 17.0]))
    rows = all_rows(readings, Cleaner(HOURLY, ("wd",), circular={"wd": 0.0}))
    np.testing.assert_allclose(rows.value[:2], [5.0, 17.0], atol=1e-9)
    assert rows.value[1] == 17.0


def test_a_direction_that_shows_late_passes_through_from_then_on() -> None:
    truth = course()
    truth[:, : 24 * 10] = 180 + truth[:, : 24 * 10] / 20
    cleaner = Cleaner(HOURLY, ("x",))
    rows = all_rows(readings_of(truth, "x"), cleaner)
    judged = rows.flag == Flag.GOOD
    assert judged[(rows.time >= START + 6 * DAY) & (rows.time < START + 10 * DAY)].mean() > 0.95
    late = rows.time >= START + 25 * DAY
    assert set(rows.flag[late]) == {Flag.NOT_EVALUATED}
    np.testing.assert_array_equal(rows.cleaned[late], rows.value[late])
    (remark,) = cleaner.remarks()
    assert remark.startswith("x is not judged from 2020-01-")


def same(one: Rows, other: Rows) -> None:
    for name in ("value", "cleaned", "lower", "upper", "flag", "reason"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_cleaner_goes_on_from_its_state(tmp_path: Path) -> None:
    readings = readings_of(degraded(course()), "wd")
    early, late = readings.taken(readings.time < START + 31 * DAY), readings.taken(readings.time >= START + 31 * DAY)
    whole = all_rows(readings, Cleaner(HOURLY, ("wd",), circular={"wd": 0.0}))
    first = Cleaner(HOURLY, ("wd",), circular={"wd": 0.0})
    all_rows(early, first)
    first.save(tmp_path / "cleaner.npz")
    second = Cleaner(HOURLY, ("wd",), circular={"wd": 0.0}, model=first.model)
    second.restore(tmp_path / "cleaner.npz")
    same(all_rows(late, second), whole.taken(whole.time >= START + 31 * DAY))


def test_an_archive_a_frame_and_a_live_feed_give_the_same_rows(tmp_path: Path) -> None:
    value = degraded(course())
    frame = table(value, "wd").drop(columns="temp").dropna()
    frame.to_csv(tmp_path / "wind.csv", index=False)
    grid = {"step": "1h", "period": "1d"}
    report = clean_archive(tmp_path / "wind.csv", tmp_path / "out", Options.of(one_pass=True, **grid))
    assert any("direction" in note for note in report.notes)
    archive = read_rows(tmp_path / "out")
    assert (archive.flag == Flag.FAIL).sum() > 100
    assert set(archive.reason[archive.flag == Flag.FAIL]) <= {
        REASONS.index(word) for word in ("offset", "noise", "stuck", "spike")
    }
    run_service(tmp_path / "live", hourly(readings_of(value, "wd"), 6))
    assert_same_rows(read_rows(tmp_path / "live"), archive)
    rows = clean(frame, one_pass=True, step="1h", period="1d").data.sort_values(["time", "sensor"])
    np.testing.assert_array_equal(rows.cleaned.to_numpy(), archive.cleaned)
    np.testing.assert_array_equal(rows.flag.to_numpy(), archive.flag)


def test_components_keep_other_variables() -> None:
    minibatch = np.stack([np.arange(4.0), np.array([0.0, 90.0, 180.0, np.nan])])[None]
    given = components(minibatch, [1])
    np.testing.assert_array_equal(given[0, 0], minibatch[0, 0])
    np.testing.assert_allclose(given[0, 1:], [[1, 0, -1, np.nan], [0, 1, 0, np.nan]], atol=1e-12)


def test_a_direction_that_turns_for_an_hour_is_no_spike() -> None:
    truth = course(seed=3)
    random = np.random.default_rng(3)
    for row in range(SENSORS):
        hours = random.choice(np.arange(24 * 12, 24 * DAYS), 25, replace=False)
        truth[row, hours] = (truth[row, hours] + random.uniform(100, 260, hours.size)) % 360
    result = clean(table(truth, "wind_dir"))
    rows = result.data[result.data["variable"] == "wind_dir"]
    assert (rows["flag"] == Flag.FAIL).mean() < 0.002
    assert "spike" not in set(result.faults.loc[result.faults["variable"] == "wind_dir", "reason"])
