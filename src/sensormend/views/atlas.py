"""`atlas` returns the map of a network with its Voronoi cells, `moment` the values of its sensors at one time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sensormend.errors import InputError
from sensormend.pipeline.health import ABSENT
from sensormend.pipeline.places import Position
from sensormend.readings import DAY, REASONS, Flag
from sensormend.views.channel_status import channel_statuses, last_heard
from sensormend.views.reader import OutReader, numbers, utc
from sensormend.views.voronoi import voronoi_cells

__all__ = ["Atlas", "Moment", "Site", "atlas", "moment"]

MAX_SENSORS = 5000
"""The maximum number of sensors on a map, more than a screen can show; evenly chosen where there are more."""

DIGITS = 5
"""Digits of coordinates on the map: a hundredth of a pixel."""


@dataclass(frozen=True)
class Site:
    """The position of a sensor on the map, and the index of its cell."""

    sensor: str
    x: float
    y: float
    cell: int


@dataclass(frozen=True)
class Atlas:
    """The map of a network.

    Attributes
    ----------
    width, height, kilometres
        The size of the map, in units of its width, and the width on the ground.
    total
        Number of sensors with a known position; at most some thousand of them are shown.
    cells
        The corners of the Voronoi cells, x and y alternating; y grows downwards. Sensors at one place share a cell.
    sensors
        The sensors with their positions.
    """

    width: float
    height: float
    kilometres: float
    total: int
    cells: list[list[float]]
    sensors: list[Site]


@dataclass(frozen=True)
class Moment:
    """The values of every sensor on the map in one slot, in columns.

    Attributes
    ----------
    time, provisional
        The start of the slot, and whether it is not final yet.
    low, high
        The range of the cleaned values of that day, so that the colour scale is the same all day.
    first, last
        The times of the first and the last row of the network.
    value, cleaned, lower, upper
        The reading, the cleaned value and its interval; null where there is none.
    state, reason
        In the last slot the state of the channel now, as everywhere; in earlier ones what the row shows: healthy,
        filled, suspect, faulty, silent, not evaluated or nothing. And the reason.
    """

    time: str
    provisional: bool
    low: float | None
    high: float | None
    first: str | None
    last: str | None
    sensor: list[str]
    value: list[float | None]
    cleaned: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    state: list[str]
    reason: list[str]


def atlas(reader: OutReader) -> Atlas:
    """Return the map of a network."""
    places = reader.places
    if not places:
        raise InputError("the positions of the sensors are not known: give coordinates to clean or watch")
    names = _shown(list(places))
    latitude, longitude = np.array([places[name] for name in names]).T
    # Relative to the first longitude, so that a network across the date line stays together; scaled by latitude.
    east = (longitude - longitude[0] + 180) % 360 - 180
    middle = float(latitude.mean())
    narrowing = math.cos(math.radians(middle))
    flat = np.stack([east * narrowing, -latitude], axis=1)
    cells = voronoi_cells(flat)
    left, lower, right, upper = cells.box
    corner, width = np.array([left, lower]), right - left
    west, east_of_it = (Position("", 0, middle, float(longitude[0]) + shift) for shift in (0.0, 1e-3))
    sites = (flat - corner) / width
    return Atlas(
        width=1.0,
        height=round((upper - lower) / width, DIGITS),
        kilometres=round(west.metres_from(east_of_it) * width / (1e-3 * narrowing) / 1000, 3),
        total=len(places),
        cells=[np.round((polygon - corner) / width, DIGITS).reshape(-1).tolist() for polygon in cells.polygons],
        sensors=[
            Site(name, round(float(x), DIGITS), round(float(y), DIGITS), int(cell))
            for name, (x, y), cell in zip(names, sites, cells.place, strict=True)
        ],
    )


def moment(reader: OutReader, time: int | None = None, variable: str | None = None) -> Moment:
    """Return the values of the sensors on the map in the slot of a time; of the last reading where it is None."""
    variable = reader.variable(variable)
    span = reader.span()
    if span is None:
        raise InputError("there are no rows yet")
    heard = reader.slot(min(last_heard(reader) or span[1], span[1]))
    time = heard if time is None else reader.slot(min(max(time, span[0]), span[1]))
    names = _shown(list(reader.places) or list(reader.channels))
    rows, since = reader.rows(None, time, time + reader.step, variable)
    places = {name: place for place, name in enumerate(names)}
    columns = {name: np.full(len(names), np.nan) for name in ("value", "cleaned", "lower", "upper")}
    state, reason = [ABSENT] * len(names), [""] * len(names)
    for row, code in enumerate(rows.sensor.tolist()):
        place = places.get(rows.sensors[code])
        if place is None:
            continue
        for name, column in columns.items():
            column[place] = getattr(rows, name)[row]
        reason[place] = REASONS[rows.reason[row]]
        state[place] = _state(int(rows.flag[row]), reason[place])
    if time >= heard:
        for (sensor, own), status in channel_statuses(reader).items():
            place = places.get(sensor)
            # A healthy sensor may lack a reading.
            if own == variable and place is not None and (status.state, state[place]) != ("healthy", "filled"):
                state[place], reason[place] = status.state, status.reason
    low, high = _range(reader, time, variable)
    return Moment(
        time=utc(time) or "",
        provisional=since is not None,
        low=low,
        high=high,
        first=utc(span[0]),
        last=utc(span[1]),
        sensor=names,
        state=state,
        reason=reason,
        **{name: numbers(column) for name, column in columns.items()},
    )


def _shown(names: list[str]) -> list[str]:
    if len(names) <= MAX_SENSORS:
        return names
    return [names[round(place)] for place in np.linspace(0, len(names) - 1, MAX_SENSORS).tolist()]


def _state(flag: int, reason: str) -> str:
    if flag == Flag.MISSING:
        return "silent" if reason == "silent" else "filled"
    if flag == Flag.FAIL:
        return "filled" if reason in ("spike", "fill") else "faulty"
    return {Flag.SUSPECT: "suspect", Flag.NOT_EVALUATED: "not evaluated"}.get(Flag(flag), "healthy")


def _range(reader: OutReader, time: int, variable: str) -> tuple[float | None, float | None]:
    """Return the range of the cleaned values of a day."""
    day = time // DAY * DAY

    def compute() -> tuple[float | None, float | None]:
        rows, _ = reader.rows(None, day, day + DAY, variable)
        known = rows.cleaned[np.isfinite(rows.cleaned)]
        low, high = numbers(np.array([known.min(), known.max()])) if known.size else (None, None)
        return low, high

    return reader.cached(("range", day, variable), reader.written(day), compute)
