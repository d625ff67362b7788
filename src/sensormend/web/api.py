"""`routes` returns the JSON API, one route for each view; `handle_errors` adds its error responses."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from sensormend.errors import ConfigError, InputError, StorageError
from sensormend.files import now
from sensormend.io.metadata import FAULTS_HEADER, csv_lines
from sensormend.pipeline.times import parse_time
from sensormend.views import fault_list
from sensormend.views.atlas import Atlas, Moment, atlas, moment
from sensormend.views.attention import Attention, attention
from sensormend.views.calibration import Calibration, calibration
from sensormend.views.comparison import OwnerAgreement, owner_agreement
from sensormend.views.encoding import as_json
from sensormend.views.matrix import Matrix, matrix
from sensormend.views.neighbours import Explanation, Neighbours, explanation, neighbours
from sensormend.views.overview import NetworkOverview, network_overview
from sensormend.views.reader import OutReader
from sensormend.views.sensors import (
    NoteEntry,
    Order,
    SensorNotes,
    SensorPage,
    SensorView,
    add_note,
    read_maintenance,
    sensor_notes,
    sensor_page,
    sensor_view,
    undo_note,
)
from sensormend.views.series import Series, row_lines, series
from sensormend.web.models import ErrorDetail, model_of, problem

__all__ = ["PROBLEMS", "NewNote", "handle_errors", "routes"]

REFRESH, PING = 0.5, 10.0
"""Seconds between two checks for changes, and seconds without a change after which a ping is sent."""

MAX_SLOW = 3
"""The maximum number of slow responses at once: on two cores, 20 of them delayed all other requests by six seconds."""

MAX_LINES = 50_000
"""The maximum number of lines of a download."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorDetail, "description": "The request is too long, or its body is not JSON."},
    401: {"model": ErrorDetail, "description": "The server needs a token, and this request does not have it."},
    403: {"model": ErrorDetail, "description": "Notes cannot be added here, or the request comes from another site."},
    404: {"model": ErrorDetail, "description": "There is no such page, sensor or row."},
    421: {"model": ErrorDetail, "description": "Without a token, requests for other names than this machine's own."},
    422: {"model": ErrorDetail, "description": "A parameter is not valid; the message names it."},
    429: {"model": ErrorDetail, "description": "Too many wrong tokens."},
    503: {"model": ErrorDetail, "description": "Too many requests or event streams at once, or the disk is full."},
}
"""Error responses that every route may return."""

TABLE: dict[str, Any] = {
    "response_class": Response,
    "responses": {200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "a table"}},
}
"""The description of a route that returns a CSV table."""

Limited = Callable[[Callable[[], object]], Awaitable[Response]]
"""Returns the response with the result of a slow function, of which few run at a time."""

State = Literal["", "healthy", "recovering", "suspect", "faulty", "silent", "learning", "ended"]
Words = Annotated[str, Query(max_length=200)]
Name = Annotated[str, Query(alias="sensor", min_length=1, max_length=500, description="The exact name of a sensor.")]
Variable = Annotated[
    str | None, Query(max_length=200, description="The variable; by default all of them or the first one.")
]

Offset = Annotated[int, Query(ge=0, le=100_000_000, description="The offset of the page.")]


def _when(alias: str | None = None) -> Any:
    """Return the description of a time; one for each, since FastAPI does not merge several annotations everywhere."""
    forms: Any = [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
    description = "ISO 8601, UTC where no zone is given; a date alone is its beginning."
    return Query(alias=alias, max_length=40, description=description, json_schema_extra={"anyOf": forms})


Time = Annotated[str | None, _when()]
From = Annotated[str | None, _when("from")]
To = Annotated[str | None, _when("to")]


def _filters(
    search: Words = "",
    name: Annotated[str | None, Query(alias="sensor", max_length=500)] = None,
    reason: Words = "",
    variable: Variable = None,
    state: fault_list.Which = "all",
    start: From = None,
    end: To = None,
    sort: fault_list.Order = "worst",
    order: Literal["asc", "desc"] = "desc",
) -> dict[str, Any]:
    return {
        "search": search, "sensor": name, "reason": reason, "variable": variable, "state": state,
        "start": _time("from", start), "end": _time("to", end), "sort": sort, "order": order,
    }  # fmt: skip


class NewNote(BaseModel):
    """A line for maintenance.csv: what is known about a sensor in a span of time, or what was done to it.

    With `undo` the line with the same content is removed instead.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    sensor: Annotated[str, Field(min_length=1, max_length=500)]
    variable: Annotated[str | None, Field(max_length=200)] = None
    action: Literal[
        "ignore", "real", "recalibrated", "cleaned", "replaced", "moved", "acknowledged", "muted", "comment"
    ]
    start: Annotated[str | None, Field(alias="from", max_length=40)] = None
    end: Annotated[str | None, Field(alias="to", max_length=40)] = None
    by: Annotated[str, Field(max_length=100)] = ""
    comment: Annotated[str, Field(max_length=500)] = ""
    at: Annotated[str | None, Field(max_length=40, description="Of a note to undo: when it was written.")] = None
    undo: bool = False


def routes(reader: OutReader, edit: Path | None, ending: threading.Event) -> APIRouter:
    """Return the routes of the API; notes are added to the file `edit`, and `ending` ends the event streams."""
    slow = anyio.CapacityLimiter(MAX_SLOW)
    api = APIRouter(prefix="/api", dependencies=[Depends(reader.refresh)])

    async def limited(make: Callable[[], object]) -> Response:
        return await anyio.to_thread.run_sync(lambda: _json(make()), limiter=slow)

    _add_network_routes(api, reader, edit, limited)
    _add_sensor_routes(api, reader, edit, limited)
    _add_fault_routes(api, reader)

    @api.get(
        "/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "news"}},
    )
    async def get_events(request: Request) -> StreamingResponse:
        """Return a stream of events: `hello`, then `changed` with what has changed, and `ping` in between."""
        return StreamingResponse(_changes(reader, request, ending), media_type="text/event-stream")

    return api


def _described(kind: type) -> dict[str, Any]:
    return {"response_model": model_of(kind), "response_class": JSONResponse}


def _add_network_routes(api: APIRouter, reader: OutReader, edit: Path | None, limited: Limited) -> None:
    """Add the routes of all sensors together."""

    @api.get("/network", **_described(NetworkOverview))
    def get_network() -> Response:
        """Return the present state of the network."""
        return _json(network_overview(reader))

    @api.get("/attention", **_described(Attention))
    def get_attention(offset: Offset = 0, limit: Annotated[int, Query(ge=1, le=500)] = 5) -> Response:
        """Return the sensors that need repair, by the size of their fault over the usual error times its length."""
        return _json(attention(reader, notes=read_maintenance(edit), offset=offset, limit=limit))

    @api.get("/matrix", **_described(Matrix))
    async def get_matrix(
        variable: Variable = None,
        start: From = None,
        end: To = None,
        sort: Literal["trouble", "name"] = "trouble",
        search: Words = "",
        state: State = "",
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=2000)] = 200,
    ) -> Response:
        """Return the state of every sensor on every day as a letter; the last year by default."""
        begin, stop = _time("from", start), _time("to", end)
        return await limited(
            lambda: matrix(reader, variable=variable, start=begin, end=stop, sort=sort, search=search, state=state,
                           offset=offset, limit=limit)
        )  # fmt: skip

    @api.get("/calibration", **_described(Calibration))
    async def get_calibration(
        variable: Variable = None,
        search: Words = "",
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Return the weekly distance of every sensor from the network, the largest first."""
        named = None if variable is None else reader.variable(variable)
        return await limited(
            lambda: calibration(
                reader, variable=named, search=search, notes=read_maintenance(edit), offset=offset, limit=limit
            )
        )

    @api.get("/owners", **_described(OwnerAgreement))
    async def get_owners(offset: Offset = 0, limit: Annotated[int, Query(ge=1, le=500)] = 10) -> Response:
        """Return how the flags agree with those that came with the readings, and the channels that differ most."""
        return await limited(lambda: owner_agreement(reader, offset=offset, limit=limit))

    @api.get("/places", **_described(Atlas))
    def get_places() -> Response:
        """Return the map: positions of sensors, and their Voronoi cells."""
        return _json(atlas(reader))

    @api.get("/moment", **_described(Moment))
    def get_moment(time: Time = None, variable: Variable = None) -> Response:
        """Return the values of every sensor on the map in the slot of a time; the latest by default."""
        return _json(moment(reader, _time("time", time), variable))

    @api.get("/sensors", **_described(SensorPage))
    def get_sensors(
        search: Words = "",
        state: State = "",
        variable: Variable = None,
        sort: Order = "trouble",
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> Response:
        """Return the sensors, by default those with most faults first."""
        return _json(
            sensor_page(reader, search=search, state=state, variable=variable, sort=sort, offset=offset, limit=limit)
        )


def _add_sensor_routes(api: APIRouter, reader: OutReader, edit: Path | None, limited: Limited) -> None:
    """Add the routes of one sensor."""
    writing = threading.Lock()

    @api.get("/sensor", **_described(SensorView))
    def get_sensor(name: Name, variable: Variable = None) -> Response:
        """Return one sensor: its state and its metrics."""
        return _json(sensor_view(reader, name, variable))

    @api.get("/series", **_described(Series))
    async def get_series(
        name: Name,
        variable: Variable = None,
        start: From = None,
        end: To = None,
        points: Annotated[int, Query(ge=2, le=10_000)] = 2000,
    ) -> Response:
        """Return one sensor over time; the last 30 days by default, 400 days at most, else `requested` is set."""
        begin, stop = _time("from", start), _time("to", end)
        return await limited(lambda: series(reader, name, variable, begin, stop, points))

    @api.get("/notes", **_described(SensorNotes))
    def get_notes(name: Name) -> Response:
        """Return the maintenance notes on a sensor."""
        return _json(sensor_notes(reader, edit, name))

    if edit is not None:

        @api.post("/notes", **_described(SensorNotes))
        def post_note(note: NewNote) -> Response:
            """Add a line to maintenance.csv, or remove one, and return the notes on the sensor."""
            for name, time in (("from", note.start), ("to", note.end), ("at", note.at)):
                _time(name, time)
            entry = NoteEntry(note.sensor, note.variable or "", note.action, note.start, note.end, note.by,
                              note.at if note.undo else now(), note.comment)  # fmt: skip
            try:
                with writing:
                    notes = (undo_note if note.undo else add_note)(reader, edit, entry)
            except StorageError as error:
                # The disk is full, or the folder is not writable any more.
                cause = getattr(error.__cause__, "strerror", None) or "it cannot be written"
                raise HTTPException(503, f"the note was not added to {edit.name}: {cause}") from None
            return _json(notes)

    @api.get("/neighbours", **_described(Neighbours))
    async def get_neighbours(name: Name, variable: Variable = None, at: Time = None) -> Response:
        """Return the sensors most correlated with one in the days before a time."""
        end = _time("at", at)
        return await limited(lambda: neighbours(reader, name, variable, end))

    @api.get("/explain", **_described(Explanation))
    async def get_explanation(
        name: Name,
        time: Annotated[str, _when()],
        variable: Variable = None,
    ) -> Response:
        """Return why the reading of a sensor at a time has its flag."""
        at = _time("time", time)
        assert at is not None
        return await limited(lambda: explanation(reader, name, at, variable))

    @api.get("/rows.csv", **TABLE)
    def get_rows_table(name: Name, variable: Variable = None, start: From = None, end: To = None) -> Response:
        """Return the rows of one sensor as a CSV table, at most 50,000 lines."""
        table = row_lines(reader, name, variable, _time("from", start), _time("to", end), MAX_LINES)
        headers = {"Content-Disposition": "attachment"}
        return Response(table.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)


def _add_fault_routes(api: APIRouter, reader: OutReader) -> None:
    """Add the routes of the list of faults."""

    @api.get("/faults", **_described(fault_list.FaultPage))
    def get_faults(
        chosen: Annotated[dict[str, Any], Depends(_filters)],
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        fold: bool = True,
    ) -> Response:
        """Return open faults and earlier ones, the worst first by default.

        The faults of an incident are one line, and so are the single wrong readings of a sensor, unless `fold` is
        false or only they are requested.
        """
        return _json(fault_list.fault_page(reader, **chosen, offset=offset, limit=limit, fold=fold))

    @api.get("/faults.csv", **TABLE)
    def get_faults_table(chosen: Annotated[dict[str, Any], Depends(_filters)]) -> Response:
        """Return the faults as a CSV table, at most 50,000 lines."""
        faults = fault_list.fault_page(reader, **chosen, limit=MAX_LINES, fold=False).items
        lines = (
            (one.sensor, one.variable, one.start, one.end, one.reason, one.score, one.sentence, one.size, one.rate,
             one.confidence, one.incident, one.open)
            for one in faults
        )  # fmt: skip
        text = csv_lines(FAULTS_HEADER, [FAULTS_HEADER]) + csv_lines(FAULTS_HEADER, lines)
        headers = {"Content-Disposition": 'attachment; filename="faults.csv"'}
        return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)


async def _changes(reader: OutReader, request: Request, ending: threading.Event) -> AsyncIterator[str]:
    seen, silence = reader.version, 0.0
    yield _event("hello", {"version": seen})
    while not ending.is_set() and not await request.is_disconnected():
        await asyncio.sleep(REFRESH)
        await run_in_threadpool(reader.refresh)
        changed, now = reader.since(seen), reader.version
        silence += REFRESH
        if changed:
            yield _event("changed", {"version": now, "what": changed})
            seen, silence = now, 0.0
        elif silence >= PING:
            yield _event("ping", {"version": now})
            silence = 0.0


def _json(result: object) -> Response:
    return Response(as_json(result), media_type="application/json")


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _time(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except (InputError, OverflowError) as error:
        raise ConfigError(f"{name}: {error}") from None


def handle_errors(app: FastAPI, *folders: Path) -> None:
    """Make an application report errors in one line, without the paths of its folders."""

    def plain(error: Exception) -> str:
        text = str(error)
        for folder in folders:
            text = text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)
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
    lines = []
    for entry in error.errors()[:3]:
        name = ".".join(str(part) for part in entry.get("loc", ())[1:]) or "the request"
        lines.append(f"{name}: {entry.get('msg', 'is not valid')}")
    return problem(422, "; ".join(lines))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    unknown = error.status_code == 404 and error.detail == "Not Found"
    detail = "there is no such page" if unknown else str(error.detail)
    return problem(error.status_code, detail, dict(error.headers or {}))
