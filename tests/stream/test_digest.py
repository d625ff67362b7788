"""The daily message: what is open, new and over, at any speed and after a restart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from list_source import hourly
from sensormend.pipeline.health import Health
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, MINUTE, SECOND, Readings
from sensormend.simulate.network import city
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Alert
from sensormend.stream.digest import MOST_LINES, Digest
from sensormend.stream.sinks.messages import alert_message
from sensormend.stream.stream import AlertsRaised, Stream
from simulated_city import START, tensor_readings


def digests(parts: list[Readings]) -> list[Alert]:
    stream = Stream(Options.of(step="1h", period="1d"), digest=Digest(7 * 60 + 30))
    raised: list[Alert] = []
    for part in parts:
        for event in stream.take(Arrived(part, int(part.time.max()) + SECOND)):
            raised += event.alerts if isinstance(event, AlertsRaised) else ()
    return [alert for alert in raised if alert.state == "digest"]


@pytest.fixture(scope="module")
def readings() -> Readings:
    truth = city(8, 12, seed=1, faults=False).truth
    truth[3, 10:, 8] = np.nan
    truth[3, :4, 9] = np.nan
    return tensor_readings(truth)


def test_once_a_day_it_says_what_is_open_new_and_over(readings: Readings) -> None:
    result = digests(hourly(readings))
    # The grid is known when the first day is over; its slots are processed then.
    assert [alert.at for alert in result] == [START + day * DAY + 7 * HOUR + 30 * MINUTE for day in range(12)]
    assert len({alert.id for alert in result}) == 12
    after = result[9]
    assert [entry.sensor for entry in after.channels] == ["s03"]
    assert [line for line in after.lines if line.startswith("New")] == ["New (1):"]
    assert any(line.startswith("- s03 is recovering since 2020-01-10") for line in after.lines)
    assert any(line.startswith("Over (1)") for line in result[10].lines)
    message = alert_message(after)
    assert message["title"] == "Daily digest: 7 of 8 sensors are healthy, 1 is recovering"
    assert message["text"].splitlines()[1:] == list(after.lines)
    assert (message["severity"], message["sensor"], message["sensors"]) == ("info", "", ["s03"])


@pytest.mark.parametrize("hours", [5, 24, 24 * 12])
def test_any_speed_gives_the_same_messages(readings: Readings, hours: int) -> None:
    assert digests(hourly(readings, hours)) == digests(hourly(readings))


def test_a_restart_forgets_nothing() -> None:
    digest, again = Digest(60), Digest(60)
    digest.record([Alert("a", "", "healthy", "silent", "", 0, 1, "a turned silent")])
    again.restore(json.loads(json.dumps(digest.state())))
    health = [Health("a", "", "silent", "", 0, 0)]
    assert again.message(DAY, health, {"silent": 1}) == digest.message(DAY, health, {"silent": 1})
    assert digest.message(DAY, [], {"healthy": 1}).lines == ()


def test_long_lists_are_cut() -> None:
    health = [Health(f"s{number}", "", "silent", "", 0, 0) for number in range(MOST_LINES + 5)]
    message = Digest(0).message(DAY, health, {"silent": len(health)})
    assert len(message.lines) == MOST_LINES + 2
    assert message.lines[-1] == "- and 5 more"


def test_without_a_time_there_is_none() -> None:
    assert list(Digest().times(0, 10 * DAY)) == []
    assert list(Digest(0).times(0, 2 * DAY)) == [DAY, 2 * DAY]
