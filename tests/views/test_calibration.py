"""Distances from the network: against a slow computation, and on networks whose drift is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from output_folders import FIRST, drifting_output, small_output, write_output
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.readings import DAY
from sensormend.recovery import BoolArray, FloatArray
from sensormend.views.calibration import (
    MIN_CORRELATION,
    PREDICTORS,
    REFERENCE_DAYS,
    WEEK,
    calibration,
    distances,
    weekly,
)
from sensormend.views.reader import OutReader


def slowly(read: FloatArray, cleaned: FloatArray, trusted: BoolArray) -> FloatArray:
    """Compute the distances as the module's docstring has them, one value at a time."""
    channels, days = read.shape
    expected = np.full(read.shape, np.nan)
    for i in range(channels):
        likeness = []
        for j in range(channels):
            pairs = [
                (cleaned[i, t + 1] - cleaned[i, t], cleaned[j, t + 1] - cleaned[j, t])
                for t in range(days - 1)
                if np.isfinite([cleaned[i, t], cleaned[i, t + 1], cleaned[j, t], cleaned[j, t + 1]]).all()
            ]
            likeness.append(float(np.corrcoef(np.array(pairs).T)[0, 1]) if j != i and len(pairs) > 13 else -1.0)
        order = sorted(range(channels), key=lambda j: -likeness[j])[:PREDICTORS]
        others = [j for j in order if likeness[j] > MIN_CORRELATION]
        others = others if len(others) > 1 else [j for j in range(channels) if j != i]
        reference = [t for t in range(days) if trusted[i, t] and np.isfinite(read[i, t])][:REFERENCE_DAYS]
        for t in range(days):
            apart = []
            for j in others:
                usual = np.median([x for x in (read[i, reference] - cleaned[j, reference]) if np.isfinite(x)])
                apart.append(read[i, t] - cleaned[j, t] - usual)
            known = [one for one in apart if np.isfinite(one)]
            expected[i, t] = np.median(known) if known else np.nan
    return expected


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_distances_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    days = 12 * WEEK
    shared = random.normal(0, 2, (3, days))
    cleaned = random.normal(0, 1, (9, 3)) @ shared + random.normal(0, 0.5, (9, days))
    read = cleaned + np.where(random.random((9, days)) < 0.2, random.normal(0, 3, (9, days)), 0)
    read[random.random(read.shape) < 0.1] = np.nan
    cleaned[3, :30] = np.nan
    read[3, :30] = np.nan
    trusted = random.random(read.shape) < 0.8
    expected = slowly(read, cleaned, trusted)
    assert distances(read, cleaned, trusted) == pytest.approx(expected, nan_ok=True, abs=1e-9)
    weeks = expected.reshape(9, -1, WEEK)
    medians = [[np.median(week[np.isfinite(week)]) if np.isfinite(week).sum() > 1 else np.nan for week in row]
               for row in weeks]  # fmt: skip
    assert weekly(expected) == pytest.approx(np.array(medians), nan_ok=True)


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drifting_output(tmp_path_factory.mktemp("calibration") / "city")


def test_a_drift_without_flags_is_first(drifting: Path) -> None:
    with OutReader(drifting) as reader:
        answer = calibration(reader)
    assert (answer.cell_days, answer.cells, answer.total) == (7, 22, 10)
    assert answer.start == str(np.datetime64("2024-01-01") + 160 - 22 * 7)
    first, second = answer.rows[:2]
    # It began on day 90 with 0.05 a day: 3.0 in the middle of the last three weeks.
    assert first.sensor == "S07"
    assert first.now == pytest.approx(0.05 * (160 - 90 - 10.5), abs=0.25)
    assert first.rate == pytest.approx(0.05 * 30, abs=0.3)
    assert first.times is not None
    assert second.times is not None
    assert first.times > 5 > second.times
    early = [one for one in first.distance[:12] if one is not None]
    assert max(map(abs, early)) < 0.4, "and it was at zero before"
    assert first.reach is not None
    assert first.reach >= max(map(abs, [one for one in first.distance if one is not None]))


def test_a_drift_is_seen_weeks_before_it_is_large(drifting: Path) -> None:
    with OutReader(drifting) as reader:
        # Five weeks after it began it is 1.75 off, and no row is flagged.
        early = calibration(reader, end=FIRST + 125 * DAY)
    assert early.rows[0].sensor == "S07"
    assert early.rows[0].times is not None
    assert early.rows[0].times > 3


def test_a_level_that_people_took_as_right_is_counted_anew(drifting: Path) -> None:
    note = Note("S07", FIRST + 153 * DAY, np.iinfo(np.int64).max // 4, "recalibrated")
    with OutReader(drifting) as reader:
        before = calibration(reader)
        after = calibration(reader, notes=Maintenance((note,)))
    one, other = (next(line for line in answer.rows if line.sensor == "S07") for answer in (before, after))
    assert one.distance[:-2] == other.distance[:-2]
    assert other.distance[-1] == pytest.approx(0, abs=0.2)
    assert one.distance[-1] == pytest.approx(3.3, abs=0.4)


def test_what_is_back_is_not_far(tmp_path: Path) -> None:
    # S01 is stuck for five days, and then right again for three weeks.
    written = small_output(tmp_path / "city", sensors=8, days=20)
    value, flag, reason = (
        np.concatenate([part, sound], axis=-1)
        for part, sound in (
            (written.value, written.cleaned),
            (written.flag, np.ones_like(written.flag)),
            (written.reason, 0 * written.reason),
        )
    )
    truth = np.concatenate([written.cleaned, written.cleaned], axis=-1)
    write_output(tmp_path / "back", written.sensors, written.variables, value, truth, flag, reason, 24)
    for name in ("sensors.csv", "faults.csv", "run.json"):
        (written.path / name).rename(tmp_path / "back" / name)
    with OutReader(tmp_path / "back") as reader:
        row = next(line for line in calibration(reader).rows if line.sensor == "S01")
    assert row.now == pytest.approx(0, abs=0.5)
    assert max(abs(one or 0) for one in row.distance) > 1


def test_pages_and_filters_have_everything_once(drifting: Path) -> None:
    with OutReader(drifting) as reader:
        whole = calibration(reader)
        parts = [line for offset in range(0, 10, 3) for line in calibration(reader, offset=offset, limit=3).rows]
        assert [line.sensor for line in parts] == [line.sensor for line in whole.rows]
        assert [line.sensor for line in calibration(reader, search="s07").rows] == ["S07"]
        assert calibration(reader, offset=9, limit=3).next is None


def test_too_few_weeks_or_sensors_say_nothing(tmp_path: Path) -> None:
    with OutReader(small_output(tmp_path / "short", days=20).path) as reader:
        assert (calibration(reader).cells, calibration(reader).rows) == (0, [])
    with OutReader(small_output(tmp_path / "two", sensors=2, days=40).path) as reader:
        answer = calibration(reader)
    assert [(line.now, line.times) for line in answer.rows] == [(None, None)] * 2
    assert all(set(line.distance) == {None} for line in answer.rows)


def test_variables_are_separate(tmp_path: Path) -> None:
    with OutReader(small_output(tmp_path / "river", days=40, variables=("temp", "wind")).path) as reader:
        answer = calibration(reader, variable="wind")
        assert {line.variable for line in answer.rows} == {"wind"}
        assert set(answer.usual) == {"wind"}
        assert calibration(reader).total == 24
        stuck = calibration(reader, variable="temp").rows[0]
    assert stuck.sensor == "S01", "who is stuck at the end is far off"
