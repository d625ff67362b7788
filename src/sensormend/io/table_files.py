"""`csv_table`, `json_table` and `parquet_table` inspect a file and return it as a `Table` that the engine can read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import InputError
from sensormend.io.sql import first_line, literal, path_literal, quoted, read_parquet
from sensormend.io.table_layout import MISSING, Kind, called, find_kind, is_missing, is_part
from sensormend.io.time_formats import is_compact_date

__all__ = [
    "UNPACKED_RATIO",
    "UNPACKED_SIZE",
    "Column",
    "NotATableError",
    "Table",
    "csv_table",
    "json_table",
    "line_numbers",
    "parquet_table",
    "split_dates",
    "typed_table",
    "with_kinds",
]


class NotATableError(InputError):
    """A text file that holds no table: it is empty, or prose."""


SAMPLE = 200
"""The number of rows that are inspected to recognise the kind of a column."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip
_TEXTS = ("VARCHAR", "ENUM", "UUID")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `name` is the name in the file and `sql` the expression in the relation; `type` is the engine's type (`VARCHAR`
    for all columns of a text file), `kind` the recognised kind, and `sample` some of the cells as text, without empty
    ones.
    """

    name: str
    sql: str
    type: str
    kind: Kind
    sample: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Return whether the column is read as text."""
        return self.type.startswith(_TEXTS)


@dataclass(frozen=True)
class Table:
    """A table in a file.

    Attributes
    ----------
    shown
        The file's name in messages.
    relation
        SQL of the rows, in order.
    columns
        The columns, in order.
    sensor
        The sensor, where no column names it.
    skip
        Lines before the first row.
    line
        SQL of the whole row as written, where available.
    broken
        SQL of whether a row cannot be parsed.
    decimal_comma
        Numbers are written as 1,5.
    lines
        The path of the text file, where rows are lines.
    empty_lines
        Empty lines are rows too.
    tolerant
        The relation with a tolerant parser, for a file with malformed lines.
    empty
        The file has a header and no rows.
    """

    shown: str
    relation: str
    columns: tuple[Column, ...]
    sensor: str = ""
    skip: int = 0
    line: str | None = None
    broken: str | None = None
    decimal_comma: bool = False
    lines: Path | None = None
    empty_lines: bool = False
    tolerant: str | None = None
    empty: bool = False

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def shape(self) -> tuple[object, ...]:
        """Return the properties that tables must share to be read in one statement."""
        types = tuple((column.sql, column.type) for column in self.columns)
        return (types, self.line, self.broken, self.decimal_comma)

    @property
    def kinds(self) -> list[tuple[str, Kind]]:
        """Return the columns as `recognise` takes them."""
        return [(column.name, column.kind) for column in self.columns]


def parquet_table(engine: Any, path: Path, shown: str) -> Table:
    """Inspect a Parquet file."""
    try:
        return typed_table(engine, read_parquet([path]), shown)
    except Exception as error:
        raise InputError(f"{shown}: this Parquet file cannot be read: {first_line(error)}") from None


def typed_table(engine: Any, relation: str, shown: str) -> Table:
    """Inspect a relation of the engine whose columns have types: a Parquet file, or the columns of a frame."""
    described = engine.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    rows = engine.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {relation} LIMIT {SAMPLE}").fetchall()
    columns = []
    for index, (name, kind, *_) in enumerate(described):
        sample = tuple(row[index] for row in rows if row[index] is not None)
        columns.append(Column(name, quoted(name), kind, _kind(kind, sample), sample))
    return Table(shown, relation, tuple(columns), empty=not rows)


def with_kinds(engine: Any, table: Table) -> Table:
    """Return the table with the kinds of columns whose first rows are empty, found in all rows."""
    columns = list(table.columns)
    indices = [index for index, column in enumerate(columns) if column.is_text and not column.sample]
    if not indices:
        return table
    missing = ", ".join(literal(word) for word in MISSING)
    aggregates = ", ".join(
        f"{aggregate}({columns[index].sql}) FILTER (WHERE lower(trim({columns[index].sql})) NOT IN ({missing}))"
        for index in indices
        for aggregate in ("min", "max", "any_value")
    )
    try:
        cells = engine.execute(f"SELECT {aggregates} FROM {table.relation}").fetchall()[0]
    except Exception as error:
        raise InputError(f"{table.shown}: cannot be read: {first_line(error)}") from None
    for number, index in enumerate(indices):
        sample = tuple(text for text in cells[3 * number : 3 * number + 3] if text is not None)
        kind = find_kind(_decimal_points(sample, table.decimal_comma))
        columns[index] = replace(columns[index], sample=sample, kind=kind)
    return replace(table, columns=tuple(columns))


def split_dates(engine: Any, table: Table) -> Table:
    """Return the table with columns of times marked as dates where all are midnight and there is a column of hours.

    A column of hours may also repeat the hour of the times; it is added only where all times are midnight. Numbers like
    20200301 are dates as well.
    """
    hours = any(
        column.kind == "clock" or (column.kind == "number" and is_part("hour", column.name)) for column in table.columns
    )
    if hours:
        table = replace(table, columns=tuple(
            replace(column, kind="date") if column.kind == "number" and _are_dates(column) else column
            for column in table.columns
        ))  # fmt: skip
    times = [column for column in table.columns if column.type.startswith("TIMESTAMP")]
    if not times or not hours:
        return table
    are_midnights = ", ".join(f"bool_and({column.sql} = date_trunc('day', {column.sql}))" for column in times)
    midnights = engine.execute(f"SELECT {are_midnights} FROM {table.relation}").fetchall()[0]
    dates = {column.name for column, midnight in zip(times, midnights, strict=True) if midnight}
    columns = [replace(column, kind="date") if column.name in dates else column for column in table.columns]
    return replace(table, columns=tuple(columns))


def _are_dates(column: Column) -> bool:
    """Return whether numbers are dates: their column is one of times, and they are written like 20200301."""
    return called("time", column.name) and bool(column.sample) and all(map(is_compact_date, column.sample))


def _decimal_points(texts: Sequence[str], decimal_comma: bool) -> list[str]:
    """Return texts with decimal commas replaced by points."""
    return [text.replace(",", ".") if decimal_comma else text for text in texts]


def _kind(engine_type: str, sample: Sequence[str]) -> Kind:
    if engine_type.endswith("]"):
        return "other"
    if engine_type.startswith("TIMESTAMP"):
        return "time"
    if engine_type == "DATE":
        return "date"
    if engine_type.startswith(_NUMBERS):
        return "number"
    return find_kind(sample) if engine_type.startswith(_TEXTS) else "other"


MOST_COLUMNS = 5000
"""The most columns of a text file: 5,000 take 20 seconds, 10,000 more than a gigabyte."""

UNPACKED_RATIO, UNPACKED_SIZE = 100, 1 << 28
"""The maximum ratio of the unpacked to the compressed size of a file, and the unpacked size in bytes up to which any
ratio is accepted. Readings unpack to 4 to 40 times the size; two gigabytes of one row, to a thousand times."""

HEAD = 1 << 18
MOST_HEAD = 1 << 25
_DELIMITERS = (",", ";", "\t", "|")
_BREAK = re.compile(r"\r\n|\n|\r")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*([+-]?\d{1,3}(,\d{3})*|\D*)\s*")
_MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel file; unpack it, or give it the ending .xlsx",
    b"PAR1": "a Parquet file; give it the ending .parquet",
    b"\x89HDF": "a NetCDF or HDF5 file; give it the ending .nc",
    b"CDF": "a NetCDF file; give it the ending .nc",
    b"SQLite": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF",
}


def _opened(path: Path) -> gzip.GzipFile | IO[bytes]:
    """Open a text file, compressed with gzip or not."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def csv_table(path: Path, shown: str, spool: Path) -> Table:
    """Inspect a CSV file; where it has another encoding than UTF-8, it is copied into the folder `spool`."""
    path, text, complete = _head(path, shown, spool)
    lines = _BREAK.split(text)[: None if complete else -1]
    columns_named = 1 + max((line.count(mark) for line in lines[:SAMPLE] for mark in _DELIMITERS), default=0)
    if columns_named > MOST_COLUMNS:
        raise InputError(
            f"{shown}: a table of {columns_named:,} columns; at most {MOST_COLUMNS:,} are read. Make it a long one, "
            "with a row for each reading: sensor, time, value"
        )
    try:
        delimiter, fields = _delimiter(lines)
        skip, names = _header(lines, delimiter, fields)
        all_rows = _rows(lines[skip:], delimiter)
    except csv.Error as error:
        raise NotATableError(f"{shown}: this is not a table of readings: {error}") from None
    rows = [row for row in all_rows if len(row) == len(names)]
    if all_rows and not rows:
        raise NotATableError(
            f"{shown}: line {skip} names {len(names)} columns, but no line below has as many; "
            f"the first has {len(all_rows[0])}"
        )
    # Beside commas that separate, those within quotes may also be of thousands: 1,234.
    decimals = [cells for cells in zip(*rows, strict=True) if _have_commas(cells)]
    decimal_comma = any(delimiter != "," or not all(map(_THOUSANDS.fullmatch, cells)) for cells in decimals)
    # A quote that is never closed would swallow the rest of the file: in a file without quoting it is plain text.
    quote = '"' if _quotes(text) else ""
    columns = []
    for index, name in enumerate(names):
        sample = tuple(row[index] for row in rows if not is_missing(row[index]))
        columns.append(Column(name, f"c{index}", "VARCHAR", find_kind(_decimal_points(sample, decimal_comma)), sample))
    tolerant = _relation(path, len(names), skip, delimiter, quote, strict=False)
    strict = _relation(path, len(names), skip, delimiter, quote, strict=True)
    mixed = len(set(_BREAK.findall(text))) > 1
    return Table(
        shown, tolerant if mixed else strict, tuple(columns), skip=skip,
        decimal_comma=decimal_comma, lines=path, tolerant=tolerant, empty=not all_rows,
    )  # fmt: skip


def json_table(path: Path, shown: str, spool: Path) -> Table:
    """Inspect a JSON file: an object per line, or one array of objects."""
    path, text, complete = _head(path, shown, spool)
    array = text.lstrip().startswith("[")
    if array:
        path = _array_as_lines(path, shown, spool)
        with path.open(encoding="utf-8") as file:
            lines = list(islice(file, SAMPLE))
    else:
        lines = _BREAK.split(text)[: None if complete else -1][:SAMPLE]
    leaves: dict[tuple[str, ...], list[str]] = {}
    objects = 0
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            objects += 1
            for keys, value in _leaves(entry):
                leaves.setdefault(keys, []).append(value)
    if not objects:
        raise NotATableError(f'{shown}: none of its lines is a JSON object, like {{"sensor": "a", "time": ...}}')
    columns = []
    for keys, values in leaves.items():
        sample = tuple(value for value in values if not is_missing(value))
        path_in_entry = "".join(f'."{key}"' for key in keys)
        sql = f"json_extract_string(entry, {literal('$' + path_in_entry)})"
        columns.append(Column(".".join(keys), sql, "VARCHAR", find_kind(sample), sample))
    rows = _relation(path, 1, 0, chr(31), "", True)
    entry_sql = "CASE WHEN starts_with(ltrim(c0), '{') AND json_valid(c0) THEN c0 END"
    relation = f"(SELECT c0 AS line, {entry_sql} AS entry FROM {rows})"
    return Table(
        shown, relation, tuple(columns), line="line", broken="entry IS NULL",
        lines=None if array else path, empty_lines=True,
    )  # fmt: skip


def line_numbers(
    path: Path, skip: int, rejected: Sequence[int], rows: NDArray[np.int64], empty_lines: bool = False
) -> NDArray[np.int64]:
    """Return the line numbers, from 1, of some rows of a text file, which are sorted and counted from 0.

    Rows begin after `skip` lines; `rejected` lines are not rows, and empty ones only with `empty_lines`.
    """
    lines = np.zeros(rows.size, dtype=np.int64)
    lines_before = rows_before = 0
    rest = b""
    with _opened(path) as file:
        while True:
            block = file.read(1 << 24)
            data = np.frombuffer(rest + (block or b"\n"), dtype=np.uint8)
            # A line ends at its last mark: CR LF is one end.
            ends = np.flatnonzero((data == 10) | ((data == 13) & (np.append(data[1:], 10) != 10)))
            if block and ends.size and ends[-1] == data.size - 1 and data[-1] == 13:
                ends = ends[:-1]
            begins = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
            numbers = lines_before + 1 + np.arange(ends.size)
            length = ends - begins
            full = (length > 1) | ((length == 1) & (data[begins] != 13)) | empty_lines
            is_row = full & (numbers > skip) & ~np.isin(numbers, rejected)
            row_lines = numbers[is_row]
            low, high = np.searchsorted(rows, (rows_before, rows_before + row_lines.size))
            lines[low:high] = row_lines[rows[low:high] - rows_before]
            rows_before += row_lines.size
            lines_before += ends.size
            rest = data[ends[-1] + 1 :].tobytes() if ends.size else data.tobytes()
            # Of a line without an end only its ends matter; the whole would be copied with every block.
            rest = rest[:1] + rest[-1:] if len(rest) > 2 else rest
            if not block or high == rows.size:
                return lines


def _quotes(text: str) -> bool:
    """Return whether fields are quoted: most lines with quotes have an even number of them."""
    counts = [line.count('"') for line in text.splitlines() if '"' in line]
    return sum(count % 2 == 0 for count in counts) > len(counts) / 2


def _relation(path: Path, fields: int, skip: int, delimiter: str, quote: str, strict: bool) -> str:
    columns = ", ".join(f"'c{index}': 'VARCHAR'" for index in range(fields))
    mode = "" if strict else ", strict_mode=false"
    return (
        f"read_csv({path_literal(path)}, auto_detect=false, header=false, skip={skip}, delim={literal(delimiter)}, "
        f"quote={literal(quote)}, escape={literal(quote)}, columns={{{columns}}}, store_rejects=true{mode})"
    )


def _head(path: Path, shown: str, spool: Path) -> tuple[Path, str, bool]:
    """Return the path of a file in UTF-8, its first lines, and whether these are the complete file."""
    _refuse_oversized(path, shown)
    size, head, complete = HEAD, b"", False
    try:
        with _opened(path) as file:
            while not complete and size <= MOST_HEAD and head.count(b"\n") + head.count(b"\r") < 3:
                head += file.read(size - len(head))
                complete = len(head) < size
                size *= 8
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None
    if not head.strip():
        raise NotATableError(f"{shown}: the file is empty")
    for magic, description in _MAGIC.items():
        if head.startswith(magic):
            raise InputError(f"{shown}: this is {description}")
    encoding = _encoding(head, complete)
    if encoding is None:
        raise InputError(f"{shown}: this is a binary file, not text")
    if encoding != "utf-8":
        path = _in_utf8(path, shown, spool, encoding)
    return path, head.decode(encoding, errors="ignore").removeprefix("\ufeff"), complete


def _refuse_oversized(path: Path, shown: str) -> None:
    """Refuse a compressed file that unpacks to much more than readings do; it is unpacked once, into nothing."""
    packed = path.stat().st_size
    bound = max(UNPACKED_RATIO * packed, UNPACKED_SIZE)
    # No file of this kind unpacks to more than 1,032 times its size.
    if 1032 * packed <= bound:
        return
    unpacked = 0
    try:
        with _opened(path) as file:
            if not isinstance(file, gzip.GzipFile):
                return
            while block := file.read(1 << 20):
                unpacked += len(block)
                if unpacked > bound:
                    raise InputError(
                        f"{shown}: unpacks to more than {bound >> 20:,} MB, {unpacked // packed} times its size, "
                        "which readings do not; unpack it first if it is right"
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None


def _encoding(head: bytes, complete: bool) -> str | None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        return None
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The head may end within a character.
        if complete or error.start < len(head) - 4:
            controls = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in head)
            accents = sum(byte > 126 for byte in head)
            return None if controls * 100 > len(head) or accents * 3 > len(head) else "cp1252"
    return "utf-8"


def _in_utf8(path: Path, shown: str, spool: Path, encoding: str) -> Path:
    copy = _copy_path(spool, path)
    try:
        with (
            _opened(path) as raw,
            io.TextIOWrapper(raw, encoding, errors="replace", newline="") as text,
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(text, out, 1 << 20)
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None
    return copy


def _array_as_lines(path: Path, shown: str, spool: Path) -> Path:
    """Write a JSON array as lines; it is read into memory, since files with one array are small."""
    try:
        with _opened(path) as file:
            entries = json.load(file)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{shown}: this JSON cannot be read: {error}") from None
    copy = _copy_path(spool, path)
    copy.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return copy


def _copy_path(spool: Path, path: Path) -> Path:
    spool.mkdir(parents=True, exist_ok=True)
    return spool / f"{sum(1 for _ in spool.iterdir())}-{path.name.removesuffix('.gz')}"


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the fields of some lines; a quoted field with a line break gives two rows of wrong length."""
    full = [line for line in lines[: 2 * SAMPLE] if line.strip()][:SAMPLE]
    return list(csv.reader(full, delimiter=delimiter))


def _delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return the delimiter and the number of fields: the one that most lines agree on, with most fields."""
    best = (0.0, 0, ",")
    for delimiter in _DELIMITERS:
        rows = _rows([line for line in lines[: 2 * SAMPLE] if not line.startswith("#")], delimiter)
        fields, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if fields > 1:
            best = max(best, (round(count / len(rows), 2), fields, delimiter), key=lambda entry: entry[:2])
    return best[2], max(best[1], 1)


def _header(lines: Sequence[str], delimiter: str, fields: int) -> tuple[int, list[str]]:
    """Return the number of lines before the first row, and the names of the columns."""
    comment: list[str] | None = None
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        row = next(csv.reader([line.lstrip("#")], delimiter=delimiter))
        if line.startswith("#"):
            comment = row if len(row) == fields else None
            continue
        below = [entry for entry in _rows(lines[index + 1 :], delimiter) if len(entry) == fields]
        if len(row) == fields - 1 and below:
            # Rows that end in a delimiter, or begin with a row number as R writes them, have one column without a name.
            row = [*row, ""] if all(not entry[-1].strip() for entry in below) else ["", *row]
        if len(row) != fields:
            continue
        if not _is_data(row, below):
            return index + 1, _unique(row)
        return index, _unique(comment or [""] * fields)
    return len(lines), [""]


def _is_data(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a row of data rather than a header."""
    kinds = [find_kind([cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell]) for cell in row]
    if "time" in kinds or "date" in kinds:
        return True
    if not below or "number" not in kinds:
        return False
    return all(
        kind == find_kind([cell.replace(",", ".") for cell in column])
        for kind, column in zip(kinds, zip(*below, strict=True), strict=True)
    )


def _unique(row: Sequence[str]) -> list[str]:
    names: list[str] = []
    for position, name in enumerate(row, 1):
        name = name.strip() or f"column{position}"
        before = sum(1 for entry in names if entry == name or entry.startswith(f"{name}_"))
        names.append(name if name not in names else f"{name}_{before}")
    return names


def _have_commas(cells: Sequence[str]) -> bool:
    texts = [cell for cell in cells if not is_missing(cell)]
    return 2 * sum(bool(_DECIMAL_COMMA.fullmatch(text)) for text in texts) > len(texts)


def _leaves(entry: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in entry.items():
        keys = (*above, key)
        if isinstance(value, dict) and len(keys) < 4:
            yield from _leaves(value, keys)
        else:
            yield keys, "" if value is None else value if isinstance(value, str) else json.dumps(value)
