"""`sensormend clean` and `sensormend explain` as a person types them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from html_pages import page_of
from networks import fault_free
from sensormend.cli import main
from sensormend.readings import DAY, Readings
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader
from simulated_city import START, city_readings, write_csv


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    write_csv(folder / "readings.csv", city_readings(days=32))
    return folder


@pytest.fixture(scope="module")
def typed(place: Path) -> subprocess.CompletedProcess[str]:
    words = ["clean", "readings.csv", "mended", "--valid", "-60,60", "--coordinates", "places.csv"]
    (place / "places.csv").write_text("sensor,latitude,longitude\ns00,41.8,-87.6\n")
    return subprocess.run(
        [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())", *words],
        cwd=place, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_summary_says_what_was_found_and_what_to_type_next(
    typed: subprocess.CompletedProcess[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed.returncode == 0, typed.stderr
    assert "Traceback" not in typed.stderr
    for word in (
        "sensors",
        "readings",
        "faulty",
        "suspect",
        "filled or replaced",
        "The worst of them",
        "1h in a period",
    ):
        assert word in typed.stdout
    assert "cleaning" in typed.stderr
    assert "readings/s" in typed.stderr
    assert "s00" in (place / "mended" / "sensors.csv").read_text()
    summary = " ".join(typed.stdout.split())
    words = summary[summary.index("sensormend explain ") :].split()[1:5]
    words[1] = str(place / words[1])
    assert main(words) == 0
    explanation = capsys.readouterr().out
    assert words[2] in explanation
    assert "flag 4" in explanation
    assert "sensormend serve mended; as one file: sensormend report mended" in summary


def test_help_is_a_page_for_a_scientist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--help"]) == 0
    page = capsys.readouterr().out
    assert page.splitlines()[0] == "Usage: sensormend clean READINGS... OUT [OPTIONS]"
    for word in ("never changed", "nothing to tune", "--maintenance", "--resume", "QARTOD", "postgresql://"):
        assert word in " ".join(page.split())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["clean"], 2, "needs READINGS and OUT"),
        (["clean", "readings.csv"], 2, "needs READINGS and OUT"),
        (["clean", "nothing.csv", "out"], 2, "nothing.csv"),
        (["clean", "readings.csv", "mended"], 2, "--overwrite replaces it"),
        (["clean", "readings.csv", "out", "--valid", "warm"], 2, "--valid takes numbers like"),
        (["clean", "readings.csv", "out", "--tolerance", "some"], 2, "--tolerance takes a number like 0.5 or temp=0.5"),
        (["clean", "readings.csv", "out", "--valid", "50,-40"], 2, "lowest and a highest"),
        (["clean", "readings.csv", "out", "--step", "often"], 2, "15min, 1h or 1d"),
        (["clean", "readings.csv", "out", "--value", "temp"], 2, "temp"),
        (["clean", "readings.csv", "out", "--config", "none.toml"], 2, "there is no file"),
        (["clean", "readings.csv", "out", "--maintenance", "none.csv"], 2, "none.csv"),
        (["clean", "readings.csv", "out", "--valid", "tmp=-40,50"], 2, "valid names variable 'tmp'"),
        (["clean", "readings.csv", "out", "--networks", "city"], 2, "no column 'city', as --networks says"),
        (["clean", "readings.csv", "out.nc", "--networks", "sensor"], 2, "go into a folder, each into its own"),
        (["clean", "readings.csv", "out", "--cluster", "tcp://127.0.0.1:1"], 2, "--networks COLUMN; name that column"),
        (["clean", "", "out"], 2, "READINGS is empty"),
        (["clean", "mended", "out"], 2, "was written by sensormend; give the original readings"),
        (["clean", "readings.csv", "out", "--known", "x*"], 2, "no sensor is known by x*"),
        (["clean", "readings.csv", "out", "--coordinates", "readings.csv"], 2, "latitude"),
        (["clean", "readings.csv", "out", "--resume"], 2, "nothing to resume"),
        (["clean", "readings.csv", "readings.csv/out"], 1, "readings.csv"),
        (["explain", "mended", "nobody", "2020-01-05"], 2, "nobody"),
        (["explain", "mended", "s00", "soon"], 2, "soon"),
        (["explain", "readings.csv", "s00", "2020-01-05"], 2, "readings.csv"),
    ],
)
def test_a_wrong_call_is_one_line_and_writes_nothing(
    typed: subprocess.CompletedProcess[str],
    place: Path,
    words: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert typed.returncode == 0
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    assert main(words) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("sensormend: ")
    assert message in lines[-1]
    # Work that was done before it failed may have been reported; nothing else.
    assert all(line.startswith(("reading", "sorting")) for line in lines[:-1])
    assert sorted(path.name for path in place.iterdir()) == before


def test_standard_input_is_a_source(place: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())",
         "clean", "-", str(tmp_path / "one.csv")],
        input=(place / "readings.csv").read_text(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "one.csv").read_text().splitlines()
    assert lines[0] == "sensor,time,value,n,cleaned,lower,upper,flag,reason,origin"
    assert len(lines) == 1 + 8 * 24 * 32
    assert np.unique([line.split(",")[7] for line in lines[1:]]).size > 1


def test_rows_per_reading_are_explained_by_their_slots(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readings = city_readings(days=32)
    readings.time[:] += np.random.default_rng(0).integers(0, 50 * 60_000_000, len(readings))
    write_csv(tmp_path / "jittered.csv", readings)
    out = str(tmp_path / "rows.parquet")
    assert main(["clean", str(tmp_path / "jittered.csv"), out, "--per-reading", "--step", "1h"]) == 0
    capsys.readouterr()
    assert main(["explain", out, "s03", "2020-01-20T10:00"]) == 0
    printed = capsys.readouterr().out
    assert "s03 read" in printed
    assert "correlation" in printed


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readings = city_readings(days=20)
    readings = Readings(
        tuple(f"T[/{name}]" for name in readings.sensors), readings.variables, readings.sensor, readings.variable,
        readings.time, np.where((readings.sensor == 2) & (readings.time > START + 15 * DAY), 60.0, readings.value),
    )  # fmt: skip
    write_csv(tmp_path / "readings.csv", readings)
    assert main(["clean", str(tmp_path / "readings.csv"), str(tmp_path / "out[1]")]) == 0
    printed = capsys.readouterr().out
    assert "T[/s02]" in printed
    assert "out[1]" in printed


def test_pipes_are_read_once_each(place: Path, tmp_path: Path) -> None:
    file = place / "readings.csv"
    pipes = f"<(grep -v s03 {file}) <(grep -E 'sensor|s03' {file})"
    words = f"sensormend clean {pipes} {tmp_path / 'out'}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert len((tmp_path / "out" / "sensors.csv").read_text().splitlines()) == 1 + 8


def written_days(path: Path, sensors: int, days: int) -> Path:
    """Write the hours of some days of a network in which nothing is wrong."""
    values = fault_free(8, 90)[:sensors, :, :days]
    lines = [
        f"s{sensor},2020-01-{1 + day:02d}T{hour:02d}:00,{values[sensor, hour, day]:.2f}"
        for sensor in range(sensors)
        for day in range(days)
        for hour in range(24)
    ]
    path.write_text("\n".join(["sensor,time,value", *lines]) + "\n")
    return path


@pytest.mark.parametrize(("sensors", "days"), [(1, 2), (6, 4)])
def test_what_was_not_judged_is_said_first_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sensors: int, days: int
) -> None:
    out = tmp_path / "mended"
    readings = written_days(tmp_path / "a.csv", sensors, days)
    assert main(["clean", str(readings), str(out), "--one-pass", "--period", "1d"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Nothing was judged: all readings have flag 2 and are kept as they came.")
    assert f"judged after 5 periods with readings, here of 1d; there are {days} with readings" in printed
    assert "Nothing wrong was found" not in printed
    assert main(["report", str(out)]) == 0
    page = page_of((out / "report.html").read_text(encoding="utf-8")).text
    assert "Nothing was judged" in page
    assert page.index("Nothing was judged") < page.index("What to repair")
    assert "Nothing wrong was found" not in page
    assert "no sensor was faulty" not in page
    with OutReader(out) as look:
        assert network_overview(look).sentence.startswith("Nothing was judged: all readings have flag 2")
    capsys.readouterr()
    assert main(["explain", str(out), "s0", "2020-01-02T05:00"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "It was not judged" in printed
    assert ("There is no other sensor: it is judged by its own past alone." in printed) == (sensors == 1)


def test_what_little_was_judged_is_told_and_what_it_was_judged_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readings = written_days(tmp_path / "a.csv", 6, 8)
    assert main(["clean", str(readings), str(tmp_path / "few"), "--one-pass", "--period", "1d"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Only 38 % of the readings were judged: the others have flag 2")
    assert "Nothing wrong was found among the readings that were judged" in printed
    readings = written_days(tmp_path / "b.csv", 1, 28)
    assert main(["clean", str(readings), str(tmp_path / "lone"), "--period", "1d"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("All readings were judged. 1 sensor is healthy. There are no faults. ")
    assert "Nothing wrong was found. One or two sensors are judged by their own past only" in printed


def test_a_recalibration_within_the_weeks_that_are_learned_twice(tmp_path: Path) -> None:
    table, out, notes = tmp_path / "readings.csv", tmp_path / "out", tmp_path / "notes.csv"
    main(["example", str(table)])
    notes.write_text("sensor,from,to,action\nS03,2024-01-15T00:00:00,,recalibrated\n")
    assert main(["clean", str(table), str(out), "--maintenance", str(notes)]) == 0
    assert (out / "faults.csv").exists()
