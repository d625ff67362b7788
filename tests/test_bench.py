import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sensormend.bench import aot, simulated
from sensormend.bench.contestants import chosen
from sensormend.bench.data import load_network, real_data
from sensormend.bench.faults import CASES, Job, chosen_cases, figures, run_jobs
from sensormend.bench.tables import Bar, mean_and_spread
from sensormend.cli import main
from sensormend.errors import ConfigError, SensormendError
from sensormend.faults import Degraded
from sensormend.methods.olrtr import OLRTR
from sensormend.recovery import FloatArray

ROOT = Path(__file__).resolve().parents[1]


def test_the_fault_bench_prints_and_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["bench", "faults", "--data", "city", "--sensors", "12", "--days", "30", "--seeds", "2"]
    assert main([*call, "--cases", "mix-90,none-90", "--methods", "AutoOLRTR,OLRTR", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for word in ("F1", "repaired", "false", "mix-90", "none-90", "OLRTR r20"):
        assert word in shown
    with (tmp_path / "faults_city.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = {(row["method"], row["case"], row["figure"]): float(row["mean"]) for row in rows}
    assert 0 <= told["AutoOLRTR", "mix-90", "F1"] <= 1
    assert ("AutoOLRTR", "none-90", "F1") not in told, "there is nothing to find"
    assert told["AutoOLRTR", "none-90", "missing"] > 0
    markdown = (tmp_path / "faults_city.md").read_text(encoding="utf-8")
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + 3 * 2


def test_two_processes_give_what_one_gives() -> None:
    jobs = [Job("city", case, "OLRTR r3", 0, 8, 20) for case in ("uniform-90", "mix-90")]
    alone = dict(run_jobs(jobs))
    together = dict(run_jobs(jobs, processes=2))
    for job in jobs:
        first, second = ({**scores, "seconds": 0.0} for scores in (alone[job], together[job]))
        np.testing.assert_equal(first, second)


def test_bars_stand_beside_the_figures_they_are_for() -> None:
    scores = dict.fromkeys(("f1", "precision", "recall", "missing", "repaired", "trusted", "re", "seconds"), 0.5)
    scores |= {"false_alarms": 0.7, "coverage_missing": 0.9, "coverage_repaired": 0.99}
    jobs = [Job("noaa", "mix-90", name, 0) for name in ("AutoOLRTR", "RTR")]
    table = figures([(job, scores) for job in jobs])
    by_name = dict(zip(table.columns, table.cells[0], strict=True))
    assert by_name["F1"][2] == Bar(low=0.9)
    met = {name: bar.met(mean) for name, (mean, _, bar) in by_name.items() if bar is not None}
    assert met == {
        "F1": False, "missing": True, "repaired": True, "trusted": False, "false alarms, %": False,
        "coverage, missing": True, "coverage, repaired": False,
    }  # fmt: skip
    assert all(bar is None for _, _, bar in table.cells[1])
    fewer = figures([(Job("noaa", "mix-90", "AutoOLRTR", 0, unscored=(27,)), scores)])
    assert all(bar is None for _, _, bar in fewer.cells[0]), "the bars are for all sensors"
    assert "27" in fewer.note


def test_a_mean_leaves_out_what_does_not_exist() -> None:
    assert mean_and_spread([1.0, 3.0, float("nan")]) == pytest.approx((2.0, 2**0.5))
    assert np.isnan(mean_and_spread([1.0])[1]), "one run has no spread"
    assert all(np.isnan(mean_and_spread([float("nan")])))


def test_names_stand_for_groups_and_wrong_ones_are_refused() -> None:
    assert chosen_cases("all") == list(CASES)
    assert chosen_cases("kinds,mix-90") == [
        "stuck-90",
        "bias-90",
        "drift-90",
        "noise-90",
        "scale-90",
        "mix-90",
    ]
    assert chosen("OLRTR,RTR") == ["OLRTR r3", "OLRTR r20", "RTR"]
    with pytest.raises(ConfigError, match="nobody"):
        chosen("nobody")


def test_files_of_readings_are_read_and_others_refused(tmp_path: Path) -> None:
    hourly = np.arange(2 * 48, dtype=float).reshape(2, 48)
    np.save(tmp_path / "hourly.npy", hourly)
    network = load_network(str(tmp_path / "hourly.npy"))
    assert network.shape == (2, 24, 2)
    assert network[1, 3, 1] == hourly[1, 24 + 3]
    np.savez(tmp_path / "days.npz", readings=network)
    np.testing.assert_array_equal(load_network(str(tmp_path / "days.npz")), network)
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "odd.npy", np.zeros((2, 25)))
    for name in ("text.npy", "odd.npy", "absent.npy"):
        with pytest.raises(SensormendError, match=r"array|whole days|no data") as caught:
            load_network(str(tmp_path / name))
        assert "\n" not in str(caught.value)


def test_real_data_is_looked_for_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENSORMEND_DATA", str(tmp_path))
    with pytest.raises(SensormendError, match="set SENSORMEND_DATA"):
        real_data("noaa_TEM.mat")
    (tmp_path / "noaa_TEM.mat").write_bytes(b"not really")
    assert real_data("noaa_TEM.mat") == tmp_path / "noaa_TEM.mat"
    with pytest.raises(SensormendError, match="MATLAB"):
        load_network("noaa")


def test_the_papers_simulation_is_judged_on_sound_fibers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", "simulated", "--methods", "OLRTR", "--size", "20", "--rank", "2", "--seeds", "1",
                 "--out", str(tmp_path)]) == 0  # fmt: skip
    assert "50 % observed" in capsys.readouterr().out
    truth = np.ones((3, 4, 5))
    faulty = np.zeros((3, 5), dtype=bool)
    faulty[1, 2] = True
    part = Degraded(truth, truth, faulty, np.where(faulty, "uniform", ""))
    found = OLRTR(1, 1000.0, seed=0).update(truth)
    guess = type(found)(**{**found.__dict__, "low_rank": np.where(faulty[:, None], 99.0, 1.1), "faulty": faulty})
    error, f1 = simulated.judge(guess, part)
    assert error == pytest.approx(0.1)
    assert f1 == 1.0


def test_the_reference_station_judges_what_it_can_see() -> None:
    reference = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    estimate = np.stack([2 * reference + 1, -reference, np.full((3, 2), np.nan)])
    estimate[0, 1, 1] = -500.0
    assert aot.correlation(estimate, reference) == pytest.approx(0.0)


def test_raw_readings_of_the_array_of_things_match_the_paper(
    aot_and_reference: tuple[FloatArray, FloatArray],
) -> None:
    readings, reference = aot_and_reference
    assert aot.correlation(np.nan_to_num(readings), reference) == pytest.approx(0.836, abs=5e-4)


@pytest.fixture
def aot_and_reference(data: Path) -> tuple[FloatArray, FloatArray]:
    from sensormend.bench.data import load_reference

    assert (data / "aot_12M.mat").is_file()
    return load_network("aot"), load_reference()


def test_the_speed_bench_measures_and_writes_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    call = ["--only", "size,growth", "--sizes", "100,1000", "--days", "40", "--out", str(out)]
    ended = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "speed.py"), *call],
                           capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told = json.loads(out.read_text())
    assert told["blas_threads"] == 1
    assert [row["sensors"] for row in told["size"]] == [100, 1000]
    assert told["size"][1]["ratio"] == 1.0
    assert told["size"][1]["minibatches"] > 0
    assert told["size"][1]["later_ns"] > 0
    assert told["growth"]["ratio"] > 0
    assert "One BLAS thread" in ended.stdout
