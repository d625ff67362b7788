"""What a live feed costs: days per minute, memory over years, and how soon a slot's provisional values are there.

    python benchmarks/watch_speed.py days          # 50 sensors, replayed as fast as it goes, beside the model alone
    python benchmarks/watch_speed.py memory        # 200 sensors over 5,000 days
    python benchmarks/watch_speed.py provisional   # 1,000 sensors, slots of a second
    python benchmarks/watch_speed.py slot          # processor time of a slot's provisional values, by the time of day

Each prints what it measured. One thread: set OPENBLAS_NUM_THREADS=1, as `make bench` does.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from sensormend import NetworkModel
from sensormend.io.folder import file_rows
from sensormend.pipeline.cleaner import Cleaner
from sensormend.pipeline.grid import Grid
from sensormend.readings import DAY, NOTHING, SECOND, Readings
from sensormend.recovery import FloatArray
from sensormend.simulate.network import stream
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.output import Output
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.stream import Event, PeriodFinal

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from city_source import CitySource


def service(out: Path, source: Source, seen: object = None, step: str = "1h", period: str = "1d") -> Service:
    settings = Settings.of(source="-", out=out, step=step, period=period, metrics="off")
    on_event = seen if callable(seen) else lambda event: None
    return Service(settings, lambda mark, memory: source, on_event=on_event)


def resident() -> float:
    """Return the memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Drawn(Source):
    """A city's days, made before the clock starts."""

    live = False

    def __init__(self, city: CitySource) -> None:
        self._parts = list(iter(lambda: city.read(0.0), None))
        self._next = iter(self._parts)

    def read(self, wait: float) -> Arrived | None:
        """Return the next day."""
        return next(self._next, None)


def days(sensors: int, count: int) -> None:
    source = Drawn(CitySource(sensors, days=count, hours=24))
    with tempfile.TemporaryDirectory() as folder:
        start, busy = time.perf_counter(), time.process_time()
        service(Path(folder) / "out", source).run()
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    model, alone = NetworkModel(), 0.0
    for day in islice(stream(sensors), count):
        start = time.perf_counter()
        model.update(day.readings)
        alone += time.perf_counter() - start
    print(f"{count} days of {sensors} sensors: {seconds:.1f} s ({cpu:.1f} s of CPU), {60 * count / seconds:,.0f} days "
          f"per minute; the model alone {alone:.1f} s, so watch takes {seconds / alone:.1f} times as long")  # fmt: skip


def memory(sensors: int, count: int) -> None:
    """Print the memory as the days go by."""
    city = CitySource(sensors, days=count, hours=24)
    results: list[tuple[int, float]] = []

    def seen(event: Event | None) -> None:
        if isinstance(event, PeriodFinal) and watching.stream.tally.flags:
            number = city.day
            if number % max(count // 20, 1) == 0:
                results.append((number, resident()))
                print(f"day {number:>6,}: {results[-1][1]:.0f} MB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        watching = service(Path(folder) / "out", city, seen)
        watching.run()
    grown = [megabytes for number, megabytes in results if number > count // 10]
    print(f"after the first tenth: {min(grown):.0f} to {max(grown):.0f} MB, {max(grown) / min(grown) - 1:.1%} apart; "
          f"last over first {grown[-1] / grown[0]:.3f}")  # fmt: skip


class Seconds(Source):
    """A network whose slots are a second long, by the clock."""

    def __init__(self, sensors: int, slots: int, length: int) -> None:
        self._days = self._second_by_second(sensors, slots)
        self._names = tuple(f"S{number:05d}" for number in range(sensors))
        self._start = (clock() // (slots * SECOND) + 1) * slots * SECOND
        self._number, self._length = 0, length

    def _second_by_second(self, sensors: int, slots: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.float64]]]:
        for day in stream(sensors, slots=slots):
            yield from day.readings.T

    def read(self, wait: float) -> Arrived | None:
        """Return a slot's readings when it begins."""
        if self._number >= self._length:
            return None
        moment = self._start + self._number * SECOND
        ahead = (moment - clock()) / SECOND
        if ahead > 0:
            time.sleep(min(wait, ahead))
            if clock() < moment:
                return Arrived(NOTHING, clock())
        self._number += 1
        value = next(self._days)
        here = np.flatnonzero(np.isfinite(value))
        times = np.full(here.size, moment)
        return Arrived(Readings(self._names, ("",), here, np.zeros_like(here), times, value[here]), clock())


def provisional(sensors: int, slots: int, periods: int) -> None:
    waits: list[float] = []
    newest = 0

    def seen(event: Event | None) -> None:
        nonlocal newest
        path = out / "state" / "provisional.parquet"
        if event is not None or not path.exists() or path.stat().st_mtime_ns == newest:
            return
        newest = path.stat().st_mtime_ns
        rows = file_rows(path)
        # The newest slot in it, from its end by the clock to the file's own time.
        if watching.stream.closed is not None:
            waits.append(newest / 1e9 - (int(rows.time.max()) / SECOND + 1))

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        source = Seconds(sensors, slots, slots * periods)
        watching = service(out, source, seen, step="1s", period=f"{slots}s")
        watching.run()
    results = np.array(waits[slots:])
    print(f"{sensors:,} sensors, {results.size} slots: provisional values {np.median(results):.2f} s after the end of "
          f"their slot (median), {np.quantile(results, 0.99):.2f} s (99 %), {results.max():.2f} s (all)")  # fmt: skip


def slot(sensors: int, slots: int, count: int) -> None:
    """Print what a slot's provisional values cost at the beginning, in the middle and at the end of a period."""
    step = DAY // slots
    cleaner, names = Cleaner(Grid(step, DAY)), tuple(f"S{number:05d}" for number in range(sensors))
    first = int(cleaner.grid.find_period(clock()))

    def readings(values: FloatArray, period: int) -> Readings:
        place, sensor = np.nonzero(np.isfinite(values.T))
        times = cleaner.grid.period_start(period) + place * step
        return Readings(names, ("",), sensor, np.zeros_like(sensor), times, values[sensor, place])

    days = [day.readings for day in islice(stream(sensors, slots=slots), count + 1)]
    for number, day in enumerate(days[:-1]):
        list(cleaner.push(readings(day, first + number), first + number))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "state").mkdir()
        output = Output(Path(folder), late_for=DAY, keep=None, compact=False)
        for share in (0.1, 0.5, 1.0):
            ended, costs = round(share * slots), list[tuple[float, float]]()
            # Slot after slot, as a live feed has them; what is kept for the next one is there from the second on.
            for reached in range(max(0, ended - 4), ended):
                part = readings(days[-1][:, : reached + 1], first + count)
                until = cleaner.grid.period_start(first + count) + (reached + 1) * step
                start = time.process_time()
                rows = cleaner.peek(part, first + count, until).rows
                between = time.process_time()
                output.provisional(rows, until)
                costs.append((between - start, time.process_time() - between))
            cleaning, writing = np.median(costs[1:], axis=0) * 1e3
            print(f"{sensors:,} sensors, slot {ended:,} of {slots:,}: {cleaning + writing:.0f} ms, "
                  f"{writing:.0f} of them for the file", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("days", "memory", "provisional", "slot"))
    parser.add_argument("--sensors", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--slots", type=int, default=24, help="of a day, for `slot`")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if args.what == "days":
        days(args.sensors or 50, args.days or 1000)
    elif args.what == "memory":
        memory(args.sensors or 200, args.days or 5000)
    elif args.what == "slot":
        slot(args.sensors or 10_000, args.slots, args.days or 8)
    else:
        provisional(args.sensors or 1000, 24, args.days or 8)


if __name__ == "__main__":
    main()
