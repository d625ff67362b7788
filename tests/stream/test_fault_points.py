"""Killed before, in and after every write, fsync and rename: nothing lost, nothing twice, rows as without the kill."""

from __future__ import annotations

import csv
import os
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_points import Points
from list_source import assert_same_rows, read_rows
from sensormend.io.metadata import read_json
from sensormend.stream.integrity import inspect

pytestmark = pytest.mark.processes

EVERY = os.environ.get("SENSORMEND_EVERY_POINT") == "1"
"""Each point, and not only one of each kind: some thousand runs instead of some hundred."""


class Undisturbed:
    """The run to which nothing happens: its results, and the points that it passes."""

    def __init__(self, points: Points, folder: Path) -> None:
        self.out, self.deliveries_file = folder / "undisturbed", folder / "deliveries"
        self.points = points.listed(self.out, self.deliveries_file)
        self.rows, self.tables = read_rows(self.out), tables(self.out)
        self.deliveries = set(self.deliveries_file.read_text().splitlines())

    def chosen(self, kinds: str = "") -> list[tuple[str, int]]:
        """Return points by name and by which of that name it is: one of each kind, some early and some late."""
        which, names = Counter[str](), dict[str, list[tuple[str, int]]]()
        for point in self.points:
            which[point] += 1
            if point.startswith(kinds):
                names.setdefault(re.sub(r"\d+", "#", point), []).append((point, which[point]))
        if EVERY:
            return [entry for entries in names.values() for entry in entries]
        return [entries[zlib.crc32(name.encode()) % len(entries)] for name, entries in names.items()]


def tables(out: Path) -> dict[str, list[list[str]]]:
    """Return the tables beside the rows; when something was refused depends on the clock."""
    result = {}
    for name in ("faults.csv", "sensors.csv", "rejected.csv"):
        with (out / name).open(newline="") as file:
            result[name] = [row[name == "rejected.csv" :] for row in csv.reader(file)]
    return result


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Points]:
    with Points(tmp_path_factory.mktemp("points")) as points:
        yield points


@pytest.fixture(scope="module")
def undisturbed(points: Points) -> Undisturbed:
    return Undisturbed(points, points.folder)


def test_all_that_is_written_is_seen(undisturbed: Undisturbed) -> None:
    """The store, rows, kept readings, and the tables."""
    kinds = {re.sub(r"\d+", "#", point) for point in undisturbed.points}
    assert kinds >= {
        "write state/store.sqlite", "fsync state/store.sqlite",
        "write state/store.sqlite-wal", "fsync state/store.sqlite-wal", "truncate state/store.sqlite-wal",
        "write state/acknowledged", "fsync state/acknowledged",
        "rename data/date=#-#-#/part-#T#.parquet", "write data/date=#-#-#/part-#T#.parquet.new",
        "rename data/date=#-#-#/part-#T#-#T#.parquet", "rename state/kept/#.kept",
        "rename faults.csv", "write rejected.csv", "rename state/provisional.parquet", "rename run.json",
    }  # fmt: skip
    assert undisturbed.rows.flag.size
    assert any("faulty" in line for line in undisturbed.deliveries)
    assert any(line.startswith("late") for line in undisturbed.deliveries)


def check(points: Points, undisturbed: Undisturbed, out: Path, reported: Path, where: str) -> None:
    """Hold a run that goes on after a kill to end as if nothing had happened."""
    # A kill damages nothing.
    if out.exists():
        assert [damage.sentence for damage in inspect(out).damage] == [], where
    assert points.run(out, reported) == 0, f"{where}\n{points.log.read_text()[-3000:]}"
    try:
        assert_same_rows(read_rows(out), undisturbed.rows)
        assert tables(out) == undisturbed.tables
        deliveries = reported.read_text().splitlines()
        assert set(deliveries) == undisturbed.deliveries
        # A delivery that was made when it was killed may be made again, and no other.
        assert len(deliveries) <= len(undisturbed.deliveries) + where.count(" (") + where.count(", then")
    except AssertionError as error:
        raise AssertionError(f"after a kill {where}: {error}") from error
    assert "damage" not in read_json(out / "run.json"), where
    assert not inspect(out).damage, where
    halves = list(out.rglob("*.new"))
    assert not halves, where


@pytest.mark.parametrize("mode", ["before", "after", "torn", "after, and in recovery"])
def test_killed(points: Points, undisturbed: Undisturbed, tmp_path: Path, mode: str) -> None:
    first, _, again = mode.partition(", and ")
    chosen = undisturbed.chosen("write" if first == "torn" else "")
    others = undisturbed.chosen()
    if first == "after" and not EVERY:
        # After one point is before the next one.
        chosen = chosen[:: 3 if again else 2]
    hit = recovering = 0
    for number, (point, which) in enumerate(chosen):
        out, reported = tmp_path / f"out-{number}", tmp_path / f"deliveries-{number}"
        reported.touch()
        hit += points.run(out, reported, first, point, which) == -9
        where = f"{first} {point} ({which})"
        if again and out.exists():
            # Killed once more at the first point of another kind, which may be one that only a restart passes.
            other = others[(7 * number + 3) % len(others)][0]
            recovering += points.run(out, reported, first, other, 1) == -9
            where += f", then {first} {other}"
        check(points, undisturbed, out, reported, where)
        shutil.rmtree(out)
    # Some depend on when a thread has its turn.
    assert hit >= 0.9 * len(chosen)
    assert not again or recovering >= 0.2 * len(chosen)
