"""The view of calibration, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from browser import DESK, PHONE, Browser
from output_folders import drifting_output, small_output
from sensormend.web.server import Server

ROOT, LINES = ".view-calibration", ".calibration li:not(.calibration-dates)"


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(drifting_output(tmp_path_factory.mktemp("calibration") / "city"), port=0) as server:
        server.start()
        yield server.address


def test_who_drifts_is_first_with_a_picture_and_a_way_to_its_page(browser: Browser, drifting: str) -> None:
    for size in (DESK, PHONE):
        browser.look(*size)
        browser.open(f"{drifting}/#/", "overview")
        browser.wait(".tabs a", "Calibration").click()
        browser.ready("calibration")
        assert browser.overflow() == 0
    first = browser.one(LINES)
    answer = httpx.get(f"{drifting}/api/calibration").json()
    line = answer["rows"][0]
    assert line["sensor"] == "S07"
    assert first.text.split()[:2] == ["S07", f"+{line['now']:.1f}"]
    assert "in 30 days" in first.text
    assert "calibration-far" in (first.get_attribute("class") or "")
    assert len(browser.all(LINES)) == answer["total"] == 10
    drawn = browser.run("return document.querySelector('.calibration-line').getBBox().height")
    assert drawn > 0.4, "from zero to near the edge of its picture"
    browser.wait(".calibration a", "S07").click()
    browser.ready("sensor")
    assert "S07" in browser.text("h1")


def test_sensors_are_filtered_by_name(browser: Browser, drifting: str) -> None:
    browser.open(f"{drifting}/#/calibration?search=S03", "calibration")
    assert [text.split()[0] for text in browser.texts(LINES)] == ["S03"]
    browser.one(f'{ROOT} input[type="search"]').clear()
    browser.one(f'{ROOT} input[type="search"]').send_keys("S0")
    browser.until(lambda: browser.data(ROOT, "total") == "10", "all of them")


def test_a_short_archive_says_that_it_is_too_early(browser: Browser, tmp_path: Path) -> None:
    with browser.serving(small_output(tmp_path / "short", days=9).path) as server:
        browser.open(f"{server.address}/#/calibration", "calibration")
        assert "it takes four weeks" in browser.text(ROOT)


def test_the_pictures_have_dates_and_one_scale(browser: Browser, drifting: str) -> None:
    browser.open(f"{drifting}/#/calibration", "calibration")
    assert browser.texts(".calibration-dates i")[0].endswith("2024")
    assert len(browser.all(".calibration-dates i")) >= 3
    assert len(set(browser.texts(".calibration-axis"))) == 1
    browser.one(".calibration-scale input").click()
    browser.until(lambda: len(set(browser.texts(".calibration-axis"))) > 1, "a scale for each")
    assert "scale=own" in browser.driver.current_url
