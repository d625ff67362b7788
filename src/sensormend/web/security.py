"""`SecurityMiddleware` adds strict response headers; `AccessMiddleware` checks the host and the token, and signs in.

starlette's TrustedHostMiddleware is not used: it takes a list of names, and every address of 127.0.0.0/8 is this
machine; and a refusal here is JSON, with status 421.
"""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sensormend.web.models import problem
from sensormend.web.sessions import MONTH, RateLimiter, Sessions, is_loopback

__all__ = ["AccessMiddleware", "SecurityMiddleware"]

_log = logging.getLogger("sensormend.web")

EVENTS, NOTES = "/api/events", "/api/notes"
"""The path of the event stream, and the one that accepts notes."""

MAX_STREAMS = 100
"""The maximum number of event streams at once, each a connection that stays open."""

MAX_ADDRESS, MAX_HEADERS = 16_384, 16_384
"""The maximum number of bytes of a path with its query, and of all headers. The longest names, in characters that are
each encoded as twelve, take 13,200."""

MAX_BODY, BODY_TIMEOUT = 4096, 10.0
"""The maximum number of bytes of a request's body, which is a note or a form with a token, and seconds in which it has
to arrive."""

WRONG_TOKEN_DELAY = 0.5
"""Delay in seconds of the response to a wrong token."""

MESSAGE = "<!-- message -->"
"""The placeholder for a message in the sign-in page."""

CONTENT_SECURITY_POLICY = "; ".join(
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
STRICT_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    # Other sites do not get the path of a link. With "no-referrer" browsers would send "null" as a sign-in's origin.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_CLOSE = {"connection": "close"}


class SecurityMiddleware:
    """Adds the strict headers to every response, and turns an unforeseen exception into a plain 500 and a log record.

    `HEAD` is answered as `GET` is; the server leaves out the body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, started = scope["path"], False
        headers = [(name.encode(), value.encode()) for name, value in _headers_of(path).items()]
        names = {name for name, _ in headers}

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                others = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
                message = {**message, "headers": [*others, *headers]}
            await send(message)

        if scope["method"] == "HEAD" and path != EVENTS:
            scope = {**scope, "method": "GET"}
        try:
            if path == EVENTS:
                await self._stream(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except Exception as error:
            _log.error("a request to %s failed: %r", path[:200], type(error).__name__, exc_info=error)
            if not started:
                failed = problem(500, "internal error; see the log of the server")
                await failed(scope, receive, send_with_headers)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams >= MAX_STREAMS:
            await problem(503, "too many event streams are open", {"retry-after": "5"})(scope, receive, send)
            return
        self._streams += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._streams -= 1


def _headers_of(path: str) -> dict[str, str]:
    caching = "no-cache" if path.startswith("/static/") else "no-store"
    # nginx buffers some kilobytes of a response before it forwards them: events would be hours late.
    buffering = {"x-accel-buffering": "no"} if path == EVENTS else {}
    return {**STRICT_HEADERS, **buffering, "cache-control": caching}


class AccessMiddleware:
    """Decides which requests may read, and which may add a note.

    Without a token only requests for this machine's own names are answered: a page of another site could otherwise
    read everything by a name that resolves to 127.0.0.1. With one, everything but the sign-in page and the page's own
    files needs it, as `Authorization: Bearer` or as the session cookie that signing in gives.

    `sessions` checks the token and is None if there is none; `page` is the sign-in page; `edit` is whether notes may
    be written.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions | None, page: str, *, edit: bool = False) -> None:
        self._app, self._sessions, self._page, self._edit = app, sessions, page, edit
        self._limiter = RateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and scope["path"] in ("/login", "/logout"):
            refusal = await self._sign_in_or_out(scope, receive)
        elif refusal is None:
            refusal = await self._authorize(scope)
            if refusal is None and self._sessions is not None and self._sessions.is_valid(_cookie(scope)):
                send = _with_access_header(send)
            if refusal is None and scope["method"] == "POST":
                refusal, receive = await _read_note(scope, receive)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request by its host, its method or its size; None if it is accepted."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_ADDRESS:
            return problem(400, f"an address has {MAX_ADDRESS} bytes at most", _CLOSE)
        if sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADERS:
            return problem(431, f"headers have {MAX_HEADERS} bytes at most", _CLOSE)
        if self._sessions is None and not _is_for_this_machine(headers):
            return problem(421, "this is for this machine alone: ask for http://127.0.0.1 or http://localhost")
        if method == "POST" and path == NOTES and not self._edit:
            reason = "notes cannot be added here: serve was started without --edit, watch without --serve-edit"
            return problem(403, reason, _CLOSE)
        reading, writing = ("GET", "HEAD"), ("GET", "HEAD", "POST")
        by_path = {"/login": writing, "/logout": ("POST",), NOTES: writing if self._edit else reading}
        allowed = by_path.get(path, reading)
        if method not in allowed:
            return problem(405, f"{path[:100]} takes {' or '.join(allowed)}", {"allow": ", ".join(allowed), **_CLOSE})
        length = headers.get("content-length", "0")
        chunked = "transfer-encoding" in headers and path not in ("/login", "/logout")
        if not length.isdecimal() or int(length[:20]) > MAX_BODY or chunked:
            return problem(413, f"a request has {MAX_BODY} bytes at most", _CLOSE)
        return None

    async def _authorize(self, scope: Scope) -> Response | None:
        """Return the response to a request without a valid token; None if it has one or needs none."""
        if self._sessions is None or scope["path"].startswith("/static/"):
            return None
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            client = _client(scope)
            if not self._limiter.allows(client):
                return problem(429, "too many wrong tokens: wait a minute", {"retry-after": "60"})
            if self._sessions.is_token(token.strip().encode("latin-1", "replace")):
                return None
            await self._count_failure(client)
        elif self._sessions.is_valid(_cookie(scope)):
            return None
        if scope["path"] == "/":
            return RedirectResponse("login", 303)
        return problem(401, "sign in, or send the token as Authorization: Bearer", {"www-authenticate": "Bearer"})

    async def _sign_in_or_out(self, scope: Scope, receive: Receive) -> Response:
        sessions = self._sessions
        if sessions is None:
            return RedirectResponse("./", 303)
        if scope["method"] != "POST":
            return self._sign_in_page("")
        if not _is_same_origin(Headers(scope=scope)):
            return problem(403, "the request comes from another site")
        secure = scope.get("scheme") == "https"
        if scope["path"] == "/logout":
            sessions.revoke(_cookie(scope))
            response = RedirectResponse("login", 303)
            response.delete_cookie(_cookie_name(scope), httponly=True, samesite="strict", secure=secure)
            return response
        client = _client(scope)
        if not self._limiter.allows(client):
            return self._sign_in_page("Too many wrong tokens. Wait a minute, then try again.", 429)
        try:
            token = await asyncio.wait_for(_token_of_form(scope, receive), BODY_TIMEOUT)
        except (TimeoutError, ValueError, ClientDisconnect):
            return problem(413, f"a sign-in is a form with the field token, {MAX_BODY} bytes at most", _CLOSE)
        if not sessions.is_token(token):
            await self._count_failure(client)
            return self._sign_in_page("That is not the token.", 401)
        response = RedirectResponse("./", 303)
        response.set_cookie(
            _cookie_name(scope), sessions.issue(), MONTH, httponly=True, samesite="strict", secure=secure
        )
        return response

    async def _count_failure(self, client: str) -> None:
        self._limiter.failed(client)
        await asyncio.sleep(WRONG_TOKEN_DELAY)

    def _sign_in_page(self, message: str, status: int = 200) -> Response:
        alert = f'<p class="wrong" role="alert">{message}</p>' if message else ""
        return HTMLResponse(self._page.replace(MESSAGE, alert), status)


def _with_access_header(send: Send) -> Send:
    """Add a header to the response that shows that there is a session to sign out of."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"x-access", b"login")]}
        await send(message)

    return send_with_header


async def _read_note(scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
    """Return the refusal of a note, or None and a `receive` that returns all of it."""
    headers = Headers(scope=scope)
    if not _is_same_origin(headers, typed=False):
        return problem(403, "the request comes from another site", _CLOSE), receive
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "a note is sent as application/json", _CLOSE), receive
    try:
        body = await asyncio.wait_for(_body(scope, receive), BODY_TIMEOUT)
    except (TimeoutError, ValueError, ClientDisconnect):
        return problem(413, f"a note has {MAX_BODY} bytes at most", _CLOSE), receive
    read = False

    async def replay() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return None, replay


def _is_for_this_machine(headers: Headers) -> bool:
    hosts = headers.getlist("host")
    if len(hosts) != 1:
        return False
    try:
        # Removes the brackets of an IPv6 address and the port; raises for an invalid port.
        split = urlsplit(f"//{hosts[0]}")
        name, _ = split.hostname, split.port
    except ValueError:
        return False
    return name is not None and split.netloc == hosts[0] and "@" not in hosts[0] and is_loopback(name)


def _is_same_origin(headers: Headers, *, typed: bool = True) -> bool:
    """Return whether a request is from our own page or `typed`; without such headers it is not from a browser."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" or (typed and site == "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0])[:64] if client else ""


def _cookie_name(scope: Scope) -> str:
    """Return the name of the cookie, with the port: browsers share cookies among all ports of a machine."""
    server = scope.get("server")
    return f"sensormend-{server[1]}" if server and server[1] else "sensormend"


def _cookie(scope: Scope) -> str:
    """Return the session cookie of a request; cookies of other servers on this machine are skipped."""
    return Request(scope).cookies.get(_cookie_name(scope), "")


async def _body(scope: Scope, receive: Receive) -> bytes:
    body = b""
    async for part in Request(scope, receive).stream():
        body += part
        if len(body) > MAX_BODY:
            raise ValueError("too long")
    return body


async def _token_of_form(scope: Scope, receive: Receive) -> bytes:
    body = await _body(scope, receive)
    fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=10)
    (token,) = (value for key, value in fields if key == "token")
    return token.strip().encode("utf-8", "replace")
