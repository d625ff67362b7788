"""`weather` draws the weather over a network of stations day by day from a seed, in bounded memory.

The parts are a component that all stations share, a smooth field of a few spatial waves, fronts that cross the map, and
a lattice of local noise. The cost per station is constant, so that 50 and 100,000 stations use the same simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.signal import lfilter
from scipy.spatial import KDTree

from sensormend.recovery import FloatArray

__all__ = ["CLIMATES", "Climate", "Stations", "place", "weather"]

MIDDLE = (53.55, 9.99)
"""Latitude and longitude of the centre of the map, in degrees; there is no city at this place."""

KM_PER_DEGREE = 111.2

WAVES = 16
BURN_IN_DAYS = 12
STATIONS_PER_TOWN = 60


@dataclass(frozen=True)
class Climate:
    """A measured quantity and its variation; sizes in the unit of the quantity, or of its logarithm where `log`.

    Attributes
    ----------
    mean, season, daily, urban, lapse
        Level, yearly and daily amplitude, heat of a town on a calm clear night, change per km of height.
    front, front_hours
        Size of a front and how long it lasts.
    common, common_hours, regional, regional_km
        Weather that all stations share, and the part that varies smoothly over the map.
    local, local_hours, local_km, tail
        The local part, shared by neighbours; `tail` is the degrees of freedom of its shocks (0 is Gaussian).
    noise, calibration, resolutions
        Of the sensors.
    fault
        The size of one unit of fault (see `degrade.py`): about a tenth of the quantity's standard deviation.
    spacing
        Mean distance of stations in km.
    smooth
        The slope of the shared weather changes at random, not its value: as for pressure, unlike temperature.
    floor
        Readings below it are reported as zero, the rest as their excess; only where `log`.
    """

    quantity: str = "temperature"
    unit: str = "°C"
    mean: float = 11.0
    season: float = 12.0
    daily: float = 5.0
    urban: float = 3.5
    lapse: float = -6.0
    front: float = -6.0
    front_hours: float = 40.0
    common: float = 2.5
    common_hours: float = 60.0
    regional: float = 1.0
    regional_km: float = 40.0
    local: float = 0.7
    local_hours: float = 5.0
    local_km: float = 4.0
    tail: float = 0.0
    noise: float = 0.12
    calibration: float = 0.3
    resolutions: tuple[float, ...] = (0.1, 0.1, 0.5, 1.0)
    fault: float = 1.0
    spacing: float = 5.0
    smooth: bool = False
    log: bool = False
    floor: float = 0.0


_SMOKE = Climate(
    quantity="PM2.5", unit="µg/m³", mean=2.2, season=-0.25, daily=-0.15, urban=0.5, lapse=-0.8, front=0.9,
    front_hours=20.0, common=0.45, common_hours=30.0, regional=0.25, local=0.2, local_hours=4.0, tail=5.0,
    noise=0.4, calibration=0.08, resolutions=(0.1, 1.0), fault=1.2, log=True,
)  # fmt: skip

CLIMATES: dict[str, Climate] = {
    "city": Climate(),
    # Sensors that nearly agree, and differ by rare large local events.
    "dense": Climate(
        regional=0.1, local=0.15, local_km=0.4, tail=2.5, spacing=0.25, noise=0.03, calibration=0.05,
        resolutions=(0.1,), urban=0.8,
    ),
    "skewed": _SMOKE,
    # As above, from an instrument that reads zero in clean air.
    "zeros": replace(_SMOKE, floor=7.0),
    "pressure": Climate(
        quantity="pressure", unit="hPa", mean=1013.0, season=2.0, daily=0.8, urban=0.0, lapse=-115.0,
        front=-4.0, front_hours=30.0, common=7.0, common_hours=30.0, regional=0.3, regional_km=150.0,
        local=0.08, local_km=10.0, noise=0.03, calibration=0.4, resolutions=(0.1,), fault=0.7, smooth=True,
    ),
    "sparse": Climate(
        spacing=150.0, regional=2.5, regional_km=250.0, local=1.5, local_hours=12.0, local_km=60.0,
        common=1.5,
    ),
}  # fmt: skip
"""Six networks of one simulation; a result counts only if it holds for all of them."""


@dataclass(frozen=True, eq=False)
class Stations:
    """The positions of the stations; distances and heights in km, `coast` and `town` from 0 (far) to 1 (at it)."""

    x: FloatArray
    y: FloatArray
    height: FloatArray
    coast: FloatArray
    town: FloatArray
    extent: float

    def along(self, angle: float) -> FloatArray:
        """Return the distance of every station from the centre of the map in one direction."""
        return np.asarray(self.x * np.cos(angle) + self.y * np.sin(angle))

    def degrees(self) -> FloatArray:
        """Return latitude and longitude of every station, (station, 2)."""
        latitude = MIDDLE[0] + self.y / KM_PER_DEGREE
        longitude = MIDDLE[1] + self.x / (KM_PER_DEGREE * np.cos(np.radians(MIDDLE[0])))
        return np.stack([latitude, longitude], axis=1)


def place(stations: int, climate: Climate, random: np.random.Generator) -> Stations:
    """Scatter stations over a square with the sea in the west, hills in the east and towns between."""
    extent = climate.spacing * np.sqrt(stations)
    position = random.uniform(-extent / 2, extent / 2, (stations, 2))
    towns = 0.3 * random.uniform(-extent, extent, (1 + stations // STATIONS_PER_TOWN, 2))
    to_town, _ = KDTree(towns).query(position)
    inland = position[:, 0] + extent / 2
    waves, phase = random.normal(0, 2 / extent, (4, 2)), random.uniform(0, 2 * np.pi, 4)
    hills = np.cos(2 * np.pi * position @ waves.T + phase).sum(axis=1)
    return Stations(
        x=position[:, 0], y=position[:, 1],
        height=np.clip(0.15 * inland / extent + 0.03 * hills, 0.002, None),
        coast=np.exp(-inland / 8), town=np.exp(-((to_town / 6) ** 2)), extent=float(extent),
    )  # fmt: skip


class _Noise:
    """Unit-variance noise with a correlation time of `hours`, one row per channel, drawn span by span."""

    def __init__(
        self, channels: int, hours: float, step: float, random: np.random.Generator, *, smooth: bool = False,
        tail: float = 0.0,
    ) -> None:  # fmt: skip
        a = np.exp(-step / hours)
        self._back = np.array([1.0, -2 * a, a * a] if smooth else [1.0, -a])
        self._gain = np.sqrt((1 - a * a) ** 3 / (1 + a * a) if smooth else 1 - a * a)
        self._state = np.zeros((channels, self._back.size - 1))
        self._random, self._tail = random, tail

    def draw(self, slots: int) -> FloatArray:
        shape = (self._state.shape[0], slots)
        if self._tail:
            shocks = self._random.standard_t(self._tail, shape) * np.sqrt((self._tail - 2) / self._tail)
        else:
            shocks = self._random.standard_normal(shape)
        drawn, self._state = lfilter([self._gain], self._back, shocks, axis=-1, zi=self._state)
        return np.asarray(drawn)


class _Fronts:
    """Fronts that cross the map one after the other: their effect on the quantity, and their clouds."""

    def __init__(self, stations: Stations, climate: Climate, random: np.random.Generator) -> None:
        self._stations, self._climate, self._random = stations, climate, random
        self._last = -10 * climate.front_hours
        self._fronts: list[tuple[float, FloatArray, float, float, float]] = []

    def effect(self, hours: FloatArray) -> tuple[FloatArray, FloatArray]:
        lasting = self._climate.front_hours
        shape = (self._stations.x.size, hours.size)
        change, cloud = np.zeros(shape), np.zeros(shape)
        while self._last < hours[-1] + self._stations.extent / 8:
            self._last += self._random.uniform(30, 170)
            delay = self._stations.along(self._random.uniform(0, 2 * np.pi)) / self._random.uniform(8, 30)
            size = self._climate.front * self._random.uniform(0.3, 1.6)
            width, overcast = self._random.uniform(0.5, 3), self._random.uniform(0.2, 1)
            self._fronts.append((self._last, delay, size, width, overcast))
        self._fronts = [front for front in self._fronts if front[0] + front[1].max() + 6 * lasting > hours[0]]
        for start, delay, size, width, overcast in self._fronts:
            if start + delay.min() - 24 > hours[-1]:
                continue
            since = hours - (start + delay)[:, None]
            after = np.exp(-np.clip(since, 0, None) / lasting)
            change += size * after / (1 + np.exp(-np.clip(since / width, -40, 40)))
            cloud += overcast * np.exp(-(((since + 3) / 9) ** 2))
        return change, cloud


def _lattice(stations: Stations, spacing: float) -> sparse.csr_array:
    """Return weights (station, node) that interpolate lattice noise bilinearly, so that neighbours share it."""
    side = int(np.ceil(stations.extent / spacing)) + 2
    position = np.stack([stations.x, stations.y]) / spacing + stations.extent / spacing / 2
    low = np.clip(np.floor(position).astype(int), 0, side - 2)
    part = np.clip(position - low, 0, 1)
    rows, columns, weights = [], [], []
    for dx, dy in ((0, 0), (0, 1), (1, 0), (1, 1)):
        rows.append(np.arange(stations.x.size))
        columns.append((low[0] + dx) * side + low[1] + dy)
        weights.append(np.abs(1 - dx - part[0]) * np.abs(1 - dy - part[1]))
    total = np.sqrt(np.sum(np.square(weights), axis=0))
    data = np.concatenate([weight / total for weight in weights])
    shape = (stations.x.size, side * side)
    return sparse.csr_array((data, (np.concatenate(rows), np.concatenate(columns))), shape=shape)


def weather(stations: Stations, climate: Climate, slots: int, random: np.random.Generator) -> Iterator[FloatArray]:
    """Yield the quantity at every station, day after day without end: arrays (station, slot)."""
    step = 24 / slots
    common = _Noise(1, climate.common_hours, step, random, smooth=climate.smooth)
    waves = random.normal(0, 1 / climate.regional_km, (WAVES, 2))
    angle = np.stack([stations.x, stations.y], axis=1) @ waves.T + random.uniform(0, 2 * np.pi, WAVES)
    shapes = np.sqrt(2 / WAVES) * np.cos(angle)
    regional = _Noise(WAVES, 18.0, step, random, smooth=climate.smooth)
    spread = _lattice(stations, climate.local_km)
    local = _Noise(spread.shape[1], climate.local_hours, step, random, smooth=climate.smooth, tail=climate.tail)
    sky = _Noise(2, 12.0, step, random, smooth=True)
    fronts = _Fronts(stations, climate, random)
    clock = np.arange(slots) * step
    sun = np.cos(2 * np.pi * (clock - 15) / 24) + 0.2 * np.cos(4 * np.pi * (clock - 14) / 24)
    night = np.clip(-sun, 0, None)
    # A town is warmer, a coast milder; both act through the same two quantities, clear sky and calm air.
    mild, height, town = 1 - 0.5 * stations.coast[:, None], stations.height[:, None], stations.town[:, None]
    for _ in range(BURN_IN_DAYS):
        for noise in (common, regional, local, sky):
            noise.draw(slots)
    day = 0
    while True:
        hours = np.asarray(24.0 * day + clock, dtype=float)
        season = -np.cos(2 * np.pi * (hours / 24 - 20) / 365.25)
        clouds, wind = sky.draw(slots)
        change, overcast = fronts.effect(hours)
        clear = 1 - np.clip(0.3 + 0.3 * clouds + overcast, 0, 1)
        still = clear * night / (1 + np.exp(2 * wind))
        field = climate.mean + climate.season * season * mild + change
        field += climate.daily * (0.75 + 0.25 * season) * (0.2 + 0.8 * clear) * mild * sun
        field += climate.urban * town * still + climate.lapse * height * (1 - 0.3 * still)
        field += climate.common * common.draw(slots) + climate.regional * (shapes @ regional.draw(slots))
        field += climate.local * (spread @ local.draw(slots))
        yield np.clip(np.exp(field) - climate.floor, 0, None) if climate.log else field
        day += 1
