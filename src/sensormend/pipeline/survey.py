"""`survey_readings` finds the grid, fill values, directions, counters and states in a sample of the readings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError, InputError
from sensormend.pipeline.circular import OUTSIDE, TURN, is_direction, names_direction
from sensormend.pipeline.grid import ANCHOR, Grid
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.times import in_words
from sensormend.pipeline.units import UsualRange, split_unit
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings
from sensormend.recovery import BoolArray, FloatArray

__all__ = [
    "CONSTANT",
    "COUNTER",
    "STATE",
    "Survey",
    "WithoutLevel",
    "check_grid",
    "fill_values",
    "sampled_sensors",
    "survey_readings",
    "survey_start",
    "without_level",
]

STEPS = (
    *(seconds * SECOND for seconds in (1, 2, 5, 10, 15, 20, 30)),
    *(minutes * MINUTE for minutes in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 4, 6, 8, 12)),
    DAY,
    7 * DAY,
)
"""Usual steps; all but the last divide a day."""

MOST_SLOTS = 288
"""A day of five-minute slots. Finer readings are averaged: the cost of a period grows with the square of its slots, and
a fault shows in means of five minutes as well as in single seconds."""

LARGEST_PERIOD = 5000
"""Slots of a period beyond which a grid is refused: the memory of a period grows with their square."""

LEAST_PERIODS = 10
"""The minimum number of cycles to learn from; a shorter recording gets a shorter period."""

OCCUPIED = 0.75
"""The share of slots with a reading, between readings near each other, that a step must reach."""

CONTRADICTORY = 0.3
"""The share of readings that contradict another of the same time from which the table counts as misread."""

STRONG = (-9999.0, -999.0, -99999.0, -999999.0, -9999.9, -999.9, -999.99, -9999.99, 99999.0, 999999.0, 1e20, 1e30,
          9.969209968386869e36, -1e20, -1e30, -1e31, -6999.0, -7777.0, -8888.0)  # fmt: skip
"""Fill values of loggers, NetCDF and databases; recognised where they lie far from all other values."""

WEAK = (85.0, -127.0, -99.0, -99.9, 99.9, 999.0, 999.9, 9999.0, 9999.9, -32768.0, 32767.0, 65535.0, -1.0, 0.0)
"""Fill values of some sensors (85 and -127: a DS18B20 without power); recognised where they recur."""

READINGS, RARE = (85.0, 99.9, -1.0, 0.0), 0.05
"""Those that sound channels read as well, and the share of the readings up to which they are fill values: in a boiler
that runs at 50 to 80 %, 0 is off. No fill value of real archives that was found by its distance has more than .8 %."""


FAR_OFF = 10.0
"""How far off a value must lie, in widths of the range of all others, to be a fill value that is not well known. The
122.153 degrees of a dying mote, 4 widths above an office, are readings."""


SAMPLE_READINGS, SAMPLE_SENSORS = 2_000_000, 50
"""The most readings, and the most sensors, from which grid, fill values and directions are found."""


@dataclass(frozen=True)
class Survey:
    """The grid and the fill values per variable, found or given, the directions, and remarks for the user.

    Attributes
    ----------
    circular
        The variables that are directions in degrees, each with the start of its turn: 0 or -180.
    usual
        What the variables usually read.
    unjudged
        The variables with counters and states, which are not judged.
    """

    grid: Grid
    fill: dict[str, tuple[float, ...]]
    notes: tuple[str, ...] = ()
    circular: dict[str, float] = field(default_factory=dict)
    usual: dict[str, UsualRange] = field(default_factory=dict)
    unjudged: dict[str, WithoutLevel] = field(default_factory=dict)


def survey_readings(sample: Readings, options: Options) -> Survey:
    """Survey a sample: the complete series of some sensors, in any order."""
    if not len(sample):
        raise InputError("there is no reading at all")
    sample = _by_channel(sample)
    _refuse_contradictions(sample)
    single: list[str] = []
    if options.step is None and not _repeats(sample):
        # A table of one reading, or of one for each sensor, does not stop a run.
        options = replace(options, step=HOUR)
        single = ["every sensor has a single reading: the step is taken to be an hour"]
    grid, notes = _time_grid(sample, options)
    notes = [*single, *notes]
    if not options.one_pass:
        # An archive's periods begin with its first reading, so that verdicts do not depend on the zone of its clock.
        first = int(sample.time.min()) + grid.early - ANCHOR
        grid = replace(grid, cut=first % grid.period // grid.step * grid.step)
    return _surveyed(sample, options, grid, notes)


def _repeats(sample: Readings) -> bool:
    """Return whether any channel has readings of two times; the sample is sorted by channel and time."""
    same = (np.diff(sample.sensor) == 0) & (np.diff(sample.variable) == 0)
    return bool((same & (np.diff(sample.time) > 0)).any())


def survey_start(sample: Readings, options: Options) -> Survey:
    """Survey the first readings of a live feed: its cycle is a day or longer, however short the sample.

    Contradictory readings are accepted here, since a feed cannot be read again with other options.
    """
    sample = _by_channel(sample)
    grid, notes = _time_grid(sample, options)
    if options.period is None and grid.period < DAY:
        grid, notes = _time_grid(sample, replace(options, period=DAY))
    return _surveyed(sample, options, grid, notes)


def _surveyed(sample: Readings, options: Options, grid: Grid, notes: Sequence[str]) -> Survey:
    fill, guessed = _fill(sample, options)
    circular = _circular(sample, fill, options)
    directions = [f"{name or 'the variable'} is a direction: it is judged by its cosine and sine" for name in circular]
    unjudged = _unjudged(sample, fill, circular)
    not_judged = [_in_words(name, channels) for name, channels in unjudged.items()]
    return Survey(
        grid, fill, (*notes, *guessed, *directions, *not_judged), circular, _usual(sample, fill, circular), unjudged
    )


MOST_NAMES = 5
"""The number of sensors that a remark names."""


def _unjudged(
    sample: Readings, fill: Mapping[str, Sequence[float]], circular: Mapping[str, float]
) -> dict[str, WithoutLevel]:
    """Return the variables with counters and states."""
    unjudged = {}
    for index, variable in enumerate(sample.variables):
        if variable not in circular:
            own = sample.taken(sample.variable == index)
            channels = without_level(own.taken(~np.isin(own.value, fill[variable])), is_table=not variable)
            if channels is not None:
                unjudged[variable] = channels
    return unjudged


def _in_words(variable: str, channels: WithoutLevel) -> str:
    """Return which channels are not judged, in words.

    Examples
    --------
    >>> _in_words("energy", WithoutLevel(("counter",)))
    'energy is a counter: it is not judged'
    >>> _in_words("", WithoutLevel(("counter", "state"), ("pump", "meter")))
    'pump and meter are counters or states: they are not judged'
    """
    named = list(channels.sensors[:MOST_NAMES])
    if len(channels.sensors) > MOST_NAMES:
        named.append(f"{len(channels.sensors) - MOST_NAMES} others")
    who = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)
    who = f"{variable} of {who}" if who and variable else who or variable or "the variable"
    if len(named) > 1:
        return f"{who} are {' or '.join(f'{kind}s' for kind in channels.kinds)}: they are not judged"
    return f"{who} is {' or '.join(f'a {kind}' for kind in channels.kinds)}: it is not judged"


def _usual(
    sample: Readings, fill: Mapping[str, Sequence[float]], circular: Mapping[str, float]
) -> dict[str, UsualRange]:
    """Return what each variable usually reads."""
    usual = {}
    for index, variable in enumerate(sample.variables):
        own = sample.taken(sample.variable == index)
        own = own.taken(np.isfinite(own.value) & ~np.isin(own.value, fill[variable]))
        if len(own):
            low, middle, high = np.quantile(own.value, (0.01, 0.5, 0.99)).tolist()
            days = (int(own.time.max()) - int(own.time.min())) / DAY
            usual[variable] = UsualRange(low, middle, high, days, variable in circular)
    return usual


def _circular(sample: Readings, fill: Mapping[str, Sequence[float]], options: Options) -> dict[str, float]:
    """Return the variables that are directions in degrees, each with the start of its turn."""
    circular: dict[str, float] = {}
    for index, variable in enumerate(sample.variables):
        own = sample.taken(sample.variable == index)
        codes = (*fill[variable], *(code for code in (*STRONG, *WEAK) if abs(code) > TURN))
        own = own.taken(~np.isin(own.value, codes))
        name, unit = split_unit(variable)
        unit = options.units.get(variable, options.units.get(EVERY, unit))
        names = (name, options.names.get(variable, options.names.get(EVERY, "")))
        named = any(names_direction(text, unit) for text in names)
        if is_direction(own.value, np.diff(own.sensor) == 0, named=named):
            # A vane with a wrong zero reads -1 at times: a turn begins at -180 where there are more below 0 than that.
            below, beyond = float(np.mean(own.value < 0)), float(np.mean(own.value > TURN / 2))
            circular[variable] = -TURN / 2 if below > max(OUTSIDE, beyond) else 0.0
    return circular


def _by_channel(sample: Readings) -> Readings:
    channel = sample.sensor.astype(np.int64) * len(sample.variables) + sample.variable
    if len(sample.sensors) * len(sample.variables) <= 2**16:
        # Numbers of 16 bits are sorted in a fifth of the time.
        channel = channel.astype(np.uint16)
    order = np.argsort(sample.time, kind="stable")
    return sample.taken(order[np.argsort(channel[order], kind="stable")])


def _fill(sample: Readings, options: Options) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """Return the fill values of each variable, given or found, and remarks on those found."""
    fill: dict[str, tuple[float, ...]] = {}
    notes: list[str] = []
    for index, name in enumerate(sample.variables):
        fill_given = options.find_fill(name)
        if fill_given is not None:
            fill[name] = fill_given
            continue
        own = sample.taken(sample.variable == index)
        fill[name], guessed = fill_values(own.value, own.sensor)
        # Values beyond the user's limits are implausible, not fill values.
        low, high = options.find_valid(name)
        unknown = [value for value in guessed if low <= value <= high]
        fill[name] = tuple(value for value in fill[name] if value not in guessed or value in unknown)
        of = f" of {name}" if name else ""
        notes += [f"{value:g} is taken for a fill value{of}: it lies far off and comes back" for value in unknown]
    return fill, notes


def _refuse_contradictions(sample: Readings) -> None:
    """Refuse readings that mostly contradict each other: a column that distinguishes them was not read."""
    same = (np.diff(sample.sensor) == 0) & (np.diff(sample.variable) == 0) & (np.diff(sample.time) == 0)
    share = float(np.mean(same & (np.diff(sample.value) != 0))) if len(sample) > 1 else 0.0
    if share > CONTRADICTORY:
        raise InputError(
            f"{share:.0%} of the readings have the sensor and the time of another and differ from it; is the hour, the "
            "sensor or the variable in another column? Make one column of date and hour, or name that column"
        )


def _time_grid(sample: Readings, options: Options) -> tuple[Grid, list[str]]:
    """Find step, period and jitter from readings sorted by sensor, variable and time."""
    time = sample.time
    gaps, same = np.diff(time), (np.diff(sample.sensor) == 0) & (np.diff(sample.variable) == 0)
    gaps, owner = gaps[same & (gaps > 0)], sample.sensor[1:][same & (gaps > 0)]
    notes: list[str] = []
    span = int(time.max() - time.min()) if time.size else 0
    step = options.step
    if step is None:
        if gaps.size == 0:
            raise InputError("every sensor has a single reading; the step of the grid cannot be found, give step")
        step = _step(gaps, owner)
    period = options.period or _period(step, max(span, step))
    usual = _period(step, max(span, step))
    if options.period and period % usual and usual == DAY:
        notes.append(
            f"a period of {in_words(period)} is not a number of days: the same hour of two days is not compared, and "
            "there are more and shorter faults and silences; leave period out unless the readings repeat every "
            f"{in_words(period)}"
        )
    if options.step is None and period // step > MOST_SLOTS:
        coarser = _coarser(step, period)
        notes.append(f"readings every {in_words(step)} are averaged over {in_words(coarser)}")
        step = coarser
    if options.step is None and period % step:
        step = _coarser(step, period)
    return _grid(step, period, _early(time, step)), notes


def check_grid(options: Options) -> None:
    """Refuse a step that divides no period, before the first reading arrives."""
    if options.step is not None:
        _grid(options.step, options.period or _period(options.step, LEAST_PERIODS * DAY), 0)


def _grid(step: int, period: int, early: int) -> Grid:
    if period > LARGEST_PERIOD * step:
        raise ConfigError(f"a step of {in_words(step)} gives a period of {in_words(period)} {period // step:,} slots")
    if period < 2 * step:
        raise ConfigError(f"a period of {in_words(period)} has no two steps of {in_words(step)}; give a longer one")
    return Grid(step, period, early)


def _step(gaps: NDArray[np.int64], owner: NDArray[np.integer]) -> int:
    """Return the shortest usual step that most sensors fill."""
    # Those of a sensor follow each other.
    starts = np.flatnonzero(np.diff(owner)) + 1
    medians = [np.median(own) for own in np.split(gaps, starts)[:200]]
    length = float(np.quantile(medians, 0.75, method="nearest"))
    candidates = [step for step in STEPS if step >= 0.9 * length] or [round(length / DAY) * DAY]
    for step in candidates[:4]:
        steps = gaps[gaps < 10 * step] / step
        rounded = np.maximum(np.round(steps), 1)
        # Regular readings may have gaps; irregular ones need slots wide enough to be filled.
        if steps.size and (np.mean(np.abs(steps - rounded) < 0.15) > 0.8 or steps.size / rounded.sum() >= OCCUPIED):
            return step
    return candidates[0]


def _period(step: int, span: int) -> int:
    """Return the cycle: a day if there are enough days, else a shorter one that the recording repeats often enough."""
    if step > 8 * HOUR:
        return 7 * max(step, DAY)
    if span >= LEAST_PERIODS * DAY or step > HOUR:
        return DAY
    fitting = [length for length in (6 * HOUR, HOUR, 10 * MINUTE, MINUTE)
               if span >= LEAST_PERIODS * length and length >= 6 * step and length % step == 0]  # fmt: skip
    return fitting[0] if fitting else DAY


def _coarser(step: int, period: int) -> int:
    """Return the finest usual step that divides a period and leaves it not too many slots, else the finest of all."""
    shortest = max(step, -(-period // MOST_SLOTS))
    usual = next((usual for usual in STEPS if usual >= shortest and period % usual == 0), None)
    if usual is not None and 2 * usual <= period:
        return usual
    slots = next((slots for slots in range(period // shortest, 1, -1) if period % slots == 0), None)
    if slots is None:
        raise ConfigError(f"a period of {in_words(period)} cannot be divided into slots of a usual length; give step")
    return period // slots


def _early(time: NDArray[np.int64], step: int) -> int:
    """Return how much before the start of a slot its readings are taken, where they scatter around the starts."""
    phase = (time % step) / step
    straddling = min(float(np.mean(phase < 0.25)), float(np.mean(phase >= 0.75))) > 0.001
    mean_phase = np.exp(2j * np.pi * phase).mean() if straddling else 0.0
    if abs(mean_phase) < 0.7:
        return 0
    centre = np.angle(mean_phase) / (2 * np.pi) % 1
    early = round(float((0.5 - centre) % 1) * step)
    return early // SECOND * SECOND if step >= 10 * SECOND else early


def fill_values(value: FloatArray, sensor: NDArray[np.integer]) -> tuple[tuple[float, ...], list[float]]:
    """Return the fill values, and those of them that are not well known.

    The readings are of one variable, sorted by sensor and time.
    """
    finite = np.isfinite(value)
    value, sensor = value[finite], sensor[finite]
    distinct, count = np.unique(value, return_counts=True)
    strong = np.isin(distinct, STRONG)
    low, high = _bulk(distinct, np.where(strong | np.isin(distinct, WEAK), 0, count), np.where(strong, 0, count))
    codes = {code for code in STRONG if _beyond(code, low, high) > 0.25}
    for code in distinct[np.isin(distinct, WEAK) & (count >= 3)].tolist():
        is_rare = code not in READINGS or np.mean(value == code) <= RARE
        if is_rare and high > low and _beyond(code, low, high) > 0.5 and _scattered(value == code, sensor):
            codes.add(code)
    unknown: list[float] = []
    candidates = ~np.isin(distinct, list(codes))
    for end in (0, -1):
        # Only the outermost value can be one: what lies farther out than a fill value is another fill value.
        while candidates.sum() > 2:
            index = np.flatnonzero(candidates)[end]
            code = distinct[index]
            inner = np.where(candidates, count, 0)
            inner[index] = 0
            low, high = _bulk(distinct, inner, count)
            middle = (code + (high if end else low)) / 2
            alone = inner[distinct > middle if end else distinct < middle].sum() <= 0.1 * count[index]
            far = count[index] >= 10 and high > low and _beyond(code, low, high) > FAR_OFF and alone
            if not far or count[index] > RARE * value.size or not _scattered(value == code, sensor):
                break
            unknown.append(float(code))
            candidates[index] = False
    return tuple(sorted(codes.union(unknown))), unknown


def _bulk(distinct: FloatArray, count: NDArray[np.int64], otherwise: NDArray[np.int64]) -> tuple[float, float]:
    """Return the range of all but the outermost readings; of each of the sorted values there are `count`.

    Where these are few, it is that of `otherwise` as many.
    """
    upto = np.cumsum(count if count.sum() >= 30 else otherwise)
    if not upto.size or upto[-1] == 0:
        return 0.0, 0.0
    ends = []
    for share in (0.005, 0.995):
        place = share * float(upto[-1] - 1)
        around = np.searchsorted(upto, [int(place), min(int(place) + 1, upto[-1] - 1)], side="right")
        ends.append(float(np.quantile(distinct[around], place - int(place))))
    return ends[0], ends[1]


def _beyond(code: float, low: float, high: float) -> float:
    """Return how far a value lies outside a range, in widths of it."""
    outside = max(low - code, code - high)
    return outside / (high - low) if high > low else math.inf if outside > 0 else 0.0


def _scattered(present: BoolArray, sensor: NDArray[np.integer]) -> bool:
    """Return whether a value comes and goes, or at several sensors: a long run at one sensor is a stuck value."""
    starts = int(present[0]) + int(np.sum(present[1:] & ~present[:-1]))
    return starts >= 3 or np.unique(sensor[present]).size >= 2


def sampled_sensors(counts: Sequence[int], most: int) -> list[int]:
    """Return some sensors, evenly chosen, with up to `most` readings in total; `counts` are those of all, by name."""
    chosen: list[int] = []
    total = 0
    for code in _evenly(len(counts))[: 4 * SAMPLE_SENSORS]:
        if len(chosen) < SAMPLE_SENSORS and (not chosen or total + counts[code] <= most):
            chosen.append(code)
            total += counts[code]
    return chosen


def _evenly(count: int) -> list[int]:
    """Return all numbers below `count` in an order whose every prefix is evenly spread."""
    bits = max(count - 1, 1).bit_length()
    reversed_bits = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return [number for number in reversed_bits if number < count]


COUNTER, STATE, CONSTANT = "counter", "state", "constant"

SPAN = 10 * DAY
"""The minimum time that the sample of a channel must cover: for days, a battery may only fall, and a thermostat may
show only two whole degrees."""

LEAST_MOVES, FALLS = 50, 0.01
"""The minimum number of changes of a counter, and the share of them that may be falls."""
FEW_MOVES, RARELY = 20, 0.05
"""That number where a channel mostly stands still, as the sum of the rain of a dry season, and what mostly is."""
RESETS, LOWEST = 0.2, 0.02
"""The share of the changes of a counter that may restart it, and how close to its lowest value it then is, as a share
of its range: totals of a day or a year."""

LEAST_READINGS, LEAST_CHANGES = 500, 4
"""The minimum numbers of readings and of changes of a state."""
MOST_VALUES, MOST_CHANGES = 16, 0.2
"""The maximum number of different values of a state, and the share of its readings that may be changes."""
JUMPS = 0.5
"""The minimum share of its changes that skip a value: a quantity in coarse steps goes through all of them."""
FEW_VALUES, FEW_CHANGES = 3, 0.1
"""Off, low and high have no values in between: this is not tested for up to this many values with up to this share of
changes."""
RESTING = 0.8
"""If one value has more than this share of the readings, as zero has for rain, the engine knows that the channel
rests."""

MOST_CHANNELS = 0.8
"""If this share of the known channels of a variable is a counter or a state, the whole variable is: the sample may not
have all sensors."""


@dataclass(frozen=True)
class WithoutLevel:
    """The counters and states of a variable: the names of these `sensors`, or none where all of them are.

    Attributes
    ----------
    kinds
        `COUNTER`, `STATE`, or both; or `CONSTANT`, where no channel of the variable ever changes.
    """

    kinds: tuple[str, ...]
    sensors: tuple[str, ...] = ()


def without_level(own: Readings, *, is_table: bool = False) -> WithoutLevel | None:
    """Return the counters and states among the channels of one variable, from readings sorted by sensor and time.

    In a table of columns that may measure different things (`is_table`), one that never changes is a constant.

    A counter is a meter that only grows, a state an on and off, or a set point. What such a variable reads next does
    not follow from what it read before, nor from other sensors: a counter that begins anew is not an offset, and a pump
    that stays on is not stuck.

    Examples
    --------
    >>> from sensormend.readings import HOUR
    >>> hours = np.arange(24 * 30, dtype=np.int64)
    >>> def reads(value):
    ...     return without_level(Readings(("a",), ("x",), 0 * hours, 0 * hours, HOUR * hours, value))
    >>> reads((3.7 * hours) % 1000)
    WithoutLevel(kinds=('counter',), sensors=())
    >>> reads(18.0 + 3.5 * (hours % 24 > 6))
    WithoutLevel(kinds=('state',), sensors=())
    >>> reads(np.round(9 * np.sin(hours / 4)))
    """
    edges = np.flatnonzero(np.diff(own.sensor)) + 1
    kinds: dict[str, str] = {}
    constants, n_clear, moves = [], 0, False
    for sensor, time, value in zip(*(np.split(column, edges) for column in (own.sensor, own.time, own.value)),
                                   strict=True):  # fmt: skip
        known = np.isfinite(value)
        value, time = value[known], time[known]
        if not value.size or time[-1] - time[0] < SPAN:
            moves |= bool(value.size) and value.min() < value.max()
            continue
        name = own.sensors[int(sensor[0])]
        if value.min() < value.max():
            moves = True
            kinds[name] = COUNTER if _is_counter(value) else STATE if _is_state(value) else ""
            n_clear += bool(kinds[name]) or int(np.count_nonzero(np.diff(value))) >= LEAST_MOVES
        elif value.size >= LEAST_READINGS:
            constants.append(name)
    if len(own) >= LEAST_READINGS and not moves:
        return WithoutLevel((CONSTANT,))
    chosen = tuple(name for name, kind in kinds.items() if kind)
    # Of what moves too rarely nothing is known by itself, as of the rain of two weeks.
    if chosen and len(chosen) >= MOST_CHANNELS * max(n_clear, len(kinds) / 2):
        return WithoutLevel(tuple(sorted({kinds[name] for name in chosen})))
    if is_table:
        kinds |= dict.fromkeys(constants, CONSTANT)
        chosen = (*chosen, *constants)
    return WithoutLevel(tuple(sorted({kinds[name] for name in chosen})), chosen) if chosen else None


def _is_counter(value: FloatArray) -> bool:
    """Return whether a channel only grows, but for the times at which it begins anew."""
    change = np.diff(value)
    falls, rises = change < 0, change[change > 0]
    moves = int(falls.sum()) + rises.size
    stands = moves >= FEW_MOVES and moves <= RARELY * change.size
    if not rises.size or not (moves >= LEAST_MOVES or stands):
        return False
    # A reset ends near the lowest value, and from far above what it rises by; after a little rain, at the lowest.
    low, high = value.min(), value.max()
    resets = (
        falls & (value[1:] <= low + LOWEST * (high - low)) & ((change < -5 * np.median(rises)) | (value[1:] == low))
    )
    return bool(resets.sum() <= RESETS * moves and (falls & ~resets).sum() <= FALLS * moves)


def _is_state(value: FloatArray) -> bool:
    """Return whether a channel holds one of a few values and then switches to another, not to the next one."""
    distinct, place, count = np.unique(value, return_inverse=True, return_counts=True)
    change = np.diff(place)
    changes = int((change != 0).sum())
    if value.size < LEAST_READINGS or changes < LEAST_CHANGES or count.max() > RESTING * value.size:
        return False
    if distinct.size <= FEW_VALUES and changes <= FEW_CHANGES * value.size:
        return True
    passed = int((np.abs(change) > 1).sum())
    held = changes <= MOST_CHANGES * value.size
    return bool(distinct.size <= MOST_VALUES and held and passed >= JUMPS * changes)
