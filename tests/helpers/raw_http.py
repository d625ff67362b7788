"""HTTP as a stranger would write it, byte by byte: what a polite client would put right is sent as it stands."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Answer", "asked", "said"]


@dataclass(frozen=True)
class Answer:
    """What came back; status 0 where the connection was closed without a word."""

    status: int
    headers: dict[str, str]
    body: bytes


def said(address: str, request: bytes, *, most: int = 50_000_000, seconds: float = 30.0) -> Answer:
    """Send bytes and return the first answer."""
    place = urlsplit(address)
    assert place.hostname is not None
    with socket.create_connection((place.hostname, place.port or 80), timeout=seconds) as line:
        received = b""
        try:
            line.sendall(request)
            while len(received) < most and (part := line.recv(65536)):
                received += part
        except ConnectionError:
            # Whoever is refused in the middle of a long request may find the line cut while it still talks.
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first:
        return Answer(0, {}, b"")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split(" ")[1]), headers, body)


def asked(address: str, target: str | bytes, *headers: str, method: str = "GET", host: str | None = None) -> Answer:
    """Send a request for a target, as it is written, and have the connection closed."""
    place = urlsplit(address)
    path = target.encode("latin-1") if isinstance(target, str) else target
    lines = [f"Host: {place.netloc if host is None else host}", "Connection: close", *headers]
    head = f"{method} ".encode() + path + b" HTTP/1.1\r\n" + "".join(f"{one}\r\n" for one in lines).encode("latin-1")
    return said(address, head + b"\r\n")
