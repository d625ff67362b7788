"""Times and numbers as single messages have them; no column tells here how the others are written."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone

from sensormend.io.table_layout import MISSING
from sensormend.io.times import EARLIEST, EPOCHS, LATEST, time_format
from sensormend.readings import SECOND
from sensormend.stream.formats.refused import NOT_A_NUMBER, NOT_A_TIME, OUT_OF_TIME, Refused

__all__ = ["epoch", "in_range", "number", "scale_of", "time_from"]

LONGEST = 50
"""Letters of a time."""

_START = datetime(1970, 1, 1, tzinfo=UTC)
_COMPACT = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{4}|\d{6})?")
_LOOSE = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2})(?:[.,](\d+))?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2})?)?)?",
    re.IGNORECASE,
)


def time_from(told: object) -> int:
    """Return a time in microseconds since 1970: an epoch of any unit, or written; without an offset it is UTC.

    Examples
    --------
    >>> time_from("1970-01-01T01:00:01+01:00"), time_from(1_000), time_from("1577836800123")
    (1000000, 1000000000, 1577836800123000)

    Raises
    ------
    Refused
        For what is no time, or none between 1678 and 2261.
    """
    kind = type(told)
    if kind is int or kind is float:
        return epoch(told)  # type: ignore[arg-type]
    if kind is not str:
        raise Refused(NOT_A_TIME)
    text: str = told.strip()  # type: ignore[attr-defined]
    found = _written(text) if len(text) <= LONGEST else None
    if found is None:
        raise Refused(NOT_A_TIME)
    return in_range(found)


def in_range(time: int) -> int:
    """Return a time, or refuse one that the years 1678 to 2261 do not have."""
    if not EARLIEST <= time <= LATEST:
        raise Refused(OUT_OF_TIME)
    return time


def scale_of(size: float) -> int:
    """Return how many microseconds one of an epoch is, by its size; 0 for nanoseconds.

    Small numbers are seconds: a clock that was never set says a few days after 1970, and it is for others to judge.
    """
    for limit, scale in EPOCHS:
        if size < limit:
            return scale
    return 0


def epoch(count: int | float) -> int:
    """Return an epoch in microseconds."""
    if not -math.inf < count < math.inf:
        raise Refused(NOT_A_TIME)
    scale = scale_of(abs(count))
    if not scale:
        return in_range(int(count) // 1000)
    return in_range(count * scale if isinstance(count, int) else round(count * scale))


def number(told: object) -> float:
    """Return a number; NaN for what says that there is none: null, `""`, `"NA"`, infinities.

    Examples
    --------
    >>> number("21.5"), number(None)
    (21.5, nan)
    """
    kind = type(told)
    if told is None:
        return math.nan
    try:
        if kind is float or kind is int:
            value = float(told)  # type: ignore[arg-type]
        elif kind is str:
            text = told.strip()  # type: ignore[attr-defined]
            if text.lower() in MISSING:
                return math.nan
            if "_" in text:  # a number to Python, to nobody else
                raise Refused(NOT_A_NUMBER)
            value = float(text)
        else:
            raise Refused(NOT_A_NUMBER)
    except ValueError:
        raise Refused(NOT_A_NUMBER) from None
    except OverflowError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _written(text: str) -> int | None:
    if text.isdecimal() and text.isascii() and len(text) < 20:
        # Ten and thirteen digits are epochs, whatever date they could be read as as well.
        if len(text) in (8, 12, 14) and _COMPACT.fullmatch(text):
            return _parsed(text, ({8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}[len(text)],))
        return epoch(int(text))
    if text[4:5] in ("-", "/"):
        try:
            return _micros(datetime.fromisoformat(text))
        except ValueError:
            return _loose(text)
    try:
        if "_" not in text and len(text) >= 9:
            return epoch(float(text))
    except ValueError:
        pass
    form = time_format([text]) if text else None
    return _parsed(text.upper(), form.formats) if form is not None and form.name == "strptime" else None


def _micros(when: datetime) -> int:
    since = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - _START
    return since.days * 86_400 * SECOND + since.seconds * SECOND + since.microseconds


def _parsed(text: str, formats: tuple[str, ...]) -> int | None:
    for form in formats:
        try:
            return _micros(datetime.strptime(text, form))
        except ValueError:
            continue
    return None


def _loose(text: str) -> int | None:
    """Read what is nearly ISO: single digits, slashes, a comma, a blank before the offset."""
    found = _LOOSE.fullmatch(text)
    if not found:
        return None
    year, _, month, day, hour, minute, second, fraction, sign, east, past = found.groups()
    offset = timedelta(hours=int(east or 0), minutes=int(past or 0)) * (-1 if sign == "-" else 1)
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        zone = timezone(offset)
        return _micros(
            datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micro, zone)
        )
    except ValueError:
        return None
