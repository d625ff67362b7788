"""Results as JSON, the same for every sink that speaks it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from sensormend.flags import REASONS
from sensormend.io.metadata import iso
from sensormend.live.deliveries import Alert, Health
from sensormend.readings import ORIGINS, Rows

__all__ = ["alert_message", "health_message", "moment", "moments", "row_messages", "text_of", "whole"]


def moment(time: int | None) -> str | None:
    """Return a time as messages have it, which go to programs that would take one without a zone for their own.

    Examples
    --------
    >>> moment(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def moments(rows: Rows) -> list[str]:
    """Return the times of rows."""
    known = {time: f"{iso(time)}Z" for time in np.unique(rows.time).tolist()}
    return [known[time] for time in rows.time.tolist()]


def row_messages(rows: Rows, *, provisional: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield sensor, variable and message of each row."""
    columns = zip(
        rows.sensor.tolist(),
        rows.variable.tolist(),
        moments(rows),
        rows.value.tolist(),
        rows.n.tolist(),
        rows.cleaned.tolist(),
        rows.lower.tolist(),
        rows.upper.tolist(),
        rows.flag.tolist(),
        rows.reason.tolist(),
        rows.origin.tolist(),
        strict=True,
    )
    for sensor, variable, time, value, n, cleaned, lower, upper, flag, reason, origin in columns:
        name, kind = rows.sensors[sensor], rows.variables[variable]
        yield (
            name,
            kind,
            {
                "sensor": name,
                "variable": kind,
                "time": time,
                "value": _finite(value),
                "n": n,
                "cleaned": _finite(cleaned),
                "lower": _finite(lower),
                "upper": _finite(upper),
                "flag": flag,
                "reason": REASONS[reason],
                "origin": ORIGINS[origin] or None,
                "provisional": provisional,
            },
        )


def health_message(health: Health) -> dict[str, Any]:
    """Return how a sensor is."""
    return {
        "sensor": health.sensor,
        "variable": health.variable,
        "state": health.state,
        "reason": health.reason,
        "since": moment(health.since),
        "heard": moment(health.heard),
    }


def alert_message(alert: Alert) -> dict[str, Any]:
    """Return an alert."""
    return {
        "sensor": alert.sensor,
        "variable": alert.variable,
        "state": alert.state,
        "before": alert.before,
        "reason": alert.reason,
        "since": moment(alert.since),
        "at": moment(alert.at),
        "sentence": alert.sentence,
    }


def text_of(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent."""
    return whole(json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))).encode("utf-8")


def whole(text: str) -> str:
    r"""Return a text without what is no text elsewhere: NUL, and half a character as a spoilt file may have in a name.

    Examples
    --------
    >>> print(ascii(whole("a" + chr(0) + "b" + chr(0xd800))))
    'a\ufffdb\ufffd'
    """
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
