"""How far the network's time has come, by its readings and between them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sensormend.pipeline.cleaner import NEVER
from sensormend.readings import DAY, HOUR
from sensormend.stream.arrivals import Source
from sensormend.stream.event_time import EventClock, Watermark
from simulated_city import START


def watermark(sensors: int, hours: int, mark: Watermark | None = None) -> Watermark:
    mark = mark or Watermark(DAY, 30 * DAY)
    for hour in range(hours):
        mark.update(np.arange(sensors), np.full(sensors, START + hour * HOUR))
    return mark


def test_two_sensors_and_a_quarter_have_to_reach_a_time() -> None:
    mark = watermark(50, 3)
    assert mark.time == START + 2 * HOUR
    mark.update(np.arange(12), np.full(12, START + 20 * HOUR))
    assert mark.time == START + 2 * HOUR
    mark.update(np.array([12]), np.array([START + 20 * HOUR]))
    assert mark.time == START + 20 * HOUR


def test_a_first_clock_in_the_future_is_outvoted_until_a_period_is_closed() -> None:
    mark = Watermark(DAY, 30 * DAY)
    mark.update(np.array([0]), np.array([START + 20 * HOUR]))
    assert mark.time == START + 20 * HOUR
    mark.update(np.array([1, 2]), np.array([START, START]))
    assert mark.time == START
    mark.fixed = True
    mark.move(START + 5 * HOUR)
    mark.update(np.array([1, 2]), np.array([START + HOUR, START + HOUR]))
    assert mark.time == START + 5 * HOUR


def test_the_last_ones_alive_are_believed_when_the_others_are_dead() -> None:
    mark = watermark(50, 24)
    for hour in range(24, 24 * 4):
        mark.update(np.array([7]), np.array([START + hour * HOUR]))
    assert mark.time > START + 2 * DAY


def test_one_clock_is_not_believed_while_the_others_speak() -> None:
    mark = watermark(10, 24)
    for hour in range(24, 24 * 9):
        mark.update(np.array([7]), np.array([START + hour * HOUR + 365 * DAY]))
        others = np.setdiff1d(np.arange(10), [7])
        mark.update(others, np.full(9, START + hour * HOUR))
    assert mark.time == START + (24 * 9 - 1) * HOUR


def test_a_watermark_goes_on_where_it_was() -> None:
    mark = watermark(5, 30)
    twin = Watermark(DAY, 30 * DAY)
    twin.restore(*mark.state())
    for one in (mark, twin):
        one.update(np.array([0, 1]), np.array([START + 40 * HOUR] * 2))
    assert (twin.time, twin.newest, twin.fixed) == (mark.time, mark.newest, mark.fixed)
    assert Watermark(DAY, DAY).newest == NEVER


class Touch(Source):
    """A source that is connected or not."""

    def __init__(self) -> None:
        self.connected = False


def test_time_stands_still_without_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    clock, source = EventClock(), Touch()
    clock.moved(START)
    moment[0] += 3600
    clock.check(source, START)
    assert clock.now(START) == START
    moment[0] += 3 * 86400
    source.connected = True
    clock.check(source, START)
    # What waited for three days has not even begun to come.
    assert (clock.now(START), clock.waited) == (START, 0)
    moment[0] += 60
    clock.check(source, START)
    assert clock.now(START) == START + 60_000_000
    source.live = False
    clock.check(source, START)
    assert clock.now(START) == START
