"""A page for machines: what Prometheus reads, and whether the service is well."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sensormend.errors import ConfigError
from sensormend.files import Closing
from sensormend.stream.metrics import Metrics

__all__ = ["Page"]

CONNECTIONS, SLOWEST = 64, 15.0
"""Connections at once, each a thread, and seconds for which one may last: whoever looks takes one for milliseconds."""


class Page(Closing):
    """Shows `/metrics` to Prometheus, `/healthz` to whoever looks after the service.

    `/healthz` says 200 where the service does its work, 503 where it does not: its loop is not heard, the source is not
    connected, the disk is full. A sink that is down is told of, and no reason for a 503: its backlog is on disk.

    Parameters
    ----------
    metrics
        What is shown.
    host, port
        Where; port 0 takes a free one.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server = _Server((host, port), type("Handler", (_Handler,), {"metrics": metrics}))
        except (OSError, OverflowError) as error:
            told = getattr(error, "strerror", None) or error
            raise ConfigError(f"metrics cannot be shown at {host}:{port}: {told}; choose another place") from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show nothing any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    # Else a service that starts while another holds the port would share it, on systems that let it.
    allow_reuse_port = False

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up where there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and hang up on who takes too long to ask."""
        slow = threading.Timer(SLOWEST, _hang_up, (request,))
        slow.daemon = True
        slow.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            slow.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about somebody who hung up."""


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    metrics: Metrics
    timeout = 5
    server_version, sys_version = "sensormend", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            from prometheus_client.exposition import choose_encoder

            encoder, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, kind, encoder(self.metrics.registry))
        elif path == "/healthz":
            well, told = self.metrics.health()
            self._answer(200 if well else 503, "application/json", json.dumps(told).encode() + b"\n")
        else:
            self._answer(404, "text/plain; charset=utf-8", b"there is /metrics and /healthz\n")

    do_HEAD = do_GET  # noqa: N815

    def _refuse(self) -> None:
        self.close_connection = True
        self._answer(405, "text/plain; charset=utf-8", b"GET or HEAD\n", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse  # noqa: N815

    def _answer(self, status: int, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        told = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store", **(more or {})}
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: a scrape every few seconds is no news."""
