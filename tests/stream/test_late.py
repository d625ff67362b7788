from pathlib import Path

import numpy as np
import pytest

from list_source import readings_in_turn
from row_tables import assert_equal_rows
from sensormend.io.folder import Archive, data_files, file_rows
from sensormend.io.writing import RowWriter
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.grid import Grid
from sensormend.readings import DAY, HOUR, MINUTE, REASONS, Flag, Readings, Rows
from sensormend.stream.late import LateReadingStore, correct
from sensormend.stream.output import compact_date
from simulated_city import START

GRID = Grid(HOUR, DAY)
DAYS, NAMES = 8, tuple("abcdef")
LAST = 18_262 + DAYS - 1
MISSING = 7
"""The slot of the last day in which sensor c has no reading."""


def weather(day: int) -> Readings:
    random, hours = np.random.default_rng(day), np.arange(24, dtype=np.int64)
    sensor = np.repeat(np.arange(6, dtype=np.int32), 24)
    value = np.tile(5 * random.normal() + 3 * np.sin(hours / 24 * 2 * np.pi), 6) + sensor + random.normal(size=144) / 10
    if day == LAST:
        value[5 * 24 :] = 30.0
    time = np.tile(day * DAY + hours * HOUR, 6)
    readings = Readings(NAMES, ("",), sensor, 0 * sensor, time, value)
    return readings.taken(~((sensor == 2) & (time == LAST * DAY + MISSING * HOUR)))


class Out:
    """An OUT of a week whose last day has a faulty sensor f and a gap of sensor c."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer = folder, RowWriter(folder)
        cleaner = Cleaner(GRID)
        for day in range(LAST - DAYS + 1, LAST + 1):
            self.readings = weather(day)
            for mended in cleaner.push(self.readings):
                self.writer.write(mended.rows, GRID.period_start(mended.period))
        self.period = mended.period
        self.valid = (-50.0, 60.0)

    def late(self, *added: tuple[str, int, float]) -> Rows:
        names = (*self.readings.sensors, *(name for name, _, _ in added if name not in self.readings.sensors))
        more = np.array([names.index(name) for name, _, _ in added], dtype=np.int32)
        old, count = self.readings, len(self.readings)
        self.readings = Readings(
            names,
            ("",),
            np.concatenate([old.sensor, more]),
            np.concatenate([old.variable, 0 * more]),
            np.concatenate([old.time, [LAST * DAY + time for _, time, _ in added]]),
            np.concatenate([old.value, [value for _, _, value in added]]),
        )
        self.is_late = np.arange(len(self.readings)) >= count
        return self.again()

    def again(self) -> Rows:
        return correct(
            self.writer, self.folder, GRID, self.period, self.readings, self.is_late, [(-999.0,)], [self.valid]
        )

    def bytes(self) -> dict[str, bytes]:
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in data_files(self.folder)}


@pytest.fixture
def out(tmp_path: Path) -> Out:
    return Out(tmp_path)


def only(rows: Rows) -> dict[str, object]:
    assert len(rows) == 1
    return {
        "sensor": rows.sensors[rows.sensor[0]],
        "time": int(rows.time[0]) - LAST * DAY,
        "n": int(rows.n[0]),
        "value": float(rows.value[0]),
        "flag": int(rows.flag[0]),
        "reason": REASONS[rows.reason[0]],
    }


def others_stay(before: Rows, after: Rows, changed: Rows) -> None:
    """Hold all rows but these to be what they were, and of these all that is no `value`, `n`, `flag` or `reason`."""
    keys = [tuple(key) for key in zip(changed.sensor.tolist(), changed.time.tolist(), strict=True)]
    names = [(changed.sensors[sensor], time) for sensor, time in keys]
    mine = [(after.sensors[s], t) in names for s, t in zip(after.sensor.tolist(), after.time.tolist(), strict=True)]
    unchanged = np.flatnonzero(~np.array(mine))
    assert_equal_rows(before.taken(unchanged), after.taken(unchanged))
    for name in ("cleaned", "lower", "upper", "origin", "time", "sensor"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_a_late_reading_of_an_empty_slot_is_stored_and_not_judged(out: Out) -> None:
    before = Archive(out.folder).rows()
    rows = out.late(("c", MISSING * HOUR + MINUTE, 7.5))
    assert only(rows) == {
        "sensor": "c", "time": MISSING * HOUR, "n": 1, "value": 7.5, "flag": Flag.NOT_EVALUATED, "reason": "late"
    }  # fmt: skip
    assert np.isfinite(rows.cleaned).all()
    assert rows.cleaned[0] != 7.5
    assert rows.origin[0] == 2
    others_stay(before, Archive(out.folder).rows(), rows)


def test_a_second_reading_of_a_slot_is_in_its_mean_and_the_verdict_stays(out: Out) -> None:
    before = Archive(out.folder).rows()
    old = before.value[(before.sensor == 0) & (before.time == LAST * DAY)][0]
    row = only(out.late(("a", 20 * MINUTE, old + 1)))
    assert row == {"sensor": "a", "time": 0, "n": 2, "value": pytest.approx(old + 0.5), "flag": 1, "reason": "late"}


def test_a_contradiction_is_suspect_and_the_last_word_counts(out: Out) -> None:
    row = only(out.late(("a", 0, 3.25)))
    assert row == {"sensor": "a", "time": 0, "n": 1, "value": 3.25, "flag": Flag.SUSPECT, "reason": "late"}


def test_a_faulty_sensor_stays_faulty_for_its_reason(out: Out) -> None:
    row = only(out.late(("f", 12 * HOUR, 31.0)))
    assert (row["value"], row["flag"], row["reason"]) == (31.0, Flag.FAIL, "stuck")


def test_beyond_the_limits_alone_is_implausible_until_another_comes(out: Out) -> None:
    row = only(out.late(("c", MISSING * HOUR, 80.0)))
    assert (row["value"], row["flag"], row["reason"]) == (80.0, Flag.FAIL, "implausible")
    row = only(out.late(("c", MISSING * HOUR + MINUTE, 8.0)))
    assert (row["n"], row["value"], row["flag"], row["reason"]) == (1, 8.0, Flag.NOT_EVALUATED, "late")
    assert only(out.again())["flag"] == Flag.NOT_EVALUATED


def test_notes_on_readings_beyond_the_limits_hold(out: Out) -> None:
    before = Archive(out.folder).rows()
    value = before.value[(before.sensor == 0) & (before.time == LAST * DAY)][0]
    out.valid = (-50.0, value - 1)
    # The row is good although its reading is beyond the limits: somebody has noted that it is real.
    assert only(out.late(("a", MINUTE, value + 1)))["flag"] == Flag.GOOD


def test_a_fill_value_alone_is_one_until_another_comes(out: Out) -> None:
    row = only(out.late(("c", MISSING * HOUR, -999.0)))
    assert (row["n"], row["value"], row["flag"], row["reason"]) == (1, -999.0, Flag.FAIL, "fill")
    row = only(out.late(("c", MISSING * HOUR + MINUTE, 8.0)))
    assert (row["n"], row["value"], row["flag"], row["reason"]) == (1, 8.0, Flag.NOT_EVALUATED, "late")


@pytest.mark.parametrize("reading", [("a", 5, -999.0), ("c", MISSING * HOUR, float("nan")), ("a", 5, 99.0)])
def test_what_makes_no_difference_changes_nothing(out: Out, reading: tuple[str, int, float]) -> None:
    before = out.bytes()
    assert len(out.late(reading)) == 0
    assert out.bytes() == before


def test_a_repeated_reading_changes_nothing(out: Out) -> None:
    before = out.bytes()
    assert len(out.late(("b", 0, float(out.readings.value[24])))) == 0
    assert out.bytes() == before


def test_a_sensor_without_a_row_gets_one_with_nothing_cleaned(out: Out) -> None:
    before = Archive(out.folder).rows()
    rows = out.late(("zürich", 23 * HOUR, 1.0), ("zürich", 2 * HOUR, 1.5))
    assert rows.flag.tolist() == [Flag.NOT_EVALUATED] * 2
    assert {REASONS[code] for code in rows.reason} == {"late"}
    assert np.isnan([rows.cleaned, rows.lower, rows.upper]).all()
    assert not rows.origin.any()
    after = Archive(out.folder).rows()
    assert len(after) == len(before) + 2
    assert_equal_rows(Archive(out.folder).rows(sensor=list(NAMES)), before)
    # The next one finds its row.
    row = only(out.late(("zürich", 2 * HOUR + 1, 2.5)))
    assert (row["n"], row["value"], row["flag"]) == (2, 2.0, Flag.NOT_EVALUATED)
    assert len(Archive(out.folder).rows()) == len(after)


def test_done_again_the_same_rows_come_and_no_byte_changes(out: Out) -> None:
    first = out.late(("c", MISSING * HOUR, 7.5), ("a", 0, 1.0), ("new", HOUR, 2.0), ("f", 1, 2.0))
    assert len(first) == 4
    before = out.bytes()
    assert_equal_rows(out.again(), first)
    assert out.bytes() == before


def test_all_late_ones_together_or_one_by_one_is_the_same(out: Out, tmp_path_factory: pytest.TempPathFactory) -> None:
    added = [("c", MISSING * HOUR, 7.5), ("a", 0, 1.0), ("new", HOUR, 2.0), ("a", 0, 5.0), ("c", MISSING * HOUR + 1, 9)]
    for one in added:
        out.late(one)
    other = Out(tmp_path_factory.mktemp("other"))
    other.late(*added)
    assert_equal_rows(Archive(out.folder).rows(), Archive(other.folder).rows())


def test_rows_of_a_merged_file_are_corrected(tmp_path: Path) -> None:
    grid = Grid(10 * MINUTE, HOUR)
    cleaner, written = Cleaner(grid), []
    with RowWriter(tmp_path) as writer:
        for hour in range(24):
            time = LAST * DAY + hour * HOUR + np.arange(0, 60, 10, dtype=np.int64) * MINUTE
            zero = np.zeros(6, np.int32)
            readings = Readings(("only",), ("",), zero, zero, time, np.arange(6.0) + hour)
            (mended,) = cleaner.push(readings)
            writer.write(mended.rows, grid.period_start(mended.period))
            written.append((mended.period, readings))
        merged = compact_date(tmp_path, LAST)
        assert data_files(tmp_path) == [merged]
        period, readings = written[5]
        zero, time = np.zeros(7, np.int32), np.append(readings.time, readings.time[0] + 1)
        late = Readings(("only",), ("",), zero, zero, time, np.append(readings.value, 9.0))
        rows = correct(writer, tmp_path, grid, period, late, np.arange(7) == 6, [()], [(-np.inf, np.inf)])
    assert (rows.n.tolist(), rows.value.tolist()) == ([2], [7.0])
    assert merged is not None
    assert file_rows(merged).n.sum() == 24 * 6 + 1


def test_two_variables_and_two_dates(tmp_path: Path) -> None:
    weekly, variables = Grid(HOUR, 7 * DAY), ("humidity", "temperature")
    time = weekly.period_start(2600) + np.arange(0, 7 * 24, dtype=np.int64) * HOUR
    zero, one = np.zeros(time.size, np.int32), np.ones(time.size, np.int32)
    readings = Readings(("x",), variables, np.concatenate([zero, zero]), np.concatenate([zero, one]), np.tile(time, 2),
                        np.arange(2.0 * time.size))  # fmt: skip
    with RowWriter(tmp_path) as writer:
        (mended,) = Cleaner(weekly, variables).push(readings)
        writer.write(mended.rows, weekly.period_start(2600))
        variable, more = np.append(readings.variable, [1, 0]), np.append(readings.time, [time[3], time[30]])
        again = Readings(("x",), variables, 0 * variable, variable, more, np.append(readings.value, [500.0, 501.0]))
        late = np.arange(len(again)) >= len(readings)
        rows = correct(writer, tmp_path, weekly, 2600, again, late, [(), ()], [(-np.inf, np.inf)] * 2)
    row = sorted(zip([rows.variables[v] for v in rows.variable], rows.time, rows.value, strict=True))
    assert row == [("humidity", time[30], 501.0), ("temperature", time[3], 500.0)]
    assert len(Archive(tmp_path).rows()) == 2 * time.size


def test_a_period_of_which_nothing_was_written_gets_its_file(tmp_path: Path) -> None:
    zero = np.zeros(1, np.int32)
    late = Readings(("x",), ("",), zero, zero, np.array([LAST * DAY + HOUR]), np.ones(1))
    with RowWriter(tmp_path) as writer:
        period = int(GRID.find_period(late.time)[0])
        row = only(correct(writer, tmp_path, GRID, period, late, np.ones(1, bool), [()], [(-np.inf, np.inf)]))
    assert row["flag"] == Flag.NOT_EVALUATED
    assert [path.name for path in data_files(tmp_path)] == ["part-20200108T000000.parquet"]


def test_late_readings_are_stored_with_the_others_once_for_each_record(tmp_path: Path) -> None:
    store = LateReadingStore(tmp_path / "kept")
    store.put(7, readings_in_turn(6), record=10)
    late = readings_in_turn(2, names="axy", start=START + 100 * HOUR)
    readings, new = store.add(7, [(12, late)])
    assert len(readings) == 8
    assert new.tolist() == [False] * 6 + [True] * 2
    assert [readings.sensors[code] for code in readings.sensor[6:]] == ["a", "x"]
    # The same record once more, as after a crash, and then a later one.
    again, _ = store.add(7, [(12, late)])
    np.testing.assert_array_equal(again.time, readings.time)
    more, new = store.add(7, [(15, readings_in_turn(1, start=START + 50 * HOUR))])
    assert (len(more), int(new.sum())) == (9, 1)
    store.sync()
    # A restart that is before both finds what there was before them.
    older, new = store.add(7, [(12, late)])
    assert (len(older), int(new.sum())) == (8, 2)


def test_readings_of_a_period_that_never_was_are_all_late(tmp_path: Path) -> None:
    readings, new = LateReadingStore(tmp_path).add(3, [(1, readings_in_turn(4))])
    assert (len(readings), int(new.sum())) == (4, 4)


def test_old_periods_are_forgotten(tmp_path: Path) -> None:
    store = LateReadingStore(tmp_path)
    for period in (-1, 4, 5):
        store.put(period, readings_in_turn(2), record=0)
    store.drop(5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["5.kept"]
