"""What the engine is told, as its language has it."""

from __future__ import annotations

__all__ = ["literal"]


def literal(text: object) -> str:
    """Return a text so that nothing in it is taken for a command.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(text).replace("'", "''") + "'"
