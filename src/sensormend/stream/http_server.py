"""`HttpServer` answers requests in a limited number of threads; `RequestHandler` is the base of what answers them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sensormend.files import Closing

__all__ = ["CONNECTION_TIME", "MOST_CONNECTIONS", "HttpServer", "RequestHandler"]

MOST_CONNECTIONS, CONNECTION_TIME = 64, 15.0
"""Connections at once, each a thread, and seconds for which one may last: a scrape takes milliseconds."""


class RequestHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, and logs nothing: one comes every few seconds."""

    timeout = 5
    server_version, sys_version = "sensormend", ""

    def answer(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send an answer, to a HEAD request without its body."""
        self.send_response(status)
        if body:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


class HttpServer(Closing):
    """Listens at a host and a port and answers in threads, until it is closed.

    Parameters
    ----------
    host, port
        Where it listens; port 0 takes a free one, which is `port` then.
    handler, attributes
        What answers a connection, and its attributes.
    name
        The name of its thread.

    Raises
    ------
    OSError
        It cannot listen there; the text of the error is the reason alone.
    """

    def __init__(self, host: str, port: int, handler: type[RequestHandler], name: str, **attributes: Any) -> None:
        try:
            self._server = _BoundedServer((host, port), type("Handler", (handler,), attributes))
        except (OSError, OverflowError) as error:
            raise OSError(getattr(error, "strerror", None) or str(error)) from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _BoundedServer(ThreadingHTTPServer):
    """Answers each connection in a thread: `MOST_CONNECTIONS` at a time, `CONNECTION_TIME` seconds each."""

    daemon_threads = True
    request_queue_size = 128
    # Otherwise a second service would share the port of the first, on systems that allow it.
    allow_reuse_port = False

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and close the connection of a client that is too slow."""
        slow = threading.Timer(CONNECTION_TIME, _close_connection, (request,))
        slow.daemon = True
        slow.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            slow.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing when a client closes the connection."""


def _close_connection(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
