"""Faults with their spans, sensors with their figures."""

import math
from dataclasses import replace

import numpy as np
import pytest

from networks import fault_free
from sensormend.pipeline.cleaner import Cleaner, InMemory
from sensormend.pipeline.faults import ReadingSums
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.places import Places, Position
from sensormend.pipeline.tally import FaultEpisode, Tally
from sensormend.readings import DAY, HOUR, Flag, Readings
from sensormend.recovery import Fault as ModelFault
from simulated_city import HOURLY, START, city_readings, mend, tensor_readings, with_value


def tallied(readings: Readings) -> Tally:
    tally = Tally(HOURLY, ("",))
    for mended in mend(readings, Cleaner(HOURLY)):
        tally.add(mended)
    return tally


def test_a_fault_of_several_days_is_one_and_says_how_far_off_it_is() -> None:
    readings = tensor_readings(fault_free(8, 90)[..., :20])
    day = (readings.time - START) // DAY
    readings.value[(readings.sensor == 2) & (day >= 12) & (day < 15)] += 9
    (fault,) = [fault for fault in tallied(readings).intervals() if fault.reason == "offset"]
    assert (fault.sensor, fault.start, fault.end) == ("s02", START + 12 * DAY, START + 15 * DAY)
    assert fault.score > 1
    assert fault.sentence.startswith("s02 read ")
    assert fault.sentence.endswith(" high for 3 days.")
    assert float(fault.sentence.split()[2]) == pytest.approx(9, abs=1)


def test_silence_is_on_the_list_and_a_single_reading_too() -> None:
    readings = with_value(tensor_readings(fault_free(8, 90)[..., :20]), 5, 15, 6, 60.0)
    day = (readings.time - START) // DAY
    readings = readings.taken(~((readings.sensor == 2) & (day >= 12) & (day < 15)))
    silent, spike = tallied(readings).intervals()
    assert (silent.reason, silent.end - silent.start, silent.sentence) == (
        "silent", 3 * DAY, "s02 sent nothing for 3 days.",
    )  # fmt: skip
    assert math.isnan(silent.score)
    assert (spike.reason, spike.start, spike.end) == ("spike", START + 15 * DAY + 6 * HOUR, START + 15 * DAY + 7 * HOUR)
    assert spike.sentence.startswith("s05 read 60.0 where ")


@pytest.mark.parametrize("popped", [False, True])
def test_a_sensor_that_comes_back_after_it_counted_as_gone_was_silent_until_then(popped: bool) -> None:
    readings = tensor_readings(fault_free(8, 90)[..., :20])
    day = (readings.time - START) // DAY
    readings = readings.taken(~((readings.sensor == 2) & (day >= 6) & (day < 16)))
    tally, settled = Tally(HOURLY, ("",)), []
    # After three days without a reading it has no rows.
    for mended in mend(readings, Cleaner(HOURLY, gone_after=3 * DAY)):
        tally.add(mended)
        settled += tally.pop_finished(mended.rows.time.max() + HOUR) if popped else []
        silences = [fault for fault in (*settled, *tally.intervals()) if fault.reason == "silent"]
        assert len(silences) == (mended.period >= HOURLY.find_period(START) + 6)
    (silent,) = silences
    assert (silent.start, silent.end) == (START + 6 * DAY, START + 16 * DAY)
    assert silent.sentence == "s02 sent nothing for 10 days."


def test_the_counts_are_those_of_the_rows() -> None:
    readings = city_readings(days=25)
    tally, rows = Tally(HOURLY, ("",)), []
    for mended in mend(readings, Cleaner(HOURLY)):
        tally.add(mended)
        rows.append(mended.rows)
    for summary in tally.summaries(Places.of([Position("s03", 0, 1.0, 2.0)]), tally.intervals()):
        code = int(summary.sensor[1:])
        flag = np.concatenate([part.flag[np.array(part.sensors)[part.sensor] == summary.sensor] for part in rows])
        assert summary.readings == np.sum(readings.sensor == code)
        assert summary.share_missing == pytest.approx(np.mean(flag == Flag.MISSING), abs=1e-6)
        assert summary.share_faulty == pytest.approx(np.mean(flag[flag != 9] == Flag.FAIL), abs=1e-6)
        assert 0.01 < summary.usual_error < 3
        assert (summary.latitude == 1.0) == (summary.sensor == "s03")
        assert summary.first == readings.time[readings.sensor == code].min()
        assert summary.last == readings.time[readings.sensor == code].max()
    assert sum(tally.flags.values()) == sum(len(part) for part in rows)
    assert tally.filled == sum(int(np.sum(part.origin == 2)) for part in rows)
    assert tally.corrected == sum(int(np.sum(part.origin == 3)) for part in rows)


def test_a_tally_goes_on_from_its_state() -> None:
    readings = city_readings(days=25)
    whole, broken = tallied(readings), Tally(HOURLY, ("",))
    for number, mended in enumerate(mend(readings, Cleaner(HOURLY))):
        broken.add(mended)
        if number % 9 == 4:
            state = broken.state()
            broken = Tally(HOURLY, ("",))
            broken.restore(*state)
    assert broken.intervals() == whole.intervals()
    summaries, expected = broken.summaries(Places(), broken.intervals()), whole.summaries(Places(), whole.intervals())
    assert summaries == pytest.approx(expected) or str(summaries) == str(expected)
    assert (broken.flags, broken.filled) == (whole.flags, whole.filled)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (1, "a temp was stuck at 5.5 for 2 days."),
        (2, "a temp scattered by 3.0 for 2 days."),
        (3, "a temp drifted to 2.0 low within 2 days."),
        (4, "a temp read 2.0 low for 2 days."),
        (5, "a temp moved more or less than the others predict for 2 days."),
        (6, "a temp read 5.5, up to 4.0 off, too far to be true, for 2 days."),
        (7, "a temp read 5.00 where 7.00 was expected."),
        (11, "a temp sent nothing for 2 days."),
    ],
)
def test_every_reason_has_its_sentence(code: int, expected: str) -> None:
    fault = FaultEpisode(
        "a", "temp", 0, 2 * DAY, {code: 48}, 2.0, wrong=48,
        sums=ReadingSums(48, 48 * 5.0, 48 * -2.0, 48 * 9.0, -4.0, first_value=5.0, last_value=5.5),
    )  # fmt: skip
    assert fault.sentence() == expected


def of_the_model(
    kind: str, size: float, rate: float, first: float, last: float, farthest: float, days: int
) -> FaultEpisode:
    known, off = ModelFault(0, "a", 0, kind, 0, None, size, rate, 1.0), math.copysign(2.0, farthest)
    return FaultEpisode(
        "a", "", 0, days * DAY, {4: 48}, 2.0, fault=known, wrong=48,
        sums=ReadingSums(48, 48 * 5.0, 48 * off, 48 * 9.0, farthest, first_value=first, last_value=last),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (of_the_model("offset", 2.13, 0.0, 20, 21, 3.0, 9), "a reads 2.1 high since then."),
        (of_the_model("drift", -4.5, -0.05, 20, 9, -5.0, 90), "a reads 4.5 low, falling, since then."),
        (of_the_model("drift", 99, 50, 20, 122, 100, 2), "a reads 99 high, rising, since then."),
        (of_the_model("implausible", -90, 0, 20, -60, -80, 1), "a falls from 20 to -60 since then."),
        (of_the_model("stuck", 10.7, 0, 10.7, 10.7, 3, 1), "a is stuck at 10.7 since then."),
        (of_the_model("gain", 0.4, 0, 1, 2, 3, 1), "a moves 0.40 times as much as the others predict since then."),
        (of_the_model("gain", -0.4, 0, 1, 2, 3, 1), "a moves against what the others predict since then."),
    ],
)
def test_an_open_fault_is_described_by_its_size_in_the_model(fault: FaultEpisode, expected: str) -> None:
    assert fault.sentence(open_since="then") == expected
    doubtful = replace(fault, wrong=0)
    assert doubtful.sentence(open_since="then") == expected.replace("a ", "a is doubtful: it ", 1)
    mostly = replace(fault, wrong=23)
    assert mostly.sentence(open_since="then") == f"{expected[:-1]}; most of its readings are only doubtful."
    assert replace(fault, wrong=24).sentence(open_since="then") == expected


def test_the_size_is_what_the_rows_show_where_the_model_says_another() -> None:
    fault = of_the_model("offset", 2.13, 0.0, 20, 21, 3.0, 9)
    assert replace(fault, corrected=10, taken_out=22.0).size == 2.13
    assert replace(fault, corrected=10, taken_out=50.0).size == 5.0
    assert replace(fault, corrected=10, taken_out=-22.0).size == -2.2
    assert replace(fault, corrected=10, taken_out=-22.0).sentence() == "a read 2.2 low for 9 days."
    drift = of_the_model("drift", 4.5, 0.1, 20, 21, 3.0, 9)
    assert replace(drift, corrected=10, taken_out=10.0, last_taken_out=4.0).size == 4.5
    assert replace(drift, corrected=10, taken_out=10.0, last_taken_out=9.5).size == 9.5
    assert replace(drift, corrected=10, taken_out=10.0, last_taken_out=-9.5).size == 1.0


def test_an_offset_below_the_resolution_is_none() -> None:
    fault = of_the_model("offset", 0.05, 0.0, 20, 21, 3.0, 9)
    assert replace(fault, wrong=0, resolution=0.1).negligible
    assert not replace(fault, wrong=0, resolution=0.01).negligible
    assert not replace(fault, resolution=0.1).negligible
    assert replace(fault, resolution=0.1).size == 3.0, "wrong readings are off by more"


def test_readings_without_estimates_are_beyond_the_limits_given() -> None:
    sums = ReadingSums(count=48, value=48 * 5.0, last_value=5.0)
    fault = FaultEpisode("a", "", 0, 2 * DAY, {6: 48}, 2.0, sums=sums, wrong=48)
    assert fault.sentence() == "a read 5, an impossible value, for 2 days."
    doubtful = ModelFault(0, "a", 0, "implausible", 0, None, -33.9, 0.0, 0.3)
    assert replace(fault, fault=doubtful, wrong=0).sentence() == "a was doubtful: it read 5, 34 off, for 2 days."
    assert replace(fault, slots={7: 48}).sentence() == "a read 5.00, far from all others."


def test_faults_that_are_over_are_returned_once_and_removed() -> None:
    """Settled period by period they are those of the whole, also after a restart in between."""
    whole, parts, finished = Tally(HOURLY, ("",)), Tally(HOURLY, ("",)), []
    source = InMemory(city_readings(8, 40), HOURLY)
    cleaner = Cleaner(HOURLY)
    for number, period in enumerate(source.periods):
        for mended in cleaner.push(source.read(period)):
            whole.add(mended)
            parts.add(mended)
        finished += parts.pop_finished(HOURLY.period_start(period + 1))
        assert all(fault.reach == HOURLY.period_start(period + 1) for fault in parts.faults)
        if number == 20:
            twin = Tally(HOURLY, ("",))
            twin.restore(*parts.state())
            parts = twin
    finished += parts.intervals()
    assert len(finished) > 2
    assert sorted(map(str, finished)) == sorted(map(str, whole.intervals()))


def test_short_faults_that_come_and_go_are_one_incident_also_where_the_first_were_written_before() -> None:
    readings = tensor_readings(fault_free(8, 90)[..., :30])
    slot = (readings.time - START) // HOUR
    for day in (12, 13, 14, 25):
        at = (readings.sensor == 2) & (slot >= 24 * day + 6) & (slot < 24 * day + 9)
        readings.value[at] += 30
    whole, parts = Tally(HOURLY, ("",)), Tally(HOURLY, ("",))
    popped = []
    for mended in mend(readings, Cleaner(HOURLY)):
        whole.add(mended)
        parts.add(mended)
        popped += parts.pop_finished(HOURLY.period_start(mended.period + 1))
        # A service that is restarted every day.
        settings, arrays = parts.state()
        parts = Tally(HOURLY, ("",))
        parts.restore(settings, arrays)
    faults = [fault for fault in whole.intervals() if fault.sensor == "s02"]
    assert len(faults) >= 4
    assert {fault.incident for fault in faults if fault.start < START + 20 * DAY} == {faults[0].start}
    assert {fault.incident for fault in faults if fault.start > START + 20 * DAY} == {faults[-1].incident}
    assert (faults[-1].incident or 0) > START + 25 * DAY
    assert [*popped, *parts.intervals()] == whole.intervals()


def test_a_sensor_that_is_implausible_from_its_start_has_one_fault() -> None:
    random = np.random.default_rng(0)
    cleaner, tally = Cleaner(Grid(HOUR, DAY)), Tally(Grid(HOUR, DAY), ("",))
    course = 5 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    for day in range(30):
        sensors = 9 if day >= 20 else 8
        weather = course + np.cumsum(random.normal(0, 1, 24)) + random.normal(0, 3)
        value = weather + np.arange(sensors)[:, None] + random.normal(0, 0.2, (sensors, 24))
        value[8:] = 90 - 2 * weather + random.normal(0, 1, 24)
        sensor, slot = np.repeat(np.arange(sensors), 24), np.tile(np.arange(24), sensors)
        names = tuple(f"s{number}" for number in range(sensors))
        (period,) = cleaner.push(Readings(names, ("",), sensor, 0 * sensor, day * DAY + slot * HOUR, value.ravel()))
        tally.add(period)
    faults = [fault for fault in tally.intervals() if fault.sensor == "s8"]
    assert [fault.reason for fault in faults] == ["implausible"]
    assert (faults[0].start, faults[0].end) == (20 * DAY, 30 * DAY)
