"""Paho's client, where it is too slow for us: how messages are taken apart and acknowledged.

Of messages of 50 bytes at QoS 1, 1,000 in flight, paho's own loop takes 16,000 per second with MQTT 5, where it makes
an object of properties for each, and 22,000 with 3.1.1; its own loop in a thread as many. Driven from here, with each
group acknowledged in one write, it is 100,000 with either (`benchmarks/mqtt_speed.py`).
"""

from __future__ import annotations

import os
import select
import socket as _socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from sensormend.errors import ConfigError

__all__ = ["Broker", "Connection", "Message", "NotLet", "OldBroker"]

KEEP_ALIVE = 30
"""Seconds without a word after which one of the two asks: twice that, and a connection is known to be cut."""

CONNECT_WITHIN = 10.0
"""Seconds for each step of the way in."""

LARGEST_PACKET = 64 << 20
"""Bytes. More than is taken for a message, so that one that is too large is refused with a reason; the broker keeps
what is larger still."""

MOST_MESSAGES, LARGEST_GROUP = 5000, 4 << 20
"""Messages, and bytes, that are taken at once."""

PARTING = 1.0
"""Seconds for which the broker may take to close a connection that we have ended."""

FOR_EVER = 0xFFFFFFFF
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Message(NamedTuple):
    """A message as it came; `number` is 0 where it needs no acknowledgement."""

    number: int
    topic: str
    payload: bytes
    retained: bool


class NotLet(Exception):  # noqa: N818
    """The broker does not want us: a wrong password, a topic that is not ours."""


class OldBroker(Exception):  # noqa: N818
    """The broker does not speak MQTT 5, or hung up on it."""


@dataclass(frozen=True)
class Broker:
    """Where to go, as whom, and what for."""

    host: str
    port: int
    topics: Sequence[str]
    client_id: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: Path | None = None
    in_flight: int = 1000
    former: Sequence[str] = ()

    def context(self) -> ssl.SSLContext | None:
        """Return whom to trust."""
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ca: {self.ca} holds no certificates that can be read: {error}") from None


class _Client(paho.Client):
    """A client that only collects."""

    def __init__(self, **said: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, manual_ack=True, **said)
        self.arrived: list[Message] = []
        self.size = 0

    def _handle_publish(self) -> MQTTErrorCode:
        packet: bytearray = self._in_packet["packet"]
        first = self._in_packet["command"]
        try:
            at = 2 + (packet[0] << 8 | packet[1])
            topic, number = packet[2:at], 0
            if first & 6:
                number = packet[at] << 8 | packet[at + 1]
                at += 2
            if self._protocol == paho.MQTTv5:
                length = shift = 0
                while True:
                    byte = packet[at]
                    at += 1
                    length |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                at += length
        except IndexError:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        payload = bytes(packet[at:])
        self.size += len(payload)
        self.arrived.append(Message(number, topic.decode(errors="replace"), payload, bool(first & 1)))
        return MQTTErrorCode.MQTT_ERR_SUCCESS


class Connection:
    """One connection to a broker, from the first word to the last; driven by whoever reads.

    Parameters
    ----------
    broker
        Where to.
    context
        Whom to trust.
    modern
        Speak MQTT 5, in which we say how much may be in flight; with 3.1.1 the broker's own setting holds.

    Raises
    ------
    OSError, NotLet, OldBroker
        Where there is no way in.
    """

    def __init__(self, broker: Broker, context: ssl.SSLContext | None, *, modern: bool = True) -> None:
        self._modern = modern
        self._unsent = b""
        self._answer: ReasonCode | None = None
        self._granted: list[ReasonCode] | None = None
        self.ended = ""
        client = self._client = _Client(
            client_id=broker.client_id,
            protocol=paho.MQTTv5 if modern else paho.MQTTv311,
            **({} if modern else {"clean_session": False}),
        )
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        if context is not None:
            client.tls_set_context(context)
        client.connect_timeout = CONNECT_WITHIN
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        try:
            self._enter(broker)
        except BaseException:
            self.close()
            raise

    def _enter(self, broker: Broker) -> None:
        client = self._client
        if self._modern:
            asked: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            asked.SessionExpiryInterval = FOR_EVER
            asked.ReceiveMaximum = broker.in_flight
            asked.MaximumPacketSize = LARGEST_PACKET
            client.connect(broker.host, broker.port, KEEP_ALIVE, clean_start=False, properties=asked)
        else:
            client.connect(broker.host, broker.port, KEEP_ALIVE)
        self._until(lambda: self._answer is not None)
        answer = self._answer
        if answer is None or answer.value == 132:
            if self._modern:
                raise OldBroker
            raise ConnectionError(f"the broker hung up before it answered{': ' if self.ended else ''}{self.ended}")
        if answer.is_failure:
            raise NotLet(f"the broker says {str(answer).lower()!r}")
        # A session keeps its subscriptions, those that nobody wants any more too.
        unwanted = [topic for topic in broker.former if topic not in broker.topics]
        if unwanted:
            client.unsubscribe(unwanted)
        # What is kept there is sent only to a new subscription: after a restart all of it was seen before.
        way: Any = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, way if self._modern else 1) for topic in broker.topics])
        # A session that has messages for us has its subscriptions: those may come first, and fill our hands.
        self._until(lambda: self._granted is not None or client.size >= LARGEST_GROUP)
        if self._granted is None and not client.arrived:
            raise ConnectionError(f"the broker did not answer the subscription{': ' if self.ended else ''}{self.ended}")
        refused = [topic for topic, code in zip(broker.topics, self._granted or (), strict=False) if code.is_failure]
        if refused:
            raise NotLet(f"the broker does not let us read {', '.join(refused)}")

    def _until(self, done: Any) -> None:
        end = time.monotonic() + CONNECT_WITHIN
        while not done() and time.monotonic() < end and self.pump(0.2, most=1 << 30):
            pass

    def pump(self, wait: float, *, most: int = MOST_MESSAGES, largest: int = LARGEST_GROUP, wake: Any = None) -> bool:
        """Wait for something, and take all that is there; False where the connection is lost.

        Parameters
        ----------
        wait
            Seconds.
        most, largest
            Messages and bytes after which to leave the rest.
        wake
            A socket on which somebody may say that there is something else to do.
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
            # There is no telling whether more has come but trying: a packet that is not whole yet adds none.
            arrived, before = client.arrived, -1
            while len(arrived) > before and len(arrived) < most and client.size < largest:
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
        """Return what has come."""
        client = self._client
        taken, client.arrived, client.size = client.arrived, [], 0
        return taken

    def acknowledge(self, numbers: Sequence[int]) -> None:
        """Tell the broker that it may forget these messages."""
        # The four bytes of a PUBACK, the same in all versions; paho would write each by itself.
        self._unsent += b"".join([b"\x40\x02" + number.to_bytes(2, "big") for number in numbers if number])
        self._write()

    def _write(self) -> None:
        client, socket = self._client, self._client.socket()
        if socket is None:
            return
        try:
            if client.want_write():
                client.loop_write()
            # Within a packet of paho's own there is no place for ours.
            while self._unsent and not client.want_write():
                self._unsent = self._unsent[socket.send(self._unsent) :]
        except _AGAIN:
            return
        except OSError as error:
            self.ended = self.ended or str(error)

    def close(self) -> None:
        """Say goodbye; the broker keeps what comes from now on."""
        end = time.monotonic() + 1.0
        while self._unsent and self._client.socket() is not None and time.monotonic() < end:
            if not self.pump(0.05, most=0):
                break
        socket = self._client.socket()
        if socket is None:
            return
        if self._unsent:
            socket.close()
            return
        # paho closes its own at once; a broker that meets us again before it has read to the end sends all of it again.
        still = _socket.socket(fileno=os.dup(socket.fileno()))
        self._client.disconnect()
        socket.close()
        _wait_for_end(still, PARTING)

    def _on_connect(self, client: Any, told: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self._answer = reason

    def _on_subscribe(self, client: Any, told: Any, number: int, granted: list[ReasonCode], more: Any) -> None:
        self._granted = granted

    def _on_disconnect(self, client: Any, told: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self.ended = self.ended or str(reason).lower()


def _wait_for_end(socket: _socket.socket, seconds: float) -> None:
    """Read what still comes until the other side has closed, for so long at most, and close."""
    end = time.monotonic() + seconds
    with socket, suppress(OSError):
        while (left := end - time.monotonic()) > 0:
            socket.settimeout(left)
            if not socket.recv(65536):
                return
