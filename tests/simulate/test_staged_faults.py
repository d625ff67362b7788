"""The three faults of every demo: where they lie, and what is found of them."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sensormend.simulate.network import (
    ACCEPTED_FROM,
    DRIFTS_FROM,
    JUMPS_AT,
    SHIFTED_FROM,
    Network,
    StagedFaults,
    assembled,
    city,
    stream,
)


@pytest.fixture(scope="module")
def simulated() -> tuple[StagedFaults, Network]:
    staged = StagedFaults(12, 80)
    days = islice(stream(12, seed=2), 84)
    return staged, assembled([staged(number, day) for number, day in enumerate(days)], seed=2)


def test_the_others_are_as_they_were(simulated: tuple[StagedFaults, Network]) -> None:
    network, plain = simulated[1], city(12, 84, seed=2)
    np.testing.assert_array_equal(network.readings[:9], plain.readings[:9])
    np.testing.assert_array_equal(network.readings[..., :DRIFTS_FROM], plain.readings[..., :DRIFTS_FROM])
    np.testing.assert_array_equal(np.isnan(network.readings), np.isnan(plain.readings))


def test_readings_and_truth_of_the_three(simulated: tuple[StagedFaults, Network]) -> None:
    staged, network = simulated
    off = network.readings - network.truth
    place = network.sensors.index
    drift = off[place(staged.drifting), :, DRIFTS_FROM:].T.ravel()
    assert (np.diff(drift[np.isfinite(drift)]) > 0).all()
    shifted = off[place(staged.accepted)]
    assert np.nanmin(shifted[:, SHIFTED_FROM:ACCEPTED_FROM]) > 1
    assert np.nanmax(np.abs(shifted[:, ACCEPTED_FROM:])) < 1e-9
    assert not network.wrong[place(staged.accepted), :, ACCEPTED_FROM:].any()
    jump = off[place(staged.jumping), :, 80]
    assert np.nanmax(np.abs(jump[:JUMPS_AT])) < 1e-9
    assert np.nanmin(jump[JUMPS_AT:]) > 5
    kinds = {fault.sensor: fault.kind for fault in network.faults if fault.sensor >= 9 and fault.stop == 84 * 24}
    assert kinds == {place(staged.drifting): "drift", place(staged.jumping): "offset"}


def test_a_demo_tells_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sensormend.cli.demo import demo

    demo(days=84, sensors=20, seed=1, browser=False, port=0, out=tmp_path / "demo")
    text = " ".join(capsys.readouterr().out.split())
    assert "S19 was shifted, and maintenance.csv accepts its new level from day 72 on:" in text
    trusted = text.split("on: ")[1].split("%")[0]
    assert float(trusted) > 90
    raw, corrected = text.split("S20 drifts: as it came it is off by ")[1].split(", corrected by ")
    # A slow drift may still be within what the season does: it is kept then.
    assert float(corrected.split(". ")[0]) <= float(raw)
