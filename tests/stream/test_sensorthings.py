"""Observations of a SensorThings server as a source, and their `resultQuality` as a sink."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from list_source import read_rows
from row_tables import YEAR_2019, network
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, MINUTE, REASONS
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Delivery
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import open_sink
from sensormend.stream.sources import open_source, sensorthings_source
from sensormend.stream.sources.sensorthings_source import SensorThingsSource
from sensormend.stream.sources.threaded import Lookback
from servers import free_port
from staged_readings import as_list
from things_server import ThingsServer, running_things
from waiting import wait_until
from watch_process import GRID, WatchProcess

START = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensorthings_source, "POLL", 10_000)


def read_all(source: SensorThingsSource, count: int) -> list[Arrived]:
    """Read until so many readings and rejections have come, and a moment longer for what must not come."""
    arrivals: list[Arrived] = []
    end, seen = time.monotonic() + 20, 0
    while seen < count and time.monotonic() < end:
        arrived = source.read(0.1)
        if not arrived.empty:
            arrivals.append(arrived)
            seen += len(arrived.readings) + len(arrived.rejected)
    assert seen == count
    assert source.read(0.15).empty
    return arrivals


def values_of(arrivals: list[Arrived]) -> list[float]:
    return [value for arrived in arrivals for value in arrived.readings.value.tolist()]


def some_streams(things: ThingsServer) -> list[int]:
    return [things.add_stream("S1", "temp", unit="°C"), things.add_stream("S1", "ph"), things.add_stream("S2", "temp")]


def test_observations_come_once_with_the_names_of_thing_and_property() -> None:
    with running_things(page=7) as (things, address):
        streams = some_streams(things)
        for hour in range(10):
            for stream in streams:
                things.observe(stream, START + timedelta(hours=hour), hour + stream / 10)
        with open_source(f"{address}", work=Path("nowhere")) as source:
            assert isinstance(source, SensorThingsSource)
            arrivals = read_all(source, 30)
            entries = [entry for arrived in arrivals for entry in as_list(arrived.readings)]
            assert entries[:3] == [
                ("S1", "temp", 1_714_521_600_000_000, 0.1),
                ("S1", "ph", 1_714_521_600_000_000, 0.2),
                ("S2", "temp", 1_714_521_600_000_000, 0.3),
            ]
            assert source.units["temp"] == "°C"
            things.observe(1, START + timedelta(hours=10), 5.0, START + timedelta(hours=11))
            things.observe(1, START + timedelta(hours=11), "broken")
            later = read_all(source, 2)
            assert values_of(later) == [5.0]
            mark = later[-1].mark
        with SensorThingsSource(f"{address}?lookback=90min", mark=mark) as source:
            assert values_of(read_all(source, 2)) == [5.0]


def test_late_ones_and_clocks_that_are_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    usual_end = Lookback.end

    def end_at_once(lookback: Lookback) -> None:
        usual_end(lookback)
        lookback.restart()

    monkeypatch.setattr(Lookback, "end", end_at_once)
    now = datetime.now(UTC)
    with running_things() as (things, address):
        some_streams(things)
        things.observe(1, now - timedelta(minutes=1), 1)
        with SensorThingsSource(f"{address}") as source:
            assert values_of(read_all(source, 1)) == [1.0]
            things.observe(2, now + timedelta(hours=9), 2)
            assert values_of(read_all(source, 1)) == [2.0]
            things.observe(3, now - timedelta(minutes=30), 3)
            things.observe(1, now + timedelta(seconds=2), 4)
            assert values_of(read_all(source, 2)) == [3.0, 4.0]


def test_a_server_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.stream.sources.threaded.PAUSES", (0.02, 0.05))
    with running_things(page=2) as (things, address):
        some_streams(things)
        things.failing = 5
        for hour in range(5):
            things.observe(1, START + timedelta(hours=hour), hour)
        with SensorThingsSource(f"{address}") as source:
            assert values_of(read_all(source, 5)) == [0.0, 1.0, 2.0, 3.0, 4.0]
            things.failing = 3
            things.observe(1, START + timedelta(hours=5), 5)
            assert values_of(read_all(source, 1)) == [5.0]
    with SensorThingsSource(f"sensorthings://127.0.0.1:{free_port()}/v1.1") as source:
        assert not source.connected


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sensorthings://host", "a server is like"),
        ("sensorthings:///v1.1", "a server is like"),
        ("sensorthings://host/v1.1?colour=red", "there is no 'colour'"),
        ("sensorthings://host/v1.1?poll=soon", "poll"),
    ],
)
def test_wrong_addresses(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        SensorThingsSource(address)


def test_logins() -> None:
    for login, header in (("me:a%40b@", "Basic bWU6YUBi"), (":token@", "Bearer token")):
        with running_things(login=header) as (things, address):
            things.add_stream("S1", "temp")
            things.observe(1, START, 1)
            with SensorThingsSource(address.replace("//", f"//{login}")) as source:
                assert values_of(read_all(source, 1)) == [1.0]
            with pytest.raises(ConfigError, match="401") as failed:
                SensorThingsSource(address.replace("//", "//me:hush@"))
            assert "hush" not in str(failed.value)
    shown = Settings.of(source="sensorthings://me:hush@h/v1.1", out="out", sinks=["sensorthings://me:hush@h/v1.1"])
    assert "hush" not in json.dumps(shown.to_dict())


def test_something_else_than_sensorthings() -> None:
    with running_things() as (_, address), pytest.raises(ConfigError, match="404"):
        SensorThingsSource(address.replace("v1.1", "elsewhere"))


def test_each_observation_gets_the_flag_of_its_row_and_once() -> None:
    with running_things(page=10) as (things, address):
        streams = [things.add_stream("s0", "temp"), things.add_stream("s1", "temp")]
        rows = network(1, 2, ("temp",))
        flag = np.resize(np.array([1, 4, 3, 2, 1, 9], rows.flag.dtype), len(rows))
        reason = np.where(flag == 4, REASONS.index("stuck"), 0).astype(rows.reason.dtype)
        rows = replace(rows, flag=flag, reason=reason)
        places: dict[int, int] = {}
        for place in range(len(rows)):
            moment = datetime.fromtimestamp(rows.time[place] / 1_000_000, UTC)
            for minutes in (0, 59):
                value = float(rows.value[place]) if not math.isnan(rows.value[place]) else 1.0
                places[things.observe(streams[rows.sensor[place]], moment + timedelta(minutes=minutes), value)] = place
        delivery = Delivery("final", YEAR_2019, YEAR_2019 + DAY, rows)
        with open_sink(address) as sink:
            assert set(sink.kinds) == {"final", "late"}
            sink.write(delivery)
            written = things.qualities()
            for identity, place in places.items():
                code, reasons = str(flag[place]), ["stuck"] if flag[place] == 4 else []
                expected = {"qualityCode": code, "resultQualifiers": reasons} if flag[place] in (1, 3, 4) else None
                assert written.get(identity) == expected
            count = len(things.patches)
            sink.write(delivery)
            assert len(things.patches) == count
            # A correction changes the Observations of its row alone.
            one = rows.taken(slice(0, 1))
            sink.write(Delivery("late", YEAR_2019, YEAR_2019 + DAY, replace(one, flag=np.array([4], flag.dtype))))
            assert things.patches[count:] == [identity for identity, place in places.items() if place == 0]
        assert all(entry["result"] is not None for entry in things.observations)


def test_a_reading_that_is_early_is_of_the_next_row() -> None:
    with running_things() as (things, address):
        stream = things.add_stream("s0", "temp")
        rows = network(1, 1, ("temp",))
        rows = replace(rows, flag=np.resize(np.array([1, 4], rows.flag.dtype), len(rows)), value=np.arange(24.0))
        for place in range(24):
            moment = datetime.fromtimestamp((rows.time[place] - 2 * MINUTE) / 1_000_000, UTC)
            things.observe(stream, moment, float(place))
        with open_sink(address) as sink:
            sink.write(Delivery("final", YEAR_2019, YEAR_2019 + DAY, rows))
        codes = [things.qualities()[identity]["qualityCode"] for identity in range(1, 25)]
        assert codes == ["1", "4"] * 12


def test_channels_that_the_server_does_not_have_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with running_things() as (things, address):
        rows = network(1, 2, ("temp",))
        stream = things.add_stream("other", "temp", name="s1")
        things.observe(stream, datetime(2019, 1, 1, tzinfo=UTC), 1.0)
        with open_sink(address) as sink:
            for _ in range(2):
                sink.write(Delivery("final", YEAR_2019, YEAR_2019 + DAY, rows))
        # s1 is the name of its Datastream.
        assert set(things.qualities()) == ({1} if rows.flag[rows.sensor == 1][0] in (1, 3, 4) else set())
    assert len([record for record in caplog.records if "has no Datastream" in record.message]) == 1


def test_what_is_refused_and_what_is_tried_again() -> None:
    rows = Delivery("final", YEAR_2019, YEAR_2019 + DAY, network(1, 1))
    with (
        running_things(login="Bearer x") as (_, address),
        open_sink(address) as sink,
        pytest.raises(RefusedError, match="401"),
    ):
        sink.write(rows)
    with open_sink(f"sensorthings://me:hush@127.0.0.1:{free_port()}/v1.1") as sink:
        with pytest.raises(SensormendError) as failed:
            sink.write(rows)
        assert not isinstance(failed.value, RefusedError)
        assert "hush" not in str(failed.value)


@pytest.mark.processes
def test_a_service_flags_its_own_source_and_survives_kills(tmp_path: Path) -> None:
    def observe(things: ThingsServer, hours: range) -> None:
        for hour in hours:
            for sensor, stream in enumerate(streams):
                moment = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=hour)
                things.observe(stream, moment, round(20 + math.sin(hour / 4) + sensor / 10, 3))

    with running_things(page=50) as (things, address):
        streams = [things.add_stream(f"S{number}", "temp") for number in range(4)]
        words = (f"{address}?poll=1s", tmp_path / "out", *GRID, "--valid", "temp=-40,50", "--sink", address)
        for part in range(4):
            with WatchProcess(*words) as running:
                running.connected()
                observe(things, range(20 * part, 20 * part + 20))
                time.sleep(0.3 * part)
                running.kill()
        with WatchProcess(*words) as running:
            running.connected()
            observe(things, range(80, 123))
            wait_until(lambda: len(list((tmp_path / "out" / "data").glob("date=2024-05-05/*.parquet"))) == 1)
            running.delivered()
            assert running.stop() == 0
            assert not running.lines_with("Traceback")
        rows = read_rows(tmp_path / "out")
        assert len(rows) >= 5 * 24 * 4
        assert (rows.n[: 5 * 24 * 4] == 1).all()


def test_the_sensor_can_be_the_name_of_the_datastream() -> None:
    with running_things() as (things, address):
        things.observe(things.add_stream("S1", "temp", name="low"), START, 1)
        things.observe(things.add_stream("S1", "temp", name="high"), START + timedelta(hours=1), 2)
        with SensorThingsSource(address, Options.of(sensor="Datastream.name")) as source:
            entries = [entry for arrived in read_all(source, 2) for entry in as_list(arrived.readings)]
    assert [(entry[0], entry[3]) for entry in entries] == [("low", 1.0), ("high", 2.0)]
