"""The list of faults, in a real browser."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from selenium.webdriver.support.select import Select

from browser import Browser
from sensormend.io.folder import Archive
from sensormend.pipeline.times import iso

ROOT = ".view-faults"


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    browser.open(f"{address}/#/faults", "faults")
    return browser


def column(browser: Browser, number: int) -> list[str]:
    return browser.texts(f".faults tbody tr > :nth-child({number})")


def since_of(browser: Browser) -> list[str | None]:
    return [one.get_attribute("datetime") for one in browser.all('[data-label="Since"] time')]


def total(browser: Browser) -> int:
    return int(browser.data(ROOT, "total"))


def test_all_of_them_are_listed_what_goes_on_first(page: Browser, city_out: Path) -> None:
    known = Archive(city_out).faults()
    assert total(page) == len(known)
    going_on = ["going on" in text for text in page.texts('[data-label="Until"]')]
    assert any(going_on)
    assert going_on == sorted(going_on, reverse=True)
    Select(page.one(".sort-box select")).select_by_value("from desc")
    page.until(lambda: since_of(page) == sorted(since_of(page), key=str, reverse=True), "the newest first")
    page.until(lambda: page.all(".spark-cell svg, .spark-cell canvas"), "pictures of the readings")


def test_they_are_filtered_and_the_address_says_how(page: Browser, city_out: Path) -> None:
    known = Archive(city_out).faults()
    one = known[0]
    box = page.one('main [role="search"] input[type="search"]')
    box.send_keys(one.sensor)
    wanted = [fault for fault in known if fault.sensor == one.sensor]
    page.until(lambda: total(page) == len(wanted), "only those of one sensor")
    assert set(column(page, 1)) == {one.sensor}
    reasons = page.one('main [role="search"] select')
    Select(reasons).select_by_value(one.reason)
    page.until(lambda: total(page) == sum(fault.reason == one.reason for fault in wanted), "and of one reason")
    assert f"search={one.sensor}" in page.driver.current_url
    assert f"reason={one.reason}" in page.driver.current_url
    page.run("location.reload()")
    page.ready("faults")
    assert set(column(page, 1)) == {one.sensor}
    box = page.one('main [role="search"] input[type="search"]')
    box.send_keys(" nothing like it")
    page.wait(".empty button", "Show all").click()
    page.until(lambda: total(page) == len(known), "all of them again")


def test_a_click_on_a_heading_sorts(page: Browser) -> None:
    page.wait("th button", "Sensor").click()
    page.until(lambda: page.all('th[aria-sort="ascending"]'))
    page.until(lambda: column(page, 1) == sorted(column(page, 1)), "by name")
    page.wait("th button", "Sensor").click()
    page.until(lambda: page.all('th[aria-sort="descending"]'))
    page.until(lambda: column(page, 1) == sorted(column(page, 1), reverse=True), "by name, backwards")


def test_the_table_can_be_taken_along(page: Browser, city_out: Path) -> None:
    sensor = Archive(city_out).faults()[0].sensor
    page.one('main [role="search"] input[type="search"]').send_keys(sensor)
    wanted = [fault for fault in Archive(city_out).faults() if fault.sensor == sensor]
    page.until(lambda: total(page) == len(wanted))
    page.wait("a", "Download CSV").click()
    file = page.downloads / "faults.csv"
    page.until(file.exists, "the download")
    with file.open(encoding="utf-8", newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert {line["sensor"] for line in lines} == {sensor}
    assert len(lines) == len(wanted)


def test_it_is_a_table_on_paper(page: Browser) -> None:
    page.look(700, 1000)
    assert page.one(".faults").value_of_css_property("display") == "grid", "on a small screen, a card for each"
    page.cdp("Emulation.setEmulatedMedia", media="print")
    try:
        assert page.one(".faults").value_of_css_property("display") == "table"
        assert page.one("header.top .brand").is_displayed(), "of which network it is"
        assert not page.one("header.top nav").is_displayed()
        assert page.overflow() <= 0
    finally:
        page.cdp("Emulation.setEmulatedMedia", media="")


def test_a_long_list_has_pages(page: Browser) -> None:
    if total(page) <= 50:
        pytest.fail(f"the city has only {total(page)} faults: make it larger")
    assert len(column(page, 1)) == 50
    first = column(page, 2)
    page.wait("button", "Next").click()
    page.until(lambda: column(page, 2) and column(page, 2) != first, "the next ones")
    assert "offset=50" in page.driver.current_url
    page.wait("button", "Previous").click()
    page.until(lambda: column(page, 2) == first, "the first ones again")


def test_a_fault_leads_to_its_sensor_at_its_time(page: Browser) -> None:
    name = column(page, 1)[0]
    page.one(".faults tbody a").click()
    page.ready("sensor")
    assert name in page.text("h1")
    assert "from=" in page.driver.current_url


def test_a_bar_is_as_long_as_its_word_is_sure(page: Browser, city_out: Path) -> None:
    known = {(one.sensor, iso(one.start)[:16]): one.confidence for one in Archive(city_out).faults()}
    rows = page.run(
        "return [...document.querySelectorAll('.faults tbody tr:has(.sure-bar)')].map((row) => ["
        "row.querySelector('th a').innerText, row.querySelector('time').getAttribute('datetime').slice(0, 16), "
        "parseFloat(row.querySelector('.sure-bar span').style.width), row.querySelector('.sure').innerText.trim()])"
    )
    sure = [(known[name, start], width, word) for name, start, width, word in rows if (name, start) in known]
    judged = [entry for entry in sure if math.isfinite(entry[0])]
    assert len(judged) >= 2
    for confidence, width, word in judged:
        assert width == pytest.approx(100 * max(confidence, 0.08), abs=1)
        assert (word == "certain") == (confidence >= 0.95)


def test_on_paper_every_column_has_its_name_and_no_line_is_hidden(page: Browser) -> None:
    page.cdp("Emulation.setEmulatedMedia", media="print")
    heads = page.texts(".faults thead th")
    assert heads[:6] == ["Sensor", "Since", "Until", "How long", "Reason", "How sure"]
    assert not [one for one in page.all(".faults thead button, .pager") if one.is_displayed()]
    page.cdp("Emulation.setEmulatedMedia", media="")
