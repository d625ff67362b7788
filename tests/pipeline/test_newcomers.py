"""Made-up, known and reference sensors in archives, in frames, on the command line and in a live feed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from list_source import assert_same_rows, hourly, read_rows, run_service
from networks import Floats, fault_free
from sensormend import clean
from sensormend.cli import main
from sensormend.errors import ConfigError
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, Flag, Readings, Rows
from simulated_city import HOURLY, START, all_rows, tensor_readings, write_csv

REAL, JOINS, DAYS = 12, 32, 44


def renamed(readings: Readings, names: Sequence[str]) -> Readings:
    columns = (readings.sensor, readings.variable, readings.time, readings.value)
    return Readings(tuple(names), readings.variables, *columns)


def attacked(count: int, *, turn: float = 30.0, climate: str = "pressure") -> Readings:
    """Sound barometers, and made-up ones that join later and report two values by turns."""
    sound = fault_free(REAL, DAYS, climate=climate)
    made_up = np.full((count, 24, DAYS), np.nan)
    hours = np.arange(24)[:, None] + np.arange(count)[:, None, None]
    made_up[:, :, JOINS:] = np.where(hours % 2, turn, 0.0)
    names = [*(f"s{number:02}" for number in range(REAL)), *(f"x{number:02}" for number in range(count))]
    return renamed(tensor_readings(np.concatenate([sound, made_up])), names)


def frame_of(readings: Readings) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sensor": np.array(readings.sensors)[readings.sensor],
            "time": readings.time.astype("datetime64[us]"),
            "value": readings.value,
        }
    )


def judged(rows: Rows, prefix: str) -> Floats:
    """Return the shares of the rows of some sensors with flag 3 and with flag 4."""
    own = np.array([name.startswith(prefix) for name in rows.sensors])[rows.sensor]
    return np.array([np.mean(rows.flag[own] == flag) for flag in (Flag.SUSPECT, Flag.FAIL)])


@pytest.mark.parametrize("count", [10, 20])
def test_made_up_sensors_change_nothing_for_real_ones_in_an_archive(count: int) -> None:
    readings = attacked(count)
    result = clean(frame_of(readings), step="1h", period="1d")
    own = result.data[result.data.sensor.str.startswith("s")]
    assert (own.flag == Flag.FAIL).mean() < 1e-3
    assert (own.flag == Flag.SUSPECT).mean() < 5e-3
    assert not any(fault.startswith("s") for fault in result.faults.sensor)


def test_made_up_sensors_change_nothing_for_real_ones_in_a_live_feed(tmp_path: Path) -> None:
    readings = attacked(20)
    known = readings.sensor < REAL
    run_service(tmp_path / "both", hourly(readings, 6))
    run_service(tmp_path / "alone", hourly(readings.taken(known), 6))
    both, alone = read_rows(tmp_path / "both"), read_rows(tmp_path / "alone")
    assert judged(both, "s").tolist() == judged(alone, "s").tolist()
    faults = pd.read_csv(tmp_path / "both" / "faults.csv")
    assert not any(name.startswith("s") for name in faults[faults.reason != "silent"].sensor)


def test_only_known_sensors_are_admitted_to_a_live_feed(tmp_path: Path) -> None:
    readings = attacked(20)
    run_service(tmp_path / "both", hourly(readings, 6), known=["s*"])
    run_service(tmp_path / "alone", hourly(readings.taken(readings.sensor < REAL), 6))
    assert_same_rows(read_rows(tmp_path / "both"), read_rows(tmp_path / "alone"))
    rejected = pd.read_csv(tmp_path / "both" / "rejected.csv")
    assert set(rejected.reason) == {"a sensor that is not known"}
    assert len(rejected) == 20 * 24 * (DAYS - JOINS)


def test_only_known_sensors_are_read_from_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readings = attacked(3)
    write_csv(tmp_path / "all.csv", readings)
    write_csv(tmp_path / "known.csv", readings.taken(readings.sensor < REAL))
    main(["clean", str(tmp_path / "all.csv"), str(tmp_path / "some"), "--known", "s0*,s10", "--known", "s11,sl1,y*"])
    count = 3 * 24 * (DAYS - JOINS)
    note = f"passed over, since they are not known: {count} readings of 3 sensors, x00, x01, x02"
    printed = " ".join(capsys.readouterr().out.split())
    assert note in printed
    assert "known names sl1, y*, of which there is no reading" in printed
    main(["clean", str(tmp_path / "known.csv"), str(tmp_path / "alone")])
    assert_same_rows(read_rows(tmp_path / "some"), read_rows(tmp_path / "alone"))
    run = json.loads((tmp_path / "some" / "run.json").read_text())
    assert note in run["notes"]
    assert run["readings"] == REAL * 24 * DAYS
    assert run["options"]["known"] == ["s0*", "s10", "s11", "sl1", "y*"]
    result = clean(frame_of(readings), known="s*")
    assert set(result.data.sensor) == {f"s{number:02}" for number in range(REAL)}
    assert note in result.run["notes"]


def test_names_that_nobody_has_are_one_line() -> None:
    with pytest.raises(ConfigError, match="no sensor is known by y\\*; there are s00"):
        clean(frame_of(attacked(1)), known=["y*"])
    for wrong in ({"known": 3}, {"known": [""]}, {"reference": [1]}, {"reference": ["a"], "method": "olrtr"}):
        with pytest.raises(ConfigError):
            Options.of(**wrong)
    assert Options.of(known="a").known == ("a",)


def drifting() -> Readings:
    """Sound sensors, of which the third is off by more every day from the 20th on."""
    readings = fault_free(REAL, DAYS, climate="city").copy()
    readings[2, :, 20:] += 2 * np.arange(DAYS - 20)
    return tensor_readings(readings)


def test_a_reference_has_no_flags_and_no_faults_anywhere(tmp_path: Path) -> None:
    readings = drifting()
    result = clean(frame_of(readings), reference="s02")
    assert set(result.data[result.data.sensor == "s02"].flag) <= {Flag.GOOD, Flag.NOT_EVALUATED}
    assert "s02" not in set(result.faults.sensor)
    plain = clean(frame_of(readings))
    assert (plain.data[plain.data.sensor == "s02"].flag == Flag.FAIL).sum() > 100
    write_csv(tmp_path / "readings.csv", readings)
    main(["clean", str(tmp_path / "readings.csv"), str(tmp_path / "out"), "--reference", "s02", "--reference", "mast"])
    rows = read_rows(tmp_path / "out")
    assert judged(rows, "s02").tolist() == [0, 0]
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["options"]["reference"] == ["s02", "mast"]
    assert "reference names mast, of which there is no reading" in run["notes"]


def test_a_reference_of_a_live_feed_is_the_same_after_a_restart(tmp_path: Path) -> None:
    parts = hourly(drifting(), 12)
    run_service(tmp_path / "out", parts[:60], reference=["s02"])
    run_service(tmp_path / "out", parts, reference=["s02"])
    run_service(tmp_path / "straight", parts, reference=["s02"])
    rows = read_rows(tmp_path / "out")
    assert judged(rows, "s02").tolist() == [0, 0]
    assert_same_rows(rows, read_rows(tmp_path / "straight"))


def test_impossible_readings_of_a_reference_are_said() -> None:
    readings = drifting()
    value = readings.value.copy()
    value[(readings.sensor == 2) & (readings.time == START + 30 * DAY)] = 500
    spoilt = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable, readings.time, value)
    cleaner = Cleaner(HOURLY, valid={"": (-60, 150)}, references=["s02"])
    rows = all_rows(spoilt, cleaner)
    wrong = (rows.flag == Flag.FAIL) & (rows.sensor == 2)
    assert rows.value[wrong].tolist() == [500]


def test_sensors_that_join_move_no_range() -> None:
    cleaner = Cleaner(HOURLY)
    readings = attacked(20, turn=2000.0)
    all_rows(readings, cleaner)
    low, high = cleaner.limits[""]
    sound = readings.value[readings.sensor < REAL]
    assert sound.min() - 5 <= low <= high <= sound.max() + 5
