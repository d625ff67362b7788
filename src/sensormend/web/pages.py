"""`Pages` serves the static files of the dashboard that exist at the start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sensormend.web.models import problem

__all__ = ["Pages"]

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    "": "text/plain; charset=utf-8",
}


class Pages:
    """The files of a folder.

    The requested name is looked up among the known ones; it never becomes part of a path.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        files = (
            path for path in folder.rglob("*") if path.suffix in KINDS and path.is_file() and not path.is_symlink()
        )
        self._files = {path.relative_to(folder).as_posix(): path for path in files}

    def text(self, name: str) -> str:
        """Return a file as text."""
        return self._files[name].read_text(encoding="utf-8")

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        return [
            Route("/", lambda request: self.answer(request, "index.html")),
            Route("/static/{name:path}", lambda request: self.answer(request, request.path_params["name"])),
        ]

    def answer(self, request: Request, name: str) -> Response:
        """Return a file, or 304 where the browser has it already."""
        path = self._files.get(name)
        if path is None:
            return problem(404, "there is no such page")
        content = path.read_bytes()
        mark = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        if mark in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"etag": mark})
        return Response(content, media_type=KINDS[path.suffix], headers={"etag": mark})
