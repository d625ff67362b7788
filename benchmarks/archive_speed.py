"""What `sensormend clean` costs on a large archive, beside what DuckDB alone needs to read, sort and write it.

    python benchmarks/archive_speed.py                          20 million readings, from Parquet and from CSV
    python benchmarks/archive_speed.py --readings 100000000 --formats parquet

The readings are a simulated city of 2,000 sensors with its faults and gaps, in no order. DuckDB reads them, sorts
them by time and writes one Parquet table with as many columns as the rows have, with its own settings; `clean` runs as
its own process, so that its memory is its own. Both are timed in turns in the same run: the ratio is what counts, and
of the ratios that of the processor's time, which does not depend on how many cores are free.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
from rich.console import Console
from rich.table import Table

from sensormend.readings import DAY, HOUR
from sensormend.simulate.network import stream

SENSORS = 2000
START = 17_897 * DAY
"""1 January 2019."""

ALONE = """
COPY (SELECT sensor, time, value, 1::INTEGER AS n, value AS cleaned, value - 1 AS lower, value + 1 AS upper,
             1::TINYINT AS flag, '' AS reason, 'observed' AS origin
      FROM {source} ORDER BY time) TO '{target}' (FORMAT parquet)
"""

MEASURED = """
import json, sys, time
from sensormend.archive.cleaning import clean_archive
marks = []
def stages(name, readings):
    marks.append((name, time.perf_counter()))
    return lambda done: None
began, cpu = time.perf_counter(), time.process_time()
report = clean_archive(sys.argv[1], sys.argv[2], stages=stages)
ended = time.perf_counter()
times = [*(mark for _, mark in marks), ended]
print(json.dumps({
    "seconds": ended - began,
    "cpu": time.process_time() - cpu,
    "stages": {name: after - mark for (name, mark), after in zip(marks, times[1:])},
    # Of this program alone: what getrusage says began with the process that started it.
    "peak_mb": int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024,
    "rows": sum(report.flags.values()),
}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=int, default=20_000_000)
    parser.add_argument("--sensors", type=int, default=SENSORS)
    parser.add_argument("--variables", type=int, default=1, help="that each sensor measures")
    parser.add_argument("--formats", nargs="+", choices=["parquet", "csv"], default=["parquet", "csv"])
    parser.add_argument("--folder", type=Path, help="where the files go; a temporary folder otherwise")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    args = parser.parse_args()
    screen = Console()
    results = []
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        folder = Path(place)
        source = simulate(folder / "readings.parquet", args.readings, args.sensors, args.variables)
        for kind in args.formats:
            if kind == "csv":
                duckdb.execute(f"COPY '{source}' TO '{folder / 'readings.csv'}' (FORMAT csv)")
            results.append(compare(folder / f"readings.{kind}", folder) | {"format": kind, "readings": args.readings})
            screen.print(shown(results[-1]))
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def simulate(path: Path, readings: int, sensors: int, variables: int) -> Path:
    """Write a city's readings in no order; each of its channels is a sensor or, with several variables, one of them."""
    place = duckdb.connect(str(path.with_suffix(".duckdb")), config={"memory_limit": "2GB"})
    place.execute("CREATE TABLE raw (sensor INTEGER, time BIGINT, value DOUBLE)")
    channels = sensors * variables
    left, code = readings, np.repeat(np.arange(channels, dtype=np.int32), 24)
    for number, day in enumerate(stream(channels, seed=0)):
        value = day.readings.ravel()
        time = np.tile(START + number * DAY + np.arange(24, dtype=np.int64) * HOUR, channels)
        came = np.flatnonzero(np.isfinite(value))[:left]
        part = {"sensor": code[came], "time": time[came], "value": value[came]}
        place.register("part", part)
        place.execute("INSERT INTO raw SELECT * FROM part")
        left -= came.size
        if left <= 0:
            break
    variable = f"format('variable-{{:02d}}', sensor % {variables}) AS variable, " if variables > 1 else ""
    place.execute(f"""
        COPY (SELECT format('sensor-{{:04d}}', sensor // {variables}) AS sensor, {variable}
                     make_timestamp(time) AS time, value
              FROM raw ORDER BY hash(sensor, time)) TO '{path}' (FORMAT parquet)""")
    place.close()
    path.with_suffix(".duckdb").unlink()
    return path


def compare(source: Path, folder: Path) -> dict[str, Any]:
    """Time both, DuckDB before and after: a machine that is busy at one time is so for both."""
    before = alone(source, folder)
    out = folder / "mended"
    mended: dict[str, Any] = json.loads(
        subprocess.run(
            [sys.executable, "-c", MEASURED, str(source), str(out)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        ).stdout
    )
    mended["written_mb"] = sum(file.stat().st_size for file in out.rglob("*.parquet")) / 2**20
    shutil.rmtree(out)
    after = alone(source, folder)
    seconds, cpu = ((one + other) / 2 for one, other in zip(before, after, strict=True))
    ratios = {"ratio": mended["seconds"] / seconds, "cpu_ratio": mended["cpu"] / cpu}
    return mended | {"duckdb": seconds, "duckdb_cpu": cpu} | ratios


def alone(source: Path, folder: Path) -> tuple[float, float]:
    """Return the seconds and the processor's seconds that DuckDB needs."""
    target = folder / "alone.parquet"
    start, used = perf_counter(), _children()
    code = "import duckdb, sys; duckdb.execute('SET enable_progress_bar = false'); duckdb.execute(sys.argv[1])"
    words = ALONE.format(source=f"'{source}'", target=target)
    subprocess.run([sys.executable, "-c", code, words], check=True)
    seconds, cpu = perf_counter() - start, _children() - used
    target.unlink()
    return seconds, cpu


def _children() -> float:
    """Return the processor's seconds of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shown(result: dict[str, Any]) -> Table:
    table = Table(title=f"{result['readings']:,} readings from {result['format']}", title_justify="left", box=None)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("DuckDB alone", f"{result['duckdb']:.1f} s")
    table.add_row("clean", f"{result['seconds']:.1f} s")
    for name, seconds in result["stages"].items():
        table.add_row(f"  {name}", f"{seconds:.1f} s")
    table.add_row("ratio", f"{result['ratio']:.2f}")
    table.add_row("processor's time", f"{result['cpu']:.1f} s beside {result['duckdb_cpu']:.1f} s")
    table.add_row("ratio of these", f"{result['cpu_ratio']:.2f}")
    table.add_row("readings per second", f"{result['readings'] / result['seconds']:,.0f}")
    table.add_row("peak memory", f"{result['peak_mb']:,.0f} MB")
    table.add_row("rows written", f"{result['rows']:,}, {result['written_mb']:,.0f} MB")
    return table


if __name__ == "__main__":
    raise SystemExit(main())
