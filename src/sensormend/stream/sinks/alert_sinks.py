"""`CommandAlerts` and `WebhookAlerts` send each alert to a program or a web address."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from email.message import Message
from http.client import HTTPException
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sensormend import __version__
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import host_of, plain
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink
from sensormend.stream.sinks.messages import alert_message, text_of, whole

__all__ = ["AlertSink", "CommandAlerts", "WebhookAlerts"]

REMEMBERED = 100
"""Deliveries that were sent in part, of which it is known what was sent. More would have to wait at the same time."""

Key = tuple[int, int, tuple[Alert, ...]]

COMMAND_TIMEOUT = 60.0
"""Seconds after which a program and all that it started is ended."""

WEBHOOK_TIMEOUT = 10.0
"""Seconds to wait for an answer."""

LATER = (408, 425, 429)
"""Answers that blame the request and mean the moment."""


class AlertSink(Sink):
    """Takes alerts one by one; a class of its own says how one is sent."""

    kinds: Sequence[Kind] = ("alert",)

    def __init__(self) -> None:
        self._begun: dict[Key, set[int]] = {}

    def write(self, delivery: Delivery) -> None:
        """Send the alerts of a delivery; one that is tried again goes on with those that were not sent.

        One that is refused does not keep back those after it: the whole delivery is refused at the end.
        """
        key = (delivery.start, delivery.end, tuple(delivery.alerts))
        sent = self._begun.pop(key, set())
        refused: RefusedError | None = None
        try:
            for number, alert in enumerate(delivery.alerts):
                if number in sent:
                    continue
                try:
                    self.send(alert)
                except RefusedError as error:
                    refused = refused or error
                else:
                    sent.add(number)
            if refused is not None:
                raise refused
        finally:
            if 0 < len(sent) < len(delivery.alerts):
                self._remember(key, sent)

    def send(self, alert: Alert) -> None:
        """Send one alert, or raise."""
        raise NotImplementedError

    def _remember(self, key: Key, sent: set[int]) -> None:
        while len(self._begun) >= REMEMBERED:
            del self._begun[next(iter(self._begun))]
        self._begun[key] = sent


class CommandAlerts(AlertSink):
    """Runs a program for each alert, without a shell.

    The alert is on standard input as JSON, and in `SENSORMEND_SENSOR`, `_VARIABLE`, `_STATE`, `_REASON`, `_SINCE` and
    `_SENTENCE`. A program that ends with anything but 0 refuses the alert; one that cannot be run, or takes longer than
    a minute, fails. It is run again later in both cases.

    Parameters
    ----------
    words
        The program and its arguments; a text is taken apart as a shell would, and nothing in it is expanded.
    """

    def __init__(self, words: str | Sequence[str], timeout: float = COMMAND_TIMEOUT) -> None:
        super().__init__()
        try:
            self._words = shlex.split(words) if isinstance(words, str) else list(words)
        except ValueError as error:
            raise ConfigError(f"a command for alerts cannot be taken apart: {error}") from None
        if not self._words:
            raise ConfigError("a command for alerts has no words: say which program to run")
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"a command for alerts cannot be run: there is no program {self._words[0]!r}")
        self._timeout = timeout

    def send(self, alert: Alert) -> None:
        """Run it."""
        message = alert_message(alert)
        names = ("sensor", "variable", "state", "reason", "since", "sentence")
        environment = {**os.environ, **{f"SENSORMEND_{name.upper()}": whole(str(message[name])) for name in names}}
        program = self._words[0]
        # Files, no pipes: a pipe that a grandchild keeps open would be waited for without end.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(text_of(message))
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    env=environment,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise SensormendError(f"{program} cannot be run: {error.strerror}") from None
            try:
                status = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                raise SensormendError(f"{program} did not end within {self._timeout:g} s") from None
            finally:
                if process.returncode is None:
                    _end(process)
            if status:
                errors.seek(0)
                last = errors.read(10_000).decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
                raise RefusedError(f"{program} ended with {status}{': ' if last else ''}{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


class WebhookAlerts(AlertSink):
    """Posts each alert to an address.

    Any 2xx is a success. 4xx says that it will not be taken, but for 408, 425 and 429; those, 5xx and no answer are
    tried again. It goes nowhere else: an answer that points to another address is a refusal, since what is asked there
    would be asked without the alert. A user and a password in the address are sent as such; nothing of the address but
    the host is ever logged.

    Parameters
    ----------
    address
        `http://` or `https://`.
    """

    def __init__(self, address: str, timeout: float = WEBHOOK_TIMEOUT) -> None:
        super().__init__()
        try:
            parts = urlsplit(address)
            _ = parts.port
        except ValueError:
            raise ConfigError(f"{plain(address)} is no address of a webhook") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{plain(address)} is no address of a webhook: it begins with https:// and a host")
        self._shown = plain(address)
        self._timeout = timeout
        self._headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": f"sensormend/{__version__}",
        }
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode('ascii')}"
        # A fragment after # is for browsers, and not sent to the server.
        self._address = urlunsplit((parts.scheme, host_of(address), parts.path or "/", parts.query, ""))
        self._opener = build_opener(_StayHere)

    def send(self, alert: Alert) -> None:
        """Post it."""
        request = Request(self._address, text_of(alert_message(alert)), self._headers, method="POST")
        try:
            self._opener.open(request, timeout=self._timeout).close()
        except HTTPError as error:
            error.close()
            answer = f"{self._shown} answers {error.code} {error.reason}".rstrip()
            if error.code < 500 and error.code not in LATER:
                raise RefusedError(answer) from None
            raise SensormendError(answer) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise SensormendError(f"{self._shown}: {reason or type(error).__name__}") from None


class _StayHere(HTTPRedirectHandler):
    """Follows no redirect: the new request would lack the alert, or go to an unknown server."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """Take the answer for what it is."""
        return None
