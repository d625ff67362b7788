"""The forms in which settings are said, each with one line for whoever says it wrongly."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.options import DASHBOARD, LOOPBACK, duration
from sensormend.io.postgres import shown
from sensormend.stream.addresses import COMMAND

__all__ = [
    "choice",
    "dashboard",
    "duration_of",
    "flag",
    "listener",
    "name",
    "number",
    "path",
    "size",
    "whole",
    "words",
]

SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def name(key: str, given: Any) -> str:
    """Take a text."""
    if not isinstance(given, str) or not given.strip():
        got = "" if key == "password" else f"; got {_of(given)}"
        raise ConfigError(f"{key} is a text{got}")
    return given


def path(key: str, given: Any) -> Path:
    """Take the path of a file or a folder."""
    if not isinstance(given, str | os.PathLike) or not str(given):
        raise ConfigError(f"{key} is a path; got {_of(given)}")
    return Path(given)


def flag(key: str, given: Any) -> bool:
    """Take true or false."""
    if not isinstance(given, bool):
        raise ConfigError(f"{key} is true or false; got {_of(given)}")
    return given


def whole(key: str, given: Any) -> int:
    """Take a whole number of 1 or more."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ConfigError(f"{key} is a whole number, 1 or more; got {_of(given)}")
    return given


def number(key: str, given: Any) -> float:
    """Take a number above zero."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise ConfigError(f"{key} is a number above 0; got {_of(given)}")
    return float(given)


def duration_of(key: str, given: Any) -> int:
    """Take a duration."""
    if not isinstance(given, str | timedelta):
        raise ConfigError(f"{key} is a number and a unit, like 15min, 1h or 1d; got {_of(given)}")
    try:
        return duration(given)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def words(key: str, given: Any) -> tuple[str, ...]:
    """Take a text or a list of them; a list inside the list is a command, word by word.

    Examples
    --------
    >>> words("alerts", ["https://example.org/hook", ["notify", "the team"]])
    ('https://example.org/hook', "command: notify 'the team'")
    """
    entries = [given] if isinstance(given, str) else given
    if not isinstance(entries, Sequence):
        raise ConfigError(f"{key} is a list of texts; got {_of(given)}")
    found = []
    for entry in entries:
        if isinstance(entry, list | tuple) and entry and all(isinstance(word, str) for word in entry):
            found.append(f"{COMMAND} {shlex.join(entry)}")
        elif isinstance(entry, str) and entry.strip():
            found.append(entry)
        else:
            raise ConfigError(f"{key} is a list of texts; got {_of(entry)} in it")
    return tuple(found)


def size(key: str, given: Any) -> int:
    """Take a number of bytes.

    Examples
    --------
    >>> size("backlog", "1.5GB"), size("backlog", "2 MiB"), size("backlog", 100)
    (1500000000, 2097152, 100)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(given).lower())
    unit = SIZES.get(found[2]) if found and not isinstance(given, bool) else None
    if not found or unit is None or float(found[1]) * unit < 1:
        raise ConfigError(f"{key} is a size like 500MB or 1GB; got {_of(given)}")
    return round(float(found[1]) * unit)


def listener(key: str, given: Any, usual: str = f"{LOOPBACK}:9464") -> tuple[str, int] | None:
    """Take a host and a port, a port alone, or `off`.

    Examples
    --------
    >>> listener("metrics", "127.0.0.1:9464"), listener("metrics", 9000), listener("metrics", "off")
    (('127.0.0.1', 9464), ('127.0.0.1', 9000), None)
    """
    if given == "off" or given is False:
        return None
    text = str(given).strip()
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]*):)?(\d{1,5})", text)
    if isinstance(given, bool) or not found or int(found[2]) > 65535:
        raise ConfigError(f"{key} is a host and a port like {usual}, or off; got {_of(given)}")
    return (found[1] or LOOPBACK).strip("[]"), int(found[2])


def dashboard(key: str, given: Any) -> tuple[str, int] | None:
    """Take where the dashboard is shown; `on` is its usual place.

    Examples
    --------
    >>> dashboard("serve", "on"), dashboard("serve", "0.0.0.0:80"), dashboard("serve", "off")
    (('127.0.0.1', 8464), ('0.0.0.0', 80), None)
    """
    host, port = DASHBOARD
    return DASHBOARD if given == "on" or given is True else listener(key, given, f"{host}:{port}")


def choice(*known: str) -> Callable[[str, Any], str]:
    """Take one of a few words."""

    def chosen(key: str, given: Any) -> str:
        if given not in known:
            raise ConfigError(f"{key} is {' or '.join(known)}; got {_of(given)}")
        return str(given)

    return chosen


def _of(given: Any) -> str:
    text = shown(repr(given))
    return text if len(text) <= 60 else f"{text[:57]}..."
