"""`time_format` recognises how the times of a table are written and returns SQL that converts them to microseconds.

A time with an offset or a zone is converted to UTC; one without is taken as it is. The zone of the machine is never
used: the engine's zone is set to UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from sensormend.io.sql import literal
from sensormend.readings import SECOND

__all__ = [
    "EARLIEST",
    "EPOCHS",
    "LATEST",
    "TimeFormat",
    "ambiguous_order",
    "has_clock",
    "is_compact_date",
    "time_format",
    "typed_time",
]

EARLIEST, LATEST = -9_214_560_000 * SECOND, 9_214_646_400 * SECOND
"""1678 to 2261, the range of nanoseconds in numpy and pandas. A time outside is rejected."""

_ISO = re.compile(
    r"\d{4}([-/])\d{1,2}\1\d{1,2}"
    r"([T ]\d{1,2}(:\d{2}(:\d{2}([.,]\d+)?)?)?\s*(Z|[+-]\d{2}(:?\d{2})?|[A-Za-z_]+(/[A-Za-z_]+)*)?)?",
    re.IGNORECASE,
)
_HALF_DAY = re.compile(
    r"\d{4}(?P<mark>[-/])\d{1,2}(?P=mark)\d{1,2}(?P<gap>[T ])\d{1,2}:\d{2}(:\d{2})?\s?[ap]m", re.IGNORECASE
)
_COMPACT = re.compile(
    r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:([T_ ]?)(\d{2}:\d{2}(?::\d{2})?|\d{2}|\d{4}|\d{6}))?(Z?)"
)
_CLOCK = r"(?P<gap>[T ]|, )(?P<clock>\d{1,2}:\d{2}(?P<seconds>:\d{2}(?P<fraction>\.\d+)?)?)(?P<half>\s?[AaPp][Mm])?"
_NUMERIC = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[./-])(?P<b>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}|\d{{2}})(?:{_CLOCK})?"
)
_NAMED = re.compile(rf"\d{{1,2}}(?P<mark>[ -])[A-Za-z]{{3}}(?P=mark)(?P<year>\d{{4}}|\d{{2}})(?:{_CLOCK})?")
_NUMBER = re.compile(r"\d{9,19}(\.\d*)?([eE]\+?\d+)?")

EPOCHS = ((1e11, SECOND), (1e14, 1000), (1e17, 1))
"""Upper bounds of epochs in seconds, milliseconds and microseconds, each with its unit in microseconds; larger numbers
are nanoseconds."""


@dataclass(frozen=True)
class TimeFormat:
    """The format of written times.

    Attributes
    ----------
    name
        `iso`, `epoch`, `strptime`, or `ambiguous` where day and month cannot be distinguished.
    formats
        For `strptime`; with `{a}` and `{b}` for day and month where that is `ambiguous`.
    scale
        For `epoch`: microseconds in one unit, or 0 for nanoseconds.
    mark
        For `ambiguous`: the separator of day and month.
    """

    name: str
    formats: tuple[str, ...] = ()
    scale: int = 0
    mark: str = ""

    def sql(self, text: str) -> str:
        """Return SQL that converts a text to microseconds; NULL where it is not a time."""
        if self.name == "iso":
            # Nineteen characters with a colon before the last two have no offset and take the faster type: a quarter
            # less time for a whole CSV file. All others are cast to the type with offsets.
            normalised = f"regexp_replace(replace(trim({text}), ',', '.'), '\\s+([+-]\\d)', '\\1')"
            for clock in (r"\d{1,2}", r"\d{1,2}:\d{2}"):
                normalised = rf"regexp_replace({normalised}, '^(\S+[T ]{clock})(Z|[+-].*)?$', '\1:00\2', 'i')"
            return (
                f"CASE WHEN strlen({text}) = 19 AND {text}[17] = ':' THEN epoch_us(TRY_CAST({text} AS TIMESTAMP)) "
                f"ELSE epoch_us(COALESCE(TRY_CAST({text} AS TIMESTAMPTZ), TRY_CAST({normalised} AS TIMESTAMPTZ))) END"
            )
        if self.name == "epoch":
            return self.sql_of_number(text)
        return f"epoch_us(try_strptime(upper(trim({text})), [{', '.join(literal(entry) for entry in self.formats)}]))"

    def sql_of_number(self, expression: str) -> str:
        """Return SQL that converts an epoch, whole or with a fraction, to microseconds."""
        number, whole = f"TRY_CAST({expression} AS DOUBLE)", f"TRY_CAST({expression} AS BIGINT)"
        if not self.scale:
            return f"({whole} // 1000)"
        fits = f"abs({number}) < {9.2e18 / self.scale:.6e}"
        return (
            f"CASE WHEN NOT {fits} THEN NULL "
            f"WHEN {number} = trunc({number}) AND {number} = {whole} THEN {whole} * {self.scale} "
            f"ELSE CAST(round({number} * {self.scale}) AS BIGINT) END"
        )

    def with_order(self, day_first: bool) -> TimeFormat:
        """Return an ambiguous format with the order of day and month resolved."""
        a, b = ("%d", "%m") if day_first else ("%m", "%d")
        return TimeFormat("strptime", tuple(entry.format(a=a, b=b) for entry in self.formats))


def time_format(sample: Sequence[str]) -> TimeFormat | None:
    """Return the format of most of some texts, none of them empty; None if they are not times."""
    patterns = {"iso": _ISO, "compact": _COMPACT, "numeric": _NUMERIC, "named": _NAMED, "epoch": _NUMBER}
    texts = [text.strip() for text in sample]
    half_days = [match for match in map(_HALF_DAY.fullmatch, texts) if match]
    if 2 * len(half_days) > len(texts):
        date = f"%Y{half_days[0]['mark']}%m{half_days[0]['mark']}%d{half_days[0]['gap']}"
        clocks = ("%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p", "%H:%M", "%H:%M:%S")
        return TimeFormat("strptime", tuple(f"{date}{clock}" for clock in clocks))
    families = [next((name for name, pattern in patterns.items() if pattern.fullmatch(text)), "") for text in texts]
    family, count = Counter(families).most_common(1)[0] if families else ("", 0)
    if not family or 2 * count <= len(families):
        return None
    matching = [text for text, name in zip(texts, families, strict=True) if name == family]
    if family == "iso":
        return TimeFormat("iso")
    if family == "compact":
        return TimeFormat("strptime", _compact(matching))
    if family == "epoch":
        return _epoch(median_high(map(float, matching)))
    if family == "named":
        return TimeFormat("strptime", _clocks(_NAMED, matching, "%d{mark}%b{mark}{year}"))
    formats = _clocks(_NUMERIC, matching, "{{a}}{mark}{{b}}{mark}{year}")
    marks = {text[len(text) - len(text.lstrip("0123456789"))] for text in matching}
    fmt = TimeFormat("ambiguous", formats, mark=next(iter(marks)) if len(marks) == 1 else "/")
    # With points the day comes first everywhere; slashes and dashes are used for both orders.
    return fmt.with_order(day_first=True) if marks == {"."} else fmt


def has_clock(text: str) -> bool:
    """Return whether a time has an hour.

    Examples
    --------
    >>> has_clock("2020-01-01T06"), has_clock("20200101 0600"), has_clock("1.2.2020"), has_clock("1 Feb 2020")
    (True, True, False, False)
    """
    text = text.strip()
    compact = _COMPACT.fullmatch(text)
    if compact:
        return compact[2] is not None
    date = _NUMERIC.fullmatch(text) or _NAMED.fullmatch(text)
    if date:
        return date["clock"] is not None
    return re.fullmatch(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}", text) is None


def is_compact_date(text: str) -> bool:
    """Return whether a number is a date without a time of day.

    Examples
    --------
    >>> is_compact_date("20200301"), is_compact_date("20200301.0"), is_compact_date("2020030112"), is_compact_date("52")
    (True, True, False, False)
    """
    match = _COMPACT.fullmatch(text.strip().removesuffix(".0"))
    return match is not None and match[2] is None


def typed_time(number: float) -> TimeFormat | None:
    """Return the format of a column of numeric times, from one of them; None if they are not times."""
    digits = f"{number:.0f}"
    if number == int(number) and len(digits) in (8, 10, 12, 14) and _COMPACT.fullmatch(digits):
        return TimeFormat("strptime", _compact([digits]))
    return _epoch(number)


def ambiguous_order(name: str, fmt: TimeFormat) -> str:
    """Return the message for a column whose order of day and month is ambiguous."""
    return (
        f"in column {name!r} no time has a day above 12, so {fmt.mark.join(('day', 'month'))} and "
        f"{fmt.mark.join(('month', 'day'))} cannot be distinguished; write the times as 2020-12-31 23:59"
    )


def _epoch(number: float) -> TimeFormat | None:
    if number < 1e8:
        return None  # before 1973 in seconds: rather a count of hours or rows than a time
    return TimeFormat("epoch", scale=next((scale for limit, scale in EPOCHS if number < limit), 0))


def _compact(texts: Sequence[str]) -> tuple[str, ...]:
    clocks = {0: "", 2: "%H", 4: "%H%M", 6: "%H%M%S", 5: "%H:%M", 8: "%H:%M:%S"}
    groups = [match.groups(default="") for match in map(_COMPACT.fullmatch, texts) if match]
    return tuple(dict.fromkeys(f"%Y%m%d{between}{clocks[len(clock)]}{zulu}" for between, clock, zulu in groups))


def _clocks(pattern: re.Pattern[str], texts: Sequence[str], date: str) -> tuple[str, ...]:
    """Return the formats of the texts, the most frequent first, then others that later rows may have."""
    counts: Counter[str] = Counter()
    others: dict[str, None] = {}
    for match in map(pattern.fullmatch, texts):
        assert match
        day = date.format(mark=match["mark"], year="%Y" if len(match["year"]) == 4 else "%y")
        gap = match["gap"] or " "
        half = match["half"] or ""
        hours = "%I" if half else "%H"
        end = "" if not half else " %p" if half[0].isspace() else "%p"
        clock = [f"{hours}:%M", ":%S" if match["seconds"] else "", ".%f" if match["fraction"] else ""]
        counts[f"{day}{gap}{''.join(clock)}{end}" if match["clock"] else day] += 1
        others |= dict.fromkeys([day, *(f"{day}{gap}{hours}:%M{more}{end}" for more in (":%S", "", ":%S.%f"))])
    return tuple(dict.fromkeys([entry for entry, _ in counts.most_common()] + list(others)))
