"""`compare` scores the flags of an OUT against labels that people made."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.files import read_table
from sensormend.io.folder import Archive
from sensormend.pipeline.times import duration, time_of
from sensormend.readings import DAY, Flag, Rows
from sensormend.recovery import BoolArray

__all__ = ["WRONG", "Comparison", "compare"]

WRONG = ("4", "bad", "fail", "wrong")
"""Values of a label that say that a reading is wrong, in lower case."""

SPAN = 31 * DAY
"""The rows that are in memory at a time."""

ALWAYS = np.iinfo(np.int64).max // 4

Channel = tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """The scores of one variable, or of all of them.

    Attributes
    ----------
    readings, labelled, flagged, both
        The readings that were compared; those that are wrong by the labels; those with flag 4; and those with both.
    doubtful, unjudged
        The readings with flag 3 and with flag 2.
    """

    variable: str
    readings: int
    labelled: int
    flagged: int
    both: int
    doubtful: int
    unjudged: int

    @property
    def precision(self) -> float:
        """The share of the readings with flag 4 that are wrong."""
        return self.both / self.flagged if self.flagged else float("nan")

    @property
    def recall(self) -> float:
        """The share of the wrong readings that have flag 4."""
        return self.both / self.labelled if self.labelled else float("nan")

    @property
    def good_flagged(self) -> float:
        """The share of the good readings that have flag 4."""
        good = self.readings - self.labelled
        return (self.flagged - self.both) / good if good else float("nan")


def compare(
    out: str | os.PathLike[str], labels: str | os.PathLike[str], wrong: Sequence[str] = WRONG
) -> list[Comparison]:
    """Compare the flags of an OUT with labels, by variable; the last entry is all of them, where there are several.

    Parameters
    ----------
    out
        The OUT of `clean` or `watch`.
    labels
        A CSV file, of spans in which a sensor is wrong: sensor, from, to; all other readings are good. Or of readings:
        sensor, time, flag; only these are compared. In both a column variable, where there are several.
    wrong
        The flags of readings that say that one is wrong.
    """
    table = _Labels.read(Path(labels), {word.strip().lower() for word in wrong})
    counts: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.zeros(6, dtype=np.int64))
    with Archive(out) as archive:
        grid = archive.run().get("grid", {})
        step, early = duration(grid.get("step", "1h")), round(grid.get("early_seconds", 0) * 1e6)
        unknown = sorted({sensor for sensor, _ in table.channels} - {*archive.names, "*"})
        if unknown:
            archive.check_sensor(unknown[0])
        first, last = archive.span() or (0, -1)
        for start in range(first, last + 1, SPAN):
            rows = archive.rows(start=start, end=start + SPAN)
            for variable, part in _counted(rows, table, step, early):
                counts[variable] += part
    if not counts:
        raise ConfigError(
            f"{labels} labels no reading of {out}; are its times in UTC, and its names those of sensors.csv?"
        )
    lines = [Comparison(variable, *map(int, parts)) for variable, parts in sorted(counts.items())]
    if len(lines) > 1:
        lines.append(Comparison("all", *map(int, np.sum(list(counts.values()), axis=0))))
    return lines


def _counted(rows: Rows, labels: _Labels, step: int, early: int) -> list[tuple[str, NDArray[np.int64]]]:
    """Return the counts of `Comparison` by variable."""
    counted = []
    channel = rows.sensor.astype(np.int64) * len(rows.variables) + rows.variable
    order = np.argsort(channel, kind="stable")
    edges = np.flatnonzero(np.diff(channel[order])) + 1
    for own in np.split(order, edges):
        if not own.size:
            continue
        sensor, variable = rows.sensors[int(rows.sensor[own[0]])], rows.variables[int(rows.variable[own[0]])]
        own = own[np.argsort(rows.time[own], kind="stable")]
        present = rows.n[own] > 0
        compared, wrong = labels.of(sensor, variable, rows.time[own], step, early)
        used = present & compared & (rows.flag[own] != Flag.MISSING)
        if used.any():
            wrong, flag = wrong[used], rows.flag[own][used]
            fail = flag == Flag.FAIL
            masks = (wrong, fail, wrong & fail, flag == Flag.SUSPECT, flag == Flag.NOT_EVALUATED)
            counted.append((variable, np.array([wrong.size, *(mask.sum() for mask in masks)], dtype=np.int64)))
    return counted


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels by channel: spans that are wrong, or times of readings and whether they are; `*` is every sensor."""

    spans: dict[Channel, list[tuple[int, int]]]
    times: dict[Channel, tuple[NDArray[np.int64], BoolArray]]

    @property
    def channels(self) -> set[Channel]:
        return {*self.spans, *self.times}

    @classmethod
    def read(cls, path: Path, wrong: set[str]) -> _Labels:
        try:
            with path.open(encoding="utf-8-sig") as file:
                header = {name.strip().lower() for name in file.readline().split(",")}
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise ConfigError(f"{path} cannot be read: {why}") from None
        spans: dict[Channel, list[tuple[int, int]]] = defaultdict(list)
        readings: dict[Channel, list[tuple[int, bool]]] = defaultdict(list)
        if "time" in header:
            for where, cells in read_table(path, {"sensor": (), "time": (), "flag": ("label",)}):
                time = _time(cells["time"], f"{where}, time", 0)
                readings[cells["sensor"], cells.get("variable", "")].append((time, cells["flag"].lower() in wrong))
        else:
            for where, cells in read_table(path, {"sensor": (), "from": (), "to": ()}):
                span = (_time(cells["from"], f"{where}, from", -ALWAYS), _time(cells["to"], f"{where}, to", ALWAYS))
                if span[1] <= span[0]:
                    raise ConfigError(f"{where}: to is not after from")
                spans[cells["sensor"], cells.get("variable", "")].append(span)
        times = {}
        for channel, entries in readings.items():
            entries.sort()
            times[channel] = np.array([time for time, _ in entries]), np.array([is_wrong for _, is_wrong in entries])
        return cls(dict(spans), times)

    def of(
        self, sensor: str, variable: str, time: NDArray[np.int64], step: int, early: int
    ) -> tuple[BoolArray, BoolArray]:
        """Return which slots of a channel, by their starts in order, are compared, and which are wrong."""
        names = {(sensor, variable), (sensor, ""), ("*", variable), ("*", "")}
        wrong = np.zeros(time.size, dtype=bool)
        if not self.times:
            for start, end in (span for name in names for span in self.spans.get(name, ())):
                wrong |= (time + step > start) & (time < end)
            return np.ones(time.size, dtype=bool), wrong
        compared = np.zeros(time.size, dtype=bool)
        for labelled, is_wrong in (self.times[name] for name in names if name in self.times):
            slot = np.searchsorted(time, labelled + early, side="right") - 1
            inside = (slot >= 0) & (labelled + early < time[slot] + step)
            compared[slot[inside]] = True
            wrong[slot[inside & is_wrong]] = True
        return compared, wrong


def _time(text: str, where: str, default: int) -> int:
    if not text and default:
        return default
    try:
        return time_of(text)
    except ValueError:
        raise ConfigError(f"{where}: a time is written like 2020-03-01 or 2020-03-01T06:00; got {text!r}") from None
