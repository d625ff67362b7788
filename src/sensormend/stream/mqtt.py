"""`MqttConnection` is one connection to a broker, for the source that subscribes and for the sinks that publish.

A thread of paho drives it through paho's public interface, with manual acknowledgement. `benchmarks/mqtt_speed.py`
measures how many messages per second it takes.
"""

from __future__ import annotations

import socket as sockets
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import parse_host, plain

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode
    from paho.mqtt.subscribeoptions import SubscribeOptions
except ImportError:
    raise SensormendError("MQTT needs paho-mqtt: install it with pip install 'sensormend[live]'") from None

__all__ = ["CLOSE_WITHIN", "Broker", "DeniedError", "Message", "MqttConnection", "Subscription", "connect"]

KEEP_ALIVE = 30
"""Seconds without a packet after which a ping is sent; after twice that time the connection counts as lost."""

CONNECT_WITHIN = 10.0
"""Seconds for each step of connecting."""

LARGEST_PACKET = 64 << 20
"""The maximum number of bytes of a packet. It exceeds the limit for a message, so that a message that is too large is
refused with a reason; the broker does not send anything larger."""

MOST_MESSAGES, LARGEST_GROUP = 5000, 4 << 20
"""The numbers of messages and of bytes that are held until they are taken; once either is reached, nothing more is
read."""

IN_FLIGHT = 200
"""The number of messages that are published before the first one is confirmed. A broker on the same machine takes
11,000 per second with 20 as with 200; one at a distance of 50 ms would take 400 per second with 20."""

CLOSE_WITHIN = 1.0
"""Seconds to send the last acknowledgements, and for the broker to close a connection after our DISCONNECT."""

UNSUPPORTED_VERSION = 132
"""The reason code of a broker that does not support MQTT 5; others just close the connection."""

_FOREVER = 0xFFFFFFFF


class Message(NamedTuple):
    """A received message; `number` is 0 where it needs no acknowledgement."""

    number: int
    topic: str
    payload: bytes
    retained: bool


class DeniedError(Exception):
    """The broker denies access: a wrong password, or a topic without permission."""


class _OldBrokerError(Exception):
    """The broker does not support MQTT 5, or closed the connection on it."""


@dataclass
class Broker:
    """The address of a broker and the login there.

    Attributes
    ----------
    address
        `mqtt://` or `mqtts://`; user and password in it are not used.
    user, password
        The login.
    ca
        Certificates to trust in place of those that the system trusts.
    modern
        Whether it supports MQTT 5, which limits the messages in flight and reports a refused publication; with 3.1.1 a
        message that may not be published is confirmed and lost.
    """

    address: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    modern: bool = True

    def __post_init__(self) -> None:
        self.tls = self.address.startswith("mqtts://")
        try:
            where = urlsplit(f"//{parse_host(self.address)}")
            host, port = where.hostname, where.port
        except ValueError:
            host = port = None
        if not host:
            raise ConfigError(f"{plain(self.address)} is not an address of a broker: it is like mqtt://host:1883/topic")
        self.host, self.port = host, port or (8883 if self.tls else 1883)

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """The trusted certificates; None without TLS."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ca: {self.ca} holds no certificates that can be read: {error}") from None
        context.sslsocket_class = _ClosingSocket
        return context


@dataclass(frozen=True)
class Subscription:
    """A session at the broker and its topics.

    Attributes
    ----------
    client_id
        The identifier of the session.
    topics
        The topic filters.
    in_flight
        Most messages that the broker sends before an acknowledgement.
    former
        Topics of earlier subscriptions; those that are not in `topics` are unsubscribed.
    lasting
        Whether the broker keeps the session, and the messages for it, while there is no connection.
    """

    client_id: str
    topics: Sequence[str]
    in_flight: int = 1000
    former: Sequence[str] = ()
    lasting: bool = True


class _ClosingSocket(ssl.SSLSocket):
    """A socket that is closed when the handshake fails; paho leaves it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def connect(
    broker: Broker,
    subscription: Subscription | None = None,
    *,
    within: float = CONNECT_WITHIN,
    will: tuple[str, bytes] | None = None,
) -> MqttConnection:
    """Connect, with 3.1.1 if the broker does not support MQTT 5; see `MqttConnection`."""
    try:
        return MqttConnection(broker, subscription, modern=broker.modern, within=within, will=will)
    except _OldBrokerError:
        connection = MqttConnection(broker, subscription, modern=False, within=within, will=will)
        broker.modern = False
        return connection


class MqttConnection:
    """One connection to a broker, which a thread of paho drives and keeps alive.

    With a subscription its messages are taken and acknowledged; without one messages are published. All methods may be
    called from any thread. If a step of connecting fails or takes longer than `within` seconds, that is an `OSError` or
    a `DeniedError`. The broker publishes the `will`, a topic and a payload to retain, when the connection ends without
    a DISCONNECT.

    Attributes
    ----------
    ended
        Why the connection has ended; empty while it has not.
    """

    def __init__(
        self,
        broker: Broker,
        subscription: Subscription | None,
        *,
        modern: bool,
        within: float,
        will: tuple[str, bytes] | None = None,
    ) -> None:
        self._modern = modern
        self._changed = threading.Condition()
        self._answer: ReasonCode | None = None
        self._granted: list[ReasonCode] | None = None
        self._arrived: list[Message] = []
        self._size = 0
        self._confirmed = 0
        self._denied: ReasonCode | None = None
        self._closing = False
        self.ended = ""
        self._client = self._make_client(broker, subscription)
        if will is not None:
            self._client.will_set(*will, qos=1, retain=True)
        try:
            self._open_session(broker, subscription, within)
            if subscription is not None:
                self._subscribe(subscription, within)
        except BaseException:
            self.close()
            raise

    def _make_client(self, broker: Broker, subscription: Subscription | None) -> paho.Client:
        arguments: dict[str, Any] = {"protocol": paho.MQTTv5 if self._modern else paho.MQTTv311}
        if subscription is not None:
            # Without a subscription each connection has a new identifier: the sink repeats what was not confirmed.
            arguments["client_id"] = subscription.client_id
            if not self._modern:
                arguments["clean_session"] = not subscription.lasting
        client = paho.Client(CallbackAPIVersion.VERSION2, manual_ack=True, reconnect_on_failure=False, **arguments)
        if broker.user is not None or (subscription is None and broker.password is not None):
            client.username_pw_set(broker.user or "", broker.password)
        if broker.context is not None:
            client.tls_set_context(broker.context)
        client.connect_timeout = CONNECT_WITHIN
        client.max_inflight_messages_set(IN_FLIGHT)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        client.on_socket_close = self._on_socket_close
        return client

    def _open_session(self, broker: Broker, subscription: Subscription | None, within: float) -> None:
        session: dict[str, Any] = {}
        if self._modern and subscription is not None:
            properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = _FOREVER if subscription.lasting else 0
            properties.ReceiveMaximum = subscription.in_flight
            properties.MaximumPacketSize = LARGEST_PACKET
            session = {"clean_start": not subscription.lasting, "properties": properties}
        self._client.connect(broker.host, broker.port, KEEP_ALIVE, **session)
        self._client.loop_start()
        self._wait(lambda: self._answer is not None, within)
        answer = self._answer
        # A source also takes silence for it: else it would try with the version that is ignored for ever.
        ignored = self.ended or subscription is not None
        if self._modern and (ignored if answer is None else answer.value == UNSUPPORTED_VERSION):
            raise _OldBrokerError
        if answer is None:
            raise self._no_answer(within)
        if answer.is_failure:
            raise DeniedError(f"the broker says {str(answer).lower()!r}")

    def _subscribe(self, subscription: Subscription, within: float) -> None:
        client = self._client
        # A session keeps all of its subscriptions, also those that are no longer wanted.
        unwanted = [topic for topic in subscription.former if topic not in subscription.topics]
        if unwanted:
            client.unsubscribe(unwanted)
        # Retained messages are sent only to a new subscription: after a restart they were seen before.
        options: Any = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, options if self._modern else 1) for topic in subscription.topics])
        # A session with waiting messages has its subscriptions: the messages may come before the answer, up to the
        # number that is held.
        self._wait(lambda: self._granted is not None or self._is_full(), within)
        if self._granted is None and not self._arrived:
            raise self._no_answer(within)
        granted = zip(subscription.topics, self._granted or (), strict=False)
        refused = [topic for topic, code in granted if code.is_failure]
        if refused:
            raise DeniedError(f"the broker does not let us read {', '.join(refused)}")

    def _no_answer(self, within: float) -> ConnectionError:
        if not self.ended:
            return ConnectionError(f"the broker has not answered for {within:g} s")
        return ConnectionError(f"the broker has closed the connection: {self.ended}")

    def _wait(self, done: Callable[[], bool], within: float) -> bool:
        """Wait until `done` or the end of the connection, for at most `within` seconds; return whether it is done."""
        with self._changed:
            self._changed.wait_for(lambda: done() or self.ended, within)
            return done()

    @property
    def alive(self) -> bool:
        """Whether the connection is not known to have ended."""
        return not self.ended

    def take(self, wait: float) -> list[Message]:
        """Return the messages that have come; wait for the first one, unless the connection has ended."""
        self._wait(lambda: bool(self._arrived), wait)
        with self._changed:
            taken, self._arrived, self._size = self._arrived, [], 0
            self._changed.notify_all()
        return taken

    def acknowledge(self, messages: Iterable[Message]) -> None:
        """Acknowledge these messages: the broker may delete them. Those of a lost connection it sends again."""
        for message in messages:
            if message.number and not self.ended:
                self._client.ack(message.number, 1)

    def publish(self, messages: Iterable[tuple[str, bytes, bool]], *, within: float) -> None:
        """Publish messages (topic, payload, whether it is retained), and return when all are confirmed.

        It raises an `OSError` if the connection is lost or the broker confirms nothing for `within` seconds, and a
        `RefusedError` if a message is invalid or the broker refuses it.
        """
        start, count, self._denied = self._confirmed, 0, None
        for topic, payload, retain in messages:
            self._wait_confirmed(start + count + 1 - IN_FLIGHT, within)
            try:
                sent = self._client.publish(topic, payload, qos=1, retain=retain)
            except ValueError as error:
                # A topic has 65,535 bytes at most.
                raise RefusedError(f"{topic[:60]!r} cannot be published: {error}") from None
            if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise ConnectionError(paho.error_string(sent.rc))
            count += 1
        self._wait_confirmed(start + count, within)
        if self._denied is not None:
            raise RefusedError(f"the broker does not take it: {self._denied}")

    def _wait_confirmed(self, number: int, within: float) -> None:
        """Wait until so many messages are confirmed; each confirmation restarts the timeout."""
        while (before := self._confirmed) < number:
            if not self._wait(lambda before=before: self._confirmed > before, within):  # type: ignore[misc]
                raise self._no_answer(within)

    def close(self) -> None:
        """Disconnect; the broker stores the messages from now on."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        socket: Any = self._client.socket()
        if socket is not None:
            self._client.disconnect()
            self._wait(lambda: False, CLOSE_WITHIN)
            if not self.ended:
                # The broker reads nothing more, and the thread would wait for it.
                with suppress(OSError):
                    socket.shutdown(sockets.SHUT_RDWR)
        client = self._client
        client.loop_stop()
        # paho closes the pair of sockets that wakes its thread when the client is deleted. As long as the client calls
        # us, the two hold each other until Python looks for such circles, which a service of years does too rarely.
        client.on_connect = client.on_subscribe = client.on_message = None
        client.on_publish = client.on_disconnect = client.on_socket_close = None

    def _is_full(self) -> bool:
        return len(self._arrived) >= MOST_MESSAGES or self._size >= LARGEST_GROUP

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self._answer = reason
            self._changed.notify_all()

    def _on_subscribe(self, client: Any, userdata: Any, number: int, granted: list[ReasonCode], more: Any) -> None:
        with self._changed:
            self._granted = granted
            self._changed.notify_all()

    def _on_message(self, client: Any, userdata: Any, message: paho.MQTTMessage) -> None:
        """Hold a message until it is taken; a message that comes while the connection is closed comes again."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = "\ufffd"
        payload = bytes(message.payload)
        with self._changed:
            self._changed.wait_for(lambda: self._closing or not self._is_full())
            self._arrived.append(Message(message.mid if message.qos else 0, topic, payload, message.retain))
            self._size += len(payload)
            if len(self._arrived) == 1 or self._is_full():
                self._changed.notify_all()

    def _on_publish(self, client: Any, userdata: Any, number: int, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self._confirmed += 1
            self._denied = reason if reason.is_failure else self._denied
            self._changed.notify_all()

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self.ended = self.ended or str(reason).lower() or "disconnected"
            self._changed.notify_all()

    def _on_socket_close(self, client: Any, userdata: Any, socket: Any) -> None:
        """Read to the end before paho closes the socket.

        A socket that is closed with unread data resets the connection: the broker could lose our last
        acknowledgements, and would send those messages again.
        """
        end = time.monotonic() + CLOSE_WITHIN
        with suppress(OSError, ValueError):
            while self._closing and (remaining := end - time.monotonic()) > 0:
                socket.settimeout(remaining)
                if not socket.recv(65536):
                    return
