"""The service: the same rows as the archive's, whatever happens on the way."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from list_source import ListSource, assert_same_rows, concatenated, hourly, read_rows, run_service, settings
from sensormend.archive.cleaning import clean_archive
from sensormend.errors import ConfigError, SensormendError
from sensormend.io.folder import Archive, file_metadata, file_rows
from sensormend.io.metadata import read_json
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, NOTHING, REASONS, Flag, Readings
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.service import Service
from sensormend.stream.stream import AlertsRaised, Event, LateReadings, ReadingsRejected
from simulated_city import START, city_readings, write_csv

DAYS = 14


@pytest.fixture(scope="module")
def readings() -> Readings:
    return city_readings(8, DAYS)


@pytest.fixture(scope="module")
def archive(readings: Readings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `clean --one-pass` makes of the same readings."""
    folder = tmp_path_factory.mktemp("archive")
    file = write_csv(folder / "readings.csv", readings)
    clean_archive(file, folder / "out", Options.of(step="1h", period="1d", one_pass=True))
    return folder / "out"


def test_live_and_archive_give_the_same(readings: Readings, archive: Path, tmp_path: Path) -> None:
    run_service(tmp_path / "out", hourly(readings))
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(archive))
    live, whole = Archive(tmp_path / "out"), Archive(archive)
    assert sorted(map(str, live.faults())) == sorted(map(str, whole.faults()))
    assert list(map(str, live.sensors())) == list(map(str, whole.sensors()))
    assert live.run()["command"] == "watch"


def test_the_order_within_the_grace_does_not_matter(readings: Readings, archive: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    parts = hourly(readings)
    shuffled = concatenated(parts)
    jitter = random.uniform(0, 5 * HOUR, len(shuffled))
    shuffled = shuffled.taken(np.argsort(shuffled.time + jitter, kind="stable"))
    pieces = [shuffled.taken(slice(at, at + 37)) for at in range(0, len(shuffled), 37)]
    service = run_service(tmp_path / "out", pieces, grace="5h")
    assert service.status().late == 0
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(archive))


def test_repeated_readings_count_once(readings: Readings, archive: Path, tmp_path: Path) -> None:
    parts = hourly(readings, 3)
    again = [part for pair in zip(parts, parts, strict=True) for part in pair]
    # Some of them much later, when their period is over.
    again += parts[5:9]
    service = run_service(tmp_path / "out", [*again, *parts[20:24]])
    assert service.status().late == 0
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(archive))


@pytest.mark.parametrize("every", [1, 7, 40])
def test_a_service_that_is_started_again_goes_on(readings: Readings, archive: Path, tmp_path: Path, every: int) -> None:
    """Stopped after every so many parts: a clean end, which keeps what is open."""
    parts, out, starts = hourly(readings, 6), tmp_path / "out", 0
    while not starts or read_json(out / "run.json")["periods"] < DAYS:
        starts += 1
        assert starts < 100
        _stopped_after(every, parts, out)
    assert starts > 1
    assert_same_rows(read_rows(out), read_rows(archive))


def _stopped_after(count: int, parts: list[Readings], out: Path) -> None:
    def open_source(mark: Any, memory: object) -> Source:
        begun = 0 if mark is None else mark + 1
        return ListSource(parts, mark, stop=lambda number: service.stop() if number >= begun + count else None)

    service = Service(settings(out), open_source)
    service.run()


def test_the_journal_makes_good_what_no_checkpoint_has(
    readings: Readings, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies again and again without a checkpoint, and once in a while one is made."""
    parts, out = hourly(readings, 6), tmp_path / "out"

    def dies(number: int) -> None:
        if number % 11 == 10 and number not in died:
            died.add(number)
            raise RecursionError

    died: set[int] = set()
    for _ in range(30):
        service = Service(settings(out), lambda mark, memory: ListSource(parts, mark, stop=dies))
        monkeypatch.setattr("sensormend.stream.service.CHECKPOINT_INTERVAL", 0.05 if len(died) % 2 else 1e9)
        try:
            service.run()
        except RecursionError:
            continue
        break
    assert len(died) > 3
    assert_same_rows(read_rows(out), read_rows(archive))
    assert sorted(map(str, Archive(out).faults())) == sorted(map(str, Archive(archive).faults()))


def test_a_late_reading_corrects_its_own_row_only(readings: Readings, archive: Path, tmp_path: Path) -> None:
    parts = hourly(readings, 24)
    row = int(np.flatnonzero(parts[3].time % DAY == 5 * HOUR)[2])
    missing = np.arange(len(parts[3])) != row
    late = parts[3].taken(~missing)
    early = [*parts[:3], parts[3].taken(missing), *parts[4:]]
    run_service(tmp_path / "without", early)
    service = run_service(tmp_path / "out", [*early[:8], late, *early[8:]])
    assert service.status().late == 1
    without, now = read_rows(tmp_path / "without"), read_rows(tmp_path / "out")
    here = np.flatnonzero((now.time == late.time[0]) & (now.sensor == now.sensors.index(late.sensors[late.sensor[0]])))
    assert here.size == 1
    assert now.value[here[0]] == late.value[0]
    assert (now.n[here[0]], now.flag[here[0]]) == (1, Flag.NOT_EVALUATED)
    assert REASONS[now.reason[here[0]]] == "late"
    assert without.flag[here[0]] == Flag.MISSING
    for name in ("value", "n", "flag", "reason"):
        column: Any = getattr(now, name).copy()
        column[here] = getattr(without, name)[here]
        now = replace(now, **{name: column})
    assert_same_rows(now, without)


def test_impossible_times_are_counted_and_stored(readings: Readings, archive: Path, tmp_path: Path) -> None:
    parts = hourly(readings, 6)
    odd = parts[30].taken(slice(0, 3))
    wrong = Readings(odd.sensors, odd.variables, odd.sensor, odd.variable,
                     np.array([0, clock() + 2 * DAY, START - 400 * DAY]), odd.value)  # fmt: skip
    refused: list[ReadingsRejected] = []
    service = run_service(
        tmp_path / "out", [*parts[:30], wrong, *parts[30:]],
        lambda event: refused.append(event) if isinstance(event, ReadingsRejected) else None,
    )  # fmt: skip
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(archive))
    reasons = [one.reason for event in refused for one in event.rejected]
    assert sorted(reasons) == ["a time in the future", "a time too long ago", "a time too long ago"]
    assert service.status().rejected == 3
    table = polars.read_csv(tmp_path / "out" / "rejected.csv")
    assert table["reason"].to_list() == reasons
    assert "1970-01-01" in table["text"].to_list()[1]


def test_one_clock_in_the_future_closes_nothing(readings: Readings, archive: Path, tmp_path: Path) -> None:
    parts = hourly(readings)
    future = parts[100].taken(slice(0, 1))
    future = Readings(
        future.sensors, future.variables, future.sensor, future.variable, future.time + 20 * DAY, future.value
    )
    late: list[Event] = []
    run_service(
        tmp_path / "out", [*parts[:100], future, *parts[100:]],
        lambda event: late.append(event) if isinstance(event, LateReadings) else None,
    )  # fmt: skip
    assert not late
    live, whole = read_rows(tmp_path / "out"), read_rows(archive)
    assert_same_rows(live.taken(live.time < START + DAYS * DAY), whole)


class Ticking(Source):
    """Readings as a live network sends them, then silence."""

    def __init__(self, parts: list[Readings], silence: float, stop: threading.Event) -> None:
        self._parts, self._ends, self._stop = iter(parts), None, stop
        self._silence = silence
        self._until: float | None = None

    def read(self, wait: float) -> Arrived | None:
        part = next(self._parts, None)
        if part is not None:
            return Arrived(part, clock())
        if self._until is None:
            self._until = time.monotonic() + self._silence
        if time.monotonic() > self._until:
            self._stop.set()
        time.sleep(min(wait, 0.05))
        return Arrived(NOTHING, clock())


def test_a_silent_network_is_closed_by_the_clock(tmp_path: Path) -> None:
    """Steps of a tenth of a second: the whole network falls silent, and is said to be, and its periods are closed."""
    random, count = np.random.default_rng(1), 6
    start = clock() // 1_000_000 * 1_000_000 - 10_000_000
    names, events = tuple("abcdef"), list[Event]()
    parts = []
    for step in range(95):
        value = 10 + np.sin(step / 10 * 2 * np.pi) + random.normal(0, 0.1, count)
        moment = np.full(count, start + step * 100_000)
        parts.append(Readings(names, ("",), np.arange(count), np.zeros(count, np.int64), moment, value))
    over = threading.Event()
    chosen = settings(tmp_path / "out", step="0.1s", period="1s", grace="0.1s")
    service = Service(chosen, lambda mark, memory: Ticking(parts, 20.0, over),
                      on_event=lambda event: _look(event, events, service, over))  # fmt: skip
    service.run()
    alerts = [alert for event in events if isinstance(event, AlertsRaised) for alert in event.alerts]
    assert [alert.sensors for alert in alerts if alert.state == "silent"] == [names], "it is one incident"
    rows = read_rows(tmp_path / "out")
    assert rows.time.max() > parts[-1].time.max()
    assert (rows.flag[rows.time > parts[-1].time.max()] == Flag.MISSING).all()


def _look(event: Event | None, events: list[Event], service: Service, over: threading.Event) -> None:
    if event is not None:
        events.append(event)
    silent = any(alert.state == "silent" for one in events if isinstance(one, AlertsRaised) for alert in one.alerts)
    rows = service.stream.closed is not None and silent
    if over.is_set() or (rows and service.stream.watermark.time > service.stream.watermark.newest + 2_500_000):
        service.stop()


def test_provisional_rows_are_those_of_a_day_that_is_not_over(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings), tmp_path / "out"
    stopped: list[int] = []

    def stop(number: int) -> None:
        # Ten hours into the last day; what was provisional before is shown at most every second in a replay.
        if number == 24 * (DAYS - 1) + 10:
            time.sleep(1.2)
        if number == 24 * (DAYS - 1) + 11:
            stopped.append(number)
            service.stop()

    service = Service(settings(out), lambda mark, memory: ListSource(parts, mark, stop=stop))
    service.run()
    assert stopped
    provisional = out / "state" / "provisional.parquet"
    rows, about = file_rows(provisional), file_metadata(provisional)
    day = START + (DAYS - 1) * DAY
    today = rows.taken(rows.time >= day)
    assert set((today.time - day) // HOUR) == set(range(10))
    assert about["reached"].startswith("2020-01-14T10")
    truth = contents_of(parts[24 * (DAYS - 1) : 24 * (DAYS - 1) + 10])
    for sensor, moment, value in zip(today.sensor, today.time, today.value, strict=True):
        expected = truth.get((today.sensors[sensor], int(moment)))
        assert (np.isnan(value) and expected is None) or value == expected
    assert np.isfinite(today.cleaned).all()
    assert not Archive(out).rows(start=day).time.size


def contents_of(parts: list[Readings]) -> dict[tuple[str, int], float]:
    return {
        (part.sensors[sensor], int(moment)): float(value)
        for part in parts
        for sensor, moment, value in zip(part.sensor, part.time, part.value, strict=True)
    }


def test_it_goes_on_from_an_archive(readings: Readings, tmp_path: Path) -> None:
    """Clean the first half, watch the second: as if all had been cleaned in one pass."""
    parts = hourly(readings, 24)
    half, rest = parts[:8], parts[8:]
    options = Options.of(step="1h", period="1d", one_pass=True)
    clean_archive(write_csv(tmp_path / "half.csv", concatenated(half)), tmp_path / "old", options)
    clean_archive(write_csv(tmp_path / "whole.csv", readings), tmp_path / "whole", options)
    run_service(tmp_path / "out", rest, step=None, period=None, start_from=tmp_path / "old")
    whole = read_rows(tmp_path / "whole")
    assert_same_rows(read_rows(tmp_path / "out"), whole.taken(whole.time >= START + 8 * DAY))
    assert (read_rows(tmp_path / "out").flag == Flag.NOT_EVALUATED).mean() < 0.05


def test_one_thing_may_have_a_name_in_the_feed_and_none_in_the_archive(readings: Readings, tmp_path: Path) -> None:
    parts = hourly(readings, 24)
    options = Options.of(step="1h", period="1d", one_pass=True)
    clean_archive(write_csv(tmp_path / "half.csv", concatenated(parts[:8])), tmp_path / "old", options)
    named = [replace(part, variables=("temp",)) for part in parts[8:]]
    service = run_service(tmp_path / "named", named, start_from=tmp_path / "old", variables=["temp"])
    run_service(tmp_path / "plain", parts[8:], start_from=tmp_path / "old")
    assert service.status().rejected == 0
    # Which one it is is not guessed: humidity would be judged as if it were temperature.
    service = run_service(tmp_path / "unsaid", named, start_from=tmp_path / "old")
    assert service.status().rejected == sum(map(len, named))
    assert_same_rows(read_rows(tmp_path / "named"), read_rows(tmp_path / "plain"))


def test_what_people_write_down_holds_from_then_on(readings: Readings, tmp_path: Path) -> None:
    notes = tmp_path / "maintenance.csv"
    notes.write_text("sensor,from,to,action\n")
    parts = hourly(readings, 24)

    def write(number: int) -> None:
        if number == 8:
            notes.write_text("sensor,from,to,action\ns01,2020-01-11,2020-01-12,ignore\n")
            service._maintenance._read_at = 0.0  # as if five seconds had passed

    service = Service(
        settings(tmp_path / "out", maintenance=notes), lambda mark, memory: ListSource(parts, mark, stop=write)
    )
    service.run()
    rows = Archive(tmp_path / "out").rows("s01")
    noted = (rows.time >= START + 10 * DAY) & (rows.time < START + 11 * DAY) & (rows.n > 0)
    assert noted.any()
    assert (rows.flag[noted] == Flag.NOT_EVALUATED).all()
    assert (rows.flag[(rows.time >= START + 12 * DAY) & (rows.n > 0)] == Flag.GOOD).any()


def test_the_grid_is_detected_where_it_is_not_given(readings: Readings, archive: Path, tmp_path: Path) -> None:
    run_service(tmp_path / "out", hourly(readings, 6), step=None, period=None)
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(archive))


def test_old_dates_go_where_that_is_asked(readings: Readings, tmp_path: Path) -> None:
    run_service(tmp_path / "out", hourly(readings, 24), keep="5d", late_for="3d")
    dates = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert dates == [f"date=2020-01-{day:02d}" for day in range(10, 15)]
    assert len(list((tmp_path / "out" / "state" / "kept").glob("*.kept"))) <= 4


def test_an_out_that_something_else_wrote_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="written by clean"):
        run_service(archive, [])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x")
    with pytest.raises(ConfigError, match="did not write"):
        run_service(tmp_path / "mine", [])
    assert [entry.name for entry in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_two_do_not_watch_into_one_out(readings: Readings, tmp_path: Path) -> None:
    def second(number: int) -> None:
        if number == 2:
            with pytest.raises(SensormendError, match="another sensormend is watching"):
                run_service(tmp_path / "out", [])

    parts = hourly(readings, 24)[:4]
    Service(settings(tmp_path / "out"), lambda mark, memory: ListSource(parts, mark, stop=second)).run()


def test_another_grid_needs_another_out(readings: Readings, tmp_path: Path) -> None:
    run_service(tmp_path / "out", hourly(readings, 24)[:4])
    with pytest.raises(ConfigError, match="has a step of 1h, not 30min"):
        run_service(tmp_path / "out", [], step="30min")
