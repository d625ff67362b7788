"""The rows of an OUT, some weeks at a time, as tables that questions are asked of."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from sensormend.errors import InputError
from sensormend.io.folder import data_files, date_of
from sensormend.io.sql import literal
from sensormend.readings import DAY

__all__ = ["STEADY", "Part", "parts_of"]

ROWS = 1_500_000
"""In memory at once: some 200 MB."""

CHANGING = 1_000_000
"""Rows whose changes are looked at, which needs them in order; of more, some sensors are taken."""

STEADY = -(1 << 20)
"""Stands for an interval without any width."""

CAUSE = """CASE WHEN flag = 9 AND reason IN ('silent', 'fill') THEN reason WHEN flag = 9 THEN 'missing'
    WHEN flag = 4 AND reason = 'spike' THEN 'spike' WHEN flag = 4 THEN 'faulty' ELSE 'ignored' END"""


@dataclass(frozen=True)
class Part:
    """Rows from `start` to before `end`, None for no limit; each method asks one question."""

    engine: Any
    step: int
    start: int | None
    end: int | None
    every: int

    def _ask(self, question: str) -> list[Any]:
        found: list[Any] = self.engine.execute(question).fetchall()
        return found

    def channels(self) -> list[Any]:
        """Return sensor, variable, rows, estimates, corrections, readings, alone, not judged else, first, last time."""
        return self._ask(
            "SELECT sensor, variable, count(*), count(*) FILTER (guess), count(*) FILTER (corrected), "
            "count(*) FILTER (n > 0), "
            "count(*) FILTER (flag = 2 AND reason = 'alone'), count(*) FILTER (flag = 2 AND reason <> 'alone'), "
            "min(slot), max(slot) FROM part GROUP BY ALL"
        )

    def flags(self) -> list[Any]:
        """Return flag and how many."""
        return self._ask("SELECT flag, count(*) FROM part GROUP BY ALL")

    def widths(self) -> list[Any]:
        """Return variable, cause, width in 64ths of an octave, and how many estimates."""
        return self._ask(
            f"SELECT variable, {CAUSE}, CASE WHEN upper - lower > 0 THEN floor(log2(upper - lower) * 64)::INTEGER "
            f"WHEN upper IS NOT NULL THEN {STEADY} END, count(*) FROM part WHERE guess GROUP BY ALL"
        )

    def others(self) -> list[Any]:
        """Return `unknown` and `duplicate`, and how many."""
        return self._ask(
            "SELECT 'unknown', count(*) FILTER (cleaned IS NULL) FROM part UNION ALL "
            "SELECT 'duplicate', count(*) FILTER (reason = 'duplicate') FROM part"
        )

    def levels(self) -> list[Any]:
        """Return variable, how many good readings, their mean and variance."""
        return self._ask(
            "SELECT variable, count(*), avg(value), var_pop(value) FROM part WHERE flag = 1 GROUP BY variable"
        )

    def spreads(self) -> list[Any]:
        """Return variable, weight, and the variance among sensors at one time, weighted."""
        return self._ask(
            "SELECT variable, sum(many), sum(many * off) FROM (SELECT variable, slot, count(*) AS many, "
            "var_pop(value) AS off FROM part WHERE flag = 1 GROUP BY variable, slot HAVING count(*) > 2) "
            "GROUP BY variable"
        )

    def changes(self) -> list[Any]:
        """Return variable, then for readings and for estimates: how many changes, and the sum of their squares."""
        chosen = f"hash(sensor) % {self.every} = 0" if self.every > 1 else "true"
        return self._ask(
            f"""SELECT variable, count(*) FILTER (NOT guess), coalesce(sum(pow(off, 2)) FILTER (NOT guess), 0),
            count(*) FILTER (guess), coalesce(sum(pow(off, 2)) FILTER (guess), 0) FROM (
              SELECT variable, guess, cleaned - lag(cleaned) OVER run AS off, slot - lag(slot) OVER run AS apart,
              guess = lag(guess) OVER run AND (guess OR flag = 1 AND lag(flag) OVER run = 1) AS alike
              FROM part WHERE {chosen} WINDOW run AS (PARTITION BY sensor, variable ORDER BY slot))
            WHERE alike AND apart BETWEEN {self.step // 2} AND {self.step * 3 // 2} AND off IS NOT NULL
            GROUP BY variable"""
        )

    def unjudged(self) -> list[Any]:
        """Return date (days since 1970), how many readings were not judged, and how many there were."""
        return self._ask(
            "SELECT make_timestamp(slot)::DATE - DATE '1970-01-01', count(*) FILTER (flag = 2 AND reason <> 'alone'), "
            "count(*) FILTER (n > 0) FROM part GROUP BY 1 HAVING count(*) FILTER (flag = 2 AND reason <> 'alone') > 0 "
            "ORDER BY 1"
        )

    def nobody(self) -> list[int]:
        """Return the times at which nobody had a reading, in order."""
        return [time for (time,) in self._ask("SELECT slot FROM part GROUP BY slot HAVING max(n) = 0 ORDER BY slot")]

    def short_gaps(self) -> list[Any]:
        """Return lengths of gaps that lie in this part and are shorter than a day, microseconds, and how many."""
        return self._ask(
            f"SELECT (round((last - begin) / {self.step}) + 1)::BIGINT * {self.step}, count(*) FROM gaps "
            f"WHERE NOT ({self._long()}) GROUP BY ALL"
        )

    def long_gaps(self) -> list[Any]:
        """Return sensor, variable, first and last time of the other gaps, in order of time."""
        return self._ask(f"SELECT sensor, variable, begin, last FROM gaps WHERE {self._long()} ORDER BY begin")

    def _long(self) -> str:
        edges = [f"last - begin + {self.step} >= {DAY}"]
        edges += [] if self.start is None else [f"begin <= {self.start + self.step // 2}"]
        edges += [] if self.end is None else [f"last + {self.step} >= {self.end - self.step // 2}"]
        return " OR ".join(edges)


def parts_of(folder: Path, step: int, last: int, channels: int) -> Iterator[tuple[Part, float]]:
    """Return the parts of a folder OUT in order of time, each with how much is done after it.

    Parameters
    ----------
    folder
        With `data/date=...` in it.
    step
        Microseconds of a slot.
    last
        Where the last part ends.
    channels
        About how many there are.
    """
    dates = sorted({date_of(file.parent) for file in data_files(folder, None, last)})
    daily = max(channels * DAY // step, 1)
    many = max(ROWS // daily, 1)
    every = max(round(daily * len(dates) / CHANGING), 1)
    with duckdb.connect() as engine:
        for begin in range(0, len(dates), many):
            chosen = dates[begin : begin + many]
            _take(engine, folder, (chosen[0] * DAY, min(chosen[-1] * DAY + DAY, last)), step)
            # A part goes on where the next one begins, also where dates between them are lacking.
            start = chosen[0] * DAY if begin else None
            end = chosen[-1] * DAY + DAY if begin + many < len(dates) else None
            yield Part(engine, step, start, end, every), (begin + len(chosen)) / len(dates)


def _take(engine: Any, folder: Path, span: tuple[int, int], step: int) -> None:
    while True:
        files = data_files(folder, *span)
        try:
            _read(engine, files, span[1], step)
            return
        except duckdb.Error as error:
            # A watch may have made one file of several while they were read: then there are others now.
            if files == data_files(folder, *span):
                raise InputError(f"cannot read {folder.name}/data: {str(error).splitlines()[0]}") from error


def _read(engine: Any, files: list[Path], last: int, step: int) -> None:
    listed = ", ".join(literal(glob.escape(str(file))) for file in files)
    source = f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
    columns = {line[0] for line in engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    variable = "coalesce(variable, '')" if "variable" in columns else "''"
    engine.execute(
        f"CREATE OR REPLACE TEMP TABLE part AS SELECT sensor, {variable} AS variable, epoch_us(time) AS slot, value, "
        "n, cleaned, lower, upper, flag, coalesce(reason, '') AS reason, coalesce(origin = 'estimated', false) AS "
        "guess, coalesce(origin = 'corrected', false) AS corrected "
        f"FROM {source} WHERE time < make_timestamp({last})"
    )
    engine.execute(
        f"""CREATE OR REPLACE TEMP TABLE gaps AS SELECT sensor, variable, min(slot) AS begin, max(slot) AS last FROM (
          SELECT sensor, variable, slot, sum(fresh::INTEGER) OVER (PARTITION BY sensor, variable ORDER BY slot) AS gap
          FROM (
            SELECT *, coalesce(slot - lag(slot) OVER (PARTITION BY sensor, variable ORDER BY slot) > {step * 3 // 2},
            true) AS fresh FROM part WHERE guess))
        GROUP BY sensor, variable, gap"""
    )
