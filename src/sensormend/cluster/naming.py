"""Folders for networks, whatever these are called: safe on every file system, and never the same one for two."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

__all__ = ["folders_of"]

LONGEST = 80
"""Letters of a folder's name: there is more to come behind it, and 255 bytes are the end."""

OURS = {"data", "state", "staging", "meta", "partial"}
"""Names that are taken in an OUT, or look as if."""

DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""Names that no file may have on Windows."""


def folders_of(networks: Iterable[str]) -> dict[str, str]:
    """Return a folder's name for every network.

    It is the network's own where that is safe: ASCII letters, numbers, `_` and `-`, and no other that differs in case
    only. Else what is safe of it goes before a fingerprint, so that a name depends on the network and on those that
    are like it, not on their order.

    Examples
    --------
    >>> folders_of(["river", "../x", "A", "a"])
    {'river': 'river', '../x': 'x-d6b96a97', 'A': 'A-559aead0', 'a': 'a-ca978112'}
    """
    networks = list(dict.fromkeys(networks))
    alike = Counter(name.casefold() for name in networks)
    for length in (8, 16, 64):
        found = {name: name if alike[name.casefold()] == 1 and _is_safe(name) else _made(name, length)
                 for name in networks}  # fmt: skip
        if len({folder.casefold() for folder in found.values()}) == len(found):
            break
    return found if networks else {}


def _is_safe(name: str) -> bool:
    plain = name.casefold()
    return (
        bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name)) and len(name) <= LONGEST and plain not in OURS | DEVICES
    )


def _made(name: str, length: int) -> str:
    # An accent is left out rather than its letter.
    spelled = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    word = re.sub(r"[^A-Za-z0-9]+", "_", spelled).strip("_")[: LONGEST - 1 - length] or "network"
    return f"{word}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:length]}"
