"""Results in a real PostgreSQL server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, HOUR, Rows
from sensormend.stream.deliveries import Delivery
from sensormend.stream.delivery_worker import DeliveryWorker, stop_all
from sensormend.stream.sinks import open_sink
from sensormend.stream.sinks.postgres_sink import PostgresSink
from sensormend.stream.store import Store
from servers import Postgres, restartable_postgres
from waiting import wait_until

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with restartable_postgres() as running:
        yield running


def ask(server: Postgres, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute(query)
        return [] if cursor.description is None else cursor.fetchall()


def day(rows: Rows, kind: Any = "final", health: list[Health] | None = None) -> Delivery:
    return Delivery(kind, YEAR_2019, YEAR_2019 + DAY, rows, health or [])


def one(value: float, n: int = 1, sensor: str = "s0", hour: int = 0) -> Rows:
    """Return one row."""
    row = network(1, 1).taken(slice(0, 1))
    numbers: Any = {name: np.array([value]) for name in ("value", "cleaned", "lower", "upper")}
    return replace(row, sensors=(sensor,), time=row.time + hour * HOUR, n=np.array([n], np.int32), **numbers)


def test_rows_are_there_as_they_are(server: Postgres) -> None:
    rows = network(1, 2, ("pm", "t"))
    with open_sink(f"{server.address}?table=plain") as sink:
        sink.write(day(rows))
        sink.write(day(rows))
    stored = ask(server, "SELECT * FROM plain ORDER BY sensor, variable, time")
    assert len(stored) == len(rows) == 96
    first = stored[0]
    assert first[:2] == ("s0", "pm")
    assert first[2].isoformat() == "2019-01-01T00:00:00+00:00"
    got = np.array([[np.nan if x is None else x for x in (*row[3:9],)] for row in stored])
    want = np.column_stack([rows.value, rows.n, rows.cleaned, rows.lower, rows.upper, rows.flag])
    np.testing.assert_array_equal(got, want)
    missing = np.isnan(rows.value)
    assert [row[3] is None for row in stored] == missing.tolist()
    assert {row[10] for row in stored} == {"observed", "estimated"}
    assert not any(row[11] for row in stored)


def test_final_late_and_provisional_rows_take_their_places(server: Postgres) -> None:
    asked = "SELECT value, n, provisional FROM places"
    with open_sink(f"{server.address}?table=places") as sink:
        sink.write(day(one(1.0), "provisional"))
        assert ask(server, asked) == [(1.0, 1, True)]
        sink.write(day(one(2.0), "provisional"))
        assert ask(server, asked) == [(2.0, 1, True)]
        sink.write(day(one(2.5)))
        assert ask(server, asked) == [(2.5, 1, False)]
        sink.write(day(one(3.0), "provisional"))
        assert ask(server, asked) == [(2.5, 1, False)]
        sink.write(day(one(2.7, n=2), "late"))
        assert ask(server, asked) == [(2.7, 2, False)]


def test_of_a_row_that_is_there_twice_the_last_holds(server: Postgres) -> None:
    twice = Rows.concatenate([one(1.0), one(2.0)])
    with open_sink(f"{server.address}?table=twice") as sink:
        sink.write(day(twice))
    assert ask(server, "SELECT value FROM twice") == [(2.0,)]


def test_how_sensors_are_is_in_a_table_of_its_own(server: Postgres) -> None:
    well, faulty = Health("a", "", "healthy", "", 0, DAY), Health("a", "", "faulty", "stuck", DAY, None)
    other = Health("b", "pm", "silent", "", DAY, HOUR)
    with open_sink(f"{server.address}#state.rows") as sink:
        with pytest.raises(RefusedError, match='schema "state" does not exist'):
            sink.write(day(one(1.0)))
        ask(server, "CREATE SCHEMA state")
        sink.write(day(one(1.0), health=[well, other]))
        sink.write(day(one(1.0), health=[faulty]))
        sink.write(Delivery("provisional", 0, 1, None, [other]))
    stored = ask(server, "SELECT sensor, variable, state, reason, since::text, heard::text FROM state.rows_health")
    assert sorted(stored) == [
        ("a", "", "faulty", "stuck", "1970-01-02 00:00:00+00", None),
        ("b", "pm", "silent", "", "1970-01-02 00:00:00+00", "1970-01-01 01:00:00+00"),
    ]


def test_names_and_times_of_all_kinds(server: Postgres) -> None:
    names = ["Robert'); DROP TABLE x;--", "tab\there\\N", "nul\0", "half\ud800", 'a "b" % {}', "\n"]
    table = '"Mixed ""Case""; --"'
    with PostgresSink(f"{server.address}?table={table.replace(' ', '%20').replace(';', '%3B')}") as sink:
        for name in names:
            sink.write(day(one(np.inf, sensor=name)))
        far = replace(one(1.0), time=np.array([-30_610_224_000_000_000 - 1]))
        sink.write(day(far))
    stored = ask(server, 'SELECT sensor, value, time::text FROM "Mixed ""Case""; --"')
    assert {row[0] for row in stored[:-1]} == {*names[:2], "nul\ufffd", "half\ufffd", *names[4:]}
    assert stored[0][1] == np.inf
    assert stored[-1][2] == "0999-12-31 23:59:59.999999+00"


def test_a_table_made_by_hand_that_does_not_fit_gets_one_line(server: Postgres) -> None:
    ask(server, "CREATE TABLE byhand (sensor text, time timestamptz, value real)")
    with open_sink(f"{server.address}?table=byhand") as sink:
        with pytest.raises(RefusedError) as refused:
            sink.write(day(one(1.0)))
        message = str(refused.value)
        assert message.endswith("the table byhand has no column variable; let sensormend make one, with another name "
                             "after table=")  # fmt: skip
        assert "\n" not in message
        with open_sink(f"{server.address}?table=model") as other:
            other.write(day(one(1.0)))
        ask(server, "DROP TABLE byhand; CREATE TABLE byhand (LIKE model)")
        with pytest.raises(RefusedError, match=r"needs the primary key \(sensor, variable, time\)$"):
            sink.write(day(one(1.0)))
        # CleanedPeriod by a person, with a column of theirs, it is taken at the next try.
        ask(server, "ALTER TABLE byhand ADD PRIMARY KEY (sensor, variable, time), ADD COLUMN seen bool DEFAULT false")
        sink.write(day(one(1.0)))
    assert ask(server, "SELECT value, seen FROM byhand") == [(1.0, False)]


def test_one_that_may_only_write_need_not_make_tables(server: Postgres) -> None:
    with open_sink(f"{server.address}?table=theirs") as sink:
        sink.write(day(one(1.0)))
    ask(server, "CREATE ROLE writer LOGIN; GRANT SELECT, INSERT, UPDATE ON theirs, theirs_health TO writer")
    address = server.address.replace("tester@", "writer:hush@")
    with open_sink(f"{address}?table=theirs") as sink:
        sink.write(day(one(2.0)))
    assert ask(server, "SELECT value FROM theirs") == [(2.0,)]
    with open_sink(f"{address}?table=mine") as sink, pytest.raises(RefusedError, match="permission denied") as refused:
        sink.write(day(one(2.0)))
    assert "hush" not in str(refused.value)


def test_a_delivery_is_written_as_a_whole_or_not_at_all(server: Postgres) -> None:
    with open_sink(f"{server.address}?table=whole") as sink:
        sink.write(day(one(1.0), health=[Health("a", "", "healthy", "", 0, None)]))
        ask(server, "ALTER TABLE whole_health ADD CHECK (state <> 'faulty')")
        with pytest.raises(RefusedError, match="violates check constraint"):
            sink.write(day(one(2.0), health=[Health("a", "", "faulty", "stuck", 0, None)]))
        assert ask(server, "SELECT value FROM whole") == [(1.0,)]
        sink.write(day(one(3.0)))
    assert ask(server, "SELECT value FROM whole") == [(3.0,)]


def test_what_the_server_cannot_hold_is_refused_and_blocks_nothing(server: Postgres, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    endless = "".join(map(chr, random.integers(0x4E00, 0x9000, 5_000)))
    with open_sink(f"{server.address}?table=limits") as sink:
        with pytest.raises(RefusedError, match=r"index row requires"):
            sink.write(day(one(1.0, sensor=endless)))
        for reason in ("nul\0", "half\ud800"):
            # The driver cannot even send these.
            with pytest.raises(RefusedError, match=r"NUL|surrogates"):
                sink.write(day(one(1.0), health=[Health("a", "", "faulty", reason, 0, None)]))
        ask(
            server,
            """
            CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF NEW.sensor = 'bad' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
            CREATE TRIGGER no BEFORE INSERT ON limits FOR EACH ROW EXECUTE FUNCTION no()
        """,
        )
    queue = Store(tmp_path / "queue", ["postgres"])
    worker = DeliveryWorker("postgres", open_sink(f"{server.address}?table=limits"), queue, (0.01, 0.02))
    worker.start()
    for number, name in enumerate(["bad", "good"]):
        queue.append(day(one(1.0, sensor=name)), number)
    wait_until(lambda: queue.backlog("postgres") == 0)
    assert stop_all([worker], 5)
    assert worker.state().lost == 1
    queue.close()
    assert ask(server, "SELECT sensor FROM limits") == [("good",)]


def test_without_a_table_it_is_called_sensormend(server: Postgres) -> None:
    with open_sink(f"{server.address}?connect_timeout=3") as sink:
        sink.write(day(one(1.0)))
    assert ask(server, "SELECT count(*) FROM sensormend") == [(1,)]


def test_no_server_is_no_refusal(tmp_path: Path) -> None:
    with (
        open_sink("postgresql://me:hush@127.0.0.1:1/db?table=rows") as sink,
        pytest.raises(SensormendError) as failed,
    ):
        sink.write(day(one(1.0)))
    assert not isinstance(failed.value, RefusedError)
    assert "hush" not in str(failed.value)
    assert "\n" not in str(failed.value)
    with pytest.raises(ConfigError, match="name the table"):
        open_sink("postgresql://me@host/db?table=")


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_restart_of_the_server_costs_a_wait_and_nothing_else(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    caplog.set_level(logging.INFO, "sensormend.stream")
    queue = Store(tmp_path / "queue", ["postgres"])
    ask(server, "DROP TABLE IF EXISTS restarted; DROP SEQUENCE IF EXISTS counted; CREATE SEQUENCE counted")
    with open_sink(f"{server.address}?table=restarted") as before:
        before.write(day(one(0.0)))
    # In which order rows came, as the server saw it.
    ask(server, "ALTER TABLE restarted ADD COLUMN place int DEFAULT nextval('counted')")
    worker = DeliveryWorker("postgres", open_sink(f"{server.address}?table=restarted"), queue, (0.05, 0.1))
    worker.start()
    queue.append(day(one(1.0, hour=1)), 0)
    wait_until(lambda: queue.backlog("postgres") == 0)
    server.stop(mode)
    try:
        for hour in range(2, 7):
            queue.append(day(one(float(hour), hour=hour)), hour)
        wait_until(lambda: not worker.state().up)
        assert queue.backlog("postgres") == 5
    finally:
        server.start()
    wait_until(lambda: queue.backlog("postgres") == 0)
    wait_until(lambda: len(caplog.records) == 2)
    assert ask(server, "SELECT value FROM restarted ORDER BY place") == [(float(hour),) for hour in range(7)]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "has the 5 deliveries that waited" in caplog.text
    assert stop_all([worker], 5)
    queue.close()
