import sys
import webbrowser
from pathlib import Path
from threading import Event
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
    with demo_page.served(tmp_path, None) as window:
        assert window.address == "http://127.0.0.1:50000"
        assert window.address in window.message
    assert Taken.closed == 1
    with pytest.raises(ConfigError, match="8464 is taken"), demo_page.served(tmp_path, 8464):
        pass


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with demo_page.served(tmp_path, None) as window:
        window.open()
        assert window.address == ""
        assert "pip install 'sensormend[web]'" in window.message
    assert opened == []


def test_the_page_is_opened_once_and_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, done = [], Event()

    def slow(address: str) -> None:
        opened.append(address)
        done.set()
        raise webbrowser.Error("no browser here")

    monkeypatch.setattr(webbrowser, "open", slow)
    window = demo_page.DemoPage("http://127.0.0.1:8464", "here")
    window.open()
    window.open()
    assert done.wait(20)
    assert opened == ["http://127.0.0.1:8464"]


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
