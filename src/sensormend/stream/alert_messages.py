"""Functions here write the sentences of alerts, and merge the alerts of a sensor or an incident into one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.cleaner import NEVER
from sensormend.pipeline.faults import ReadingSums, distances_from
from sensormend.pipeline.sentences import comma, enumeration, how_long, how_often, readable, what_it_does, who
from sensormend.readings import REASONS, SECOND, Rows
from sensormend.recovery import BoolArray
from sensormend.stream.deliveries import Alert, AlertedChannel

__all__ = [
    "WITHDRAWN",
    "OpenFault",
    "faulty_sentence",
    "healthy_sentence",
    "one_per_incident",
    "one_per_sensor",
    "silent_sentence",
    "sum_readings",
    "withdrawn_sentence",
]

WITHDRAWN = "withdrawn"
"""The reason of an alert that withdraws a fault."""

SURE_CONFIDENCE = 0.95
"""The `Fault.probability` from which a fault is sure. Its confidence is not used, since small networks would then never
raise an alert: like flag 4, an alert says where to look, and not that a person would confirm the fault."""

MOST_NAMED = 8
"""The maximum number of sensors that the sentence of an incident names; it counts the others, and `sensors` lists
all."""


@dataclass
class OpenFault:
    """An open fault of one channel in the live service.

    Attributes
    ----------
    start
        Its first wrong slot, microseconds since 1970, UTC.
    readings
        The number of its readings; each slot before the period counts as one.
    confidence
        Its `Fault.probability`; 0 where the model reports none.
    reasons
        The number of readings with each reason.
    size, rate
        The size of the fault by the model, NaN where that is unknown, and its growth in a period.
    sums
        The sums over its readings.
    last_expected
        What the last of the readings should have been; NaN where that is unknown.
    """

    start: int
    readings: int
    confidence: float
    reasons: dict[str, int]
    size: float = math.nan
    rate: float = 0.0
    sums: ReadingSums = field(default_factory=ReadingSums)
    last_expected: float = math.nan

    @property
    def reason(self) -> str:
        """The most frequent reason."""
        return max(self.reasons, key=lambda word: (self.reasons[word], word), default="")

    @property
    def sure(self) -> bool:
        """Whether it is sure enough for an alert."""
        return self.confidence >= SURE_CONFIDENCE

    def add(self, later: OpenFault) -> None:
        """Add the readings of a later period."""
        for word, count in later.reasons.items():
            self.reasons[word] = self.reasons.get(word, 0) + count
        self.size, self.rate, self.last_expected = later.size, later.rate, later.last_expected
        self.readings, self.confidence = self.readings + later.readings, later.confidence
        self.sums.add(later.sums)


def sum_readings(rows: Rows, cells: slice, wrong: BoolArray) -> OpenFault:
    """Return the wrong readings of a channel in a period as a fault."""
    codes, counts = np.unique(rows.reason[cells][wrong], return_counts=True)
    value, cleaned = rows.value[cells][wrong], rows.cleaned[cells][wrong]
    return OpenFault(
        start=int(rows.time[cells][wrong][0]),
        readings=int(value.size),
        confidence=0.0,
        reasons={REASONS[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)},
        sums=ReadingSums.of(value, distances_from(value, cleaned)),
        last_expected=float(cleaned[-1]),
    )


def faulty_sentence(name: str, fault: OpenFault, since: int, now: int, *, again: bool = False) -> str:
    """Return the sentence for a sensor that turned faulty, or that is faulty when it reports again."""
    action = what_it_does(fault.reason, fault.size, fault.rate, fault.sums, now - since, over=False)
    turned = "reports again, but is faulty" if again else "turned faulty"
    return f"{name} {turned}: it {action}{comma(action)} since {readable(since)}{_bracketed(fault.reason)}"


def silent_sentence(name: str, last: int, usual: int) -> str:
    """Return the sentence for a sensor that turned silent."""
    return f"{name} turned silent: no reading since {readable(last)}; it usually reports at least {how_often(usual)}"


def withdrawn_sentence(name: str, reason: str, since: int) -> str:
    """Return the sentence that withdraws a fault."""
    return (
        f"False alarm withdrawn: {name} was fine; with the readings of the whole period there is no fault since "
        f"{readable(since)}{_bracketed(reason)}"
    )


def healthy_sentence(name: str, before: str, reason: str, start: int, since: int, times: int = 1) -> str:
    """Return the sentence for a sensor that is healthy since `since`, and had another state since `start`.

    `times` is the number of its faults since then: a run of short ones is one incident.

    Examples
    --------
    >>> from sensormend.readings import DAY, HOUR
    >>> healthy_sentence("S12", "faulty", "noise", 0, 4 * DAY + 3 * HOUR, 8)
    'S12 is healthy again: it has agreed with the network since 1970-01-05 03:00, after 8 faults in 4.1 days (noise)'
    """
    duration = how_long(max(since - start, SECOND))
    if before == "silent":
        return f"{name} is healthy again: it has reported since {readable(since)}, after {duration} of silence"
    cause = f"{times} faults in {duration}" if times > 1 else f"{duration} of a fault"
    cause += _bracketed(reason)
    return f"{name} is healthy again: it has agreed with the network since {readable(since)}, after {cause}"


def _bracketed(reason: str) -> str:
    return f" ({reason})" if reason else ""


def one_per_sensor(alerts: list[Alert], names: Sequence[tuple[str, str]], last: NDArray[np.int64]) -> list[Alert]:
    """Merge the alerts of a sensor all of whose variables changed alike into one alert without a variable."""
    by_sensor: dict[tuple[str, str, str, str], list[Alert]] = {}
    for alert in alerts:
        by_sensor.setdefault((alert.sensor, alert.before, alert.state, alert.id), []).append(alert)
    if len(by_sensor) == len(alerts):
        return alerts
    several = {sensor for (sensor, _, _, _), group in by_sensor.items() if len(group) > 1}
    variables = Counter(
        sensor for (sensor, _), time in zip(names, last.tolist(), strict=True) if time != NEVER and sensor in several
    )
    merged: list[Alert] = []
    for (sensor, _, state, _), group in by_sensor.items():
        if state == "faulty" or len(group) < max(variables[sensor], 2):
            merged += group
            continue
        latest = max(group, key=lambda alert: alert.since)
        sentence = latest.sentence.replace(who(sensor, latest.variable), sensor, 1)
        merged.append(replace(latest, variable="", sentence=sentence, channels=_channels(group)))
    return merged


def one_per_incident(alerts: Sequence[Alert], max_gap: int) -> list[Alert]:
    """Merge the alerts of the same change into one alert that names all sensors.

    `max_gap` is the longest time between two consecutive changes of an incident, in microseconds.
    """
    groups: list[list[Alert]] = []
    for alert in sorted(alerts, key=lambda alert: (_change(alert), alert.since)):
        last = groups[-1][-1] if groups else None
        if last is not None and _change(last) == _change(alert) and alert.since - last.since <= max_gap:
            groups[-1].append(alert)
        else:
            groups.append([alert])
    incidents = [_incident(group) if len(group) > 1 else group[0] for group in groups]
    return sorted(incidents, key=lambda alert: (alert.sensor, alert.variable))


def _change(alert: Alert) -> tuple[str, str, str]:
    """Return the change that an alert reports; a fault that is withdrawn differs from one that is over."""
    return alert.state, alert.reason if alert.state == "healthy" else "", alert.id


def _channels(alerts: Sequence[Alert]) -> tuple[AlertedChannel, ...]:
    return tuple(channel for alert in alerts for channel in alert.channels)


def _incident(group: list[Alert]) -> Alert:
    """Return one alert for several channels."""
    group = sorted(group, key=lambda alert: (alert.sensor, alert.variable))
    first, since = group[0], min(alert.since for alert in group)
    names = [who(alert.sensor, alert.variable) for alert in group]
    shown = names if len(names) <= MOST_NAMED + 1 else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED:,} others"]
    subject = enumeration(shown)
    if len({alert.sensor for alert in group}) == 1:
        # Variables of one device: its name once.
        subject = f"{enumeration([alert.variable or 'value' for alert in group])} of {first.sensor}"
    reasons = Counter(alert.reason for alert in group if alert.reason)
    kinds = ", ".join(reason for reason, _ in reasons.most_common())
    sentence = {
        "silent": f"{subject} turned silent together: no reading since {readable(since)}",
        "faulty": f"{subject} turned faulty together, since {readable(since)} ({kinds})",
        "healthy": f"False alarms withdrawn: {subject} were fine; there are no faults since {readable(since)}"
        if kinds == WITHDRAWN
        else f"{subject} are healthy again, since {readable(since)}",
    }[first.state]
    variable = first.variable if len({alert.variable for alert in group}) == 1 else ""
    return replace(
        first, variable=variable, reason=max(reasons, key=lambda word: (reasons[word], word), default=""), since=since,
        sentence=sentence, channels=_channels(group),
    )  # fmt: skip
