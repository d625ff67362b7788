"""A folder like the air-quality archive of Beijing: a CSV file per station, the time in four columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["VARIABLES", "write_beijing"]

VARIABLES = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
_STATIONS = ("Aotizhongxin", "Changping", "Dingling", "Dongsi", "Guanyuan", "Gucheng", "Huairou", "Nongzhanguan",
             "Shunyi", "Tiantan", "Wanliu", "Wanshouxigong")  # fmt: skip
_USUAL = {"PM2.5": (4.0, 0.8, 0), "PM10": (4.4, 0.7, 0), "SO2": (2.4, 0.7, 0), "NO2": (3.7, 0.5, 0),
          "CO": (6.9, 0.6, -2), "O3": (3.6, 0.7, 0), "TEMP": (13.0, 11.0, 1), "PRES": (1011.0, 10.0, 1),
          "DEWP": (2.0, 13.0, 1), "RAIN": (0.0, 1.0, 1), "WSPM": (0.4, 0.6, 1)}  # fmt: skip
_WINDS = np.array(["N", "NNE", "NE", "E", "SE", "S", "SW", "W", "NW", "NNW", "NA"])


def write_beijing(folder: Path, *, stations: int = 12, days: int = 1461, seed: int = 0) -> dict[str, dict[str, float]]:
    """Write the files, and return the readings of every station's first hour that has all of them.

    Parameters
    ----------
    folder
        Made where it is missing.
    stations, days
        How many; the archive itself has 12 and 1461.
    seed
        Of the weather, the gaps and the scatter.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    hours = 24 * days
    time = np.datetime64("2013-03-01T00", "h") + np.arange(hours)
    dates = time.astype("datetime64[D]")
    parts = [
        np.arange(1, hours + 1),
        time.astype("datetime64[Y]").astype(int) + 1970,
        time.astype("datetime64[M]").astype(int) % 12 + 1,
        (dates - dates.astype("datetime64[M]")).astype(int) + 1,
        np.arange(hours) % 24,
    ]
    weather = {name: _wander(random, hours) for name in VARIABLES}
    firsts: dict[str, dict[str, float]] = {}
    for station in _STATIONS[:stations]:
        texts = {}
        values = {name: _values(name, weather[name], random) for name in VARIABLES}
        whole = np.all([np.isfinite(values[name]) for name in VARIABLES], axis=0)
        row = int(np.flatnonzero(whole)[0])
        firsts[station] = {"hour": row, **{name: float(values[name][row]) for name in VARIABLES}}
        for name, value in values.items():
            written = np.char.mod(f"%.{max(_USUAL[name][2], 0)}f", np.nan_to_num(value))
            texts[name] = np.where(np.isfinite(value), written, "NA")
        columns = {
            **dict(zip(("No", "year", "month", "day", "hour"), (part.astype(str) for part in parts), strict=True)),
            **{name: texts[name] for name in VARIABLES if name != "WSPM"},
            "wd": random.choice(_WINDS, hours),
            "WSPM": texts["WSPM"],
            "station": np.full(hours, station),
        }
        lines = [",".join(f'"{name}"' for name in columns), *map(",".join, zip(*columns.values(), strict=True))]
        path = folder / f"PRSA_Data_{station}_20130301-20170228.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return firsts


def _wander(random: np.random.Generator, hours: int) -> np.ndarray:
    steps = random.normal(size=hours) * 0.18
    course = np.empty(hours)
    level = random.normal()
    for hour in range(hours):
        level = 0.985 * level + steps[hour]
        course[hour] = level
    return course + 0.4 * np.sin((np.arange(hours) % 24 - 9) / 24 * 2 * np.pi)


def _values(name: str, weather: np.ndarray, random: np.random.Generator) -> np.ndarray:
    middle, width, digits = _USUAL[name]
    own = weather + 0.12 * random.normal(size=weather.size)
    value = middle + width * own
    if name == "RAIN":
        value = np.where(weather > 1.4, 3 * (own - 1.4).clip(0), 0.0)
    elif digits <= 0 or name == "WSPM":
        value = np.exp(value)
    gap = random.random(weather.size) < 0.02
    return np.where(gap, np.nan, np.round(value, digits))
