"""Functions here write results as JSON, the same for every sink that sends JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.io.metadata import iso
from sensormend.pipeline.health import Health
from sensormend.readings import ORIGINS, REASONS, Rows
from sensormend.stream.deliveries import Alert

__all__ = ["FIELDS", "alert_message", "health_message", "row_fields", "row_messages", "stamp", "text_of", "whole"]

FIELDS = ("sensor", "variable", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")
"""What a row says, by name."""


def stamp(time: int | None) -> str | None:
    """Return a time as messages have it, which go to programs that would take one without a zone for their own.

    Examples
    --------
    >>> stamp(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def row_fields(
    rows: Rows, *, known: Callable[[float], bool], named: Callable[[str], str] = str
) -> Iterator[tuple[Any, ...]]:
    """Yield what each row says, in the order of `FIELDS`.

    Parameters
    ----------
    known
        Which numbers can be represented; the others become None.
    named
        How names are written.
    """
    sensors, variables = list(map(named, rows.sensors)), list(map(named, rows.variables))
    times = {time: stamp(time) for time in np.unique(rows.time).tolist()}
    columns = zip(
        rows.sensor.tolist(),
        rows.variable.tolist(),
        rows.time.tolist(),
        *(_known_numbers(column, known) for column in (rows.value, rows.cleaned, rows.lower, rows.upper)),
        rows.n.tolist(),
        rows.flag.tolist(),
        rows.reason.tolist(),
        rows.origin.tolist(),
        strict=True,
    )
    for sensor, variable, time, value, cleaned, lower, upper, n, flag, reason, origin in columns:
        numbers = (value, n, cleaned, lower, upper, flag)
        yield (sensors[sensor], variables[variable], times[time], *numbers, REASONS[reason], ORIGINS[origin] or None)


def row_messages(rows: Rows, *, provisional: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield sensor, variable and message of each row."""
    for fields in row_fields(rows, known=math.isfinite):
        yield fields[0], fields[1], {**dict(zip(FIELDS, fields, strict=True)), "provisional": provisional}


def health_message(health: Health) -> dict[str, Any]:
    """Return how a sensor is."""
    return {
        "sensor": health.sensor,
        "variable": health.variable,
        "state": health.state,
        "reason": health.reason,
        "since": stamp(health.since),
        "heard": stamp(health.heard),
    }


def alert_message(alert: Alert) -> dict[str, Any]:
    """Return an alert."""
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


def _known_numbers(column: NDArray[np.float64], known: Callable[[float], bool]) -> list[float | None]:
    return [number if known(number) else None for number in column.tolist()]
