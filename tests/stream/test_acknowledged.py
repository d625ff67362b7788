"""The record of what was acknowledged: the newest whole one counts, whatever was torn."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sensormend.stream.acknowledged import SLOT, Acknowledged


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    with Acknowledged(path) as file:
        assert file.record == {}
        for number in range(5):
            file.write({"number": number})
    with Acknowledged(path) as file:
        assert file.record == {"number": 4}
        file.write({"number": 5})
    assert (Acknowledged.read(path) or {})["number"] == 5
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
        record = Acknowledged.read(path) or {}
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
            assert (Acknowledged.read(path) or {})["number"] == 1
        file.write({"number": 2})
    assert (Acknowledged.read(path) or {})["number"] == 2


def test_garbage_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    assert Acknowledged.read(path) is None
    for content in (b"", bytes(2 * SLOT), b"\xff" * 2 * SLOT, b"0" * 100, b"00000000 {}"):
        path.write_bytes(content)
        assert Acknowledged.read(path) is None
    with Acknowledged(path) as file:
        file.write({"number": 9})
    assert (Acknowledged.read(path) or {})["number"] == 9
