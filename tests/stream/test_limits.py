"""What everybody can send has an end, which is where docs/operations.md says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from list_source import hourly
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, Readings
from sensormend.stream import stream as streams
from sensormend.stream.admission import MOST_FIRST, TOO_MANY, TOO_MANY_LATE
from sensormend.stream.arrivals import Arrived
from sensormend.stream.http_server import MOST_CONNECTIONS
from sensormend.stream.stream import Event, LateReadings, ReadingsRejected, Stream
from simulated_city import START, city_readings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

FAST = ("names", "variables", "readings", "late", "messages", "keys", "depth", "retained", "streams")
"""Those that take seconds; of the others only the numbers are looked at."""


def table(text: str) -> dict[str, tuple[str, str, float]]:
    """Return how far each thing goes, what happens then, and the megabytes it takes."""
    head = "| what is sent | how far it goes | then | costs up to there |\n|---|---|---|---|\n"
    rows = [row.strip("| ").split(" | ") for row in text.partition(head)[2].partition("\n\n")[0].splitlines()]
    result = {}
    for what, goes, then, costs in rows:
        memory = re.search(r"([\d,]+) MB", costs)
        assert memory
        result[what] = (goes, then, float(memory[1].replace(",", "")))
    return result


@pytest.mark.processes
def test_the_table_says_what_is_measured() -> None:
    program = [sys.executable, str(ROOT / "benchmarks" / "limits.py"), *FAST]
    printed = subprocess.run(program, check=True, capture_output=True, text=True, timeout=900).stdout
    measured, reported = table(printed), table(PAGE)
    assert len(measured) == len(FAST) + 1
    for what, (goes, then, megabytes) in measured.items():
        assert reported[what][:2] == (goes, then)
        assert megabytes <= 2 * reported[what][2] + 100
    assert reported["the same on the first day, when no sensor is known"][0] == f"{MOST_FIRST:,}"
    assert reported["connections to `/metrics` and `/healthz`"][0] == f"{MOST_CONNECTIONS}, for 15 s each"
    assert set(reported) - set(measured) == {
        "the same on the first day, when no sensor is known",
        "connections to `/metrics` and `/healthz`",
    }


def many(count: int, start: int, sensor: str = "s00") -> Arrived:
    """Return very many readings of one sensor."""
    zero = np.zeros(count, dtype=np.int64)
    return Arrived(Readings((sensor,), ("",), zero, zero, start + np.arange(count), np.full(count, 20.0)), start)


def reasons(events: list[Event]) -> list[str]:
    return [one.reason for event in events if isinstance(event, ReadingsRejected) for one in event.rejected]


def test_readings_of_one_sensor_have_an_end_and_those_of_others_do_not_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_READINGS", 500)
    parts, stream = hourly(city_readings(4, 3)), Stream(Options.of(step="1h", period="1d"))
    for part in parts[:30]:
        list(stream.take(Arrived(part, int(part.time.max()))))
    now = START + 30 * HOUR
    assert not reasons(list(stream.take(many(600, now))))
    twin = Stream(Options.of(step="1h", period="1d"))
    twin.restore(*stream.state())
    for one in (stream, twin):
        before = len(one.buffer)
        assert reasons(list(one.take(many(3, now + HOUR)))) == [TOO_MANY] * 3
        assert not reasons(list(one.take(many(3, now + HOUR, "s01"))))
        assert len(one.buffer) == before + 3
    # When the period is over, there is room again.
    for part in parts[50:]:
        list(stream.take(Arrived(part, int(part.time.max()))))
    assert not reasons(list(stream.take(many(1, START + 3 * DAY))))


def test_late_readings_of_a_period_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_LATE", 100)
    stream = Stream(Options.of(step="1h", period="1d"), late_for=2 * DAY)
    for part in hourly(city_readings(4, 5))[: 24 * 3 + 3]:
        list(stream.take(Arrived(part, int(part.time.max()))))
    events = list(stream.take(many(60, START + DAY + 1)))
    assert not reasons(events)
    state = stream.state()
    stream = Stream(Options.of(step="1h", period="1d"), late_for=2 * DAY)
    stream.restore(*state)
    events = list(stream.take(many(60, START + DAY + 100)))
    assert reasons(events) == [TOO_MANY_LATE] * 20
    assert [len(event.readings) for event in events if isinstance(event, LateReadings)] == [40]
    assert reasons(list(stream.take(many(3, START + DAY + 900)))) == [TOO_MANY_LATE] * 3
    assert not reasons(list(stream.take(many(60, START + 2 * DAY))))
