"""The three faults of every demo: where they lie, and what is found of them."""

from pathlib import Path

import numpy as np
import pytest

from sensormend.simulate.network import assembled, city
from sensormend.simulate.staged_faults import ACCEPTED_FROM, DRIFTS_FROM, JUMPS_AT, SHIFTED_FROM, StagedFaults
from sensormend.stream.sources.city import City


@pytest.fixture(scope="module")
def days() -> tuple[StagedFaults, City]:
    staged = StagedFaults(12, 80)
    source = City(12, days=84, seed=2, hours=24, change=staged)
    while source.read(0.0) is not None:
        pass
    return staged, source


def test_the_others_are_as_they_were(days: tuple[StagedFaults, City]) -> None:
    network, plain = assembled(days[1].drawn, seed=2), city(12, 84, seed=2)
    np.testing.assert_array_equal(network.readings[:9], plain.readings[:9])
    np.testing.assert_array_equal(network.readings[..., :DRIFTS_FROM], plain.readings[..., :DRIFTS_FROM])
    np.testing.assert_array_equal(np.isnan(network.readings), np.isnan(plain.readings))


def test_readings_and_truth_of_the_three(days: tuple[StagedFaults, City]) -> None:
    staged, source = days
    network = assembled(source.drawn, seed=2)
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
    assert "Three of them, closely:" in text
    assert "S20 " in text
    assert "S19 was shifted, and maintenance.csv accepts its new level from day 72 on:" in text
    trusted = text.split("on: ")[1].split("%")[0]
    assert float(trusted) > 90
    raw, corrected = text.split("S20 is off by ")[1].split(" since it began to drift, corrected by ")
    # A slow drift may still be within what the season does: it is kept then.
    assert float(corrected.split(".")[0] + "." + corrected.split(".")[1][:1]) <= float(raw)
