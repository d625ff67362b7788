"""`compare` scores the flags of an output against labels of people; `owner_agreement` against its owners' flags."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.files import open_text, read_table
from sensormend.io.folder import Archive
from sensormend.io.sources import listed
from sensormend.pipeline.channel_states import ChannelName
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.maintenance import EVER, as_time
from sensormend.pipeline.owner_flags import only_faults, says_wrong, words, wrong_flags
from sensormend.readings import DAY, HOUR, Flag, Rows
from sensormend.recovery import BoolArray
from sensormend.views.reader import OutReader, finite, page_of, utc

__all__ = ["Agreement", "Comparison", "Differences", "OwnerAgreement", "compare", "owner_agreement"]

SPAN = 31 * DAY
"""The rows that are in memory at a time."""


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


@dataclass(frozen=True)
class Agreement:
    """The scores of one variable against its owners' flags; null where they are not known."""

    variable: str
    readings: int
    labelled: int
    flagged: int
    both: int
    precision: float | None
    recall: float | None
    good_flagged: float | None


@dataclass(frozen=True)
class Differences:
    """The readings of a channel that only we or only the owners call wrong.

    Attributes
    ----------
    ours, theirs
        How many they are.
    start, end
        The longest run of them.
    """

    sensor: str
    variable: str
    ours: int
    theirs: int
    start: str | None
    end: str | None


@dataclass(frozen=True)
class OwnerAgreement:
    """Our flags against those that came with the readings.

    Attributes
    ----------
    wrong, others
        The flags that are taken to say that a reading is wrong, and the others.
    variables
        The scores by variable, the last one of all of them where there are several.
    total, offset, next
        Number of channels that differ, the offset of this page, and that of the next one.
    items
        The page, those with most differences first.
    """

    wrong: list[str]
    others: list[str]
    variables: list[Agreement]
    total: int
    offset: int
    next: int | None
    items: list[Differences]


def compare(
    out: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None, wrong: Sequence[str] = ()
) -> list[Comparison]:
    """Compare the flags of an output with labels, by variable; the last entry is all of them, where there are several.

    Parameters
    ----------
    out
        The output folder of `clean` or `watch`.
    labels
        A CSV file, of spans in which a sensor is wrong: sensor, from, to; all other readings are good. Or of readings:
        sensor, time, flag; only these are compared. In both a column variable, where there are several. By default the
        flags that came with the readings.
    wrong
        The flags of readings that say that one is wrong.
    """
    counts: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.zeros(6, dtype=np.int64))
    with Archive(out) as archive:
        chosen = words(wrong) or wrong_flags(archive.run())
        if labels is None:
            _check_owner_flags(archive, chosen)
            parts: Iterable[tuple[Rows, BoolArray, BoolArray]] = _owned(archive, chosen)
        else:
            parts = _labelled(archive, _Labels.read(Path(labels), chosen))
        for rows, compared, is_wrong in parts:
            _count(rows, compared, is_wrong, counts)
    if not counts:
        raise ConfigError(
            f"{labels or 'the owners'} labels no reading of {out}; are its times in UTC, and its names those of "
            "sensors.csv?"
        )
    return _lines(counts)


def owner_agreement(reader: OutReader, *, offset: int = 0, limit: int = 20) -> OwnerAgreement:
    """Compare the flags of an output folder with those that came with the readings, by variable and by channel."""
    lines, differing = reader.cached("owner agreement", (reader.rows_seen, reader.run), lambda: _agreement(reader))
    flags, chosen = _flags_of(reader.run), wrong_flags(reader.run)
    page, following = page_of(differing, offset, limit)
    return OwnerAgreement(
        [word for word in flags if says_wrong(word, chosen)],
        [word for word in flags if not says_wrong(word, chosen)],
        lines, len(differing), offset, following, list(page),
    )  # fmt: skip


def _flags_of(run: Mapping[str, Any]) -> list[str]:
    flags = run.get("owner_flags")
    return [str(flag) for flag in flags] if isinstance(flags, list) else []


def _check_owner_flags(archive: Archive, wrong: Collection[str]) -> None:
    """Refuse an output whose readings came without flags, or with flags of which none says that a reading is wrong."""
    flags = _flags_of(archive.run())
    if not flags:
        raise ConfigError(
            f"the readings of {archive.path.name} came without flags: name a file with labels, or give clean the "
            "column with the owners' flags as --owner-flag"
        )
    if not any(says_wrong(word, wrong) for word in flags):
        raise ConfigError(
            f"none of the owners' flags is known to say that a reading is wrong: {listed(flags)}; name those that do "
            "with --wrong"
        )


def _owned(archive: Archive, wrong: Collection[str]) -> Iterator[tuple[Rows, BoolArray, BoolArray]]:
    """Yield all rows, which of them the owners judged, and which of these they call wrong.

    They judged what has a flag; where they flag only what is odd, all readings.
    """
    all_judged = only_faults(_flags_of(archive.run()))
    for rows in _spans(archive):
        if rows.owner is not None:
            meaning = np.array([says_wrong(word, wrong) for word in rows.owner_flags])
            yield rows, (rows.owner > 0) | all_judged, meaning[rows.owner]


def _labelled(archive: Archive, labels: _Labels) -> Iterator[tuple[Rows, BoolArray, BoolArray]]:
    """Yield all rows, which of them are labelled, and which of these are wrong."""
    grid = Grid.of_run(archive.run()) or Grid(HOUR, DAY)
    unknown = sorted({sensor for sensor, _ in labels.channels} - {*archive.names, "*"})
    if unknown:
        archive.check_sensor(unknown[0])
    for rows in _spans(archive):
        compared, wrong = np.zeros((2, len(rows)), dtype=bool)
        for sensor, variable, own in rows.channels():
            compared[own], wrong[own] = labels.of(sensor, variable, rows.time[own], grid.step, grid.early)
        yield rows, compared, wrong


def _spans(archive: Archive) -> Iterator[Rows]:
    first, last = archive.span() or (0, -1)
    for start in range(first, last + 1, SPAN):
        yield archive.rows(start=start, end=start + SPAN)


def _used(rows: Rows, compared: BoolArray) -> BoolArray:
    used: BoolArray = (rows.n > 0) & compared & (rows.flag != Flag.MISSING)
    return used


def _count(rows: Rows, compared: BoolArray, wrong: BoolArray, counts: dict[str, NDArray[np.int64]]) -> None:
    """Add the counts of `Comparison` by variable."""
    fail = rows.flag == Flag.FAIL
    used = _used(rows, compared)
    masks = (wrong | True, wrong, fail, wrong & fail, rows.flag == Flag.SUSPECT, rows.flag == Flag.NOT_EVALUATED)
    by_variable = [np.bincount(rows.variable[used & mask], minlength=len(rows.variables)) for mask in masks]
    for number, variable in enumerate(rows.variables):
        if by_variable[0][number]:
            counts[variable] += np.array([count[number] for count in by_variable])


def _lines(counts: Mapping[str, NDArray[np.int64]]) -> list[Comparison]:
    lines = [Comparison(variable, *map(int, parts)) for variable, parts in sorted(counts.items())]
    if len(lines) > 1:
        lines.append(Comparison("all", *map(int, np.sum(list(counts.values()), axis=0))))
    return lines


def _agreement(reader: OutReader) -> tuple[list[Agreement], list[Differences]]:
    counts: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.zeros(6, dtype=np.int64))
    differing: dict[ChannelName, tuple[int, int, tuple[int, int]]] = {}
    archive = reader.archive
    for rows, compared, wrong in _owned(archive, wrong_flags(reader.run)) if archive is not None else ():
        _count(rows, compared, wrong, counts)
        fail = rows.flag == Flag.FAIL
        differs = _used(rows, compared) & (fail != wrong)
        for sensor, variable, own in rows.taken(differs).channels():
            own = np.flatnonzero(differs)[own]
            ours, theirs, longest = differing.get((sensor, variable), (0, 0, (0, 0)))
            ours, theirs = ours + int(fail[own].sum()), theirs + int(wrong[own].sum())
            differing[sensor, variable] = ours, theirs, max(longest, _longest(rows.time[own], reader.step), key=_length)
    lines = [
        Agreement(line.variable, line.readings, line.labelled, line.flagged, line.both,
                  *map(finite, (line.precision, line.recall, line.good_flagged)))
        for line in _lines(counts)
    ]  # fmt: skip
    worst = sorted(differing.items(), key=lambda entry: (-entry[1][0] - entry[1][1], entry[0]))
    return lines, [Differences(*name, ours, theirs, utc(run[0]), utc(run[1])) for name, (ours, theirs, run) in worst]


def _longest(times: NDArray[np.int64], step: int) -> tuple[int, int]:
    """Return the start and the end of the longest run of slots."""
    edges = [0, *(np.flatnonzero(np.diff(times) > step) + 1).tolist(), times.size]
    return max(((int(times[begin]), int(times[end - 1]) + step) for begin, end in pairwise(edges)), key=_length)


def _length(run: tuple[int, int]) -> int:
    return run[1] - run[0]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels by channel: spans that are wrong, or times of readings and whether they are; `*` is every sensor."""

    spans: dict[ChannelName, list[tuple[int, int]]]
    times: dict[ChannelName, tuple[NDArray[np.int64], BoolArray]]

    @property
    def channels(self) -> set[ChannelName]:
        return {*self.spans, *self.times}

    @classmethod
    def read(cls, path: Path, wrong: Collection[str]) -> _Labels:
        try:
            with open_text(path, "utf-8-sig") as file:
                header = {name.strip().lower() for name in file.readline().split(",")}
        except (OSError, UnicodeDecodeError) as error:
            why = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or error
            raise ConfigError(f"{path} cannot be read: {why}") from None
        spans: dict[ChannelName, list[tuple[int, int]]] = defaultdict(list)
        readings: dict[ChannelName, list[tuple[int, bool]]] = defaultdict(list)
        if "time" in header:
            if header.isdisjoint(("flag", "label")):
                raise ConfigError(
                    f"{path} has times without flags: it needs sensor, time, flag, or spans: sensor, from, to"
                )
            for where, cells in read_table(path, {"sensor": (), "time": (), "flag": ("label",)}):
                time = as_time(cells["time"], f"{where}, time")
                readings[cells["sensor"], cells.get("variable", "")].append((time, says_wrong(cells["flag"], wrong)))
        else:
            for where, cells in read_table(path, {"sensor": (), "from": (), "to": ()}):
                start = as_time(cells["from"], f"{where}, from") if cells["from"] else -EVER
                end = as_time(cells["to"], f"{where}, to") if cells["to"] else EVER
                if end <= start:
                    raise ConfigError(f"{where}: to is not after from")
                spans[cells["sensor"], cells.get("variable", "")].append((start, end))
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
