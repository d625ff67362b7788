"""`judge` scores what `clean` makes of a real archive: against its owners' labels, and by what must never happen.

An archive is a Parquet file of readings: time, sensor, variable, value. Where its owners judged them it also has
`label`, and `corrected` where they gave another value. `LABELS` says which labels count as good, wrong or neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from sensormend.bench.data import data_folders
from sensormend.errors import InputError, SensormendError
from sensormend.io.folder import data_files
from sensormend.io.metadata import read_json
from sensormend.io.sql import literal, read_parquet
from sensormend.pipeline.faults import FaultInterval
from sensormend.readings import SECOND, Flag

__all__ = [
    "EDGES",
    "LABELS",
    "Agreement",
    "ArchiveScores",
    "JudgedFault",
    "JudgedReadings",
    "agreement",
    "calibration",
    "changes",
    "clean_readings",
    "distances",
    "draw_faults",
    "find_archives",
    "impossible_estimates",
    "is_rain",
    "judge",
    "judge_faults",
    "number_runs",
    "read_judged",
    "write_readings",
]  # fmt: skip

GOOD = ""
WRONG = ("bad", "corrected", "maintenance")
UNSCORED = ("suspect", "moved", "event", "pair", "unknown")
"""Labels that count neither as good nor as wrong; `unknown` is where the owners said nothing."""

LABELS = (GOOD, *WRONG, *UNSCORED)
"""The labels. One that is not among them is read as `unknown`."""

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

Frame = Any
"""A `pandas.DataFrame`."""


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


@dataclass(frozen=True, eq=False)
class JudgedReadings:
    """The readings of an archive, each with its owners' label and with the row of its slot.

    Attributes
    ----------
    rows
        By sensor, variable and time: `channel` (a number), `sensor`, `variable`, `time` (microseconds), `value`,
        `label`, `corrected` (the owners' value); of the row with this reading `slot` (its start), `flag`, `cleaned`
        and `reason`. The flag is 0 and the rest means nothing where there is no such row.
    estimates
        `variable` and `value` of every row, with a reading or without, whose cleaned value is not what was read.
    step
        The step of the grid, microseconds.
    """

    rows: Frame
    estimates: Frame
    step: int = 0

    @cached_property
    def good(self) -> Any:
        """Which readings their owners left as they are."""
        return self.rows["label"] == GOOD

    @cached_property
    def wrong(self) -> Any:
        """Which readings their owners removed or changed."""
        return self.rows["label"].isin(WRONG)

    @cached_property
    def flagged(self) -> Any:
        """Which readings are judged wrong; one that was taken for a fill value is, too."""
        return self.rows["flag"].isin([Flag.FAIL, Flag.MISSING])

    @cached_property
    def spans(self) -> dict[tuple[str, str], slice]:
        """The places of the readings of each channel, by sensor and variable."""
        names = self.rows.drop_duplicates("channel")[["sensor", "variable"]].itertuples(index=False, name=None)
        edges = [*np.flatnonzero(np.diff(self.rows["channel"], prepend=-1)).tolist(), len(self.rows)]
        return {name: slice(*span) for name, span in zip(names, pairwise(edges), strict=True)}

    def by_channel(self) -> Any:
        """Return the readings grouped by sensor and variable."""
        return self.rows.groupby(["sensor", "variable"], sort=False, observed=True)


def read_judged(archive: Path, out: Path) -> JudgedReadings:
    """Read an archive together with the rows of its output folder; a slot may hold several readings.

    Where times scatter around the full hour, a reading shortly before it belongs to the slot that begins then.
    """
    early = round(read_json(out / "run.json").get("grid", {}).get("early_seconds", 0.0) * SECOND)
    with duckdb.connect() as connection:
        raw, rows = read_parquet([archive]), read_parquet(data_files(out), "union_by_name = true")
        columns, of_rows = (
            {name for name, *_ in connection.execute(f"describe select * from {table}").fetchall()}
            for table in (raw, rows)
        )
        label = "label::varchar" if "label" in columns else "'unknown'"
        connection.execute(
            f"""create table readings as
                select sensor::varchar as sensor, variable::varchar as variable, time::timestamp as time,
                       value::double as value, if({label} in {LABELS}, {label}, 'unknown') as label,
                       {"corrected" if "corrected" in columns else "null"}::double as corrected
                from {raw} where value is not null"""
        )
        # An output folder of one variable does not name it.
        variable = "variable" if "variable" in of_rows else "(select any_value(variable) from readings)"
        connection.execute(
            f"""create table out_rows as
                select sensor::varchar as sensor, {variable}::varchar as variable, time::timestamp as time,
                       flag, cleaned, value, coalesce(reason, '') as reason
                from {rows}"""
        )
        (step,) = connection.execute(
            """select coalesce(epoch_us(mode(gap)), 0)
               from (select lead(time) over (partition by sensor, variable order by time) - time as gap
                     from out_rows)"""
        ).fetchall()[0]
        for name, source in (("sensor", "readings"), ("variable", "readings"), ("label", "readings"),
                             ("reason", "(select reason from out_rows union select '')")):  # fmt: skip
            connection.execute(f"create type {name}_name as enum (select distinct {name} from {source})")
        table = connection.execute(
            f"""select dense_rank() over (order by l.sensor, l.variable) - 1 as channel,
                       l.sensor::sensor_name as sensor, l.variable::variable_name as variable,
                       l.label::label_name as label,
                       epoch_us(l.time) as time, l.value, l.corrected,
                       coalesce(epoch_us(r.time), -1) as slot, coalesce(r.cleaned, 'nan'::double) as cleaned,
                       coalesce(case when epoch_us(l.time) + {early} < epoch_us(r.time) + {step} then r.flag end,
                                0)::tinyint
                           as flag,
                       coalesce(r.reason, '')::reason_name as reason
                from readings l asof left join out_rows r
                  on r.sensor = l.sensor and r.variable = l.variable and r.time <= l.time + to_microseconds({early})
                order by channel, l.time"""
        ).df()
        estimates = connection.execute(
            f"""select variable, cleaned as value from out_rows
                where cleaned is not null and (value is null or abs(cleaned - value) > {SAME})"""
        ).df()
    table["cleaned"] = table["cleaned"].where(table["flag"] != 0)
    return JudgedReadings(table, estimates, int(step))


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


@dataclass(frozen=True, eq=False)
class ArchiveScores:
    """What was made of an archive; the tables have an index of names.

    Attributes
    ----------
    flagged, suspect
        The share of good readings with flag 4 and with flag 3; of all readings where the archive has no labels.
    variables
        The same by variable, worst first; of labelled archives those with more than `FEW_READINGS` good readings.
    agreement
        None where the archive has no labels.
    reasons
        The numbers of good readings with flag 4 by reason, most frequent first.
    channels
        The `flagged` share of the good `readings` by channel; first those in which most have flag 4.
    true_events
        The `flagged` share of the `readings` with the labels in `TRUE_EVENTS`.
    impossible
        As `impossible_estimates` returns them.
    changes
        As `changes` returns them.
    distances, distances_by_variable
        As `distances` returns them.
    """

    flagged: float
    suspect: float
    variables: Frame
    agreement: Agreement | None
    reasons: Any
    channels: Frame
    true_events: Frame
    impossible: Frame
    changes: Any
    distances: Frame
    distances_by_variable: Frame


def judge(readings: JudgedReadings) -> ArchiveScores:
    """Return all scores of an archive."""
    rows = readings.rows.assign(flagged=readings.flagged, suspect=readings.rows["flag"] == Flag.SUSPECT)
    labelled = bool(readings.wrong.any())
    judged = readings.good if labelled else ~rows["label"].isin(TRUE_EVENTS)
    # A reading without a row is not flagged. Among labelled ones it does not count for the share of suspect ones.
    if labelled:
        rows["suspect"] = rows["suspect"].astype(float).where(rows["flag"] > 0)
    by_variable = rows[judged].groupby("variable", observed=True)
    variables = by_variable.agg(flagged=("flagged", "mean"), suspect=("suspect", "mean"))
    variables = variables[by_variable.size() > (FEW_READINGS if labelled else 0)]
    good = rows[rows["label"].isin([GOOD, "unknown"])]
    channels = JudgedReadings(good, readings.estimates).by_channel()["flagged"].agg(flagged="mean", readings="size")
    channels = channels[channels["readings"] > FEW_READINGS]
    true_events = rows[rows["label"].isin(TRUE_EVENTS)].groupby("label", observed=True)["flagged"]
    return ArchiveScores(
        flagged=_mean(rows["flagged"][judged]),
        suspect=_mean(rows["suspect"][judged].dropna()),
        variables=variables.sort_values("flagged", ascending=False, kind="stable"),
        agreement=agreement(readings) if labelled else None,
        reasons=good.loc[good["flagged"], "reason"].value_counts().loc[lambda count: count > 0],
        channels=channels.loc[(channels["flagged"] * channels["readings"]).sort_values(ascending=False).index],
        true_events=true_events.agg(flagged="mean", readings="size"),
        impossible=impossible_estimates(readings),
        changes=changes(readings),
        distances=distances(readings),
        distances_by_variable=distances(readings, by_variable=True),
    )


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def number_runs(mask: Any, channel: Any) -> Any:
    """Return the number of the run that each reading is in, from 1, and 0 outside of the mask.

    Examples
    --------
    >>> number_runs(pd.Series([True, True, False, True, True]), pd.Series([0, 0, 0, 0, 1])).tolist()
    [1, 1, 0, 2, 3]
    """
    first = mask & (~mask.shift(fill_value=False) | (channel != channel.shift()))
    return first.cumsum().where(mask, 0)


def agreement(readings: JudgedReadings) -> Agreement:
    """Return how flags and labels agree; readings whose labels are not scored are as if they did not exist."""
    scored = readings.good | readings.wrong
    wrong, flagged, channel = (part[scored] for part in (readings.wrong, readings.flagged, readings.rows["channel"]))

    def events(mask: Any) -> tuple[float, int]:
        runs = number_runs(mask, channel)
        count = int(runs.max()) if len(runs) else 0
        return runs[wrong & flagged].nunique() / max(count, 1), count

    event_precision, flagged_events = events(flagged)
    event_recall, labelled_events = events(wrong)
    of_label = readings.flagged.groupby(readings.rows["label"], observed=True).mean()
    return Agreement(
        precision=_mean(wrong[flagged]),
        recall=_mean(flagged[wrong]),
        labelled=_mean(wrong),
        recall_of={name: float(of_label[name]) for name in WRONG if name in of_label},
        event_precision=event_precision,
        flagged_events=flagged_events,
        event_recall=event_recall,
        labelled_events=labelled_events,
    )


def impossible_estimates(readings: JudgedReadings) -> Frame:
    """Return number, lowest and highest of the estimates that cannot be, by variable, most first.

    Such an estimate is outside of the range of sound readings by more than a tenth of this range, or negative where no
    sound reading is, or a humidity above 100 % where hardly any sound reading is. Sound are the readings that their
    owners left, else those with flag 1.
    """
    rows, estimates = readings.rows, readings.estimates
    sound = rows[readings.good if readings.good.any() else rows["flag"] == Flag.GOOD]
    limits = sound.groupby("variable", observed=True)["value"].agg(["min", "max", lambda own: own.quantile(0.999)])
    low, high, most = (estimates["variable"].astype(object).map(limits[name].to_dict()) for name in limits)
    margin, value = MARGIN * (high - low), estimates["value"]
    humid = estimates["variable"].astype(str).str.lower().str.contains(_HUMIDITY)
    outside = (value < low - margin) | (value > high + margin) | ((low >= 0) & (value < 0))
    outside |= humid & (most <= 100) & (value > 100)
    beyond = estimates[outside].groupby("variable", observed=True)["value"]
    return beyond.agg(count="size", lowest="min", highest="max").sort_values("count", ascending=False, kind="stable")


def changes(readings: JudgedReadings) -> Any:
    """Return by how much each series is changed where nobody calls it wrong, largest first; NaN comes last.

    It is the change of the total where the series is never negative, else that of the mean over the spread.
    """
    sound = readings.rows[~readings.wrong & readings.rows["cleaned"].notna()]
    groups = sound.groupby(["sensor", "variable"], observed=True)[["value", "cleaned"]]

    def change(own: Frame) -> float:
        raw, cleaned = own["value"], own["cleaned"]
        if raw.min() >= 0:
            return cleaned.sum() / raw.sum() - 1 if raw.sum() else np.nan
        return (cleaned.mean() - raw.mean()) / _spread(raw) if _spread(raw) else np.nan

    result = {name: change(own) for name, own in groups if len(own) > SHORT_SERIES}
    series = pd.Series(result, dtype=float)
    return series.loc[series.abs().sort_values(ascending=False, kind="stable").index]


def _spread(values: Any) -> float:
    low, high = np.quantile(values, (0.05, 0.95))
    return float(high - low)


def is_rain(variable: str) -> bool:
    """Return whether a variable is rain, of which the total matters most."""
    return _RAIN.search(variable.lower()) is not None


def distances(readings: JudgedReadings, *, by_variable: bool = False) -> Frame:
    """Return how far `raw` and `cleaned` values are from the owners': of all readings and of some, or by variable.

    The owners' value of a good reading is the reading itself. The distances are means, over the spread of the channel's
    good readings, from their 5 % to their 95 % quantile; `readings` is how many there are. Empty where the owners gave
    no values.
    """
    rows = readings.rows
    if rows["corrected"].isna().all():
        return pd.DataFrame(columns=["raw", "cleaned", "readings"])
    good = rows[readings.good].groupby("channel")["value"]
    spread = rows["channel"].map(good.quantile(0.95) - good.quantile(0.05))
    truth = rows["corrected"].fillna(rows["value"].where(readings.good))
    table = pd.DataFrame({
        "raw": (rows["value"] - truth).abs() / spread.replace(0, np.nan),
        "cleaned": (rows["cleaned"] - truth).abs() / spread.replace(0, np.nan),
        "variable": rows["variable"],
        "flag": rows["flag"],
    })[truth.notna() & rows["cleaned"].notna() & spread.notna()]  # fmt: skip
    parts = {"all": table, "flag 4": table[table["flag"] == Flag.FAIL], "wrong readings": table[table["raw"] > SAME]}
    if by_variable:
        parts = dict(iter(table.groupby("variable", observed=True)))
    known = {name: part for name, part in parts.items() if part["raw"].notna().any()}
    means = [(part["raw"].mean(), part["cleaned"].mean(), len(part)) for part in known.values()]
    return pd.DataFrame(means, index=list(known), columns=["raw", "cleaned", "readings"])


@dataclass(frozen=True)
class JudgedFault:
    """A fault with the readings of its slots.

    Attributes
    ----------
    name, place
        Sensor and variable of its channel, and the places of its readings.
    failed, suspect
        The number of its readings with flag 4 and with flag 3.
    scored, wrong
        Of those with flag 4, or with flag 3 where it has none, how many have a label that counts, and a wrong one.
    """

    fault: FaultInterval
    name: tuple[str, str]
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
    variables = {variable for _, variable in readings.spans}
    single = next(iter(variables)) if len(variables) == 1 else ""
    slots, flags = readings.rows["slot"].to_numpy(), readings.rows["flag"].to_numpy()
    wrong, scored = readings.wrong.to_numpy(), (readings.good | readings.wrong).to_numpy()
    result = []
    for fault in faults:
        # A sensor that is silent has a line without a variable, and no readings.
        name = fault.sensor, fault.variable or single
        if name not in readings.spans:
            continue
        span = readings.spans[name]
        first, end = np.searchsorted(slots[span], (fault.start, max(fault.end, fault.start + 1))).tolist()
        place = slice(span.start + first, span.start + end)
        failed, suspect = (int((flags[place] == flag).sum()) for flag in (Flag.FAIL, Flag.SUSPECT))
        if failed or suspect:
            counted = (flags[place] == (Flag.FAIL if failed else Flag.SUSPECT)) & scored[place]
            labelled = int((wrong[place] & counted).sum())
            result.append(JudgedFault(fault, name, place, failed, suspect, int(counted.sum()), labelled))
    return result


def calibration(faults: Sequence[JudgedFault]) -> Frame:
    """Return the faults with scored readings by the bins of `EDGES`; last those without a confidence.

    Columns are the edges `low` and `high`, the numbers of `faults` and of scored `readings`, the mean `confidence`, and
    the shares that are `confirmed`: of the faults, and of the faults weighted by their readings.
    """
    rows = [(one.fault.confidence, one.scored, one.confirmed) for one in faults if one.scored]
    table = pd.DataFrame(rows, columns=["confidence", "readings", "confirmed"])
    # The last bin has its upper edge, too.
    table["low"] = pd.cut(table["confidence"], [*EDGES[:-1], np.inf], right=False, labels=EDGES[:-1]).astype(float)
    table["weighted"] = table["confirmed"] * table["readings"]
    groups = table.groupby("low", dropna=False)
    bins = groups.agg(faults=("readings", "size"), readings=("readings", "sum"), confidence=("confidence", "mean"),
                      confirmed=("confirmed", "mean"), weighted=("weighted", "sum")).reset_index()  # fmt: skip
    bins["high"] = bins["low"].map(dict(pairwise(EDGES)))
    bins["confirmed_readings"] = bins.pop("weighted") / bins["readings"]
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
    return sorted((faults[place] for place in drawn), key=lambda fault: (fault.fault.start, fault.name))
