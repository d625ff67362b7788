"""`MqttSource` reads the messages of a broker, and acknowledges them when they are on disk."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent import futures

from sensormend.errors import ConfigError, one_line
from sensormend.pipeline.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.addresses import parse_host, parse_login, plain
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.logs import ConditionLog
from sensormend.stream.mqtt import Broker, DeniedError, Message, MqttConnection, Subscription, connect
from sensormend.stream.settings import MqttSettings

__all__ = ["MqttSource"]

PAUSES = (0.5, 30.0)
"""Seconds between two attempts to connect: the first pause, and the longest, up to which it is doubled."""

_log = logging.getLogger("sensormend.stream")


class MqttSource(Source):
    """The messages of a broker, `mqtt://host:port` or `mqtts://`.

    Each message is acknowledged after `Arrived.acknowledge`, and the broker keeps the session: messages that were not
    acknowledged come again after a lost connection or a restart. Readings without a time have the time of arrival,
    which is then another one. Without topics in the settings, all of them are read; `former` are topics that the
    session may still be subscribed to. A session that is not `lasting` ends with the connection. A broker that denies
    access is a `ConfigError`; one that cannot be reached is retried.
    """

    def __init__(
        self,
        address: str,
        settings: MqttSettings | None = None,
        options: Options | None = None,
        *,
        former: Sequence[str] = (),
        form: str | None = None,
        lasting: bool = True,
    ) -> None:
        settings = MqttSettings() if settings is None else settings
        user, password = parse_login(address)
        self._broker = Broker(
            address,
            settings.user or user,
            settings.password if settings.password is not None else password,
            settings.ca,
        )
        client_id = settings.client_id or f"sensormend-{socket.gethostname()}"
        self._subscription = Subscription(client_id, settings.topics or ("#",), settings.in_flight, former, lasting)
        self._shown = plain(f"{address.partition('://')[0]}://{parse_host(address)}")
        self.decoder = Decoder(options, settings.pattern, form)
        self.units = self.decoder.units
        self._connection: MqttConnection | None = None
        self._attempt: futures.Future[MqttConnection] | None = None
        self._next, self._pause = 0.0, PAUSES[0]
        self._outage = ConditionLog(_log, f"no connection to {self._shown}", f"connected to {self._shown} again")
        try:
            self._connect_first()
        except BaseException:
            self.close()
            raise

    def _connect_first(self) -> None:
        """Connect for the first time; wrong settings are reported now."""
        try:
            self._use(connect(self._broker, self._subscription))
        except DeniedError as error:
            raise ConfigError(f"{self._shown}: {error}; look at user, password and topics") from None
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(
                f"{self._shown}: the broker's certificate is not trusted ({error.verify_message}); name its CA with ca"
            ) from None
        except ssl.SSLError as error:
            raise ConfigError(f"{self._shown}: TLS fails: {error.reason}; is this the port for TLS?") from None
        except OSError as error:
            self._retry_later(error)

    @property
    def connected(self) -> bool:  # type: ignore[override]
        """Whether there is a connection."""
        return self._connection is not None

    def read(self, wait: float) -> Arrived:
        """Return the new inputs; see `Source.read`."""
        end = time.monotonic() + wait
        while True:
            remaining = max(end - time.monotonic(), 0.0)
            connection = self._connection
            if connection is None:
                self._reconnect(remaining)
            elif messages := connection.take(remaining):
                return self._decoded(connection, messages)
            elif not connection.alive:
                self._connection = None
                self._retry_later(ConnectionError(connection.ended))
                connection.close()
            if time.monotonic() >= end:
                return Arrived(NOTHING, clock())

    def _decoded(self, connection: MqttConnection, messages: Sequence[Message]) -> Arrived:
        received, add = clock(), self.decoder.add
        for _, topic, payload, retained in messages:
            add(payload, received, topic, None, retained)
        readings, rejected, positions = self.decoder.take()
        return Arrived(readings, received, rejected, positions, None, lambda: connection.acknowledge(messages))

    def _use(self, connection: MqttConnection) -> None:
        self._connection, self._pause = connection, PAUSES[0]
        self._outage.end()

    def _retry_later(self, error: BaseException) -> None:
        self._outage.begin(error=one_line(error))
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, PAUSES[1])

    def _reconnect(self, wait: float) -> None:
        """Connect in another thread, since an unreachable host may take long to fail."""
        if self._attempt is None:
            pause = self._next - time.monotonic()
            if pause > 0:
                time.sleep(min(pause, wait))
                return
            self._attempt = futures.Future()
            threading.Thread(target=self._connect, args=(self._attempt,), name="sensormend-mqtt", daemon=True).start()
        if not futures.wait([self._attempt], wait).done:
            return
        attempt, self._attempt = self._attempt, None
        error = attempt.exception()
        if error is None:
            self._use(attempt.result())
        else:
            self._retry_later(error)

    def _connect(self, attempt: futures.Future[MqttConnection]) -> None:
        try:
            attempt.set_result(connect(self._broker, self._subscription))
        except Exception as error:  # whatever it is, it is tried again
            attempt.set_exception(error)

    def close(self) -> None:
        """Disconnect; what was not acknowledged stays with the broker."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._attempt is not None:
            self._attempt.add_done_callback(_close_result)


def _close_result(attempt: futures.Future[MqttConnection]) -> None:
    """Close a connection that was still being opened when the source was closed."""
    if attempt.exception() is None:
        attempt.result().close()
