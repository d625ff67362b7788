"""`as_json` writes a view's result as JSON, `model_of` describes it for OpenAPI, `problem` makes an error response."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

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
    # Lists of numbers are written as they are; only dataclasses, which JSON has not, are converted.
    text = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_by_name)
    return text.encode("utf-8", "replace")


def _by_name(result: object) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in vars(result).items()}


@lru_cache(maxsize=64)
def model_of(kind: type) -> type[BaseModel]:
    """Return a pydantic model for OpenAPI with the names and types of the JSON."""
    hints = get_type_hints(kind)
    described: dict[str, Any] = {
        field.name: (_described(hints[field.name]), Field(alias=NAMES.get(field.name))) for field in fields(kind)
    }
    first_line = (kind.__doc__ or "").strip().partition("\n")[0]
    return create_model(kind.__name__, __doc__=first_line, **described)


def _described(hint: Any) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    if get_origin(hint) is list and is_dataclass(get_args(hint)[0]):
        return list[model_of(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is UnionType and any(map(is_dataclass, get_args(hint))):
        return Union[tuple(map(_described, get_args(hint)))]  # noqa: UP007
    return hint
