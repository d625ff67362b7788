import os
import shutil
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from list_source import ListSource, hourly, run_service, settings
from output_folders import FIRST, small_output
from sensormend.errors import InputError
from sensormend.files import is_locked, locked
from sensormend.io.folder import data_files, file_rows
from sensormend.io.metadata import write_json
from sensormend.io.target import export
from sensormend.pipeline.health import LETTERS
from sensormend.readings import DAY, HOUR, NOTHING, SECOND, Readings
from sensormend.stream.arrivals import Arrived, clock
from sensormend.stream.service import Service
from sensormend.views.matrix import matrix
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader, utc
from sensormend.views.sensors import sensor_page, sensor_view
from sensormend.views.series import series
from simulated_city import START, city_readings


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".nc"])
def test_a_single_file_shows_the_same_as_a_folder(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "mended"
    small_output(folder, sensors=5, days=6, variables=("temp", "wind"))
    single = export(folder, tmp_path / f"mended{ending}")
    meta = tmp_path / f"mended{ending}.meta"
    meta.mkdir()
    for name in ("faults.csv", "sensors.csv", "run.json"):
        shutil.copy(folder / name, meta / name)
    with OutReader(folder) as one, OutReader(single) as other:
        assert matrix(one) == matrix(other)
        assert replace(network_overview(one), name="", version=0) == replace(
            network_overview(other), name="", version=0
        )
        assert series(one, "S02", "wind") == series(other, "S02", "wind")
        laid_out = other.folder
    assert not laid_out.exists()


def test_what_is_no_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such output"):
        OutReader(tmp_path / "nothing")
    with pytest.raises(InputError, match="was not written by sensormend clean or watch"):
        OutReader(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_among_the_rows_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    small_output(tmp_path / "mended", sensors=2, days=3)
    pipe = next(tmp_path.glob("mended/data/*")) / "part-20190101T000000.parquet"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"part-.*\.parquet is not a regular file"):
        data_files(tmp_path / "mended")


def part_of(days: float, sensors: int = 6) -> list[Readings]:
    readings = city_readings(sensors=sensors, days=30)
    return hourly(readings.taken(readings.time < START + round(days * DAY)), 6)


class Halting(ListSource):
    """Readings after which somebody stops the service, when it has shown them: nothing is closed."""

    def __init__(self, parts: list[Readings], service: list[Service]) -> None:
        super().__init__(parts, live=True)
        self._service, self._last = service, int(parts[-1].time.max()) // HOUR * HOUR
        self._deadline = monotonic() + 30

    def read(self, wait: float) -> Arrived:
        arrived = super().read(wait)
        if arrived is None:
            shown = self._service[0].out / "state" / "provisional.parquet"
            # An hour is shown when it is over, which the last one is not.
            if monotonic() > self._deadline or file_rows(shown).time.max() >= self._last - HOUR:
                self._service[0].stop()
            sleep(0.02)
            return Arrived(NOTHING, clock())
        return arrived


def stopped(out: Path, days: float) -> None:
    """Watch a feed up to some moment, and stop."""
    service: list[Service] = []
    service.append(Service(settings(out), lambda mark, memory: Halting(part_of(days), service)))
    service[0].run()


def test_provisional_values_come_before_the_first_period_is_over(tmp_path: Path) -> None:
    stopped(tmp_path / "out", 0.75)
    with OutReader(tmp_path / "out") as reader:
        assert reader.archive is None
        overview = network_overview(reader)
        assert overview.provisional_from is not None
        assert overview.filled is None
        name = sensor_page(reader).items[0].sensor
        shown = series(reader, name)
        assert shown.provisional_from == shown.time[0]
        assert matrix(reader).provisional == 1
        assert sensor_view(reader, name).sentence


def test_what_is_provisional_follows_what_is_final(tmp_path: Path) -> None:
    stopped(tmp_path / "out", 12.5)
    with OutReader(tmp_path / "out") as reader:
        name = reader.summaries[0].sensor
        shown = series(reader, name, start=START, end=START + 20 * DAY)
        assert reader.final() == START + 12 * DAY
        assert shown.provisional_from == (START + 12 * DAY) / SECOND
        assert np.diff(shown.time).tolist() == [3600] * (len(shown.time) - 1)
        assert len(shown.time) > 12 * 24
        health_matrix = matrix(reader)
        assert (health_matrix.cells, health_matrix.provisional) == (13, 1)
        assert all(LETTERS[line.cells[-1]] != "nothing" for line in health_matrix.rows)
        assert network_overview(reader).provisional_from is not None
        (tmp_path / "out" / "state" / "alerts.json").unlink()
        heard = max(time for time, value in zip(shown.time, shown.value, strict=True) if value is not None)
        assert sensor_view(reader, name).heard == utc(round(heard * SECOND)), (
            "though sensors.csv and alerts end with the day"
        )


def test_changes_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.views.reader.REFRESH_SECONDS", 0.0)
    run_service(tmp_path / "out", part_of(8))
    with OutReader(tmp_path / "out") as reader:
        seen = reader.version
        reader.refresh()
        assert reader.since(seen) == []
        before = network_overview(reader)
        run_service(tmp_path / "out", part_of(12))
        reader.refresh()
        assert reader.version > seen
        assert {"rows", "run", "sensors"} <= set(reader.since(seen))
        after = network_overview(reader)
        assert after.version > before.version
        assert (after.last or "") > (before.last or "")


def test_a_look_is_asked_often_and_looks_seldom(tmp_path: Path) -> None:
    small_output(tmp_path / "out", sensors=2, days=2)
    with OutReader(tmp_path / "out") as reader:
        seen = reader.version
        write_json(tmp_path / "out" / "run.json", {"command": "clean"})
        reader.refresh()
        assert reader.version == seen, "it looked a moment ago"


def test_a_watch_that_is_writing_is_live(tmp_path: Path) -> None:
    small_output(tmp_path / "out", sensors=2, days=2)
    (tmp_path / "out" / "state").mkdir()
    with OutReader(tmp_path / "out") as reader:
        seen = [reader.live]
        with locked(tmp_path / "out" / "state" / "lock", "taken"):
            seen.append(reader.live)
        assert [*seen, reader.live] == [False, True, False]
    assert not is_locked(tmp_path / "nowhere")


def test_a_new_sensor_has_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.views.reader.REFRESH_SECONDS", 0.0)
    small_output(tmp_path / "out", sensors=2, days=2)
    with OutReader(tmp_path / "out") as reader:
        assert len(sensor_page(reader).items) == 2
        small_output(tmp_path / "out", sensors=3, days=3)
        reader.refresh()
        assert len(sensor_page(reader).items) == 3
        shown = series(reader, "S02", start=FIRST, end=FIRST + 3 * DAY)
        assert len(shown.time) == 72
        assert shown.time[-1] == (FIRST + 3 * DAY - HOUR) / SECOND
