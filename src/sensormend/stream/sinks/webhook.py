"""Alerts to a web address: a POST with JSON for each."""

from __future__ import annotations

import base64
from email.message import Message
from http.client import HTTPException
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sensormend import __version__
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.addresses import host_of, plain
from sensormend.stream.deliveries import Alert
from sensormend.stream.sinks.alerts import AlertSink
from sensormend.stream.sinks.messages import alert_message, text_of

__all__ = ["Webhook"]

TIMEOUT = 10.0
"""Seconds to wait for an answer."""

LATER = (408, 425, 429)
"""Answers that blame the request and mean the moment."""


class Webhook(AlertSink):
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

    def __init__(self, address: str, timeout: float = TIMEOUT) -> None:
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
        # What stands behind # is for whoever shows a page, never for its server.
        self._address = urlunsplit((parts.scheme, host_of(address), parts.path or "/", parts.query, ""))
        self._opener = build_opener(_StayHere)

    def send(self, alert: Alert) -> None:
        """Post it."""
        request = Request(self._address, text_of(alert_message(alert)), self._headers, method="POST")
        try:
            self._opener.open(request, timeout=self._timeout).close()
        except HTTPError as error:
            error.close()
            said = f"{self._shown} answers {error.code} {error.reason}".rstrip()
            if error.code < 500 and error.code not in LATER:
                raise RefusedError(said) from None
            raise SensormendError(said) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise SensormendError(f"{self._shown}: {reason or type(error).__name__}") from None


class _StayHere(HTTPRedirectHandler):
    """Follows nobody: what is asked elsewhere would be asked without the alert, or of anybody."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """Take the answer for what it is."""
        return None
