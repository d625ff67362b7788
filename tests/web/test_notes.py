"""Notes that are written from the page: who may, what is kept, and that a watch heeds them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from browser import PHONE, Browser
from city_source import CitySource
from output_folders import FIRST, small_output, write_faults
from sensormend.cli.watch import open_dashboard
from sensormend.errors import ConfigError
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.times import iso
from sensormend.readings import DAY
from sensormend.stream.service import open_service
from sensormend.stream.settings import Settings
from sensormend.web.server import Server
from waiting import wait_until

TOKEN = "0123456789abcdef0123456789abcdef"
HEADER = "sensor,from,to,action\n# kept by Ann\n"
NOTE: dict[str, Any] = {"sensor": "S04", "action": "recalibrated", "from": "2024-01-05T00:00:00Z"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = small_output(tmp_path_factory.mktemp("notes") / "city", sensors=6, days=20).path
    write_faults(
        path,
        [("S04", "", FIRST + 4 * DAY, FIRST + 20 * DAY, "offset", 4.0, "S04 read 2 above.", 2.13, 0.0, 1.0),
         ("S03", "", FIRST + 3 * DAY, FIRST + 9 * DAY, "drift", 4.0, "S03 drifted.", 1.0, 0.1, 1.0)],
    )  # fmt: skip
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "maintenance.csv"
    path.write_text(HEADER)
    return path


def lines(file: Path) -> list[str]:
    """Return the lines below the header and its comment, without the times at which they were written."""
    notes = Maintenance.read(file).notes
    written = file.read_text().splitlines()[2:]
    return [line.replace(f",{iso(note.at)}" if note.at else "", "") for line, note in zip(written, notes, strict=True)]


@pytest.fixture
def client(out: Path, file: Path) -> Iterator[httpx.Client]:
    with Server(out, port=0, edit=file) as server:
        server.start()
        with httpx.Client(base_url=server.address) as asking:
            yield asking


def test_a_note_is_a_line_in_the_file_and_is_shown_at_once(client: httpx.Client, file: Path) -> None:
    before = client.get("/api/notes", params={"sensor": "S04"}).json()
    assert before == {
        "editable": True, "file": "maintenance.csv", "applies": "from the next run of clean on", "items": []
    }  # fmt: skip
    answer = client.post("/api/notes", json=NOTE)
    assert answer.status_code == 200
    entry = {"sensor": "S04", "variable": "", "action": "recalibrated", "from": "2024-01-05T00:00:00Z", "to": None,
             "by": "", "at": answer.json()["items"][0]["at"], "comment": ""}  # fmt: skip
    assert answer.json()["items"] == [entry]
    assert lines(file) == ["S04,2024-01-05T00:00:00,,recalibrated"]
    assert file.read_text().startswith("sensor,from,to,action,at\n# kept by Ann\n")
    client.post("/api/notes", json={"sensor": "S01", "action": "real", "from": "2024-01-02", "to": "2024-01-03"})
    assert client.get("/api/notes", params={"sensor": "S04"}).json()["items"] == [entry]
    assert len(Maintenance.read(file).notes) == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_only_a_page_of_this_server_may_write(
    client: httpx.Client, file: Path, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/api/notes", json=NOTE, headers=headers)
    assert answer.status_code == status
    assert (file.read_text() == HEADER) == (status != 200)
    if status != 200:
        assert "\n" not in answer.json()["detail"]


def test_without_being_wanted_nothing_can_be_written(out: Path) -> None:
    with Server(out, port=0) as server:
        server.start()
        answer = httpx.post(f"{server.address}/api/notes", json=NOTE)
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith("notes cannot be added here: serve was started without --edit")
        notes = httpx.get(f"{server.address}/api/notes", params={"sensor": "S04"}).json()
        assert (notes["editable"], notes["file"], notes["items"]) == (False, "", [])
        assert set(httpx.get(f"{server.address}/api/openapi.json").json()["paths"]["/api/notes"]) == {"get"}


def test_a_note_needs_the_token(out: Path, file: Path) -> None:
    with Server(out, port=0, token=TOKEN, edit=file) as server:
        server.start()
        with httpx.Client(base_url=server.address) as client:
            assert client.post("/api/notes", json=NOTE).status_code == 401
            assert file.read_text() == HEADER
            client.post("/login", data={"token": TOKEN})
            crossed = client.post("/api/notes", json=NOTE, headers={"Sec-Fetch-Site": "cross-site"})
            assert crossed.status_code == 403
            assert file.read_text() == HEADER
            assert client.post("/api/notes", json=NOTE, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        other = {**NOTE, "sensor": "S01"}
        assert httpx.post(f"{server.address}/api/notes", json=other, headers=bearer).status_code == 200
    assert len(Maintenance.read(file).notes) == 2


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"sensor": "nobody"}, 404, "there is no sensor 'nobody'"),
        ({"sensor": "*"}, 404, "there is no sensor '*'"),
        ({"action": "delete"}, 422, "action"),
        ({"from": "yesterday"}, 422, "from: a time looks like"),
        ({"to": "2023-01-01"}, 422, "to is not after from"),
        ({"from": None}, 422, "recalibrated needs a time"),
        ({"more": 1}, 422, "more"),
        ({"variable": "x" * 300}, 422, "variable"),
        ({"from": "9" * 5000}, 413, "a request has 4096 bytes at most"),
    ],
)
def test_what_is_no_note_is_refused_in_one_line(
    client: httpx.Client, file: Path, change: dict[str, Any], status: int, message: str
) -> None:
    answer = client.post("/api/notes", json={**NOTE, **change})
    assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text
    assert file.read_text() == HEADER


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"sensor": "S04"}'])
def test_what_is_no_json_is_refused(client: httpx.Client, file: Path, body: bytes) -> None:
    answer = client.post("/api/notes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "\n" not in answer.json()["detail"]
    assert file.read_text() == HEADER


def test_other_methods_and_a_body_in_pieces_are_refused(client: httpx.Client) -> None:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        assert client.request(method, "/api/notes").headers["allow"] == "GET, HEAD, POST"
    kind = {"Content-Type": "application/json"}
    assert client.post("/api/notes", content=iter([b"{", b"}"]), headers=kind).status_code == 413


def test_a_broken_file_is_reported_without_its_path(client: httpx.Client, file: Path) -> None:
    file.write_text("sensor,from,to,action\na,,,sleep\n")
    answer = client.post("/api/notes", json=NOTE)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("maintenance.csv, row 2: an action is")
    assert "recalibrated" not in file.read_text()


def test_many_at_once_are_all_written(client: httpx.Client, file: Path) -> None:
    notes = [{**NOTE, "from": f"2024-01-{day:02d}"} for day in range(1, 21)]
    threads = [threading.Thread(target=client.post, args=("/api/notes",), kwargs={"json": note}) for note in notes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Maintenance.read(file).notes) == 20
    assert file.read_text().startswith("sensor,from,to,action,at\n# kept by Ann\n")


def test_what_was_done_is_kept_with_who_and_why_and_can_be_taken_back(client: httpx.Client, file: Path) -> None:
    file.write_text('sensor,from,to,action\n# kept by Ann\nS04,2024-01-02,2024-01-03,real\n"S01",2024-01-02,,ignore\n')
    before = file.read_text()
    done = {"sensor": "S04", "by": "Bo, of the lab", "comment": "replaced the cable,\nagain"}
    for action, span in (("acknowledged", {"from": "2024-01-05"}), ("muted", {"to": "2024-02-01"}),
                         ("cleaned", {"from": "2024-01-06"}), ("comment", {})):  # fmt: skip
        answer = client.post("/api/notes", json={**done, "action": action, **span})
        assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert [one["action"] for one in items] == ["real", "acknowledged", "muted", "cleaned", "comment"]
    assert {(one["by"], one["comment"]) for one in items[1:]} == {("Bo, of the lab", "replaced the cable, again")}
    assert file.read_text().splitlines()[0] == "sensor,from,to,action,by,at,comment"
    notes = Maintenance.read(file)
    assert notes.is_muted("S04", "", FIRST)
    assert not notes.is_muted("S03", "", FIRST)
    assert notes.recalibrations("S04", "", FIRST + 6 * DAY) == 1
    for one in items[1:]:
        assert client.post("/api/notes", json={**one, "undo": True}).status_code == 200
    assert file.read_text().splitlines()[1:] == before.splitlines()[1:]
    gone = client.post("/api/notes", json={**items[1], "undo": True})
    assert (gone.status_code, gone.json()["detail"]) == (404, "maintenance.csv has no such note")


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ({"action": "muted"}, "muted needs a time, to"),
        ({"action": "comment"}, "a comment needs words"),
        ({"action": "cleaned"}, "cleaned needs a time"),
        ({"action": "comment", "comment": "x" * 501}, "comment"),
        ({"action": "removed"}, "action"),
    ],
)
def test_notes_that_say_too_little_are_refused(
    client: httpx.Client, file: Path, note: dict[str, str], message: str
) -> None:
    answer = client.post("/api/notes", json={"sensor": "S04", **note})
    assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text
    assert file.read_text() == HEADER


def test_a_place_that_cannot_be_is_refused_at_the_start(out: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no note can be written to"):
        Server(out, port=0, edit=tmp_path / "nowhere" / "maintenance.csv")
    (tmp_path / "broken.csv").write_text("sensor\n")
    with pytest.raises(ConfigError, match="from and to and action are lacking"):
        Server(out, port=0, edit=tmp_path / "broken.csv")


def test_a_level_is_accepted_from_the_page(browser: Browser, out: Path, file: Path) -> None:
    with browser.serving(out, edit=file) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        browser.wait(".own-fault-note").click()
        browser.wait('[data-action="recalibrated"]', "Accept the level from 5 Jan 2024, 00:00 on").click()
        text = browser.wait(".note-message", "Written to maintenance.csv").text
        assert "its level is right from 5 Jan 2024, 00:00 on" in text
        assert text.endswith("It holds from the next run of clean on.")
        assert lines(file) == ["S04,2024-01-05T00:00:00,,recalibrated"]
        browser.wait(".note-list li", "its level is right")
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        browser.wait(".note-list li", "its level is right from 5 Jan 2024")


def test_readings_are_marked_as_real_and_ignored_from_a_phone(browser: Browser, out: Path, file: Path) -> None:
    browser.look(*PHONE)
    with browser.serving(out, edit=file) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S03", "sensor")
        browser.wait(".own-fault-note").click()
        # The level that a drift has come to is accepted, not the one it began with.
        browser.wait('[data-action="recalibrated"]', "from 10 Jan 2024, 00:00 on")
        browser.one('[data-action="real"]').click()
        browser.wait(".note-message", "Written to")
        boxes = browser.all(".note-form input")
        for box, text in zip(boxes, ("2024-01-03 06:00", "2024-01-02"), strict=True):
            box.clear()
            box.send_keys(text)
        browser.one('[data-action="ignore"]').click()
        browser.expect("422")
        browser.wait(".note-message.wrong", "Nothing was written: to is not after from.")
        boxes[1].clear()
        boxes[1].send_keys("soon")
        browser.one('[data-action="ignore"]').click()
        browser.wait(".note-message.wrong", "A time is written like")
        boxes[1].clear()
        browser.one('[data-action="ignore"]').click()
        browser.wait(".note-list li", "ignored from 3 Jan 2024, 06:00 on")
        assert browser.overflow() == 0
    assert lines(file) == ["S03,2024-01-04T00:00:00,2024-01-10T00:00:00,real", "S03,2024-01-03T06:00:00,,ignore"]


def test_a_sensor_is_muted_and_cleaned_and_that_is_undone_on_its_page(browser: Browser, out: Path, file: Path) -> None:
    with browser.serving(out, edit=file) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        browser.wait(".own-fault-note").click()
        name, comment = browser.all(".note-words input")
        name.send_keys("Bo")
        comment.send_keys("spare on its way")
        browser.one('[data-action="muted"]').click()
        browser.wait(".note-list li", "muted from 5 Jan 2024, 00:00 to 21 Jan 2024, 00:00: spare on its way (by Bo,")
        browser.one('[data-action="cleaned"]').click()
        browser.wait(".note-list li:nth-child(2)", "cleaned from 21 Jan 2024, 00:00 on (by Bo,")
        assert [note.action for note in Maintenance.read(file).notes] == ["muted", "cleaned"]
        browser.one(".note-list li:nth-child(2) .note-undo").click()
        browser.wait(".note-message", "Taken back: cleaned")
        assert [note.action for note in Maintenance.read(file).notes] == ["muted"]
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        browser.wait(".note-list li", "muted")
        assert browser.all(".note-words input")[0].get_attribute("value") == "Bo"
        browser.look(*PHONE)
        assert browser.overflow() == 0


def test_a_page_that_may_write_nothing_offers_nothing(browser: Browser, out: Path) -> None:
    with browser.serving(out) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        browser.wait(".own-faults li", "+2.1")
        assert not browser.all(".own-fault-note")
        assert not browser.one(".notes-section").is_displayed()


def test_a_watch_heeds_what_its_page_wrote(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.stream.service.MAINTENANCE_INTERVAL", 0.2)
    settings = Settings.of(
        source="-", out=tmp_path / "city", serve="127.0.0.1:0", serve_edit=True, metrics="off", maintenance=file,
        step="1h", period="1d",
    )  # fmt: skip
    city = CitySource(8, seed=1, at_once=10, pace=100.0)
    monkeypatch.setattr("sensormend.stream.service.open_source", lambda *_, **__: city)
    addresses: list[str] = []
    monkeypatch.setattr("sensormend.stream.logs.say", lambda *_, **fields: addresses.append(fields.get("address", "")))
    with open_service(settings, open_dashboard) as service:
        runner = threading.Thread(target=service.run)
        runner.start()
        try:
            address = next(one for one in addresses if one)
            known = lambda: httpx.get(f"{address}/api/sensors").json()["total"] == 8  # noqa: E731
            wait_until(known)
            answer = httpx.post(f"{address}/api/notes", json={**NOTE, "sensor": "S4", "action": "ignore"})
            assert answer.json()["applies"] == "from the period on that is open now"
            wait_until(lambda: [note.sensor for note in service.stream.maintenance.notes] == ["S4"])
        finally:
            service.stop()
            runner.join()


@pytest.mark.parametrize(
    ("options", "match"),
    [({}, "serve_edit is for the dashboard"), ({"serve": "on"}, "serve_edit needs maintenance")],
)
def test_a_watch_that_cannot_take_notes_is_refused(tmp_path: Path, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Settings.of(source="-", out=tmp_path / "city", serve_edit=True, **options)
