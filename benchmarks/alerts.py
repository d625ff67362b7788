"""Measures the delay of alerts, the rate of false ones, and the number of alerts per incident.

    python benchmarks/alerts.py city        # a simulated city, hourly faults put into its sound readings
    python benchmarks/alerts.py noaa        # 46 stations, the same faults; set SENSORMEND_DATA
    python benchmarks/alerts.py laboratory  # batteries that fail: the alerts of a year
    python benchmarks/alerts.py cost        # the time of verdicts on unfinished periods, 1,000 sensors

Readings go slot by slot through `Stream`, as in `watch`, and its alerts are counted. Faults begin at any hour and
last 3 hours to 7 days (`degrade`, `hourly`). Those that begin in the first 30 days, or while their sensor is still
reported as faulty, are left out. An alert belongs to a fault of its sensor if it comes between the fault's start and a
day after its end; every other alert but `well` is false.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sensormend.bench.data import load_network
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, SECOND, Readings
from sensormend.recovery import FloatArray
from sensormend.simulate.degrade import Case, InjectedFault, degrade
from sensormend.simulate.network import city
from sensormend.stream.alerts import Alerts
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Alert
from sensormend.stream.stream import AlertsRaised, Stream

START = 18_262 * DAY
LEARNED = 30
"""Days that are not counted."""
SLACK = 24
"""Hours after the end of a fault in which an alert still belongs to it."""


def slots_of(readings: FloatArray, slots: int = 1) -> Iterator[Arrived]:
    """Yield readings (sensor, slot, day) as they arrive, so many slots at a time; NaN is no reading."""
    sensors = readings.shape[0]
    line = np.moveaxis(readings, 1, 2).reshape(sensors, -1)
    names = tuple(f"S{number:04d}" for number in range(sensors))
    step = DAY // readings.shape[1]
    for first in range(0, line.shape[1], slots):
        part = line[:, first : first + slots].T
        taken, sensor = np.nonzero(np.isfinite(part))
        moment = START + (first + taken.astype(np.int64)) * step
        arrived = Readings(names, ("",), sensor, np.zeros(sensor.size, np.int64), moment, part[taken, sensor])
        yield Arrived(arrived, START + (first + slots) * step + SECOND)


def alerts_of(readings: FloatArray, alerts: Alerts | None = None, slots: int = 1) -> list[Alert]:
    """Return all alerts."""
    step = DAY // readings.shape[1]
    stream = Stream(Options.of(step=f"{step // SECOND}s", period="1d"), alerts=alerts)
    sent: list[Alert] = []
    for arrived in slots_of(readings, slots):
        sent += [alert for event in stream.take(arrived) if isinstance(event, AlertsRaised) for alert in event.alerts]
    return sent


@dataclass
class Score:
    """Counts over several runs."""

    sensor_years: float = 0.0
    delays: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    known: int = 0
    begun: int = 0
    matched: int = 0
    incidents: int = 0
    false: int = 0
    false_silent: int = 0
    taken_back: int = 0
    well: int = 0


def score_of(truth: FloatArray, seeds: range, show: bool) -> Score:
    """Count the alerts of faults that are put into sound readings."""
    score = Score()
    sensors, slots, days = truth.shape
    for seed in seeds:
        degraded = degrade(truth, Case("mix", 0.05, hourly=True), seed)
        alerts = alerts_of(degraded.readings)
        score.sensor_years += sensors * (days - LEARNED) / 365
        count(score, degraded.faults, alerts, slots, show)
    return score


def count(score: Score, faults: Sequence[InjectedFault], alerts: list[Alert], slots: int, show: bool) -> None:
    """Match alerts with faults, sensor by sensor."""
    step = DAY // slots
    by_sensor: dict[int, list[Alert]] = {}
    for alert in alerts:
        for name in alert.sensors:
            by_sensor.setdefault(int(name[1:]), []).append(alert)
    # An alert that names several sensors is one; it counts where its first sensor is.
    for sensor in range(10_000):
        own_alerts = by_sensor.get(sensor, [])
        own_faults = [fault for fault in faults if fault.sensor == sensor]
        if not own_alerts and not own_faults:
            continue
        spans: list[tuple[int, int]] = []
        since: int | None = None
        for alert in own_alerts:
            if alert.state == "healthy" and since is not None:
                spans.append((since, alert.at))
                since = None
            elif alert.state != "healthy" and since is None:
                since = alert.at
        spans += [] if since is None else [(since, 1 << 62)]
        onsets = [alert for alert in own_alerts if alert.state != "healthy"]
        used: set[int] = set()
        for fault in own_faults:
            start, stop = START + fault.start * step, START + fault.stop * step
            matching = [
                k for k, alert in enumerate(onsets) if start < alert.at <= stop + SLACK * HOUR and k not in used
            ]
            used.update(matching)
            if fault.start < LEARNED * slots:
                continue
            if any(begin <= start < end for begin, end in spans):
                score.known += 1
                continue
            score.begun += 1
            score.lengths.append(fault.length * step // HOUR)
            score.delays.append((onsets[matching[0]].at - start) / HOUR if matching else np.inf)
            score.incidents += bool(matching)
            score.matched += len(matching)
        for k, alert in enumerate(onsets):
            if k not in used and alert.at >= START + LEARNED * DAY and alert.sensors[0] == f"S{sensor:04d}":
                score.false += 1
                score.false_silent += alert.state == "silent"
                if show:
                    print("false:", alert.sentence)
        score.taken_back += sum(
            alert.reason == "taken back" and alert.at >= START + LEARNED * DAY for alert in own_alerts
        )
        score.well += sum(alert.state == "healthy" and alert.at >= START + LEARNED * DAY for alert in own_alerts)


def report(name: str, score: Score) -> None:
    """Print the counts."""
    delays, lengths = np.array(score.delays), np.array(score.lengths)
    print(f"{name}: {score.begun} faults in {score.sensor_years:.0f} sensor-years ({score.known} more began while "
          f"their sensor was reported as faulty)")  # fmt: skip
    for text, mask in (("3 to 6 h", lengths < 6), ("6 to 24 h", (lengths >= 6) & (lengths < 24)),
                       ("a day and more", lengths >= 24), ("all", lengths > 0)):  # fmt: skip
        chosen = delays[mask]
        alerted = chosen[np.isfinite(chosen)]
        if chosen.size:
            median = np.median(alerted) if alerted.size else np.nan
            print(f"  {text}: {np.isfinite(chosen).mean():.0%} of {chosen.size} alerted; hours from fault to alert: "
                  f"median {median:.0f} of those, {np.median(chosen):.0f} of all")  # fmt: skip
    print(f"  false alerts per sensor-year: {score.false / score.sensor_years:.2f} ({score.false_silent} of "
          f"{score.false} silent; {score.taken_back} alerts were taken back)")  # fmt: skip
    print(f"  alerts per incident: {score.matched / max(score.incidents, 1):.2f}, and {score.well} times well again")


def laboratory(sensors: int = 52, days: int = 365, seed: int = 0, outages: float = 0.5) -> FloatArray:
    """Return a laboratory whose batteries fail: readings climb to 122 degrees, sensors come and go, then are silent."""
    random = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    common = 22 + 2 * np.sin((hours - 9) / 24 * 2 * np.pi)
    common = common + np.convolve(random.normal(0, 0.3, hours.size + 47), np.ones(48) / 7, "valid")
    line = common + random.normal(0, 1, (sensors, 1)) + random.normal(0, 0.15, (sensors, hours.size))
    line[random.random(line.shape) < 0.1] = np.nan
    for sensor in range(sensors):
        # Six hours to two days without radio, so many times a year.
        for _ in range(random.poisson(outages)):
            first = int(random.integers(hours.size))
            line[sensor, first : first + int(random.integers(6, 48))] = np.nan
        if random.random() < 0.8:
            dies = int(random.integers(40 * 24, hours.size))
            climb = hours[dies:] - dies
            line[sensor, dies:] += np.minimum(climb**1.5 / 10, 100)
            line[sensor, dies:] = np.minimum(line[sensor, dies:], 122.15)
            # From then on it reports for some hours, and not for some.
            at, reporting = dies + int(random.integers(24, 120)), False
            gone = at + int(random.integers(5 * 24, 40 * 24))
            while at < gone:
                length = int(random.integers(2, 30))
                if not reporting:
                    line[sensor, at : at + length] = np.nan
                at, reporting = at + length, not reporting
            line[sensor, gone:] = np.nan
    return np.ascontiguousarray(np.moveaxis(line.reshape(sensors, days, 24), 1, 2))


def cost(sensors: int, days: int) -> None:
    """Print what a replay takes with verdicts at the ends of slots, and without."""
    readings = city(sensors, days, seed=1).readings
    for name, alerts in (("without", Alerts(min_duration=400 * DAY)), ("with", Alerts())):
        start = time.process_time()
        count = len(alerts_of(readings, alerts, slots=24))
        seconds = time.process_time() - start
        print(f"{name} verdicts on periods that are not over: {1e3 * seconds / days:.0f} ms a day of {sensors} "
              f"sensors, {count} alerts")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("city", "noaa", "laboratory", "cost"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sensors", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--outages", type=float, default=0.5, help="of a sensor of the laboratory, in its time")
    parser.add_argument("--show", action="store_true", help="print every false alert, and all of the laboratory")
    args = parser.parse_args()
    seeds = range(args.seeds)
    if args.what == "city":
        truth = city(args.sensors or 50, args.days or 180, seed=5).truth
        report("city", score_of(truth, seeds, args.show))
    elif args.what == "noaa":
        truth = load_network("noaa")
        report("noaa", score_of(truth[..., : args.days or truth.shape[2]], seeds, args.show))
    elif args.what == "laboratory":
        readings = laboratory(args.sensors or 52, args.days or 365, outages=args.outages)
        alerts = alerts_of(readings)
        states = {state: sum(alert.state == state for alert in alerts) for state in ("silent", "faulty", "healthy")}
        print(f"laboratory: {len(alerts)} alerts of {len(readings)} sensors in {readings.shape[2]} days: {states}")
        for alert in alerts if args.show else ():
            print(alert.sentence)
    else:
        cost(args.sensors or 1000, args.days or 40)


if __name__ == "__main__":
    main()
