"""How many channels are judged together.

A network of up to `CORE + HALO` channels is one neighbourhood, and the modules beside this one take it through its
periods. A larger one is cut into parts of `CORE` channels that listen to `HALO` others each; `wide` has these.
"""

from __future__ import annotations

import numpy as np

__all__ = ["CORE", "HALO", "IntArray"]

CORE = 48
"""Sensors that a neighbourhood judges. With the halo the inverse is 64 wide: small enough for the cache."""

HALO = 16
"""Sensors from outside that it listens to. NOAA: 16 best relatives predict within 2 % of all 36."""

IntArray = np.ndarray[tuple[int], np.dtype[np.intp]]
