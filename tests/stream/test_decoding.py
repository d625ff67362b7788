"""What messages hold: every format, and nothing that can be in a message gets past or stops the decoder."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Position
from sensormend.pipeline.times import parse_time
from sensormend.readings import DAY, SECOND
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import LARGEST, MOST_READINGS, MOST_REFUSED, MOST_SENSORS, Decoder
from staged_readings import as_list

NOW = parse_time("2024-05-01T12:00:00")
THEN = 1_577_836_800 * SECOND

REASONS = {getattr(why, name) for name in why.__all__ if name.isupper()}

Reading = tuple[str, str, int, float | None]


def read(
    *messages: Any, topic: str | None = None, options: Options | None = None, patterns: tuple[str, ...] = ()
) -> tuple[list[Reading], list[str]]:
    """Return the readings of some messages, bytes or what is to be JSON, and why the others were refused."""
    decoder = Decoder(options, patterns)
    for message in messages:
        decoder.add(message if isinstance(message, bytes) else json.dumps(message).encode(), NOW, topic)
    readings, rejected, _ = decoder.take()
    assert {entry.reason for entry in rejected} <= REASONS
    return as_list(readings), [entry.reason for entry in rejected]


def refused(message: Any, **more: Any) -> str:
    readings, reasons = read(message, **more)
    assert not readings
    assert len(reasons) == 1
    return reasons[0]


def test_one_object() -> None:
    assert read({"sensor": "a", "time": 1577836800, "value": 20.5}) == ([("a", "", THEN, 20.5)], [])


def test_a_list_and_objects_one_by_one_are_the_same() -> None:
    entries = [{"sensor": f"s{n % 3}", "time": 1577836800 + n, "value": n / 7} for n in range(20)]
    assert read(entries) == read(*entries)
    # Once more: then the names are known, and the list is taken column by column.
    assert read(entries, entries)[0] == read(*entries, *entries)[0]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1577836800, THEN),
        (1577836800.25, THEN + SECOND // 4),
        (1577836800123, THEN + 123_000),
        (1577836800123456, THEN + 123_456),
        (1577836800123456789, THEN + 123_456),
        ("1577836800", THEN),
        ("1577836800.5", THEN + SECOND // 2),
        ("2020-01-01T00:00:00Z", THEN),
        ("2020-01-01T01:30:00+01:30", THEN),
        ("2020-01-01 00:00:00", THEN),
        ("2020-01-01T00:00:00.123456Z", THEN + 123_456),
        ("2020-01-01T00:00:00.123456789Z", THEN + 123_456),
        ("2020-01-01", THEN),
        ("2020/1/1 0:00", THEN),
        ("2020-01-01 01:00:00 +0100", THEN),
        ("20200101", THEN),
        ("202001010000", THEN),
        ("1.1.2020 00:00", THEN),
        ("1-JAN-2020 00:00:00", THEN),
        # Ten digits that could be read as a date and an hour: 2033 all the same.
        ("1991010100", 1_991_010_100 * SECOND),
        (0, 0),
        (12, 12 * SECOND),
        (-86400, -DAY),
        (None, NOW),
        ("", NOW),
    ],
)
def test_times(time: Any, expected: int) -> None:
    assert read({"sensor": "a", "time": time, "value": 1.0}) == ([("a", "", expected, 1.0)], [])
    # In a list all are read at once.
    entry = {"sensor": "a", "time": time, "value": 1.0}
    assert read(entry, [entry] * 5)[0] == [("a", "", expected, 1.0)] * 6


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ("yesterday", why.NOT_A_TIME),
        ("2020-13-01T00:00:00", why.NOT_A_TIME),
        ("01/02/2020", why.NOT_A_TIME),
        ("2020-01-01T00:00:00+99:00", why.NOT_A_TIME),
        ("9999-01-01", why.OUT_OF_TIME),
        ("1600-01-01T00:00:00Z", why.OUT_OF_TIME),
        (1e300, why.OUT_OF_TIME),
        (10**30, why.OUT_OF_TIME),
        (-(10**19), why.OUT_OF_TIME),
        (math.inf, why.NOT_A_TIME),
        (math.nan, why.NOT_A_TIME),
        (True, why.NOT_A_TIME),
        ([1577836800], why.NOT_A_TIME),
    ],
)
def test_what_is_no_time(time: Any, reason: str) -> None:
    assert refused({"sensor": "a", "time": time, "value": 1.0}) == reason
    good = {"sensor": "a", "time": 1577836800, "value": 1.0}
    bad = {"sensor": "a", "time": time, "value": 1.0}
    assert read(good, [good, good, bad, good, good]) == ([("a", "", THEN, 1.0)] * 5, [reason])


def test_without_a_time_it_is_that_of_arrival() -> None:
    assert read({"sensor": "a", "value": 1}) == ([("a", "", NOW, 1.0)], [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        ("21.5", 21.5),
        (" 7 ", 7.0),
        ("1e3", 1000.0),
        (None, None),
        ("", None),
        ("NA", None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
    ],
)
def test_values(value: Any, expected: float | None) -> None:
    assert read({"sensor": "a", "time": 1577836800, "value": value}) == ([("a", "", THEN, expected)], [])


@pytest.mark.parametrize("value", [True, False, "on", "1_000", [1], "21,5", "0x10"])
def test_what_is_no_number(value: Any) -> None:
    assert refused({"sensor": "a", "time": 1577836800, "value": value}) == why.NOT_A_NUMBER
    good = {"sensor": "a", "time": 1577836800, "value": 1.0}
    assert read([good, {**good, "value": value}, good, good, good]) == (
        [("a", "", THEN, 1.0)] * 4,
        [why.NOT_A_NUMBER],
    )


def test_a_wide_object() -> None:
    wide = {"device_id": "d", "ts": 1577836800, "temp": 20.5, "humidity": "40", "status": "ok", "pressure": None}
    assert read(wide) == ([("d", "temp", THEN, 20.5), ("d", "humidity", THEN, 40.0)], [])
    broken = {"device_id": "d", "ts": 1577836800, "temp": 20.5, "humidity": "broken", "status": "ok", "pressure": None}
    assert read(wide, broken) == ([("d", "temp", THEN, 20.5), ("d", "humidity", THEN, 40.0), ("d", "temp", THEN, 20.5)],
                                  [why.NOT_A_NUMBER])  # fmt: skip


def test_a_lone_quantity_keeps_its_name() -> None:
    device = {"device": "d", "ts": 1577836800}
    readings, reasons = read({**device, "temp": 20}, {**device, "hum": 40})
    assert readings == [("d", "temp", THEN, 20.0), ("d", "hum", THEN, 40.0)]
    assert not reasons
    options = Options.of(value="temp")
    assert read({**device, "temp": 20}, options=options)[0] == [("d", "", THEN, 20.0)]


def test_a_variable_in_its_own_key() -> None:
    entry = {"sensor": 7, "variable": "pm10", "time": 1577836800, "value": 3}
    assert read(entry, [entry] * 4)[0] == [("7", "pm10", THEN, 3.0)] * 5


def test_objects_in_objects_are_named_like_columns() -> None:
    nested = {"device": {"id": "a"}, "received_at": "2020-01-01T00:00:00Z", "payload": {"temp": 20, "hum": 40}}
    assert read({"sensor": {"id": "a"}, "value": 1})[0] == [("a", "", NOW, 1.0)]
    options = Options.of(sensor="device.id", variables=["payload.temp"])
    assert read(nested, options=options) == ([("a", "payload.temp", THEN, 20.0)], [])
    assert refused({"a": {"b": {"c": {"d": {"e": 1}}}}}, topic="t") == why.TOO_DEEP


def test_what_options_say() -> None:
    options = Options.of(sensor="box", time="at", variables=["t_out", "t_in"])
    entry = {"box": "b", "at": 1577836800, "t_in": 1, "t_out": 2, "sensor": "no"}
    assert read(entry, options=options)[0] == [("b", "t_out", THEN, 2.0), ("b", "t_in", THEN, 1.0)]
    assert read({"box": "b", "at": 1577836800, "t_in": 1}, options=options)[0] == [("b", "t_in", THEN, 1.0)]
    assert refused({"box": "b", "at": 1577836800, "other": 1}, options=options) == why.NO_READING
    assert refused({"sensor": "b", "at": 1577836800, "t_in": 1}, options=options) == why.NO_SENSOR


OPTIONS = Options.of(variables=["temp", "humidity"])
PATTERN = ("city/{sensor}/{variable}",)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"sensor": "S2", "time": 1577836800, "value": 20.5}, [("S2", "temp", THEN, 20.5)]),
        ({"time": 1577836800, "value": 20.5}, [("S1", "temp", THEN, 20.5)]),
        ({"value": 20.5}, [("S1", "temp", NOW, 20.5)]),
        ({"value": 20.5, "battery": 3.1, "rssi": -70}, [("S1", "temp", NOW, 20.5)]),
        ({"value": None}, [("S1", "temp", NOW, None)]),
        ({"sensor": "S2", "variable": "humidity", "value": 61}, [("S2", "humidity", NOW, 61.0)]),
        ({"temp": 20.5, "humidity": 61, "battery": 3.1}, [("S1", "temp", NOW, 20.5), ("S1", "humidity", NOW, 61.0)]),
        ({"humidity": 61}, [("S1", "humidity", NOW, 61.0)]),
        ([{"sensor": "S2", "time": 1577836800, "value": 1}] * 5, [("S2", "temp", THEN, 1.0)] * 5),
        (20.5, [("S1", "temp", NOW, 20.5)]),
    ],
)
def test_variables_are_those_that_may_come(message: Any, expected: list[Reading]) -> None:
    assert read(message, topic="city/S1/temp", options=OPTIONS, patterns=PATTERN) == (expected, [])


def test_what_is_no_variable_of_the_network_is_not_taken_for_one() -> None:
    more: dict[str, Any] = {"topic": "city/S1/temp", "options": OPTIONS, "patterns": PATTERN}
    assert refused({"battery": 3.1}, **more) == why.NO_READING
    assert refused({"value": True, "battery": 3.1}, **more) == why.NOT_A_NUMBER
    # Nobody says of what this is: it stays without a name.
    assert read({"value": 3}, topic="S1", options=OPTIONS)[0] == [("S1", "", NOW, 3.0)]


@pytest.mark.parametrize("message", [{"sensor": "a", "value": 3}, [{"sensor": "a", "value": 3}], {"value": 3}, 3])
def test_the_only_variable_needs_not_be_said(message: Any) -> None:
    options = Options.of(variables=["temp"])
    assert read(message, topic="city/a", options=options) == ([("a", "temp", NOW, 3.0)], [])
    assert read({"sensor": "a", "value": 3}, options=options)[0] == [("a", "temp", NOW, 3.0)]
    assert read(3, topic="a/rain", options=options, patterns=("{sensor}/{variable}",))[0] == [("a", "rain", NOW, 3.0)]


def test_a_key_of_values_beside_variables_and_sensors() -> None:
    options = Options.of(value="x", variables=["temp", "humidity"])
    more: dict[str, Any] = {"topic": "city/S1/temp", "options": options, "patterns": PATTERN}
    assert read({"x": 3, "humidity": 4}, **more)[0] == [("S1", "temp", NOW, 3.0)]
    assert read({"y": 3, "humidity": 4}, **more)[0] == [("S1", "humidity", NOW, 4.0)]
    assert refused({"y": 3, "value": 4}, **more) == why.NO_READING
    options = Options.of(sensors=["a", "b"], variables=["temp"])
    assert read({"time": 1577836800, "a": 1, "c": 2}, options=options)[0] == [("a", "temp", THEN, 1.0)]
    assert refused({"time": 1577836800, "value": 1}, options=options) == why.NO_READING


def test_sensors_as_keys() -> None:
    entry = {"time": 1577836800, "roof": 1, "cellar": 2}
    assert read(entry)[0] == [("roof", "", THEN, 1.0), ("cellar", "", THEN, 2.0)]
    # Without a time of its own anything with two numbers would do.
    assert refused({"roof": 1, "cellar": 2}) == why.NO_SENSOR


@pytest.mark.parametrize(
    ("topic", "patterns", "channel"),
    [
        ("city/7", (), ("7", "")),
        ("city/7/temp", ("city/{sensor}/{variable}",), ("7", "temp")),
        ("a/7/temp", ("+/{sensor}/temp",), ("7", "")),
        ("city/7/x/y", ("city/{sensor}/#",), ("7", "")),
        ("city/7", ("city/{sensor}/#",), ("7", "")),
        ("b/8", ("a/{sensor}", "b/{sensor}"), ("8", "")),
    ],
)
@pytest.mark.parametrize("number", [b"21.5", b' "21.5"\n', b"+21.5", b"\xef\xbb\xbf21.5"])
def test_a_number_with_its_sensor_in_the_topic(
    topic: str, patterns: tuple[str, ...], channel: tuple[str, str], number: bytes
) -> None:
    assert read(number, topic=topic, patterns=patterns) == ([(*channel, NOW, 21.5)], [])


def test_objects_take_from_the_topic_what_they_lack() -> None:
    pattern = ("city/{sensor}/{variable}",)
    assert read({"value": 1, "unit": "C"}, topic="city/7/t", patterns=pattern)[0] == [("7", "t", NOW, 1.0)]
    assert read({"temperature": 1}, topic="city/7/t", patterns=pattern)[0] == [("7", "t", NOW, 1.0)]
    # One shape, several topics.
    decoder = Decoder(patterns=pattern)
    for name in "tuv":
        decoder.add(b'{"value": 1}', NOW, f"city/{name}/{name}")
    assert [entry[:2] for entry in as_list(decoder.take().readings)] == [("t", "t"), ("u", "u"), ("v", "v")]
    # A number of the message is no sensor where the topic names one; a key that says so is.
    assert read({"id": 12, "value": 1}, topic="city/7/t", patterns=pattern)[0] == [("7", "t", NOW, 1.0)]
    assert read({"sensor": "x", "value": 1}, topic="city/7/t", patterns=pattern)[0] == [("x", "t", NOW, 1.0)]
    assert read({"id": 12, "value": 1}, topic="city/7")[0] == [("12", "", NOW, 1.0)]


def test_a_topic_that_no_pattern_fits() -> None:
    assert refused(b"21.5", topic="other/7", patterns=("city/{sensor}",)) == why.NO_SENSOR
    assert refused(b"21.5") == why.NO_SENSOR


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", why.NO_READING),
        (b"   ", why.NO_READING),
        (b"\xff\xfe", why.NOT_UTF8),
        (b"hello", why.NOT_JSON),
        (b"true", why.NOT_A_NUMBER),
        (b'{"sensor": "a", "value": 1', why.NOT_JSON),
        (b'{"sensor": "a", "value": 1} x', why.NOT_JSON),
        (b'{"sensor": "a", "value": ' + b"9" * 5000 + b"}", why.NOT_JSON),
        (b"[" * 100_000, why.TOO_DEEP),
        (b'{"a":' * 100_000, why.TOO_DEEP),
        (b"[]", why.NO_READING),
        (b"{}", why.NO_READING),
        (b'{"sensor": "a"}', why.NO_READING),
        (b'{"sensor": "a", "temp": null, "hum": null}', why.NO_READING),
        (b'{"sensor": null, "value": 1}', why.NO_SENSOR),
        (b'{"sensor": "", "value": 1}', why.NO_SENSOR),
        (b'{"sensor": "  ", "value": 1}', why.NO_SENSOR),
        (b'{"sensor": ["a"], "value": 1}', why.NO_SENSOR),
        (b'{"sensor": "a\\u0000b", "value": 1}', why.BAD_NAME),
        (b'{"sensor": "\\ud800", "value": 1}', why.BAD_NAME),
        (b'{"sensor": "' + b"a" * 201 + b'", "value": 1}', why.BAD_NAME),
        (b'{"sensor": "a", "x\\u0007": 1, "y": 1, "time": "2020-01-01T00:00:00.5.5Z"}', why.NOT_A_TIME),
        (b'{"sensor": "a", "time": "2020-01-01T00:00:00.' + b"0" * 100 + b'Z", "value": 1}', why.NOT_A_TIME),
        (json.dumps({f"k{number}": 1 for number in range(1001)}).encode(), why.TOO_LARGE),
        (b"[1]", why.NOT_A_READING),
        (b"[[]]", why.NOT_A_READING),
        (b"9" * (LARGEST + 1), why.TOO_LARGE),
        (b"[" + b"0," * MOST_READINGS + b"0]", why.TOO_LARGE),
    ],
    ids=lambda given: given[:30] if isinstance(given, bytes) else None,
)
def test_what_is_refused(message: bytes, reason: str) -> None:
    assert refused(message) == reason


def test_one_bad_reading_does_not_spoil_the_others() -> None:
    good = {"sensor": "a", "time": 1577836800, "value": 1.0}
    bad: list[Any] = [{**good, "sensor": None}, {**good, "time": "x"}, {**good, "value": "x"}, 5, None, [], "x", {}]
    readings, reasons = read([good, *bad, good])
    assert readings == [("a", "", THEN, 1.0)] * 2
    assert len(reasons) == len(bad)


def test_the_same_key_twice() -> None:
    assert read(b'{"sensor": "a", "sensor": "b", "value": 1, "value": 2}')[0] == [("b", "", NOW, 2.0)]


def test_what_was_refused_is_shown_cut_short_and_can_be_written() -> None:
    decoder = Decoder()
    decoder.add(b"\xff" * 1000, NOW, "t")
    decoder.add(json.dumps([{"sensor": "\ud800", "value": 1, "note": "n" * 1000}]).encode(), NOW, where="line 3")
    _, rejected, _ = decoder.take()
    assert [entry.where for entry in rejected] == ["t", "line 3"]
    assert all(0 < len(entry.text) <= 120 and entry.text.encode() for entry in rejected)


def test_a_message_of_nothing_but_rubbish_stays_small() -> None:
    decoder = Decoder()
    decoder.add(b"[" + b"0," * 99_999 + b"0]", NOW, "t")
    _, rejected, _ = decoder.take()
    assert len(rejected) == MOST_REFUSED + 1
    assert "99,000 more" in rejected[-1].text


def test_nothing_that_is_invented_fills_the_memory() -> None:
    """Keys, times and topics are remembered to save work; a megabyte of them, not more."""
    decoder = Decoder()
    tracemalloc.start()
    try:
        for number in range(100):
            keys = {f"{number}-{key}-" + "k" * 150: 1 for key in range(100)}
            decoder.add(json.dumps(keys).encode(), NOW, "topic/" + "t" * 30_000 + str(number))
            decoder.add(
                json.dumps({"sensor": "a", "time": number, "value": 1, "k" * 200_000 + str(number): ""}).encode(), NOW
            )
            decoder.take()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 10_000_000


def test_names_are_not_remembered_from_what_is_refused_and_are_bounded() -> None:
    decoder = Decoder()
    for number in range(1000):
        decoder.add(f'{{"sensor": "s{number}", "time": "x", "value": 1}}'.encode(), NOW)
    assert decoder.take().readings.sensors == ()
    many = [{"sensor": f"s{number}", "value": 1} for number in range(MOST_SENSORS + 5)]
    decoder.add(json.dumps(many).encode(), NOW)
    readings, rejected, _ = decoder.take()
    # Nobody is refused here for how many others there are, and they are not remembered for the next time.
    assert len(readings) == len(readings.sensors) == MOST_SENSORS + 5
    assert not rejected
    decoder.add(b'{"sensor": "s7", "value": 2}', NOW)
    readings = decoder.take().readings
    assert as_list(readings) == [("s7", "", NOW, 2.0)]
    assert readings.sensors == ("s7",)


def test_the_names_are_the_same_object_while_there_is_no_new_one() -> None:
    decoder = Decoder()
    decoder.add(b'{"sensor": "a", "value": 1}', NOW)
    first = decoder.take().readings
    decoder.add(b'{"sensor": "a", "value": 1}', NOW)
    assert decoder.take().readings.sensors is first.sensors
    decoder.add(b'{"sensor": "b", "value": 1}', NOW)
    assert decoder.take().readings.sensors == ("a", "b")


def test_retained_messages() -> None:
    decoder = Decoder()
    for message in (
        {"sensor": "a", "time": (NOW - 2 * DAY) // SECOND, "value": 1},
        {"sensor": "b", "time": (NOW - DAY // 2) // SECOND, "value": 1},
        {"sensor": "c", "value": 1},
    ):
        decoder.add(json.dumps(message).encode(), NOW, retained=True)
    readings, rejected, _ = decoder.take()
    assert readings.sensors == ("b",)
    assert [entry.reason for entry in rejected] == [why.RETAINED_OLD, why.RETAINED_TIMELESS]


def test_places() -> None:
    decoder = Decoder()
    for latitude, longitude in ((47.0, 8.0), (47.0001, 8.0), (0, 0), (47.1, 8.0), ("x", 8.0), (95, 8.0)):
        entry = {"sensor": "a", "time": 1577836800, "value": 1, "lat": latitude, "lon": longitude}
        decoder.add(json.dumps(entry).encode(), NOW)
    readings, rejected, positions = decoder.take()
    assert len(readings) == 6
    assert not rejected
    assert positions == [Position("a", THEN, 47.0, 8.0), Position("a", THEN, 47.1, 8.0)]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
    | st.sampled_from(["2020-01-01T00:00:00Z", "a", "21.5", 1577836800, ""]),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(
        st.sampled_from(["sensor", "id", "time", "ts", "value", "v", "n", "bn", "bt", "t", "u", "temp", "variable",
                         "lat", "lon", "date", "name", "bver"]) | st.text(max_size=5), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(ANYTHING, min_size=1, max_size=8), st.sampled_from([None, "city/7", "a/b/c"]))
def test_any_json_gives_readings_or_a_reason(messages: list[Any], topic: str | None) -> None:
    for message in messages:
        readings, reasons = read(message, topic=topic)
        assert readings or reasons
        for sensor, variable, time, _ in readings:
            assert sensor.strip()
            assert sensor.encode()
            assert variable.encode() is not None
            assert -9_214_560_000 * SECOND <= time <= 9_214_646_400 * SECOND


@settings(max_examples=150)
@given(st.binary(max_size=200), st.sampled_from([None, "city/7"]))
def test_any_bytes_give_readings_or_a_reason(message: bytes, topic: str | None) -> None:
    readings, reasons = read(message, topic=topic)
    assert readings or reasons


LONG = st.fixed_dictionaries(
    {
        "sensor": st.sampled_from(["a", "b", "c", 7, None, ""]) | st.text(max_size=3),
        "time": st.integers(-(10**20), 10**20) | st.floats() | st.sampled_from(
            ["2020-01-01T00:00:00Z", "2020-02-30T00:00:00Z", "2020-01-01T00:00:0xZ", 1577836800, None, "NA"]),
        "value": st.floats() | st.integers() | st.sampled_from([None, "3", "x", True, 10**400]),
    }
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(LONG, min_size=1, max_size=12))
def test_a_list_is_read_like_its_entries(entries: list[dict[str, Any]]) -> None:
    known = [{"sensor": name, "time": 1577836800, "value": 1.0} for name in "abc"]
    together, apart = read(*known, entries), read(*known, *entries)
    assert together == apart


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2 * 10**9), st.floats()), min_size=5, max_size=30),
       st.sampled_from([1, 10**3, 10**6, 10**9]))  # fmt: skip
def test_a_list_of_alike_entries_is_read_like_its_entries(samples: list[tuple[str, int, float]], unit: int) -> None:
    entries = [{"sensor": name, "time": time * unit, "value": value} for name, time, value in samples]
    known = [{"sensor": name, "time": 1577836800, "value": 1.0} for name in "abc"]
    assert read(*known, entries) == read(*known, *entries)
