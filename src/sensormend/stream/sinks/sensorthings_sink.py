"""`SensorThingsSink` writes flags as `resultQuality` to the Observations of a SensorThings server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from sensormend.pipeline.times import utc
from sensormend.readings import REASONS, Flag, Rows
from sensormend.stream.deliveries import Delivery, Kind, Sink
from sensormend.stream.formats.values import InvalidReadingError, time_from
from sensormend.stream.logs import say
from sensormend.stream.sensorthings import PAGE, ThingsServer

__all__ = ["SensorThingsSink"]

JUDGED = (Flag.GOOD, Flag.SUSPECT, Flag.FAIL)
"""The flags that are written."""

EARLY = 0.1
"""Share of a slot by which a reading may be early for the next one, to which it belongs if that has its value."""

_log = logging.getLogger("sensormend.stream")


class SensorThingsSink(Sink):
    """Gives each Observation of a judged row the flag and the reason of the row, `sensorthings://host/v1.1`.

    A channel is a Datastream by the names of its Thing and its ObservedProperty, by its own name and that of the
    ObservedProperty, or by its id. A Datastream that is not there is logged once, and its rows are left out. Nothing
    is written that is there already, so a repeated delivery changes nothing. The length of a slot is taken from the
    rows of a period.
    """

    kinds: Sequence[Kind] = ("final", "late")

    def __init__(self, address: str) -> None:
        self._server = ThingsServer(address)
        self._step: int | None = None
        self._streams: dict[tuple[str, str], Any] = {}
        self._missing: set[tuple[str, str]] = set()

    def write(self, delivery: Delivery) -> None:
        """Write the flags of a delivery."""
        rows = delivery.rows
        if rows is None or not len(rows):
            return
        times = np.unique(rows.time)
        if delivery.kind == "final" and times.size > 1:
            self._step = int(np.diff(times).min())
        if self._step is None:
            say(_log, logging.WARNING, f"{self._server.shown}: a correction without a known step is left out")
            return
        for sensor, variable, own in rows.channels():
            identity = self._stream((sensor, variable))
            if identity is not None:
                self._write_channel(identity, rows.taken(own), self._step)

    def _write_channel(self, identity: Any, rows: Rows, step: int) -> None:
        first, last = int(rows.time[0]), int(rows.time[-1]) + step
        query: dict[str, str | int] = {
            "filter": f"phenomenonTime ge {utc(first - round(EARLY * step))} and phenomenonTime lt {utc(last)}",
            "orderby": "phenomenonTime asc",
            "top": PAGE,
        }
        for page in self._server.pages(f"Datastreams{self._server.key(identity)}/Observations", **query):
            for observation in page:
                row = _find_row(observation, rows, step)
                if row is None or rows.flag[row] not in JUDGED:
                    continue
                reason = REASONS[rows.reason[row]]
                quality = {"qualityCode": str(int(rows.flag[row])), "resultQualifiers": [reason] if reason else []}
                if observation.get("resultQuality") != quality:
                    path = f"Observations{self._server.key(observation['@iot.id'])}"
                    self._server.patch(path, {"resultQuality": quality})

    def _stream(self, channel: tuple[str, str]) -> Any:
        """Return the id of the Datastream of a channel; None if there is none."""
        if channel not in self._streams and channel not in self._missing:
            self._streams = {}
            for page in self._server.pages("Datastreams", expand="Thing,ObservedProperty", top=PAGE):
                for stream in page:
                    thing, observed = stream.get("Thing") or {}, stream.get("ObservedProperty") or {}
                    variable, identity = str(observed.get("name", "")), stream.get("@iot.id")
                    for sensor in (identity, stream.get("name"), thing.get("name")):
                        self._streams.setdefault((str(sensor), variable), identity)
                    self._streams.setdefault((str(identity), ""), identity)
            if channel not in self._streams:
                self._missing.add(channel)
                say(_log, logging.WARNING, f"{self._server.shown} has no Datastream for a sensor", channel=channel)
        return self._streams.get(channel)


def _find_row(observation: dict[str, Any], rows: Rows, step: int) -> int | None:
    """Return the place of the row of an observation; None if there is none."""
    try:
        time = time_from(str(observation.get("phenomenonTime")).partition("/")[0])
    except InvalidReadingError:
        return None
    place = int(np.searchsorted(rows.time, time, side="right")) - 1
    following = place + 1
    if following < len(rows) and 0 < rows.time[following] - time <= EARLY * step:
        own = place >= 0 and rows.value[place] == observation.get("result")
        if not own and rows.value[following] == observation.get("result"):
            return following
    return place if place >= 0 and time - rows.time[place] < step else None
