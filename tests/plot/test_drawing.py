import builtins
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sensormend.errors import SensormendError
from sensormend.pipeline.health import HEALTH
from sensormend.plot.drawing import health, picture, worst
from sensormend.recovery import Recovery
from sensormend.simulate.network import Network, city

SENSORS, DAYS = 10, 40


def judged(network: Network) -> Recovery:
    """A recovery by someone who knows: the truth with an interval, every fault found and named."""
    readings, truth = network.readings, network.truth
    faulty = network.kind != ""
    wrong = np.isnan(readings) | faulty[:, None, :] | network.spikes
    cleaned = np.where(wrong, truth, readings)
    nothing = np.zeros(faulty.shape, dtype=bool)
    evaluated = np.ones(faulty.shape, dtype=bool)
    evaluated[:, :3] = False
    return Recovery(
        expected=truth, outliers=np.zeros_like(truth), wrong=wrong & np.isfinite(readings),
        doubtful=np.zeros(truth.shape, dtype=bool), spikes=network.spikes,
        corrected=np.zeros(truth.shape, dtype=bool), cleaned=cleaned,
        lower=cleaned - np.where(wrong, 1.0, 0.0), upper=cleaned + np.where(wrong, 1.0, 0.0), faulty=faulty,
        suspect=nothing, evaluated=evaluated, score=faulty * 2.0,
        reason=np.where(faulty, "stuck", ""), faults=(), iterations=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def network() -> Network:
    return city(SENSORS, DAYS, seed=3)


def drawn(path: Path, network: Network, recovery: Recovery, **more: object) -> np.ndarray:
    from matplotlib.image import imread

    written = picture(
        path, readings=network.readings, recovery=recovery, times=network.times, sensors=network.sensors,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip
    assert written == path
    return np.asarray(imread(path))[..., :3]


def has_colour(image: np.ndarray, colour: str) -> bool:
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return bool((np.abs(image - wanted).max(axis=-1) < 0.02).any())


def test_the_picture_shows_raw_cleaned_truth_and_the_health_of_all(tmp_path: Path, network: Network) -> None:
    path = tmp_path / "deep" / "city.png"
    image = drawn(path, network, judged(network), truth=network.truth, unit="°C", title="A city")
    assert image.shape[1] >= 1200
    assert has_colour(image, "#0072b2"), "cleaned"
    assert has_colour(image, "#d55e00"), "raw, and faulty days"
    assert has_colour(image, "#3b4252"), "silent days"
    assert np.mean(image.min(axis=-1) < 0.95) > 0.2, "not blank"


def test_what_is_wrong_changes_the_picture(tmp_path: Path, network: Network) -> None:
    recovery = judged(network)
    with_truth = drawn(tmp_path / "a.png", network, recovery, truth=network.truth)
    without = drawn(tmp_path / "b.png", network, recovery)
    assert with_truth.shape == without.shape
    assert (with_truth != without).any()


def test_the_same_network_gives_the_same_bytes(tmp_path: Path, network: Network) -> None:
    first, second = (tmp_path / "a.png", tmp_path / "b.png")
    for path in (first, second):
        drawn(path, network, judged(network))
    assert first.read_bytes() == second.read_bytes()
    assert b"Software" not in first.read_bytes()


def test_a_network_of_nothing_but_gaps_can_be_drawn(tmp_path: Path, network: Network) -> None:
    empty = np.full_like(network.readings, np.nan)
    recovery = judged(network)
    bare = Recovery(**{**recovery.__dict__, "cleaned": empty, "lower": None, "upper": None})
    written = picture(tmp_path / "gaps.png", readings=empty, recovery=bare, times=network.times,
                      sensors=network.sensors)  # fmt: skip
    assert written.stat().st_size > 10_000


def test_health_says_what_is_worst_of_each_day() -> None:
    readings = np.zeros((6, 4, 1))
    readings[1, 0] = np.nan
    readings[4] = np.nan
    false = np.zeros((6, 1), dtype=bool)
    faulty, suspect, evaluated = false.copy(), false.copy(), ~false
    suspect[2], faulty[3], evaluated[5] = True, True, False
    zeros = np.zeros_like(readings)
    nothing = zeros.astype(bool)
    recovery = Recovery(zeros, zeros, nothing, nothing, nothing, nothing, zeros, None, None, faulty, suspect, evaluated,
                        np.zeros((6, 1)), np.full((6, 1), ""), (), 1)  # fmt: skip
    named = [HEALTH[index] for index in health(readings, recovery)[:, 0]]
    assert named == ["healthy", "filled", "suspect", "faulty", "silent", "not evaluated"]


def test_the_worst_stretch_has_faults_and_sound_days(network: Network) -> None:
    recovery = judged(network)
    sensor, days = worst(network.readings, recovery, days=14)
    share = recovery.faulty[sensor, days].mean()
    assert days.stop - days.start == 14
    assert 0 < share < 1


def test_without_matplotlib_one_line_says_what_to_install(
    tmp_path: Path, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., object] = builtins.__import__

    def refuse(name: str, *rest: object, **more: object) -> object:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(SensormendError, match=r"pip install 'sensormend\[plot\]'") as caught:
        picture(tmp_path / "no.png", readings=network.readings, recovery=judged(network), times=network.times,
                sensors=network.sensors)  # fmt: skip
    assert "\n" not in str(caught.value)
