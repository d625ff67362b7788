"""Tables in which owners wrote down flags and visits become notes on maintenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensormend.cli import main
from sensormend.errors import ConfigError
from sensormend.pipeline.maintenance import ALL, EVER, Maintenance, Note, read_notes, write_note, write_notes
from sensormend.readings import DAY, HOUR

FIRST = 1_704_067_200_000_000


def table(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_and_comments_say_what_to_do(tmp_path: Path) -> None:
    read = read_notes(
        table(
            tmp_path,
            "Site,Start,End,Parameter,QC,Remarks\n"
            "S1,2024-01-01,2024-01-02,temp,4,fouled\n"
            "S1,2024-01-01T06:00,2024-01-02,,BAD,Re-calibrated with buffer\n"
            "S2,2024-01-01,,ph,fail,sensor removed for the winter\n"
            "S2,2024-01-01,2024-01-03,ph,1,a real flood\n"
            "S2,2024-01-01,2024-01-03,ph,3,perhaps\n"
            "S2,2024-01-01,2024-01-03,ph,,\n"
            "# a comment,,,,,\n"
            "S3,2024-01-01,2024-01-02,,recalibrated,an action by its name\n",
        )
    )
    assert list(read.notes) == [
        Note("S1", FIRST, FIRST + DAY, "ignore", "temp", comment="fouled"),
        Note("S1", FIRST + 6 * HOUR, FIRST + DAY, "recalibrated", comment="Re-calibrated with buffer"),
        Note("S2", FIRST, EVER, "removed", "ph", comment="sensor removed for the winter"),
        Note("S2", FIRST, FIRST + 2 * DAY, "real", "ph", comment="a real flood"),
        Note("S3", FIRST, FIRST + DAY, "recalibrated", comment="an action by its name"),
    ]
    assert read.passed == {"3": 1, "": 1}


def test_a_logbook_without_flags_and_sensors(tmp_path: Path) -> None:
    text = "from,to,comment\n2024-01-01,2024-01-02,cleaned\n2024-01-05,2024-01-05,calibration\n"
    path = table(tmp_path, text)
    assert list(read_notes(path).notes) == [
        Note(ALL, FIRST, FIRST + DAY, "ignore", comment="cleaned"),
        Note(ALL, FIRST + 4 * DAY, EVER, "recalibrated", comment="calibration"),
    ]
    assert {note.sensor for note in read_notes(path, "S1").notes} == {"S1"}


def test_other_vocabularies(tmp_path: Path) -> None:
    path = table(tmp_path, "sensor,from,to,flag\na,2024-01-01,2024-01-02,-3\na,2024-01-02,2024-01-03,0\n")
    assert read_notes(path).passed == {"-3": 1, "0": 1}
    actions = [note.action for note in read_notes(path, wrong=["-3"], good=["0"]).notes]
    assert actions == ["ignore", "real"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sensor,from\na,2024-01-01\n", "; to is lacking"),
        ("sensor,from,to\na,soon,2024-01-01\n", "row 2, from: a time is written like"),
        ("sensor,from,to\na,2024-01-02,2024-01-01\n", "row 2: to is not after from"),
        ("sensor,from,to\na,,\n", "row 2: neither from nor to"),
        ("sensor,from,to\n,2024-01-01,2024-01-02\n", "row 2: no sensor"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_notes(table(tmp_path, text))


def test_the_command_adds_what_is_new_and_keeps_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = (
        table(tmp_path, 'from,to,variable,flag,comment\n2024-01-01,2024-01-02,temp,4,"ice, =1"\n'),
        tmp_path / "m.csv",
    )
    write_note(file, Note("S9", FIRST, EVER, "ignore"))
    arguments = ["notes", str(path), str(file), "--sensor", "S1"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("1 note (1 ignore), 1 new")
    assert main(arguments) == 0
    assert "0 new" in capsys.readouterr().out
    assert Maintenance.read(file).notes == (
        Note("S9", FIRST, EVER, "ignore"),
        Note("S1", FIRST, FIRST + DAY, "ignore", "temp", comment="ice, =1"),
    )
    assert file.read_text().splitlines() == [
        "sensor,from,to,action,variable,comment",
        "S9,2024-01-01T00:00:00,,ignore,",
        'S1,2024-01-01T00:00:00,2024-01-02T00:00:00,ignore,temp,"ice, =1"',
    ]
    capsys.readouterr()
    assert main(["notes", str(tmp_path / "nowhere.csv"), str(file)]) == 2
    assert capsys.readouterr().err.endswith("nowhere.csv cannot be read: No such file or directory\n")
    assert main(["notes", str(path), str(file), "--wrong", "9"]) == 0
    assert "passed over, by flag: 4 (1)" in capsys.readouterr().out


def test_notes_that_cannot_be_written_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("sensor,from,to\na,2024-01-01,\n")
    with pytest.raises(ConfigError, match="; action is lacking"):
        write_notes(file, [Note("a", FIRST, EVER, "ignore")])
    assert file.read_text() == "sensor,from,to\na,2024-01-01,\n"
