"""The page of one sensor, in a real browser."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from browser import DESK, PHONE, Browser
from output_folders import FIRST, small_output
from sensormend.io.folder import Archive
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import ADVICE
from sensormend.readings import DAY, SECOND

ROOT = ".view-sensor"


def shown(browser: Browser) -> tuple[float, float]:
    start, end = browser.data(ROOT, "range").split(",")
    return float(start), float(end)


def changed(browser: Browser, before: tuple[float, float]) -> tuple[float, float]:
    browser.until(lambda: shown(browser) != before, "another range")
    return shown(browser)


def length(span: tuple[float, float]) -> float:
    return span[1] - span[0]


def press(browser: Browser, label: str) -> None:
    next(one for one in browser.all("button") if one.accessible_name == label).click()


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    browser.open(f"{address}/#/sensor?sensor=S07", "sensor")
    return browser


def test_it_says_what_it_is_and_shows_the_newest_days(page: Browser, city_out: Path) -> None:
    assert "S07" in page.text("h1")
    rows = Archive(city_out).rows()
    last = int(rows.time[rows.sensor == rows.sensors.index("S07")].max()) // SECOND
    assert int(page.data(ROOT, "last")) == last
    assert length(shown(page)) == 30 * 86_400
    assert shown(page)[1] == last + 3600
    assert "S07" in page.driver.title
    canvas = page.one(".chart-upper canvas")
    colours = page.run(
        "const c = arguments[0]; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return new Set(new Uint32Array(d.buffer)).size", canvas
    )  # fmt: skip
    assert colours > 20, "something is drawn"


def test_buttons_zoom_and_move(page: Browser) -> None:
    start = shown(page)
    press(page, "zoom in")
    near = changed(page, start)
    assert length(near) == pytest.approx(length(start) / 2, abs=2)
    press(page, "earlier")
    earlier = changed(page, near)
    assert earlier[0] < near[0]
    assert length(earlier) == pytest.approx(length(near), abs=2)
    page.until(lambda: "from=" in page.driver.current_url, "the range in the address")
    press(page, "zoom out")
    changed(page, earlier)
    sleep(0.3)  # for as long as it waits for more before it goes into the address
    before = page.driver.current_url
    page.wait(".choices button", "7").click()
    page.until(lambda: length(shown(page)) == 7 * 86_400)
    page.until(lambda: page.driver.current_url != before, "the new range in the address", 5)
    sleep(0.3)
    page.open(page.driver.current_url, "sensor")
    assert length(shown(page)) == pytest.approx(7 * 86_400, abs=2), "a link can be sent"


def test_dragging_zooms_to_what_was_drawn_over(page: Browser) -> None:
    start = shown(page)
    over = ".chart-upper .u-over"
    width = page.one(over).size["width"]
    page.drag(over, (width / 4, 60), (width / 2, 60))
    near = changed(page, start)
    assert length(near) == pytest.approx(length(start) / 4, rel=0.05)
    assert near[0] == pytest.approx(start[0] + length(start) / 4, abs=0.02 * length(start))


def test_the_wheel_zooms_and_shift_moves(page: Browser) -> None:
    start = shown(page)
    over = page.one(".chart-upper .u-over")
    page.run(
        "const b = arguments[0].getBoundingClientRect();"
        "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -300, clientX: b.left + b.width / 2,"
        " clientY: b.top + 20, bubbles: true, cancelable: true}))", over
    )  # fmt: skip
    near = changed(page, start)
    assert length(near) < length(start)
    assert sum(near) / 2 == pytest.approx(sum(start) / 2, abs=0.02 * length(start))


def test_keys_on_the_chart_zoom_and_move(page: Browser) -> None:
    start = shown(page)
    page.run("document.querySelector('.chart-upper').focus()")
    page.keys("+")
    near = changed(page, start)
    assert length(near) < length(start)
    page.keys(Keys.ARROW_LEFT)
    assert changed(page, near)[0] < near[0]
    page.keys("0")
    page.until(lambda: shown(page) == start, "all of it again")


def orange(browser: Browser, left: float, right: float) -> int:
    """Count pixels in the colour of raw readings between two shares of the chart's width."""
    return int(browser.run(
        """
        const [left, right] = arguments;
        const find = (name) => document.querySelector(`.chart-upper ${name}`);
        const [canvas, over] = [find('canvas'), find('.u-over')];
        const [outer, inner] = [canvas.getBoundingClientRect(), over.getBoundingClientRect()];
        const ratio = canvas.width / outer.width;
        const at = (share) => Math.round((inner.left - outer.left + share * inner.width) * ratio);
        const pen = canvas.getContext('2d');
        const box = pen.getImageData(at(left), 40 * ratio, at(right) - at(left), (inner.height - 40) * ratio).data;
        let found = 0;
        for (let i = 0; i < box.length; i += 4)
          found += Math.abs(box[i] - 213) < 30 && Math.abs(box[i + 1] - 94) < 30 && box[i + 2] < 40 ? 1 : 0;
        return found;
        """, left, right
    ))  # fmt: skip


def longest_gap(out: Path) -> tuple[str, int, int]:
    """Return the sensor that was silent for longest between two readings, and from when to when."""
    rows = Archive(out).rows()
    best = ("", 0, 0)
    for place, name in enumerate(rows.sensors):
        heard = np.sort(rows.time[(rows.sensor == place) & np.isfinite(rows.value)])
        at = int(np.argmax(np.diff(heard)))
        if heard[at + 1] - heard[at] > best[2] - best[1]:
            best = (name, int(heard[at]), int(heard[at + 1]))
    return best


def test_gaps_are_gaps(browser: Browser, address: str, city_out: Path) -> None:
    name, start, end = longest_gap(city_out)
    assert end - start > DAY
    around = (end - start) // 2
    words = [str(np.datetime64(time // SECOND, "s")) + "Z" for time in (start - around, end + around)]
    browser.open(f"{address}/#/sensor?sensor={name}&from={words[0]}&to={words[1]}", "sensor")
    browser.until(lambda: orange(browser, 0.0, 0.22) + orange(browser, 0.78, 1.0) > 20, "readings beside the gap")
    assert orange(browser, 0.28, 0.72) == 0, "nothing came, nothing is drawn"


def test_neighbours_come_on_a_click(page: Browser) -> None:
    assert not page.all(".neighbour-list li")
    page.wait("button", "Neighbours").click()
    page.wait(".neighbour-list li")
    names = [one.text for one in page.all(".neighbour-list .neighbour-name")]
    assert len(names) >= 3
    assert "S07" not in names
    page.wait(".neighbour-list a").click()
    page.until(lambda: names[0] in page.driver.current_url, "the neighbour's own page")
    page.ready("sensor")
    page.driver.back()
    page.until(lambda: "S07" in page.driver.current_url)
    page.ready("sensor")


def longest_fault(out: Path) -> FaultInterval:
    return max(Archive(out).faults(), key=lambda one: (one.reason not in ("silent", "spike")) * (one.end - one.start))


def test_a_click_on_a_faulty_span_says_why(browser: Browser, address: str, city_out: Path) -> None:
    fault = longest_fault(city_out)
    words = [str(np.datetime64(time // SECOND, "s")) + "Z" for time in (fault.start, fault.end)]
    browser.open(f"{address}/#/sensor?sensor={fault.sensor}&from={words[0]}&to={words[1]}", "sensor")
    browser.one(".chart-upper .u-over").click()
    text = browser.wait(".why").text
    browser.until(lambda: "Looking it up" not in browser.text(".why"))
    text = browser.text(".why")
    assert fault.sensor in text
    assert len(text) > 80
    assert browser.text(".readout strong") in text, "of the very reading that is read off"


def test_a_link_shows_the_same_elsewhere(browser: Browser, address: str, city_out: Path) -> None:
    browser.open(f"{address}/#/sensor?sensor={longest_fault(city_out).sensor}", "sensor")
    press(browser, "zoom out")
    press(browser, "Neighbours")
    browser.wait(".neighbour-list li")
    press(browser, "Why?")
    browser.until(lambda: "why=" in browser.driver.current_url, "the reading in the address")
    browser.until(lambda: "from=" in browser.driver.current_url, "the time in the address")
    before = shown(browser), browser.text(".why")
    browser.open(browser.driver.current_url, "sensor")
    browser.wait(".neighbour-list li")
    browser.until(lambda: (shown(browser), browser.text(".why")) == before, "the same again")


def test_a_button_says_why_too(page: Browser) -> None:
    page.wait("button", "Why?").click()
    page.until(lambda: "S07" in page.text(".why"), "a paragraph on S07")


def test_an_unknown_sensor_is_reported_in_one_line(browser: Browser, address: str) -> None:
    browser.expect("404")
    browser.open(f"{address}/#/sensor?sensor=nobody")
    assert "nobody" in browser.wait(".error-line").text


def test_a_faulty_sensor_opens_at_its_fault_with_the_evidence(browser: Browser, tmp_path: Path) -> None:
    written = small_output(tmp_path / "city", days=100)
    with browser.serving(written.path) as server:
        for size in (DESK, PHONE):
            browser.look(*size)
            browser.open(f"{server.address}/#/sensor?sensor=S01", "sensor")
            start, end = FIRST + 75 * DAY, FIRST + 100 * DAY
            assert shown(browser) == ((start - 10 * DAY) / SECOND, end / SECOND), "and 0.4 of its length before it"
            assert browser.text(".sensor-sentence") == f"S01 was stuck. {ADVICE['stuck']}"
            browser.until(lambda: len(browser.all(".neighbour-list li")) == 5, "the neighbours, at once")
            browser.until(lambda: len(browser.all(".compared tbody tr")) == 3, "what they imply")
            assert browser.overflow() == 0
            assert "why=" not in browser.driver.current_url
        browser.open(f"{server.address}/#/sensor?sensor=S05", "sensor")
        assert not browser.all(".compared")
