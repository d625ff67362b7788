"""`BoundedProtocol` closes connections that send nothing, never end a request, or do not take the response."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from sensormend.web.sessions import is_loopback

__all__ = ["BoundedProtocol"]

HEAD_TIMEOUT = 10.0
"""Seconds from the start of a connection, or from the end of a response, until the head of a request has to be
complete, however slowly it comes. uvicorn has a limit only for a connection that sends nothing after a response."""

WRITE_TIMEOUT = 30.0
"""Seconds for which a client may read nothing while more than 64 KiB of its response are waiting."""

MAX_PER_ADDRESS = 128
"""The maximum number of connections from one address: a page needs up to six. Connections from this machine are not
limited, since a proxy forwards those of everyone else."""

MAX_OPEN = 640
"""The maximum number of connections in total; beyond it a connection is closed at once, so that the process does not
run out of file descriptors. From `MAX_CONNECTIONS` on requests are refused with 503."""


class BoundedProtocol(H11Protocol):
    """The HTTP protocol of uvicorn with limits on the time and the number of connections."""

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    @property
    def host(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)
        others = [other.host for other in self.connections if isinstance(other, BoundedProtocol)]
        if len(others) > MAX_OPEN or (not is_loopback(self.host) and others.count(self.host) > MAX_PER_ADDRESS):
            transport.abort()
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._await_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read the response."""
        super().pause_writing()
        self._stalled = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _await_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._close_without_request)

    def _close_without_request(self) -> None:
        """Close the connection if no request is being answered; what is left of a response is dropped."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
