"""`SensorThingsSource` reads the Observations of a SensorThings server as they appear."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sensormend.errors import ConfigError, RefusedError, SensormendError, one_line
from sensormend.pipeline.options import Options, span
from sensormend.readings import HOUR, SECOND
from sensormend.stream.arrivals import Arrived, clock
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.sensorthings import PAGE, ThingsServer
from sensormend.stream.sources.threaded import Lookback, ThreadedSource

__all__ = ["SensorThingsSource"]

POLL, LOOKBACK = 30 * SECOND, HOUR
"""The default interval between two requests, and the default time that each request looks back."""


class SensorThingsSource(ThreadedSource):
    """The Observations of a server, `sensorthings://host/v1.1`, by their phenomenon time.

    Parameters
    ----------
    address
        With `poll` and `lookback` as further parameters.
    mark
        The phenomenon time of the newest Observation that is on disk.
    """

    def __init__(self, address: str, options: Options | None = None, *, mark: str | None = None) -> None:
        self._server = ThingsServer(address, ("poll", "lookback"))
        super().__init__(self._server.shown)
        query = self._server.query
        self._poll = span("poll", query["poll"]) / SECOND if "poll" in query else POLL / SECOND
        self._lookback = Lookback(span("lookback", query["lookback"]) if "lookback" in query else LOOKBACK)
        self.decoder = Decoder(options, form="sensorthings")
        self.units = self.decoder.units
        self._after = mark
        self._pages: Iterator[list[dict[str, Any]]] | None = None
        self._look_at = 0.0
        try:
            next(self._server.pages("Datastreams", top=1), None)
        except RefusedError as error:
            raise ConfigError(one_line(error)) from None
        except SensormendError as error:
            self.connected = False
            self._outage.begin(error=one_line(error))
        self._begin()

    def _fetch(self) -> Arrived | None:
        if self._pages is None:
            if (remaining := self._look_at - time.monotonic()) > 0:
                self._closing.wait(min(remaining, 0.25))
                return None
            self._look_at = time.monotonic() + self._poll
            self._lookback.begin()
            self._pages = self._walk()
        observations = next(self._pages, None)
        if observations is None:
            self._pages = None
            self._lookback.end()
            return None
        return self._decoded(observations)

    def _walk(self) -> Iterator[list[dict[str, Any]]]:
        """Return the pages of Observations that are new, or of the lookback."""
        query: dict[str, str | int] = {
            "expand": "Datastream($expand=Thing,ObservedProperty)",
            "orderby": "phenomenonTime asc",
            "top": PAGE,
        }
        if self._after is not None:
            since = datetime.fromisoformat(self._after)
            if self._lookback.active:
                since -= timedelta(microseconds=self._lookback.length)
            query["filter"] = f"phenomenonTime ge {since.isoformat().replace('+00:00', 'Z')}"
        return self._server.pages("Observations", **query)

    def _decoded(self, observations: list[dict[str, Any]]) -> Arrived | None:
        received = clock()
        # A time ahead of the clock must not keep back the Observations of all others until then.
        now = datetime.now(UTC)
        new, after = 0, None if self._after is None else datetime.fromisoformat(self._after)
        for observation in observations:
            identity, moment = observation.get("@iot.id"), observation.get("phenomenonTime")
            if not self._lookback.is_new(str(identity), str(moment), str(observation.get("result"))):
                continue
            new += 1
            self.decoder.add(json.dumps(observation).encode(), received, None, f"Observations({identity})")
            reached = _parse_start(moment)
            if reached is not None and (after is None or reached > after):
                after = min(reached, now)
        if not new:
            return None
        self._after = None if after is None else after.isoformat()
        readings, rejected, positions = self.decoder.take()
        return Arrived(readings, received, rejected, positions, self._after)

    def _disconnect(self) -> None:
        self._pages, self._look_at = None, 0.0
        self._lookback.restart()


def _parse_start(moment: Any) -> datetime | None:
    """Return the start of a phenomenon time; None if it is none."""
    try:
        start = datetime.fromisoformat(str(moment).partition("/")[0])
    except ValueError:
        return None
    return start if start.tzinfo is not None else start.replace(tzinfo=UTC)
