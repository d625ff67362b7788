"""Whatever is killed while many networks are cleaned, the rows are the same."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from clusters import Cluster, running_cluster
from ctrl_c import with_ctrl_c
from network_tables import NAMES, assert_same_as_alone, read_networks_csv, write_networks
from sensormend.cluster import clean_networks
from sensormend.errors import ConfigError
from sensormend.readings import Readings

SLOW = """
import os
from sensormend.archive import cleaning
from sensormend.archive.checkpoint import Checkpoint
from sensormend.pipeline.cleaner import Cleaner
import time
cleaning.CHECKPOINT = 0.0
if Cleaner.push.__name__ != "slow":  # a preload may be run twice
    push, restore = Cleaner.push, Checkpoint.restore
def slow(self, readings):
    time.sleep(0.05)
    while os.path.exists(os.environ["SENSORMEND_RESTORED"] + ".hold"):
        time.sleep(0.02)
    return push(self, readings)
def recorded(self, cleaner, tally):
    restored = restore(self, cleaner, tally)
    if restored:
        with open(os.environ["SENSORMEND_RESTORED"], "a") as file:
            file.write(f"{cleaner.period}\\n")
    return restored
Cleaner.push, Checkpoint.restore = slow, recorded
"""
"""What makes a worker slow, keep every period, and hold on where the test says so, to be killed in the middle."""


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


def wait_until(condition: Callable[[], object], run: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)


def resumable(work: Path) -> int:
    """Return how many networks are in the middle, with a state to go on from."""
    states = [path.read_text() for path in work.glob("*.partial/state/checkpoint.json")]
    return sum('"place"' in state for state in states)


@contextmanager
def held(folder: Path, condition: Callable[[], object], run: subprocess.Popen[str]) -> Iterator[None]:
    """Have all workers hold on, at a moment of which something is true."""
    hold = folder / "restored.hold"
    while True:
        wait_until(condition, run)
        hold.touch()
        time.sleep(1.0)  # who was beyond the point where it holds on has come to the next one
        if condition():
            break
        hold.unlink()
    try:
        yield
    finally:
        hold.unlink()


@contextmanager
def typed(*words: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a command, which ends with the block: one that a test that failed leaves running would fail the next test."""
    program = f"import sys\n{first}\nfrom sensormend.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, "clean", *words]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=with_ctrl_c)
    with run:
        try:
            yield run
        finally:
            run.kill()


def test_a_worker_killed_in_the_middle_changes_nothing(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with typed(str(table), str(out), "--networks", "network", "--cluster", slow.address) as run:
        with held(notes, lambda: resumable(tmp_path / "out.partial") == 2, run):
            slow.kill_worker(next(iter(slow.workers)))
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert "1 worker" in stderr
    assert "4, 4 of them cleaned" in stdout
    assert_same_as_alone(out, alone)
    attempts = sorted(line["attempts"] for line in read_networks_csv(out).values())
    assert attempts == ["1", "1", "1", "2"]
    assert (notes / "restored").read_text().count("\n") == 1, "it went on, and did not begin again"


def test_when_the_scheduler_is_lost_the_run_stops_and_goes_on_later(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out, work = tmp_path / "out", tmp_path / "out.partial"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    with typed(*words) as run, held(notes, lambda: list(work.glob("*/run.json")) and resumable(work), run):
        slow.kill_scheduler()
        stdout, stderr = run.communicate(timeout=30)
    assert run.returncode == 1
    assert stderr.splitlines()[-1] == (
        f"sensormend: the scheduler at {slow.address} is lost; what is done is kept, "
        "the same call with --resume continues"
    )
    assert "Traceback" not in stderr
    assert stdout == ""
    assert not out.exists()
    finished = {path.parent: path.stat().st_mtime_ns for path in work.glob("*/run.json")}
    assert finished
    slow.repair(1, SLOW)
    with pytest.raises(ConfigError, match="--resume continues it"):
        clean_networks(table, out, "network", slow.address)
    with pytest.raises(ConfigError, match="other readings or options"):
        clean_networks(table, out, "sensor", slow.address, resume=True)
    clean_networks(table, out, "network", slow.address, resume=True)
    assert_same_as_alone(out, alone)
    for folder, written in finished.items():
        assert (out / folder.name / "run.json").stat().st_mtime_ns == written, "what is done is not done again"
    assert (notes / "restored").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_after_ctrl_c_the_workers_stop_too_and_let_go(
    slow: Cluster, notes: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    with ExitStack() as stack:
        run = stack.enter_context(typed(*words))
        with held(notes, lambda: resumable(tmp_path / "out.partial") == 2, run):
            run.send_signal(signal.SIGINT)
            _, stderr = run.communicate(timeout=90)
            assert run.returncode == 1
            last = "sensormend: stopped; what is done is kept, the same call with --resume continues"
            assert stderr.splitlines()[-1] == last
            assert "Traceback" not in stderr
            # The workers are still at it, and hold their locks, when the next run begins.
            again = stack.enter_context(typed(*words, "--resume"))
            time.sleep(2)
        _, stderr = again.communicate(timeout=60)
    assert again.returncode == 0, stderr
    assert_same_as_alone(out, alone)
    # On a loaded machine one worker may have been in its last period when the other had kept its first.
    assert (notes / "restored").read_text().count("\n") in (1, 2)


def test_a_run_killed_here_goes_on_here_or_elsewhere(
    cluster: Cluster, table: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENSORMEND_RESTORED", str(tmp_path / "restored"))
    out, work = tmp_path / "out", tmp_path / "out.partial"
    with (
        typed(str(table), str(out), "--networks", "network", first=SLOW) as run,
        held(tmp_path, lambda: list(work.glob("*/run.json")) and resumable(work), run),
    ):
        run.kill()
        run.communicate()
    clean_networks(table, out, "network", cluster.address, resume=True)
    assert_same_as_alone(out, alone)
    assert "2" in {line["attempts"] for line in read_networks_csv(out).values()}


DEADLY = """
import os
from sensormend.pipeline.cleaner import Cleaner
if Cleaner.push.__name__ != "deadly":  # a preload may be run twice
    push = Cleaner.push
def deadly(self, readings):
    if "deadly" in readings.sensors:
        os._exit(1)
    return push(self, readings)
Cleaner.push = deadly
"""


@pytest.mark.processes
def test_a_network_that_kills_its_workers_is_left_alone(
    networks: dict[str, Readings], alone: Path, tmp_path: Path
) -> None:
    deadly = [["poison", "deadly", f"2020-01-{day:02d}T{hour:02d}:00:00", str(hour)]
              for day in range(1, 30) for hour in range(24)]  # fmt: skip
    table = write_networks(tmp_path / "readings.csv", {name: networks[name] for name in NAMES[:2]}, deadly)
    with running_cluster(3, DEADLY, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1") as made:
        report = clean_networks(table, tmp_path / "out", "network", made.address)
    assert [(network.network, network.attempts) for network in report.failed] == [("poison", 2)]
    assert report.failed[0].outcome == "its worker died 2 times; too little memory?"
    assert_same_as_alone(tmp_path / "out", alone, NAMES[:2])
