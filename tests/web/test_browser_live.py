"""What arrives while somebody looks, in a real browser: new readings, a connection that goes and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from browser import Browser
from city_source import CitySource
from list_source import settings
from sensormend.stream.service import Service
from sensormend.web.server import Server

SENSOR = ".view-sensor"


@contextmanager
def watching(out: Path, city: CitySource) -> Iterator[Service]:
    """Watch a city in a thread."""
    service = Service(settings(out), lambda mark, memory: city)
    runner = threading.Thread(target=service.run)
    runner.start()
    try:
        yield service
    finally:
        service.stop()
        runner.join()


def test_what_arrives_appears_by_itself_and_looks_provisional(browser: Browser, tmp_path: Path) -> None:
    city = CitySource(12, seed=3, at_once=30, pace=4.0)
    with watching(tmp_path / "city", city):
        browser.until(lambda: (tmp_path / "city" / "run.json").exists() and city.paced, "a watch with rows")
        with browser.serving(tmp_path / "city") as server:
            browser.open(f"{server.address}/#/sensor?sensor=S03", "sensor")
            browser.run("window.here = true")
            browser.until(lambda: browser.data("#live", "live") == "live", "live")
            last = int(browser.data(SENSOR, "last"))
            browser.until(lambda: int(browser.data(SENSOR, "last")) >= last + 3 * 3600, "three hours more")
            browser.run("document.querySelector('.chart-upper').focus()")

            def newest_is_provisional() -> bool:
                # Right after a period has become final nothing is: the key goes on to what comes next.
                browser.keys(".")
                return "provisional" in browser.text(".readout")

            browser.until(newest_is_provisional, "a provisional value")
            assert browser.one('.legend [data-kind="provisional"]').is_displayed()
            clock = browser.text("#live")
            browser.until(lambda: browser.text("#live") != clock, "the network's clock going on")
            browser.run("location.hash = '#/'")
            browser.ready("overview")
            browser.wait(".legend li", "may still change")
            days = int(browser.data("#matrix", "drawn").partition("x")[2])
            browser.until(lambda: int(browser.data("#matrix", "drawn").partition("x")[2]) > days, "one day more")
            assert browser.run("return window.here"), "without a reload"


def test_a_lost_connection_says_so_and_comes_back(browser: Browser, city_out: Path) -> None:
    browser.expect("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET")
    with Server(city_out, port=0) as server:
        server.start()
        port = server.port
        browser.open(f"{server.address}/", "overview")
        browser.until(lambda: browser.data("#live", "live") == "still", "in touch")
        browser.run("window.here = true")
    browser.wait("#banner", "Connection lost")
    assert browser.data("#live", "live") == "lost"
    assert browser.text("h1"), "what was there is still there"
    with browser.serving(city_out, port=port):
        browser.until(lambda: not browser.one("#banner").is_displayed(), "the connection back")
        assert browser.data("#live", "live") == "still"
        browser.run("location.hash = '#/faults'")
        browser.ready("faults")
        assert browser.run("return window.here"), "without a reload"


def test_a_page_without_changes_gets_pings(browser: Browser, city_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.web.api.PING", 1.0)
    with browser.serving(city_out) as server:
        browser.open(f"{server.address}/", "overview")
        kinds = browser.run(EVENTS)
    assert kinds == ["hello", "ping"], "else it would take the connection for lost"


EVENTS = """
        return new Promise((resolve) => {
          const source = new EventSource('api/events'), heard = [];
          for (const name of ['hello', 'ping', 'changed'])
            source.addEventListener(name, () => {
              heard.push(name);
              if (name === 'ping') { source.close(); resolve(heard); }
            });
        });
"""


def test_a_feed_without_readings_says_so(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "out" / "state").mkdir(parents=True)
    (tmp_path / "out" / "state" / "watch.json").write_text("{}")
    with browser.serving(tmp_path / "out") as server:
        browser.open(f"{server.address}/", "overview")
        assert browser.text(".matrix-none p") == "There are no readings yet."
        assert not browser.one(".matrix-none button").is_displayed()
        assert "Nothing is judged yet." in browser.text("[aria-labelledby=trouble-title]")
