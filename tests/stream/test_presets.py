"""Messages as their projects document them: what each preset takes for sensor, variable, time and value."""

from __future__ import annotations

import copy
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documented_messages import (
    AIRGRADIENT,
    AT_11,
    CHIRPSTACK,
    CSIJSON,
    GEOJSON,
    MESSAGES,
    OPENAQ,
    TASMOTA,
    TTN,
    ZIGBEE,
)
from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import parse_time
from sensormend.readings import HOUR, MINUTE
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.formats.presets import FORMATS, PRESETS, is_diagnostic
from sensormend.stream.settings import Settings
from staged_readings import as_list

NOW = parse_time("2024-05-01T12:00:00")
REASONS_OF_REFUSALS = {getattr(why, name) for name in why.__all__ if name.isupper()}


def decoded(message: Any, topic: str | None = None, **more: Any) -> Decoder:
    decoder = Decoder(**more)
    decoder.add(message.encode() if isinstance(message, str) else json.dumps(message).encode(), NOW, topic)
    return decoder


def readings(decoder: Decoder) -> list[tuple[str, str, str, float]]:
    """Return sensor, variable, time and value, and check that nothing was refused."""
    taken, rejected, _ = decoder.take()
    assert not rejected
    return [(sensor, variable, _minute(time), value) for sensor, variable, time, value in as_list(taken)]  # type: ignore[misc]


def _minute(time: int) -> str:
    from sensormend.pipeline.times import iso

    return iso(time)[:16]


@pytest.mark.parametrize(("name", "message", "topic", "expected"), MESSAGES)
def test_a_message_is_taken_for_what_it_is(
    name: str, message: Any, topic: str | None, expected: list[tuple[str, str, str, float]]
) -> None:
    decoder = decoded(message, topic)
    assert readings(decoder) == expected
    assert name in decoder.formats
    # The format can be forced, and another one is refused.
    assert readings(decoded(message, topic, form=name)) == expected
    other = "influx" if name != "influx" else "ttn"
    refused = decoded(message, topic, form=other).take()
    assert not len(refused.readings)
    assert {entry.reason for entry in refused.rejected} == {why.NOT_IN_FORMAT}


IDS = {"end_device_ids": TTN["end_device_ids"], "received_at": "2024-05-01T11:59:58.123456789Z"}
LORA = {key: CHIRPSTACK[key] for key in ("deviceInfo", "time", "deduplicationId")}
EVENT = {
    "specversion": "1.0",
    "type": "com.example.reading",
    "source": "/s/1",
    "id": "1",
    "time": "2024-05-01T11:31:00Z",
}
AT = "2024-05-01T14:00:04"
VARIANTS: list[tuple[Any, str | None, list[tuple[str, str, str, float]], set[str]]] = [
    # Several measurements with times of their own, and no decoder but that of the network server.
    ({**IDS, "uplink_message": {"f_port": 1, "received_at": "2024-05-01T11:59:57.902123456Z", "normalized_payload": [
        {"air": {"temperature": 20.5, "relativeHumidity": 61}, "time": "2024-05-01T11:00:00Z"},
        {"air": {"temperature": 21.5}}, {"battery": 3.1}]}}, "v3/app1@ttn/devices/dev1/up",
     [("dev1", "air.temperature", AT_11, 20.5), ("dev1", "air.relativeHumidity", AT_11, 61.0),
      ("dev1", "air.temperature", "2024-05-01T11:59", 21.5)], {"battery"}),
    # CayenneLPP: where the device is is no reading.
    ({**LORA, "object": {"temperatureSensor": {"0": 24.5}, "gpsLocation": {"1": {
        "latitude": 1.5, "longitude": 2.5, "altitude": 3}}}}, "up",
     [("0101010101010101", "temperatureSensor.0", "2024-05-01T11:34", 24.5)],
     {"gpsLocation.1.latitude", "gpsLocation.1.longitude", "gpsLocation.1.altitude"}),
    ({**LORA, "time": None, "object": {"temperature": 20.5}}, "up",
     [("0101010101010101", "temperature", "2024-05-01T12:00", 20.5)], set()),
    # An energy meter, and two probes of one kind, of which one sends an id like a number.
    ({"Time": AT, "ENERGY": {"TotalStartTime": "2020-01-01T00:00:00", "Power": 19, "Voltage": 234}}, "tele/plug/SENSOR",
     [("plug/ENERGY", "Power", "2024-05-01T12:00", 19.0), ("plug/ENERGY", "Voltage", "2024-05-01T12:00", 234.0)],
     set()),
    ({"Time": AT, "DS18B20-1": {"Id": "011620F5A1EE", "Temperature": 19.5},
      "DS18B20-2": {"Id": "0316E2795123", "Temperature": 20.5}, "DS18B20-3": {"Id": "03", "Temperature": None},
      "ESP32": {"Temperature": 53.3}, "TempUnit": "C"}, "attic/tele/SENSOR",
     [("attic/DS18B20-1", "Temperature", "2024-05-01T12:00", 19.5),
      ("attic/DS18B20-2", "Temperature", "2024-05-01T12:00", 20.5)], {"Id"}),
    ({"StatusSNS": {"Time": AT, "SI7021": {"Temperature": 20.5}, "TempUnit": "C"}}, "stat/attic/STATUS8",
     [("attic/SI7021", "Temperature", "2024-05-01T12:00", 20.5)], set()),
    ({"esp8266id": "7", "sensordatavalues": [{"value_type": "P1", "value": 12.5}, {"value_type": "P2", "value": "?"}]},
     None, [("7", "P1", "2024-05-01T12:00", 12.5)], set()),
    # ThingsBoard takes entries without a time.
    ({"A": [{"values": {"temperature": 42}}], "B": [{"ts": 1714561200000, "values": {"temperature": 22}}]},
     "v1/gateway/telemetry",
     [("A", "temperature", "2024-05-01T12:00", 42.0), ("B", "temperature", AT_11, 22.0)], set()),
    # What the sensor itself serves, with the answers that it got.
    ({"SensorId": "84:f3:eb:7b:c8:ee", "DateTime": "2024/05/01T11:00:00z", "Mem": 20000, "Adc": 0.03, "lat": 40.1,
      "lon": -111.7, "current_temp_f": 77, "pm2_5_atm": 5.1, "response": 201, "key1_response_date": 1591560000,
      "ts_latency": 5, "pa_latency": 331, "rssi": -63}, None,
     [("84:f3:eb:7b:c8:ee", "current_temp_f", AT_11, 77.0), ("84:f3:eb:7b:c8:ee", "pm2_5_atm", AT_11, 5.1)],
     {"Mem", "Adc", "lat", "lon", "response", "key1_response_date", "ts_latency", "pa_latency", "rssi"}),
    ({"sensor_index": 131075, "time_stamp": 1714561260, "fields": ["time_stamp", "humidity"],
      "data": [[1714561200, 31], [1714561260, None]]}, None, [("131075", "humidity", AT_11, 31.0)], {"time_stamp"}),
    ({"results": [{"value": 9.5, "parameter": {"id": 2, "name": "pm25", "units": "ppm"}, "coordinates": None,
                   "period": {"datetimeFrom": {"utc": "2024-05-01T11:00:00Z"}}}]}, "openaq/3917",
     [("3917", "pm25", AT_11, 9.5)], set()),
    ({"results": [{"datetime": {"utc": "2024-05-01T11:00:00Z"}, "value": 5.5, "sensorsId": 3917, "locationsId": 2178}]},
     None, [("3917", "", AT_11, 5.5)], set()),
    ({"head": CSIJSON["head"], "data": [{"no": 1, "time": "2024-05-01T11:00:00", "vals": [12.5, "NAN"]},
                                        {"no": 2, "time": "2024-05-01T11:00:00", "vals": [12.5, 5.5]}]}, None,
     [("ridge", "AirTC_Avg", AT_11, 5.5)], {"BattV_Min"}),
    # A number has the time of its event, and data may be text or packed.
    ([{**EVENT, "data": 22.5}, {**EVENT, "data": '{"temperature": 21.5}', "datacontenttype": "application/json"},
      {**EVENT, "data_base64": "eyJ0ZW1wIjogMjAuNX0="}, {**EVENT, "data": [1.5, {"value": 2.5}]}], "events",
     [("/s/1", variable, "2024-05-01T11:31", value)
      for variable, value in (("", 22.5), ("temperature", 21.5), ("temp", 20.5), ("", 1.5), ("", 2.5))], set()),
    ({"linkquality": 76, "temperature": 21.5, "last_seen": "2024-05-01T13:00:00+02:00", "device": {"x": 2}},
     "zigbee2mqtt/attic", [("attic", "temperature", AT_11, 21.5)], {"linkquality"}),
    ({"time": "2024-05-01T13:00:00+0200", "model": "X", "id": 1, "temperature_C": 20.5, "mic": "CRC", "freq": 433.9},
     None, [("X/1", "temperature_C", AT_11, 20.5)], {"id", "freq"}),
    ("21.5", "homie/5/super-car/engine/temperature",
     [("super-car/engine", "temperature", "2024-05-01T12:00", 21.5)], set()),
    ("w,sensor=a t=-1.5e-3,n=5u,s=\"x, y=1\" 1714561200\r\nw,sensor=a t=2 1714561200000", None,
     [("a", "t", AT_11, -0.0015), ("a", "n", AT_11, 5.0), ("a", "t", AT_11, 2.0)], set()),
    ({"phenomenonTime": "2024-05-01T11:00:00Z", "result": "8.5"}, "v1.1/Datastreams('ab-c')/Observations",
     [("ab-c", "", AT_11, 8.5)], set()),
]  # fmt: skip


@pytest.mark.parametrize(("message", "topic", "expected", "passed"), VARIANTS)
def test_variants_of_the_formats(
    message: Any, topic: str | None, expected: list[tuple[str, str, str, float]], passed: set[str]
) -> None:
    decoder = decoded(message, topic)
    assert readings(decoder) == expected
    assert decoder.passed == passed


UNREAD: list[tuple[Any, str | None, str]] = [
    ({**IDS, "uplink_message": {"f_port": 1, "frm_payload": "gkHe"}}, "v3/a@ttn/devices/dev1/up", why.NOT_DECODED),
    ({**LORA, "fPort": 1, "data": "qg=="}, "application/1/device/01/event/up", why.NOT_DECODED),
    ({**IDS, "join_accept": {"session_key_id": "x"}}, "v3/a@ttn/devices/dev1/join", why.NO_READING),
    ({**IDS, "downlink_ack": {"f_port": 15, "f_cnt": 11}}, "v3/a@ttn/devices/dev1/down/ack", why.NO_READING),
    ({**IDS, "service_data": {"service": "x", "data": {"a": 1.5}}}, "v3/a@ttn/devices/dev1/service", why.NO_READING),
    ({**LORA, "devAddr": "00189440"}, "application/1/device/01/event/join", why.NO_READING),
    ({**LORA, "margin": 10, "batteryLevel": 75.3}, "application/1/device/01/event/status", why.NO_READING),
    ({**LORA, "fCntDown": 4, "txInfo": {"power": 14}}, "application/1/device/01/event/txack", why.NO_READING),
    ({**LORA, "location": {"latitude": 1.5, "longitude": 2.5}}, "application/1/event/location", why.NO_READING),
    ({"Time": AT, "Uptime": "1T", "Heap": 27, "Berry": {"HeapUsed": 5, "Objects": 66}, "Wifi": {"RSSI": 60}},
     "tele/attic/STATE", why.NO_READING),
    ({"A": {"attribute": "v", "other": 42}}, "v1/gateway/attributes", why.NO_READING),
    ({**EVENT}, "events", why.NO_READING),
    ({**EVENT, "data": "text"}, "events", why.NOT_A_NUMBER),
    ({**EVENT, "data_base64": "****"}, "events", why.NO_READING),
    ({"response_time": 5, "os": {"memory_used_mb": 100.5}, "process": {"memory_used_mb": 5}},
     "zigbee2mqtt/bridge/health", why.NO_READING),
    ([{"ieee_address": "0x01", "type": "EndDevice", "network_address": 29159, "definition": {"model": "x"}}],
     "zigbee2mqtt/bridge/devices", why.NO_READING),
    ("120", "homie/super-car/$stats/uptime", why.NO_READING),
    ("21.5", "homie/super-car/engine/temperature/set", why.NO_READING),
    ("22", "homie/5/super-car/$target", why.NO_READING),
    # Which Datastream it is of is not known, and the level of the topic would be one sensor for all of them.
    ({"phenomenonTime": "2024-05-01T11:00:00Z", "result": 8.5}, "v1.1/Observations", why.NO_SENSOR),
    ({"time": "@0.123s", "model": "X", "id": 1, "temperature_C": 20.5}, None, why.NOT_A_TIME),
]  # fmt: skip


@pytest.mark.parametrize(("message", "topic", "reason"), UNREAD)
def test_what_is_no_reading_makes_no_sensor(message: Any, topic: str | None, reason: str) -> None:
    taken, rejected, _ = decoded(message, topic).take()
    assert not len(taken)
    assert {entry.reason for entry in rejected} == {reason}


def test_an_invalid_line_among_others_is_refused_alone() -> None:
    taken, rejected, _ = decoded("w,sensor=a t=1 1714561200\nnonsense\nw,sensor=b t=2 1714561200").take()
    assert [entry[0] for entry in as_list(taken)] == ["a", "b"]
    assert [(entry.reason, entry.text) for entry in rejected] == [(why.NO_READING, '"nonsense"')]


def test_every_preset_has_a_message() -> None:
    assert {preset.name for preset in PRESETS} <= {name for name, *_ in MESSAGES} <= set(FORMATS)


def test_what_is_not_measured_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    decoder = Decoder()
    with caplog.at_level(logging.INFO, logger="sensormend.stream"):
        for message in (TTN, TTN, ZIGBEE, CHIRPSTACK):
            decoder.add(json.dumps(message).encode(), NOW, "zigbee2mqtt/x")
    assert decoder.passed == {"BatV", "battery", "linkquality"}
    assert set(decoder.formats) == {"ttn", "zigbee2mqtt", "chirpstack"}
    names = [record.fields["names"] for record in caplog.records if "names" in record.fields]  # type: ignore[attr-defined]
    assert names == [["BatV"], ["battery", "linkquality"]]
    assert sum("The Things Network" in record.message for record in caplog.records) == 1


def test_variables_that_are_named_are_readings() -> None:
    options = Options.of(variables=["battery", "temperature"])
    taken = readings(decoded(CHIRPSTACK, "up", options=options))
    assert [(entry[1], entry[3]) for entry in taken] == [("battery", 95.0), ("temperature", 20.5)]
    assert [entry[1] for entry in readings(decoded(ZIGBEE, "zigbee2mqtt/x", options=options))] == [
        "battery",
        "temperature",
    ]
    plain = {"sensor": "a", "battery": 3.1, "temp": 20.0}
    assert [entry[1] for entry in readings(decoded(plain))] == ["temp"]
    named = Options.of(variables=["battery"])
    assert [entry[1] for entry in readings(decoded(plain, options=named))] == ["battery"]


@pytest.mark.parametrize(
    ("message", "topic"),
    [
        ({"sensor": "a", "time": 1714561200, "battery": 3.1, "rssi": -70}, None),
        ({**CHIRPSTACK, "object": {"battery": 95}}, None),
        ("-61", "livingroom/sensor/wifi_signal/state"),
    ],
)
def test_a_message_about_the_device_alone_has_no_reading(message: Any, topic: str | None) -> None:
    taken, rejected, _ = decoded(message, topic).take()
    assert not len(taken)
    assert [entry.reason for entry in rejected] == [why.NOT_MEASURED]


def test_a_number_about_the_device_in_a_topic() -> None:
    decoder = decoded("-61", "city/S1/rssi", patterns=("city/{sensor}/{variable}",))
    assert [entry.reason for entry in decoder.take().rejected] == [why.NOT_MEASURED]
    options = Options.of(variables=["rssi"])
    decoder = decoded("-61", "city/S1/rssi", patterns=("city/{sensor}/{variable}",), options=options)
    assert [entry[:2] for entry in readings(decoder)] == [("S1", "rssi")]


def test_options_and_patterns_change_the_choice() -> None:
    named = readings(decoded(CHIRPSTACK, options=Options.of(sensor="deviceInfo.deviceName")))
    assert {entry[0] for entry in named} == {"Test device"}
    timed = readings(decoded(TTN, options=Options.of(time="received_at", variables=["temperature"])))
    assert timed == [("dev1", "temperature", "2024-05-01T11:59", 21.5)]
    pattern = ("tele/{sensor}/SENSOR",)
    assert {entry[0] for entry in readings(decoded(TASMOTA, "tele/attic/SENSOR", patterns=pattern))} == {
        "attic/AM2301",
        "attic/DS18B20-1",
    }
    # A pattern that names sensor and variable is stronger than the topics of ESPHome.
    pattern = ("{sensor}/+/{variable}/state",)
    assert readings(decoded("21.5", "a/sensor/t/state", patterns=pattern)) == [("a", "t", "2024-05-01T12:00", 21.5)]
    # Whoever names the key of the value has another message in mind.
    keys = decoded({**ZIGBEE, "update": None}, "z/x", options=Options.of(value="temperature"))
    assert [entry[1:2] for entry in readings(keys)] == [("",)]


@pytest.mark.parametrize("zone", [-10, 0, 5.75, 14])
def test_local_times_of_live_messages_become_utc(zone: float) -> None:
    from sensormend.pipeline.times import iso

    local = iso(NOW - 2 * MINUTE + round(zone * HOUR))[:19]
    taken = readings(decoded({**TASMOTA, "Time": local}, "tele/attic/SENSOR"))
    assert {entry[2] for entry in taken} == {"2024-05-01T11:58"}
    # A recorded message keeps its time.
    taken = readings(decoded({**TASMOTA, "Time": "2020-03-24T20:17:04"}, "tele/attic/SENSOR"))
    assert {entry[2] for entry in taken} == {"2020-03-24T20:17"}


def test_a_time_within_an_object_is_the_time_and_no_reading() -> None:
    message = {"src": "attic", "params": {"ts": 1714561200.5, "temperature:0": {"id": 0, "tC": 20.5}}}
    assert readings(decoded(message, "attic/events/rpc")) == [
        ("rpc", "params.temperature:0.tC", AT_11, 20.5),
    ]
    # Of two times neither is it.
    two = decoded({"sensor": "a", "x": {"ts": 1714561200, "t": 1.5}, "y": {"ts": 1714561260, "t": 2.5}})
    assert {time for _, _, time, _ in readings(two)} == {"2024-05-01T12:00"}


def test_units_and_places_come_with_the_messages() -> None:
    assert decoded(CSIJSON).units == {"AirTC_Avg": "°C"}
    assert decoded(OPENAQ).units == {"pm25": "µg/m³"}
    assert decoded(AIRGRADIENT).units == {"rco2": "ppm", "pm02": "µg/m³", "atmp": "°C"}
    assert decoded([{"bn": "S1", "n": "rh", "u": "%RH", "v": 61}, {"n": "t", "u": "Cel", "v": 20.5}]).units == {
        "rh": "%",
        "t": "°C",
    }
    (place,) = decoded(TTN).take().positions
    assert (place.sensor, place.latitude, place.longitude) == ("dev1", 52.37, 4.88)
    (place,) = decoded(GEOJSON).take().positions
    assert (place.sensor, place.latitude, place.longitude) == ("CR1000X_400", 41.7666, -111.8549)


@pytest.mark.parametrize(
    "message",
    [
        {"end_device_ids": {"device_id": "dev1"}, "join_accept": {"session_key_id": "x"}},
        {"end_device_ids": {"device_id": "dev1"}, "uplink_message": [1]},
        {"deviceInfo": {"devEui": "01"}, "object": "text"},
        {"head": {"fields": 5}, "data": 7},
        {"head": {"fields": [{"name": "a"}]}, "data": [{"time": 3, "vals": [1]}, 5]},
        {"properties": {"observationNames": ["a"], "observations": [1, 2]}},
        {"sensordatavalues": 3},
        {"sensordatavalues": [{"value_type": ["a"], "value": {}}]},
        {"fields": [["sensor_index"], "sensor_index"], "data": [[1, 2], 3]},
        {"specversion": "1.0", "source": [], "type": "x", "data": "text"},
        {"metrics": [{"fields": {}, "tags": {}}, 3]},
        {"phenomenonTime": {}, "result": []},
        {"Time": "x", "TempUnit": "C", "A": {"Temperature": "y"}},
        {"results": [{"value": 1, "parameter": [], "date": {"utc": "2024"}}]},
        "weather temperature=warm",
        "a,b=c d=1 x=2 5",
    ],
)
def test_broken_messages_of_a_format_are_refused(message: Any) -> None:
    taken, rejected, _ = decoded(message, "some/topic").take()
    assert rejected or len(taken)
    assert {entry.reason for entry in rejected} <= REASONS_OF_REFUSALS
    assert len(taken) <= 1


LONG = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "a" + ",b" * LONG + " x", "a" + ",b=c" * LONG + " x=1 x", "a x=" + '"' * LONG + "=", "a b=" + "\\" * (LONG + 1),
        "a " + "=" * LONG, "a b=1" + " " * LONG + "x", "a b=1 " + "9" * LONG, "a" + "\\," * LONG + " b=1",
    ],
)  # fmt: skip
def test_no_line_takes_longer_than_it_is_long(text: str) -> None:
    started = time.process_time()
    taken, rejected, _ = decoded(text, "x").take()
    assert len(taken) + len(rejected) == 1
    assert time.process_time() - started < 5


@pytest.mark.parametrize("topic", ["homie/" * 10_000, "x/SENSOR/" * 6_000, "zigbee2mqtt/bridge" * 3_300, "/" * 60_000])
def test_no_topic_takes_longer_than_it_is_long(topic: str) -> None:
    started = time.process_time()
    for message in ("21.5", TASMOTA, {"phenomenonTime": "2024-05-01T11:00:00Z", "result": 1}):
        decoded(message, topic).take()
    assert time.process_time() - started < 2


WEIRD: tuple[Any, ...] = (
    None, True, -1, 10**400, 1e308, "", "\0", "x" * 5000, "1e999", [], [[[[[[1]]]]]], {}, {"": 1}, {"value": {}},
    [None], {"a": {"b": {"c": {"d": {"e": 1}}}}}, "9999-12-31T23:59:59.999999999Z", "2024-05-01T11:00:00+99:99", 9e18,
    {str(number): number for number in range(1500)},
)  # fmt: skip


@given(st.sampled_from([message for _, message, *_ in MESSAGES if not isinstance(message, str)]), st.data())
@settings(max_examples=400, deadline=None)
def test_whatever_is_in_a_message_it_is_read_or_refused(message: Any, data: st.DataObject) -> None:
    message = copy.deepcopy(message)
    for _ in range(data.draw(st.integers(1, 3))):
        part, key = data.draw(st.sampled_from(list(_places(message))))
        weird = copy.deepcopy(data.draw(st.sampled_from(WEIRD)))
        if data.draw(st.booleans()) or isinstance(part, list):
            part[key] = weird
        else:
            part[str(weird)[:50]] = part.pop(key)
    topic = data.draw(st.sampled_from([None, "a/b", "tele/x/SENSOR", "zigbee2mqtt/x", "v1/gateway/attributes"]))
    taken, rejected, _ = decoded(message, topic).take()
    assert len(taken) or rejected
    assert {entry.reason for entry in rejected} <= REASONS_OF_REFUSALS
    assert all(isinstance(name, str) and name for name in taken.sensors)
    assert all(isinstance(name, str) for name in taken.variables)


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object or list of a message with each of its keys."""
    for key in part if isinstance(part, dict) else range(len(part)):
        yield part, key
        if isinstance(part[key], dict | list):
            yield from _places(part[key])


@pytest.mark.parametrize(
    "name", ["pm2_5", "NO", "no2", "count_per_litre", "voltage", "frequency", "temp", "o3", "signal_rate"]
)
def test_quantities_are_measured(name: str) -> None:
    assert not is_diagnostic(name)


def test_the_format_is_an_option_of_feeds_with_messages(tmp_path: Any) -> None:
    assert Settings.of(source="-", out=tmp_path / "out", format="ttn").format == "ttn"
    with pytest.raises(ConfigError, match="format is json, senml, ttn"):
        Settings.of(source="-", out=tmp_path / "out", format="ttm")
    with pytest.raises(ConfigError, match="format is for messages"):
        Settings.of(source="replay:x.csv", out=tmp_path / "out", format="ttn")
