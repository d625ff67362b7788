"""Addresses of brokers, databases and webhooks, and what of them may be shown."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from sensormend.io.postgres import shown

__all__ = ["COMMAND", "MQTT", "REPLAY", "WEB", "host_of", "is_address", "login_of", "plain", "topic_of"]

MQTT = ("mqtt://", "mqtts://")
WEB = ("http://", "https://")
REPLAY = "replay:"
COMMAND = "command:"


def is_address(text: str) -> bool:
    """Say whether this is an address rather than the path of a file or a folder.

    Examples
    --------
    >>> is_address("mqtt://broker/city/#"), is_address("incoming")
    (True, False)
    """
    return re.match(r"[a-z]+://", text) is not None


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
    if address.startswith(WEB):
        parts = urlsplit(address)
        return f"{parts.scheme}://{host_of(address)}{'/...' if parts.path.strip('/') or parts.query else ''}"
    if address.startswith(COMMAND):
        first, *rest = address.removeprefix(COMMAND).split(maxsplit=1)
        return f"{COMMAND} {first}{' ...' if rest else ''}"
    return shown(address)
