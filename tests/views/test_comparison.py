"""Flags of an OUT against labels: spans and readings, by variable, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sensormend.archive.cleaning import clean_archive
from sensormend.cli import main
from sensormend.errors import ConfigError
from sensormend.io.folder import Archive
from sensormend.pipeline.options import Options
from sensormend.pipeline.times import iso
from sensormend.readings import HOUR, Flag
from sensormend.views.comparison import compare
from simulated_city import START, city_readings, write_csv


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    path = write_csv(folder / "readings.csv", city_readings())
    clean_archive(path, folder / "out", Options.of(step="1h", period="1d"))
    return folder / "out"


def labels(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_spans(out: Path, tmp_path: Path) -> None:
    rows = Archive(out).rows()
    start, end = START + 10 * 24 * HOUR, START + 15 * 24 * HOUR
    path = labels(tmp_path, "sensor,from,to,who", f"s03,{iso(start)[:19]},{iso(end)[:19]},Ann", "s05,2020-01-30,,Bob")
    (line,) = compare(out, path)
    present = (rows.n > 0) & (rows.flag != Flag.MISSING)
    wrong = ((rows.sensor == 3) & (rows.time >= start) & (rows.time < end)) | (
        (rows.sensor == 5) & (rows.time >= START + 29 * 24 * HOUR)
    )
    fail = rows.flag == Flag.FAIL
    assert fail.any()
    assert line.readings == present.sum()
    assert line.labelled == (wrong & present).sum()
    assert line.flagged == (fail & present).sum()
    assert line.both == (wrong & fail & present).sum()
    assert line.unjudged == (present & (rows.flag == Flag.NOT_EVALUATED)).sum()
    assert line.good_flagged == (fail & ~wrong & present).sum() / (~wrong & present).sum()
    everything = labels(tmp_path, "sensor,from,to", "*,,")
    assert compare(out, everything)[0].labelled == present.sum()


def test_the_flags_themselves_agree_with_themselves(out: Path, tmp_path: Path) -> None:
    rows = Archive(out).rows()
    present = np.flatnonzero((rows.n > 0) & (rows.sensor < 4))
    lines = [
        f"{rows.sensors[rows.sensor[row]]},{iso(int(rows.time[row]) + HOUR // 2)[:19]},{rows.flag[row]}"
        for row in present
    ]
    path = labels(tmp_path, "sensor,time,flag", *lines)
    (line,) = compare(out, path)
    used = rows.flag[present] != Flag.MISSING
    assert line.readings == used.sum(), "only readings with a label are compared"
    assert line.precision == line.recall == 1.0
    assert line.good_flagged == 0.0
    (line,) = compare(out, path, wrong=["1"])
    assert line.labelled == (rows.flag[present] == Flag.GOOD).sum()


def test_an_archive_with_flags_is_its_own_table_of_labels(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "readings.csv", city_readings())
    header, *lines = file.read_text().splitlines()
    flagged = [f"{line},{4 if number % 7 == 0 else 1}" for number, line in enumerate(lines)]
    file.write_text("\n".join([f"{header},flag", *flagged]) + "\n")
    clean_archive(file, tmp_path / "out", Options.of(step="1h", period="1d"))
    rows = Archive(tmp_path / "out").rows()
    assert set(rows.variables) == {""}, "the flag is not a variable"
    (line,) = compare(tmp_path / "out", file)
    assert line.readings == ((rows.n > 0) & (rows.flag != Flag.MISSING)).sum()
    assert line.labelled == pytest.approx(line.readings / 7, rel=0.02)


def test_the_command(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = labels(tmp_path, "sensor,from,to", "s03,2020-01-10,2020-01-11")
    assert main(["compare", str(out), str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:5] == ["variable", "readings", "wrong", "flagged", "precision"]
    assert printed[1].split()[0] == "value"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["sensor,von,bis", "s03,1,2"], "from and to are lacking"),
        (["sensor,time", "s03,2020-01-01"], "or spans: sensor, from, to"),
        (["sensor,from,to", "s03,yesterday,"], "row 2, from: a time is written like"),
        (["sensor,from,to", "s03,2020-01-02,2020-01-01"], "to is not after from"),
        (["sensor,time,flag", "s03,1999-01-01,4"], "labels no reading"),
    ],
)
def test_labels_that_cannot_be_used(out: Path, tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compare(out, labels(tmp_path, *lines))


def test_an_unknown_sensor_is_named(out: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no sensor 's3'.*did you mean s03"):
        compare(out, labels(tmp_path, "sensor,from,to", "s3,2020-01-01,2020-01-02"))
