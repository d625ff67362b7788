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

from mail_server import MailServer, running_mail_server
from sample_deliveries import alert
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.sentences import ADVICE
from sensormend.stream.deliveries import Alert, AlertedChannel, Delivery
from sensormend.stream.delivery_worker import DeliveryWorker, stop_all
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import open_alert
from sensormend.stream.sinks.alert_sinks import CommandAlerts, WebhookAlerts
from sensormend.stream.sinks.messages import AlertDetails, alert_message
from sensormend.stream.store import Store
from waiting import wait_until

CHANNEL = {
    "sensor": "s1", "variable": "", "reason": "stuck", "since": "1970-01-01T00:00:00Z", "value": None,
    "expected": None, "unit": None,
}  # fmt: skip
MESSAGE = {
    "id": "", "severity": "error", "title": "s1 is faulty: stuck",
    "text": f"s1 is stuck since midnight. {ADVICE['stuck']}", "sensor": "s1", "variable": "", "unit": None,
    "value": None, "expected": None, "since": "1970-01-01T00:00:00Z", "advice": ADVICE["stuck"], "url": None,
    "state": "faulty", "before": "healthy", "reason": "stuck", "at": "1970-01-01T01:00:00Z", "sensors": ["s1"],
    "channels": [CHANNEL],
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


HUMID = AlertedChannel("N7", "humidity (%)", "drift", 0, 71.5, 64.25)


def several() -> Alert:
    channels = (HUMID, AlertedChannel("N8", "temp", "offset", 3_600_000_000, 4.5, 2.0))
    sentence = "N7 humidity (%) and N8 temp turned faulty together"
    return Alert("N7", "", "healthy", "faulty", "drift", 0, 7_200_000_000, sentence, "ab12", channels)


def test_a_message_has_all_that_a_person_needs() -> None:
    one = Alert("N7", HUMID.variable, "healthy", "faulty", "drift", 0, 1, "N7 turned faulty", "ab12", (HUMID,))
    message = alert_message(one, AlertDetails("https://sensors.example.org"))
    assert (message["id"], message["value"], message["expected"], message["unit"]) == ("ab12", 71.5, 64.25, "%")
    assert message["url"] == "https://sensors.example.org/#/sensor?sensor=N7&variable=humidity+%28%25%29"
    assert message["text"] == f"N7 turned faulty. {ADVICE['drift']}\n{message['url']}"
    settings = Settings.of(source="incoming", out="mended", units={"temp": "K"}, url="https://sensors.example.org/")
    message = alert_message(several(), AlertDetails(settings.alerts.url, settings.options))
    assert [(entry["sensor"], entry["variable"], entry["unit"], entry["value"]) for entry in message["channels"]] == [
        ("N7", "humidity (%)", "%", 71.5), ("N8", "temp", "K", 4.5),
    ]  # fmt: skip
    assert (message["title"], message["variable"], message["value"]) == ("2 sensors are faulty: drift", "", None)
    assert message["url"] == "https://sensors.example.org/#/faults?state=open"


@pytest.mark.parametrize(
    ("state", "reason", "severity", "title"),
    [
        ("faulty", "offset", "error", "s1 is faulty: offset"),
        ("silent", "", "warning", "s1 is silent"),
        ("healthy", "", "info", "s1 is healthy again"),
        ("healthy", "withdrawn", "info", "False alarm withdrawn: s1"),
        ("flood", "names", "warning", "Unknown sensor names are refused"),
    ],
)
def test_every_state_has_a_severity_and_a_title(state: str, reason: str, severity: str, title: str) -> None:
    message = alert_message(Alert("s1", "", "healthy", state, reason, 0, 1, "s1 did something"))
    assert (message["severity"], message["title"]) == (severity, title)
    assert (message["advice"] is None) == (state in ("healthy", "flood"))


def test_ntfy_gets_its_own_fields(site: Site) -> None:
    address = site.address.replace("http://", "ntfy://:tk_hush@")
    settings = Settings.of(source="incoming", out="mended", url="http://localhost:8464")
    with open_alert(f"{address}/city%20alerts", settings) as sink:
        sink.write(alert())
    ((method, path, headers, body),) = site.asked
    assert (method, path, headers["Authorization"]) == ("POST", "/", "Basic OnRrX2h1c2g=")
    assert json.loads(body) == {
        "topic": "city alerts", "title": MESSAGE["title"], "priority": 4, "tags": ["faulty"],
        "message": f"{MESSAGE['text']}\nhttp://localhost:8464/#/sensor?sensor=s1",
        "click": "http://localhost:8464/#/sensor?sensor=s1",
    }  # fmt: skip
    site.answers = [403]
    with open_alert(f"{address}/city") as sink, pytest.raises(RefusedError) as failed:
        sink.write(alert())
    assert "hush" not in str(failed.value)


def test_markup_in_names_stays_text() -> None:
    (one,) = alert(sensor="<!channel> & <b>").alerts
    slack = WebhookAlerts("https://hooks.slack.com/services/T0/B0/hush").content(one)
    assert slack["text"].startswith("&lt;!channel&gt; &amp; &lt;b&gt; is stuck")
    assert slack["sensor"] == "<!channel> & <b>"
    assert WebhookAlerts("https://example.org/hook").content(one)["text"].startswith("<!channel> & <b> is stuck")


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with running_mail_server() as running:
        yield running


def test_an_alert_is_an_e_mail(mail: MailServer) -> None:
    with open_alert(f"smtp://me:a%40b@{mail.address}/?to=you@example.org,her@example.org&from=net@example.org") as sink:
        sink.write(alert(sensor="Stra\u00dfe\r\nBcc: all@example.org"))
    ((sender, recipients, content),) = mail.mails
    assert (sender, recipients) == ("net@example.org", ["you@example.org", "her@example.org"])
    assert content["Subject"] == "Stra\u00dfe Bcc: all@example.org is faulty: stuck"
    assert content["Bcc"] is None
    assert content["To"] == "you@example.org, her@example.org"
    assert ADVICE["stuck"] in content.get_content()
    assert content.get_content_type() == "text/plain"
    assert mail.logins == [("me", "a@b")]


@pytest.mark.parametrize(
    ("answers", "refused"),
    [
        ({"RCPT": "550 no such user"}, True),
        ({"RCPT": "450 later"}, False),
        ({"DATA": "552 full"}, True),
        ({"MAIL": "451 busy"}, False),
        ({"AUTH": "535 wrong password"}, False),
    ],
)
def test_what_a_mail_server_refuses_and_what_it_puts_off(
    mail: MailServer, answers: dict[str, str], refused: bool
) -> None:
    mail.answers = answers
    with (
        open_alert(f"smtp://me:hush@{mail.address}/?to=you@example.org") as sink,
        pytest.raises(SensormendError) as failed,
    ):
        sink.write(alert())
    assert isinstance(failed.value, RefusedError) == refused
    assert "hush" not in str(failed.value)
    assert "\n" not in str(failed.value)
    assert mail.mails == []


def test_no_mail_server_is_no_refusal() -> None:
    with open_alert("smtp://127.0.0.1:1/?to=you@example.org") as sink, pytest.raises(SensormendError) as failed:
        sink.write(alert())
    assert not isinstance(failed.value, RefusedError)
    assert str(failed.value).startswith("smtp://127.0.0.1:1: ")


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
    queue = Store(tmp_path / "queue", ["hook"])
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


@pytest.mark.parametrize("name", ["SENSOR", "STATE", "REASON", "SINCE", "TEXT", "TITLE", "SEVERITY"])
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
    queue = Store(tmp_path / "queue", ["pager"])
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


@pytest.mark.parametrize(
    "address",
    ["command:", "command: 'open", "command: no-such-program-here -x", "http://", [], "ntfy://host", "ntfys://host/",
     "smtp://host", "smtp://host/?to=nobody", "smtp://host/?cc=a@b", "smtp://me:a@b@host/?to=a@b", "smtp://host:0/?to=a@b",
     "smtp://host/?to=a@b%0d%0aRCPT"],
)  # fmt: skip
def test_what_cannot_work_is_told_at_once(address: Any) -> None:
    with pytest.raises(ConfigError):
        open_alert(address)
