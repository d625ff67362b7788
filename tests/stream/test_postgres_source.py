"""A table of a real PostgreSQL server as a live source: every row once, whoever writes, whatever is killed."""

from __future__ import annotations

import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.stream.arrivals import Arrived, Source
from sensormend.stream.settings import Settings
from sensormend.stream.sources import open_source, postgres_source
from sensormend.stream.sources.postgres_source import PostgresSource
from sensormend.stream.sources.threaded import Lookback
from servers import Postgres, restartable_postgres, running_postgres
from staged_readings import as_list
from torture import END, ReferenceArchive, assert_same_as_archive, feed, wait_for_end
from waiting import wait_until
from watch_process import GRID, ForkServer, WatchProcess

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.server

TABLE = """
    CREATE TABLE {} (id bigserial PRIMARY KEY, station text, time timestamptz, temp float8, humidity float4, note text)
"""
NEW_TABLE = "CREATE TABLE {} (time timestamptz NOT NULL, sensor text NOT NULL, value float8)"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with restartable_postgres() as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_source, "POLL", 0.02)


def ask(server: Postgres, query: str, values: Any = None) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(query, values)


def read_all(source: Source, count: int, seconds: float = 20) -> list[Arrived]:
    """Read until so many readings and rejections have come, and a moment longer for what must not come."""
    arrivals: list[Arrived] = []
    end, seen = time.monotonic() + seconds, 0
    while seen < count and time.monotonic() < end:
        arrived = source.read(0.1)
        assert arrived is not None
        if not arrived.empty:
            arrivals.append(arrived)
            seen += len(arrived.readings) + len(arrived.rejected)
    assert seen == count
    after = source.read(0.15)
    assert after is not None
    assert after.empty
    return arrivals


def values_of(arrivals: list[Arrived]) -> list[float]:
    return [value for arrived in arrivals for value in arrived.readings.value.tolist()]


def entries_of(arrivals: list[Arrived]) -> list[Any]:
    return [entry for arrived in arrivals for entry in as_list(arrived.readings)]


def test_rows_come_once_and_in_order_also_after_a_restart(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_source, "PAGE", 3)
    ask(server, TABLE.format("plain"))
    insert = "INSERT INTO plain (station, time, temp, humidity, note) SELECT 's' || i % 2, "
    ask(
        server,
        insert + "'2024-01-01 00:00-05'::timestamptz + i * interval '1 h', i, NULL, 'x' FROM generate_series(0, 9) i",
    )
    address = f"{server.address}?table=plain"
    with PostgresSource(address) as source:
        arrivals = read_all(source, 10)
        first = entries_of(arrivals)
        assert first[0] == ("s0", "temp", 1_704_085_200_000_000, 0.0)
        assert [entry[3] for entry in first] == [float(n) for n in range(10)]
        assert all(arrived.mark for arrived in arrivals)
        ask(server, insert + "now(), 10, 50, 'x' FROM generate_series(0, 0) i")
        assert values_of(read_all(source, 2)) == [10.0, 50.0]
    with PostgresSource(address, mark=arrivals[1].mark) as source:
        assert values_of(read_all(source, 6)) == [6.0, 7.0, 8.0, 9.0, 10.0, 50.0]


def test_a_row_whose_transaction_ends_later_is_not_left_out(server: Postgres) -> None:
    ask(server, TABLE.format("crossed"))
    insert = "INSERT INTO crossed (station, time, temp) VALUES ('a', now(), %s)"
    with psycopg.connect(server.address) as slow, PostgresSource(f"{server.address}?table=crossed") as source:
        slow.execute(insert, [1.0])
        ask(server, insert, [2.0])
        arrived = source.read(0.3)
        assert arrived.empty
        slow.commit()
        assert values_of(read_all(source, 2)) == [1.0, 2.0]
        slow.execute(insert, [3.0])
        ask(server, insert, [4.0])
        slow.rollback()
        assert values_of(read_all(source, 1)) == [4.0]


def test_a_partition_that_is_written_to_directly_counts_as_the_table(server: Postgres) -> None:
    ask(server, "CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, sensor text, time timestamptz, "
        "value float8) PARTITION BY LIST (sensor); CREATE TABLE part_a PARTITION OF parts FOR VALUES IN ('a');"
        "CREATE TABLE part_b PARTITION OF parts FOR VALUES IN ('b')")  # fmt: skip
    with psycopg.connect(server.address) as slow, PostgresSource(f"{server.address}?table=parts") as source:
        slow.execute("INSERT INTO part_a (id, sensor, time, value) VALUES (1, 'a', now(), 1.0)")
        ask(server, "INSERT INTO parts (id, sensor, time, value) OVERRIDING SYSTEM VALUE VALUES (2, 'b', now(), 2.0)")
        assert source.read(0.3).empty
        slow.commit()
        assert values_of(read_all(source, 2)) == [1.0, 2.0]


def end_at_once(lookback: Lookback) -> None:
    """End a walk, so that the next one looks back again."""
    usual_end(lookback)
    lookback.restart()


usual_end = Lookback.end


def test_a_table_without_numbers_is_read_by_its_times(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_source, "PAGE", 4)
    ask(server, NEW_TABLE.format("timed"))
    insert = (
        "INSERT INTO timed SELECT now() - interval '1 h' + i * interval '1 min', 'a', i FROM generate_series(0, 9) i"
    )
    ask(server, insert)
    address = f"{server.address}?table=timed&lookback=5min"
    monkeypatch.setattr(Lookback, "end", end_at_once)
    with PostgresSource(address) as source:
        arrivals = read_all(source, 10)
        assert values_of(arrivals) == [float(n) for n in range(10)]
        mark = arrivals[-1].mark
        # Late, at a time that was there, and ahead of the clock: the last keeps back nothing that comes after it.
        ask(
            server,
            "INSERT INTO timed VALUES (%s::timestamptz - interval '150 s', 'b', 20), (%s, 'c', 21)",
            [mark, mark],
        )
        assert sorted(values_of(read_all(source, 2))) == [20.0, 21.0]
        ask(server, "INSERT INTO timed VALUES (now() + interval '5 h', 'd', 30)")
        assert values_of(read_all(source, 1)) == [30.0]
        ask(server, "INSERT INTO timed VALUES (now() + interval '1 s', 'a', 31)")
        assert values_of(read_all(source, 1)) == [31.0]
    # After a restart the lookback comes again, and nothing older.
    with PostgresSource(address, mark=mark) as source:
        assert sorted(values_of(read_all(source, 10)))[-4:] == [20.0, 21.0, 30.0, 31.0]


def test_the_trigger_of_the_documentation_announces_rows(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_source, "POLL_NOTIFIED", 60.0)
    ask(server, TABLE.format("readings"))
    page = Path(__file__).parents[2] / "docs" / "sources-and-sinks.md"
    (written,) = re.findall(r"```sql\n(CREATE FUNCTION.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    ask(server, written)
    with PostgresSource(f"{server.address}?table=readings&notify=new_readings") as source:
        time.sleep(0.2)
        for number in range(3):
            ask(server, f"INSERT INTO readings (station, time, temp) VALUES ('a', now(), {number})")
            assert values_of(read_all(source, 1, 5)) == [number]


def test_bad_rows_are_refused_alone(server: Postgres) -> None:
    ask(server, "CREATE TABLE bad (id int PRIMARY KEY, sensor text, time text, value text)")
    ask(server, "INSERT INTO bad VALUES (1, 'a', '2024-01-01', '1.5'), (2, 'a', 'never', '2'), "
        "(3, NULL, '2024-01-01', '3'), (4, 'a', '2024-01-02', 'NaN'), (5, 'a', '2024-01-03', 'high')")  # fmt: skip
    with open_source(f"{server.address}?table=bad", work=Path("nowhere")) as source:
        arrivals = read_all(source, 5)
    assert len(values_of(arrivals)) == 2
    (rejected,) = (arrived.rejected for arrived in arrivals)
    assert [one.reason for one in rejected] == ["not a time", "no sensor", "not a number"]
    assert {one.where for one in rejected} == {"bad, id 1 to 5"}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?table=nowhere", "there is no table nowhere"),
        ("?table=wrong&by=seq", "the table has no column seq; it has sensor, value"),
        ("?table=wrong", "name the column that grows with every row"),
        ("", "name the table"),
        ("?table=wrong&lookback=long", "lookback"),
    ],
)
def test_what_cannot_be_read_is_said_at_once(server: Postgres, query: str, why: str) -> None:
    ask(server, "CREATE TABLE IF NOT EXISTS wrong (sensor text, value float8)")
    with pytest.raises(ConfigError, match=why):
        PostgresSource(server.address + query)


def test_a_database_or_a_user_that_is_not_there(server: Postgres) -> None:
    for address in (server.address.replace("/postgres", "/nowhere"), server.address.replace("tester", "nobody")):
        with pytest.raises(ConfigError, match="does not exist"):
            PostgresSource(f"{address}?table=plain")


def test_a_port_that_never_answers_is_named_before_it_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sensormend.stream")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.time()
        PostgresSource(f"postgresql://me@{address}/db?table=plain&by=id&connect_timeout=2").close()
    first, second = caplog.records[:2]
    assert (address in first.getMessage(), first.created - begin < 1) == (True, True)
    assert (second.levelname, second.created - begin > 1.5) == ("WARNING", True)


def test_a_table_is_not_its_own_source() -> None:
    address = "postgresql://me:secret@host/db?table=readings"
    with pytest.raises(ConfigError, match="would read what is written") as raised:
        Settings.of(source=f"{address}&by=id", out="out", sinks=[address])
    assert "secret" not in str(raised.value)
    Settings.of(source=f"{address}&by=id", out="out", sinks=[address.replace("readings", "mended")])


def test_a_server_that_goes_away_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.stream.sources.threaded.PAUSES", (0.05, 0.1))
    with restartable_postgres() as server:
        ask(server, TABLE.format("away"))
        insert = "INSERT INTO away (station, time, temp) VALUES ('a', now(), %s)"
        address = f"{server.address}?table=away"
        with PostgresSource(address) as source:
            ask(server, insert, [1.0])
            assert values_of(read_all(source, 1)) == [1.0]
            server.stop()
            wait_until(lambda: not source.connected)
            # It is absent at the start as well.
            with PostgresSource(address) as second:
                assert not second.connected
                server.start()
                ask(server, insert, [2.0])
                assert values_of(read_all(source, 1)) == [2.0]
                assert source.connected
                assert values_of(read_all(second, 2)) == [1.0, 2.0]


def test_closing_does_not_wait_for_a_transaction(server: Postgres) -> None:
    ask(server, TABLE.format("held"))
    with psycopg.connect(server.address) as slow:
        slow.execute("INSERT INTO held (station, time, temp) VALUES ('a', now(), 1)")
        ask(server, "INSERT INTO held (station, time, temp) VALUES ('a', now(), 2)")
        source = PostgresSource(f"{server.address}?table=held")
        assert source.read(0.3).empty
        started = time.monotonic()
        source.close()
        assert time.monotonic() - started < 2.0
        assert not source._thread.is_alive()


def test_columns_are_named_by_options(server: Postgres) -> None:
    ask(server, "CREATE TABLE named (id int PRIMARY KEY, who int, seen bigint, a float8, b float8)")
    ask(server, "INSERT INTO named VALUES (1, 7, 1704067200, 1.5, 9)")
    options = Options.of(sensor="who", time="seen", variables=["a"])
    with PostgresSource(f"{server.address}?table=named", options) as source:
        assert entries_of(read_all(source, 1)) == [("7", "a", 1_704_067_200_000_000, 1.5)]


SENSORS, DAYS, KILLS = 8, 16, 12


@pytest.mark.processes
def test_killed_at_random_moments_while_transactions_cross(tmp_path: Path) -> None:
    """Every row is in OUT exactly once: the rows are those of the archive, bit by bit."""
    network = ReferenceArchive(feed(SENSORS, DAYS), tmp_path, DAYS)
    readings = network.readings
    rows = [
        (readings.sensors[sensor], f"{moment}Z", value)
        for sensor, moment, value in zip(
            readings.sensor.tolist(),
            readings.time.astype("datetime64[us]").astype("datetime64[s]"),
            readings.value.tolist(),
            strict=True,
        )
    ]
    chance, out, log = random.Random(5), tmp_path / "out", tmp_path / "log"
    hurried = threading.Event()
    with running_postgres() as address, ForkServer() as processes:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE feed (id bigserial PRIMARY KEY, sensor text, time text, value float8)")

        def write() -> None:
            """Insert the rows in transactions of which two are open at once."""
            insert = "INSERT INTO feed (sensor, time, value) VALUES (%s, %s, %s)"
            with psycopg.connect(address) as one, psycopg.connect(address) as other:
                for start in range(0, len(rows), 40):
                    one.cursor().executemany(insert, rows[start : start + 20])
                    other.cursor().executemany(insert, rows[start + 20 : start + 40])
                    other.commit()
                    hurried.wait(0.08)
                    one.commit()
                one.execute(insert, ("a", END, 0.0))
                one.commit()

        words = (f"{address}?table=feed", out, *GRID)
        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(KILLS):
            number = processes.watch(*words, log=log, checkpoint=0.15)
            time.sleep(chance.uniform(0.1, 1.2))
            assert processes.kill(number), log.read_text()
        hurried.set()
        writer.join(60)
        with WatchProcess(*words) as last:
            last.connected()
            wait_for_end(out)
            assert last.stop() == 0
            assert not last.lines_with("Traceback")
    assert (out / "rejected.csv").read_text().count(END) == 1
    assert_same_as_archive(out, network)
