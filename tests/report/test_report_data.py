"""Counts of the rows, held against counting them one by one."""

import math
from collections import Counter
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from output_folders import FIRST, Output, small_output, write_output
from sensormend.io.folder import Archive
from sensormend.io.writing import MonthlyWriter
from sensormend.readings import DAY, HOUR, REASONS, Flag
from sensormend.report import report_data
from sensormend.report.report_data import RowCounts, count_rows


def counted(written: Output, slots: int = 24, channels: int = 12) -> RowCounts:
    return count_rows(written.path, DAY // slots, int(written.time[-1]) + DAY // slots, channels)


def guessed(written: Output) -> NDArray[np.bool_]:
    return np.asarray((written.flag == Flag.FAIL) | (written.flag == Flag.MISSING))


def runs(written: Output) -> Counter[int]:
    lengths: Counter[int] = Counter()
    for channel in guessed(written).reshape(-1, written.flag.shape[2]):
        lengths.update(len(list(group)) for guess, group in groupby(channel.tolist()) if guess)
    return lengths


@pytest.fixture(params=[1 << 40, 12 * 24 * 3, 1], ids=["at once", "three days", "day by day"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "MAX_ROWS", request.param)


@pytest.mark.usefixtures("parts")
def test_counts_do_not_depend_on_the_number_of_blocks(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", variables=("a", "b"))
    counts = counted(written)
    guess = guessed(written)
    assert counts.rows == written.flag.size
    assert counts.estimated == guess.sum()
    assert counts.flags == Counter({int(code): int((written.flag == code).sum()) for code in np.unique(written.flag)})
    assert counts.gaps == Counter({length * HOUR: many for length, many in runs(written).items()})
    assert sum(values for _, _, values in counts.gap_table()) == guess.sum()
    for s, sensor in enumerate(written.sensors):
        for v, variable in enumerate(written.variables):
            one = counts.channels[sensor, variable]
            assert one.estimated == guess[s, v].sum()
            assert one.readings == np.isfinite(written.value[s, v]).sum()
            assert one.unjudged == (written.flag[s, v] == Flag.NOT_EVALUATED).sum()
    assert counts.unjudged == {
        FIRST // DAY + day: (
            int((written.flag[..., 24 * day : 24 * day + 24] == Flag.NOT_EVALUATED).sum()),
            int(np.isfinite(written.value[..., 24 * day : 24 * day + 24]).sum()),
        )
        for day in (0, 1)
    }
    stretches = {(one.sensor, one.variable): (one.start, one.end) for one in counts.estimated_spans}
    assert stretches["S01", "a"] == (FIRST + 15 * DAY, FIRST + 20 * DAY)
    assert {name for name, _ in stretches} == {"S01", "S02"}
    assert [one.end - one.start for one in counts.estimated_spans] == sorted(
        (one.end - one.start for one in counts.estimated_spans), reverse=True
    )


@pytest.mark.usefixtures("parts")
def test_spreads_changes_and_widths_are_those_of_the_rows(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city")
    counts = counted(written)
    good = np.where(written.flag == Flag.GOOD, written.value, np.nan)[:, 0]
    over, among = counts.spread[""]
    assert over == pytest.approx(np.nanstd(good))
    readings = np.isfinite(good).sum(axis=0)
    used = readings > 2
    weights = readings[used]
    assert among == pytest.approx(math.sqrt(np.average(np.nanvar(good[:, used], axis=0), weights=weights)))
    assert counts.half_width("") == pytest.approx(1.0, rel=0.01)
    assert math.isnan(counts.half_width("", "fill"))


def test_changes_are_those_of_neighbouring_values_of_one_kind(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city")
    read, guess = counted(written).change[""]
    cleaned, estimated = written.cleaned[:, 0], guessed(written)[:, 0]
    step = np.diff(cleaned, axis=1)
    good = written.flag[:, 0] == Flag.GOOD
    assert read == pytest.approx(math.sqrt(np.mean(step[good[:, 1:] & good[:, :-1]] ** 2)))
    assert guess == pytest.approx(math.sqrt(np.mean(step[estimated[:, 1:] & estimated[:, :-1]] ** 2)))


@pytest.mark.usefixtures("parts")
def test_hours_without_any_reading_are_counted(tmp_path: Path) -> None:
    truth = np.zeros((4, 1, 24 * 6))
    value = truth.copy()
    quiet = np.zeros(24 * 6, dtype=bool)
    quiet[[5, 6, 46, 47, 48, 49, 143]] = True
    value[..., quiet] = np.nan
    flag = np.where(np.isnan(value), Flag.MISSING, Flag.GOOD).astype(np.int8)
    written = write_output(tmp_path / "city", ("a", "b", "c", "d"), ("",), value, truth, flag, np.zeros_like(flag), 24)
    counts = counted(written)
    assert counts.empty_spans == [
        (FIRST + begin * HOUR, FIRST + end * HOUR) for begin, end in ((5, 7), (46, 50), (143, 144))
    ]
    assert counts.gaps == Counter({2 * HOUR: 4, 4 * HOUR: 4, HOUR: 4})


def test_what_a_watch_writes_meanwhile_is_left_out(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city")
    counts = count_rows(written.path, HOUR, FIRST + 10 * DAY + 5 * HOUR, 12)
    assert counts.rows == 12 * (10 * 24 + 5)


def test_rows_by_the_month_are_counted_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = small_output(tmp_path / "dates")
    rows = Archive(written.path).rows()
    with MonthlyWriter(tmp_path / "months") as writer:
        writer.write(rows)
        writer.sync()
    # Blocks of one day: a file of a month is read in parts.
    monkeypatch.setattr(report_data, "MAX_ROWS", 1)
    end = int(written.time[-1]) + HOUR
    months, dates = (count_rows(folder, HOUR, end, 12) for folder in (tmp_path / "months", written.path))
    for name in (
        "channels",
        "rows",
        "estimated",
        "flags",
        "causes",
        "widths",
        "gaps",
        "estimated_spans",
        "empty_spans",
    ):
        assert getattr(months, name) == getattr(dates, name)


def test_alone_and_duplicate_are_counted_by_themselves(tmp_path: Path) -> None:
    truth = np.ones((2, 1, 48))
    flag, reason = np.full(truth.shape, Flag.GOOD, np.int8), np.zeros(truth.shape, np.int8)
    flag[0, 0, :10], reason[0, 0, :10] = Flag.NOT_EVALUATED, REASONS.index("alone")
    flag[1, 0, :3], reason[1, 0, :3] = Flag.SUSPECT, REASONS.index("duplicate")
    written = write_output(tmp_path / "city", ("a", "b"), ("",), truth, truth, flag, reason, 24)
    counts = counted(written)
    assert (counts.channels["a", ""].alone, counts.channels["a", ""].unjudged) == (10, 0)
    assert counts.duplicates == 3
    assert counts.unjudged == {}
    assert counts.spread[""][0] == 0.0
    assert math.isnan(counts.spread[""][1])
