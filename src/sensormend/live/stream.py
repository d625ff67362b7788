"""The stream: what arrived goes in, what follows from it comes out; the same again, whenever it is told the same.

Nothing in here looks at a clock or a disk: a restart that is given the records of the journal once more ends where the
one before it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sensormend.cleaning import mender_for
from sensormend.errors import ConfigError, SensormendError
from sensormend.flags import REASONS
from sensormend.grid import Grid
from sensormend.io.metadata import iso
from sensormend.live.admitting import OLD, admitted, rejected, renamed
from sensormend.live.alerts import Alerts
from sensormend.live.arrivals import Arrived
from sensormend.live.deliveries import Health
from sensormend.live.events import Event, Failed, Final, Late, Refused, Told
from sensormend.live.listening import Listening, Pace
from sensormend.live.window import Names, Watermark, Window
from sensormend.maintenance import Maintenance, Note
from sensormend.mending import NEVER, Mender
from sensormend.options import EVERY, Options
from sensormend.places import Places
from sensormend.readings import DAY, HOUR, Readings, Rows
from sensormend.recovery import BoolArray
from sensormend.survey import FAR, Survey, check_grid, look_at_start
from sensormend.tally import Tally

__all__ = ["Stream"]

_Time = TypeVar("_Time", int, NDArray[np.int64])

AHEAD = DAY
"""How far a reading may be ahead of the clock of this machine: more than any time zone that somebody forgot."""

SAMPLE = 1_000_000
"""Readings of the first day that are looked at for the grid."""

SILENT = REASONS.index("silent")


class Stream:
    """Take in what arrives and close each period when it and its grace are over.

    Parameters
    ----------
    options
        What is known of the readings.
    grace
        How long a period waits for its last readings; a step by default.
    late_for
        How far back a late reading may still correct its row.
    alerts
        Who has to be told what.
    mender, survey
        Those of an archive to go on from.

    Attributes
    ----------
    closed
        The last period that is over; None before the first.
    readings
        How many came.
    pace
        How often it is heard, by the clock.
    """

    def __init__(
        self,
        options: Options,
        *,
        grace: int | None = None,
        late_for: int = 30 * DAY,
        alerts: Alerts | None = None,
        mender: Mender | None = None,
        survey: Survey | None = None,
    ) -> None:
        check_grid(options)
        self.options, self._grace, self._late_for = options, grace, late_for
        self.alerts = alerts or Alerts()
        about = {name: option for option, given in options.per_variable().items() for name in given if name != EVERY}
        for name, option in about.items():
            if options.variables and name not in options.variables:
                raise ConfigError(f"{option} speaks of {name!r}; variables has {', '.join(options.variables)}")
        self.sensors, self.variables = Names(), Names(list(dict.fromkeys([*options.variables, *about])))
        self.window = Window()
        self.watermark = Watermark(options.period or DAY, options.gone_after)
        self.coordinates: dict[str, tuple[float, float]] = {}
        self.places = Places.read(options.coordinates) if options.coordinates else Places()
        self.closed: int | None = None
        self.readings = 0
        self._first_time: int | None = None
        self._looked = NEVER
        self._oldest = NEVER
        self.maintenance = Maintenance()
        self.pace = Pace()
        self.mender: Mender | None = None
        self._only: str | None = None
        if mender is not None and survey is not None:
            self.variables = Names(mender.variables)
            self._only = mender.variables[0] if len(mender.variables) == 1 else None
            self._begin(mender, survey)

    @property
    def grid(self) -> Grid | None:
        """The grid; None until it is found."""
        return self.mender.grid if self.mender else None

    @property
    def grace(self) -> int:
        """How long a period waits for its last readings."""
        return self._grace if self._grace is not None else self.step

    @property
    def step(self) -> int:
        """The length of a slot: found, said, or else an hour."""
        return self.mender.grid.step if self.mender else self.options.step or HOUR

    def ended(self, time: _Time) -> _Time:
        """Return how many slots have ended by a time."""
        return self.mender.grid.slots_until(time) if self.mender else time // self.step

    @property
    def patience(self) -> int:
        """How long the whole network may be silent, by the clock, before time goes on without it."""
        return self.pace.patience(self.step, self.mender.grid.period if self.mender else DAY)

    def take(self, arrived: Arrived) -> Iterator[Event]:
        """Take in what arrived, and give what follows from it."""
        refused = list(arrived.rejected)
        for place in arrived.positions:
            self.coordinates.setdefault(place.sensor, (place.latitude, place.longitude))
        readings = renamed(self.places.settle(arrived.readings), self._only, self.options.variables)
        self.readings += len(readings)
        # A machine whose own clock is behind does not know the future.
        latest = max(arrived.received, self.watermark.time) + AHEAD
        known = self.mender.variables if self.mender else self.options.variables
        readings = admitted(readings, self._oldest, latest, known, refused)
        if refused:
            yield Refused(refused)
        if len(readings):
            sensor = self.sensors.codes(readings.sensors, readings.sensor)
            variable = self.variables.codes(readings.variables, readings.variable)
            before = self.watermark.readings
            yield from self._sort_in(
                Readings(self.sensors.all, self.variables.all, sensor, variable, readings.time, readings.value)
            )
            if self.watermark.readings > before:
                self.pace.moved(arrived.received)
        yield from self._go_on()

    def tick(self, now: int) -> Iterator[Event]:
        """Let time go on without a reading: the network is silent."""
        self.watermark.move(now)
        yield from self._go_on()

    def end(self) -> Iterator[Event]:
        """Close all periods that have readings: nothing will come any more."""
        if len(self.window):
            self.watermark.move(int(self.window.column("time").max()))
            yield from self._find_grid()
        if self.mender is not None and len(self.window):
            periods = self.mender.grid.period_of(self.window.column("time"))
            yield from self._close_until(int(periods.max()))

    def maintain(self, maintenance: Maintenance) -> None:
        """Know better from the next period on."""
        self.maintenance = maintenance
        if self.mender is not None:
            self.mender.maintenance = maintenance

    def health(self) -> list[Health]:
        """Say how every sensor is."""
        return self.listening.health() if self.mender else []

    def peek(self, now: int) -> Rows | None:
        """Return provisional rows of the slots that have ended by `now` of periods that are not over."""
        mender = self.mender or self._tentative()
        if mender is None:
            return None
        grid, times = mender.grid, self.window.column("time")
        periods = grid.period_of(times)
        last = int(grid.period_of(np.array([now]))[0])
        begun = self.closed + 1 if self.closed is not None else int(periods.min()) if times.size else last
        silent = self.listening.is_silent(now, self.maintenance) if self.mender else np.zeros(0, dtype=bool)
        parts = []
        for period in range(max(begun, last - 1), last + 1):
            mine = self.window.readings(periods == period, self.sensors.all, self.variables.all)
            rows = mender.peek(mine, period).rows
            ended = rows.taken(rows.time + grid.step - grid.early <= now)
            parts.append(self._as_known(ended, silent))
        return Rows.concatenate(parts) if any(map(len, parts)) else None

    def _tentative(self) -> Mender | None:
        """Return a mender for the first period, before the grid is settled; None where nothing can be told of it."""
        try:
            return mender_for(look_at_start(self._sample(), self.options), self.variables.all, self.options)
        except SensormendError:
            return None

    def _sort_in(self, readings: Readings) -> Iterator[Event]:
        if self.mender is not None:
            self.listening.heard(readings)
        self.watermark.see(readings.sensor.astype(np.int64, copy=False), readings.time)
        if self.closed is not None and self.mender is not None:
            period = self.mender.grid.period_of(readings.time)
            late = period <= self.closed
            if late.any():
                for number in np.unique(period[late]).tolist():
                    yield Late(number, readings.taken(period == number))
                readings = readings.taken(~late)
        if len(readings):
            self.window.add(readings)
            first = int(readings.time.min())
            self._first_time = first if self._first_time is None else min(first, self._first_time)

    def _go_on(self) -> Iterator[Event]:
        """Close what is due, and look who is silent."""
        if self.closed is None:
            yield from self._leave_out_unset_clocks()
        if self.mender is None:
            yield from self._look_for_grid()
        if self.mender is None or self.watermark.time == NEVER:
            return
        reached = np.array([self.watermark.time - self.grace])
        yield from self._close_until(int(self.mender.grid.period_of(reached)[0]) - 1)
        alerts = self.listening.listen(self.watermark.time, self.maintenance)
        if alerts:
            yield Told(alerts)

    def _leave_out_unset_clocks(self) -> Iterator[Event]:
        """Refuse what lies a year and more before the rest, while nothing is closed that it could be late for."""
        oldest = self.watermark.time - FAR
        if self._first_time is None or self._first_time >= oldest:
            return
        believed = self.window.column("time") >= oldest
        unset = self.window.readings(~believed, self.sensors.all, self.variables.all)
        self.window.keep(believed)
        self._first_time = int(self.window.column("time").min()) if len(self.window) else None
        yield Refused(rejected(unset, OLD))

    def _look_for_grid(self) -> Iterator[Event]:
        """Find the grid when the first period is full; before that there is no need of it."""
        full = (self.options.period or DAY) + self.grace
        if self._first_time is None or self._first_time > self.watermark.time - full:
            return
        # Where nobody has said anything twice it takes more readings; an hour's worth, to look again.
        if self.watermark.time >= self._looked + HOUR:
            self._looked = self.watermark.time
            yield from self._find_grid()

    def _find_grid(self) -> Iterator[Event]:
        if self.mender is None:
            try:
                self._begin(None, look_at_start(self._sample(), self.options))
            except SensormendError as error:
                yield Failed(f"the grid is not found yet: {error}")

    def _sample(self) -> Readings:
        return self.window.readings(slice(0, SAMPLE), self.sensors.all, self.variables.all)

    def _begin(self, mender: Mender | None, survey: Survey) -> None:
        """Have a grid, and all that needs one."""
        self.survey = survey
        mender = mender or mender_for(survey, self.variables.all, self.options)
        grid = mender.grid
        self.mender = mender
        mender.maintenance = self.maintenance
        self.tally = Tally(grid, mender.variables)
        self.listening = Listening(grid, self.options.gone_after, self.sensors, self.variables, self.alerts)
        self.watermark.leap = grid.period
        self.listening.heard(self.window.readings(slice(None), self.sensors.all, self.variables.all))

    def _close_until(self, last: int) -> Iterator[Event]:
        """Close all periods up to `last`, those without a reading too."""
        assert self.mender is not None
        grid = self.mender.grid
        if self.closed is None and (self._first_time is None or grid.period_of(np.array([self._first_time]))[0] > last):
            return
        while self.closed is None or self.closed < last:
            periods = grid.period_of(self.window.column("time"))
            following = int(periods.min()) if periods.size else None
            if self.closed is None and (following is None or following > last):
                return
            target = last if following is None or following > last else following
            here = periods == target
            readings = self.window.readings(here, self.sensors.all, self.variables.all)
            self.window.keep(~here)
            yield from self._close(target, readings)
            self.listening.close(readings)

    def _close(self, period: int, readings: Readings) -> Iterator[Event]:
        assert self.mender is not None
        first = self.closed is None
        back = first and self.mender.period is not None and self.mender.period >= period
        if back:
            # The archive goes on past this: what was learned stays, where it stopped does not matter.
            self.mender = self.mender.twin()
            self.mender.model.rewind()
        mended = self.mender.catch_up(period)
        try:
            mended += self.mender.push(readings, period)
        except (ArithmeticError, ValueError) as error:
            # Whatever came: it would come again from the journal, and nothing would ever go on.
            yield Failed(f"a period is not judged: {error}", {"start": iso(self.mender.grid.start_of(period))})
            mended.append(self.mender.pass_by(readings, period))
        self.watermark.fixed = True
        for part in mended:
            if first and part.period < period:
                continue  # between the archive and the feed nobody listened
            self.closed = part.period
            self.tally.add(part)
            self.pace.close()
            alerts = self.listening.judged(part)
            yield Final(part, readings if part.period == period else readings.taken(slice(0, 0)))
            if alerts:
                yield Told(alerts)
        self.closed = period
        self._oldest = max(self._oldest, self.mender.grid.start_of(period + 1) - self._late_for)

    def _as_known(self, rows: Rows, silent: BoolArray) -> Rows:
        """Return provisional rows under our own numbers; a sensor is silent only when that is unusual for it."""
        sensor = self.sensors.codes(rows.sensors, rows.sensor)
        channel = sensor * len(self.variables) + rows.variable
        known = np.zeros(max(silent.size, int(channel.max(initial=-1)) + 1), dtype=bool)
        known[: silent.size] = silent
        reason = np.where((rows.reason == SILENT) & ~known[channel], 0, rows.reason).astype(np.int8)
        columns = {name: getattr(rows, name) for name in ("time", "value", "n", "cleaned", "lower", "upper", "flag")}
        return Rows(
            self.sensors.all, self.variables.all, sensor, rows.variable, **columns, reason=reason, origin=rows.origin
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it but the mender and the tally, as a state file holds it."""
        marked, marks = self.watermark.state()
        settings: dict[str, Any] = {
            "sensors": list(self.sensors.all),
            "variables": list(self.variables.all),
            "coordinates": {name: list(where) for name, where in self.coordinates.items()},
            "closed": self.closed,
            "readings": self.readings,
            "first_time": self._first_time,
            "watermark": marked,
            "maintenance": [astuple(note) for note in self.maintenance.notes],
            "pace": self.pace.state(),
            "only": self._only,
            "oldest": self._oldest,
            "looked": self._looked,
            "alerts": self.alerts.state(),
        }
        arrays = {**self.window.state(), **{f"watermark_{name}": array for name, array in marks.items()}}
        if self.mender is not None:
            grid = self.mender.grid
            settings["grid"] = list(astuple(grid))
            settings["fill"] = {name: list(values) for name, values in self.survey.fill.items()}
            settings["notes"] = list(self.survey.notes)
            settings["listening"], ages = self.listening.state()
            arrays |= {f"listening_{name}": array for name, array in ages.items()}
        return settings, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state; the mender's and the tally's own are restored beside it."""
        self.sensors, self.variables = Names(settings["sensors"]), Names(settings["variables"])
        self.coordinates = {name: (where[0], where[1]) for name, where in settings["coordinates"].items()}
        self.closed, self.readings = settings["closed"], settings["readings"]
        self._first_time = settings["first_time"]
        self.pace.restore(settings["pace"])
        self._only, self._oldest, self._looked = settings["only"], settings["oldest"], settings["looked"]
        self.maintenance = Maintenance(tuple(Note(*note) for note in settings["maintenance"]))
        self.alerts.restore(settings["alerts"])
        self.window.restore(arrays)
        if "grid" in settings:
            fill = {name: tuple(values) for name, values in settings["fill"].items()}
            survey = Survey(Grid(*settings["grid"]), fill, tuple(settings["notes"]))
            self._begin(mender_for(survey, self.variables.all, self.options), survey)
            self.listening.restore(settings["listening"], _of("listening", arrays))
            if self.closed is not None:
                # What is kept for late readings is what is asked for now, if that is less than before.
                self._oldest = max(self._oldest, survey.grid.start_of(self.closed + 1) - self._late_for)
        self.watermark.restore(settings["watermark"], _of("watermark", arrays))


def _of(whose: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{whose}_"): array for name, array in arrays.items() if name.startswith(f"{whose}_")}
