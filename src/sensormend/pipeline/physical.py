"""What a variable's name says about its readings: what they cannot be, and where a sound sensor stands still.

The gross range test of QARTOD (Manual for Real-Time Quality Control, test 4) asks the operator for such limits. These
are the ones that need no operator: a relative humidity of -60 is impossible at any place.
"""

from __future__ import annotations

import re
from math import inf

__all__ = ["physical_limits", "plateau"]

LIMITS = (
    # Hygrometers read up to 110 % in fog, and a few per cent below 0 in a desert.
    (r"rh\d*|rel\w*[ _.-]?hum\w*|hum\w*", -5.0, 115.0),
    (r"ph\d*", 0.0, 14.0),
    # The strongest gust on record is 113 m/s; in km/h that is 408. An anemometer's zero may be off.
    (r"(wind|ws|wspd|wspm|gust)\d*|w\w*[ _.-]?(speed|spd)|gust\w*", -5.0, 410.0),
    (r"(rain|ppt|prec\w*|rainfall)\d*", -1.0, inf),
    # Oxygen in mg/l or in per cent of saturation; algae reach 300 %.
    (r"(do|odo|oxygen)\d*|do[ _.-]?(mgl?|sat|pct|percent)\w*|dissolved[ _.-]?ox\w*", -5.0, 600.0),
)
"""Patterns of whole names, lower case, with what such a variable can be in any of its usual units."""

PLATEAUS = (
    # Water that freezes or melts, in a river or in soil, stays at 0 deg C; air does not.
    (r"(?!.*air)\w*temp(erature)?(s|[ _.-]?\w+)?|(t[ _.-]?(w|water|s|soil)|st|ts|tw)\d*", -0.12, 0.12),
)
"""Patterns of whole names, lower case, with the readings at which such a variable stands still by nature."""

_PLATEAUS = tuple((re.compile(pattern), low, high) for pattern, low, high in PLATEAUS)
_LIMITS = tuple((re.compile(pattern), low, high) for pattern, low, high in LIMITS)


def physical_limits(variable: str) -> tuple[float, float]:
    """Return the least and the greatest value that a variable of this name can have; infinite where it is not known.

    Examples
    --------
    >>> physical_limits("RH"), physical_limits("pH"), physical_limits("temperature")
    ((-5.0, 115.0), (0.0, 14.0), (-inf, inf))
    """
    name = variable.strip().lower()
    for pattern, low, high in _LIMITS:
        if pattern.fullmatch(name):
            return low, high
    return -inf, inf


def plateau(variable: str) -> tuple[float, float] | None:
    """Return between which readings a variable of this name stands still by nature, None if it does not.

    Examples
    --------
    >>> plateau("water_temp"), plateau("air_temp"), plateau("level")
    ((-0.12, 0.12), None, None)
    """
    name = variable.strip().lower()
    return next(((low, high) for pattern, low, high in _PLATEAUS if pattern.fullmatch(name)), None)
