"""Functions here parse addresses of brokers, databases and webhooks, hide their secrets, and refuse loops."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from sensormend.errors import ConfigError
from sensormend.io.postgres import UNCLEAR, is_unclear, shown
from sensormend.stream.formats.topics import overlap

__all__ = [
    "ALERTS",
    "COMMAND",
    "MQTT",
    "PREFIX",
    "REPLAY",
    "WEB",
    "clear",
    "host_of",
    "is_address",
    "login_of",
    "plain",
    "refuse_loops",
    "topic_of",
]

MQTT = ("mqtt://", "mqtts://")
WEB = ("http://", "https://")
REPLAY = "replay:"
COMMAND = "command:"

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
    if is_unclear(address):
        raise ConfigError(f"{address.partition('://')[0]}://...: {UNCLEAR}")
    return address


def topic_of(address: str) -> str:
    """Return the part of an MQTT address after the host, unparsed: `#` and `?` belong to topics.

    Examples
    --------
    >>> topic_of("mqtts://me@broker:8883/city/+/#")
    'city/+/#'
    """
    return unquote(address.partition("://")[2].partition("/")[2])


def host_of(address: str) -> str:
    """Return the host and the port of an address, without the user.

    Examples
    --------
    >>> host_of("mqtts://me:secret@broker:8883/city/me@home/#")
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
    match = re.fullmatch(r"(.*?)(?::(\d+))?", host_of(address).lower(), re.DOTALL)
    host, port = (match[1], int(match[2] or 1883)) if match else ("", 0)
    return "localhost" if host in ("127.0.0.1", "[::1]") else host.rstrip("."), 1883 if port == 8883 else port


def login_of(address: str) -> tuple[str | None, str | None]:
    """Return the user and the password in an address.

    Examples
    --------
    >>> login_of("mqtt://me:a%40b@broker")
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
    >>> plain("command: notify --token secret")
    'command: notify ...'
    """
    if address.lower().startswith(WEB):
        scheme, _, rest = address.partition("://")
        if is_unclear(address):
            return f"{scheme}://..."
        path = re.split(r"[/?#]", rest, maxsplit=1)[1:]
        return f"{scheme}://{host_of(address)}{'/...' if any(part.strip('/') for part in path) else ''}"
    if address.startswith(COMMAND):
        words = address.removeprefix(COMMAND).split(maxsplit=1)
        return " ".join([COMMAND, *map(shown, words[:1]), *["..."] * (len(words) > 1)])
    return shown(address)


def refuse_loops(source: str, topics: Sequence[str], out: Path, sinks: Sequence[str], alerts: Sequence[str]) -> None:
    """Refuse a source that would read the results, which would be mended again without end."""
    if source.startswith(MQTT):
        for address, published in _published(sinks, alerts):
            if _broker_key(address) == _broker_key(source) and any(overlap(topic, published) for topic in topics):
                raise ConfigError(
                    f"the source would read what is published to {plain(address)} as {published}: name the topics of "
                    "readings, like mqtt://host/city/#"
                )
    elif source != "-" and not source.startswith(REPLAY) and not is_address(source):
        folder, results = (Path(os.path.realpath(path)) for path in (source, out))
        if folder.is_relative_to(results):
            raise ConfigError(f"OUT must be another folder than the one that is watched, and not above it; got {out}")


def _published(sinks: Sequence[str], alerts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the address and the topic filter of everything that is published."""
    for address in sinks:
        if address.startswith(MQTT):
            prefix = topic_of(address).strip("/") or PREFIX
            yield from ((address, f"{prefix}/{kind}/#") for kind in ("cleaned", "health"))
    for address in alerts:
        if address.startswith(MQTT):
            yield address, topic_of(address).strip("/") or ALERTS
