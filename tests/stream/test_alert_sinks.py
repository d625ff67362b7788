"""Alerts to a web server and to programs, both real."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sample_deliveries import alert
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.deliveries import Delivery
from sensormend.stream.delivery_queue import DeliveryQueue, DeliveryWorker, stop_all
from sensormend.stream.sinks import open_alert
from sensormend.stream.sinks.alert_sinks import CommandAlerts, WebhookAlerts
from waiting import wait_until

MESSAGE = {
    "sensor": "s1", "variable": "", "state": "faulty", "before": "healthy", "reason": "stuck",
    "since": "1970-01-01T00:00:00Z", "at": "1970-01-01T01:00:00Z", "sentence": "s1 is stuck since midnight",
    "sensors": ["s1"],
}  # fmt: skip


class Site:
    """A web server that answers as it is told, in turn; the last answer holds."""

    def __init__(self) -> None:
        self.answers: list[int] = [204]
        self.pause = 0.0
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                site.asked.append((self.command, self.path, dict(self.headers), body))
                time.sleep(site.pause)
                status = site.answers.pop(0) if len(site.answers) > 1 else site.answers[0]
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                site.asked.append((self.command, self.path, {}, b""))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()
    yield running
    running.server.shutdown()
    running.server.server_close()


def two(number: int = 0) -> Delivery:
    first, second = alert(), alert(sensor="s2")
    return replace(first, start=number, alerts=[*first.alerts, *second.alerts])


def test_an_alert_is_posted_as_json(site: Site) -> None:
    with open_alert(f"{site.address}/hook?key=hush") as sink:
        sink.write(alert())
    ((method, path, headers, body),) = site.asked
    assert (method, path) == ("POST", "/hook?key=hush")
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert "Authorization" not in headers
    assert json.loads(body) == MESSAGE


def test_a_login_in_the_address_is_sent_as_one(site: Site) -> None:
    with open_alert(site.address.replace("//", "//me:a%40b@")) as sink:
        sink.write(alert())
    assert site.asked[0][2]["Authorization"] == "Basic bWU6YUBi"
    assert site.asked[0][1] == "/"


@pytest.mark.parametrize(
    ("status", "refused"),
    [(400, True), (404, True), (302, True), (308, True), (408, False), (429, False), (503, False)],
)
def test_what_an_answer_means(site: Site, status: int, refused: bool) -> None:
    site.answers = [status]
    with open_alert(f"{site.address}/T0/hush") as sink, pytest.raises(SensormendError) as failed:
        sink.write(alert())
    assert isinstance(failed.value, RefusedError) == refused
    assert f"answers {status}" in str(failed.value)
    assert "hush" not in str(failed.value)
    # Nobody is asked who was not named.
    assert len(site.asked) == 1


def test_a_slow_answer_is_given_up_and_no_server_is_no_refusal(site: Site) -> None:
    site.pause = 1.0
    with WebhookAlerts(f"{site.address}/hush", timeout=0.2) as sink, pytest.raises(SensormendError, match="timed out"):
        sink.write(alert())
    with open_alert("http://127.0.0.1:1/hush") as sink, pytest.raises(SensormendError) as failed:
        sink.write(alert())
    assert not isinstance(failed.value, RefusedError)
    assert str(failed.value).startswith("http://127.0.0.1:1/...: ")
    assert "\n" not in str(failed.value)


def test_those_before_one_that_failed_are_not_posted_again(site: Site, tmp_path: Path) -> None:
    site.answers = [200, 500, 502, 200]
    queue = DeliveryQueue(tmp_path / "queue", ["hook"])
    worker = DeliveryWorker("hook", open_alert(site.address), queue, (0.01, 0.02))
    worker.start()
    for number in range(2):
        queue.append(two(number), number)
    wait_until(lambda: queue.backlog("hook") == 0)
    assert stop_all([worker], 5)
    queue.close()
    asked = [json.loads(body)["sensor"] for *_, body in site.asked]
    assert asked == ["s1", "s2", "s2", "s2", "s1", "s2"]


def test_what_was_sent_is_not_sent_again_while_others_are_tried_in_between(site: Site) -> None:
    first, later = two(0), two(1)
    site.answers = [200, 400, 400, 400, 200, 400, 200]
    with open_alert(site.address) as sink:
        for delivery in (first, later, first):
            with contextlib.suppress(RefusedError):
                sink.write(delivery)
    asked = [json.loads(body)["sensor"] for *_, body in site.asked]
    assert asked == ["s1", "s2", "s1", "s2", "s2"]


NOTE = "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '|' + os.environ['SENSORMEND_{}'] + '\\n')"


@pytest.mark.parametrize("name", ["SENSOR", "STATE", "REASON", "SINCE", "SENTENCE"])
def test_a_command_gets_the_alert_twice_over(tmp_path: Path, name: str) -> None:
    target = tmp_path / "seen; rm -rf $HOME"
    with open_alert([sys.executable, "-c", NOTE.format(name), str(target)]) as sink:
        sink.write(alert())
    content, word = target.read_text().strip().split("|")
    assert json.loads(content) == MESSAGE
    assert word == MESSAGE[name.lower()]


def test_a_text_is_taken_apart_and_nothing_in_it_is_expanded(tmp_path: Path) -> None:
    with open_alert(f"command: touch '{tmp_path}/a b' {tmp_path}/$HOME") as sink:
        sink.write(alert())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["$HOME", "a b"]


def test_a_command_that_fails_says_why_and_is_run_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with CommandAlerts(["sh", "-c", f"echo run >> {runs}; echo first >&2; echo no such pager >&2; exit 3"]) as sink:
        for _ in range(2):
            with pytest.raises(RefusedError, match=r"^sh ended with 3: no such pager$"):
                sink.write(alert())
    assert runs.read_text().split() == ["run", "run"]


def test_one_alert_that_a_command_fails_on_does_not_block_the_others(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    # It fails on one name; what comes with that, and after it, is told once.
    script = f'echo "$SENSORMEND_SENSOR" >> {runs}; test "$SENSORMEND_SENSOR" != bad'
    queue = DeliveryQueue(tmp_path / "queue", ["pager"])
    worker = DeliveryWorker("pager", CommandAlerts(["sh", "-c", script]), queue, (0.01, 0.02))
    worker.start()
    bad = [alert(sensor=name).alerts[0] for name in ("first", "bad", "third")]
    queue.append(Delivery("alert", 0, 1, alerts=bad), 0)
    queue.append(alert(1, sensor="later"), 1)
    wait_until(lambda: queue.backlog("pager") == 0)
    assert stop_all([worker], 5)
    assert worker.state().lost == 1
    queue.close()
    seen = runs.read_text().split()
    assert [seen.count(name) for name in ("first", "third", "later")] == [1, 1, 1]
    assert seen.count("bad") > 2


def test_a_command_that_cannot_be_run_refuses_nothing(tmp_path: Path) -> None:
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    sink = CommandAlerts([str(program)])
    sink.write(alert())
    program.unlink()
    with pytest.raises(SensormendError, match=r"cannot be run: No such file") as failed:
        sink.write(alert())
    assert not isinstance(failed.value, RefusedError)


def test_a_command_that_never_ends_is_ended_with_all_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    began = time.monotonic()
    command = ["sh", "-c", f"(sleep 1; touch {mark}) & sleep 30"]
    with (
        CommandAlerts(command, timeout=0.3) as sink,
        pytest.raises(SensormendError, match=r"sh did not end within") as failed,
    ):
        sink.write(alert())
    assert str(failed.value) == "sh did not end within 0.3 s"
    assert not isinstance(failed.value, RefusedError)
    assert time.monotonic() - began < 3
    time.sleep(1.0)
    assert not mark.exists()


def test_names_that_no_environment_can_hold() -> None:
    with CommandAlerts(["sh", "-c", "cat > /dev/null"]) as sink:
        sink.write(alert(sensor="nul\0half\ud800"))


@pytest.mark.parametrize("address", ["command:", "command: 'open", "command: no-such-program-here -x", "http://", []])
def test_what_cannot_work_is_told_at_once(address: Any) -> None:
    with pytest.raises(ConfigError):
        open_alert(address)
