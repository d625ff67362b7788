"""`iso`, `parse_time`, `duration` and `in_words` convert times and durations from and to texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError
from sensormend.readings import DAY, HOUR, MINUTE, SECOND
from sensormend.recovery import BoolArray

__all__ = ["FAR_AWAY", "duration", "in_words", "iso", "parse_time", "plausible_periods", "utc"]

UNITS = {
    "ms": SECOND // 1000, "s": SECOND, "sec": SECOND, "second": SECOND,
    "min": MINUTE, "m": MINUTE, "minute": MINUTE, "h": HOUR, "hour": HOUR,
    "d": DAY, "day": DAY, "w": 7 * DAY, "week": 7 * DAY,
}  # fmt: skip

FAR_AWAY, FEW_READINGS = 365 * DAY, 0.001
"""A clock that was not set reports 1970 or 2000: one reading in a thousand, a year from all others, is rejected."""


def iso(time: int) -> str:
    """Return a time as it is written in the files: ISO 8601, UTC, without a zone.

    Examples
    --------
    >>> iso(1_546_300_800_000_000)
    '2019-01-01T00:00:00'
    """
    exact = np.datetime64(time, "us")
    return str(exact if time % SECOND else exact.astype("datetime64[s]"))


def parse_time(text: str) -> int:
    """Return the microseconds of an ISO time; without a zone it is UTC, and a date alone is its midnight.

    Examples
    --------
    >>> parse_time("2019-01-01T01:00+01:00") == parse_time("2019-01-01") == 1_546_300_800_000_000
    True
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(f"a time looks like 2019-01-31T14:00, in UTC; got {text!r}") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def utc(time: int | None) -> str | None:
    """Format a time as ISO 8601 with its zone, since receivers may take a time without one for local time.

    Examples
    --------
    >>> utc(1_546_300_800_000_000)
    '2019-01-01T00:00:00Z'
    """
    return None if time is None else f"{iso(time)}Z"


def duration(value: str | timedelta) -> int:
    """Return a duration like `15min`, `1h` or `1 d` in microseconds.

    Examples
    --------
    >>> duration("15min") // 1_000_000, duration("10ms")
    (900, 10000)
    """
    if isinstance(value, timedelta):
        value = f"{value / timedelta(seconds=1)}s"
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*([a-z]+)\s*", value.lower()) if isinstance(value, str) else None
    unit = UNITS.get(match[2]) or UNITS.get(match[2].rstrip("s")) if match else None
    length = round(float(match[1] or 1) * unit) if match and unit else 0
    if length < 1:
        raise ConfigError(f"a duration is a number and a unit, like 15min, 1h or 1d; got {value!r}")
    return length


def in_words(length: int) -> str:
    """Return a duration as text that `duration` reads.

    Examples
    --------
    >>> in_words(900_000_000)
    '15min'
    """
    for name, unit in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        if length % unit == 0:
            return f"{length // unit}{name}"
    return f"{length / SECOND:g}s"


def plausible_periods(periods: NDArray[np.int64], counts: NDArray[np.int64], length: int) -> BoolArray:
    """Return which periods are plausible: a few readings a year and more away from all others have a wrong clock.

    `periods` are the sorted numbers of the periods with readings, each of `length` microseconds with `counts` readings.
    """
    group = np.concatenate([[0], np.cumsum(np.diff(periods) * length > FAR_AWAY)])
    share = np.bincount(group, weights=counts) / counts.sum()
    return np.asarray((share >= FEW_READINGS)[group])
