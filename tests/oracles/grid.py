"""Readings put into the slots of a period one after the other, the oracle of `sensormend.pipeline.grid`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_readings"]

Floats = NDArray[np.float64]


def place_readings(
    readings: list[tuple[int, int, float]],
    *,
    channels: int,
    step: int,
    slots: int,
    start: int,
    fill: tuple[float, ...] = (),
    valid: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Floats, NDArray[np.int64], NDArray[np.object_]]:
    """Put (channel, time, value) into slots, one reading after the other: value, n, and remarks.

    The remarks of a cell are a set of `filled`, `coded`, `contradictory` and `implausible`.
    """
    latest: dict[tuple[int, int], float | None] = {}
    codes: dict[tuple[int, int], float] = {}
    value, count = np.full((channels, slots), np.nan), np.zeros((channels, slots), dtype=np.int64)
    remarks = np.frompyfunc(lambda _: set(), 1, 1)(np.zeros((channels, slots)))
    for channel, time, number in readings:
        cell = channel, (time - start) // step
        none = not np.isfinite(number) or number in fill
        if number in fill:
            codes[channel, time] = number
        before = latest.get((channel, time))
        if none:
            latest.setdefault((channel, time), None)
            continue
        if before is not None and before != number:
            remarks[cell].add("contradictory")
        latest[channel, time] = number
    for channel in range(channels):
        for slot in range(slots):
            inside = [number for (owner, time), number in sorted(latest.items(), key=lambda entry: entry[0])
                      if owner == channel and (time - start) // step == slot]  # fmt: skip
            numbers = [number for number in inside if number is not None]
            sound = [number for number in numbers if valid[0] <= number <= valid[1]]
            if numbers and not sound:
                remarks[channel, slot].add("implausible")
            coded = [number for (owner, time), number in sorted(codes.items())
                     if owner == channel and (time - start) // step == slot]  # fmt: skip
            if inside and not numbers:
                remarks[channel, slot].add("coded" if coded else "filled")
            counted = sound or numbers or coded
            if counted:
                value[channel, slot], count[channel, slot] = sum(counted) / len(counted), len(counted)
    return value, count, remarks
