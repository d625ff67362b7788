"""What a feed or a file is taken for, as `probe` prints it and `watch` logs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from documented_messages import MESSAGES
from sensormend.cli import main
from sensormend.stream.formats.presets import PRESETS
from servers import running_mosquitto


def message(hour: int, device: str = "0101") -> dict[str, Any]:
    return {
        "deviceInfo": {"devEui": device},
        "time": f"2024-05-01T{hour:02}:00:00Z",
        "object": {"temperature": 20.5 + hour, "battery": 95},
    }


def piped(words: list[str], lines: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sensormend", *words],
        input="\n".join(lines), capture_output=True, text=True, timeout=120, check=False, env={**os.environ},
    )  # fmt: skip


def lines_of(printed: str) -> dict[str, list[str]]:
    """Return the lines that were printed, without their options, by their first words."""
    lines: dict[str, list[str]] = {}
    for line in printed.splitlines()[1:]:
        lines.setdefault(line[:12].strip(), []).append(line[12:].partition("  (")[0])
    return lines


def test_messages_on_standard_input() -> None:
    feed = [json.dumps(message(hour)) for hour in range(6)]
    ended = piped(["probe", "-"], [*feed, "nonsense"])
    assert ended.returncode == 0, ended.stderr
    lines = lines_of(ended.stdout)
    assert lines["format"] == [
        "ChirpStack v4 (LoRaWAN): the sensor is deviceInfo.devEui, the time time, numbers are in object"
    ]
    assert lines["sensors"] == ["1: 0101"]
    assert lines["variables"] == ["1: temperature"]
    assert lines["step"] == ["1h in a period of 1d"]
    assert lines["reading"][0] == "2024-05-01T00:00:00 0101 temperature 20.5"
    assert len(lines["reading"]) == 5
    assert lines["passed over"] == ["1: battery"]
    assert lines["refused"] == ["1: neither JSON nor a number; the first: line 7 nonsense"]
    assert "--sensor" in ended.stdout
    assert "--variables" in ended.stdout
    named = piped(["probe", "-", "--variables", "battery"], feed)
    assert lines_of(named.stdout)["variables"] == ["1: battery"]
    forced = piped(["probe", "-", "--format", "ttn"], feed)
    assert lines_of(forced.stdout)["refused"][0].startswith("6: not in the format that is named")


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{station},2024-01-01 {hour:02}:00,{hour + 0.5},x" for hour in range(5) for station in "ab"]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["station,time,temp (°C),remark", *rows, "a,never,3,x"]), encoding="utf-8")
    assert main(["probe", str(path)]) == 0
    lines = lines_of(capsys.readouterr().out)
    assert lines["format"] == ["a table: the sensor is station, the time time, numbers: temp (°C)"]
    assert lines["sensors"] == ["2: a, b"]
    assert lines["variables"] == ["1: temp (°C)"]
    assert lines["step"] == ["1h in a period of 1d"]
    assert lines["refused"] == [f"1: not a time; the first: {path}, row 12 a,temp (°C),never,3"]
    assert any("remark" in note for note in lines["note"])
    assert os.listdir(tmp_path) == ["readings.csv"], "nothing is written"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["probe", "nowhere.csv"], 2, "there is no file or folder nowhere.csv"),
        (["probe", "readings.csv", "--format", "ttn"], 2, "format is for messages"),
        (["probe", "-", "--seconds", "0"], 2, "seconds is a number above 0"),
    ],
)
def test_wrong_calls(words: list[str], code: int, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == code
    assert expected in capsys.readouterr().err


@pytest.mark.server
def test_a_broker_keeps_nothing_of_a_probe(capsys: pytest.CaptureFixture[str]) -> None:
    with running_mosquitto() as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/application/#"
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        counted: list[int] = []
        client.on_message = lambda *event: counted.append(int(event[2].payload))
        stop = threading.Event()

        def publish() -> None:
            for number in range(500):
                if stop.wait(0.05):
                    return
                content = json.dumps(message(number % 24, f"d{number % 3}"))
                client.publish(f"application/1/device/d{number % 3}/event/up", content, qos=1)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert main(["probe", address, "--seconds", "2"]) == 0
        finally:
            stop.set()
            thread.join()
        lines = lines_of(capsys.readouterr().out)
        assert sorted(lines["sensors"][0].removeprefix("3: ").split(", ")) == ["d0", "d1", "d2"]
        client.subscribe("$SYS/broker/clients/total")
        deadline = time.monotonic() + 30
        while (not counted or counted[-1] != 1) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert counted[-1] == 1, f"the session of the probe is gone: {counted}"
        assert main(["probe", f"mqtt://127.0.0.1:{broker.port}/nothing", "--seconds", "0.5"]) == 1
        assert "nothing came from" in capsys.readouterr().err
        client.disconnect()
        client.loop_stop()


@pytest.mark.server
def test_every_format_is_told_apart_in_one_feed(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {(name, reading[0], reading[1]) for name, *_, taken in MESSAGES for reading in taken}
    with running_mosquitto() as broker:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        stop = threading.Event()

        def publish() -> None:
            while not stop.wait(0.1):
                for _, content, topic, _ in MESSAGES:
                    text = content if isinstance(content, str) else json.dumps(content)
                    client.publish(topic or "feed/x", text, qos=1)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert main(["probe", f"mqtt://127.0.0.1:{broker.port}/#", "--seconds", "3"]) == 0
        finally:
            stop.set()
            thread.join()
            client.disconnect()
            client.loop_stop()
    lines = lines_of(capsys.readouterr().out)
    titles = {preset.name: preset.title for preset in PRESETS} | {"json": "JSON by its keys"}
    recognised = {
        title for title in titles.values() if any(line.partition(": ")[0] == title for line in lines["format"])
    }
    assert recognised == {titles[name] for name, *_ in expected}
    assert len(lines["format"]) == len(recognised)
    sensors, variables = ({entry[place] for entry in expected} for place in (1, 2))
    assert lines["sensors"][0].startswith(f"{len(sensors)}: ")
    assert lines["variables"][0].startswith(f"{len(variables)}: ")
    assert "refused" not in lines


def test_watch_logs_what_the_feed_is_taken_for(tmp_path: Path) -> None:
    feed = [json.dumps(message(hour)) for hour in range(6)]
    ended = piped(["watch", "-", str(tmp_path / "out"), "--metrics", "off"], feed)
    assert ended.returncode == 0, ended.stderr
    for expected in (
        "messages are ChirpStack v4",
        "passed over: numbers about the device or the message",
        "sensors: 1: 0101",
        "variables: 1: temperature",
        "step: 1h in a period of 1d",
        "reading: 2024-05-01T00:00:00 0101 temperature 20.5",
    ):
        assert ended.stderr.count(expected) == 1, expected
