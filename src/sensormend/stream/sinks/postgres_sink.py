"""`PostgresSink` writes rows and the health of sensors to PostgreSQL, one transaction for each delivery."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sensormend.errors import RefusedError, SensormendError, one_line, shown
from sensormend.io.postgres import CONNECTION, import_psycopg, name_parts, split_address
from sensormend.pipeline.health import Health
from sensormend.stream.deliveries import Delivery, Kind, Sink
from sensormend.stream.sinks.messages import health_message, row_fields, valid_text

__all__ = ["TABLE", "PostgresSink"]

TABLE = "sensormend"
"""The default table."""

_ROW_COLUMNS = {
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
_HEALTH_COLUMNS = {
    "sensor": "text NOT NULL",
    "variable": "text NOT NULL",
    "state": "text NOT NULL",
    "reason": "text NOT NULL",
    "since": "timestamptz NOT NULL",
    "heard": "timestamptz",
}

SETUP = "SET statement_timeout = '120s'; SET lock_timeout = '30s'"

PERMANENT = ("0A", "21", "22", "23", "3F", "42", "44", "54", "P0")
"""Errors that a retry does not resolve: an unsupported feature, the data, a constraint, a schema, a name or a
permission, a view, a limit (for example the length of a key), and an error raised by a trigger of the user."""

COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"

UNIQUE_KEYS = """
    SELECT (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey))
    FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL
"""


@dataclass(frozen=True)
class _Table:
    """A table: its name with its schema, its columns with their types, and its primary key.

    Rows are first copied to the temporary table `buffer`; its schema hides no table of the user.
    """

    name: Sequence[str]
    columns: dict[str, str]
    key: Sequence[str]
    buffer: tuple[str, str]


class PostgresSink(Sink):
    """Upserts rows into a table and the health of sensors into another, `..._health`; both are created on first use.

    The key of a row is sensor, variable (empty if it has no name) and time. A final or late row replaces an existing
    one; a provisional row never replaces a final one. Characters that PostgreSQL cannot store in a text (NUL, lone
    surrogates) become U+FFFD.

    Parameters
    ----------
    address
        `postgresql://user@host/database?table=name`; the table may have its schema before it, and is `sensormend` by
        default.
    """

    kinds: Sequence[Kind] = ("final", "late", "provisional")

    def __init__(self, address: str) -> None:
        self._psycopg = import_psycopg()
        self._shown, parts = shown(address), urlsplit(address)
        if not parts.fragment and not any(name == "table" for name, _ in parse_qsl(parts.query)):
            address = f"{address}{'&' if '?' in address else '?'}table={TABLE}"
        where, table = split_address(address)
        *schema, name = name_parts(table)
        self._rows = _Table([*schema, name], _ROW_COLUMNS, ("sensor", "variable", "time"), ("pg_temp", "buffer_rows"))
        self._health = _Table(
            [*schema, f"{name}_health"], _HEALTH_COLUMNS, ("sensor", "variable"), ("pg_temp", "buffer_health")
        )
        try:
            self._parameters = CONNECTION | self._psycopg.conninfo.conninfo_to_dict(where)
        except self._psycopg.Error as error:
            raise SensormendError(f"{self._shown}: {one_line(error)}") from None
        self._server: Any = None

    def write(self, delivery: Delivery) -> None:
        """Write a delivery, all of it or nothing."""
        try:
            if self._server is None or self._server.closed:
                self._connect()
            with self._server.transaction(), self._server.cursor() as cursor:
                if delivery.rows is not None and len(delivery.rows):
                    fields = row_fields(delivery.rows, is_valid=lambda number: not math.isnan(number), text=valid_text)
                    provisional = delivery.kind == "provisional"
                    self._upsert(cursor, self._rows, ((*row, provisional) for row in fields))
                if delivery.health:
                    self._upsert(cursor, self._health, map(_health_row, delivery.health))
        except RefusedError:
            self.close()
            raise
        except (self._psycopg.Error, OSError, ValueError, OverflowError) as error:
            self.close()
            kind = RefusedError if self._is_permanent(error) else SensormendError
            raise kind(f"{self._shown}: {one_line(error)}") from None

    def close(self) -> None:
        """Close the connection; the tables are checked again after the next one is opened."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _is_permanent(self, error: Exception) -> bool:
        """Return whether the delivery causes the error; an error of the driver before it sends anything has no code."""
        code = getattr(error, "sqlstate", None) or ""
        unsent = (self._psycopg.DataError, ValueError, OverflowError)
        return code[:2] in PERMANENT or (not code and isinstance(error, unsent))

    def _connect(self) -> None:
        self._server = self._psycopg.connect(**self._parameters, autocommit=True)
        self._server.execute(SETUP)
        self._prepare(self._rows)
        self._prepare(self._health)

    def _prepare(self, table: _Table) -> None:
        """Create a table, or check that an existing one fits; and create its buffer."""
        from psycopg import sql

        name, shown_name = sql.Identifier(*table.name), ".".join(table.name)
        quoted = [name.as_string(self._server)]
        definitions = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind)) for column, kind in table.columns.items()
        )
        existing = self._server.execute(COLUMNS, quoted).fetchall()
        if not existing:
            # Only if it does not exist: a user who may write to a table need not have the right to create one.
            self._server.execute(
                sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
                    name, definitions, _listed(table.key)
                )
            )
            existing = self._server.execute(COLUMNS, quoted).fetchall()
        missing = [column for column in table.columns if (column,) not in existing]
        if missing:
            raise RefusedError(
                f"{self._shown}: the table {shown_name} has no column {missing[0]}; let sensormend make one, "
                f"with another name after table="
            )
        if not any(sorted(key or ()) == sorted(table.key) for (key,) in self._server.execute(UNIQUE_KEYS, quoted)):
            raise RefusedError(f"{self._shown}: the table {shown_name} needs the primary key ({', '.join(table.key)})")
        self._server.execute(
            sql.SQL("CREATE TEMP TABLE {} ({}, place integer NOT NULL) ON COMMIT DELETE ROWS").format(
                sql.Identifier(*table.buffer), definitions
            )
        )

    def _upsert(self, cursor: Any, table: _Table, rows: Iterable[Iterable[Any]]) -> None:
        from psycopg import sql

        columns, keys, buffer = _listed(table.columns), _listed(table.key), sql.Identifier(*table.buffer)
        with cursor.copy(sql.SQL("COPY {} ({}, place) FROM STDIN").format(buffer, columns)) as copy:
            for place, row in enumerate(rows):
                copy.write_row((*row, place))
        values = [column for column in table.columns if column not in table.key]
        changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column)) for column in values)
        # Unchanged rows are not written: most sensors are as they were, and dead rows cost the server.
        differs = sql.SQL("({}) IS DISTINCT FROM ({})").format(
            *(sql.SQL(", ").join(sql.Identifier(side, column) for column in values) for side in ("old", "excluded"))
        )
        if "provisional" in values:
            differs = sql.SQL("(old.provisional OR NOT excluded.provisional) AND ") + differs
        cursor.execute(
            sql.SQL(
                "INSERT INTO {table} AS old ({columns}) "
                "SELECT DISTINCT ON ({keys}) {columns} FROM {buffer} ORDER BY {keys}, place DESC "
                "ON CONFLICT ({keys}) DO UPDATE SET {changes} WHERE {differs}"
            ).format(
                table=sql.Identifier(*table.name),
                columns=columns,
                keys=keys,
                buffer=buffer,
                changes=changes,
                differs=differs,
            )
        )


def _health_row(health: Health) -> Iterable[Any]:
    names = {"sensor": valid_text(health.sensor), "variable": valid_text(health.variable)}
    return {**health_message(health), **names}.values()


def _listed(columns: Iterable[str]) -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, columns))
