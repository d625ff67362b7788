import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.live.city import City
from sensormend.readings import DAY, HOUR
from sensormend.simulate import assembled, city


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
