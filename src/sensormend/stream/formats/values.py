"""Functions here read single times, numbers and names of messages, and say why something is no reading."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

from sensormend.io.table_layout import MISSING
from sensormend.io.times import EARLIEST, EPOCHS, LATEST, time_format
from sensormend.readings import SECOND

__all__ = [
    "ALL_REASONS",
    "BAD_NAME",
    "NOT_A_NUMBER",
    "NOT_A_READING",
    "NOT_A_TIME",
    "NOT_JSON",
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
    "in_range",
    "number",
    "scale_of",
    "time_from",
]

NOT_UTF8 = "not UTF-8"
NOT_JSON = "neither JSON nor a number"
TOO_DEEP = "nested too deep"
TOO_LARGE = "too large"
NOT_A_READING = "not an object"
NO_READING = "no reading in it"
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

ALL_REASONS = (
    NOT_UTF8, NOT_JSON, TOO_DEEP, TOO_LARGE, NOT_A_READING, NO_READING, NO_SENSOR, NOT_A_TIME, OUT_OF_TIME,
    NOT_A_NUMBER, BAD_NAME, TOO_MANY_NAMES, UNKNOWN_SENML, RETAINED_OLD, RETAINED_TIMELESS, UNREADABLE,
)  # fmt: skip
"""All of them; files have those of `sensormend.io.loading` too."""

LONGEST_TIME = 50
"""Letters of a time."""

_START = datetime(1970, 1, 1, tzinfo=UTC)
_COMPACT = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{4}|\d{6})?")
_LOOSE = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2})(?:[.,](\d+))?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2})?)?)?",
    re.IGNORECASE,
)

LONGEST_NAME = 200


class InvalidReadingError(Exception):
    """No reading; `reason` says why. It does not leave the decoder: what is refused is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def time_from(written: object) -> int:
    """Return a time in microseconds since 1970: an epoch of any unit, or written; without an offset it is UTC.

    Examples
    --------
    >>> time_from("1970-01-01T01:00:01+01:00"), time_from(1_000), time_from("1577836800123")
    (1000000, 1000000000, 1577836800123000)

    Raises
    ------
    InvalidReadingError
        It is not a time, or not between 1678 and 2261.
    """
    kind = type(written)
    if kind is int or kind is float:
        return epoch(written)  # type: ignore[arg-type]
    if kind is not str:
        raise InvalidReadingError(NOT_A_TIME)
    text: str = written.strip()  # type: ignore[attr-defined]
    time = _written(text) if len(text) <= LONGEST_TIME else None
    if time is None:
        raise InvalidReadingError(NOT_A_TIME)
    return in_range(time)


def in_range(time: int) -> int:
    """Return a time, or refuse one that the years 1678 to 2261 do not have."""
    if not EARLIEST <= time <= LATEST:
        raise InvalidReadingError(OUT_OF_TIME)
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
        raise InvalidReadingError(NOT_A_TIME)
    scale = scale_of(abs(count))
    if not scale:
        return in_range(int(count) // 1000)
    return in_range(count * scale if isinstance(count, int) else round(count * scale))


def number(written: object) -> float:
    """Return a number; NaN for what says that there is none: null, `""`, `"NA"`, infinities.

    Examples
    --------
    >>> number("21.5"), number(None)
    (21.5, nan)
    """
    kind = type(written)
    if written is None:
        return math.nan
    try:
        if kind is float or kind is int:
            value = float(written)  # type: ignore[arg-type]
        elif kind is str:
            text = written.strip()  # type: ignore[attr-defined]
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
    match = _LOOSE.fullmatch(text)
    if not match:
        return None
    year, _, month, day, hour, minute, second, fraction, sign, east, past = match.groups()
    offset = timedelta(hours=int(east or 0), minutes=int(past or 0)) * (-1 if sign == "-" else 1)
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
    nameless
        The reason for refusing something that is not a name.
    empty
        Whether an empty name is allowed.
    """

    def __init__(self, nameless: str, *, empty: bool = False) -> None:
        self.codes: dict[str, int] = {}
        self._nameless, self._empty = nameless, empty
        self._listed: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """All of them; the same object while there is no new one."""
        if len(self._listed) != len(self.codes):
            self._listed = tuple(self.codes)
        return self._listed

    def code(self, written: object) -> int:
        """Return the number of a name, a new one for a new name."""
        name = self.checked(written)
        code = self.codes.get(name)
        if code is None:
            if not name and not self._empty:
                raise InvalidReadingError(self._nameless)
            code = self.codes[name] = len(self.codes)
        return code

    def checked(self, written: object, otherwise: object = None) -> str:
        """Return a name as it is written down, `otherwise` for None; refuse what cannot be one."""
        written = otherwise if written is None else written
        if type(written) is str:
            if written in self.codes:
                return written
            name = written.strip()
        elif type(written) is int and abs(written) < 1 << 63:
            name = str(written)
        elif type(written) is float and abs(written) < 1e15:
            name = str(int(written)) if written == int(written) else str(written)
        else:
            raise InvalidReadingError(self._nameless)
        if len(name) > LONGEST_NAME or not (name.isprintable() or _printable(name)):
            raise InvalidReadingError(BAD_NAME)
        return name


def _printable(name: str) -> bool:
    """Say whether a name has neither control characters nor half characters, which no file can hold."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name)
