"""OUTs written without a model, with known faults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER, write_csv, write_json
from sensormend.io.writing import RowWriter
from sensormend.pipeline.faults import FaultInterval, with_incidents
from sensormend.pipeline.times import in_words
from sensormend.readings import DAY, REASONS, Flag, Rows

__all__ = ["FIRST", "Output", "big_output", "drifting_output", "small_output", "write_faults", "write_output"]

FIRST = 19723 * DAY
"""2024-01-01."""


@dataclass(frozen=True, eq=False)
class Output:
    """An OUT, and all of its rows as arrays (sensor, variable, slot), slots of all days in a line."""

    path: Path
    sensors: tuple[str, ...]
    variables: tuple[str, ...]
    time: NDArray[np.int64]
    value: NDArray[np.float64]
    cleaned: NDArray[np.float64]
    flag: NDArray[np.int8]
    reason: NDArray[np.int8]


def small_output(
    path: Path, *, sensors: int = 12, days: int = 20, variables: tuple[str, ...] = ("",), places: bool = True,
    names: tuple[str, ...] | None = None, slots: int = 24, seed: int = 0, corrected: bool = False,
) -> Output:  # fmt: skip
    """Write an OUT in which the second sensor is stuck to the end, the third silent in the middle, the fourth spikes.

    Nothing is evaluated on the first two days, and a reading in fifty is missing. Where something is `corrected`, the
    fifth sensor is 3 too high on the fourth day, and that is taken out.
    """
    random = np.random.default_rng(seed)
    labels = names or tuple(f"S{k:02d}" for k in range(sensors))
    shape = (len(labels), len(variables), days * slots)
    clock = np.arange(days * slots)
    weather = 10 + 6 * np.sin(2 * np.pi * clock / slots) + np.cumsum(random.normal(0, 0.2, clock.size))
    truth = weather + random.normal(0, 1, shape[:2])[..., None] + random.normal(0, 0.2, shape)
    value, flag, reason = truth.copy(), np.full(shape, Flag.GOOD, np.int8), np.zeros(shape, np.int8)
    flag[..., : 2 * slots] = Flag.NOT_EVALUATED
    day = clock // slots
    if len(labels) > 1:
        stuck = day >= days - max(days // 4, 1)
        value[1, 0, stuck] = 7.5
        flag[1, 0, stuck], reason[1, 0, stuck] = Flag.FAIL, REASONS.index("stuck")
    if len(labels) > 3:
        value[3, 0, clock == 3 * slots + 5] += 30
        spike = clock == 3 * slots + 5
        flag[3, 0, spike], reason[3, 0, spike] = Flag.FAIL, REASONS.index("spike")
    if corrected:
        value[4, 0, day == 3] += 3
        flag[4, 0, day == 3], reason[4, 0, day == 3] = Flag.FAIL, REASONS.index("offset")
    gone = random.random(shape) < 0.02
    if len(labels) > 2:
        silent = (day >= days // 3) & (day < days // 2)
        gone[2, :, silent] = True
        reason[2][:, silent] = REASONS.index("silent")
    value[gone], flag[gone] = np.nan, Flag.MISSING
    reason[gone & (reason != REASONS.index("silent"))] = 0
    written = write_output(path, labels, variables, value, truth, flag, reason, slots)
    _write_metadata(written, slots, places=places, random=random)
    return written


def drifting_output(path: Path, *, days: int = 160, start_day: int = 90, rate: float = 0.05) -> Path:
    """Write an OUT of ten sensors in which S07 drifts from a day on by so much a day, and no row is flagged."""
    written = small_output(path / "fault_free", sensors=10, days=days)
    value, flag, reason = written.value.copy(), written.flag.copy(), np.zeros_like(written.reason)
    value[flag == Flag.FAIL] = written.cleaned[flag == Flag.FAIL]
    flag[flag == Flag.FAIL] = Flag.GOOD
    value[7, 0] += np.clip((np.arange(days * 24) / 24 - start_day) * rate, 0, None)
    write_output(path / "drift", written.sensors, written.variables, value, written.cleaned, flag, reason, 24)
    for name in ("sensors.csv", "run.json"):
        (written.path / name).rename(path / "drift" / name)
    write_faults(path / "drift", [])
    return path / "drift"


def write_output(
    path: Path, sensors: tuple[str, ...], variables: tuple[str, ...], value: NDArray[Any], truth: NDArray[Any],
    flag: NDArray[np.int8], reason: NDArray[np.int8], slots: int,
) -> Output:  # fmt: skip
    """Write rows day by day, as `Cleaner` makes them."""
    estimated = (flag == Flag.FAIL) | (flag == Flag.MISSING)
    # The only offset is one that can be corrected.
    corrected = (flag == Flag.FAIL) & (reason == REASONS.index("offset"))
    cleaned = np.where(estimated, truth, value)
    time = FIRST + np.arange(value.shape[-1]) * (DAY // slots)
    with RowWriter(path) as writer:
        for begin in range(0, value.shape[-1], slots):
            day = slice(begin, begin + slots)
            sensor, variable, slot = (
                axis.ravel().astype(np.int32)
                for axis in np.meshgrid(*(np.arange(size) for size in (*value.shape[:2], slots)), indexing="ij")
            )
            wide = np.where(estimated, 1.0, 0.0)[..., day].ravel()
            middle = cleaned[..., day].ravel()
            writer.write(
                Rows(
                    sensors, variables, sensor, variable, time[day][slot], value[..., day].ravel(),
                    np.isfinite(value[..., day]).ravel().astype(np.int32), middle, middle - wide, middle + wide,
                    flag[..., day].ravel(), reason[..., day].ravel(),
                    np.where(corrected, 3, np.where(estimated, 2, 1)).astype(np.int8)[..., day].ravel(),
                )
            )  # fmt: skip
    return Output(path, sensors, variables, time, value, cleaned, flag, reason)


def _write_metadata(written: Output, slots: int, *, places: bool, random: np.random.Generator) -> None:
    """Write faults.csv, sensors.csv and run.json."""
    step = DAY // slots
    lines: list[tuple[object, ...]] = []
    faults: list[tuple[int, tuple[object, ...]]] = []
    for s, sensor in enumerate(written.sensors):
        where = (53.5 + random.uniform(-0.1, 0.1), 10 + random.uniform(-0.2, 0.2)) if places else (np.nan, np.nan)
        for v, variable in enumerate(written.variables):
            flag, reason = written.flag[s, v], written.reason[s, v]
            observed = flag != Flag.MISSING
            times = written.time[observed]
            wrong = (flag[observed] == Flag.FAIL).mean()
            lines.append((sensor, variable, times.size, 1 - observed.mean(), wrong, 0.3, *where, int(times[0]),
                          int(times[-1]), 20.5, "healthy"))  # fmt: skip
            for word in ("stuck", "silent", "spike"):
                code = np.int8(REASONS.index(word))
                at = np.flatnonzero(reason == code)
                if at.size:
                    score = np.nan if word == "silent" else 4.2
                    begin, end = int(written.time[at[0]]), int(written.time[at[-1]]) + step
                    if word == "stuck":  # a fiber is faulty as a whole, the slots without a reading too
                        begin, end = begin // DAY * DAY, -(-end // DAY) * DAY
                    faults.append((begin, (sensor, variable, begin, end, word, score, f"{sensor} was {word}.")))
    write_csv(written.path / "sensors.csv", SENSORS_HEADER, lines)
    write_faults(written.path, [line for _, line in sorted(faults, key=lambda one: one[0])])
    grid = {"step": in_words(step), "period": "1d", "early_seconds": 0.0}
    write_json(written.path / "run.json", {"command": "clean", "grid": grid, "notes": []})


def write_faults(folder: Path, lines: Iterable[tuple[Any, ...]]) -> None:
    """Write the faults.csv of an OUT from the fields of `FaultInterval`; the last ones may be left out."""
    faults = with_incidents(FaultInterval(*line) for line in lines)
    write_csv(folder / "faults.csv", FAULTS_HEADER, [astuple(fault) for fault in faults])


def big_output(path: Path, *, sensors: int = 2000, days: int = 365, slots: int = 4) -> Path:
    """Write a large OUT, of few slots a day so that it takes seconds: one sensor in thirty is wrong for some weeks."""
    random = np.random.default_rng(1)
    names = tuple(f"S{k:04d}" for k in range(sensors))
    begin, length = random.integers(0, days, sensors), random.integers(3, 40, sensors)
    broken = random.random(sensors) < 1 / 30
    sensor = np.repeat(np.arange(sensors, dtype=np.int32), slots)
    slot = np.tile(np.arange(slots), sensors)
    with RowWriter(path) as writer:
        for day in range(days):
            wrong = np.repeat(broken & (begin <= day) & (day < begin + length), slots)
            gone = random.random(sensor.size) < 0.02
            truth = np.round(10 + 6 * np.sin(2 * np.pi * slot / slots) + random.normal(0, 1, sensor.size), 2)
            value = np.where(gone, np.nan, np.where(wrong, 25.0, truth))
            cleaned = np.where(wrong | gone, truth, value)
            wide = np.where(wrong | gone, 1.0, 0.0)
            flag = np.select([gone, wrong], [Flag.MISSING, Flag.FAIL], Flag.GOOD).astype(np.int8)
            reason = np.where(wrong & ~gone, REASONS.index("stuck"), 0).astype(np.int8)
            time = FIRST + day * DAY + slot * (DAY // slots)
            n, origin = np.isfinite(value).astype(np.int32), np.where(wrong | gone, 2, 1).astype(np.int8)
            interval = (cleaned - wide, cleaned + wide)
            variable = np.zeros_like(sensor)
            writer.write(Rows(names, ("",), sensor, variable, time, value, n, cleaned, *interval, flag, reason, origin))
    end = FIRST + days * DAY
    write_csv(
        path / "sensors.csv",
        SENSORS_HEADER,
        ((name, "", days * slots, 0.02, float(broken[k]) * 0.1, 0.3, 53 + k % 50 / 100, 10 + k // 50 / 100, FIRST,
          end - DAY // slots, 20.5, "healthy") for k, name in enumerate(names)),
    )  # fmt: skip
    write_faults(
        path,
        ((names[k], "", FIRST + int(begin[k]) * DAY, min(FIRST + int(begin[k] + length[k]) * DAY, end), "stuck", 3.3,
          f"{names[k]} is stuck near 25.") for k in np.flatnonzero(broken)),
    )  # fmt: skip
    grid = {"step": in_words(DAY // slots), "period": "1d", "early_seconds": 0.0}
    write_json(path / "run.json", {"command": "clean", "grid": grid, "notes": []})
    return path
