"""`PostgresSink` writes rows and how each sensor is to PostgreSQL, one transaction for each delivery."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sensormend.errors import RefusedError, SensormendError
from sensormend.io.postgres import import_psycopg, name_parts, shown, split_address
from sensormend.pipeline.health import Health
from sensormend.readings import Rows
from sensormend.stream.deliveries import Delivery, Kind, Sink
from sensormend.stream.sinks.messages import row_fields, stamp, whole

__all__ = ["TABLE", "PostgresSink"]

TABLE = "sensormend"
"""The table where the address names none."""

ROWS = {
    "sensor": "text NOT NULL",
    "variable": "text NOT NULL",
    "time": "timestamptz NOT NULL",
    "value": "double precision",
    "n": "integer NOT NULL",
    "cleaned": "double precision",
    "lower": "double precision",
    "upper": "double precision",
    "flag": "smallint NOT NULL",
    "reason": "text NOT NULL",
    "origin": "text",
    "provisional": "boolean NOT NULL",
}
HEALTH = {
    "sensor": "text NOT NULL",
    "variable": "text NOT NULL",
    "state": "text NOT NULL",
    "reason": "text NOT NULL",
    "since": "timestamptz NOT NULL",
    "heard": "timestamptz",
}
ROW_KEY, HEALTH_KEY = ("sensor", "variable", "time"), ("sensor", "variable")

WAITS = {
    "connect_timeout": 10,
    "application_name": "sensormend",
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""With these a lost server is detected within half a minute; parameters in the address take precedence."""

SETUP = "SET statement_timeout = '120s'; SET lock_timeout = '30s'"

PERMANENT = ("0A", "21", "22", "23", "3F", "42", "44", "54", "P0")
"""Classes of errors that trying again does not mend: what the server cannot do, the data, a constraint, a schema, a
name or a right, a view, a limit (of a key's length, say), and what a trigger of the user's says."""


class PostgresSink(Sink):
    """Upserts rows into a table and how each sensor is into another, `..._health`; both are made on first use.

    A row is known by sensor, variable (empty where there is but one without a name) and time. What is final or late
    takes the place of what was there; what is provisional never that of what is final. Characters that PostgreSQL
    cannot hold in a text (NUL, half a character) become U+FFFD.

    Parameters
    ----------
    address
        `postgresql://user@host/database?table=name`; the table may have its schema before it, and is `sensormend` where
        none is named.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, address: str) -> None:
        self._psycopg = import_psycopg()
        parts = urlsplit(address)
        named = bool(parts.fragment) or any(name == "table" for name, _ in parse_qsl(parts.query))
        where, table = split_address(address if named else _with_table(address))
        self._shown = shown(address)
        names = name_parts(table)
        self._rows, self._health = names, [*names[:-1], f"{names[-1]}_health"]
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(where)
        except self._psycopg.Error as error:
            raise SensormendError(f"{self._shown}: {_one_line(error)}") from None
        self._where = {**WAITS, **given}
        self._server: Any = None

    def write(self, delivery: Delivery) -> None:
        """Write it, all of it or nothing."""
        try:
            if self._server is None or self._server.closed:
                self._connect()
            with self._server.transaction(), self._server.cursor() as cursor:
                if delivery.rows is not None and len(delivery.rows):
                    lines = _row_lines(delivery.rows, provisional=delivery.kind == "provisional")
                    self._upsert(cursor, self._rows, ROWS, ROW_KEY, lines)
                if delivery.health:
                    self._upsert(cursor, self._health, HEALTH, HEALTH_KEY, map(_health_line, delivery.health))
        except RefusedError:
            self.close()
            raise
        except (self._psycopg.Error, OSError, ValueError, OverflowError) as error:
            self.close()
            kind = RefusedError if self._permanent(error) else SensormendError
            raise kind(f"{self._shown}: {_one_line(error)}") from None

    def close(self) -> None:
        """Leave the server; tables are looked at again after the next connection."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _permanent(self, error: Exception) -> bool:
        """Say whether it is the delivery; what the driver cannot even send has no code."""
        code = getattr(error, "sqlstate", None) or ""
        unsent = (self._psycopg.DataError, ValueError, OverflowError)
        return code[:2] in PERMANENT or (not code and isinstance(error, unsent))

    def _connect(self) -> None:
        self._server = self._psycopg.connect(**self._where, autocommit=True)
        self._server.execute(SETUP)
        for names, columns, key in ((self._rows, ROWS, ROW_KEY), (self._health, HEALTH, HEALTH_KEY)):
            self._prepare(names, columns, key)

    def _prepare(self, names: Sequence[str], columns: dict[str, str], key: Sequence[str]) -> None:
        """Make a table where there is none, or see that ours fits; and a place to gather rows for it."""
        from psycopg import sql

        name, simple = sql.Identifier(*names), ".".join(names)
        definitions = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind)) for column, kind in columns.items()
        )
        keys = sql.SQL(", ").join(map(sql.Identifier, key))
        existing = self._columns(name)
        if existing is None:
            # Asked for only where there is none: who may write into a table need not have the right to make one.
            self._server.execute(
                sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(name, definitions, keys)
            )
            existing = self._columns(name)
        lacking = [column for column in columns if column not in (existing or ())]
        if lacking:
            raise RefusedError(
                f"{self._shown}: the table {simple} has no column {lacking[0]}; let sensormend make one, "
                f"with another name after table="
            )
        if not self._has_key(name, key):
            raise RefusedError(f"{self._shown}: the table {simple} needs the primary key ({', '.join(key)})")
        self._server.execute(
            sql.SQL("CREATE TEMP TABLE {} ({}, place integer NOT NULL) ON COMMIT DELETE ROWS").format(
                _gathered(columns), definitions
            )
        )

    def _columns(self, name: Any) -> list[str] | None:
        quoted = name.as_string(self._server)
        asked = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
        return [row[0] for row in self._server.execute(asked, [quoted])] or None

    def _has_key(self, name: Any, key: Sequence[str]) -> bool:
        """Return whether the table has a unique index on exactly these columns."""
        asked = """
            SELECT (
                SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey)
            )
            FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL
        """
        quoted = name.as_string(self._server)
        return any(sorted(row[0] or ()) == sorted(key) for row in self._server.execute(asked, [quoted]))

    def _upsert(
        self,
        cursor: Any,
        names: Sequence[str],
        columns: dict[str, str],
        key: Sequence[str],
        lines: Iterable[tuple[Any, ...]],
    ) -> None:
        from psycopg import sql

        table, gathered = sql.Identifier(*names), _gathered(columns)
        listed = sql.SQL(", ").join(map(sql.Identifier, columns))
        with cursor.copy(sql.SQL("COPY {} ({}, place) FROM STDIN").format(gathered, listed)) as copy:
            for place, line in enumerate(lines):
                copy.write_row((*line, place))
        keys = sql.SQL(", ").join(map(sql.Identifier, key))
        others = [column for column in columns if column not in key]
        changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column)) for column in others)
        # Nothing is written that changes nothing: most sensors are as they were, and dead rows cost the server.
        differs = sql.SQL("({}) IS DISTINCT FROM ({})").format(
            *(sql.SQL(", ").join(sql.Identifier(side, column) for column in others) for side in ("old", "excluded"))
        )
        if "provisional" in columns:
            differs = sql.SQL("(old.provisional OR NOT excluded.provisional) AND ") + differs
        cursor.execute(
            sql.SQL(
                "INSERT INTO {table} AS old ({listed}) "
                "SELECT DISTINCT ON ({keys}) {listed} FROM {gathered} ORDER BY {keys}, place DESC "
                "ON CONFLICT ({keys}) DO UPDATE SET {changes} WHERE {differs}"
            ).format(table=table, listed=listed, keys=keys, gathered=gathered, changes=changes, differs=differs)
        )


def _row_lines(rows: Rows, *, provisional: bool) -> Iterable[tuple[Any, ...]]:
    for fields in row_fields(rows, known=lambda number: not math.isnan(number), named=whole):
        yield (*fields, provisional)


def _health_line(health: Health) -> tuple[Any, ...]:
    return (
        whole(health.sensor),
        whole(health.variable),
        health.state,
        health.reason,
        stamp(health.since),
        stamp(health.heard),
    )


def _gathered(columns: dict[str, str]) -> Any:
    """Return the place in which rows are gathered; the schema of the session hides no table of the user's."""
    from psycopg import sql

    return sql.Identifier("pg_temp", f"gathered_{'rows' if columns is ROWS else 'health'}")


def _with_table(address: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}table={TABLE}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
