import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from output_folders import FIRST, Output, small_output
from sensormend.io.folder import Archive
from sensormend.io.writing import MonthlyWriter, RowWriter
from sensormend.pipeline.health import HEALTH, NO_ROWS, states_by_cell
from sensormend.readings import DAY, REASONS, Flag
from sensormend.views.daily_counts import DailyCounts

DATE = FIRST // DAY


def plainly(written: Output, s: int, v: int, first: int, last: int) -> str:
    """Say how a channel was from one day to another, row by row."""
    here = (written.time >= FIRST + first * DAY) & (written.time < FIRST + (last + 1) * DAY)
    flags, reasons = written.flag[s, v, here].tolist(), written.reason[s, v, here].tolist()
    if all(flag == Flag.MISSING for flag in flags):
        return "silent"
    pairs = list(zip(flags, (REASONS[code] for code in reasons), strict=True))
    if any(flag == Flag.FAIL and word != "spike" for flag, word in pairs):
        return "faulty"
    for flag, word in ((Flag.SUSPECT, "suspect"), (Flag.NOT_EVALUATED, "not evaluated"), (Flag.MISSING, "filled")):
        if flag in flags:
            return word
    return "filled" if (Flag.FAIL, "spike") in pairs else "healthy"


@pytest.mark.parametrize("days", [1, 3])
def test_days_are_called_as_their_rows_say(tmp_path: Path, days: int) -> None:
    written = small_output(tmp_path, sensors=6, days=20, variables=("temp", "wind"))
    with DailyCounts(tmp_path) as digest:
        names, states = digest.states(DATE, DATE + 19, days)
    assert sorted(names) == [(sensor, variable) for sensor in written.sensors for variable in written.variables]
    assert states.shape == (12, -(-20 // days))
    for (sensor, variable), line in zip(names, states, strict=True):
        s, v = written.sensors.index(sensor), written.variables.index(variable)
        expected = [plainly(written, s, v, day, min(day + days - 1, 19)) for day in range(0, 20, days)]
        assert [HEALTH[code] for code in line] == expected


def test_rows_in_memory_are_called_the_same(tmp_path: Path) -> None:
    small_output(tmp_path, sensors=5, days=6, variables=("temp", "wind"))
    with DailyCounts(tmp_path) as digest:
        names, states = digest.states(DATE, DATE + 5)
    again, also = states_by_cell(Archive(tmp_path).rows(), DATE, DATE + 5)
    assert {name: line.tolist() for name, line in zip(names, states, strict=True)} == {
        name: line.tolist() for name, line in zip(again, also, strict=True)
    }


def test_rows_by_the_month_are_counted_the_same(tmp_path: Path) -> None:
    written = small_output(tmp_path / "dates", sensors=4, days=40, variables=("temp", "wind"))
    rows = Archive(written.path).rows()
    with MonthlyWriter(tmp_path / "months") as writer:
        for day in range(40):
            writer.write(rows.taken(rows.time // DAY == DATE + day), FIRST + day * DAY)
        writer.sync()
    assert [path.name for path in sorted((tmp_path / "months" / "data").iterdir())] == [
        "month=2024-01",
        "month=2024-02",
    ]
    with DailyCounts(tmp_path / "dates") as one, DailyCounts(tmp_path / "months") as other:
        # Some days of a month first: those between them have not been asked for.
        for first, last in ((3, 3), (8, 35), (0, 45)):
            names, states = one.states(DATE + first, DATE + last)
            again, also = other.states(DATE + first, DATE + last)
            assert dict(zip(names, states.tolist(), strict=True)) == dict(zip(again, also.tolist(), strict=True))
            totals, others = one.totals(DATE + first, DATE + last), other.totals(DATE + first, DATE + last)
            order = [others[0].index(name) for name in totals[0]]
            assert all((totals[1][kind] == others[1][kind][order]).all() for kind in totals[1])


def test_totals_are_counts_of_rows(tmp_path: Path) -> None:
    written = small_output(tmp_path, sensors=4, days=10)
    with DailyCounts(tmp_path) as digest:
        names, counts = digest.totals(DATE + 2, DATE + 9)
    order = [written.sensors.index(sensor) for sensor, _ in names]
    later = written.flag[order, 0, 48:]
    assert counts["slots"].tolist() == [192] * 4
    assert counts["missing"].tolist() == (later == Flag.MISSING).sum(axis=1).tolist()
    assert counts["estimated"].tolist() == np.isin(later, (Flag.MISSING, Flag.FAIL)).sum(axis=1).tolist()


def test_a_date_is_counted_again_when_its_file_is_another_one(tmp_path: Path) -> None:
    small_output(tmp_path, sensors=3, days=4)
    with DailyCounts(tmp_path) as digest:
        _, before = digest.states(DATE, DATE + 3)
        rows = Archive(tmp_path).rows(start=FIRST + 2 * DAY, end=FIRST + 3 * DAY)
        rows.flag[:] = Flag.SUSPECT
        with RowWriter(tmp_path) as writer:
            writer.write(rows, FIRST + 2 * DAY)
        _, after = digest.states(DATE, DATE + 3)
        assert [HEALTH[code] for code in after[:, 2]] == ["suspect"] * 3
        assert (after[:, [0, 1, 3]] == before[:, [0, 1, 3]]).all()
        shutil.rmtree(tmp_path / "data" / "date=2024-01-02")
        assert (digest.states(DATE, DATE + 3)[1][:, 1] == NO_ROWS).all()


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_output(tmp_path, sensors=3, days=4)
    read: list[int] = []
    counted = DailyCounts._counted

    def noted(self: DailyCounts, files: Sequence[Path], dates: Sequence[int]) -> dict[str, Any]:
        read.append(len(files))
        return counted(self, files, dates)

    monkeypatch.setattr(DailyCounts, "_counted", noted)
    with DailyCounts(tmp_path) as digest:
        digest.states(DATE + 1, DATE + 2)
        digest.states(DATE, DATE + 3)
        digest.totals(DATE, DATE + 3)
    assert read == [2, 2]


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_output(tmp_path, sensors=3, days=8)
    monkeypatch.setattr("sensormend.views.daily_counts.MAX_BYTES", 200)
    with DailyCounts(tmp_path) as digest:
        _, states = digest.states(DATE, DATE + 7)
        assert (states != NO_ROWS).all()
        assert sum(entry.counts.nbytes for entry in digest._dates.values()) <= 200
        assert (digest.states(DATE, DATE + 7)[1] == states).all()
