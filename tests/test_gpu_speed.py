"""The bench for a CUDA card, tried out on the CPU: what it measures and what it says of a thing that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "gpu_speed.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(SCRIPT), "--device", "cpu", "--methods", "OLRTR", "--periods", "3", *words]
    return subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)


def test_it_times_a_network_and_compares_a_smaller_one_with_numpy(tmp_path: Path) -> None:
    ended = run("--sensors", "3000", "--compare", "500", "--out", str(tmp_path / "gpu.json"))
    assert ended.returncode == 0, ended.stderr
    told = json.loads((tmp_path / "gpu.json").read_text())
    for row in told["runs"]:
        assert row["sensors"] == 3000
        assert row["readings_per_second"] == pytest.approx(3000 * 24 / row["seconds"])
        assert 0 < row["bandwidth"] < row["bandwidth_iterations"]
        assert row["stays"] == "cpu", "a tensor in, a tensor out"
    for row in told["compared"]:
        before = row["before_the_cut"]
        assert before["periods"] == 3
        assert "after_the_cut" not in row
        assert before["relative"] < 1e-3
        assert before["near"] > 0.99
        assert before["verdicts_differ"] < 0.01
        assert before["faulty"] > 0.01, "there was something to find"
    assert {row["method"] for row in told["runs"]} == {row["method"] for row in told["compared"]}
    assert "million readings/s" in ended.stdout


def test_one_measurement_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    ended = run("--sensors", "0,2000", "--compare", "", "--out", str(tmp_path / "gpu.json"))
    assert ended.returncode == 1
    failed, done = json.loads((tmp_path / "gpu.json").read_text())["runs"][:2]
    assert "ShapeError" in failed["failed"]
    assert done["seconds"] > 0
