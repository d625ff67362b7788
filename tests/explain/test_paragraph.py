import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, write_archive
from sensormend.errors import ConfigError, InputError
from sensormend.explain.context import CorrelatedSensor, correlated_sensors
from sensormend.explain.paragraph import explain
from sensormend.io.metadata import write_json
from sensormend.io.target import export
from sensormend.readings import DAY, HOUR, REASONS, Flag, Rows

DAYS, SENSORS = 36, 5
SLOT = 33 * 24 + 12
"""The hour that is asked about."""


def weather(variables: tuple[str, ...] = ("",)) -> Rows:
    """Return good readings of a network that shares its weather; s4 has nothing to do with the others."""
    random = np.random.default_rng(1)
    hours = np.arange(24 * DAYS)
    common = np.convolve(random.normal(size=hours.size + 47), np.ones(48) / 10, "valid") + 5 * np.sin(
        hours / 24 * 2 * np.pi
    )
    value = common + np.arange(SENSORS)[:, None] + random.normal(size=(SENSORS, hours.size)) / 5
    value[4] = random.normal(size=hours.size)
    value = np.round(np.repeat(value[:, None], len(variables), axis=1), 2)
    sensor, variable, slot = (axis.ravel() for axis in np.indices(value.shape))
    size, zero = value.size, np.zeros(value.size, np.int8)
    flat = value.ravel()
    return Rows(
        tuple(f"s{k}" for k in range(SENSORS)), variables, sensor.astype(np.int32), variable.astype(np.int32),
        YEAR_2019 + slot * HOUR, flat, np.ones(size, np.int32), flat, flat, flat, zero + 1, zero, zero + 1,
    )  # fmt: skip


def with_columns(rows: Rows, **columns: Any) -> Rows:
    """Return the rows with something else said of s1 at that hour, or over the hours given as `span`."""
    span = columns.pop("span", (SLOT, SLOT + 1))
    slot = (rows.time - YEAR_2019) // HOUR
    chosen = (rows.sensor == 1) & (slot >= span[0]) & (slot < span[1])
    new = {}
    for name, value in columns.items():
        column = getattr(rows, name).copy()
        column[chosen] = value(column[chosen]) if callable(value) else value
        new[name] = column
    return replace(rows, **new)


def fault(reason: str, start: int, end: int, sentence: str = "s1 was wrong.") -> list[dict[str, object]]:
    return [{"sensor": "s1", "variable": "", "from": YEAR_2019 + start * HOUR, "to": YEAR_2019 + end * HOUR,
             "reason": reason, "score": 3.21, "sentence": sentence}]  # fmt: skip


def code(reason: str) -> int:
    return REASONS.index(reason)


ESTIMATED = {"cleaned": 7.0, "lower": 6.5, "upper": 7.5, "origin": 2}
WRONG = {"flag": Flag.FAIL, **ESTIMATED}
GONE = {"value": np.nan, "n": 0, "flag": Flag.MISSING, **ESTIMATED}


def shift(by: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values + by


CASES: dict[str, tuple[dict[str, Any], str | None, list[str]]] = {
    "good": ({}, None, ["flag 1 (good)", "trusted as it is", "agree with it: ", "correlation 0.9"]),
    "offset": (
        {"span": (SLOT - 12, SLOT + 12), "value": shift(9), "reason": code("offset"), **WRONG}, "offset",
        ["flag 4 (fail, offset)", "above the network's estimate, 7.00 (6.50 to 7.50)", "score 3.2", "of 1 day",
         "from 2019-02-03 00:00 to 2019-02-04 00:00: s1 was wrong.", "before the fault contradict it"],
    ),
    "corrected": (
        {"span": (SLOT - 12, SLOT + 12), "value": shift(9), "reason": code("offset"), **WRONG, "origin": 3}, "offset",
        ["flag 4 (fail, offset)", "With its fault taken out it is 7.00 (6.50 to 7.50), which stands in its place",
         "before the fault contradict it"],
    ),
    "stuck": (
        {"span": (SLOT - 12, SLOT + 12), "value": 3.25, "reason": code("stuck"), **WRONG}, "stuck",
        ["24 readings in a row, from 2019-02-03 00:00 to 2019-02-03 23:00, are 3.25", "meanwhile the others moved, s"],
    ),
    "spike": (
        {"value": shift(30), "reason": code("spike"), **WRONG}, "spike",
        ["It alone differs from the readings around it: the sensor read", "before it and", "after it", "contradict it"],
    ),
    "quiet noise": (
        {"span": (SLOT - 12, SLOT + 12), "value": 2.5, "reason": code("noise"), "flag": Flag.SUSPECT}, "noise",
        ["s1 read 2.5 at", "flag 3 (suspect, noise)", "jumps no more than usual"],
    ),
    "noise": (
        {"span": (SLOT - 12, SLOT + 12), "value": lambda old: old + 9 * (-1) ** np.arange(old.size),
         "reason": code("noise"), **WRONG}, "noise",
        ["jumped by 1", "on average in the day around, where 0.", "is usual for it"],
    ),
    "gain": (
        {"span": (SLOT - 12, SLOT + 12), "value": lambda old: 3 * old, "cleaned": lambda old: old, "flag": Flag.FAIL,
         "origin": 2, "reason": code("gain")}, "gain", ["swung by", "was to be expected"],
    ),
    "drift": ({"value": shift(9), "reason": code("drift"), **WRONG}, "drift", ["further and further"]),
    "implausible": (
        {"value": 400.0, "reason": code("implausible"), **WRONG}, "implausible", ["outside the limits given, -40 to 50"]
    ),
    "silent": (
        {"span": (SLOT - 12, SLOT + 12), "reason": code("silent"), **GONE}, "silent",
        ["s1 has no value at 2019-02-03 12:00: flag 9", "its last reading before is from 2019-02-02 23:00",
         "estimate in its place is 7.00 (6.50 to 7.50)", "which predicts"],
    ),
    "missing": (GONE, None, ["flag 9 (missing).", "No reading came for it", "most like it over the 30 days before: s"]),
    "fill": (
        {"reason": code("fill"), **WRONG, "value": -999.0}, None,
        ["s1 read -999", "flag 4 (fail, fill)", "a reading that is missing (-999)"],
    ),
    "not a number": ({"reason": code("fill"), **GONE}, None, ["flag 9 (missing, fill)", "not a number"]),
    "unknown": (
        {**GONE, "cleaned": np.nan, "lower": np.nan, "upper": np.nan, "origin": 0}, None,
        ["There is no estimate: nothing is known of it yet"],
    ),
    "not evaluated": ({"flag": Flag.NOT_EVALUATED}, None, ["flag 2 (not evaluated)", "It was not judged"]),
    "alone": ({"flag": Flag.NOT_EVALUATED, "reason": code("alone")}, None, ["Too few other sensors are related"]),
    "suspect": (
        {"flag": Flag.SUSPECT, "reason": code("offset"), "value": shift(0.1)}, None,
        ["flag 3 (suspect, offset)", "nothing surer is known, and so it is kept", "do not contradict this one reading"],
    ),
    "duplicate": ({"flag": Flag.SUSPECT, "reason": code("duplicate")}, None, ["the last one was kept"]),
    "late": ({"flag": Flag.SUSPECT, "reason": code("late")}, None, ["after its period was closed"]),
    "mean": ({"n": 4}, None, [", the mean of 4 readings: flag 1"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(tmp_path_factory.mktemp("sound"), weather())


@pytest.mark.parametrize("case", CASES)
def test_every_verdict_in_plain_words(tmp_path: Path, sound: Path, case: str) -> None:
    columns, reason, expected = CASES[case]
    span = columns.get("span", (SLOT, SLOT + 1))
    rows = with_columns(weather(), **columns)
    # All days but this one are there already: its file takes the place of the sound one.
    out = write_archive(
        Path(shutil.copytree(sound, tmp_path / "out")),
        rows.taken(rows.time // DAY == (YEAR_2019 + SLOT * HOUR) // DAY),
        fault(reason, *span) if reason else (),
    )
    write_json(out / "run.json", {"grid": {"step": "1h"}, "fill": {"": [-999]}, "options": {"valid": {"": [-40, 50]}}})
    paragraph = explain(out, "s1", "2019-02-03T12:34")
    assert paragraph.startswith("s1 ")
    assert "\n" not in paragraph
    assert "nan" not in paragraph
    for words in expected:
        assert words in paragraph
    assert "s4" not in paragraph, "which has nothing to do with it"


def test_times_of_all_types_and_a_single_file_are_accepted(tmp_path: Path) -> None:
    meta = write_archive(tmp_path / "a.csv.meta", weather())
    out = export(meta, tmp_path / "a.csv")
    time = YEAR_2019 + SLOT * HOUR
    ways: list[Any] = [
        time,
        "2019-02-03T14:00+02:00",
        datetime(2019, 2, 3, 12, tzinfo=UTC),
        np.datetime64("2019-02-03T12:59"),
    ]
    assert len({explain(out, "s1", way) for way in ways}) == 1


def test_a_month_into_a_fault_the_time_before_it_counts(tmp_path: Path) -> None:
    rows = with_columns(weather(), span=(24 * 4, 24 * 36), value=shift(9), reason=code("offset"), **WRONG)
    out = write_archive(tmp_path, rows, fault("offset", 24 * 4, 24 * 36))
    assert "before the fault contradict it" in explain(out, "s1", "2019-02-03T12:00")


def test_the_first_days_have_no_sensor_to_compare_with(tmp_path: Path) -> None:
    out = write_archive(tmp_path, with_columns(weather(), span=(0, 24), flag=Flag.NOT_EVALUATED))
    paragraph = explain(out, "s1", "2019-01-01T05:00")
    assert "the first reading is from 2019-01-01 00:00" in paragraph
    assert "too few good readings before it" in paragraph
    assert "No other sensor that is like it" in explain(out, "s4", "2019-02-03T12:00")


def test_a_missing_sensor_variable_or_row_is_refused_with_what_exists(tmp_path: Path) -> None:
    rows = weather(("temperature", "humidity"))
    hole = (rows.sensor == 1) & (np.abs(rows.time - YEAR_2019 - SLOT * HOUR) < 3 * HOUR)
    out = write_archive(tmp_path, rows.taken(~hole))
    with pytest.raises(ConfigError, match="s1 measures humidity, temperature: say which"):
        explain(out, "s1", "2019-02-03")
    with pytest.raises(ConfigError, match="no variable 'wind'; there is humidity, temperature"):
        explain(out, "s1", "2019-02-03", "wind")
    assert explain(out, "s1", "2019-02-03", "humidity").startswith("s1 humidity read ")
    with pytest.raises(ConfigError, match="did you mean s1"):
        explain(out, "S-01", "2019-02-03")
    with pytest.raises(InputError, match="go from 2019-01-01 00:00 to 2019-02-05 23:00"):
        explain(out, "s1", "2020-02-03", "humidity")
    with pytest.raises(InputError, match="the nearest are at 2019-02-03 09:00 and 2019-02-03 15:00"):
        explain(out, "s1", "2019-02-03T12:00", "humidity")
    with pytest.raises(InputError, match="a time looks like"):
        explain(out, "s1", "noon", "humidity")


def test_a_feed_in_its_first_period_differs_from_a_foreign_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was not written by sensormend clean or watch"):
        explain(tmp_path, "s1", "2019-02-03")
    (tmp_path / "state").mkdir()
    write_json(tmp_path / "state" / "watch.json", {"watch": 1})
    with pytest.raises(InputError, match="no period is final yet"):
        explain(tmp_path, "s1", "2019-02-03")
    (tmp_path / "data").mkdir()
    with pytest.raises(InputError, match="no period is final yet"):
        explain(tmp_path, "s1", "2019-02-03")


def test_correlated_sensors_are_those_that_move_alike() -> None:
    rows = weather()
    time = YEAR_2019 + SLOT * HOUR
    past, present = rows.taken((rows.time < time) & (rows.time >= time - 30 * DAY)), rows.taken(rows.time == time)
    correlated = correlated_sensors(past, present, "s1")
    assert {other.sensor for other in correlated} == {"s0", "s2", "s3"}
    value = float(present.value[present.sensor == 1][0])
    for other in correlated:
        assert abs(other.expected - value) < 1
        assert 0.1 < other.spread < 0.5
        assert not other.contradicts(value)
        assert other.contradicts(value + 3)
    assert correlated_sensors(past, present.taken(present.sensor == 1), "s1") == []
    assert correlated_sensors(past, present, "nobody") == []
    assert CorrelatedSensor("a", 1.0, 5.0, 5.0, 0.0).contradicts(5.1)
