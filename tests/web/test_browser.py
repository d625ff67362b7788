"""The page in a real browser: its overview, its ways from view to view, and whoever looks at it how."""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.request
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import PHONE, Browser
from city_source import CitySource
from list_source import settings
from output_folders import big_output, small_output
from sensormend.stream.service import Service

HOSTILE = (
    "<img src=x onerror=alert(1)>", "\"><script>alert(2)</script>", "a&b=c#d?e/f%2e%2e", "../../etc/passwd",
    "O'Brien; DROP TABLE rows", "löng näme " + "x" * 120, "{{constructor}}", "javascript:alert(3)",
)  # fmt: skip
AXIS, ROW = 26, 18
"""Pixels above the matrix's first row, and of each."""


def asked(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}/api/{path}", timeout=20) as answer:
        return json.load(answer)


def test_the_first_view_says_how_it_is_and_draws_all_of_it(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    network = asked(address, "network")
    shown = re.sub(r"\d{4}-\d\d-\d\d", lambda one: f"{date.fromisoformat(one[0]):%-d %b %Y}", network["sentence"])
    assert browser.text("h1") == shown
    assert browser.data("#matrix", "drawn") == "40x84"
    assert browser.text('[data-figure="faulty"]') == str(network["states"]["faulty"])
    browser.wait("#map canvas, #map svg")
    for heading in ("Day by day", "Needs attention now"):
        assert heading in browser.text()
    browser.until(lambda: browser.data("#live", "live") == "still", "in touch, and nothing running")


def test_a_click_in_the_matrix_opens_the_sensor_and_back_comes_back(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    rows = asked(address, "matrix?limit=2000")["rows"]
    for row in (0, 3):
        browser.point(".matrix-canvas", 8, AXIS + row * ROW + ROW / 2, click=True)
        browser.ready("sensor")
        assert rows[row]["sensor"] in browser.text("h1")
        browser.driver.back()
        browser.ready("overview")
    browser.point(".matrix-canvas", -30, AXIS + ROW / 2)
    assert rows[0]["sensor"] in browser.wait(".tooltip").text
    browser.point(".matrix-canvas", -30, AXIS + ROW / 2, click=True)
    browser.ready("sensor")
    assert "from=" in browser.driver.current_url


def test_the_matrix_is_filtered_by_name_and_by_state(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    browser.one(".matrix-name").send_keys("S1")
    browser.until(lambda: browser.data("#matrix", "drawn") == "10x84", "S10 to S19")
    browser.one(".matrix-name").send_keys("nobody")
    browser.wait(".matrix-none button").click()
    browser.until(lambda: browser.data("#matrix", "drawn") == "40x84", "all again")
    faulty = asked(address, "network")["states"]["faulty"]
    assert faulty
    browser.one('button[data-state="faulty"]').click()
    browser.until(lambda: browser.data("#matrix", "drawn") == f"{faulty}x84", "only the faulty ones")
    assert "state=faulty" in browser.driver.current_url


def test_the_map_shows_the_time_that_its_slider_is_at(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    browser.until(lambda: browser.data("#map", "time"), "a map")
    slider = '#map input[type="range"]'
    first = browser.data("#map", "time")
    browser.run("arguments[0].focus()", browser.one(slider))
    browser.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    browser.until(lambda: browser.data("#map", "time") < first, "an earlier hour by key")
    second = browser.data("#map", "time")
    browser.point(slider, browser.one(slider).size["width"] / 4, 8, click=True)
    browser.until(lambda: browser.data("#map", "time") < second, "a much earlier hour by pointer")
    day = asked(address, f"moment?time={browser.data('#map', 'time')}")
    assert day["time"] == browser.data("#map", "time")
    browser.run("arguments[0].select()", browser.one(".map-when"))
    browser.keys("2024-02-03 04:00", Keys.ENTER)
    browser.until(lambda: browser.data("#map", "time") == "2024-02-03T04:00:00Z", "the time that was written")


def test_who_needs_attention_is_who_is_counted(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    states = asked(address, "network")["states"]
    listed = browser.texts(".attention li > a")
    assert len(set(listed)) == min(5, states["faulty"] + states["silent"])


def test_more_tabs_than_a_browser_has_connections(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    first = browser.driver.current_window_handle
    try:
        for _ in range(6):
            browser.driver.switch_to.new_window("tab")
            browser.open(f"{address}/#/faults", "faults")
    finally:
        for handle in browser.driver.window_handles:
            if handle != first:
                browser.driver.switch_to.window(handle)
                browser.driver.close()
        browser.driver.switch_to.window(first)


def test_with_keys_only_to_a_sensor_and_back(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    rows = asked(address, "matrix?limit=2000")["rows"]
    seen = []
    for _ in range(40):
        browser.keys(Keys.TAB)
        seen.append(browser.focused())
        if "Health matrix" in seen[-1]:
            break
    assert "Skip to the content" in seen[0]
    assert "Health matrix" in seen[-1], seen
    browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_LEFT)
    browser.until(lambda: rows[2]["sensor"] in browser.wait(".tooltip").text, "the cell under the cursor")
    browser.keys(Keys.ENTER)
    browser.ready("sensor")
    assert rows[2]["sensor"] in browser.text("h1")
    assert browser.focused().startswith("MAIN"), "whoever goes on with Tab is in the new view"
    for _ in range(10):
        ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        if browser.focused() == "A Overview":
            break
    browser.keys(Keys.ENTER)
    browser.ready("overview")
    browser.keys("/", *"s05", Keys.ENTER)
    browser.ready("sensor")
    assert "S05" in browser.text("h1")


def test_every_view_fits_a_phone(browser: Browser, address: str) -> None:
    browser.look(*PHONE)
    for view, name in (("#/", "overview"), ("#/sensor?sensor=S07", "sensor"), ("#/faults", "faults")):
        browser.open(f"{address}/{view}", name)
        assert browser.overflow() <= 0, name


def background(browser: Browser) -> int:
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in colour[colour.index("(") + 1 : colour.index(")")].split(",")[:3])
    return red + green + blue


def test_it_is_dark_where_that_is_wanted(browser: Browser, address: str) -> None:
    browser.scheme("dark")
    browser.open(f"{address}/", "overview")
    assert background(browser) < 200
    browser.one("#theme").click()
    browser.until(lambda: background(browser) > 600, "light")
    browser.open(f"{address}/", "overview")
    assert background(browser) > 600, "what somebody chose is remembered"
    browser.one("#theme").click()
    browser.until(lambda: background(browser) < 200, "as the system has it")


def test_an_unknown_view_is_reported(browser: Browser, address: str) -> None:
    browser.open(f"{address}/#/nowhere")
    browser.wait(".error-line", "nowhere")
    browser.one(".error-line button").click()
    browser.ready("overview")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an OUT whose sensors have names that somebody thought about."""
    out = tmp_path_factory.mktemp("hostile") / "<b>out"
    city = CitySource(len(HOSTILE), days=20, seed=4, names=HOSTILE)
    Service(settings(out), lambda mark, memory: city).run()
    return out


def test_names_are_text_whatever_is_in_them(browser: Browser, hostile: Path) -> None:
    with browser.serving(hostile) as server:
        browser.open(f"{server.address}/", "overview")
        assert browser.text("#network-name") == "<b>out"
        for name in HOSTILE[:4]:
            browser.open(f"{server.address}/#/sensor?sensor={quote(name, safe='')}", "sensor")
            assert " ".join(name.split()) in " ".join(browser.text("h1").split())
            browser.wait("button", "Neighbours").click()
            browser.wait("button", "Why?").click()
            browser.until(lambda: "Looking it up" not in browser.text(".why"))
        browser.open(f"{server.address}/#/faults", "faults")
        browser.one("#find-box").send_keys("img")
        assert browser.wait("#find-list li").text.startswith("<img src=x")
        assert not browser.all("main img, main script, #find-list img")


def test_a_faulty_sensor_with_markup_in_its_name_is_text_everywhere(browser: Browser, tmp_path: Path) -> None:
    name = "=<b onclick=alert(1)>bold</b>"
    names = ("S1", name, "<!channel>", "S4", "S5", "S6")
    out = small_output(tmp_path / "out", names=names, variables=("<i>temp</i>",)).path
    with browser.serving(out) as server:
        browser.open(f"{server.address}/", "overview")
        browser.wait("main", name)
        browser.open(f"{server.address}/#/faults", "faults")
        browser.wait("main", name)
        assert "<i>temp</i>" in browser.text()
        assert not browser.all("main b[onclick], main i:not([class])")
        with urllib.request.urlopen(f"{server.address}/api/faults.csv", timeout=20) as answer:
            lines = list(csv.reader(io.StringIO(answer.read().decode())))
        assert f"'{name}" in {line[0] for line in lines}
        assert not any(line[0] == name for line in lines)


def test_a_token_opens_it(browser: Browser, city_out: Path) -> None:
    token = "correct-horse-battery-staple"
    browser.expect("401")
    with browser.serving(city_out, token=token) as server:
        browser.open(f"{server.address}/#/sensor?sensor=S07")
        field = browser.wait('input[type="password"]')
        field.send_keys("wrong-horse-battery-staple", Keys.ENTER)
        browser.wait("body", "not the")
        browser.wait('input[type="password"]').send_keys(token, Keys.ENTER)
        browser.wait("main[data-view]")
        browser.open(f"{server.address}/", "overview")
        assert token not in browser.run("return document.cookie")
        assert not any(token in url for url in browser.requests())
        browser.wait("#logout button").click()
        browser.wait('input[type="password"]')


def test_two_thousand_sensors_and_a_year_are_drawn(browser: Browser, tmp_path: Path) -> None:
    out = big_output(tmp_path / "big", sensors=2000, days=365)
    with browser.serving(out) as server:
        browser.open(f"{server.address}/", "overview")
        browser.until(lambda: browser.data("#matrix", "drawn") == "2000x365", "the whole matrix")
        scroller = browser.one(".matrix-scroll")
        browser.run("arguments[0].scrollTop = arguments[0].scrollHeight", scroller)
        last = asked(server.address, "matrix?offset=1999&limit=1")["rows"][0]["sensor"]
        browser.point(".matrix-canvas", 8, -8, click=True)
        browser.ready("sensor")
        assert last in browser.text("h1")


def test_the_overview_is_printed_whole(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    # The events of printing, without a printer: pictures have all 40 rows, and the page is not wider than its paper.
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    browser.look(800, 1100)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    sizes = "return [...document.querySelectorAll('.matrix-picture')].map((one) => [one%s.width, one%s.height])"
    drawn, shown = browser.run(sizes % ("", "")), browser.run(sizes % ((".getBoundingClientRect()",) * 2))
    assert [high for _, high in drawn] == [AXIS + 22 * ROW, AXIS + 18 * ROW]
    for (width, high), (wide, tall) in zip(drawn, shown, strict=True):
        assert tall / wide == pytest.approx(high / width, rel=0.02)
    assert not browser.one(".matrix-canvas").is_displayed()
    assert browser.overflow() == 0
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not browser.all(".matrix-picture")
    browser.cdp("Emulation.setEmulatedMedia", media="")


def test_numbers_have_no_more_digits_than_are_known(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", "overview")
    module = browser.run("return [...document.scripts].map((one) => one.src).find((src) => src.endsWith('app.js'))")
    words = browser.run(
        "return import(arguments[0]).then((m) => ["
        "m.interval(-1.747, -0.5327), m.interval(1015.78, 1018.03), m.interval(8.46, 8.46), m.interval(null, 2),"
        "m.value(0.30412, 2), m.value(118.4, 2)])",
        module.replace("app.js", "format.js"),
    )
    minus = "\N{MINUS SIGN}"
    assert words == [f"{minus}1.7 to {minus}0.5", "1,015.8 to 1,018", "8.46", "unknown", "0.3", "118"]
