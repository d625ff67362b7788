"""Pictures of every view, light and dark, wide and on a phone: `python benchmarks/screenshots.py [FOLDER]`.

They are of the demo's city, half a day after its first 90 days, always the same: a watch runs while they are taken, so
that provisional values are on them. Grid and station are of twelve stations in Beijing, where SENSORMEND_DATA has them.
"""

from __future__ import annotations

import argparse
import base64
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import numpy as np

from archives.judging import find_archives
from sensormend.archive.cleaning import clean_archive
from sensormend.io.folder import Archive
from sensormend.pipeline.options import EVERY, Options
from sensormend.readings import DAY, HOUR, NOTHING, SECOND
from sensormend.report.document import write_report
from sensormend.stream.arrivals import Arrived
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.web.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from browser import DESK, PHONE, Browser, running_chromium
from city_source import CitySource

DAYS, HOURS = 90, 14
SENSORS, SEED = 50, 0

CHOSEN = {
    "overview": ("overview-wide-light", 1165),
    "map": ("map-wide-light", 860),
    "sensor": ("sensor-wide-light", 1255),
    "faults": ("faults-wide-light", 860),
    "calibration": ("calibration-wide-light", 760),
    "live": ("live-wide-dark", 1010),
    "phone": ("overview-phone-dark", 1500),
    "report": ("report-wide-light", 1500),
    "grid": ("grid-wide-light", 1250),
    "station": ("station-wide-light", 1385),
}
"""Which of them are in docs/, and how much of each from its top."""

Show = Callable[[Browser, str, Path], str]
"""Shows a view, given the server's address and the OUT; returns what to take a picture of, "" for the whole page."""


class Paused(CitySource):
    """The demo's city up to an hour, at which it stands still."""

    def __init__(self, days: int, hours: int) -> None:
        super().__init__(SENSORS, seed=SEED, at_once=days, pace=1e9)
        self._left = days * 4 + hours
        self.standing = threading.Event()

    def read(self, wait: float) -> Arrived | None:
        """Return the next hours, and nothing when it stands still."""
        if self._left:
            self._left -= 1
            return super().read(wait)
        time.sleep(wait)
        self.standing.set()
        return Arrived(NOTHING, 0)


@contextmanager
def watching(out: Path, days: int, hours: int) -> Iterator[None]:
    """Watch the city up to an hour, and be a running watch from then on."""
    city = Paused(days, hours)
    service = Service(
        Settings("a simulated city", out, Options(step=HOUR, period=DAY, units={EVERY: "°C"}), metrics=None),
        lambda *_: city,
    )
    runner = threading.Thread(target=service.run)
    runner.start()
    try:
        assert city.standing.wait(300)
        # run.json and the provisional rows are written some time later.
        time.sleep(6)
        yield
    finally:
        service.stop()
        runner.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/screens"))
    parser.add_argument("--days", type=int, default=DAYS, help="that come before")
    parser.add_argument("--scale", type=float, default=1.0, help="pixels of the picture for one of the page")
    parser.add_argument("--only", default="", help="views whose names have this in them")
    parser.add_argument("--docs", type=Path, help="a folder for those that the documentation shows, docs")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("sensormend").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as folder, running_chromium() as browser:
        out = Path(folder) / "demo"
        with watching(out, args.days, HOURS), Server(out, port=0) as server:
            server.start()
            for name, show in VIEWS.items():
                if args.only in name:
                    for picture in pictures(browser, args.folder / name):
                        take(browser, picture, show(browser, server.address, out), args.scale)
            browser.leave()
        if args.only in "report":
            page = write_report(out, args.folder / "report.html")
            for picture in pictures(browser, args.folder / "report"):
                browser.open(page.absolute().as_uri())
                browser.until(lambda: browser.run("return document.documentElement.dataset.ready !== undefined"))
                take(browser, picture, "", args.scale)
        if any(args.only in name for name in STATIONS):
            archive = Path(folder) / "beijing"
            clean_archive(find_archives([BEIJING])[BEIJING], archive)
            with Server(archive, port=0) as server:
                server.start()
                for name, show in STATIONS.items():
                    for picture in pictures(browser, args.folder / name):
                        take(browser, picture, show(browser, server.address, archive), args.scale)
                browser.leave()
    if args.docs:
        for name, (chosen, height) in CHOSEN.items():
            choose(args.folder / f"{chosen}.png", args.docs / f"dashboard-{name}.png", round(height * args.scale))


def choose(picture: Path, path: Path, height: int) -> None:
    """Write the upper part of a picture, in as many colours as it needs to look the same."""
    from PIL import Image

    with Image.open(picture) as whole:
        part = whole.convert("RGB").crop((0, 0, whole.width, min(height, whole.height)))
    part.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


def pictures(browser: Browser, path: Path) -> Iterator[Path]:
    """Make the browser a desk's and a phone's, light and dark, and give each picture's name."""
    for width, size in (("wide", DESK), ("phone", PHONE)):
        for scheme in ("light", "dark"):
            browser.begin()
            browser.look(*size)
            browser.scheme(scheme)
            yield path.with_name(f"{path.name}-{width}-{scheme}.png")


def take(browser: Browser, path: Path, selector: str, scale: float) -> None:
    """Write a picture of an element, or of the whole page, at most five windows of it."""
    time.sleep(0.5)
    clip = browser.run(
        """
        const element = arguments[0] ? document.querySelector(arguments[0]) : null;
        if (!element) {
          const high = Math.max(document.documentElement.scrollHeight, innerHeight);
          return {x: 0, y: 0, width: innerWidth, height: Math.min(high, 5 * innerHeight)};
        }
        const box = element.getBoundingClientRect(), edge = 12;
        return {x: Math.max(0, box.left + scrollX - edge), y: Math.max(0, box.top + scrollY - edge),
                width: Math.min(innerWidth, box.width + 2 * edge), height: box.height + 2 * edge};
        """,
        selector,
    )
    shot = browser.cdp(
        "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**clip, "scale": scale}
    )
    path.write_bytes(base64.b64decode(shot["data"]))
    print(path, *browser.errors())


def overview(browser: Browser, address: str, out: Path) -> str:
    browser.open(f"{address}/", "overview")
    return ""


def the_map(browser: Browser, address: str, out: Path) -> str:
    """Show the hour at which most sensors were faulty."""
    faults = [fault for fault in Archive(out).faults() if fault.reason not in ("silent", "spike")]
    noons = range(min(fault.start for fault in faults), max(fault.end for fault in faults), DAY // 2)
    most = max(noons, key=lambda time: sum(fault.start <= time < fault.end for fault in faults))
    browser.open(f"{address}/#/?time={word(most)}", "overview")
    browser.until(lambda: browser.data("#map", "time"), "a map")
    return "#map"


def sensor(browser: Browser, address: str, out: Path) -> str:
    """Show a fault from beginning to end, with neighbours, and why."""
    faults = [fault for fault in Archive(out).faults() if fault.reason in ("drift", "offset")]
    fault = max(faults, key=lambda fault: fault.end - fault.start)
    around = fault.end - fault.start
    span = f"from={word(fault.start - around)}&to={word(fault.end + around)}"
    browser.open(f"{address}/#/sensor?sensor={fault.sensor}&{span}", "sensor")
    browser.wait("button", "Neighbours").click()
    browser.wait(".neighbour-list li")
    browser.wait("button", "Why?").click()
    browser.until(lambda: fault.sensor in browser.text(".why"), "a paragraph")
    browser.run("scrollTo(0, 0); document.activeElement.blur()")
    time.sleep(1)
    return ""


def live(browser: Browser, address: str, out: Path) -> str:
    """Show the newest days of a sensor that is wrong today, which is provisional."""
    newest = max(
        (fault for fault in Archive(out).faults() if fault.reason not in ("silent", "spike")), key=attrgetter("end")
    )
    browser.open(f"{address}/#/sensor?sensor={newest.sensor}&days=6", "sensor")
    return ""


def faults(browser: Browser, address: str, out: Path) -> str:
    browser.open(f"{address}/#/faults", "faults")
    # Sparklines are drawn when they come into view.
    for place in range(0, int(browser.run("return document.documentElement.scrollHeight")), 600):
        browser.run("scrollTo(0, arguments[0])", place)
        time.sleep(0.3)
    browser.run("scrollTo(0, 0)")
    return ""


def calibration(browser: Browser, address: str, out: Path) -> str:
    browser.open(f"{address}/#/calibration", "calibration")
    return ""


def grid(browser: Browser, address: str, out: Path) -> str:
    browser.open(f"{address}/", "overview")
    browser.wait("#grid .grid")
    return ""


def station(browser: Browser, address: str, out: Path) -> str:
    """Show the station and the weeks around the longest noise of an archive."""
    fault = max((one for one in Archive(out).faults() if one.reason == "noise"), key=lambda one: one.end - one.start)
    span = f"from={word(fault.start - 7 * DAY)}&to={word(fault.end + 7 * DAY)}"
    browser.open(f"{address}/#/station?sensor={fault.sensor}&{span}", "station")
    return ""


def word(time: int) -> str:
    """Return a time as an address has it."""
    return f"{np.datetime64(time // SECOND, 's')}Z"


VIEWS: dict[str, Show] = {
    "overview": overview, "map": the_map, "sensor": sensor, "live": live, "faults": faults, "calibration": calibration,
}  # fmt: skip

STATIONS: dict[str, Show] = {"grid": grid, "station": station}
BEIJING = "beijing_2013_2015"


if __name__ == "__main__":
    main()
