"""Who may look: the token, the passes that a right one is changed into, and patience with wrong ones."""

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

__all__ = ["Passes", "Patience", "is_loopback", "read_token"]

TOKEN = "SENSORMEND_TOKEN"
"""The variable of the environment that may have the token."""

SHORTEST, LONGEST = 16, 512
"""Characters of a token: 16 of them at random are out of reach for guessing, whoever tries for however long."""

MONTH = 30 * 86_400
"""Seconds for which a pass is good."""

RETURNED = 10_000
"""Passes that were handed back and are remembered; only who has a good one can hand it back."""

WRONG, WRONG_BY_ALL, MINUTE, STRANGERS = 10, 300, 60.0, 1000
"""Wrong tokens in a minute: from one address, and from all; for how many addresses that is remembered."""


def read_token(file: Path | None = None) -> str | None:
    """Return the token of a file, else that of the environment, else None.

    It is never taken from the command line, which everybody on the machine can read.
    """
    if file is not None:
        try:
            with file.open(encoding="utf-8") as opened:
                given = opened.read(LONGEST + 100)
        except (OSError, UnicodeDecodeError) as error:
            told = getattr(error, "strerror", None) or "it is no text"
            raise ConfigError(f"the token cannot be read from {file}: {told}") from None
    elif TOKEN in os.environ:
        given = os.environ[TOKEN]
    else:
        return None
    return _checked(given.strip(), str(file or TOKEN))


def _checked(token: str, where: str) -> str:
    if not SHORTEST <= len(token) <= LONGEST:
        raise ConfigError(
            f"the token in {where} has {len(token)} characters; it takes {SHORTEST} to {LONGEST}: openssl rand -hex 24"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token in {where} is one word of plain ASCII: openssl rand -hex 24")
    return token


class Passes:
    """Knows the token, and gives passes to who has said it, for a browser to show in its place.

    A pass says until when it is good and is signed by a key that is made anew at every start. The token cannot be found
    out from it, and a restart ends them all.

    Parameters
    ----------
    token
        What opens the door.
    clock
        Seconds since 1970.

    Examples
    --------
    >>> passes = Passes("a token of your own")
    >>> passes.right(b"a guess"), passes.right(b"a token of your own")
    (False, True)
    >>> shown = passes.give()
    >>> passes.good(shown), passes.good(shown + "0")
    (True, False)
    >>> passes.take_back(shown)
    >>> passes.good(shown)
    False
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = secrets.token_bytes(32), clock
        self._token = self._sealed(b"token", token.encode())
        self._returned: OrderedDict[str, None] = OrderedDict()

    def right(self, given: bytes) -> bool:
        """Say whether this is the token, in a time that tells nothing about it."""
        return hmac.compare_digest(self._sealed(b"token", given), self._token)

    def give(self) -> str:
        """Return a new pass."""
        said = f"{int(self._clock()) + MONTH}.{secrets.token_hex(8)}"
        return f"{said}.{self._sealed(b'pass', said.encode()).hex()}"

    def good(self, shown: str) -> bool:
        """Say whether this is a pass of ours that is still good."""
        said, _, seal = shown.rpartition(".")
        expected = self._sealed(b"pass", said.encode("utf-8", "replace")).hex()
        if not hmac.compare_digest(seal.encode("utf-8", "replace"), expected.encode()):
            return False
        return said not in self._returned and self._clock() < int(said.partition(".")[0])

    def take_back(self, shown: str) -> None:
        """Make a pass worthless."""
        if self.good(shown):
            self._returned[shown.rpartition(".")[0]] = None
            while len(self._returned) > RETURNED:
                self._returned.popitem(last=False)

    def _sealed(self, kind: bytes, text: bytes) -> bytes:
        return hmac.digest(self._key, kind + b":" + text, hashlib.sha256)


class Patience:
    """Counts wrong tokens, and says when to stop listening for a while.

    Examples
    --------
    >>> patience = Patience(steady=iter(range(100)).__next__)
    >>> for _ in range(10):
    ...     patience.wrong("192.0.2.1")
    >>> patience.left("192.0.2.1"), patience.left("192.0.2.2")
    (False, True)
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._all: deque[float] = deque(maxlen=WRONG_BY_ALL)
        self._each: OrderedDict[str, deque[float]] = OrderedDict()

    def wrong(self, who: str) -> None:
        """Remember a wrong token."""
        now = self._steady()
        self._all.append(now)
        self._each.setdefault(who, deque(maxlen=WRONG)).append(now)
        self._each.move_to_end(who)
        while len(self._each) > STRANGERS:
            self._each.popitem(last=False)

    def left(self, who: str) -> bool:
        """Say whether another token may be tried."""
        since = self._steady() - MINUTE
        mine = self._each.get(who, deque())
        return not any(len(times) == times.maxlen and times[0] > since for times in (self._all, mine))


def is_loopback(host: str) -> bool:
    """Say whether this is a name or an address by which only this machine reaches itself.

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
