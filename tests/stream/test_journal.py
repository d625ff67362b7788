"""The log: what was synced is there again, whatever the end of the file looks like."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.errors import StateError
from sensormend.stream.journal import HEAD, WriteAheadLog, stored_records


def contents(log: WriteAheadLog, start: int = 0) -> list[bytes]:
    return [payload for _, payload in log.read(start)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@given(
    records=st.lists(st.tuples(st.binary(max_size=80), st.booleans()), max_size=30),
    segment=st.integers(1, 600),
    cut=st.floats(0, 1),
    garbage=st.binary(max_size=70) | st.integers(0, 70).map(bytes),
)
def test_after_a_cut_at_any_byte_it_has_a_prefix_with_everything_before_the_last_sync(
    records: list[tuple[bytes, bool]], segment: int, cut: float, garbage: bytes
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        log = WriteAheadLog(folder, segment=segment)
        safe, synced, last = 0, 0, files(folder)[-1]
        for payload, sync in records:
            log.append(payload)
            if sync:
                log.sync()
            if sync or files(folder)[-1] != last:
                last = files(folder)[-1]
                safe = log.next if sync else log.next - 1
                synced = last.stat().st_size if sync else 0
        wanted = [payload for payload, _ in records]
        assert contents(log) == wanted
        size = last.stat().st_size
        os.truncate(last, synced + round(cut * (size - synced)))
        with last.open("ab") as file:
            file.write(garbage)
        again = WriteAheadLog(folder, segment=segment)
        result = contents(again)
        assert result == wanted[: len(result)]
        assert safe <= len(result) == again.next
        # And it goes on from there as if nothing had been.
        assert again.append(b"more") == len(result)
        again.close()
        log._handle.close()
        with WriteAheadLog(folder, segment=segment) as third:
            assert contents(third) == [*result, b"more"]
            assert third.torn == 0


def test_any_cut_of_the_last_file_leaves_the_whole_records_before_it(tmp_path: Path) -> None:
    ends = []
    with WriteAheadLog(tmp_path) as log:
        for number in range(6):
            log.append(b"x" * number)
            ends.append(log.size)
    whole = files(tmp_path)[0].read_bytes()
    for cut in range(len(whole)):
        files(tmp_path)[0].write_bytes(whole[:cut])
        with WriteAheadLog(tmp_path) as log:
            assert log.next == sum(end <= cut for end in ends)
            assert log.torn == cut - max((end for end in ends if end <= cut), default=0)


def test_zeros_after_a_power_cut_are_cut_off(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path) as log:
        log.append(b"one")
    with files(tmp_path)[0].open("ab") as file:
        file.write(bytes(5000))
    with WriteAheadLog(tmp_path) as log:
        assert contents(log) == [b"one"]
        assert log.torn == 5000


def test_a_record_that_was_safe_and_is_broken_is_left_out(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path) as log:
        for payload in (b"one", b"two", b"three"):
            log.append(payload)
            log.sync()
    path = files(tmp_path)[0]
    spoilt = bytearray(path.read_bytes())
    second = HEAD.size + 3
    spoilt[second + HEAD.size] ^= 1
    for head in (spoilt[second : second + HEAD.size], bytes(HEAD.size)):
        # Also where its head is gone, so that nobody knows how long it was.
        spoilt[second : second + HEAD.size] = head
        path.write_bytes(spoilt)
        assert list(stored_records(tmp_path, 0)) == [(0, b"one"), (2, b"three")]
        with WriteAheadLog(tmp_path) as log:
            assert list(log.read()) == [(0, b"one"), (2, b"three")]
            assert (log.next, log.torn) == (3, 0)


@pytest.mark.parametrize("damage", ["cut", "emptied", "deleted", "garbage"])
def test_numbers_that_were_given_are_not_given_again(tmp_path: Path, damage: str) -> None:
    with WriteAheadLog(tmp_path) as log:
        for payload in (b"one", b"two", b"three"):
            log.write(payload)
    path = files(tmp_path)[0]
    if damage == "deleted":
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes({"cut": whole[:-1], "emptied": b"", "garbage": b"garbage" * 30}[damage])
    left = [(0, b"one"), (1, b"two")] if damage == "cut" else []
    for _ in range(2):
        with WriteAheadLog(tmp_path, expected=3) as log:
            assert (log.next, list(log.read())) == (3, left)
    with WriteAheadLog(tmp_path, expected=3) as log:
        assert log.write(b"four") == 3
    with WriteAheadLog(tmp_path, expected=4) as log:
        assert list(log.read()) == [*left, (3, b"four")]
    assert list(stored_records(tmp_path, 1)) == [*left[1:], (3, b"four")]


def test_what_was_never_safe_may_have_lost_any_part_in_a_power_cut(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path) as log:
        log.append(b"one")
        log.sync()
        for payload in (b"two", b"three"):
            log.append(payload)
    path = files(tmp_path)[0]
    spoilt = bytearray(path.read_bytes())
    spoilt[HEAD.size + 3 : 2 * HEAD.size + 6] = bytes(HEAD.size + 3)
    path.write_bytes(spoilt)
    with WriteAheadLog(tmp_path) as log:
        assert contents(log) == [b"one"]


def test_an_earlier_file_that_is_broken_short_or_gone_is_left_out(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path, segment=1) as log:
        for payload in (b"one", b"two", b"three"):
            log.append(payload)
    middle = files(tmp_path)[1]
    whole = middle.read_bytes()
    for spoilt in (whole[:-1] + b"?", whole[:-1], b"", None):
        if spoilt is None:
            middle.unlink()
        else:
            middle.write_bytes(spoilt)
        with WriteAheadLog(tmp_path) as log:
            assert list(log.read()) == [(0, b"one"), (2, b"three")]


def test_a_file_that_breaks_while_the_log_is_open_is_an_error(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path) as log:
        log.write(b"one")
        path = files(tmp_path)[0]
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises(StateError, match=rf"{path.name} is broken at byte 0"):
            contents(log)


def test_numbers_go_on_after_everything_was_dropped(tmp_path: Path) -> None:
    with WriteAheadLog(tmp_path, segment=100) as log:
        for number in range(10):
            assert log.append(b"x" * 50) == number
        log.drop(5)
        assert 0 < log.first <= 5
        assert [number for number, _ in log.read(0)] == list(range(log.first, 10))
        log.drop(log.next)
        assert (log.first, log.next, log.size) == (10, 10, 0)
        log.drop(log.next)
        assert len(files(tmp_path)) == 1
    with WriteAheadLog(tmp_path) as log:
        assert (log.first, log.next) == (10, 10)
        assert log.append(b"y") == 10


def test_reading_from_anywhere(tmp_path: Path) -> None:
    count = 775
    with WriteAheadLog(tmp_path, segment=20_000) as log:
        for number in range(count):
            log.append(b"%d" % number)
    assert len(files(tmp_path)) > 1
    with WriteAheadLog(tmp_path) as log:
        starts = [0, 1, 256, count - 1, count, *random.Random(0).sample(range(count), 20)]
        for start in starts:
            assert list(log.read(start)) == [(number, b"%d" % number) for number in range(start, count)]


FULL = """
import resource, signal, sys
from pathlib import Path
from sensormend.stream.journal import WriteAheadLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = WriteAheadLog(Path(sys.argv[1]))
log.append(b"a" * 1000)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
for _ in range(3):
    try:
        log.append(b"b" * 1000)
    except OSError as error:
        print(error.errno, log.next, log.size, Path(log.folder, "0" * 20 + ".log").stat().st_size)
log.append(b"c" * 10)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append(b"d" * 1000)
log.close()
"""


def test_a_full_disk_costs_the_record_and_nothing_else(tmp_path: Path) -> None:
    # A limit on the size of files makes a write end in the middle, as a full disk does, and needs no rights.
    text = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert text.returncode == 0, text.stderr
    size = HEAD.size + 1000
    assert text.stdout.splitlines() == [f"27 1 {size} {size}"] * 3
    with WriteAheadLog(tmp_path) as log:
        assert contents(log) == [b"a" * 1000, b"c" * 10, b"d" * 1000]
        assert log.torn == 0


KILLED = """
import sys
from pathlib import Path
from sensormend.stream.journal import WriteAheadLog
log = WriteAheadLog(Path(sys.argv[1]), segment=100_000)
while True:
    number = log.append(b"%d," % log.next * 200)
    if number % 7 == 0:
        log.sync()
        print(number, flush=True)
"""


@pytest.mark.processes
def test_killed_at_any_moment(tmp_path: Path) -> None:
    numbers = random.Random(1)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            text = [process.stdout.readline() for _ in range(numbers.randrange(1, 40))]
            process.send_signal(signal.SIGKILL)
            text += process.stdout.readlines()
        # The last line may be half a line.
        reported = max(int(line) for line in text if line.endswith(b"\n"))
        with WriteAheadLog(tmp_path) as log:
            assert log.next > reported
            assert contents(log) == [b"%d," % number * 200 for number in range(log.next)]


def test_a_failed_sync_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = WriteAheadLog(tmp_path)
    log.append(b"one")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output error"):
            log.sync()
    for act in (log.sync, lambda: log.append(b"two")):
        with pytest.raises(StateError, match=r"failed \(Input/output error\): start again"):
            act()
    log.close()
    with WriteAheadLog(tmp_path) as again:
        assert contents(again) == [b"one"]


def test_before_another_file_is_begun_the_one_before_is_safe_and_after_it_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    log = WriteAheadLog(tmp_path, segment=10)
    log.append(b"more than ten bytes")
    monkeypatch.setattr(os, "fsync", noted)
    log.append(b"in another file")
    old, _ = files(tmp_path)
    folder = tmp_path.stat().st_ino
    assert synced == [old.stat().st_ino, folder]
    log.drop(1)
    assert synced[2:] == [folder]
    log.close()
