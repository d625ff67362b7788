"""The manifest: what is missing or changed is noticed, what was merged or dropped since is not taken for damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.io.writing import RowWriter
from sensormend.readings import DAY
from sensormend.stream.integrity import Manifest
from sensormend.stream.output import compact_date, drop_dates

FIRST = YEAR_2019 // DAY


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """The manifest of a folder with a file per hour of two days."""
    rows, manifest = network(days=2), Manifest()
    with RowWriter(tmp_path) as writer:
        for hour in np.unique(rows.time).tolist():
            writer.write(rows.taken(rows.time == hour), start=hour)
        manifest.note(tmp_path, writer.unsynced)
    return manifest


def problems(manifest: Manifest, folder: Path) -> dict[str, str]:
    return dict(manifest.problems(folder))


def test_it_comes_back_from_json(manifest: Manifest) -> None:
    manifest.dates_from = FIRST
    assert Manifest.of(json.loads(json.dumps(manifest.to_dict()))) == manifest


def test_what_is_gone_or_changed_is_named(manifest: Manifest, tmp_path: Path) -> None:
    assert problems(manifest, tmp_path) == {}
    gone, longer, other, *_ = sorted(manifest.files)
    (tmp_path / gone).unlink()
    (tmp_path / longer).write_bytes((tmp_path / longer).read_bytes() + b"x")
    content = bytearray((tmp_path / other).read_bytes())
    content[50] ^= 1
    (tmp_path / other).write_bytes(content)
    assert problems(manifest, tmp_path) == {gone: "gone", longer: "damaged", other: "damaged"}
    # Only the sizes of older files are compared.
    assert dict(manifest.problems(tmp_path, limit=1)) == {gone: "gone", longer: "damaged"}


def test_what_was_merged_or_dropped_since_is_not_missing(manifest: Manifest, tmp_path: Path) -> None:
    rows = sum(entry[2] for entry in manifest.files.values())
    merged = compact_date(tmp_path, FIRST)
    assert merged is not None
    assert problems(manifest, tmp_path) == {}
    manifest.adopt(tmp_path, ())
    assert merged.relative_to(tmp_path).as_posix() in manifest.files
    assert len(manifest.files) == 25
    assert sum(entry[2] for entry in manifest.files.values()) == rows
    assert problems(manifest, tmp_path) == {}
    drop_dates(tmp_path, FIRST + 1)
    assert list(problems(manifest, tmp_path).values()) == ["gone"]
    manifest.dates_from = FIRST + 1
    assert problems(manifest, tmp_path) == {}
    manifest.adopt(tmp_path, ())
    assert len(manifest.files) == 24
