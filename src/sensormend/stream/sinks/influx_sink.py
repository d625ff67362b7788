"""`InfluxSink` writes rows and the health of sensors to InfluxDB, or to what takes its line protocol over HTTP."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from sensormend.errors import ConfigError
from sensormend.pipeline.health import Health
from sensormend.readings import Rows
from sensormend.stream.addresses import parse_host, parse_login, plain
from sensormend.stream.deliveries import Delivery, Kind, Sink
from sensormend.stream.sinks.messages import ChangedHealth, health_message, row_fields, valid_text
from sensormend.stream.web_client import WebClient, basic

__all__ = ["MEASUREMENT", "InfluxSink"]

MEASUREMENT = "sensormend"
"""The default measurement."""

LINES = 5_000
"""Lines of a request, as InfluxDB advises."""

TIMEOUT = 20.0
"""Seconds to wait for an answer."""


class InfluxSink(Sink):
    """Writes rows as a measurement, and the state of a channel as another one, `..._health`, when it changes.

    Rows have the tags `sensor` and, where it has a name, `variable`; the other columns are fields. A point is replaced
    by one with the same tags and time, so a repeated delivery changes nothing.

    Parameters
    ----------
    address
        `influx://host:8086/DATABASE` for the API of version 1, which later versions and others have too; with
        `?org=NAME` for that of version 2, where the path is the bucket. `influxs://` is encrypted. The login is
        `user:password@` or `:TOKEN@`; `measurement=NAME` names the measurement.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, address: str) -> None:
        shown = plain(address)
        try:
            parts, database = urlsplit(address), unquote(urlsplit(address).path.strip("/"))
            where = urlsplit(f"//{parse_host(address)}")
            host, port = where.hostname, where.port
        except ValueError:
            host = None
        if not host or not database:
            raise ConfigError(f"{shown}: a database is like influx://host:8086/sensors, with ?org=NAME for a bucket")
        query = dict(parse_qsl(parts.query))
        unknown = [name for name in query if name not in ("org", "measurement")]
        if unknown:
            raise ConfigError(f"{shown}: there is no {unknown[0]!r}; there are org and measurement")
        self._measurement = query.get("measurement", MEASUREMENT)
        scheme = "https" if parts.scheme == "influxs" else "http"
        target = {"org": query["org"], "bucket": database} if "org" in query else {"db": database}
        path = "/api/v2/write" if "org" in query else "/write"
        bracketed = f"[{host}]" if ":" in host else host
        self._address = f"{scheme}://{bracketed}:{port or 8086}{path}?{urlencode({**target, 'precision': 'ns'})}"
        user, password = parse_login(address)
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if password is not None:
            headers["Authorization"] = basic(user, password) if user else f"Token {password}"
        self._client = WebClient(shown, headers, TIMEOUT)
        self._health = ChangedHealth()

    def write(self, delivery: Delivery) -> None:
        """Write a delivery."""
        lines: list[str] = []
        if delivery.rows is not None:
            lines += self._row_lines(delivery.rows, provisional=delivery.kind == "provisional")
        lines += (self._health_line(health, delivery.end) for health in self._health.of(delivery.health))
        for start in range(0, len(lines), LINES):
            self._client.request("POST", self._address, "\n".join(lines[start : start + LINES]).encode())
        self._health.written()

    def _row_lines(self, rows: Rows, *, provisional: bool) -> Iterator[str]:
        names = ("value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")
        fields_of = row_fields(rows, is_valid=math.isfinite, text=valid_text)
        for time, (sensor, variable, _, *columns) in zip(rows.time.tolist(), fields_of, strict=True):
            fields = {**dict(zip(names, columns, strict=True)), "provisional": provisional}
            yield _line(self._measurement, sensor, variable, fields, time)

    def _health_line(self, health: Health, time: int) -> str:
        message = health_message(health)
        fields = {name: message[name] for name in ("state", "reason", "since", "heard")}
        return _line(
            f"{self._measurement}_health", valid_text(health.sensor), valid_text(health.variable), fields, time
        )


def _line(measurement: str, sensor: str, variable: str, fields: dict[str, Any], time: int) -> str:
    r"""Return a point in line protocol.

    Examples
    --------
    >>> print(_line("m", "S 1", "", {"value": 1.5, "n": 2, "reason": 'a "b"', "lower": None}, 1))
    m,sensor=S\ 1 value=1.5,n=2i,reason="a \"b\"" 1000
    """
    tags = "".join(f",{name}={_name(tag)}" for name, tag in (("sensor", sensor), ("variable", variable)) if tag)
    values = ",".join(f"{name}={_value(value)}" for name, value in fields.items() if value is not None)
    return f"{_name(measurement)}{tags} {values} {time * 1000}"


def _name(text: str) -> str:
    """Return a name with its special letters escaped; a line has no line breaks, and no backslash at the end."""
    one_line = re.sub(r"[\r\n\t]", " ", text)
    return re.sub(r"([ ,=])", r"\\\1", f"{one_line[:-1]}/" if one_line.endswith("\\") else one_line)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
