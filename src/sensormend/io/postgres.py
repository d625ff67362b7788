"""`spooled` copies a table of PostgreSQL into a CSV file, which is read like any other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from sensormend.errors import ConfigError, InputError, SensormendError, one_line, shown

__all__ = [
    "CONNECTION",
    "LIVE_PARAMETERS",
    "SCHEMES",
    "UNCLEAR",
    "import_psycopg",
    "is_unclear",
    "name_parts",
    "split_address",
    "spooled",
]

SCHEMES = ("postgresql://", "postgres://")
"""The schemes of database addresses."""

LIVE_PARAMETERS = ("by", "lookback", "notify")
"""The parameters of an address that say how `watch` follows a table; they are not passed on to the server."""

UNCLEAR = "write %2F for a /, %3F for a ?, %23 for a # and %40 for an @ in a password, and %40 for an @ behind the host"

CONNECTION = {
    "connect_timeout": 10,
    "application_name": "sensormend",
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""With these a lost server is detected within half a minute; parameters in the address take precedence."""


def split_address(address: str) -> tuple[str, str]:
    """Return the connection string and the table.

    Examples
    --------
    >>> split_address("postgresql://me@host/db?table=readings")
    ('postgresql://me@host/db', 'readings')
    >>> split_address("postgresql://me@host/db?sslmode=require#lake.readings")
    ('postgresql://me@host/db?sslmode=require', 'lake.readings')
    """
    if is_unclear(address):
        raise ConfigError(f"{SCHEMES[0]}...: {UNCLEAR}")
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise ConfigError(f"{shown(address)} is not an address of a database: {error}") from None
    query = parse_qsl(parts.query, keep_blank_values=True)
    tables = [value for name, value in query if name == "table"] + ([unquote(parts.fragment)] if parts.fragment else [])
    if len(tables) != 1 or not tables[0].strip():
        raise ConfigError(
            f"{shown(address)}: name the table, like postgresql://user@host/database?table=readings (or #schema.table)"
        )
    rest = urlencode([(name, value) for name, value in query if name not in ("table", *LIVE_PARAMETERS)])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, rest, "")), tables[0].strip()


def is_unclear(address: str) -> bool:
    """Return whether the end of an address's password is ambiguous: it contains `/`, `?` or `#` unencoded.

    Examples
    --------
    >>> is_unclear("postgresql://me:a/b@host/db"), is_unclear("postgresql://me:a%2Fb@host:5432/db")
    (True, False)
    """
    host, *path = re.split(r"[/?#]", address.partition("://")[2], maxsplit=1)
    return ":" in host and any("@" in part for part in path)


def spooled(address: str, spool: Path) -> Path:
    """Copy a table into a CSV file and return its path.

    Times with a zone are converted to UTC, others are copied as they are; rows are in the server's order.
    """
    connection, table = split_address(address)
    psycopg = import_psycopg()
    from psycopg import sql

    name = sql.SQL(".").join(sql.Identifier(part) for part in name_parts(table))
    copy = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT csv, HEADER true)").format(name)
    spool.mkdir(parents=True, exist_ok=True)
    path = spool / "table.csv"
    try:
        with psycopg.connect(connection, connect_timeout=20, options="-c TimeZone=UTC -c DateStyle=ISO") as server:
            server.read_only = True
            with server.cursor() as cursor, cursor.copy(copy) as rows, path.open("wb") as file:
                for block in rows:
                    file.write(block)
    except psycopg.Error as error:
        path.unlink(missing_ok=True)
        raise InputError(f"{shown(address)}: {one_line(error)}") from None
    return path


def import_psycopg() -> Any:
    """Return the module psycopg, or raise an error that says how to install it."""
    try:
        import psycopg
    except ImportError:
        raise SensormendError("PostgreSQL needs psycopg: install it with pip install 'sensormend[postgres]'") from None
    return psycopg


def name_parts(table: str) -> list[str]:
    """Return schema and table; a name in double quotes may contain a point."""
    parts = re.findall(r'"(?:[^"]|"")+"|[^."]+', table)
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]
