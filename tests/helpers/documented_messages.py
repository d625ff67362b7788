"""Messages as their projects document them, one or more of each format, and what is in them."""

from __future__ import annotations

from typing import Any

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
