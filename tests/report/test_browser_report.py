"""The report in a real browser: it shows the page's views without a server, fits, prints, and requests nothing."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import DESK, PHONE, Browser, running_chromium
from output_folders import big_output, drifting_output, small_output
from sensormend.report.document import write_report


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_chromium() as started:
        started.begin()
        yield started


def shown(chromium: Browser, path: Path) -> None:
    """Open a report, and wait until all of its views are there."""
    chromium.open(path.as_uri())
    chromium.until(lambda: chromium.run("return document.documentElement.dataset.ready !== undefined"))


def hostile(folder: Path) -> Path:
    names = ("<script>alert(1)</script>", "x" * 300, "\u202eabc", "long name " * 12, "S5", "S6")
    return small_output(folder / "city", names=names, variables=("temp", "y" * 200)).path


def large(folder: Path) -> Path:
    return big_output(folder / "city", sensors=200, days=40, slots=2)


@pytest.mark.parametrize("make", [hostile, large])
def test_it_fits_follows_the_theme_and_requests_nothing(make: object, tmp_path: Path, chromium: Browser) -> None:
    assert callable(make)
    path = write_report(make(tmp_path), tmp_path / "report.html")
    colours = []
    for scheme in ("light", "dark"):
        chromium.scheme(scheme)
        for size in (DESK, PHONE):
            chromium.look(*size)
            shown(chromium, path)
            assert chromium.overflow() == 0, (scheme, size)
            assert "What to repair" in chromium.text("main")
        colours.append(chromium.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]
    rows, cells = chromium.run("return document.getElementById('matrix').dataset.drawn").split("x")
    assert (int(rows), int(cells)) == ((200, 40) if make is large else (12, 20))
    assert {url.partition(":")[0] for url in chromium.requests() if url != "about:blank"} <= {"file", "data"}
    assert chromium.errors() == []


def test_it_has_the_views_of_the_page(tmp_path: Path, chromium: Browser) -> None:
    path = write_report(drifting_output(tmp_path / "city"), tmp_path / "report.html")
    chromium.scheme("light")
    chromium.look(*DESK)
    shown(chromium, path)
    assert "S07" in chromium.text("#far .calibration")
    assert chromium.text("#attention")
    sensors = chromium.run("return JSON.parse(document.getElementById('data').textContent).sensors")
    assert len(chromium.all(".view-sensor .chart-upper canvas")) == len(sensors)
    assert len(chromium.all(".view-sensor h2")) >= len(sensors)
    assert not chromium.all("h1 ~ h1, main h1"), "the report has one title"
    links = chromium.run(
        "return [...document.querySelectorAll('main a[href]')].map((link) => link.getAttribute('href'))"
    )
    ids = set(chromium.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)"))
    assert all(link.startswith("#") and link[1:] in ids for link in links), "links lead to parts of the report"
    assert chromium.errors() == []


def test_each_part_draws_its_own_sensor_also_where_it_is_a_neighbour_of_another(
    tmp_path: Path, chromium: Browser
) -> None:
    path = write_report(small_output(tmp_path / "city", sensors=6, days=40).path, tmp_path / "report.html")
    chromium.look(*DESK)
    shown(chromium, path)
    data = chromium.run("return JSON.parse(document.getElementById('data').textContent)")
    for number, one in enumerate(data["sensors"], start=1):
        (own,) = (
            entry["answer"]
            for entry in data["answers"]["series"]
            if entry["of"] == {"part": one["sensor"], "sensor": one["sensor"], "variable": ""}
        )
        part = f"document.getElementById('sensor-{number}')"
        assert int(chromium.run(f"return {part}.dataset.points")) == len(own["time"])
        assert one["sensor"] in chromium.run(f"return {part}.querySelector('h2').textContent")
    beside = [entry for entry in data["answers"]["series"] if entry["of"]["part"] != entry["of"]["sensor"]]
    assert beside
    assert all(entry["answer"]["upper"] == [] and len(entry["answer"]["time"]) > 0 for entry in beside)


def test_its_lists_are_those_of_the_page(tmp_path: Path, chromium: Browser) -> None:
    out = small_output(tmp_path / "city", variables=("temp", "wind")).path
    path = write_report(out, tmp_path / "report.html")
    chromium.look(*DESK)
    shown(chromium, path)
    lists = "#attention li", ".grid tbody tr", ".faults tbody .fault-words"
    report = [chromium.texts(selector) for selector in lists]
    with chromium.serving(out) as server:
        chromium.open(server.address, "overview")
        wrong = "[aria-labelledby=trouble-title] .attention li"
        chromium.until(lambda: chromium.all(".grid tbody tr") and chromium.all(wrong))
        page = [chromium.texts(selector) for selector in (wrong, lists[1])]
        chromium.open(f"{server.address}/#/faults", "faults")
        page.append(chromium.texts(lists[2]))
    assert report == page
    assert all(report)


def test_names_with_markup_are_text(tmp_path: Path, chromium: Browser) -> None:
    name = "=<b onclick=alert(1)>bold</b>"
    out = small_output(tmp_path / "city", names=("S1", name, "S3", "S4", "S5"), variables=("<i>temp</i>", "b")).path
    path = write_report(out, tmp_path / "report.html")
    chromium.look(*DESK)
    shown(chromium, path)
    assert name in chromium.text("main")
    assert "<i>temp</i>" in chromium.text("main")
    assert not chromium.all("b[onclick], main script")
    assert chromium.errors() == []


def test_its_text_can_be_read_without_a_script(tmp_path: Path, chromium: Browser) -> None:
    path = write_report(small_output(tmp_path / "city").path, tmp_path / "report.html")
    chromium.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(path.as_uri())
        assert "S01 was stuck." in chromium.text("main")
        assert "need JavaScript" in chromium.text("body")
    finally:
        chromium.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_it_prints_on_a_few_white_pages(tmp_path: Path, chromium: Browser) -> None:
    path = write_report(small_output(tmp_path / "city").path, tmp_path / "report.html")
    chromium.scheme("dark")
    chromium.look(*DESK)
    shown(chromium, path)
    chromium.run(
        "window.themes = []; addEventListener('beforeprint', () => themes.push(document.documentElement.dataset.theme))"
    )
    printed = base64.b64decode(chromium.cdp("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert 4 <= len(boxes) <= 10
    assert {(round(float(wide)), round(float(high))) for wide, high in boxes} == {(595, 842)}
    assert chromium.run("return themes") == ["light"], "pictures are drawn for white paper"
    assert chromium.run("return document.documentElement.dataset.theme") == "dark"
