"""`PostgresSource` reads the new rows of a table of PostgreSQL, by a column that grows or as they are notified."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sensormend.errors import ConfigError, one_line, shown
from sensormend.io.postgres import CONNECTION, LIVE_PARAMETERS, import_psycopg, name_parts, split_address
from sensormend.pipeline.options import Options, span
from sensormend.readings import MINUTE, SECOND
from sensormend.stream.arrivals import Arrived, clock
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.formats.presets import BY_KEYS
from sensormend.stream.logs import ConditionLog, say
from sensormend.stream.sources.threaded import Lookback, ThreadedSource

__all__ = ["PostgresSource", "TableFeed"]

PAGE = 10_000
"""Rows of one query. A page more than is needed for a tie is read to its end."""

POLL, POLL_NOTIFIED = 1.0, 30.0
"""Seconds between two checks of the table, without notifications about its rows and with them."""

LOOKBACK = 10 * MINUTE
"""The default time by which a column of times is read again."""

WAIT_FOR_WRITERS = 60.0
"""Seconds to wait for a transaction that writes to the table before that is logged."""

SETUP = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET statement_timeout = '300s'"

PASSING = ("starting up", "shutting down", "in recovery", "too many", "connection slots")
"""Parts of the server's error messages that a later attempt may not get."""

COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, NULL), t.typcategory,
           a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false),
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL
                   AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indkey[0] = a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

WRITERS = """
    WITH RECURSIVE parts AS (
        SELECT to_regclass(%s)::oid AS part
        UNION SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = part
    )
    SELECT DISTINCT virtualtransaction FROM pg_locks JOIN parts ON relation = part
    WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
"""
"""Who has rows in the table or one of its partitions that nobody else can see yet: whoever writes holds this lock until
the end of the transaction, and takes it before the row gets its number. A prepared transaction has no process."""

_log = logging.getLogger("sensormend.stream")


@dataclass(frozen=True)
class TableFeed:
    """What an address says of a table.

    Attributes
    ----------
    connection, table
        The connection string, and the name of the table.
    by
        The column that grows; None to recognise it.
    notify
        The channel on which new rows are announced.
    lookback
        How far a column of times is read again, in microseconds.
    """

    connection: str
    table: str
    by: str | None = None
    notify: str | None = None
    lookback: int = LOOKBACK

    @classmethod
    def of(cls, address: str) -> TableFeed:
        """Return what an address says.

        Examples
        --------
        >>> TableFeed.of("postgresql://me@host/db?table=readings&by=id&notify=new_readings")
        TableFeed(connection='postgresql://me@host/db', table='readings', by='id', notify='new_readings', ...)
        """
        connection, table = split_address(address)
        given = {name: value for name, value in parse_qsl(urlsplit(address).query) if name in LIVE_PARAMETERS}
        lookback = span("lookback", given["lookback"]) if "lookback" in given else LOOKBACK
        return cls(connection, table, given.get("by"), given.get("notify"), lookback)


@dataclass(frozen=True)
class _Column:
    name: str
    type: str
    category: str
    numbers_rows: bool
    unique: bool
    indexed: bool

    @property
    def is_time(self) -> bool:
        return self.category == "D" and not self.type.startswith("time ")

    @property
    def is_row_number(self) -> bool:
        return self.category == "N" and (self.numbers_rows or self.unique)


class PostgresSource(ThreadedSource):
    """The rows of a table as they are written, `postgresql://user@host/database?table=readings`.

    Rows are decoded as JSON objects with a key for each column. Where the table numbers its rows, they are read in that
    order, each once: a row counts as read only when no transaction that may have a lower number is still open. Else
    they are read by their time, and the last part, `lookback`, again and again for rows that come late or with a time
    that was there; a row that is read twice counts once. Other columns that grow are named by `by`.

    Parameters
    ----------
    address
        With `by`, `lookback` and `notify` as further parameters: with a channel the table is looked at when a
        notification comes on it, and otherwise every second.
    mark
        Where the last row that is on disk was.
    """

    def __init__(self, address: str, options: Options | None = None, *, mark: str | None = None) -> None:
        self._psycopg = import_psycopg()
        self._shown, self._feed = shown(address), TableFeed.of(address)
        self._options = Options() if options is None else options
        super().__init__(self._shown)
        self.decoder = Decoder(options, form=BY_KEYS)
        self.units = self.decoder.units
        try:
            self._parameters = CONNECTION | self._psycopg.conninfo.conninfo_to_dict(self._feed.connection)
        except self._psycopg.Error as error:
            raise ConfigError(f"{self._shown}: {one_line(error)}") from None
        self._writing = ConditionLog(
            _log, f"{self._shown}: a transaction that writes keeps its rows back", "its rows can be read"
        )
        self._server: Any = None
        self._after = mark
        # Within one walk through the table: what was read last, and the last row of the walk.
        self._position: str | None = None
        self._until: str | None = None
        self._look_at = 0.0
        self._notified = False
        self._lookback = Lookback(self._feed.lookback)
        self._is_indexed_logged = False
        # A port where something else listens, or nothing answers, takes as long as each of its addresses may.
        say(_log, logging.INFO, f"connecting to {self._shown}")
        try:
            self._connect()
        except ConfigError:
            self._disconnect()
            raise
        except self._psycopg.Error as error:
            self._disconnect()
            text = one_line(error)
            if "FATAL" in text and not any(part in text for part in PASSING):
                raise ConfigError(f"{self._shown}: {text}") from None
            self.connected = False
            self._outage.begin(error=text)
        self._begin()

    def _connect(self) -> None:
        server = self._psycopg.connect(**self._parameters, autocommit=True)
        self._server = server
        server.execute(SETUP)
        from psycopg import sql

        self._name = sql.Identifier(*name_parts(self._feed.table))
        self._quoted = self._name.as_string(server)
        columns = [_Column(*row) for row in server.execute(COLUMNS, [self._quoted])]
        if not columns:
            raise ConfigError(f"{self._shown}: there is no table {self._feed.table}, or no permission to read it")
        self._by = self._column_that_grows(columns)
        named = (self._options.time, self._options.sensor, self._options.value, self._options.variable)
        self._columns = [
            column.name
            for column in columns
            if not (column == self._by and column.is_row_number and column.name not in (*named, "time", "timestamp"))
        ]
        if not self._by.indexed and not self._is_indexed_logged:
            self._is_indexed_logged = True
            say(_log, logging.WARNING, f"{self._shown}: {self._by.name} has no index: every look reads all the table")
        server.add_notify_handler(self._on_notify)
        if self._feed.notify is not None:
            server.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._feed.notify)))
        self._position, self._look_at = None, 0.0
        self._lookback.restart()

    def _on_notify(self, notification: Any) -> None:
        self._notified = True

    def _column_that_grows(self, columns: Sequence[_Column]) -> _Column:
        names = {column.name: column for column in columns}
        if self._feed.by is not None:
            if self._feed.by not in names:
                raise ConfigError(f"{self._shown}: the table has no column {self._feed.by}; it has {', '.join(names)}")
            return names[self._feed.by]
        numbers = [column for column in columns if column.is_row_number]
        times = [column for column in columns if column.is_time]
        named = [column for column in times if column.name == self._options.time]
        for chosen in (numbers, named, times):
            if len(chosen) == 1:
                return chosen[0]
        raise ConfigError(
            f"{self._shown}: name the column that grows with every row, like &by=id; there are {', '.join(names)}"
        )

    def _disconnect(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _interrupt(self) -> None:
        server = self._server
        if server is not None:
            try:
                server.cancel()
            except (self._psycopg.Error, OSError):
                return

    def _fetch(self) -> Arrived | None:
        if self._server is None:
            self._connect()
        if self._position is None and not self._is_due():
            self._wait()
            return None
        rows = self._next_rows()
        if rows is None:
            return None
        received, new = clock(), []
        for position, text, reached, is_new in rows:
            if self._by.is_time and not self._lookback.is_new(position, text):
                continue
            if is_new:
                self._after = reached
            new.append(text)
        if len(rows) < PAGE:
            self._end_walk()
        else:
            self._position = rows[-1][0]
        if not new:
            return None
        where = f"{self._feed.table}, {self._by.name} {rows[0][0]} to {rows[-1][0]}"
        self.decoder.add(f"[{','.join(new)}]".encode(), received, None, where)
        readings, rejected, positions = self.decoder.take()
        return Arrived(readings, received, rejected, positions, self._after)

    def _is_due(self) -> bool:
        return self._notified or time.monotonic() >= self._look_at

    def _wait(self) -> None:
        """Wait for the next look or notification, for a moment."""
        wait = min(max(self._look_at - time.monotonic(), 0.0), 0.25)
        if select.select([self._server.fileno()], [], [], wait)[0]:
            self._server.execute("")  # takes the notification
            self._notified = True

    def _next_rows(self) -> list[tuple[str, str, str, bool]] | None:
        """Return the next page of rows: position, JSON, mark, and whether the mark is new; None if there is none."""
        if self._position is None and not self._begin_walk():
            return None
        from psycopg import sql

        by, kind = sql.Identifier("t", self._by.name), sql.SQL(self._by.type)
        columns = sql.SQL(", ").join(sql.Identifier("t", name) for name in self._columns)
        conditions, values = [sql.SQL("{} IS NOT NULL").format(by)], list[Any]()
        # A time ahead of the clock must not keep back the rows of all others until then.
        mark = sql.SQL("least({}, now()::{})").format(by, kind) if self._by.is_time else by
        newer: Any = sql.SQL("true")
        if self._after is not None:
            newer = sql.SQL("{} > {}::{}").format(mark, sql.Literal(self._after), kind)
        if self._position is not None:
            conditions.append(sql.SQL("{} > %s::{}").format(by, kind))
            values.append(self._position)
        elif self._after is not None and self._lookback.active:
            conditions.append(sql.SQL("{} >= %s::{} - %s::interval").format(by, kind))
            values += [self._after, f"{self._feed.lookback // SECOND} seconds"]
        elif self._after is not None:
            conditions.append(sql.SQL("{} > %s::{}").format(by, kind))
            values.append(self._after)
        if self._until is not None:
            conditions.append(sql.SQL("{} <= %s::{}").format(by, kind))
            values.append(self._until)
        query = sql.SQL(
            "SELECT {by}::text, (SELECT row_to_json(r) FROM (SELECT {columns}) r)::text, {mark}::text, {newer} "
            "FROM {table} t WHERE {conditions} ORDER BY {by} FETCH FIRST {page} ROWS WITH TIES"
        ).format(
            by=by,
            columns=columns,
            mark=mark,
            newer=newer,
            table=self._name,
            conditions=sql.SQL(" AND ").join(conditions),
            page=sql.Literal(PAGE),
        )
        rows: list[tuple[str, str, str, bool]] = self._server.execute(query, values).fetchall()
        if not rows:
            self._end_walk()
            return None
        return rows

    def _begin_walk(self) -> bool:
        """Begin to read new rows; return whether there are any, as far as that is known."""
        self._notified = False
        pause = POLL if self._feed.notify is None else POLL_NOTIFIED
        self._look_at = time.monotonic() + pause
        if self._by.is_time:
            self._lookback.begin()
            return True
        self._until = self._newest()
        if self._until is None or self._until == self._after:
            return False
        self._wait_for_writers()
        return not self._closing.is_set()

    def _end_walk(self) -> None:
        self._position = None
        if self._by.is_time:
            self._lookback.end()

    def _newest(self) -> str | None:
        from psycopg import sql

        # Qualified: ORDER BY takes a bare name for the column of the result, which is a text.
        query = sql.SQL("SELECT {by}::text FROM {table} t WHERE {by} IS NOT NULL ORDER BY {by} DESC LIMIT 1")
        newest = self._server.execute(query.format(by=sql.Identifier("t", self._by.name), table=self._name)).fetchone()
        return None if newest is None else str(newest[0])

    def _wait_for_writers(self) -> None:
        """Wait until every row up to the newest one can be seen: for the end of all transactions that write now."""
        writers, start, pause = set(self._writers()), time.monotonic(), 0.01
        while writers and not self._closing.wait(pause):
            writers &= set(self._writers())
            pause = min(2 * pause, 0.5)
            if time.monotonic() - start > WAIT_FOR_WRITERS:
                self._writing.begin()
        self._writing.end()

    def _writers(self) -> Iterator[str]:
        return (row[0] for row in self._server.execute(WRITERS, [self._quoted]))
