"""`ThingsServer` is a small server of the paths of OGC SensorThings that a client of Observations needs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

__all__ = ["ThingsServer", "running_things"]

_CONDITION = re.compile(r"phenomenonTime (ge|gt|lt|le) (\S+)")
_PATH = re.compile(r"/v1\.1/(Datastreams|Observations)(?:\('?([^()']*)'?\))?(?:/(Observations))?")


class ThingsServer:
    """Datastreams and Observations in memory; ids are numbers. `page` is the most that one answer has."""

    def __init__(self, page: int = 100, login: str = "") -> None:
        self.page, self.login = page, login
        self.streams: list[dict[str, Any]] = []
        self.observations: list[dict[str, Any]] = []
        self.patches: list[int] = []
        self.failing = 0
        self._lock = threading.Lock()

    def add_stream(self, thing: str, variable: str, name: str = "", unit: str = "") -> int:
        """Add a Datastream, and return its id."""
        identity = len(self.streams) + 1
        self.streams.append(
            {
                "@iot.id": identity,
                "name": name or f"{thing} {variable}",
                "unitOfMeasurement": {"symbol": unit},
                "Thing": {"@iot.id": thing, "name": thing},
                "ObservedProperty": {"@iot.id": variable, "name": variable},
            }
        )
        return identity

    def observe(self, stream: int, time: datetime, result: Any, end: datetime | None = None) -> int:
        """Add an Observation, and return its id."""
        with self._lock:
            moment = time.astimezone(UTC).isoformat().replace("+00:00", "Z")
            until = "" if end is None else f"/{end.astimezone(UTC).isoformat().replace('+00:00', 'Z')}"
            self.observations.append(
                {
                    "@iot.id": len(self.observations) + 1,
                    "phenomenonTime": moment + until,
                    "result": result,
                    "stream": stream,
                }
            )
            return len(self.observations)

    def qualities(self) -> dict[int, Any]:
        """Return the `resultQuality` of each Observation that has one."""
        return {entry["@iot.id"]: entry["resultQuality"] for entry in self.observations if "resultQuality" in entry}

    def answer(self, path: str, identity: str | None, below: str | None, query: dict[str, str]) -> dict[str, Any]:
        """Return what a GET has."""
        with self._lock:
            if path == "Datastreams" and below is None:
                chosen = [_expanded(stream, query.get("$expand", "")) for stream in self.streams]
            else:
                chosen = [
                    dict(entry) for entry in self.observations if below is None or str(entry["stream"]) == identity
                ]
                for operator, text in _CONDITION.findall(query.get("$filter", "")):
                    bound = datetime.fromisoformat(text)
                    chosen = [entry for entry in chosen if _holds(_start(entry), operator, bound)]
                if "$orderby" in query:
                    chosen.sort(key=_start)
                for entry in chosen:
                    stream = self.streams[entry.pop("stream") - 1]
                    if query.get("$expand", "").startswith("Datastream"):
                        entry["Datastream"] = _expanded(stream, query["$expand"])
        skip, top = int(query.get("$skip", 0)), min(int(query.get("$top", 100)), self.page)
        answer: dict[str, Any] = {"value": chosen[skip : skip + top]}
        if skip + top < len(chosen):
            more = urlencode({**query, "$skip": skip + top}, quote_via=quote)
            # As behind a proxy: it does not know the address that clients use.
            answer["@iot.nextLink"] = f"http://inside.example.org/v1.1/{path}?{more}"
        return answer


def _start(entry: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(entry["phenomenonTime"].partition("/")[0])


def _holds(time: datetime, operator: str, bound: datetime) -> bool:
    return {"ge": time >= bound, "gt": time > bound, "le": time <= bound, "lt": time < bound}[operator]


def _expanded(stream: dict[str, Any], expand: str) -> dict[str, Any]:
    return {key: part for key, part in stream.items() if key not in ("Thing", "ObservedProperty") or key in expand}


class _Handler(BaseHTTPRequestHandler):
    things: ThingsServer

    def do_GET(self) -> None:
        self._handle(None)

    def do_PATCH(self) -> None:
        self._handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _handle(self, changes: dict[str, Any] | None) -> None:
        parts = urlsplit(self.path)
        match = _PATH.fullmatch(unquote(parts.path))
        if self.things.failing:
            self.things.failing -= 1
            self._send(503, {})
        elif self.things.login and self.headers.get("Authorization") != self.things.login:
            self._send(401, {})
        elif match is None:
            self._send(404, {})
        elif changes is None:
            self._send(200, self.things.answer(match[1], match[2], match[3], dict(parse_qsl(parts.query))))
        else:
            self.things.observations[int(match[2]) - 1].update(changes)
            self.things.patches.append(int(match[2]))
            self._send(200, {})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


@contextmanager
def running_things(page: int = 100, login: str = "") -> Iterator[tuple[ThingsServer, str]]:
    """Run a server on a free port of this machine; give it and its address."""
    things = ThingsServer(page, login)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"things": things}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield things, f"sensorthings://127.0.0.1:{server.server_address[1]}/v1.1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
