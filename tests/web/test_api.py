"""What the API adds to the views: names, times, tables, news."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from output_folders import small_output
from sensormend.io.metadata import write_json
from sensormend.views.encoding import as_json
from sensormend.views.fault_list import fault_page
from sensormend.views.reader import OutReader
from sensormend.views.series import series
from sensormend.web.server import Server
from waiting import wait_until

HOSTILE = ("=cmd|'/c calc'!A1", "+1", "-2", "@sum", 'a"b,c\nd', "S05", "ö/ü?&#%", "..", "<img src=x onerror=alert(1)>")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_output(tmp_path_factory.mktemp("api") / "out", names=HOSTILE, days=8).path


@pytest.fixture(scope="module")
def client(out: Path) -> Iterator[httpx.Client]:
    with Server(out, port=0) as server:
        server.start()
        with httpx.Client(base_url=server.address) as asking:
            yield asking


def get(client: httpx.Client, path: str, **params: Any) -> Any:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_answers_are_the_views(client: httpx.Client, out: Path) -> None:
    with OutReader(out) as reader:
        assert get(client, "/api/faults") == json.loads(as_json(fault_page(reader)))
        assert get(client, "/api/series", sensor="S05") == json.loads(as_json(series(reader, "S05")))
    assert {"from", "to"} <= get(client, "/api/faults")["items"][0].keys()


@pytest.mark.parametrize("name", HOSTILE)
def test_every_name_has_a_page(client: httpx.Client, name: str) -> None:
    assert get(client, "/api/sensor", sensor=name)["sensor"] == name
    assert get(client, "/api/series", sensor=name)["sensor"] == name
    assert get(client, "/api/sensors", search=name)["items"][0]["sensor"] == name
    assert get(client, "/api/explain", sensor=name, time="2024-01-05T03:00")["text"]


def test_a_zone_is_heeded(client: httpx.Client) -> None:
    one = get(client, "/api/moment", time="2024-01-03T05:00")
    other = get(client, "/api/moment", time="2024-01-03T06:30+01:00")
    assert one == other
    assert one["time"] == "2024-01-03T05:00:00Z"


@pytest.mark.parametrize(
    ("path", "params", "status", "message"),
    [
        ("/api/series", {}, 422, "sensor: Field required"),
        ("/api/series", {"sensor": "S99"}, 404, "there is no sensor 'S99'"),
        ("/api/series", {"sensor": "S05", "from": "yesterday"}, 422, "from: a time looks like 2019-01-31T14:00"),
        ("/api/series", {"sensor": "S05", "points": "10001"}, 422, "points"),
        ("/api/matrix", {"limit": "2001"}, 422, "limit"),
        ("/api/matrix", {"sort": "size"}, 422, "sort"),
        ("/api/moment", {"variable": "rain"}, 404, "there is no variable 'rain'"),
        ("/api/explain", {"sensor": "S05", "time": "2031-01-01"}, 404, "nothing is final at that time yet"),
    ],
)
def test_wrong_parameters_are_reported_in_one_line(
    client: httpx.Client, path: str, params: dict[str, str], status: int, message: str
) -> None:
    answer = client.get(path, params=params)
    assert answer.status_code == status
    assert message in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


def test_a_table_has_the_chosen_faults_and_no_formulas(client: httpx.Client) -> None:
    page = get(client, "/api/faults", sort="sensor", order="asc", limit=500)
    answer = client.get("/api/faults.csv", params={"sort": "sensor", "order": "asc"})
    assert answer.headers["content-disposition"] == 'attachment; filename="faults.csv"'
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["from"], line["reason"]) for line in lines] == [(one["from"], one["reason"]) for one in page["items"]]
    assert all(cell[:1] not in ("=", "+", "-", "@") for line in lines for cell in line.values())
    assert {line["sensor"].removeprefix("'") for line in lines} == {one["sensor"] for one in page["items"]}
    only = client.get("/api/faults.csv", params={"reason": "spike"}).text
    assert len(list(csv.DictReader(io.StringIO(only)))) == page["reasons"]["spike"]


def test_events_are_sent_as_they_happen(tmp_path: Path) -> None:
    out = small_output(tmp_path / "out", sensors=2, days=3).path
    with Server(out, port=0) as server:
        server.start()
        events: list[tuple[str, dict[str, Any]]] = []

        def listen() -> None:
            with httpx.stream("GET", f"{server.address}/api/events", timeout=10) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                name = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        events.append((name, json.loads(line.removeprefix("data: "))))
                        if name == "changed":
                            return

        listener = threading.Thread(target=listen)
        listener.start()
        wait_until(lambda: len(events) == 1)
        write_json(out / "run.json", {"command": "clean", "notes": ["one more"]})
        listener.join(10)
        assert [name for name, _ in events] == ["hello", "changed"]
        assert events[1][1]["what"] == ["run"]
        assert events[1][1]["version"] > events[0][1]["version"]
        assert httpx.get(f"{server.address}/api/network").json()["notes"] == ["one more"]
