"""A page as a test reads it: whole or refused, with its words, its tables and all that it refers to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

__all__ = ["Page", "page_of"]

EMPTY = {"meta", "img", "br", "col", "source", "link", "input", "hr"}
REFERRING = {"src", "href", "srcset", "xlink:href", "action", "data", "poster", "background"}


@dataclass
class Page:
    """What a page has.

    Attributes
    ----------
    tags
        Every element with its attributes.
    references
        All that would be fetched or jumped to: attributes and `url(...)` in styles.
    tables
        The cells of every table, row by row, as text.
    text
        The words between the tags, without the style sheet and scripts.
    scripts, data
        The scripts, and the JSON inside the page.
    style
        The style sheet.
    """

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    text: str = ""
    style: str = ""
    scripts: list[str] = field(default_factory=list)
    data: Any = None

    def named(self, name: str) -> list[dict[str, str]]:
        """Return the attributes of all elements of a name."""
        return [attributes for tag, attributes in self.tags if tag == name]

    def ids(self) -> list[str]:
        """Return all identifiers."""
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    def table(self, *header: str) -> list[list[str]]:
        """Return the rows below the header that has these words."""
        return next(table[1:] for table in self.tables if set(header) <= set(table[0]))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert len(attributes) == len(attrs), f"an attribute twice: {attrs}"
        assert not any(name.startswith("on") for name in attributes), f"a script in {tag}: {attrs}"
        self.page.tags.append((tag, attributes))
        self.page.references += [value for name, value in attributes.items() if name in REFERRING]
        for value in attributes.values():
            self.page.references += _urls(value)
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "table":
            self.page.tables.append([])
        elif tag == "tr":
            self.page.tables[-1].append([])
        elif tag in ("td", "th"):
            self.page.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        opened = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.page.style += data
            self.page.references += _urls(data)
            return
        if self.open and self.open[-1] == "script":
            if self.page.tags[-1][1].get("type") == "application/json":
                self.page.data = json.loads(data)
            else:
                self.page.scripts.append(data)
            return
        self.page.text += data
        if "td" in self.open or "th" in self.open:
            self.page.tables[-1][-1][-1] += data


def _urls(text: str) -> list[str]:
    return [url.strip("'\" ") for url in re.findall(r"url\(([^)]*)\)", text)]


def page_of(text: str) -> Page:
    """Read a page; what is not closed, or closed twice, is an error."""
    assert text.startswith("<!doctype html>")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"not closed: {reader.open}"
    return reader.page
