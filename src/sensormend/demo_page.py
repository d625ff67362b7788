"""The page of a demo: served while it runs, and opened where there is a screen."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sensormend.errors import ConfigError

if TYPE_CHECKING:
    from sensormend.web.server import Server

__all__ = ["Window", "has_screen", "served"]

LACKING = "No page to look at: it needs fastapi and uvicorn, pip install 'sensormend[web]'"


class Window:
    """Where the page is, and how it gets before somebody's eyes.

    Parameters
    ----------
    address
        Of the page; empty where there is none.
    said
        One line about it for a person.
    """

    def __init__(self, address: str, said: str) -> None:
        self.address, self.said = address, said
        self._opened = False

    def open(self) -> None:
        """Open the page in the user's browser, once, without waiting for it."""
        if self.address and not self._opened:
            self._opened = True
            threading.Thread(target=_open, args=(self.address,), daemon=True).start()


@contextmanager
def served(out: Path, port: int | None, edit: Path | None = None) -> Iterator[Window]:
    """Serve an OUT on a port of this machine; where nobody chose one and the usual one is taken, on a free one.

    Notes from the page go to the file `edit`, where there is one.
    """
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        yield Window("", LACKING)
        return
    with _bound(out, port, edit) as server:
        server.start()
        yield Window(server.address, f"Look at it in a browser: {server.address}")


def has_screen() -> bool:
    """Say whether somebody sits here, before a screen that can show a browser."""
    somewhere = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return somewhere and sys.stdout.isatty()


def _bound(out: Path, port: int | None, edit: Path | None) -> Server:
    from sensormend.web.server import Server

    if port is not None:
        return Server(out, port=port, edit=edit)
    try:
        return Server(out, edit=edit)
    except ConfigError:
        return Server(out, port=0, edit=edit)


def _open(address: str) -> None:
    try:
        webbrowser.open(address)
    except (OSError, webbrowser.Error):
        # The address is on the screen.
        return
