"""An hour of everything at once, by hand: `make soak`, or `python benchmarks/soak.py --minutes 60`.

A real `sensormend watch` on a real broker, with a PostgreSQL sink and the dashboard, takes an hour of readings in a
quarter of a second, so that sixty minutes are 600 days. Sensors join and leave, some readings come late, the broker is
restarted and the database goes away. Every half minute it prints what the process holds: memory, descriptors, threads,
files and bytes of OUT, how far it is behind what was published (in hours of the readings), and what waits for the sink.
It ends with 1 where one of these grows from the second quarter of the time to the last one by more than `LIMITS` allow,
where it is behind, or where something waits, at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from servers import Mosquitto, Postgres, restartable_postgres, running_mosquitto
from torture import publishing
from waiting import wait_until
from watch_process import WatchProcess

START = 1_577_836_800
"""1 January 2020, in seconds."""

PER_SECOND = 4.0
"""Hours of readings in a second."""

SENSORS, STAY = 30, 120
"""Sensors at any time, and the days after which one leaves and another joins, on average."""

LIMITS = {"megabytes": (1.15, 20.0), "descriptors": (1.0, 8.0), "threads": (1.0, 4.0),
          "files": (1.2, 30.0), "out_megabytes": (1.3, 10.0)}  # fmt: skip
"""By which factor, and by how much more, each may be larger in the last quarter than in the second one."""

BEHIND = 12.0
"""Hours of readings, three seconds of ours, by which it may be behind when nothing is away."""


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

    minutes: float
    megabytes: float
    descriptors: int
    threads: int
    files: int
    out_megabytes: float
    behind: float
    backlog: float
    disturbed: bool


def messages(days: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield topic and payload of each hour; a sensor that leaves is followed by one with another name."""
    random = np.random.default_rng(seed)
    names, joined = [f"s{number:04d}" for number in range(SENSORS)], SENSORS
    level, course = random.normal(0, 2, SENSORS), 0.0
    held: list[dict[str, object]] = []
    for hour in range(24 * days):
        if hour % 24 == 0:
            for place in np.flatnonzero(random.random(SENSORS) < 1 / STAY).tolist():
                names[place], level[place], joined = f"s{joined:04d}", random.normal(0, 2), joined + 1
        course = 0.97 * course + random.normal(0, 0.5)
        value = 15 + 5 * np.sin(2 * np.pi * hour / 24) + course + level + random.normal(0, 0.2, SENSORS)
        value[random.random(SENSORS) < 0.002] += 20
        entries = [
            {"sensor": name, "time": START + 3600 * hour, "value": round(float(one), 2)}
            for name, one in zip(names, value, strict=True)
            if random.random() > 0.02
        ]
        # One in a thousand comes two days late, with the next that does.
        held += [entry for entry in entries if random.random() < 0.001]
        late = [entry for entry in held if int(str(entry["time"])) < START + 3600 * (hour - 48)]
        held = [entry for entry in held if entry not in late]
        yield "city", json.dumps([entry for entry in entries if entry not in held] + late)


def look(watch: WatchProcess, out: Path, minutes: float, published: float, disturbed: bool) -> Held:
    """Look at the process from outside."""
    place, metrics = Path(f"/proc/{watch.process.pid}"), watch.metrics()
    sizes = []
    for path in out.rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except FileNotFoundError:
            continue
    behind = published - (metrics["sensormend_watermark_seconds"] - START) / 3600
    return Held(
        minutes, watch.resident_bytes / 2**20,
        len(list((place / "fd").iterdir())), len(list((place / "task").iterdir())),
        len(sizes), sum(sizes) / 2**20, behind,
        sum(value for name, value in metrics.items() if name.startswith("sensormend_backlog{")), disturbed,
    )  # fmt: skip


class Disturbing:
    """Takes the broker and the database away by turns, each for a while."""

    def __init__(self, broker: Mosquitto, server: Postgres, every: float) -> None:
        self._servers, self._every = (broker, server), every
        self._next, self._away, self._turn = time.monotonic() + every, False, 0
        self.until = 0.0

    def look(self) -> None:
        """Do what is due."""
        if time.monotonic() < self._next:
            return
        server = self._servers[self._turn % 2]
        if self._away:
            server.start()
            self._away, self._turn = False, self._turn + 1
            self._next, self.until = time.monotonic() + self._every, time.monotonic() + self._every / 2
        else:
            server.stop()
            self._away, self._next, self.until = True, time.monotonic() + self._every / 6, np.inf

    def end(self) -> None:
        """Have everything back."""
        if self._away:
            self._servers[self._turn % 2].start()
            self._away = False


def grown(course: list[Held]) -> list[str]:
    """Say what is not flat, from the second quarter to the last."""
    quarter = len(course) // 4
    problems = []
    for name, (factor, more) in LIMITS.items():
        before, after = (
            statistics.median(float(getattr(held, name)) for held in part)
            for part in (course[quarter : 2 * quarter], course[3 * quarter :])
        )
        if after > factor * before + more:
            problems.append(f"{name} grew from {before:,.1f} to {after:,.1f}")
    calm = [held.behind for held in course[quarter:] if not held.disturbed]
    if calm and statistics.median(calm) > BEHIND:
        problems.append(f"it was {statistics.median(calm):.1f} hours of readings behind")
    return problems


def soak(minutes: float, every: float, sample: float) -> int:
    """Run it, and return the exit code."""
    seconds = 60 * minutes
    days = max(3, round(seconds * PER_SECOND / 24))
    hours, course = list(messages(days)), list[Held]()
    with (
        running_mosquitto(persistent=True) as broker,
        restartable_postgres() as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        out = Path(folder) / "out"
        sinks = ("--sink", f"{server.address}?table=mended", "--alert", f"command: tee -a {folder}/alerts")
        words = (f"{broker.address}/city", out, "--step", "1h", "--period", "1d", "--late-for", "10d")
        # Rows go after an eighth of the time, so that the files of OUT can be flat.
        keep = ("--keep", f"{max(11, days // 8)}d")
        with WatchProcess(*words, *keep, *sinks, "--serve", "127.0.0.1:0") as watch:
            watch.connected()
            wait_until(lambda: watch.metrics()["sensormend_connected"] == 1)
            print("".join(f"{field.name:>14s}" for field in fields(Held)), flush=True)
            start = time.monotonic()
            disturbing = Disturbing(broker, server, every)
            with publishing(broker, iter(hours), seconds, len(hours)) as published:
                while (elapsed := time.monotonic() - start) < seconds:
                    disturbing.look()
                    if elapsed >= sample * (len(course) + 1):
                        done = min(len(hours), elapsed / seconds * len(hours))
                        calm = time.monotonic() > disturbing.until
                        held = look(watch, out, elapsed / 60, done, not calm)
                        if done >= 30:
                            print("".join(f"{value!s:>14s}" if isinstance(value, bool) else f"{value:14,.1f}"
                                          for value in astuple(held)), flush=True)  # fmt: skip
                        course.append(held)
                    time.sleep(0.1)
                disturbing.end()
                published()
            last = START + 3600 * (len(hours) - 2)
            wait_until(lambda: watch.metrics()["sensormend_watermark_seconds"] >= last, 120)
            wait_until(lambda: look(watch, out, 0, 0, False).backlog == 0, 120)
            problems = [line for line in watch.lines if "Traceback" in line]
            code = watch.stop()
        problems += grown(course) + ([f"it ended with {code}"] if code else [])
    for line in problems:
        print(line)
    print(f"{days} days of {SENSORS} sensors in {minutes:g} minutes: {'not flat' if problems else 'flat'}")
    return 1 if problems else 0


def main() -> None:
    """Read what is typed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=120.0, help="seconds between two outages")
    parser.add_argument("--sample", type=float, default=30.0, help="seconds between two looks")
    args = parser.parse_args()
    sys.exit(soak(args.minutes, args.every, args.sample))


if __name__ == "__main__":
    main()
