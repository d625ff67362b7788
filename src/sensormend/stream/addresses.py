"""Functions here parse addresses of brokers, databases and webhooks, hide their secrets, and refuse loops."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from sensormend.errors import ConfigError, shown
from sensormend.io.postgres import SCHEMES, UNCLEAR, is_unclear
from sensormend.stream.formats.topics import overlap

__all__ = [
    "ALERTS",
    "ALERT_ADDRESSES",
    "COMMAND",
    "INFLUX",
    "KAFKA",
    "MAIL",
    "MQTT",
    "NTFY",
    "PREFIX",
    "REPLAY",
    "SENSORTHINGS",
    "SINK_ADDRESSES",
    "WEB",
    "MailServer",
    "clear",
    "is_address",
    "is_loopback",
    "mail_server",
    "parse_host",
    "parse_login",
    "parse_topic",
    "plain",
    "refuse_loops",
]

MQTT = ("mqtt://", "mqtts://")
WEB = ("http://", "https://")
NTFY = ("ntfy://", "ntfys://")
INFLUX = ("influx://", "influxs://")
KAFKA = ("kafka://", "kafkas://")
SENSORTHINGS = ("sensorthings://", "sensorthingss://")
MAIL = ("smtp://", "smtps://")
REPLAY = "replay:"
COMMAND = "command:"

ALERT_ADDRESSES = (
    "alerts go to https://..., ntfys://host/topic, smtp://user:password@host/?to=me@example.org, mqtt://host/topic or "
    "command: words"
)
"""The addresses of alerts, for messages."""

SINK_ADDRESSES = "a sink is mqtt://host/prefix, postgresql://host/database?table=name or influx://host:8086/database"
"""The addresses of sinks, for messages."""

PREFIX, ALERTS = "sensormend", "sensormend/alerts"
"""Topic prefix of results and topic of alerts at a broker, unless the address names others."""


def is_address(text: str) -> bool:
    """Return whether this is an address rather than the path of a file or a folder.

    Examples
    --------
    >>> is_address("mqtt://broker/city/#"), is_address("incoming")
    (True, False)
    """
    return re.match(r"[a-z]{2,}://", text, re.IGNORECASE) is not None


def clear(address: str) -> str:
    """Return the address; refuse one in which the end of the password is ambiguous, without showing it."""
    if address.startswith(MAIL):
        mail_server(address)
    elif is_unclear(address):
        raise ConfigError(f"{address.partition('://')[0]}://...: {UNCLEAR}")
    return address


def parse_topic(address: str) -> str:
    """Return the part of an MQTT address after the host, unparsed: `#` and `?` belong to topics.

    Examples
    --------
    >>> parse_topic("mqtts://me@broker:8883/city/+/#")
    'city/+/#'
    """
    return unquote(address.partition("://")[2].partition("/")[2])


def parse_host(address: str) -> str:
    """Return the host and the port of an address, without the user.

    Examples
    --------
    >>> parse_host("mqtts://me:secret@broker:8883/city/me@home/#")
    'broker:8883'
    """
    return _authority(address).rpartition("@")[2]


def _broker_key(address: str) -> tuple[str, int]:
    """Return a key that is equal for two addresses of the same broker; the TLS port and the plain port are one.

    Examples
    --------
    >>> _broker_key("mqtt://localhost"), _broker_key("mqtts://me@127.0.0.1:8883/city")
    (('localhost', 1883), ('localhost', 1883))
    """
    match = re.fullmatch(r"(.*?)(?::(\d+))?", parse_host(address).lower(), re.DOTALL)
    host, port = (match[1], int(match[2] or 1883)) if match else ("", 0)
    return "localhost" if host in ("127.0.0.1", "[::1]") else host.rstrip("."), 1883 if port == 8883 else port


def parse_login(address: str) -> tuple[str | None, str | None]:
    """Return the user and the password in an address.

    Examples
    --------
    >>> parse_login("mqtt://me:a%40b@broker")
    ('me', 'a@b')
    """
    user, at, _ = _authority(address).rpartition("@")
    name, colon, password = user.partition(":")
    return unquote(name) or None if at else None, unquote(password) if colon else None


def _authority(address: str) -> str:
    return re.split(r"[/?#]", address.partition("://")[2], maxsplit=1)[0]


def plain(address: str) -> str:
    """Return an address without secrets: no password, no path of a webhook, no arguments of a command.

    Examples
    --------
    >>> plain("mqtt://me:secret@broker/city"), plain("https://hooks.example.org/T0/secret")
    ('mqtt://me@broker/city', 'https://hooks.example.org/...')
    >>> plain("command: notify --token secret"), plain("smtp://me:secret@mail.example.org/?to=you@example.org")
    ('command: notify ...', 'smtp://me@mail.example.org')
    """
    if address.startswith(MAIL):
        match = _MAIL.fullmatch(address)
        user = f"{match['user']}@" if match and match["user"] else ""
        port = f":{match['port']}" if match and match["port"] else ""
        return f"{address.partition('://')[0]}://{user}{match['host']}{port}" if match else "smtp://..."
    if address.lower().startswith((*WEB, *NTFY)):
        scheme, _, rest = address.partition("://")
        if is_unclear(address):
            return f"{scheme}://..."
        path = re.split(r"[/?#]", rest, maxsplit=1)[1:]
        return f"{scheme}://{parse_host(address)}{'/...' if any(part.strip('/') for part in path) else ''}"
    if address.startswith(COMMAND):
        words = address.removeprefix(COMMAND).split(maxsplit=1)
        return " ".join([COMMAND, *map(shown, words[:1]), *["..."] * (len(words) > 1)])
    return shown(address)


_MAIL = re.compile(
    r"smtps?://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^:@/?#\[\]]+)"
    r"(?::(?P<port>\d{1,5}))?/?\?(?P<query>[^#]*)"
)


@dataclass(frozen=True)
class MailServer:
    """A server for e-mail, and who gets it from whom."""

    host: str
    port: int
    encrypted: bool
    user: str | None
    password: str | None
    sender: str
    recipients: tuple[str, ...]


def mail_server(address: str) -> MailServer:
    """Return the server and the recipients of an address for e-mail.

    Examples
    --------
    >>> server = mail_server("smtps://me:a%2Fb@mail.example.org/?to=you@example.org,her@example.org")
    >>> server.host, server.port, server.password, server.recipients
    ('mail.example.org', 465, 'a/b', ('you@example.org', 'her@example.org'))
    """
    match = _MAIL.fullmatch(address)
    query = dict(parse_qsl(match["query"])) if match else {}
    recipients = tuple(part.strip() for part in query.get("to", "").split(",") if part.strip())
    sender = query.pop("from", None)
    query.pop("to", None)
    port = int(match["port"] or (465 if address.startswith("smtps:") else 587)) if match else 0
    mails = (*recipients, *([] if sender is None else [sender]))
    if not match or not recipients or query or not 0 < port < 65536 or not all(map(_MAILBOX.fullmatch, mails)):
        raise ConfigError(
            f"{plain(address)}: e-mail goes to smtp://user:password@host:587/?to=me@example.org, or smtps://; in the "
            "password write / as %2F, @ as %40 and : as %3A"
        )
    user = unquote(match["user"]) if match["user"] else None
    password = unquote(match["password"]) if match["password"] else None
    host = match["host"].strip("[]")
    usual = user if user is not None and _MAILBOX.fullmatch(user) else f"sensormend@{host}"
    return MailServer(host, port, address.startswith("smtps:"), user, password, sender or usual, recipients)


_MAILBOX = re.compile(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("mail.example.org")
    (True, True, False)
    """
    return host.lower() in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def refuse_loops(source: str, topics: Sequence[str], out: Path, sinks: Sequence[str], alerts: Sequence[str]) -> None:
    """Refuse a source that would read the results, which would be cleaned again without end."""
    if source.startswith(MQTT):
        for address, published in _published(sinks, alerts):
            if _broker_key(address) == _broker_key(source) and any(overlap(topic, published) for topic in topics):
                raise ConfigError(
                    f"the source would read what is published to {plain(address)} as {published}: name the topics of "
                    "readings, like mqtt://host/city/#"
                )
    elif source.startswith(KAFKA):
        for address in sinks:
            if address.startswith(KAFKA) and _kafka_topics(address) & _kafka_topics(source):
                raise ConfigError(f"the source would read what is written to {plain(address)}: name another topic")
    elif source.startswith(SCHEMES):
        for address in sinks:
            if address.startswith(SCHEMES) and _table_key(address) == _table_key(source):
                raise ConfigError(f"the source would read what is written to {plain(address)}: name another table")
    elif source != "-" and not source.startswith(REPLAY) and not is_address(source):
        folder, results = (Path(os.path.realpath(path)) for path in (source, out))
        if folder.is_relative_to(results):
            raise ConfigError(f"OUT must be another folder than the one that is watched, and not above it; got {out}")


def _kafka_topics(address: str) -> set[tuple[str, str]]:
    """Return a key for each topic of an address that is equal for two addresses of the same topic.

    Examples
    --------
    >>> sorted(_kafka_topics("kafka://me:hush@one,two:9092/water,air"))[:2]
    [('one', 'air'), ('one', 'water')]
    """
    hosts = [host.lower().removesuffix(":9092") for host in parse_host(address).split(",")]
    topics = unquote(urlsplit(address).path.strip("/")).split(",")
    return {("localhost" if is_loopback(host) else host, topic.strip()) for host in hosts for topic in topics}


def _table_key(address: str) -> tuple[str, str, str]:
    """Return a key that is equal for two addresses of the same table.

    Examples
    --------
    >>> _table_key("postgresql://me:secret@host/db?table=rows&by=id"), _table_key("postgres://host:5432/db#rows")
    (('host', 'db', 'rows'), ('host', 'db', 'rows'))
    """
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query))
    host = parse_host(address).lower().removesuffix(":5432")
    table = query.get("table") or unquote(parts.fragment) or PREFIX
    return "localhost" if is_loopback(host) else host, parts.path.strip("/"), table.removeprefix("public.")


def _published(sinks: Sequence[str], alerts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the address and the topic filter of everything that is published."""
    for address in sinks:
        if address.startswith(MQTT):
            prefix = parse_topic(address).strip("/") or PREFIX
            yield from ((address, f"{prefix}/{kind}/#") for kind in ("cleaned", "health", "latest", "problem"))
    for address in alerts:
        if address.startswith(MQTT):
            yield address, parse_topic(address).strip("/") or ALERTS
