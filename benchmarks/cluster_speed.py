"""What a Dask cluster on this machine adds and brings to many small networks.

    python benchmarks/cluster_speed.py                  500 networks of 50 sensors, 60 days hourly
    python benchmarks/cluster_speed.py --networks 40 --out networks.json
    python benchmarks/cluster_speed.py --networks 40 --sensors 5 --days 2 --alone       the fixed cost of a network

Scheduler and workers are processes of their own, with one thread for products each. The same table is cleaned
without a cluster, with one worker and with two, in one run. `beside_ms_per_network` is the time of a worker that is not
in its networks' own `seconds`: handing out, the last small files, waiting. What one worker has of it beyond the run
without a cluster is the overhead, over the networks and over their days.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(ONE_THREAD)

import duckdb  # noqa: E402 - the number of threads has to be set first
import numpy as np  # noqa: E402

from sensormend.cluster import clean_networks  # noqa: E402
from sensormend.cluster.connection import connected  # noqa: E402
from sensormend.files import surroundings  # noqa: E402
from sensormend.pipeline.options import Options  # noqa: E402
from sensormend.readings import DAY, HOUR  # noqa: E402
from sensormend.simulate.network import city  # noqa: E402

START = 17_897 * DAY
"""1 January 2019."""

CITIES = 10
"""Different cities among the networks; the rest are these again, whose readings cost as much."""


@contextmanager
def running(workers: int, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Have a scheduler and so many workers; give its address, and all processes."""
    file = folder / f"scheduler-{workers}.json"
    dask = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen([*dask, *words], **quiet)]
    try:
        while not file.exists() or not file.read_text().strip():
            if started[0].poll() is not None:
                raise SystemExit("the scheduler did not start")
        address: str = json.loads(file.read_text())["address"]
        for _ in range(workers):
            worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
            started.append(subprocess.Popen([*dask, *worker, "--local-directory", str(folder)], **quiet))
        with connected(address, timeout=20) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, [process.pid for process in started]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def processor_seconds(processes: list[int]) -> float:
    """Return what this process and some others have used of processors."""
    psutil = import_module("psutil")  # it comes with distributed
    used = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), *processes)]
    return float(sum(times.user + times.system for times in used))


def write_networks(path: Path, networks: int, sensors: int, days: int) -> int:
    """Write the readings of many networks, hour by hour, and return how many."""
    engine = duckdb.connect()
    for number in range(min(networks, CITIES)):
        value = np.moveaxis(city(sensors, days, seed=number).readings, 1, 2).reshape(sensors, -1)
        row, column = np.nonzero(np.isfinite(value))
        table = {
            "city": np.full(row.size, number),
            "sensor": row,
            "time": START + column * HOUR,
            "value": value[row, column],
        }
        engine.register("part", table)
        made = "INSERT INTO cities" if number else "CREATE TABLE cities AS"
        engine.execute(f"{made} SELECT * FROM part")
        engine.unregister("part")
    engine.execute(f"""
        COPY (SELECT 'network-' || lpad(n::VARCHAR, 5, '0') AS network, 's' || lpad(sensor::VARCHAR, 3, '0') AS sensor,
                     make_timestamp(time) AS time, value
              FROM cities JOIN range({networks}) AS every(n) ON n % {min(networks, CITIES)} = city
              ORDER BY time, n, sensor)
        TO '{path}' (FORMAT parquet)""")
    return int(engine.execute(f"SELECT count(*) FROM '{path}'").fetchall()[0][0])


def networks(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Clean many networks without a cluster, with one worker and with two."""
    table = folder / "readings.parquet"
    readings = write_networks(table, args.networks, args.sensors, args.days)
    options = Options.of(step="1h", period="1d", one_pass=args.one_pass)
    results: dict[str, Any] = {
        "networks": args.networks,
        "sensors": args.sensors,
        "days": args.days,
        "readings": readings,
    }

    def timed(name: str, address: str | None, processes: list[int]) -> None:
        out = folder / "out"
        stages: dict[str, float] = {}

        def stage(kind: str, count: int) -> Any:
            stages[kind] = perf_counter()
            return lambda done, beside="": None

        start, used = perf_counter(), processor_seconds(processes)
        report = clean_networks(table, out, "network", address, options, stages=stage)
        ended = perf_counter()
        if report.failed:
            raise SystemExit(f"{len(report.failed)} networks failed: {report.failed[0].outcome}")
        files = sum(file.is_file() for file in out.rglob("*"))
        shutil.rmtree(out)
        inside, workers = sum(network.seconds for network in report.networks), max(len(processes) - 1, 1)
        results[name] = {
            "seconds": round(ended - start, 1),
            "splitting": round(stages["cleaning"] - stages["reading"], 1),
            "mending": round(ended - stages["cleaning"], 1),
            "processor_seconds": round(processor_seconds(processes) - used, 1),
            "processor_ms_per_network": round(1e3 * (processor_seconds(processes) - used) / args.networks, 1),
            "files_per_network": round(files / args.networks, 1),
            "in_networks": round(inside, 1),
            "beside_ms_per_network": round(1e3 * (workers * (ended - stages["cleaning"]) - inside) / args.networks, 1),
            "readings_per_second": round(readings / (ended - start)),
        }
        print(name, results[name], file=sys.stderr)

    if args.alone:
        timed("without a cluster", None, [])
        return results
    # A cluster that waits takes no core: both are started first, so that both are measured warm.
    with running(1, folder) as one, running(2, folder) as two:
        timed("without a cluster", None, [])
        timed("one worker", *one)
        timed("two workers", *two)
    beyond = results["one worker"]["beside_ms_per_network"] - results["without a cluster"]["beside_ms_per_network"]
    results["overhead_ms_per_network"] = round(beyond, 1)
    results["overhead_ms_per_day"] = round(beyond / args.days, 3)
    results["speed_up_of_two"] = round(results["one worker"]["mending"] / results["two workers"]["mending"], 2)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--sensors", type=int, default=50)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--one-pass", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without a cluster only")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sensormend-cluster-speed-"))
    try:
        results = {"surroundings": surroundings(), **networks(args, folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(results, indent=2)
    print(text)
    if args.out:
        args.out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
