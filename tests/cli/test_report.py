"""`sensormend report` as a person types it, and what it says of a network that is alive."""

import os
from pathlib import Path

import numpy as np
import pytest

from beijing import VARIABLES, write_beijing
from html_pages import page_of
from output_folders import FIRST, small_output, write_faults, write_output
from sensormend.cli import main
from sensormend.io.metadata import SENSORS_HEADER, write_csv, write_json
from sensormend.readings import DAY, REASONS, Flag
from sensormend.report.limits import accepted_offsets
from sensormend.report.report_data import read_report_data
from sensormend.views.channel_status import all_faults
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader


def test_it_says_where_the_report_is_and_how_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = small_output(tmp_path / "city").path
    assert main(["report", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"The report is in {out / 'report.html'} (" in printed.replace("\n", "")
    assert "kB)" in printed
    assert main(["report", str(out), "--to", str(tmp_path / "mail.html")]) == 0
    assert page_of((tmp_path / "mail.html").read_text(encoding="utf-8")).text


def test_an_archive_in_the_layout_of_beijing_is_reported(tmp_path: Path) -> None:
    write_beijing(tmp_path / "air", stations=4, days=60)
    assert main(["clean", str(tmp_path / "air"), str(tmp_path / "out")]) == 0
    assert main(["report", str(tmp_path / "out")]) == 0
    page = page_of((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "three to ten days" not in page.text, "a rule that is gone"
    with OutReader(tmp_path / "out") as reader:
        assert page.data["network"]["faults"] == len(all_faults(reader)) == network_overview(reader).faults
        assert page.data["network"]["variables"] == list(reader.variables)
        assert set(VARIABLES) <= set(reader.variables)


def test_a_network_has_a_title(tmp_path: Path) -> None:
    lines = (
        f"2024-01-{1 + hour // 24:02d}T{hour % 24:02d}:00,{name},{hour % 24}" for hour in range(240) for name in "ab"
    )
    (tmp_path / "readings.csv").write_text("time,sensor,value\n" + "\n".join(lines))
    source, out = str(tmp_path / "readings.csv"), tmp_path / "out"
    assert main(["clean", source, str(out), "--title", "The river & its banks"]) == 0
    assert main(["report", str(out)]) == 0
    with OutReader(out) as reader:
        assert network_overview(reader).name == "The river & its banks"
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>The river &amp; its banks</h1>" in text
    assert main(["clean", source, str(out), "--overwrite", "--title", "x" * 121]) == 2
    assert main(["clean", source, str(out), "--overwrite"]) == 0
    with OutReader(out) as reader:
        assert reader.name == "out"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["report"], 2, "report needs OUT (see sensormend report --help)"),
        (["report", "nowhere"], 2, "no such output: 'nowhere'"),
        (["report", "empty"], 2, "was not written by sensormend clean or watch"),
        (["report", "city", "--to", "nowhere/x.html"], 2, "there is no folder nowhere"),
        (["report", "city", "--to", "empty"], 2, "is a folder"),
        (["report", "city", "--to", "city/faults.csv"], 2, "part of what is reported on"),
        (["report", "city", "--to", "readings.csv"], 2, "readings.csv exists and is not an HTML page"),
        (["report", "city", "--to", "pipe"], 2, "pipe exists and is not an HTML page"),
        (["report", "city", "--colour"], 2, "colour"),
    ],
)
def test_what_goes_wrong_is_one_line(
    words: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    small_output(tmp_path / "city", days=3)
    (tmp_path / "empty").mkdir()
    (tmp_path / "readings.csv").write_text("sensor,time,value\n")
    os.mkfifo(tmp_path / "pipe")
    assert main(words) == code
    printed = capsys.readouterr()
    assert not printed.out
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "city" / "report.html").exists()
    assert (tmp_path / "readings.csv").read_text() == "sensor,time,value\n"
    assert (tmp_path / "pipe").is_fifo()


def test_a_page_that_is_there_is_replaced_whatever_its_name_and_a_link_stays_one(tmp_path: Path) -> None:
    out = small_output(tmp_path / "city", days=3).path
    (tmp_path / "page").write_text("<!DOCTYPE html>\n")
    (tmp_path / "link.html").symlink_to("page")
    for name in ("page", "link.html"):
        assert main(["report", str(out), "--to", str(tmp_path / name)]) == 0
    assert (tmp_path / "link.html").is_symlink()
    assert page_of((tmp_path / "page").read_text(encoding="utf-8")).text


def offset_output(path: Path, *, after: float, fault: float = 8.0) -> Path:
    """Write an OUT in which sensor `a` reads too much for five days, by `fault`, and then by `after`."""
    slots, days = 24, 20
    random = np.random.default_rng(3)
    clock = np.arange(slots * days)
    truth = 10 + 4 * np.sin(clock / 24 * 2 * np.pi) + random.normal(0, 0.3, (6, 1, clock.size))
    value, flag = truth.copy(), np.full(truth.shape, Flag.GOOD, np.int8)
    reason = np.zeros(truth.shape, np.int8)
    wrong = (clock >= 8 * slots) & (clock < 13 * slots)
    value[0, 0, wrong] += fault
    value[0, 0, clock >= 13 * slots] += after
    flag[0, 0, wrong], reason[0, 0, wrong] = Flag.FAIL, REASONS.index("offset")
    names = tuple("abcdef")
    written = write_output(path, names, ("",), value, truth, flag, reason, slots)
    nan = float("nan")
    last = int(written.time[-1])
    lines = [(name, "", clock.size, 0.0, 0.0, 0.3, nan, nan, FIRST, last, 20.5, "healthy") for name in names]
    write_csv(path / "sensors.csv", SENSORS_HEADER, lines)
    line = ("a", "", FIRST + 8 * DAY, FIRST + 13 * DAY, "offset", 5.0, "a read 8.00 above what the others say.")
    write_faults(path, [line])
    write_json(path / "run.json", {"command": "clean", "grid": {"step": "1h", "period": "1d"}})
    return path


def test_a_fault_whose_readings_are_as_expected_has_no_level_to_accept(tmp_path: Path) -> None:
    out = offset_output(tmp_path / "dry", after=8.0, fault=0.0)
    with OutReader(out) as reader:
        assert accepted_offsets(read_report_data(reader)) == []
    assert main(["report", str(out)]) == 0


def test_a_level_that_was_believed_is_told_from_one_that_came_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OutReader(offset_output(tmp_path / "kept", after=8.0)) as reader:
        [accepted] = accepted_offsets(read_report_data(reader))
    assert accepted.level == pytest.approx(8.0, abs=0.2)
    with OutReader(offset_output(tmp_path / "back", after=0.0)) as reader:
        assert accepted_offsets(read_report_data(reader)) == []
    assert main(["report", str(tmp_path / "kept")]) == 0
    text = page_of((tmp_path / "kept" / "report.html").read_text(encoding="utf-8")).text
    assert "8.0 above the others from 9 January 2024, trusted at that level from 14 January 2024 on" in text
    capsys.readouterr()
