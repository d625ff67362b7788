"""`sound_network` simulates archives of unlike sensors in which nothing is wrong; `with_faults` puts plain faults in.

A kind is what its owners would bring: its own variables, steps, gaps and resolutions. Stations share weather, tides or
demand, and each has its own soil, shade, hydraulics and noise: what the others say of a sensor is never all of it. The
same seed gives the same readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from archives.signals import (
    Array,
    Weather,
    between,
    count_hours,
    count_tips,
    find_season,
    lagged,
    make_clock,
    pulses,
    red,
    rounded,
    snow_depth,
    soil_water,
    with_gaps,
)

__all__ = ["FAULTS", "KINDS", "SoundNetwork", "sound_network", "with_faults"]

Channels = dict[tuple[str, str], Array]
"""The values of each channel, by sensor and variable, NaN where it has no reading."""

FAULTS = ("stuck", "dead", "spikes", "offset", "drift")
"""What `with_faults` puts in: one value for 2 to 8 days, 0 for 2 to 8 days, single readings 6 to 12 spreads off, a
level 1.5 to 3 spreads off for 5 to 20 days, and a drift to such a level over 20 to 40 days."""


@dataclass(frozen=True, eq=False)
class SoundNetwork:
    """A simulated archive.

    Attributes
    ----------
    what
        The kind in words.
    readings
        A frame of `time`, `sensor`, `variable` and `value`.
    faulty
        The variables that `with_faults` puts faults into: those with a level that a fault can be told from.
    """

    what: str
    readings: Any
    faulty: tuple[str, ...]


def sound_network(kind: str, seed: int = 0, days: int | None = None) -> SoundNetwork:
    """Return an archive of one of `KINDS`; `days` limits its length."""
    what, make, usual, faulty = KINDS[kind]
    random = np.random.default_rng([seed, list(KINDS).index(kind)])
    time, channels = make(min(days or usual, usual), random)
    frames = []
    for (sensor, variable), value in channels.items():
        known = np.isfinite(value)
        own = time[sensor] if isinstance(time, dict) else time
        frames.append(pd.DataFrame({"time": own[known], "sensor": sensor, "variable": variable, "value": value[known]}))
    readings = pd.concat(frames).sort_values(["time", "sensor", "variable"], kind="stable", ignore_index=True)
    return SoundNetwork(what, readings, faulty)


def with_faults(network: SoundNetwork, seed: int = 0, share: float = 0.3) -> Any:
    """Return the readings with one of `FAULTS` in a share of the channels, and the columns `label` and `fault`.

    Faults begin when three tenths of the archive are over. A channel has one at most; its spread is half the distance
    of its 5 and 95 % quantiles, and at least two of its steps.
    """
    random = np.random.default_rng([seed, 99])
    table = network.readings.copy()
    table["label"], table["fault"] = "", ""
    able = np.flatnonzero(table["variable"].isin(network.faulty))
    groups = table.iloc[able].groupby(["sensor", "variable"]).indices
    places = [able[place] for place in groups.values() if len(place) > 200]
    most = max(1, round(share * len(places)), min(len(FAULTS), len(places) // 2))
    chosen, turn = random.permutation(len(places))[:most], int(random.integers(len(FAULTS)))
    time = table["time"].to_numpy().astype("datetime64[s]").astype(np.int64) / 86400
    value, label, fault = table["value"].to_numpy(copy=True), table["label"].to_numpy(), table["fault"].to_numpy()
    for number, which in enumerate(sorted(chosen.tolist())):
        place, name = places[which], FAULTS[(number + turn) % len(FAULTS)]
        own, clock = value[place], time[place]
        low, high = np.quantile(own, (0.05, 0.95))
        moves = np.abs(np.diff(own))
        spread = max((high - low) / 2, 2 * np.min(moves[moves > 0], initial=np.inf) if (moves > 0).any() else 1.0)
        length = float(np.clip((clock[-1] - clock[0]) / 8, 2, random.uniform(*LENGTHS[name])))
        begin = random.uniform(clock[0] + 0.3 * (clock[-1] - clock[0]), clock[-1] - length)
        inside = place[(clock >= begin) & (clock < begin + length)]
        sign, size = random.choice((-1.0, 1.0)), random.uniform(1.5, 3) * spread
        if name == "spikes":
            inside = np.sort(random.choice(place[clock >= begin], 10, replace=False))
            value[inside] += sign * random.uniform(6, 12, inside.size) * spread
        elif not inside.size:
            continue
        elif name == "stuck":
            value[inside] = value[inside[0]]
        elif name == "dead":
            value[inside] = 0.0
        else:
            value[inside] += sign * size * (1.0 if name == "offset" else np.linspace(0, 1, inside.size))
        label[inside], fault[inside] = "bad", name
    table["value"], table["label"], table["fault"] = value, label, fault
    return table


LENGTHS = {"stuck": (2, 8), "dead": (2, 8), "spikes": (2, 8), "offset": (5, 20), "drift": (20, 40)}
"""Days that each fault lasts."""


def _soil(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return seven stations with four depths."""
    time = make_clock("2018-10-01", days, 60)
    weather, channels = Weather(time, random, mean=7, season=11), {}
    for station in range(7):
        rain, air, name = weather.rain(random), weather.air(random), f"soil{station + 1}"
        snow = np.clip(lagged(np.where(air < 0, 1.0, 0.0), 150) * 3 - 1, 0, 1)
        above = air * (1 - 0.85 * snow) + 0.006 * weather.radiation * random.uniform(0.3, 1)
        field, dry = random.uniform(0.22, 0.36), random.uniform(0.05, 0.12)
        first, last = (random.uniform(0, 0.2) if station == 3 else 0.0), (0.9 if station == 5 else 1.0)
        arriving, lag = np.where(air > 0.5, rain, 0.0) + 0.3 * ((snow > 0.05) & (air > 1)), 0
        for depth in (5, 10, 20, 50):
            heat = above if depth == 5 else lagged(above, 0.35 * depth**1.5 * random.uniform(0.8, 1.25))
            warmth = lagged(heat, 6) + random.normal(0, 0.2) + 0.15 * red(random, time.size, 300)
            # Freezing water holds the temperature until it is frozen.
            ground = np.where(warmth > 0, warmth, np.where(warmth > -1.2, 0.0, warmth + 1.2))
            frozen = np.clip(-warmth / 1.2, 0, 1)
            lag += round(depth / 6 * random.uniform(0.7, 1.4))
            water, capacity = soil_water(np.roll(arriving, lag), dry, field, depth, weather, random)
            arriving = capacity
            water = water - 0.7 * (water - 0.04) * lagged(frozen, 12) + 0.0006 * (ground - 10) / 10
            noise = random.normal(0, 0.0008, time.size)
            gaps = np.isnan(with_gaps(random, air, 0.02))
            for variable, value in (
                ("temperature", rounded(ground + random.normal(0, 0.03, time.size), 0.1)),
                ("moisture", rounded(water + noise, 0.001)),
            ):
                channels[name, f"{variable}_{depth}cm"] = np.where(gaps, np.nan, between(value, first, last))
    return time, channels


def _boilers(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return one boiler with four sensors that measure unlike things under one variable."""
    time = make_clock("2020-11-01", days, 5)
    weather = Weather(time, random, mean=6, season=8)
    clock, count = weather.hours % 24, time.size
    demand = np.clip(18 - weather.temperature, 0, None) / 25 * np.where((clock > 5.5) & (clock < 22), 1.0, 0.55)
    flow, back, flue, burning = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    water, returned, hot, on = 55.0, 45.0, 60.0, False
    for step in range(count):
        wanted = 48 + 22 * demand[step]
        on = water < wanted + 4 if on else water < wanted - 4
        level = np.clip(0.35 + 0.05 * (wanted - water), 0.3, 1.0) if on else 0.0
        water += 3.4 * level - 0.28 * (water - returned) * 0.35 - 0.4 * demand[step]
        returned += 0.22 * (water - returned) - 2.6 * demand[step] - 0.03 * (returned - 20)
        hot += 0.5 * ((water + 75 * level + 5) - hot)
        flow[step], back[step], flue[step], burning[step] = water, returned, hot, level
    noise = random.normal(0, 1, (4, count))
    # Holidays at a lower level, and one visit after which the burner is set anew.
    burning[int(0.6 * count) :] *= 1.08
    values = {
        "flue_temp": rounded(flue + noise[0], 1),
        "water_out": rounded(flow + 0.2 * noise[1], 0.1),
        "water_in": rounded(back + 0.2 * noise[2], 0.1),
        "gas_flow": rounded(np.where(burning > 0, 4.2 * burning + 0.03 * noise[3], 0), 0.01),
    }
    lost = np.isnan(with_gaps(random, flow, 0.01, 300))
    return time, {(name, "value"): np.where(lost, np.nan, value) for name, value in values.items()}


def _rivers(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return two rivers with three variables each."""
    time = make_clock("2017-03-12", days, 60)
    weather, channels = Weather(time, random, mean=20, season=6), {}
    for name in ("Pioneer", "Sandy"):
        rain, size = weather.rain(random), random.uniform(10, 40)
        flood = lagged(lagged(np.clip(lagged(rain, 200) * 0.7 + rain * 0.4 - 0.05, 0, None), size / 6), size)
        level = 1.1 + 0.25 * np.cos(weather.year - 0.8) + 2.5 * flood**0.7 + 0.02 * red(random, time.size, 400)
        dilution = lagged(flood, 20)
        conductivity = (
            random.uniform(180, 420) * (1 + 0.1 * red(random, time.size, 900)) / (1 + 2.5 * dilution)
            + 2 * red(random, time.size, 10)
            + random.normal(0, 1, time.size)
        )
        rising = np.clip(np.gradient(flood), 0, None)
        turbidity = np.exp(1.3 + 0.25 * red(random, time.size, 60) + 0.12 * random.normal(size=time.size)) * (
            1 + 10 * flood + 300 * rising
        )
        for variable, value in (
            ("level", rounded(level + random.normal(0, 0.002, time.size), 0.001)),
            ("conductivity", rounded(conductivity, 0.1)),
            ("turbidity", rounded(np.clip(turbidity, 0.1, 1200), 0.1)),
        ):
            channels[name, variable] = with_gaps(random, value, 0.03, 100)
    return time, channels


def _drinking_water(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return four points of a distribution network: two sources that take turns, tanks, pumps, dosing."""
    time = make_clock("2021-02-01", days, 10)
    count, hours, channels = time.size, count_hours(time), {}
    clock, week = hours % 24, (hours // 24 + 4) % 7
    demand = 0.35 + 0.5 * np.exp(-(((clock - 7.5) / 1.6) ** 2)) + 0.45 * np.exp(-(((clock - 19) / 2.4) ** 2))
    demand = np.where(week >= 5, np.roll(demand, 9) * 1.05, demand) * (1 + 0.06 * red(random, count, 8))
    source = np.zeros(count)
    for place in pulses(random, count, 144 * 9):  # the second source runs for hours to days
        source[place : place + int(random.uniform(20, 500))] = 1.0
    dose = np.full(count, 0.62)
    for place in pulses(random, count, 144 * 25):  # the operator sets the dose anew
        dose[place:] = random.uniform(0.45, 0.8)
    warmth = 9 - 3 * np.cos(find_season(time) - 0.5) + 0.3 * red(random, count, 400)
    for name in ("plant", "tank_north", "zone_a", "zone_b"):
        distance = {"plant": 1.0, "tank_north": 30.0, "zone_a": 60.0, "zone_b": 110.0}[name]
        mixed = lagged(np.roll(source, int(distance)), distance)
        age = distance / 100 * (1.4 - 0.5 * lagged(demand, 10))
        chlorine = (
            lagged(np.roll(dose, int(distance)), distance) * np.exp(-0.35 * age * (1 + 0.03 * (warmth - 9)))
            - 0.05 * mixed
        )
        conductivity = 430 + 190 * mixed + 6 * red(random, count, 700) + random.normal(0, 1.2, count)
        acidity = 7.6 - 0.25 * mixed + 0.03 * red(random, count, 300) + 0.2 * (0.62 - chlorine)
        turbidity = 0.08 + 0.03 * mixed + 0.012 * np.exp(red(random, count, 40))
        for place in pulses(random, count, 144 * 12):  # flushing, and pipes that are scoured when the flow turns
            turbidity[place : place + 12] += random.uniform(0.1, 0.8) * np.exp(-np.arange(12) / 4)[: count - place]
        pumping = np.zeros(count)
        if name == "tank_north":
            level, on = 2.5, False
            for step in range(count):
                on = level < 3.4 if on else level < 2.0
                level += 0.02 * (1.6 * on - demand[step] * 0.9)
                pumping[step] = on
            pressure, flow = 3.0 + 0.35 * pumping + 0.03 * red(random, count, 20), 42.0 * pumping
        else:
            flow = demand * random.uniform(12, 60) * (1 + 0.05 * random.normal(size=count))
            flow = np.where((name == "zone_b") & (clock < 4.5), 0.0, flow)
            pressure = random.uniform(3.5, 6) - 0.8 * demand + 0.05 * red(random, count, 6)
            valve = int(random.uniform(0.4, 0.8) * count)
            pressure[valve:] -= random.uniform(0.2, 0.5)  # a pressure zone is set anew, for good
        pressure = pressure + random.normal(0, 0.015, count)
        lost = np.isnan(with_gaps(random, flow, 0.01, 100))
        for variable, value in (
            ("chlorine", rounded(np.clip(chlorine + 0.008 * random.normal(size=count), 0, None), 0.01)),
            ("pH", rounded(acidity, 0.01)),
            ("turbidity", rounded(turbidity, 0.001)),
            ("conductivity", rounded(conductivity, 1)),
            ("pressure", rounded(pressure, 0.01)),
            ("flow", rounded(flow + (flow > 0) * random.normal(0, 0.3, count), 0.1)),
        ):
            channels[name, variable] = np.where(lost, np.nan, value)
    return time, channels


def _estuary(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return three sondes along an estuary, each with its tide, its fresh water and its plankton."""
    time = make_clock("2019-04-01", days, 15)
    weather, count, channels = Weather(time, random, mean=14, season=9), time.size, {}
    tide = sum(
        size * np.cos(2 * np.pi * weather.hours / hours + phase)
        for size, hours, phase in (
            (1.0, 12.4206, 0.3),
            (0.32, 12.0, 1.1),
            (0.2, 12.6583, 2.0),
            (0.14, 23.9345, 0.5),
            (0.1, 25.8193, 2.2),
        )
    )
    runoff = lagged(lagged(weather.rain(random), 60), 300)
    surge = 0.12 * red(random, count, 200)
    for number, name in enumerate(("mouth", "middle", "upper")):
        lag, reach = 4 * number, (0.9, 0.8, 0.55)[number]
        local = np.roll(tide, lag) * reach * random.uniform(0.9, 1.1)
        depth = 2.6 - 0.5 * number + 0.7 * local + surge + random.normal(0, 0.01, count)
        fresh = np.clip(runoff / 0.25 * (0.15 + 0.5 * number), 0, 1.5) + 0.03 * red(random, count, 150)
        salt = np.clip(32 - 7 * number - 18 * fresh + (1.2 + 3.2 * number) * local, 0.1, 34)
        salt += 0.15 * red(random, count, 6)
        water = lagged(weather.temperature, (400, 250, 150)[number]) + 0.5 * local * (number - 0.5)
        water += 0.0012 * lagged(weather.radiation, 10) * (1 + number) + 0.1 * red(random, count, 20)
        bloom = np.exp(0.5 * red(random, count, 900))
        oxygen = (
            11.8 - 0.2 * water - 0.03 * salt + bloom * (0.004 * (1 + number)) * (lagged(weather.radiation, 14) - 150)
        )
        oxygen += 0.25 * local * (1 - number) + 0.15 * red(random, count, 12)
        acidity = 7.95 - 0.12 * number + 0.12 * (oxygen - 8) / 2 + 0.01 * (salt - 25) + random.normal(0, 0.01, count)
        stirred = np.abs(np.gradient(local)) * 12 + 1.5 * fresh + 0.4 * red(random, count, 100)
        turbidity = np.exp(1.2 + 0.9 * number + 0.6 * stirred + 0.18 * random.normal(size=count))
        swap = np.isnan(with_gaps(random, depth, 0.015, 60))
        for variable, value, step in (
            ("Temp", water, 0.1),
            ("Sal", salt, 0.1),
            ("DO_mgl", np.clip(oxygen, 0.1, None), 0.1),
            ("pH", acidity, 0.1),
            ("Turb", np.clip(turbidity, 0, 1000), 1),
            ("Depth", depth, 0.01),
        ):
            channels[name, variable] = np.where(swap, np.nan, rounded(value, step))
    return time, channels


def _logger(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return one logger file: every column that such files have."""
    time = make_clock("2022-01-10", days, 10)
    weather, count = Weather(time, random, mean=5, season=11), time.size
    air, rain = weather.air(random), weather.rain(random)
    tips = count_tips(rain, 0.2)
    wind = np.clip(weather.wind + 0.4 * random.normal(size=count), 0, None)
    charge = (
        12.6
        + 0.9 * np.clip(weather.radiation / 250, 0, 1)
        - 0.015 * np.clip(5 - air, 0, None)
        + 0.05 * red(random, count, 300)
    )
    frozen = lagged(air + 0.003 * weather.radiation, 60)
    water, _ = soil_water(rain / 6, 0.08, 0.3, 10, weather, random)
    status = np.zeros(count)
    for place in pulses(random, count, 144 * 8):
        status[place : place + int(random.integers(1, 30))] = random.choice((1, 2, 17, 64))
    opened = np.zeros(count)
    for place in pulses(random, count, 144 * 20):
        opened[place : place + int(random.integers(1, 12))] = 1
    record = np.arange(count) + 81234.0
    record[int(0.7 * count) :] -= record[int(0.7 * count)]  # a program was sent, and counting begins anew
    snow = snow_depth(np.where(air < 0.8, rain, 0), air, weather.step)
    total = np.cumsum(tips)
    values = {
        "RECORD": record,
        "Batt_Volt_Min": rounded(charge, 0.01),
        "PTemp_C": rounded(lagged(air + 0.008 * weather.radiation, 4) + 0.8, 0.1),
        "AirTC_Avg": rounded(air, 0.01),
        "RH": rounded(weather.humidity(air, random), 0.1),
        "WS_ms_Avg": rounded(np.where(wind < 0.3, 0, wind), 0.01),
        "WS_ms_Max": rounded(np.where(wind < 0.3, 0, wind * (1.3 + 0.25 * np.abs(random.normal(size=count)))), 0.01),
        "WindDir": rounded((weather.direction + 15 * random.normal(size=count)) % 360, 1) % 360,
        "SlrW_Avg": rounded(
            np.clip(
                weather.radiation * (1 + 0.1 * red(random, count, 2)) - 1.5 + 0.3 * random.normal(size=count),
                -4,
                None,
            ),
            0.1,
        ),
        "Rain_mm_Tot": tips,
        "Rain_cum_mm": np.round(total - np.where(np.arange(count) > 0.5 * count, total[count // 2], 0), 1),
        "TSoil_5cm": rounded(
            np.where((frozen < 0) & (frozen > -1.5), 0.0, np.where(frozen < 0, frozen + 1.5, frozen)), 0.01
        ),
        "VWC_10cm": rounded(water + 0.0005 * random.normal(size=count), 0.001),
        "SnowDepth_cm": rounded(snow + 0.4 * random.normal(size=count), 0.1),
        "StatusCode": status,
        "DoorOpen": opened,
        "ProgSig": np.full(count, 37421.0),
        "Visits": np.cumsum(np.diff(opened, prepend=0) > 0).astype(float),
    }
    lost = np.isnan(with_gaps(random, air, 0.01, 400))
    return time, {("CR1000", name): np.where(lost, np.nan, value) for name, value in values.items()}


def _laboratory(days: int, random: np.random.Generator) -> tuple[dict[str, Array], Channels]:
    """Return sixteen motes with irregular clocks in three zones: lights, sun on some desks, cooling that cycles."""
    times, channels = {}, {}
    base = make_clock("2004-03-01", days, 1)
    weather, count = Weather(base, random, mean=14, season=5), base.size
    clock, week = weather.hours % 24, (weather.hours // 24) % 7
    working = ((clock > 7.5) & (clock < 19) & (week < 5)).astype(float)
    zones = []
    for _ in range(3):
        cycle = 0.35 * np.sin(2 * np.pi * np.cumsum(1 / random.uniform(35, 60) * (1 + 0.2 * red(random, count, 300))))
        lights = working * (np.abs(red(random, count, 200)) < 1.6)
        zones.append((21.5 + 1.2 * lagged(working, 120) + cycle * working + 0.4 * red(random, count, 900), lights))
    for mote in range(16):
        zone, lights = zones[mote % 3]
        place = np.sort(random.choice(count, int(count / 5 * random.uniform(0.6, 0.95)), replace=False))
        name = f"mote{mote + 1}"
        if mote == 9:
            place = place[place > 0.2 * count]
        if mote == 12:
            place = place[place < 0.8 * count]
        sun = np.clip(np.cos((clock - random.uniform(9, 17)) * np.pi / 3.5), 0, None) * (np.abs(clock - 13) < 6)
        desk = random.gamma(1, 0.8) * sun * weather.radiation / 600
        warm = zone + random.normal(0, 0.7) + lagged(2.0 * desk, 25) + 0.25 * red(random, count, 120)
        moist = 38 + 5 * lagged(weather.temperature - 14, 600) / 5 - 1.9 * (warm - 22) + 1.2 * red(random, count, 300)
        lux = np.where(lights > 0, random.uniform(150, 500), 2.0) + 500 * desk * (0.8 + 0.2 * red(random, count, 10))
        volt = 2.75 - random.uniform(0.1, 0.25) * np.arange(count) / count + 0.004 * (warm - 22)
        times[name] = base[place] + random.integers(0, 30, place.size).astype("timedelta64[s]")
        for variable, value, step in (
            ("temperature", warm, 0.0098),
            ("humidity", moist, 0.03),
            ("light", lux, 0.46),
            ("voltage", volt, 0.01),
        ):
            channels[name, variable] = rounded(value[place] + 0.5 * step * random.normal(size=place.size), step)
    return times, channels


def _reservoir(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return a chain of nine thermistors, oxygen at three depths and a sonde at the surface; it mixes in autumn."""
    time = make_clock("2020-01-01", days, 30)
    weather, count, channels = Weather(time, random, mean=13, season=11), time.size, {}
    surface = lagged(weather.temperature, 700) + 1.5 + 0.0022 * lagged(weather.radiation, 10)
    deep = np.clip(lagged(np.minimum(surface, 9.5 + 1.5 * np.sin(weather.year - 1.8)), 1500), 3.5, None)
    mixing = 3.5 + 1.5 * red(random, count, 300) + 9 * np.clip(-np.sin(weather.year - 1.5), 0, None) ** 0.7
    mixing += 0.5 * lagged(weather.wind - 3, 40)
    seiche = (
        0.35
        * np.sin(2 * np.pi * weather.hours / 9.5 + 2 * red(random, count, 400))
        * np.clip(lagged(weather.wind, 40) / 3, 0, 2)
    )
    for depth in (0.1, 1, 2, 3, 4, 5, 6, 8, 9):
        below = 1 / (1 + np.exp(-(depth - mixing - seiche) / random.uniform(0.6, 0.9)))
        warm = surface + (np.minimum(deep, surface) - surface) * below
        if depth < 1:
            warm = warm + 0.003 * weather.radiation * np.exp(-weather.wind / 3)
        value = warm + 0.04 * red(random, count, 20) + random.normal(0, 0.05)
        channels["chain", f"temp_{depth:g}m"] = with_gaps(random, rounded(value, 0.01), 0.01)
        if depth in (1, 5, 9):
            demand = lagged(below, 900) * (0.5 + 0.5 * np.clip(np.sin(weather.year - 1.2), 0, 1))
            oxygen = (14.2 - 0.35 * warm + 0.006) * np.clip(1 - 1.35 * demand, 0, 1) + 0.1 * red(random, count, 50)
            channels["chain", f"oxygen_{depth:g}m"] = with_gaps(random, rounded(np.clip(oxygen, 0, None), 0.01), 0.02)
    bloom = np.exp(0.9 + 0.7 * red(random, count, 900) + 0.3 * np.sin(weather.year - 2))
    for variable, value, step in (
        ("chlorophyll", bloom * (1 + 0.15 * random.normal(size=count)), 0.01),
        ("conductivity", 36 + 3 * red(random, count, 2000) + 0.2 * surface, 0.1),
        ("fdom", 6 + 2 * lagged(weather.rain(random), 700) * 20 + 0.3 * red(random, count, 500), 0.01),
        ("battery", 13 + 0.5 * (weather.radiation > 150) + 0.05 * red(random, count, 100), 0.01),
    ):
        channels["sonde", variable] = with_gaps(random, rounded(value, step), 0.02)
    return time, channels


def _parking(days: int, random: np.random.Generator) -> tuple[dict[str, Array], Channels]:
    """Return thirty car parks, counted every half hour of the day, with full ones, quiet ones and missing days."""
    channels, times = {}, {}
    first = np.datetime64("2016-10-04", "s")
    city = 0.15 * red(random, days, 3)
    for number in range(30):
        capacity, peak = int(random.integers(220, 4000)), random.uniform(0.35, 1.15)
        weekend, hour, width = random.uniform(0.2, 1.3), random.uniform(11.5, 14), random.uniform(2.6, 4.2)
        own, level, clocks, values = 0.07 * red(random, days, 4), random.uniform(0.02, 0.2), [], []
        for day in range(days):
            if (number + 3 * day) % 97 == 0:
                continue
            busy = peak * (weekend if (day + 1) % 7 >= 5 else 1.0) * (1 + city[day] + own[day])
            busy *= 1 + 0.25 * (day > 0.7 * days) * (weekend > 0.8)  # before Christmas
            late = random.normal(0, 0.25)
            for half in range(18):
                now = 8 + half / 2
                share = level + busy * np.exp(-(((now - hour - late) / width) ** 2))
                count = capacity * min(share * (1 + 0.02 * random.normal()), 1.0)
                clocks.append(day * 86400 + int(now * 3600) - 20 + int(random.integers(0, 40)))
                values.append(max(0, round(count)))
        name = f"BHM{number:02d}"
        times[name] = first + np.array(clocks).astype("timedelta64[s]")
        channels[name, "occupancy"] = np.array(values, dtype=float)
    return times, channels


def _air(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return twenty sites of a city, kerbs and parks, with the pollutants that each measures."""
    time = make_clock("2019-01-01", days, 60)
    weather, count, channels = Weather(time, random, mean=11, season=7), time.size, {}
    clock, week = weather.hours % 24, (weather.hours // 24 + 1) % 7
    traffic = 0.3 + np.exp(-(((clock - 8) / 1.8) ** 2)) + 0.9 * np.exp(-(((clock - 17.5) / 2.6) ** 2))
    traffic = np.where(week >= 5, 0.3 + 0.75 * np.exp(-(((clock - 15) / 4.5) ** 2)), traffic)
    still = 1 / (0.5 + weather.wind / 3)
    regional = np.exp(2.1 + 0.45 * red(random, count, 60) + 0.3 * np.cos(weather.year)) * still**0.4
    sun = lagged(weather.radiation, 3)
    for number in range(20):
        kerb, name = random.gamma(1.5, 0.5), f"site{number:02d}"
        street = 1 + 0.35 * np.cos(np.radians(weather.direction - random.uniform(0, 360)))
        nitrogen = (
            (9 + 26 * kerb * traffic * street)
            * still
            * np.exp(0.22 * red(random, count, 4) + 0.12 * red(random, count, 600))
        )
        fine = regional * (0.8 + 0.15 * kerb * traffic) * np.exp(0.12 * red(random, count, 8)) + 1.3 * random.normal(
            size=count
        )
        coarse = fine * 1.25 + 6 * kerb * traffic * np.exp(0.35 * red(random, count, 4)) + 2 * random.normal(size=count)
        if number % 6 == 1:  # works in the street, for weeks
            begin = int(random.uniform(0.2, 0.7) * count)
            working = (clock > 7) & (clock < 17) & (week < 5)
            coarse[begin : begin + 900] += (25 * np.exp(0.5 * red(random, count, 4)) * working)[begin : begin + 900]
        fires = np.abs(weather.hours / 24 - 308.9) < 0.25
        fine = fine + 30 * fires * random.uniform(0.3, 1.5)
        ozone = np.clip(
            55 + 0.05 * sun - 14 * np.cos(weather.year - 2.8) - 0.75 * nitrogen + 8 * red(random, count, 40),
            0,
            None,
        )
        first, last = (random.uniform(0, 0.4) if number == 7 else 0.0), (0.6 if number == 11 else 1.0)
        for variable, value, present in (
            ("NO2", nitrogen + 0.5 * random.normal(size=count), True),
            ("PM10", coarse, number % 4 != 3),
            ("PM2.5", fine, number % 2 == 0),
            ("O3", ozone + random.normal(size=count), number % 3 == 0),
        ):
            if present:
                channels[name, variable] = with_gaps(random, between(rounded(value, 0.1), first, last), 0.05)
    return time, channels


def _weather_stations(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Six stations with all that a weather station has."""
    time = make_clock("2019-07-01", days, 60)
    weather, count, channels = Weather(time, random, mean=6, season=11), time.size, {}
    for station in range(6):
        name, air, rain = f"WX{station}", weather.air(random), weather.rain(random)
        wind = np.clip(weather.wind * random.uniform(0.6, 1.4) * np.exp(0.2 * red(random, count, 3)) - 0.4, 0, None)
        turned = weather.direction + random.normal(0, 15) + 30 * random.normal(size=count) / (1 + wind)
        veil = np.clip(weather.cloud + 0.12 * red(random, count, 2), 0, 1)
        shade = np.where((weather.hours % 24 < 8.5) & (station == 2), 0.35, 1.0)  # a ridge in the east
        light = weather.clear * (1 - 0.72 * veil**2.5) * shade + 1.2 * random.normal(size=count) * (weather.clear > 0)
        snow = snow_depth(np.where(air < 0.8, rain, 0) * random.uniform(0.5, 1.5), air, 1.0)
        lost = np.isnan(with_gaps(random, air, 0.015))
        late = 0.3 if station == 4 else 0.0
        for variable, value in (
            ("air_temp", rounded(air, 1.0 if station == 1 else 0.1)),
            ("RH", rounded(weather.humidity(air, random), 1)),
            ("rain", count_tips(np.where((air < 0.8) & (station != 3), 0, rain), 0.2 if station else 0.1)),
            ("snow_depth", rounded(np.clip(snow + 0.5 * random.normal(size=count) * (snow > 0), 0, None), 1)),
            ("radiation", rounded(np.clip(light, 0, None), 1)),
            ("wind_speed", rounded(wind, 0.1)),
            ("wind_dir", np.where(wind > 0, rounded(turned % 360, 10) % 360, 0.0)),
            ("pressure", rounded(weather.pressure - 10 * station + 0.2 * red(random, count, 10), 0.1)),
        ):
            channels[name, variable] = np.where(lost, np.nan, between(value, late, 1.0))
    return time, channels


def _building(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return six air handlers: set points, valves, on and off, carbon dioxide, holidays."""
    time = make_clock("2021-01-04", days, 15)
    weather, count, channels = Weather(time, random, mean=10, season=9), time.size, {}
    clock, day = weather.hours % 24, weather.hours // 24
    holiday = np.isin(day // 7, (3, 11))
    for number in range(6):
        name, begin, end = f"AHU{number + 1}", random.choice((5.5, 6, 7)), random.choice((18, 19, 22))
        on = ((clock >= begin) & (clock < end) & (day % 7 < 5) & ~holiday).astype(float)
        setpoint = np.where(on > 0, 21.5, 17.0)
        for place in pulses(random, count, 96 * 20):
            setpoint[place : place + int(random.uniform(96, 1500))] += random.choice((-1, 0.5, 1))
        load = 0.07 * (weather.temperature - 12) + on * 1.2 * (0.5 + 0.5 * lagged(on, 12))
        warm, moved = np.empty(count), 20.0
        valve = np.empty(count)
        for step in range(count):
            wanted = np.clip(35 * (setpoint[step] - moved), 0, 100) if on[step] or moved < setpoint[step] else 0.0
            valve[step] = wanted
            moved += 0.014 * wanted - 0.045 * (moved - 14 - load[step] * 2.4)
            warm[step] = moved
        people = (
            on * np.exp(-(((clock - 12.5) / 4.5) ** 4)) * random.uniform(300, 700) * (1 + 0.15 * red(random, count, 20))
        )
        for variable, value in (
            ("zone_temp", rounded(warm + 0.1 * red(random, count, 10), 0.1)),
            ("setpoint", setpoint),
            ("valve_pct", rounded(valve, 1)),
            ("fan_status", on),
            (
                "supply_temp",
                rounded(np.where(on > 0, 16 + 0.18 * valve, warm) + 0.15 * random.normal(size=count), 0.1),
            ),
            ("co2", rounded(420 + lagged(people, 4) + 8 * random.normal(size=count), 1)),
        ):
            channels[name, variable] = with_gaps(random, value, 0.003, 50)
    return time, channels


def _waves(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return four buoys: heights that grow in storms, periods that jump between sea and swell, directions."""
    time = make_clock("2017-01-01", days, 30)
    weather, count, channels = Weather(time, random, mean=20, season=4), time.size, {}
    swell = np.exp(0.1 + 0.4 * red(random, count, 150))
    for number in range(4):
        sea = 0.25 * lagged(weather.wind, 12) * random.uniform(0.7, 1.1) * np.exp(0.1 * red(random, count, 8))
        own = swell * random.uniform(0.5, 1) * np.exp(0.08 * red(random, count, 20))
        height = np.hypot(sea, own) * np.exp(0.06 * random.normal(size=count))
        ruled = own * np.exp(0.3 * random.normal(size=count)) > sea
        period = np.where(ruled, 11 + 1.6 * red(random, count, 200), 5.2 + 0.8 * np.sqrt(sea)) + 0.5 * random.normal(
            size=count
        )
        heading = np.where(ruled, 120 + 12 * red(random, count, 300), weather.direction - 110) + 6 * random.normal(
            size=count
        )
        first, last = (0.0, 0.75) if number == 2 else (0.0, 1.0)
        for variable, value, step in (
            ("Hs", height, 0.01),
            ("Hmax", height * (1.6 + 0.16 * random.gumbel(size=count)), 0.01),
            ("Tp", np.clip(period, 2, None), 0.01),
            ("Peak Direction", heading % 360, 1),
            ("SST", lagged(weather.temperature, 2000) + 0.2 * red(random, count, 100), 0.05),
        ):
            channels[f"buoy{number}", variable] = with_gaps(random, between(rounded(value, step), first, last), 0.03)
    return time, channels


def _energy(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return eight meters, two of them of panels on a roof: counters that only grow, power that is 0 at night."""
    time = make_clock("2021-11-01", days, 15)
    weather, count, channels = Weather(time, random, mean=8, season=9), time.size, {}
    clock, day = weather.hours % 24, weather.hours // 24
    holiday = (day > 52) & (day < 62)
    for number in range(8):
        name = f"meter{number + 1}"
        if number >= 6:
            power = np.clip(
                random.uniform(4, 9) * weather.radiation / 900 * (1 + 0.15 * red(random, count, 2)), 0, None
            )
        elif number >= 3:  # offices
            at_work = (clock > 7) & (clock < 18.5) & (day % 7 < 5) & ~holiday
            power = random.uniform(1, 3) + random.uniform(8, 25) * lagged(at_work.astype(float), 3) * (
                1 + 0.1 * red(random, count, 6)
            )
            power += 0.25 * np.clip(12 - weather.temperature, 0, None) * random.uniform(0.5, 1.5)
        else:  # homes
            habit = 0.3 + 0.5 * np.exp(-(((clock - 7.3) / 1.2) ** 2)) + np.exp(-(((clock - 19) / 2.3) ** 2))
            power = 0.12 + habit * np.exp(0.7 * red(random, count, 3) - 0.3) * 0.5 * random.uniform(0.6, 1.6)
            for place in pulses(random, count, 60):
                power[place : place + 4] += random.uniform(1, 3)
            if number == 1:
                power[(day > 30) & (day < 40)] = 0.09  # away from home
        volts = (
            231
            - 2.5 * np.exp(-(((clock - 19) / 2.5) ** 2))
            + 0.9 * red(random, count, 8)
            + 0.6 * random.normal(size=count)
        )
        total = np.cumsum(power) / 4 + random.uniform(0, 9000)
        if number == 4:
            total = total % 10000  # five digits
        power = np.where(power < 0.01, 0, power)
        for variable, value, step in (("energy_kWh", total, 0.1), ("power_kW", power, 0.01), ("voltage", volts, 0.1)):
            channels[name, variable] = with_gaps(random, rounded(value, step), 0.01, 90)
    return time, channels


def _groundwater(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return eight wells of several aquifers, daily for years; two are pumped."""
    time = make_clock("2008-01-01", days, 1440)
    count, year, channels = time.size, find_season(time), {}
    wet = np.exp(0.9 * random.normal(size=count)) * (random.random(count) < 0.4) * (1 + 0.5 * np.cos(year))
    years = lagged(wet - wet.mean(), 500) * 12
    for number in range(8):
        memory = np.exp(random.uniform(np.log(15), np.log(300)))
        recharge = lagged(wet * np.exp(0.3 * random.normal(size=count)) - wet.mean(), memory)
        level = random.uniform(-25, -3) + random.uniform(0.4, 1.2) * (
            recharge / max(recharge.std(), 1e-9) * 0.6 + 0.3 * years
        )
        level = level + 0.01 * red(random, count, 300) + 0.012 * random.normal(size=count)
        if number in (2, 5):
            irrigated = (np.cos(year - 3.5) > 0.5) & (red(random, count, 10) > -0.3)
            level = level - random.uniform(0.4, 1.2) * lagged(irrigated.astype(float), 6)
        if number == 6:
            level[int(0.55 * count) :] -= 0.8 * (
                1 - np.exp(-np.arange(count - int(0.55 * count)) / 200)
            )  # a new well nearby
        first, last = (0.35, 1.0) if number == 3 else (0.0, 0.8) if number == 7 else (0.0, 1.0)
        value = rounded(level, 0.01 if number != 4 else 0.1)
        channels[f"well{number + 1}", "level_m"] = with_gaps(random, between(value, first, last), 0.04, 60)
    return time, channels


def _soil_gas(days: int, random: np.random.Generator) -> tuple[Array, Channels]:
    """Return three pits with carbon dioxide at three depths, soil warmth and the battery of each logger."""
    time = make_clock("2020-03-01", days, 30)
    weather, count, channels = Weather(time, random, mean=11, season=9), time.size, {}
    for number in range(3):
        rain, air, name = weather.rain(random), weather.air(random), f"pit{number + 1}"
        water, _ = soil_water(rain, 0.07, 0.28, 10, weather, random)
        for depth in (5, 20, 50):
            warm = lagged(air + 0.004 * weather.radiation, 0.8 * depth**1.5)
            made = (
                random.uniform(0.7, 1.3)
                * depth**0.6
                * 260
                * np.exp(0.07 * (warm - 10))
                * np.clip(water / 0.25, 0.2, 1.2)
            )
            blocked = 1 + 4 * np.clip(water - 0.27, 0, None) / 0.05
            wind = 1 - 0.06 * np.clip(lagged(weather.wind, 6) - 3, 0, 6) * (depth < 30)
            gas = 420 + lagged(made * blocked, depth) * wind * np.exp(0.04 * red(random, count, 30))
            channels[name, f"CO2_{depth}cm"] = with_gaps(
                random, rounded(np.clip(gas + 8 * random.normal(size=count), 380, 10000), 10), 0.03
            )
            channels[name, f"T_{depth}cm"] = with_gaps(
                random, rounded(warm + 0.02 * random.normal(size=count), 0.06), 0.02
            )
        cells = (
            3.9
            + 0.25 * np.sin(weather.hours / 24 * 2 * np.pi / random.uniform(20, 40))
            + 0.02 * (weather.radiation > 200)
        )
        channels[name, "battery"] = rounded(cells, 0.01)
    return time, channels


def _tracker(days: int, random: np.random.Generator) -> tuple[dict[str, Array], Channels]:
    """Return three collars of animals: positions, speeds that are often 0, batteries, irregular clocks."""
    times, channels = {}, {}
    for number in range(3):
        name, count = f"collar{number + 1}", days * 48
        seconds = np.cumsum(np.where(random.random(count) < 0.03, 3600, 1800) + random.integers(-60, 60, count))
        active = (np.cos((seconds / 3600 % 24 - 7) * np.pi / 6) + red(random, count, 6) > 0.4).astype(float)
        speed = active * np.exp(-1.2 + 0.6 * random.normal(size=count))
        heading = np.cumsum(0.5 * random.normal(size=count))
        steps = speed * 0.005
        north, east, y, x = np.empty(count), np.empty(count), 0.0, 0.0
        for place in range(count):
            y += steps[place] * np.sin(heading[place]) - 0.01 * y
            x += steps[place] * np.cos(heading[place]) - 0.01 * x
            north[place], east[place] = y, x
        noise = 2e-5 * random.standard_t(3, (2, count))
        times[name] = np.datetime64("2022-05-01", "s") + seconds.astype("timedelta64[s]")
        battery = 100 - 60 * np.arange(count) / count + 0.3 * random.normal(size=count)
        for variable, value, step in (
            ("lat", 46.5 + north + noise[0], 1e-5),
            ("lon", 10.2 + east + noise[1], 1e-5),
            ("speed", speed, 0.1),
            ("battery_pct", np.clip(battery, 0, 100), 1),
            ("satellites", np.clip(np.round(9 + 2 * random.normal(size=count)), 4, 14), 1),
            (
                "temperature",
                14 + 7 * np.sin((seconds / 3600 % 24 - 9) * np.pi / 12) + 2 * red(random, count, 60),
                0.5,
            ),
        ):
            channels[name, variable] = rounded(value, step)
    return times, channels


Maker = Callable[[int, np.random.Generator], tuple[Any, Mapping[tuple[str, str], Array]]]

KINDS: dict[str, tuple[str, Maker, int, tuple[str, ...]]] = {
    "soil": (
        "soil moisture and temperature, 7 stations, 4 depths, hourly",
        _soil,
        500,
        tuple(f"{name}_{depth}cm" for name in ("moisture", "temperature") for depth in (5, 10, 20, 50)),
    ),
    "boilers": ("a boiler, 4 unlike sensors, 5 min", _boilers, 60, ("value",)),
    "rivers": ("two rivers, 3 variables, hourly", _rivers, 360, ("level", "conductivity", "turbidity")),
    "drinking_water": (
        "drinking water, 4 points, 6 variables, 10 min",
        _drinking_water,
        90,
        ("chlorine", "pH", "conductivity", "pressure"),
    ),
    "estuary": ("an estuary, 3 sondes, 6 variables, 15 min", _estuary, 150, ("Temp", "Sal", "DO_mgl", "pH", "Depth")),
    "logger": (
        "one logger file, 18 columns, 10 min",
        _logger,
        180,
        ("Batt_Volt_Min", "PTemp_C", "AirTC_Avg", "RH", "TSoil_5cm", "VWC_10cm"),
    ),
    "laboratory": ("a laboratory, 16 motes, 4 variables, irregular", _laboratory, 25, ("temperature", "humidity")),
    "reservoir": (
        "a reservoir, chain and sonde, 16 variables, 30 min",
        _reservoir,
        360,
        ("temp_1m", "temp_3m", "temp_5m", "temp_9m", "oxygen_1m", "oxygen_5m", "conductivity", "fdom"),
    ),
    "parking": ("30 car parks, half-hourly by day, integers", _parking, 77, ("occupancy",)),
    "air": ("air quality, 20 sites, 4 variables, hourly", _air, 330, ("NO2", "PM10", "PM2.5", "O3")),
    "weather": ("6 weather stations, 8 variables, hourly", _weather_stations, 365, ("air_temp", "RH", "pressure")),
    "building": ("6 air handlers, 6 variables, 15 min", _building, 90, ("zone_temp", "co2", "supply_temp")),
    "waves": ("4 wave buoys, 5 variables, 30 min", _waves, 180, ("Hs", "SST")),
    "energy": ("8 energy meters, 3 variables, 15 min", _energy, 120, ("voltage",)),
    "groundwater": ("8 wells, daily, 12 years", _groundwater, 4380, ("level_m",)),
    "soil_gas": ("soil CO2, 3 pits, 7 variables, 30 min", _soil_gas, 240, ("CO2_5cm", "CO2_20cm", "T_20cm", "T_50cm")),
    "tracker": ("3 collars, 6 variables, irregular", _tracker, 60, ("temperature",)),
}
"""By name: what it is, the function that simulates it, its days, and the variables that may have faults."""
