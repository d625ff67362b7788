"""`explain` lists faults with the command for each, and explains a reading."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from output_folders import FIRST, small_output, write_faults
from sensormend.cli import main
from sensormend.pipeline.times import iso
from sensormend.readings import DAY


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an OUT in which S01 is stuck at the end, S02 was silent before, and S03 had a spike."""
    return small_output(tmp_path_factory.mktemp("explain") / "river 1", days=20).path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def commands_in(text: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    sensormend ")]


def test_without_a_sensor_the_open_faults_are_listed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(out))
    (command,) = commands_in(text)
    assert command[:3] == ["explain", str(out), "S01"]
    assert "S01 was stuck." in text
    assert "3 faults, 1 of them a silence" in text
    assert main(command) == 0
    assert "flag 4 (fail, stuck)" in capsys.readouterr().out


def test_without_a_time_the_faults_of_the_sensor_are_listed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for sensor, flag in (("S02", "flag 9 (missing, silent)"), ("S03", "flag 4 (fail, spike)")):
        (command,) = commands_in(printed(capsys, str(out), sensor))
        assert main(command) == 0
        assert flag in " ".join(capsys.readouterr().out.split())
    assert commands_in(printed(capsys, str(out), "S05")) == []


def test_json_has_the_same(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fault,) = json.loads(printed(capsys, str(out), "--json"))
    assert (fault["sensor"], fault["reason"], fault["open"]) == ("S01", "stuck", True)
    assert (fault["from"], fault["to"]) == (iso(FIRST + 15 * DAY), iso(FIRST + 20 * DAY))
    command = shlex.split(fault["command"])[1:]
    assert main([*command, "--json"]) == 0
    reading = json.loads(capsys.readouterr().out)
    assert (reading["sensor"], reading["flag"], reading["reason"]) == ("S01", 4, "stuck")
    assert json.loads(printed(capsys, str(out), "S05", "--json")) == []


def test_where_nothing_is_open_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small_output(tmp_path / "calm", days=6).path
    write_faults(path, [])
    text = printed(capsys, str(path))
    assert commands_in(text) == []
    assert text.startswith("No fault is open")


def test_where_nothing_is_open_the_strongest_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small_output(tmp_path / "past", days=20).path
    starts = [FIRST + day * DAY for day in range(12)]
    write_faults(
        path,
        [("S02", "", start, start + DAY, "stuck", 1.0 + k, f"S02 was stuck {k}.") for k, start in enumerate(starts)],
    )
    text = printed(capsys, str(path))
    assert text.startswith("No fault is open")
    assert len(commands_in(text)) == 10
    assert "S02 was stuck 11." in text
    assert "S02 was stuck 1." not in text


@pytest.mark.parametrize(
    "words",
    [("S01", "2030-01-01"),
     ("S99",), ("S99", "2024-01-19T05:00"), ("S01", "yesterday"), ("S01", "2024-01-19T05:00", "--variable", "wind"),
     ("S01", "--variable", "wind")],
)  # fmt: skip
def test_a_wrong_name_or_time_is_a_wrong_call(
    out: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(out), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert any(word in error for word in ("S99", "yesterday", "wind", "2030-01-01"))
