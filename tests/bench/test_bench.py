import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from sensormend.bench import measure
from sensormend.bench.data import load_network, load_reference
from sensormend.bench.experiment import RunPlan
from sensormend.bench.fault_bench import BARS, CASES, EVERY_CASE, LASTING, SMALL, chosen_cases
from sensormend.bench.measure import measured
from sensormend.bench.paper_networks import correlation
from sensormend.bench.result_store import SCHEMA
from sensormend.bench.runner import EXPERIMENTS, run
from sensormend.bench.simulations import drawn, joined, relative_error
from sensormend.bench.tables import METRICS, Bar, ResultTable, number, summarize, write_tables
from sensormend.cli import main
from sensormend.errors import ConfigError
from sensormend.recovery import FloatArray

ROOT = Path(__file__).resolve().parents[2]
NAN = float("nan")
THREE = "NetworkModel,OLRTR,RTR"


def frame(*rows: dict[str, object]) -> pd.DataFrame:
    """Return rows as the store does, with every column."""
    return pd.DataFrame(list(rows), columns=list(SCHEMA)).astype(SCHEMA)


def row(**values: object) -> dict[str, object]:
    return {"method": "NetworkModel", "kind": "ours", "status": "done", "trial": 0, "setting": "", **values}


def lines(table: ResultTable) -> list[tuple[str, ...]]:
    """Return the labels of every row."""
    return list(table.wide()[list(table.labels)].itertuples(index=False, name=None))


def means(table: ResultTable, *labels: str) -> dict[str, float]:
    """Return the means of the row with these labels after its kind."""
    cells = table.cells.set_index(list(table.labels)[1:]).loc[[labels if len(labels) > 1 else labels[0]]]
    return dict(zip(cells["column"], cells["mean"], strict=True))


def met(table: ResultTable) -> dict[str, bool]:
    """Return by column whether the targets are reached."""
    cells = table.cells[table.cells["bar"].notna() & table.cells["mean"].notna()]
    return {cell.column: cell.bar.met(cell.mean) for cell in cells.itertuples()}


def test_the_fault_bench_prints_and_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["bench", "faults", "--data", "city", "--sensors", "12", "--days", "30", "--trials", "2"]
    assert main([*call, "--cases", "mix-90,none-90", "--methods", "NetworkModel,OLRTR", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for word in ("F1", "oracle", "repaired", "false", "mix-90", "none-90", "OLRTR r20"):
        assert word in shown
    with (tmp_path / "faults_city.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores = {(row["method"], row["case"], row["figure"]): float(row["mean"]) for row in rows}
    assert 0 <= scores["NetworkModel", "mix-90", "F1"] <= scores["NetworkModel", "mix-90", "F1 (oracle)"] <= 1
    assert ("NetworkModel", "none-90", "F1") not in scores, "there is nothing to find"
    assert scores["NetworkModel", "none-90", "missing"] > 0
    assert scores["NetworkModel", "mix-90", "seconds"] > 0
    markdown = (tmp_path / "faults_city.md").read_text(encoding="utf-8")
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 2, "two tables"
    methods = {method for method, _, _ in scores}
    assert len(table) == 2 * (2 + 2 * len(methods))
    assert {"NetworkModel", "OLRTR r3", "OLRTR r20"} <= methods
    assert "exceeds 0.01" in markdown
    assert (tmp_path / "faults_city.png").is_file()


@pytest.mark.parametrize("name", ["size", "observation", "convergence", "growth"])
def test_a_tiny_run_of_every_kind_of_simulation(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = EXPERIMENTS[name]
    monkeypatch.setattr("sensormend.bench.simulations.QUICK_SIZE", (10, 1))
    monkeypatch.setattr("sensormend.bench.simulations.QUICK_SIZES", (10,))
    monkeypatch.setattr("sensormend.bench.growth.QUICK_LENGTHS", (4, 8))
    plan = RunPlan(methods=THREE if name in ("size", "growth") else "OLRTR", quick=True, minibatches=11)
    (done,) = run([(experiment, plan)], tmp_path, processes=0)
    assert done.tables
    for table in done.tables:
        assert "quick" in table.note
        assert ("RE" in table.note or "F1" in table.note) or table.figure in ("seconds", "peak MB", "missing", "faulty")
        assert "11 minibatches" in table.note or name == "growth"
    assert {path.name for path in done.written} >= {f"{name}.md", f"{name}.csv", f"{name}.png", f"{name}.svg"}
    kinds = [row[0] for row in lines(done.tables[0])]
    assert kinds == sorted(kinds, key=["ours", "online", "batch"].index)
    with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
        records = [row for row in csv.DictReader(file) if row["figure"] in ("RE", "seconds")]
    assert records
    assert all(float(row["mean"]) >= 0 for row in records)


def test_each_length_is_measured_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = EXPERIMENTS["growth"]
    assert sorted({job.x for job in experiment.jobs(RunPlan())}) == [10, 30, 100, 300, 1000, 3000, 10_000]
    job = next(job for job in experiment.jobs(RunPlan(methods="OLRTR")) if job.x == 10)
    # What is changed here does not reach a process that is begun afresh.
    monkeypatch.setattr("sensormend.bench.growth.city", None)
    (row,) = experiment.run(job)
    assert row["days"] == 10
    assert row["seconds"] > 0
    assert all(not job.option("alone") for job in experiment.jobs(RunPlan(quick=True))), "a look must be quick"


def test_sweeps_vary_one_thing_as_the_paper_says() -> None:
    full = RunPlan(methods="OLRTR")
    for name, option, values in (
        ("size", "size", [10, 20, 30, 40, 50]),
        ("corruption", "share", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        ("magnitude", "magnitude", [0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0]),
        ("observation", "observed", [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]),
    ):
        jobs = EXPERIMENTS[name].jobs(full)
        assert len(jobs) == 5 * len(values)
        assert list(dict.fromkeys(job.option(option) for job in jobs)) == values
        assert {job.option("minibatches") for job in jobs} == {20}
        assert {job.seed for job in jobs} == {0, 1, 2, 3, 4}
    assert {job.option("rank") for job in EXPERIMENTS["size"].jobs(full)} == {1, 2, 3, 4, 5}
    (longer,) = {
        job.option("minibatches") for job in EXPERIMENTS["size"].jobs(RunPlan(methods="OLRTR", minibatches=100))
    }
    assert longer == 100


def test_minibatches_are_joined_in_their_order() -> None:
    job = EXPERIMENTS["size"].jobs(RunPlan(methods="OLRTR", trials=1, quick=True, minibatches=11))[0]
    parts = drawn(job)
    whole = joined(parts)
    assert whole.truth.shape == (10, 10, 110)
    np.testing.assert_array_equal(whole.readings[..., 30:40], parts[3].readings)
    np.testing.assert_array_equal(whole.faulty[:, 30:40], parts[3].faulty)


def test_relative_error_is_that_of_sound_fibers() -> None:
    truth = np.ones((3, 4, 5))
    faulty = np.zeros((3, 5), dtype=bool)
    faulty[1, 2] = True
    assert relative_error(np.where(faulty[:, None], 99.0, 1.1), truth, faulty) == pytest.approx(0.1)


def test_targets_stand_beside_their_metrics() -> None:
    scores = dict.fromkeys(("f1", "precision", "recall", "missing", "repaired", "trusted", "re", "seconds"), 0.5)
    scores |= {"false_alarms": 0.7, "coverage_missing": 0.9, "coverage_repaired": 0.99}
    rows = frame(*(row(setting="mix-90", method=name, kind=kind, **scores)
                   for name, kind in (("NetworkModel", "ours"), ("RTR", "batch"))))  # fmt: skip
    table, more = EXPERIMENTS["faults"].tables(rows, RunPlan())
    assert more.aside
    assert "RE (code)" in more.wide().columns
    assert table.cells.loc[
        (table.cells["method"] == "NetworkModel") & (table.cells["column"] == "F1"), "bar"
    ].tolist() == [Bar(low=0.94)]
    assert met(table) == {
        "F1": False, "missing": True, "repaired": True, "trusted": False, "false alarms, %": False,
        "coverage, missing": True, "coverage, repaired": False,
    }  # fmt: skip
    assert table.cells.loc[table.cells["method"] == "RTR", "bar"].isna().all()
    fewer = EXPERIMENTS["faults"].tables(rows, RunPlan(options=(("unscored", (27,)),)))[0]
    assert fewer.cells["bar"].isna().all(), "the bars are for all sensors"
    assert "27" in fewer.note
    (swept, *_) = EXPERIMENTS["observation"].tables(frame(row(x=0.9, re=0.02, f1=1.0)), RunPlan())
    assert swept.cells["bar"].tolist() == [Bar(high=0.01)]
    assert "misses" in swept.markdown()


def test_faults_of_hours_and_latency_have_tables_of_their_own(tmp_path: Path) -> None:
    options = (("cases", "hours-90,latency,mix-90"), ("data", "city"), ("days", 33), ("sensors", 8))
    plan = RunPlan(methods="NetworkModel,buddy check", trials=1, options=options)
    (done,) = run([(EXPERIMENTS["faults"], plan)], tmp_path, processes=0)
    by_day, by_reading, latency, aside = done.tables
    assert [line[1:] for line in lines(latency)] == [("NetworkModel", "latency")], (
        "nobody else can be asked within a day"
    )
    assert [line[1:] for line in lines(by_reading)] == [("NetworkModel", "hours-90"), ("buddy check", "hours-90")]
    assert {line[2] for line in (*lines(by_day), *lines(aside))} == {"mix-90"}
    mean_of = means(by_reading, "NetworkModel", "hours-90")
    assert 0 < mean_of["F1"] <= 1
    assert 0 <= mean_of["sound flagged, %"] < 10
    assert mean_of["faulty"] > mean_of["trusted"]
    assert 0 <= means(latency, "NetworkModel", "latency")["false alarms, %"] < 10
    assert all(table.cells["bar"].isna().all() for table in done.tables), "bars are for noaa"
    assert (tmp_path / "faults_city.png").is_file()


def test_the_bars_of_hours_and_latency() -> None:
    rows = frame(row(setting="hours-90", f1=0.9, sound_flagged=0.5, detected_short=0.7),
                 row(setting="latency", within_3=0.5, within_6=0.5, within_24=0.9, never=0.1,
                     false_alarms=0.2))  # fmt: skip
    assert [met(table) for table in EXPERIMENTS["faults"].tables(rows, RunPlan())] == [
        {"F1": True, "sound flagged, %": False, "found, < 12 h": True},
        {"within 3 h": True, "within 6 h": False, "within 24 h": True, "never": True, "false alarms, %": True},
    ]


def test_lasting_faults_and_small_networks_have_tables_of_their_own(tmp_path: Path) -> None:
    cases = "lasting-offset-6,small-1,small-3"
    options = (("cases", cases), ("data", "city"), ("days", 175), ("sensors", 8), ("slots", 8), ("unscored", (0,)))
    plan = RunPlan(methods="NetworkModel,buddy check", trials=1, options=options)
    (done,) = run([(EXPERIMENTS["faults"], plan)], tmp_path, processes=0)
    lasting, small = done.tables
    assert [line[1:] for line in lines(lasting)] == [
        ("NetworkModel", "lasting-offset-6"),
        ("buddy check", "lasting-offset-6"),
    ]
    assert {line[2] for line in lines(small)} == {"small-1", "small-3"}
    mean_of = means(lasting, "NetworkModel", "lasting-offset-6")
    truth = load_network("city", seed=0, sensors=8, days=175, slots=8)
    assert mean_of["raw"] == pytest.approx(6 * truth.std() / 11.5, rel=1e-6), "six units, whatever is made of them"
    assert 0 <= mean_of["sound flagged, %"] < 10
    assert mean_of["sound judged wrong, %"] <= mean_of["sound flagged, %"]
    assert mean_of["false lasting"] >= 0
    plain = means(lasting, "buddy check", "lasting-offset-6")
    assert np.isnan(plain["false lasting"]), "it reports no faults from when to when"
    for line in lines(small):
        assert 0 <= means(small, *line[1:])["F1"] <= 1
        assert means(small, *line[1:])["missing"] > 0


def test_the_bars_of_lasting_faults_and_small_networks() -> None:
    rows = frame(
        row(setting="lasting-drift-05", recall=0.3, faulty=2.2, trusted=0.4, sound_flagged=0.5, false_lasting=0.9),
        row(setting="small-2", f1=0.44, sound_flagged=1.1, missing=0.9),
    )
    assert [met(table) for table in EXPERIMENTS["faults"].tables(rows, RunPlan())] == [
        {"recall": True, "faulty": False, "trusted": True, "sound flagged, %": False, "false lasting": True},
        {"F1": False, "sound flagged, %": True, "missing": True},
    ]
    assert {case for case in (*LASTING, *SMALL) if case not in BARS} == set()


def test_too_little_data_for_lasting_faults_and_too_few_sensors_are_refused() -> None:
    faults = EXPERIMENTS["faults"]
    with pytest.raises(ConfigError, match="--days 170 or more, not 100"):
        faults.jobs(RunPlan(options=(("cases", "lasting"), ("data", "city"), ("days", 100))))
    few = (("cases", "small"), ("data", "city"), ("sensors", 8), ("unscored", (3,)))
    with pytest.raises(ConfigError, match="small-8 draws 8 sensors, and city has 7"):
        faults.prepare(RunPlan(options=few))


def test_the_papers_figure_stands_beside_ours_with_the_difference(tmp_path: Path) -> None:
    rows = frame(row(method="RTR", kind="batch", re=0.04, f1=0.9), row(method="OLRTR", kind="online", re=0.2, f1=0.9))
    table = summarize(rows, ("re", "f1"), paper={("RTR", "re"): 0.03}, title="A table", note="Of RE.")
    wide = table.wide()
    assert list(wide.columns) == ["kind", "method", "RE", "RE, paper", "RE, difference", "F1"]
    assert wide.to_numpy().tolist() == [
        ["online", "OLRTR", "0.200", "-", "-", "0.900"],
        ["batch", "RTR", "0.040", "0.030", "0.010", "0.900"],
    ]
    _, comma = write_tables([table], tmp_path, "a")
    with comma.open(encoding="utf-8") as file:
        records = {(row["method"], row["figure"]): row for row in csv.DictReader(file)}
    assert records["RTR", "RE"]["paper"] == "0.03"
    assert float(records["RTR", "RE"]["difference"]) == pytest.approx(0.01)
    assert records["OLRTR", "RE"]["paper"] == ""


def test_the_table_of_noaa_says_which_re_and_which_rule() -> None:
    scores = {"re": 0.04, "re_text": 0.05, "re_code": 0.03, "f1": 0.9, "f1_best": 0.95}
    rows = frame(*(row(setting=at, method="RTR", kind="batch", **scores) for at in ("100 %", "90 %")))
    full, part = EXPERIMENTS["noaa"].tables(rows, RunPlan())
    for table in (full, part):
        for word in ("RE:", "RE (text):", "RE (code):", "exceeds 0.01", "oracle", "first 10 days"):
            assert word in table.note
        assert list(table.wide().columns)[2:9] == [
            "observed", "RE", "RE, paper", "RE, difference", "F1", "F1, paper", "F1, difference"
        ]  # fmt: skip
    assert full.wide()["RE, paper"].tolist() == ["0.029"]
    assert part.wide()["F1, paper"].tolist() == ["0.984"]


def test_diverged_runs_are_shown_once_in_a_line_and_in_every_cell_of_a_sweep() -> None:
    lost = {"status": "diverged", "method": "OLRTR", "kind": "online"}
    rows = [row(**lost, trial=trial) for trial in range(4)] + [
        row(method="OLRTR", kind="online", trial=4, re=0.5, f1=1)
    ]
    table = summarize(frame(*rows), ("re", "f1"), title="", note="")
    assert table.wide()[["RE", "F1"]].to_numpy().tolist() == [["0.500 (diverged in 4 of 5)", "1.000"]]
    swept = frame(*(row(**lost, x=x) for x in (1.0, 2.0)))
    sweep = summarize(swept, ["re"], at="x", axis="x", title="", note="")
    assert sweep.wide()[["1", "2"]].to_numpy().tolist() == [["diverged in 1 of 1"] * 2]
    # A run that diverged has no minibatches; it is counted in all of them.
    parts = frame(row(**lost), *(row(method="OLRTR", kind="online", minibatch=n, re=0.5) for n in (1, 2)))
    sweep = summarize(parts, ["re"], at="minibatch", axis="minibatch", title="", note="")
    assert sweep.wide()[["1", "2"]].to_numpy().tolist() == [["0.500 (diverged in 1 of 2)"] * 2]


def test_means_and_spreads_leave_out_what_does_not_exist() -> None:
    rows = frame(*(row(re=value, trial=trial) for trial, value in enumerate((1.0, 3.0, NAN, np.inf))), row(f1=2.0))
    (re, f1) = summarize(rows, ("re", "f1"), title="", note="").cells.itertuples()
    assert (re.mean, re.spread, re.runs) == pytest.approx((2.0, 2**0.5, 5))
    assert f1.mean == 2.0
    assert np.isnan(f1.spread), "one run has no spread"


def test_numbers_keep_the_digits_that_mean_something() -> None:
    numbers = [0.12345, 123.456, 1.5e-7, 3.2e9, 0.0, NAN, -0.02]
    assert [number(value) for value in numbers] == ["0.123", "123.5", "1.5e-07", "3.2e+09", "0.000", "-", "-0.020"]


def test_odd_names_do_not_break_a_table() -> None:
    table = summarize(frame(row(method="x | [red]y", f1=0.5)), ["f1"], title="a", note="b")
    assert "x \\| [red]y" in table.markdown()
    shown = Console(width=60, record=True, file=io.StringIO())
    shown.print(table.screen())
    assert "x | [red]y" in shown.export_text()


def test_a_table_too_wide_for_the_screen_is_folded() -> None:
    metrics = list(METRICS)[:9]
    values = {name: 0.1 * number for number, name in enumerate(metrics)}
    rows = frame(row(**values), row(trial=1, **{name: value + 0.1 for name, value in values.items()}))
    bars = {("NetworkModel", name): Bar(high=0.5) for name in metrics}
    table = summarize(rows, metrics, bars=bars, title="Wide", note="Note.")
    for width in (100, 200):
        shown = Console(width=width, record=True, file=io.StringIO())
        shown.print(table.screen())
        text = shown.export_text()
        assert all(f"{0.1 * number + 0.05:.3f}" in text for number in range(9))
        assert "…" not in text
        assert text.count("Note.") == 1
    assert "0.850 ± 0.071 (**misses <= 0.5**)" in table.markdown()
    assert "0.450 ± 0.071 (<= 0.5)" in table.markdown()


def test_names_stand_for_groups_and_wrong_ones_are_refused() -> None:
    assert chosen_cases("all") == list(CASES)
    assert chosen_cases("kinds,mix-90") == [
        "stuck-90",
        "offset-90",
        "drift-90",
        "noise-90",
        "gain-90",
        "mix-90",
    ]
    assert chosen_cases("outages")[0] == "stuck-outages"
    assert chosen_cases("everything") == list(EVERY_CASE)
    assert chosen_cases("lasting") == ["lasting-offset-3", "lasting-offset-6", "lasting-drift-15", "lasting-drift-05"]
    assert chosen_cases("small") == ["small-1", "small-2", "small-3", "small-5", "small-8"]
    assert len(EVERY_CASE) == 26
    with pytest.raises(ConfigError, match="nothing"):
        chosen_cases("nothing")


def test_seconds_and_peak_memory_are_those_of_the_block() -> None:
    with measured() as first:
        block = np.ones(20_000_000)
    del block
    with measured() as second:
        pass
    assert first.seconds > second.seconds >= 0
    if sys.platform == "linux":
        assert 140 < first.peak_mb < 200
        assert second.peak_mb < 10


def test_where_memory_cannot_be_measured_it_is_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CLEAR", tmp_path / "absent" / "clear_refs")
    with measured() as cost:
        pass
    assert cost.seconds >= 0
    assert np.isnan(cost.peak_mb)


def test_the_reference_station_judges_what_it_can_see() -> None:
    reference = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    estimate = np.stack([2 * reference + 1, -reference, np.full((3, 2), np.nan)])
    estimate[0, 1, 1] = -500.0
    assert correlation(estimate, reference) == pytest.approx(0.0)


def test_raw_readings_of_the_array_of_things_match_the_paper(
    aot_and_reference: tuple[FloatArray, FloatArray],
) -> None:
    readings, reference = aot_and_reference
    assert correlation(np.nan_to_num(readings), reference) == pytest.approx(0.836, abs=5e-4)


def test_the_array_of_things_has_raw_rows_and_ours_with_one_pass_and_three(
    aot_and_reference: tuple[FloatArray, FloatArray],
) -> None:
    experiment = EXPERIMENTS["aot"]
    jobs = experiment.jobs(RunPlan(quick=True))
    ours = [job.setting for job in jobs if job.option("kind") == "ours"]
    assert ours == ["1 pass", "3 passes"]
    assert {job.setting for job in jobs if job.option("kind") == "online"} == {"3 passes"}
    columns = {"kind": "raw", "status": "done"}
    rows = [job.row() | columns | result for job in jobs[:2] for result in experiment.run(job)]
    (table,) = experiment.tables(frame(*rows), RunPlan(quick=True))
    assert [labels[:3] for labels in lines(table)] == [("raw", "raw", "readings"), ("raw", "raw", "missing as 0")]
    assert np.isfinite(means(table, "raw", "missing as 0", "raw")["correlation"])


@pytest.fixture
def aot_and_reference(data: Path) -> tuple[FloatArray, FloatArray]:
    assert (data / "aot_12M.mat").is_file()
    return load_network("aot"), load_reference()


@pytest.mark.processes
def test_the_engine_is_measured_beside_another_checkout(tmp_path: Path) -> None:
    out, script = tmp_path / "engine.json", str(ROOT / "benchmarks" / "engine_speed.py")
    call = ["--only", "medium,threads", "--medium", "90", "--periods", "5", "--against", str(ROOT / "src")]
    ended = subprocess.run([sys.executable, script, *call, "--out", str(out)], capture_output=True, text=True,
                           check=True)  # fmt: skip
    assert "other / this" in ended.stdout
    (record,) = json.loads(out.read_text(encoding="utf-8")).values()
    assert [figure["part"] for figure in record] == ["medium"] * 3 + ["threads"]
    assert all(figure["value"] > 0 for figure in record)
    refused = subprocess.run([sys.executable, script, "--only", "nothing"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2


@pytest.mark.processes
def test_the_speed_bench_measures_and_writes_its_results(tmp_path: Path) -> None:
    parts = ["--only", "large,size,days", "--large", "2000", "--sizes", "1000", "--days", "20"]
    ended = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "speed.py"), *parts, "--out", str(tmp_path)],
                           capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    record = json.loads((tmp_path / "speed.json").read_text())
    assert record["blas_threads"] == 1
    assert record["machine"]["copy"] > 1e8
    large = {row["method"]: row for row in record["large"]}
    assert {"NetworkModel", "OLRTR rank 10"} <= set(large)
    for row in large.values():
        assert row["sensors"] == 2000
        assert row["readings_per_second"] == pytest.approx(2000 * 24 / row["seconds"])
        assert 0 < row["bandwidth"] < 1
        assert 0 < row["products"] < 1.5
        assert row["minibatches"] > row["outputs"] > 1, "what is returned is part of the peak"
    assert large["OLRTR rank 10"]["bandwidth_iterations"] > large["OLRTR rank 10"]["bandwidth"]
    assert large["NetworkModel"]["timed"] == [9, 12]
    assert large["NetworkModel"]["cut_seconds"] > 0
    auto = [row for row in record["size"] if row["method"] == "NetworkModel"]
    assert [row["sensors"] for row in auto] == [1000, 2000]
    assert auto[0]["ratio"] == 1.0
    assert record["days"]["ratio"] > 0
    assert (tmp_path / "sensors.png").stat().st_size > 10_000
    assert "One BLAS thread" in ended.stdout
