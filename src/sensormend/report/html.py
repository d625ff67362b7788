"""HTML that is whole: what is text is escaped, what is opened is closed."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

__all__ = ["Html", "joined", "name_of", "plain", "quoted", "table", "tag"]

LONGEST_NAME, LONGEST_LINE, LONGEST_QUOTE = 80, 28, 300
"""Of a name, of one that is kept on a line, and of a sentence so much is shown; nobody reads more, and a thousand
of them must not fill the page."""

# What an HTML parser would replace or refuse; a lone surrogate cannot even be written.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_EMPTY = frozenset({"meta", "img", "br", "col", "source"})


class Html(str):
    """Text that is HTML already; all other text is escaped on its way in."""

    __slots__ = ()


def plain(text: str) -> Html:
    """Escape a text.

    Examples
    --------
    >>> plain("a<b & 'c'")
    'a&lt;b &amp; &#x27;c&#x27;'
    """
    return text if isinstance(text, Html) else Html(html.escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)))


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Put parts one after the other."""
    return Html(plain(between).join(plain(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | int | float | None) -> Html:
    """Return an element; an attribute that is None is left out, `class_` is `class` and `a_b` is `a-b`.

    Examples
    --------
    >>> tag("p", "1 < 2", tag("br"), class_="note")
    '<p class="note">1 &lt; 2<br></p>'
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{plain(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{told}>" if name in _EMPTY else f"<{name}{told}>{joined(children)}</{name}>")


def name_of(sensor: str, variable: str = "") -> Html:
    """Return the name of a channel, kept apart from the text around it, whichever way it is written."""
    shown = sensor if len(sensor) <= LONGEST_NAME else sensor[: LONGEST_NAME - 1] + "…"
    named = tag("bdi", shown or "(no name)", class_="name whole" if len(shown) <= LONGEST_LINE else "name")
    return joined([named, " ", tag("bdi", variable[:LONGEST_NAME], class_="of")]) if variable else named


def quoted(sentence: str) -> Html:
    """Return a sentence that has names in it, kept apart from the text around it as well."""
    return tag("bdi", sentence if len(sentence) <= LONGEST_QUOTE else sentence[: LONGEST_QUOTE - 1] + "…")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), wide: int = -1) -> Html:
    """Return a table that becomes a list of cards on a phone.

    Parameters
    ----------
    header
        What each column is.
    rows
        The cells.
    numbers
        The columns that are numbers.
    wide
        The column that takes the room that is left.
    """

    def kind(column: int, cell: str = "") -> str | None:
        # A card leaves out what is not there.
        return "none" if cell == "-" else "number" if column in numbers else "wide" if column == wide else None

    head = tag("tr", *(tag("th", name, scope="col", class_=kind(column)) for column, name in enumerate(header)))
    body = [
        tag("tr", *(
            tag("td", tag("div", cell), class_=kind(column, _text(cell)), data_is=_text(header[column]))
            for column, cell in enumerate(row)
        ))
        for row in rows
    ]  # fmt: skip
    return tag("table", tag("thead", head), tag("tbody", *body))


def _text(text: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", text)) if isinstance(text, Html) else text
