"""Faults of the model on the time axis, and in the list of faults."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import fault_free as network
from sensormend import clean
from sensormend.pipeline.cleaner import CleanedPeriod, Cleaner, InMemory, walk
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.pipeline.tally import Tally
from sensormend.readings import DAY, HOUR, Flag, Readings
from sensormend.recovery import Fault
from simulated_city import HOURLY, START, tensor_readings

FOREVER = np.iinfo(np.int64).max // 4


def cleaner(**settings: Any) -> Cleaner:
    return Cleaner(HOURLY, **settings)


def fault_free(days: int) -> Readings:
    return tensor_readings(network(8, 90)[..., :days].copy())


def moved(readings: Readings, sensor: int, start: int, end: int, by: float = 15.0) -> Readings:
    """Readings of which some are off, from an hour since the first to another."""
    hour = (readings.time - START) // HOUR
    readings.value[(readings.sensor == sensor) & (hour >= start) & (hour < end)] += by
    return readings


def without(readings: Readings, sensor: int | None, start: int, end: int) -> Readings:
    hour = (readings.time - START) // HOUR
    chosen = np.ones(len(readings), dtype=bool) if sensor is None else readings.sensor == sensor
    return readings.taken(~(chosen & (hour >= start) & (hour < end)))


def through(readings: Readings, mend: Cleaner) -> Iterator[CleanedPeriod]:
    source = InMemory(readings, HOURLY)
    for period in source.periods:
        yield from mend.push(source.read(period))


def listed(parts: Iterator[CleanedPeriod]) -> list[FaultInterval]:
    """The list of faults, but for single readings."""
    tally = Tally(HOURLY, ("",))
    for part in parts:
        tally.add(part)
    return [fault for fault in tally.intervals() if fault.reason != "spike"]


def spans(faults: Sequence[FaultInterval]) -> list[tuple[str, int, int]]:
    return [(fault.sensor, (fault.start - START) // HOUR, (fault.end - START) // HOUR) for fault in faults]


def test_a_fault_has_its_times_and_what_the_model_says_of_it() -> None:
    (fault,) = listed(through(moved(fault_free(20), 2, 12 * 24, 15 * 24), cleaner()))
    assert spans([fault]) == [("s02", 12 * 24, 15 * 24)]
    assert (fault.reason, fault.rate) == ("offset", 0.0)
    assert fault.size == pytest.approx(15, abs=1)
    assert fault.confidence > 0.5


def test_readings_that_are_missing_do_not_cut_a_fault_and_silence_is_beside_it() -> None:
    readings = without(moved(fault_free(20), 2, 12 * 24, 15 * 24), 2, 12 * 24, 12 * 24 + 5)
    readings = without(readings, 2, 13 * 24 + 20, 14 * 24 + 3)
    fault, *rest = listed(through(readings, cleaner()))
    assert rest == []
    assert spans([fault]) == [("s02", 12 * 24 + 5, 15 * 24)]
    fault, silent = listed(through(without(readings, 2, 13 * 24, 14 * 24), cleaner()))
    assert spans([fault, silent]) == [("s02", 12 * 24 + 5, 15 * 24), ("s02", 13 * 24, 14 * 24)]
    assert (fault.reason, silent.reason) == ("offset", "silent")
    assert np.isnan([silent.size, silent.rate, silent.confidence]).all()


def test_a_fault_that_is_open_goes_to_the_last_reading_of_its_channel() -> None:
    readings = without(moved(fault_free(16), 2, 13 * 24, 16 * 24), 2, 15 * 24 + 18, 16 * 24)
    assert spans(listed(through(readings, cleaner()))) == [("s02", 13 * 24, 15 * 24 + 18)]


def test_an_episode_begins_and_ends_with_a_reading() -> None:
    readings = without(moved(fault_free(20), 2, 12 * 24, 15 * 24), 2, 12 * 24, 12 * 24 + 5)
    readings = without(without(readings, 2, 13 * 24 + 20, 14 * 24 + 3), 2, 14 * 24 + 22, 15 * 24)
    assert spans(listed(through(readings, cleaner()))) == [("s02", 12 * 24 + 5, 14 * 24 + 22)]


@pytest.mark.parametrize("away", [range(3, 7), range(3, 43)])
def test_periods_without_readings_do_not_shift_the_times(away: range) -> None:
    """All are silent for some days: some are made up for, and after a long silence the rest are skipped."""
    readings = fault_free(20)
    later = readings.time >= START + 3 * DAY
    readings.time[later] += len(away) * DAY
    first = 24 * (12 + len(away))
    faults = listed(through(moved(readings, 2, first, first + 72), cleaner(gone_after=5 * DAY)))
    assert spans([fault for fault in faults if fault.reason != "silent"]) == [("s02", first, first + 72)]


def test_a_fault_from_before_a_long_silence_keeps_its_start() -> None:
    """Silence ends nothing: what is wrong when all come back is the same fault."""
    readings = moved(fault_free(24), 2, 12 * 24, 18 * 24)
    later = readings.time >= START + 15 * DAY
    readings.time[later] += 40 * DAY
    faults = listed(through(readings, cleaner(gone_after=10 * DAY)))
    assert ("s02", 12 * 24, 58 * 24) in spans(faults)


def test_a_killed_cleaner_dates_as_one_that_went_on(tmp_path: Path) -> None:
    readings = without(moved(fault_free(20), 2, 14 * 24, 17 * 24), None, 5 * 24, 7 * 24)
    source = InMemory(readings, HOURLY)
    one, tally = cleaner(), Tally(HOURLY, ("",))
    for period in source.periods:
        for part in one.push(source.read(period)):
            tally.add(part)
        one.save(tmp_path / "cleaner.npz")
        other, state = Cleaner(HOURLY, model=one.model), tally.state()
        other.restore(tmp_path / "cleaner.npz")
        one, tally = other, Tally(HOURLY, ("",))
        tally.restore(*state)
    assert tally.intervals() == listed(through(readings, cleaner()))
    assert ("s02", 14 * 24, 17 * 24) in spans(tally.intervals())


def test_faults_of_a_first_pass_do_not_come_back() -> None:
    readings = moved(fault_free(34), 2, 20 * 24, 24 * 24)
    readings = moved(readings, 5, 26 * 24, 34 * 24)
    source, mend = InMemory(readings, HOURLY), cleaner()
    parts = list(walk(source, mend))
    assert mend.model.periods == 28 + 34
    for part in parts:
        for episode in part.faults:
            assert START <= episode.start <= HOURLY.period_start(part.period + 1)
    faults = spans(listed(iter(parts)))
    assert ("s02", 20 * 24, 24 * 24) in faults
    assert next(span for span in faults if span[0] == "s05")[1] == 26 * 24


def test_what_was_wrong_before_a_recalibration_is_over_with_it() -> None:
    day = START + 15 * DAY
    notes = Maintenance((Note("s02", day + 10 * HOUR, FOREVER, "recalibrated"),))
    readings = moved(fault_free(24), 2, 13 * 24, 15 * 24 + 10)
    faults = listed(through(readings, cleaner(maintenance=notes)))
    assert spans(faults) == [("s02", 13 * 24, 15 * 24)]
    again = moved(readings, 2, 22 * 24, 24 * 24)
    faults = listed(through(again, cleaner(maintenance=notes)))
    assert spans(faults) == [("s02", 13 * 24, 15 * 24), ("s02", 22 * 24, 24 * 24)]


def test_a_fault_does_not_begin_where_people_say_that_all_is_right() -> None:
    notes = Maintenance((Note("s02", START + 12 * DAY, START + 13 * DAY + HOUR // 2, "real"),))
    faults = listed(through(moved(fault_free(20), 2, 12 * 24, 15 * 24), cleaner(maintenance=notes)))
    assert spans(faults) == [("s02", 13 * 24 + 1, 15 * 24)]
    always = Maintenance((Note("*", START, FOREVER, "real"),))
    assert listed(through(moved(fault_free(20), 2, 12 * 24, 15 * 24), cleaner(maintenance=always))) == []


def test_an_unfinished_period_has_the_times_of_its_faults() -> None:
    readings = moved(fault_free(14), 2, 12 * 24, 14 * 24)
    source, mend = InMemory(readings, HOURLY), cleaner()
    *before, last = source.periods
    for period in before:
        mend.push(source.read(period))
    whole = source.read(last)
    peeked = mend.peek(whole.taken(whole.time < HOURLY.period_start(last) + 15 * HOUR), last)
    (episode,) = peeked.faults
    assert (episode.start, episode.end) == (START + 12 * DAY, None)
    assert peeked.rows.sensors[int(episode.sensor)] == "s02"
    wrong = peeked.rows.flag == Flag.FAIL
    assert set(peeked.rows.sensor[wrong]) == {episode.sensor}
    # Two periods ahead of what the model knows: the same distance to it as the next one.
    (episode,) = mend.peek(source.read(last).taken(slice(0, 0)), last + 1).faults
    assert (episode.start, episode.end) == (START + 12 * DAY, None)
    assert mend.push(whole)[0].faults[0].start == START + 12 * DAY


def put_in(part: CleanedPeriod, *episodes: tuple[int, str, int, int | None]) -> CleanedPeriod:
    """A period in which the model says this of sensor s02: numbers, kinds, and hours since the first one."""
    dated = tuple(
        Fault(number, part.rows.sensors.index("s02"), 0, kind, START + start * HOUR,
              None if end is None else START + end * HOUR, 2.0, 0.5, 0.9)
        for number, kind, start, end in episodes
    )  # fmt: skip
    return replace(part, faults=dated)


def parts_of_three_days() -> list[CleanedPeriod]:
    return list(through(moved(fault_free(20), 2, 12 * 24, 15 * 24), Cleaner(HOURLY)))


def test_two_kinds_that_touch_are_two_lines_and_the_rest_is_a_third() -> None:
    parts = parts_of_three_days()
    parts[12] = put_in(parts[12], (1, "drift", 12 * 24, None))
    parts[13] = put_in(parts[13], (1, "drift", 12 * 24, 13 * 24 + 10), (2, "noise", 13 * 24 + 10, None))
    parts[14] = put_in(parts[14], (2, "noise", 13 * 24 + 10, 14 * 24 + 20))
    faults = listed(iter(parts))
    assert spans(faults) == [
        ("s02", 12 * 24, 13 * 24 + 10), ("s02", 13 * 24 + 10, 14 * 24 + 20), ("s02", 14 * 24 + 20, 15 * 24),
    ]  # fmt: skip
    assert [fault.reason for fault in faults] == ["drift", "noise", "offset"]
    assert [fault.confidence for fault in faults[:2]] == [0.9, 0.9]
    assert np.isnan(faults[2].confidence)
    assert faults[0].sentence.startswith("s02 drifted to ")


def test_the_list_is_dated_by_what_the_model_knew_last() -> None:
    parts = parts_of_three_days()
    parts[12] = put_in(parts[12], (1, "offset", 12 * 24, None))
    parts[13] = put_in(parts[13], (1, "offset", 11 * 24 + 18, None))
    parts[14] = put_in(parts[14], (1, "drift", 11 * 24 + 18, None))
    parts[15] = put_in(parts[15], (1, "drift", 11 * 24 + 18, 14 * 24 + 22))
    (fault,) = listed(iter(parts))
    # The rows of the last two hours were wrong when they were made, and belong to it.
    assert (spans([fault]), fault.reason) == ([("s02", 11 * 24 + 18, 15 * 24)], "drift")


def test_a_fault_does_not_begin_before_the_one_before_it_ended_nor_before_the_first_reading() -> None:
    parts = parts_of_three_days()
    parts[12] = put_in(parts[12], (1, "offset", 12 * 24, 13 * 24))
    parts[13] = put_in(parts[13], (2, "drift", 11 * 24, None))
    parts[14] = put_in(parts[14], (2, "drift", 10 * 24, None))
    assert spans(listed(iter(parts))) == [("s02", 12 * 24, 13 * 24), ("s02", 13 * 24, 15 * 24)]
    begin = list(through(without(moved(fault_free(20), 2, 12 * 24, 15 * 24), 2, 0, 3 * 24 + 5), Cleaner(HOURLY)))
    begin[12] = put_in(begin[12], (1, "offset", -50, None))
    begin[13] = put_in(begin[13], (1, "offset", -50, 15 * 24))
    begin[14] = put_in(begin[14], (1, "offset", -50, 15 * 24))
    assert spans(listed(iter(begin))) == [("s02", 11 * 24, 15 * 24)], "dated back by a period at most"


def test_what_lies_within_a_fault_is_part_of_it_and_what_follows_another_one_is_not() -> None:
    parts = parts_of_three_days()
    parts[12] = put_in(parts[12], (1, "offset", 12 * 24, None), (2, "spike", 12 * 24 + 5, 12 * 24 + 6))
    parts[13] = put_in(parts[13], (1, "offset", 12 * 24, None), (3, "noise", 13 * 24 + 5, 13 * 24 + 9))
    parts[14] = put_in(parts[14], (1, "offset", 12 * 24, 15 * 24))
    assert spans(listed(iter(parts))) == [("s02", 12 * 24, 15 * 24)]
    # The model does not speak of the first one for a day, on which there is another one.
    parts[13] = put_in(parts[13], (3, "noise", 13 * 24, 14 * 24))
    faults = listed(iter(parts))
    assert spans(faults) == [("s02", day * 24, (day + 1) * 24) for day in (12, 13, 14)]
    assert [fault.reason for fault in faults] == ["offset", "noise", "offset"]


def test_an_episode_without_a_wrong_row_is_not_listed() -> None:
    parts = list(through(fault_free(14), Cleaner(HOURLY)))
    parts[12] = put_in(parts[12], (1, "offset", 12 * 24, None))
    assert listed(iter(parts)) == []


def test_episodes_are_returned_once_when_they_are_over() -> None:
    readings = moved(moved(fault_free(26), 2, 12 * 24, 15 * 24), 5, 23 * 24, 26 * 24)
    whole, parts = Tally(HOURLY, ("",)), Tally(HOURLY, ("",))
    finished: list[FaultInterval] = []
    for part in through(readings, cleaner()):
        whole.add(part)
        parts.add(part)
        finished += parts.pop_finished(HOURLY.period_start(part.period + 1))
    assert ("s02", 12 * 24, 15 * 24) in spans(finished)
    going_on = parts.intervals()
    assert [fault for fault in going_on if fault.reason != "spike"] == [going_on[0]]
    assert spans(going_on)[0] == ("s05", 23 * 24, 26 * 24)
    assert sorted(map(str, finished + going_on)) == sorted(map(str, whole.intervals()))


def hourly_frame(readings: Readings) -> Any:
    import polars

    times = readings.time.astype("datetime64[us]")
    names = np.array(readings.sensors)[readings.sensor]
    return polars.DataFrame({"sensor": names, "time": times, "value": readings.value})


@pytest.mark.parametrize("one_pass", [False, True])
def test_a_fault_from_noon_to_the_next_evening_is_flagged_there_only(one_pass: bool) -> None:
    readings = moved(fault_free(50), 2, 40 * 24 + 12, 41 * 24 + 20)
    cleaned = clean(hourly_frame(readings), one_pass=one_pass)
    rows = cleaned.data.to_dict(as_series=False)
    chosen = np.array(rows["sensor"]) == "s02"
    hour = (np.array(rows["time"], dtype="datetime64[us]").astype(np.int64)[chosen] - START) // HOUR
    flag, origin = np.array(rows["flag"])[chosen], np.array(rows["origin"])[chosen]
    inside = (hour >= 40 * 24 + 12) & (hour < 41 * 24 + 20)
    near = (hour >= 39 * 24) & (hour < 43 * 24) & ~inside
    assert (flag[inside] == Flag.FAIL).all()
    assert (flag[near] == Flag.GOOD).all()
    assert set(origin[near]) == {"observed"}
    assert set(np.array(rows["reason"])[chosen][inside]) == {"offset"}
    faults = cleaned.faults.to_dict(as_series=False)
    at = faults["sensor"].index("s02")
    assert faults["sensor"].count("s02") == 1
    assert (faults["start"][at], faults["end"][at]) == tuple(
        (np.datetime64(START, "us") + np.timedelta64(hours, "h")).item() for hours in (40 * 24 + 12, 41 * 24 + 20)
    )
    assert faults["size"][at] == pytest.approx(15, abs=2)
    assert faults["confidence"][at] > 0.5
