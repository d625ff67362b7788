"""`MqttConnection` is one connection to a broker, for the source that subscribes and for the sinks that publish.

Of messages of 50 bytes at QoS 1, 1,000 in flight, paho's own loop takes 16,000 per second with MQTT 5, where it creates
an object of properties for each, and 22,000 with 3.1.1; its own loop in a thread takes as many. Driven from here, with
its `_handle_publish` overridden and each group acknowledged in one write, it takes 100,000 with either
(`benchmarks/mqtt_speed.py`). With a version of paho that lacks the private methods for that, paho is used unchanged.
"""

from __future__ import annotations

import os
import select
import socket as sockets
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import host_of, plain

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode
    from paho.mqtt.subscribeoptions import SubscribeOptions
except ImportError:
    raise SensormendError("MQTT needs paho-mqtt: install it with pip install 'sensormend[live]'") from None

__all__ = ["CLOSE_WITHIN", "Broker", "DeniedError", "Message", "MqttConnection", "Subscription", "connect", "is_fast"]

KEEP_ALIVE = 30
"""Seconds without a packet after which a ping is sent; after twice as many the connection counts as lost."""

CONNECT_WITHIN = 10.0
"""Seconds for each step of connecting."""

LARGEST_PACKET = 64 << 20
"""Most bytes of a packet. It exceeds the limit for a message, so that one that is too large is refused with a reason;
the broker does not send what is larger still."""

MOST_MESSAGES, LARGEST_GROUP = 5000, 4 << 20
"""Most messages, and bytes, that are taken at once."""

IN_FLIGHT = 200
"""Messages that are published before one is confirmed. A broker on the same machine takes 11,000 per second with 20 as
with 200; one at a distance of 50 ms would take 400 per second with 20."""

CLOSE_WITHIN = 1.0
"""Seconds to send the last acknowledgements, and for the broker to close a connection after our DISCONNECT."""

UNSUPPORTED_VERSION = 132
"""The reason code of a broker that does not support MQTT 5; others just close the connection."""

_FOREVER = 0xFFFFFFFF
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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
            where = urlsplit(f"//{host_of(self.address)}")
            host, port = where.hostname, where.port
        except ValueError:
            host = port = None
        if not host:
            raise ConfigError(f"{plain(self.address)} is no address of a broker: it is like mqtt://host:1883/topic")
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


class _PlainClient(paho.Client):
    """A client that collects messages by paho's public interface."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, manual_ack=True, reconnect_on_failure=False, **arguments)
        self.arrived: list[Message] = []
        self.size = 0
        self.on_message = self._collect

    def _collect(self, client: Any, userdata: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = "\ufffd"
        payload = bytes(message.payload)
        self.size += len(payload)
        self.arrived.append(Message(message.mid if message.qos else 0, topic, payload, message.retain))


class _FastClient(_PlainClient):
    """A client that collects messages without paho's objects for each of them."""

    def _handle_publish(self) -> MQTTErrorCode:
        packet: bytearray = self._in_packet["packet"]
        command = self._in_packet["command"]
        try:
            offset = 2 + (packet[0] << 8 | packet[1])
            topic, number = packet[2:offset], 0
            if command & 6:
                number = packet[offset] << 8 | packet[offset + 1]
                offset += 2
            if self._protocol == paho.MQTTv5:
                length = shift = 0
                while True:
                    byte = packet[offset]
                    offset += 1
                    length |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                offset += length
        except IndexError:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        payload = bytes(packet[offset:])
        self.size += len(payload)
        self.arrived.append(Message(number, topic.decode(errors="replace"), payload, bool(command & 1)))
        return MQTTErrorCode.MQTT_ERR_SUCCESS


@cache
def is_fast() -> bool:
    """Return whether this version of paho has the private methods that `_FastClient` relies on."""
    expected = Message(7, "a", b"1.5", True)
    for protocol, packet in ((paho.MQTTv311, b"\0\1a\0\x071.5"), (paho.MQTTv5, b"\0\1a\0\x07\x02\x01\x001.5")):
        client = _FastClient(protocol=protocol)
        client.on_message = None  # what paho would do itself
        try:
            client._in_packet["command"] = 0x33
            client._in_packet["packet"] = bytearray(packet)
            if client._packet_handle() != MQTTErrorCode.MQTT_ERR_SUCCESS or client.arrived != [expected]:
                return False
        except (AttributeError, KeyError, TypeError):
            return False
    return True


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
    """One connection to a broker.

    With a subscription its caller drives it (`pump`, `take`, `acknowledge`); without one a thread of paho drives it
    from the first `publish` on, which keeps it alive between two calls.
    If a step of connecting fails or takes longer than `within` seconds, that is an `OSError` or a `DeniedError`.
    The broker publishes the `will`, a topic and a payload to retain, when the connection ends without a DISCONNECT.
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
        self._fast = is_fast()
        self._unsent = b""
        self._changed = threading.Condition()
        self._threaded = False
        self._answer: ReasonCode | None = None
        self._granted: list[ReasonCode] | None = None
        self._confirmed = 0
        self._denied: ReasonCode | None = None
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

    def _make_client(self, broker: Broker, subscription: Subscription | None) -> _PlainClient:
        arguments: dict[str, Any] = {"protocol": paho.MQTTv5 if self._modern else paho.MQTTv311}
        if subscription is not None:
            # Without a subscription each connection has a new identifier: the sink repeats what was not confirmed.
            arguments["client_id"] = subscription.client_id
            if not self._modern:
                arguments["clean_session"] = not subscription.lasting
        client = (_FastClient if self._fast else _PlainClient)(**arguments)
        if broker.user is not None or (subscription is None and broker.password is not None):
            client.username_pw_set(broker.user or "", broker.password)
        if broker.context is not None:
            client.tls_set_context(broker.context)
        client.connect_timeout = CONNECT_WITHIN
        client.max_inflight_messages_set(IN_FLIGHT)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
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
        alive = self._pump_until(lambda: self._answer is not None, within)
        answer = self._answer
        # A source also takes silence for it: else it would try with the version that is ignored for ever.
        ignored = not alive or subscription is not None
        if self._modern and (ignored if answer is None else answer.value == UNSUPPORTED_VERSION):
            raise _OldBrokerError
        if answer is None:
            raise self._no_answer(within, alive=alive)
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
        # size of a group.
        alive = self._pump_until(lambda: self._granted is not None or client.size >= LARGEST_GROUP, within)
        if self._granted is None and not client.arrived:
            raise self._no_answer(within, alive=alive)
        granted = zip(subscription.topics, self._granted or (), strict=False)
        refused = [topic for topic, code in granted if code.is_failure]
        if refused:
            raise DeniedError(f"the broker does not let us read {', '.join(refused)}")

    def _no_answer(self, within: float, *, alive: bool) -> ConnectionError:
        if alive:
            return ConnectionError(f"the broker has not answered for {within:g} s")
        return ConnectionError(f"the broker has closed the connection{': ' if self.ended else ''}{self.ended}")

    def _pump_until(self, done: Callable[[], bool], within: float) -> bool:
        """Read until `done`, for at most `within` seconds; return False if the connection is lost."""
        end, alive = time.monotonic() + within, True
        while alive and not done() and (remaining := end - time.monotonic()) > 0:
            alive = self.pump(min(0.2, remaining), most=1 << 30)
        return alive

    @property
    def alive(self) -> bool:
        """Whether the connection is not known to have ended."""
        return not self.ended and self._client.socket() is not None

    def pump(self, wait: float, *, most: int = MOST_MESSAGES, wake: Any = None) -> bool:
        """Wait for packets and read all that have come; return False if the connection is lost.

        Reading ends after `most` messages or `LARGEST_GROUP` bytes; data on the socket `wake` ends the wait.
        """
        client, socket = self._client, self._client.socket()
        if socket is None:
            return False
        writing = bool(self._unsent) or client.want_write()
        pending = getattr(socket, "pending", None)
        try:
            readable, writable, _ = select.select(
                [socket] if wake is None else [socket, wake],
                [socket] if writing else [],
                [],
                0 if pending is not None and pending() else wait,
            )
            if wake is not None and wake in readable:
                wake.recv(4096)
            if writable:
                self._write()
            # Only an attempt shows whether more has come; an incomplete packet adds no message.
            arrived, before = client.arrived, -1
            while len(arrived) > before and len(arrived) < most and client.size < LARGEST_GROUP:
                before = len(arrived)
                if client.loop_read() != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    return False
            if not self._unsent and client.loop_misc() != MQTTErrorCode.MQTT_ERR_SUCCESS:
                return False
        except (OSError, ValueError) as error:
            self.ended = self.ended or str(error)
            return False
        return client.socket() is not None

    def take(self) -> list[Message]:
        """Return the messages that have come."""
        client = self._client
        taken, client.arrived, client.size = client.arrived, [], 0
        return taken

    def acknowledge(self, numbers: Sequence[int]) -> None:
        """Acknowledge these messages: the broker may delete them."""
        if not self._fast:
            for number in filter(None, numbers):
                self._client.ack(number, 1)
            return
        # The four bytes of a PUBACK are the same in all versions; paho would write each one separately.
        self._unsent += b"".join([b"\x40\x02" + number.to_bytes(2, "big") for number in numbers if number])
        self._write()

    def _write(self) -> None:
        client, socket = self._client, self._client.socket()
        if socket is None:
            return
        try:
            if client.want_write():
                client.loop_write()
            # Nothing may be written in the middle of a packet of paho.
            while self._unsent and not client.want_write():
                self._unsent = self._unsent[socket.send(self._unsent) :]
        except _WOULD_BLOCK:
            return
        except OSError as error:
            self.ended = self.ended or str(error)

    def publish(self, messages: Iterable[tuple[str, bytes, bool]], *, within: float) -> None:
        """Publish messages (topic, payload, whether it is retained), and return when all are confirmed.

        It raises an `OSError` if the connection is lost or the broker confirms nothing for `within` seconds, and a
        `RefusedError` if a message is invalid or the broker refuses it.
        """
        if not self._threaded:
            self._threaded = True
            self._client.loop_start()
        start, count, self._denied = self._confirmed, 0, None
        for topic, payload, retain in messages:
            self._wait(start + count + 1 - IN_FLIGHT, within)
            try:
                sent = self._client.publish(topic, payload, qos=1, retain=retain)
            except ValueError as error:
                # A topic has 65,535 bytes at most.
                raise RefusedError(f"{topic[:60]!r} cannot be published: {error}") from None
            if sent.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise ConnectionError(paho.error_string(sent.rc))
            count += 1
        self._wait(start + count, within)
        if self._denied is not None:
            raise RefusedError(f"the broker does not take it: {self._denied}")

    def _wait(self, confirmed: int, within: float) -> None:
        """Wait until so many messages are confirmed; each confirmation restarts the timeout."""
        with self._changed:
            seen, end = self._confirmed, time.monotonic() + within
            while self._confirmed < confirmed:
                if self.ended:
                    raise self._no_answer(within, alive=False)
                if self._confirmed > seen:
                    seen, end = self._confirmed, time.monotonic() + within
                remaining = end - time.monotonic()
                if remaining <= 0:
                    raise self._no_answer(within, alive=True)
                self._changed.wait(remaining)

    def close(self) -> None:
        """Disconnect; the broker stores what comes from now on."""
        if self._threaded:
            self._client.disconnect()
            self._client.loop_stop()
            return
        end = time.monotonic() + CLOSE_WITHIN
        while (self._unsent or self._client.want_write()) and time.monotonic() < end:
            if not self.pump(0.05, most=0):
                break
        socket = self._client.socket()
        if socket is None:
            return
        if self._unsent:
            socket.close()
            return
        # paho closes its socket at once. If we connected again before the broker had read to the end, it would send
        # all messages again.
        duplicate = sockets.socket(fileno=os.dup(socket.fileno()))
        self._client.disconnect()
        socket.close()
        end = time.monotonic() + CLOSE_WITHIN
        with duplicate, suppress(OSError):
            while (remaining := end - time.monotonic()) > 0:
                duplicate.settimeout(remaining)
                if not duplicate.recv(65536):
                    return

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self._answer = reason

    def _on_subscribe(self, client: Any, userdata: Any, number: int, granted: list[ReasonCode], more: Any) -> None:
        self._granted = granted

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self.ended = self.ended or str(reason).lower()
            self._changed.notify_all()

    def _on_publish(self, client: Any, userdata: Any, number: int, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            self._confirmed += 1
            self._denied = reason if reason.is_failure else self._denied
            self._changed.notify_all()
