"""`tag` and `html_table` return escaped HTML; `span` and others format times and numbers."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from sensormend.readings import DAY

__all__ = [
    "Html",
    "channel_name",
    "concat",
    "date",
    "escape",
    "html_table",
    "minute",
    "quotation",
    "rounded",
    "shortened",
    "span",
    "tag",
    "worded",
]

LONGEST_NAME, LONGEST_LINE, LONGEST_QUOTE = 80, 28, 300
"""The maximum number of characters of a name, of a name kept on one line, and of a sentence, so that a thousand of them
do not fill the page."""

# Characters that an HTML parser would replace or refuse; a lone surrogate cannot be encoded.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_EMPTY = frozenset({"meta", "img", "br", "col", "source"})

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


class Html(str):
    """Text that is HTML already; all other text is escaped when it is inserted."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Escape a text.

    Examples
    --------
    >>> escape("a<b & 'c'")
    'a&lt;b &amp; &#x27;c&#x27;'
    """
    return text if isinstance(text, Html) else Html(html.escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)))


def concat(parts: Iterable[str], between: str = "") -> Html:
    """Concatenate parts, escaping text."""
    return Html(escape(between).join(escape(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | int | float | None) -> Html:
    """Return an element; an attribute that is None is left out, `class_` is `class` and `a_b` is `a-b`.

    Examples
    --------
    >>> tag("p", "1 < 2", tag("br"), class_="note")
    '<p class="note">1 &lt; 2<br></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>" if name in _EMPTY else f"<{name}{written}>{concat(children)}</{name}>")


def channel_name(sensor: str, variable: str = "") -> Html:
    """Return the name of a channel, isolated from the text around it for right-to-left scripts."""
    shown = shortened(sensor, LONGEST_NAME)
    named = tag("bdi", shown or "(no name)", class_="name whole" if len(shown) <= LONGEST_LINE else "name")
    return concat([named, " ", tag("bdi", variable[:LONGEST_NAME], class_="of")]) if variable else named


def quotation(sentence: str) -> Html:
    """Return a sentence with names in it, isolated from the text around it likewise."""
    return tag("bdi", shortened(sentence, LONGEST_QUOTE))


def shortened(text: str, most: int) -> str:
    """Return a text, cut to `most` characters with an ellipsis at the end.

    Examples
    --------
    >>> shortened("abc", 3), shortened("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), wide: int = -1
) -> Html:
    """Return a table that becomes a list of cards on a phone.

    `numbers` are the indices of columns with numbers; the column `wide` takes the remaining width.
    """

    def kind(column: int, cell: str = "") -> str | None:
        # A card leaves out empty cells.
        return "none" if cell == "-" else "number" if column in numbers else "wide" if column == wide else None

    head = tag("tr", *(tag("th", name, scope="col", class_=kind(column)) for column, name in enumerate(header)))
    body = [
        tag("tr", *(
            tag("td", tag("div", cell), class_=kind(column, _text(cell)), data_is=_text(header[column]))
            for column, cell in enumerate(row)
        ))
        for row in rows
    ]  # fmt: skip
    return tag("table", tag("thead", head), tag("tbody", *body), class_="listing")


def _text(text: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", text)) if isinstance(text, Html) else text


def date(time: int) -> str:
    """Return the date of a time.

    Examples
    --------
    >>> date(1_709_251_200_000_000)
    '1 March 2024'
    """
    year, month, day = str(np.datetime64(time, "us").astype("datetime64[D]")).rsplit("-", 2)
    return f"{int(day)} {MONTHS[int(month) - 1]} {year}"


def minute(time: int) -> str:
    """Return a time to the minute.

    Examples
    --------
    >>> minute(1_709_269_200_000_000)
    '1 March 2024, 05:00'
    """
    return f"{date(time)}, {str(np.datetime64(time, 'us').astype('datetime64[m]'))[-5:]}"


def worded(sentence: str) -> str:
    """Return a sentence with its dates as the report writes them.

    Examples
    --------
    >>> worded("From 2024-03-01 to 2024-05-28, 2 % of the readings were wrong.")
    'From 1 March 2024 to 28 May 2024, 2 % of the readings were wrong.'
    """
    return re.sub(r"\b\d{4}-\d\d-\d\d\b", lambda day: _written(day[0]), sentence)


def _written(day: str) -> str:
    try:
        return date(int(np.datetime64(day, "us").astype(np.int64)))
    except ValueError:
        return day


def span(start: int, end: int) -> str:
    """Format a span; `end` is excluded.

    Examples
    --------
    >>> span(1_709_251_200_000_000, 1_709_251_200_000_000 + 3 * DAY)
    '1 to 3 March 2024'
    >>> span(1_709_251_200_000_000, 1_709_251_200_000_000 + 5 * 3_600_000_000)
    '1 March 2024, 00:00 to 05:00'
    >>> span(1_709_251_200_000_000 + 3_600_000_000, 1_709_251_200_000_000 + DAY)
    '1 March 2024, 01:00 to 24:00'
    """
    if start % DAY or end % DAY:
        same = start // DAY == (end - 1) // DAY
        # The end of a day is written as 24:00.
        clock = minute(end)[-5:] if end % DAY else "24:00"
        return f"{minute(start)} to {clock if same else minute(end)}"
    last = end - DAY
    if last <= start:
        return date(start)
    first, second = date(start).split(" "), date(last).split(" ")
    parts = 1 if first[1:] == second[1:] else 2 if first[2] == second[2] else 3
    return f"{' '.join(first[:parts])} to {' '.join(second)}"


def rounded(value: float) -> str:
    """Format a width with two or three digits.

    Examples
    --------
    >>> rounded(1.2345), rounded(0.0123), rounded(1234.5)
    ('1.2', '0.012', '1234')
    >>> rounded(7.5e-9)
    '7.5e-09'
    """
    if not math.isfinite(value) or not value:
        return "0" if value == 0 else "unknown"
    if abs(value) < 1e-5:
        return f"{value:.2g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(abs(value))))}f}"
