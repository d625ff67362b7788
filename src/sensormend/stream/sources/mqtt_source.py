"""`MqttSource` reads the messages of a broker, and acknowledges them when they are on disk."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.addresses import host_of, login_of, plain
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.logs import Once
from sensormend.stream.mqtt import Broker, DeniedError, MqttConnection, Subscription, connect
from sensormend.stream.settings import MqttSettings

__all__ = ["MqttSource"]

PAUSES = (0.5, 30.0)
"""Seconds between two attempts to come back: the first ones, and the most."""

_log = logging.getLogger("sensormend.stream")


class MqttSource(Source):
    """What a broker has for us.

    Each message is acknowledged after `Arrived.acknowledge`, and the broker keeps our session: what is not acknowledged
    when a connection breaks, or this process, comes again. Readings without a time of their own have the time of their
    arrival, so they come again with another one.

    Parameters
    ----------
    address
        `mqtt://host:port` or `mqtts://`.
    settings
        Who we are and what we want; without topics, everything.
    options
        Which key of a message is what, where that cannot be recognised.
    former
        Topics that the session may still be subscribed to.

    Raises
    ------
    ConfigError
        The broker denies access. One that cannot be reached is retried.
    """

    def __init__(
        self,
        address: str,
        settings: MqttSettings | None = None,
        options: Options | None = None,
        *,
        former: Sequence[str] = (),
    ) -> None:
        settings = MqttSettings() if settings is None else settings
        user, password = login_of(address)
        self._broker = Broker(
            address,
            settings.user or user,
            settings.password if settings.password is not None else password,
            settings.ca,
        )
        name = settings.client_id or f"sensormend-{socket.gethostname()}"
        self._subscription = Subscription(name, settings.topics or ("#",), settings.in_flight, former)
        self._shown = plain(f"{address.partition('://')[0]}://{host_of(address)}")
        self._decoder = Decoder(options, settings.pattern)
        self._connection: MqttConnection | None = None
        self._attempt: _Attempt | None = None
        self._number = 0
        self._next, self._pause = 0.0, PAUSES[0]
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, list[int]]] = deque()
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._away = Once(_log, f"no connection to {self._shown}", f"connected to {self._shown} again")
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Connect for the first time; wrong settings are reported now."""
        try:
            self._connected(self._connect())
        except DeniedError as error:
            raise ConfigError(f"{self._shown}: {error}; look at user, password and topics") from None
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(
                f"{self._shown}: the broker's certificate is not trusted ({error.verify_message}); name its CA with ca"
            ) from None
        except ssl.SSLError as error:
            raise ConfigError(f"{self._shown}: this is no TLS port, or not for us: {error.reason}") from None
        except OSError as error:
            self._failed(error)

    def _connect(self) -> MqttConnection:
        return connect(self._broker, self._subscription)

    @property
    def connected(self) -> bool:  # type: ignore[override]
        """Whether there is a connection."""
        return self._connection is not None

    def read(self, wait: float) -> Arrived:
        """Return what has come; see `Source.read`."""
        end = time.monotonic() + wait
        with self._lock:
            while True:
                self._send()
                # Some came with the connection: for them there is no waiting.
                messages = self._connection.take() if self._connection is not None else []
                left = max(end - time.monotonic(), 0.0)
                if self._connection is None:
                    self._reconnect(left)
                elif not messages:
                    alive = self._connection.pump(left, wake=self._woken)
                    messages = self._connection.take()
                    if not alive:
                        self._lose()
                if messages:
                    return self._decoded(messages)
                if time.monotonic() >= end:
                    return Arrived(NOTHING, clock())

    def _decoded(self, messages: Sequence[Any]) -> Arrived:
        received, add = clock(), self._decoder.add
        for _, topic, payload, retained in messages:
            add(payload, received, topic, None, retained)
        readings, rejected, positions = self._decoder.take()
        numbers, connection = [message.number for message in messages], self._number
        return Arrived(readings, received, rejected, positions, None, lambda: self._acknowledge(connection, numbers))

    def _acknowledge(self, connection: int, numbers: list[int]) -> None:
        """Acknowledge messages, from any thread. Those of a lost connection are sent again by the broker."""
        self._waiting.append((connection, numbers))
        if self._lock.acquire(blocking=False):
            try:
                self._send()
            finally:
                self._lock.release()
        else:
            with suppress(OSError):  # closed, or woken often enough already
                self._wake.send(b"!")

    def _send(self) -> None:
        while self._waiting:
            connection, numbers = self._waiting.popleft()
            if self._connection is not None and connection == self._number:
                self._connection.acknowledge(numbers)

    def _connected(self, connection: MqttConnection) -> None:
        self._connection, self._pause = connection, PAUSES[0]
        self._number += 1
        self._away.end()

    def _lose(self) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        self._failed(ConnectionError(connection.ended or "it broke"))
        connection.close()

    def _failed(self, error: BaseException) -> None:
        self._away.begin(error=" ".join(str(error).split()))
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, PAUSES[1])

    def _reconnect(self, wait: float) -> None:
        """Try to connect, in a thread of its own: the way to a host that is gone is long."""
        if self._attempt is None:
            pause = self._next - time.monotonic()
            if pause > 0:
                time.sleep(min(pause, wait))
                return
            self._attempt = _Attempt(self._connect)
        if not self._attempt.over.wait(wait):
            return
        attempt, self._attempt = self._attempt, None
        if attempt.connection is not None:
            self._connected(attempt.connection)
        else:
            self._failed(attempt.error or ConnectionError("it broke"))

    def close(self) -> None:
        """Let go; what was not acknowledged stays with the broker."""
        with self._lock:
            self._send()
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if self._attempt is not None:
                self._attempt.abandon()
            self._wake.close()
            self._woken.close()


class _Attempt:
    """A try to connect."""

    def __init__(self, connect: Any) -> None:
        self.over = threading.Event()
        self.connection: MqttConnection | None = None
        self.error: BaseException | None = None
        self._connect = connect
        self._abandoned = False
        threading.Thread(target=self._run, name="sensormend-mqtt", daemon=True).start()

    def _run(self) -> None:
        try:
            self.connection = self._connect()
        except Exception as error:  # whatever it is, it is tried again
            self.error = error
        finally:
            self.over.set()
            if self._abandoned:
                self.abandon()

    def abandon(self) -> None:
        """Let go of what comes of it, now or later."""
        self._abandoned = True
        if self.over.is_set() and self.connection is not None:
            connection, self.connection = self.connection, None
            connection.close()
