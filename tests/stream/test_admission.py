"""No one message, and no one sender, decides for everybody: floods of names, and messages with very many keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from list_source import ListSource, assert_same_rows, hourly, read_rows, run_service, settings
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, NameIndex, Readings
from sensormend.stream import admission
from sensormend.stream.admission import (
    KNOWN_AFTER,
    MOST_UNKNOWN,
    MOST_VARIABLES,
    RARE,
    UNKNOWN,
    Admission,
    common_variables,
)
from sensormend.stream.alerts import Alerts
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import FLOOD, Alert
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.formats.values import TOO_MANY_NAMES
from sensormend.stream.service import Service
from sensormend.stream.stream import AlertsRaised, Event, ReadingsRejected, Stream
from simulated_city import START, city_readings

SENSORS, DAYS = 8, 8


@pytest.fixture(scope="module")
def readings() -> Readings:
    return city_readings(SENSORS, DAYS)


def invented(count: int, time: int, name: str = "x") -> Readings:
    """Return a reading of each of very many sensors that nobody has ever heard of."""
    zero = np.zeros(count, dtype=np.int64)
    names = tuple(f"{name}{number}" for number in range(count))
    return Readings(names, ("",), np.arange(count), zero, zero + time, np.full(count, 20.0))


def test_a_flood_refuses_no_known_sensor_and_is_one_alert(readings: Readings, tmp_path: Path) -> None:
    """It comes in several messages on two days, and once more after the service was started again."""
    parts, plain, out = hourly(readings), tmp_path / "plain", tmp_path / "out"
    run_service(plain, parts)
    day = 24 * 5
    at = int(parts[day].time[0])
    flood = [invented(5 * MOST_UNKNOWN, at + number, f"m{number}-") for number in range(4)]
    with_flood = [*parts[: day + 2], *flood, *parts[day + 2 : day + 30], *flood, *parts[day + 30 :]]
    events: list[Event] = []

    def note(event: Event | None) -> None:
        if event is not None:
            events.append(event)

    def dies(number: int) -> None:
        if number == day + 4:
            raise RecursionError

    first = Service(settings(out), lambda mark, memory: ListSource(with_flood, mark, stop=dies), on_event=note)
    with pytest.raises(RecursionError):
        first.run()
    service = run_service(out, with_flood, note)
    alerts = [alert for event in events if isinstance(event, AlertsRaised) for alert in event.alerts]
    # Told again from the journal, as every event is; the queue knows by its number that it is the same.
    floods = {alert for alert in alerts if alert.state == FLOOD}
    assert len(floods) == 1
    (reported,) = floods
    assert (reported.reason, reported.sensor) == (TOO_MANY_NAMES, "")
    assert "known sensors are not" in reported.sentence
    # Whoever was let in is no news when it falls silent.
    assert not [alert for alert in alerts if any(name.startswith("m") for name in alert.sensors)]
    refused = [one for event in events if isinstance(event, ReadingsRejected) for one in event.rejected]
    assert {one.reason for one in refused} == {TOO_MANY_NAMES}
    assert len(refused) <= 10 * 1_001
    assert service.status().sensors == SENSORS + MOST_UNKNOWN
    assert service.status().late == 0
    rows, expected = read_rows(out), read_rows(plain)
    for name in expected.sensors:
        mine, theirs = (table.taken(table.sensor == table.sensors.index(name)) for table in (rows, expected))
        for column in ("time", "value", "n"):
            np.testing.assert_array_equal(getattr(mine, column), getattr(theirs, column))


def test_a_sensor_that_has_reported_before_is_admitted_despite_many_unknown_names() -> None:
    """Also on the first day, when nobody is known, and for one message of a feed that was stopped meanwhile."""
    stream = Stream(Options.of(step="1h", period="1d"))
    list(stream.take(Arrived(invented(3, START, "real"), START)))
    list(stream.take(Arrived(invented(admission.MOST_FIRST + 50, START + 1), START)))
    assert len(stream.sensors) == admission.MOST_FIRST
    state = stream.state()
    twin = Stream(Options.of(step="1h", period="1d"))
    twin.restore(*state)
    for one in (stream, twin):
        events = list(one.take(Arrived(invented(4, START + HOUR, "real"), START + HOUR)))
        refused = [entry.where for event in events if isinstance(event, ReadingsRejected) for entry in event.rejected]
        assert refused == ["real3"]
        assert int((one.buffer.column("time") == START + HOUR).sum()) == 3


def test_unknown_sensors_do_not_hold_up_event_time() -> None:
    stream = Stream(Options.of(step="1h", period="1d"))
    for hour in range(24 * 5):
        list(stream.take(Arrived(invented(20, START + hour * HOUR, "real"), START + hour * HOUR)))
    list(stream.take(Arrived(invented(MOST_UNKNOWN, START + 24 * 5 * HOUR), START + 24 * 5 * HOUR)))
    now = START + 24 * 5 * HOUR + 6 * HOUR
    list(stream.take(Arrived(invented(20, now, "real"), now)))
    assert stream.watermark.time == now


def test_listed_names_are_always_admitted(tmp_path: Path) -> None:
    table = tmp_path / "places.csv"
    lines = [f"x{number},50,{number / 1000}" for number in range(MOST_UNKNOWN + 20)]
    table.write_text("sensor,latitude,longitude\n" + "\n".join(lines))
    stream = Stream(Options.of(step="1h", period="1d", coordinates=table))
    for day in range(KNOWN_AFTER + 1):
        list(stream.take(Arrived(invented(3, START + day * DAY, "real"), START + day * DAY)))
    assert stream.admission.known.tolist() == [True] * 3
    events = list(
        stream.take(Arrived(invented(MOST_UNKNOWN + 20, START + KNOWN_AFTER * DAY), START + KNOWN_AFTER * DAY))
    )
    assert not [event for event in events if isinstance(event, ReadingsRejected)]
    assert len(stream.sensors) == 3 + MOST_UNKNOWN + 20


def test_an_unknown_sensor_that_returns_is_known_and_silent_ones_free_the_limit() -> None:
    admission, names = Admission(), NameIndex()
    everybody = invented(MOST_UNKNOWN + 1, START)

    def hear(readings: Readings, period: int) -> None:
        admission.record(names.codes(readings.sensors, readings.sensor), period)

    for period in range(KNOWN_AFTER):
        hear(invented(1, START, "a"), period)
    assert admission.too_many(everybody, names).tolist() == [MOST_UNKNOWN]
    hear(invented(MOST_UNKNOWN, START), KNOWN_AFTER)
    assert admission.unknown == MOST_UNKNOWN
    assert admission.counting is not None
    assert admission.counting.tolist() == [True] + [False] * MOST_UNKNOWN
    assert admission.too_many(everybody, names).tolist() == [MOST_UNKNOWN]
    hear(invented(1, START, "a"), KNOWN_AFTER + 1)
    assert admission.too_many(everybody, names).tolist() == [MOST_UNKNOWN]
    # Whoever has not come back for a whole period leaves room; whoever has is known at last.
    hear(invented(10, START), KNOWN_AFTER + 2)
    assert admission.unknown == 10
    assert not admission.too_many(everybody, names).size
    hear(invented(10, START), KNOWN_AFTER + 3)
    assert int(admission.known.sum()) == 11
    assert admission.counting is not None
    for period in range(KNOWN_AFTER):
        hear(invented(MOST_UNKNOWN, START), KNOWN_AFTER + 4 + period)
    assert admission.counting is None


def test_a_flood_is_reported_again_only_after_periods_without_one() -> None:
    admission = Admission()
    reported: list[list[Alert]] = []
    for period in (7, 7, 8, 9, 12):
        admission.record(np.array([0]), period)
        reported.append(admission.flood_alert(["x"], START))
    assert [len(alerts) for alerts in reported] == [1, 0, 0, 0, 1]


def keys(count: int, time: int, sensor: str = "s00") -> bytes:
    """Return a message with very many numbers in it."""
    return json.dumps(
        {"sensor": sensor, "time": time // 1_000_000, **{f"k{key:03d}": key for key in range(count)}}
    ).encode()


def day_of_messages(sensors: int, hours: int) -> list[tuple[int, bytes]]:
    random = np.random.default_rng(0)
    return [
        (START + hour * HOUR, json.dumps({
            "sensor": f"s{sensor:02d}", "time": (START + hour * HOUR) // 1_000_000,
            "temp": float(random.normal(15, 3)), "humidity": float(random.normal(60, 5)),
        }).encode())
        for hour in range(hours) for sensor in range(sensors)
    ]  # fmt: skip


def arrivals(messages: list[tuple[int, bytes]], options: Options) -> list[Arrived]:
    decoder, out = Decoder(options), []
    for received, message in messages:
        decoder.add(message, received)
        result, rejected, positions = decoder.take()
        out.append(Arrived(result, received, rejected, positions))
    return out


@pytest.mark.parametrize("place", [0, 40])
@pytest.mark.parametrize("named", [(), ("temp", "humidity", "k007")])
def test_one_message_with_900_keys_makes_no_variable(place: int, named: tuple[str, ...]) -> None:
    options = Options.of(variables=list(named)) if named else Options()
    messages = day_of_messages(4, 30)
    messages.insert(place, (messages[place][0], keys(900, messages[place][0])))
    stream, events = Stream(options, alerts=Alerts()), list[Event]()
    for number, arrived in enumerate(arrivals(messages, options)):
        events += stream.take(arrived)
        if number == 80 and not named:
            shown = stream.peek(START + 20 * HOUR)
            assert shown is not None
            assert {shown.variables[code] for code in np.unique(shown.variable)} == {"temp", "humidity"}
    assert stream.cleaner is not None
    assert stream.cleaner.variables == (named or ("temp", "humidity"))
    refused = [one for event in events if isinstance(event, ReadingsRejected) for one in event.rejected]
    assert len(refused) == (900 if not named else 0)
    if not named:
        assert {one.reason for one in refused} == {RARE}
        (note,) = [note for note in stream.survey.notes if "passed over" in note]
        assert "k000" in note
        assert "880 more" in note
        events = list(stream.take(arrivals([(START + 30 * HOUR, keys(3, START + 30 * HOUR))], options)[0]))
        assert [one.reason for one in events[0].rejected] == [UNKNOWN] * 3  # type: ignore[union-attr]


def test_floods_of_variables_lock_no_variable_out() -> None:
    """Each message has other keys, so that there are more than anybody remembers."""
    options, messages = Options(), day_of_messages(3, 30)
    for number in range(6):
        text = json.dumps(
            {"sensor": "s00", "time": START // 1_000_000, **{f"v{number}-{key}": 1 for key in range(900)}}
        )
        messages.insert(12 + 3 * number, (START + number, text.encode()))
    stream = Stream(options)
    for arrived in arrivals(messages, options):
        list(stream.take(arrived))
        assert len(stream.variables) <= 2_000
    assert stream.cleaner is not None
    assert stream.cleaner.variables == ("temp", "humidity")
    times = stream.buffer.column("time")
    assert int((times >= START + DAY).sum()) == 2 * 3 * int(np.unique(times[times >= START + DAY]).size)


def test_who_sends_very_many_keys_all_day_makes_no_more_variables_than_can_be() -> None:
    options, messages = Options(), day_of_messages(4, 30)
    messages += [(START + hour * HOUR, keys(900, START + hour * HOUR, "s03")) for hour in range(24)]
    messages.sort(key=lambda message: message[0])
    stream = Stream(options)
    for arrived in arrivals(messages, options):
        list(stream.take(arrived))
    assert stream.cleaner is not None
    assert len(stream.cleaner.variables) == MOST_VARIABLES
    assert {"temp", "humidity"} <= set(stream.cleaner.variables)


def test_what_one_sensor_alone_measures_is_a_variable() -> None:
    """A slow and plain count beside `common_variables`."""
    random = np.random.default_rng(3)
    for _ in range(50):
        count = int(random.integers(1, 60))
        sensor, variable, time = (random.integers(0, size, count) for size in (5, 7, 6))
        names = [f"v{number}" for number in range(7)]
        support = [
            (len({int(one) for one in sensor[variable == code]}), len({int(one) for one in time[variable == code]}))
            for code in range(7)
        ]
        sensors, times = min(3, max(s for s, _ in support)), min(3, max(t for _, t in support))
        given = Readings("abcde", names, sensor, variable, time, np.zeros(count))
        expected = [(s >= sensors and s > 1) or t >= times or name == "v6"
                    for name, (s, t) in zip(names, support, strict=True)]  # fmt: skip
        assert common_variables(given, ("v6",)).tolist() == expected


def test_a_feed_in_which_nothing_is_strange_is_as_it_was(readings: Readings, tmp_path: Path) -> None:
    """Half of the sensors are new on the fifth day, and are judged and told like all others."""
    half = readings.taken((readings.sensor < SENSORS // 2) | (readings.time >= START + 4 * DAY))
    run_service(tmp_path / "one", hourly(half))
    run_service(tmp_path / "other", hourly(half, 6))
    assert_same_rows(read_rows(tmp_path / "one"), read_rows(tmp_path / "other"))
    rows = read_rows(tmp_path / "one")
    assert set(rows.sensors) == set(readings.sensors)
