"""`sheets` writes every sheet of an Excel workbook to a CSV file."""

from __future__ import annotations

import csv
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sensormend.errors import InputError, SensormendError
from sensormend.io.sources import InputFile
from sensormend.io.sql import first_line
from sensormend.io.table_files import UNPACKED_RATIO, UNPACKED_SIZE

__all__ = ["sheets"]

SAMPLE = 200
"""The number of rows that are inspected to find the names of the columns, and which of them hold dates."""

Row = Sequence[Any]


def _refuse_oversized(file: InputFile) -> None:
    """Refuse a workbook, a zip archive, that unpacks to much more than readings do."""
    bound = max(UNPACKED_RATIO * file.path.stat().st_size, UNPACKED_SIZE)
    try:
        with zipfile.ZipFile(file.path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return  # the reader says what is wrong with it
    if unpacked > bound:
        raise InputError(f"{file.shown}: unpacks to {unpacked >> 20:,} MB, more than {UNPACKED_RATIO} times its size")


def sheets(file: InputFile, spool: Path) -> list[InputFile]:
    """Write the sheets of a workbook that are not empty to CSV files in the folder `spool`, and return these.

    Where no column names the sensor, it is the name of the workbook for a single sheet, else that of the sheet.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise SensormendError(
            f"{file.shown}: Excel files need openpyxl: install it with pip install 'sensormend[excel]'"
        ) from None
    spool.mkdir(parents=True, exist_ok=True)
    written: list[tuple[str, Path]] = []
    with warnings.catch_warnings():
        # openpyxl warns about styles and extensions of the workbook, which do not matter here.
        warnings.simplefilter("ignore")
        _refuse_oversized(file)
        try:
            book = load_workbook(file.path, read_only=True, data_only=True)
        except Exception as error:  # whatever a broken archive of XML files makes its readers raise
            hint = "; save it as .xlsx" if file.path.suffix.lower() == ".xls" else ""
            raise InputError(f"{file.shown}: this Excel file cannot be read: {first_line(error)}{hint}") from None
        try:
            for sheet in book.worksheets:
                path = spool / f"{sum(1 for _ in spool.iterdir())}-sheet.csv"
                if _write(path, sheet.iter_rows(values_only=True)):
                    written.append((sheet.title, path))
        except Exception as error:
            raise InputError(f"{file.shown}: this Excel file cannot be read: {first_line(error)}") from None
        finally:
            book.close()
    if not written:
        raise InputError(f"{file.shown}: the file is empty")
    if len(written) == 1:
        return [InputFile(written[0][1], file.shown, "csv", file.in_folder, file.sensor)]
    return [InputFile(path, f"{file.shown} [{title}]", "csv", True, title) for title, path in written]


def _write(path: Path, rows: Iterable[Row]) -> bool:
    """Write the table of a sheet as CSV; return whether there is one."""
    full = (row for row in rows if any(_is_full(cell) for cell in row))
    head = _without_title(list(islice(full, SAMPLE)))
    if not head:
        return False
    columns = [index for index in range(max(map(len, head))) if any(_is_full(cell) for cell in _cells(head, index))]
    dates = {index for index in columns if _are_dates(_cells(head, index))}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
        for row in chain(head, full):
            writer.writerow([_text(row[index] if index < len(row) else None, index in dates) for index in columns])
    return True


def _without_title(head: list[Row]) -> list[Row]:
    """Drop the rows above the names of the columns: those with far fewer cells than the table has."""
    counts = [sum(map(_is_full, row)) for row in head]
    start = next((index for index, count in enumerate(counts) if 2 * count > max(counts)), 0)
    return head[start:]


def _cells(rows: Iterable[Row], index: int) -> Iterator[Any]:
    return (row[index] for row in rows if index < len(row))


def _is_full(cell: Any) -> bool:
    return cell is not None and cell != ""


def _are_dates(cells: Iterable[Any]) -> bool:
    """Return whether all times of a column are midnights: Excel has no dates without a time."""
    times = [cell for cell in cells if isinstance(cell, datetime)]
    return bool(times) and all(cell.time() == time() for cell in times)


def _text(cell: Any, is_date: bool) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if is_date and cell.time() == time() else cell.isoformat(" ")
    if isinstance(cell, timedelta):
        return str(cell)
    if isinstance(cell, date | time):
        return cell.isoformat()
    return repr(cell) if isinstance(cell, float) else str(cell)
