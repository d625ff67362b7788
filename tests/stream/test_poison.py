"""What is in the journal comes again after every start: nothing that arrives may end the service for ever."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from list_source import ListSource, assert_same_rows, by_time, concatenated, hourly, read_rows, run_service, settings
from sensormend import NetworkModel
from sensormend.archive.cleaning import clean_archive
from sensormend.errors import ConfigError, ValueRangeError
from sensormend.io.folder import Archive, file_rows
from sensormend.io.metadata import read_json
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, NOTHING, Flag, Readings
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.deliveries import Delivery, Sink
from sensormend.stream.delivery_worker import DeliveryWorker
from sensormend.stream.late import correct
from sensormend.stream.metrics import Metrics
from sensormend.stream.service import Service
from sensormend.stream.stream import Event, LateReadings, Problem, Stream
from simulated_city import START, city_readings, write_csv

DAYS = 10


@pytest.fixture(scope="module")
def readings() -> Readings:
    return city_readings(8, DAYS)


@pytest.fixture(scope="module")
def plain(readings: Readings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain") / "out"
    run_service(out, hourly(readings, 6))
    return out


def changed(part: Readings, row: int, **values: Any) -> Readings:
    columns = {name: getattr(part, name).copy() for name in ("sensor", "variable", "time", "value")}
    for name, value in values.items():
        columns[name][row] = value
    return Readings(part.sensors, part.variables, **columns)


@pytest.mark.parametrize("value", [1e40, -1e99, 1e300, np.inf, np.nan])
def test_a_value_that_cannot_be_ends_nothing(readings: Readings, tmp_path: Path, value: float) -> None:
    parts = hourly(readings, 6)
    parts[20] = changed(parts[20], 3, value=value)
    service = run_service(tmp_path / "out", parts)
    assert service.status().periods == DAYS
    run_service(tmp_path / "out", [])


def test_a_period_that_the_model_cannot_take_is_written_without_a_judgement(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever may go wrong in there: the days before and after are as they should be."""
    update = NetworkModel.update

    def fails(model: NetworkModel, *args: Any, **kwargs: Any) -> Any:
        if model.periods == 7 and not failed:
            failed.append(True)
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return update(model, *args, **kwargs)

    failed: list[bool] = []
    monkeypatch.setattr(NetworkModel, "update", fails)
    events: list[Event] = []
    with caplog.at_level(logging.WARNING):
        run_service(tmp_path / "out", hourly(readings, 24), lambda event: events.append(event) if event else None)
    assert [(event.error, event.details) for event in events if isinstance(event, Problem)] == [
        ("the network is not judged: Eigenvalues did not converge", {"start": "2020-01-08T00:00:00"})
    ]
    assert "Eigenvalues did not converge" in caplog.text
    rows = read_rows(tmp_path / "out")
    day = (rows.time >= START + 7 * DAY) & (rows.time < START + 8 * DAY)
    assert set(rows.flag[day]) <= {int(Flag.NOT_EVALUATED), int(Flag.MISSING)}
    here = day & (rows.n > 0)
    np.testing.assert_array_equal(rows.cleaned[here], rows.value[here])
    assert (rows.flag[rows.time >= START + 8 * DAY] == Flag.GOOD).mean() > 0.5


def test_one_reading_is_too_few_to_find_a_grid_and_more_may_follow(
    readings: Readings, plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = hourly(readings)[0].taken(slice(0, 1))
    for _ in range(2):
        with caplog.at_level(logging.WARNING):
            service = run_service(tmp_path / "out", [first], step=None, period=None)
        assert service.status().periods == 0
    assert "every sensor has a single reading" in caplog.text
    run_service(tmp_path / "out", [first, *hourly(readings, 6)], step=None, period=None)
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(plain))


@pytest.mark.parametrize(
    ("step", "message"), [("7min", "not a whole number of steps"), ("10s", "8,640 slots"), ("1d", "no two steps")]
)
def test_an_impossible_grid_is_refused_before_anything_is_stored(tmp_path: Path, step: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_service(tmp_path / "out", [], step=step)
    assert not (tmp_path / "out" / "state" / "store.sqlite").exists()


def test_limits_of_a_variable_that_has_not_come_yet(readings: Readings, tmp_path: Path) -> None:
    service = run_service(tmp_path / "out", hourly(readings, 24), valid={"humidity": [0, 100]})
    assert service.status().periods == DAYS


def test_a_clock_that_was_never_set_is_refused_also_beside_an_archive(readings: Readings, tmp_path: Path) -> None:
    parts = hourly(readings, 24)
    options = Options.of(step="1h", period="1d", one_pass=True)
    clean_archive(write_csv(tmp_path / "half.csv", parts[0]), tmp_path / "old", options)
    parts[1] = changed(parts[1], 0, time=3 * DAY)
    service = run_service(tmp_path / "out", parts[1:], start_from=tmp_path / "old")
    assert service.status().rejected == 1
    assert read_rows(tmp_path / "out").time.min() == START + DAY


def test_two_clocks_hours_in_the_future_make_no_reading_late(tmp_path: Path) -> None:
    many = city_readings(20, 6)
    future = np.isin(many.sensor, [3, 11])
    time_of = np.where(future, many.time + 10 * HOUR, many.time)
    many = Readings(many.sensors, many.variables, many.sensor, many.variable, time_of, many.value)
    order = np.lexsort((many.sensor, np.where(future, many.time - 10 * HOUR, many.time)))
    came = many.taken(order)
    moments = np.where(future, many.time - 10 * HOUR, many.time)[order]
    parts = [came.taken(moments == moment) for moment in np.unique(moments)]
    late: list[Event] = []
    run_service(tmp_path / "out", parts, lambda event: late.append(event) if isinstance(event, LateReadings) else None)
    assert not late


class Slow(Source):
    """Comes back after days, and its first message takes a while."""

    def __init__(self, parts: list[Readings], stop: Callable[[], None]) -> None:
        self._parts, self._stop = iter(parts), stop
        self._until = time.monotonic() + 0.6

    def read(self, wait: float) -> Arrived | None:
        if time.monotonic() < self._until:
            time.sleep(0.05)
            return Arrived(NOTHING, clock())
        part = next(self._parts, None)
        if part is None:
            self._stop()
            return Arrived(NOTHING, clock())
        return Arrived(part, clock())


def test_what_waited_while_we_were_away_is_not_late(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings, 6), tmp_path / "out"
    late: list[Event] = []
    first = Service(settings(out), lambda mark, memory: Slow(parts[:20], first.stop))
    first.run()
    second = Service(
        settings(out),
        lambda mark, memory: Slow(parts[20:], second.stop),
        on_event=lambda event: late.append(event) if isinstance(event, LateReadings) else None,
    )
    second.run()
    assert not late
    assert second.status().silent < 8


def test_a_mark_holds_for_the_source_that_gave_it(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings, 6), tmp_path / "out"
    run_service(out, parts[:20], source=str(tmp_path / "one"))
    service = run_service(out, parts, source=str(tmp_path / "other"))
    assert service.status().readings == sum(map(len, parts[:20])) + sum(map(len, parts))


class Noting(Sink):
    """Notes what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, int]] = []

    def write(self, delivery: Delivery) -> None:
        if delivery.kind != "provisional":
            self.given.append((delivery.kind, delivery.start))


def test_other_settings_after_a_crash_cost_no_delivery(readings: Readings, tmp_path: Path) -> None:
    """The journal is gone through again with another rule for alerts, so other events follow from it."""
    parts, out, sink = hourly(readings, 6), tmp_path / "out", Noting()

    def dies(number: int) -> None:
        if number == 30:
            raise RecursionError

    def service(after: int, stop: Callable[[int], None] | None) -> Service:
        workers = {"noting": lambda store: DeliveryWorker("noting", sink, store)}
        chosen = settings(out, after=after)
        return Service(chosen, lambda mark, memory: ListSource(parts, mark, stop=stop), workers=workers)

    with pytest.raises(RecursionError):
        service(1, dies).run()
    service(20, None).run()
    finals = [start for kind, start in sink.given if kind == "final"]
    assert sorted(set(finals)) == [START + day * DAY for day in range(DAYS)]


def test_a_broken_file_of_an_old_date_does_not_stop_the_service(
    readings: Readings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    run_service(out, hourly(readings, 6)[:12], period="6h")
    for date in (3, 4):
        spoilt = out / "data" / f"date=2020-01-{date:02d}"
        spoilt.mkdir(exist_ok=True)
        (spoilt / "part-20200101T000000.parquet").write_bytes(b"no parquet")
        (spoilt / "part-20200101T060000.parquet").write_bytes(b"no parquet")
    service = run_service(out, hourly(readings, 6), period="6h")
    assert service.status().periods >= 4 * DAYS - 12
    assert "cannot be put in order" in caplog.text


def test_a_longer_memory_does_not_bring_back_what_was_forgotten(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings, 24), tmp_path / "out"
    run_service(out, parts, late_for="2d")
    before = Archive(out).rows(start=START + 3 * DAY, end=START + 4 * DAY)
    late = changed(parts[3].taken(slice(0, 1)), 0, time=int(parts[3].time[0]) + 60_000_000)
    service = run_service(out, [*parts, late], late_for="30d")
    assert service.status().rejected == 1
    assert_same_rows(Archive(out).rows(start=START + 3 * DAY, end=START + 4 * DAY), before)


def test_readings_that_come_again_and_again_leave_nothing_behind(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings, 24), tmp_path / "out"
    run_service(out, parts)
    size = sum(file.stat().st_size for file in (out / "state" / "kept").iterdir())
    service = run_service(out, [*parts, *(parts[:9] * 5)])
    assert service.status().late == 0
    assert sum(file.stat().st_size for file in (out / "state" / "kept").iterdir()) == size


def test_many_late_readings_are_corrected_together(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logger that sends a month at once, a reading at a time."""
    corrected: list[int] = []

    def counted(*args: Any) -> Any:
        corrected.append(args[3])
        return correct(*args)

    monkeypatch.setattr("sensormend.stream.output.correct", counted)
    # On a busy machine a second may pass with every reading.
    monkeypatch.setattr("sensormend.stream.service.LATE_DELAY", 3600.0)
    parts = hourly(readings, 24)
    late = parts[4].sensor == 2
    rest = [*parts[:4], parts[4].taken(~late), *parts[5:]]
    alone = [parts[4].taken(np.flatnonzero(late)[row : row + 1]) for row in range(int(late.sum()))]
    service = run_service(tmp_path / "out", [*rest, *alone])
    assert service.status().late == len(alone) > 10
    assert len(corrected) <= 3
    rows = Archive(tmp_path / "out").rows("s02", START + 4 * DAY, START + 5 * DAY)
    assert (rows.n > 0).sum() == len(alone)


def test_notes_of_an_option_that_is_gone_do_not_hold(readings: Readings, tmp_path: Path) -> None:
    notes, parts = tmp_path / "maintenance.csv", hourly(readings, 24)
    notes.write_text("sensor,from,to,action\ns01,2020-01-08,,ignore\n")
    for out, then in (("forgotten", None), ("held", notes)):
        run_service(tmp_path / out, parts[:7], maintenance=notes)
        run_service(tmp_path / out, parts, maintenance=then)
    rows, held = (Archive(tmp_path / out).rows("s01", START + 8 * DAY) for out in ("forgotten", "held"))
    assert (held.flag[held.n > 0] == Flag.NOT_EVALUATED).all()
    assert (rows.flag[rows.n > 0] != Flag.NOT_EVALUATED).all()


def test_silent_days_before_a_day_that_fails_have_their_rows(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog that jumps over a gap, and a model that fails on the far side of it."""
    update = NetworkModel.update

    def fails(model: NetworkModel, *args: Any, **kwargs: Any) -> Any:
        if model.periods == 8:
            raise FloatingPointError("overflow")
        return update(model, *args, **kwargs)

    parts = hourly(readings, 24)
    monkeypatch.setattr(NetworkModel, "update", fails)
    run_service(tmp_path / "out", [*parts[:6], concatenated(parts[8:])])
    rows = read_rows(tmp_path / "out")
    days, counts = np.unique((rows.time - START) // DAY, return_counts=True)
    assert days.tolist() == list(range(DAYS))
    assert set(counts.tolist()) == {8 * 24}


def test_what_cannot_be_shown_ends_nothing(
    readings: Readings, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(model: NetworkModel, *args: Any, **kwargs: Any) -> Any:
        raise ValueRangeError("these readings look like directions")

    monkeypatch.setattr(NetworkModel, "estimate", fails)
    run_service(tmp_path / "out", hourly(readings, 6))
    assert_same_rows(read_rows(tmp_path / "out"), read_rows(plain))
    assert "no provisional values: these readings look like directions" in caplog.text


@pytest.mark.parametrize("spoilt", ["rows", "kept"])
def test_a_late_reading_of_a_day_whose_file_is_spoilt_ends_nothing(
    readings: Readings, tmp_path: Path, spoilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts, out = hourly(readings, 24), tmp_path / "out"
    run_service(out, parts)
    rows = out / "data" / "date=2020-01-05" / "part-20200105T000000.parquet"
    stored = sorted((out / "state" / "kept").iterdir())[4]
    (rows if spoilt == "rows" else stored).write_bytes(b"spoilt")
    late = changed(parts[4].taken(slice(0, 1)), 0, time=int(parts[4].time[0]) + 60_000_000)
    run_service(out, [*parts, late])
    # Rows that are set aside are not made again from one late reading, which has a row of its own.
    assert {"rows": "is damaged: a start sets it aside", "kept": "late readings correct nothing"}[spoilt] in caplog.text
    if spoilt == "rows":
        assert len(file_rows(rows)) == 1
    assert len(read_json(out / "run.json")["damage"]) == 1
    run_service(out, [*parts, late])
    assert len(read_json(out / "run.json")["damage"]) == 1


def test_a_shorter_memory_overwrites_nothing(readings: Readings, tmp_path: Path) -> None:
    parts, out = hourly(readings, 24), tmp_path / "out"
    run_service(out, parts)
    before = Archive(out).rows(start=START + 4 * DAY, end=START + 5 * DAY)
    run_service(out, parts, late_for="1d")
    late = changed(parts[4].taken(slice(0, 1)), 0, time=int(parts[4].time[0]) + 60_000_000)
    service = run_service(out, [*parts, late], late_for="1d")
    assert service.status().rejected == 1
    assert_same_rows(Archive(out).rows(start=START + 4 * DAY, end=START + 5 * DAY), before)


class Delayed(Source):
    """An hourly feed in a clock of its own, whose delay grows from nothing to four hours after six days."""

    def __init__(self, readings: Readings, moment: list[float]) -> None:
        self._readings, self._moment = readings, moment

    def read(self, wait: float) -> Arrived | None:
        self._moment[0] += 1800
        now = START + round(self._moment[0] * 1e6)
        if self._moment[0] > DAYS * 86400:
            return None
        delay = 0 if self._moment[0] <= 6 * 86400 else 4 * HOUR
        half = self._moment[0] % 3600 > 0
        times = self._readings.time
        here = (times > now - delay - HOUR) & (times <= now - delay)
        return Arrived(NOTHING if half else self._readings.taken(here), now)


def test_a_feed_that_becomes_slower_is_late_for_a_day_and_not_for_ever(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment, late = [0.0], dict[int, int]()
    monkeypatch.setattr("sensormend.stream.event_time.time.monotonic", lambda: moment[0])
    service = Service(
        settings(tmp_path / "out"),
        lambda mark, memory: Delayed(by_time(readings), moment),
        on_event=lambda event: late.update({event.period: 1}) if isinstance(event, LateReadings) else None,
    )
    service.run()
    assert len(late) <= 1


def test_a_restart_looks_for_the_grid_when_the_run_before_it_would_have() -> None:
    """What is found depends on when one looks, and is found for good."""
    random = np.random.default_rng(0)
    stream = Stream(Options())
    nothing = np.zeros(2, int)
    alone = Readings(("a", "b"), ("",), np.arange(2), nothing, np.full(2, START), np.ones(2))
    list(stream.take(Arrived(alone, START)))
    later = replace(alone, time=alone.time + 26 * HOUR, sensors=("c", "d"))
    assert [type(event) for event in stream.take(Arrived(later, START + 26 * HOUR))] == [Problem]
    twin = Stream(Options())
    twin.restore(*stream.state())
    for minute in range(0, 300, 5):
        time_of = np.full(2, START + 26 * HOUR + minute * 60_000_000)
        part = Readings(("a", "b"), ("",), np.arange(2), nothing, time_of, random.normal(size=2))
        for one in (stream, twin):
            list(one.take(Arrived(part, int(time_of[0]))))
        assert stream.grid == twin.grid
    assert stream.grid is not None


def test_corrections_at_the_end_are_delivered(readings: Readings, tmp_path: Path) -> None:
    parts = hourly(readings, 24)
    row = np.arange(len(parts[4])) == 7
    rest = [*parts[:4], parts[4].taken(~row), *parts[5:], parts[4].taken(row)]
    run_service(tmp_path / "out", rest)
    assert Archive(tmp_path / "out").run()["late"] == 1


def test_other_limits_and_variables_after_a_restart_are_refused_for_what_they_are(
    readings: Readings, tmp_path: Path
) -> None:
    run_service(tmp_path / "out", hourly(readings, 24)[:4])
    with pytest.raises(ConfigError, match="valid names variable 'humidity'"):
        run_service(tmp_path / "out", [], valid={"humidity": [0, 100]})
    with pytest.raises(
        ConfigError, match="knows one without a name, and not humidity; more variables need another OUT"
    ):
        run_service(tmp_path / "out", [], variables=["humidity"])


def test_what_waits_for_a_sink_is_logged_at_the_end(
    readings: Readings, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Sink):
        def write(self, delivery: Delivery) -> None:
            raise ConnectionError("nobody is there")

    monkeypatch.setattr("sensormend.stream.service.DRAIN_TIME", 0.1)
    workers = {"away": lambda store: DeliveryWorker("away", Away(), store)}
    parts = hourly(readings, 24)[:5]
    Service(settings(tmp_path / "out"), lambda mark, memory: ListSource(parts, mark), workers=workers).run()
    assert "away: 5 wait for it until the next start" in caplog.text


def test_an_out_is_where_its_path_leads(tmp_path: Path) -> None:
    """`a/..` of a folder that is not there is its parent, which is not empty."""
    (tmp_path / "letter.txt").write_text("x")
    with pytest.raises(ConfigError, match="did not write"):
        run_service(tmp_path / "nothing" / "..", [])
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]


def test_a_copy_without_its_state_cannot_go_on(readings: Readings, tmp_path: Path) -> None:
    run_service(tmp_path / "out", hourly(readings, 24)[:3])
    shutil.rmtree(tmp_path / "out" / "state")
    with pytest.raises(ConfigError, match="has lost its state"):
        run_service(tmp_path / "out", [])


def test_what_is_repeated_after_its_period_is_counted(readings: Readings, tmp_path: Path) -> None:
    parts, metrics = hourly(readings, 24), Metrics()
    source = [*parts, parts[2]]
    Service(settings(tmp_path / "out"), lambda mark, memory: ListSource(source, mark), metrics=metrics).run()
    assert metrics.repeated == len(parts[2])


def test_limits_of_what_will_never_come_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names variable 'tmep'; variables has temp"):
        run_service(tmp_path / "out", [], variables=["temp"], valid={"tmep": [0, 5]})
    with pytest.raises(ConfigError, match="interval is a share"):
        run_service(tmp_path / "out", [], interval=3.0)
    assert not (tmp_path / "out" / "state" / "store.sqlite").exists()
