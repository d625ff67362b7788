"""Results to an MQTT broker: cleaned values, how each sensor is, alerts."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.stream.addresses import ALERTS, PREFIX, host_of, login_of, plain, topic_of
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink
from sensormend.stream.sinks.alerts import AlertSink
from sensormend.stream.sinks.messages import alert_message, health_message, row_messages, text_of

__all__ = ["Broker", "MqttAlerts", "MqttSink", "level"]

PATIENCE = 20.0
"""Seconds to wait for a broker to let us in, and then for it to confirm anything at all of what was sent."""

OLD = 132
"""What a broker answers that does not know MQTT 5; others just hang up."""

IN_FLIGHT = 200
"""Messages that are sent before one is confirmed. With a broker on the same machine it is 11,000 per second with 20 as
with 200; with one that is 50 ms away, 20 would let through 400 per second."""

Message = tuple[str, bytes, bool]
"""Topic, payload, whether it is retained."""


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


@dataclass(frozen=True)
class Broker:
    """Where a broker is and who we are to it.

    Attributes
    ----------
    address
        `mqtt://` or `mqtts://`, perhaps with user and password.
    user, password
        For an address without them.
    ca
        Certificates to trust in place of those that the system trusts.
    """

    address: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None

    @property
    def login(self) -> tuple[str | None, str | None]:
        """User and password."""
        user, password = login_of(self.address)
        if user is None:
            return self.user, self.password
        return user, password if password is not None else self.password if user == self.user else None


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
        self._link = _Link(broker)
        self._told: dict[tuple[str, str], tuple[str, str, int]] = {}

    def write(self, delivery: Delivery) -> None:
        """Publish it and wait for the broker."""
        messages: list[Message] = []
        if delivery.rows is not None:
            provisional = delivery.kind == "provisional"
            messages += (
                (self._name("cleaned", sensor, variable), text_of(message), False)
                for sensor, variable, message in row_messages(delivery.rows, provisional=provisional)
            )
        changed = [one for one in delivery.health if self._told.get((one.sensor, one.variable)) != _state(one)]
        messages += (
            (self._name("health", one.sensor, one.variable), text_of(health_message(one)), True) for one in changed
        )
        self._link.publish(messages)
        self._told.update({(one.sensor, one.variable): _state(one) for one in changed})

    def close(self) -> None:
        """Leave the broker."""
        self._link.close()

    def _name(self, room: str, sensor: str, variable: str) -> str:
        return "/".join([self._prefix, room, level(sensor), *([level(variable)] if variable else [])])


class MqttAlerts(AlertSink):
    """Publishes each alert to one topic, the path of the address; `sensormend/alerts` by default. Not retained."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._topic = _topic(broker.address, ALERTS)
        self._link = _Link(broker)

    def send(self, alert: Alert) -> None:
        """Publish it and wait for the broker."""
        self._link.publish([(self._topic, text_of(alert_message(alert)), False)])

    def close(self) -> None:
        """Leave the broker."""
        self._link.close()


class _Link:
    """A connection that is made when it is needed, and made anew after anything went wrong with it."""

    def __init__(self, broker: Broker) -> None:
        self._mqtt = _paho()
        self._broker = broker
        self._shown = plain(broker.address)
        self._tls = broker.address.startswith("mqtts://")
        try:
            where = urlsplit(f"//{host_of(broker.address)}")
            self._host, port = where.hostname, where.port
        except ValueError:
            raise ConfigError(f"{self._shown} is no address of a broker") from None
        if not self._host:
            raise ConfigError(f"{self._shown} is no address of a broker: mqtt://host:1883/prefix")
        self._port = port or (8883 if self._tls else 1883)
        self._context = self._trust() if self._tls else None
        self._client: Any = None
        self._news = threading.Condition()
        self._answer: Any = None
        self._gone = False
        self._confirmed = 0
        # Only MQTT 5 says that somebody may not publish somewhere; before it such a message was confirmed and gone.
        self._modern = True
        self._denied: Any = None

    def publish(self, messages: Iterable[Message]) -> None:
        """Publish, and return when all is confirmed."""
        try:
            if self._client is None or self._gone:
                self.close()
                self._connect()
            start, count, self._denied = self._confirmed, 0, None
            for topic, payload, retain in messages:
                self._wait(lambda: self._confirmed - start > count - IN_FLIGHT)  # noqa: B023
                sent = self._sent(topic, payload, retain=retain)
                if sent.rc != self._mqtt.MQTT_ERR_SUCCESS:
                    raise SensormendError(f"{self._shown}: {self._mqtt.error_string(sent.rc)}")
                count += 1
            self._wait(lambda: self._confirmed - start >= count)
            if self._denied is not None:
                raise RefusedError(f"{self._shown}: the broker does not take it: {self._denied}")
        except SensormendError:
            self.close()
            raise
        except (OSError, ValueError, RuntimeError) as error:
            self.close()
            raise SensormendError(f"{self._shown}: {error or type(error).__name__}") from None

    def close(self) -> None:
        """Leave."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _sent(self, topic: str, payload: bytes, *, retain: bool) -> Any:
        try:
            return self._client.publish(topic, payload, qos=1, retain=retain)
        except ValueError as error:
            # No broker could take it: a topic has 65,535 bytes at most.
            raise RefusedError(f"{self._shown}: {topic[:60]!r} cannot be published: {error}") from None

    def _connect(self) -> None:
        try:
            self._try()
        except SensormendError:
            if not self._modern or not (self._gone or (self._answer is not None and self._answer.value == OLD)):
                raise
            self.close()
            self._modern = False
            self._try()

    def _try(self) -> None:
        mqtt = self._mqtt
        protocol = mqtt.MQTTv5 if self._modern else mqtt.MQTTv311
        # A name for each connection: a session of ours at the broker would keep what we send again anyway.
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=protocol, reconnect_on_failure=False)
        user, password = self._broker.login
        if user is not None or password is not None:
            client.username_pw_set(user or "", password)
        if self._context is not None:
            client.tls_set_context(self._context)
        client.max_inflight_messages_set(IN_FLIGHT)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        with self._news:
            self._answer, self._gone, self._confirmed = None, False, 0
        client.connect(self._host, self._port, keepalive=30)
        self._client = client
        client.loop_start()
        self._wait(lambda: self._answer is not None)
        if self._answer.is_failure:
            raise SensormendError(f"{self._shown}: the broker says: {self._answer}")

    def _wait(self, done: Any) -> None:
        """Wait for something; as long as the broker confirms anything there is hope."""
        with self._news:
            seen, end = self._confirmed, time.monotonic() + PATIENCE
            while not done():
                if self._gone:
                    raise SensormendError(f"{self._shown}: the broker has closed the connection")
                if self._confirmed > seen:
                    seen, end = self._confirmed, time.monotonic() + PATIENCE
                left = end - time.monotonic()
                if left <= 0:
                    raise SensormendError(f"{self._shown}: the broker has not answered for {PATIENCE:.0f} s")
                self._news.wait(left)

    def _trust(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._broker.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ca: {self._broker.ca} holds no certificates that can be read: {error}") from None
        context.sslsocket_class = _Socket
        return context

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._news:
            self._answer = reason
            self._news.notify_all()

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._news:
            self._gone = True
            self._news.notify_all()

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        with self._news:
            self._confirmed += 1
            self._denied = reason if reason.is_failure else self._denied
            self._news.notify_all()


class _Socket(ssl.SSLSocket):
    """A socket that is closed when the other side cannot be trusted; paho leaves it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def _topic(address: str, usual: str) -> str:
    topic = topic_of(address).strip("/") or usual
    if any(sign in topic for sign in "+#\0"):
        raise ConfigError(f"{plain(address)}: what is published goes to one place; a topic there has no + and no #")
    return topic


def _state(health: Health) -> tuple[str, str, int]:
    return health.state, health.reason, health.since


def _paho() -> Any:
    try:
        import paho.mqtt.client as mqtt
    except ImportError:
        raise SensormendError("MQTT needs paho-mqtt: install it with pip install 'sensormend[live]'") from None
    return mqtt
