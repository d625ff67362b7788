"""Measures how often `Silence` reports a sensor that is well, and how soon one that has stopped.

python benchmarks/silence.py [--sensors 200] [--days 365]
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sensormend.pipeline.cleaner import NEVER
from sensormend.readings import DAY, HOUR, MINUTE
from sensormend.stream.monitor import Silence

Times = NDArray[np.int64]
Sender = Callable[[np.random.Generator, int], tuple[Times, Times]]
"""When a sensor measures, and when each of it comes."""

START = 20_000 * DAY
SETTLED = 60
"""Days of learning that are counted apart."""


def every_hour(random: np.random.Generator, days: int, lost: float = 0.0) -> tuple[Times, Times]:
    time = START + HOUR * np.arange(24 * days, dtype=np.int64) + random.integers(0, 5 * MINUTE, 24 * days)
    observed = time[random.random(time.size) >= lost]
    return observed, observed


def hourly_with_loss(lost: float) -> Sender:
    return lambda random, days: every_hour(random, days, lost)


def daily(random: np.random.Generator, days: int, lost: float = 0.1) -> tuple[Times, Times]:
    hour = random.integers(0, 24)
    time = START + DAY * np.arange(days, dtype=np.int64) + hour * HOUR + random.integers(0, 30 * MINUTE, days)
    observed = time[random.random(days) >= lost]
    return observed, observed


def bursts(random: np.random.Generator, days: int) -> tuple[Times, Times]:
    """Six readings in an hour, then four to eight hours of rest."""
    start = START + np.cumsum(random.integers(5 * HOUR, 9 * HOUR, 4 * days))
    time = (start[:, None] + 10 * MINUTE * np.arange(6)).ravel()
    time = time[time < START + days * DAY]
    return time, time


def sent_every_six_hours(random: np.random.Generator, days: int) -> tuple[Times, Times]:
    """Measures every hour, sends what it has every six."""
    time, _ = every_hour(random, days)
    offset = random.integers(0, 6 * HOUR)
    return time, (time - offset) // (6 * HOUR) * (6 * HOUR) + 6 * HOUR + offset


def on_weekdays(random: np.random.Generator, days: int) -> tuple[Times, Times]:
    time, _ = every_hour(random, days)
    day = (time - START) // DAY % 7
    hour = (time - START) % DAY // HOUR
    observed = time[(day < 5) & (hour >= 7) & (hour < 19)]
    return observed, observed


def by_sunlight(random: np.random.Generator, days: int) -> tuple[Times, Times]:
    """Silent at night: eight hours in summer, sixteen in winter."""
    time, _ = every_hour(random, days, 0.02)
    night = 6 + 2 * np.cos((time - START) / DAY / 365 * 2 * np.pi)
    hour = (time - START) % DAY / HOUR
    observed = time[np.abs(hour - 12) < 12 - night]
    return observed, observed


def with_outages(random: np.random.Generator, days: int) -> tuple[Times, Times]:
    """Two outages in a month, six hours to two days: these are to be reported."""
    time, _ = every_hour(random, days, 0.02)
    outside = np.ones(time.size, dtype=bool)
    for begin, length in _outages(random, days):
        outside &= (time < begin) | (time >= begin + length)
    return time[outside], time[outside]


def _outages(random: np.random.Generator, days: int) -> list[tuple[int, int]]:
    starts = START + np.sort(random.integers(0, days * DAY, days * 2 // 30))
    return [(int(start), int(random.integers(6 * HOUR, 48 * HOUR))) for start in starts]


KINDS: dict[str, Sender] = {
    "every hour": every_hour,
    "every hour, 2 % lost": hourly_with_loss(0.02),
    "every hour, 30 % lost": hourly_with_loss(0.3),
    "every hour, 50 % lost": hourly_with_loss(0.5),
    "once a day, 10 % lost": daily,
    "bursts, 4 to 8 hours apart": bursts,
    "every hour, sent every 6 hours": sent_every_six_hours,
    "7 to 19 h on weekdays": on_weekdays,
    "by daylight, all year": by_sunlight,
    "two outages a month": with_outages,
}


def run(sender: Sender, sensors: int, days: int) -> tuple[float, float, NDArray[np.float64]]:
    """Return reports per sensor-year while learning and later, and the hours until each stopped sensor is reported."""
    random = np.random.default_rng(0)
    silence = Silence(HOUR, DAY, 30 * DAY)
    sent = [sender(random, days) for _ in range(sensors)]
    channel = np.repeat(np.arange(sensors), [time.size for time, _ in sent])
    time, comes = (np.concatenate(part) for part in zip(*sent, strict=True))
    end = START + days * DAY
    stops = end - random.integers(0, 2 * DAY, sensors)
    alive = (time < stops[channel]) & (comes < stops[channel])
    channel, time, comes = channel[alive], time[alive], comes[alive]
    order = np.argsort(comes, kind="stable")
    channel, time, comes = channel[order], time[order], comes[order]
    by_time = np.argsort(time, kind="stable")
    before = np.zeros(sensors, dtype=bool)
    reports = np.zeros(2)
    delays = np.full(sensors, np.nan)
    position = 0
    for now in range(START + HOUR, end + 45 * DAY, HOUR):
        until = int(np.searchsorted(comes, now))
        silence.record(channel[position:until], time[position:until])
        position = until
        silent = silence.check(now)
        silent = np.concatenate([silent, np.zeros(sensors - silent.size, dtype=bool)])
        gone = stops <= now
        if now < end - 2 * DAY:
            reports[int(now > START + SETTLED * DAY)] += int((silent & ~before).sum())
        last = np.append(silence.last, np.full(sensors - len(silence), NEVER))
        reported = silent & gone & np.isnan(delays)
        delays[reported] = (now - last[reported]) / HOUR
        before = silent
        if (now - START) % DAY == HOUR * 2 and now < end + 3 * DAY:
            closed = (now - START) // DAY * DAY + START
            rows = by_time[np.searchsorted(time[by_time], closed - DAY) : np.searchsorted(time[by_time], closed)]
            rows = rows[comes[rows] < now]
            silence.close(channel[rows], time[rows])
    years = sensors * np.array([SETTLED, days - 2 - SETTLED]) / 365
    return float(reports[0] / years[0]), float(reports[1] / years[1]), delays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sensors", type=int, default=200)
    parser.add_argument("--days", type=int, default=365)
    args = parser.parse_args()
    print(f"{'kind':<34}{'learning':>10}{'false':>9}{'hours':>8}{'90 %':>8}{'never':>7}")
    for name, sender in KINDS.items():
        learning, settled, delays = run(sender, args.sensors, args.days)
        never = int(np.isnan(delays).sum())
        middle, late = np.nanquantile(delays, [0.5, 0.9])
        print(f"{name:<34}{learning:>10.2f}{settled:>9.2f}{middle:>8.0f}{late:>8.0f}{never:>7}", flush=True)


if __name__ == "__main__":
    main()
