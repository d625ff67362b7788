"""What a Dask cluster on this machine adds and brings: many small networks, and one that is large.

    python benchmarks/cluster_speed.py networks                 500 networks of 50 sensors, 60 days hourly
    python benchmarks/cluster_speed.py one                      4,000,000 sensors x 24, one worker against two
    python benchmarks/cluster_speed.py networks --networks 40 --out networks.json

Scheduler and workers are processes of their own, with one thread for products each. `networks` cleans the same table
without a cluster, with one worker and with two, in one run. `beside_ms_per_network` is the time of a worker that is not
in its networks' own `seconds`: handing out, the last small files, waiting. What one worker has of it beyond the run
without a cluster is the overhead, over the networks and over their days.

`one` walks the same days with `ClusterOLRTR` on one worker and on two, made on the workers that hold them; with
`--alone` also with `OLRTR` in this process, for the overhead. Only ratios of one run are meant.
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

import duckdb  # noqa: E402 - the threads have to be said first
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from sensormend.cluster import clean_networks  # noqa: E402
from sensormend.cluster.connecting import connected  # noqa: E402
from sensormend.files import surroundings  # noqa: E402
from sensormend.options import Options  # noqa: E402
from sensormend.readings import DAY, HOUR  # noqa: E402
from sensormend.simulate import city  # noqa: E402

START = 17_897 * DAY
"""1 January 2019."""

FIBER_LIMIT = 20.0
"""OLRTR's lambda2, as in speed_network.py."""

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


def networks(said: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Clean many networks without a cluster, with one worker and with two."""
    table = folder / "readings.parquet"
    readings = write_networks(table, said.networks, said.sensors, said.days)
    options = Options.of(step="1h", period="1d", one_pass=said.one_pass)
    figures: dict[str, Any] = {
        "networks": said.networks,
        "sensors": said.sensors,
        "days": said.days,
        "readings": readings,
    }

    def timed(name: str, address: str | None, processes: list[int]) -> None:
        out = folder / "out"
        stages: dict[str, float] = {}

        def stage(kind: str, count: int) -> Any:
            stages[kind] = perf_counter()
            return lambda done, beside="": None

        began, used = perf_counter(), processor_seconds(processes)
        report = clean_networks(table, out, "network", address, options, stages=stage)
        ended = perf_counter()
        if report.failed:
            raise SystemExit(f"{len(report.failed)} networks failed: {report.failed[0].outcome}")
        shutil.rmtree(out)
        inside, workers = sum(network.seconds for network in report.networks), max(len(processes) - 1, 1)
        figures[name] = {
            "seconds": round(ended - began, 1),
            "splitting": round(stages["mending"] - stages["reading"], 1),
            "mending": round(ended - stages["mending"], 1),
            "processor_seconds": round(processor_seconds(processes) - used, 1),
            "in_networks": round(inside, 1),
            "beside_ms_per_network": round(1e3 * (workers * (ended - stages["mending"]) - inside) / said.networks, 1),
            "readings_per_second": round(readings / (ended - began)),
        }
        print(name, figures[name], file=sys.stderr)

    # A cluster that waits takes no core: both are there from the beginning, so that neither is measured warmer.
    with running(1, folder) as one, running(2, folder) as two:
        timed("without a cluster", None, [])
        timed("one worker", *one)
        timed("two workers", *two)
    beyond = figures["one worker"]["beside_ms_per_network"] - figures["without a cluster"]["beside_ms_per_network"]
    figures["overhead_ms_per_network"] = round(beyond, 1)
    figures["overhead_ms_per_day"] = round(beyond / said.days, 3)
    figures["speed_up_of_two"] = round(figures["one worker"]["mending"] / figures["two workers"]["mending"], 2)
    return figures


def block(day: int, part: int, sensors: int, rank: int, dtype: str) -> NDArray[Any]:
    """Return a part of a day, made where it is needed: sensors of a few common courses, some wrong, some silent."""
    courses = np.random.default_rng(day).normal(size=(rank, 24))
    random = np.random.default_rng([day, part])
    tensor: NDArray[Any] = np.random.default_rng(part).normal(size=(sensors, rank)) @ courses
    tensor += 0.1 * random.normal(size=tensor.shape)
    tensor[random.random(sensors) < 0.01] += 10
    tensor[random.random(tensor.shape) < 0.05] = np.nan
    return tensor.astype(dtype)


def one(said: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Walk some days of one large network with one worker and with two."""
    from sensormend import OLRTR
    from sensormend.cluster.one_network import ClusterOLRTR

    dask, da, distributed = map(import_module, ("dask", "dask.array", "distributed"))  # none of them has types
    half = said.sensors // 2
    dtype = "float32" if said.single else "float64"
    settings: dict[str, Any] = {"rank": said.rank, "lambda2": FIBER_LIMIT, "seed": 0}
    settings |= {"precision": "single"} if said.single else {}
    settings |= {"solver": "accelerated"} if said.accelerated else {}
    figures: dict[str, Any] = {"sensors": 2 * half, "days": said.days, "settings": settings}

    def noted(name: str, seconds: list[float], iterations: list[int]) -> None:
        usual = float(np.median(seconds[1:] or seconds))
        figures[name] = {
            "seconds": [round(second, 2) for second in seconds],
            "iterations": iterations,
            "seconds_per_day": round(usual, 3),
            "ms_per_iteration": round(1e3 * usual / max(float(np.median(iterations[1:] or iterations)), 1), 1),
            "readings_per_second": round(2 * half * 24 / usual),
        }
        print(name, figures[name], file=sys.stderr)

    def spread(name: str, workers: int) -> list[NDArray[Any]]:
        """Walk the days on workers that hold them; what comes back is which sensors are faulty."""
        seconds, iterations, faulty = [], [], []
        with running(workers, folder) as (address, _), ClusterOLRTR(address, **settings) as model:
            client = model.client
            for day in range(said.days):
                parts = [dask.delayed(block)(day, part, half, said.rank, dtype) for part in range(2)]
                arrays = [da.from_delayed(part, (half, 24), dtype) for part in parts]
                # One worker has all of its sensors in one part, as it would have them without the other.
                tensor = client.persist(da.concatenate(arrays).rechunk((2 * half // workers, 24)))
                with client.as_current():
                    distributed.wait(tensor)
                began = perf_counter()
                found = model.update(tensor)
                faulty.append(client.compute(found.faulty).result())
                seconds.append(perf_counter() - began)
                iterations.append(int(found.iterations))
                del found, tensor
        noted(name, seconds, iterations)
        return faulty

    def here(name: str) -> list[NDArray[Any]]:
        seconds, iterations, faulty = [], [], []
        model = OLRTR(**settings)
        for day in range(said.days):
            tensor = np.concatenate([block(day, part, half, said.rank, dtype) for part in range(2)])
            began = perf_counter()
            found = model.update(tensor)
            seconds.append(perf_counter() - began)
            iterations.append(int(found.iterations))
            faulty.append(np.asarray(found.faulty))
        noted(name, seconds, iterations)
        return faulty

    found = [spread("one worker", 1), spread("two workers", 2), *([here("without a cluster")] if said.alone else [])]
    figures["faulty_fibers_that_differ"] = sum(
        int(np.sum(one_day != other)) for result in found[1:] for one_day, other in zip(found[0], result, strict=True)
    )
    figures["speed_up"] = round(figures["one worker"]["seconds_per_day"] / figures["two workers"]["seconds_per_day"], 2)
    if said.alone:
        alone, single = figures["without a cluster"], figures["one worker"]
        for kind in ("seconds_per_day", "ms_per_iteration"):
            figures[f"overhead_{kind}"] = round(single[kind] - alone[kind], 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    many = kinds.add_parser("networks", help="many small networks")
    many.add_argument("--networks", type=int, default=500)
    many.add_argument("--sensors", type=int, default=50)
    many.add_argument("--days", type=int, default=60)
    many.add_argument("--one-pass", action="store_true")
    large = kinds.add_parser("one", help="one large network")
    large.add_argument("--sensors", type=int, default=4_000_000)
    large.add_argument("--rank", type=int, default=10)
    large.add_argument("--days", type=int, default=3)
    large.add_argument("--single", action="store_true", help="in float32")
    large.add_argument("--accelerated", action="store_true", help="with the solver that takes fewer iterations")
    large.add_argument("--alone", action="store_true", help="OLRTR without a cluster too, for the overhead")
    for kind in (many, large):
        kind.add_argument("--out", type=Path, help="write the figures here as JSON")
    said = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sensormend-cluster-speed-"))
    try:
        figures = {"surroundings": surroundings(), **(networks if said.kind == "networks" else one)(said, folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(figures, indent=2)
    print(text)
    if said.out:
        said.out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
