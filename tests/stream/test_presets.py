"""Messages as their projects document them: what each preset takes for sensor, variable, time and value."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import time_of
from sensormend.readings import HOUR, MINUTE
from sensormend.stream.formats import values as why
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.formats.presets import FORMATS, PRESETS, is_diagnostic
from sensormend.stream.settings import Settings
from staged_readings import as_list

NOW = time_of("2024-05-01T12:00:00")


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


TTN = {
    "end_device_ids": {
        "device_id": "dev1",
        "application_ids": {"application_id": "app1"},
        "dev_eui": "0004A30B001C0530",
        "join_eui": "800000000000000C",
        "dev_addr": "00BCB929",
    },
    "correlation_ids": ["as:up:01E0WZGT6Y7657CPFPE5WEYDSQ"],
    "received_at": "2024-05-01T11:59:58.102Z",
    "uplink_message": {
        "session_key_id": "AXA50tHUQucGdQ0nhKDx0g==",
        "f_cnt": 1,
        "f_port": 1,
        "frm_payload": "gkHe",
        "decoded_payload": {"temperature": 21.5, "luminosity": 0.64, "BatV": 3.61, "door": "open", "soil": {"t1": 9.5}},
        "rx_metadata": [
            {
                "gateway_ids": {"gateway_id": "gtw1"},
                "rssi": -35,
                "snr": 5,
                "location": {"latitude": 1.0, "longitude": 2.0},
            }
        ],
        "settings": {
            "data_rate": {"lora": {"bandwidth": 125000, "spreading_factor": 7}},
            "coding_rate": "4/6",
            "frequency": "868300000",
        },
        "received_at": "2024-05-01T11:59:57.902Z",
        "consumed_airtime": "0.056576s",
        "locations": {"user": {"latitude": 52.37, "longitude": 4.88, "altitude": 16, "source": "SOURCE_REGISTRY"}},
    },
}
CHIRPSTACK = {
    "deduplicationId": "3ac7e3c4-4401-4b8d-9386-a5c902f9202d",
    "time": "2024-05-01T11:34:15.775023242+00:00",
    "deviceInfo": {
        "tenantId": "52f14cd4-c6f1-4fbd-8f87-4025e1d49242",
        "tenantName": "ChirpStack",
        "applicationId": "17c82e96-be03-4f38-aef3-f83d48582d97",
        "applicationName": "Test application",
        "deviceProfileId": "14855bf7-d10d-4aee-b618-ebfcb64dc7ad",
        "deviceProfileName": "Test device-profile",
        "deviceName": "Test device",
        "devEui": "0101010101010101",
        "tags": {"key": "value"},
    },
    "devAddr": "00189440",
    "dr": 1,
    "fCnt": 10,
    "fPort": 1,
    "data": "qg==",
    "object": {"temperature": 20.5, "humidity": 51, "battery": 95},
    "rxInfo": [{"gatewayId": "0016c001f153a14c", "uplinkId": 4217106255, "rssi": -36, "snr": 10.5}],
    "txInfo": {"frequency": 867100000, "modulation": {"lora": {"bandwidth": 125000, "spreadingFactor": 11}}},
}
CSIJSON = {
    "head": {
        "transaction": 0,
        "signature": 44922,
        "environment": {"station_name": "ridge", "table_name": "hourly", "model": "CR1000", "serial_no": "1234"},
        "fields": [
            {"name": "BattV_Min", "type": "xsd:float", "units": "Volts", "process": "Min", "settable": False},
            {"name": "AirTC_Avg", "type": "xsd:float", "units": "Deg C", "process": "Avg", "settable": False},
        ],
    },
    "data": [
        {"no": 17, "time": "2024-05-01T10:00:00", "vals": [12.7, 4.5]},
        {"no": 18, "time": "2024-05-01T11:00:00", "vals": [12.7, 5.5]},
    ],
}
GEOJSON = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [-111.8549, 41.7666, 4498.0]},
    "properties": {
        "loggerID": "CR1000X_400",
        "publish_ts": "2024-05-01T09:21:00.038Z",
        "observationNames": ["logger_temp", "batteryVolt", "message"],
        "observations": {"2024-05-01T09:20:00Z": [24.31, 13.67, "It is warm"]},
    },
}
OPENAQ = {
    "locationId": 62376,
    "location": "Trafalgar",
    "parameter": "pm25",
    "value": 9.8,
    "date": {"utc": "2024-05-01T11:00:00+00:00", "local": "2024-05-01T12:00:00+01:00"},
    "unit": "µg/m³",
    "coordinates": {"latitude": 51.5, "longitude": -0.13},
    "country": "GB",
    "city": None,
    "isMobile": False,
    "isAnalysis": False,
    "entity": "Community",
    "sensorType": "reference grade",
}
PURPLEAIR = {
    "api_version": "V1.0.11-0.0.42",
    "time_stamp": 1714561260,
    "data_time_stamp": 1714561200,
    "max_age": 604800,
    "firmware_default_version": "7.02",
    "fields": ["sensor_index", "rssi", "uptime", "latitude", "longitude", "humidity", "pm2.5", "confidence"],
    "data": [[131075, -63, 12063, 40.1, -111.7, 31, 4.2, 100], [131077, -70, 1, 40.2, -111.8, 29, None, 99]],
}
SENSOR_COMMUNITY = {
    "esp8266id": "15190000",
    "software_version": "NRZ-2020-133",
    "sensordatavalues": [
        {"value_type": "SDS_P1", "value": "12.30"},
        {"value_type": "BME280_temperature", "value": "20.10"},
        {"value_type": "samples", "value": "5038192"},
        {"value_type": "min_micro", "value": "28"},
        {"value_type": "max_micro", "value": "20117"},
        {"value_type": "interval", "value": "145000"},
        {"value_type": "signal", "value": "-66"},
    ],
}
COMMUNITY_API = {
    "id": 21021222000,
    "timestamp": "2024-05-01 11:58:00",
    "location": {"id": 68564, "latitude": "42.662", "longitude": "23.356", "altitude": "553.6", "country": "BG"},
    "sensor": {"id": 71552, "pin": "1", "sensor_type": {"id": 14, "name": "SDS011", "manufacturer": "Nova Fitness"}},
    "sensordatavalues": [{"id": 47440000000, "value": "7.75", "value_type": "P1"}],
}
CLOUD_EVENT = {
    "specversion": "1.0",
    "type": "com.example.reading",
    "source": "/sensors/tn-1234",
    "id": "A234-1234-1234",
    "time": "2024-05-01T11:31:00Z",
    "datacontenttype": "application/json",
    "data": {"temperature": 21.5, "rssi": -60},
}
TASMOTA = {
    "Time": "2024-05-01T14:00:04",
    "AM2301": {"Temperature": 24.6, "Humidity": 58.2, "DewPoint": 15.8},
    "DS18B20-1": {"Id": "011620F5A1EE", "Temperature": 19.5},
    "TempUnit": "C",
}
ZIGBEE = {
    "battery": 91,
    "humidity": 48.3,
    "linkquality": 76,
    "temperature": 21.1,
    "voltage": 2985,
    "update": {"state": "idle"},
}
AIRGRADIENT = {
    "wifi": -46,
    "serialno": "ecda3b1eaaaf",
    "rco2": 447,
    "pm02": 7,
    "pm003Count": 442,
    "atmp": 25.87,
    "boot": 6,
    "bootCount": 6,
    "ledMode": "pm",
    "firmware": "3.1.3",
    "model": "I-9PSL",
}
RTL_433 = {
    "time": "2024-05-01 14:00:07",
    "model": "Acurite-Tower",
    "id": 11524,
    "channel": "A",
    "battery_ok": 1,
    "temperature_C": 20.5,
    "humidity": 41,
    "mic": "CHECKSUM",
}
TELEGRAF = {
    "fields": {"temperature": 21.5, "uptime": 660, "state": "on"},
    "name": "weather",
    "tags": {"host": "raynor", "station": "hill"},
    "timestamp": 1714561200,
}
GATEWAY = {
    "Device A": [
        {"ts": 1714561200000, "values": {"temperature": 42, "humidity": 80}},
        {"ts": 1714561260000, "values": {"temperature": 43}},
    ],
    "Device B": [{"ts": 1714561200000, "values": {"temperature": 22}}],
}
LINES = (
    'weather,location=us-midwest,season=summer temperature=82,humidity=71i,note="a, b = c" 1714561200000000000\n'
    "# a comment\n"
    "air\\ quality,station=north\\,1 value=7.5,ok=t 1714561260000000000\n"
    "pm,host=pi,street=Elm,nr=7 pm25=3.5 1714561260000000000"
)
THINGS = {"phenomenonTime": "2024-05-01T11:00:00Z/2024-05-01T11:10:00Z", "resultTime": None, "result": 8.5}

AT_11 = "2024-05-01T11:00"
MESSAGES: list[tuple[str, Any, str | None, list[tuple[str, str, str, float]]]] = [
    ("ttn", TTN, "v3/app1@ttn/devices/dev1/up", [
        ("dev1", "temperature", "2024-05-01T11:59", 21.5), ("dev1", "luminosity", "2024-05-01T11:59", 0.64),
        ("dev1", "soil.t1", "2024-05-01T11:59", 9.5)]),
    ("chirpstack", CHIRPSTACK, "application/17c82e96/device/0101010101010101/event/up", [
        ("0101010101010101", "temperature", "2024-05-01T11:34", 20.5),
        ("0101010101010101", "humidity", "2024-05-01T11:34", 51.0)]),
    ("influx", LINES, None, [
        ("us-midwest", "temperature", AT_11, 82.0), ("us-midwest", "humidity", AT_11, 71.0),
        ("north,1", "air quality", "2024-05-01T11:01", 7.5),
        ("Elm/7", "pm25", "2024-05-01T11:01", 3.5)]),
    ("telegraf", TELEGRAF, "telegraf/raynor/weather", [("hill", "temperature", AT_11, 21.5)]),
    ("telegraf", {"metrics": [TELEGRAF, TELEGRAF]}, None, [("hill", "temperature", AT_11, 21.5)] * 2),
    ("thingsboard", GATEWAY, "v1/gateway/telemetry", [
        ("Device A", "temperature", AT_11, 42.0), ("Device A", "humidity", AT_11, 80.0),
        ("Device A", "temperature", "2024-05-01T11:01", 43.0), ("Device B", "temperature", AT_11, 22.0)]),
    ("campbell-geojson", GEOJSON, "cs/v1/data/cr1000x/400/hourly", [
        ("CR1000X_400", "logger_temp", "2024-05-01T09:20", 24.31)]),
    ("campbell-csijson", CSIJSON, None, [
        ("ridge", "AirTC_Avg", "2024-05-01T10:00", 4.5), ("ridge", "AirTC_Avg", AT_11, 5.5)]),
    ("openaq", OPENAQ, None, [("62376", "pm25", AT_11, 9.8)]),
    ("openaq", {"meta": {"found": 1}, "results": [OPENAQ]}, None, [("62376", "pm25", AT_11, 9.8)]),
    ("openaq", {"location_id": 2178, "sensors_id": 3917, "location": "Del Norte",
                "datetime": "2024-05-01T05:00:00-06:00",
                "lat": 35.1, "lon": -106.6, "parameter": "o3", "units": "ppm", "value": 0.04}, None,
     [("2178", "o3", AT_11, 0.04)]),
    ("purpleair", PURPLEAIR, None, [
        ("131075", "humidity", AT_11, 31.0), ("131075", "pm2.5", AT_11, 4.2), ("131077", "humidity", AT_11, 29.0)]),
    ("purpleair", {"sensor_index": 7, "last_seen": 1714561200, "rssi": -60, "pm2.5_atm": 4.5}, None,
     [("7", "pm2.5_atm", AT_11, 4.5)]),
    ("sensor.community", SENSOR_COMMUNITY, None, [
        ("15190000", "SDS_P1", "2024-05-01T12:00", 12.3),
        ("15190000", "BME280_temperature", "2024-05-01T12:00", 20.1)]),
    ("sensor.community", [COMMUNITY_API], None, [("71552", "P1", "2024-05-01T11:58", 7.75)]),
    ("cloudevents", CLOUD_EVENT, "events", [("/sensors/tn-1234", "temperature", "2024-05-01T11:31", 21.5)]),
    ("cloudevents", {**CLOUD_EVENT, "data": {"sensor": "s7", "value": 3, "id": 12}}, None,
     [("s7", "", "2024-05-01T11:31", 3.0)]),
    ("tasmota", TASMOTA, "tele/attic/SENSOR", [
        ("attic/AM2301", "Temperature", "2024-05-01T12:00", 24.6),
        ("attic/AM2301", "Humidity", "2024-05-01T12:00", 58.2),
        ("attic/AM2301", "DewPoint", "2024-05-01T12:00", 15.8),
        ("attic/DS18B20-1", "Temperature", "2024-05-01T12:00", 19.5)]),
    ("zigbee2mqtt", ZIGBEE, "zigbee2mqtt/kitchen/window", [
        ("kitchen/window", "humidity", "2024-05-01T12:00", 48.3),
        ("kitchen/window", "temperature", "2024-05-01T12:00", 21.1)]),
    ("airgradient", AIRGRADIENT, "airgradient/readings/ecda3b1eaaaf", [
        ("ecda3b1eaaaf", "rco2", "2024-05-01T12:00", 447.0), ("ecda3b1eaaaf", "pm02", "2024-05-01T12:00", 7.0),
        ("ecda3b1eaaaf", "pm003Count", "2024-05-01T12:00", 442.0),
        ("ecda3b1eaaaf", "atmp", "2024-05-01T12:00", 25.87)]),
    ("rtl_433", RTL_433, "rtl_433/raspberry/events", [
        ("Acurite-Tower/A/11524", "temperature_C", "2024-05-01T12:00", 20.5),
        ("Acurite-Tower/A/11524", "humidity", "2024-05-01T12:00", 41.0)]),
    ("esphome", "21.50", "livingroom/sensor/bme_temperature/state", [
        ("livingroom", "bme_temperature", "2024-05-01T12:00", 21.5)]),
    ("homie", "21.5", "homie/super-car/engine/temperature", [
        ("super-car/engine", "temperature", "2024-05-01T12:00", 21.5)]),
    ("sensorthings", THINGS, "v1.1/Datastreams(42)/Observations", [("42", "", AT_11, 8.5)]),
    ("sensorthings", {**THINGS, "Datastream": {"@iot.id": 42, "Thing": {"name": "well 3"},
                                               "ObservedProperty": {"name": "level"},
                                               "unitOfMeasurement": {"symbol": "m"}}}, None,
     [("well 3", "level", AT_11, 8.5)]),
    ("json", {"sensor": "S1", "time": "2024-05-01T11:00:00Z", "value": 20.5}, None, [("S1", "", AT_11, 20.5)]),
]  # fmt: skip


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


def test_units_and_places_come_with_the_messages() -> None:
    assert decoded(CSIJSON).units == {"AirTC_Avg": "Deg C"}
    assert decoded(OPENAQ).units == {"pm25": "µg/m³"}
    assert decoded(AIRGRADIENT).units == {"rco2": "ppm", "pm02": "µg/m³", "atmp": "°C"}
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
    assert {entry.reason for entry in rejected} <= {getattr(why, name) for name in why.__all__ if name.isupper()}
    assert len(taken) <= 1


@pytest.mark.parametrize(
    "name", ["pm2_5", "NO", "no2", "count_per_litre", "voltage", "frequency", "temp", "o3", "signal_rate"]
)
def test_quantities_are_measured(name: str) -> None:
    assert not is_diagnostic(name)


def test_the_format_is_an_option_of_feeds_with_messages(tmp_path: Any) -> None:
    assert Settings.of(source="-", out=tmp_path / "out", format="ttn").format == "ttn"
    with pytest.raises(ConfigError, match="format is json or senml or ttn"):
        Settings.of(source="-", out=tmp_path / "out", format="ttm")
    with pytest.raises(ConfigError, match="format is for messages"):
        Settings.of(source="replay:x.csv", out=tmp_path / "out", format="ttn")
