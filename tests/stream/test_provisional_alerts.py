"""Alerts from readings of a day that is not over: within hours, and the same however fast they come."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from list_source import ListSource, assert_same_rows, concatenated, hourly, run_service, settings
from sensormend.io.folder import Archive
from sensormend.io.metadata import read_json
from sensormend.pipeline.cleaner import CleanedPeriod, Cleaner
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings
from sensormend.recovery import FloatArray
from sensormend.simulate.network import city
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Alert
from sensormend.stream.service import Service
from sensormend.stream.stream import AlertsRaised, Event, Stream
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader
from sensormend.views.sensors import sensor_view
from simulated_city import START, city_readings, tensor_readings

DAYS = 30


def town(days: int = DAYS, sensors: int = 10) -> FloatArray:
    """Return sound readings (sensor, slot, day)."""
    return city(sensors, days, seed=4, faults=False).truth


def broken(readings: FloatArray, which: int, first: int, last: int | None = None, level: float = 44.0) -> None:
    """Let a sensor read the same far too high value from one hour on, counted from the start."""
    line = np.moveaxis(readings, 1, 2).reshape(readings.shape[0], -1).copy()
    line[which, first:last] = level
    readings[:] = np.moveaxis(line.reshape(readings.shape[0], -1, 24), 1, 2)


def raised(parts: list[Readings], stream: Stream | None = None) -> list[Alert]:
    stream = stream or Stream(Options.of(step="1h", period="1d"))
    result: list[Alert] = []
    for part in parts:
        events = stream.take(Arrived(part, int(part.time.max()) + SECOND))
        result += [alert for event in events if isinstance(event, AlertsRaised) for alert in event.alerts]
    return result


@pytest.fixture(scope="module")
def eventful() -> Readings:
    """Return a town in which two jump in the night, three fall silent at noon, and one comes back wrong."""
    readings = town()
    broken(readings, 2, 20 * 24 + 2)
    broken(readings, 3, 20 * 24 + 3, 20 * 24 + 15)
    readings[5:8, 12:, 22] = np.nan
    readings[5:8, :, 23] = np.nan
    readings[9, 5:, 24] = np.nan
    broken(readings, 9, 25 * 24 + 8, level=122.0)
    readings[9, :8, 25] = np.nan
    return tensor_readings(readings)


@pytest.fixture(scope="module")
def alerts(eventful: Readings) -> list[Alert]:
    """Return what is told of that town when its readings come one by one."""
    return raised([part.taken(slice(k, k + 1)) for part in hourly(eventful) for k in range(len(part))])


def test_a_jump_in_the_night_is_reported_in_the_night(alerts: list[Alert]) -> None:
    jump = [alert for alert in alerts if "s02" in alert.sensors]
    assert [alert.state for alert in jump] == ["faulty"], "and not again while it lasts"
    assert jump[0].since == START + 20 * DAY + 2 * HOUR
    assert jump[0].at <= START + 20 * DAY + 6 * HOUR
    assert jump[0].sensors == ("s02", "s03"), "one that fails an hour later is named with it"
    silent = [alert for alert in alerts if "s05" in alert.sensors]
    assert [alert.state for alert in silent] == ["silent", "healthy"]
    assert all(alert.sensors == ("s05", "s06", "s07") for alert in silent)
    wrong = [alert for alert in alerts if "s09" in alert.sensors]
    assert [alert.state for alert in wrong] == ["silent", "faulty"], "at 122 degrees it is not well"
    assert "reports again, but is faulty" in wrong[1].sentence
    assert len(alerts) <= 7


@pytest.mark.parametrize("hours", [1, 5, 24, 24 * DAYS])
def test_any_speed_gives_the_same_alerts(eventful: Readings, alerts: list[Alert], hours: int) -> None:
    assert raised(hourly(eventful, hours)) == alerts


def test_a_gap_of_a_year_costs_little_and_tells_the_same(eventful: Readings) -> None:
    parts = hourly(eventful)
    late = [replace(part, time=part.time + 400 * DAY) for part in parts]
    together = raised([*parts, *late])
    day_by_day = raised(
        [*hourly(eventful, 24), *(replace(part, time=part.time + 400 * DAY) for part in hourly(eventful, 24))]
    )
    assert together == day_by_day
    assert {"s00", "s01", "s04"} <= {name for alert in together if alert.state == "silent" for name in alert.sensors}


@pytest.fixture(scope="module")
def whole(eventful: Readings, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Alert]]:
    """Return the OUT of that town watched in one go, and what was told meanwhile."""
    out, result = tmp_path_factory.mktemp("whole") / "out", list[Alert]()
    run_service(
        out, hourly(eventful), lambda event: result.extend(event.alerts if isinstance(event, AlertsRaised) else ())
    )
    return out, result


def test_killed_and_resumed_gives_the_same_alerts_and_none_twice(
    eventful: Readings, whole: tuple[Path, list[Alert]], tmp_path: Path
) -> None:
    parts = hourly(eventful)
    result: list[Alert] = []

    def seen(event: Event | None) -> None:
        result.extend(event.alerts if isinstance(event, AlertsRaised) else ())

    stops = iter([100, 20 * 24 + 4, 20 * 24 + 5, 22 * 24 + 15, 22 * 24 + 17, 25 * 24 + 10, 25 * 24 + 12, 26 * 24 + 1])
    stop = next(stops)

    def stopping(number: int) -> None:
        if number == stop:
            service.stop()

    def source(mark: Any, memory: object) -> ListSource:
        return ListSource(parts, mark, stop=stopping)

    for _ in range(9):
        service = Service(settings(tmp_path / "out"), source, on_event=seen)
        service.run()
        stop = next(stops, -1)
    assert result == whole[1]
    states = [(out / "state" / "alerts.json").read_text() for out in (whole[0], tmp_path / "out")]
    first, second = (json.loads(text)["sensors"] for text in states)
    assert first == second


def test_page_metrics_and_alerts_agree_at_the_same_time(tmp_path: Path) -> None:
    readings = town(21)
    broken(readings, 2, 20 * 24 + 2)
    readings[6, 3:, 20] = np.nan
    parts, out = hourly(tensor_readings(readings)), tmp_path / "out"
    result: list[Alert] = []
    service = Service(
        settings(out),
        lambda mark, memory: ListSource(
            parts, mark, stop=lambda number: service.stop() if number == 20 * 24 + 12 else None
        ),
        on_event=lambda event: result.extend(event.alerts if isinstance(event, AlertsRaised) else ()),
    )
    service.run()
    assert [(alert.sensor, alert.state) for alert in result] == [("s02", "faulty"), ("s06", "silent")]
    assert (service.status().faulty, service.status().silent) == (1, 1)
    with OutReader(out) as reader:
        page = network_overview(reader)
        assert (page.states["faulty"], page.states["silent"]) == (1, 1)
        bad = sensor_view(reader, "s02")
        assert (bad.state, bad.since) == ("faulty", "2020-01-21T02:00:00Z")
        assert "no fault so far" not in bad.sentence
        assert sensor_view(reader, "s06").state == "silent"


def test_batteries_that_die_give_an_alert_or_two_each() -> None:
    """Readings climb to 122 degrees, then the sensors come and go for weeks, then they are silent."""
    random, days = np.random.default_rng(0), 90
    readings = town(days, 16)
    line = np.moveaxis(readings, 1, 2).reshape(16, -1)
    dying = range(6)
    for which in dying:
        dies = int(random.integers(30 * 24, 50 * 24))
        line[which, dies:] = np.minimum(line[which, dies:] + (np.arange(days * 24 - dies)) ** 1.5 / 10, 122.15)
        at, heard = dies + int(random.integers(24, 96)), False
        while at < dies + 30 * 24:
            length = int(random.integers(2, 30))
            line[which, at : at + length] *= 1.0 if heard else np.nan
            at, heard = at + length, not heard
        line[which, at:] = np.nan
    readings = np.moveaxis(line.reshape(16, days, 24), 1, 2)
    alerts = raised(hourly(tensor_readings(readings), 24))
    for which in dying:
        mine = [alert.state for alert in alerts if f"s{which:02d}" in alert.sensors]
        assert 1 <= len(mine) <= 2, mine
        assert "healthy" not in mine
        assert "faulty" in mine


def test_an_alert_has_the_reading_and_what_was_expected(alerts: list[Alert]) -> None:
    (jump,) = (alert for alert in alerts if "s02" in alert.sensors)
    first, second = jump.channels
    assert (first.sensor, first.value, second.sensor, second.value) == ("s02", 44.0, "s03", 44.0)
    truth = town()[2, :, 20]
    assert first.expected is not None
    assert truth.min() - 3 < first.expected < truth.max() + 3
    assert (first.since, second.since) == (START + 20 * DAY + 2 * HOUR, START + 20 * DAY + 3 * HOUR)


def test_a_faulty_sensor_that_was_away_is_faulty_when_it_is_back() -> None:
    readings = city(12, 40, seed=1, faults=False).truth
    line = np.moveaxis(readings, 1, 2).reshape(12, -1)
    line[4, 20 * 24 :] += 6
    line[4, 25 * 24 : 25 * 24 + 10] = np.nan
    readings = np.moveaxis(line.reshape(12, 40, 24), 1, 2)
    stream, states = Stream(Options.of(step="1h", period="1d")), dict[int, str]()
    alerts = list[Alert]()
    for hour, part in enumerate(hourly(tensor_readings(readings))):
        alerts += raised([part], stream)
        if stream.cleaner is not None:
            states[hour] = next(entry.state for entry in stream.health() if entry.sensor == "s04")
    assert [alert.state for alert in alerts if "s04" in alert.sensors] == ["faulty"], "it is one incident"
    assert states[25 * 24 - 1] == "faulty"
    assert states[25 * 24 + 9] == "silent"
    assert {states[hour] for hour in range(25 * 24 + 14, 40 * 24)} == {"faulty"}
    assert (stream.counts["faulty"], stream.counts["silent"], stream.counts["healthy"]) == (1, 0, 11)


def test_ten_minutes_are_judged_every_half_hour_and_reported_after_one() -> None:
    truth = city(8, 12, slots=144, seed=2, faults=False).truth
    line = np.moveaxis(truth, 1, 2).reshape(8, -1)
    line[1, 11 * 144 + 5 :] += 15
    time = START + np.arange(line.shape[1], dtype=np.int64) * 10 * MINUTE
    row, column = np.nonzero(np.isfinite(line))
    names = tuple(f"s{number}" for number in range(8))
    readings = Readings(names, ("",), row, np.zeros(row.size, np.int64), time[column], line[row, column])
    stream = Stream(Options.of(step="10min", period="1d"))
    (alert,) = (alert for alert in raised(hourly(readings, 6), stream) if "s1" in alert.sensors)
    start = START + 11 * DAY + 50 * MINUTE
    assert (alert.sensor, alert.state, alert.since) == ("s1", "faulty", start)
    assert HOUR <= alert.at - start <= 2 * HOUR


def test_what_a_watch_writes_of_its_alerts_is_as_before(whole: tuple[Path, list[Alert]]) -> None:
    entries = read_json(whole[0] / "state" / "alerts.json")["sensors"]
    assert set(entries[0]) == {"sensor", "variable", "state", "reason", "since", "heard"}


@pytest.mark.parametrize("level", [85.0, 44.0, 8.0])
def test_a_constant_is_written_as_what_it_reads_and_reported_in_hours(level: float, tmp_path: Path) -> None:
    days = 40
    readings, out, result = city(10, days, seed=3, faults=False).truth, tmp_path / "out", list[Alert]()
    broken(readings, 2, (days - 6) * 24 + 5, (days - 3) * 24 + 9, level)
    run_service(
        out,
        hourly(tensor_readings(readings)),
        lambda event: result.extend(event.alerts if isinstance(event, AlertsRaised) else ()),
    )
    alert = result[0]
    assert (alert.sensor, alert.state) == ("s02", "faulty")
    begin = START + (days - 6) * DAY + 5 * HOUR
    assert begin - HOUR <= alert.since <= begin + HOUR
    assert alert.at <= begin + 9 * HOUR
    assert alert.channels[0].value == level
    own = [fault for fault in Archive(out).faults() if fault.sensor == "s02" and fault.end > begin]
    longest = max(own, key=lambda fault: fault.end - fault.start)
    assert (longest.end - longest.start) > 3 * DAY
    assert longest.reason in ("stuck", "implausible"), "equal readings are no gain of the others' course"
    assert longest.reason != "stuck" or longest.size == level
    assert f"{level:.3g}" in longest.sentence


def test_a_feed_that_is_too_young_says_when_its_first_verdicts_come(tmp_path: Path) -> None:
    parts, out, sentences = hourly(tensor_readings(town(10))), tmp_path / "out", dict[int, str]()

    def look(number: int) -> None:
        if number in (3 * 24 + 13, 9 * 24 + 1):
            with OutReader(out) as reader:
                sentences[number // 24] = network_overview(reader).sentence

    Service(settings(out), lambda mark, memory: ListSource(parts, mark, live=True, stop=look)).run()
    assert sentences[3] == "Still learning: day 4 of 5, first verdicts on 2020-01-06."
    assert "learning" not in sentences[9]


def test_a_period_that_waits_for_late_readings_is_cleaned_again_only_with_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Provisional rows of the hours in which two periods are open cost one period, and not two."""
    readings, cleaned = city_readings(4, 4), list[int]()
    peek = Cleaner.peek

    def counted(self: Cleaner, part: Readings, period: int, until: int) -> CleanedPeriod:
        cleaned.append(period)
        return peek(self, part, period, until)

    monkeypatch.setattr(Cleaner, "peek", counted)
    late = (readings.sensor == 1) & (readings.time == START + 3 * DAY - HOUR)
    stream = Stream(Options.of(step="1h", period="1d"), grace=6 * HOUR)
    for part in hourly(readings.taken(~late & (readings.time < START + 3 * DAY))):
        list(stream.take(Arrived(part, int(part.time.max()))))
    shown = []
    for hour in range(5):
        now = START + 3 * DAY + hour * HOUR
        part = readings.taken(~late & (readings.time == now))
        if hour == 4:
            part = concatenated([part, readings.taken(late)])
        list(stream.take(Arrived(part, now)))
        cleaned.clear()
        rows = stream.peek(now)
        assert rows is not None
        shown.append(rows.taken((rows.time >= START + 2 * DAY) & (rows.time < START + 3 * DAY)))
        periods = Counter(cleaned)
        assert len(periods) == (2 if hour in (0, 4) else 1), hour
        assert set(periods.values()) == {1}
    for rows in shown[1:4]:
        assert_same_rows(rows, shown[0])
    assert (shown[4].value != shown[0].value).any()
