"""The server from its start to its end, and the two commands that start it."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from output_folders import small_output
from raw_http import request, send
from sensormend import cli
from sensormend.cli.watch import open_dashboard
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.stream.service import open_service
from sensormend.stream.settings import Settings
from sensormend.views.matrix import matrix
from sensormend.web import api, connections, security
from sensormend.web import server as servers
from sensormend.web.server import Server
from waiting import wait_until

SERVE = [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())"]


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """Give a connection on which news come; its first is there."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
        heard = b""
        while b"event: hello" not in heard:
            part = line.recv(4096)
            assert part, heard
            heard += part
        assert b"text/event-stream" in heard
        assert b"x-accel-buffering: no" in heard, "a proxy would keep them until there are many"
        assert b"content-encoding" not in heard.lower(), "news wait for nobody, so they are not packed"
        yield line


def test_it_starts_answers_and_ends(city_out: Path) -> None:
    before = threading.active_count()
    with Server(city_out, port=0) as server:
        server.start()
        address = server.address
        assert address == f"http://127.0.0.1:{server.port}"
        assert httpx.get(f"{address}/api/network").json()["sensors"] > 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/api/network")
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before
    server.close()
    with Server(city_out, port=server.port) as again:
        again.start()


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost"])
def test_other_ways_to_say_this_machine(city_out: Path, host: str) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("there is no IPv6 here")
    with Server(city_out, host, 0) as server:
        server.start()
        assert httpx.get(f"{server.address}/api/network").status_code == 200


def test_a_server_that_never_started_closes(city_out: Path) -> None:
    with Server(city_out, port=0) as server:
        port = server.port
    with Server(city_out, port=port):
        pass


def test_it_ends_at_once_while_pages_listen(city_out: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Server(city_out, port=0) as server:
        server.start()
        with listening(server.address) as one, listening(server.address) as other:
            began = time.monotonic()
            server.close()
            assert time.monotonic() - began < 1.5
            for line in (one, other):
                rest = b""
                while part := line.recv(4096):
                    rest += part
                assert rest.endswith(b"0\r\n\r\n"), "told that it is over, not cut off"
    assert not caplog.records


def test_a_request_while_it_ends_is_answered(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sensormend.web import pages

    asked_for, go_on = threading.Event(), threading.Event()
    real = pages.file_response

    def slow(request: Request, path: Path | None) -> Response:
        asked_for.set()
        go_on.wait(10)
        return real(request, path)

    monkeypatch.setattr(pages, "file_response", slow)
    with Server(city_out, port=0) as server:
        server.start()
        statuses: list[int] = []
        asking = threading.Thread(target=lambda: statuses.append(request(server.address, "/").status))
        asking.start()
        assert asked_for.wait(10)
        closing = threading.Thread(target=server.close)
        closing.start()
        time.sleep(0.3)
        go_on.set()
        asking.join(10)
        closing.join(10)
        assert statuses == [200]


def test_not_everybody_may_listen_at_once(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_STREAMS", 1)
    with Server(city_out, port=0) as server:
        server.start()
        with listening(server.address):
            answer = request(server.address, "/api/events")
            assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            assert httpx.get(f"{server.address}/api/network").status_code == 200

        def another_may_listen() -> bool:
            try:
                with listening(server.address):
                    return True
            except AssertionError:
                return False

        wait_until(another_may_listen)


def test_requests_on_too_many_connections_are_refused(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MAX_CONNECTIONS", 2)
    with Server(city_out, port=0) as server:
        server.start()
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(listening(server.address))
            answer = request(server.address, "/api/network")
            assert (answer.status, answer.body) == (503, b"Service Unavailable")
        wait_until(lambda: request(server.address, "/api/network").status == 200)


def test_a_connection_that_is_not_used_again_is_closed(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "KEEP_ALIVE", 1)
    with Server(city_out, port=0) as server:
        server.start()
        began = time.monotonic()
        # `send` returns when the other end has closed; it did not ask for that.
        assert send(server.address, b"GET /api/network HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200
        assert time.monotonic() - began < 10
        with listening(server.address) as line:
            line.settimeout(1.5)
            with pytest.raises(TimeoutError):
                line.recv(4096)


def closed_after(line: socket.socket, trickle: bytes = b"") -> float:
    """Return after how many seconds the other end closes; meanwhile bytes are sent, one after the other."""
    began = time.monotonic()
    line.settimeout(0.05)
    with contextlib.suppress(ConnectionError):
        for place in range(200):
            if trickle:
                line.sendall(trickle[place % len(trickle) :][:1])
            try:
                if not line.recv(65536):
                    break
            except TimeoutError:
                pass
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("head", "trickle"),
    [
        (b"", b""),
        (b"GET /api/network HTTP/1.1\r\n", b"x"),
        (b"GET /api/network HTTP/1.1\r\nHost: localhost\r\n\r\nGET ", b"x"),
        (b"GET /api/network HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n", b"x"),
    ],
    ids=["nothing", "a head without end", "a second head without end", "a body without end"],
)
def test_what_never_ends_is_closed(
    city_out: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, trickle: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.6)
    with Server(city_out, port=0) as server:
        server.start()
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(head)
            assert closed_after(line, trickle) < 5
        with listening(server.address) as line:
            line.settimeout(1.2)
            with pytest.raises(TimeoutError):
                line.recv(4096)
        assert httpx.get(f"{server.address}/api/network").status_code == 200


def test_a_response_that_nobody_takes_is_dropped(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_TIMEOUT", 0.5)
    with Server(city_out, port=0) as server:
        server.start()
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", server.port))
            # Responses wait for each other, and none is read.
            line.sendall(b"GET /static/vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
            wait_until(lambda: len(server._uvicorn.server_state.connections) == 1)
            wait_until(lambda: not server._uvicorn.server_state.connections)


def own_address() -> str | None:
    """Return an address of this machine that is not one of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line, contextlib.suppress(OSError):
        line.connect(("192.0.2.1", 9))
        return str(line.getsockname()[0])
    return None


@pytest.mark.skipif(own_address() is None, reason="this machine has no network")
def test_one_address_has_no_more_than_its_share(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_PER_ADDRESS", 3)
    own, token = str(own_address()), "abcdefgh" * 4
    with Server(city_out, host="0.0.0.0", port=0, token=token) as server, ExitStack() as stack:
        server.start()
        for _ in range(3):
            stack.enter_context(socket.create_connection((own, server.port)))
        state = server._uvicorn.server_state
        wait_until(lambda: len(state.connections) == 3)
        with socket.create_connection((own, server.port)) as line:
            assert closed_after(line) < 5
        assert len(state.connections) == 3
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"http://127.0.0.1:{server.port}/api/network", headers=headers).status_code == 200


def test_connections_beyond_all_limits_are_closed(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_OPEN", 3)
    with Server(city_out, port=0) as server, ExitStack() as stack:
        server.start()
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        wait_until(lambda: len(server._uvicorn.server_state.connections) == 3)
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            assert closed_after(line) < 5


def test_a_connection_is_used_again(city_out: Path) -> None:
    with Server(city_out, port=0) as server:
        server.start()
        with httpx.Client(base_url=server.address) as client:
            for _ in range(20):
                assert client.get("/api/network").status_code == 200
            assert len(server._uvicorn.server_state.connections) == 1


def test_answers_are_packed_where_that_helps(address: str) -> None:
    packed = request(address, "/static/app.css", "Accept-Encoding: gzip")
    assert packed.headers["content-encoding"] == "gzip"
    plain = request(address, "/static/app.css")
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body
    assert request(address, "/api/sensors", "Accept-Encoding: gzip").headers["content-encoding"] == "gzip"


def test_what_a_browser_has_is_not_sent_again(address: str) -> None:
    first = request(address, "/static/app.css")
    again = request(address, "/static/app.css", f"If-None-Match: {first.headers['etag']}")
    assert (again.status, again.body) == (304, b"")


def test_every_page_exists_and_refers_to_existing_files(address: str) -> None:
    import re

    sign_in = Path(servers.__file__).with_name("static") / "login.html"
    pages = [request(address, "/").body.decode(), sign_in.read_text(encoding="utf-8")]
    for text in pages:
        for target in re.findall(r'(?:src|href)="((?:static|api)/[^"]+)"', text):
            assert request(address, f"/{target}").status == 200, target
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|https?://", text)


def test_a_port_that_is_taken_is_one_line(city_out: Path) -> None:
    with Server(city_out, port=0) as server:
        for host, port in (("127.0.0.1", server.port), ("no.such.host.invalid", 0), ("127.0.0.1", 99_999)):
            with pytest.raises(ConfigError, match="the dashboard cannot be shown at"):
                Server(city_out, host, port)
        with pytest.raises(ConfigError, match=r"in use; choose another port$"):
            Server(city_out, port=server.port)
    # A block of documentation: no machine has it.
    with pytest.raises(ConfigError, match=r"at 192\.0\.2\.1:0: .*; choose another address$"):
        Server(city_out, "192.0.2.1", 0, "a-token-of-our-own")


def test_an_out_that_is_none_is_one_line(tmp_path: Path) -> None:
    with Server(tmp_path / "missing", port=0) as server, pytest.raises(InputError):
        server.start()


def test_what_is_missing_is_named(city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with (
        Server(city_out, port=0) as server,
        pytest.raises(SensormendError, match=r"uvicorn: pip install 'sensormend\[web\]'"),
    ):
        server.start()


def test_the_command_line_needs_no_web_library() -> None:
    code = "import sys, sensormend.cli; sys.exit(any(m in sys.modules for m in ('fastapi', 'starlette', 'uvicorn')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_and_ends_cleanly(city_out: Path, number: signal.Signals) -> None:
    running = subprocess.Popen(
        [*SERVE, "serve", str(city_out), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        address = line.split(" is shown at ")[1].split(";")[0]
        assert "Ctrl-C ends it" in line
        with listening(address):
            assert httpx.get(f"{address}/api/network").status_code == 200
            running.send_signal(number)
            out, err = running.communicate(timeout=10)
    finally:
        running.kill()
    assert (running.returncode, out, err) == (0, "", "")


def test_serve_refuses_in_one_line(
    city_out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SENSORMEND_TOKEN", raising=False)
    (tmp_path / "short").write_text("short", encoding="utf-8")
    with Server(city_out, port=0) as server:
        calls = {
            ("serve",): 2,
            ("serve", str(tmp_path / "missing"), "--port", "0"): 2,
            ("serve", str(tmp_path), "--port", "0"): 2,
            ("serve", str(city_out), "--port", str(server.port)): 2,
            ("serve", str(city_out), "--port", "http"): 2,
            ("serve", str(city_out), "--host", "0.0.0.0", "--port", "0"): 2,
            ("serve", str(city_out), "--token-file", str(tmp_path / "short")): 2,
            ("serve", str(city_out), "--token", "a-token-that-everybody-sees"): 2,
        }
        for call, code in calls.items():
            assert cli.main(call) == code, call
            captured = capsys.readouterr()
            assert captured.out == ""
            assert len(captured.err.splitlines()) == 1, captured.err


def test_a_watch_shows_itself_from_its_first_moment(tmp_path: Path) -> None:
    out = tmp_path / "new"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = Settings.of(source=str(tmp_path / "feed"), out=out, serve=f"127.0.0.1:{port}", metrics="off")
    (tmp_path / "feed").mkdir()
    with open_service(options, open_dashboard) as service:
        assert httpx.get(f"http://127.0.0.1:{port}/api/network").json()["sensors"] == 0
        expected = {"matrix": 200, "sensors": 200, "faults": 200, "faults.csv": 200, "places": 404, "moment": 404}
        for path, status in expected.items():
            assert (path, httpx.get(f"http://127.0.0.1:{port}/api/{path}").status_code) == (path, status)
        running = threading.Thread(target=service.run)
        running.start()
        deadline = time.monotonic() + 10
        while not httpx.get(f"http://127.0.0.1:{port}/api/network").json()["live"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        service.stop()
        running.join(10)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/api/network")


def test_a_watch_that_cannot_show_itself_does_not_begin(tmp_path: Path, city_out: Path) -> None:
    (tmp_path / "feed").mkdir()
    with Server(city_out, port=0) as server:
        place = f"127.0.0.1:{server.port}"
        options = Settings.of(source=str(tmp_path / "feed"), out=tmp_path / "new", serve=place, metrics="off")
        with pytest.raises(ConfigError, match="the dashboard cannot be shown"), open_service(options, open_dashboard):
            pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        (["--serve"], ("127.0.0.1", 8464)),
        (["--serve", "on"], ("127.0.0.1", 8464)),
        (["--serve", "9000"], ("127.0.0.1", 9000)),
        (["--serve", "0.0.0.0:9000"], ("0.0.0.0", 9000)),
        (["--serve", "[::1]:9000"], ("::1", 9000)),
        (["--serve=off"], None),
        ([], None),
    ],
)
def test_watch_takes_it_with_and_without_a_place(
    typed: list[str], place: tuple[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Settings] = []

    def opened(given: Settings, dashboard: object) -> NoReturn:
        taken.append(given)
        raise InputError("enough")

    monkeypatch.setattr("sensormend.stream.service.open_service", opened)
    feed, out = str(tmp_path), str(tmp_path / "out")
    for call in (["watch", *typed, feed, out], ["watch", feed, out, *typed]):
        assert cli.main(call) == 1
        assert taken.pop().serve == place


def test_a_token_for_no_dashboard_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="serve says where"):
        Settings.of(source="-", out=tmp_path / "out", serve_token_file=tmp_path / "token")
    (tmp_path / "network.toml").write_text('source = "-"\nout = "o"\nserve = true\nserve_token_file = "token"\n')
    written = Settings.of(tmp_path / "network.toml")
    assert (written.serve, written.serve_token_file) == (("127.0.0.1", 8464), tmp_path / "token")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads of a process are counted in /proc")
def test_a_server_that_has_ended_leaves_no_thread(tmp_path: Path) -> None:
    small_output(tmp_path / "city", days=3)

    def threads_after_one() -> int:
        with Server(tmp_path / "city", port=0) as server:
            server.start()
            for name in ("network", "moment", "series?sensor=S00"):
                urllib.request.urlopen(f"{server.address}/api/{name}", timeout=30).read()
        return len(os.listdir("/proc/self/task"))

    before = threads_after_one()
    after = [threads_after_one() for _ in range(3)]
    assert max(after) <= before


def test_what_is_quick_does_not_wait_for_all_that_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_output(tmp_path / "city", days=3)
    go, running = threading.Event(), []

    def waiting(*given: Any, **named: Any) -> Any:
        running.append(1)
        go.wait(30)
        return matrix(*given, **named)

    monkeypatch.setattr(api, "matrix", waiting)
    with Server(tmp_path / "city", port=0) as server:
        server.start()

        def ask(name: str) -> int:
            with urllib.request.urlopen(f"{server.address}/api/{name}", timeout=30) as answer:
                return int(answer.status)

        answers: list[int] = []
        # More than there are threads.
        asking = [threading.Thread(target=lambda: answers.append(ask("matrix"))) for _ in range(50)]
        for one in asking:
            one.start()
        wait_until(lambda: len(running) == api.MAX_SLOW)
        assert ask("network") == 200
        assert len(running) == api.MAX_SLOW
        go.set()
        for one in asking:
            one.join(30)
    assert answers == [200] * 50
