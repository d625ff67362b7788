"""What is on the charts of a sensor, in a real browser: axes, bands, corrected values, the legend, small screens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from browser import DESK, PHONE, Browser
from output_folders import FIRST, small_output, write_faults, write_output
from sensormend.readings import DAY, REASONS, Flag
from sensormend.web.server import Server

ROOT = ".view-sensor"
GREEN, BLUE, ORANGE = (0, 128, 92), (0, 114, 178), (213, 94, 0)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve nine days in which S04 was corrected on the fourth and S03 has a spike of 30."""
    out = small_output(tmp_path_factory.mktemp("chart") / "short", sensors=8, days=9, corrected=True)
    with Server(out.path, port=0) as server:
        server.start()
        yield server.address


FIND = """
    const find = (name) => document.querySelector(`.chart-upper ${name}`);
    const [canvas, over] = [find('canvas'), find('.u-over')];
    const [outer, inner] = [canvas.getBoundingClientRect(), over.getBoundingClientRect()];
    const ratio = canvas.width / outer.width;
    const [wide, high] = [Math.round(inner.width * ratio), Math.round(inner.height * ratio)];
    const [left, top] = [(inner.left - outer.left) * ratio, (inner.top - outer.top) * ratio];
    const pen = canvas.getContext('2d');
"""
"""Finds the upper chart and where it is drawn."""


def pixels(browser: Browser, colour: tuple[int, int, int]) -> list[int]:
    """Return how many pixels of each column of the upper chart have about a colour."""
    pixels: list[int] = browser.run(
        FIND + """
        const [red, green, blue] = arguments;
        const box = pen.getImageData(left, top, wide, high).data;
        const columns = new Array(wide).fill(0);
        for (let i = 0; i < box.length; i += 4)
          if (Math.abs(box[i] - red) < 25 && Math.abs(box[i + 1] - green) < 25 && Math.abs(box[i + 2] - blue) < 25)
            columns[(i / 4) % wide] += 1;
        return columns;
        """, *colour
    )  # fmt: skip
    return pixels


def key(browser: Browser) -> set[str]:
    return {
        one.get_attribute("data-kind") or "" for one in browser.all(f"{ROOT} .legend li") if one.is_displayed()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "cleaned", "axis"),
    [
        ([1, 9, -9999], [1, 3], (1, 9, -9999, None)),
        ([1, 2], [1, 3], (1, 3, None, None)),
        ([5, 7], [], (5, 7, None, None)),
        ([], [], (0, 1, None, None)),
        ([500, -500, 12], [10, 20], (10, 20, -500, 500)),
    ],
)
def test_the_axis_leaves_out_what_would_hide_all_else_and_says_so(
    browser: Browser, short: str, read: list[float], cleaned: list[float], axis: tuple[float | None, ...]
) -> None:
    browser.open(f"{short}/#/", "overview")
    shown = browser.run(
        "const [read, cleaned] = arguments;"
        "return import('/static/chart-scales.js').then((scales) => scales.axis(read, cleaned))", read, cleaned,
    )  # fmt: skip
    cut = shown["cut"] or {"below": None, "above": None}
    assert (shown["low"], shown["high"], cut["below"], cut["above"]) == axis


def test_the_axis_has_all_that_was_read_or_says_what_is_cut(browser: Browser, tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=4, days=9)
    value, flag, reason = written.value.copy(), written.flag.copy(), written.reason.copy()
    off = slice(120, 180)
    # Two and a half times the range of what was made of it: far off, and still on the chart.
    value[0, 0, off] = written.cleaned[0, 0].max() + 2.5 * np.ptp(written.cleaned[0, 0])
    value[2, 0, 130] = -9876.0
    for sensor, slots in ((0, off), (2, slice(130, 131))):
        flag[sensor, 0, slots], reason[sensor, 0, slots] = Flag.FAIL, REASONS.index("implausible")
    write_output(tmp_path / "off", written.sensors, written.variables, value, written.cleaned, flag, reason, 24)
    for name in ("sensors.csv", "faults.csv", "run.json"):
        (written.path / name).rename(tmp_path / "off" / name)
    with browser.serving(tmp_path / "off") as server:
        browser.open(f"{server.address}/#/sensor?sensor=S00", "sensor")
        assert browser.text(".chart-cut") == ""
        high = pixels(browser, ORANGE)
        assert sum(column > 0 for column in high) > 0.2 * len(high), "the offset is drawn"
        browser.open(f"{server.address}/#/sensor?sensor=S02", "sensor")
        assert browser.text(".chart-cut") == "The axis is cut: readings go down to \N{MINUS SIGN}9,876"


def test_corrected_values_are_drawn_and_have_a_legend(browser: Browser, short: str) -> None:
    browser.open(f"{short}/#/sensor?sensor=S04", "sensor")
    browser.until(lambda: sum(pixels(browser, GREEN)) > 50, "green for what was corrected")
    columns = np.flatnonzero(pixels(browser, GREEN)) / len(pixels(browser, GREEN))
    assert columns.min() > 3 / 9 - 0.03
    assert columns.max() < 4 / 9 + 0.03
    assert {"raw", "cleaned", "corrected", "interval"} <= key(browser)
    browser.open(f"{short}/#/sensor?sensor=S05", "sensor")
    assert sum(pixels(browser, GREEN)) == 0
    assert key(browser).isdisjoint({"corrected", "provisional", "spike", "lasting"}), (
        "nothing is named that is not there"
    )
    browser.open(f"{short}/#/sensor?sensor=S03", "sensor")
    assert "spike" in key(browser)


def test_years_are_a_band_with_a_point_to_a_pixel(browser: Browser, tmp_path: Path) -> None:
    written = small_output(tmp_path / "year", sensors=3, days=390)
    with browser.serving(written.path) as server:
        browser.open(
            f"{server.address}/#/sensor?sensor=S00&from=2024-01-01T00:00:00Z&to=2025-01-01T00:00:00Z", "sensor"
        )
        browser.until(lambda: "lowest to the highest" in browser.text(".chart-range"), "what a band is")
        browser.until(lambda: sum(pixels(browser, BLUE)) > 0, "a chart")
        wide = len(pixels(browser, BLUE))
        # What is loaded reaches past both ends of what is shown.
        assert int(browser.data(ROOT, "points")) <= 2 * browser.one(ROOT).size["width"]
        strong = np.array(pixels(browser, BLUE))
        high = browser.one(".chart-upper .u-over").size["height"]
        assert strong.sum() < 0.12 * wide * high, "the strong ink is at the edges of the band, not a block"


def test_a_lasting_fault_is_a_line_with_its_size(browser: Browser, tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", sensors=6, days=20)
    write_faults(
        written.path,
        [("S04", "", FIRST + 4 * DAY, FIRST + 18 * DAY, "drift", 4.0, "S04 drifted.", 2.13, 0.1, 1.0)],
    )
    with browser.serving(written.path) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S04", "sensor")
        assert "lasting" in key(browser)
        browser.wait(".own-faults li", "+2.1, rising")
        line = browser.run(
            FIND
            + """
            const row = pen.getImageData(left, top - 2, wide, 1).data;
            const found = [];
            for (let i = 0; i < row.length; i += 4)
              if (row[i + 3] > 200 && row[i] > 130 && row[i + 1] < 100 && row[i + 2] < 50) found.push(i / 4 / wide);
            return [Math.min(...found), Math.max(...found), found.length / wide];
            """
        )
        assert line == pytest.approx([4 / 20, 18 / 20, 14 / 20], abs=0.01)


def test_a_short_archive_fills_the_width(browser: Browser, short: str) -> None:
    browser.open(f"{short}/#/sensor?sensor=S05", "sensor")
    begin, end = map(int, browser.data(ROOT, "range").split(","))
    assert end - begin == 9 * 86_400
    assert [one.text for one in browser.all(".choices button") if one.is_displayed()] == ["7 days", "All"]
    browser.open(f"{short}/#/", "overview")
    canvas, section = browser.one(".matrix-canvas"), browser.one("#matrix")
    drawn = browser.run(
        """
        const [canvas] = arguments, edge = canvas.width - 2;
        return [...canvas.getContext('2d').getImageData(edge, canvas.height / 2 - 4, 1, 1).data.slice(0, 3)];
        """, canvas
    )  # fmt: skip
    assert section.size["width"] - canvas.size["width"] < 60
    assert drawn != [255, 255, 255], "cells reach the right edge"


def test_a_small_phone_is_wide_enough(browser: Browser, short: str) -> None:
    browser.look(320, 640)
    for view, params in (("", ""), ("faults", ""), ("calibration", ""), ("sensor", "?sensor=S04")):
        browser.open(f"{short}/#/{view}{params}", view or "overview")
        assert browser.overflow() == 0, view


def test_on_a_phone_the_chart_comes_before_the_buttons(browser: Browser, short: str) -> None:
    for size, first in ((DESK, ".chart-bar"), (PHONE, ".chart-upper")):
        browser.look(*size)
        browser.open(f"{short}/#/sensor?sensor=S04", "sensor")
        tops = {name: browser.one(name).rect["y"] for name in (".chart-bar", ".chart-upper", ".figures")}
        assert min((".chart-bar", ".chart-upper"), key=tops.__getitem__) == first
        assert (tops[".figures"] > tops[".chart-upper"]) == (size == PHONE)
        assert browser.overflow() == 0
