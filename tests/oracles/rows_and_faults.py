"""What must hold between the rows and the list of faults of one result, checked row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

__all__ = ["contradictions"]

Line = Mapping[str, Any]


def contradictions(rows: Iterable[Line], faults: Iterable[Line]) -> list[str]:
    """Return everything in which the rows and the faults contradict each other, in words."""
    of_channel: dict[tuple[str, str], list[Line]] = {}
    for row in rows:
        of_channel.setdefault((row["sensor"], row.get("variable") or ""), []).append(row)
    # Silence lies beside and within faults: it is no verdict on a reading.
    listed = [fault for fault in faults if fault["reason"] != "silent"]
    problems = []
    for channel, own_rows in of_channel.items():
        own_faults = [fault for fault in listed if (fault["sensor"], fault["variable"] or "") == channel]
        problems += [f"{channel}: {problem}" for problem in _of_channel(own_rows, own_faults)]
    return problems


def _of_channel(rows: list[Line], faults: list[Line]) -> list[str]:
    problems = []
    rows = sorted(rows, key=lambda row: row["time"])
    faults = sorted(faults, key=lambda fault: fault["start"])
    for before, after in pairwise(faults):
        if after["start"] < before["end"]:
            problems.append(f"{_named(before)} and {_named(after)} overlap")
    for row in rows:
        covering = [fault for fault in faults if fault["start"] <= row["time"] < fault["end"]]
        if row["flag"] == 4 and row["reason"] not in ("fill", "duplicate", "late") and len(covering) != 1:
            problems.append(f"the wrong row of {row['time']} ({row['reason']}) lies in {len(covering)} faults")
    readings = [row for row in rows if row["value"] is not None]
    steps = [
        abs(after["value"] - before["value"])
        for before, after in pairwise(readings)
        if abs(after["value"] - before["value"]) > 1e-9
    ]
    for fault in faults:
        inside = [row for row in rows if fault["start"] <= row["time"] < fault["end"]]
        if not any(row["flag"] in (3, 4) for row in inside):
            problems.append(f"{_named(fault)} has no row that is wrong or doubtful")
        if fault["start"] < readings[0]["time"]:
            problems.append(f"{_named(fault)} begins before the first reading")
        if fault["reason"] not in ("offset", "drift") or fault["size"] is None or fault["size"] != fault["size"]:
            continue
        if abs(fault["size"]) < min(steps) * (1 - 1e-6):
            problems.append(f"{_named(fault)} has a size of {fault['size']}, less than the resolution")
        taken_out = [row["value"] - row["cleaned"] for row in inside if row["origin"] == "corrected"]
        if not taken_out:
            continue
        mean = sum(taken_out) / len(taken_out)
        if mean * fault["size"] <= 0:
            problems.append(f"{_named(fault)} has a size of {fault['size']}, the corrections one of {mean}")
        if fault["reason"] == "offset" and not 1 / 3 < mean / fault["size"] < 3:
            problems.append(f"{_named(fault)} has a size of {fault['size']}, far from the corrections, {mean}")
        side = "high" if fault["size"] > 0 else "low"
        if (" high" in fault["sentence"] or " low" in fault["sentence"]) and f" {side}" not in fault["sentence"]:
            problems.append(f"{_named(fault)} has a size of {fault['size']}, and says: {fault['sentence']}")
    return problems


def _named(fault: Line) -> str:
    return f"the fault {fault['reason']} of {fault['start']} to {fault['end']}"
