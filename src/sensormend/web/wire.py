"""uvicorn, set up to serve one page: it says nothing of itself, waits for nobody for long, and ends when it is told."""

from __future__ import annotations

import asyncio
import socket

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from sensormend.web.guard import Streams, fixed_headers

__all__ = ["Wire"]

CONNECTIONS, HEAD = 512, 32_768
"""Connections at once, and bytes of a request line with its headers. A page needs up to six connections."""

IDLE, SLOWEST, ENDING = 5, 15.0, 3
"""Seconds for which a connection is kept without a request, for which one may take to arrive, and for which answers
that have begun may go on when the server ends."""


class Wire(uvicorn.Server):
    """Answers for an application; `streams` are those of its answers that have no end by themselves."""

    def __init__(self, app: FastAPI, streams: Streams) -> None:
        self._streams = streams
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=True,
                forwarded_allow_ips="127.0.0.1,::1",
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=ENDING,
                h11_max_incomplete_event_size=HEAD,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would go on for ever, then wait for the rest."""
        self._streams.end()
        await super().shutdown(sockets)


class _Protocol(H11Protocol):
    """Hangs up on who begins a request and does not end it; what is no request is answered with our headers too."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the clock where nothing is asked yet, and stop it where something is."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._slow is None:
            self._slow = self.loop.call_later(SLOWEST, self._hang_up)

    def _forget(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _hang_up(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # An answer is on its way already; there is no place for another one.
            self.transport.close()
            return
        body = b'{"detail": "this is no HTTP request that can be read"}'
        told = {
            **fixed_headers(),
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
        }
        headers = [(name.encode(), value.encode()) for name, value in told.items()]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
