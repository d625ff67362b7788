"""Rows to write and read, and a comparison of two tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, write_csv, write_json
from sensormend.io.writing import RowWriter
from sensormend.readings import DAY, HOUR, REASONS, Flag, Rows

NUMBERS = ("value", "cleaned", "lower", "upper")
YEAR_2019 = 17897 * DAY


def network(days: int = 2, sensors: int = 3, variables: tuple[str, ...] = ("",), seed: int = 0) -> Rows:
    """Return rows of a small network, channel by channel, each day as `Cleaner` makes it."""
    random = np.random.default_rng(seed)
    sensor, variable, slot = (
        axis.ravel() for axis in np.meshgrid(np.arange(sensors), np.arange(len(variables)), np.arange(24 * days),
                                             indexing="ij")
    )  # fmt: skip
    value = np.round(10 + variable + np.sin(slot / 24 * 2 * np.pi) * 5 + random.normal(size=slot.size), 2)
    gone = random.random(slot.size) < 0.1
    flag = np.where(gone, Flag.MISSING, Flag.GOOD).astype(np.int8)
    return Rows(
        tuple(f"s{k}" for k in range(sensors)),
        variables,
        sensor.astype(np.int32),
        variable.astype(np.int32),
        YEAR_2019 + slot * HOUR,
        np.where(gone, np.nan, value),
        np.where(gone, 0, 1).astype(np.int32),
        value,
        np.where(gone, value - 1, value),
        np.where(gone, value + 1, value),
        flag,
        np.zeros(slot.size, np.int8),
        np.where(gone, 2, 1).astype(np.int8),
    )


def by_day(rows: Rows) -> list[Rows]:
    """Return the rows day by day."""
    return [rows.taken(rows.time // DAY == day) for day in np.unique(rows.time // DAY)]


def write_archive(folder: Path, rows: Rows, faults: Sequence[Mapping[str, object]] = ()) -> Path:
    """Write a small OUT and return its folder."""
    with RowWriter(folder) as writer:
        for day in by_day(rows):
            writer.write(day)
    write_csv(folder / "faults.csv", FAULTS_HEADER, faults)
    write_csv(
        folder / "sensors.csv",
        SENSORS_HEADER,
        ({"sensor": name, "variable": variable, "readings": 1} for name in rows.sensors for variable in rows.variables),
    )
    write_json(folder / "run.json", {"step": HOUR})
    return folder


def write_provisional(folder: Path, rows: Rows) -> None:
    """Write rows of a period that is not over as `watch` does."""
    with RowWriter(folder) as writer:
        writer.write_file(folder / "state" / "provisional.parquet", rows, {})


def assert_equal_rows(left: Rows, right: Rows) -> None:
    """Assert that two tables are the same, row by row; the order of their names may differ."""
    assert len(left) == len(right)
    for name in ("sensor", "variable"):
        texts = [np.array(getattr(rows, f"{name}s"), dtype=object)[getattr(rows, name)] for rows in (left, right)]
        assert texts[0].tolist() == texts[1].tolist()
    for name in ("time", "n", "flag", "reason", "origin", *NUMBERS):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def in_archive_order(rows: Rows) -> Rows:
    """Return the rows as an archive gives them: by time, sensor and variable."""
    sensor, variable = (
        np.unique(np.array(names or ("",), dtype=str), return_inverse=True)[1][codes]
        for names, codes in ((rows.sensors, rows.sensor), (rows.variables, rows.variable))
    )
    return rows.taken(np.lexsort((variable, sensor, rows.time)))


@st.composite
def any_rows(draw: st.DrawFn, *, unique: bool = False) -> Rows:
    """Draw rows of any content: odd names, odd times, NaN anywhere."""
    names = st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1),
        min_size=1, max_size=4, unique=True,
    )  # fmt: skip
    sensors, variables = draw(names), draw(st.one_of(st.just([""]), names))
    size = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[int] | st.SearchStrategy[float], kind: type) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype=kind)

    numbers = st.one_of(st.just(float("nan")), st.floats(allow_nan=False, allow_infinity=False))
    rows = Rows(
        tuple(sensors),
        tuple(variables),
        column(st.integers(0, len(sensors) - 1), np.int32),
        column(st.integers(0, len(variables) - 1), np.int32),
        column(st.integers(-10 * DAY, 40_000 * DAY), np.int64),
        column(numbers, np.float64),
        column(st.integers(0, 9), np.int32),
        column(numbers, np.float64),
        column(numbers, np.float64),
        column(numbers, np.float64),
        column(st.sampled_from([int(flag) for flag in Flag]), np.int8),
        column(st.integers(0, len(REASONS) - 1), np.int8),
        column(st.integers(0, 2), np.int8),
    )
    if unique:
        _, first = np.unique(np.stack([rows.sensor, rows.variable, rows.time]), axis=1, return_index=True)
        rows = rows.taken(np.sort(first))
    return rows
