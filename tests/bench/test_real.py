"""Real archives are scored as a plain comparison of flags and labels scores them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives import judging
from archives.forms import FORMS, compare_forms, write_form
from archives.judging import (
    LABELS,
    JudgedFault,
    JudgedReadings,
    agreement,
    calibration,
    changes,
    distances,
    draw_faults,
    find_archives,
    impossible_estimates,
    judge,
    judge_faults,
    number_runs,
    read_judged,
)
from archives.panels import correlated_channels, draw_panels
from archives.parts import write_parts
from oracles import real as oracle
from oracles.real import Reading
from sensormend.errors import InputError, SensormendError
from sensormend.pipeline.faults import FaultInterval
from sensormend.readings import DAY, HOUR
from servers import lacking

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "benchmarks" / "real.py")

VALUES = st.integers(-3, 120).map(float)
READINGS = st.lists(
    st.builds(
        Reading,
        sensor=st.sampled_from("ab"),
        variable=st.sampled_from(["temp", "RH"]),
        value=VALUES,
        label=st.sampled_from(["", "", "", *LABELS]),
        corrected=st.none() | VALUES,
        flag=st.sampled_from([0, 1, 1, 2, 3, 4, 4, 9]),
        cleaned=VALUES,
    ),
    min_size=1,
    max_size=60,
)


def in_order(readings: list[Reading]) -> list[Reading]:
    """Return readings by channel; one without a row has no cleaned value."""
    ordered = sorted(readings, key=lambda one: (one.sensor, one.variable))
    return [one if one.flag else replace(one, cleaned=None) for one in ordered]


def judged(readings: list[Reading], estimates: list[tuple[str, float]] | None = None) -> JudgedReadings:
    rows = pd.DataFrame([asdict(one) for one in readings])
    rows["channel"] = rows.groupby(["sensor", "variable"]).ngroup()
    rows["time"] = rows["slot"] = np.arange(len(rows)) * HOUR
    rows["reason"] = np.where(rows["flag"] == 4, "stuck", "")
    rows = rows.astype({"corrected": float, "cleaned": float})
    return JudgedReadings(rows, pd.DataFrame(estimates or [], columns=["variable", "value"]), HOUR)


@given(READINGS)
def test_flags_and_labels_agree_as_counted_one_by_one(readings: list[Reading]) -> None:
    readings = in_order(readings)
    result = asdict(agreement(judged(readings)))
    for name, recall in result.pop("recall_of").items():
        flags = [one.flag in (4, 9) for one in readings if one.label == name]
        assert recall == pytest.approx(sum(flags) / len(flags))
    assert result == pytest.approx(oracle.agreement(readings))


@given(READINGS)
def test_shares_of_good_readings_are_those_of_the_oracle(readings: list[Reading]) -> None:
    readings = in_order(readings)
    scores = judge(judged(readings))
    assert (scores.flagged, scores.suspect) == pytest.approx(oracle.shares(readings))
    assert (scores.agreement is not None) == any(one.label in oracle.WRONG for one in readings)
    if scores.agreement is None:
        for share in scores.variables.itertuples():
            of_variable = [one for one in readings if one.variable == share.Index]
            assert (share.flagged, share.suspect) == pytest.approx(oracle.shares(of_variable))
    flagged = [one for one in readings if one.flag in (4, 9) and one.label in ("", "unknown")]
    assert scores.reasons.sum() == len(flagged)
    for label, share in scores.true_events.iterrows():
        of_label = [one.flag in (4, 9) for one in readings if one.label == label]
        assert (share["flagged"], share["readings"]) == pytest.approx((np.mean(of_label), len(of_label)))


@given(READINGS, st.integers(0, 5))
def test_changes_and_distances_are_those_of_the_oracle(readings: list[Reading], least: int) -> None:
    readings = in_order(readings)
    table = judged(readings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "SHORT_SERIES", least)
        result = changes(table)
    assert result.to_dict() == pytest.approx(oracle.changes(readings, least), nan_ok=True)
    assert result.abs().dropna().is_monotonic_decreasing
    assert result[: result.notna().sum()].notna().all(), "NaN comes last"
    measured = {name: tuple(own) for name, own in distances(table).iterrows()}
    wanted = oracle.distances(readings) if any(one.corrected is not None for one in readings) else {}
    assert measured.keys() == wanted.keys()
    for name, group in wanted.items():
        assert measured[name] == pytest.approx(group)


@given(READINGS, st.lists(st.tuples(st.sampled_from(["temp", "RH"]), st.integers(-30, 150).map(float)), max_size=20))
def test_impossible_estimates_are_those_of_the_oracle(
    readings: list[Reading], estimates: list[tuple[str, float]]
) -> None:
    readings = in_order(readings)
    result = impossible_estimates(judged(readings, estimates))
    extremes = {own.Index: (own.count, own.lowest, own.highest) for own in result.itertuples()}
    assert extremes == oracle.impossible(readings, estimates)


def test_a_run_ends_with_its_channel_and_unscored_readings_do_not_end_it() -> None:
    mask = pd.Series([True, False, True, True, True, True])
    assert number_runs(mask, pd.Series([0, 0, 0, 0, 1, 1])).tolist() == [1, 0, 2, 2, 3, 3]
    assert number_runs(mask[:0], pd.Series([], dtype=int)).tolist() == []
    labels = ["bad", "suspect", "bad", "", "bad"]
    series = [Reading("a", "temp", 1.0, label, None, 4 if place == 2 else 1, 1.0) for place, label in enumerate(labels)]
    result = agreement(judged(series))
    assert (result.labelled_events, result.event_recall) == (2, 0.5)
    assert (result.flagged_events, result.event_precision) == (1, 1.0)


def fault(start: int, end: int, confidence: float = 0.9, sensor: str = "a", variable: str = "temp") -> FaultInterval:
    return FaultInterval(sensor, variable, start, end, "offset", 2.0, "", 1.0, 0.0, confidence)


def test_a_fault_is_confirmed_by_half_of_its_flagged_readings() -> None:
    labels = ["", "bad", "bad", "", "suspect", "corrected", "", ""]
    flags = [1, 4, 4, 4, 4, 3, 3, 1]
    series = [Reading("a", "temp", 1.0, *pair, 1.0) for pair in zip(labels, [None] * 8, flags, strict=True)]
    table = judged(series)
    first, doubtful, late = judge_faults(
        table,
        [
            fault(0, 5 * HOUR),
            fault(5 * HOUR, 7 * HOUR),
            fault(6 * HOUR, 8 * HOUR),
            fault(7 * HOUR, 8 * HOUR),
            fault(0, 8 * HOUR, sensor="elsewhere"),
        ],
    )
    assert (first.failed, first.suspect, first.scored, first.wrong, first.confirmed) == (4, 0, 3, 2, True)
    assert (doubtful.failed, doubtful.suspect, doubtful.scored, doubtful.wrong, doubtful.confirmed) == (
        0,
        2,
        2,
        1,
        True,
    )
    assert (late.scored, late.wrong, late.confirmed) == (1, 0, False)
    assert table.rows["flag"].iloc[first.place].tolist() == [1, 4, 4, 4, 4]
    # An archive of one variable does not name it in its faults.
    assert judge_faults(table, [fault(0, 5 * HOUR, variable="")])[0].name == ("a", "temp")


def counted(confidence: float, scored: int, wrong: int, failed: int = 1, suspect: int = 0) -> JudgedFault:
    return JudgedFault(fault(0, HOUR, confidence), ("a", "temp"), slice(0, 1), failed, suspect, scored, wrong)


def test_faults_are_binned_by_confidence() -> None:
    bins = calibration(
        [
            counted(0.96, 10, 10),
            counted(1.0, 30, 1),
            counted(0.95, 60, 30),
            counted(0.3, 5, 0),
            counted(0.5, 4, 4),
            counted(np.nan, 2, 2),
            counted(0.9, 0, 0),
        ]
    )
    assert bins[["low", "high"]].to_numpy()[:3].tolist() == [[0.0, 0.5], [0.5, 0.7], [0.95, 1.0]]
    assert bins[["faults", "readings"]].to_numpy().tolist() == [[1, 5], [1, 4], [3, 100], [1, 2]]
    assert bins["confirmed"].tolist() == pytest.approx([0, 1, 2 / 3, 1])
    assert bins["confirmed_readings"].tolist() == pytest.approx([0, 1, 0.7, 1])
    assert bins["confidence"].tolist() == pytest.approx([0.3, 0.5, 0.97, np.nan], nan_ok=True)
    assert bins["low"].isna().tolist() == [False, False, False, True]
    assert calibration([]).empty


def test_faults_are_drawn_in_proportion_to_their_flagged_readings() -> None:
    faults = [counted(place / 10, 1, 1, failed=failed) for place, failed in enumerate((1, 2, 7, 0))]
    drawn = Counter(draw_faults(faults, 1, seed)[0].failed for seed in range(2000))
    assert [drawn[failed] / 2000 for failed in (1, 2, 7, 0)] == pytest.approx([0.1, 0.2, 0.7, 0], abs=0.04)
    assert draw_faults(faults, 2, seed=5) == draw_faults(faults, 2, seed=5)
    everything = draw_faults(faults, 20)
    assert sorted(one.failed for one in everything) == [1, 2, 7]
    doubtful = counted(0.4, 1, 1, failed=0, suspect=3)
    assert doubtful in draw_faults([*faults, doubtful], 4)
    assert doubtful not in draw_faults([*faults, doubtful], 3)
    assert draw_faults([], 20) == []


def wave(folder: Path) -> Path:
    """Write an archive of four weeks: two sensors, two variables, one labelled fault."""
    path = folder / "real" / "wave.parquet"
    path.parent.mkdir()
    duckdb.execute(
        f"""copy (select timestamp '2020-01-01' + interval (hour) hours as time, sensor, variable,
                         10 + 5 * sin(hour / 24.0 * 2 * pi()) + hash(hour, sensor, variable) % 100 / 100
                         + case when bad then 30 else 0 end as value,
                         case when bad then 'bad' else '' end as label,
                         case when bad then value - 30 end as corrected
                  from (select *, sensor = 'a' and variable = 'temp' and hour between 480 and 509 as bad
                        from range(672) h(hour), (values ('a'), ('b'), ('c')) s(sensor),
                             (values ('temp'), ('RH')) v(variable)))
            to '{path}' (format parquet)"""
    )
    return path


def rows_of(archive: Path, out: Path) -> None:
    """Write an OUT of two-hour slots in which the second half of the archive has flag 4, without its last day."""
    target = out / "data" / "date=2020-01-01"
    target.mkdir(parents=True)
    duckdb.execute(
        f"""copy (select time_bucket(interval 2 hours, time) as time, sensor, variable, avg(value) as value,
                         avg(value) + 1 as cleaned, if(min(time) < '2020-01-15', 1, 4)::tinyint as flag,
                         if(min(time) < '2020-01-15', '', 'gain') as reason, count(*) as n
                  from read_parquet('{archive}') where time < '2020-01-28' group by all)
            to '{target}/rows.parquet' (format parquet)"""
    )


def test_every_reading_gets_the_row_of_its_slot(tmp_path: Path) -> None:
    archive = wave(tmp_path)
    rows_of(archive, tmp_path / "out")
    table = read_judged(archive, tmp_path / "out")
    assert table.step == 2 * HOUR
    assert list(table.spans) == [(sensor, variable) for sensor in "abc" for variable in ("RH", "temp")]
    rows = table.rows
    for name, span in table.spans.items():
        assert set(rows[["sensor", "variable"]].iloc[span].itertuples(index=False, name=None)) == {name}
    day = (rows["time"] - rows["time"].min()) // DAY
    np.testing.assert_array_equal(rows["flag"], np.where(day < 14, 1, np.where(day < 27, 4, 0)))
    np.testing.assert_array_equal(rows["slot"][day < 27], (rows["time"] // (2 * HOUR) * (2 * HOUR))[day < 27])
    assert rows["cleaned"][day == 27].isna().all()
    assert rows["cleaned"][day < 27].notna().all()
    assert (table.wrong.sum(), table.good.sum()) == (30, 672 * 6 - 30)
    assert rows["corrected"].notna().sum() == 30
    assert set(rows["reason"][rows["flag"] == 4]) == {"gain"}
    assert len(table.estimates) == 6 * 27 * 12
    scores = judge(table)
    assert scores.agreement is not None
    assert scores.agreement.recall == 1.0
    assert list(scores.distances.index) == ["all", "flag 4", "wrong readings"]
    assert sorted(correlated_channels(table, ("a", "temp"))) == ["b", "c"]
    assert len(correlated_channels(table, ("a", "temp"), 1)) == 1


def test_a_reading_shortly_before_the_hour_has_the_row_of_the_hour(tmp_path: Path) -> None:
    archive = tmp_path / "early.parquet"
    duckdb.execute(
        f"""copy (select timestamp '2020-01-01 07:59:47' + interval 30 minutes * n as time, 'a' as sensor,
                         'x' as variable, n::double as value from range(6) s(n)) to '{archive}' (format parquet)"""
    )
    target = tmp_path / "out" / "data" / "date=2020-01-01"
    target.mkdir(parents=True)
    duckdb.execute(
        f"""copy (select timestamp '2020-01-01 07:30' + interval 30 minutes * n as time, 'a' as sensor,
                         if(n > 0, n - 1, null)::double as value, if(n > 0, n - 1, null)::double as cleaned,
                         if(n > 0, 1, 9)::tinyint as flag, '' as reason, (n > 0)::int as n
                  from range(7) s(n)) to '{target}/rows.parquet' (format parquet)"""
    )
    (tmp_path / "out" / "run.json").write_text('{"grid": {"early_seconds": 900.0}}')
    table = read_judged(archive, tmp_path / "out")
    assert table.rows["flag"].tolist() == [1] * 6
    assert table.rows["cleaned"].tolist() == table.rows["value"].tolist()
    (tmp_path / "out" / "run.json").unlink()
    assert read_judged(archive, tmp_path / "out").rows["flag"].tolist() == [9, 1, 1, 1, 1, 1]


def test_faults_are_drawn_as_panels(tmp_path: Path) -> None:
    archive = wave(tmp_path)
    rows_of(archive, tmp_path / "out")
    table = read_judged(archive, tmp_path / "out")
    start = int(table.rows["time"].min())
    interval = fault(start + 20 * DAY, start + 21 * DAY, np.nan)
    faults = judge_faults(table, [interval, replace(interval, size=np.nan, start=start + 14 * DAY)])
    path = draw_panels(tmp_path / "faults.png", "wave", table, faults)
    assert path.stat().st_size > 20_000


def test_every_form_has_the_same_readings(tmp_path: Path) -> None:
    archive = wave(tmp_path)
    count, columns = {}, {}
    for form in FORMS:
        write_form(archive, form, tmp_path / f"{form}.parquet")
        table = duckdb.read_parquet(f"{tmp_path}/{form}.parquet")
        count[form], columns[form] = len(table), table.columns
    assert columns["wide"] == ["sensor", "time", "RH", "temp"]
    assert count == {
        "long": 4032, "wide": 2016, "another order": 4032, "empty rows": 4032 + 6 * 67, "without the first week": 3024,
    }  # fmt: skip


@pytest.mark.processes
def test_a_form_of_the_table_changes_no_flag(tmp_path: Path) -> None:
    results = {one.form: one for one in compare_forms(wave(tmp_path), tmp_path)}
    assert list(results) == list(FORMS)
    assert not any(one.trouble for one in results.values())
    assert results["long"].rows == results["wide"].common == 672 * 6
    assert all(results[form].differing == 0 for form in ("long", "wide", "another order", "empty rows"))
    refused = list(compare_forms(tmp_path / "real" / "wave.parquet", tmp_path, ["--no-such"]))
    assert [one.form for one in refused] == ["long"]
    assert "--no-such" in refused[0].trouble


def test_archives_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENSORMEND_DATA", str(tmp_path))
    with pytest.raises(SensormendError, match="set SENSORMEND_DATA"):
        find_archives()
    archive = wave(tmp_path)
    assert find_archives() == find_archives(["wave"]) == {"wave": archive}
    with pytest.raises(InputError, match="no archive 'sea'; there are wave"):
        find_archives(["sea"])


def script(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], env={**os.environ, "SENSORMEND_DATA": str(data)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.processes
def test_the_script_ends_with_1_where_an_archive_stops_and_with_2_for_a_name_that_is_none(tmp_path: Path) -> None:
    wave(tmp_path)
    assert script(tmp_path, "sea").returncode == 2
    assert script(tmp_path / "nowhere").returncode == 1
    stopped = script(tmp_path, "wave", "--", "--no-such")
    assert stopped.returncode == 1
    assert "wave stopped" in stopped.stdout


@pytest.mark.processes
def test_oddwater_is_scored(data: Path, tmp_path: Path) -> None:
    if not (data / "real" / "oddwater.parquet").is_file():
        lacking("the archive oddwater is not here; set SENSORMEND_DATA to the folder that has real/oddwater.parquet")
    words = ["oddwater", "--calibration", "--draw", str(tmp_path), "--out", str(tmp_path / "outs"), "--", "--one-pass"]
    ended = script(data, *words)
    assert ended.returncode == 0, ended.stderr
    assert "| oddwater |" in ended.stdout
    assert "calibration" in ended.stdout
    assert (tmp_path / "oddwater.png").is_file()
    scores = judge(read_judged(data / "real" / "oddwater.parquet", tmp_path / "outs" / "oddwater"))
    assert scores.agreement is not None
    assert 0 <= scores.flagged <= 1
    assert set(scores.variables.index) == {"level", "cond", "tur"}
    assert scores.agreement.labelled_events == 30
    assert len(scores.changes) == 6
    assert scores.distances.empty


def test_parts_have_the_sensors_with_most_readings_and_every_sixth_reading(tmp_path: Path) -> None:
    archive = tmp_path / "tank.parquet"
    duckdb.execute(
        f"""copy (select i as time, case when i % 10 < 6 then 'a' when i % 10 < 9 then 'b' else 'c' end as sensor,
                         'level' as variable, i::double as value from range(600) numbers(i))
            to '{archive}' (format parquet)"""
    )
    counts = {
        name: duckdb.execute(f"select sensor, count(*) from '{part}' group by sensor order by sensor").fetchall()
        for name, part in write_parts(archive, tmp_path).items()
    }
    assert counts == {
        "tank-1-of-the-sensors": [("a", 360)],
        "tank-2-of-the-sensors": [("a", 360), ("b", 180)],
        "tank-every-6th": [("a", 60), ("b", 30), ("c", 10)],
    }
