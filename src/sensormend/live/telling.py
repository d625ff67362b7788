"""What an alert says to a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from sensormend.flags import REASONS
from sensormend.live.deliveries import Alert
from sensormend.mending import NEVER
from sensormend.readings import SECOND, Rows
from sensormend.recovery import BoolArray
from sensormend.sentences import gather, how_long, how_often, measured, too_far

__all__ = ["Evidence", "evidence", "faulty_sentence", "joined", "readable", "silent_sentence", "well_sentence", "who"]


@dataclass
class Evidence:
    """What the faulty periods of a channel told.

    Attributes
    ----------
    reasons
        How many readings each reason had.
    count, value, distance, square, farthest
        What its wrong readings add up to, as `Figures` has it.
    """

    reasons: dict[str, int]
    count: int
    value: float
    distance: float
    square: float
    farthest: float

    @property
    def reason(self) -> str:
        """The reason that most of the readings had."""
        return max(self.reasons, key=lambda word: (self.reasons[word], word), default="")

    def takes(self, later: Evidence) -> None:
        """Take in what a later period told."""
        for word, count in later.reasons.items():
            self.reasons[word] = self.reasons.get(word, 0) + count
        gather(self, later)


def evidence(rows: Rows, mine: slice, wrong: BoolArray) -> Evidence:
    """Add up the wrong readings of a channel's period."""
    codes, counts = np.unique(rows.reason[mine][wrong], return_counts=True)
    value, cleaned = rows.value[mine][wrong], rows.cleaned[mine][wrong]
    distance = np.nan_to_num(value - cleaned)
    return Evidence(
        {REASONS[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)},
        count=int(value.size),
        value=float(np.nansum(value)),
        distance=float(distance.sum()),
        square=float((distance**2).sum()),
        farthest=float(distance[np.abs(distance).argmax()]),
    )


def readable(time: int) -> str:
    """Write a time as people read it.

    Examples
    --------
    >>> readable(1714521600_000000)
    '2024-05-01 00:00'
    """
    try:
        return datetime.fromtimestamp(time // SECOND, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def who(sensor: str, variable: str) -> str:
    """Name a channel.

    Examples
    --------
    >>> who("S12", "pm25")
    'S12 pm25'
    """
    return f"{sensor} {variable}".strip()


def faulty_sentence(name: str, found: Evidence, since: int, *, again: bool = False) -> str:
    """Say that a sensor turned faulty, or that it is when it is heard again."""
    read = measured(found)
    when = f"since {readable(since)}"
    told = {
        "stuck": f"it has stood still near {read.level} {when}, while the network moved",
        "offset": f"it has read {read.off} {read.side} what the network expects {when}",
        "drifting": f"it has drifted away from what the network expects {when}, by up to {read.farthest}",
        "noisy": f"it has scattered by {read.scatter} around what the network expects {when}",
        "gain": f"it has moved more or less than the network lets expect {when}, by up to {read.farthest}",
        "implausible": f"it has read {read.level} on average {when}, {too_far(found, 'the network expects')}",
    }
    plain = f"it has been {read.scatter} off what the network expects {when}"
    why = f" ({found.reason})" if found.reason else ""
    turned = "is heard again, but faulty" if again else "turned faulty"
    return f"{name} {turned}: {told.get(found.reason, plain)}{why}"


def silent_sentence(name: str, last: int, usual: int | None, others: int) -> str:
    """Say that a sensor fell silent, and how many others did at the same time."""
    together = f", with {others} other{'s' if others > 1 else ''} at the same time" if others else ""
    known = f"; it is usually heard at least {how_often(usual)}" if usual else ""
    return f"{name} turned silent{together}: no reading since {readable(last)}{known}"


def well_sentence(name: str, before: str, reason: str, begun: int, since: int) -> str:
    """Say that a sensor is well again.

    Parameters
    ----------
    name, before, reason
        Who, what it was, and why.
    begun
        From when on it was so.
    since
        From when on it is well.
    """
    lasted = how_long(max(since - begun, SECOND))
    if before == "silent":
        return f"{name} is well again: it has been heard since {readable(since)}, after {lasted} of silence"
    why = f" ({reason})" if reason else ""
    return (
        f"{name} is well again: it has agreed with the network since {readable(since)}, after {lasted} of a fault{why}"
    )


def joined(alerts: list[Alert], names: Sequence[tuple[str, str]], last: NDArray[np.int64]) -> list[Alert]:
    """Make one alert, without a variable, of those of a sensor all of whose variables say the same."""
    by_sensor: dict[tuple[str, str, str], list[Alert]] = {}
    for alert in alerts:
        by_sensor.setdefault((alert.sensor, alert.before, alert.state), []).append(alert)
    if len(by_sensor) == len(alerts):
        return alerts
    several = {sensor for (sensor, _, _), told in by_sensor.items() if len(told) > 1}
    heard = (sensor for (sensor, _), time in zip(names, last.tolist(), strict=True) if time != NEVER)
    variables = Counter(sensor for sensor in heard if sensor in several)
    fewer: list[Alert] = []
    for (sensor, _, state), told in by_sensor.items():
        if state == "faulty" or len(told) < max(variables[sensor], 2):
            fewer += told
            continue
        latest = max(told, key=lambda alert: alert.since)
        sentence = latest.sentence.replace(who(sensor, latest.variable), sensor, 1)
        fewer.append(replace(latest, variable="", sentence=sentence))
    return fewer
