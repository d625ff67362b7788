"""A worker delivers everything once and in order; a sink that fails harms nobody."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_deliveries import RecordingSink, alert, final
from sensormend.errors import RefusedError
from sensormend.stream import delivery_worker
from sensormend.stream.deliveries import Delivery, Sink
from sensormend.stream.delivery_worker import REFUSALS, DeliveryWorker, stop_all
from sensormend.stream.store import Store
from waiting import wait_until

QUICK = (0.01, 0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path, ["a", "b"]) as store:
        yield store


def started(store: Store, sink: Sink, name: str = "a") -> DeliveryWorker:
    worker = DeliveryWorker(name, sink, store, QUICK)
    worker.start()
    return worker


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_what_waits_while_a_sink_is_away_arrives_in_order_and_both_is_said_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink = RecordingSink()
    sink.failing = lambda delivery: ConnectionError("nobody\nthere")
    worker = started(store, sink)
    for number in range(5):
        store.append(final(number), number)
    wait_until(lambda: sink.tries > 4)
    state = worker.state()
    assert (state.up, state.backlog) == (False, 5)
    assert sink.seen == []
    sink.failing = lambda delivery: None
    wait_until(lambda: store.backlog("a") == 0)
    wait_until(lambda: len(messages(caplog)) == 2)
    assert sink.seen == [("final", number) for number in range(5)]
    down, back = messages(caplog)
    assert down.startswith("a: cannot deliver: nobody there; ")
    assert back.startswith("a: back after 0 s, and has the 5 deliveries")
    assert len(caplog.records) > 4
    state = worker.state()
    assert (state.up, state.lost) == (True, 0)
    assert stop_all([worker], 5)
    assert sink.closed


def test_a_sink_that_hangs_blocks_neither_others_nor_the_end(store: Store) -> None:
    hung, other = RecordingSink(), RecordingSink()
    hung.open.clear()
    slow, quick = started(store, hung), started(store, other, "b")
    began = time.monotonic()
    for number in range(100):
        store.append(final(number), number)
        slow.offer(Delivery("provisional", number, number))
    wait_until(lambda: len(other.seen) == 100)
    assert stop_all([quick], 5)
    assert not stop_all([slow], 0.2)
    assert time.monotonic() - began < 5
    assert slow.state().backlog == 100
    hung.open.set()
    wait_until(lambda: hung.closed)


def test_a_sink_that_hangs_counts_as_down_and_that_is_said_once(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_worker, "HANGING", 0.05)
    sink = RecordingSink()
    sink.open.clear()
    worker = started(store, sink)
    store.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    assert messages(caplog) == ["a: hangs: it has been at one delivery for 0 s; others wait on disk"]
    sink.open.set()
    wait_until(lambda: store.backlog("a") == 0)
    assert worker.state().up
    assert stop_all([worker], 5)


def test_stop_drains_a_slow_sink_for_as_long_as_it_may(store: Store) -> None:
    sink = RecordingSink()

    def slowly(delivery: Delivery) -> None:
        time.sleep(0.02)

    sink.failing = slowly
    worker = started(store, sink)
    for number in range(60):
        store.append(final(number), number)
    assert not stop_all([worker], 0.3)
    wait_until(lambda: sink.closed)
    got = len(sink.seen)
    assert 1 < got < 40
    assert store.backlog("a") == 60 - got
    sink.failing = lambda delivery: None
    assert stop_all([started(store, sink)], 10)
    assert sink.seen == [("final", number) for number in range(60)]


def test_workers_stop_together(tmp_path: Path) -> None:
    names = [f"slow {number}" for number in range(4)]
    store, sinks = Store(tmp_path / "store.sqlite", names), [RecordingSink() for _ in names]
    workers = [started(store, sink, name) for name, sink in zip(names, sinks, strict=True)]
    for sink in sinks[1:]:
        sink.open.clear()
    store.append(final(0), 0)
    wait_until(lambda: all(sink.tries for sink in sinks))
    began = time.monotonic()
    assert not stop_all(workers, 0.5)
    assert 0.4 < time.monotonic() - began < 1
    for sink in sinks[1:]:
        sink.open.set()
    assert stop_all(workers, 5)
    assert all(sink.closed for sink in sinks)
    store.close()


def test_whatever_fails_on_the_way_is_tried_again(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink, waiting, failures = RecordingSink(), store.waiting, [KeyError("kind"), OSError("disk"), MemoryError()]

    def failing(name: str) -> Iterator[tuple[int, Delivery]]:
        if failures:
            raise failures.pop(0)
        return waiting(name)

    monkeypatch.setattr(store, "waiting", failing)
    worker = started(store, sink)
    store.append(final(0), 0)
    wait_until(lambda: sink.seen == [("final", 0)])
    wait_until(lambda: worker.state().up)
    traces = [record.levelname for record in caplog.records if record.exc_info]
    assert traces == ["DEBUG"] * 3
    assert messages(caplog, logging.WARNING)[0].startswith("a: cannot deliver: 'kind'; ")
    assert len(messages(caplog, logging.WARNING)) == 1
    assert stop_all([worker], 5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_is_dead_is_not_up(store: Store) -> None:
    class Ending(Sink):
        def write(self, delivery: Delivery) -> None:
            raise SystemExit(3)

    worker = started(store, Ending())
    assert worker.state().up
    store.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    other = started(store, RecordingSink(), "b")
    assert stop_all([other], 5)
    assert other.state().up, "it was stopped, and is well"


def test_stop_does_not_wait_for_a_sink_that_is_down(store: Store) -> None:
    sink = RecordingSink()
    sink.failing = lambda delivery: OSError("away")
    worker = DeliveryWorker("a", sink, store, (30.0, 30.0))
    worker.start()
    store.append(final(0), 0)
    wait_until(lambda: not worker.state().up)
    began = time.monotonic()
    assert not stop_all([worker], 20)
    assert time.monotonic() - began < 2
    assert sink.closed


def test_only_the_newest_provisional_is_delivered_and_only_after_what_waits(store: Store) -> None:
    sink = RecordingSink()
    sink.open.clear()
    worker = started(store, sink)
    store.append(final(0), 0)
    wait_until(lambda: sink.tries == 1)
    store.append(alert(1), 1)
    for number in (5, 6, 7):
        worker.offer(Delivery("provisional", number, number + 1))
    store.append(alert(2), 2)
    sink.open.set()
    wait_until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("final", 0), ("alert", 1), ("alert", 2), ("provisional", 7)]
    assert stop_all([worker], 5)


def test_what_became_final_is_not_followed_by_what_was_provisional_before(store: Store) -> None:
    sink = RecordingSink()
    sink.open.clear()
    worker = started(store, sink)
    store.append(alert(0), 0)
    wait_until(lambda: sink.tries == 1)
    worker.offer(Delivery("provisional", 5, 6))
    store.append(final(1), 1)
    sink.open.set()
    wait_until(lambda: len(sink.seen) == 2)
    store.append(final(2), 2)
    wait_until(lambda: len(sink.seen) == 3)
    worker.offer(Delivery("provisional", 8, 9))
    wait_until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("alert", 0), ("final", 1), ("final", 2), ("provisional", 8)]
    assert stop_all([worker], 5)


def test_a_sink_comes_back_with_a_provisional_alone(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    sink = RecordingSink()
    sink.failing = lambda delivery: OSError("away")
    worker = started(store, sink)
    worker.offer(Delivery("provisional", 1, 2))
    wait_until(lambda: sink.tries > 2)
    worker.offer(Delivery("provisional", 2, 3))
    sink.failing = lambda delivery: None
    wait_until(lambda: sink.seen == [("provisional", 2)])
    wait_until(lambda: len(messages(caplog)) == 2)
    assert worker.state().up
    assert stop_all([worker], 5)


def test_a_delivery_that_is_refused_is_given_up_when_later_ones_pass(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    bad = {1, 2}
    sink.failing = lambda delivery: RefusedError("no") if delivery.start in bad else None
    worker = started(store, sink)
    for number in range(3):
        store.append(final(number), number)
    wait_until(lambda: sink.tries > REFUSALS + 6)
    # Nothing passes: it may be the sink, and nothing is given up.
    assert (sink.seen, store.backlog("a"), store.lost("a")) == ([("final", 0)], 2, 0)
    store.append(final(3), 3)
    wait_until(lambda: store.backlog("a") == 0)
    assert sink.seen == [("final", 0), ("final", 3)]
    assert worker.state().lost == 2
    assert messages(caplog, logging.ERROR) == [
        "a: 2 deliveries are given up and lost to it: it refuses them, and took a later one"
    ]
    assert stop_all([worker], 5)


def test_a_sink_that_refuses_all_keeps_all(store: Store) -> None:
    sink = RecordingSink(["alert"])
    sink.failing = lambda delivery: RefusedError("no such table")
    worker = started(store, sink)
    # What the sink has no use for passes, and tells nothing about the sink.
    for number, delivery in enumerate([final(0), alert(1), final(2), alert(3), final(4)]):
        store.append(delivery, number)
    wait_until(lambda: sink.tries > REFUSALS + 8)
    assert (store.backlog("a"), store.lost("a")) == (4, 0)
    sink.failing = lambda delivery: None
    wait_until(lambda: store.backlog("a") == 0)
    assert sink.seen == [("alert", 1), ("alert", 3)]
    assert stop_all([worker], 5)


def test_one_that_is_refused_for_a_while_is_delivered(store: Store) -> None:
    sink = RecordingSink()
    sink.failing = lambda delivery: RefusedError("not yet") if sink.tries < REFUSALS - 1 else None
    worker = started(store, sink)
    for number in range(3):
        store.append(final(number), number)
    wait_until(lambda: store.backlog("a") == 0)
    assert sink.seen == [("final", number) for number in range(3)]
    assert stop_all([worker], 5)


DELIVERING = """
import sys, time
from pathlib import Path
from sample_deliveries import final
from sensormend.stream.deliveries import Sink
from sensormend.stream.delivery_worker import DeliveryWorker, stop_all
from sensormend.stream.store import Store

class Lines(Sink):
    def write(self, delivery):
        with open(sys.argv[2], "a") as file:
            file.write(f"{delivery.start}\\n")

store = Store(Path(sys.argv[1]), ["lines"])
DeliveryWorker("lines", Lines(), store).start()
for number in range(int(sys.argv[3]), int(sys.argv[3]) + 100_000):
    store.append(final(number), number)
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
        # A restart makes the last ones again: they are in the store, or not, and come once in any case.
        made = max(int(line) for line in printed if line.endswith(b"\n")) - 3
    store = Store(path, ["lines"])
    sink = RecordingSink()
    worker = DeliveryWorker("lines", sink, store)
    worker.start()
    assert stop_all([worker], 20)
    store.close()
    got = [int(line) for line in lines.read_text().splitlines()] + [start for _, start in sink.seen]
    assert list(dict.fromkeys(got)) == list(range(max(got) + 1))
    assert max(got) >= made + 3
    assert len(got) - len(set(got)) <= 3
