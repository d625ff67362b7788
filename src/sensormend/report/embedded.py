"""`embedded_data` returns what the views of the report show: answers of the API, and which sensors have a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sensormend.pipeline.channel_states import ChannelName
from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.health import FILL, SPIKE
from sensormend.readings import DAY, Flag
from sensormend.report.report_data import ReportData
from sensormend.views.atlas import atlas, moment
from sensormend.views.attention import attention
from sensormend.views.calibration import calibration
from sensormend.views.fault_list import fault_page
from sensormend.views.neighbours import explanation, neighbours
from sensormend.views.reader import utc
from sensormend.views.sensors import SensorNotes, sensor_page, sensor_view, telling_reading
from sensormend.views.series import series

__all__ = ["MAX_SENSORS", "embedded_data", "telling_moment", "telling_span"]

MAX_SENSORS, MAX_NEIGHBOURS, MAX_FAULTS = 6, 3, 5
"""The numbers of sensors with a section of their own, of neighbours on a chart, and of faults listed for a sensor."""

MAX_ROWS, MAX_CALIBRATED = 2000, 20
"""Rows of the matrix, a page of it; and of the list of distances."""

MAX_REPAIRS, MAX_LISTED, MAX_CELLS = 100, 20, 600
"""Lines of the list of repairs and of the list of faults, and cells of the grid of stations."""

POINTS = 1000
"""Points of a chart: one for each pixel of a page."""

SLOTS, SHORTEST, LONGEST = 28 * 24, 14 * DAY, 365 * DAY
"""Span of a chart: four weeks of hours, at least two weeks and at most a year."""

AROUND = 1.4
"""A longer fault is shown completely, in a chart of this multiple of its length."""

COMPARED = ("time", "value", "cleaned", "flag")
"""The columns of a neighbour's series that a chart needs."""


def embedded_data(data: ReportData) -> dict[str, Any]:
    """Return the data inside the report, whose views read it as they read the API."""
    reader, answers = data.reader, dict[str, list[dict[str, Any]]]()
    shown = data.matrix.rows[:MAX_ROWS]
    if shown:
        answers["matrix"] = [_answer(replace(data.matrix, rows=shown, total=len(shown), next=None))]
    answers["attention"] = [_answer(attention(reader, limit=MAX_REPAIRS))]
    answers["faults"] = [_answer(fault_page(reader, limit=MAX_LISTED))]
    if data.several and not data.network.live:
        answers["sensors"] = [_answer(sensor_page(reader, sort="faulty", limit=MAX_CELLS))]
    at = telling_moment(data, data.reader.variables[0]) if data.network.places else None
    if at is not None:
        answers["places"] = [_answer(atlas(reader))]
        answers["moment"] = [_answer(moment(reader, at, data.reader.variables[0]))]
    distances = calibration(reader, end=data.end, limit=MAX_CALIBRATED)
    if any(row.times is not None for row in distances.rows):
        answers["calibration"] = [_answer(replace(distances, next=None))]
    answers["notes"] = [_answer(SensorNotes(editable=False, file="", applies="", items=[]))]
    sensors = [_sensor(data, name, answers) for name in list(data.troubles)[:MAX_SENSORS]]
    return {"network": data.network, "answers": answers, "sensors": sensors, "moment": utc(at)}


def _answer(answer: object, part: str | None = None, sensor: str = "", variable: str = "") -> dict[str, Any]:
    """Return an answer on a sensor, in the part of the report of a sensor; without these, the only one."""
    of = None if part is None else {"part": part, "sensor": sensor, "variable": variable}
    return {"of": of, "answer": answer}


def _sensor(data: ReportData, channel: ChannelName, answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Add the answers on one channel; return what its part of the report shows."""
    reader, (name, variable), troubles = data.reader, channel, data.troubles[channel]
    begin, end = _span(data, troubles)
    own = series(reader, name, variable, begin, end, POINTS)
    # Nothing beyond the chart is inside the file.
    own = replace(own, first=utc(begin), last=utc(end - data.step), requested=None)
    # The tables of a watch may reach further than what is reported.
    longest = _longest([fault for fault in troubles if fault.start < end and fault.end > begin] or troubles)
    beside = neighbours(reader, name, variable, longest.start + data.step)
    beside = replace(beside, items=beside.items[:MAX_NEIGHBOURS])
    faults = fault_page(reader, sensor=name, variable=variable, sort="from", order="desc", limit=MAX_FAULTS)
    views: dict[str, object] = {
        "sensor": sensor_view(reader, name, variable),
        "series": own,
        "neighbours": beside,
        "faults": faults,
    }
    at = None
    if longest.reason != "silent":
        at = telling_reading(reader, name, variable, max(longest.start, begin), min(longest.end, end))
    if at is not None:
        views["explain"] = explanation(reader, name, at, variable)
    for path, answer in views.items():
        answers.setdefault(path, []).append(_answer(answer, name, name, variable))
    for other in beside.items:
        compared = series(reader, other.sensor, variable, begin, end, POINTS)
        unused: dict[str, Any] = {
            key: [] for key, value in vars(compared).items() if isinstance(value, list) and key not in COMPARED
        }
        answers["series"].append(_answer(replace(compared, **unused), name, other.sensor, variable))
    return {"sensor": name, "variable": variable, "from": utc(begin), "to": utc(end), "why": utc(at),
            "neighbours": bool(beside.items)}  # fmt: skip


def _longest(faults: Sequence[FaultInterval]) -> FaultInterval:
    """Return the longest fault, a silence only where there is nothing else."""
    return max(faults, key=lambda fault: (fault.reason != "silent", fault.end - fault.start))


def _span(data: ReportData, faults: Sequence[FaultInterval]) -> tuple[int, int]:
    """Return the span of whole days that shows most of a channel's faults."""
    length = int(np.clip(SLOTS * data.step, SHORTEST, LONGEST))
    longest = _longest(faults)
    shown_length = min(int(AROUND * (longest.end - longest.start)), LONGEST)
    # Of a fault that lasts, the start matters.
    shown = [longest] if shown_length > length else faults
    begin, end = telling_span(shown, data.start, data.end, max(length, shown_length))
    return max(begin // DAY * DAY, data.start), min(-(-end // DAY) * DAY, data.end)


def telling_span(faults: Sequence[FaultInterval], start: int, end: int, length: int) -> tuple[int, int]:
    """Return the span, no longer than `length`, that shows most of some faults.

    A span that is wrong throughout has nothing to compare with, so a half is best; each further reason counts as much
    as a tenth of it.
    """
    length = min(length, end - start)
    longest = sorted(faults, key=lambda fault: fault.start - fault.end)[:100]
    best, choice = -1.0, start
    for lead in longest:
        begin = min(max(lead.start - length // 5, start), end - length)
        inside = [fault for fault in longest if fault.end > begin and fault.start < begin + length]
        wrong = sum(min(fault.end, begin + length) - max(fault.start, begin) for fault in inside) / length
        score = min(wrong, 1 - wrong, 0.5) + 0.1 * len({fault.reason for fault in inside})
        if score > best:
            best, choice = score, begin
    return choice, choice + length


def telling_moment(data: ReportData, variable: str) -> int | None:
    """Return the latest time at which most sensors were faulty; None if there is no row.

    Without any fault it is the latest time of the last date with most readings.
    """
    archive = data.reader.archive
    assert archive is not None
    first, last = data.start // DAY, (data.end - 1) // DAY
    change = np.zeros(last - first + 2, np.int64)
    for fault in data.reader.faults:
        if fault.variable == variable and fault.reason not in ("silent", "spike"):
            change[min(max(fault.start // DAY - first, 0), last - first)] += 1
            change[min(max(-(-fault.end // DAY) - first, 0), last - first + 1)] -= 1
    wrong = np.cumsum(change)[:-1]
    date = first + int(wrong.size - 1 - wrong[::-1].argmax()) if wrong.any() else last
    rows = archive.rows(None, date * DAY, date * DAY + DAY, variable)
    if not len(rows):
        return None
    times, slot = np.unique(rows.time, return_inverse=True)
    wrong_rows = (rows.flag == Flag.FAIL) & (rows.reason != SPIKE) & (rows.reason != FILL)
    readings = np.bincount(slot, weights=rows.n > 0)
    faulty = np.bincount(slot, weights=wrong_rows & (rows.n > 0))
    # Of times with equally many, the one at which the wrong readings are farthest off.
    distance = np.where(wrong_rows, np.nan_to_num(np.abs(rows.value - rows.cleaned)), 0)
    best = int(np.lexsort((times, np.bincount(slot, weights=distance), readings, faulty))[-1])
    return int(times[best])
