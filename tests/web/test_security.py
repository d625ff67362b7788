"""Who may look, and what a browser is told to allow."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from raw_http import request
from sensormend.errors import ConfigError
from sensormend.web import security, sessions
from sensormend.web.server import Server
from sensormend.web.sessions import MONTH, RateLimiter, Sessions, read_token

TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
STRICT = {
    "content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-opener-policy",
    "cross-origin-resource-policy", "permissions-policy", "x-frame-options", "cache-control",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "WRONG_TOKEN_DELAY", 0.0)


@pytest.fixture
def behind(city_out: Path) -> Iterator[httpx.Client]:
    """Return a client of a server that asks for a token."""
    with Server(city_out, port=0, token=TOKEN) as server:
        server.start()
        with httpx.Client(base_url=server.address) as client:
            yield client


def signed_in(client: httpx.Client) -> str:
    answer = client.post("/login", data={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    return answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("method", "target", "host", "status"),
    [
        ("GET", "/", None, 200),
        ("HEAD", "/", None, 200),
        ("GET", "/docs", None, 404),
        ("GET", "/static/app.css", None, 200),
        ("GET", "/static/nothing.css", None, 404),
        ("GET", "/nothing", None, 404),
        ("GET", "/login", None, 303),
        ("GET", "/api/network", None, 200),
        ("HEAD", "/api/network", None, 200),
        ("HEAD", "/api/events", None, 405),
        ("GET", "/api/openapi.json", None, 200),
        ("GET", "/api/nothing", None, 404),
        ("GET", "/api/sensor?sensor=nobody", None, 404),
        ("GET", "/api/sensors?limit=many", None, 422),
        ("GET", "/api/faults.csv", None, 200),
        ("POST", "/api/network", None, 405),
        ("DELETE", "/", None, 405),
        ("GET", "/", "evil.example", 421),
        ("GET", "/api/network", "evil.example", 421),
    ],
)
def test_every_answer_has_the_strict_headers(
    address: str, method: str, target: str, host: str | None, status: int
) -> None:
    answer = request(address, target, method=method, host=host)
    assert answer.status == status
    assert set(answer.headers) >= STRICT
    assert "server" not in answer.headers
    policy = answer.headers["content-security-policy"]
    assert {"default-src 'none'", "script-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(
        policy.split("; ")
    )
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == ("no-cache" if target.startswith("/static/") else "no-store")
    if method == "HEAD":
        assert answer.body == b""


def test_what_is_no_http_is_answered_by_the_server_alone(address: str) -> None:
    answer = request(address, "/\x01")
    assert (answer.status, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert answer.body == b"Invalid HTTP request received."
    assert "server" not in answer.headers


def test_an_unforeseen_failure_is_reported_without_its_cause_and_logged_once(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sensormend.web import pages

    def broken(request: object, path: object) -> None:
        raise RuntimeError("the secret of /etc/shadow")

    monkeypatch.setattr(pages, "file_response", broken)
    answer = request(address, "/?token=whatever")
    assert answer.status == 500
    assert set(answer.headers) >= STRICT
    assert b"secret" not in answer.body
    assert answer.body.startswith(b'{"detail":')
    (logged,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged.exc_info is not None
    assert "whatever" not in caplog.text


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8464", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8464", "127.8.9.10", "localhost."],
)
def test_names_of_this_machine_are_answered_to(address: str, host: str) -> None:
    assert request(address, "/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example",
        "evil.example@127.0.0.1", "0.0.0.0", "10.0.0.1", "[::]", "[::1", "127.0.0.1:port", "127.0.0.1:99999",
        "127.0.0.1/evil", "127.0.0.1?", "2130706433", "0x7f.1", "localhost#",
    ],
)  # fmt: skip
def test_other_names_are_not(address: str, host: str) -> None:
    assert request(address, "/", host=host).status in (400, 421)


def test_a_request_without_a_host_or_with_two_is_refused(address: str) -> None:
    from raw_http import send

    assert send(address, b"GET / HTTP/1.0\r\n\r\n").status == 421
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert send(address, twice).status == 400


def test_without_the_token_nothing_is_shown(behind: httpx.Client) -> None:
    for path in ("/api/network", "/api/openapi.json", "/api/events", "/api/nothing", "/nothing", "/a/b"):
        answer = behind.get(path)
        assert (path, answer.status_code) == (path, 401)
        assert "token" in answer.json()["detail"]
        assert answer.headers["www-authenticate"] == "Bearer"
    answer = behind.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "login")
    assert behind.get("/login").status_code == 200
    assert behind.get("/static/login.js").status_code == 200, "the sign-in page needs them, and they are no secret"


def test_the_token_opens_it(behind: httpx.Client) -> None:
    answer = behind.get("/api/network", headers=BEARER)
    assert answer.status_code == 200
    assert "x-access" not in answer.headers, "there is nothing to sign out of"
    assert behind.get("/", headers=BEARER).status_code == 200


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer \xfc\xff"],
)
def test_nothing_else_opens_it(behind: httpx.Client, given: str) -> None:
    answer = behind.get("/api/network", headers={b"Authorization": given.encode("latin-1")})
    assert answer.status_code == 401


def test_a_token_in_an_address_opens_nothing(behind: httpx.Client) -> None:
    assert behind.get("/api/network", params={"token": TOKEN}).status_code == 401
    assert behind.get("/login", params={"token": TOKEN}).headers.get("set-cookie") is None


def test_signing_in_gives_a_session_that_is_not_the_token(behind: httpx.Client) -> None:
    cookie = signed_in(behind)
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={MONTH}"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    answer = behind.get("/api/network")
    assert (answer.status_code, answer.headers["x-access"]) == (200, "login")
    port = behind.base_url.port
    assert cookie.startswith(f"sensormend-{port}="), "browsers keep one jar for all ports of a machine"


def test_behind_a_proxy_with_tls_the_cookie_is_secure(behind: httpx.Client) -> None:
    answer = behind.post("/login", data={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.headers["set-cookie"].split("; ")


def test_signing_out_ends_the_session(behind: httpx.Client) -> None:
    signed_in(behind)
    cookies = dict(behind.cookies)
    answer = behind.post("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "login")
    assert behind.get("/api/network").status_code == 401
    behind.cookies.update(cookies)
    assert behind.get("/api/network").status_code == 401


def test_other_cookies_do_not_disturb(behind: httpx.Client) -> None:
    value = signed_in(behind).partition(";")[0]
    behind.cookies.clear()
    strange = f'theme={{"a":[1,2]}}; =; ;;; session="x\\"; {value}; other=\xff'
    assert behind.get("/api/network", headers={b"Cookie": strange.encode("latin-1")}).status_code == 200
    name, _, shown = value.partition("=")
    for forged in (shown[:-1], f"{shown}0", f"9{shown}", shown.replace(".", ""), "", "..", "\xff", "1.2.3"):
        headers = {b"Cookie": f"{name}={forged}".encode("latin-1")}
        assert behind.get("/api/network", headers=headers).status_code == 401


def test_a_wrong_token_is_reported_on_the_page(behind: httpx.Client) -> None:
    answer = behind.post("/login", data={"token": "wrong"})
    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert "set-cookie" not in answer.headers
    assert "wrong-token-that-is-echoed" not in behind.post("/login", data={"token": "wrong-token-that-is-echoed"}).text


def test_after_some_wrong_tokens_all_are_refused_for_a_while(behind: httpx.Client) -> None:
    statuses = [behind.post("/login", data={"token": "wrong"}).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert behind.post("/login", data={"token": TOKEN}).status_code == 429, "guessing would go on else"
    assert behind.get("/api/network", headers=BEARER).status_code == 429
    other = {"X-Forwarded-For": "192.0.2.7"}
    assert behind.post("/login", data={"token": TOKEN}, headers=other).status_code == 303, "from elsewhere it goes on"
    assert behind.get("/api/network").status_code == 200, "and who is in stays in"


def test_wrong_bearers_count_too(behind: httpx.Client) -> None:
    statuses = [behind.get("/api/network", headers={"Authorization": "Bearer no"}).status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]


def test_the_rate_limiter_needs_no_more_memory_for_more_clients() -> None:
    limiter = RateLimiter(lambda: 0.0)
    for number in range(5000):
        limiter.failed(f"192.0.2.{number}")
    assert len(limiter._clients) == sessions.MAX_CLIENTS
    assert not limiter.allows("198.51.100.1"), "many unknown addresses at once are one"
    now = [0.0]
    limiter = RateLimiter(lambda: now[0])
    for _ in range(sessions.MAX_FAILURES):
        limiter.failed("a")
    assert not limiter.allows("a")
    now[0] = sessions.WINDOW + 1
    assert limiter.allows("a")


def test_sessions_end_by_themselves_and_with_the_server() -> None:
    now = [1_000_000.0]
    given = Sessions(TOKEN, lambda: now[0])
    cookie = given.issue()
    now[0] += MONTH - 1
    assert given.is_valid(cookie)
    now[0] += 2
    assert not given.is_valid(cookie)
    assert not Sessions(TOKEN).is_valid(Sessions(TOKEN).issue()), "the key is made anew at every start"
    for _ in range(5):
        given.revoke("never given")
    assert not given._revoked, "nobody can fill the memory with sessions that never were"


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[type, type, int, int]] = []
    real = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((type(a), type(b), len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    given = Sessions(TOKEN)
    assert not given.is_token(b"x")
    assert given.is_token(TOKEN.encode())
    assert given.is_valid(given.issue())
    assert not given.is_valid("1.2.3")
    assert len(compared) == 4
    assert {pair[:2] for pair in compared} == {(bytes, bytes)}
    assert all(a == b for _, _, a, b in compared[:2]), "nor does the length tell anything"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"}, 303),
        ({}, 303),
    ],
)
def test_forms_of_other_sites_are_refused(behind: httpx.Client, headers: dict[str, str], status: int) -> None:
    for path in ("/login", "/logout"):
        assert behind.post(path, data={"token": TOKEN}, headers=headers).status_code == status
    own = {"Origin": str(behind.base_url).rstrip("/")}
    assert behind.post("/login", data={"token": TOKEN}, headers=own).status_code == 303


@pytest.mark.parametrize(
    "body",
    [b"", b"token", b"tok=en", b"token=a&token=b", b"token=" + b"x" * 5000, b"&" * 3000, b"\xff\x00", b"{}"],
)
def test_a_form_that_is_none_is_refused(behind: httpx.Client, body: bytes) -> None:
    assert behind.post("/login", content=body).status_code in (401, 413)


def test_a_form_in_pieces_is_bounded_too(behind: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        yield b"token="
        for _ in range(100):
            yield b"x" * 1000

    assert behind.post("/login", content=endless()).status_code == 413
    assert behind.post("/login", content=iter([b"token=", TOKEN.encode()])).status_code == 303


def test_methods_that_change_things_are_refused(behind: httpx.Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        answer = behind.request(method, "/api/network", headers=BEARER)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert behind.put("/login").headers["allow"] == "GET, HEAD, POST"
    assert behind.get("/logout").headers["allow"] == "POST"


def test_the_token_is_in_no_log(behind: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    shown = re.sub(r"^.*?=|;.*", "", signed_in(behind))
    behind.get("/api/network", headers=BEARER)
    behind.get("/api/network", headers={"Authorization": "Bearer a-wrong-token-of-somebody"})
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore", "asyncio"))]
    text = " ".join(record.getMessage() for record in ours)
    for secret in (TOKEN, shown, "a-wrong-token-of-somebody"):
        assert secret not in text


def test_where_the_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    assert read_token(file) == TOKEN
    monkeypatch.setenv("SENSORMEND_TOKEN", "another-token-of-mine")
    assert read_token(file) == TOKEN, "what is said goes before the environment"
    assert read_token() == "another-token-of-mine"
    monkeypatch.delenv("SENSORMEND_TOKEN")
    assert read_token() is None


@pytest.mark.parametrize(
    "written",
    ["", "short", "with a blank in the middle", "x" * 600, "zwölf-Boxkämpfer-jagen", "two\nlines-of-a-token-x"],
)
def test_a_token_that_is_none_is_refused_and_not_quoted(tmp_path: Path, written: str) -> None:
    file = tmp_path / "token"
    file.write_text(written, encoding="utf-8")
    with pytest.raises(ConfigError, match="openssl rand -hex 24") as error:
        read_token(file)
    assert not written or written not in str(error.value)


def test_a_token_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe" * 20)
    for name in ("missing", "bytes", "."):
        with pytest.raises(ConfigError, match="cannot be read from"):
            read_token(tmp_path / name)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_any_other_address_needs_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"needs a token there: openssl rand -hex 24 > token"):
        Server(tmp_path, host, 0)


def test_with_a_token_any_address_will_do(city_out: Path) -> None:
    with Server(city_out, "0.0.0.0", 0, TOKEN) as server:
        server.start()
        assert httpx.get(f"{server.address}/api/network", headers=BEARER).status_code == 200
        assert httpx.get(f"{server.address}/api/network").status_code == 401
