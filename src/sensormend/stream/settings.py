"""`Settings` holds the options of `watch`, which have the same names on the command line and in a TOML file."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.postgres import SCHEMES
from sensormend.methods import BATCH
from sensormend.pipeline.options import (
    DASHBOARD,
    LOOPBACK,
    Declaration,
    Options,
    choice,
    declarations,
    flag,
    number,
    option,
    path,
    read_toml,
    refused,
    span,
    split_names,
    text,
    whole,
)
from sensormend.readings import DAY, HOUR
from sensormend.stream.addresses import (
    ALERT_ADDRESSES,
    COMMAND,
    INFLUX,
    KAFKA,
    MAIL,
    MQTT,
    NTFY,
    REPLAY,
    SENSORTHINGS,
    SINK_ADDRESSES,
    WEB,
    clear,
    is_address,
    parse_host,
    parse_login,
    parse_topic,
    plain,
    refuse_loops,
)
from sensormend.stream.formats.presets import FORMATS
from sensormend.stream.formats.topics import make_filter

__all__ = [
    "LIVE",
    "PASSWORD",
    "TABLES",
    "AlertSettings",
    "MqttSettings",
    "Settings",
    "dashboard",
    "listener",
    "size",
    "texts",
    "time_of_day",
    "web_address",
]

PASSWORD = "SENSORMEND_MQTT_PASSWORD"
"""The environment variable with the broker's password."""

SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def texts(name: str, given: Any) -> tuple[str, ...]:
    """Take a text or a list of texts; a list inside the list is a command and its arguments.

    Examples
    --------
    >>> texts("alerts", ["https://example.org/hook", ["notify", "the team"]])
    ('https://example.org/hook', "command: notify 'the team'")
    """
    entries = [given] if isinstance(given, str) else given
    if not isinstance(entries, Sequence):
        raise refused(name, "a list of texts", given)
    taken = []
    for entry in entries:
        if isinstance(entry, list | tuple) and entry and all(isinstance(word, str) for word in entry):
            taken.append(f"{COMMAND} {shlex.join(entry)}")
        elif isinstance(entry, str) and entry.strip():
            taken.append(entry)
        else:
            raise ConfigError(f"{refused(name, 'a list of texts', entry)} in it")
    return tuple(taken)


def size(name: str, given: Any) -> int:
    """Take a number of bytes.

    Examples
    --------
    >>> size("backlog", "1.5GB"), size("backlog", "2 MiB"), size("backlog", 100)
    (1500000000, 2097152, 100)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(given).lower())
    unit = SIZES.get(match[2]) if match and not isinstance(given, bool) else None
    if not match or unit is None or float(match[1]) * unit < 1:
        raise refused(name, "a size like 500MB or 1GB", given)
    return round(float(match[1]) * unit)


def listener(name: str, given: Any, usual: str = f"{LOOPBACK}:9464") -> tuple[str, int] | None:
    """Take a host and a port, a port alone, or `off`.

    Examples
    --------
    >>> listener("metrics", "127.0.0.1:9464"), listener("metrics", 9000), listener("metrics", "off")
    (('127.0.0.1', 9464), ('127.0.0.1', 9000), None)
    """
    if given == "off" or given is False:
        return None
    text = str(given).strip()
    match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]*):)?(\d{1,5})", text)
    if isinstance(given, bool) or not match or int(match[2]) > 65535:
        raise refused(name, f"a host and a port like {usual}, or off", given)
    return (match[1] or LOOPBACK).strip("[]"), int(match[2])


def dashboard(name: str, given: Any) -> tuple[str, int] | None:
    """Take the host and port of the dashboard; `on` means the default ones.

    Examples
    --------
    >>> dashboard("serve", "on"), dashboard("serve", "0.0.0.0:80"), dashboard("serve", "off")
    (('127.0.0.1', 8464), ('0.0.0.0', 80), None)
    """
    host, port = DASHBOARD
    return DASHBOARD if given == "on" or given is True else listener(name, given, f"{host}:{port}")


def web_address(name: str, given: Any) -> str:
    """Take a web address without a query; a slash at its end is dropped.

    Examples
    --------
    >>> web_address("url", "https://sensors.example.org/city/")
    'https://sensors.example.org/city'
    """
    if not isinstance(given, str) or not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", given):
        raise refused(name, "a web address like https://sensors.example.org", given)
    return given.rstrip("/")


def time_of_day(name: str, given: Any) -> int:
    """Take a time of day, and return the minutes since midnight.

    Examples
    --------
    >>> time_of_day("digest", "07:30")
    450
    """
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", given.strip()) if isinstance(given, str) else None
    if match is None:
        raise refused(name, "a time of day like 07:00", given)
    return 60 * int(match[1]) + int(match[2])


@dataclass(frozen=True)
class MqttSettings:
    """The options of a connection to a broker."""

    topics: tuple[str, ...] = option(
        texts,
        "What to subscribe to, with commas between; by default what SOURCE says.",
        (),
        group="feed",
        parse=split_names,
    )
    pattern: tuple[str, ...] = option(
        texts, "What topics mean: city/{sensor}/{variable}.", (), group="feed", parse=split_names
    )
    user: str | None = option(
        text, f"The user name at the broker. The password is in --password-file or in {PASSWORD}.", group="feed"
    )
    password: str | None = option(text, "By default that of the address, or of the environment.", secret=True)
    password_file: Path | None = option(path, "A file with the password.", group="feed")
    ca: Path | None = option(
        path, "The certificates to trust, for mqtts://; those of the system by default.", group="feed"
    )
    client_id: str | None = option(
        text, "By which the broker knows us again after a restart; by default OUT has a name of its own."
    )
    in_flight: int = option(whole, "How many messages the broker sends before it waits for us.", 1000)


@dataclass(frozen=True)
class AlertSettings:
    """Where alerts go, and when."""

    to: tuple[str, ...] = option(
        texts,
        "Where alerts go when a sensor turns faulty, silent or healthy again: https://..., ntfys://host/topic, "
        'smtp://user:password@host/?to=..., mqtt://host/topic, or "command: words"; may be repeated.',
        (),
        key="alerts",
        flag="--alert",
        group="alerts",
        repeated=True,
        secret=True,
    )
    after: int = option(
        whole,
        "Faulty periods in a row until a sensor is reported whose fault is not sure; 2 by default.",
        2,
        group="alerts",
    )
    well_after: int = option(
        whole, "Sound periods in a row until it is healthy again; 2 by default.", 2, group="alerts"
    )
    stood: int = option(
        span, "How long a sure fault has to last before it is reported; 1h by default.", HOUR, group="alerts"
    )
    stood_readings: int = option(
        whole, "The least number of its wrong readings before it is reported; 3 by default.", 3, group="alerts"
    )
    url: str | None = option(
        web_address,
        "The address of the dashboard, for links in alerts: https://sensors.example.org.",
        group="alerts",
    )
    digest: int | None = option(
        time_of_day,
        "A time of day, UTC, at which one message sums up what is open, new and over: 07:00.",
        group="alerts",
    )


@dataclass(frozen=True)
class Settings:
    """All options of `watch`; `options` describes the readings, as for `clean`."""

    source: str = option(
        text, "A broker, a table, a folder, `-`, or `replay:` and what `clean` would read.", MISSING, secret=True
    )
    out: Path = option(path, "The folder for the results.", MISSING)
    options: Options = field(default_factory=Options)
    start_from: Path | None = option(
        path, "The OUT of an archive: its model judges the first day already.", key="from", group="feed"
    )
    grace: int | None = option(
        span,
        "How long a finished period waits for late readings before it is final; one step by default.",
        group="feed",
    )
    late_for: int = option(
        span,
        "How far back readings that are later still correct their own row; 30d by default.",
        30 * DAY,
        group="feed",
    )
    speed: float | None = option(
        number, "Seconds of a replay in one second; as fast as possible by default.", group="feed"
    )
    format: str | None = option(
        choice(*FORMATS),
        "The format of the messages, where it is not to be recognised: ttn, chirpstack, influx, json and others.",
        group="feed",
    )
    mqtt: MqttSettings = MqttSettings()
    keep: int | None = option(
        span, "Drop rows that are older than this: 365d. By default they are kept for ever.", group="output"
    )
    compact: bool = option(flag, "Whether the files of a date that is over are made one.", True)
    sinks: tuple[str, ...] = option(
        texts,
        "Where else results go: mqtt://host/prefix, postgresql://host/database?table=name, "
        "influx://host:8086/database, kafka://host/topic or sensorthings://host/v1.1; may be repeated.",
        (),
        flag="--sink",
        group="output",
        repeated=True,
        secret=True,
    )
    home_assistant: bool = option(
        flag, "Let Home Assistant discover the sensors by what goes to the mqtt:// sinks.", False, group="output"
    )
    backlog: int = option(
        size, "How much may wait on disk for sinks that are away; 1GB by default.", 10**9, group="output"
    )
    alerts: AlertSettings = AlertSettings()
    metrics: tuple[str, int] | None = option(
        listener,
        "Where to show /metrics for Prometheus and /healthz; 127.0.0.1:9464 by default, or off.",
        (LOOPBACK, 9464),
        group="alerts",
    )
    serve: tuple[str, int] | None = option(
        dashboard, "Show the dashboard too: --serve alone at 127.0.0.1:8464, or say where.", group="alerts"
    )
    serve_token_file: Path | None = option(
        path, "A file with the token that opens it; needed where other machines can reach it.", group="alerts"
    )
    serve_edit: bool = option(
        flag,
        "Let it add notes to the --maintenance file; they hold from the period on that is open then.",
        False,
        group="alerts",
    )
    log: str = option(choice("text", "json"), "text or json, on standard error.", "text", group="alerts")

    @classmethod
    def of(cls, config: str | os.PathLike[str] | None = None, **given: Any) -> Settings:
        """Return settings from a TOML file and from arguments, which take precedence unless they are None.

        The keys of the file's tables `alerts` and `mqtt` are arguments of the same names, `to` as `alerts`.
        """
        arguments = _checked({key: value for key, value in given.items() if value is not None})
        if config is None:
            return _make_settings(arguments)
        file = Path(config)
        try:
            written = _checked(_flat(read_toml(file)), file.parent)
            for key in _superseded(arguments):
                written.pop(key, None)
            return _make_settings({**written, **arguments})
        except ConfigError as error:
            message = str(error)
            raise ConfigError(message if str(file) in message else f"{file}: {message}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON without secrets."""
        return {"source": plain(self.source), "out": str(self.out), **_differing(self, Settings(self.source, self.out))}


LIVE = {declaration.key or name: declaration for name, declaration in declarations(Settings).items()}
"""The keys of a TOML file for `watch`."""

TABLES = {"alerts": declarations(AlertSettings), "mqtt": declarations(MqttSettings)}
"""The tables of such a file, and their keys."""

_OPTIONS = declarations(Options)
_FLAT: dict[str, Declaration] = {
    **LIVE,
    **{declaration.key or name: declaration for table in TABLES.values() for name, declaration in table.items()},
}


def _superseded(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a file that the arguments override: the password, or topics where the source has none."""
    secrets = ("password", "password_file")
    topics = ("topics", "pattern") if "source" in given and not given["source"].startswith(MQTT) else ()
    return (*topics, *(secrets if any(key in given for key in secrets) else ()))


def _differing(part: Any, defaults: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from `defaults`; addresses without their passwords."""
    differing: dict[str, Any] = {}
    for entry in fields(part):
        value = getattr(part, entry.name)
        if value == getattr(defaults, entry.name) or entry.name in ("source", "out", "password", "password_file"):
            continue
        if isinstance(value, Options | AlertSettings | MqttSettings):
            value = _differing(value, type(value)())
        elif entry.name in ("sinks", "to"):
            value = [plain(address) for address in value]
        differing[entry.name] = json.loads(json.dumps(value, default=str))
    return differing


def _flat(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file with those of its tables at the top level."""
    flat = {}
    for key, value in written.items():
        if key == "alerts" and isinstance(value, str | list):
            flat[key] = value
            continue
        if key not in TABLES:
            table = next((outer for outer, inner in TABLES.items() if key in inner), None)
            if table is not None:
                raise ConfigError(f"{key} belongs into the table [{table}]")
            flat[key] = value
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} is a table: [{key}] on a line of its own; got {value!r}")
        for inner, given in value.items():
            if inner not in TABLES[key]:
                raise ConfigError(f"there is no key {inner!r} in [{key}]; there are {', '.join(TABLES[key])}")
            flat[TABLES[key][inner].key or inner] = given
    return flat


def _checked(given: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Validate all values; paths are relative to the folder."""
    given = {("from" if key == "start_from" else key): value for key, value in given.items()}
    unknown = [key for key in given if key not in _FLAT and key not in _OPTIONS]
    if unknown:
        known = sorted({*LIVE, *TABLES, *_OPTIONS})
        raise ConfigError(f"there is no key {unknown[0]!r}; there are {', '.join(known)}")
    checked = {}
    for key, value in given.items():
        taken = _FLAT[key].validator(key, value) if key in _FLAT else value
        is_path = (_FLAT.get(key) or _OPTIONS[key]).kind is Path and isinstance(taken, str | os.PathLike)
        checked[key] = folder / taken if folder is not None and is_path else taken
    if folder is not None and "source" in checked:
        checked["source"] = _beside(checked["source"], folder)
    Options.of(**{key: value for key, value in checked.items() if key in _OPTIONS})
    return checked


def _beside(source: str, folder: Path) -> str:
    """Return the source, with a path relative to the folder of the file that names it."""
    if source.startswith(REPLAY):
        inner = source.removeprefix(REPLAY)
        return source if is_address(inner) else f"{REPLAY}{folder / inner}"
    return source if source == "-" or is_address(source) else str(folder / source)


def _make_settings(given: dict[str, Any]) -> Settings:
    """Return settings of validated values; refuse contradictions."""
    for key in ("source", "out"):
        if key not in given:
            raise ConfigError("watch needs SOURCE and OUT: sensormend watch mqtt://localhost/city/# mended")
    from sensormend.io.folder import find_ending

    options = Options.of(**{key: value for key, value in given.items() if key in _OPTIONS})
    if find_ending(given["out"]) is not None:
        raise ConfigError(f"watch writes a folder; OUT cannot be the file {given['out']}")
    if options.networks:
        raise ConfigError("watch cleans one network; networks is for clean")
    if options.per_reading:
        raise ConfigError("watch writes a row for every slot; per_reading is for clean")
    if options.method in BATCH or options.passes > 1:
        raise ConfigError("watch sees every period once: batch methods and passes are for clean")
    if options.flags:
        raise ConfigError("flags writes a file at the end of a run; it is for clean")
    if options.wide:
        raise ConfigError("watch writes a row for every sensor and slot; wide is for clean")
    if options.owner_flag or options.owner_wrong:
        raise ConfigError("the flags of a feed's owners are not kept; owner_flag and owner_wrong are for clean")
    alerts = AlertSettings(**_select_fields(AlertSettings, given))
    _refuse_unknown(given.get("sinks", ()), (*SCHEMES, *MQTT, *INFLUX, *KAFKA, *SENSORTHINGS), SINK_ADDRESSES)
    _refuse_unknown(alerts.to, (*MQTT, *WEB, *NTFY, *MAIL, COMMAND), ALERT_ADDRESSES)
    values = _select_fields(Settings, given) | {"out": Path(os.path.normpath(given["out"]))}
    if "late_for" not in given and given.get("keep", math.inf) < Settings.late_for:
        values["late_for"] = given["keep"]
    settings = Settings(**values, options=options, alerts=alerts, mqtt=_mqtt(given))
    _refuse_contradictions(settings)
    refuse_loops(settings.source, settings.mqtt.topics, settings.out, settings.sinks, settings.alerts.to)
    return settings


def _refuse_contradictions(settings: Settings) -> None:
    """Refuse options that make no sense together."""
    if settings.keep is not None and settings.keep < settings.late_for:
        raise ConfigError("keep is shorter than late_for: rows that are gone cannot be corrected")
    if settings.speed is not None and not settings.source.startswith(REPLAY):
        raise ConfigError("speed is for a replay: replay:PATH")
    if settings.format is not None and settings.source != "-" and not settings.source.startswith((*MQTT, *KAFKA)):
        raise ConfigError("format is for messages, from mqtt://, kafka:// or -; files have it in their names")
    if settings.home_assistant and not any(address.startswith(MQTT) for address in settings.sinks):
        raise ConfigError("home_assistant is for results at a broker: name one with --sink mqtt://host/prefix")
    if settings.serve_token_file is not None and settings.serve is None:
        raise ConfigError("serve_token_file is for the dashboard: serve says where it is shown")
    if settings.serve_edit and settings.serve is None:
        raise ConfigError("serve_edit is for the dashboard: serve says where it is shown")
    if settings.serve_edit and settings.options.maintenance is None:
        raise ConfigError("serve_edit needs maintenance: the file that notes are added to")
    if settings.start_from is not None and settings.start_from.absolute() == settings.out.absolute():
        raise ConfigError("from and OUT are the same folder; a feed goes on in its OUT by itself")


def _select_fields(declared: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values of the fields of a dataclass."""
    known = declarations(declared)
    keys = {name: declaration.key or name for name, declaration in known.items()}
    return {name: given[key] for name, key in keys.items() if key in given}


def _refuse_unknown(addresses: Sequence[str], known: tuple[str, ...], wanted: str) -> None:
    for address in addresses:
        if not address.startswith(known) or (is_address(address) and not parse_host(clear(address))):
            raise ConfigError(f"{wanted}; got {plain(address)!r}")


def _mqtt(given: Mapping[str, Any]) -> MqttSettings:
    source, values = given["source"], _select_fields(MqttSettings, given)
    if "password" in values and "password_file" in values:
        raise ConfigError("password and password_file: give one of them")
    if "password_file" in values:
        try:
            values["password"] = Path(values["password_file"]).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"password_file cannot be read: {error}") from None
    values.setdefault("password", os.environ.get(PASSWORD) or None)
    if not 1 <= values.get("in_flight", 1) <= 65535:
        raise ConfigError(f"in_flight is 1 to 65535; got {values['in_flight']}")
    if not source.startswith(MQTT):
        for key in ("topics", "pattern"):
            if key in values:
                raise ConfigError(f"{key} is for an mqtt:// source")
        return MqttSettings(**values)
    if not parse_host(clear(source)):
        raise ConfigError("an address of a broker is like mqtt://host:1883/city/+/temp")
    user, password = parse_login(source)
    values["user"] = values.get("user") or user
    values["password"] = values["password"] if values["password"] is not None else password
    topic = parse_topic(source)
    if "{" in topic:
        values.setdefault("pattern", (topic,))
        topic = ""
    filters = tuple(map(make_filter, values.get("pattern", ())))
    values.setdefault("topics", (topic,) if topic else filters or ("#",))
    return MqttSettings(**values)
