"""The state folder: there is always a whole state in it, and only one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensormend.archive.checkpoint import Checkpoint


def keep(checkpoint: Checkpoint, name: str, text: str) -> None:
    with checkpoint.changing(name) as place:
        (place / "state").write_text(text)


def content_of(folder: Path) -> str:
    place = Checkpoint(folder).place
    assert place is not None
    assert [path for path in folder.iterdir() if path.is_dir()] == [place]
    return (place / "state").read_text()


def test_a_state_of_the_same_name_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for number in range(4):
        keep(Checkpoint(tmp_path), "record-7", str(number))
        assert content_of(tmp_path) == str(number)


def _keep_half(checkpoint: Checkpoint, name: str) -> None:
    with checkpoint.changing(name) as place:
        (place / "state").write_text("half")
        assert (checkpoint.folder / "record-7" / "state").read_text() == "whole"
        raise OSError("the disk is full")


@pytest.mark.parametrize("name", ["record-7", "record-8"])
def test_one_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, name: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    keep(checkpoint, "record-7", "whole")
    with pytest.raises(OSError, match="full"):
        _keep_half(checkpoint, name)
    assert content_of(tmp_path) == "whole"


def test_what_a_killed_save_left_is_removed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    keep(checkpoint, "record-7", "old")
    (tmp_path / "record-9").mkdir()
    (tmp_path / "record-9" / "state").write_text("half")
    (tmp_path / "kept").mkdir()
    keep(checkpoint, "record-12", "new")
    (tmp_path / "kept").rmdir()
    assert content_of(tmp_path) == "new"
