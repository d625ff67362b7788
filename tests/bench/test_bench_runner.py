import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ctrl_c import with_ctrl_c
from sensormend.bench.experiment import Job, RunPlan
from sensormend.bench.runner import EXPERIMENTS, RunProgress, run
from sensormend.cli import main
from sensormend.errors import ConfigError, SensormendError
from toy_experiment import ToyExperiment

TOY = ToyExperiment()


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", TOY)
    ToyExperiment.done.clear()


def results(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    ticks: list[RunProgress] = []
    run([(TOY, RunPlan(trials=1))], tmp_path, processes=0, progress=ticks.append)
    assert len(ToyExperiment.done) == 6
    assert [tick.done for tick in ticks] == [0, 1, 2, 3, 4, 5, 6]
    assert ticks[0].runs == 6
    assert ticks[-1].share == pytest.approx(1.0)
    run([(TOY, RunPlan(trials=2))], tmp_path, processes=0)
    assert len(ToyExperiment.done) == 12, "one more trial is six more runs"
    assert len(set(ToyExperiment.done)) == 12
    run([(TOY, RunPlan(trials=2))], tmp_path, processes=0, fresh=True)
    assert len(ToyExperiment.done) == 24
    assert len(results(tmp_path)) == 12


def test_when_it_was_made_is_not_when_it_was_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(f"2026-01-01T00:00:{second:02d}Z" for second in range(60))
    monkeypatch.setattr("sensormend.bench.runner.now", lambda: next(times))
    seen = []
    for trials in (1, 1, 2):
        run([(TOY, RunPlan(trials=trials))], tmp_path, processes=0)
        record = json.loads((tmp_path / "run.json").read_text())["experiments"]["toy"]
        seen.append((record["started"][-3:-1], record["ended"][-3:-1]))
    assert seen == [("00", "01"), ("00", "01"), ("03", "04")]
    with pytest.raises(SensormendError, match="cannot"):
        run([(TOY, RunPlan(trials=1, methods="NetworkModel,broken"))], tmp_path / "b", processes=0)
    with pytest.raises(SensormendError, match="cannot"):
        run([(TOY, RunPlan(trials=1, methods="NetworkModel,broken"))], tmp_path / "b", processes=0)
    record = json.loads((tmp_path / "b" / "run.json").read_text())["experiments"]["toy"]
    assert (record["started"][-3:-1], record["ended"][-3:-1]) == ("05", "08")


def test_a_run_that_fails_keeps_what_was_done_and_can_go_on(tmp_path: Path) -> None:
    with pytest.raises(SensormendError, match="broken cannot"):
        run([(TOY, RunPlan(trials=2, methods="NetworkModel,broken"))], tmp_path, processes=0)
    assert duckdb.read_parquet(str(tmp_path / "results.parquet")).count("*").fetchall() == [(6,)]
    record = json.loads((tmp_path / "run.json").read_text())["experiments"]["toy"]
    assert (record["done"], record["runs"]) == (6, 12)
    assert record["ended"] >= record["started"]
    run([(TOY, RunPlan(trials=2, methods="NetworkModel"))], tmp_path, processes=0)
    assert len(ToyExperiment.done) == 7, "nothing but the one that failed was tried after it"


def test_divergence_is_a_result_and_is_shown(tmp_path: Path) -> None:
    (done,) = run([(TOY, RunPlan(trials=5))], tmp_path, processes=0)
    cells = done.tables[0].cells
    assert cells.loc[cells["method"] == "wild", "diverged"].tolist() == [0, 5, 0]
    for page in ("toy.md", "index.md"):
        assert "diverged in 5 of 5" in (tmp_path / page).read_text(encoding="utf-8")
    assert "wild,2,RE,nan,nan,5,5" in (tmp_path / "toy.csv").read_text()
    table = duckdb.read_parquet(str(tmp_path / "results.parquet"))
    diverged = table.filter("status = 'diverged'").count("*").fetchall()
    assert diverged == [(5,)]


def test_missing_data_ends_one_experiment_or_leaves_it_out_of_several(tmp_path: Path) -> None:
    absent = RunPlan(trials=1, options=(("data", "absent"),))
    with pytest.raises(SensormendError, match="absent is not here"):
        run([(TOY, absent)], tmp_path, processes=0)
    errors: dict[str, SensormendError] = {}
    ran = run([(TOY, absent), (TOY, RunPlan(trials=1))], tmp_path, processes=0, complain=errors.__setitem__)
    assert list(errors) == ["toy"]
    assert len(ran) == 1


def test_two_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.bench.simulations.line_charts", lambda *_, **__: [])
    plan = RunPlan(trials=2, methods="OLRTR", minibatches=11, quick=True)
    for processes in (0, 2):
        run([(EXPERIMENTS["size"], plan)], tmp_path / str(processes), processes=processes)
    alone, together = (_metrics(tmp_path / name) for name in ("0", "2"))
    assert alone == together
    assert len(alone) >= 4


def _metrics(out: Path) -> dict[str, object]:
    """Return all rows by key, without what depends on the machine."""
    rows: dict[str, object] = {}
    for line in results(out):
        parts = line["rows"]
        assert isinstance(parts, list)
        rows[str(line["key"])] = [
            {name: value for name, value in part.items() if name not in ("seconds", "peak_mb")} for part in parts
        ]
    return rows


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.bench.simulations.line_charts", lambda *_, **__: [])
    call = ["bench", "size", "--quick", "--methods", "OLRTR", "--trials", "8", "--minibatches", "11", "--out"]
    command = [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())", *call]
    killed, lines = tmp_path / "killed", tmp_path / "killed" / "results.jsonl"
    with subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (lines.is_file() and lines.read_bytes().count(b"\n") >= 3):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    before = {line["key"]: line for line in results(killed)}
    with lines.open("a") as file:
        file.write('{"key": "cut sho')
    assert main([*call, str(killed)]) == 0
    after = {line["key"]: line for line in results(killed)}
    assert 3 <= len(before) < len(after)
    assert all(after[key] == line for key, line in before.items()), "the same seconds: no run was done twice"
    assert main([*call, str(tmp_path / "whole")]) == 0
    assert _metrics(killed) == _metrics(tmp_path / "whole")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_results_that_can_be_read(tmp_path: Path) -> None:
    call = ["bench", "size", "--methods", "OLRTR", "--trials", "50", "--out", str(tmp_path)]
    command = [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())", *call]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=with_ctrl_c
    ) as process:
        end = time.monotonic() + 60
        lines = tmp_path / "results.jsonl"
        while time.monotonic() < end and not (lines.is_file() and lines.read_bytes().count(b"\n") >= 2):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.splitlines()[-1].startswith("sensormend: stopped")
    assert "Traceback" not in error
    record = json.loads((tmp_path / "run.json").read_text())["experiments"]["size"]
    assert 0 < record["done"] < record["runs"]
    assert duckdb.read_parquet(str(tmp_path / "results.parquet")).count("*").fetchall()[0][0] >= record["done"]


def test_the_progress_is_weighed_by_what_runs_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = TOY.jobs(RunPlan(trials=1))
    weights = [100.0, *[1.0] * (len(jobs) - 1)]
    monkeypatch.setattr(
        TOY, "jobs", lambda plan: [replace(job, weight=w) for job, w in zip(jobs, weights, strict=True)]
    )
    ticks: list[RunProgress] = []
    run([(TOY, RunPlan(trials=1))], tmp_path, processes=0, progress=ticks.append)
    assert [tick.share for tick in ticks] == pytest.approx([0, *(np.cumsum(weights) / sum(weights))])


def test_the_index_has_every_table_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.bench.growth.QUICK_LENGTHS", (2, 4))
    run([(TOY, RunPlan(trials=1))], tmp_path, processes=0)
    (done,) = run([(EXPERIMENTS["growth"], RunPlan(quick=True, methods="OLRTR"))], tmp_path, processes=0)
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert tmp_path / "index.md" in done.written
    assert set(re.findall(r"!\[.{10,}\]\((.*)\)", text)) == {path.name for path in tmp_path.glob("*.png")}
    for name in ("toy", "growth"):
        assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") in text
    assert "`sensormend bench growth --methods OLRTR --quick`" in text
    assert "Unfinished" not in text
    with pytest.raises(SensormendError):
        run([(TOY, RunPlan(trials=1, methods="broken"))], tmp_path, processes=0)
    run([(EXPERIMENTS["growth"], RunPlan(quick=True, methods="OLRTR"))], tmp_path, processes=0)
    assert "**Unfinished: 0 of 3 runs.**" in (tmp_path / "index.md").read_text(encoding="utf-8")


def test_the_index_says_which_versions_made_the_runs(tmp_path: Path) -> None:
    run([(TOY, RunPlan(trials=1))], tmp_path, processes=0)
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    record = json.loads((tmp_path / "run.json").read_text())["experiments"]["toy"]
    assert record["versions"] == [json.loads(lines[0])["version"]]
    assert record["versions"][0] in (tmp_path / "index.md").read_text()


def test_a_plan_says_what_was_asked() -> None:
    plan = RunPlan(
        trials=3, seed=2, methods="OLRTR", quick=True, options=(("data", "/home/me/x.npy"), ("unscored", (3, 27)))
    )
    assert " ".join(plan.words()) == "--trials 3 --seed 2 --methods OLRTR --quick --data x.npy --unscored 3,27"
    assert RunPlan().words() == []
    assert RunPlan(quick=True).repeats == 1
    assert RunPlan().repeats == 5
    for name, wrong in (("trials", 0), ("seed", -1), ("minibatches", 10)):
        with pytest.raises(ConfigError, match=f"--{name}"):
            RunPlan(**{name: wrong})  # type: ignore[arg-type]


def test_of_a_file_only_its_name_and_its_digest_are_stored(tmp_path: Path) -> None:
    np.save(tmp_path / "net.npy", np.random.default_rng(0).normal(size=(4, 24, 12)))
    call = ["bench", "faults", "--data", str(tmp_path / "net.npy"), "--cases", "mix-90", "--methods", "buddy check"]
    out = tmp_path / "out"
    for days in (12, 13):
        np.save(tmp_path / "net.npy", np.random.default_rng(days).normal(size=(4, 24, 12)))
        assert main([*call, "--trials", "1", "--days", "12", "--out", str(out)]) == 0
    assert len(results(out)) == 2, "another file of the same name is another run"
    for file in ("results.jsonl", "run.json", "index.md", "faults_net.md"):
        assert str(tmp_path) not in (out / file).read_text(encoding="utf-8")
    assert "--methods 'buddy check'" in (out / "run.json").read_text()


def test_a_key_is_the_same_whenever_it_is_made() -> None:
    job = Job("size", "OLRTR", "I 10", 10, 0, 3, (("rank", 1),), weight=5.0)
    assert job.key == Job("size", "OLRTR", "I 10", 10, 0, 3, (("rank", 1),), weight=9.0).key
    assert job.key != Job("size", "OLRTR", "I 10", 10, 0, 3, (("rank", 2),)).key
    assert json.loads(job.key)["options"] == {"rank": 1}
