"""`model_of` describes a view's result for OpenAPI, `problem` makes an error response."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from starlette.responses import JSONResponse, Response

from sensormend.views.encoding import NAMES

__all__ = ["ErrorDetail", "model_of", "problem"]


class ErrorDetail(BaseModel):
    """The body of every error response: what is wrong, in one line."""

    detail: str


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response."""
    line = " ".join(detail.split())
    return JSONResponse({"detail": line if len(line) <= 500 else f"{line[:497]}..."}, status, headers)


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
