"""The report in a real browser: it fits, follows the light, prints, and asks nobody for anything."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import DESK, PHONE, Browser, running_chromium
from output_folders import big_output, small_output
from sensormend.report.document import write_report


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_chromium() as started:
        started.begin()
        yield started


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
            chromium.open(path.as_uri())
            assert chromium.overflow() == 0, (scheme, size)
            assert "What to repair" in chromium.text("main")
        colours.append(chromium.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]
    if make is large:
        shown = chromium.run("return document.querySelector('img').currentSrc")
        assert shown == chromium.one("picture source").get_attribute("srcset")
        assert chromium.run("return document.querySelector('img').naturalHeight") == 200
    assert {url.partition(":")[0] for url in chromium.requests() if url != "about:blank"} <= {"file", "data"}
    assert chromium.errors() == []


def test_names_with_markup_are_text(tmp_path: Path, chromium: Browser) -> None:
    name = "=<b onclick=alert(1)>bold</b>"
    out = small_output(tmp_path / "city", names=("S1", name, "S3", "S4", "S5"), variables=("<i>temp</i>", "b")).path
    path = write_report(out, tmp_path / "report.html")
    chromium.look(*DESK)
    chromium.open(path.as_uri())
    assert name in chromium.text("main")
    assert "<i>temp</i>" in chromium.text("main")
    assert not chromium.all("b[onclick], main script")
    assert chromium.errors() == []


def test_it_prints_on_a_few_white_pages(tmp_path: Path, chromium: Browser) -> None:
    path = write_report(small_output(tmp_path / "city").path, tmp_path / "report.html")
    chromium.scheme("dark")
    chromium.look(*DESK)
    chromium.open(path.as_uri())
    printed = base64.b64decode(chromium.cdp("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert 3 <= len(boxes) <= 8
    assert {(round(float(wide)), round(float(high))) for wide, high in boxes} == {(595, 842)}
