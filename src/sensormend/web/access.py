"""Who may look and who may write, by what a request says: the host it is for, its token, its origin, what it wants."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sensormend.web.guard import problem
from sensormend.web.passes import MONTH, Passes, Patience, is_loopback

__all__ = ["Access"]

LONGEST, MOST = 16_384, 16_384
"""Bytes of an address with its query, and of all headers. The longest names that there may be, in signs of which each
becomes twelve characters, make 13,200."""

LARGEST, SLOWEST = 4096, 10.0
"""Bytes that anybody may send to us, and seconds in which they have to be here: a token in a form is all there is."""

PAUSE = 0.5
"""Seconds that a wrong token waits for its answer."""

PLACE = "<!-- said -->"
"""Where the sign-in page says what was wrong."""


NOTES = "/api/notes"
"""The one address that can be written to, where that was wanted."""


class Access:
    """Lets in who may look; nothing can be written but a note, where that was wanted, from a page of this server.

    Without a token it answers only to who asks for this machine by one of its own names: a page of somebody else that a
    browser has open could otherwise read everything here by a name that leads to 127.0.0.1. With one, everybody but
    the sign-in page and the page's own files needs it, as `Authorization: Bearer` or as the pass that signing in gives.

    Parameters
    ----------
    app
        What they see.
    passes
        Knows the token; None where there is none.
    page
        The sign-in page.
    edit
        Whether notes may be written.
    """

    def __init__(self, app: ASGIApp, passes: Passes | None, page: str, *, edit: bool = False) -> None:
        self._app, self._passes, self._page, self._edit = app, passes, page, edit
        self._patience = Patience()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and scope["path"] in ("/login", "/logout"):
            refusal = await self._door(scope, receive)
        elif refusal is None:
            refusal = await self._checked(scope)
            if refusal is None and self._passes is not None and self._passes.good(_shown(scope)):
                send = _signed_in(send)
            if refusal is None and scope["method"] == "POST":
                refusal, receive = await _whole_note(scope, receive)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST:
            return problem(400, f"an address has {LONGEST} bytes at most", {"connection": "close"})
        if sum(len(name) + len(value) for name, value in headers.raw) > MOST:
            return problem(431, f"headers have {MOST} bytes at most", {"connection": "close"})
        if self._passes is None and not _ours(headers):
            return problem(421, "this is for this machine alone: ask for http://127.0.0.1 or http://localhost")
        door = scope["path"] in ("/login", "/logout")
        writable = {"/login": ("GET", "HEAD", "POST"), "/logout": ("POST",)}
        if self._edit:
            writable[NOTES] = ("GET", "HEAD", "POST")
        allowed = writable.get(scope["path"], ("GET", "HEAD"))
        if scope["method"] == "POST" and scope["path"] == NOTES and not self._edit:
            reason = "nothing can be written here: serve was started without --edit, watch without --serve-edit"
            return problem(403, reason, {"connection": "close"})
        if scope["method"] not in allowed:
            close = {"allow": ", ".join(allowed), "connection": "close"}
            return problem(405, f"{scope['path'][:100]} takes {' or '.join(allowed)}", close)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > LARGEST or ("transfer-encoding" in headers and not door):
            return problem(413, f"nobody sends more than {LARGEST} bytes here", {"connection": "close"})
        return None

    async def _checked(self, scope: Scope) -> Response | None:
        """Return what somebody without a token is told; None for those who may look."""
        if self._passes is None or scope["path"].startswith("/static/"):
            return None
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            who = _who(scope)
            if not self._patience.left(who):
                return _too_many()
            if self._passes.right(given.strip().encode("latin-1", "replace")):
                return None
            await self._wrong(who)
        elif self._passes.good(_shown(scope)):
            return None
        if scope["path"] in ("/", "/docs"):
            return RedirectResponse("login", 303)
        return problem(401, "sign in, or send the token as Authorization: Bearer", {"www-authenticate": "Bearer"})

    async def _door(self, scope: Scope, receive: Receive) -> Response:
        passes = self._passes
        if passes is None:
            return RedirectResponse("./", 303)
        if scope["method"] != "POST":
            return self._shows("")
        headers = Headers(scope=scope)
        if not _from_here(headers):
            return problem(403, "another site sent this")
        if scope["path"] == "/logout":
            passes.take_back(_shown(scope))
            return _leaving(scope)
        who = _who(scope)
        if not self._patience.left(who):
            return self._shows("Too many wrong tokens. Wait a minute, then try again.", 429)
        try:
            given = await asyncio.wait_for(_form(receive), SLOWEST)
        except (TimeoutError, ValueError):
            return problem(413, f"a sign-in is a form with the field token, {LARGEST} bytes at most",
                           {"connection": "close"})  # fmt: skip
        if not passes.right(given):
            await self._wrong(who)
            return self._shows("That is not the token.", 401)
        answer = RedirectResponse("./", 303)
        answer.set_cookie(_name(scope), passes.give(), MONTH, httponly=True, samesite="strict", secure=_safe(scope))
        return answer

    async def _wrong(self, who: str) -> None:
        self._patience.wrong(who)
        await asyncio.sleep(PAUSE)

    def _shows(self, said: str, status: int = 200) -> Response:
        told = f'<p class="wrong" role="alert">{said}</p>' if said else ""
        return HTMLResponse(self._page.replace(PLACE, told), status)


async def _whole_note(scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
    """Return why a note is refused, or None and where it is read from: all of it is here by then."""
    headers = Headers(scope=scope)
    close = {"connection": "close"}
    if not _from_here(headers, typed=False):
        return problem(403, "another site sent this", close), receive
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "a note is sent as application/json", close), receive
    try:
        body = await asyncio.wait_for(_body(receive), SLOWEST)
    except (TimeoutError, ValueError):
        return problem(413, f"a note has {LARGEST} bytes at most", close), receive
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return None, again


def _signed_in(send: Send) -> Send:
    """Tell the page that there is something to sign out of."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"x-access", b"login")]}
        await send(message)

    return told


def _too_many() -> Response:
    return problem(429, "too many wrong tokens: wait a minute", {"retry-after": "60"})


def _leaving(scope: Scope) -> Response:
    answer = RedirectResponse("login", 303)
    answer.delete_cookie(_name(scope), httponly=True, samesite="strict", secure=_safe(scope))
    return answer


def _ours(headers: Headers) -> bool:
    hosts = headers.getlist("host")
    if len(hosts) != 1:
        return False
    try:
        # Takes the brackets off an IPv6 address, and the port with it; raises for a port that is none.
        split = urlsplit(f"//{hosts[0]}")
        named, _ = split.hostname, split.port
    except ValueError:
        return False
    return named is not None and split.netloc == hosts[0] and "@" not in hosts[0] and is_loopback(named)


def _from_here(headers: Headers, *, typed: bool = True) -> bool:
    """Say whether a request comes from a page of ours, or was `typed`; who says nothing about it is no browser."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" or (typed and site == "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _who(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0])[:64] if client else ""


def _name(scope: Scope) -> str:
    """Return the name of the cookie: browsers keep one jar for all ports of a machine."""
    server = scope.get("server")
    return f"sensormend-{server[1]}" if server and server[1] else "sensormend"


def _safe(scope: Scope) -> bool:
    return bool(scope.get("scheme") == "https")


def _shown(scope: Scope) -> str:
    """Return the pass that a browser shows; what other servers on this machine gave it is passed over."""
    for line in Headers(scope=scope).getlist("cookie"):
        for entry in line.split(";"):
            name, _, value = entry.strip().partition("=")
            if name == _name(scope):
                return value
    return ""


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ValueError("they hung up")
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST:
            raise ValueError("too long")
        if not message.get("more_body", False):
            return body


async def _form(receive: Receive) -> bytes:
    body = await _body(receive)
    fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=10)
    tokens: list[str] = [value for key, value in fields if key == "token"]
    if len(tokens) != 1:
        raise ValueError("no token")
    return tokens[0].strip().encode("utf-8", "replace")
