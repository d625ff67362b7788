"""The queue keeps everything once and in order, whatever happens to the process; a sink that fails harms nobody."""

from __future__ import annotations

import logging
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sample_deliveries import RecordingSink, alert, final
from sensormend.errors import RefusedError, StateError, StorageError
from sensormend.stream import delivery_queue
from sensormend.stream.deliveries import Delivery, Sink
from sensormend.stream.delivery_queue import REFUSALS, DeliveryQueue, DeliveryWorker, stop_all
from waiting import wait_until

QUICK = (0.01, 0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.sqlite"


@pytest.fixture
def queue(path: Path) -> Iterator[DeliveryQueue]:
    with DeliveryQueue(path, ["a", "b"]) as queue:
        yield queue


def starts(queue: DeliveryQueue, name: str) -> list[int]:
    return [delivery.start for _, delivery in queue.waiting(name)]


def take(queue: DeliveryQueue, name: str, count: int) -> list[int]:
    taken: list[int] = []
    for place, delivery in queue.waiting(name):
        if len(taken) == count:
            break
        queue.delivered(name, place)
        taken.append(delivery.start)
    return taken


def test_each_sink_gets_everything_in_order_also_after_a_restart(path: Path) -> None:
    queue = DeliveryQueue(path, ["a", "b"])
    for number in range(5):
        queue.append(final(number), number)
    assert take(queue, "a", 2) == [0, 1]
    # As a kill leaves it: nothing is closed.
    for file in path.parent.glob("queue.sqlite*"):
        shutil.copy(file, file.with_name(file.name.replace("queue", "again")))
    again = DeliveryQueue(path.with_name("again.sqlite"), ["a", "b"])
    assert (again.backlog("a"), again.backlog("b")) == (3, 5)
    assert starts(again, "a") == [2, 3, 4]
    assert take(again, "b", 9) == [0, 1, 2, 3, 4]
    assert again.backlog("b") == 0
    again.close()
    queue.close()


def test_what_is_made_again_is_passed_over(path: Path) -> None:
    queue = DeliveryQueue(path, ["a"])
    for number in range(3):
        queue.append(final(number), number)
    assert take(queue, "a", 3) == [0, 1, 2]
    queue.close()
    queue = DeliveryQueue(path, ["a"])
    for number in range(5):
        queue.append(final(number), number)
    assert starts(queue, "a") == [3, 4]
    queue.close()


def test_what_all_have_is_dropped_but_for_the_last(path: Path) -> None:
    queue = DeliveryQueue(path, ["a", "b"], limit=80_000)
    for number in range(10):
        queue.append(final(number, padding=100), number)
    before = queue.size
    take(queue, "a", 10)
    assert queue.size == before
    take(queue, "b", 8)
    assert queue.size < before / 2
    take(queue, "b", 2)
    queue.close()
    queue = DeliveryQueue(path, ["a", "b"])
    queue.append(final(9), 9)
    assert queue.backlog("a") == 0
    queue.close()


def test_a_new_sink_begins_with_what_comes_then_and_a_known_one_goes_on(path: Path) -> None:
    queue = DeliveryQueue(path, ["a"])
    queue.append(final(0), 0)
    queue.close()
    queue = DeliveryQueue(path, ["new"])
    queue.append(final(1), 1)
    assert starts(queue, "new") == [1]
    queue.close()
    queue = DeliveryQueue(path, ["a", "new"])
    assert starts(queue, "a") == [0, 1]
    assert starts(queue, "new") == [1]
    queue.close()


def test_over_the_limit_the_oldest_are_dropped_counted_and_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    queue = DeliveryQueue(path, ["dead", "quick"], limit=50_000)
    for number in range(60):
        queue.append(final(number, padding=50), number)
        take(queue, "quick", 1)
        assert queue.size <= 50_000 + 8_000
    waiting = starts(queue, "dead")
    assert waiting == list(range(60 - len(waiting), 60))
    assert 5 < len(waiting) < 30
    assert queue.lost("dead") == 60 - len(waiting)
    assert (queue.lost("quick"), queue.backlog("quick")) == (0, 0)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("dead: more than")
    queue.close()
    queue = DeliveryQueue(path, ["dead"])
    assert queue.lost("dead") == 60 - len(waiting)
    assert starts(queue, "dead") == waiting
    queue.close()


def test_one_that_is_dropped_on_its_way_is_not_lost(path: Path) -> None:
    queue = DeliveryQueue(path, ["a"], limit=20_000)
    queue.append(final(0, padding=50), 0)
    place, _ = next(queue.waiting("a"))
    for number in range(1, 20):
        queue.append(final(number, padding=50), number)
    lost = queue.lost("a")
    queue.delivered("a", place)
    assert queue.lost("a") == lost - 1
    assert lost + queue.backlog("a") == 20
    queue.close()


def damage(path: Path, content: bytes) -> None:
    """Flip a bit of what a delivery holds."""
    whole = bytearray(path.read_bytes())
    whole[whole.index(content)] ^= 1
    path.write_bytes(whole)


def test_a_damaged_delivery_costs_itself_and_no_more(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with DeliveryQueue(path, ["a"]) as queue:
        for number in range(40):
            queue.append(alert(number, f"sensor-{number}-"), number)
    damage(path, b"sensor-7- is stuck")
    with DeliveryQueue(path, ["a"]) as queue:
        assert take(queue, "a", 100) == [number for number in range(40) if number != 7]
        assert (queue.lost("a"), queue.backlog("a")) == (1, 0)
    assert "a: 1 deliveries that waited for it are lost" in caplog.text


def test_a_damaged_delivery_behind_one_that_is_refused_gives_up_neither(path: Path) -> None:
    with DeliveryQueue(path, ["a"]) as queue:
        for number in range(3):
            queue.append(alert(number, f"sensor-{number}-"), number)
    damage(path, b"sensor-1- is stuck")
    with DeliveryQueue(path, ["a"]) as queue:
        assert starts(queue, "a") == [0, 2]
        assert (queue.lost("a"), queue.backlog("a")) == (0, 3)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9])
def test_a_damaged_file_is_set_aside_or_does_no_harm(
    path: Path, caplog: pytest.LogCaptureFixture, share: float
) -> None:
    with DeliveryQueue(path, ["a"], limit=10**7) as queue:
        for number in range(40):
            queue.append(final(number, padding=100), number)
    content = path.read_bytes()
    at = int(share * len(content))
    path.write_bytes(content[:at] + b"\xa5" * 3000 + content[at + 3000 :])
    with DeliveryQueue(path, ["a"]) as queue:
        got = take(queue, "a", 100)
        aside = list(path.parent.glob("*.damaged-1"))
        assert got == sorted(set(got))
        assert aside or len(got) + queue.lost("a") == 40
        queue.append(final(40), 40)
        assert starts(queue, "a") == [40]
    if aside:
        assert got == []
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "is damaged" in caplog.text
        assert len(aside[0].read_bytes()) == len(content)


def test_a_delivery_that_is_too_large_for_one_row_is_in_several(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_queue, "PART", 1000)
    with DeliveryQueue(path, ["a"], limit=40_000) as queue:
        for number in range(10):
            queue.append(final(number, padding=100), number)
        assert queue.size <= 40_000
        remaining = list(range(queue.lost("a"), 10))
        assert 2 < len(remaining) < 10
        assert all(len(delivery.rows or ()) == 100 for _, delivery in queue.waiting("a"))
    with DeliveryQueue(path, ["a"]) as queue:
        assert take(queue, "a", 20) == remaining
        queue.append(final(9), 9)
        assert queue.backlog("a") == 0


def test_what_is_no_queue_is_set_aside_each_time(path: Path) -> None:
    for number in (1, 2):
        path.write_bytes(b"no database" * 1000)
        with DeliveryQueue(path, ["a"]) as queue:
            queue.append(final(0), 0)
            assert starts(queue, "a") == [0]
        assert Path(f"{path}.damaged-{number}").read_bytes() == b"no database" * 1000


def test_one_of_another_form_is_set_aside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    DeliveryQueue(path, ["a"]).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    DeliveryQueue(path, ["a"]).close()
    assert "its form is 99" in caplog.text


def test_a_file_that_is_gone_is_not_written(path: Path, queue: DeliveryQueue) -> None:
    queue.append(final(0), 0)
    away = path.with_name("away")
    path.rename(away)
    with pytest.raises(StorageError, match="cannot be written") as raised:
        queue.append(final(1), 1)
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    path.touch()
    with pytest.raises(StorageError, match="not the file that was opened"):
        queue.append(final(1), 1)
    away.rename(path)
    queue.append(final(1), 1)
    assert starts(queue, "a") == [0, 1]


def test_a_full_disk_is_an_error_that_changes_nothing(path: Path, queue: DeliveryQueue) -> None:
    queue.append(final(0), 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        count = 1
        with suppress(StorageError):
            while count < 100:
                queue.append(final(count, padding=500), count)
                count += 1
        assert 2 < count < 100
        with pytest.raises(StorageError, match=r"queue\.sqlite cannot be written: "):
            queue.append(final(count, padding=500), count)
        assert queue.backlog("a") == count
        # What was delivered is known all the same.
        assert take(queue, "a", 2) == [0, 1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    queue.append(final(count, padding=500), count)
    assert starts(queue, "a") == list(range(2, count + 1))
    queue.close()
    with DeliveryQueue(path, ["a", "b"]) as again:
        assert starts(again, "a") == list(range(2, count + 1))
        assert starts(again, "b") == list(range(count + 1))


def test_damage_while_it_runs_is_one_line(path: Path, queue: DeliveryQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.append(final(0), 0)
    with sqlite3.connect(":memory:") as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("CREATE TABLE deliveries (place INTEGER PRIMARY KEY, number, crc, content)")
        other.execute("UPDATE sqlite_schema SET rootpage = 99")
        other.commit()
        other.execute("PRAGMA writable_schema = RESET")
    monkeypatch.setattr(queue, "_database", other)
    with pytest.raises(StateError, match=r"is damaged .*: start again, and it is set aside"):
        next(queue.waiting("a"))
    other.close()


def test_the_file_is_small_again_after_a_long_backlog(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_queue, "SPARE", 100_000)
    with DeliveryQueue(path, ["a"]) as queue:
        for number in range(30):
            queue.append(final(number, padding=100), number)
        most = queue.size
        take(queue, "a", 30)
        assert queue.size < most / 10
        queue.append(final(30), 30)
        assert starts(queue, "a") == [30]
    assert path.stat().st_size < most / 3


def started(queue: DeliveryQueue, sink: Sink, name: str = "a") -> DeliveryWorker:
    worker = DeliveryWorker(name, sink, queue, QUICK)
    worker.start()
    return worker


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_what_waits_while_a_sink_is_away_arrives_in_order_and_both_is_said_once(
    queue: DeliveryQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink = RecordingSink()
    sink.failing = lambda delivery: ConnectionError("nobody\nthere")
    worker = started(queue, sink)
    for number in range(5):
        queue.append(final(number), number)
    wait_until(lambda: sink.tries > 4)
    state = worker.state()
    assert (state.up, state.backlog, state.error) == (False, 5, "nobody there")
    assert sink.seen == []
    sink.failing = lambda delivery: None
    wait_until(lambda: queue.backlog("a") == 0)
    wait_until(lambda: len(messages(caplog)) == 2)
    assert sink.seen == [("final", number) for number in range(5)]
    down, back = messages(caplog)
    assert down.startswith("a: cannot deliver: nobody there; ")
    assert back.startswith("a: back after 0 s, and has the 5 deliveries")
    assert len(caplog.records) > 4
    state = worker.state()
    assert (state.up, state.delivered, state.lost, state.error) == (True, 5, 0, "")
    assert stop_all([worker], 5)
    assert sink.closed


def test_a_sink_that_hangs_blocks_neither_others_nor_the_end(queue: DeliveryQueue) -> None:
    hung, other = RecordingSink(), RecordingSink()
    hung.open.clear()
    slow, quick = started(queue, hung), started(queue, other, "b")
    began = time.monotonic()
    for number in range(100):
        queue.append(final(number), number)
        slow.offer(Delivery("provisional", number, number))
    wait_until(lambda: len(other.seen) == 100)
    assert slow.state().busy > 0
    assert stop_all([quick], 5)
    assert not stop_all([slow], 0.2)
    assert time.monotonic() - began < 5
    assert slow.state().backlog == 100
    hung.open.set()
    wait_until(lambda: hung.closed)


def test_a_sink_that_hangs_counts_as_down_and_that_is_said_once(
    queue: DeliveryQueue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_queue, "HANGING", 0.05)
    sink = RecordingSink()
    sink.open.clear()
    worker = started(queue, sink)
    queue.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    assert worker.state().error.startswith("it has been at one delivery for")
    assert messages(caplog) == ["a: hangs: it has been at one delivery for 0 s; others wait on disk"]
    sink.open.set()
    wait_until(lambda: queue.backlog("a") == 0)
    assert worker.state().up
    assert stop_all([worker], 5)


def test_stop_drains_a_slow_sink_for_as_long_as_it_may(queue: DeliveryQueue) -> None:
    sink = RecordingSink()

    def slowly(delivery: Delivery) -> None:
        time.sleep(0.02)

    sink.failing = slowly
    worker = started(queue, sink)
    for number in range(60):
        queue.append(final(number), number)
    assert not stop_all([worker], 0.3)
    wait_until(lambda: sink.closed)
    got = len(sink.seen)
    assert 1 < got < 40
    assert queue.backlog("a") == 60 - got
    sink.failing = lambda delivery: None
    assert stop_all([started(queue, sink)], 10)
    assert sink.seen == [("final", number) for number in range(60)]


def test_workers_stop_together(tmp_path: Path) -> None:
    names = [f"slow {number}" for number in range(4)]
    queue, sinks = DeliveryQueue(tmp_path / "queue.sqlite", names), [RecordingSink() for _ in names]
    workers = [started(queue, sink, name) for name, sink in zip(names, sinks, strict=True)]
    for sink in sinks[1:]:
        sink.open.clear()
    queue.append(final(0), 0)
    wait_until(lambda: all(sink.tries for sink in sinks))
    began = time.monotonic()
    assert not stop_all(workers, 0.5)
    assert 0.4 < time.monotonic() - began < 1
    for sink in sinks[1:]:
        sink.open.set()
    assert stop_all(workers, 5)
    assert all(sink.closed for sink in sinks)
    queue.close()


def test_whatever_fails_on_the_way_is_tried_again(
    queue: DeliveryQueue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink, waiting, failures = RecordingSink(), queue.waiting, [KeyError("kind"), OSError("disk"), MemoryError()]

    def failing(name: str) -> Iterator[tuple[int, Delivery]]:
        if failures:
            raise failures.pop(0)
        return waiting(name)

    monkeypatch.setattr(queue, "waiting", failing)
    worker = started(queue, sink)
    queue.append(final(0), 0)
    wait_until(lambda: sink.seen == [("final", 0)])
    wait_until(lambda: worker.state().up)
    traces = [record.levelname for record in caplog.records if record.exc_info]
    assert traces == ["DEBUG"] * 3
    assert messages(caplog, logging.WARNING)[0].startswith("a: cannot deliver: 'kind'; ")
    assert len(messages(caplog, logging.WARNING)) == 1
    assert stop_all([worker], 5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_is_dead_is_not_up(queue: DeliveryQueue) -> None:
    class Ending(Sink):
        def write(self, delivery: Delivery) -> None:
            raise SystemExit(3)

    worker = started(queue, Ending())
    assert worker.state().up
    queue.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    assert worker.state().error == "nothing more is delivered until sensormend is started again"
    other = started(queue, RecordingSink(), "b")
    assert stop_all([other], 5)
    assert other.state().up, "it was stopped, and is well"


def test_stop_does_not_wait_for_a_sink_that_is_down(queue: DeliveryQueue) -> None:
    sink = RecordingSink()
    sink.failing = lambda delivery: OSError("away")
    worker = DeliveryWorker("a", sink, queue, (30.0, 30.0))
    worker.start()
    queue.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    began = time.monotonic()
    assert not stop_all([worker], 20)
    assert time.monotonic() - began < 2
    assert sink.closed


def test_only_the_newest_provisional_is_delivered_and_only_after_what_waits(queue: DeliveryQueue) -> None:
    sink = RecordingSink()
    sink.open.clear()
    worker = started(queue, sink)
    queue.append(final(0), 0)
    wait_until(lambda: sink.tries == 1)
    queue.append(alert(1), 1)
    for number in (5, 6, 7):
        worker.offer(Delivery("provisional", number, number + 1))
    queue.append(alert(2), 2)
    sink.open.set()
    wait_until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("final", 0), ("alert", 1), ("alert", 2), ("provisional", 7)]
    assert stop_all([worker], 5)


def test_what_became_final_is_not_followed_by_what_was_provisional_before(queue: DeliveryQueue) -> None:
    sink = RecordingSink()
    sink.open.clear()
    worker = started(queue, sink)
    queue.append(alert(0), 0)
    wait_until(lambda: sink.tries == 1)
    worker.offer(Delivery("provisional", 5, 6))
    queue.append(final(1), 1)
    sink.open.set()
    wait_until(lambda: len(sink.seen) == 2)
    queue.append(final(2), 2)
    wait_until(lambda: len(sink.seen) == 3)
    worker.offer(Delivery("provisional", 8, 9))
    wait_until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("alert", 0), ("final", 1), ("final", 2), ("provisional", 8)]
    assert stop_all([worker], 5)


def test_a_sink_comes_back_with_a_provisional_alone(queue: DeliveryQueue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    sink = RecordingSink()
    sink.failing = lambda delivery: OSError("away")
    worker = started(queue, sink)
    worker.offer(Delivery("provisional", 1, 2))
    wait_until(lambda: sink.tries > 2)
    worker.offer(Delivery("provisional", 2, 3))
    sink.failing = lambda delivery: None
    wait_until(lambda: sink.seen == [("provisional", 2)])
    wait_until(lambda: len(messages(caplog)) == 2)
    assert worker.state().up
    assert stop_all([worker], 5)


def test_a_delivery_that_is_refused_is_given_up_when_later_ones_pass(
    queue: DeliveryQueue, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    bad = {1, 2}
    sink.failing = lambda delivery: RefusedError("no") if delivery.start in bad else None
    worker = started(queue, sink)
    for number in range(3):
        queue.append(final(number), number)
    wait_until(lambda: sink.tries > REFUSALS + 6)
    # Nothing passes: it may be the sink, and nothing is given up.
    assert (sink.seen, queue.backlog("a"), queue.lost("a")) == ([("final", 0)], 2, 0)
    queue.append(final(3), 3)
    wait_until(lambda: queue.backlog("a") == 0)
    assert sink.seen == [("final", 0), ("final", 3)]
    assert worker.state().lost == 2
    assert messages(caplog, logging.ERROR) == [
        "a: 2 deliveries are given up and lost to it: it refuses them, and took a later one"
    ]
    assert stop_all([worker], 5)


def test_a_sink_that_refuses_all_keeps_all(queue: DeliveryQueue) -> None:
    sink = RecordingSink(["alert"])
    sink.failing = lambda delivery: RefusedError("no such table")
    worker = started(queue, sink)
    # What the sink has no use for passes, and tells nothing about the sink.
    for number, delivery in enumerate([final(0), alert(1), final(2), alert(3), final(4)]):
        queue.append(delivery, number)
    wait_until(lambda: sink.tries > REFUSALS + 8)
    assert (queue.backlog("a"), queue.lost("a")) == (4, 0)
    sink.failing = lambda delivery: None
    wait_until(lambda: queue.backlog("a") == 0)
    assert sink.seen == [("alert", 1), ("alert", 3)]
    assert stop_all([worker], 5)


def test_one_that_is_refused_for_a_while_is_delivered(queue: DeliveryQueue) -> None:
    sink = RecordingSink()
    sink.failing = lambda delivery: RefusedError("not yet") if sink.tries < REFUSALS - 1 else None
    worker = started(queue, sink)
    for number in range(3):
        queue.append(final(number), number)
    wait_until(lambda: queue.backlog("a") == 0)
    assert sink.seen == [("final", number) for number in range(3)]
    assert stop_all([worker], 5)


DELIVERING = """
import sys, time
from pathlib import Path
from sample_deliveries import final
from sensormend.stream.deliveries import Sink
from sensormend.stream.delivery_queue import DeliveryQueue, DeliveryWorker, stop_all

class Lines(Sink):
    def write(self, delivery):
        with open(sys.argv[2], "a") as file:
            file.write(f"{delivery.start}\\n")

queue = DeliveryQueue(Path(sys.argv[1]), ["lines"])
DeliveryWorker("lines", Lines(), queue).start()
for number in range(int(sys.argv[3]), int(sys.argv[3]) + 100_000):
    queue.append(final(number), number)
    print(number, flush=True)
    time.sleep(0.0005)
"""


@pytest.mark.processes
def test_killed_while_it_delivers_it_loses_nothing(path: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    made = 0
    paths = f"import sys; sys.path[:0] = [{str(Path(__file__).parents[1] / 'helpers')!r}]\n"
    for count in (20, 57, 91):
        command = [sys.executable, "-c", paths + DELIVERING, str(path), str(lines), str(made)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            printed = [process.stdout.readline() for _ in range(count)]
            process.send_signal(signal.SIGKILL)
            printed += process.stdout.readlines()
        # A restart makes the last ones again: they are in the queue, or not, and come once in any case.
        made = max(int(line) for line in printed if line.endswith(b"\n")) - 3
    queue = DeliveryQueue(path, ["lines"])
    sink = RecordingSink()
    worker = DeliveryWorker("lines", sink, queue)
    worker.start()
    assert stop_all([worker], 20)
    queue.close()
    got = [int(line) for line in lines.read_text().splitlines()] + [start for _, start in sink.seen]
    assert list(dict.fromkeys(got)) == list(range(max(got) + 1))
    assert max(got) >= made + 3
    assert len(got) - len(set(got)) <= 3


def test_damaged_deliveries_are_emptied_and_lost_to_those_that_wait(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DeliveryQueue(path, ["a", "b"]) as queue:
        for number in range(4):
            queue.append(final(number), number)
        assert take(queue, "a", 2) == [0, 1]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE deliveries SET content = x'00' WHERE place IN (1, 3)")
    database.close()
    with DeliveryQueue(path, ["a", "b"]) as queue:
        queue.empty_damaged()
        # The newest one still has its number: what is made again is passed over.
        queue.append(final(3), 3)
        queue.append(final(4), 4)
        assert take(queue, "a", 9) == [2, 4]
        assert take(queue, "b", 9) == [0, 2, 4]
        assert (queue.lost("a"), queue.lost("b")) == (1, 2)
        assert (queue.backlog("a"), queue.backlog("b")) == (0, 0)
    assert "are lost" in caplog.text
