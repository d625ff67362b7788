from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sensormend.cli.demo_screen import Screen
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.sources.city import City

ADDRESS = "http://127.0.0.1:8464"


def watched(out: Path, page: Console, aside: Console, days: int | None, seconds: float | None) -> Screen:
    city = City(20, days=days, seed=2, hours=24)
    service = Service(
        Settings("a city", out, metrics=None), lambda mark, memory: city, on_event=lambda event: shown.update(event)
    )
    with Screen(page, aside, service, city, days=days, seconds=seconds, address=ADDRESS) as shown:
        service.run()
    return shown


def test_a_terminal_shows_who_is_faulty_and_who_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensormend.cli.demo_screen.REFRESH", 0.0)
    page, aside = (Console(file=StringIO(), width=100, force_terminal=live) for live in (True, False))
    shown = watched(tmp_path / "out", page, aside, 40, None)
    assert isinstance(page.file, StringIO)
    assert page.file.getvalue().count("sensormend, live") > 40, "it is drawn again and again"
    assert isinstance(aside.file, StringIO)
    assert aside.file.getvalue() == ""
    last = Console(file=StringIO(), width=100)
    last.print(shown.table())
    assert isinstance(last.file, StringIO)
    text = last.file.getvalue()
    for word in (
        ADDRESS,
        "20 sensors, temperature",
        "day 40 of 40",
        "per second",
        "never came",
        "faulty now",
        "silent now",
    ):
        assert word in text
    assert "turned faulty: it " in page.file.getvalue().replace("\n", " ")
    for state in ("faulty", "silent"):
        sensors = [entry.sensor for entry in shown._service.stream.health() if entry.state == state]
        (line,) = (line for line in text.splitlines() if f"{state} now" in line)
        assert all(sensor in line for sensor in sensors) if sensors else "none" in line


def test_elsewhere_there_is_a_line_now_and_then(tmp_path: Path) -> None:
    page, aside = (Console(file=StringIO(), width=100) for _ in range(2))
    watched(tmp_path / "out", page, aside, 12, None)
    assert isinstance(page.file, StringIO)
    assert page.file.getvalue() == ""
    assert isinstance(aside.file, StringIO)
    lines = aside.file.getvalue().splitlines()
    assert "day 12 of 12" in lines[-1]
    assert "readings/s" in lines[-1]


def test_it_ends_after_so_many_seconds(tmp_path: Path) -> None:
    page, aside = (Console(file=StringIO(), width=100) for _ in range(2))
    shown = watched(tmp_path / "out", page, aside, None, 0.3)
    assert shown._service.status().readings > 0
