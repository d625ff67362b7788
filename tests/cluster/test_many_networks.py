"""Many networks at once give what each gives alone: here, on a cluster, and with whatever dies on the way."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from clusters import Cluster, running_cluster
from given import contents, same_rows
from key_tables import rows_of, some_networks, write_networks, write_one
from sensormend.archive import clean_archive
from sensormend.cli import main
from sensormend.cluster import clean_networks
from sensormend.errors import ConfigError, SensormendError
from sensormend.options import Options
from sensormend.readings import Readings

NAMES = ("north", "south", "east", "west")

SLOW = """
import os
from sensormend import archive
from sensormend.checkpoint import Checkpoint
from sensormend.mending import Mender
import time
archive.CHECKPOINT = 0.0
if Mender.push.__name__ != "slow":  # a preload may be run twice
    push, restore = Mender.push, Checkpoint.restore
def slow(self, readings):
    time.sleep(0.02)
    while os.path.exists(os.environ["SENSORMEND_RESTORED"] + ".hold"):
        time.sleep(0.02)
    return push(self, readings)
def told(self, mender, tally):
    found = restore(self, mender, tally)
    if found:
        with open(os.environ["SENSORMEND_RESTORED"], "a") as file:
            file.write(f"{mender.period}\\n")
    return found
Mender.push, Checkpoint.restore = slow, told
"""
"""What makes a worker slow, keep every period, and hold on where the test says so, to be killed in the middle."""


@pytest.fixture(scope="module")
def networks() -> dict[str, Readings]:
    return some_networks(NAMES)


@pytest.fixture(scope="module")
def table(networks: dict[str, Readings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("table") / "readings.csv", networks)


@pytest.fixture(scope="module")
def alone(networks: dict[str, Readings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the OUT of each network, cleaned on its own."""
    folder = tmp_path_factory.mktemp("alone")
    for name, readings in networks.items():
        clean_archive(write_one(folder / f"{name}.csv", readings), folder / name)
    return folder


def listed(out: Path) -> dict[str, dict[str, str]]:
    with (out / "networks.csv").open(newline="", encoding="utf-8") as file:
        return {row["network"]: row for row in csv.DictReader(file)}


def same_as_alone(out: Path, alone: Path, names: tuple[str, ...] = NAMES) -> None:
    lines = listed(out)
    for name in names:
        assert lines[name]["outcome"] == "done"
        folder = out / lines[name]["folder"]
        same_rows(contents(folder), contents(alone / name))
        assert {path.name for path in folder.iterdir()} == {path.name for path in (alone / name).iterdir()}
        for file in ("faults.csv", "sensors.csv"):
            assert (folder / file).read_text() == (alone / name / file).read_text()
        parquet = [path.relative_to(folder).parts[0] for path in folder.rglob("*.parquet")]
        assert set(parquet) == {"data"}


def test_on_this_machine_each_network_is_as_if_it_were_alone(table: Path, alone: Path, tmp_path: Path) -> None:
    told: dict[str, list[Any]] = {}

    def stages(name: str, readings: int) -> Any:
        told[name] = []
        return lambda done, beside="": told[name].append((done, beside))

    report = clean_networks(table, tmp_path / "out", "network", stages=stages)
    assert not report.failed
    same_as_alone(tmp_path / "out", alone)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*NAMES, "networks.csv", "run.json"}
    assert list(told) == ["reading", "sorting", "mending"]
    assert told["mending"][-1] == (1.0, "4 of 4 networks")
    assert [done for done, _ in told["mending"]] == sorted(done for done, _ in told["mending"])
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["networks"], record["failed"], record["readings"]) == (4, 0, report.readings)
    one = json.loads((tmp_path / "out" / "east" / "run.json").read_text())
    assert (one["network"], one["options"], one["source"]) == ("east", {"networks": "network"}, record["source"])
    with pytest.raises(ConfigError, match="--overwrite replaces it"):
        clean_networks(table, tmp_path / "out", "network")


def test_a_cluster_gives_the_same(cluster: Cluster, table: Path, alone: Path, tmp_path: Path) -> None:
    beside = []

    def stages(name: str, readings: int) -> Any:
        return lambda done, said="": beside.append(said)

    clean_networks(table, tmp_path / "out", "network", cluster.address, stages=stages)
    same_as_alone(tmp_path / "out", alone)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert beside[-1] == "4 of 4 networks, 2 workers"
    assert {line["attempts"] for line in listed(tmp_path / "out").values()} == {"1"}


def test_options_reach_every_network(cluster: Cluster, networks: dict[str, Readings], tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("sensor,from,to,action\ns02,2020-01-20,2020-01-22,ignore\nx,,,ignore\n")
    options = Options.of(one_pass=True, maintenance=tmp_path / "notes.csv", valid=[-60, 60], per_reading=True)
    for name in NAMES[:2]:
        clean_archive(write_one(tmp_path / f"{name}.csv", networks[name]), tmp_path / "alone" / name, options)
    table = write_networks(tmp_path / "all.csv", {name: networks[name] for name in NAMES[:2]}, column="Node")
    clean_networks(table, tmp_path / "out", "node", cluster.address, options)
    for name in NAMES[:2]:
        same_rows(contents(tmp_path / "out" / name), contents(tmp_path / "alone" / name))


HOSTILE = {
    "../x": "up", "a/b": "slash", "A": "large", "a": "small", "con": "device", "staging": "ours", "x.csv": "a file",
    "x.partial": "half", "Köln": "letters", "Ko\u0308ln": "the same, otherwise", "long" * 60: "long",
    "\u202e*?": "signs", "'; DROP TABLE raw; --": "sql", "-": "hyphen", "a\nb": "two lines", "NA": "Namibia",
}  # fmt: skip


def test_no_name_of_a_network_is_too_strange(tmp_path: Path) -> None:
    networks = some_networks(list(HOSTILE), sensors=3, days=4)
    rows: list[list[str | None]] = [[name, *row] for name, readings in networks.items() for row in rows_of(readings)]
    rows += [[None, "s00", "2020-01-01T00:00:00", "1.0"], ["  ", "s00", "2020-01-01T00:00:00", "1.0"]]
    table = tmp_path / "readings.parquet"
    pl.DataFrame(rows, schema=["network", "sensor", "time", "value"], orient="row").write_parquet(table)
    report = clean_networks(
        table, tmp_path / "deep" / "out", "network", options=Options.of(step="1h", period="1d", one_pass=True)
    )
    out = tmp_path / "deep" / "out"
    assert not report.failed
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    lines = listed(out)
    assert set(lines) == set(HOSTILE)
    folders = [line["folder"] for line in lines.values()]
    assert len({folder.casefold() for folder in folders}) == len(HOSTILE)
    assert {path.name for path in out.iterdir() if path.is_dir()} == set(folders)
    for folder in folders:
        assert folder.isascii()
        assert folder.replace("-", "").replace("_", "").isalnum()
        assert len(folder) <= 80
    assert lines["NA"]["folder"] == "NA"
    one = json.loads((out / lines["a/b"]["folder"] / "run.json").read_text())
    assert (one["network"], one["readings"]) == ("a/b", len(networks["a/b"]))
    assert report.rejected == 2
    with (out / "rejected.csv").open() as file:
        rejected = list(csv.DictReader(file))
    assert [row["reason"] for row in rejected] == ["no network"] * 2
    assert [Path(row["file"]).name for row in rejected] == ["readings.parquet"] * 2


def test_a_network_that_cannot_be_mended_fails_alone(
    cluster: Cluster, networks: dict[str, Readings], alone: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [["bad", "s00", f"2020-01-{day:02d}T{hour:02d}:00:00", str(number)]
           for day in range(1, 20) for hour in range(24) for number in (1, 50)]  # fmt: skip
    table = write_networks(tmp_path / "readings.csv", {name: networks[name] for name in NAMES[:2]}, bad)
    words = ["clean", str(table), str(tmp_path / "out"), "--networks", "network"]
    for more in ([], ["--cluster", cluster.address, "--overwrite"]):
        assert main([*words, *more]) == 1
        told = capfd.readouterr()
        assert told.err.splitlines()[-1] == (
            f"sensormend: 1 of 3 networks were not cleaned: see {tmp_path / 'out'}/networks.csv"
        )
        assert "3, 2 of them cleaned" in told.out
        same_as_alone(tmp_path / "out", alone, NAMES[:2])
        line = listed(tmp_path / "out")["bad"]
        assert "differ from it" in line["outcome"]
        assert "\n" not in line["outcome"]
        assert line["attempts"] == "1"
        assert {path.name for path in (tmp_path / "out").iterdir()} == {*NAMES[:2], "networks.csv", "run.json"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which slow workers note what they restore, and look whether they are to hold on."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def slow_cluster(notes: Path) -> Iterator[Cluster]:
    with running_cluster(0, SENSORMEND_RESTORED=str(notes / "restored")) as made:
        yield made


@pytest.fixture
def slow(slow_cluster: Cluster, notes: Path) -> Cluster:
    """Have a cluster of two slow workers that keep every period, whatever the test before has killed."""
    (notes / "restored").unlink(missing_ok=True)
    slow_cluster.repair(2, SLOW)
    return slow_cluster


def wait_until(there: Callable[[], object], run: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)


def kept(work: Path) -> int:
    """Return how many networks are in the middle, with a state to go on from."""
    states = [path.read_text() for path in work.glob("*.partial/state/checkpoint.json")]
    return sum('"place"' in state for state in states)


@contextmanager
def held(folder: Path, there: Callable[[], object], run: subprocess.Popen[str]) -> Iterator[None]:
    """Have all workers hold on, at a moment of which something is true."""
    hold = folder / "restored.hold"
    while True:
        wait_until(there, run)
        hold.touch()
        time.sleep(0.3)  # who was beyond the point where it holds on has come to the next one
        if there():
            break
        hold.unlink()
    try:
        yield
    finally:
        hold.unlink()


def typed(*words: str, first: str = "") -> subprocess.Popen[str]:
    program = f"import sys\n{first}\nfrom sensormend.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, "clean", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_worker_killed_in_the_middle_changes_nothing(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = typed(str(table), str(out), "--networks", "network", "--cluster", slow.address)
    with held(notes, lambda: kept(tmp_path / "out.partial") == 2, run):
        slow.kill_worker(next(iter(slow.workers)))
    told, said = run.communicate(timeout=60)
    assert run.returncode == 0, said
    assert "Traceback" not in said
    assert "1 worker" in said
    assert "4, 4 of them cleaned" in told
    same_as_alone(out, alone)
    attempts = sorted(line["attempts"] for line in listed(out).values())
    assert attempts == ["1", "1", "1", "2"]
    assert (notes / "restored").read_text().count("\n") == 1, "it went on, and did not begin again"


def test_when_the_scheduler_is_lost_the_run_stops_and_goes_on_later(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out, work = tmp_path / "out", tmp_path / "out.partial"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    run = typed(*words)
    with held(notes, lambda: list(work.glob("*/run.json")) and kept(work), run):
        slow.kill_scheduler()
        told, said = run.communicate(timeout=30)
    assert run.returncode == 1
    assert said.splitlines()[-1] == (
        f"sensormend: the scheduler at {slow.address} is lost; what is done is kept, "
        "the same call with --resume goes on"
    )
    assert "Traceback" not in said
    assert told == ""
    assert not out.exists()
    finished = {path.parent: path.stat().st_mtime_ns for path in work.glob("*/run.json")}
    assert finished
    slow.repair(1, SLOW)
    with pytest.raises(ConfigError, match="--resume goes on with it"):
        clean_networks(table, out, "network", slow.address)
    with pytest.raises(ConfigError, match="other readings or options"):
        clean_networks(table, out, "sensor", slow.address, resume=True)
    clean_networks(table, out, "network", slow.address, resume=True)
    same_as_alone(out, alone)
    for folder, written in finished.items():
        assert (out / folder.name / "run.json").stat().st_mtime_ns == written, "what is done is not done again"
    assert (notes / "restored").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_after_ctrl_c_the_workers_stop_too_and_let_go(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    run = typed(*words)
    with held(notes, lambda: kept(tmp_path / "out.partial") == 2, run):
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=30)
        assert run.returncode == 1
        last = "sensormend: stopped; what is done is kept, the same call with --resume goes on"
        assert said.splitlines()[-1] == last
        assert "Traceback" not in said
        # The workers are still at it, and hold their locks, when the next run begins.
        again = typed(*words, "--resume")
        time.sleep(2)
    _, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    same_as_alone(out, alone)
    assert (notes / "restored").read_text().count("\n") == 2


def test_a_run_killed_here_goes_on_here_or_elsewhere(
    cluster: Cluster, table: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENSORMEND_RESTORED", str(tmp_path / "restored"))
    out, work = tmp_path / "out", tmp_path / "out.partial"
    run = typed(str(table), str(out), "--networks", "network", first=SLOW)
    with held(tmp_path, lambda: list(work.glob("*/run.json")) and kept(work), run):
        run.kill()
        run.communicate()
    clean_networks(table, out, "network", cluster.address, resume=True)
    same_as_alone(out, alone)
    assert "2" in {line["attempts"] for line in listed(out).values()}


DEADLY = """
import os
from sensormend.mending import Mender
if Mender.push.__name__ != "deadly":  # a preload may be run twice
    push = Mender.push
def deadly(self, readings):
    if "deadly" in readings.sensors:
        os._exit(1)
    return push(self, readings)
Mender.push = deadly
"""


def test_a_network_that_kills_its_workers_is_left_alone(
    networks: dict[str, Readings], alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sensormend.cluster.spreading.FRUITLESS", 2)
    deadly = [["poison", "deadly", f"2020-01-{day:02d}T{hour:02d}:00:00", str(hour)]
              for day in range(1, 30) for hour in range(24)]  # fmt: skip
    table = write_networks(tmp_path / "readings.csv", {name: networks[name] for name in NAMES[:2]}, deadly)
    # What dies once is not tried again by the scheduler itself, so that it is asked of us.
    with running_cluster(3, DEADLY, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as made:
        report = clean_networks(table, tmp_path / "out", "network", made.address)
    assert [(network.network, network.attempts) for network in report.failed] == [("poison", 2)]
    assert report.failed[0].outcome == "its worker died 2 times in the same place; too little memory?"
    same_as_alone(tmp_path / "out", alone, NAMES[:2])


def test_two_runs_do_not_write_one_out_and_the_readings_are_kept(table: Path, tmp_path: Path) -> None:
    from sensormend.files import locked

    work = tmp_path / "out.partial"
    work.mkdir()
    with (
        locked(work / ".lock", "x"),
        pytest.raises(SensormendError, match="another run is writing"),
    ):
        clean_networks(table, tmp_path / "out", "network", resume=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "run.json").write_text("{}")
    shutil.copy(table, mine / "readings.csv")
    with pytest.raises(ConfigError, match="would be replaced"):
        clean_networks(mine / "readings.csv", mine, "network", overwrite=True)
    assert (mine / "readings.csv").exists()


@pytest.mark.parametrize(
    ("content", "column", "match"),
    [
        ("sensor,time,value\na,2020-01-01,1\n", "network", "no column 'network', as --networks says"),
        ("network,time,value\na,2020-01-01,1\n", "network", "which sensor a reading is from"),
        ("network,sensor,time,value\n,a,2020-01-01,1\n", "network", "none of 1 rows can be read.*no network"),
        ("", "network", r"bad\.csv"),
    ],
)
def test_a_bad_file_is_one_line_and_leaves_nothing(tmp_path: Path, content: str, column: str, match: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(SensormendError, match=match) as caught:
        clean_networks(tmp_path / "bad.csv", tmp_path / "out", column)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"bad.csv"}


def test_wrong_calls_are_one_line(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    out = str(tmp_path / "out")
    for words, code, said in (
        ([out, "--cluster", "tcp://127.0.0.1:1"], 2, "ClusterOLRTR from Python, see docs/scaling.md"),
        ([out, "--networks", "network", "--cluster", "127.0.0.1:1"], 2, "like tcp://10.0.0.1:8786"),
        (
            [out, "--networks", "network", "--cluster", "tcp://127.0.0.1:1"],
            1,
            "no cluster answers at tcp://127.0.0.1:1",
        ),
        ([f"{out}.csv", "--networks", "network"], 2, "go into a folder"),
        ([out, "--networks", "sensor", "--sensor", "sensor"], 2, "both name the column 'sensor'"),
    ):
        assert main(["clean", str(table), *words]) == code, said
        told = capfd.readouterr()
        assert said in told.err
        assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []


def test_workers_that_do_not_see_out_are_named(fresh_cluster: Cluster, table: Path, tmp_path: Path) -> None:
    import distributed

    def blind(folder: str) -> None:
        # As on a machine that does not have this file system: nothing is there.
        import builtins
        import io

        real = builtins.open

        def elsewhere(file: Any, *given: Any, **more: Any) -> Any:
            if str(file).startswith(folder):
                raise FileNotFoundError(2, "No such file or directory", str(file))
            return real(file, *given, **more)

        builtins.open = io.open = elsewhere

    made: Any = distributed.Client
    first, _ = fresh_cluster.wait_for_workers(2).values()
    with made(fresh_cluster.address, set_as_default=False) as client:
        client.run(blind, str(tmp_path), workers=[first])
        with pytest.raises(SensormendError, match=f"1 of 2 workers do not see .*worker {first}") as caught:
            clean_networks(table, tmp_path / "out", "network", client)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_names_of_folders_do_not_depend_on_the_order() -> None:
    from sensormend.cluster.naming import folders_of

    names = [*HOSTILE, "x-d6b96a97", "X", "x"]
    found = folders_of(names)
    assert found == folders_of(reversed(names))
    assert len({folder.casefold() for folder in found.values()}) == len(names)
    assert folders_of([]) == {}
    assert os.sep not in "".join(found.values())
