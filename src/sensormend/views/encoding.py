"""`as_json` writes a view's result as JSON, for the API and the report."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["NAMES", "as_json"]

NAMES = {"start": "from", "end": "to"}
"""Names of fields in JSON that Python does not allow."""


def as_json(result: object) -> bytes:
    """Return the result of a view as JSON.

    Examples
    --------
    >>> from sensormend.views.series import Span
    >>> as_json(Span(1.5, 2.0, "stuck", "faulty"))
    b'{"from":1.5,"to":2.0,"word":"stuck","kind":"faulty"}'
    """
    # Lists of numbers are written as they are; only dataclasses, which JSON has not, are converted.
    text = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_by_name)
    return text.encode("utf-8", "replace")


def _by_name(result: object) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in vars(result).items()}
