"""How soon the page is there, in a real browser, and what its server takes: `python benchmarks/web_speed.py`.

The demo's data (50 sensors, 90 days) and a large archive (2,000 sensors, 365 days), each served by `sensormend serve`
in a process of its own. Times in the browser are from the start of a navigation to the mark that the page sets when a
view is drawn with its data. Beside them stands what DuckDB alone takes to read one column of the same files.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb

from sensormend.cli.demo import FIRST_DAYS
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR
from sensormend.report.document import write_report
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from browser import Browser, running_chromium
from city_source import CitySource
from output_folders import big_output

ENDPOINTS = (
    "network", "matrix", "matrix?limit=2000", "places", "moment", "sensors", "sensors?sort=heard", "sensor?sensor={0}",
    "series?sensor={0}", "series?sensor={0}&from={1}&to={2}", "neighbours?sensor={0}", "faults", "faults.csv",
    "explain?sensor={0}&time={2}T12:00:00", "openapi.json",
)  # fmt: skip
VIEWS = ("#/", "#/sensor?sensor={0}", "#/faults", "#/sensor?sensor={0}&from={1}&to={2}")

DRAWN = "return performance.getEntriesByName('matrix-drawn')[0].startTime"
"""When the matrix was on the screen, milliseconds after the navigation began."""

ALONE = "DuckDB alone: one column of all files"

NOTED = """
window.shownAt = {};
new MutationObserver(() => {
  const main = document.querySelector("main[data-ready=true]");
  if (main && !(location.hash in window.shownAt)) window.shownAt[location.hash] = performance.now();
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ready"] });
"""
"""Run before the page's own scripts: notes when each view was there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of each request and view")
    parser.add_argument("--only-large", action="store_true", help="leave out the demo's data")
    parser.add_argument("--requests", type=int, default=1000, help="between two looks at the memory")
    parser.add_argument("--sensors", type=int, default=2000, help="of the large archive")
    parser.add_argument("--days", type=int, default=365, help="of the large archive")
    parser.add_argument("--slots", type=int, default=24, help="of a day of the large archive")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_chromium() as browser:
        if not args.only_large:
            small(browser, Path(folder) / "demo", args.rounds, args.requests)
        large = big_output(Path(folder) / "large", sensors=args.sensors, days=args.days, slots=args.slots)
        print(f"\na large archive: {args.sensors:,} sensors, {args.days} days of {args.slots} slots; milliseconds")
        matrix(browser, large, args.sensors)
        report(large)


def small(browser: Browser, out: Path, rounds: int, requests: int) -> None:
    logging.getLogger("sensormend").addHandler(logging.NullHandler())
    city = CitySource(50, days=FIRST_DAYS)
    Service(Settings("a city", out, Options(step=HOUR, period=DAY), metrics=None), lambda *_: city).run()
    words = ("S01", "2024-01-10", "2024-01-20")
    print(f"the demo's data: 50 sensors, {FIRST_DAYS} days; milliseconds, median and worst of {rounds}")
    measured(browser, out, words, rounds)
    memory(out, words, requests)
    report(out)


def measured(browser: Browser, out: Path, words: tuple[str, ...], rounds: int) -> None:
    with serving(out) as (_, address):
        say("first view, nothing cached", rounds, lambda: first_view(browser, address))
        for view in VIEWS:
            say(view.format(*words), rounds, partial(next_view, browser, view.format(*words)))
        for endpoint in ENDPOINTS:
            say(f"/api/{endpoint.format(*words)}", rounds, timed(partial(get, address, endpoint.format(*words))))
        browser.leave()
    say(ALONE, rounds, timed(partial(plain, out)))


def matrix(browser: Browser, out: Path, sensors: int) -> None:
    whole = f"matrix?limit={min(sensors, 2000)}"
    with serving(out) as (_, address):
        say("/api/matrix, all of it, the first time", 1, timed(partial(get, address, whole)))
        say("/api/matrix, all of it, again", 5, timed(partial(get, address, whole)))
    with serving(out) as (_, address):
        for word, rounds in (("the first time", 1), ("again, nothing cached", 5)):
            drawn: list[float] = []

            def look(drawn: list[float] = drawn) -> float:
                seconds = first_view(browser, address)
                drawn.append(float(browser.run(DRAWN)) / 1000)
                return seconds

            say(f"overview with its map, {word}", rounds, look)
            say(f"the matrix in it, drawn, {word}", rounds, iter(drawn).__next__)
        browser.leave()
    say(ALONE, 5, timed(partial(plain, out)))


def report(out: Path) -> None:
    start = time.perf_counter()
    size = write_report(out).stat().st_size
    print(f"  a report of {size / 1e6:.2f} MB in {time.perf_counter() - start:.1f} s")


def memory(out: Path, words: tuple[str, ...], requests: int) -> None:
    """Say how much the server has in memory after some requests, and after many more."""
    with serving(out) as (number, address):
        asked = 0
        for count in (100, requests // 2, requests - requests // 2):
            for turn in range(asked, asked + count):
                sensor = f"S{turn // len(ENDPOINTS) % 50 + 1:02d}"
                get(address, ENDPOINTS[turn % len(ENDPOINTS)].format(sensor, *words[1:]))
            asked += count
            print(f"  memory of the server after {asked:5,} requests      {resident(number):7.1f} MB")


def first_view(browser: Browser, address: str) -> float:
    """Return the seconds from the start of a navigation to the drawn overview."""
    browser.begin()
    noted = browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=NOTED)["identifier"]
    browser.open(address + "/", "overview")
    seconds = shown_at(browser, "")
    browser.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=noted)
    return seconds


def next_view(browser: Browser, view: str) -> float:
    """Return the seconds from a click to a drawn view; the page is open already."""
    browser.run("location.hash = '#/nowhere'")
    browser.until(lambda: browser.data("main", "view") == "nowhere")
    start = float(browser.run(
        "window.shownAt = {}; const now = performance.now(); location.hash = arguments[0]; return now", view
    ))  # fmt: skip
    return shown_at(browser, view) - start / 1000


def shown_at(browser: Browser, view: str) -> float:
    seconds = browser.until(lambda: browser.run("return window.shownAt[arguments[0]] || 0", view), f"{view} drawn")
    return float(seconds) / 1000


def say(what: str, rounds: int, measure: Callable[[], float]) -> None:
    """Measure something some times, and print the median and the worst in milliseconds."""
    seconds = [measure() for _ in range(rounds)]
    middle, worst = 1000 * statistics.median(seconds), 1000 * max(seconds)
    print(f"  {what:48} {middle:7.0f}" + (f" {worst:7.0f}" if rounds > 1 else ""), flush=True)


def timed(act: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        start = time.perf_counter()
        act()
        return time.perf_counter() - start

    return measure


def get(address: str, path: str) -> int:
    with urllib.request.urlopen(f"{address}/api/{path}", timeout=60) as answer:
        return len(answer.read())


def plain(out: Path) -> None:
    with duckdb.connect() as engine:
        engine.execute(f"SELECT sum(cleaned) FROM read_parquet('{out}/data/*/*.parquet')").fetchall()


def resident(number: int) -> float:
    """Return the megabytes of a process that are in memory."""
    pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(out: Path) -> Iterator[tuple[int, str]]:
    """Serve an OUT in a process of its own; gives its number and its address."""
    program = [str(Path(sys.executable).with_name("sensormend")), "serve", str(out), "--port", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                match = re.search(r"http://\S+:\d+", line)
                if match:
                    yield process.pid, match[0]
                    break
            else:
                raise SystemExit("the server did not start")
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
