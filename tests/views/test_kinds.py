"""OUTs that are not hours in days: rows per reading, long steps, old times, small numbers; and OUTs that are broken."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from output_folders import FIRST, Output, small_output, write_faults
from row_tables import write_provisional
from sensormend.errors import InputError
from sensormend.io.folder import Archive
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, read_json, write_csv, write_json
from sensormend.io.writing import RowWriter
from sensormend.pipeline.health import Health
from sensormend.pipeline.times import iso
from sensormend.readings import DAY, HOUR, MINUTE, REASONS, Flag, Rows
from sensormend.views.atlas import moment
from sensormend.views.attention import attention
from sensormend.views.daily_counts import DailyCounts
from sensormend.views.fault_list import fault_page
from sensormend.views.matrix import matrix
from sensormend.views.neighbours import explanation, neighbours
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader, numbers, utc
from sensormend.views.sensors import sensor_view
from sensormend.views.series import series


def plain_rows(sensors: tuple[str, ...], time: Any) -> Rows:
    """Return good readings, one per sensor and time."""
    code = np.repeat(np.arange(len(sensors), dtype=np.int32), len(time))
    size, value = code.size, np.ones(code.size)
    small = np.ones(size, np.int8)
    return Rows(sensors, ("",), code, np.zeros(size, np.int32), np.tile(np.asarray(time, np.int64), len(sensors)),
                value, np.ones(size, np.int32), value, value, value, small, np.zeros(size, np.int8), small)  # fmt: skip


def plain_out(path: Path, time: Any, step: str, period: str, *lines: tuple[object, ...], **options: object) -> Path:
    """Write two sensors of good readings at some times, with faults."""
    with RowWriter(path) as writer:
        writer.write(plain_rows(("A", "B"), time))
    first, last = int(time[0]), int(time[-1])
    entries = [(name, "", len(time), 0.0, 0.0, 0.1, None, None, first, last, 20.5, "healthy") for name in "AB"]
    write_csv(path / "sensors.csv", SENSORS_HEADER, entries)
    write_faults(path, lines)
    grid = {"step": step, "period": period, "early_seconds": 0.0}
    write_json(path / "run.json", {"command": "clean", "grid": grid, "options": options})
    return path


def test_rows_per_reading_end_with_the_slot_of_the_last_one(tmp_path: Path) -> None:
    time = FIRST + np.arange(48) * HOUR + 50 * MINUTE
    fault = ("A", "", FIRST + DAY, FIRST + 2 * DAY, "stuck", 4.0, "A stood still.")
    with OutReader(plain_out(tmp_path / "out", time, "1h", "1d", fault, per_reading=True)) as reader:
        assert reader.final() == FIRST + 2 * DAY
        # Its rows are good: what is known is only that the fault is not over.
        assert sensor_view(reader, "A").state == "recovering"
        assert sensor_view(reader, "B").state == "healthy"
        assert fault_page(reader, state="open").total == 1
        # The slot of 23:50 is the hour of 23.
        assert moment(reader, int(time[-1])).time == "2024-01-02T23:00:00Z"
        assert moment(reader, int(time[-1])).state == ["recovering", "healthy"]


def test_steps_longer_than_a_day_do_not_end_before_they_are_over(tmp_path: Path) -> None:
    weeks = 4 * DAY + (FIRST - 4 * DAY) // (7 * DAY) * 7 * DAY + np.arange(8) * 7 * DAY
    with OutReader(plain_out(tmp_path / "out", weeks, "7d", "28d")) as reader:
        assert network_overview(reader).states["healthy"] == 2
        assert {line.cells for line in matrix(reader).rows} == {"s" * 8}


def test_dates_before_1970(tmp_path: Path) -> None:
    time = -5 * DAY + np.array([0, 2, 3, 4]) * DAY + 12 * HOUR
    with OutReader(plain_out(tmp_path / "out", time, "1h", "1d")) as reader:
        shown = matrix(reader)
        assert (shown.start, shown.cells) == ("1969-12-27", 5)
        assert [line.cells for line in shown.rows] == ["s.sss", "s.sss"]


def test_nothing_before_1970_is_lost_while_it_is_provisional(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    write_json(tmp_path / "state" / "watch.json", {})
    write_provisional(tmp_path, plain_rows(("A",), -DAY + np.arange(24) * HOUR))
    with OutReader(tmp_path) as reader:
        assert network_overview(reader).provisional_from == "1969-12-31T00:00:00Z"
        assert [line.cells for line in matrix(reader).rows] == ["s"]


def test_small_and_large_numbers_keep_their_digits() -> None:
    assert numbers(np.array([1.5e-9, -2.5e-200, 0.0, 1e306, 12.3456789, np.nan, -np.inf])) == [
        1.5e-9, -2.5e-200, 0.0, 1e306, 12.345679, None, None
    ]  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> Output:
    return small_output(tmp_path / "city", days=6)


def test_rows_that_have_just_become_final_are_returned_once(written: Output) -> None:
    last = written.time >= FIRST + 5 * DAY
    later = Archive(written.path).rows(None, FIRST + 5 * DAY, None)
    date = written.path / "data" / "date=2024-01-06"
    (hidden := date.with_name("hidden")).mkdir()
    for file in list(date.iterdir()):
        file.rename(hidden / file.name)
    write_provisional(written.path, later)
    with OutReader(written.path) as reader:
        assert reader.final() == FIRST + 5 * DAY
        # The watch writes the rows; nobody has looked around since, and provisional.parquet is as it was.
        for file in list(hidden.iterdir()):
            file.rename(date / file.name)
        rows, since = reader.rows(["S00"], FIRST, FIRST + 9 * DAY, "")
        assert since is None
        np.testing.assert_array_equal(rows.time, written.time)
        assert last.sum() == 24


def test_a_fault_that_is_too_new_for_the_tables_says_what_its_sensor_does(written: Output) -> None:
    new = plain_rows(("S05",), FIRST + 6 * DAY + np.arange(6) * HOUR)
    new = replace(new, value=np.array([1.0, 1.0, 8.5, 8.5, 8.5, 8.5]))
    new.flag[2:], new.reason[2:] = Flag.FAIL, REASONS.index("offset")
    write_provisional(written.path, new)
    since = FIRST + 6 * DAY + 2 * HOUR
    health = Health("S05", "", "faulty", "offset", since, since + 3 * HOUR)
    write_json(written.path / "state" / "alerts.json", {"sensors": [asdict(health)]})
    words = "S05 reads 7.5 high since 2024-01-07 02:00; its period is not over."
    with OutReader(written.path) as reader:
        assert words in [fault.sentence for fault in fault_page(reader).items]
        assert words in [one.sentence for one in attention(reader).items]


def test_a_sensor_that_joins_is_known_before_its_day_is_over(written: Output) -> None:
    new = plain_rows(("new",), FIRST + 6 * DAY + np.arange(5) * HOUR)
    write_provisional(written.path, new)
    with OutReader(written.path) as reader:
        assert "new" in [line.sensor for line in matrix(reader).rows]
        assert sensor_view(reader, "new").heard == "2024-01-07T04:00:00Z"
        assert series(reader, "new").value == [1.0] * 5
        assert sensor_view(reader, "S00").readings > 0


def test_faults_go_on_while_the_tables_of_a_watch_are_behind_its_rows(written: Output) -> None:
    run = read_json(written.path / "run.json")
    write_faults(written.path, [("S01", "", FIRST + 3 * DAY, FIRST + 5 * DAY, "stuck", 4.2, "S01 stood still.")])
    write_json(written.path / "run.json", {**run, "command": "watch", "closed": iso(FIRST + 5 * DAY)})
    with OutReader(written.path) as reader:
        assert [entry.open for entry in fault_page(reader).items] == [True]
        # In the rows it is wrong from the last day on, after the end of the tables.
        assert sensor_view(reader, "S01").state == "recovering"


def test_files_that_are_made_one_while_they_are_counted(written: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    with DailyCounts(written.path) as plain:
        expected = plain.states(19723, 19728)
    count, calls = DailyCounts._counted, itertools.count()

    def counted(self: DailyCounts, files: Any, dates: Any) -> Any:
        if next(calls) == 0:
            old = files[0]
            old.rename(old.with_name(f"{old.stem}-20240101T120000.parquet"))
        return count(self, files, dates)

    monkeypatch.setattr(DailyCounts, "_counted", counted)
    with DailyCounts(written.path) as digest:
        names, states = digest.states(19723, 19728)
    assert names == expected[0]
    np.testing.assert_array_equal(states, expected[1])


def test_an_unreadable_file_is_reported_in_one_line(written: Output) -> None:
    next((written.path / "data" / "date=2024-01-03").iterdir()).write_bytes(b"nothing of the kind")
    with DailyCounts(written.path) as digest, pytest.raises(InputError, match=r"cannot read city/data: [^\n]*$"):
        digest.states(19723, 19728)


def test_files_that_are_made_one_while_the_span_is_asked_for(written: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, table, calls = Archive(written.path), Archive.table, itertools.count()

    def asked(self: Archive, files: Any = None) -> Any:
        if next(calls) == 0:
            files[-1].rename(files[-1].with_name(f"{files[-1].stem}-20240106T120000.parquet"))
        return table(self, files)

    monkeypatch.setattr(Archive, "table", asked)
    assert archive.span() == (FIRST, FIRST + 6 * DAY - HOUR)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("faults.csv", ",".join(FAULTS_HEADER) + "\nS01,,2024-01-01,2024-01-02,stuck,much,a\n"),
        ("faults.csv", ",".join(FAULTS_HEADER) + "\nS01,,2024-01-0"),
        ("sensors.csv", ",".join(SENSORS_HEADER) + "\nS01,,many,,,,,,,,\n"),
        ("state/alerts.json", '{"sensors": [1]}'),
        ("state/alerts.json", '{"sensors": [{"sensor": "S00"}]}'),
        ("state/alerts.json", '{"sensors": [{"sensor": "S00", "variable": "", "state": "faulty", "reason": "", '
                              '"since": "x", "heard": null}]}'),
        ("state/alerts.json", '{"sensors": [{"sensor": "S00", "variable": "", "state": "asleep", "reason": "", '
                              '"since": 0, "heard": null}]}'),
        ("state/provisional.parquet", "PAR1"),
        ("run.json", "{"),
    ],
)  # fmt: skip
def test_broken_tables_are_reported_in_one_line(written: Output, name: str, content: str) -> None:
    (written.path / "state").mkdir()
    (written.path / name).write_text(content)
    with OutReader(written.path) as reader, pytest.raises(InputError, match=r"^[^\n]*" + Path(name).name + r"[^\n]*$"):
        network_overview(reader)


@pytest.mark.parametrize("run", [{}, {"options": [1], "notes": 5, "grid": []},
                                 {"grid": {"step": 5, "early_seconds": "x"}, "closed": 7}])  # fmt: skip
def test_a_run_that_says_odd_things_is_looked_at_all_the_same(written: Output, run: dict[str, Any]) -> None:
    write_json(written.path / "run.json", run)
    with OutReader(written.path) as reader:
        assert network_overview(reader).sensors == 12
        assert explanation(reader, "S01", FIRST + 5 * DAY + HOUR).text


def test_places_that_are_nowhere_are_none(written: Output) -> None:
    lines = [(name, "", 1, 0.0, 0.0, 0.1, np.inf, 10.0, FIRST, FIRST, 20.5, "healthy") for name in written.sensors]
    write_csv(written.path / "sensors.csv", SENSORS_HEADER, lines)
    with OutReader(written.path) as reader:
        assert not network_overview(reader).places
        assert sensor_view(reader, "S00").latitude is None


def test_a_sensor_that_is_silent_within_a_fault_is_silent(tmp_path: Path) -> None:
    """The fault goes on; that nothing comes is said first, and each row is explained by what it has as its reason."""
    written = small_output(tmp_path / "city", days=6, variables=("rh", "temp"))
    end = FIRST + 6 * DAY
    offset = ("S02", "temp", FIRST + DAY, end, "offset", 3.0, "S02 temp read too high.", 4.0, 0.0, 0.99)
    write_faults(written.path, [offset, ("S02", "", FIRST + 2 * DAY, end, "silent", np.nan, "S02 sent nothing.")])
    with OutReader(written.path) as reader:
        assert {sensor_view(reader, "S02", variable).state for variable in ("rh", "temp")} == {"silent"}
        first, second = fault_page(reader, sensor="S02", sort="from", order="asc").items
        assert (first.open, first.size, first.rate, first.confidence, first.sure) == (True, 4.0, 0.0, 0.99, "certain")
        assert (second.open, second.size, second.confidence) == (True, None, None)
        assert "S02 sent nothing." in explanation(reader, "S02", FIRST + 2 * DAY + HOUR, "temp").text


def test_a_silence_of_all_variables_explains_each_of_them(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=6, variables=("rh", "temp"))
    silent = ("S02", "", FIRST + 2 * DAY, FIRST + 3 * DAY, "silent", np.nan, "S02 sent nothing.")
    write_faults(written.path, [silent])
    with OutReader(written.path) as reader:
        assert "S02 sent nothing." in explanation(reader, "S02", FIRST + 2 * DAY + HOUR, "temp").text


def test_an_out_that_vanishes_is_empty_and_comes_back(written: Output, tmp_path: Path) -> None:
    with OutReader(written.path) as reader:
        assert network_overview(reader).sensors == 12
        written.path.rename(tmp_path / "away")
        reader._next_refresh = 0.0
        reader.refresh()
        assert network_overview(reader).sensors == 0
        (tmp_path / "away").rename(written.path)
        reader._next_refresh = 0.0
        reader.refresh()
        assert network_overview(reader).sensors == 12


def test_stretches_are_no_more_than_can_be_seen(tmp_path: Path) -> None:
    size = 4 * 1440
    rows = plain_rows(("A", "B"), FIRST + np.arange(size) * MINUTE)
    flag = np.where(np.arange(len(rows)) % 2 == 0, Flag.SUSPECT, Flag.GOOD).astype(np.int8)
    plain_out(tmp_path / "out", rows.time[:size], "1min", "1d")
    with RowWriter(tmp_path / "other") as writer:
        writer.write(replace(rows, flag=flag))
    for name in ("sensors.csv", "faults.csv", "run.json"):
        (tmp_path / "out" / name).rename(tmp_path / "other" / name)
    with OutReader(tmp_path / "other") as reader:
        whole = series(reader, "A", points=10_000)
        assert (whole.thinned, len(whole.spans)) == (1, size // 2)
        thin = series(reader, "A", points=100)
        assert len(thin.spans) == 1
        assert (thin.spans[0].start, thin.spans[0].end) == (whole.spans[0].start, whole.spans[-1].end)


def test_a_series_of_seconds_has_no_more_slots_than_one_of_minutes(tmp_path: Path) -> None:
    time = FIRST + np.array([0, 20 * DAY])
    with OutReader(plain_out(tmp_path / "out", time, "1s", "1d")) as reader:
        shown = series(reader, "A", start=FIRST)
        assert (shown.start, shown.end) == ("2024-01-14T01:20:01Z", "2024-01-21T00:00:01Z")


def test_neighbours_long_before_the_first_row_are_none(written: Output) -> None:
    with OutReader(written.path) as reader:
        assert neighbours(reader, "S00", at=-(1 << 62)).items == []


def test_single_wrong_readings_are_one_line_and_what_goes_on_comes_first(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=6)
    spikes = [
        ("S01", "", FIRST + hour * HOUR, FIRST + (hour + 1) * HOUR, "spike", 2.0, "S01 read 60.0.", size, 0.0, 0.99)
        for hour, size in ((5, 3.0), (29, -12.3), (50, 4.0))
    ]
    long = ("S02", "", FIRST + DAY, FIRST + 4 * DAY, "stuck", 4.0, "S02 was stuck at 7.00 for 3 days.")
    going_on = ("S03", "", FIRST + 5 * DAY, FIRST + 6 * DAY, "offset", 4.0, "S03 reads 5.0 high since then.")
    write_faults(written.path, [*spikes, long, going_on])
    with OutReader(written.path) as reader:
        page = fault_page(reader)
        assert [(one.sensor, one.count) for one in page.items] == [("S03", 1), ("S02", 1), ("S01", 3)]
        folded = page.items[-1]
        assert folded.seconds == 3 * 3600
        assert folded.sentence.startswith("S01 has 3 single wrong readings, up to 12 off, the last one at ")
        assert page.reasons["spike"] == 3
        assert fault_page(reader, reason="spike").total == 3
        assert fault_page(reader, fold=False).total == 5


@pytest.mark.parametrize(("command", "first"), [("clean", ["S02", "S01", "S03"]), ("watch", ["S03", "S02", "S01"])])
def test_what_is_only_doubtful_comes_after_what_is_sure(tmp_path: Path, command: str, first: list[str]) -> None:
    written = small_output(tmp_path / "city", days=6)
    doubtful = ("S01", "", FIRST, FIRST + 5 * DAY, "drift", 4.0, "S01 was doubtful.", 1.0, 0.0, 0.3)
    sure = ("S02", "", FIRST + DAY, FIRST + 3 * DAY, "stuck", 4.0, "S02 was stuck.", 1.0, 0.0, 0.9)
    open_one = ("S03", "", FIRST + 5 * DAY, FIRST + 6 * DAY, "noise", 4.0, "S03 is doubtful.", 1.0, 0.0, 0.1)
    write_faults(written.path, [doubtful, sure, open_one])
    write_json(written.path / "run.json", read_json(written.path / "run.json") | {"command": command})
    with OutReader(written.path) as reader:
        assert [one.sensor for one in fault_page(reader).items] == first
        assert [one.sensor for one in fault_page(reader, sort="length").items] == ["S01", "S02", "S03"]
        assert [one.sensor for one in fault_page(reader, sort="sure").items] == ["S02", "S01", "S03"]


def test_a_run_of_short_faults_is_one_line(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=20)

    def fault(day: float, hours: int, reason: str = "noise", score: float = 2.0) -> tuple[Any, ...]:
        start = FIRST + round(day * DAY)
        return ("S04", "", start, start + hours * HOUR, reason, score, f"S04 {reason}.", 1.0, 0.0, 1.0)

    run = [fault(2, 3), fault(3, 1, "offset", 4.0), fault(3.5, 6), fault(5, 2)]
    alone = [fault(9, 3), fault(11.5, 2), fault(14, 20)]
    write_faults(written.path, [*run, *alone])
    with OutReader(written.path) as reader:
        page = fault_page(reader, sort="from", order="asc")
        assert (page.total, page.lines) == (7, 4)
        first, *others = page.items
        assert first.count == 4
        assert (first.start, first.end) == (utc(run[0][2]), utc(run[-1][3]))
        assert first.seconds == 12 * 3600
        assert first.score == 4.0
        assert "4 times in 3.1 days, for 12 hours in all (noise, offset)" in first.sentence
        assert [other.count for other in others] == [1, 1, 1]
        assert fault_page(reader, fold=False).lines == 7


def test_variables_that_are_silent_together_are_one_line(tmp_path: Path) -> None:
    variables = ("co", "o3", "temp")
    written = small_output(tmp_path / "city", sensors=6, days=20, variables=variables)

    def silence(sensor: str, variable: str, day: int, days: int) -> tuple[Any, ...]:
        start, words = FIRST + day * DAY, f"{sensor} {variable} sent nothing for {days} days."
        return (sensor, variable, start, start + days * DAY, "silent", np.nan, words)

    together = [silence("S04", variable, 5, 3) for variable in ("co", "o3")]
    alone = [silence("S04", "temp", 5, 9), silence("S05", "co", 5, 3)]
    write_faults(written.path, [*together, *alone])
    with OutReader(written.path) as reader:
        page = fault_page(reader, sort="length")
        assert (page.total, page.lines, page.reasons) == (4, 3, {"silent": 4})
        first, *others = sorted(page.items, key=lambda one: -one.count)
        assert (first.sensor, first.variable, first.others, first.count) == ("S04", "co", ["o3"], 2)
        assert first.sentence == "co and o3 of S04 sent nothing for 3 days."
        assert first.seconds == 3 * 86_400
        assert all((other.count, other.others) == (1, []) for other in others)
        (own,) = fault_page(reader, sensor="S04", variable="o3").items
        assert (own.variable, own.sentence) == ("o3", "S04 o3 sent nothing for 3 days.")


def test_faults_of_variables_that_fail_together_are_one_line(tmp_path: Path) -> None:
    variables = ("co", "o3", "temp")
    written = small_output(tmp_path / "city", sensors=6, days=20, variables=variables)
    end = FIRST + 20 * DAY

    def fault(sensor: str, variable: str, hour: int, hours: int, reason: str = "offset", score: float = 2.0) -> Any:
        start = FIRST + hour * HOUR
        return (sensor, variable, start, start + hours * HOUR, reason, score, f"{reason}.", 1.0, 0.0, 1.0)

    all_three = [fault("S01", name, 100 + late, 50 + 10 * late) for late, name in enumerate(variables)]
    open_two = [fault("S02", "co", 400, 80, "gain", 5.0), fault("S02", "temp", 402, 78)]
    apart = [fault("S03", "co", 100, 50), fault("S03", "o3", 103, 50), fault("S03", "temp", 103, 120, "silent")]
    # What sends fill values is another thing than what is wrong.
    filled = [fault("S06", name, 100, 48, "fill") for name in ("co", "o3")] + [fault("S06", "temp", 100, 48)]
    unlike = [fault("S04", "co", 100, 10), fault("S04", "o3", 100, 90), fault("S05", "co", 100, 9),
              fault("S05", "co", 101, 9, "noise")]  # fmt: skip
    assert open_two[0][3] == open_two[1][3] == end
    write_faults(written.path, sorted([*all_three, *open_two, *apart, *unlike, *filled], key=lambda line: line[2]))
    with OutReader(written.path) as reader:
        page = fault_page(reader, sort="sensor", order="asc")
        assert page.total == sum(one.count for one in page.items) == 15
        assert [(one.sensor, one.count) for one in page.items] == [
            ("S01", 3), ("S02", 2), *[("S03", 1)] * 3, *[("S04", 1)] * 2, ("S05", 2), ("S06", 2), ("S06", 1)
        ]  # fmt: skip
        assert page.items[-2].sentence == "co and o3 of S06 sent fill values only for 2 days."
        three, two = page.items[:2]
        assert {three.variable, *three.others} == set(variables)
        assert (three.start, three.end) == (utc(all_three[0][2]), utc(all_three[2][3]))
        assert (three.seconds, three.open, three.size) == (70 * 3600, False, None)
        assert three.sentence == "All 3 variables of S01 were wrong together for 2.9 days (offset)."
        assert (two.variable, two.others, two.open, two.reason) == ("co", ["temp"], True, "gain")
        assert two.sentence == "co and temp of S02 are wrong together since 2024-01-17 16:00 (gain, offset)."
        assert fault_page(reader, sensor="S02", variable="temp").items[0].sentence == "offset."
        assert fault_page(reader, variable="temp").lines == 4
        assert fault_page(reader, fold=False).lines == 15
        assert fault_page(reader, state="open").total == 2


def test_a_fault_that_is_over_says_so_while_its_sensor_counts_as_faulty(written: Output) -> None:
    start, end = FIRST + 4 * DAY, FIRST + 5 * DAY
    write_faults(written.path, [("S05", "", start, end, "offset", 4.0, "S05 read 5.0 high for 1 day.")])
    (written.path / "state").mkdir()
    health = Health("S05", "", "faulty", "offset", start, FIRST + 6 * DAY - HOUR)
    write_json(written.path / "state" / "alerts.json", {"sensors": [asdict(health)]})
    words = "S05 read 5.0 high for 1 day. It was over at 2024-01-06 00:00, not long enough ago to count as healthy."
    with OutReader(written.path) as reader:
        assert [one.sentence for one in attention(reader).items if one.sensor == "S05"] == [words]


def test_a_fault_that_is_only_suspected_is_shaded_as_suspect(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=20)
    start, sensor = FIRST + 3 * DAY, "S02"
    fault = (sensor, "", start, start + 2 * DAY, "offset", 3.0, "offset.", 1.0, 0.0)
    for confidence, kind in ((0.4, "suspect"), (0.9, "faulty")):
        write_faults(written.path, [(*fault, confidence)])
        with OutReader(written.path) as reader:
            spans = series(reader, sensor, "", start, start + 2 * DAY, 500).spans
        assert {(span.word, span.kind) for span in spans if span.word == "offset"} == {("offset", kind)}
