"""The outbox: everything once, in order, as long as there is room, whatever happens to the process."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from post import final
from sensormend.stream.outbox import Outbox, _Cursor


def starts(box: Outbox, name: str) -> list[int]:
    return [delivery.start for _, delivery in box.waiting(name)]


def take(box: Outbox, name: str, count: int) -> list[int]:
    taken: list[int] = []
    for place, delivery in box.waiting(name):
        if len(taken) == count:
            break
        box.delivered(name, place)
        taken.append(delivery.start)
    return taken


def test_each_sink_gets_everything_in_order_also_after_a_restart(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a", "b"])
    for number in range(5):
        box.append(final(number), number)
    assert take(box, "a", 2) == [0, 1]
    # As a kill leaves it: nothing is closed.
    again = Outbox(tmp_path, ["a", "b"])
    assert (again.backlog("a"), again.backlog("b")) == (3, 5)
    assert starts(again, "a") == [2, 3, 4]
    assert take(again, "b", 9) == [0, 1, 2, 3, 4]
    assert again.backlog("b") == 0
    again.close()
    box.close()


def test_what_is_made_again_is_passed_over(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a"])
    for number in range(3):
        box.append(final(number), number)
    assert take(box, "a", 3) == [0, 1, 2]
    box.close()
    box = Outbox(tmp_path, ["a"])
    for number in range(5):
        box.append(final(number), number)
    assert starts(box, "a") == [3, 4]
    box.close()


def test_what_all_have_is_dropped_but_for_the_last_file(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a", "b"], limit=80_000)
    for number in range(10):
        box.append(final(number, padding=100), number)
    before = box.size
    take(box, "a", 10)
    assert box.size == before
    take(box, "b", 8)
    assert box.size < before / 2
    take(box, "b", 2)
    box.close()
    box = Outbox(tmp_path, ["a", "b"])
    box.append(final(9), 9)
    assert box.backlog("a") == 0
    box.close()


def test_a_new_sink_begins_with_what_comes_then_and_a_known_one_goes_on(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a"])
    box.append(final(0), 0)
    box.close()
    box = Outbox(tmp_path, ["new"])
    box.append(final(1), 1)
    assert starts(box, "new") == [1]
    box.close()
    box = Outbox(tmp_path, ["a", "new"])
    assert starts(box, "a") == [0, 1]
    assert starts(box, "new") == [1]
    box.close()


def test_over_the_limit_the_oldest_are_dropped_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    box = Outbox(tmp_path, ["dead", "quick"], limit=50_000)
    for number in range(60):
        box.append(final(number, padding=50), number)
        take(box, "quick", 1)
        assert box.size <= 50_000 + 8_000
    waiting = starts(box, "dead")
    assert waiting == list(range(60 - len(waiting), 60))
    assert 5 < len(waiting) < 30
    assert box.lost("dead") == 60 - len(waiting)
    assert (box.lost("quick"), box.backlog("quick")) == (0, 0)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("dead: more than")
    box.close()
    box = Outbox(tmp_path, ["dead"])
    assert box.lost("dead") == 60 - len(waiting)
    assert starts(box, "dead") == waiting
    box.close()


def test_one_that_is_dropped_on_its_way_is_not_lost(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a"], limit=20_000)
    box.append(final(0, padding=50), 0)
    place, _ = next(box.waiting("a"))
    for number in range(1, 20):
        box.append(final(number, padding=50), number)
    lost = box.lost("a")
    box.delivered("a", place)
    assert box.lost("a") == lost - 1
    assert lost + box.backlog("a") == 20
    box.close()


def test_a_broken_file_costs_what_is_in_it_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    box = Outbox(tmp_path, ["a"], limit=400_000)
    for number in range(40):
        box.append(final(number, padding=100), number)
    box.close()
    second, third = sorted(tmp_path.glob("*.log"))[1:3]
    spoilt = bytearray(second.read_bytes())
    spoilt[40] ^= 255
    second.write_bytes(spoilt)
    box = Outbox(tmp_path, ["a"])
    got: list[int] = []
    while box.backlog("a"):
        got += take(box, "a", 100)
    first, after = int(second.stem), int(third.stem)
    assert got == [number for number in range(40) if not first <= number < after]
    assert box.lost("a") == after - first
    assert "are lost" in caplog.text
    box.close()


@pytest.mark.parametrize("size", [0, 1, 20, 21, 41, 42, 49, 50, 51])
def test_a_cursor_that_is_half_written_is_the_one_before(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.cursor"
    cursor = _Cursor(path, 0, 7)
    cursor.move(8, lost=1)
    cursor.move(9, lost=2)  # over the first line
    whole = path.read_bytes()
    cursor.close()
    lines = whole.splitlines(keepends=True)
    assert len(whole) == 2 * len(lines[0])
    # The newer line, cut anywhere, with zeros for the rest of it.
    cut = lines[0][:size].ljust(len(lines[0]), b"\0") + lines[1]
    path.write_bytes(cut)
    again = _Cursor(path, 0, 0)
    assert (again.next, again.lost) == ((9, 2) if size == len(lines[0]) else (8, 1))
    again.move(12, lost=2)
    again.close()
    third = _Cursor(path, 0, 0)
    assert third.next == 12
    third.close()


def test_an_unreadable_cursor_gets_all_that_is_there(tmp_path: Path) -> None:
    box = Outbox(tmp_path, ["a"])
    for number in range(3):
        box.append(final(number), number)
    take(box, "a", 2)
    box.close()
    (path,) = tmp_path.glob("*.cursor")
    os.truncate(path, 0)
    box = Outbox(tmp_path, ["a"])
    assert starts(box, "a") == [0, 1, 2]
    box.close()
