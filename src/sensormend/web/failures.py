"""What goes wrong behind the API, as its callers are told: a status and one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sensormend.errors import ConfigError, InputError
from sensormend.web.guard import problem
from sensormend.web.models import Problem

__all__ = ["PROBLEMS", "tell_failures"]


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "It is longer than a request may be, or what was sent is no JSON."},
    401: {"model": Problem, "description": "There is a token, and this request does not have it."},
    403: {"model": Problem, "description": "Nothing can be written here, or another site wants it."},
    404: {"model": Problem, "description": "There is no such thing here."},
    421: {"model": Problem, "description": "Without a token, only this machine's own names are answered to."},
    422: {"model": Problem, "description": "A parameter is not what it may be; the line says which."},
    429: {"model": Problem, "description": "Too many wrong tokens."},
    503: {"model": Problem, "description": "Too much at once, or the server is ending."},
}
"""What every part of the API may answer besides what was asked for."""


def tell_failures(app: FastAPI, *places: Path) -> None:
    """Have an application say in one line what is wrong, and nothing of where its files lie."""

    def plain(error: Exception) -> str:
        text = str(error)
        for place in places:
            text = text.replace(f"{place}{os.sep}", "").replace(str(place), place.name)
        return text

    async def missing(request: Request, error: Exception) -> Response:
        return problem(404, plain(error))

    async def wrong(request: Request, error: Exception) -> Response:
        return problem(422, plain(error))

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(InputError, missing)
    app.add_exception_handler(ConfigError, wrong)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = []
    for one in error.errors()[:3]:
        name = ".".join(str(part) for part in one.get("loc", ())[1:]) or "the request"
        told.append(f"{name}: {one.get('msg', 'is not valid')}")
    return problem(422, "; ".join(told))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = "there is no such page" if error.status_code == 404 and error.detail == "Not Found" else str(error.detail)
    return problem(error.status_code, said, dict(error.headers or {}))
