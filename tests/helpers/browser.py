"""A real browser for the tests: Chromium without a window, its requests and its console errors."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from sensormend.web.server import Server
from servers import lacking, require_mark

__all__ = ["DESK", "PHONE", "Browser", "running_chromium"]

_T = TypeVar("_T")

DESK, PHONE = (1280, 900), (390, 844)
"""Width and height of what is looked at."""

SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # as root there is no other way
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # a container's /dev/shm is smaller than a page
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--lang=en-GB",
)
INTERNAL = {"about", "blob", "chrome", "data", "devtools"}
"""Schemes of a browser's internal requests."""

TIMEOUT = 60.0
"""Seconds to wait for a condition, on a machine that is busy."""


class Browser:
    """Chromium, for one test after the other.

    Attributes
    ----------
    driver
        The selenium driver, for what this class does not wrap.
    downloads
        The folder that downloads go to.
    """

    def __init__(self, driver: Chrome, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads
        self._hosts: set[str] = set()
        self._expected: list[str] = []

    def begin(self) -> None:
        """Start over: nothing stored, nothing shown, no errors."""
        for file in self.downloads.iterdir():
            file.unlink()
        self.look(*DESK)
        self.scheme("light")
        self.cdp("Network.clearBrowserCookies")
        self.cdp("Network.clearBrowserCache")
        self.leave()
        for host in self._hosts:
            self.cdp("Storage.clearDataForOrigin", origin=f"http://{host}", storageTypes="all")
        self._hosts, self._expected = set(), []
        self.errors()
        self.requests()

    def end(self) -> None:
        """Assert that the page had no unexpected console errors, and no requests to other hosts."""
        errors = [text for text in self.errors() if not any(re.search(one, text) for one in self._expected)]
        elsewhere = [url for url in self.requests() if not self._ours(url)]
        self.leave()
        assert not errors, errors
        assert not elsewhere, elsewhere

    def _ours(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in INTERNAL or parts.netloc in self._hosts

    def expect(self, pattern: str) -> None:
        """Allow a console error that this test provokes."""
        self._expected.append(pattern)

    def errors(self) -> list[str]:
        """Return the errors in the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Return the addresses requested since the last call."""
        addresses = []
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                addresses.append(event["params"]["request"]["url"])
            elif event["method"] == "Network.webSocketCreated":
                addresses.append(event["params"]["url"])
        return addresses

    def cdp(self, command: str, **arguments: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def look(self, width: int, height: int) -> None:
        """Set the size of the window; a narrow one is a phone's."""
        phone = width < 600
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )  # fmt: skip
        self.cdp("Emulation.setTouchEmulationEnabled", enabled=phone)

    def scheme(self, name: str) -> None:
        """Prefer light or dark."""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, address: str, view: str = "") -> None:
        """Go to an address, and wait for its view where one is named."""
        self._hosts.add(urlsplit(address).netloc)
        if self.driver.current_url.partition("#")[0] == address.partition("#")[0]:
            self.leave()
        self.driver.get(address)
        if view:
            self.ready(view)

    def leave(self) -> None:
        """Leave the page, before its server stops."""
        self.driver.get("about:blank")

    @contextmanager
    def serving(self, out: Path, **options: Any) -> Iterator[Server]:
        """Serve an OUT on a free port."""
        with Server(out, **{"port": 0, **options}) as server:
            server.start()
            yield server
            self.leave()

    def ready(self, view: str) -> WebElement:
        """Wait until a view is there, with its data."""
        return self.wait(f'main[data-view="{view}"][data-ready="true"]')

    def until(self, condition: Callable[[], _T], what: str = "", seconds: float = TIMEOUT) -> _T:
        """Wait for a condition to be true, and return its value."""
        end = time.monotonic() + seconds
        while True:
            try:
                value = condition()
            except (NoSuchElementException, StaleElementReferenceException):
                value = None
            if value:
                return value
            if time.monotonic() > end:
                shown = self.text("body")[:1000]
                raise AssertionError(f"waited {seconds:g} s for {what or condition}; shown is:\n{shown}")
            time.sleep(0.02)

    def wait(self, selector: str, containing: str = "") -> WebElement:
        """Wait for an element that can be seen, and has this text."""

        def visible() -> WebElement | None:
            elements = [one for one in self.all(selector) if one.is_displayed() and containing in one.text]
            return elements[0] if elements else None

        element = self.until(visible, f"{selector} {containing!r}")
        assert element is not None
        return element

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that are there now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Return the text of each of them, at once."""
        texts: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText.trim())", selector
        )
        return texts

    def one(self, selector: str) -> WebElement:
        """Return the first of them."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        """Return the text that can be seen there."""
        return self.one(selector).text

    def data(self, selector: str, name: str) -> str:
        """Return the attribute `data-name` of an element; empty where it has none."""
        return self.one(selector).get_attribute(f"data-{name}") or ""

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def keys(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self) -> str:
        """Return what has the focus: its tag, and its text or label."""
        return str(self.run(
            "const e = document.activeElement;"
            "return e.tagName + ' ' + (e.getAttribute('aria-label') || e.innerText || e.id || '').trim()"
        ))  # fmt: skip

    def point(self, selector: str, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer so many pixels from an element's left and top, from its right and bottom where negative."""
        left, top = self._place(selector, x, y)
        actions = ActionBuilder(self.driver)
        pointer: Any = actions.pointer_action
        pointer.move_to_location(left, top)
        if click:
            pointer.click()
        actions.perform()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw from one place in an element to another, in pixels from its left and top."""
        actions = ActionBuilder(self.driver, duration=50)
        pointer: Any = actions.pointer_action
        pointer.move_to_location(*self._place(selector, *start)).pointer_down()
        for share in (0.5, 1.0):
            between = (a + share * (b - a) for a, b in zip(start, end, strict=True))
            pointer.move_to_location(*self._place(selector, *between))
        pointer.pointer_up()
        actions.perform()

    def _place(self, selector: str, x: float, y: float) -> tuple[int, int]:
        """Bring a place of an element into view, and return where that is; selenium's own way counts from the middle of
        whatever part of it can be seen."""
        left, top = self.run(
            """
            const [element, x, y] = arguments, size = element.getBoundingClientRect();
            const place = () => {
              const now = element.getBoundingClientRect();
              return [now.left + x + (x < 0 ? size.width : 0), now.top + y + (y < 0 ? size.height : 0)];
            };
            const [, above] = place();
            if (above < 0 || above >= innerHeight) scrollBy({top: above - innerHeight / 2, behavior: 'instant'});
            return place();
            """,
            self.one(selector), x, y,
        )  # fmt: skip
        return round(left), round(top)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def picture(self, path: Path) -> None:
        """Write what can be seen as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(path))


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Start Chromium with an empty profile; skip where it is not installed."""
    require_mark("browser")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        lacking("Chromium is not installed: chromium and chromium-driver are needed")
    folder = Path(tempfile.mkdtemp(prefix="sensormend-chromium-"))
    downloads = folder / "downloads"
    downloads.mkdir()
    options = ChromeOptions()
    options.binary_location = browser
    for switch in (*SWITCHES, f"--user-data-dir={folder / 'profile'}", "--window-size=1280,900"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    try:
        chrome = Chrome(options=options, service=ChromeService(driver))
        try:
            yield Browser(chrome, downloads)
        finally:
            chrome.quit()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
