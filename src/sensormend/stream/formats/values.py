"""Functions here parse single times, numbers and names in messages, with the reason why one is refused."""

from __future__ import annotations

import math
import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

from sensormend.io.table_layout import MISSING
from sensormend.io.time_formats import EARLIEST, EPOCHS, LATEST, time_format

__all__ = [
    "BAD_NAME",
    "NOT_A_NUMBER",
    "NOT_A_READING",
    "NOT_A_TIME",
    "NOT_DECODED",
    "NOT_IN_FORMAT",
    "NOT_JSON",
    "NOT_MEASURED",
    "NOT_UTF8",
    "NO_READING",
    "NO_SENSOR",
    "OUT_OF_TIME",
    "RETAINED_OLD",
    "RETAINED_TIMELESS",
    "TOO_DEEP",
    "TOO_LARGE",
    "TOO_MANY_NAMES",
    "UNKNOWN_SENML",
    "UNREADABLE",
    "InvalidReadingError",
    "NameTable",
    "epoch",
    "find_scale",
    "in_range",
    "number",
    "time_from",
]

NOT_UTF8 = "not UTF-8"
NOT_JSON = "neither JSON nor a number"
TOO_DEEP = "nested too deep"
TOO_LARGE = "too large"
NOT_A_READING = "not an object"
NO_READING = "no reading in it"
NOT_DECODED = "a payload that its network server has not decoded"
NOT_MEASURED = "only numbers about the device or the message"
NOT_IN_FORMAT = "not in the format that is named"
NO_SENSOR = "no sensor"
NOT_A_TIME = "not a time"
OUT_OF_TIME = "a time before 1678 or after 2261"
NOT_A_NUMBER = "not a number"
BAD_NAME = "a name that is too long or has control characters"
TOO_MANY_NAMES = "more names than there can be sensors"
UNKNOWN_SENML = "SenML of a later version"
RETAINED_OLD = "retained and old"
RETAINED_TIMELESS = "retained and without a time"
UNREADABLE = "a file that cannot be read"

LONGEST_TIME, LONGEST_NAME = 50, 200
"""The maximum number of letters of a time and of a name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPACT = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{4}|\d{6})?")
_NEARLY_ISO = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2})(?:[.,](\d+))?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2})?)?)?",
    re.IGNORECASE,
)


class InvalidReadingError(Exception):
    """An invalid reading; the message is the reason. The decoder catches it and counts the rejection."""


def time_from(content: object) -> int:
    """Return a time in microseconds since 1970, from an epoch of any unit or a text; without an offset it is UTC.

    Examples
    --------
    >>> time_from("1970-01-01T01:00:01+01:00"), time_from(1_000), time_from("1577836800123")
    (1000000, 1000000000, 1577836800123000)

    Raises
    ------
    InvalidReadingError
        It is not a time, or not between 1678 and 2261.
    """
    kind = type(content)
    if kind is int or kind is float:
        return epoch(content)  # type: ignore[arg-type]
    if kind is not str:
        raise InvalidReadingError(NOT_A_TIME)
    text: str = content.strip()  # type: ignore[attr-defined]
    time = _parse_time(text) if len(text) <= LONGEST_TIME else None
    if time is None:
        raise InvalidReadingError(NOT_A_TIME)
    return in_range(time)


def in_range(time: int) -> int:
    """Return a time, or refuse one outside the years 1678 to 2261."""
    if not EARLIEST <= time <= LATEST:
        raise InvalidReadingError(OUT_OF_TIME)
    return time


def find_scale(size: float) -> int:
    """Return the microseconds in the unit of an epoch, by its size; 0 for nanoseconds.

    Small numbers are seconds: a clock that was never set is at a few days after 1970, which is judged elsewhere.
    """
    for limit, scale in EPOCHS:
        if size < limit:
            return scale
    return 0


def epoch(count: int | float) -> int:
    """Return an epoch in microseconds."""
    if not -math.inf < count < math.inf:
        raise InvalidReadingError(NOT_A_TIME)
    scale = find_scale(abs(count))
    if not scale:
        return in_range(int(count) // 1000)
    return in_range(count * scale if isinstance(count, int) else round(count * scale))


def number(content: object) -> float:
    """Return a number; NaN for a missing one: null, `""`, `"NA"`, infinities.

    Examples
    --------
    >>> number("21.5"), number(None)
    (21.5, nan)
    """
    kind = type(content)
    if content is None:
        return math.nan
    try:
        if kind is float or kind is int:
            value = float(content)  # type: ignore[arg-type]
        elif kind is str:
            text = content.strip()  # type: ignore[attr-defined]
            if text.lower() in MISSING:
                return math.nan
            if "_" in text:  # a number only in Python
                raise InvalidReadingError(NOT_A_NUMBER)
            value = float(text)
        else:
            raise InvalidReadingError(NOT_A_NUMBER)
    except ValueError:
        raise InvalidReadingError(NOT_A_NUMBER) from None
    except OverflowError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _parse_time(text: str) -> int | None:
    if text.isdecimal() and text.isascii() and len(text) < 20:
        # Ten and thirteen digits are epochs, whatever date they could be read as as well.
        if len(text) in (8, 12, 14) and _COMPACT.fullmatch(text):
            return _strptime(text, ({8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}[len(text)],))
        return epoch(int(text))
    if text[4:5] in ("-", "/"):
        try:
            return _micros(datetime.fromisoformat(text))
        except ValueError:
            return _nearly_iso(text)
    try:
        if "_" not in text and len(text) >= 9:
            return epoch(float(text))
    except ValueError:
        pass
    style = time_format([text]) if text else None
    return _strptime(text.upper(), style.formats) if style is not None and style.name == "strptime" else None


def _micros(when: datetime) -> int:
    return ((when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _strptime(text: str, formats: tuple[str, ...]) -> int | None:
    for pattern in formats:
        with suppress(ValueError):
            return _micros(datetime.strptime(text, pattern))
    return None


def _nearly_iso(text: str) -> int | None:
    """Parse variants of ISO 8601: single digits, slashes, a comma, a blank before the offset."""
    match = _NEARLY_ISO.fullmatch(text)
    if not match:
        return None
    year, _, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0)) * (-1 if sign == "-" else 1)
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        zone = timezone(offset)
        return _micros(
            datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micro, zone)
        )
    except ValueError:
        return None


class NameTable:
    """Names in the order in which they were first seen.

    Parameters
    ----------
    refusal
        The reason for refusing something that is not a name.
    empty
        Whether an empty name is allowed.
    """

    def __init__(self, refusal: str, *, empty: bool = False) -> None:
        self.codes: dict[str, int] = {}
        self._refusal, self._empty = refusal, empty
        self._names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names; the same object while there is no new one."""
        if len(self._names) != len(self.codes):
            self._names = tuple(self.codes)
        return self._names

    def code(self, content: object) -> int:
        """Return the code of a name, a new one for a new name."""
        name = self.checked(content)
        code = self.codes.get(name)
        if code is None:
            if not name and not self._empty:
                raise InvalidReadingError(self._refusal)
            code = self.codes[name] = len(self.codes)
        return code

    def checked(self, content: object) -> str:
        """Return a name in its normal form; refuse an invalid one."""
        if type(content) is str:
            if content in self.codes:
                return content
            name = content.strip()
        elif type(content) is int and abs(content) < 1 << 63:
            name = str(content)
        elif type(content) is float and abs(content) < 1e15:
            name = str(int(content)) if content == int(content) else str(content)
        else:
            raise InvalidReadingError(self._refusal)
        if len(name) > LONGEST_NAME or not (name.isprintable() or _printable(name)):
            raise InvalidReadingError(BAD_NAME)
        return name


def _printable(name: str) -> bool:
    """Return whether a name has neither control characters nor surrogates, which no file can hold."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name)
