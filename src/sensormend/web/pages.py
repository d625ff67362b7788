"""`page_routes` serves the static files of the dashboard that exist at the start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sensormend.web.models import problem

__all__ = ["STATIC", "file_response", "page_routes"]

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}


def page_routes() -> list[Route]:
    """Return the routes of the pages; a requested name is looked up among the known ones, never part of a path."""
    paths = [path for path in STATIC.rglob("*") if path.suffix in MEDIA_TYPES and path.is_file()]
    files = {path.relative_to(STATIC).as_posix(): path for path in paths if not path.is_symlink()}

    def page(request: Request) -> Response:
        return file_response(request, files.get(request.path_params.get("name", "index.html")))

    return [Route("/", page), Route("/static/{name:path}", page)]


def file_response(request: Request, path: Path | None) -> Response:
    """Return a file, 304 where the browser has it already, or 404 where there is none."""
    if path is None:
        return problem(404, "there is no such page")
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": tag})
    return Response(content, media_type=MEDIA_TYPES[path.suffix], headers={"etag": tag})
