"""`judge` scores what `clean` makes of a real archive: against its owners' labels, and by what must never happen.

An archive is a Parquet file of readings: time, sensor, variable, value. Where its owners judged them it also has
`label`, and `corrected` where they gave another value. `LABELS` says which labels count as good, wrong or neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from sensormend.bench.data import data_folders
from sensormend.errors import InputError, SensormendError
from sensormend.io.folder import data_files
from sensormend.io.sql import literal, read_parquet
from sensormend.pipeline.faults import FaultInterval
from sensormend.readings import Flag, IntArray
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "EDGES",
    "LABELS",
    "Agreement",
    "ArchiveScores",
    "Change",
    "ConfidenceBin",
    "Distance",
    "Impossible",
    "JudgedFault",
    "JudgedReadings",
    "Share",
    "VariableShare",
    "agreement",
    "calibration",
    "changes",
    "clean_readings",
    "distances",
    "draw_faults",
    "find_archives",
    "impossible_estimates",
    "judge",
    "judge_faults",
    "read_judged",
    "runs_of",
    "write_readings",
]

GOOD = ""
WRONG = ("bad", "corrected", "maintenance")
UNSCORED = ("suspect", "moved", "event", "pair", "unknown")
"""Labels that count neither as good nor as wrong; `unknown` is where the owners said nothing."""

LABELS = (GOOD, *WRONG, *UNSCORED)
"""The labels; `JudgedReadings.label` is an index. A label that is not among them is read as `unknown`."""

TRUE_EVENTS = ("event", "pair")
"""Labels of what was odd but true: none of it should be flagged."""

FEW_READINGS = 500
"""Shares are not listed for a variable or a channel with at most this many readings."""

SHORT_SERIES = 100
"""The total of a series is compared where it has more readings than this."""

MARGIN = 0.1
"""How far outside of the range of sound readings an estimate may be, as a share of this range."""

SAME = 1e-6
"""A cleaned value is the reading where they differ by no more than this."""

EDGES = (0.0, 0.5, 0.7, 0.85, 0.95, 1.0)
"""The bins of confidence; each has its lower edge, the last one both."""

_PROGRAM = "import sys; from sensormend.cli import main; sys.exit(main())"
_HUMIDITY = re.compile("^rh|humid")
_RAIN = re.compile("rain|ppt|precip")


def find_archives(names: Sequence[str] = ()) -> dict[str, Path]:
    """Return the archives in the folder `real` of the data, all or those of these names, by name."""
    folders = [folder / "real" for folder in data_folders()]
    files = next((files for folder in folders if (files := sorted(folder.glob("*.parquet")))), [])
    if not files:
        raise SensormendError(f"no archives in {folders[0]}: set SENSORMEND_DATA to the folder that has real/*.parquet")
    known = {file.stem: file for file in files}
    for name in names:
        if name not in known:
            raise InputError(f"no archive {name!r}; there are {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def write_readings(archive: Path, target: Path) -> None:
    """Write the readings of an archive without anything its owners said about them, in order of time."""
    duckdb.execute(
        f"""copy (select time, sensor::varchar as sensor, variable::varchar as variable, value
                  from {read_parquet([archive])} where value is not null order by time)
            to {literal(target)} (format parquet)"""
    )


def clean_readings(readings: Path, out: Path, options: Sequence[str] = ()) -> None:
    """Run `sensormend clean READINGS OUT` in a process of its own.

    Raises
    ------
    SensormendError
        It stopped: the end of what it wrote.
    """
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "clean", str(readings), str(out), *options],
        env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        text = ended.stderr.strip() or ended.stdout.strip()
        # Its message, without the progress before it; of a crash, the end.
        raise SensormendError(" ".join(text[text.rfind("\nsensormend: ") + 1 :].split())[-400:])


@dataclass(frozen=True)
class JudgedReadings:
    """The readings of an archive by channel and time, each with its owners' label and with the row of its slot.

    Attributes
    ----------
    channels
        Sensor and variable of each channel.
    reasons
        The texts that `reason` is an index of.
    channel, time
        The channel, ascending, and the microseconds of each reading.
    value, label, corrected
        What was read, the index of its label, and the owners' value; NaN where they gave none.
    slot, flag, cleaned, reason
        Of the row with this reading: the start of its slot, and what was made of it. The flag is 0 and the rest means
        nothing where there is no such row.
    estimate_variable, estimates
        Of every row, with a reading or without, whose cleaned value is not what was read: its variable and this value.
    step
        The step of the grid, microseconds.
    """

    channels: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    channel: IntArray
    time: IntArray
    value: FloatArray
    label: IntArray
    corrected: FloatArray
    slot: IntArray
    flag: IntArray
    cleaned: FloatArray
    reason: IntArray
    estimate_variable: NDArray[np.str_]
    estimates: FloatArray
    step: int = 0

    def labelled(self, *names: str) -> BoolArray:
        """Return which readings have one of these labels."""
        return np.isin(self.label, [LABELS.index(name) for name in names])

    @cached_property
    def good(self) -> BoolArray:
        """Which readings their owners left as they are."""
        return self.labelled(GOOD)

    @cached_property
    def wrong(self) -> BoolArray:
        """Which readings their owners removed or changed."""
        return self.labelled(*WRONG)

    @cached_property
    def flagged(self) -> BoolArray:
        """Which readings are judged wrong; one that was taken for a fill value is, too."""
        return np.isin(self.flag, (Flag.FAIL, Flag.MISSING))

    @cached_property
    def suspect(self) -> BoolArray:
        """Which readings are doubtful."""
        return np.asarray(self.flag == Flag.SUSPECT)

    @cached_property
    def variables(self) -> dict[str, BoolArray]:
        """Which readings are of each variable, by name."""
        of_channel = np.array([variable for _, variable in self.channels])
        return {name: (of_channel == name)[self.channel] for name in sorted({*of_channel.tolist()})}

    def by_channel(self) -> Iterator[tuple[str, str, slice]]:
        """Yield sensor, variable and the readings of each channel."""
        edges = np.searchsorted(self.channel, np.arange(len(self.channels) + 1)).tolist()
        for (sensor, variable), (first, end) in zip(self.channels, pairwise(edges), strict=True):
            yield sensor, variable, slice(first, end)


def read_judged(archive: Path, out: Path) -> JudgedReadings:
    """Read an archive together with the rows of its OUT; a slot may hold several readings."""
    with duckdb.connect() as connection:
        raw, rows = read_parquet([archive]), read_parquet(data_files(out), "union_by_name = true")
        columns, of_rows = (
            {name for name, *_ in connection.execute(f"describe select * from {table}").fetchall()}
            for table in (raw, rows)
        )
        label = "coalesce(label::varchar, 'unknown')" if "label" in columns else "'unknown'"
        connection.execute(
            f"""create table readings as
                select sensor::varchar as sensor, variable::varchar as variable, time::timestamp as time,
                       value::double as value, {label} as label,
                       {"corrected" if "corrected" in columns else "null"}::double as corrected
                from {raw} where value is not null"""
        )
        # An OUT of one variable does not name it.
        variable = "variable" if "variable" in of_rows else "(select any_value(variable) from readings)"
        connection.execute(
            f"""create table out_rows as
                select sensor::varchar as sensor, {variable}::varchar as variable, time::timestamp as time,
                       flag, cleaned, value, coalesce(reason, '') as reason
                from {rows}"""
        )
        step = connection.execute(
            """select coalesce(epoch_us(mode(gap)), 0)
               from (select lead(time) over (partition by sensor, variable order by time) - time as gap
                     from out_rows)"""
        ).fetchall()[0][0]
        channels = connection.execute("select distinct sensor, variable from readings order by all").fetchall()
        reasons = [reason for (reason,) in connection.execute("select distinct reason from out_rows").fetchall()]
        connection.execute("create table channels (channel integer, sensor varchar, variable varchar)")
        connection.executemany(
            "insert into channels values (?, ?, ?)", [(place, *names) for place, names in enumerate(channels)]
        )
        table = connection.execute(
            f"""select channel, epoch_us(l.time) as time, l.value, l.corrected,
                       coalesce(list_position({list(LABELS)}, l.label), {len(LABELS)}) - 1 as label,
                       coalesce(epoch_us(r.time), -1) as slot, coalesce(r.cleaned, 'nan'::double) as cleaned,
                       coalesce(case when epoch_us(l.time) < epoch_us(r.time) + {step} then r.flag end, 0) as flag,
                       coalesce(list_position($reasons, r.reason), 1) - 1 as reason
                from readings l join channels using (sensor, variable)
                asof left join out_rows r
                  on r.sensor = l.sensor and r.variable = l.variable and r.time <= l.time
                order by channel, l.time""",
            {"reasons": reasons},
        ).fetchnumpy()
        estimates = connection.execute(
            f"""select variable, cleaned from out_rows
                where cleaned is not null and (value is null or abs(cleaned - value) > {SAME})"""
        ).fetchnumpy()
    integers = {name: np.asarray(table[name]).astype(np.int64) for name in ("channel", "time", "slot")}
    codes = {name: np.asarray(table[name]).astype(np.int8) for name in ("label", "flag", "reason")}
    cleaned = np.where(codes["flag"] == 0, np.nan, _filled(table["cleaned"]))
    return JudgedReadings(
        channels=tuple(channels),
        reasons=tuple(reasons) or ("",),
        channel=integers["channel"],
        time=integers["time"],
        value=_filled(table["value"]),
        label=codes["label"],
        corrected=_filled(table["corrected"]),
        slot=integers["slot"],
        flag=codes["flag"],
        cleaned=cleaned,
        reason=codes["reason"],
        estimate_variable=np.asarray(estimates["variable"]).astype(np.str_),
        estimates=_filled(estimates["cleaned"]),
        step=int(step),
    )


def _filled(column: NDArray[np.float64]) -> FloatArray:
    return np.ma.filled(np.ma.asarray(column).astype(float), np.nan)


@dataclass(frozen=True)
class Share:
    """A name with a share of some readings, and the number of these readings."""

    name: str
    share: float
    readings: int


@dataclass(frozen=True)
class VariableShare:
    """The shares of a variable's readings with flag 4 and with flag 3."""

    variable: str
    flagged: float
    suspect: float


@dataclass(frozen=True)
class Agreement:
    """How the flags agree with the labels, by reading and by event, which is a run of readings of a channel.

    Attributes
    ----------
    precision, recall
        The share of wrong labels among flagged readings, and of flagged ones among those with wrong labels.
    labelled
        The share of scored readings that have wrong labels.
    recall_of
        The recall of each wrong label.
    event_precision, flagged_events
        The share of runs of flagged readings that touch a wrong label, and the number of these runs.
    event_recall, labelled_events
        The share of runs of wrong labels in which a reading is flagged, and the number of these runs.
    """

    precision: float
    recall: float
    labelled: float
    recall_of: dict[str, float]
    event_precision: float
    flagged_events: int
    event_recall: float
    labelled_events: int


@dataclass(frozen=True)
class Impossible:
    """Estimates of a variable that cannot be: their number, the lowest and the highest of them."""

    variable: str
    count: int
    lowest: float
    highest: float


@dataclass(frozen=True)
class Change:
    """By how much `cleaned` changes a series: its total where it is never negative, else its mean over its spread."""

    sensor: str
    variable: str
    change: float

    @property
    def is_rain(self) -> bool:
        """Whether the series is rain, of which the total matters most."""
        return _RAIN.search(self.variable.lower()) is not None


@dataclass(frozen=True)
class Distance:
    """How far raw and cleaned values are from the owners' values on average, over the spread of the channel."""

    name: str
    raw: float
    cleaned: float
    readings: int


@dataclass(frozen=True)
class ArchiveScores:
    """What was made of an archive.

    Attributes
    ----------
    flagged, suspect
        The share of good readings with flag 4 and with flag 3; of all readings where the archive has no labels.
    variables
        The same by variable, worst first; of labelled archives those with more than `FEW_READINGS` good readings.
    agreement
        None where the archive has no labels.
    reasons
        The reasons of good readings with flag 4, most frequent first.
    channels
        The channels in which most good readings have flag 4.
    true_events
        The share of flagged readings among those with the labels in `TRUE_EVENTS`.
    impossible
        The variables with estimates that cannot be, most first.
    changes
        The change of every series, largest first.
    distances, distances_by_variable
        Empty where the owners gave no values. Of all readings, of those with flag 4, and of wrong ones.
    """

    flagged: float
    suspect: float
    variables: tuple[VariableShare, ...]
    agreement: Agreement | None
    reasons: tuple[Share, ...]
    channels: tuple[Share, ...]
    true_events: tuple[Share, ...]
    impossible: tuple[Impossible, ...]
    changes: tuple[Change, ...]
    distances: tuple[Distance, ...] = ()
    distances_by_variable: tuple[Distance, ...] = ()


def judge(readings: JudgedReadings) -> ArchiveScores:
    """Return all scores of an archive."""
    labelled = bool(readings.wrong.any())
    judged = readings.good if labelled else ~readings.labelled(*TRUE_EVENTS)
    # A reading without a row is not flagged. Among labelled ones it does not count for the share of suspect ones.
    of_suspect = judged & (readings.flag > 0) if labelled else judged
    variables = [
        VariableShare(name, _mean(readings.flagged[chosen]), _mean(readings.suspect[chosen & of_suspect]))
        for name, of_variable in readings.variables.items()
        if (chosen := of_variable & judged).sum() > (FEW_READINGS if labelled else 0)
    ]
    has_values = bool(np.isfinite(readings.corrected).any())
    return ArchiveScores(
        flagged=_mean(readings.flagged[judged]),
        suspect=_mean(readings.suspect[of_suspect]),
        variables=tuple(sorted(variables, key=lambda share: -share.flagged)),
        agreement=agreement(readings) if labelled else None,
        reasons=_reasons(readings),
        channels=_channels(readings),
        true_events=tuple(
            Share(name, _mean(readings.flagged[chosen]), int(chosen.sum()))
            for name in TRUE_EVENTS
            if (chosen := readings.labelled(name)).any()
        ),
        impossible=impossible_estimates(readings),
        changes=changes(readings),
        distances=distances(readings) if has_values else (),
        distances_by_variable=distances(readings, by_variable=True) if has_values else (),
    )


def _mean(values: BoolArray | FloatArray) -> float:
    return float(values.mean()) if values.size else 0.0


def _reasons(readings: JudgedReadings) -> tuple[Share, ...]:
    reason = readings.reason[readings.flagged & readings.labelled(GOOD, "unknown")]
    counts = np.bincount(reason, minlength=len(readings.reasons))
    return tuple(
        Share(readings.reasons[place] or "-", float(counts[place] / len(reason)), int(counts[place]))
        for place in np.argsort(-counts, kind="stable").tolist()
        if counts[place]
    )


def _channels(readings: JudgedReadings) -> tuple[Share, ...]:
    chosen = readings.labelled(GOOD, "unknown")
    shares = [
        Share(f"{sensor} {variable}", _mean(readings.flagged[place][chosen[place]]), int(chosen[place].sum()))
        for sensor, variable, place in readings.by_channel()
    ]
    long = (share for share in shares if share.readings > FEW_READINGS)
    return tuple(sorted(long, key=lambda share: -share.share * share.readings))


def runs_of(mask: BoolArray, channel: IntArray) -> IntArray:
    """Return the number of the run that each reading is in, from 1, and 0 outside of the mask.

    Examples
    --------
    >>> runs_of(np.array([True, True, False, True, True]), np.array([0, 0, 0, 0, 1])).tolist()
    [1, 1, 0, 2, 3]
    """
    first = mask.copy()
    first[1:] &= ~mask[:-1] | (channel[1:] != channel[:-1])
    return np.where(mask, np.cumsum(first), 0)


def agreement(readings: JudgedReadings) -> Agreement:
    """Return how flags and labels agree; readings whose labels are not scored are as if they did not exist."""
    scored = readings.good | readings.wrong
    wrong, flagged, channel = readings.wrong[scored], readings.flagged[scored], readings.channel[scored]
    both = wrong & flagged

    def events(mask: BoolArray) -> tuple[float, int]:
        runs = runs_of(mask, channel)
        count = int(runs.max(initial=0))
        return len(np.unique(runs[both])) / max(count, 1), count

    event_precision, flagged_events = events(flagged)
    event_recall, labelled_events = events(wrong)
    return Agreement(
        precision=_mean(wrong[flagged]),
        recall=_mean(flagged[wrong]),
        labelled=_mean(wrong),
        recall_of={
            name: _mean(readings.flagged[chosen]) for name in WRONG if (chosen := readings.labelled(name)).any()
        },
        event_precision=event_precision,
        flagged_events=flagged_events,
        event_recall=event_recall,
        labelled_events=labelled_events,
    )


def impossible_estimates(readings: JudgedReadings) -> tuple[Impossible, ...]:
    """Return the estimates that cannot be, by variable, most first.

    Such an estimate is outside of the range of sound readings by more than a tenth of this range, or negative where no
    sound reading is, or a humidity above 100 % where hardly any sound reading is. Sound are the readings that their
    owners left, else those with flag 1.
    """
    sound = readings.good if readings.good.any() else readings.flag == Flag.GOOD
    result = []
    for name, of_variable in readings.variables.items():
        values, estimates = readings.value[of_variable & sound], readings.estimates[readings.estimate_variable == name]
        if not values.size:
            continue
        low, high = values.min(), values.max()
        margin = MARGIN * (high - low)
        outside = (estimates < low - margin) | (estimates > high + margin)
        if low >= 0:
            outside |= estimates < 0
        if _HUMIDITY.search(name.lower()) and np.quantile(values, 0.999) <= 100:
            outside |= estimates > 100
        if outside.any():
            beyond = estimates[outside]
            result.append(Impossible(name, len(beyond), float(beyond.min()), float(beyond.max())))
    return tuple(sorted(result, key=lambda entry: -entry.count))


def changes(readings: JudgedReadings) -> tuple[Change, ...]:
    """Return by how much each series is changed where nobody calls it wrong, largest first; NaN comes last."""
    chosen = ~readings.wrong & np.isfinite(readings.cleaned)
    result = []
    for sensor, variable, place in readings.by_channel():
        raw, cleaned = readings.value[place][chosen[place]], readings.cleaned[place][chosen[place]]
        if len(raw) <= SHORT_SERIES:
            continue
        if raw.min() >= 0:
            change = _ratio(cleaned.sum(), raw.sum()) - 1
        else:
            change = _ratio(cleaned.mean() - raw.mean(), _spread(raw))
        result.append(Change(sensor, variable, float(change)))
    return tuple(sorted(result, key=lambda entry: -np.nan_to_num(abs(entry.change), nan=-1.0)))


def _spread(values: FloatArray) -> float:
    low, high = np.quantile(values, (0.05, 0.95))
    return float(high - low)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else np.nan


def distances(readings: JudgedReadings, *, by_variable: bool = False) -> tuple[Distance, ...]:
    """Return how far raw and cleaned values are from the owners': of all readings and of some, or by variable.

    The owners' value of a good reading is the reading itself. The spread is that of the channel's good readings, from
    their 5 % to their 95 % quantile.
    """
    truth = np.where(readings.good, readings.value, np.nan)
    truth = np.where(np.isfinite(readings.corrected), readings.corrected, truth)
    chosen = np.isfinite(truth) & np.isfinite(readings.cleaned)
    spread = np.full(len(truth), np.nan)
    for _, _, place in readings.by_channel():
        good = readings.value[place][readings.good[place]]
        if good.size:
            spread[place] = _spread(good) or np.nan
        else:
            chosen[place] = False
    raw, cleaned = np.abs(readings.value - truth) / spread, np.abs(readings.cleaned - truth) / spread
    if by_variable:
        groups = readings.variables
    else:
        everything = np.ones(len(truth), dtype=bool)
        groups = {"all": everything, "flag 4": readings.flag == Flag.FAIL, "wrong readings": raw > SAME}
    return tuple(
        Distance(name, _mean_of_finite(raw[group]), _mean_of_finite(cleaned[group]), int(group.sum()))
        for name, members in groups.items()
        if np.isfinite(raw[group := members & chosen]).any()
    )


def _mean_of_finite(values: FloatArray) -> float:
    return float(values[np.isfinite(values)].mean())


@dataclass(frozen=True)
class JudgedFault:
    """A fault with the readings of its slots.

    Attributes
    ----------
    channel, place
        Its channel, and its readings.
    failed, suspect
        The number of its readings with flag 4 and with flag 3.
    scored, wrong
        Of those with flag 4, or with flag 3 where it has none, how many have a label that counts, and a wrong one.
    """

    fault: FaultInterval
    channel: int
    place: slice
    failed: int
    suspect: int
    scored: int
    wrong: int

    @property
    def confirmed(self) -> bool:
        """Whether at least half of what is scored has a wrong label."""
        return self.scored > 0 and 2 * self.wrong >= self.scored


def judge_faults(readings: JudgedReadings, faults: Sequence[FaultInterval]) -> list[JudgedFault]:
    """Return the faults that have flagged readings, each with its readings and their labels."""
    single = readings.channels[0][1] if len({variable for _, variable in readings.channels}) == 1 else ""
    spans = {(sensor, variable): span for sensor, variable, span in readings.by_channel()}
    scored = readings.good | readings.wrong
    result = []
    for fault in faults:
        # A sensor that is silent has a line without a variable, and no readings.
        names = fault.sensor, fault.variable or single
        if names not in spans:
            continue
        span = spans[names]
        slots = readings.slot[span]
        first, end = np.searchsorted(slots, (fault.start, max(fault.end, fault.start + 1))).tolist()
        place = slice(span.start + first, span.start + end)
        flag = readings.flag[place]
        failed, suspect = int((flag == Flag.FAIL).sum()), int((flag == Flag.SUSPECT).sum())
        if not failed and not suspect:
            continue
        counted = (flag == (Flag.FAIL if failed else Flag.SUSPECT)) & scored[place]
        wrong = int(readings.wrong[place][counted].sum())
        channel = readings.channels.index(names)
        result.append(JudgedFault(fault, channel, place, failed, suspect, int(counted.sum()), wrong))
    return result


@dataclass(frozen=True)
class ConfidenceBin:
    """The faults whose confidence is from `low` to `high`, both NaN for those without one.

    Attributes
    ----------
    faults, readings
        How many there are, and how many scored readings they have.
    confidence
        The mean of their confidence.
    confirmed, confirmed_readings
        The share that is confirmed: of the faults, and of the faults weighted by their scored readings.
    """

    low: float
    high: float
    faults: int
    readings: int
    confidence: float
    confirmed: float
    confirmed_readings: float


def calibration(faults: Sequence[JudgedFault]) -> list[ConfidenceBin]:
    """Return the bins of `EDGES` that have faults with scored readings; last those without a confidence."""
    faults = [fault for fault in faults if fault.scored]
    confidence = np.array([fault.fault.confidence for fault in faults])
    weight = np.array([fault.scored for fault in faults], dtype=float)
    confirmed = np.array([fault.confirmed for fault in faults], dtype=float)
    bins = []
    for low, high in (*pairwise(EDGES), (np.nan, np.nan)):
        if np.isnan(low):
            members = np.isnan(confidence)
        else:
            members = (confidence >= low) & ((confidence < high) | (high == EDGES[-1]))
        if members.any():
            bins.append(
                ConfidenceBin(
                    low=low,
                    high=high,
                    faults=int(members.sum()),
                    readings=int(weight[members].sum()),
                    confidence=float(confidence[members].mean()),
                    confirmed=float(confirmed[members].mean()),
                    confirmed_readings=float(np.average(confirmed[members], weights=weight[members])),
                )
            )
    return bins


def draw_faults(faults: Sequence[JudgedFault], count: int, seed: int = 0) -> list[JudgedFault]:
    """Return faults drawn at random, none twice, in proportion to their readings with flag 4, in order of time.

    Where fewer than `count` have such readings, the rest is drawn in proportion to the readings with flag 3.
    """
    random = np.random.default_rng(seed)
    drawn: list[int] = []
    for weight in (
        np.array([fault.failed for fault in faults], dtype=float),
        np.array([0 if fault.failed else fault.suspect for fault in faults], dtype=float),
    ):
        number = min(count - len(drawn), int((weight > 0).sum()))
        if number:
            drawn += random.choice(len(faults), number, replace=False, p=weight / weight.sum()).tolist()
    return sorted((faults[place] for place in drawn), key=lambda fault: (fault.fault.start, fault.channel))
