"""`city` simulates a network with known truth and the usual defects; `paper_tensor` the paper's simulation.

`StagedFaults` puts the three faults of every demo into a network: a drift, an accepted level, and a jump.
Results are reproducible from a seed, and a longer run begins with the shorter one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.files import atomic_write
from sensormend.recovery import BoolArray, FloatArray
from sensormend.simulate.degrade import KINDS, Degraded, InjectedFault, in_time
from sensormend.simulate.weather import CLIMATES, Climate, Stations, place, weather

__all__ = [
    "CITY_KINDS",
    "FIRST_DAY",
    "Day",
    "Network",
    "StagedFaults",
    "assembled",
    "city",
    "name_sensors",
    "paper_tensor",
    "place_stations",
    "stream",
    "write_example",
    "write_readings",
]


CITY_KINDS = (*KINDS, "uniform")
FIRST_DAY = np.datetime64("2024-01-01", "m")

# About one sensor-day in twenty is faulty: a fault lasts four days on average and touches one more in part.
FAULT_STARTS = 1 / 100
SHORTEST_FAULT, LONGEST_FAULT = 3.0, 21 * 24.0
OUTAGE_STARTS = 1 / 200
SPIKE_SHARE = 1 / 3000
LOST_SHARE = 0.02
BLACKOUTS = 1 / 45
"""The daily probability of a network-wide loss of an afternoon."""


@dataclass(frozen=True, eq=False)
class Day:
    """One day of a network: `readings`, `truth`, `wrong` and `spikes` (sensor, slot); `kind` (sensor,)."""

    readings: FloatArray
    truth: FloatArray
    wrong: BoolArray
    spikes: BoolArray
    kind: NDArray[np.str_]
    started: tuple[InjectedFault, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A simulated network.

    Attributes
    ----------
    sensors
        Labels.
    stations
        Where the sensors are.
    times
        Start of every slot, (slot, day).
    readings
        The readings, (sensor, slot, day), NaN where missing.
    truth
        The readings of sound sensors, including their noise, calibration and resolution.
    wrong, spikes
        Readings inside a fault, and single wrong ones.
    kind
        Kind of fault of each (sensor, day); empty if it is sound.
    faults
        The list of faults.
    """

    sensors: tuple[str, ...]
    stations: Stations
    climate: Climate
    times: NDArray[np.datetime64]
    readings: FloatArray
    truth: FloatArray
    wrong: BoolArray
    spikes: BoolArray
    kind: NDArray[np.str_]
    faults: tuple[InjectedFault, ...]

    def degraded(self) -> Degraded:
        """Return the readings, the truth and the faults for the scores."""
        wrong, faulty = self.wrong | self.spikes, self.kind != ""
        return Degraded(self.readings, self.truth, wrong, faulty, self.kind, self.faults)


def city(
    sensors: int = 50, days: int = 120, *, slots: int = 24, seed: int = 0, climate: str | Climate = "city",
    faults: bool = True,
) -> Network:  # fmt: skip
    """Simulate a network of `sensors` over `days`; `climate` is a name in `CLIMATES` or a `Climate`.

    Examples
    --------
    >>> network = city(sensors=12, days=3, seed=1)
    >>> network.readings.shape
    (12, 24, 3)
    >>> network.sensors[0], network.times[0, 0]
    ('S01', np.datetime64('2024-01-01T00:00'))
    """
    if days < 1:
        raise ConfigError(f"a simulated network needs at least one day, not {days}")
    chosen = _climate(climate)
    drawn = list(islice(stream(sensors, slots=slots, seed=seed, climate=chosen, faults=faults), days))
    return assembled(drawn, seed=seed, climate=chosen)


def name_sensors(sensors: int) -> tuple[str, ...]:
    """Return the labels of a simulated network.

    Examples
    --------
    >>> name_sensors(10)[:2]
    ('S01', 'S02')
    """
    return tuple(f"S{number:0{len(str(sensors))}d}" for number in range(1, sensors + 1))


def place_stations(sensors: int, *, seed: int = 0, climate: str | Climate = "city") -> Stations:
    """Return the positions of the sensors of a simulated network."""
    return place(sensors, _climate(climate), _generators(seed)[0])


def assembled(drawn: Sequence[Day], *, seed: int = 0, climate: str | Climate = "city") -> Network:
    """Return the network of the first days of `stream`, drawn with the same seed and climate."""
    chosen = _climate(climate)
    (sensors, slots), days = drawn[0].readings.shape, len(drawn)
    started = [fault for day in drawn for fault in day.started]
    minutes = np.arange(slots) * (24 * 60 // slots)
    return Network(
        sensors=name_sensors(sensors),
        stations=place_stations(sensors, seed=seed, climate=chosen),
        climate=chosen,
        times=FIRST_DAY + minutes[:, None] + (np.arange(days) * 24 * 60)[None, :],
        faults=tuple(replace(fault, stop=min(fault.stop, days * slots)) for fault in started),
        **{
            name: np.stack([getattr(day, name) for day in drawn], axis=-1)
            for name in ("readings", "truth", "wrong", "spikes", "kind")
        },
    )


def stream(
    sensors: int, *, slots: int = 24, seed: int = 0, climate: str | Climate = "city", faults: bool = True
) -> Iterator[Day]:
    """Yield the days of a network without end, in the memory of one day, also for 100,000 sensors."""
    if sensors < 1:
        raise ConfigError(f"a simulated network needs at least one sensor, not {sensors}")
    if slots < 1 or (24 * 60) % slots:
        raise ConfigError(f"slots must divide the 1440 minutes of a day, and {slots} does not")
    chosen = _climate(climate)
    _, for_weather, for_sensors, for_faults = _generators(seed)
    stations = place_stations(sensors, seed=seed, climate=chosen)
    resolution = for_sensors.choice(chosen.resolutions, (sensors, 1))
    bias = for_sensors.normal(0, chosen.calibration, (sensors, 1))
    noise = chosen.noise * for_sensors.uniform(0.5, 1.5, (sensors, 1))
    broken = _Breakdowns(sensors, slots, chosen, for_faults)
    for values in weather(stations, chosen, slots, for_weather):
        seen = values * np.exp(bias) if chosen.log else values + bias
        seen = seen + noise * for_sensors.standard_normal(values.shape) * (seen > 0 if chosen.log else 1)
        truth = np.round(np.clip(seen, 0, None) / resolution if chosen.log else seen / resolution) * resolution
        yield broken.spoil(truth) if faults else _sound(truth)


def paper_tensor(
    size: int = 50, rank: int = 5, *, minibatches: int = 10, observed: float = 0.9, share: float = 0.05,
    magnitude: float = 2.0, periods: int | None = None, seed: int = 0,
) -> Iterator[Degraded]:  # fmt: skip
    """Yield the minibatches of the paper's simulation, (sensor, slot, period), `size` x `size` x `periods`.

    Cores of standard normal numbers plus one, orthonormal factors that stay, fibers along the slots drawn
    from U(-magnitude, magnitude). The paper's X is zero on those fibers; `truth` keeps its low-rank values there,
    so that a repair can be judged, and is the same everywhere else. `periods` is `size` by default.
    """
    if magnitude <= 0:
        raise ConfigError(f"magnitude must be above 0, not {magnitude}")
    length = size if periods is None else periods
    if min(size, rank, length) < 1:
        raise ConfigError(f"size, rank and periods must be 1 or more, not {size}, {rank} and {length}")
    random = np.random.default_rng(seed)
    factors = [np.linalg.qr(random.standard_normal((mode, rank)))[0] for mode in (size, size, length)]
    for _ in range(minibatches):
        core = random.standard_normal([factor.shape[1] for factor in factors]) + 1
        truth = np.einsum("abc,ia,jb,kc->ijk", core, *factors, optimize=True)
        faulty = random.random((size, length)) < share
        readings = np.where(faulty[:, None, :], random.uniform(-magnitude, magnitude, truth.shape), truth)
        readings[random.random(truth.shape) >= observed] = np.nan
        yield Degraded.by_day(readings, truth, np.where(faulty, "uniform", ""))


def _climate(climate: str | Climate) -> Climate:
    if isinstance(climate, Climate):
        return climate
    if climate not in CLIMATES:
        raise ConfigError(f"no climate {climate!r}; known: {', '.join(CLIMATES)}")
    return CLIMATES[climate]


def _generators(seed: int) -> list[np.random.Generator]:
    """Return one generator per concern, so that the weather does not depend on the faults."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)]


def _sound(truth: FloatArray) -> Day:
    never = np.zeros(truth.shape, dtype=bool)
    return Day(truth.copy(), truth, never, never.copy(), np.full(truth.shape[0], "", dtype="<U8"), ())


class _Breakdowns:
    """Draws faults, outages and losses from day to day."""

    def __init__(self, sensors: int, slots: int, climate: Climate, random: np.random.Generator) -> None:
        self._random, self._climate, self._slots = random, climate, slots
        self._per_hour = slots / 24
        self._start, self._stop = np.zeros(sensors, dtype=int), np.full(sensors, -2 * slots)
        self._silent_from, self._silent_to = np.zeros(sensors, dtype=int), np.zeros(sensors, dtype=int)
        self._kind = np.full(sensors, "", dtype="<U8")
        self._size, self._sign, self._held = np.zeros(sensors), np.ones(sensors), np.zeros(sensors)
        self._now = 0

    def spoil(self, truth: FloatArray) -> Day:
        """Return the day as reported, with faults and losses, from its truth."""
        random, slots = self._random, self._slots
        started = self._begin(truth)
        clock = self._now + np.arange(slots)
        wrong = (clock >= self._start[:, None]) & (clock < self._stop[:, None])
        readings = truth.copy()
        for sensor in np.flatnonzero(wrong.any(axis=1)):
            slot = wrong[sensor]
            readings[sensor, slot] = self._broken(int(sensor), truth[sensor, slot], clock[slot])
        kind = np.where(wrong.any(axis=1), self._kind, "")
        spikes = (random.random(truth.shape) < SPIKE_SHARE) & ~wrong
        size = random.uniform(8, 25, truth.shape) * random.choice((-1.0, 1.0), truth.shape) * self._climate.fault
        readings = np.where(spikes, readings + size, readings)
        if self._climate.log:
            np.clip(readings, 0, None, out=readings)
        lost = random.random(truth.shape) < LOST_SHARE
        lost |= (clock >= self._silent_from[:, None]) & (clock < self._silent_to[:, None])
        if random.random() < BLACKOUTS:
            first, length = random.uniform(11, 15), random.uniform(3, 7)
            hour = np.arange(slots) / self._per_hour
            lost |= (hour >= first) & (hour < first + length)
        readings[lost] = np.nan
        self._now += slots
        return Day(readings, truth, wrong, spikes & ~lost, kind, started)

    def _begin(self, truth: FloatArray) -> tuple[InjectedFault, ...]:
        """Begin faults of sound sensors and outages of reporting ones, at any hour of the day."""
        random, sensors = self._random, truth.shape[0]
        chosen = (random.random(sensors) < FAULT_STARTS) & (self._stop < self._now - self._slots)
        new = np.flatnonzero(chosen)
        hours = np.exp(random.uniform(np.log(SHORTEST_FAULT), np.log(LONGEST_FAULT), new.size))
        offset = random.integers(0, self._slots, new.size)
        self._start[new] = self._now + offset
        self._stop[new] = self._start[new] + np.maximum(1, np.round(hours * self._per_hour)).astype(int)
        self._kind[new] = random.choice(CITY_KINDS, new.size)
        self._size[new] = random.random(new.size)
        self._sign[new] = random.choice((-1.0, 1.0), new.size)
        self._held[new] = truth[new, offset]
        silent = np.flatnonzero((random.random(sensors) < OUTAGE_STARTS) & (self._silent_to <= self._now))
        # Half of the outages are whole days, as when a gateway is down; the rest begin and end at any hour.
        whole_days = random.random(silent.size) < 0.5
        offset = np.where(whole_days, 0, random.integers(0, self._slots, silent.size))
        days = np.exp(random.uniform(np.log(0.25), np.log(14), silent.size))
        length = np.where(whole_days, np.ceil(days), days) * self._slots
        self._silent_from[silent] = self._now + offset
        self._silent_to[silent] = self._silent_from[silent] + np.maximum(1, length).astype(int)
        spans = zip(new.tolist(), self._kind[new].tolist(), self._start[new], self._stop[new], strict=True)
        return tuple(InjectedFault(sensor, kind, int(start), int(stop)) for sensor, kind, start, stop in spans)

    def _broken(self, sensor: int, sound: FloatArray, clock: NDArray[np.int_]) -> FloatArray:
        """Return the faulty readings of a sensor in place of `sound`; sizes as in `degrade.py`."""
        unit, random = self._climate.fault, self._random
        size, sign, kind = self._size[sensor], self._sign[sensor], self._kind[sensor]
        level = float(np.exp(self._climate.mean)) if self._climate.log else self._climate.mean
        if kind == "stuck":
            return np.full_like(sound, self._held[sensor])
        if kind == "offset":
            return np.asarray(sound + sign * (5 + 5 * size) * unit)
        if kind == "drift":
            progress = (clock - self._start[sensor]) / (self._stop[sensor] - self._start[sensor])
            return np.asarray(sound + sign * (2 + 13 * progress) * unit)
        if kind == "noise":
            return sound + random.normal(0, 6 * unit, sound.size)
        if kind == "gain":
            return np.asarray(level + (1.3 * size - 1) * (sound - level))
        return level + random.uniform(-35, 35, sound.size) * unit


JITTER = 20.0
"""The standard deviation of the clocks' errors in seconds: clocks that were set once."""

FILL, FILL_SHARE = -999.0, 0.3
"""The fill value that the logger writes for a part of the missing readings; for a silent day it writes no rows."""

REPEATED, CHANGED = 0.004, 0.0004
"""The shares of readings that are sent twice, and of those that are sent again with another value."""

DELAY_HOURS = 6.0
"""The mean delay with which a reading is logged, which puts the rows out of order."""


def write_readings(path: Path, network: Network) -> None:
    """Write the readings of a network as CSV, in order of time: sensor, time, value, latitude, longitude."""
    value, degrees = in_time(network.readings), network.stations.degrees()
    times = network.times.T.reshape(-1).astype("datetime64[s]")
    with atomic_write(path) as file:
        file.write("sensor,time,value,latitude,longitude\n")
        for slot, sensor in np.argwhere(np.isfinite(value.T)).tolist():
            latitude, longitude = degrees[sensor]
            file.write(f"{network.sensors[sensor]},{times[slot]}Z,{value[sensor, slot]:.10g},{latitude},{longitude}\n")


def write_example(path: str | os.PathLike[str], *, sensors: int = 20, days: int = 90, seed: int = 0) -> int:
    """Write hourly temperatures of a simulated city as CSV, with the defects of real data; return the number of rows.

    The columns are sensor, time, value, latitude and longitude. There are faulty and silent sensors, times off the full
    hour, fill values, duplicates, some of them with another value, and rows out of order.

    Parameters
    ----------
    path
        A file that does not exist yet.
    sensors
        The number of sensors.
    days
        The number of days.
    seed
        Another seed is another city.
    """
    path = Path(path)
    if path.exists():
        raise ConfigError(f"{path} already exists; name another file")
    if seed < 0:
        raise ConfigError(f"--seed is 0 or more, not {seed}")
    network = city(sensors, days, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with atomic_write(path) as file:
        file.write("sensor,time,value,latitude,longitude\n")
        for line in _logger_lines(network, np.random.default_rng([seed, 4])):
            file.write(line)
            written += 1
    return written


def _logger_lines(network: Network, random: np.random.Generator) -> Iterator[str]:
    value = in_time(network.readings)
    hour = network.times.T.reshape(-1).astype("datetime64[s]")
    silent = np.repeat(np.isnan(network.readings).all(axis=1), network.readings.shape[1], axis=1)
    value = np.where(np.isnan(value) & ~silent & (random.random(value.shape) < FILL_SHARE), FILL, value)
    sensor, slot = np.nonzero(np.isfinite(value))
    jitter = np.clip(random.normal(0, JITTER, sensor.size), -90, 90).astype("timedelta64[s]")
    time, number = hour[slot] + jitter, value[sensor, slot]
    resent = np.flatnonzero(random.random(sensor.size) < REPEATED + CHANGED)
    repeated = np.where(
        random.random(resent.size) < CHANGED / (REPEATED + CHANGED),
        number[resent] + random.choice([-1.5, -0.5, 0.5, 1.5], resent.size),
        number[resent],
    )
    repeated = np.where(number[resent] == FILL, FILL, repeated)
    sensor, time = np.append(sensor, sensor[resent]), np.append(time, time[resent])
    number = np.append(number, repeated)
    delay = random.exponential(DELAY_HOURS * 3600, time.size).astype("timedelta64[s]")
    degrees = network.stations.degrees()
    for row in np.argsort(time + delay, kind="stable"):
        latitude, longitude = degrees[sensor[row]]
        name = network.sensors[sensor[row]]
        yield f"{name},{time[row]}Z,{round(number[row], 2):g},{latitude:.4f},{longitude:.4f}\n"


DRIFTS_FROM, SHIFTED_FROM, ACCEPTED_FROM = 40, 50, 72
"""The days from which one sensor drifts, from which another is shifted, and from which the new level of the latter is
accepted."""

DRIFT, SHIFT, JUMP = 0.25, 4.0, 12.0
"""The drift per day, the shift and the jump, in quarters of the standard deviation of a day's readings."""

JUMPS_AT = 8
"""The hour of the jump on the first day that is replayed hour by hour."""

LEAST_SENSORS = 10
"""The minimum number of sensors of a network with staged faults."""


@dataclass(eq=False)
class StagedFaults:
    """Puts the three faults into the days of a simulated network, in place of other faults of these sensors.

    Attributes
    ----------
    sensors
        The number of sensors; the last three have the faults.
    live_from
        The first day that is replayed hour by hour.
    """

    sensors: int
    live_from: int
    _unit: float = 0.0
    _spread: list[float] = field(default_factory=list)

    @property
    def drifting(self) -> str:
        """The sensor that drifts."""
        return name_sensors(self.sensors)[-1]

    @property
    def accepted(self) -> str:
        """The sensor that is shifted, and whose new level is accepted."""
        return name_sensors(self.sensors)[-2]

    @property
    def jumping(self) -> str:
        """The sensor that jumps on the first live day."""
        return name_sensors(self.sensors)[-3]

    def __call__(self, number: int, day: Day) -> Day:
        """Return a day with its part of the faults."""
        if self.sensors < LEAST_SENSORS:
            return day
        if number < DRIFTS_FROM:
            self._spread.append(float(np.nanstd(day.truth)))
            self._unit = float(np.mean(self._spread)) / 4
            return day
        slots = day.truth.shape[1]
        hours = np.arange(slots) * 24 / slots
        drift = DRIFT * (number - DRIFTS_FROM + hours / 24)
        day = self._with(day, self.sensors - 1, "drift", drift, starts=number == DRIFTS_FROM, number=number)
        if number >= SHIFTED_FROM:
            day = self._with(day, self.sensors - 2, "offset", np.full(slots, SHIFT), starts=number == SHIFTED_FROM,
                             number=number, right=number >= ACCEPTED_FROM)  # fmt: skip
        if number >= self.live_from:
            jump = np.where((number > self.live_from) | (hours >= JUMPS_AT), JUMP, 0.0)
            day = self._with(day, self.sensors - 3, "offset", jump, starts=number == self.live_from, number=number)
        return day

    def _with(
        self, day: Day, sensor: int, kind: str, shift: np.ndarray[tuple[int, ...], np.dtype[np.float64]], *,
        starts: bool, number: int, right: bool = False,
    ) -> Day:  # fmt: skip
        """Return a day with a shift added to one sensor; if it is `right`, it becomes the new truth."""
        readings, truth, wrong = day.readings.copy(), day.truth.copy(), day.wrong.copy()
        spikes, kinds = day.spikes.copy(), day.kind.copy()
        moved = truth[sensor] + shift * self._unit
        readings[sensor] = np.where(np.isfinite(readings[sensor]), moved, np.nan)
        if right:
            truth[sensor] = moved
        wrong[sensor], spikes[sensor] = (shift != 0) & (not right), False
        kinds[sensor] = kind if wrong[sensor].any() else ""
        started = tuple(fault for fault in day.started if fault.sensor != sensor)
        if starts:
            slots = truth.shape[1]
            first = number * slots + int(np.flatnonzero(shift)[0])
            last = ACCEPTED_FROM * slots if sensor == self.sensors - 2 else np.iinfo(np.int32).max
            started += (InjectedFault(sensor, kind, first, int(last)),)
        return replace(day, readings=readings, truth=truth, wrong=wrong, spikes=spikes, kind=kinds, started=started)
