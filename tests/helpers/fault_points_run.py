"""`run` is the service that `fault_points` kills: short, and it writes every kind of file that a service writes."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from list_source import ListSource, hourly, settings
from sensormend.errors import SensormendError
from sensormend.readings import DAY, HOUR, Readings
from sensormend.stream import service
from sensormend.stream.deliveries import Delivery, Sink
from sensormend.stream.delivery_worker import DeliveryWorker
from sensormend.stream.service import Service
from simulated_city import START, city_readings

__all__ = ["DAYS", "parts", "run"]

SENSORS, DAYS = 3, 3


@lru_cache
def parts() -> list[Readings]:
    """Return what arrives: three days by three hours, with late readings and one from the future in between."""
    readings = city_readings(SENSORS, DAYS)
    stuck = (readings.sensor == 1) & (readings.time >= START + 2 * DAY)
    values = np.where(stuck, 3.0, readings.value)
    readings = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable, readings.time, values)
    late = (readings.time >= START + DAY + 8 * HOUR) & (readings.time < START + DAY + 10 * HOUR)
    arrivals = hourly(readings.taken(~late), 3)
    arrivals.insert(19, readings.taken(late))
    zero = np.zeros(1, dtype=np.int64)
    future = Readings(readings.sensors, readings.variables, zero, zero, zero + 200 * 365 * DAY, np.ones(1))
    arrivals.insert(9, future)
    return arrivals


class FileSink(Sink):
    """Records its deliveries in a file that is not in OUT."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, delivery: Delivery) -> None:
        if delivery.kind == "provisional":
            return
        lines = [f"{alert.sensor} {alert.state} {alert.reason} {alert.since}" for alert in delivery.alerts]
        text = "; ".join([f"{delivery.kind} {delivery.start}", *lines])
        with self._path.open("a") as file:
            file.write(f"{text}\n")


def run(out: str, deliveries: str) -> int:
    """Watch all parts to their end; a `SensormendError` is one line, and 1."""
    logging.disable(logging.CRITICAL)
    # By what has arrived, and not by the clock, so that every run passes the same points; several periods to a
    # checkpoint. Not when this is imported, which whoever looks for doctests does too.
    service.CHECKPOINT_INTERVAL, service.MOST_INPUTS = 1e9, 3_000
    service.TABLES_INTERVAL, service.TABLES_FACTOR, service.LATE_DELAY, service.PROVISIONAL_FACTOR = 0.0, 0.0, -1.0, 0.0
    workers = {"file": lambda store: DeliveryWorker("file", FileSink(Path(deliveries)), store)}
    options = settings(Path(out), period="6h", keep="1d", late_for="1d", stood="1h", stood_readings=2)
    try:
        Service(options, lambda mark, memory: ListSource(parts(), mark), workers=workers).run()
    except SensormendError as error:
        os.write(2, f"one line: {' '.join(str(error).split())}\n".encode())
        return 1
    return 0
