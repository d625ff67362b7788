"""What a day costs early and late in a long run: the same."""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Any

from sensormend.model.network_model import NetworkModel
from sensormend.recovery import FloatArray
from sensormend.simulate.network import stream

__all__ = ["early_and_late"]


def early_and_late(days: int, *, sensors: int = 100, early: int = 10, window: int = 20) -> dict[str, Any]:
    """Time a day early and late in one long run.

    The model is set aside at its early day and taken up again at the end, so that the two are timed in turns and a
    machine that is busier at one time than at another does not show.
    """
    model, young = NetworkModel(), NetworkModel()
    network = stream(sensors, seed=1)
    early_days: list[FloatArray] = []
    for number in range(days):
        readings = next(network).readings
        if early <= number < early + window:
            early_days.append(readings)
        if number == early:
            young = model.copy()
        model.update(readings)
    times: tuple[list[float], list[float]] = ([], [])
    for before in early_days:
        for which, of, readings in ((0, young, before), (1, model, next(network).readings)):
            start = process_time()
            of.update(readings)
            times[which].append(process_time() - start)
    first, last = median(times[0]), median(times[1])
    return {"sensors": sensors, "early_ms": 1e3 * first, "late_ms": 1e3 * last, "late_day": days,
            "ratio": last / first}  # fmt: skip
