"""Functions here turn rows, the health of sensors and alerts into messages for sinks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.health import Health
from sensormend.pipeline.options import Options
from sensormend.pipeline.sentences import ADVICE, DEVICE_ADVICE, who
from sensormend.pipeline.times import utc
from sensormend.pipeline.units import described, sent
from sensormend.readings import ORIGINS, REASONS, Rows
from sensormend.stream.alert_messages import WITHDRAWN
from sensormend.stream.deliveries import DAMAGE, DIGEST, FLOOD, Alert

__all__ = [
    "FIELDS",
    "NO_DETAILS",
    "SEVERITIES",
    "AlertDetails",
    "ChangedHealth",
    "alert_message",
    "alert_title",
    "find_advice",
    "health_message",
    "json_bytes",
    "row_fields",
    "row_messages",
    "valid_text",
]

FIELDS = ("sensor", "variable", "time", "value", "n", "cleaned", "lower", "upper", "flag", "reason", "origin")
"""The names of the fields of a row."""


SEVERITIES = {
    "faulty": "error", DAMAGE: "error", "silent": "warning", FLOOD: "warning", "healthy": "info", DIGEST: "info",
}  # fmt: skip
"""The severity of an alert by its state. A faulty sensor misleads; a silent one is only missing."""


@dataclass(frozen=True)
class AlertDetails:
    """What messages contain beside the alert.

    Attributes
    ----------
    url
        The address of the dashboard; None if it is not known.
    options
        The options with the units of variables.
    units
        The units that messages have, as they become known.
    """

    url: str | None = None
    options: Options = field(default_factory=Options)
    units: Mapping[str, str] = field(default_factory=dict)

    def unit(self, variable: str) -> str | None:
        """Return the unit of a variable; None if it is not known."""
        return described([variable], self.options, sent(self.units)).get(variable, {}).get("units") or None

    def link(self, alert: Alert) -> str | None:
        """Return the address of the page that shows the alert: that of the sensor, or the repair list."""
        if self.url is None:
            return None
        if not alert.sensor or len(alert.sensors) > 1:
            return f"{self.url}/#/faults?state=open" if alert.state in ("faulty", "silent") else f"{self.url}/"
        names = {"sensor": alert.sensor, "variable": alert.variable}
        return f"{self.url}/#/sensor?{urlencode({key: valid_text(name) for key, name in names.items() if name})}"


NO_DETAILS = AlertDetails()


def row_fields(
    rows: Rows, *, is_valid: Callable[[float], bool], text: Callable[[str], str] = str
) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each row, in the order of `FIELDS`: invalid numbers as None, names as `text` gives them."""

    def numbers(column: NDArray[np.float64]) -> list[float | None]:
        return [number if is_valid(number) else None for number in column.tolist()]

    sensors, variables = list(map(text, rows.sensors)), list(map(text, rows.variables))
    times = {time: utc(time) for time in np.unique(rows.time).tolist()}
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


class ChangedHealth:
    """Tells the health that differs in state, reason or since from what was written last, and all after a restart.

    Examples
    --------
    >>> changed, health = ChangedHealth(), [Health("roof", "", "healthy", "", 0, 7)]
    >>> len(changed.of(health)), len(changed.of(health))
    (1, 1)
    >>> changed.written()
    >>> changed.of(health)
    []
    """

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], tuple[str, str, int]] = {}
        self._new: dict[tuple[str, str], tuple[str, str, int]] = {}

    def of(self, health: Sequence[Health]) -> list[Health]:
        """Return the health that is to be written."""
        self._new = {(one.sensor, one.variable): (one.state, one.reason, one.since) for one in health}
        return [one for one in health if self._written.get(name := (one.sensor, one.variable)) != self._new[name]]

    def written(self) -> None:
        """Record that it was written."""
        self._written |= self._new


def health_message(health: Health) -> dict[str, Any]:
    """Return the fields of the health of a sensor."""
    return {**asdict(health), "since": utc(health.since), "heard": utc(health.heard)}


def alert_message(alert: Alert, details: AlertDetails = NO_DETAILS) -> dict[str, Any]:
    """Return the fields of an alert; `text` has all that a person needs, as chat programs show only that."""
    url, advice = details.link(alert), find_advice(alert)
    one = alert.channels[0] if len(alert.channels) == 1 else None
    return {
        "id": alert.id,
        "severity": SEVERITIES[alert.state],
        "title": alert_title(alert),
        "text": "\n".join([" ".join(filter(None, [f"{alert.sentence}.", advice])), *alert.lines, *filter(None, [url])]),
        "sensor": alert.sensor,
        "variable": alert.variable,
        "unit": details.unit(alert.variable) if alert.sensor else None,
        "value": one.value if one else None,
        "expected": one.expected if one else None,
        "since": utc(alert.since),
        "advice": advice,
        "url": url,
        "state": alert.state,
        "before": alert.before,
        "reason": alert.reason,
        "at": utc(alert.at),
        "sensors": list(alert.sensors),
        "channels": [
            {**asdict(channel), "unit": details.unit(channel.variable), "since": utc(channel.since)}
            for channel in alert.channels
        ],
    }


def alert_title(alert: Alert) -> str:
    """Return a title of a few words, for a subject or a notification."""
    subject, several = who(alert.sensor, alert.variable), len(alert.sensors) > 1
    if several:
        subject = f"{len(alert.sensors):,} sensors"
    elif len(alert.channels) > 1:
        subject = alert.sensor
    verb = "are" if several else "is"
    reason = f": {alert.reason}" if alert.reason else ""
    if alert.state == "healthy":
        return f"False alarm withdrawn: {subject}" if alert.reason == WITHDRAWN else f"{subject} {verb} healthy again"
    titles = {
        FLOOD: "Unknown sensor names are refused",
        DAMAGE: "Something in the output folder is missing or damaged",
        DIGEST: f"Daily digest: {alert.sentence}",
    }
    return titles.get(alert.state, f"{subject} {verb} {alert.state}{reason}")


def find_advice(alert: Alert) -> str | None:
    """Return what to do about an alert; None if nothing needs to be done."""
    if alert.state == "faulty":
        is_device = len(alert.channels) > 1 and len(alert.sensors) == 1
        return DEVICE_ADVICE if is_device else ADVICE.get(alert.reason)
    return ADVICE["silent"] if alert.state == "silent" else None


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
