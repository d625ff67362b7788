"""`wait_until` waits for a condition, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition to hold; fail when it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {seconds:g} s"
        time.sleep(0.005)
