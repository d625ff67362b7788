"""Around everything that is answered: headers that allow nothing more than the page needs, and no word too many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard", "Streams", "fixed_headers", "problem"]

_log = logging.getLogger("sensormend.web")

EVENTS = "/api/events"
"""The one answer that has no end."""

MOST_STREAMS, MOST = 100, 300
"""Pages that are told of changes at once, each a connection that stays; and requests at once, these included."""

CONTENT = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
FIXED = {
    "content-security-policy": CONTENT,
    "x-content-type-options": "nosniff",
    # Nobody else is told where a link was. "no-referrer" would have browsers say "null" for where a sign-in comes from.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def fixed_headers(path: str = "/api") -> dict[str, str]:
    """Return what every answer to a path says to the browser."""
    caching = "no-cache" if path.startswith("/static/") else "no-store"
    # nginx keeps an answer until it has some kilobytes of it, unless it is told: news would come hours late.
    passing = {"x-accel-buffering": "no"} if path == EVENTS else {}
    return {**FIXED, **passing, "cache-control": caching}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that says in one line what is wrong."""
    line = " ".join(detail.split())
    return JSONResponse({"detail": line if len(line) <= 500 else f"{line[:497]}..."}, status, headers)


class Streams:
    """The answers without an end, so that they can be ended, and are not too many."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False

    def begin(self) -> asyncio.Task[Any] | None:
        """Take in the answer of this task; None where there are too many, or no more are wanted."""
        task = asyncio.current_task()
        if self._over or task is None or len(self._tasks) >= MOST_STREAMS:
            return None
        self._tasks.add(task)
        return task

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Forget it."""
        self._tasks.discard(task)

    @property
    def over(self) -> bool:
        """Whether all were ended."""
        return self._over

    def end(self) -> None:
        """End them all; called where they run."""
        self._over = True
        for task in list(self._tasks):
            task.cancel()


class Guard:
    """The outermost of what answers: no answer goes out without its headers, and no failure with its reasons.

    `HEAD` is answered as `GET` is, without the body. A failure that nobody foresaw is logged once, with its trace, and
    said to be one.
    """

    def __init__(self, app: ASGIApp, streams: Streams) -> None:
        self._app, self._streams = app, streams
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = _Answer(send, fixed_headers(scope["path"]), bare=scope["method"] == "HEAD")
        self._at_work += 1
        try:
            await self._answered(scope, receive, answer)
        except Exception as error:
            _log.error("a request to %s failed: %r", scope["path"][:200], type(error).__name__, exc_info=error)
            if not answer.begun:
                failed = problem(500, "something went wrong here; the log of the server says what")
                await failed(scope, receive, answer)
        finally:
            self._at_work -= 1

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        if self._at_work > MOST:
            await problem(503, "too much at once", {"retry-after": "1"})(scope, receive, answer)
            return
        if scope["path"] != EVENTS:
            await self._app({**scope, "method": "GET"} if answer.bare else scope, receive, answer)
            return
        task = self._streams.begin()
        if task is None:
            away = problem(503, "too many are listening, or the server is ending", {"retry-after": "5"})
            await away(scope, receive, answer)
            return
        try:
            await self._app(scope, receive, answer)
        except asyncio.CancelledError:
            if not self._streams.over:
                raise
            if not answer.begun:
                await problem(503, "the server is ending")(scope, receive, answer)
            elif not answer.complete:
                await answer({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._streams.ended(task)


class _Answer:
    """Sends an answer on, with the headers of all answers."""

    def __init__(self, send: Send, headers: dict[str, str], *, bare: bool) -> None:
        self._send, self._headers, self.bare = send, headers, bare
        self.begun = self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": self._merged(message)}
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
            if self.bare:
                message = {**message, "body": b""}
        await self._send(message)

    def _merged(self, message: MutableMapping[str, Any]) -> list[tuple[bytes, bytes]]:
        ours = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        named = {name for name, _ in ours} | {b"server"}
        return [*((name, value) for name, value in message.get("headers", ()) if name.lower() not in named), *ours]
