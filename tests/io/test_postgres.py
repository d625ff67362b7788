"""A table of a real PostgreSQL server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sensormend.errors import ConfigError, InputError, SensormendError, shown
from sensormend.io.postgres import split_address
from sensormend.io.staging import Staging
from sensormend.pipeline.options import Options
from sensormend.readings import HOUR
from servers import running_postgres
from staged_readings import as_set, staged

NEW_YEAR = 1_577_836_800_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    with running_postgres() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("""
                CREATE TABLE readings (station text, "time" timestamptz, value double precision);
                INSERT INTO readings VALUES
                    ('a', '2020-01-01 00:00:00+00', 1.5), ('b', '2020-01-01 02:00:00+01', NULL),
                    ('a, "b"', '2020-01-01 00:00:00+00', 'NaN'), ('a', '2019-12-31 20:00:00-05', 'Infinity'),
                    (NULL, '2020-01-01 00:00:00+00', 3), ('a', NULL, 4);
                CREATE SCHEMA lake;
                CREATE TABLE lake."Mixed Case" (site text, taken timestamp, temp real, ph numeric);
                INSERT INTO lake."Mixed Case" VALUES ('x', '2020-01-01 01:00', 4.5, 7.25);
                CREATE TABLE nothing (station text, time timestamptz, value real);
                CREATE TABLE many AS SELECT 's' || i % 7 AS sensor, timestamp '2020-01-01' + interval '1 hour' * (i / 7)
                    AS time, i::float AS value FROM generate_series(0, 69999) AS i;
            """)
        yield address


def test_a_table_comes_in_as_it_is_with_its_times_in_utc(server: str) -> None:
    with staged(f"{server}?table=readings") as staging:
        assert as_set(staging.sample()) == {
            ("a", "", NEW_YEAR, 1.5),
            ("b", "", NEW_YEAR + HOUR, None),
            ('a, "b"', "", NEW_YEAR, None),
            ("a", "", NEW_YEAR + HOUR, None),
        }
        assert staging.rejected == 2


def test_a_schema_and_names_in_quotes_after_the_hash(server: str) -> None:
    with staged(f'{server}#lake."Mixed Case"', Options(variables=("temp", "ph"))) as staging:
        assert as_set(staging.sample()) == {("x", "temp", NEW_YEAR + HOUR, 4.5), ("x", "ph", NEW_YEAR + HOUR, 7.25)}


def test_many_rows(server: str) -> None:
    with staged(f"{server}?table=public.many") as staging:
        assert (staging.readings, len(staging.sensors)) == (70_000, 7)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("?table=reading", 'relation "reading" does not exist'),
        ("?table=readings;drop", 'relation "readings;drop" does not exist'),
        ("?table=nothing", "no readings"),
    ],
)
def test_a_missing_table_is_refused_in_one_line(server: str, table: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught, Staging(tmp_path) as staging:
        staging.load(f"{server}{table}")
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match=r"postgresql://me@127\.0\.0\.1:1/db.*refused") as caught:
        Staging(tmp_path).load("postgresql://me:secret@127.0.0.1:1/db?table=t")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_psycopg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SensormendError, match=r"sensormend\[postgres\]"):
        Staging(tmp_path).load("postgresql://me@host/db?table=t")


@pytest.mark.parametrize(
    "address", ["postgresql://me@host/db", "postgresql://me@host/db?table=", "postgres://h/d?table=a#b"]
)
def test_an_address_names_one_table(address: str) -> None:
    with pytest.raises(ConfigError, match="name the table"):
        split_address(address)


def test_a_password_is_never_shown() -> None:
    for password in ("secret", "se/cr:et", "s@cret"):
        assert shown(f"postgresql://me:{password}@host/db?table=t") == "postgresql://me@host/db?table=t"
    assert "secret" not in shown("postgresql://host/db?user=me&password=secret&table=t")
