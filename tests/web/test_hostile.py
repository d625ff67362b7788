"""Requests of people who mean no good: none fails, none grows without bound, none reaches what is not shown."""

from __future__ import annotations

import csv
import json
import shutil
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from raw_http import Answer, request, send
from sensormend.archive.cleaning import clean_archive
from sensormend.simulate.network import write_example
from sensormend.web.server import Server

SECRET = b"the-secret-that-lies-beside"
MOST = 5_000_000
"""Bytes of the longest answer that anybody may get."""

NAMES = (
    "o'brien", 'a"b', "../../secret.txt", "S%", "*", "..\\..\\secret.txt", "<img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0", "'; DROP TABLE rows; --", "\U0001f321 warm", "a\u202eb", "data/date=2024-01-01", "nan", "S_1",
)  # fmt: skip
"""What sensors may be called."""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an OUT, a secret beside it, and links to the secret in all places."""
    folder = tmp_path_factory.mktemp("hostile")
    write_example(folder / "plain.csv", sensors=len(NAMES), days=15, seed=1)
    with (folder / "plain.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    place = header.index("sensor")
    names = dict(zip(sorted({row[place] for row in rows}), NAMES, strict=True))
    with (folder / "readings.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [header, *([names[cell] if at == place else cell for at, cell in enumerate(row)] for row in rows)]
        )
    clean_archive(str(folder / "readings.csv"), folder / "out")
    (folder / "secret.txt").write_bytes(SECRET)
    for link in ("out/secret.txt", "out/link.json", "out/data/secret.txt"):
        (folder / link).symlink_to(folder / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def place(box: Path) -> Iterator[str]:
    with Server(box / "out", port=0) as server:
        server.start()
        yield server.address
        assert httpx.get(f"{server.address}/api/network").json()["sensors"] == len(NAMES), "still there, still well"


def harmless(answer: Answer, allowed: tuple[int, ...] = ()) -> Answer:
    """Hold an answer to what holds of all."""
    assert answer.status == 0 or 200 <= answer.status < 500 or answer.status in allowed, answer
    assert SECRET not in answer.body
    assert b"root:" not in answer.body
    assert b"Traceback" not in answer.body
    assert len(answer.body) <= MOST
    if answer.status == 400 and answer.body == b"Invalid HTTP request received.":
        # The server itself refuses what is no HTTP, or has too long a head, before any of ours sees it.
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        return answer
    if answer.status:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    if answer.status >= 400 and answer.body:
        assert set(json.loads(answer.body)) == {"detail"}
        assert len(answer.body) < 2000
    return answer


UP = ("..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "..;", "....", "%2e%2e%2f..")
SLASHES = ("/", "%2f", "%5c", "\\", "//", "%255c", "%u2215", "%ef%bc%8f")
CLIMBS = [f"/static/{up}{slash}{up}{slash}secret.txt" for up in UP for slash in SLASHES]
PATHS = [
    "/../secret.txt", "/..%2fsecret.txt", "/static/../../../../../../etc/passwd", "/static/%2e%2e/%2e%2e/server.py",
    "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/etc/passwd%00.css", "/static/app.css%00", "/static/",
    "/static", "/static/.", "/static/..", "/static/vendor/", "/static/vendor/../../server.py", "/static/app.css/",
    "/static/APP.CSS", "/static/app.css::$DATA", "/static/C:%5cWindows%5cwin.ini", "/static/file:///etc/passwd",
    "/static/%2e%2e/server.py", "/static/..%5cserver.py", "/secret.txt", "/out/secret.txt", "/data/secret.txt",
    "/run.json", "/link.json", "/state/watch.json", "/api/../secret.txt", "/api/%2e%2e/secret.txt", "/api/", "/api",
    "/api//network", "/api/network/", "/api/network/../../secret.txt", "//evil.example/", "//evil.example/%2e%2e",
    "/\\evil.example", "/%5cevil.example", "http://evil.example/", "http://127.0.0.1/secret.txt", "*", "/%", "/%zz",
    "/%ff%fe", "/%00", "/?%00", "/#part", "/;a=b", "/.git/config", "/.env", "/index.html", "/login/../secret.txt",
    "/login/", "/docs", "/docs/", "/docs/../secret.txt", "/openapi.json", "/redoc", "/api/openapi.json/", "/cgi-bin/sh",
    "/" + "a" * 10_000, "/" + "../" * 2000, "/static/" + "%2e%2e%2f" * 1000, "/" + "/" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("paths", [CLIMBS, PATHS], ids=["climbs", "others"])
def test_no_path_leads_out(place: str, paths: list[str]) -> None:
    for path in paths:
        answer = harmless(request(place, path))
        assert path == "/?%00" or answer.status in (0, 400, 404), (path[:100], answer)


@pytest.mark.parametrize("path", ["/" + "a" * 100_000, "/?q=" + "a" * 100_000, "/" + "%00" * 50_000])
def test_a_path_that_is_too_long_is_refused(place: str, path: str) -> None:
    assert harmless(request(place, path)).status in (0, 400)


ALL = ("network", "matrix", "places", "moment", "sensors", "sensor", "series", "neighbours", "faults", "faults.csv",
       "explain")  # fmt: skip
NUMBERS = (
    "-1", "0", "1", "2001", "1e3", "1.5", "NaN", "inf", "-inf", "0x10", "9" * 30, "-" + "9" * 30, "9223372036854775808",
    "", " ", "1 OR 1=1", "\u0661\u0662", "1_000", "+5", "null", "true", "[]", "%00", "9" * 4500,
)  # fmt: skip
TIMES = (
    "0000-01-01", "0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59", "99999-01-01", "-2024-01-01", "2024-02-30", "2024-13-01", "2024-01-01T25:00", "now",
    "today'", "infinity", "-infinity", "epoch", "1e18", "NaN", "", " ", "2024-01-01'; --", "2024-W01-1", "20240101",
    "2024-01-01T00:00:60", "\u0662\u0660\u0662\u0664-01-01", "2024-01-01T00:00:00.000000000001", "0", "\x00",
)  # fmt: skip
TEXTS = (
    "'", '"', "' OR '1'='1", "'; DROP TABLE rows; --", "%", "_", "*", "?", "\\", "../../secret.txt", "/etc/passwd",
    "..\\..\\secret.txt", "read_text('/etc/passwd')", "file:///etc/passwd", "$(cat /etc/passwd)", "`id`", "${jndi:}",
    "\x00", "a\x00b", "\r\nSet-Cookie: a=b", "\n", "<script>alert(1)</script>", "\u202e", "\U0001f600" * 50, "\ufeff",
    "\ufffd", "e\u0301", "nan", "None", "null", "{{7*7}}", "%s%s%n", "a" * 199, "a" * 12_000, "(" * 150 + "[a-",
    "[[:alpha:]]", "a|b", "S{1,100}{1,100}", "date=2024-01-01",
)  # fmt: skip


def queried(place: str, part: str, **parameters: str) -> Answer:
    pairs = "&".join(f"{name.rstrip('_')}={quote(value, safe='')}" for name, value in parameters.items())
    return harmless(request(place, f"/api/{part}?{pairs}"))


@pytest.mark.parametrize("name", ["offset", "limit", "points"])
def test_numbers_are_bounded(place: str, name: str) -> None:
    for part, value in product(("matrix", "sensors", "faults", "series"), NUMBERS):
        answer = queried(place, part, sensor="S%", **{name: value})
        assert answer.status in (200, 422)
        if answer.status == 422:
            assert json.loads(answer.body)["detail"].startswith(f"{name}:")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("matrix", "from"), ("matrix", "to"), ("series", "from"), ("series", "to"), ("moment", "time"),
        ("neighbours", "at"), ("explain", "time"), ("faults", "from"), ("faults", "to"),
    ],
)  # fmt: skip
def test_times_are_times(place: str, part: str, name: str) -> None:
    for value in TIMES:
        answer = queried(place, part, sensor="S%", **{name: value})
        assert answer.status in (200, 404, 422), (value, answer)


def test_spans_are_bounded(place: str) -> None:
    for first, last in (("0001-01-01", "9999-12-31"), ("9999-12-31", "0001-01-01"), ("2024-01-05", "2024-01-05")):
        for part in ("matrix", "series", "faults"):
            answer = queried(place, part, sensor="S%", points="10000", **{"from": first, "to": last})
            assert answer.status in (200, 422)
            assert len(answer.body) < 1_000_000


@pytest.mark.parametrize("name", ["sensor", "variable", "search", "state", "sort", "reason", "order"])
def test_texts_are_texts(place: str, name: str) -> None:
    lists = ("matrix", "sensors", "faults") if name in ("search", "state", "sort") else ("faults", "faults.csv")
    for part, value in product(ALL if name in ("sensor", "variable") else lists, TEXTS):
        parameters = {"sensor": "S%", "time": "2024-01-05", name: value}
        answer = queried(place, part, **parameters)
        assert answer.status in (200, 404, 400, 422), (part, answer)
        if name == "sensor" and part in ("sensor", "series", "neighbours", "explain") and value not in NAMES:
            assert answer.status in (404, 400, 422), "a name is a name, whatever signs it has"


@pytest.mark.parametrize(
    "query",
    [
        "sensor=a&sensor=b&sensor=S%25", "limit=1&limit=2000000", "limit[]=5", "limit=5;offset=3", "&&&&", "====",
        "%", "%zz=%zz", "sensor=%ff%fe", "sensor=%ED%A0%80", "sensor=%F5%80%80%80", "sensor=%C0%AF", "sensor",
        "=sensor", "sensor=%u0027", "__proto__=1&constructor=2", "&".join(f"a{n}={n}" for n in range(1500)),
        "sensor=" + "S%25&sensor=" * 700, "search=" + "%25" * 60, "search=" + "%F0%9F%98%80" * 40,
    ],
    ids=lambda query: query[:30],
)  # fmt: skip
def test_queries_of_any_form(place: str, query: str) -> None:
    for part in ALL:
        assert harmless(request(place, f"/api/{part}?{query}")).status in (200, 404, 400, 422)


@pytest.mark.parametrize("name", NAMES)
def test_a_sensor_may_be_called_anything(place: str, name: str) -> None:
    for part in ("sensor", "series", "neighbours"):
        answer = queried(place, part, sensor=name)
        assert answer.status == 200, answer
        assert json.loads(answer.body)["sensor"] == name
    listed = json.loads(queried(place, "sensors", search=name).body)
    assert name in [item["sensor"] for item in listed["items"]]
    if name in ("S%", "*", "S_1"):
        assert listed["total"] == 1, "signs that mean more elsewhere mean themselves"


def test_the_longest_names_are_accepted(place: str) -> None:
    signs = {"search": 200, "sensor": 500, "reason": 200, "variable": 200}
    answer = queried(place, "faults", **{name: "\U0001f321" * many for name, many in signs.items()})
    assert answer.status in (200, 404), "there is none of that name, but it may be asked for"


def test_no_spreadsheet_takes_a_name_for_a_formula(place: str) -> None:
    text = queried(place, "faults.csv").body.decode()
    assert text.startswith("sensor,")
    for row in csv.reader(text.splitlines()):
        assert not any(cell.startswith(("=", "+", "@", "\t")) for cell in row), row


HEADERS = [
    ("Range: bytes=0-10",), ("Range: bytes=999999999-",), ("Range: bytes=" + ",".join(f"{n}-{n}" for n in range(500)),),
    ("Accept: ;;;,,,",), ("Accept: image/png",), ("Accept-Encoding: gzip;q=0, *;q=x",), ("Accept-Encoding: gzip",) * 50,
    ("Accept-Language: " + "a," * 3000,), ("Cookie: " + "a=b;" * 3000,), ("Cookie: sensormend=1.2.3",),
    ("If-None-Match: *",), ("If-None-Match: " + '"x",' * 2000,), ("If-Modified-Since: yesterday",),
    ("Authorization: Bearer \xff",), ("Authorization: Digest " + "A" * 8000,), ("X-Forwarded-For: " + "1.2.3.4," * 99,),
    ("X-Forwarded-For: <script>",), ("X-Forwarded-Proto: javascript",), ("X-Forwarded-Proto: https",),
    ("X-Forwarded-Host: evil.example",), ("Forwarded: for=evil;host=evil.example",), ("X-Original-URL: /secret.txt",),
    ("X-Rewrite-URL: /secret.txt",), ("X-HTTP-Method-Override: DELETE",), ("Content-Length: 0",),
    ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"),
    ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    ("Origin: https://evil.example",), ("Origin: null",), ("Referer: https://evil.example/" + "a" * 4000,),
    ("Expect: 100-continue",), ("TE: trailers",), ("Last-Event-ID: '; --",), ("Connection: close, x-y",),
    *[tuple(f"X-{number}: {number}" for number in range(many)) for many in (100, 700)],
]  # fmt: skip


@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: headers[0][:40])
def test_headers_change_nothing(place: str, headers: tuple[str, ...]) -> None:
    for path in ("/", "/static/app.css", "/api/network", "/api/faults.csv"):
        answer = harmless(request(place, path, *headers))
        assert answer.status in (200, 304, 400, 431)
        assert "access-control-allow-origin" not in answer.headers
        assert "evil" not in answer.headers.get("location", "")


BROKEN = [
    b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: yes\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX\x00Y: z\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\nSet-Cookie: b\r\n\r\n" + b"\x00" * 100,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    b"A" * 200_000, b"GET /" + "ü".encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("request_bytes", BROKEN, ids=lambda sent: repr(sent)[:50])
def test_what_is_no_request_is_refused(place: str, request_bytes: bytes) -> None:
    host, port = place.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        try:
            line.sendall(request_bytes)
            line.shutdown(socket.SHUT_WR)
            received = b""
            while part := line.recv(65536):
                received += part
        except OSError:
            received = b""  # it has hung up already
    assert SECRET not in received
    assert len(received) < 100_000
    for status in (line.split(b" ")[1] for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")):
        assert status[:1] in b"234", received
    assert harmless(request(place, "/api/network")).status == 200


@pytest.mark.parametrize(
    "method",
    ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "BREW", "get", "GETS", "A" * 500],
)
def test_other_methods_are_refused(place: str, method: str) -> None:
    for path in ("/", "/api/network", "/api/events", "/static/app.css", "/logout", "/nothing"):
        answer = harmless(request(place, path, method=method))
        assert answer.status in (303, 400, 405), (method, path)
        assert b"TRACE" not in answer.body


@pytest.mark.parametrize("part", ALL)
def test_head_is_answered_without_a_body(place: str, part: str) -> None:
    answer = harmless(request(place, f"/api/{part}?sensor=S%25&time=2024-01-05", method="HEAD"))
    assert answer.status in (200, 404)
    assert answer.body == b""


def test_many_requests_on_one_line_are_answered_one_by_one(place: str) -> None:
    one = b"GET /api/network HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /api/network HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = send(place, one * 20 + last)
    assert (answer.status, answer.body.count(b"HTTP/1.1 200")) == (200, 20)


def test_an_out_with_wrong_files_is_reported_in_one_line(box: Path, tmp_path: Path) -> None:
    shutil.copytree(box / "out", tmp_path / "out", symlinks=True)
    out = tmp_path / "out"
    with Server(out, port=0) as server:
        server.start()
        (out / "faults.csv").write_bytes(b"\xff\x00nonsense\n\x80" * 50)
        (out / "sensors.csv").unlink()
        (out / "sensors.csv").symlink_to(box / "secret.txt")
        (out / "run.json").write_text("[" * 10_000, encoding="utf-8")
        for part in ALL:
            answer = request(server.address, f"/api/{part}?sensor=S%25&time=2024-01-05")
            harmless(answer, allowed=(500, 503))
            assert str(out).encode() not in answer.body
