"""Every surface counts the same faults and the same sensors in each state: tables, terminal, page, API and report."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from html_pages import page_of
from sensormend.cli import main
from sensormend.pipeline.channel_states import STATES
from sensormend.readings import DAY, HOUR
from sensormend.simulate.network import city
from sensormend.web.server import Server
from simulated_city import START

SENSORS, DAYS = 14, 80


@dataclass(frozen=True)
class Surfaces:
    """One output, and what the command printed."""

    out: Path
    terminal: str
    report: str
    api: httpx.Client

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.out / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def get(self, route: str, **query: object) -> Any:
        answer = self.api.get(f"/api/{route}", params={name: str(value) for name, value in query.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()


def readings_of_a_town(path: Path) -> Path:
    """Write a town of two variables: offsets, a loose contact, drift, spikes, silences, two series that end."""
    lines = ["sensor,time,variable,value,latitude,longitude\n"]
    hours = np.arange(DAYS * 24)
    random = np.random.default_rng(4)
    for variable, seed, level in (("temp", 6, 0.0), ("rh", 7, 40.0)):
        truth = city(SENSORS, DAYS, seed=seed, faults=False).truth
        value = np.asarray(truth).transpose(0, 2, 1).reshape(SENSORS, -1) + level
        if variable == "temp":
            value[1, 60 * 24 :] += 9
            value[2, 70 * 24 :] = value[2, 70 * 24]
            value[3, 30 * 24 : 34 * 24] -= 8
            value[4, 40 * 24 :] += 0.25 * (hours[40 * 24 :] / 24 - 40)
            for day in range(DAYS - 7, DAYS):
                value[10, day * 24 + 14 : day * 24 + 18] += 12
            value[2, DAYS * 24 - 13 :] = np.nan
            value[11, 68 * 24 :] += 12
            value[12, 45 * 24 : 48 * 24] -= 12
            value[5, random.choice(np.arange(20 * 24, DAYS * 24), 6, replace=False)] += 15
        else:
            value[1, 65 * 24 :] -= 9
            value[11, 68 * 24 + 1 :] += 25
            value[12, 45 * 24 : 48 * 24] += 25
        value[6, 74 * 24 :] = np.nan
        value[7, 25 * 24 : 31 * 24] = np.nan
        value[9, 50 * 24 : 54 * 24] = np.nan
        value[8, 35 * 24 :] = np.nan
        value[:, DAYS * 24 - 6 :] = np.nan
        for sensor, row in enumerate(value):
            for hour in hours[np.isfinite(row)].tolist():
                time = np.datetime64(START + hour * HOUR, "us").astype("datetime64[s]")
                place = f"{50 + sensor // 4 / 100},{8 + sensor % 4 / 100}"
                lines.append(f"s{sensor:02d},{time},{variable},{row[hour]:.2f},{place}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Clean the town once, write its report and serve it."""
    folder = tmp_path_factory.mktemp("counts")
    out, printed = folder / "out", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["clean", str(readings_of_a_town(folder / "town.csv")), str(out)]) == 0
        assert main(["report", str(out)]) == 0
    text = page_of((out / "report.html").read_text(encoding="utf-8")).text
    with Server(out, port=0) as server:
        server.start()
        with httpx.Client(base_url=server.address) as api:
            yield Surfaces(out, " ".join(printed.getvalue().split()), " ".join(text.split()), api)


def worst_states(lines: list[dict[str, str]]) -> dict[str, int]:
    """Count the sensors of a table by the state of their worst channel."""
    worst: dict[str, str] = {}
    for line in lines:
        worst[line["sensor"]] = min(worst.get(line["sensor"], "ended"), line["state"], key=STATES.index)
    counts = Counter(worst.values())
    return {state: counts[state] for state in STATES}


def test_the_town_has_some_of_all(surfaces: Surfaces) -> None:
    states = worst_states(surfaces.table("sensors.csv"))
    assert states["faulty"] >= 2
    assert (states["silent"], states["ended"]) == (0, 2), "a series of an archive that ends has ended"
    assert states["healthy"] >= 6
    reasons = Counter(line["reason"] for line in surfaces.table("faults.csv"))
    assert reasons["spike"] > 1
    assert reasons["silent"] > 1
    assert len(reasons) >= 4


def test_the_number_of_faults_is_the_same_everywhere(surfaces: Surfaces) -> None:
    lines = surfaces.table("faults.csv")
    count, reasons = len(lines), Counter(line["reason"] for line in lines)
    page = surfaces.get("faults", limit=500)
    assert json.loads((surfaces.out / "run.json").read_text())["faults"] == count
    assert surfaces.get("network")["faults"] == count
    assert (page["total"], page["reasons"]) == (count, dict(reasons))
    assert sum(item["count"] for item in page["items"]) == count
    assert page["lines"] == len(page["items"]) < count
    assert len(surfaces.api.get("/api/faults.csv").text.splitlines()) == count + 1
    for reason, number in reasons.items():
        assert surfaces.get("faults", reason=reason)["total"] == number
    words = f"There are {count} faults, {reasons['silent']} of them silences."
    assert words in surfaces.terminal
    assert words in surfaces.report
    by_state = [surfaces.get("faults", state=state)["total"] for state in ("open", "over")]
    assert sum(by_state) == count


def incidents_of(lines: list[dict[str, str]]) -> dict[tuple[str, ...], int]:
    """Return the number of faults of each incident; single wrong readings of a channel are one line of a list.

    The sensors of the town have two variables: what begins in both within two hours and lasts equally long, or lasts
    still, is one line.
    """
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for line in lines:
        silent = str(line["reason"] == "silent")
        groups.setdefault((line["sensor"], line["variable"], line["incident"], silent), []).append(line)
    counts: Counter[tuple[str, ...]] = Counter()
    devices: dict[tuple[str, ...], tuple[np.datetime64, np.timedelta64]] = {}
    for key, own in sorted(groups.items(), key=lambda entry: entry[1][0]["from"]):
        if {line["reason"] for line in own} == {"spike"}:
            counts[(*key[:2], "spikes", "")] += len(own)
            continue
        start, still = np.datetime64(own[0]["from"]), own[-1]["open"]
        length = np.datetime64(own[-1]["to"]) - start
        for other, (begin, long) in devices.items():
            of_device = (other[0], other[3], other[4]) == (key[0], key[3], still) and other[1] != key[1]
            alike = still == "true" or max(length, long) <= 2 * min(length, long)
            if of_device and alike and start - begin <= np.timedelta64(2, "h"):
                counts[other] += len(own)
                break
        else:
            devices[*key, still] = start, length
            counts[*key, still] += len(own)
    return counts


def test_variables_of_a_device_that_fail_together_are_one_line(surfaces: Surfaces) -> None:
    lines = {(one["sensor"], one["variable"]): one for one in surfaces.table("faults.csv") if one["open"] == "true"}
    both = [lines["s11", name] for name in ("rh", "temp")]
    (listed,) = (one for one in surfaces.get("faults", state="open", limit=500)["items"] if one["sensor"] == "s11")
    (urgent,) = (one for one in surfaces.get("attention", limit=500)["items"] if one["sensor"] == "s11")
    assert {listed["variable"], *listed["others"]} == {urgent["variable"], *urgent["together"]} == {"rh", "temp"}
    assert listed["count"] == urgent["count"] == 2
    assert listed["from"] == urgent["since"] == min(one["from"] for one in both) + "Z"
    assert listed["sentence"] == urgent["sentence"]
    assert urgent["others"] == []
    over = [one for one in surfaces.get("faults", state="over", limit=500)["items"] if one["sensor"] == "s12"]
    assert [(one["count"], one["others"] != []) for one in over if one["reason"] != "spike"] == [(2, True)]


def test_the_faults_of_an_incident_are_one_line_of_every_list(surfaces: Surfaces) -> None:
    lines = surfaces.table("faults.csv")
    expected, page = incidents_of(lines), surfaces.get("faults", limit=500)
    assert max(expected.values()) >= 6, "a loose contact"
    assert page["lines"] == len(page["items"]) == len(expected)
    assert sorted(item["count"] for item in page["items"]) == sorted(expected.values())
    by_sensor = Counter(dict.fromkeys({line["sensor"] for line in lines}, 0))
    for line in lines:
        by_sensor[line["sensor"]] += 1
    for name, count in by_sensor.items():
        assert sum(item["count"] for item in page["items"] if item["sensor"] == name) == count
    (loose,) = (one for one in surfaces.get("attention", limit=500)["items"] if one["sensor"] == "s10")
    (listed,) = (item for item in page["items"] if item["sensor"] == "s10" and item["open"])
    own = surfaces.get("sensor", sensor="s10", variable="temp")
    assert loose["count"] == listed["count"] >= 6
    assert loose["since"] == listed["from"] == own["since"] == own["fault"]["from"]
    assert loose["sentence"] == listed["sentence"] == own["fault"]["sentence"]
    explained = surfaces.get("explain", sensor="s10", variable="temp", time=own["worst"])
    assert "flag 4 (fail, " in explained["verdict"], "what is explained first is a wrong reading"
    report = page_of((surfaces.out / "report.html").read_text(encoding="utf-8")).data["answers"]
    assert report["attention"][0]["answer"] == surfaces.get("attention", limit=100)
    shown = report["faults"][0]["answer"]
    assert (shown["total"], shown["lines"]) == (len(lines), len(expected))
    assert shown["items"] == page["items"][: len(shown["items"])]


def test_an_open_fault_ends_with_the_last_reading_of_its_channel_everywhere(
    surfaces: Surfaces, capsys: pytest.CaptureFixture[str]
) -> None:
    def hour(text: str) -> np.datetime64:
        return np.datetime64(text.removesuffix("Z"), "h")

    last = {(line["sensor"], line["variable"]): hour(line["last"]) for line in surfaces.table("sensors.csv")}
    assert last["s02", "temp"] == last["s01", "temp"] - 7, "it sends nothing more on the last day"
    table = {
        (line["sensor"], line["variable"], line["from"]): hour(line["to"])
        for line in surfaces.table("faults.csv")
        if line["open"] == "true"
    }
    assert {name[:2] for name in table} >= {("s01", "temp"), ("s01", "rh"), ("s02", "temp"), ("s11", "temp")}
    assert table == {name: last[name[:2]] + 1 for name in table}
    assert main(["explain", str(surfaces.out), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert {(one["sensor"], one["variable"], one["from"]): hour(one["to"]) for one in explained} == table
    page = surfaces.get("faults", state="open", limit=500)["items"]
    report = page_of((surfaces.out / "report.html").read_text(encoding="utf-8")).data["answers"]
    listed = [one for one in report["faults"][0]["answer"]["items"] if one["open"]]
    ends = {name[:2]: end for name, end in table.items()}
    for items in (page, listed):
        assert {
            (one["sensor"], name): hour(one["to"]) for one in items for name in (one["variable"], *one["others"])
        } == ends
    for one in surfaces.get("attention", limit=500)["items"]:
        length = ends[one["sensor"], one["variable"]] - hour(one["since"])
        assert one["seconds"] == length / np.timedelta64(1, "s")
    shown = surfaces.get("series", sensor="s02", variable="temp")
    assert "Wrong at the end, 20 March 2020, 18:00" in surfaces.report, "the last reading of all is of 17:00"
    stuck = max(span["to"] for span in shown["spans"] if "stuck" in span["word"])
    assert np.datetime64(round(stuck), "s") == ends["s02", "temp"]


def test_a_live_feed_counts_the_same_everywhere(tmp_path: Path) -> None:
    out = tmp_path / "out"
    town = readings_of_a_town(tmp_path / "town.csv")
    assert main(["watch", f"replay:{town}", str(out), "--metrics", "off"]) == 0
    assert main(["report", str(out)]) == 0
    answers = page_of((out / "report.html").read_text(encoding="utf-8")).data["answers"]
    with Server(out, port=0) as server:
        server.start()
        with httpx.Client(base_url=server.address) as api:
            live = Surfaces(out, "", "", api)
            lines, page, network = live.table("faults.csv"), live.get("faults", limit=500), live.get("network")
            assert network["faults"] == page["total"] == sum(item["count"] for item in page["items"])
            assert page["total"] == len(lines)
            assert page["lines"] == len(page["items"])
            channels = live.get("sensors", limit=1000)["items"]
            assert worst_states(channels) == network["states"]
            alerted = json.loads((out / "state" / "alerts.json").read_text())["sensors"]
            assert {(one["sensor"], one["variable"], one["state"]) for one in alerted} == {
                (one["sensor"], one["variable"], one["state"]) for one in channels
            }
            attention = live.get("attention", limit=100)
            repair = {one["sensor"] for one in channels if one["state"] in ("faulty", "silent", "ended")}
            assert {one["sensor"] for one in attention["items"]} == repair
            assert attention["total"] == len(repair)
            silent = {one["sensor"]: one for one in attention["items"] if one["state"] in ("silent", "ended")}
            assert {name: (one["variable"], one["others"]) for name, one in silent.items()} == {
                "s02": ("temp", []), "s06": ("", []), "s08": ("", []),
            }  # fmt: skip
            for name, one in silent.items():
                assert one["sentence"].startswith(f"{name} temp is silent" if name == "s02" else f"{name} has ")
            assert answers["attention"][0]["answer"] == attention
            assert answers["faults"][0]["answer"]["total"] == page["total"]


def test_the_number_of_sensors_in_each_state_is_the_same_everywhere(surfaces: Surfaces) -> None:
    lines = surfaces.table("sensors.csv")
    states, channels = worst_states(lines), Counter(line["state"] for line in lines)
    network = surfaces.get("network")
    assert json.loads((surfaces.out / "run.json").read_text())["states"] == states
    assert (network["states"], network["sensors"]) == (states, SENSORS)
    listed = surfaces.get("sensors", limit=1000)["items"]
    assert {(one["sensor"], one["variable"]): one["state"] for one in listed} == {
        (line["sensor"], line["variable"]): line["state"] for line in lines
    }
    for state in STATES:
        assert surfaces.get("sensors", state=state)["total"] == channels[state]
        assert surfaces.get("matrix", state=state)["total"] == channels[state]
    assert network["heard"] == max(line["last"] for line in lines) + "Z"
    for variable in ("temp", "rh"):
        moment = surfaces.get("moment", variable=variable)
        assert moment["time"] == network["heard"], "the map opens where there are readings"
        now = {line["sensor"]: line["state"] for line in lines if line["variable"] == variable}
        drawn = dict(zip(moment["sensor"], moment["state"], strict=True))
        assert {sensor: "healthy" if state == "filled" else state for sensor, state in drawn.items()} == now
    listed = surfaces.get("attention", limit=500)
    assert listed["total"] == len(listed["items"]) == states["faulty"] + states["silent"]
    counted = Counter(one["state"] for one in listed["items"])
    assert {state: counted[state] for state in ("faulty", "silent")} == {
        state: states[state] for state in ("faulty", "silent")
    }
    assert [one["urgency"] for one in listed["items"]] == sorted(
        (one["urgency"] for one in listed["items"]), reverse=True
    )
    sentence = re.sub("^.*judged[^.]*[.] ", "", network["sentence"]).split(" are estimates")[0]
    sentence = sentence[: sentence.rindex(". ") + 1]
    assert f"{states['healthy']} of {SENSORS} sensors are healthy" in sentence
    assert sentence in surfaces.terminal
    assert sentence in surfaces.report
    assert f"{states['faulty'] + states['silent']}to be repaired" in surfaces.report.replace(" to be", "to be")


def test_a_state_agrees_with_the_flags_of_the_last_period(surfaces: Surfaces) -> None:
    for one in surfaces.get("sensors", limit=1000)["items"]:
        series = surfaces.get("series", sensor=one["sensor"], variable=one["variable"], points=10000)
        last = [flag for time, flag in zip(series["time"], series["flag"], strict=True)
                if time >= (START + (DAYS - 1) * DAY) / 1e6]  # fmt: skip
        if one["state"] == "faulty":
            assert 4 in last
        elif one["state"] == "suspect":
            assert 3 in last
        elif one["state"] == "silent":
            assert set(last) == {9}
        elif one["state"] in ("healthy", "recovering"):
            assert 1 in last
            assert 3 not in last
