"""Long lists are answered in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["matches", "page_of"]

_X = TypeVar("_X")


def page_of(items: Sequence[_X], offset: int, limit: int) -> tuple[Sequence[_X], int | None]:
    """Return some of the items, and where the next page begins; None where there is none.

    Examples
    --------
    >>> page_of("abcde", 2, 2)
    ('cd', 4)
    """
    end = offset + limit
    return items[offset:end], end if end < len(items) else None


def matches(search: str, *texts: str) -> bool:
    """Say whether one of the texts has what is searched for; upper and lower case are the same."""
    wanted = search.strip().casefold()
    return not wanted or any(wanted in text.casefold() for text in texts)
