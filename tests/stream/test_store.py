"""The store keeps everything once and in order, whatever happens to the process or to its file."""

from __future__ import annotations

import errno
import logging
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_deliveries import alert, final
from sensormend.errors import StateError, StorageError
from sensormend.stream import store as store_module
from sensormend.stream.deliveries import Delivery
from sensormend.stream.store import PART_BITS, SLOT, Acknowledged, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path, ["a", "b"]) as store:
        yield store


def starts(store: Store, name: str) -> list[int]:
    return [delivery.start for _, delivery in store.waiting(name)]


def take(store: Store, name: str, count: int) -> list[int]:
    taken: list[int] = []
    for place, delivery in store.waiting(name):
        if len(taken) == count:
            break
        store.delivered(name, place)
        taken.append(delivery.start)
    return taken


def test_each_sink_gets_everything_in_order_also_after_a_restart(path: Path) -> None:
    store = Store(path, ["a", "b"])
    for number in range(5):
        store.append(final(number), number)
    assert take(store, "a", 2) == [0, 1]
    # As a kill leaves it: nothing is closed.
    for file in path.parent.glob("store.sqlite*"):
        shutil.copy(file, file.with_name(file.name.replace("store", "again")))
    again = Store(path.with_name("again.sqlite"), ["a", "b"])
    assert (again.backlog("a"), again.backlog("b")) == (3, 5)
    assert starts(again, "a") == [2, 3, 4]
    assert take(again, "b", 9) == [0, 1, 2, 3, 4]
    assert again.backlog("b") == 0
    again.close()
    store.close()


def test_what_is_made_again_is_passed_over(path: Path) -> None:
    store = Store(path, ["a"])
    for number in range(3):
        store.append(final(number), number)
    assert take(store, "a", 3) == [0, 1, 2]
    store.close()
    store = Store(path, ["a"])
    for number in range(5):
        store.append(final(number), number)
    assert starts(store, "a") == [3, 4]
    store.close()


def test_what_all_have_is_dropped_but_for_the_last(path: Path) -> None:
    store = Store(path, ["a", "b"], limit=80_000)
    for number in range(10):
        store.append(final(number, padding=100), number)
    before = store.size
    take(store, "a", 10)
    assert store.size == before
    take(store, "b", 8)
    assert store.size < before / 2
    take(store, "b", 2)
    store.close()
    store = Store(path, ["a", "b"])
    store.append(final(9), 9)
    assert store.backlog("a") == 0
    store.close()


def test_a_new_sink_begins_with_what_comes_then_and_a_known_one_goes_on(path: Path) -> None:
    store = Store(path, ["a"])
    store.append(final(0), 0)
    store.close()
    store = Store(path, ["new"])
    store.append(final(1), 1)
    assert starts(store, "new") == [1]
    store.close()
    store = Store(path, ["a", "new"])
    assert starts(store, "a") == [0, 1]
    assert starts(store, "new") == [1]
    store.close()


def test_over_the_limit_the_oldest_are_dropped_counted_and_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sensormend.stream")
    store = Store(path, ["dead", "quick"], limit=50_000)
    for number in range(60):
        store.append(final(number, padding=50), number)
        take(store, "quick", 1)
        assert store.size <= 50_000 + 8_000
    waiting = starts(store, "dead")
    assert waiting == list(range(60 - len(waiting), 60))
    assert 5 < len(waiting) < 30
    assert store.lost("dead") == 60 - len(waiting)
    assert (store.lost("quick"), store.backlog("quick")) == (0, 0)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("dead: more than")
    store.close()
    store = Store(path, ["dead"])
    assert store.lost("dead") == 60 - len(waiting)
    assert starts(store, "dead") == waiting
    store.close()


def test_one_that_is_dropped_on_its_way_is_not_lost(path: Path) -> None:
    store = Store(path, ["a"], limit=20_000)
    store.append(final(0, padding=50), 0)
    place, _ = next(store.waiting("a"))
    for number in range(1, 20):
        store.append(final(number, padding=50), number)
    lost = store.lost("a")
    store.delivered("a", place)
    assert store.lost("a") == lost - 1
    assert lost + store.backlog("a") == 20
    store.close()


def damage(path: Path, content: bytes) -> None:
    """Flip a bit of what a delivery holds."""
    whole = bytearray(path.read_bytes())
    whole[whole.index(content)] ^= 1
    path.write_bytes(whole)


def test_a_damaged_delivery_costs_itself_and_no_more(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Store(path, ["a"]) as store:
        for number in range(40):
            store.append(alert(number, f"sensor-{number}-"), number)
    damage(path, b"sensor-7- is stuck")
    with Store(path, ["a"]) as store:
        assert take(store, "a", 100) == [number for number in range(40) if number != 7]
        assert (store.lost("a"), store.backlog("a")) == (1, 0)
    assert "a: 1 deliveries that waited for it are lost" in caplog.text


def test_a_damaged_delivery_behind_one_that_is_refused_gives_up_neither(path: Path) -> None:
    with Store(path, ["a"]) as store:
        for number in range(3):
            store.append(alert(number, f"sensor-{number}-"), number)
    damage(path, b"sensor-1- is stuck")
    with Store(path, ["a"]) as store:
        assert starts(store, "a") == [0, 2]
        assert (store.lost("a"), store.backlog("a")) == (0, 3)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.9])
def test_what_can_be_read_of_a_damaged_file_goes_on(path: Path, caplog: pytest.LogCaptureFixture, share: float) -> None:
    with Store(path, ["a"], limit=10**7) as store:
        store.save(b"checkpoint", 0)
        for number in range(40):
            store.append(final(number, padding=100), number)
            store.put(number, b"%d" % number * 1000, before=number)
    content = path.read_bytes()
    at = int(share * len(content))
    path.write_bytes(content[:at] + b"\xa5" * 3000 + content[at + 3000 :])
    with Store(path, ["a"]) as store:
        got, inputs = take(store, "a", 100), list(store.inputs())
        assert got == sorted(set(got))
        assert set(inputs) <= {(number, number, b"%d" % number * 1000) for number in range(40)}
        # The first page has the names of the tables; in another one there are one content, or a few.
        assert share < 0.1 or min(len(got), len(inputs)) >= 36
        assert store.checkpoint == (0, b"checkpoint") or (share < 0.1 and store.checkpoint is None)
        assert store.next_input == 40
        assert not got or len(got) + store.lost("a") == store.next
        aside = path.with_name(f"{path.name}.damaged-1")
        assert aside.exists() or (len(got), len(inputs)) == (40, 40)
        if aside.exists():
            assert store.problem
            assert store.problem in caplog.text
            assert len(aside.read_bytes()) == len(content)
        store.append(final(40), 40)
        assert starts(store, "a") == [40]


def test_a_delivery_that_is_too_large_for_one_row_is_in_several(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PART", 1000)
    with Store(path, ["a"], limit=40_000) as store:
        for number in range(10):
            store.append(final(number, padding=100), number)
        assert store.size <= 40_000
        remaining = list(range(store.lost("a"), 10))
        assert 2 < len(remaining) < 10
        assert all(len(delivery.rows or ()) == 100 for _, delivery in store.waiting("a"))
    with Store(path, ["a"]) as store:
        assert take(store, "a", 20) == remaining
        store.append(final(9), 9)
        assert store.backlog("a") == 0


def test_what_is_no_queue_is_set_aside_each_time(path: Path) -> None:
    for number in (1, 2):
        path.write_bytes(b"no database" * 1000)
        with Store(path, ["a"]) as store:
            store.append(final(0), 0)
            assert starts(store, "a") == [0]
        assert Path(f"{path}.damaged-{number}").read_bytes() == b"no database" * 1000


def test_one_of_another_form_is_refused(path: Path) -> None:
    Store(path, ["a"]).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StateError, match="has form 99"):
        Store(path, ["a"])
    assert not list(path.parent.glob("*.damaged-*"))


def test_a_file_that_is_gone_is_not_written(path: Path, store: Store) -> None:
    store.append(final(0), 0)
    away = path.with_name("away")
    path.rename(away)
    with pytest.raises(StorageError, match="cannot be written") as raised:
        store.append(final(1), 1)
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    path.touch()
    with pytest.raises(StorageError, match="not the file that was opened"):
        store.append(final(1), 1)
    away.rename(path)
    store.append(final(1), 1)
    assert starts(store, "a") == [0, 1]


def test_a_full_disk_is_an_error_that_changes_nothing(path: Path, store: Store) -> None:
    store.append(final(0), 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        count = 1
        with suppress(StorageError):
            while count < 100:
                store.append(final(count, padding=500), count)
                count += 1
        assert 2 < count < 100
        with pytest.raises(StorageError, match=r"store\.sqlite cannot be written: "):
            store.append(final(count, padding=500), count)
        assert store.backlog("a") == count
        # What was delivered is known all the same.
        assert take(store, "a", 2) == [0, 1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    store.append(final(count, padding=500), count)
    assert starts(store, "a") == list(range(2, count + 1))
    store.close()
    with Store(path, ["a", "b"]) as again:
        assert starts(again, "a") == list(range(2, count + 1))
        assert starts(again, "b") == list(range(count + 1))


def test_damage_while_it_runs_is_one_line(path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(final(0), 0)
    with sqlite3.connect(":memory:") as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("CREATE TABLE deliveries (place INTEGER PRIMARY KEY, number, crc, content)")
        other.execute("UPDATE sqlite_schema SET rootpage = 99")
        other.commit()
        other.execute("PRAGMA writable_schema = RESET")
    monkeypatch.setattr(store, "_database", other)
    with pytest.raises(StateError, match=r"is damaged .*: start again, and it is set aside"):
        next(store.waiting("a"))
    other.close()


def test_the_file_is_small_again_after_a_long_backlog(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SPARE", 100_000)
    with Store(path, ["a"]) as store:
        for number in range(30):
            store.append(final(number, padding=100), number)
        most = store.size
        take(store, "a", 30)
        assert store.size < most / 10
        store.append(final(30), 30)
        assert starts(store, "a") == [30]
    assert path.stat().st_size < most / 3


def test_damaged_deliveries_are_emptied_and_lost_to_those_that_wait(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(path, ["a", "b"]) as store:
        for number in range(6):
            store.append(final(number), number)
        assert take(store, "a", 2) == [0, 1]
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE outbox SET content = x'00' WHERE id >> {PART_BITS} IN (1, 5)")
        database.execute(f"DELETE FROM outbox WHERE id >> {PART_BITS} = 3")
    database.close()
    with Store(path, ["a", "b"]) as store:
        assert store.unsound == {"inbox": 0, "outbox": 3, "checkpoint": 0, "sinks": 0, "acknowledged": 0}
        # The newest one still has its number: what is made again is passed over.
        store.append(final(5), 5)
        store.append(final(6), 6)
        assert take(store, "a", 9) == [2, 4, 6]
        assert take(store, "b", 9) == [0, 2, 4, 6]
        assert (store.lost("a"), store.lost("b")) == (2, 3)
        assert (store.backlog("a"), store.backlog("b")) == (0, 0)
    assert "are lost" in caplog.text


def test_progress_that_is_damaged_sends_again_what_is_left(path: Path) -> None:
    with Store(path, ["a", "b"]) as store:
        for number in range(6):
            store.append(final(number), number)
        assert take(store, "a", 4) == [0, 1, 2, 3]
        assert take(store, "b", 2) == [0, 1]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE sinks SET next = 5 WHERE name = 'a'")
    database.close()
    with Store(path, ["b"]) as store:
        assert store.unsound["sinks"] == 1
        assert starts(store, "b") == [2, 3, 4, 5]
    with Store(path, ["a", "b"]) as store:
        assert store.unsound["sinks"] == 0
        assert starts(store, "a") == starts(store, "b") == [2, 3, 4, 5]


contents_given = st.lists(
    st.tuples(st.just("put"), st.binary(max_size=9000)) | st.tuples(st.just("save"), st.binary(max_size=9000))
    | st.tuples(st.just("reopen"), st.just(b"")) | st.tuples(st.just("copy"), st.just(b"")),
    max_size=20,
)  # fmt: skip


@given(contents_given)
def test_inputs_and_the_checkpoint_are_there_again(steps: list[tuple[str, bytes]]) -> None:
    """Closed, or copied while it is open, as a kill would leave it; in parts of any size."""
    with TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "PART", 1000)
        patch.setattr(store_module, "MOST_LOG", 20_000)
        folder, number, inputs, checkpoint = Path(made), 0, list[tuple[int, int, bytes]](), None
        (folder / "0").mkdir()
        store = Store(folder / "0" / "store.sqlite")
        for turn, (what, content) in enumerate(steps, 1):
            if what == "put":
                inputs.append((number, 3 * number, content))
                store.put(number, content, before=3 * number, readings=3 * number + 3)
                number += 1
            elif what == "save":
                store.save(content, number, checkpoint=number)
                inputs, checkpoint = [], (number, content)
            else:
                before = store
                if what == "reopen":
                    before.close()
                    store = Store(before.path)
                else:
                    store = Store(Path(shutil.copytree(before.path.parent, folder / str(turn)), "store.sqlite"))
                    before.close()
            assert list(store.inputs()) == inputs
            assert (store.next_input, store.checkpoint) == (number, checkpoint)
            assert store.inbox_size == sum(len(content) for *_, content in inputs)
            assert (store.problem, sum(store.unsound.values())) == ("", 0)
        store.close()


def test_an_input_that_is_put_again_after_an_error_is_there_once(path: Path) -> None:
    with Store(path) as store:
        for content in (b"one", b"one"):
            store.put(0, content, before=0)
        store.put(store.next_input, b"two", before=4)
        assert list(store.inputs()) == [(0, 0, b"one"), (1, 4, b"two")]
        assert list(store.inputs(1)) == [(1, 4, b"two")]
        assert store.inbox_size == 6


def test_numbers_that_were_given_are_not_given_again(path: Path) -> None:
    with Store(path) as store:
        for number in range(3):
            store.put(number, b"x", before=number, readings=number + 1)
    path.unlink()
    for _ in range(2):
        with Store(path) as store:
            assert (store.next_input, list(store.inputs())) == (3, [])
            assert store.acknowledged.record["readings"] == 3
    with Store(path) as store:
        store.put(store.next_input, b"four", before=3)
        assert list(store.inputs()) == [(3, 3, b"four")]


def test_a_record_is_missed_only_where_there_was_one(path: Path) -> None:
    record = path.with_name("acknowledged")
    with Store(path):
        # As a kill leaves it between the first input and its record.
        before = record.read_bytes()
    with Store(path) as store:
        store.put(0, b"one", before=0)
    record.write_bytes(before)
    with Store(path) as store:
        assert (store.unsound["acknowledged"], store.next_input) == (0, 1)
    record.unlink()
    with Store(path) as store:
        assert store.unsound["acknowledged"] == 1
    with Store(path) as store:
        assert store.unsound["acknowledged"] == 0


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a kill leaves it: inputs, deliveries and the checkpoint in the file, and more of them in the log."""
    folder, copies = tmp_path_factory.mktemp("open"), tmp_path_factory.mktemp("filled")
    with Store(folder / "store.sqlite", ["a"]) as store:
        for turn in range(2):
            for number in range(6):
                # A delivery after the last input is made again by it.
                store.append(alert(10 * turn + number, f"sensor-{number}"), 10 * turn + number)
                store.put(store.next_input, b"%d" % number * 700, before=10 * store.next_input)
            if not turn:
                store.save(b"checkpoint" * 900, 4)
            take(store, "a", 2)
        shutil.copytree(folder, copies, dirs_exist_ok=True)
    return copies / "store.sqlite"


def all_of(path: Path) -> tuple[list[tuple[int, int, bytes]], tuple[int, bytes] | None, dict[int, Delivery], bool]:
    """Return what is in a store, and whether something was noticed."""
    with Store(path, ["a"]) as store:
        inputs, deliveries = list(store.inputs()), dict(store.waiting("a"))
        known, first = store.acknowledged.record, store.checkpoint
        numbers = [number for number, *_ in inputs]
        complete = numbers == list(range(0 if first is None else first[0], known["number"]))
        noticed = bool(store.problem or any(store.unsound.values()) or not complete or store.next < known["deliveries"])
        return inputs, first, deliveries, noticed or store.checkpoint is None


def test_a_changed_byte_anywhere_is_noticed_or_does_no_harm(filled: Path, tmp_path: Path) -> None:
    """Every byte of the header, and some hundred others of the file and of its log."""
    whole = Path(shutil.copytree(filled.parent, tmp_path / "whole"))
    inputs, checkpoint, deliveries, noticed = all_of(whole / filled.name)
    assert not noticed
    assert (len(inputs), len(deliveries)) == (8, 8)
    random, seen = np.random.default_rng(0), Counter[bool]()
    for name, count in (("store.sqlite", 150), ("store.sqlite-wal", 150)):
        content = filled.with_name(name).read_bytes()
        for place in [*range(100), *random.integers(0, len(content), count).tolist()]:
            changed = bytearray(content)
            changed[place] ^= 1 << int(random.integers(8))
            folder = Path(shutil.copytree(filled.parent, tmp_path / "changed"))
            (folder / name).write_bytes(changed)
            with suppress(StateError):
                # The number of the form has no checksum: the start is refused.
                noticed = True
                stored, first, waiting, noticed = all_of(folder / filled.name)
                # A log that is cut off does not know what has been delivered last.
                same = (stored, first) == (inputs, checkpoint) and waiting.keys() >= deliveries.keys()
                assert same or noticed, (name, place)
            seen[noticed] += 1
            shutil.rmtree(folder)
    assert min(seen.values()) > 50


KILLED = """
import sys
from pathlib import Path
from sensormend.stream import store as store_module
store_module.MOST_LOG = 100_000
store = store_module.Store(Path(sys.argv[1]))
while True:
    number = store.next_input
    store.put(number, b"%d," % number * 200, before=number)
    if number % 50 == 49:
        store.save(b"%d" % number * 5000, number - 3)
    print(number, flush=True)
"""


@pytest.mark.processes
def test_killed_at_any_moment(path: Path) -> None:
    chance, made = Random(1), -1
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            text = [process.stdout.readline() for _ in range(chance.randrange(1, 120))]
            process.send_signal(signal.SIGKILL)
            text += process.stdout.readlines()
        # The last line may be half a line.
        reported = max(int(line) for line in text if line.endswith(b"\n"))
        with Store(path) as store:
            assert store.next_input > reported > made
            start, content = store.checkpoint or (0, b"")
            assert list(store.inputs()) == [(number, number, b"%d," % number * 200)
                                            for number in range(start, store.next_input)]  # fmt: skip
            assert content == (b"%d" % (start + 3) * 5000 if start else b"")
            assert (store.problem, sum(store.unsound.values())) == ("", 0)
        made = reported


def test_a_full_disk_costs_the_input_and_nothing_else(path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Store(path) as store:
        store.put(0, b"a" * 1000, before=0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        try:
            for _ in range(3):
                with pytest.raises(StorageError, match=r"store\.sqlite cannot be written: "):
                    store.put(1, b"b" * 50_000, before=1)
                with pytest.raises(StorageError):
                    store.save(b"c" * 50_000, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, ignored)
        assert (list(store.inputs()), store.checkpoint, store.next_input) == ([(0, 0, b"a" * 1000)], None, 1)
        store.put(1, b"b" * 50_000, before=1)
        store.save(b"c" * 50_000, 1)
    with Store(path) as store:
        assert list(store.inputs()) == [(1, 1, b"b" * 50_000)]
        assert store.checkpoint == (1, b"c" * 50_000)


def test_the_record_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    with Acknowledged(path) as file:
        assert file.record == {}
        for number in range(5):
            file.write({"number": number})
    with Acknowledged(path) as file:
        assert file.record == {"number": 4}
        file.write({"number": 5})
    assert Acknowledged.read(path)["number"] == 5
    assert path.stat().st_size == 2 * SLOT


def test_a_torn_write_leaves_the_record_before_it(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    with Acknowledged(path) as file:
        file.write({"number": 1})
        before = path.read_bytes()
        file.write({"number": 2, "more": "x" * 100})
        after = path.read_bytes()
    (start,) = [start for start in (0, SLOT) if before[start : start + SLOT] != after[start : start + SLOT]]
    for cut in (1, 8, 9, 40, 120):
        path.write_bytes(before[:start] + after[start : start + cut] + before[start + cut :])
        record = Acknowledged.read(path)
        assert record["number"] == 1


def test_a_write_that_fails_is_done_again_at_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "acknowledged", os.write

    def full(handle: int, content: bytes) -> int:
        real(handle, content[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Acknowledged(path) as file:
        file.write({"number": 1})
        for _ in range(3):
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", full)
                with pytest.raises(OSError, match="No space left"):
                    file.write({"number": 2})
            assert Acknowledged.read(path)["number"] == 1
        file.write({"number": 2})
    assert Acknowledged.read(path)["number"] == 2


def test_garbage_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    assert Acknowledged.read(path) == {}
    for content in (b"", bytes(2 * SLOT), b"\xff" * 2 * SLOT, b"0" * 100, b"00000000 {}"):
        path.write_bytes(content)
        assert Acknowledged.read(path) == {}
    with Acknowledged(path) as file:
        file.write({"number": 9})
    assert Acknowledged.read(path)["number"] == 9
