from pathlib import Path

import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.maintenance import Maintenance, as_time
from sensormend.readings import DAY, HOUR

START = as_time("2020-03-01", "")
TIMES = START + np.arange(24, dtype=np.int64) * HOUR


def notes(tmp_path: Path, *lines: str, header: str = "sensor,from,to,action") -> Maintenance:
    path = tmp_path / "maintenance.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return Maintenance.read(path)


def test_a_note_covers_its_sensor_its_variable_and_its_span(tmp_path: Path) -> None:
    kept = notes(tmp_path, "b,2020-03-01T06:00,2020-03-01T09:00,ignore,temp", header="sensor,from,to,action,variable")
    cells = kept.hidden(["a", "b"], ["hum", "temp"], TIMES, HOUR)
    assert cells is not None
    assert np.argwhere(cells).tolist() == [[1, 1, 6], [1, 1, 7], [1, 1, 8]]
    assert kept.hidden(["a", "b"], ["hum", "temp"], TIMES + DAY, HOUR) is None
    assert kept.real(["a", "b"], ["hum", "temp"], TIMES, HOUR) is None


def test_a_star_is_every_sensor_and_an_open_end_is_for_ever(tmp_path: Path) -> None:
    kept = notes(tmp_path, "*,2020-03-01T20:00,,real")
    cells = kept.real(["a", "b"], [""], TIMES, HOUR)
    assert cells is not None
    assert cells.sum() == 2 * 4
    later = kept.real(["a"], [""], TIMES + 400 * DAY, HOUR)
    assert later is not None
    assert later.all()


def test_recalibration_is_counted_and_hides_what_came_before_it_that_day(tmp_path: Path) -> None:
    kept = notes(tmp_path, "a,2020-03-01T10:00,,recalibrated")
    assert kept.recalibrations("a", "", START) == 0
    assert kept.recalibrations("a", "", START + DAY) == 1
    assert kept.recalibrations("b", "", START + DAY) == 0
    cells = kept.hidden(["a"], [""], TIMES, HOUR)
    assert cells is not None
    assert np.flatnonzero(cells[0, 0]).tolist() == list(range(10))
    assert kept.hidden(["a"], [""], TIMES + DAY, HOUR) is None
    assert kept.hidden(["a"], [""], TIMES - DAY, HOUR) is None


def test_a_recalibration_with_a_span_is_over_at_its_end(tmp_path: Path) -> None:
    kept = notes(tmp_path, "a,2020-02-28T12:00,2020-03-01T05:00,recalibrated")
    assert kept.recalibrations("a", "", START) == 0
    assert kept.recalibrations("a", "", START + DAY) == 1
    before, day = (kept.hidden(["a"], [""], times, HOUR) for times in (TIMES - DAY, TIMES))
    assert before is not None
    assert before.all()
    assert day is not None
    assert np.flatnonzero(day[0, 0]).tolist() == list(range(5))


def test_a_recalibration_may_be_of_one_variable(tmp_path: Path) -> None:
    lines = ("a,2020-03-01T10:00,,recalibrated,temp", "*,2020-03-03,,recalibrated,")
    kept = notes(tmp_path, *lines, header="sensor,from,to,action,variable")
    assert [kept.recalibrations("a", variable, START + DAY) for variable in ("temp", "hum")] == [1, 0]
    assert [kept.recalibrations("a", variable, START + 3 * DAY) for variable in ("temp", "hum")] == [2, 1]
    assert kept.recalibrations("b", "temp", START + 3 * DAY) == 1


def test_times_may_have_an_offset() -> None:
    assert as_time("2020-03-01T01:00+01:00", "") == START
    assert as_time("2020-03-01T00:00Z", "") == START


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("a,2020-03-01,,sleep", "row 2: an action is ignore, recalibrated, real, removed; got 'sleep'"),
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
