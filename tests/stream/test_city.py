from itertools import pairwise
from time import monotonic

import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.readings import DAY, HOUR
from sensormend.simulate.network import assembled, city
from sensormend.stream.sources.city import City


def test_it_publishes_what_the_simulation_has() -> None:
    source, wanted = City(9, days=4, seed=5, hours=5), city(9, 4, seed=5)
    parts = list(iter(lambda: source.read(0.1), None))
    seen = np.full((9, 24, 4), np.nan)
    start = int(wanted.times[0, 0].astype("datetime64[us]").astype(np.int64))
    newest = start
    for part in parts:
        readings = part.readings
        assert readings.sensors is parts[0].readings.sensors
        assert (readings.time >= newest).all(), "in the order in which they are taken"
        assert (readings.time < part.received).all()
        newest = int(readings.time.max(initial=newest))
        slot = (readings.time - start) // HOUR
        seen[readings.sensor, slot % 24, slot // 24] = readings.value
    np.testing.assert_array_equal(seen, wanted.readings)
    again = assembled(source.drawn, seed=5)
    np.testing.assert_array_equal(again.truth, wanted.truth)
    assert again.faults == wanted.faults
    assert source.read(0.1) is None


def test_it_goes_on_without_an_end() -> None:
    source = City(3, hours=24)
    parts = [source.read(0.1) for _ in range(50)]
    first, last = parts[0], parts[-1]
    assert first is not None
    assert last is not None
    assert last.received - first.received == 49 * DAY


def test_what_cannot_be_simulated_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no climate 'mars'"):
        City(3, climate="mars")
    with pytest.raises(ConfigError, match="at least one sensor"):
        City(0)


def test_each_sensor_says_once_where_it_stands() -> None:
    source, wanted = City(9, days=3, seed=5), city(9, 3, seed=5)
    parts = list(iter(lambda: source.read(0.1), None))
    places = [place for part in parts for place in part.positions]
    assert sorted(place.sensor for place in places) == sorted(wanted.sensors)
    where = wanted.stations.degrees()
    for place in places:
        assert (place.latitude, place.longitude) == tuple(where[wanted.sensors.index(place.sensor)])
        first = np.flatnonzero(np.isfinite(wanted.readings[wanted.sensors.index(place.sensor), :, 0]))[0]
        assert place.time == int(wanted.times[0, 0].astype("datetime64[us]").astype(np.int64)) + first * HOUR


def test_a_pace_changes_when_it_comes_and_nothing_else() -> None:
    source, wanted = City(5, days=3, seed=1, pace=400.0, at_once=2), City(5, days=3, seed=1)
    began = monotonic()
    parts = list(iter(lambda: source.read(0.1), None))
    assert monotonic() - began > 23 / 400
    assert source.paced
    empty = [part for part in parts if part.empty]
    hours = [int(part.received) for part in parts if not part.empty]
    assert not empty, "each wait was long enough"
    assert [later - one for one, later in pairwise(hours)] == [6 * HOUR] * 7 + [HOUR] * 24
    other = [part.readings for part in iter(lambda: wanted.read(0.1), None)]
    for name in ("sensor", "time", "value"):
        came = np.concatenate([getattr(part.readings, name) for part in parts])
        np.testing.assert_array_equal(came, np.concatenate([getattr(part, name) for part in other]))


def test_whoever_waits_for_its_next_hour_gets_nothing_in_time() -> None:
    source = City(5, seed=1, pace=0.1)
    assert source.read(0.1) is not None
    began = monotonic()
    arrived = source.read(0.05)
    assert monotonic() - began < 5
    assert arrived is not None
    assert arrived.empty


def test_a_pace_is_above_nothing() -> None:
    with pytest.raises(ConfigError, match="pace"):
        City(3, pace=0.0)
