"""`Sessions` checks the access token and issues signed session cookies; `RateLimiter` limits wrong tokens.

starlette's SessionMiddleware is not used: it decides once per process whether a cookie is `Secure` (here the request
decides, which may come through a proxy with TLS), and it cannot end a session on the server, which signing out does.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

from sensormend.errors import ConfigError

__all__ = ["RateLimiter", "Sessions", "is_loopback", "read_token"]

TOKEN = "SENSORMEND_TOKEN"
"""The environment variable for the token."""

SHORTEST, LONGEST = 16, 512
"""The minimum and the maximum number of characters of a token: 16 random ones cannot be guessed."""

MONTH = 30 * 86_400
"""Seconds for which a session is valid."""

MAX_REVOKED = 10_000
"""Ended sessions that are remembered; only the holder of a valid one can end it."""

MAX_FAILURES, MAX_FAILURES_OF_ALL, WINDOW, MAX_CLIENTS = 10, 300, 60.0, 1000
"""Wrong tokens within a window of seconds, from one address and from all; and addresses that are remembered."""


def read_token(file: Path | None = None) -> str | None:
    """Return the token of a file, else that of the environment, else None.

    It is never taken from the command line, which every user of the machine can read.
    """
    if file is not None:
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(LONGEST + 100)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ConfigError(f"the token cannot be read from {file}: {reason}") from None
    elif TOKEN in os.environ:
        text = os.environ[TOKEN]
    else:
        return None
    token, where = text.strip(), str(file or TOKEN)
    if not SHORTEST <= len(token) <= LONGEST:
        raise ConfigError(
            f"the token in {where} has {len(token)} characters; it takes {SHORTEST} to {LONGEST}: openssl rand -hex 24"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token in {where} is one word of plain ASCII: openssl rand -hex 24")
    return token


class Sessions:
    """Checks the token, and issues session cookies in place of it.

    A cookie has its time of expiry and a signature by a key that is made anew at every start: the token cannot be
    computed from it, and a restart ends every session. `clock` returns seconds since 1970.

    Examples
    --------
    >>> sessions = Sessions("a token of your own")
    >>> sessions.is_token(b"a guess"), sessions.is_token(b"a token of your own")
    (False, True)
    >>> cookie = sessions.issue()
    >>> sessions.is_valid(cookie), sessions.is_valid(cookie + "0")
    (True, False)
    >>> sessions.revoke(cookie)
    >>> sessions.is_valid(cookie)
    False
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = secrets.token_bytes(32), clock
        self._token = self._digest(b"token", token.encode())
        self._revoked: OrderedDict[str, None] = OrderedDict()

    def is_token(self, token: bytes) -> bool:
        """Return whether this is the token, in constant time."""
        return hmac.compare_digest(self._digest(b"token", token), self._token)

    def issue(self) -> str:
        """Return the cookie of a new session."""
        payload = f"{int(self._clock()) + MONTH}.{secrets.token_hex(8)}"
        return f"{payload}.{self._digest(b'session', payload.encode()).hex()}"

    def is_valid(self, cookie: str) -> bool:
        """Return whether a cookie was issued here, has not expired and was not revoked."""
        payload, _, signature = cookie.rpartition(".")
        expected = self._digest(b"session", payload.encode("utf-8", "replace")).hex()
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
            return False
        return payload not in self._revoked and self._clock() < int(payload.partition(".")[0])

    def revoke(self, cookie: str) -> None:
        """End a session."""
        if self.is_valid(cookie):
            self._revoked[cookie.rpartition(".")[0]] = None
            while len(self._revoked) > MAX_REVOKED:
                self._revoked.popitem(last=False)

    def _digest(self, purpose: bytes, text: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b":" + text, hashlib.sha256)


class RateLimiter:
    """Counts wrong tokens of each client and of all together.

    Examples
    --------
    >>> limiter = RateLimiter(clock=iter(range(100)).__next__)
    >>> for _ in range(10):
    ...     limiter.failed("192.0.2.1")
    >>> limiter.allows("192.0.2.1"), limiter.allows("192.0.2.2")
    (False, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: deque[float] = deque(maxlen=MAX_FAILURES_OF_ALL)
        self._clients: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, client: str) -> None:
        """Count a wrong token."""
        now = self._clock()
        self._all.append(now)
        self._clients.setdefault(client, deque(maxlen=MAX_FAILURES)).append(now)
        self._clients.move_to_end(client)
        while len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)

    def allows(self, client: str) -> bool:
        """Return whether a client may try another token."""
        since = self._clock() - WINDOW
        own = self._clients.get(client, deque())
        return not any(len(times) == times.maxlen and times[0] > since for times in (self._all, own))


def is_loopback(host: str) -> bool:
    """Return whether this is a name or an address of the loopback interface.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "localhost.example.org")]
    [True, True, True, False, False]
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool(address.is_loopback or (mapped is not None and mapped.is_loopback))
