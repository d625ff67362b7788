"""`PRESETS` is the table of the message formats that are recognised by their content.

A preset says how its messages are recognised, and where they have the sensor, the time and the numbers. `Preset.rows`
brings a message into the form of its paths first: one object for each sensor and time.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sensormend.io.table_layout import called
from sensormend.readings import MINUTE
from sensormend.stream.formats.values import NO_READING, NOT_DECODED

__all__ = [
    "BY_KEYS",
    "FORMATS",
    "PRESETS",
    "SENML",
    "Preset",
    "Unreadable",
    "at",
    "find_preset",
    "is_diagnostic",
    "is_place",
    "with_zone",
]

BY_KEYS, SENML = "json", "senml"
"""The formats that are not in the table: objects whose keys are recognised one by one, and SenML."""


@dataclass(frozen=True)
class Unreadable:
    """A part of a message that has no reading, and the reason."""

    reason: str
    content: Any


Row = Mapping[str, Any]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words for the state of a device rather than for what it measures; anywhere in a name.
_DIAGNOSTIC_WORDS = _words("""
    battery batt vbat vbatt batv rssi snr lsnr lqi linkquality rsrp rsrq sinr uptime fcnt fport heap freeheap memfrag
    loadavg bootcount firmware wifi checksum crc devaddr
""")
# The same as whole names, without case and punctuation: counters, numbers of messages, ids, radio settings.
_DIAGNOSTIC_NAMES = re.compile(
    r"(f|frame|msg|message|packet|pkt|boot|reset|reboot|restart|tx|rx|uplink|downlink|record|seq|sequence)"
    r"(cnt|count|counter|number|num|nr|no|id)|counter|cnt|count|seq|sequence|frame|boot|bat(v|pct|percent|level|voltage)?|"
    r"(wifi|radio|gsm|lte|cell)?signal(strength|quality|level|dbm)?|csq|channel|port|dr|datarate|sf|spreadingfactor|"
    r"bandwidth|mem|memory|freemem|(fw|hw|sw|software|hardware|protocol|api)?version|ids?"
)


def is_diagnostic(name: str) -> bool:
    """Return whether a number of this name is about the device or the message, and is not measured by a sensor.

    Examples
    --------
    >>> [is_diagnostic(name) for name in ("batteryLevel", "uplink.rssi", "f_cnt", "esp8266id", "NO", "pm003Count")]
    [True, True, True, True, False, False]
    """
    last = name.rpartition(".")[2] or name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last)
    parts = re.split(r"[\W_]+", words.lower())
    plain = "".join(parts)
    if not _DIAGNOSTIC_WORDS.isdisjoint(parts) or _DIAGNOSTIC_NAMES.fullmatch(plain):
        return True
    return parts[-1] in ("id", "ids") or re.fullmatch(r"esp(8266|32)id|batteryvolt(age)?\w*", plain) is not None


def is_place(name: str) -> bool:
    """Return whether a number of this name says where a device is: of its GPS, `gps_1.latitude`.

    Examples
    --------
    >>> [is_place(name) for name in ("lat", "gpsLocation.1.longitude", "gps_1.altitude", "altitude")]
    [True, True, True, False]
    """
    block, _, last = name.rpartition(".")
    return called("latitude", last) or called("longitude", last) or (block[:3].lower() == "gps" and last == "altitude")


def at(row: Any, path: str) -> Any:
    """Return what a message has at a path of keys, or None.

    Examples
    --------
    >>> at({"a": {"b": [5, 6]}}, "a.b.1"), at({"a": 1}, "a.b"), at({"a.b": 2}, "a.b")
    (6, None, 2)
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    for key in path.split("."):
        if isinstance(row, Mapping):
            row = row.get(key)
        elif isinstance(row, list) and key.isdecimal() and int(key) < len(row):
            row = row[int(key)]
        else:
            return None
    return row


def with_zone(time: int, received: int) -> int:
    """Return a local time as UTC: live messages tell the zone by their arrival, to a quarter of an hour.

    A time that is farther from the arrival than any zone is a recorded one, and stays as it is.
    """
    quarter = 15 * MINUTE
    offset = (time - received + quarter // 2) // quarter * quarter
    return time - offset if abs(offset) <= 56 * quarter else time


def _itself(message: Any, topic: str) -> Iterable[Row]:
    return (message,)


def _nothing(message: Any, topic: str) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class Preset:
    """A format of messages. Of several paths the first counts that a row has.

    Attributes
    ----------
    name, title
        The value of `--format`, and the format's own name.
    keys
        Paths that a message of the format has, all of them.
    test
        Recognises it in another way, where `keys` is empty: by the message and its topic.
    rows
        Returns one object for each sensor and time of a message.
    sensor
        The paths of the sensor's name; without one it is the topic's.
    time
        The paths of the time; without one it is the time of arrival.
    values
        The path of the object with the numbers; empty for the row itself.
    units
        The path of the object with the units by variable.
    known_units
        Units that the format's documentation has.
    latitude, longitude
        The paths of the sensor's place.
    apart
        Numbers of the format that are not measured by a sensor, besides those of `is_diagnostic`.
    local
        Whether its times are local ones without a zone.
    text
        Whether a message is text rather than JSON.
    wraps
        Whether the rows are messages in turn, decoded by their keys with this sensor and time where they have none.
    """

    name: str
    title: str
    keys: tuple[str, ...] = ()
    test: Callable[[Any, str], bool] = _nothing
    rows: Callable[[Any, str], Iterable[Row | Unreadable]] = _itself
    sensor: tuple[str, ...] = ("sensor",)
    time: tuple[str, ...] = ("time",)
    values: str = "values"
    units: str = "units"
    known_units: Mapping[str, str] = field(default_factory=dict)
    latitude: tuple[str, ...] = ()
    longitude: tuple[str, ...] = ()
    apart: frozenset[str] = frozenset()
    local: bool = False
    text: bool = False
    wraps: bool = False

    @property
    def sentence(self) -> str:
        """What messages are taken for; where rows are made of them, their paths are not those of the messages."""
        if self.sensor[0] == "sensor":
            return self.title
        sensor, time = " or ".join(self.sensor), " or ".join(self.time)
        return f"{self.title}: the sensor is {sensor}, the time {time}, numbers are in {self.values or 'the message'}"

    def fits(self, message: Any, topic: str) -> bool:
        """Return whether a message is of this format."""
        if self.keys:
            return all(at(message, path) is not None for path in self.keys)
        return self.test(message, topic)


# InfluxDB line protocol and Telegraf: a measurement with tags and fields.

# Possessive, so that no line takes longer than it is long: whoever may publish may send anything.
_LINE = re.compile(r'((?:[^\\ ]|\\.)++) ((?:[^\\ "]|\\.|"(?:[^\\"]|\\.)*+")++)(?: (-?[0-9]{1,19}+))?')
_TAG = re.compile(r"(?:[^\\,]|\\.)*+")
_FIELD = re.compile(r'(?:[^\\,"]|\\.|"(?:[^\\"]|\\.)*+")*+')
_KEY = re.compile(r"(?:[^\\=]|\\.)*+")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([ ,=\\\"])", r"\1", text)


def _pairs(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of comma-separated parts, skipping those that are not pairs."""
    start = 0
    while start < len(text):
        end = pattern.match(text, start).end()  # type: ignore[union-attr]
        key = _KEY.match(text, start, end).end()  # type: ignore[union-attr]
        if start < key < end:
            yield _unescaped(text[start:key]), text[key + 1 : end]
        start = end + 1


def _line(text: str) -> Row | None:
    """Return a line of InfluxDB's line protocol as an object like Telegraf's; None for one that is none."""
    parts = _LINE.fullmatch(text.strip())
    if parts is None:
        return None
    end = _TAG.match(parts[1]).end()  # type: ignore[union-attr]
    fields = {key: _field(value) for key, value in _pairs(_FIELD, parts[2])}
    if not fields or "=" in parts[1][:end].replace("\\=", "") or '"' in parts[1][:end]:
        return None
    tags = {key: _unescaped(value) for key, value in _pairs(_TAG, parts[1][end + 1 :])}
    time = parts[3] and int(parts[3])
    return {"name": _unescaped(parts[1][:end]), "tags": tags, "fields": fields, "timestamp": time}


def _field(text: str) -> Any:
    """Return the number of a field, 7i and 7u being whole ones; a text for anything else."""
    if text[:1] == '"':
        return None
    return text[:-1] if re.fullmatch(r"-?[0-9]++[iu]", text) else text


def _lines(message: str, topic: str) -> Iterator[Row | Unreadable]:
    for text in message.splitlines():
        if not text.strip() or text.startswith("#"):
            continue
        metric = _line(text)
        yield Unreadable(NO_READING, text) if metric is None else _metric(metric, metric["timestamp"])


def _is_lines(message: Any, topic: str) -> bool:
    if "=" not in message:
        return False
    first = next((line for line in message.splitlines() if line.strip() and not line.startswith("#")), "")
    return _line(first) is not None


def _metric(metric: Row, time: Any) -> Row:
    """Return a metric as a row: its sensor is the tag that names one, else its tags; `value` is named as the metric."""
    tags, name = dict(at(metric, "tags") or {}), str(metric.get("name", ""))
    named = next((tag for tag in tags if called("sensor", tag)), None)
    others = {tag: value for tag, value in tags.items() if tag not in ("host", "topic")} or tags
    sensor = tags[named] if named else "/".join(str(value) for value in others.values()) or None
    fields = dict(at(metric, "fields") or {})
    values = {name if called("value", key) and name else key: value for key, value in fields.items()}
    return {"sensor": sensor, "time": time, "values": values, "tags": tags, "name": name}


def _metrics(message: Any, topic: str) -> Iterator[Row]:
    for metric in message.get("metrics") or [message]:
        yield _metric(metric, metric.get("timestamp"))


def _is_metrics(message: Any, topic: str) -> bool:
    first = at(message, "metrics.0") or message
    return isinstance(first, Mapping) and all(isinstance(first.get(key), dict) for key in ("fields", "tags"))


# LoRaWAN network servers.


def _uplinks(message: Any, topic: str) -> Iterator[Row | Unreadable]:
    """Return the uplink; the measurements of its normalised payload where no decoder of its own has run."""
    message = message.get("result") or message
    uplink = message.get("uplink_message") or {}
    decoded, own = uplink.get("decoded_payload"), uplink.get("normalized_payload") or []
    for measurement in [decoded] if decoded else own if isinstance(own, list) else [own]:
        values = dict(measurement)
        time = values.pop("time", None) if not decoded else None
        received = time or uplink.get("received_at")
        yield {**message, "uplink_message": {**uplink, "decoded_payload": values, "received_at": received}}
    if not decoded and not own and uplink.get("frm_payload"):
        yield Unreadable(NOT_DECODED, message["end_device_ids"])


def _chirpstack(message: Any, topic: str) -> Iterator[Row | Unreadable]:
    undecoded = message.get("data") and not message.get("object")
    yield Unreadable(NOT_DECODED, message["deviceInfo"]) if undecoded else message


# Gateways, loggers and networks of citizens.


_ATTRIBUTES = re.compile(r"(?:.*/)?v1/gateway/attributes")


def _is_gateway(message: Any, topic: str) -> bool:
    if message.keys() == {"ts", "values"}:
        return isinstance(message["values"], dict)
    if _ATTRIBUTES.fullmatch(topic):
        return True
    lists = bool(message) and all(isinstance(entries, list) and entries for entries in message.values())
    return lists and all(
        isinstance(at(entries[0], "values"), dict) and entries[0].keys() <= {"ts", "values"}
        for entries in message.values()
    )


def _gateway(message: Any, topic: str) -> Iterator[Row]:
    if message.keys() == {"ts", "values"}:
        yield {"time": message["ts"], "values": message["values"]}
        return
    # Attributes describe a device.
    for device, entries in message.items() if not _ATTRIBUTES.fullmatch(topic) else ():
        for entry in entries:
            yield {"sensor": device, "time": at(entry, "ts"), "values": at(entry, "values")}


def _is_geojson(message: Any, topic: str) -> bool:
    return isinstance(at(message, "properties.observationNames") or at(message, "Properties.observationNames"), list)


def _observations(message: Any, topic: str) -> Iterator[Row]:
    """Return a row for each time of a Campbell logger's GeoJSON."""
    properties = message.get("properties") or message.get("Properties")
    names, units = properties["observationNames"], properties.get("observationUnits")
    position = at(message, "geometry.coordinates") or [None, None]
    for time, values in (properties.get("observations") or {}).items():
        yield {
            "sensor": properties.get("loggerID"),
            "time": time,
            "values": dict(zip(names, values, strict=False)) if isinstance(values, list) else {},
            "units": dict(zip(names, units, strict=False)) if isinstance(units, list) else units,
            "longitude": at(position, "0"),
            "latitude": at(position, "1"),
        }


def _records(message: Any, topic: str) -> Iterator[Row]:
    """Return a row for each record of a Campbell logger's CSIJSON."""
    fields = [entry for entry in message["head"]["fields"] if isinstance(entry, Mapping)]
    names = [str(entry.get("name")) for entry in fields]
    units = {str(entry.get("name")): entry.get("units") for entry in fields}
    station = at(message, "head.environment.station_name") or at(message, "head.environment.serial_no")
    for record in message["data"] if isinstance(message["data"], list) else [message["data"]]:
        values = at(record, "vals")
        values = dict(zip(names, values, strict=False)) if isinstance(values, list) else {}
        yield {"sensor": station, "time": at(record, "time"), "values": values, "units": units}


def _is_openaq(message: Any, topic: str) -> bool:
    row = at(message, "results.0") or message
    if not isinstance(row, Mapping) or "value" not in row:
        return False
    return any(
        all(at(row, path) is not None for path in paths)
        for paths in (
            ("parameter", "date.utc"),
            ("sensorsId", "datetime.utc"),
            ("parameter.name", "period.datetimeFrom.utc"),
            ("parameter", "sensors_id", "datetime"),
        )
    )


def _measurements(message: Any, topic: str) -> Iterator[Row]:
    """Return a row for each measurement of OpenAQ's API, version 2 or 3, or of its archive."""
    for row in message.get("results") or [message]:
        variable = at(row, "parameter.name") or row.get("parameter") or ""
        times = ("date.utc", "datetime.utc", "period.datetimeFrom.utc", "datetime")
        places = ("locationId", "location_id", "location", "sensorsId", "sensors_id")
        yield {
            "sensor": next((row[key] for key in places if row.get(key) is not None), None),
            "time": next((time for path in times if isinstance(time := at(row, path), str)), None),
            "values": {str(variable): row.get("value")},
            "units": {str(variable): row.get("unit") or row.get("units") or at(row, "parameter.units")},
            "latitude": at(row, "coordinates.latitude") or row.get("lat"),
            "longitude": at(row, "coordinates.longitude") or row.get("lon"),
        }


def _is_purpleair(message: Any, topic: str) -> bool:
    if isinstance(message.get("fields"), list) and isinstance(message.get("data"), list):
        return "sensor_index" in message or "sensor_index" in message["fields"]
    row = message.get("sensor") if isinstance(message.get("sensor"), dict) else message
    return isinstance(row, dict) and ("sensor_index" in row or {"SensorId", "DateTime"} <= row.keys())


_PURPLEAIR_TIMES = ("time_stamp", "last_seen", "DateTime")


def _purpleair(message: Any, topic: str) -> Iterator[Row]:
    """Return a row for each sensor of PurpleAir's API, or for the sensor itself."""
    if isinstance(message.get("fields"), list):
        entries = [dict(zip(message["fields"], row, strict=False)) for row in message["data"] if isinstance(row, list)]
    else:
        entries = [message["sensor"] if isinstance(message.get("sensor"), dict) else message]
    for entry in entries:
        sensor = next((entry[key] for key in ("sensor_index", "SensorId") if key in entry), message.get("sensor_index"))
        own = (entry[key] for key in _PURPLEAIR_TIMES if entry.get(key) is not None)
        yield {
            **entry,
            "sensor": sensor,
            "time": next(own, message.get("data_time_stamp", message.get("time_stamp"))),
            "values": {key: value for key, value in entry.items() if not isinstance(value, dict)},
            "latitude": entry.get("latitude", entry.get("lat")),
            "longitude": entry.get("longitude", entry.get("lon")),
        }


def _sensor_community(message: Any, topic: str) -> Iterator[Row]:
    """Return the row of a sensor of sensor.community, as it is sent or as its API has it."""
    entries = [entry for entry in message["sensordatavalues"] if isinstance(entry, Mapping)]
    names = ("sensor.id", "esp8266id", "esp32id", "raspiid", "id")
    yield {
        "sensor": next((name for path in names if (name := at(message, path)) is not None), None),
        "time": message.get("timestamp"),
        "values": {str(entry.get("value_type")): entry.get("value") for entry in entries},
        "latitude": at(message, "location.latitude"),
        "longitude": at(message, "location.longitude"),
    }


def _events(message: Any, topic: str) -> Iterator[Row]:
    """Return the data of a CloudEvent, with its subject or source and its time; it may be JSON as text or in base64."""
    data = message.get("data")
    with suppress(ValueError, RecursionError):  # what is neither is refused where it is decoded
        if message.get("data_base64") is not None:
            data = json.loads(b64decode(message["data_base64"], validate=True))
        elif isinstance(data, str):
            data = json.loads(data)
    for entry in data if isinstance(data, list) else [] if data is None else [data]:
        timed = isinstance(entry, dict) and any(called("time", key) for key in entry)
        own = {} if timed or message.get("time") is None else {"time": message["time"]}
        content = {**own, **entry} if isinstance(entry, dict) else {**own, "value": entry}
        yield {"sensor": message.get("subject") or message["source"], "data": content}


# Devices of the home.

# Its prefix stands before or after its name.
_SENSOR_TOPIC = re.compile(r"(?:.*/)?((?!(?:tele|stat)/)[^/]+)(?:/(?:tele|stat))?/(?:SENSOR|STATE|STATUS\d*)")
_OWN_BLOCKS = frozenset(("Wifi", "Berry", "Eth", "ESP32"))
_QUANTITY = frozenset(("Temperature", "Humidity", "DewPoint", "Pressure", "Illuminance", "Power", "CarbonDioxide"))


def _is_tasmota(message: Any, topic: str) -> bool:
    status = message.get("StatusSNS", message)
    if not isinstance(status, dict) or not isinstance(status.get("Time"), str):
        return False
    blocks = [part for part in status.values() if isinstance(part, dict)]
    return (
        "TempUnit" in status or bool(_SENSOR_TOPIC.fullmatch(topic)) or any(_QUANTITY & part.keys() for part in blocks)
    )


def _tasmota(message: Any, topic: str) -> Iterator[Row]:
    """Return a row for each probe of a device: a probe that is missing must not rename the others."""
    status, match = message.get("StatusSNS", message), _SENSOR_TOPIC.fullmatch(topic)
    units = {"Temperature": "TempUnit", "DewPoint": "TempUnit", "Pressure": "PressureUnit", "Speed": "SpeedUnit"}
    for probe, block in status.items():
        if isinstance(block, dict) and probe not in _OWN_BLOCKS:
            yield {
                "sensor": f"{match[1]}/{probe}" if match else None,
                "probe": probe,
                "time": status["Time"],
                "values": block,
                "units": {name: status[key] for name, key in units.items() if key in status},
            }


_BRIDGE = re.compile(r"(?:.*/)?zigbee2mqtt/bridge/.*")


def _is_zigbee(message: Any, topic: str) -> bool:
    return message.get("linkquality") is not None or bool(_BRIDGE.fullmatch(topic))


def _zigbee(message: Any, topic: str) -> Iterator[Row]:
    """Return the numbers of a device; its name may have several levels. The voltage of a battery is not measured."""
    if _BRIDGE.fullmatch(topic):  # about the network of the radio
        return
    values = {key: value for key, value in message.items() if not isinstance(value, dict)}
    if "battery" in values:
        values.pop("voltage", None)
    yield {"sensor": topic.partition("/")[2] or None, "time": values.pop("last_seen", None), "values": values}


_RTL_433_KEYS = _words("mic battery_ok mod protocol freq rssi temperature_C temperature_F wind_avg_km_h rain_mm")


def _is_rtl_433(message: Any, topic: str) -> bool:
    named = {"time", "model"} <= message.keys() and ("id" in message or "channel" in message)
    return named and not _RTL_433_KEYS.isdisjoint(message)


def _rtl_433(message: Any, topic: str) -> Iterator[Row]:
    parts = (message.get(key) for key in ("model", "channel", "id"))
    sensor = "/".join(str(part) for part in parts if part is not None)
    yield {"sensor": sensor, "time": message["time"], "values": message}


_ESPHOME_TOPIC = re.compile(r"(.+)/sensor/([^/]+)/state")
_HOMIE_TOPIC = re.compile(r"(?:.*/)?homie/(?:\d+/)?([^/$]+)/([^/$]+)/([^/$]+)")


def _esphome(message: Any, topic: str) -> Iterator[Row]:
    match = _ESPHOME_TOPIC.fullmatch(topic)
    yield {"sensor": match[1], "values": {match[2]: message.strip()}} if match else {}


def _is_homie(message: Any, topic: str) -> bool:
    if _HOMIE_TOPIC.fullmatch(topic):
        return True
    # What a device reports about itself, and the commands it receives.
    levels = topic.split("/")
    own = levels[levels.index("homie") + 1 :] if "homie" in levels else []
    return any(level[:1] == "$" for level in own) or own[-1:] == ["set"]


def _homie(message: Any, topic: str) -> Iterator[Row]:
    match = _HOMIE_TOPIC.fullmatch(topic)
    yield {"sensor": f"{match[1]}/{match[2]}", "values": {match[3]: message.strip()}} if match else {}


_DATASTREAM = re.compile(r"Datastreams?\(([^()]+)\)")


def _sensorthings(message: Any, topic: str) -> Iterator[Row]:
    """Return an observation; its sensor is the Thing where that is expanded, else the number of the Datastream."""
    link = str(message.get("Datastream@iot.navigationLink", ""))
    number = _DATASTREAM.search(topic) or _DATASTREAM.search(link)
    stream = message.get("Datastream")
    names = (at(stream, "Thing.name"), at(stream, "@iot.id"), number and number[1].strip("'"))
    variable = str(at(stream, "ObservedProperty.name") or "")
    yield {
        # Not the last level of the topic, which is Observations.
        "sensor": next((name for name in names if name is not None), ""),
        "time": str(message["phenomenonTime"]).partition("/")[0],
        "values": {variable: message.get("result")},
        "units": {variable: at(stream, "unitOfMeasurement.symbol")},
    }


_PURPLEAIR_APART = _words("""
    sensor_index SensorId last_seen last_modified date_created time_stamp model hardware led_brightness latitude
    longitude lat lon altitude position_rating channel_state channel_flags channel_flags_manual channel_flags_auto
    confidence confidence_manual confidence_auto private location_type icon pa_latency analog_input primary_id_a
    primary_id_b secondary_id_a secondary_id_b Adc place period httpsuccess httpsends loggingrate wlstate status_0
    status_1 status_2 status_3 status_4 status_5 status_6 status_7 status_8 status_9 status_10 ssid DateTime
    response response_date latency key1_response key1_response_date key1_count key2_response key2_response_date
    key2_count key1_response_b key1_response_date_b key1_count_b key2_response_b key2_response_date_b key2_count_b
    ts_latency ts_response ts_response_date ts_s_latency ts_s_response ts_s_response_date
""")

_AIRGRADIENT_UNITS = {
    "rco2": "ppm", "pm01": "µg/m³", "pm02": "µg/m³", "pm02Compensated": "µg/m³", "pm10": "µg/m³", "atmp": "°C",
    "atmpCompensated": "°C", "rhum": "%", "rhumCompensated": "%",
}  # fmt: skip

_PURPLEAIR_UNITS = {"temperature": "°F", "humidity": "%", "current_temp_f": "°F", "current_humidity": "%"}
_COMMUNITY_UNITS = {"P1": "µg/m³", "P2": "µg/m³", "temperature": "°C", "humidity": "%", "pressure": "Pa"}
_RTL_433_UNITS = {"temperature_C": "°C", "temperature_F": "°F", "humidity": "%", "pressure_hPa": "hPa"}
_ZIGBEE_UNITS = {"temperature": "°C", "humidity": "%", "pressure": "hPa"}

PRESETS = (
    Preset(
        "ttn",
        "The Things Network v3 (LoRaWAN)",
        test=lambda message, _: at(message.get("result") or message, "end_device_ids.device_id") is not None,
        rows=_uplinks,
        sensor=("end_device_ids.device_id",),
        time=("uplink_message.received_at", "received_at"),
        values="uplink_message.decoded_payload",
        latitude=("uplink_message.locations.user.latitude",),
        longitude=("uplink_message.locations.user.longitude",),
    ),
    Preset(
        "chirpstack",
        "ChirpStack v4 (LoRaWAN)",
        keys=("deviceInfo.devEui",),
        rows=_chirpstack,
        sensor=("deviceInfo.devEui",),
        values="object",
    ),
    Preset("influx", "InfluxDB line protocol", test=_is_lines, rows=_lines, text=True),
    Preset("telegraf", "Telegraf JSON", test=_is_metrics, rows=_metrics),
    Preset("thingsboard", "ThingsBoard gateway", test=_is_gateway, rows=_gateway),
    Preset(
        "campbell-geojson",
        "Campbell GeoJSON",
        test=_is_geojson,
        rows=_observations,
        latitude=("latitude",),
        longitude=("longitude",),
    ),
    Preset("campbell-csijson", "Campbell CSIJSON", keys=("head.fields", "data"), rows=_records),
    Preset("openaq", "OpenAQ", test=_is_openaq, rows=_measurements, latitude=("latitude",), longitude=("longitude",)),
    Preset(
        "purpleair",
        "PurpleAir",
        test=_is_purpleair,
        rows=_purpleair,
        known_units=_PURPLEAIR_UNITS,
        latitude=("latitude",),
        longitude=("longitude",),
        apart=_PURPLEAIR_APART,
    ),
    Preset(
        "sensor.community",
        "sensor.community",
        keys=("sensordatavalues",),
        rows=_sensor_community,
        known_units=_COMMUNITY_UNITS,
        latitude=("latitude",),
        longitude=("longitude",),
        # How often the device has measured; of `samples` and the rest its firmware says no more.
        apart=frozenset(("samples", "min_micro", "max_micro", "interval")),
    ),
    Preset(
        "cloudevents", "CloudEvents", keys=("specversion", "source", "type"), rows=_events, values="data", wraps=True
    ),
    Preset("tasmota", "Tasmota", test=_is_tasmota, rows=_tasmota, sensor=("sensor", "probe"), local=True),
    Preset("zigbee2mqtt", "zigbee2mqtt", test=_is_zigbee, rows=_zigbee, known_units=_ZIGBEE_UNITS),
    Preset(
        "airgradient",
        "AirGradient",
        keys=("serialno", "wifi"),
        sensor=("serialno",),
        time=("timestamp",),
        values="",
        known_units=_AIRGRADIENT_UNITS,
        apart=frozenset(("serialno", "timestamp")),
    ),
    # With -M level it adds what the receiver heard: rssi, snr, noise, freq.
    Preset(
        "rtl_433",
        "rtl_433",
        test=_is_rtl_433,
        rows=_rtl_433,
        known_units=_RTL_433_UNITS,
        apart=frozenset(("noise", "freq", "freq1", "freq2", "subtype", "time")),
        local=True,
    ),
    Preset("esphome", "ESPHome", test=lambda _, topic: bool(_ESPHOME_TOPIC.fullmatch(topic)), rows=_esphome, text=True),
    Preset("homie", "Homie", test=_is_homie, rows=_homie, text=True),
    Preset("sensorthings", "OGC SensorThings", keys=("phenomenonTime", "result"), rows=_sensorthings),
)
"""The presets in the order in which they are tried: those with more distinctive features come first."""

_BY_NAME = {preset.name: preset for preset in PRESETS}

FORMATS = (BY_KEYS, SENML, *_BY_NAME)
"""The values of `--format`."""


def find_preset(message: Any, topic: str, forced: str | None = None) -> Preset | None:
    """Return the preset of a message: an object, or a text; with `forced`, that one if the message fits it."""
    text = isinstance(message, str)
    chosen = PRESETS if forced is None else (_BY_NAME[forced],) if forced in _BY_NAME else ()
    return next((preset for preset in chosen if preset.text == text and preset.fits(message, topic)), None)
