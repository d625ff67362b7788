"""Stations of several variables, what can be downloaded, days that are picked, units and time zones, in a browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest

from browser import DESK, PHONE, Browser
from output_folders import FIRST, small_output, write_faults
from sensormend.archive.cleaning import clean_archive
from sensormend.io.folder import Archive
from sensormend.readings import DAY, REASONS, Flag
from sensormend.web.server import Server

VARIABLES = ["humidity (%)", "pressure (hPa)", "temp (°C)"]
DAYS, ENDED = 60, 25


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random, hours = np.random.default_rng(0), np.arange(24 * DAYS)
    weather = 10 + 6 * np.sin(hours / 24 * 2 * np.pi) + random.normal(size=hours.size).cumsum() / 8
    times = np.datetime64("2023-03-01T00", "us") + hours * np.timedelta64(3600, "s")
    parts = []
    for number in range(6):
        noise = random.normal(size=(3, hours.size))
        temp, humidity, pressure = weather + noise[0] / 3, 60 - weather + noise[1], 1010 + weather / 2 + noise[2] / 5
        flag = np.ones(hours.size, dtype=np.int64)
        if number == 2:
            temp[24 * 40 : 24 * 50] += 8
            flag[24 * 40 : 24 * 45] = 4
        columns = dict(zip(VARIABLES, (humidity, pressure, temp), strict=True)) | {"temp_flag": flag}
        part = pl.DataFrame({"time": times, "station": [f"W{number}"] * hours.size, **columns})
        parts.append(part[: 24 * ENDED] if number == 5 else part)
    folder = tmp_path_factory.mktemp("stations")
    pl.concat(parts).write_csv(folder / "readings.csv")
    clean_archive(folder / "readings.csv", folder / "met")
    return folder / "met"


@pytest.fixture(scope="module")
def stations(out: Path) -> Iterator[str]:
    with Server(out, port=0) as server:
        server.start()
        yield server.address


def test_a_station_has_its_variables_on_one_time_axis(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/station?sensor=W2", "station")
    assert browser.texts(".station-name a") == ["humidity", "pressure", "temp"]
    assert len(browser.all(".station-chart canvas")) == 3
    assert browser.text(".view-station .quiet").startswith("3 variables, ")
    start, end = map(float, browser.data(".view-station", "range").split(","))
    assert end - start == 30 * 86_400
    over = ".station-part:last-child .u-over"
    wide = browser.one(over).rect["width"]
    browser.drag(over, (0.2 * wide, 60), (0.6 * wide, 60))
    browser.until(lambda: browser.data(".view-station", "range") != f"{start:.0f},{end:.0f}", "a shorter span")
    near, far = map(float, browser.data(".view-station", "range").split(","))
    assert far - near == pytest.approx(12 * 86_400, rel=0.05)
    for size in (DESK, PHONE):
        browser.look(*size)
        browser.until(lambda: browser.overflow() == 0, "charts as wide as the page")


def test_a_station_says_what_is_known_of_units_and_titles_its_axes(
    browser: Browser, stations: str, tmp_path: Path
) -> None:
    drawn = """
        const seen = [], write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (...all) {
          seen.push(all[0]);
          return write.apply(this, all);
        };
        window.seen = seen;
    """
    browser.open(f"{stations}/#/station?sensor=W2", "station")
    browser.run(drawn)
    browser.one(".view-station .choices button").click()
    titles = {"humidity (%)", "pressure (hPa)", "temp (°C)"}
    browser.until(lambda: titles <= set(browser.run("return seen")), "titles of axes with units")
    assert browser.text(".station-units").startswith("The units differ (%, hPa, °C)")
    table = "time,station,level,flow (m³/s)\n" + "".join(
        f"2023-03-{1 + hour // 24:02d}T{hour % 24:02d}:00,{name},{hour % 5},{hour % 7}\n"
        for hour in range(24 * 12)
        for name in ("A", "B")
    )
    (tmp_path / "river.csv").write_text(table)
    clean_archive(tmp_path / "river.csv", tmp_path / "river")
    with browser.serving(tmp_path / "river") as server:
        browser.open(f"{server.address}/#/station?sensor=A&from=2023-03-03&to=2023-03-04", "station")
        assert browser.text(".station-units").startswith("The unit of level is not known")
        assert browser.text(".view-station .quiet") == "2 variables, 3 Mar 2023"


def test_an_archive_shows_what_was_wrong_for_longest(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/", "overview")
    browser.wait("#was .attention li")
    titles = browser.texts("h2")
    assert {"Wrong at the end", "What was wrong for longest"} <= set(titles)
    assert "Needs attention now" not in titles
    listed = httpx.get(f"{stations}/api/faults?sort=length").json()["items"]
    longest = next(fault for fault in listed if fault["reason"] != "silent")
    assert (longest["sensor"], longest["variable"]) == ("W2", "temp (°C)")
    shown = browser.texts("#was .attention li")[0]
    assert longest["reason"] in shown
    assert not re.search(r"\d{4}-\d\d-\d\d", browser.text("main")), "dates are written as everywhere on the page"
    browser.one("#was .attention li a").click()
    browser.ready("sensor")
    assert "from=2023-04" in browser.driver.current_url
    own = httpx.get(f"{stations}/api/faults?search=W2&variable=temp (°C)").json()
    assert len(browser.all(".own-faults li")) == own["lines"]


def test_a_distance_has_its_unit(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/calibration", "calibration")
    units = {text.split()[-1] for text in browser.texts(".calibration-axis")}
    assert units == {"%", "hPa", "°C"}


def test_a_station_that_has_ended_shows_its_last_readings(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/station?sensor=W5", "station")
    assert {words.split()[-1] for words in browser.texts(".station-name")} == {"ended"}
    start, end = map(float, browser.data(".view-station", "range").split(","))
    first = float(np.datetime64("2023-03-01T00", "s").astype(int))
    assert (start, end) == (first, first + ENDED * 86_400)
    browser.open(f"{stations}/#/station?sensor=W1", "station")
    assert browser.text(".view-station .choices [aria-pressed=true]") == "30 days"


def test_a_sensor_that_has_ended_opens_at_its_last_readings(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/sensor?sensor=W5&variable=temp (°C)", "sensor")
    _, end = map(float, browser.data(".view-sensor", "range").split(","))
    first = float(np.datetime64("2023-03-01T00", "s").astype(int))
    assert end <= first + (ENDED + 1) * 86_400
    assert "25 Mar 2023, 23:00" in browser.text(".figures")


def test_a_line_of_several_variables_leads_to_their_station(browser: Browser, tmp_path: Path) -> None:
    written = small_output(tmp_path / "met", sensors=6, days=20, variables=("co", "o3", "temp"))
    start, end = FIRST + 5 * DAY, FIRST + 9 * DAY
    write_faults(
        written.path,
        [("S01", name, start, end, "offset", 2.0, "offset.", 1.0, 0.0, 1.0) for name in ("co", "o3")],
    )
    with browser.serving(written.path) as server:
        browser.open(f"{server.address}/#/faults", "faults")
        assert browser.texts(".fault-variable") == ["co, o3"]
        assert browser.text(".view-faults .quiet").startswith("2 faults, in 1 line")
        browser.one(".faults tbody th a").click()
        browser.ready("station")
        near, far = map(float, browser.data(".view-station", "range").split(","))
        assert near < start / 1e6 < end / 1e6 < far
        assert browser.texts(".station-name a") == ["co", "o3", "temp"]


def test_an_archive_has_a_grid_of_stations_by_variables(browser: Browser, stations: str, out: Path) -> None:
    browser.open(f"{stations}/#/", "overview")
    browser.wait("#grid .grid")
    assert browser.texts("#grid thead th") == ["Station", *VARIABLES]
    share = {(one.sensor, one.variable): one.share_faulty for one in Archive(out).sensors()}
    worst = max(share, key=lambda name: share[name])
    assert worst == ("W2", VARIABLES[2])
    first = browser.all("#grid tbody tr")[0]
    assert first.text.split()[0] == "W2"
    assert f"{100 * share[worst]:.0f} %" in first.text
    first.find_element("css selector", "th a").click()
    browser.ready("station")


def test_what_the_owners_flagged_is_beside_ours(browser: Browser, stations: str) -> None:
    agreement = httpx.get(f"{stations}/api/owners").json()
    temp = agreement["variables"][-1]
    assert (temp["variable"], temp["labelled"], temp["both"]) == (VARIABLES[2], 120, 120)
    first = agreement["items"][0]
    assert (first["sensor"], first["ours"], first["theirs"]) == ("W2", temp["flagged"] - 120, 0)
    browser.open(f"{stations}/#/", "overview")
    browser.wait("#owners table")
    cells = [text.replace("\u202f", "").replace(",", "") for text in browser.texts("#owners tbody tr td")]
    assert cells[1:4] == ["120", str(temp["flagged"]), "120"]
    assert cells[5] == "1.000"
    browser.one("#owners ol a").click()
    browser.ready("sensor")
    purple = (
        "const c = document.querySelector('.chart-upper canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
        "for (let i = 0; i < d.length; i += 4)"
        "  if ([122, 79, 191].every((ink, at) => Math.abs(d[i + at] - ink) < 4)) n += 1; return n"
    )
    browser.until(lambda: browser.run(purple) > 300, "the strip of what the owners flagged")
    assert "wrong by its owners' flags" in browser.text(".legend")
    browser.open(f"{stations}/#/sensor?sensor=W4&variable=temp (°C)", "sensor")
    assert browser.run(purple) == 0


def test_days_are_picked(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/sensor?sensor=W2&variable=temp (°C)", "sensor")
    boxes = browser.all(".chart-dates input")
    assert [box.get_attribute("value") for box in boxes] == ["2023-03-31", "2023-04-29"]
    set_value = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
    browser.run(set_value, boxes[0], "2023-04-08")
    browser.run(set_value, boxes[1], "2023-04-12")
    expected = [int(np.datetime64(day, "s").astype(int)) for day in ("2023-04-08", "2023-04-13")]
    browser.until(lambda: browser.data(".view-sensor", "range") == f"{expected[0]},{expected[1]}", "five days")


def test_another_sensor_is_drawn_over_it(browser: Browser, stations: str) -> None:
    browser.open(f"{stations}/#/sensor?sensor=W2&variable=temp (°C)&from=2023-04-05&to=2023-04-20", "sensor")
    dark = (
        "const c = document.querySelector('.chart-upper canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
        "for (let i = 0; i < d.length; i += 4)"
        "  if (d[i] < 60 && d[i + 1] < 60 && d[i + 2] < 70 && d[i + 3] > 200) n += 1; return n"
    )
    before = browser.run(dark)
    box = browser.one("input.second")
    box.send_keys("W4")
    browser.until(lambda: browser.all("#second-sensors option"), "the sensors that are offered")
    box.send_keys("\n")
    browser.until(lambda: browser.run(dark) > before + 500, "a dark line")
    assert "beside=W4" in browser.driver.current_url
    address = browser.driver.current_url
    browser.open(f"{stations}/#/", "overview")
    browser.open(address, "sensor")
    assert browser.one("input.second").get_attribute("value") == "W4"
    browser.until(lambda: browser.run(dark) > before + 500, "the line again")


def test_what_is_shown_is_downloaded_as_a_table_and_as_a_picture(browser: Browser, stations: str, out: Path) -> None:
    browser.open(f"{stations}/#/sensor?sensor=W2&variable=temp (°C)&from=2023-04-05&to=2023-04-20", "sensor")
    for text, name in (("CSV", "W2.csv"), ("PNG", "W2.png")):
        next(one for one in browser.all(".steering .button") if one.text == text).click()
        browser.until(lambda name=name: (browser.downloads / name).is_file(), name)  # type: ignore[misc]
    table = list(csv.DictReader(io.StringIO((browser.downloads / "W2.csv").read_text("utf-8"))))
    rows = Archive(out).rows("W2", variable=VARIABLES[2])
    start, end = (int(np.datetime64(day, "us").astype(int)) for day in ("2023-04-05", "2023-04-20"))
    rows = rows.taken((rows.time >= start) & (rows.time < end))
    assert len(table) == len(rows) == 15 * 24
    assert [row["reason"] for row in table] == [REASONS[code] for code in rows.reason]
    assert [int(row["flag"]) for row in table] == rows.flag.tolist()
    np.testing.assert_allclose([float(row["cleaned"]) for row in table], rows.cleaned)
    assert Flag.FAIL in rows.flag
    picture = (browser.downloads / "W2.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_table_has_a_maximum_and_known_sensors(stations: str) -> None:
    everything = httpx.get(f"{stations}/api/rows.csv", params={"sensor": "W1", "variable": VARIABLES[0]})
    assert len(everything.text.splitlines()) == 1 + 24 * DAYS
    empty = httpx.get(f"{stations}/api/rows.csv", params={"sensor": "W1", "from": "2024-01-01"})
    assert (empty.status_code, len(empty.text.splitlines())) == (200, 1)
    assert httpx.get(f"{stations}/api/rows.csv", params={"sensor": "W9"}).status_code == 404


def test_the_unit_is_on_the_axis_and_beside_the_usual_error(browser: Browser, stations: str) -> None:
    sensor = httpx.get(f"{stations}/api/sensor", params={"sensor": "W1", "variable": VARIABLES[1]}).json()
    assert (sensor["label"], sensor["unit"]) == ("pressure", "hPa")
    browser.open(f"{stations}/#/sensor?sensor=W1&variable=pressure (hPa)", "sensor")
    assert "hPa" in browser.text(".figures")


def test_times_are_those_of_the_browser_s_zone_where_that_is_chosen(browser: Browser, stations: str) -> None:
    browser.cdp("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        browser.open(f"{stations}/#/sensor?sensor=W1&variable=temp (°C)", "sensor")
        assert "those that came without a zone are shown as they came" in browser.text("#zone-words")
        assert "29 Apr 2023, 23:00" in browser.text(".figures")
        browser.wait("#zone", "Asia/Tokyo").click()
        browser.until(lambda: "30 Apr 2023, 08:00" in browser.text(".figures"), "local time")
        assert "Times are those of Asia/Tokyo" in browser.text("#zone-words")
        browser.open(f"{stations}/#/faults", "faults")
        assert "times of Asia/Tokyo" in browser.text(".view-faults")
        browser.one("#zone").click()
        browser.until(lambda: "times of" not in browser.text(".view-faults"), "as stored")
    finally:
        browser.cdp("Emulation.setTimezoneOverride", timezoneId="")
