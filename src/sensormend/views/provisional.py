"""What is known of periods that are not over, and how it goes with what is final."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sensormend.errors import InputError
from sensormend.files import signature
from sensormend.io.folder import file_metadata, file_rows
from sensormend.io.metadata import SensorSummary, time_of
from sensormend.readings import COLUMNS, Rows

__all__ = ["NO_ROWS", "Provisional", "introduced", "joined", "read_provisional"]

NO_ROWS = Rows(
    (), ("",), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0),
    np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int8), np.empty(0, np.int8),
    np.empty(0, np.int8),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Provisional:
    """What is known of periods that are not over; `reached` is the time of the network."""

    rows: Rows
    reached: int | None

    def taken(self, sensor: str | list[str] | None, start: int, end: int, variable: str) -> Rows:
        """Return rows in order of time; of one sensor, several, or everybody."""
        rows = self.rows
        taken = (rows.time >= start) & (rows.time < end)
        taken &= rows.variable == rows.variables.index(variable) if variable in rows.variables else False
        if sensor is not None:
            wanted = {sensor} if isinstance(sensor, str) else set(sensor)
            taken &= np.isin(rows.sensor, [code for code, name in enumerate(rows.sensors) if name in wanted])
        return rows.taken(np.flatnonzero(taken)[np.argsort(rows.time[taken], kind="stable")])


def read_provisional(path: Path) -> Provisional | None:
    """Read what a watch writes between two periods; None where there is no such file."""
    while (written := signature(path)) is not None:
        try:
            reached, rows = file_metadata(path).get("reached"), file_rows(path)
        except InputError:
            if signature(path) == written:
                raise
            continue
        # The watch may have written it again in between: then the one is not about the other.
        if signature(path) == written:
            return Provisional(rows, None if reached is None else time_of(reached))
    return None


def joined(final: Rows, later: Rows) -> Rows:
    """Join rows whose names are counted differently."""
    sensors = {name: code for code, name in enumerate(dict.fromkeys((*final.sensors, *later.sensors)))}
    variables = {name: code for code, name in enumerate(dict.fromkeys((*final.variables, *later.variables)))}
    parts = []
    for rows in (final, later):
        sensor = np.array([sensors[name] for name in rows.sensors], np.int32)[rows.sensor]
        variable = np.array([variables[name] for name in rows.variables], np.int32)[rows.variable]
        columns = {name: getattr(rows, name) for name in COLUMNS} | {"sensor": sensor, "variable": variable}
        parts.append(Rows(tuple(sensors), tuple(variables), **columns))
    return Rows.concatenate(parts)


def introduced(known: list[SensorSummary], rows: Rows) -> list[SensorSummary]:
    """Return the sensors that are known, then those of which nothing is final yet."""
    nan, names = float("nan"), {(entry.sensor, entry.variable) for entry in known}
    codes = sorted(set(zip(rows.sensor.tolist(), rows.variable.tolist(), strict=True)))
    new = [(rows.sensors[sensor], rows.variables[variable]) for sensor, variable in codes]
    unknown = [SensorSummary(*name, 0, nan, nan, nan, nan, nan, None, None) for name in new if name not in names]
    return [*known, *unknown]
