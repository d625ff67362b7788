"""`HomeAssistant` makes the messages by which Home Assistant discovers each sensor, its state and its cleaned value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sensormend
from sensormend.pipeline.health import Health
from sensormend.pipeline.sentences import readable, who
from sensormend.pipeline.times import utc
from sensormend.readings import Rows
from sensormend.stream.deliveries import Delivery
from sensormend.stream.sinks.messages import AlertDetails, find_advice, json_bytes, row_messages, valid_text

__all__ = ["DISCOVERY", "OFFLINE", "ONLINE", "PROBLEMS", "HomeAssistant", "status_topic"]

DISCOVERY = "homeassistant"
"""The topic below which Home Assistant looks for devices, unless it is configured otherwise."""

PROBLEMS = ("faulty", "silent", "ended")
"""The states of a channel that are a problem: those that alerts report, and the end of a sensor."""

ONLINE, OFFLINE = b"online", b"offline"
"""What the topic of the status has."""

DEVICE_CLASSES = {
    "°C": "temperature", "°F": "temperature", "K": "temperature",
    "hPa": "pressure", "Pa": "pressure", "kPa": "pressure", "mbar": "pressure", "bar": "pressure",
    "lx": "illuminance", "V": "voltage", "mV": "voltage", "W": "power", "kW": "power", "A": "current",
    "Hz": "frequency", "ppm": "carbon_dioxide",
}  # fmt: skip
"""The classes of Home Assistant that a unit alone tells; a percentage may be a humidity or a battery."""


def status_topic(prefix: str) -> str:
    """Return the topic that says whether `watch` publishes; the broker itself says when it stops."""
    return f"{prefix}/status"


class HomeAssistant:
    """Keeps, for each channel, what was published to Home Assistant.

    Every channel is a device of its sensor with two entities: a `binary_sensor` of class `problem`, which is on while
    the channel is faulty, silent or ended and has the sentence of the alert as an attribute; and a `sensor` with the
    newest cleaned value. All messages are retained.

    Parameters
    ----------
    prefix
        The prefix of the sink's topics.
    topic
        Returns the topic of a kind of message about a channel.
    """

    def __init__(self, prefix: str, topic: Callable[[str, str, str], str], details: AlertDetails) -> None:
        self._prefix, self._topic, self._details = prefix, topic, details
        self._newest: dict[tuple[str, str], int] = {}
        self._states: dict[tuple[str, str], tuple[str, str, int]] = {}
        # The state of the last alert of a channel, whose sentence says more than one made of the state.
        self._alerted: dict[tuple[str, str], str] = {}
        self._open: list[tuple[dict[Any, Any], dict[Any, Any]]] = []

    def messages(self, delivery: Delivery) -> Iterator[tuple[str, bytes, bool]]:
        """Yield topic, payload and whether it is retained, for a delivery; `published` ends it."""
        self._open = []
        yield from self._alerts(delivery)
        yield from self._health(delivery)
        if delivery.rows is not None:
            yield from self._values(delivery.rows, provisional=delivery.kind == "provisional")

    def published(self) -> None:
        """Record that the broker has taken the messages of the last delivery."""
        for known, changed in self._open:
            known |= changed
        self._open = []

    def _alerts(self, delivery: Delivery) -> Iterator[tuple[str, bytes, bool]]:
        alerted = {}
        for alert in delivery.alerts:
            attributes = {
                "sentence": alert.sentence,
                "advice": find_advice(alert),
                "state": alert.state,
                "reason": alert.reason,
                "since": utc(alert.since),
                "url": self._details.link(alert),
            }
            for channel in alert.channels:
                names = (channel.sensor, channel.variable)
                alerted[names] = alert.state
                yield self._topic("problem", *names), json_bytes(attributes), True
        self._open.append((self._alerted, alerted))

    def _health(self, delivery: Delivery) -> Iterator[tuple[str, bytes, bool]]:
        states: dict[tuple[str, str], tuple[str, str, int]] = {}
        for health in delivery.health:
            names = (health.sensor, health.variable)
            if names not in self._states:
                yield from self._discovery(*names)
            state = (health.state, health.reason, health.since)
            if self._states.get(names) == state:
                continue
            # After a restart the broker still has the sentence of an alert.
            restarted = names not in self._states and health.state in PROBLEMS
            if not restarted and self._alerted.get(names) != health.state:
                yield self._topic("problem", *names), json_bytes(_attributes(health)), True
            states[names] = state
        self._open.append((self._states, states))

    def _values(self, rows: Rows, *, provisional: bool) -> Iterator[tuple[str, bytes, bool]]:
        """Yield the newest row of each channel that is newer than the last one."""
        last = rows.taken(np.array([own[-1] for _, _, own in rows.channels()], dtype=np.intp))
        newest: dict[tuple[str, str], int] = {}
        pairs = zip(last.time.tolist(), row_messages(last, provisional=provisional), strict=True)
        for time, (sensor, variable, message) in pairs:
            if time >= self._newest.get((sensor, variable), time):
                newest[sensor, variable] = time
                yield self._topic("latest", sensor, variable), json_bytes(message), True
        self._open.append((self._newest, newest))

    def _discovery(self, sensor: str, variable: str) -> Iterator[tuple[str, bytes, bool]]:
        name, key = valid_text(variable) or "value", _key(self._prefix, sensor, variable)
        common = {
            "availability_topic": status_topic(self._prefix),
            "device": {
                "identifiers": [f"sensormend_{_key(self._prefix, sensor)}"],
                "name": valid_text(sensor) or "sensor",
                "manufacturer": "sensormend",
            },
            "origin": {"name": "sensormend", "sw_version": sensormend.__version__},
        }
        problems = ", ".join(f"'{state}'" for state in PROBLEMS)
        problem = {
            "name": f"{name} problem",
            "unique_id": f"sensormend_{key}_problem",
            "device_class": "problem",
            "entity_category": "diagnostic",
            "state_topic": self._topic("health", sensor, variable),
            "value_template": f"{{{{ 'ON' if value_json.state in [{problems}] else 'OFF' }}}}",
            "json_attributes_topic": self._topic("problem", sensor, variable),
            **common,
        }
        yield f"{DISCOVERY}/binary_sensor/sensormend_{key}/config", json_bytes(problem), True
        unit = self._details.unit(variable)
        value = {
            "name": f"{name} cleaned",
            "unique_id": f"sensormend_{key}_cleaned",
            "state_class": "measurement",
            "state_topic": self._topic("latest", sensor, variable),
            "value_template": "{{ value_json.cleaned }}",
            "json_attributes_topic": self._topic("latest", sensor, variable),
            **({"unit_of_measurement": unit} if unit else {}),
            **({"device_class": DEVICE_CLASSES[unit]} if unit in DEVICE_CLASSES else {}),
            **common,
        }
        yield f"{DISCOVERY}/sensor/sensormend_{key}/config", json_bytes(value), True


def _attributes(health: Health) -> dict[str, Any]:
    """Return the attributes of a state that had no alert."""
    reason = f" ({health.reason})" if health.reason else ""
    return {
        "sentence": f"{who(health.sensor, health.variable)} is {health.state}{reason} since {readable(health.since)}",
        "advice": None,
        "state": health.state,
        "reason": health.reason,
        "since": utc(health.since),
        "url": None,
    }


def _key(*names: str) -> str:
    """Return a name of letters and digits, the same after a restart; topics of discovery have no others."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:16]
