"""What a user may say to `watch`: the same names on the command line and in a TOML file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.options import Options, read_toml
from sensormend.readings import DAY, HOUR
from sensormend.stream.addresses import (
    COMMAND,
    MQTT,
    REPLAY,
    WEB,
    clear,
    host_of,
    is_address,
    login_of,
    plain,
    topic_of,
)
from sensormend.stream.echoes import refuse_echoes
from sensormend.stream.formats.topics import filter_of
from sensormend.stream.forms import (
    choice,
    dashboard,
    duration_of,
    flag,
    listener,
    name,
    number,
    path,
    size,
    whole,
    words,
)

__all__ = ["AlertSettings", "MqttSettings", "Settings"]

PASSWORD = "SENSORMEND_MQTT_PASSWORD"
"""The variable of the environment that has the broker's password."""


@dataclass(frozen=True)
class MqttSettings:
    """How to come to a broker.

    Attributes
    ----------
    topics
        What to subscribe to; by default the path of the address, else what `pattern` says, else everything.
    pattern
        What topics say: `city/{sensor}/{variable}`; the first that fits is taken.
    user, password
        By default those of the address. The password may come from `password_file` or the environment instead.
    ca
        The certificates to trust, for `mqtts://`.
    client_id
        By which the broker knows us again after a restart; by default OUT has a name of its own.
    in_flight
        How many messages the broker sends before it waits for us.
    """

    topics: tuple[str, ...] = ()
    pattern: tuple[str, ...] = ()
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    client_id: str | None = None
    in_flight: int = 1000


@dataclass(frozen=True)
class AlertSettings:
    """Who is told, and when.

    Attributes
    ----------
    stood, stood_readings
        For how long, and in how many readings, a sure fault has to stand until it is told.
    after, well_after
        Periods in a row until a sensor is faulty whose fault is not sure, and until it is well again.
    to
        `mqtt://host/topic`, `https://...`, or `command: words`.
    """

    after: int = 2
    well_after: int = 2
    to: tuple[str, ...] = field(default=(), repr=False)
    stood: int = HOUR
    stood_readings: int = 3


@dataclass(frozen=True)
class Settings:
    """Everything that `watch` is told.

    Attributes
    ----------
    source
        `mqtt://`, `mqtts://`, a folder, `-`, or `replay:` and what `clean` would read.
    out
        The folder for the results.
    options
        What is known of the readings, as for `clean`.
    start_from
        An OUT whose model to start with; `from` for the user.
    grace
        How long a period waits for its last readings; a step of the grid by default.
    late_for
        How far back late readings correct their rows.
    keep
        How long rows are kept; None for ever.
    speed
        Seconds of a replay per second; None for as fast as it goes.
    compact
        Whether the files of a date that is over are made one.
    sinks
        Where else results go: `mqtt://host/prefix`, `postgresql://...?table=rows`.
    backlog
        How many bytes wait on disk for sinks that are away.
    metrics
        Host and port of the figures for Prometheus; None for none.
    serve
        Host and port of the dashboard; None for none.
    serve_token_file
        The file with the token that opens it.
    serve_edit
        Whether it may add notes to the maintenance file.
    log
        `text` or `json`.
    """

    source: str = field(repr=False)
    out: Path
    options: Options = field(default_factory=Options)
    start_from: Path | None = None
    grace: int | None = None
    late_for: int = 30 * DAY
    keep: int | None = None
    speed: float | None = None
    compact: bool = True
    sinks: tuple[str, ...] = field(default=(), repr=False)
    backlog: int = 10**9
    metrics: tuple[str, int] | None = ("127.0.0.1", 9464)
    serve: tuple[str, int] | None = None
    serve_token_file: Path | None = None
    serve_edit: bool = False
    log: str = "text"
    alerts: AlertSettings = AlertSettings()
    mqtt: MqttSettings = MqttSettings()

    @classmethod
    def of(cls, config: str | os.PathLike[str] | None = None, **said: Any) -> Settings:
        """Return settings from a TOML file and from what is said, which goes before it; None is not said.

        What the file has in its tables `alerts` and `mqtt` is said by the same names, `to` as `alerts`.
        """
        told = {key: given for key, given in said.items() if given is not None}
        if config is None:
            return _settled(_checked(told))
        file = Path(config)
        try:
            written = _checked(_flat(read_toml(file)), file.parent)
        except ConfigError as error:
            raise ConfigError(_named(error, file)) from None
        given = _checked(told)
        for key in _outdone(given):
            written.pop(key, None)
        try:
            return _settled({**written, **given})
        except ConfigError as error:
            raise ConfigError(_named(error, file)) from None

    def told(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON has it, without anything secret."""
        usual = Settings(self.source, self.out)
        found: dict[str, Any] = {"source": plain(self.source), "out": str(self.out)}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in ("source", "out") or value == getattr(usual, entry.name):
                continue
            if isinstance(value, Options | AlertSettings | MqttSettings):
                value = _told(value)
            found[entry.name] = [plain(address) for address in value] if entry.name == "sinks" else _json(value)
        return found


def _outdone(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a file says in vain beside what is typed: another password, or topics for what has none."""
    secrets = ("password", "password_file")
    topics = ("topics", "pattern") if "source" in given and not given["source"].startswith(MQTT) else ()
    return (*topics, *(secrets if any(key in given for key in secrets) else ()))


def _named(error: ConfigError, file: Path) -> str:
    text = str(error)
    return text if str(file) in text else f"{file}: {text}"


def _told(part: Options | AlertSettings | MqttSettings) -> dict[str, Any]:
    usual = type(part)()
    values = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    if "to" in values:
        values["to"] = tuple(plain(address) for address in values["to"])
    return {key: _json(value) for key, value in values.items() if key != "password" and value != getattr(usual, key)}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


Form = Callable[[str, Any], Any]
LIVE: dict[str, Form] = {
    "source": name, "out": path, "from": path, "grace": duration_of, "late_for": duration_of, "keep": duration_of,
    "speed": number, "compact": flag, "sinks": words, "backlog": size, "metrics": listener,
    "serve": dashboard, "serve_token_file": path, "serve_edit": flag, "log": choice("text", "json"),
}  # fmt: skip
TABLES: dict[str, dict[str, Form]] = {
    "alerts": {"stood": duration_of, "stood_readings": whole, "after": whole, "well_after": whole, "to": words},
    "mqtt": {
        "topics": words, "pattern": words, "user": name, "password": name, "password_file": path, "ca": path,
        "client_id": name, "in_flight": whole,
    },
}  # fmt: skip
PATHS = ("out", "from", "ca", "password_file", "serve_token_file", "maintenance", "coordinates")
OPTIONS = {entry.name for entry in fields(Options)}


def _flat(written: Mapping[str, Any]) -> dict[str, Any]:
    """Take what the tables have out of them."""
    flat = {}
    for key, value in written.items():
        if key == "alerts" and isinstance(value, str | list):
            flat[key] = value
            continue
        if key not in TABLES:
            if key in {inner for table in TABLES.values() for inner in table}:
                table = next(outer for outer, inner in TABLES.items() if key in inner)
                raise ConfigError(f"{key} belongs into the table [{table}]")
            flat[key] = value
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} is a table: [{key}] on a line of its own; got {value!r}")
        for inner, given in value.items():
            if inner not in TABLES[key]:
                raise ConfigError(f"there is no key {inner!r} in [{key}]; there are {', '.join(TABLES[key])}")
            flat["alerts" if inner == "to" else inner] = given
    return flat


def _checked(said: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Look at the form of everything; paths are meant from the folder."""
    forms = {**LIVE, **TABLES["alerts"], **TABLES["mqtt"], "alerts": words}
    told = {("from" if key == "start_from" else key): value for key, value in said.items()}
    unknown = [key for key in told if key not in forms and key not in OPTIONS]
    if unknown:
        known = sorted({*LIVE, *TABLES, *OPTIONS})
        raise ConfigError(f"there is no key {unknown[0]!r}; there are {', '.join(known)}")
    found = {}
    for key, value in told.items():
        checked = forms[key](key, value) if key in forms else value
        if folder is not None and key in PATHS and isinstance(checked, str | os.PathLike):
            checked = folder / checked
        found[key] = checked
    if folder is not None and "source" in found:
        found["source"] = _beside(found["source"], folder)
    Options.of(**{key: value for key, value in found.items() if key in OPTIONS})
    return found


def _beside(source: str, folder: Path) -> str:
    """Return a source that is a path as it is meant from the file that names it."""
    if source.startswith(REPLAY):
        inner = source.removeprefix(REPLAY)
        return source if is_address(inner) else f"{REPLAY}{folder / inner}"
    return source if source == "-" or is_address(source) else str(folder / source)


def _settled(said: dict[str, Any]) -> Settings:
    """Make settings of what is said, and refuse what contradicts itself."""
    for key in ("source", "out"):
        if key not in said:
            raise ConfigError("watch needs SOURCE and OUT: sensormend watch mqtt://localhost/city/# mended")
    from sensormend.io.folder import ending_of

    options = Options.of(**{key: value for key, value in said.items() if key in OPTIONS})
    if ending_of(said["out"]) is not None:
        raise ConfigError(f"watch writes a folder; OUT cannot be the file {said['out']}")
    if options.networks:
        raise ConfigError("watch mends one network; networks is for clean")
    if options.per_reading:
        raise ConfigError("watch writes a row for every slot; per_reading is for clean")
    if options.wide:
        raise ConfigError("watch writes a row for every sensor and slot; wide is for clean")
    given = {key: said[key] for key in TABLES["alerts"] if key in said}
    alerts = AlertSettings(**given, to=said.get("alerts", ()))
    _refuse_unknown(said.get("sinks", ()), ("postgresql://", "postgres://", *MQTT), "a sink is mqtt://host/prefix or "
                    "postgresql://host/database?table=name")  # fmt: skip
    _refuse_unknown(alerts.to, (*MQTT, *WEB, COMMAND), "alerts go to mqtt://host/topic, https://... or command: words")
    names = {entry.name for entry in fields(Settings)} - {"options", "alerts", "mqtt", "start_from"}
    plainly = {key: said[key] for key in names if key in said}
    plainly["out"] = Path(os.path.normpath(said["out"]))
    if "late_for" not in said and said.get("keep", math.inf) < Settings.late_for:
        plainly["late_for"] = said["keep"]
    found = Settings(**plainly, options=options, start_from=said.get("from"), alerts=alerts, mqtt=_mqtt(said))
    if found.keep is not None and found.keep < found.late_for:
        raise ConfigError("keep is shorter than late_for: rows that are gone cannot be corrected")
    if found.speed is not None and not found.source.startswith(REPLAY):
        raise ConfigError("speed is for a replay: replay:PATH")
    if found.serve_token_file is not None and found.serve is None:
        raise ConfigError("serve_token_file is for the dashboard: serve says where it is shown")
    if found.serve_edit and found.serve is None:
        raise ConfigError("serve_edit is for the dashboard: serve says where it is shown")
    if found.serve_edit and options.maintenance is None:
        raise ConfigError("serve_edit needs maintenance: the file that notes are added to")
    if found.start_from is not None and found.start_from.absolute() == found.out.absolute():
        raise ConfigError("from and OUT are the same folder; a feed goes on in its OUT by itself")
    refuse_echoes(found.source, found.mqtt.topics, found.out, found.sinks, found.alerts.to)
    return found


def _refuse_unknown(addresses: Sequence[str], known: tuple[str, ...], said: str) -> None:
    for address in addresses:
        if not address.startswith(known) or (is_address(address) and not host_of(clear(address))):
            raise ConfigError(f"{said}; got {plain(address)!r}")


def _mqtt(said: Mapping[str, Any]) -> MqttSettings:
    source = said["source"]
    given = {key: said[key] for key in TABLES["mqtt"] if key in said and key != "password_file"}
    if "password" in said and "password_file" in said:
        raise ConfigError("password and password_file: say one of them")
    if "password_file" in said:
        try:
            given["password"] = Path(said["password_file"]).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"password_file cannot be read: {error}") from None
    given.setdefault("password", os.environ.get(PASSWORD) or None)
    if not 1 <= given.get("in_flight", 1) <= 65535:
        raise ConfigError(f"in_flight is 1 to 65535; got {given['in_flight']}")
    if not source.startswith(MQTT):
        for key in ("topics", "pattern"):
            if key in given:
                raise ConfigError(f"{key} is for an mqtt:// source")
        return MqttSettings(**given)
    if not host_of(clear(source)):
        raise ConfigError("an address of a broker is like mqtt://host:1883/city/+/temp")
    user, password = login_of(source)
    given["user"] = given.get("user") or user
    given["password"] = given["password"] if given["password"] is not None else password
    within = topic_of(source)
    if "{" in within:
        given.setdefault("pattern", (within,))
        within = ""
    filters = tuple(map(filter_of, given.get("pattern", ())))
    given.setdefault("topics", (within,) if within else filters or ("#",))
    return MqttSettings(**given)
