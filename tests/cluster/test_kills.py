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
from network_tables import NAMES, assert_same_as_alone, write_networks
from sensormend.cluster import clean_networks
from sensormend.errors import ConfigError
from sensormend.readings import Readings

SLOW = """
import os, time
from sensormend.pipeline.cleaner import Cleaner
if Cleaner.push.__name__ != "slow":  # a preload may be run twice
    push = Cleaner.push
def slow(self, readings):
    time.sleep(0.05)
    while os.path.exists(os.environ["SENSORMEND_HOLD"]):
        time.sleep(0.02)
    return push(self, readings)
Cleaner.push = slow
"""
"""Code that makes a worker slow, and stops it where the test says so, to be killed in the middle of a network."""


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file whose presence stops slow workers."""
    return tmp_path_factory.mktemp("notes") / "hold"


@pytest.fixture(scope="module")
def slow_cluster(hold: Path) -> Iterator[Cluster]:
    with running_cluster(0, SENSORMEND_HOLD=str(hold)) as made:
        yield made


@pytest.fixture
def slow(slow_cluster: Cluster) -> Cluster:
    """Provide a cluster of two slow workers, also after a test that has killed some."""
    slow_cluster.repair(2, SLOW)
    return slow_cluster


def wait_until(condition: Callable[[], object], run: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.01)


def count_begun(work: Path) -> int:
    """Return the number of networks that are being cleaned, after their readings were sorted."""
    return len(list(work.glob("staging-*/*/*.partial/spool")))


@contextmanager
def held(hold: Path, condition: Callable[[], object], run: subprocess.Popen[str]) -> Iterator[None]:
    """Stop all workers at a moment at which the condition is true."""
    while True:
        wait_until(condition, run)
        hold.touch()
        time.sleep(1.0)  # until all of them wait
        if condition():
            break
        hold.unlink()
    try:
        yield
    finally:
        hold.unlink()


@contextmanager
def typed(*words: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run `sensormend clean` in a process that is killed at the end of the block, also when the test fails."""
    program = f"import sys\n{first}\nfrom sensormend.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, "clean", *words]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=with_ctrl_c)
    with run:
        try:
            yield run
        finally:
            run.kill()


def test_a_worker_killed_in_the_middle_changes_nothing(
    slow: Cluster, hold: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with typed(str(table), str(out), "--networks", "network", "--cluster", slow.address) as run:
        with held(hold, lambda: count_begun(tmp_path / "out.partial") == 2, run):
            slow.kill_worker(next(iter(slow.workers)))
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert "4, 4 of them cleaned" in stdout
    assert_same_as_alone(out, alone)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert {path.name for path in out.iterdir()} == {*NAMES, "networks.csv", "run.json"}


def test_when_the_scheduler_is_lost_the_run_stops_and_goes_on_later(
    slow: Cluster, hold: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out, work = tmp_path / "out", tmp_path / "out.partial"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    with typed(*words) as run, held(hold, lambda: list(work.glob("*/run.json")) and count_begun(work), run):
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
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_after_ctrl_c_a_run_goes_on_beside_workers_that_still_run(
    slow: Cluster, hold: Path, table: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (str(table), str(out), "--networks", "network", "--cluster", slow.address)
    with ExitStack() as stack:
        run = stack.enter_context(typed(*words))
        with held(hold, lambda: count_begun(tmp_path / "out.partial") == 2, run):
            run.send_signal(signal.SIGINT)
            _, stderr = run.communicate(timeout=90)
            assert run.returncode == 1
            last = "sensormend: stopped; what is done is kept, the same call with --resume continues"
            assert stderr.splitlines()[-1] == last
            assert "Traceback" not in stderr
            # The workers are still at their networks when the next run begins.
            again = stack.enter_context(typed(*words, "--resume"))
            time.sleep(2)
        _, stderr = again.communicate(timeout=60)
    assert again.returncode == 0, stderr
    assert_same_as_alone(out, alone)


def test_a_run_killed_here_goes_on_elsewhere(
    cluster: Cluster, table: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENSORMEND_HOLD", str(tmp_path / "hold"))
    out, work = tmp_path / "out", tmp_path / "out.partial"
    with (
        typed(str(table), str(out), "--networks", "network", first=SLOW) as run,
        held(tmp_path / "hold", lambda: list(work.glob("*/run.json")) and count_begun(work), run),
    ):
        run.kill()
        run.communicate()
    clean_networks(table, out, "network", cluster.address, resume=True)
    assert_same_as_alone(out, alone)
    assert {path.name for path in out.iterdir()} == {*NAMES, "networks.csv", "run.json"}


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
    outcomes = [(network.network, network.outcome) for network in report.failed]
    assert outcomes == [("poison", "its worker died 2 times; too little memory?")]
    assert_same_as_alone(tmp_path / "out", alone, NAMES[:2])
