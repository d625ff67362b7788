from itertools import islice

import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.recovery import FloatArray
from sensormend.simulate.degrade import Degraded
from sensormend.simulate.network import CITY_KINDS, city, paper_tensor, stream
from sensormend.simulate.weather import CLIMATES


def lines(tensor: FloatArray) -> FloatArray:
    """One row per sensor, all slots in order."""
    return np.moveaxis(tensor, 1, 2).reshape(tensor.shape[0], -1)


def test_the_same_seed_gives_the_same_city_and_another_seed_another() -> None:
    one, two, other = city(8, 20, seed=5), city(8, 20, seed=5), city(8, 20, seed=6)
    np.testing.assert_array_equal(one.readings, two.readings)
    assert one.faults == two.faults
    assert not np.allclose(one.truth, other.truth)


def test_a_longer_run_begins_with_the_shorter_one_and_the_stream_is_the_city() -> None:
    short, long = city(7, 12, seed=2), city(7, 30, seed=2)
    np.testing.assert_array_equal(long.readings[..., :12], short.readings)
    for day, drawn in enumerate(islice(stream(7, seed=2), 12)):
        np.testing.assert_array_equal(drawn.readings, short.readings[..., day])


def test_faults_change_nothing_about_the_weather() -> None:
    broken, sound = city(6, 25, seed=3), city(6, 25, seed=3, faults=False)
    np.testing.assert_array_equal(broken.truth, sound.truth)
    np.testing.assert_array_equal(sound.readings, sound.truth)
    assert not sound.faults
    assert (sound.kind == "").all()


@pytest.mark.parametrize("climate", CLIMATES)
@pytest.mark.parametrize("slots", [24, 96])
def test_every_climate_has_finite_truth_and_labelled_axes(climate: str, slots: int) -> None:
    network = city(9, 6, slots=slots, climate=climate, seed=1)
    assert network.readings.shape == network.truth.shape == (9, slots, 6)
    assert network.times.shape == (slots, 6)
    assert np.all(np.diff(network.times.T.reshape(-1)) == np.timedelta64(24 * 60 // slots, "m"))
    assert len(set(network.sensors)) == 9
    assert np.isfinite(network.truth).all()


def test_readings_differ_from_the_truth_only_where_they_are_marked() -> None:
    network = city(60, 90, seed=4)
    differing = network.wrong | network.spikes | np.isnan(network.readings)
    np.testing.assert_array_equal(network.readings[~differing], network.truth[~differing])
    observed = np.isfinite(network.readings)
    assert np.all((network.readings != network.truth)[network.spikes & observed])
    np.testing.assert_array_equal(network.wrong.any(axis=1), network.kind != "")
    marked = np.zeros_like(lines(network.truth), dtype=bool)
    for fault in network.faults:
        marked[fault.sensor, fault.start : fault.stop] = True
        assert network.kind[fault.sensor, fault.start // 24] == fault.kind
    np.testing.assert_array_equal(marked, np.moveaxis(network.wrong, 1, 2).reshape(marked.shape))


def test_every_kind_of_fault_and_outage_occurs_from_hours_to_weeks() -> None:
    network = city(100, 150, seed=0)
    assert {fault.kind for fault in network.faults} == set(CITY_KINDS)
    lasting = np.array([fault.stop - fault.start for fault in network.faults])
    assert lasting.min() < 8
    assert lasting.max() > 14 * 24
    assert 0.03 < np.mean(network.kind != "") < 0.09
    gone = np.isnan(network.readings)
    assert 0.02 < gone.mean() < 0.08
    assert gone.all(axis=1).any(), "a whole day of a sensor is lost"
    assert gone.all(axis=0).any(), "an afternoon of the whole network is lost"
    held = next(fault for fault in network.faults if fault.kind == "stuck")
    reported = lines(network.readings)[held.sensor, held.start : held.stop]
    assert np.unique(reported[np.isfinite(reported)]).size == 1


def test_the_city_has_seasons_days_towns_and_resolutions() -> None:
    network = city(60, 365, seed=8, faults=False)
    truth = network.truth
    assert truth[..., 180:210].mean() > truth[..., 0:30].mean() + 12
    assert truth[:, 15].mean() > truth[:, 4].mean() + 3
    night, town = truth[:, 3].mean(axis=1), network.stations.town
    height, coast = network.stations.height, network.stations.coast
    effect = np.linalg.lstsq(np.stack([town, height, coast, np.ones(60)], axis=1), night, rcond=None)[0]
    assert effect[0] > 0.4, "towns are warmer at night"
    assert effect[1] < -2, "hills are colder"
    steps = [np.min(np.diff(np.unique(np.round(row, 6)))) for row in lines(truth)]
    assert {round(float(step), 2) for step in steps} == {0.1, 0.5, 1.0}


def test_fronts_reach_stations_at_different_times() -> None:
    network = city(40, 200, seed=1, faults=False)
    change = np.diff(lines(network.truth), axis=1)
    common = change.mean(axis=0)
    sharp = np.argsort(common)[:12]
    hours = [np.argmin(change[:, max(0, at - 4) : at + 5], axis=1) for at in sharp]
    assert np.mean([np.std(hour) for hour in hours]) > 0.5


def test_neighbours_resemble_each_other_more_than_distant_stations() -> None:
    network = city(80, 120, seed=2, faults=False)
    rows = lines(network.truth)
    correlation = np.corrcoef(rows - rows.mean(axis=0))
    place = np.stack([network.stations.x, network.stations.y], axis=1)
    distance = np.linalg.norm(place[:, None] - place[None], axis=-1)
    pairs = np.triu_indices(80, 1)
    near = distance[pairs] < 4
    far = distance[pairs] > 20
    assert correlation[pairs][near].mean() > correlation[pairs][far].mean() + 0.2


def test_climates_differ_as_they_should() -> None:
    made = {name: lines(city(20, 60, climate=name, seed=3, faults=False).truth) for name in CLIMATES}
    skew = {name: float(np.mean(((r - r.mean()) / r.std()) ** 3)) for name, r in made.items()}
    assert made["skewed"].min() >= 0
    assert skew["skewed"] > 1.5 > 2 * abs(skew["city"])
    assert 0.1 < np.mean(made["zeros"] == 0) < 0.7
    spread = {name: np.mean(np.std(r, axis=0)) / np.std(r.mean(axis=0)) for name, r in made.items()}
    assert spread["dense"] < 0.5 * spread["city"] < spread["sparse"]
    rough = {name: np.std(np.diff(r, 2, axis=1)) / np.std(r) for name, r in made.items()}
    assert rough["pressure"] < 0.3 * rough["city"]


def test_a_large_network_streams_a_day_at_a_time() -> None:
    days = list(islice(stream(20_000, seed=1), 2))
    assert days[1].readings.shape == (20_000, 24)
    assert np.isfinite(days[1].truth).all()
    assert days[0].started
    assert all(fault.start < 24 for fault in days[0].started)


def test_the_papers_tensor_has_its_rank_its_faults_and_its_gaps() -> None:
    drawn = list(paper_tensor(20, 3, minibatches=4, observed=0.8, share=0.2, seed=1))
    assert len(drawn) == 4
    assert all(isinstance(part, Degraded) for part in drawn)
    whole = np.concatenate([part.truth for part in drawn], axis=-1)
    for axis in range(2):
        assert np.linalg.matrix_rank(np.moveaxis(whole, axis, 0).reshape(20, -1)) == 3
    part = drawn[0]
    observed = np.isfinite(part.readings)
    assert 0.75 < observed.mean() < 0.85
    assert 0.1 < part.faulty.mean() < 0.3
    sound = np.broadcast_to(~part.faulty[:, None, :], observed.shape)
    np.testing.assert_array_equal(part.readings[sound & observed], part.truth[sound & observed])
    assert np.abs(part.readings[~sound & observed]).max() <= 2
    assert np.std(part.readings[~sound & observed]) > 1


def test_the_papers_tensors_take_a_magnitude_and_a_length() -> None:
    plain, large = (next(paper_tensor(12, 2, share=0.3, magnitude=m, seed=3)) for m in (2.0, 20.0))
    np.testing.assert_array_equal(plain.faulty, large.faulty)
    wrong = np.broadcast_to(plain.faulty[:, None, :], plain.readings.shape) & np.isfinite(plain.readings)
    np.testing.assert_allclose(large.readings[wrong], 10 * plain.readings[wrong])
    for periods in (1, 5):
        drawn = list(paper_tensor(12, 3, minibatches=3, periods=periods, seed=3))
        assert {part.readings.shape for part in drawn} == {(12, 12, periods)}
        whole = np.concatenate([part.truth for part in drawn], axis=-1)
        assert np.linalg.matrix_rank(whole.reshape(12, -1)) == 3
    for wrongly in ({"magnitude": 0.0}, {"periods": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrongly))):
            next(paper_tensor(12, 2, **wrongly))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sensors": 0}, "at least one sensor"),
        ({"days": 0}, "at least one day"),
        ({"slots": 7}, "divide"),
        ({"climate": "mars"}, "mars"),
    ],
)
def test_a_wrong_city_is_refused_in_one_line(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        city(**wrong)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
