import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sensormend.cli import demo as demo_page
from sensormend.errors import ConfigError
from sensormend.files import Closing


class Taken(Closing):
    """A server whose usual port somebody else has."""

    closed = 0

    def __init__(self, out: Path, *, port: int = 8464, edit: Path | None = None) -> None:
        if port:
            raise ConfigError(f"port {port} is taken")
        self.address = ""

    def start(self) -> None:
        self.address = "http://127.0.0.1:50000"

    def close(self) -> None:
        type(self).closed += 1


def test_where_nobody_chose_a_port_a_free_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sensormend.web.server", SimpleNamespace(Server=Taken))
    with demo_page.served(tmp_path, None) as address:
        assert address == "http://127.0.0.1:50000"
    assert Taken.closed == 1
    with pytest.raises(ConfigError, match="8464 is taken"), demo_page.served(tmp_path, 8464):
        pass


def test_without_the_extra_there_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with demo_page.served(tmp_path, None) as address:
        assert address == ""


def test_alerts_are_printed_when_the_first_days_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_page, "FIRST_DAYS", 60)
    demo_page.demo(seconds=20, sensors=20, pace=12, browser=False, port=0, out=tmp_path / "demo")
    printed = capsys.readouterr().out
    before, _, after = printed.partition("60 days are loaded; from now on a second is 12 h.")
    assert "turned" not in before
    assert "S18 turned faulty: it reads " in after
    rows = (tmp_path / "demo" / "readings.csv").read_text().splitlines()
    assert rows[0] == "sensor,time,value,latitude,longitude"
    assert rows[-1].split(",")[1] > "2024-03-05"


@pytest.mark.parametrize(
    ("platform", "display", "terminal", "screen"),
    [
        ("linux", ":0", True, True),
        ("linux", "", True, False),
        ("linux", ":0", False, False),
        ("darwin", "", True, True),
        ("win32", "", True, True),
    ],
)
def test_a_screen_is_a_display_and_somebody_before_it(
    platform: str, display: str, terminal: bool, screen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: terminal))
    assert demo_page.has_screen() is screen
