"""`CommandAlerts`, `WebhookAlerts` and `NtfyAlerts` send each alert to a program, a web address or an ntfy topic."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import parse_host, plain
from sensormend.stream.deliveries import Alert, Delivery, Kind, Sink
from sensormend.stream.sinks.messages import NO_DETAILS, AlertDetails, alert_message, json_bytes, valid_text
from sensormend.stream.web_client import WebClient, basic

__all__ = ["AlertSink", "CommandAlerts", "NtfyAlerts", "WebhookAlerts"]

MOST_PARTLY_SENT = 100
"""The maximum number of deliveries whose sent alerts are remembered. More would have to wait at the same time."""

COMMAND_TIMEOUT = 60.0
"""Seconds after which a program and all its child processes are killed."""

WEBHOOK_TIMEOUT = 10.0
"""Seconds to wait for an answer."""

NTFY_PRIORITIES = {"error": 4, "warning": 3, "info": 2}
"""The priorities of ntfy: 4 is high, with a sound; 3 is the default; 2 shows no notification at the top."""

SLACK = "hooks.slack.com"


class AlertSink(Sink):
    """The base class of sinks that send alerts one by one, with `send`."""

    kinds: Sequence[Kind] = ("alert",)

    def __init__(self, details: AlertDetails = NO_DETAILS) -> None:
        self.details = details
        self._partly_sent: dict[tuple[int, int, tuple[Alert, ...]], set[int]] = {}

    def write(self, delivery: Delivery) -> None:
        """Send the alerts of a delivery; a retry sends only those that were not sent before.

        An alert that is refused does not block those after it: the delivery is refused at the end.
        """
        key = (delivery.start, delivery.end, tuple(delivery.alerts))
        sent = self._partly_sent.pop(key, set())
        refusal: RefusedError | None = None
        try:
            for number, alert in enumerate(delivery.alerts):
                if number in sent:
                    continue
                try:
                    self.send(alert)
                except RefusedError as error:
                    refusal = refusal or error
                else:
                    sent.add(number)
        finally:
            if 0 < len(sent) < len(delivery.alerts):
                if len(self._partly_sent) == MOST_PARTLY_SENT:
                    del self._partly_sent[next(iter(self._partly_sent))]
                self._partly_sent[key] = sent
        if refusal is not None:
            raise refusal

    def send(self, alert: Alert) -> None:
        """Send one alert, or raise."""
        raise NotImplementedError


class CommandAlerts(AlertSink):
    """Runs a program for each alert, without a shell.

    The alert is on standard input as JSON, and in `SENSORMEND_ID`, `_SEVERITY`, `_TITLE`, `_TEXT`, `_SENSOR`,
    `_VARIABLE`, `_STATE`, `_REASON` and `_SINCE`. A program that ends with anything but 0 refuses the alert; one that
    cannot be run, or takes longer than a minute, fails. It is run again later in both cases.

    Parameters
    ----------
    words
        The program and its arguments; a text is split as by a shell, and nothing in it is expanded.
    """

    def __init__(
        self,
        words: str | Sequence[str],
        timeout: float = COMMAND_TIMEOUT,
        *,
        details: AlertDetails = NO_DETAILS,
    ) -> None:
        super().__init__(details)
        try:
            self._words = shlex.split(words) if isinstance(words, str) else list(words)
        except ValueError as error:
            raise ConfigError(f"a command for alerts cannot be parsed: {error}") from None
        if not self._words:
            raise ConfigError("a command for alerts is empty: name the program to run")
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"a command for alerts cannot be run: there is no program {self._words[0]!r}")
        self._timeout = timeout

    def send(self, alert: Alert) -> None:
        """Run the program."""
        message = alert_message(alert, self.details)
        names = ("id", "severity", "title", "text", "sensor", "variable", "state", "reason", "since")
        environment = {**os.environ, **{f"SENSORMEND_{name.upper()}": valid_text(str(message[name])) for name in names}}
        program = self._words[0]
        # Files, no pipes: a pipe that a grandchild keeps open would be waited for without end.
        with tempfile.TemporaryFile() as content, tempfile.TemporaryFile() as errors:
            content.write(json_bytes(message))
            content.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    env=environment,
                    stdin=content,
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
                    _kill(process)
            if status:
                errors.seek(0)
                last = errors.read(10_000).decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
                raise RefusedError(f"{program} ended with {status}{': ' if last else ''}{last}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


class WebhookAlerts(AlertSink):
    """Posts each alert to an address; Slack, Mattermost and others show its `text`.

    Any 2xx is a success. 3xx and 4xx are refusals, except for 408, 425 and 429; those, 5xx and no answer are retried. A
    user and a password in the address are sent as basic authentication. Only the host is ever logged.
    """

    def __init__(
        self,
        address: str,
        timeout: float = WEBHOOK_TIMEOUT,
        *,
        details: AlertDetails = NO_DETAILS,
        shown: str | None = None,
    ) -> None:
        super().__init__(details)
        try:
            parts = urlsplit(address)
            _ = parts.port
        except ValueError:
            raise ConfigError(f"{plain(address)} is not an address of a webhook") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{plain(address)} is not an address of a webhook: it begins with https:// and a host")
        self._shown = plain(address) if shown is None else shown
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if parts.username is not None:
            headers["Authorization"] = basic(unquote(parts.username), unquote(parts.password or ""))
        # A fragment after # is for browsers, and not sent to the server.
        self._address = urlunsplit((parts.scheme, parse_host(address), parts.path or "/", parts.query, ""))
        self._is_slack = parts.hostname == SLACK
        self._client = WebClient(self._shown, headers, timeout)

    def content(self, alert: Alert) -> dict[str, Any]:
        """Return the content to post."""
        message = alert_message(alert, self.details)
        if self._is_slack:
            # Slack reads <...> as a link or a mention of everybody, and names come from outside.
            message["text"] = escape(message["text"], quote=False)
        return message

    def send(self, alert: Alert) -> None:
        """Post the alert."""
        self._client.request("POST", self._address, json_bytes(self.content(alert)))


class NtfyAlerts(WebhookAlerts):
    """Publishes each alert to a topic of an ntfy server: `ntfy://host/topic`, or `ntfys://` with encryption.

    A user and a password in the address are sent as such; for an access token the user is empty. Answers are handled as
    those of a webhook.
    """

    def __init__(self, address: str, *, details: AlertDetails = NO_DETAILS) -> None:
        scheme, _, rest = address.partition("://")
        server, _, topic = rest.rstrip("/").rpartition("/")
        if not server or not topic or "?" in topic:
            raise ConfigError(f"{plain(address)} is not an address of an ntfy topic: it is like ntfys://ntfy.sh/topic")
        self._topic = unquote(topic)
        scheme = "https" if scheme == "ntfys" else "http"
        super().__init__(f"{scheme}://{server}/", details=details, shown=plain(address))

    def content(self, alert: Alert) -> dict[str, Any]:
        """Return a message for ntfy, whose fields have other names."""
        message = super().content(alert)
        fields = {
            "topic": self._topic,
            "title": message["title"],
            "message": message["text"],
            "priority": NTFY_PRIORITIES[message["severity"]],
            "tags": [message["state"]],
        }
        return fields | ({"click": message["url"]} if message["url"] else {})
