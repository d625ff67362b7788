"""`MqttSink` publishes rows and the health of sensors at a broker, `MqttAlerts` alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import ALERTS, PREFIX, parse_topic, plain
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink
from sensormend.stream.mqtt import CLOSE_WITHIN, Broker, DeniedError, MqttConnection, connect
from sensormend.stream.sinks.alert_sinks import AlertSink
from sensormend.stream.sinks.home_assistant import OFFLINE, ONLINE, HomeAssistant, status_topic
from sensormend.stream.sinks.messages import (
    NO_DETAILS,
    AlertDetails,
    ChangedHealth,
    alert_message,
    health_message,
    json_bytes,
    row_messages,
)

__all__ = ["MqttAlerts", "MqttSink", "topic_level"]

ANSWER_WITHIN = 20.0
"""Seconds for the broker to accept a connection, and then to confirm any of the messages."""


def topic_level(name: str) -> str:
    """Return a name as one level of a topic: special and unprintable characters are percent-encoded.

    Examples
    --------
    >>> topic_level("roof"), topic_level("Straße 5/3 #2"), topic_level("100 %")
    ('roof', 'Straße 5%2F3 %232', '100 %25')
    """
    return "".join(
        letter
        if letter not in "%+#/" and letter.isprintable()
        else "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in name
    )


class MqttSink(Sink):
    """Publishes rows and the health of sensors.

    The address of the broker ends with the prefix, `sensormend` by default. Each row goes to `PREFIX/cleaned/SENSOR`
    or, where the variable has a name, `PREFIX/cleaned/SENSOR/VARIABLE`, with `provisional` true or false; names are
    encoded by `topic_level`. `PREFIX/health/...` is retained, and published when state, reason or since have changed,
    and once after a restart. QoS 1: a delivery is done when the broker has confirmed every message.

    For Home Assistant there are further topics, also retained: `PREFIX/latest/...` is the newest row,
    `PREFIX/problem/...` the sentence about a fault, and `PREFIX/status` is `online` or `offline`.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, broker: Broker, *, home_assistant: bool = False, details: AlertDetails = NO_DETAILS) -> None:
        self._prefix = _base_topic(broker.address, PREFIX)
        self._home = HomeAssistant(self._prefix, self._topic, details) if home_assistant else None
        self._publisher = _Publisher(broker, status_topic(self._prefix) if home_assistant else None)
        if home_assistant:
            self.kinds = (*self.kinds, "alert")
        self._health = ChangedHealth()

    def write(self, delivery: Delivery) -> None:
        """Publish a delivery and wait for the broker."""
        messages: list[tuple[str, bytes, bool]] = []
        if delivery.rows is not None:
            provisional = delivery.kind == "provisional"
            messages += (
                (self._topic("cleaned", sensor, variable), json_bytes(message), False)
                for sensor, variable, message in row_messages(delivery.rows, provisional=provisional)
            )
        for health in self._health.of(delivery.health):
            topic = self._topic("health", health.sensor, health.variable)
            messages.append((topic, json_bytes(health_message(health)), True))
        if self._home is not None:
            messages += self._home.messages(delivery)
        self._publisher.publish(messages)
        self._health.written()
        if self._home is not None:
            self._home.published()

    def close(self) -> None:
        """Close the connection."""
        self._publisher.close()

    def _topic(self, kind: str, sensor: str, variable: str) -> str:
        return "/".join([self._prefix, kind, *map(topic_level, [sensor, variable] if variable else [sensor])])


class MqttAlerts(AlertSink):
    """Publishes each alert to one topic, the path of the address; `sensormend/alerts` by default. Not retained."""

    def __init__(self, broker: Broker, *, details: AlertDetails = NO_DETAILS) -> None:
        super().__init__(details)
        self._topic = _base_topic(broker.address, ALERTS)
        self._publisher = _Publisher(broker)

    def send(self, alert: Alert) -> None:
        """Publish an alert and wait for the broker."""
        self._publisher.publish([(self._topic, json_bytes(alert_message(alert, self.details)), False)])

    def close(self) -> None:
        """Close the connection."""
        self._publisher.close()


class _Publisher:
    """Publishes over a connection that is opened on first use, and again after an error.

    A topic for the status says whether it is open; the broker itself publishes there when the connection is lost.
    """

    def __init__(self, broker: Broker, status: str | None = None) -> None:
        _ = broker.context  # reports errors in the certificates now
        self._broker, self._status = broker, status
        self._connection: MqttConnection | None = None

    def publish(self, messages: Iterable[tuple[str, bytes, bool]]) -> None:
        """Publish messages (topic, payload, whether it is retained), and return when all are confirmed."""
        try:
            if self._connection is None or not self._connection.alive:
                self.close()
                will = None if self._status is None else (self._status, OFFLINE)
                self._connection = connect(self._broker, within=ANSWER_WITHIN, will=will)
                if self._status is not None:
                    self._connection.publish([(self._status, ONLINE, True)], within=ANSWER_WITHIN)
            self._connection.publish(messages, within=ANSWER_WITHIN)
        except (OSError, ValueError, RuntimeError, DeniedError, RefusedError) as error:
            self.close()
            kind = RefusedError if isinstance(error, RefusedError) else SensormendError
            raise kind(f"{plain(self._broker.address)}: {str(error) or type(error).__name__}") from None

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._status is not None and connection.alive:
                # The broker publishes the will only for a connection that ends without a word.
                with suppress(OSError, ValueError, RuntimeError, RefusedError):
                    connection.publish([(self._status, OFFLINE, True)], within=CLOSE_WITHIN)
            connection.close()


def _base_topic(address: str, default: str) -> str:
    topic = parse_topic(address).strip("/") or default
    if any(wildcard in topic for wildcard in "+#\0"):
        raise ConfigError(f"{plain(address)}: what is published goes to one place; a topic there has no + and no #")
    return topic
