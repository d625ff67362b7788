"""Simulated archives in which nothing is wrong."""

import numpy as np
import pytest

from archives.simulated import FAULTS, KINDS, sound_network, with_faults


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_archive_is_the_same_for_the_same_seed_and_has_its_variables(kind: str) -> None:
    days = 400 if kind == "groundwater" else 12
    network = sound_network(kind, seed=1, days=days)
    table = network.readings
    assert table.equals(sound_network(kind, seed=1, days=days).readings)
    assert not table.equals(sound_network(kind, seed=2, days=days).readings)
    assert np.isfinite(table["value"]).all()
    assert set(network.faulty) <= set(table["variable"])
    assert not table.duplicated(["time", "sensor", "variable"]).any()
    assert table["time"].is_monotonic_increasing


def test_faults_change_what_they_label_and_nothing_else() -> None:
    network = sound_network("weather", days=60)
    table = with_faults(network, seed=3, share=0.6)
    wrong = (table["label"] == "bad").to_numpy()
    changed = table["value"].to_numpy() != network.readings["value"].to_numpy()
    assert not (changed & ~wrong).any()
    assert changed[wrong].mean() > 0.8
    assert set(table["fault"][wrong]) == set(FAULTS)
    assert set(table["variable"][wrong]) <= set(network.faulty)
    assert 0.001 < wrong.mean() < 0.1
    assert (table["value"][table["fault"] == "dead"] == 0).all()
