"""The same feed gives the same rows: restarted at every step, and however many readings come at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from list_source import assert_same_rows, by_time, read_rows, settings
from sensormend.io.folder import Archive
from sensormend.readings import DAY, HOUR, Readings, Rows
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.deliveries import Alert
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.stream import AlertsRaised, PeriodFinal, Stream
from simulated_city import START, city_readings

DAYS, SENSORS = 12, 6


def straggling(sensors: int, days: int, seed: int = 1) -> Readings:
    """Return a feed in which some readings come hours after their period is final, and sensors join, leave and return.

    Which of them are late depends on what came before them.
    """
    readings, random = city_readings(sensors, days), np.random.default_rng(seed)
    joining = (readings.sensor % 4 == 1) & (readings.time < START + days // 3 * DAY)
    away = (readings.sensor % 4 == 2) & (abs(readings.time - (START + days // 2 * DAY)) < 2 * DAY)
    readings = by_time(readings.taken(~joining & ~away))
    delay = np.where(random.random(len(readings)) < 0.2, random.uniform(0, 8 * HOUR, len(readings)), 0)
    return readings.taken(np.argsort(readings.time + delay, kind="stable"))


class CutSource(Source):
    """A feed in arrivals of any size; its mark is the number of readings so far."""

    live = False

    def __init__(self, readings: Readings, mark: Any, sizes: Iterator[int]) -> None:
        self._readings, self._next, self._sizes = readings, mark or 0, sizes

    def read(self, wait: float) -> Arrived | None:
        start, size = self._next, next(self._sizes)
        if start >= len(self._readings):
            return None
        self._next = min(start + size, len(self._readings))
        return Arrived(self._readings.taken(slice(start, self._next)), clock(), mark=self._next)


def sizes(seed: int, largest: int) -> Iterator[int]:
    random = np.random.default_rng(seed)
    while True:
        yield int(random.integers(1, largest))


@pytest.fixture(scope="module")
def readings() -> Readings:
    return straggling(SENSORS, DAYS)


@pytest.fixture(scope="module")
def undisturbed(readings: Readings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OUT of a run that nothing happens to, in which readings come one by one."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    service = Service(settings(out), lambda mark, memory: CutSource(readings, mark, iter(lambda: 1, 0)))
    service.run()
    assert service.status().late > 20
    return out


def derived(out: Path) -> list[Path]:
    """Return the files of an OUT that are made anew from its state."""
    return [
        out / "sensors.csv",
        out / "run.json",
        *(out / "state" / name for name in ("provisional.parquet", "alerts.json")),
    ]


@pytest.mark.parametrize("how", ["stopped", "stopped, derived files lost", "broken off"])
def test_restarted_at_every_step(
    readings: Readings, undisturbed: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start takes one arrival, or a few before it breaks off, and they are cut differently than before."""
    out, starts = tmp_path / "out", 0
    while not _takes(settings(out), readings, starts, breaks_off=how == "broken off"):
        starts += 1
        assert starts < 300
        # Where it breaks off there is a checkpoint at every third start only.
        monkeypatch.setattr("sensormend.stream.service.CHECKPOINT_INTERVAL", 0.0 if starts % 3 == 0 else 1e9)
        for path in derived(out) if "lost" in how else ():
            path.unlink(missing_ok=True)
    assert starts > 20
    _assert_same(out, undisturbed)


def _takes(chosen: Settings, readings: Readings, start: int, *, breaks_off: bool) -> bool:
    """Take one arrival and stop, or break off after two; return whether the feed has ended."""
    arrivals, ended = 0, False

    class Few(CutSource):
        def read(self, wait: float) -> Arrived | None:
            nonlocal arrivals, ended
            arrived = super().read(wait)
            ended, arrivals = arrived is None, arrivals + 1
            if not breaks_off:
                service.stop()
            elif arrivals > 2 and not ended:
                raise RecursionError
            return arrived

    service = Service(chosen, lambda mark, memory: Few(readings, mark, sizes(start, 30)))
    with suppress(RecursionError):
        service.run()
    return ended


@pytest.mark.parametrize("largest", [5, 100, 2000])
def test_the_size_of_arrivals_does_not_matter(
    readings: Readings, undisturbed: Path, tmp_path: Path, largest: int
) -> None:
    Service(settings(tmp_path / "out"), lambda mark, memory: CutSource(readings, mark, sizes(0, largest))).run()
    _assert_same(tmp_path / "out", undisturbed)


def _assert_same(out: Path, undisturbed: Path) -> None:
    assert_same_rows(read_rows(out), read_rows(undisturbed))
    one, other = Archive(out), Archive(undisturbed)
    assert sorted(map(str, one.faults())) == sorted(map(str, other.faults()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("grid", [{"step": "1h", "period": "1d"}, {}])
def test_a_stream_gives_the_same_for_all_sizes(seed: int, grid: dict[str, str]) -> None:
    """Also without a given grid, which is then detected from what has come by a certain reading."""
    readings = straggling(9, 10, seed)
    expected = _events(readings, iter(lambda: 1, 0), grid)
    for largest in (7, 400):
        rows, alerts = _events(readings, sizes(seed, largest), grid)
        assert len(rows) == len(expected[0])
        for one, other in zip(rows, expected[0], strict=True):
            assert_same_rows(one, other)
        assert alerts == expected[1]


def _events(readings: Readings, arrivals: Iterator[int], grid: dict[str, str]) -> tuple[list[Rows], list[Alert]]:
    chosen = settings(Path("out"), **{"step": None, "period": None, **grid}).options
    stream, rows, alerts = Stream(chosen), list[Rows](), list[Alert]()
    source = CutSource(readings, 0, arrivals)
    while (arrived := source.read(0)) is not None:
        for event in stream.take(arrived):
            if isinstance(event, PeriodFinal):
                rows.append(event.cleaned_period.rows)
            elif isinstance(event, AlertsRaised):
                alerts += event.alerts
    return rows, alerts
