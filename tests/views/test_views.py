import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from output_folders import FIRST, Output, big_output, small_output, write_faults, write_output
from sensormend.errors import InputError
from sensormend.io.metadata import read_json, write_json
from sensormend.pipeline.channel_states import STATES
from sensormend.pipeline.health import LETTERS, Health
from sensormend.pipeline.maintenance import EVER, Maintenance, Note
from sensormend.pipeline.places import Position
from sensormend.pipeline.sentences import ADVICE, percent
from sensormend.pipeline.times import parse_time
from sensormend.readings import DAY, HOUR, REASONS, SECOND, Flag
from sensormend.views.atlas import atlas, moment
from sensormend.views.attention import attention
from sensormend.views.fault_list import FaultEntry, fault_page, how_sure
from sensormend.views.matrix import matrix
from sensormend.views.neighbours import candidates, explanation, neighbours
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader, utc
from sensormend.views.sensors import sensor_page, sensor_view
from sensormend.views.series import MAX_DAYS, series


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Output:
    return small_output(tmp_path_factory.mktemp("views") / "river", sensors=14, days=24, variables=("temp", "wind"))


@pytest.fixture(scope="module")
def reader(written: Output) -> OutReader:
    return OutReader(written.path)


def test_the_network_in_one_line(reader: OutReader) -> None:
    overview = network_overview(reader)
    assert overview.sentence.startswith("92 % of the readings were judged. 13 of 14 sensors are healthy. 1 is faulty. ")
    assert {state: count for state, count in overview.states.items() if count} == {"healthy": 13, "faulty": 1}
    assert (overview.name, overview.variables, overview.step, overview.period) == (
        "river",
        ["temp", "wind"],
        3600,
        86400,
    )
    assert overview.heard == overview.last
    assert (overview.first, overview.last) == ("2024-01-01T00:00:00Z", "2024-01-24T23:00:00Z")
    assert not overview.live
    assert overview.places


def test_a_removed_out_is_reported(tmp_path: Path) -> None:
    small_output(tmp_path / "city", sensors=3, days=4)
    with OutReader(tmp_path / "city") as reader:
        assert network_overview(reader).sensors == 3
        (tmp_path / "city").rename(tmp_path / "elsewhere")
        assert network_overview(reader).sentence == "city does not exist any more."


def test_the_share_that_was_filled_is_that_of_the_rows(reader: OutReader, written: Output) -> None:
    overview = network_overview(reader)
    estimated = np.isin(written.flag, (Flag.FAIL, Flag.MISSING)).mean()
    assert overview.filled == pytest.approx(estimated, abs=1e-6)
    assert f"{estimated:.1%}".replace("%", " %") in overview.sentence


@pytest.mark.parametrize("points", [2000, 48])
def test_a_series_says_what_was_corrected(tmp_path: Path, points: int) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=8, corrected=True)
    with OutReader(written.path) as reader:
        shown = series(reader, "S04", start=FIRST, end=FIRST + 8 * DAY, points=points)
    corrected = written.reason[4, 0] == REASONS.index("offset")
    estimated = written.flag[4, 0] == Flag.MISSING
    many = shown.thinned
    assert shown.corrected == corrected.reshape(-1, many).any(axis=1).astype(int).tolist()
    assert shown.estimated == estimated.reshape(-1, many).any(axis=1).astype(int).tolist()


def test_the_matrix_has_the_worst_first(reader: OutReader) -> None:
    shown = matrix(reader)
    assert (shown.start, shown.cells, shown.cell_days, shown.total) == ("2024-01-01", 24, 1, 28)
    worst, second = shown.rows[:2]
    assert (worst.sensor, worst.variable, worst.state) == ("S01", "temp", "faulty")
    assert [LETTERS[letter] for letter in worst.cells[-6:]] == ["faulty"] * 6
    assert second.sensor == "S02"
    assert [LETTERS[letter] for letter in second.cells[8:12]] == ["silent"] * 4
    by_name = matrix(reader, sort="name", variable="wind")
    assert [line.sensor for line in by_name.rows] == [f"S{k:02d}" for k in range(14)]


def test_the_matrix_of_a_watch_has_what_is_wrong_now_first(tmp_path: Path) -> None:
    written = small_output(tmp_path / "river", sensors=14, days=24, variables=("temp",))
    with OutReader(written.path) as reader:
        states = [line.state for line in matrix(reader).rows]
    write_json(written.path / "run.json", read_json(written.path / "run.json") | {"command": "watch"})
    with OutReader(written.path) as reader:
        of_watch = [line.state for line in matrix(reader).rows]
    assert of_watch == sorted(states, key=STATES.index)


def test_the_matrix_of_a_span_of_a_search_and_of_a_state(reader: OutReader) -> None:
    whole = {(line.sensor, line.variable): line.cells for line in matrix(reader).rows}
    part = matrix(reader, start=FIRST + 3 * DAY, end=FIRST + 9 * DAY)
    assert part.cells == 6
    assert all(line.cells == whole[line.sensor, line.variable][3:9] for line in part.rows)
    assert {line.sensor for line in matrix(reader, search="s1").rows} == {"S10", "S11", "S12", "S13"}
    assert {(line.sensor, line.variable) for line in matrix(reader, state="faulty").rows} == {("S01", "temp")}
    before = matrix(reader, end=FIRST - DAY)
    assert (before.cells, before.rows) == (0, [])
    assert matrix(reader, start=FIRST + 400 * DAY).rows == []


@given(size=st.integers(1, 30))
def test_pages_have_everything_once(reader: OutReader, size: int) -> None:
    pages: list[tuple[str, str]] = []
    offset: int | None = 0
    while offset is not None:
        page = matrix(reader, offset=offset, limit=size)
        pages += [(line.sensor, line.variable) for line in page.rows]
        assert len(page.rows) <= size
        offset = page.next
    assert pages == [(line.sensor, line.variable) for line in matrix(reader, limit=2000).rows]


def test_many_days_become_one_cell(tmp_path: Path) -> None:
    with OutReader(big_output(tmp_path / "big", sensors=3, days=800, slots=1)) as reader:
        shown = matrix(reader, start=0)
    assert (shown.cell_days, shown.cells) == (2, 400)
    assert {len(line.cells) for line in shown.rows} == {400}


def test_a_series_is_what_the_rows_say(reader: OutReader, written: Output) -> None:
    shown = series(reader, "S02", "wind", FIRST, FIRST + 24 * DAY)
    value = written.value[2, 1]
    assert shown.time == (written.time / SECOND).tolist()
    assert [one is None for one in shown.value] == np.isnan(value).tolist()
    assert np.array(shown.value, float)[np.isfinite(value)] == pytest.approx(value[np.isfinite(value)], abs=1e-6)
    assert shown.cleaned == pytest.approx(written.cleaned[2, 1].tolist(), abs=1e-6)
    assert shown.flag == written.flag[2, 1].tolist()
    assert shown.estimated == (written.flag[2, 1] == Flag.MISSING).astype(int).tolist()
    assert (shown.thinned, shown.low, shown.high, shown.provisional_from) == (1, [], [], None)
    silent = [span for span in shown.spans if span.kind == "silent"]
    assert [(one.start, one.end) for one in silent] == [((FIRST + 8 * DAY) / SECOND, (FIRST + 12 * DAY) / SECOND)]


def test_faulty_stretches_are_named(reader: OutReader) -> None:
    shown = series(reader, "S01", "temp")
    assert [(span.word, span.end) for span in shown.spans if span.kind == "faulty"] == [
        ("stuck", (FIRST + 24 * DAY) / SECOND)
    ]


def test_a_fault_is_shaded_from_its_first_to_its_last_wrong_reading(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=20)
    begin, end = FIRST + 4 * DAY + 3 * HOUR, FIRST + 14 * DAY
    write_faults(
        written.path,
        [("S04", "", begin, end - 5 * DAY, "offset", 4.0, "a", 1.0, 0.0, 1.0),
         ("S04", "", begin, end, "offset", 4.0, "b", 2.13, 0.0, 1.0),
         ("S04", "", end - DAY, end, "noise", 4.0, "c", 3.0, 0.0, 1.0)],
    )  # fmt: skip
    with OutReader(written.path) as reader:
        shown = series(reader, "S04", start=FIRST)
        part = series(reader, "S04", start=begin + DAY, end=begin + 2 * DAY)
    # No row is flagged between: all of it is one shade all the same, and the first days are not part of it.
    faulty = [(one.start * SECOND, one.end * SECOND, one.word) for one in shown.spans if one.kind == "faulty"]
    assert faulty == [(begin, end, "offset, noise")]
    assert [(one.start * SECOND, one.end * SECOND, one.word, one.size) for one in shown.lasting] == [
        (begin, end, "offset", "+2.1")
    ]
    assert [(one.start * SECOND, one.end * SECOND) for one in part.spans] == [(begin + DAY, begin + 2 * DAY)]


def test_what_flags_say_amid_a_fault_is_part_of_it_and_silence_is_not(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=20)
    days = 6 * DAY, 10 * DAY
    write_faults(written.path, [("S02", "", FIRST + DAY, FIRST + 8 * DAY, "drift", 4.0, "", -3.0, -0.1, 1.0)])
    with OutReader(written.path) as reader:
        shown = series(reader, "S02", start=FIRST)
    assert [(one.kind, one.start * SECOND - FIRST, one.end * SECOND - FIRST) for one in shown.spans] == [
        ("not evaluated", 0, DAY), ("faulty", DAY, 8 * DAY), ("silent", *days)
    ]  # fmt: skip
    assert [one.size for one in shown.lasting] == ["\N{MINUS SIGN}3.0, falling"]


def test_a_thinned_series_keeps_the_extremes(reader: OutReader, written: Output) -> None:
    shown = series(reader, "S03", "temp", FIRST, FIRST + 24 * DAY, points=150)
    assert shown.thinned == 4
    assert len(shown.time) == 144
    value = written.value[3, 0].reshape(144, 4)
    assert max(one for one in shown.high if one is not None) == pytest.approx(np.nanmax(value), abs=1e-6)
    assert shown.low == pytest.approx(np.fmin.reduce(value, axis=1).tolist(), abs=1e-6)
    assert shown.value == pytest.approx(np.nanmean(value, axis=1).tolist(), abs=1e-6)
    cleaned = written.cleaned[3, 0].reshape(144, 4)
    assert shown.residual == pytest.approx(np.nanmean(value - cleaned, axis=1).tolist(), abs=1e-6)
    assert shown.cleaned_low == pytest.approx(cleaned.min(axis=1).tolist(), abs=1e-6)
    assert shown.cleaned_high == pytest.approx(cleaned.max(axis=1).tolist(), abs=1e-6)
    ends = np.array([shown.lower, shown.cleaned_low, shown.cleaned_high, shown.upper], float)
    assert (np.diff(ends, axis=0) >= 0).all()
    spike = int(np.flatnonzero(written.reason[3, 0] == REASONS.index("spike"))[0])
    assert shown.flag[spike // 4] == Flag.FAIL


def test_a_series_of_years_is_cut(tmp_path: Path) -> None:
    with OutReader(big_output(tmp_path / "long", sensors=2, days=500, slots=1)) as reader:
        shown = series(reader, "S0000", start=0, end=FIRST + 10_000 * DAY)
    assert len(shown.time) == MAX_DAYS
    assert shown.end == utc(FIRST + 500 * DAY)
    assert (shown.start, shown.requested) == (utc(FIRST + 100 * DAY), utc(FIRST))


def test_missing_rows_are_a_hole(tmp_path: Path) -> None:
    small_output(tmp_path / "gap", sensors=2, days=5)
    for file in (tmp_path / "gap" / "data" / "date=2024-01-03").iterdir():
        file.unlink()
    with OutReader(tmp_path / "gap") as reader:
        shown = series(reader, "S00")
    assert len(shown.time) == 4 * 24 + 1
    hole = shown.time.index((FIRST + 2 * DAY) / SECOND)
    assert (shown.value[hole], shown.cleaned[hole], shown.flag[hole]) == (None, None, 0)
    assert shown.time[hole + 1] == (FIRST + 3 * DAY) / SECOND


def test_unknown_names_are_refused(reader: OutReader) -> None:
    for ask in (series, sensor_view, neighbours):
        with pytest.raises(InputError, match="no sensor 'S99'"):
            ask(reader, "S99")
    with pytest.raises(InputError, match="no variable 'rain'; there is 'temp', 'wind'"):
        series(reader, "S01", "rain")


def test_sensors_have_their_metrics(reader: OutReader, written: Output) -> None:
    page = sensor_page(reader, limit=3)
    assert (page.total, page.next, page.items[0].sensor) == (28, 3, "S01")
    one = sensor_view(reader, "S01", "temp")
    assert (one.state, one.reason, one.since) == ("faulty", "stuck", utc(FIRST + 18 * DAY))
    assert one.sentence == f"S01 was stuck. {ADVICE['stuck']}"
    assert one.fault is not None
    assert (one.fault.reason, one.fault.start, one.fault.open) == ("stuck", utc(FIRST + 18 * DAY), True)
    assert sensor_view(reader, "S02", "wind").fault is None, "its silence is over"
    assert one.readings == int((written.flag[1, 0] != Flag.MISSING).sum())
    assert one.variables == ["temp", "wind"]
    assert sensor_view(reader, "S01", "wind").state == "healthy"


@pytest.mark.parametrize("sort", ["trouble", "name", "heard", "faulty", "missing"])
def test_every_order_has_all_sensors(reader: OutReader, sort: str) -> None:
    listed = sensor_page(reader, sort=sort, limit=1000)  # type: ignore[arg-type]
    assert len({(one.sensor, one.variable) for one in listed.items}) == 28


def test_faults_are_filtered_sorted_and_counted(reader: OutReader) -> None:
    everything = fault_page(reader, limit=500)
    assert everything.reasons == {"silent": 2, "spike": 1, "stuck": 1}
    assert [one.sensor for one in fault_page(reader, state="open").items] == ["S01"]
    assert {one.reason for one in fault_page(reader, state="over").items} == {"silent", "spike"}
    silent = fault_page(reader, reason="silent")
    assert (silent.total, silent.reasons) == (2, everything.reasons)
    assert all(one.score is None and one.sure == "" for one in silent.items)
    assert fault_page(reader, search="S03 was").total == 1
    assert fault_page(reader, sensor="S02", variable="wind").total == 1
    assert fault_page(reader, start=FIRST + 20 * DAY).total == 1
    longest = fault_page(reader, sort="length").items
    assert [one.seconds for one in longest] == sorted((one.seconds for one in longest), reverse=True)
    assert how_sure(math.nan) == ""


@given(
    size=st.integers(1, 6),
    sort=st.sampled_from(["worst", "sure", "from", "to", "sensor", "reason", "score", "length"]),
    order=st.sampled_from(["asc", "desc"]),
)  # fmt: skip
def test_pages_of_faults_have_everything_once(reader: OutReader, size: int, sort: str, order: str) -> None:
    def asked(offset: int, limit: int) -> tuple[list[FaultEntry], int | None]:
        page = fault_page(reader, sort=sort, order=order, offset=offset, limit=limit)  # type: ignore[arg-type]
        return page.items, page.next

    entries: list[FaultEntry] = []
    offset: int | None = 0
    while offset is not None:
        items, offset = asked(offset, size)
        entries += items
    assert entries == asked(0, 500)[0]


def test_the_map_has_a_cell_for_everybody(reader: OutReader) -> None:
    drawn_map = atlas(reader)
    assert drawn_map.total == len(drawn_map.sensors) == len(drawn_map.cells) == 14
    assert all(0 <= one.x <= 1 and 0 <= one.y <= drawn_map.height for one in drawn_map.sensors)
    area = sum(_area(cell) for cell in drawn_map.cells)
    assert area == pytest.approx(drawn_map.width * drawn_map.height, rel=1e-3)
    places = {one.sensor: (one.latitude, one.longitude) for one in reader.summaries}
    a, b = drawn_map.sensors[0], drawn_map.sensors[1]
    apart = Position("", 0, *places[a.sensor]).metres_from(Position("", 0, *places[b.sensor])) / 1000
    assert math.hypot(a.x - b.x, a.y - b.y) * drawn_map.kilometres == pytest.approx(apart, rel=0.01)
    north = max(drawn_map.sensors, key=lambda one: places[one.sensor][0])
    assert north.y == min(one.y for one in drawn_map.sensors)


def _area(cell: list[float]) -> float:
    x, y = np.array(cell[::2]), np.array(cell[1::2])
    return float(abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2)


def test_a_moment_is_what_everybody_says_then(reader: OutReader, written: Output) -> None:
    at = 20 * 24 + 7
    shown = moment(reader, int(written.time[at]) + 1234, "temp")
    assert shown.time == utc(int(written.time[at]))
    order = [written.sensors.index(name) for name in shown.sensor]
    assert shown.cleaned == pytest.approx(written.cleaned[order, 0, at].tolist(), abs=1e-6)
    assert shown.state[shown.sensor.index("S01")] == "faulty"
    day = written.cleaned[:, 0, 20 * 24 : 21 * 24]
    assert (shown.low, shown.high) == pytest.approx((day.min(), day.max()), abs=1e-6)
    silent = moment(reader, FIRST + 9 * DAY, "wind")
    assert silent.value[silent.sensor.index("S02")] is None
    assert silent.state[silent.sensor.index("S02")] == "silent"


def test_a_moment_outside_is_the_nearest_one(reader: OutReader) -> None:
    assert moment(reader, 0).time == "2024-01-01T00:00:00Z"
    assert moment(reader, parse_time("9999-01-01")).time == moment(reader).time == "2024-01-24T23:00:00Z"


def test_no_map_without_places(tmp_path: Path) -> None:
    small_output(tmp_path / "nowhere", sensors=3, days=3, places=False)
    with OutReader(tmp_path / "nowhere") as reader:
        with pytest.raises(InputError, match="positions of the sensors are not known"):
            atlas(reader)
        assert not network_overview(reader).places
        assert len(moment(reader).sensor) == 3


def test_neighbours_say_what_the_sensor_should_read(reader: OutReader, written: Output) -> None:
    listed = neighbours(reader, "S05", "wind")
    assert len(listed.items) == 5
    assert [one.likeness for one in listed.items] == sorted((one.likeness for one in listed.items), reverse=True)
    for one in listed.items:
        other = written.value[written.sensors.index(one.sensor), 1, 48:]
        assert one.usual == pytest.approx(np.nanmedian(written.value[5, 1, 48:] - other), abs=0.05)
        assert one.kilometres is not None
    assert "S05" not in {one.sensor for one in listed.items}


def test_neighbours_of_a_faulty_sensor_are_those_before_its_fault(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=8, days=90)
    out, flag, reason, value = written.path, written.flag.copy(), written.reason.copy(), written.value.copy()
    # An offset for the last 40 days, and before it, after a day of good readings, a silence.
    for first, last, code, word in ((44, 49, Flag.MISSING, "silent"), (50, 90, Flag.FAIL, "offset")):
        days = slice(first * 24, last * 24)
        flag[5, 0, days], reason[5, 0, days] = code, REASONS.index(word)
    value[5, 0, 50 * 24 :] += 7
    write_output(out, written.sensors, written.variables, value, written.cleaned, flag, reason, 24)
    spans = {"silent": (44, 49), "offset": (50, 90)}
    write_faults(out, [("S05", "", FIRST + a * DAY, FIRST + b * DAY, word, 2.0, "") for word, (a, b) in spans.items()])
    with OutReader(out) as reader:
        listed = neighbours(reader, "S05")
        assert (listed.start, listed.end) == (utc(FIRST + 14 * DAY), utc(FIRST + 44 * DAY))
        assert len(listed.items) == 5
        for one in listed.items:
            other = written.value[written.sensors.index(one.sensor), 0, 14 * 24 : 44 * 24]
            usual = np.nanmedian(written.value[5, 0, 14 * 24 : 44 * 24] - other)
            assert one.usual == pytest.approx(usual, abs=0.05), "its own offset is no part of it"
        assert neighbours(reader, "S05", at=FIRST + 30 * DAY).end == utc(FIRST + 30 * DAY)


def test_neighbours_of_a_sensor_that_ended_are_those_before_its_end(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=8, days=90)
    sensors = written.path / "sensors.csv"
    lines = sensors.read_text().splitlines()
    lines = [
        line.replace("2024-03-30T23:00", "2024-02-09T23:00") if line.startswith("S05,") else line for line in lines
    ]
    sensors.write_text("\n".join([*lines, ""]))
    with OutReader(written.path) as reader:
        assert neighbours(reader, "S04").end == utc(FIRST + 90 * DAY)
        listed = neighbours(reader, "S05")
    assert listed.end == utc(FIRST + 40 * DAY)
    assert len(listed.items) == 5


def test_what_is_off_is_told_by_its_neighbours_and_its_worst_reading(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=8, days=40)
    flag, reason, value = written.flag.copy(), written.reason.copy(), written.value.copy()
    flag[5, 0, 30 * 24 :], reason[5, 0, 30 * 24 :] = Flag.FAIL, REASONS.index("offset")
    value[5, 0, 30 * 24 :] += 7
    value[5, 0, 33 * 24 + 4] += 20
    flag[5, 0, 35 * 24 : 36 * 24], reason[5, 0, 35 * 24 : 36 * 24] = Flag.GOOD, 0
    write_output(written.path, written.sensors, ("",), value, written.cleaned, flag, reason, 24)
    write_json(written.path / "run.json", {"command": "clean", "units": {"": "°C"}})
    size = (7.0, 0.1, 0.99)
    write_faults(written.path, [("S05", "", FIRST + 30 * DAY, FIRST + 40 * DAY, "drift", 2.0, "S05 drifts.", *size)])
    with OutReader(written.path) as reader:
        view = sensor_view(reader, "S05")
        assert (view.state, view.worst) == ("faulty", utc(FIRST + 33 * DAY + 4 * HOUR))
        listed = neighbours(reader, "S05")
        first, second, third = (one.sensor for one in listed.items[:3])
        comparison = f"S05 reads 7.0 °C above what {first}, {second} and {third} imply, growing 0.10 a day"
        assert listed.sentence.startswith(f"{comparison} since 2024-01-31 00:00.")
        assert listed.sentence.endswith(ADVICE["drift"])
        assert neighbours(reader, "S04").sentence == ""
        assert sensor_view(reader, "S04").worst is None


def test_an_archive_says_what_was_wrong_in_all_of_it(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=100)
    with OutReader(written.path) as reader:
        overview = network_overview(reader)
    heard = np.isfinite(written.value)
    assert overview.filled_days == 100
    assert overview.wrong == pytest.approx((written.flag[heard] == Flag.FAIL).mean(), abs=1e-6)
    assert (
        f"From 2024-01-01 to 2024-04-09, {percent(overview.wrong or 0)} of the readings were wrong" in overview.sentence
    )


def test_of_many_sensors_only_the_nearest_are_compared(tmp_path: Path) -> None:
    with OutReader(big_output(tmp_path / "many", sensors=700, days=3)) as reader:
        chosen = candidates(reader, "S0350", "")
        assert len(chosen) == 500
        assert chosen[0] == "S0350"
        assert {"S0351", "S0300", "S0400"} <= set(chosen), "in the grid of their places these are next to it"


def test_what_the_neighbours_imply_is_a_table(reader: OutReader, written: Output) -> None:
    slot = 20 * 24 + 5
    explained = explanation(reader, "S01", FIRST + slot * HOUR, "temp")
    assert len(explained.compared) == 3
    for one in explained.compared:
        assert one.read == pytest.approx(written.value[written.sensors.index(one.sensor), 0, slot], abs=1e-5)
        assert one.off == pytest.approx(written.value[1, 0, slot] - one.implied, abs=1e-5)
        assert one.usual > 0
    assert explained.text.startswith(f"{explained.verdict} {explained.comparison.removesuffix('.')}: ")


def test_what_needs_attention_is_ranked_by_size_and_length(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=8, days=40)
    value, flag, reason = written.value.copy(), written.flag.copy(), written.reason.copy()
    # The usual error is 0.3: 10 usual errors for 5 days, 30 for 2 days, a silence of 4 days.
    faults = {4: ("offset", 5, 3.0), 5: ("drift", 2, 9.0), 6: ("silent", 4, np.nan)}
    flag[1], reason[1] = Flag.GOOD, 0
    for sensor, (word, days, _) in faults.items():
        wrong = slice((40 - days) * 24, 40 * 24)
        flag[sensor, 0, wrong] = Flag.MISSING if word == "silent" else Flag.FAIL
        reason[sensor, 0, wrong] = REASONS.index(word)
    write_output(written.path, written.sensors, written.variables, value, written.cleaned, flag, reason, 24)
    end = FIRST + 40 * DAY
    write_faults(written.path, [
        (f"S{sensor:02d}", "", end - days * DAY, end, word, np.nan if word == "silent" else 2.0, "", size, 0.0, 0.99)
        for sensor, (word, days, size) in faults.items()
    ])  # fmt: skip
    with OutReader(written.path) as reader:
        listed = attention(reader)
        assert [(one.sensor, one.state, one.urgency) for one in listed.items] == [
            ("S05", "faulty", 60.0), ("S04", "faulty", 50.0), ("S06", "silent", 4.0),
        ]  # fmt: skip
        assert (listed.total, listed.next) == (3, None)
        assert [one.advice for one in listed.items] == [ADVICE[word] for word in ("drift", "offset", "silent")]
        assert attention(reader, limit=2).next == 2
        worst = listed.items[0]
        assert worst.since is not None
        known = Note(worst.sensor, parse_time(worst.since), EVER, "acknowledged", "", "Bo", None, "on it")
        other = Note(listed.items[1].sensor, FIRST - DAY, EVER, "acknowledged")
        again = attention(reader, notes=Maintenance((known, other)))
        assert [one.sensor for one in again.items] == [one.sensor for one in (*listed.items[1:], worst)]
        assert [one.known for one in again.items] == [*[""] * (again.total - 1), "acknowledged by Bo: on it"]


def test_a_flag_is_explained_once_it_is_final(reader: OutReader) -> None:
    explained = explanation(reader, "S01", FIRST + 20 * DAY + 5 * HOUR, "temp")
    assert explained.time == "2024-01-21T05:00:00Z"
    assert "stands still" in explained.text
    with pytest.raises(InputError, match="not"):
        explanation(reader, "S01", FIRST + 24 * DAY, "temp")


@pytest.mark.parametrize(
    ("alert", "fault", "state", "since"),
    [
        (None, ("stuck", 20, 24), "faulty", 20),
        (None, None, "healthy", None),
        (None, ("stuck", 20, 22), "healthy", None),
        ("faulty", ("stuck", 20, 22), "faulty", 19),
        ("faulty", ("stuck", 20, 24), "faulty", 20),
        ("ended", None, "ended", 19),
        ("recovering", ("stuck", 20, 24), "recovering", 19),
        ("healthy", ("stuck", 20, 24), "healthy", None),
        ("silent", None, "silent", 19),
        ("silent", ("silent", 20, 24), "silent", 20),
        (None, ("silent", 20, 24), "silent", 20),
        (None, ("spike", 23, 24), "healthy", None),
    ],
)
def test_how_a_sensor_is_now(
    tmp_path: Path, alert: str | None, fault: tuple[str, int, int] | None, state: str, since: int | None
) -> None:
    written = small_output(tmp_path / "out", sensors=6, days=24)
    out, flag, reason = written.path, written.flag.copy(), written.reason.copy()
    if fault:
        wrong = slice(fault[1] * 24 + 3, fault[2] * 24)
        flag[5, 0, wrong] = Flag.MISSING if fault[0] == "silent" else Flag.FAIL
        reason[5, 0, wrong] = REASONS.index(fault[0])
    write_output(out, written.sensors, written.variables, written.value, written.cleaned, flag, reason, 24)
    lines = [("S05", "", FIRST + fault[1] * DAY, FIRST + fault[2] * DAY, fault[0], 2.0, "")] if fault else []
    write_faults(out, lines)
    if alert is not None:
        (out / "state").mkdir()
        health = Health("S05", "", alert, "stuck" if alert == "faulty" else "", FIRST + 19 * DAY, FIRST + 19 * DAY)
        write_json(out / "state" / "alerts.json", {"sensors": [asdict(health)]})
    with OutReader(out) as reader:
        view = sensor_view(reader, "S05")
    assert (view.state, view.since) == (state, None if since is None else utc(FIRST + since * DAY))
