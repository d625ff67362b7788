"""What the tests of the page share: a browser, and what it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, running_chromium
from city_source import CitySource
from list_source import settings
from sensormend.stream.service import Service
from sensormend.web.server import Server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the browser that the tests of a file share."""
    with running_chromium() as started:
        yield started


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Give the browser as new; no test may make it complain, or ask another host than its own server."""
    chromium.begin()
    yield chromium
    chromium.end()


@pytest.fixture(scope="session")
def city_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the OUT of a watch that has ended: 40 sensors, 84 days, with places, faults and silences."""
    out = tmp_path_factory.mktemp("web") / "city"
    Service(settings(out), lambda mark, memory: CitySource(40, days=84, seed=2)).run()
    return out


@pytest.fixture(scope="session")
def address(city_out: Path) -> Iterator[str]:
    """Serve that OUT."""
    with Server(city_out, port=0) as server:
        server.start()
        yield server.address
