"""`send` and `request` speak HTTP byte by byte: what an HTTP client would correct is sent as it is."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Answer", "request", "send"]


@dataclass(frozen=True)
class Answer:
    """The response; status 0 where the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes


def send(address: str, request: bytes, *, most: int = 50_000_000, seconds: float = 30.0) -> Answer:
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
            # A long request that is refused may find the connection closed while it is being sent.
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first:
        return Answer(0, {}, b"")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split(" ")[1]), headers, body)


def request(address: str, target: str | bytes, *headers: str, method: str = "GET", host: str | None = None) -> Answer:
    """Send a request for a target, as it is written, and have the connection closed."""
    place = urlsplit(address)
    path = target.encode("latin-1") if isinstance(target, str) else target
    lines = [f"Host: {place.netloc if host is None else host}", "Connection: close", *headers]
    head = f"{method} ".encode() + path + b" HTTP/1.1\r\n" + "".join(f"{one}\r\n" for one in lines).encode("latin-1")
    return send(address, head + b"\r\n")
