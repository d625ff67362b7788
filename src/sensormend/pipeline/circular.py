"""Directions in degrees have no mean: they are recognised here, and judged by their cosine and sine."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.recovery import BoolArray, Fault, FloatArray, Recovery

__all__ = [
    "OUTSIDE",
    "TURN",
    "components",
    "distances",
    "in_degrees",
    "in_turn",
    "is_direction",
    "names_direction",
    "wrapped",
]

TURN = 360.0
"""Degrees of a full turn."""

RADIANS = 7.0
"""Values that all lie below may be radians (a turn is 6.28), which are left as they are."""

OUTSIDE = 0.001
"""The share of readings that may lie outside a turn: broken ones, and fill values that are not known."""

NAMED_OUTSIDE = 0.01
"""The same share where the name says that a variable is a direction: some loggers count on past north for a while."""

_WORDS = {"direction", "directions", "wdir", "winddir", "winddirection", "wd", "mwd", "wdr", "azimuth", "heading",
          "bearing", "windrichtung"}  # fmt: skip
_SPREADS = {"std", "stdev", "stddev", "sd", "sigma", "dev", "deviation", "var", "variance", "range"}
_TRUE = re.compile(r"(deg(rees?)?|\N{DEGREE SIGN})[ _.]*(t|true|from north|n)", re.IGNORECASE)


def names_direction(name: str, unit: str = "") -> bool:
    """Return whether a variable is a direction by its name or its unit.

    Examples
    --------
    >>> [names_direction(name) for name in ("Wind Direction (deg)", "WDIR", "windDir", "wd_10m", "direct radiation")]
    [True, True, True, True, False]
    >>> names_direction("", "degrees true"), names_direction("", "deg C"), names_direction("wind direction std")
    (True, False, False)
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = {*re.findall(r"[a-z]+", spaced.lower()), *re.findall(r"[a-z]+", name.lower())}
    if words & _SPREADS:
        return False
    together = "".join(re.findall(r"[a-z]+", spaced.lower()))
    return bool(words & _WORDS) or "winddir" in together or bool(_TRUE.fullmatch(unit.strip()))


def is_direction(value: FloatArray, same: BoolArray, *, named: bool) -> bool:
    """Return whether the readings of a variable are directions in degrees.

    Those of a variable that is `named` as one need only lie within a turn; others must turn through north, too.

    Parameters
    ----------
    value
        Its readings, one channel after the other, in order of time.
    same
        Whether each reading but the first is of the same channel as the one before it.
    """
    finite = np.isfinite(value)
    if named:
        value = value[finite]
        inside = (value >= -TURN / 2) & (value <= TURN)
        return bool(value.size and np.mean(~inside) <= NAMED_OUTSIDE and np.abs(value).max() > RADIANS)
    # Imported here: it needs the compiler, which the help of the command line does not.
    from sensormend.model.scales import looks_circular

    return looks_circular(np.stack([value[:-1], value[1:]], axis=1)[same]) if value.size > 1 else False


def wrapped(angle: FloatArray) -> FloatArray:
    """Return differences of directions between -180 and 180 degrees."""
    difference: FloatArray = (angle + TURN / 2) % TURN - TURN / 2
    return difference


def distances(value: FloatArray, reference: FloatArray, circular: BoolArray | bool) -> FloatArray:
    """Return value minus reference; where they are directions, the shorter way around."""
    difference = value - reference
    return np.where(circular, wrapped(difference), difference) if np.any(circular) else difference


def in_turn(angle: FloatArray, start: FloatArray | float) -> FloatArray:
    """Return directions between `start` and a turn more."""
    direction: FloatArray = (angle - start) % TURN + start
    return direction


def components(minibatch: FloatArray, circular: Sequence[int]) -> FloatArray:
    """Return a minibatch (sensor, variable, slot) with the cosines of directions in their place, and their sines last.

    Examples
    --------
    >>> components(np.array([[[20.0], [90.0]]]), [1]).round(3).tolist()
    [[[20.0], [0.0], [1.0]]]
    """
    if not circular:
        return minibatch
    angle = np.radians(minibatch[:, list(circular)])
    expanded = np.concatenate([minibatch, np.sin(angle)], axis=1)
    expanded[:, list(circular)] = np.cos(angle)
    return expanded


def in_degrees(
    recovery: Recovery,
    minibatch: FloatArray,
    circular: Sequence[int],
    starts: Sequence[float],
    labels: Sequence[str | int],
    first_slot: int,
) -> Recovery:
    """Return the recovery of `components` for the minibatch itself.

    A direction has the worse verdict of its two components, but no spikes: a light wind, and waves of a new sea among
    an old swell, come from anywhere for an hour. One that is wrong or missing is estimated, since the
    correction of a component corrects no direction; its interval is the half width, across the direction, of the
    intervals of both. Where that reaches half a turn there is no estimate.

    Parameters
    ----------
    recovery
        Of the components, the sines last.
    minibatch
        The readings, (sensor, variable, slot).
    circular, starts
        The numbers of the variables that are directions, and where their turn starts: at 0 or at -180.
    labels, first_slot
        The sensors in the faults, and the number of the minibatch's first slot in the model's count.
    """
    if not circular:
        return recovery
    variables = minibatch.shape[1]
    cosine, sine = np.array(circular), variables + np.arange(len(circular))
    start = np.array(starts)[:, None]
    columns: dict[str, Any] = {
        name: getattr(recovery, name)[:, :variables].copy()
        for name in ("expected", "outliers", "wrong", "doubtful", "spikes", "corrected", "cleaned", "lower", "upper",
                     "faulty", "suspect", "evaluated", "score", "reason")
    }  # fmt: skip

    def both(name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return getattr(recovery, name)[:, cosine], getattr(recovery, name)[:, sine]

    reading, present = minibatch[:, cosine], np.isfinite(minibatch[:, cosine])
    spikes = np.logical_or(*both("spikes"))
    wrong, doubtful = np.logical_or(*both("wrong")) & ~spikes, np.logical_or(*both("doubtful"))
    doubtful &= ~wrong & ~spikes
    x, y = recovery.expected[:, cosine], recovery.expected[:, sine]
    angle = np.arctan2(y, x)
    expected = in_turn(np.degrees(angle), start)
    assert recovery.lower is not None
    assert recovery.upper is not None
    half = (recovery.upper - recovery.lower) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        across = np.hypot(np.sin(angle) * half[:, cosine], np.cos(angle) * half[:, sine]) / np.hypot(x, y)
    width = np.degrees(across)
    known = width < TURN / 2
    trusted = present & ~wrong
    # The interval of a doubtful reading reaches to its estimate.
    distance = np.where(doubtful & np.isfinite(expected), wrapped(expected - reading), 0.0)
    estimate = np.where(known, expected, np.nan)
    columns["cleaned"][:, cosine] = np.where(trusted, reading, estimate)
    columns["lower"][:, cosine] = np.where(trusted, reading + np.minimum(distance, 0), estimate - width)
    columns["upper"][:, cosine] = np.where(trusted, reading + np.maximum(distance, 0), estimate + width)
    columns["expected"][:, cosine] = expected
    columns["outliers"][:, cosine] = np.where(wrong & present, wrapped(reading - expected), 0.0)
    columns["wrong"][:, cosine], columns["doubtful"][:, cosine] = wrong, doubtful
    columns["spikes"][:, cosine] = False
    columns["corrected"][:, cosine] = False
    faulty = np.logical_or(*both("faulty"))
    columns["faulty"][:, cosine], columns["suspect"][:, cosine] = faulty, np.logical_or(*both("suspect")) & ~faulty
    columns["evaluated"][:, cosine] = np.logical_and(*both("evaluated"))
    score, reason = recovery.score, recovery.reason
    worse = score[:, sine] > score[:, cosine]
    columns["score"][:, cosine] = np.maximum(score[:, sine], score[:, cosine])
    # `alone` and nothing are milder than a kind of fault, whatever the score.
    worse = np.where(np.isin(reason[:, cosine], ("", "alone")), True, worse & ~np.isin(reason[:, sine], ("", "alone")))
    columns["reason"][:, cosine] = np.where(worse, reason[:, sine], reason[:, cosine])
    reason = columns["reason"]
    reason[:, cosine] = np.where(np.isin(reason[:, cosine], ("drift", "gain")), "offset", reason[:, cosine])
    direction = dict(zip([*cosine.tolist(), *sine.tolist()], [*circular, *circular], strict=True))
    row_of = {label: row for row, label in enumerate(labels)} if recovery.faults else {}
    faults = []
    for fault in recovery.faults:
        variable = direction.get(fault.variable)
        if variable is None or fault.sensor not in row_of:
            faults.append(fault)
            continue
        if fault.kind == "spike":
            continue
        end = None if fault.end is None else max(fault.end + 1 - first_slot, 0)
        own = row_of[fault.sensor], variable, slice(max(fault.start - first_slot, 0), end)
        off = columns["outliers"][own][columns["wrong"][own]]
        faults.append(_direction_fault(fault, variable, off, minibatch[own]))
    return replace(recovery, **columns, faults=tuple(faults))


def _direction_fault(fault: Fault, variable: int, off: FloatArray, readings: FloatArray) -> Fault:
    """Return the fault of a component as one of its direction, with its size in degrees.

    A direction that is off by a constant has components whose distance changes with the wind: drift and gain of a
    component are an offset. The size is NaN where the period has none of its readings.
    """
    kind = "offset" if fault.kind in ("drift", "gain") else fault.kind
    size = math.nan
    if kind == "stuck":
        readings = readings[np.isfinite(readings)]
        size = float(readings[-1]) if readings.size else math.nan
    elif off.size:
        mean = np.angle(np.exp(1j * np.radians(off)).mean(), deg=True)
        size = float(np.sqrt(np.mean(off**2)) if kind == "noise" else mean)
    return replace(fault, variable=variable, kind=kind, size=size, rate=0.0)
