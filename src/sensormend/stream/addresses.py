"""Addresses of brokers, databases and webhooks, and what of them may be shown."""

from __future__ import annotations

import re
from urllib.parse import unquote

from sensormend.errors import ConfigError
from sensormend.io.postgres import UNCLEAR, is_unclear, shown

__all__ = [
    "ALERTS",
    "COMMAND",
    "MQTT",
    "PREFIX",
    "REPLAY",
    "WEB",
    "broker_of",
    "clear",
    "host_of",
    "is_address",
    "login_of",
    "plain",
    "topic_of",
]

MQTT = ("mqtt://", "mqtts://")
WEB = ("http://", "https://")
REPLAY = "replay:"
COMMAND = "command:"

PREFIX, ALERTS = "sensormend", "sensormend/alerts"
"""Where results and alerts go at a broker, unless the address says something else."""


def is_address(text: str) -> bool:
    """Say whether this is an address rather than the path of a file or a folder.

    Examples
    --------
    >>> is_address("mqtt://broker/city/#"), is_address("incoming")
    (True, False)
    """
    return re.match(r"[a-z]{2,}://", text, re.IGNORECASE) is not None


def clear(address: str) -> str:
    """Return an address; refuse one of which it is not clear where its password ends, without showing it."""
    if is_unclear(address):
        raise ConfigError(f"{address.partition('://')[0]}://...: {UNCLEAR}")
    return address


def topic_of(address: str) -> str:
    """Return what stands behind the host of an MQTT address, as it stands there: `#` and `?` belong to topics.

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


def broker_of(address: str) -> tuple[str, int]:
    """Return by what two addresses are known to mean the same broker: with TLS and without it is usually one.

    Examples
    --------
    >>> broker_of("mqtt://localhost"), broker_of("mqtts://me@127.0.0.1:8883/city")
    (('localhost', 1883), ('localhost', 1883))
    """
    found = re.fullmatch(r"(.*?)(?::(\d+))?", host_of(address).lower(), re.DOTALL)
    host, port = (found[1], int(found[2] or 1883)) if found else ("", 0)
    return "localhost" if host in ("127.0.0.1", "[::1]") else host.rstrip("."), 1883 if port == 8883 else port


def login_of(address: str) -> tuple[str | None, str | None]:
    """Return the user and the password that stand in an address.

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
    """Return what may be shown of an address: no password; of a webhook and of a command no secret in their words.

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
        behind = re.split(r"[/?#]", rest, maxsplit=1)[1:]
        return f"{scheme}://{host_of(address)}{'/...' if any(part.strip('/') for part in behind) else ''}"
    if address.startswith(COMMAND):
        words = address.removeprefix(COMMAND).split(maxsplit=1)
        return " ".join([COMMAND, *map(shown, words[:1]), *["..."] * (len(words) > 1)])
    return shown(address)
