from pathlib import Path

import numpy as np
import pytest

from sensormend.errors import ConfigError, SensormendError
from sensormend.pipeline.maintenance import EVER, Maintenance, Note, as_time, write_note
from sensormend.readings import DAY, HOUR

START = as_time("2020-03-01", "")
TIMES = START + np.arange(24, dtype=np.int64) * HOUR


def notes(tmp_path: Path, *lines: str, header: str = "sensor,from,to,action") -> Maintenance:
    path = tmp_path / "maintenance.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return Maintenance.read(path)


def test_a_note_covers_its_sensor_its_variable_and_its_span(tmp_path: Path) -> None:
    line = "b,2020-03-01T06:00,2020-03-01T09:00,ignore,temp"
    maintenance = notes(tmp_path, line, header="sensor,from,to,action,variable")
    cells = maintenance.hidden(["a", "b"], ["hum", "temp"], TIMES, HOUR)
    assert cells is not None
    assert np.argwhere(cells).tolist() == [[1, 1, 6], [1, 1, 7], [1, 1, 8]]
    assert maintenance.hidden(["a", "b"], ["hum", "temp"], TIMES + DAY, HOUR) is None
    assert maintenance.noted("real", ["a", "b"], ["hum", "temp"], TIMES, HOUR) is None


def test_a_star_is_every_sensor_and_an_open_end_is_for_ever(tmp_path: Path) -> None:
    maintenance = notes(tmp_path, "*,2020-03-01T20:00,,real")
    cells = maintenance.noted("real", ["a", "b"], [""], TIMES, HOUR)
    assert cells is not None
    assert cells.sum() == 2 * 4
    later = maintenance.noted("real", ["a"], [""], TIMES + 400 * DAY, HOUR)
    assert later is not None
    assert later.all()


def test_recalibration_is_counted_and_hides_what_came_before_it_that_day(tmp_path: Path) -> None:
    maintenance = notes(tmp_path, "a,2020-03-01T10:00,,recalibrated")
    assert maintenance.recalibrations("a", "", START) == 0
    assert maintenance.recalibrations("a", "", START + DAY) == 1
    assert maintenance.recalibrations("b", "", START + DAY) == 0
    cells = maintenance.hidden(["a"], [""], TIMES, HOUR)
    assert cells is not None
    assert np.flatnonzero(cells[0, 0]).tolist() == list(range(10))
    assert maintenance.hidden(["a"], [""], TIMES + DAY, HOUR) is None
    assert maintenance.hidden(["a"], [""], TIMES - DAY, HOUR) is None


def test_a_recalibration_with_a_span_is_over_at_its_end(tmp_path: Path) -> None:
    maintenance = notes(tmp_path, "a,2020-02-28T12:00,2020-03-01T05:00,recalibrated")
    assert maintenance.recalibrations("a", "", START) == 0
    assert maintenance.recalibrations("a", "", START + DAY) == 1
    before, day = (maintenance.hidden(["a"], [""], times, HOUR) for times in (TIMES - DAY, TIMES))
    assert before is not None
    assert before.all()
    assert day is not None
    assert np.flatnonzero(day[0, 0]).tolist() == list(range(5))


def test_a_recalibration_may_be_of_one_variable(tmp_path: Path) -> None:
    lines = ("a,2020-03-01T10:00,,recalibrated,temp", "*,2020-03-03,,recalibrated,")
    maintenance = notes(tmp_path, *lines, header="sensor,from,to,action,variable")
    assert [maintenance.recalibrations("a", variable, START + DAY) for variable in ("temp", "hum")] == [1, 0]
    assert [maintenance.recalibrations("a", variable, START + 3 * DAY) for variable in ("temp", "hum")] == [2, 1]
    assert maintenance.recalibrations("b", "temp", START + 3 * DAY) == 1


def test_times_may_have_an_offset() -> None:
    assert as_time("2020-03-01T01:00+01:00", "") == START
    assert as_time("2020-03-01T00:00Z", "") == START


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("a,2020-03-01,,sleep", "row 2: an action is ignore, real, removed, recalibrated, cleaned, .*; got 'sleep'"),
        ("a,yesterday,,ignore", "row 2, from: a time is written like"),
        (",2020-03-01,,ignore", r"row 2: no sensor"),
        ("a,2020-03-02,2020-03-01,ignore", "to is not after from"),
        ("a,,,recalibrated", "needs a time"),
        ("a", "an action is"),
    ],
)
def test_a_wrong_line_is_named_with_file_and_row(tmp_path: Path, line: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        notes(tmp_path, line)
    assert "maintenance.csv" in str(caught.value)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to and action are lacking"):
        notes(tmp_path, header="sensor,from")
    with pytest.raises(ConfigError, match="cannot be read"):
        Maintenance.read(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        Maintenance.read(tmp_path / "binary.csv")


LEVEL = Note("a", START, EVER, "recalibrated")


def test_a_note_is_added_and_all_else_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "maintenance.csv"
    text = (
        "\ufeffWho, Sensor ,from,to,ACTION\r\n# the probe was new in March\r\n"
        'Ann,"b, the ""old"" one",2020-03-01,,real\r\n\r\n#b,2020-04-01,,,\r\nBen,a,,2020-01-01,ignore'
    )
    path.write_bytes(text.encode())
    path.chmod(0o640)
    before = Maintenance.read(path).notes
    assert [note.action for note in before] == ["real", "ignore"], "words of people are no notes"
    assert write_note(path, LEVEL)
    assert path.read_bytes() == text.encode() + b"\r\n,a,2020-03-01T00:00:00,,recalibrated\r\n"
    assert Maintenance.read(path).notes == (*before, LEVEL)
    assert path.stat().st_mode & 0o777 == 0o640
    assert not write_note(path, LEVEL), "it says so already"
    assert [file.name for file in tmp_path.iterdir()] == ["maintenance.csv"]


def test_a_missing_file_is_created_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "maintenance.csv"
    link.symlink_to(tmp_path / "kept" / "notes.csv")
    spans = [Note("a", START, START + DAY + 1, "ignore", "temp"), Note("b", -EVER, START, "real")]
    assert all(write_note(link, note) for note in spans)
    assert link.is_symlink()
    assert link.read_text().splitlines() == [
        "sensor,from,to,action,variable",
        "a,2020-03-01T00:00:00,2020-03-02T00:00:00.000001,ignore,temp",
        "b,,2020-03-01T00:00:00,real,",
    ]
    assert Maintenance.read(link).notes == tuple(spans)


def test_a_variable_that_has_no_column_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "maintenance.csv"
    path.write_text("sensor,from,to,action\nb,2020-03-01,,real\n")
    write_note(path, Note("a", START, EVER, "recalibrated", "temp"))
    assert path.read_text() == (
        "sensor,from,to,action,variable\nb,2020-03-01,,real\na,2020-03-01T00:00:00,,recalibrated,temp\n"
    )


@pytest.mark.parametrize("name", [" a", "a ", "", "#1\nx"])
def test_a_note_that_would_be_read_as_another_one_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "maintenance.csv"
    path.write_text("sensor,from,to,action\n")
    if name == "#1\nx":
        assert write_note(path, Note(name, START, EVER, "ignore")), "odd, and read again as it is"
        return
    with pytest.raises(ConfigError):
        write_note(path, Note(name, START, EVER, "ignore"))
    assert path.read_text() == "sensor,from,to,action\n"
    assert [file.name for file in tmp_path.iterdir()] == ["maintenance.csv"]


def test_nothing_is_added_to_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "maintenance.csv"
    path.write_text("sensor,from,to,action\na,yesterday,,ignore\n")
    with pytest.raises(ConfigError, match="a time is written like"):
        write_note(path, LEVEL)
    assert "recalibrated" not in path.read_text()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "maintenance.csv"
    path.write_text("sensor,from,to,action\nb,2020-03-01,,real\n")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SensormendError, match="No space left"):
        write_note(path, LEVEL)
    assert path.read_text() == "sensor,from,to,action\nb,2020-03-01,,real\n"
    assert [file.name for file in tmp_path.iterdir()] == ["maintenance.csv"]


def test_a_name_like_a_formula_is_no_formula_in_the_file_and_comes_back(tmp_path: Path) -> None:
    path, note = tmp_path / "maintenance.csv", Note("=1+1", 0, DAY, "ignore", "@temp")
    assert write_note(path, note)
    assert "\n'=1+1," in path.read_text()
    assert Maintenance.read(path).notes == (note,)
    assert not write_note(path, note)
    path.write_text("sensor,from,to,action\n=1+1,1970-01-01,1970-01-02,ignore\n")
    assert Maintenance.read(path).notes == (Note("=1+1", 0, DAY, "ignore"),), "as people write it"
