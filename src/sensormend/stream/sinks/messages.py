"""Functions here turn rows, the health of sensors and alerts into messages for sinks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.io.metadata import iso
from sensormend.pipeline.health import Health
from sensormend.readings import ORIGINS, REASONS, Rows
from sensormend.stream.deliveries import Alert

__all__ = [
    "FIELDS",
    "alert_message",
    "health_message",
    "json_bytes",
    "row_fields",
    "row_messages",
    "stamp",
    "valid_text",
]

FIELDS = ("sensor", "variable", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")
"""The names of the fields of a row."""


def stamp(time: int | None) -> str | None:
    """Return a time in ISO 8601 with its zone, since receivers may take a time without one for local time.

    Examples
    --------
    >>> stamp(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def row_fields(
    rows: Rows, *, is_valid: Callable[[float], bool], text: Callable[[str], str] = str
) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each row, in the order of `FIELDS`: invalid numbers as None, names as `text` gives them."""

    def numbers(column: NDArray[np.float64]) -> list[float | None]:
        return [number if is_valid(number) else None for number in column.tolist()]

    sensors, variables = list(map(text, rows.sensors)), list(map(text, rows.variables))
    times = {time: stamp(time) for time in np.unique(rows.time).tolist()}
    return zip(
        [sensors[code] for code in rows.sensor.tolist()],
        [variables[code] for code in rows.variable.tolist()],
        [times[time] for time in rows.time.tolist()],
        numbers(rows.value),
        rows.n.tolist(),
        numbers(rows.cleaned),
        numbers(rows.lower),
        numbers(rows.upper),
        rows.flag.tolist(),
        [REASONS[code] for code in rows.reason.tolist()],
        [ORIGINS[code] or None for code in rows.origin.tolist()],
        strict=True,
    )


def row_messages(rows: Rows, *, provisional: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield sensor, variable and message of each row."""
    for fields in row_fields(rows, is_valid=math.isfinite):
        yield fields[0], fields[1], {**dict(zip(FIELDS, fields, strict=True)), "provisional": provisional}


def health_message(health: Health) -> dict[str, Any]:
    """Return the fields of the health of a sensor."""
    return {**asdict(health), "since": stamp(health.since), "heard": stamp(health.heard)}


def alert_message(alert: Alert) -> dict[str, Any]:
    """Return the fields of an alert."""
    return {
        "sensor": alert.sensor,
        "variable": alert.variable,
        "state": alert.state,
        "before": alert.before,
        "reason": alert.reason,
        "since": stamp(alert.since),
        "at": stamp(alert.at),
        "sentence": alert.sentence,
        "sensors": list(alert.sensors),
    }


def json_bytes(message: dict[str, Any]) -> bytes:
    """Return a message as JSON."""
    return valid_text(json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))).encode("utf-8")


def valid_text(text: str) -> str:
    r"""Return a text with U+FFFD in place of NUL and of lone surrogates, which a damaged file may have in a name.

    Examples
    --------
    >>> print(ascii(valid_text("a" + chr(0) + "b" + chr(0xd800))))
    'a\ufffdb\ufffd'
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)
