"""Channels that report the readings of one source are named, others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from numpy.typing import NDArray

from list_source import hourly, run_service
from networks import fault_free
from sensormend.archive.cleaning import clean_archive
from sensormend.pipeline.copies import MOST_CHANNELS, CopyCounter, sentences
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR
from simulated_city import HOURLY, START, tensor_readings, write_csv

Floats = NDArray[np.float64]


def counted(line: Floats, grid: Grid = HOURLY, *, restart: bool = False) -> list[list[str]]:
    """Return the groups of copies among channels of one variable, (channel, slot), counted period by period."""
    counter, slots = CopyCounter(grid, 1), grid.slots
    step = np.full(len(line), np.inf)
    for start in range(0, line.shape[1], slots):
        value = line[:, start : start + slots]
        change = np.abs(np.diff(line[:, max(start - 1, 0) : start + slots], axis=1))
        step = np.fmin(step, np.where(change > 1e-9, change, np.inf).min(axis=1, initial=np.inf))
        reporting = np.flatnonzero(np.isfinite(line[:, : start + slots]).any(axis=1))
        counter.add(reporting, 0 * reporting, value[reporting], step[reporting])
        if restart:
            settings, arrays = counter.state()
            counter = CopyCounter(grid, 1)
            counter.restore(json.loads(json.dumps(settings)), {name: array.copy() for name, array in arrays.items()})
    groups = counter.groups([f"s{number:02d}" for number in range(len(line))], ("",))
    assert all(group["variables"] == [""] for group in groups)
    return [group["sensors"] for group in groups]


def plainly(line: Floats) -> set[tuple[str, str]]:
    """Return the pairs that are equal in 95 % of the common slots in which one moves, slot by slot."""
    pairs = set()
    for one in range(len(line)):
        for other in range(one + 1, len(line)):
            common = moves = equal = 0
            for slot in range(line.shape[1]):
                a, b = line[one, slot], line[other, slot]
                if np.isnan(a) or np.isnan(b):
                    continue
                common += 1
                before = (line[one, slot - 1], line[other, slot - 1]) if slot else (np.nan, np.nan)
                if any(not np.isnan(was) and was != now for was, now in zip(before, (a, b), strict=True)):
                    moves += 1
                    equal += bool(np.isclose(a, b, rtol=1e-9, atol=0))
            if common >= 14 * 24 and moves >= 50 and equal >= 0.95 * moves:
                pairs.add((f"s{one:02d}", f"s{other:02d}"))
    return pairs


def city_line(sensors: int = 8, days: int = 30) -> Floats:
    line = np.moveaxis(fault_free(sensors, 90)[..., :days], 1, 2).reshape(sensors, -1)
    return np.round(line, 1)


@pytest.mark.parametrize("restart", [False, True])
def test_copies_are_those_that_a_plain_count_finds(restart: bool) -> None:
    random, line = np.random.default_rng(0), city_line()
    line[3] = line[1]
    line[5] = np.where(random.random(line.shape[1]) < 0.02, line[1] + 0.1, line[1])
    line[6] = np.where(random.random(line.shape[1]) < 0.3, line[2] + 0.1, line[2])
    line[1:4][random.random((3, line.shape[1])) < 0.1] = np.nan
    line[3, :200] = np.nan
    assert counted(line, restart=restart) == [["s01", "s03", "s05"]]
    assert plainly(line) == {("s01", "s03"), ("s01", "s05"), ("s03", "s05")}


def test_what_does_not_move_is_no_copy() -> None:
    line = np.zeros((4, 24 * 60))
    rain = np.random.default_rng(1).random(line.shape) < 0.05
    line[rain] = np.random.default_rng(2).gamma(1, 2, line.shape)[rain]
    assert counted(line) == []
    line[2] = line[0]
    assert counted(line) == [["s00", "s02"]]
    assert counted(np.full((3, 24 * 60), 20.0)) == []


def test_two_weeks_are_needed_and_one_may_be_rounded() -> None:
    line = city_line()
    fine = np.moveaxis(fault_free(8, 90)[..., :30], 1, 2).reshape(8, -1) + np.random.default_rng(0).normal(0, 0.2, 720)
    line[0], line[1] = fine[2], np.round(fine[2])
    assert counted(line) == [["s00", "s01"]]
    assert counted(line[:, : 13 * 24]) == []


def test_a_day_may_have_one_slot_and_a_large_variable_is_not_counted() -> None:
    daily = np.random.default_rng(0).normal(size=(3, 100)).round(1)
    daily[2] = daily[0]
    assert counted(daily, Grid(DAY, DAY)) == [["s00", "s02"]]
    many = np.random.default_rng(0).normal(size=(MOST_CHANNELS + 1, 24 * 20))
    many[1] = many[0]
    assert counted(many) == []
    assert counted(many[:-1]) == [["s00", "s01"]]


def test_many_groups_and_many_names_are_one_line_each() -> None:
    groups = [{"sensors": [f"{number}-{one}" for one in range(12)], "variables": ["t", "h"]} for number in range(7)]
    lines = sentences(groups)
    assert len(lines) == 6
    assert lines[0].endswith("0-7 and 4 others have the same t and h")
    assert lines[-1] == "2 more groups of sensors have the same readings: see copies in run.json"


def two_copies() -> Any:
    tensor = fault_free(8, 90)[..., :20].copy()
    tensor[6] = tensor[2]
    return tensor_readings(tensor)


def test_clean_names_them_in_notes_and_in_run_json(tmp_path: Path) -> None:
    write_csv(tmp_path / "readings.csv", two_copies())
    report = clean_archive(tmp_path / "readings.csv", tmp_path / "out", Options.of(period="1d"))
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    (group,) = run["copies"]
    assert group["sensors"] == ["s02", "s06"]
    (note,) = [note for note in run["notes"] if "the same" in note]
    assert note.startswith("s02 and s06 have the same ")
    assert note in report.notes


def test_watch_names_them_too_also_after_a_restart(tmp_path: Path) -> None:
    parts = hourly(two_copies(), 24)
    for until in (9, 17, 20):
        run_service(tmp_path / "out", parts[:until])
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [group["sensors"] for group in run["copies"]] == [["s02", "s06"]]


def test_several_variables_are_one_line(tmp_path: Path) -> None:
    readings = two_copies()
    times = (readings.time - START) // HOUR
    frame = polars.DataFrame({
        "sensor": np.array(readings.sensors)[readings.sensor],
        "time": readings.time.astype("datetime64[us]"),
        "temp": readings.value,
        "hum": 50 + readings.value * 2 + readings.sensor,
        "pres": 1000 + 0.1 * (times % 50),
    })  # fmt: skip
    frame.write_parquet(tmp_path / "readings.parquet")
    report = clean_archive(tmp_path / "readings.parquet", tmp_path / "out", Options.of(period="1d"))
    lines = [note for note in report.notes if "the same" in note]
    assert len(lines) == 2
    assert "s02 and s06 have the same temp" in lines
    assert any(line.endswith(" have the same pres") for line in lines)
