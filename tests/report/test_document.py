"""The report as a file: whole, by itself, and with the figures that the rows have."""

import errno
import os
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from html_pages import Page, page_of
from output_folders import FIRST, Output, big_output, drifting_output, small_output, write_faults, write_output
from sensormend.errors import ConfigError, InputError, SensormendError
from sensormend.io.metadata import SENSORS_HEADER, write_csv, write_json
from sensormend.io.target import export
from sensormend.pipeline.sentences import percent
from sensormend.readings import DAY, REASONS, Flag
from sensormend.report.document import write_report

HEBREW = "\u202e\u05e9\u05dc\u05d5\u05dd"
HOSTILE = (
    "S0",
    "x" * 5000,
    "<script>alert(1)</script>",
    "\"quoted' &amp; <b>",
    "]]>-->",
    HEBREW,
    "a\x00b\x1b[31m",
    "S6",
)


def read(path: Path) -> Page:
    return page_of(path.read_text(encoding="utf-8"))


def listed(page: Page, name: str) -> list[dict[str, Any]]:
    """Return the lines of a list that the report shows, as the API has them."""
    items: list[dict[str, Any]] = page.data["answers"][name][0]["answer"]["items"]
    return items


def own(page: Page) -> None:
    """Hold a page to its promise: nothing of it is anywhere else."""
    ids = page.ids()
    assert len(ids) == len(set(ids))
    for reference in page.references:
        assert reference.startswith(("#", "data:image/png;base64,")), reference[:100]
        if reference.startswith("#"):
            assert reference[1:] in ids, reference
    assert not {tag for tag, _ in page.tags} & {"iframe", "object", "embed", "link", "base", "form", "video"}
    assert "@import" not in page.style
    assert "@font-face" not in page.style
    policies = [meta["content"] for meta in page.named("meta") if "http-equiv" in meta]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in policies[0].split(";"))
    assert rules["default-src"] == "'none'"
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in page.scripts]
    assert rules["script-src"].split() == hashes
    assert not [tag for tag, attributes in page.tags if "style" in attributes]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Output:
    return small_output(tmp_path_factory.mktemp("page") / "city")


@pytest.fixture(scope="module")
def page(written: Output) -> Page:
    return read(write_report(written.path))


def test_it_is_one_whole_file_that_refers_to_nothing_else(page: Page) -> None:
    own(page)
    assert page.ids() == [
        "main", "repair", "attention", "longest", "health", "matrix", "map", "on-map", "worst", "sensor-1", "sensor-2",
        "sensor-3", "filled", "limits", "made", "data",
    ]  # fmt: skip
    assert "UTC" in page.text


def test_it_follows_the_reader_s_light_and_prints(page: Page) -> None:
    assert ':root[data-theme="dark"]' in page.style
    assert any("prefers-color-scheme" in script for script in page.scripts)
    assert "@media print" in page.style
    assert "size: A4" in page.style
    assert any(meta.get("name") == "viewport" for meta in page.named("meta"))


def test_its_numbers_are_those_of_the_rows(page: Page, written: Output) -> None:
    flag, total = written.flag, written.flag.size
    estimated = int(((flag == Flag.FAIL) | (flag == Flag.MISSING)).sum())
    heard = int(np.isfinite(written.value).sum())
    assert f"{total:,} in all" in page.text
    assert f"{estimated:,} are estimates ({percent(estimated, total)})" in page.text
    assert f"{percent(int((flag == Flag.FAIL).sum()), heard)}of what was measured was wrong" in page.text
    assert f"{percent(int((flag == Flag.MISSING).sum()), total)}of all values never came" in page.text
    flags = {row[0]: row[3] for row in page.table("flag", "meaning")}
    assert flags == {str(int(code)): f"{int((flag == code).sum()):,}" for code in Flag}


def test_corrections_are_neither_estimates_nor_readings_as_they_came(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", corrected=True)
    text = read(write_report(written.path)).text
    total, offset = written.flag.size, written.reason == REASONS.index("offset")
    corrected = int(offset.sum())
    wrong = (written.flag == Flag.FAIL) | (written.flag == Flag.MISSING)
    estimated = int((wrong & ~offset).sum())
    read_as_is = total - estimated - corrected
    assert 18 < corrected <= 24
    assert f"{corrected} are wrong readings with their fault taken out ({percent(corrected, total)})" in text
    assert f"{estimated:,} are estimates" in text
    assert f"{read_as_is:,} are readings as they came" in text


def test_each_cause_has_its_values_and_their_interval(page: Page, written: Output) -> None:
    word = {name: np.int8(REASONS.index(name)) for name in ("stuck", "spike", "silent")}
    values = {row[0]: int(row[1].replace(",", "")) for row in page.table("why", "values")}
    missing = written.flag == Flag.MISSING
    silent = missing & (written.reason == word["silent"])
    fail = written.flag == Flag.FAIL
    assert values == {
        "No reading came": int((missing & ~silent).sum()),
        "The sensor was silent for a whole period": int(silent.sum()),
        "The reading was replaced: the sensor was faulty": int((fail & (written.reason == word["stuck"])).sum()),
        "The reading was replaced: a single wrong value": 1,
    }
    assert {row[3] for row in page.table("why", "values")} == {"± 1.0"}


def test_the_sensors_with_most_estimates_come_first(page: Page, written: Output) -> None:
    estimated = ((written.flag == Flag.FAIL) | (written.flag == Flag.MISSING))[:, 0].sum(axis=1)
    slots = written.flag.shape[2]
    expected = sorted(zip((-estimated).tolist(), written.sensors, strict=True))
    shown = [[row[0], row[2]] for row in page.table("sensor", "estimated", "values")]
    assert shown == [[name, f"{-many:,} of {slots:,}"] for many, name in expected[:10] if many]


def test_what_is_open_is_to_be_repaired(page: Page) -> None:
    (one,) = listed(page, "attention")
    assert (one["sensor"], one["since"], one["reason"], one["sure"]) == (
        "S01", "2024-01-16T00:00:00Z", "stuck", "certain",
    )  # fmt: skip
    assert one["sentence"] == "S01 was stuck."
    assert [fault["sensor"] for fault in listed(page, "faults")] == ["S01", "S02", "S03"]


def test_it_says_what_the_data_is_not_for(page: Page, written: Output) -> None:
    unjudged = int((written.flag == Flag.NOT_EVALUATED).sum())
    assert "S01: 16 to 20 January 2024 (5 days)" in page.text
    assert re.search(r"S02: \d+ to 10 January 2024", page.text)
    assert f"{unjudged:,} readings of 2 days" in page.text
    assert "1 to 2 January 2024" in page.text
    assert "no sensor of the network reported" not in page.text
    assert "stand alone" not in page.text


def test_the_map_is_of_the_latest_time_with_most_faulty_sensors(page: Page, written: Output) -> None:
    stuck = written.reason[:, 0] == REASONS.index("stuck")
    dates = {int(time) // DAY for time in written.time[stuck.any(axis=0)]}
    assert page.data["moment"].startswith(f"2024-01-{max(dates) - FIRST // DAY + 1:02d}T")
    (moment,) = page.data["answers"]["moment"]
    assert moment["answer"]["time"] == page.data["moment"]
    assert moment["answer"]["state"].count("faulty") == 1
    assert len(page.data["answers"]["places"][0]["answer"]["sensors"]) == len(written.sensors)


def test_names_that_are_no_names_stay_text(tmp_path: Path) -> None:
    written = small_output(tmp_path / "<b>city", names=HOSTILE)
    path = write_report(written.path)
    report = read(path)
    own(report)
    assert "<script>alert(1)</script>" in report.text
    assert "<b>city" in report.text
    assert HEBREW in report.text
    raw = path.read_bytes()
    assert raw.count(b"<script") == 4
    assert raw.count(b"</script") == 4
    assert b"<b>city" not in raw
    assert b"\x00" not in raw
    assert b"\x1b" not in raw
    assert "x" * 300 not in report.text
    assert set(HOSTILE) == {row["sensor"] for row in report.data["answers"]["matrix"][0]["answer"]["rows"]}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".nc"])
def test_a_single_file_has_its_report_beside_it(written: Output, page: Page, ending: str, tmp_path: Path) -> None:
    if ending == ".nc":
        pytest.importorskip("h5netcdf")
    out = tmp_path / f"city{ending}"
    export(written.path, out)
    meta = tmp_path / f"city{ending}.meta"
    meta.mkdir()
    for name in ("faults.csv", "sensors.csv", "run.json"):
        shutil.copy(written.path / name, meta)
    path = write_report(out)
    assert path == meta / "report.html"
    report = read(path)
    own(report)
    assert report.table("why", "values")[0][:3] == page.table("why", "values")[0][:3]
    assert report.table("flag", "meaning") == page.table("flag", "meaning")


def test_a_drift_is_listed_before_it_is_a_fault(tmp_path: Path) -> None:
    report = read(write_report(drifting_output(tmp_path / "city")))
    rows = report.data["answers"]["calibration"][0]["answer"]["rows"]
    assert rows[0]["sensor"] == "S07"
    assert rows[0]["now"] == pytest.approx(3.0, abs=0.05)
    assert rows[0]["times"] > 4
    assert [row["times"] > 4 for row in rows[1:]] == [False] * (len(rows) - 1)
    short = read(write_report(small_output(tmp_path / "short", days=9).path))
    assert "calibration" not in short.data["answers"], "nothing to say yet"
    assert "#calibration" not in short.references


def test_names_are_not_cut(tmp_path: Path) -> None:
    names = tuple(f"Upper-Franklin-Basin-Station-{number:02d}-north" for number in range(6))
    variables = ("conductivity", "temp")
    drawn = read(
        write_report(small_output(tmp_path / "river", names=names, variables=variables, places=False).path)
    ).text
    assert sum(f"{name} conductivity" in drawn for name in names) >= 3
    assert "\N{HORIZONTAL ELLIPSIS}" not in drawn


def test_a_lasting_fault_and_what_was_corrected_are_inside(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=200, corrected=True)
    write_faults(
        written.path,
        [("S04", "", FIRST + 3 * DAY, FIRST + 150 * DAY, "drift", 4.0, "S04 drifted.", 2.13, 0.1, 1.0)],
    )
    report = read(write_report(written.path))
    assert report.data["sensors"][0]["sensor"] == "S04"
    series = {entry["of"]["sensor"]: entry["answer"] for entry in report.data["answers"]["series"]
              if entry["of"]["part"] == entry["of"]["sensor"]}  # fmt: skip
    drift = series["S04"]["lasting"][0]
    assert (drift["word"], drift["size"]) == ("drift", "+2.1, rising")
    assert series["S04"]["thinned"] > 1, "months are bands"
    assert any(sum(one["corrected"]) > 0 for one in series.values())


def test_without_positions_it_has_no_map(tmp_path: Path) -> None:
    report = read(write_report(small_output(tmp_path / "city", places=False).path))
    own(report)
    assert "map" not in report.ids()
    assert "#map" not in report.references


def test_several_variables_are_separate(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", variables=("temp", "humidity"))
    report = read(write_report(written.path))
    own(report)
    rows = report.table("usual interval", "wide interval")
    assert [row[0] for row in rows] == ["temp", "humidity"]
    rows = report.data["answers"]["matrix"][0]["answer"]["rows"]
    assert {row["variable"] for row in rows} == {"temp", "humidity"}
    assert [(one["sensor"], one["variable"]) for one in listed(report, "attention")] == [("S01", "temp")]
    cells = {(one["sensor"], one["variable"]): one["share_faulty"] for one in listed(report, "sensors")}
    assert len(cells) == 2 * len(written.sensors)
    assert cells["S01", "temp"] > 0 == cells["S00", "humidity"]


def test_an_archive_without_faults_says_so(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=1, days=5)
    report = read(write_report(written.path))
    own(report)
    assert listed(report, "attention") == listed(report, "faults") == []
    assert "There are no faults." in report.text
    assert "worst" not in report.ids()


def perfect(path: Path, days: int) -> Output:
    """Write an OUT in which nothing is missing and nothing wrong."""
    value = np.random.default_rng(0).normal(size=(3, 1, 24 * days))
    names = ("a", "b", "c")
    flag, reason = np.full(value.shape, Flag.GOOD, np.int8), np.zeros(value.shape, np.int8)
    written = write_output(path, names, ("",), value, value, flag, reason, 24)
    nan, last = float("nan"), int(written.time[-1])
    lines = [(name, "", 24 * days, 0.0, 0.0, 0.1, nan, nan, FIRST, last, 20.5, "healthy") for name in names]
    write_csv(path / "sensors.csv", SENSORS_HEADER, lines)
    write_faults(path, [])
    write_json(path / "run.json", {"command": "clean", "grid": {"step": "1h", "period": "1d"}})
    return written


def test_a_day_with_nothing_wrong_is_a_short_report(tmp_path: Path) -> None:
    report = read(write_report(perfect(tmp_path / "city", 1).path))
    own(report)
    assert "72 are readings as they came, not changed in any way (100 %)" in report.text
    assert "1 January 2024" in report.text
    assert report.table("flag", "meaning")[0][3:] == ["72", "100 %"]
    assert not [table for table in report.tables if "why" in table[0]]


def test_it_has_nothing_private(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city")
    secret = {
        "command": "watch",
        "grid": {"step": "1h", "period": "1d"},
        "source": "mqtt://user:hunter2@broker.example/city",
        "out": "/home/alice/city",
        "options": {"maintenance": "/home/alice/maintenance.csv", "gone_after": "60d"},
        "surroundings": {"sensormend": "0.1.0", "python": "3.11.7", "host": "alice-laptop"},
    }
    write_json(written.path / "run.json", secret)
    text = write_report(written.path).read_text(encoding="utf-8")
    for word in ("alice", "hunter2", "broker.example", str(tmp_path)):
        assert word not in text
    assert "gone_after = 60d" in text
    assert "python 3.11.7" in text


def test_a_large_network_stays_small_enough_to_mail(tmp_path: Path) -> None:
    path = write_report(big_output(tmp_path / "city", sensors=2000, days=60, slots=2), tmp_path / "large.html")
    assert path.stat().st_size < 1_200_000
    report = read(path)
    own(report)
    assert len(report.data["answers"]["matrix"][0]["answer"]["rows"]) == 2000


def test_who_has_left_is_named(tmp_path: Path) -> None:
    written = perfect(tmp_path / "city", 3)
    nan = float("nan")
    names = ("a", "b", "c", "gone")
    lines = [(name, "", 72, 0.0, 0.0, 0.1, nan, nan, FIRST, FIRST + DAY, 20.5, "healthy") for name in names]
    write_csv(written.path / "sensors.csv", SENSORS_HEADER, lines)
    text = read(write_report(written.path)).text
    assert "All readings were judged. 3 of 4 sensors are healthy. 1 has ended." in text
    assert "Ended before the others, with the last reading: gone on 2 January 2024." in text


def test_a_watch_without_a_final_period_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "out" / "state").mkdir(parents=True)
    (tmp_path / "out" / "state" / "watch.json").write_text("{}")
    with pytest.raises(InputError, match="no period is final yet in out"):
        write_report(tmp_path / "out")
    assert not (tmp_path / "out" / "report.html").exists()


def test_an_archive_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "data").mkdir(parents=True)
    with pytest.raises(InputError, match="no rows in out"):
        write_report(tmp_path / "out")


def test_a_full_disk_leaves_the_old_report(written: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("the old one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SensormendError, match="No space left"):
            write_report(written.path, target)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "the old one"


def test_a_target_that_cannot_be_is_refused(written: Output, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        write_report(written.path, tmp_path / "nowhere" / "report.html")
    with pytest.raises(ConfigError, match="is a folder"):
        write_report(written.path, tmp_path)
    assert not list(tmp_path.iterdir())


def test_it_never_replaces_what_it_reports_on(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=4)
    for name in ("faults.csv", "run.json", "sensors.csv"):
        with pytest.raises(ConfigError, match="part of"):
            write_report(written.path, written.path / name)
    assert (written.path / "faults.csv").read_text().startswith("sensor,variable")


def test_a_watch_whose_tables_are_behind_its_rows_is_reported_as_of_the_tables(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city")
    run = {"command": "watch", "grid": {"step": "1h", "period": "1d"}, "closed": "2024-01-11T00:00:00"}
    write_json(written.path / "run.json", run)
    report = read(write_report(written.path))
    assert "1 to 10 January 2024" in report.text
    assert f"{12 * 24 * 10:,} in all" in report.text


def test_a_name_cannot_turn_the_text_around_it(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", names=("S0", HEBREW, "S2", "S3"))
    text = write_report(written.path).read_text(encoding="utf-8")
    # In the text each of them is isolated.
    outside = re.sub("<bdi.*?</bdi>|<script.*?</script>", "", text, flags=re.DOTALL)
    assert HEBREW in text
    assert HEBREW not in outside


def test_a_fault_that_was_over_in_the_last_day_is_not_to_be_repaired(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=6)
    run = {"command": "clean", "grid": {"step": "1h", "period": "1h"}}
    write_json(written.path / "run.json", run)
    begin, end = FIRST + 5 * DAY, FIRST + 5 * DAY + DAY // 4
    write_faults(written.path, [("S01", "", begin, end, "stuck", 2.0, "S01 was stuck.")])
    report = read(write_report(written.path))
    assert listed(report, "attention") == []
    assert listed(report, "faults")[0]["sentence"] == "S01 was stuck."


def test_daily_values_that_are_missing_once_are_no_stretch(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=60, slots=1)
    report = read(write_report(written.path))
    own(report)
    assert "one value per sensor and day" in report.text
    assert "In 2 stretches of a day and more" in report.text


def test_sensors_not_judged_while_others_were_are_listed_with_those_readings_alone(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=8)
    flag = written.flag.copy()
    again = (written.time >= FIRST + 5 * DAY) & (flag[5, 0] == Flag.GOOD)
    flag[5, 0, again] = Flag.NOT_EVALUATED
    write_output(written.path, written.sensors, ("",), written.value, written.cleaned, flag, written.reason, 24)
    text = " ".join(read(write_report(written.path)).text.split())
    listed = text[text.index("not judged while the others were") :][:300]
    assert f"{again.sum()} readings: sensors that were new" in listed
    assert f"S05: {again.sum()} readings" in listed
    assert "S06" not in listed


def test_who_has_left_was_heard_when_any_of_its_variables_was(tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=3, days=4, variables=("rh", "temp"))
    with (written.path / "sensors.csv").open("a") as file:
        file.write("old,rh,9,0,0,0.1,,,2023-01-01T00:00:00,2023-03-05T00:00:00\n")
        file.write("old,temp,9,0,0,0.1,,,2023-01-01T00:00:00,2023-01-07T00:00:00\n")
    text = read(write_report(written.path)).text
    assert "old on 5 March 2023" in text
