"""SenML, with the examples of RFC 8428 itself (section 5.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sensormend.pipeline.options import Options
from sensormend.pipeline.places import Position
from sensormend.readings import SECOND
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import Decoder
from staged_readings import as_list

NOW = 1_714_564_800 * SECOND
DEVICE = "urn:dev:ow:10e2073a01080063"


def read(
    pack: Any, topic: str | None = None, pattern: str | None = None, variables: Sequence[str] = ()
) -> tuple[list[Any], list[str], list[Position]]:
    decoder = Decoder(Options(variables=tuple(variables)), () if pattern is None else (pattern,))
    decoder.add(pack if isinstance(pack, bytes) else json.dumps(pack).encode(), NOW, topic)
    readings, rejected, positions = decoder.take()
    return as_list(readings), [entry.reason for entry in rejected], positions


def test_single_datapoint() -> None:
    pack = b'[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]'
    assert read(pack) == ([(DEVICE, "Cel", NOW, 23.1)], [], [])


def test_multiple_datapoints() -> None:
    pack = b"""[
        {"bn":"urn:dev:ow:10e2073a01080063:","n":"voltage","u":"V","v":120.1},
        {"n":"current","u":"A","v":1.2}
    ]"""
    assert read(pack)[0] == [(DEVICE, "voltage", NOW, 120.1), (DEVICE, "current", NOW, 1.2)]


def test_relative_times() -> None:
    pack = b"""[
        {"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,
         "bu":"A","bver":5, "n":"voltage","u":"V","v":120.1},
        {"n":"current","t":-5,"v":1.2},
        {"n":"current","t":-4,"v":1.3},
        {"n":"current","v":1.7}
    ]"""
    begin = 1_276_020_076_001_000
    readings, reasons, _ = read(pack)
    assert not reasons
    assert readings == [
        ("urn:dev:ow:10e2073a0108006", "voltage", begin, 120.1),
        ("urn:dev:ow:10e2073a0108006", "current", begin - 5 * SECOND, 1.2),
        ("urn:dev:ow:10e2073a0108006", "current", begin - 4 * SECOND, 1.3),
        ("urn:dev:ow:10e2073a0108006", "current", begin, 1.7),
    ]


def test_times_relative_to_now() -> None:
    readings, _, _ = read([{"bn": "a/", "n": "t", "t": -60, "v": 1}, {"n": "t", "t": 60, "v": 2}, {"n": "t", "v": 3}])
    assert [entry[2] for entry in readings] == [NOW - 60 * SECOND, NOW + 60 * SECOND, NOW]


def test_a_sensor_that_moves() -> None:
    pack = b"""[
        {"bn":"urn:dev:ow:10e2073a01080063","bt":1.320067464e+09, "bu":"%RH","v":20},
        {"u":"lon","v":24.30621},
        {"u":"lat","v":60.07965},
        {"t":60,"v":20.3},
        {"u":"lon","t":60,"v":24.30622},
        {"u":"lat","t":60,"v":60.07965},
        {"t":120,"v":20.7},
        {"u":"%EL","t":150,"v":98},
        {"t":180,"v":21.2}
    ]"""
    readings, reasons, positions = read(pack)
    begin = 1_320_067_464 * SECOND
    assert not reasons
    values = [("%RH", 20), ("%RH", 20.3), ("%RH", 20.7), ("%EL", 98), ("%RH", 21.2)]
    assert [entry[1:4:2] for entry in readings] == values
    assert positions == [Position(DEVICE, begin, 60.07965, 24.30621)]


def test_different_data_types() -> None:
    pack = b"""[
        {"bn":"urn:dev:ow:10e2073a01080063:","n":"temp","u":"Cel","v":23.1},
        {"n":"label","vs":"Machine Room"},
        {"n":"open","vb":false},
        {"n":"nfc-reader","vd":"aGkgCg"}
    ]"""
    assert read(pack) == ([(DEVICE, "temp", NOW, 23.1)], [why.NOT_A_NUMBER] * 3, [])


def test_a_collection_of_resources() -> None:
    pack = b"""[
        {"bn":"2001:db8::2/","bt":1.320078429e+09, "n":"temperature","u":"Cel","v":25.2},
        {"n":"humidity","u":"%RH","v":30},
        {"bn":"2001:db8::1/","n":"temperature","u":"Cel","v":12.3},
        {"n":"humidity","u":"%RH","v":67}
    ]"""
    time = 1_320_078_429 * SECOND
    assert read(pack)[0] == [
        ("2001:db8::2", "temperature", time, 25.2),
        ("2001:db8::2", "humidity", time, 30.0),
        ("2001:db8::1", "temperature", time, 12.3),
        ("2001:db8::1", "humidity", time, 67.0),
    ]


def test_base_value_and_sum() -> None:
    pack = [{"bn": "a:", "bv": 20, "n": "t", "v": 1.5}, {"n": "t", "v": -1}, {"n": "energy", "s": 100}]
    readings, reasons, _ = read(pack)
    assert [entry[3] for entry in readings] == [21.5, 19.0]
    assert reasons == [why.NO_READING]


def test_a_record_without_a_name_is_the_topics() -> None:
    assert read([{"u": "Cel", "v": 3}], "city/7")[0] == [("7", "Cel", NOW, 3.0)]
    assert read([{"v": 3}], "city/7")[0] == [("7", "", NOW, 3.0)]
    assert read({"n": "t", "v": 3}, "city/7")[0] == [("t", "", NOW, 3.0)]
    assert read([{"v": 3}])[1] == [why.NO_SENSOR]


@pytest.mark.parametrize(
    ("record", "channel"),
    [
        ({"bn": "S2", "u": "Cel", "v": 3}, ("S2", "temp")),
        ({"u": "Cel", "v": 3}, ("S1", "temp")),
        ({"bn": "S2/", "n": "humidity", "u": "%RH", "v": 3}, ("S2", "humidity")),
        ({"n": "S2/humidity", "v": 3}, ("S2", "humidity")),
        ({"n": "humidity", "u": "%RH", "v": 3}, ("S1", "humidity")),
        ({"n": "S2", "u": "Cel", "v": 3}, ("S2", "temp")),
    ],
)
def test_a_variable_in_the_topic_goes_before_the_unit(record: dict[str, Any], channel: tuple[str, str]) -> None:
    readings, reasons, _ = read([record], "city/S1/temp", "city/{sensor}/{variable}", ["temp", "humidity"])
    assert (readings, reasons) == ([(*channel, NOW, 3.0)], [])


def test_the_only_variable_goes_before_the_unit() -> None:
    assert read([{"bn": "S2", "u": "Cel", "v": 3}], variables=["temp"])[0] == [("S2", "temp", NOW, 3.0)]
    place = [{"bn": "S2", "u": "lat", "v": 3}, {"u": "lon", "v": 4}, {"u": "Cel", "v": 5}]
    readings, _, positions = read(place, "city/S1/temp", "city/{sensor}/{variable}")
    assert readings == [("S2", "temp", NOW, 5.0)]
    assert positions == [Position("S2", NOW, 3.0, 4.0)]


def test_base_fields_alone_are_no_error() -> None:
    assert read([{"bn": "a/", "bt": 1577836800}, {"n": "t", "v": 1}]) == (
        [("a", "t", 1577836800 * SECOND, 1.0)],
        [],
        [],
    )


@pytest.mark.parametrize(
    ("pack", "reasons"),
    [
        ([{"bn": "a/", "bver": 11, "n": "t", "v": 1}, {"n": "t", "v": 2}], [why.UNKNOWN_SENML] * 2),
        ([{"bn": "a/", "n": "t", "v": 1, "new_": 1}], [why.UNKNOWN_SENML]),
        ([{"bn": "a/", "n": "t", "v": True}], [why.NOT_A_NUMBER]),
        ([{"bn": "a/", "n": "t", "v": "1"}], [why.NOT_A_NUMBER]),
        ([{"bn": "a/", "n": "t", "v": 1, "t": "x"}], [why.NOT_A_TIME]),
        ([{"bn": "a/", "n": "t", "v": 1, "t": 1e300}], [why.NOT_A_TIME]),
        ([{"bn": "a/", "n": "t", "v": 1, "t": -9e10}], [why.OUT_OF_TIME]),
        ([{"bn": "a/", "n": 5, "v": 1}], [why.NOT_A_READING]),
        ([{"bn": "a/", "n": "t"}], [why.NO_READING]),
        ([{"bn": "a/", "bt": 1577836800}], [why.NO_READING]),
    ],
)
def test_what_is_refused(pack: Any, reasons: list[str]) -> None:
    readings, why_not, _ = read(pack)
    assert not readings
    assert why_not == reasons


def test_after_a_broken_base_name_nothing_goes_to_the_sensor_before() -> None:
    pack = [
        {"bn": "a/", "n": "t", "v": 1},
        {"bn": 7, "n": "t", "v": 2},
        {"n": "t", "v": 3},
        {"bn": "b/", "n": "t", "v": 4},
    ]
    readings, reasons, _ = read(pack)
    assert [(entry[0], entry[3]) for entry in readings] == [("a", 1.0), ("b", 4.0)]
    assert len(reasons) == 2
