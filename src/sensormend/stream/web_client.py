"""`WebClient` sends requests to one server, and tells refusals from what may succeed later."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPException
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sensormend import __version__
from sensormend.errors import RefusedError, SensormendError

__all__ = ["WebClient", "basic"]

TEMPORARY = (408, 425, 429)
"""Status codes of client errors after which the same request may succeed later."""

LARGEST_ANSWER = 64 << 20
"""The maximum number of bytes of an answer that are read."""


def basic(user: str, password: str) -> str:
    """Return the header of a login.

    Examples
    --------
    >>> basic("me", "hush")
    'Basic bWU6aHVzaA=='
    """
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


class WebClient:
    """Sends requests and follows no redirects.

    Any 2xx is a success. 3xx and 4xx are refusals (`RefusedError`), except for 408, 425 and 429; those, 5xx and no
    answer are a `SensormendError`. Messages name the server as `shown`, and have nothing else of the address.
    """

    def __init__(self, shown: str, headers: Mapping[str, str], timeout: float) -> None:
        self._shown, self._timeout = shown, timeout
        self._headers = {"User-Agent": f"sensormend/{__version__}", **headers}
        self._opener = build_opener(_NoRedirects)

    def request(self, method: str, address: str, body: bytes | None = None) -> bytes:
        """Send a request, and return the body of the answer."""
        request = Request(address, body, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                content: bytes = answer.read(LARGEST_ANSWER)
                return content
        except HTTPError as error:
            error.close()
            answer = f"{self._shown} answers {error.code} {error.reason}".rstrip()
            if error.code < 500 and error.code not in TEMPORARY:
                raise RefusedError(answer) from None
            raise SensormendError(answer) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise SensormendError(f"{self._shown}: {reason or type(error).__name__}") from None


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the new request would lack its body, or go to an unknown server."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """Return None: the redirect is an error."""
        return None
