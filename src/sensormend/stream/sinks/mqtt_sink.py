"""`MqttSink` publishes cleaned values and how each sensor is at a broker, `MqttAlerts` alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.stream.addresses import ALERTS, PREFIX, plain, topic_of
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink
from sensormend.stream.mqtt import Broker, DeniedError, MqttConnection, connect
from sensormend.stream.sinks.alert_sinks import AlertSink
from sensormend.stream.sinks.messages import alert_message, health_message, row_messages, text_of

__all__ = ["MqttAlerts", "MqttSink", "level"]

ANSWER_WITHIN = 20.0
"""Seconds to wait for a broker to let us in, and then for it to confirm anything at all of what was sent."""


def level(name: str) -> str:
    """Return a name as one level of a topic: what means something in topics, and controls, percent-encoded.

    Examples
    --------
    >>> level("roof"), level("Straße 5/3 #2"), level("100 %")
    ('roof', 'Straße 5%2F3 %232', '100 %25')
    """
    special = "%+#/"
    return "".join(
        one
        if one not in special and one.isprintable()
        else "".join(f"%{byte:02X}" for byte in one.encode("utf-8", "surrogatepass"))
        for one in name
    )


class MqttSink(Sink):
    """Publishes rows and how each sensor is.

    Each row goes to `PREFIX/cleaned/SENSOR` or, where the variable has a name, `PREFIX/cleaned/SENSOR/VARIABLE`, with
    `provisional` true or false; `level` says how names become levels. `PREFIX/health/...` is retained, and published
    when state, reason or since have changed since this process last did: a broker that forgot gets all of it at a
    restart. QoS 1: a delivery is done when the broker has confirmed every message.

    Parameters
    ----------
    broker
        Its address ends with the prefix, `sensormend` by default.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, broker: Broker) -> None:
        self._prefix = _topic(broker.address, PREFIX)
        self._publisher = _Publisher(broker)
        self._published: dict[tuple[str, str], tuple[str, str, int]] = {}

    def write(self, delivery: Delivery) -> None:
        """Publish it and wait for the broker."""
        messages: list[tuple[str, bytes, bool]] = []
        if delivery.rows is not None:
            provisional = delivery.kind == "provisional"
            messages += (
                (self._name("cleaned", sensor, variable), text_of(message), False)
                for sensor, variable, message in row_messages(delivery.rows, provisional=provisional)
            )
        changed = [one for one in delivery.health if self._published.get((one.sensor, one.variable)) != _state(one)]
        messages += (
            (self._name("health", one.sensor, one.variable), text_of(health_message(one)), True) for one in changed
        )
        self._publisher.publish(messages)
        self._published.update({(one.sensor, one.variable): _state(one) for one in changed})

    def close(self) -> None:
        """Leave the broker."""
        self._publisher.close()

    def _name(self, kind: str, sensor: str, variable: str) -> str:
        return "/".join([self._prefix, kind, level(sensor), *([level(variable)] if variable else [])])


class MqttAlerts(AlertSink):
    """Publishes each alert to one topic, the path of the address; `sensormend/alerts` by default. Not retained."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._topic = _topic(broker.address, ALERTS)
        self._publisher = _Publisher(broker)

    def send(self, alert: Alert) -> None:
        """Publish it and wait for the broker."""
        self._publisher.publish([(self._topic, text_of(alert_message(alert)), False)])

    def close(self) -> None:
        """Leave the broker."""
        self._publisher.close()


class _Publisher:
    """Publishes over a connection that is made when it is needed, and anew after anything went wrong with it."""

    def __init__(self, broker: Broker) -> None:
        _ = broker.context  # reports errors in the certificates now
        self._broker = broker
        self._connection: MqttConnection | None = None

    def publish(self, messages: Iterable[tuple[str, bytes, bool]]) -> None:
        """Publish messages (topic, payload, whether it is retained), and return when all are confirmed."""
        try:
            if self._connection is None or not self._connection.alive:
                self.close()
                self._connection = connect(self._broker, within=ANSWER_WITHIN)
            self._connection.publish(messages, within=ANSWER_WITHIN)
        except (OSError, ValueError, RuntimeError, DeniedError, RefusedError) as error:
            self.close()
            kind = RefusedError if isinstance(error, RefusedError) else SensormendError
            raise kind(f"{plain(self._broker.address)}: {str(error) or type(error).__name__}") from None

    def close(self) -> None:
        """Leave."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _topic(address: str, usual: str) -> str:
    topic = topic_of(address).strip("/") or usual
    if any(sign in topic for sign in "+#\0"):
        raise ConfigError(f"{plain(address)}: what is published goes to one place; a topic there has no + and no #")
    return topic


def _state(health: Health) -> tuple[str, str, int]:
    return health.state, health.reason, health.since
