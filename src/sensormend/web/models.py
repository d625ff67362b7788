"""`as_json` writes a view's result as JSON, `model_of` describes it for OpenAPI, `problem` makes an error response."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from starlette.responses import JSONResponse, Response

__all__ = ["ErrorDetail", "as_json", "model_of", "problem"]

NAMES = {"start": "from", "end": "to"}
"""Names of fields in JSON that Python does not allow."""


class ErrorDetail(BaseModel):
    """The body of every error response: what is wrong, in one line."""

    detail: str


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response."""
    line = " ".join(detail.split())
    return JSONResponse({"detail": line if len(line) <= 500 else f"{line[:497]}..."}, status, headers)


def as_json(result: object) -> bytes:
    """Return the result of a view as JSON.

    Examples
    --------
    >>> from sensormend.views.series import Span
    >>> as_json(Span(1.5, 2.0, "stuck", "faulty"))
    b'{"from":1.5,"to":2.0,"word":"stuck","kind":"faulty"}'
    """
    return json.dumps(_plain(result), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {NAMES.get(name, name): _plain(getattr(value, name)) for name in _names(type(value))}
    # Columns are lists of thousands of numbers: only lists of dataclasses are converted.
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [_plain(entry) for entry in value]
    return value


@lru_cache(maxsize=64)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))


@lru_cache(maxsize=64)
def model_of(kind: type) -> type[BaseModel]:
    """Return a pydantic model for OpenAPI with the names and types of the JSON."""
    hints = get_type_hints(kind)
    described: dict[str, Any] = {name: (_described(hints[name]), Field(alias=NAMES.get(name))) for name in _names(kind)}
    first_line = (kind.__doc__ or "").strip().partition("\n")[0]
    return create_model(kind.__name__, __doc__=first_line, **described)


def _described(hint: Any) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    if get_origin(hint) is list and is_dataclass(get_args(hint)[0]):
        return list[model_of(get_args(hint)[0])]  # type: ignore[misc]
    return hint
