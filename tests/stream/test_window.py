"""What is open, how far the network's time has come, and what is kept of what is over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds import START
from sensormend.pipeline.mender import NEVER
from sensormend.readings import DAY, HOUR, Readings
from sensormend.stream.kept import Kept
from sensormend.stream.ledger import Ledger
from sensormend.stream.window import Names, Watermark, Window


def some(count: int, *, sensors: int = 3, start: int = START, names: str = "abc") -> Readings:
    sensor = np.arange(count) % sensors
    return Readings(tuple(names), ("",), sensor, 0 * sensor, start + np.arange(count) * HOUR, np.arange(count) / 2)


def test_names_keep_their_numbers() -> None:
    names = Names(["b"])
    assert names.codes(("a", "b"), np.array([1, 0, 1])).tolist() == [0, 1, 0]
    before = names.all
    assert names.codes(("a", "c"), np.array([0])).tolist() == [1]
    # `c` was offered and not used: it is not one of ours.
    assert names.all is before
    assert names.codes(["c", "a"], np.array([0, 0, 1])).tolist() == [2, 2, 1]
    assert names.all == ("b", "a", "c")


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 2**32 - 1))
def test_the_pile_is_what_was_put_on_it(sizes: list[int], seed: int) -> None:
    random, window = np.random.default_rng(seed), Window()
    values: list[float] = []
    for size in sizes:
        part = some(size)
        window.add(part)
        values += part.value.tolist()
        assert window.column("value").tolist() == values
        if random.random() < 0.3 and values:
            chosen = random.random(len(values)) < 0.5
            window.keep(chosen)
            values = [value for value, stays in zip(values, chosen, strict=True) if stays]
    twin = Window()
    twin.restore(window.state())
    assert twin.column("value").tolist() == values


def watermark(sensors: int, hours: int, mark: Watermark | None = None) -> Watermark:
    mark = mark or Watermark(DAY, 30 * DAY)
    for hour in range(hours):
        mark.see(np.arange(sensors), np.full(sensors, START + hour * HOUR))
    return mark


def test_two_sensors_and_a_quarter_have_to_be_there() -> None:
    mark = watermark(50, 3)
    assert mark.time == START + 2 * HOUR
    mark.see(np.arange(12), np.full(12, START + 20 * HOUR))
    assert mark.time == START + 2 * HOUR
    mark.see(np.array([12]), np.array([START + 20 * HOUR]))
    assert mark.time == START + 20 * HOUR


def test_a_first_clock_that_is_ahead_is_outvoted_until_something_was_closed() -> None:
    mark = Watermark(DAY, 30 * DAY)
    mark.see(np.array([0]), np.array([START + 20 * HOUR]))
    assert mark.time == START + 20 * HOUR
    mark.see(np.array([1, 2]), np.array([START, START]))
    assert mark.time == START
    mark.fixed = True
    mark.move(START + 5 * HOUR)
    mark.see(np.array([1, 2]), np.array([START + HOUR, START + HOUR]))
    assert mark.time == START + 5 * HOUR


def test_the_last_ones_alive_are_believed_when_the_others_are_dead() -> None:
    mark = watermark(50, 24)
    for hour in range(24, 24 * 4):
        mark.see(np.array([7]), np.array([START + hour * HOUR]))
    assert mark.time > START + 2 * DAY


def test_one_clock_is_not_believed_while_the_others_speak() -> None:
    mark = watermark(10, 24)
    for hour in range(24, 24 * 9):
        mark.see(np.array([7]), np.array([START + hour * HOUR + 365 * DAY]))
        others = np.setdiff1d(np.arange(10), [7])
        mark.see(others, np.full(9, START + hour * HOUR))
    assert mark.time == START + (24 * 9 - 1) * HOUR


def test_a_watermark_goes_on_where_it_was() -> None:
    mark = watermark(5, 30)
    twin = Watermark(DAY, 30 * DAY)
    twin.restore(*mark.state())
    for one in (mark, twin):
        one.see(np.array([0, 1]), np.array([START + 40 * HOUR] * 2))
    assert (twin.time, twin.newest, twin.fixed) == (mark.time, mark.newest, mark.fixed)
    assert Watermark(DAY, DAY).newest == NEVER


def test_late_readings_are_kept_with_the_others_once_for_each_record(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "kept")
    kept.put(7, some(6), record=10)
    late = some(2, names="axy", start=START + 100 * HOUR)
    readings, new = kept.add(7, [(12, late)])
    assert len(readings) == 8
    assert new.tolist() == [False] * 6 + [True] * 2
    assert [readings.sensors[code] for code in readings.sensor[6:]] == ["a", "x"]
    # The same record once more, as after a crash, and then a later one.
    again, _ = kept.add(7, [(12, late)])
    np.testing.assert_array_equal(again.time, readings.time)
    more, new = kept.add(7, [(15, some(1, start=START + 50 * HOUR))])
    assert (len(more), int(new.sum())) == (9, 1)
    kept.sync()
    # A restart that is before both finds what there was before them.
    older, new = kept.add(7, [(12, late)])
    assert (len(older), int(new.sum())) == (8, 2)


def test_readings_of_a_period_that_never_was_are_all_late(tmp_path: Path) -> None:
    readings, new = Kept(tmp_path).add(3, [(1, some(4))])
    assert (len(readings), int(new.sum())) == (4, 4)


def test_old_periods_are_forgotten(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for period in (-1, 4, 5):
        kept.put(period, some(2), record=0)
    kept.drop(5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["5.kept"]


def test_what_is_settled_stays_and_the_rest_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "faults.csv"
    ledger = Ledger(path, ("sensor", "from"))
    ledger.write([("a", 0)], [("b", HOUR)])
    assert path.read_text() == "sensor,from\na,1970-01-01T00:00:00\nb,1970-01-01T01:00:00\n"
    length = ledger.length
    ledger.write([("b", HOUR)], [("c", HOUR)])
    ledger.write([], [])
    assert path.read_text().splitlines()[1:] == ["a,1970-01-01T00:00:00", "b,1970-01-01T01:00:00"]
    # After a crash it begins where the state says, and what came since is written again.
    again = Ledger(path, ("sensor", "from"), length)
    again.write([("d", 0)])
    assert path.read_text().splitlines()[1:] == ["a,1970-01-01T00:00:00", "d,1970-01-01T00:00:00"]


def test_lines_at_the_end_replace_those_that_no_state_knows(tmp_path: Path) -> None:
    path = tmp_path / "rejected.csv"
    ledger = Ledger(path, ("reason", "text"), limit=40)
    ledger.append([("x", 'a "quoted", one')])
    known = ledger.length
    ledger.append([("y", "1")])
    ledger = Ledger(path, ("reason", "text"), known, limit=40)
    ledger.append([("z", "2\n3")])
    assert path.read_text() == 'reason,text\nx,"a ""quoted"", one"\nz,"2\n3"\n'
    ledger.turn()
    assert not path.exists()
    assert (tmp_path / "rejected.old.csv").exists()
    ledger.append([("w", "")])
    assert path.read_text() == "reason,text\nw,\n"


@pytest.mark.parametrize("length", [10_000, -1])
def test_a_table_that_somebody_removed_begins_anew(tmp_path: Path, length: int) -> None:
    ledger = Ledger(tmp_path / "t.csv", ("sensor",), max(length, 0))
    ledger.write([("a",)])
    assert (tmp_path / "t.csv").read_text() == "sensor\na\n"
