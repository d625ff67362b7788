"""Couriers: a sink that fails, refuses, hangs or is slow harms nobody, and gets everything when it is back."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from post import Notebook, alert, final, until
from sensormend.errors import RefusedError
from sensormend.stream import courier as courier_module
from sensormend.stream.courier import REFUSALS, Courier, stop_all
from sensormend.stream.deliveries import Delivery, Sink
from sensormend.stream.outbox import Outbox

QUICK = (0.01, 0.02)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Outbox]:
    outbox = Outbox(tmp_path, ["a", "b"])
    yield outbox
    outbox.close()


def started(box: Outbox, sink: Sink, name: str = "a") -> Courier:
    courier = Courier(name, sink, box, QUICK)
    courier.start()
    return courier


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_what_waits_while_a_sink_is_away_arrives_in_order_and_both_is_said_once(
    box: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink = Notebook()
    sink.failing = lambda delivery: ConnectionError("nobody\nthere")
    courier = started(box, sink)
    for number in range(5):
        box.append(final(number), number)
    until(lambda: sink.tries > 4)
    state = courier.state()
    assert (state.up, state.backlog, state.error) == (False, 5, "nobody there")
    assert sink.seen == []
    sink.failing = lambda delivery: None
    until(lambda: box.backlog("a") == 0)
    until(lambda: len(messages(caplog)) == 2)
    assert sink.seen == [("final", number) for number in range(5)]
    down, back = messages(caplog)
    assert down.startswith("a: cannot deliver: nobody there; ")
    assert back.startswith("a: back after 0 s, and has the 5 deliveries")
    assert len(caplog.records) > 4
    state = courier.state()
    assert (state.up, state.delivered, state.lost, state.error) == (True, 5, 0, "")
    assert courier.stop(5)
    assert sink.closed


def test_a_sink_that_hangs_blocks_neither_others_nor_the_end(box: Outbox) -> None:
    hung, other = Notebook(), Notebook()
    hung.open.clear()
    slow, quick = started(box, hung), started(box, other, "b")
    began = time.monotonic()
    for number in range(100):
        box.append(final(number), number)
        slow.offer(Delivery("provisional", number, number))
    until(lambda: len(other.seen) == 100)
    assert slow.state().busy > 0
    assert quick.stop(5)
    assert not slow.stop(0.2)
    assert time.monotonic() - began < 5
    assert slow.state().backlog == 100
    hung.open.set()
    until(lambda: hung.closed)


def test_a_sink_that_hangs_counts_as_down_and_that_is_said_once(
    box: Outbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "HANGING", 0.05)
    sink = Notebook()
    sink.open.clear()
    courier = started(box, sink)
    box.append(final(0), 0)
    until(lambda: not courier.state().up)
    assert courier.state().error.startswith("it has been at one delivery for")
    assert messages(caplog) == ["a: hangs: it has been at one delivery for 0 s; others wait on disk"]
    sink.open.set()
    until(lambda: box.backlog("a") == 0)
    assert courier.state().up
    assert courier.stop(5)


def test_stop_drains_a_slow_sink_for_as_long_as_it_may(box: Outbox) -> None:
    sink = Notebook()

    def slowly(delivery: Delivery) -> None:
        time.sleep(0.02)

    sink.failing = slowly
    courier = started(box, sink)
    for number in range(60):
        box.append(final(number), number)
    assert not courier.stop(0.3)
    until(lambda: sink.closed)
    got = len(sink.seen)
    assert 1 < got < 40
    assert box.backlog("a") == 60 - got
    sink.failing = lambda delivery: None
    assert started(box, sink).stop(10)
    assert sink.seen == [("final", number) for number in range(60)]


def test_couriers_stop_together(tmp_path: Path) -> None:
    names = [f"slow {number}" for number in range(4)]
    outbox, sinks = Outbox(tmp_path, names), [Notebook() for _ in names]
    couriers = [started(outbox, sink, name) for name, sink in zip(names, sinks, strict=True)]
    for sink in sinks[1:]:
        sink.open.clear()
    outbox.append(final(0), 0)
    until(lambda: all(sink.tries for sink in sinks))
    began = time.monotonic()
    assert not stop_all(couriers, 0.5)
    assert 0.4 < time.monotonic() - began < 1
    for sink in sinks[1:]:
        sink.open.set()
    assert stop_all(couriers, 5)
    assert all(sink.closed for sink in sinks)
    outbox.close()


def test_whatever_fails_on_the_way_is_tried_again(
    box: Outbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    sink, waiting, failures = Notebook(), box.waiting, [KeyError("kind"), OSError("disk"), MemoryError()]

    def failing(name: str) -> Iterator[tuple[int, Delivery]]:
        if failures:
            raise failures.pop(0)
        return waiting(name)

    monkeypatch.setattr(box, "waiting", failing)
    courier = started(box, sink)
    box.append(final(0), 0)
    until(lambda: sink.seen == [("final", 0)])
    until(lambda: courier.state().up)
    traces = [record.levelname for record in caplog.records if record.exc_info]
    assert traces == ["DEBUG"] * 3
    assert messages(caplog, logging.WARNING)[0].startswith("a: cannot deliver: 'kind'; ")
    assert len(messages(caplog, logging.WARNING)) == 1
    assert courier.stop(5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_courier_that_is_dead_is_not_up(box: Outbox) -> None:
    class Ending(Sink):
        def write(self, delivery: Delivery) -> None:
            raise SystemExit(3)

    courier = started(box, Ending())
    assert courier.state().up
    box.append(final(0), 0)
    until(lambda: not courier.state().up)
    assert courier.state().error == "nothing more is delivered until sensormend is started again"
    other = started(box, Notebook(), "b")
    assert other.stop(5)
    assert other.state().up, "it was stopped, and is well"


def test_stop_does_not_wait_for_a_sink_that_is_down(box: Outbox) -> None:
    sink = Notebook()
    sink.failing = lambda delivery: OSError("away")
    courier = Courier("a", sink, box, (30.0, 30.0))
    courier.start()
    box.append(final(0), 0)
    until(lambda: not courier.state().up)
    began = time.monotonic()
    assert not courier.stop(20)
    assert time.monotonic() - began < 2
    assert sink.closed


def test_only_the_newest_provisional_is_delivered_and_only_after_what_waits(box: Outbox) -> None:
    sink = Notebook()
    sink.open.clear()
    courier = started(box, sink)
    box.append(final(0), 0)
    until(lambda: sink.tries == 1)
    box.append(alert(1), 1)
    for number in (5, 6, 7):
        courier.offer(Delivery("provisional", number, number + 1))
    box.append(alert(2), 2)
    sink.open.set()
    until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("final", 0), ("alert", 1), ("alert", 2), ("provisional", 7)]
    assert courier.stop(5)


def test_what_became_final_is_not_followed_by_what_was_provisional_before(box: Outbox) -> None:
    sink = Notebook()
    sink.open.clear()
    courier = started(box, sink)
    box.append(alert(0), 0)
    until(lambda: sink.tries == 1)
    courier.offer(Delivery("provisional", 5, 6))
    box.append(final(1), 1)
    sink.open.set()
    until(lambda: len(sink.seen) == 2)
    box.append(final(2), 2)
    until(lambda: len(sink.seen) == 3)
    courier.offer(Delivery("provisional", 8, 9))
    until(lambda: len(sink.seen) == 4)
    assert sink.seen == [("alert", 0), ("final", 1), ("final", 2), ("provisional", 8)]
    assert courier.stop(5)


def test_a_sink_comes_back_with_a_provisional_alone(box: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    sink = Notebook()
    sink.failing = lambda delivery: OSError("away")
    courier = started(box, sink)
    courier.offer(Delivery("provisional", 1, 2))
    until(lambda: sink.tries > 2)
    courier.offer(Delivery("provisional", 2, 3))
    sink.failing = lambda delivery: None
    until(lambda: sink.seen == [("provisional", 2)])
    until(lambda: len(messages(caplog)) == 2)
    assert courier.state().up
    assert courier.stop(5)


def test_a_delivery_that_is_refused_is_given_up_when_later_ones_pass(
    box: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Notebook()
    bad = {1, 2}
    sink.failing = lambda delivery: RefusedError("no") if delivery.start in bad else None
    courier = started(box, sink)
    for number in range(3):
        box.append(final(number), number)
    until(lambda: sink.tries > REFUSALS + 6)
    # Nothing passes: it may be the sink, and nothing is given up.
    assert (sink.seen, box.backlog("a"), box.lost("a")) == ([("final", 0)], 2, 0)
    box.append(final(3), 3)
    until(lambda: box.backlog("a") == 0)
    assert sink.seen == [("final", 0), ("final", 3)]
    assert courier.state().lost == 2
    assert messages(caplog, logging.ERROR) == [
        "a: 2 deliveries are given up and lost to it: it refuses them, and took a later one"
    ]
    assert courier.stop(5)


def test_a_sink_that_refuses_all_keeps_all(box: Outbox) -> None:
    sink = Notebook(["alert"])
    sink.failing = lambda delivery: RefusedError("no such table")
    courier = started(box, sink)
    # What the sink has no use for passes, and tells nothing about the sink.
    for number, delivery in enumerate([final(0), alert(1), final(2), alert(3), final(4)]):
        box.append(delivery, number)
    until(lambda: sink.tries > REFUSALS + 8)
    assert (box.backlog("a"), box.lost("a")) == (4, 0)
    sink.failing = lambda delivery: None
    until(lambda: box.backlog("a") == 0)
    assert sink.seen == [("alert", 1), ("alert", 3)]
    assert courier.stop(5)


def test_one_that_is_refused_for_a_while_is_delivered(box: Outbox) -> None:
    sink = Notebook()
    sink.failing = lambda delivery: RefusedError("not yet") if sink.tries < REFUSALS - 1 else None
    courier = started(box, sink)
    for number in range(3):
        box.append(final(number), number)
    until(lambda: box.backlog("a") == 0)
    assert sink.seen == [("final", number) for number in range(3)]
    assert courier.stop(5)


DELIVERING = """
import sys, time
from pathlib import Path
from post import final
from sensormend.stream import courier as courier_module
from sensormend.stream.courier import Courier
from sensormend.stream.deliveries import Sink
from sensormend.stream.outbox import Outbox

class Lines(Sink):
    def write(self, delivery):
        with open(sys.argv[2], "a") as file:
            file.write(f"{delivery.start}\\n")

box = Outbox(Path(sys.argv[1]), ["lines"])
courier = Courier("lines", Lines(), box)
courier.start()
for number in range(int(sys.argv[3]), int(sys.argv[3]) + 100_000):
    box.append(final(number), number)
    print(number, flush=True)
    time.sleep(0.0005)
"""


@pytest.mark.processes
def test_killed_while_it_delivers_it_loses_nothing(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    made = 0
    paths = f"import sys; sys.path[:0] = [{str(Path(__file__).parents[1])!r}]\n"
    for count in (20, 57, 91):
        command = [sys.executable, "-c", paths + DELIVERING, str(tmp_path / "box"), str(lines), str(made)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(count)]
            process.send_signal(signal.SIGKILL)
            said += process.stdout.readlines()
        # A restart makes the last ones again: they are in the box, or not, and come once in any case.
        made = max(int(line) for line in said if line.endswith(b"\n")) - 3
    box = Outbox(tmp_path / "box", ["lines"])
    sink = Notebook()
    courier = Courier("lines", sink, box)
    courier.start()
    assert courier.stop(20)
    box.close()
    got = [int(line) for line in lines.read_text().splitlines()] + [start for _, start in sink.seen]
    assert list(dict.fromkeys(got)) == list(range(max(got) + 1))
    assert max(got) >= made + 3
    assert len(got) - len(set(got)) <= 3
