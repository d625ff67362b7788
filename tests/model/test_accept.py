"""A level that a person accepts: right from then on, and all else that is known of the sensor stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks import assert_same_array, assert_same_recovery
from networks import Floats, fault_free
from sensormend import InputError, NetworkModel
from sensormend.model.records import CHANNEL
from sensormend.recovery import Recovery

DAYS, BROKEN, ACCEPTED = 90, 50, 60


def with_offset(size: float, sensor: int = 3) -> Floats:
    """Sound readings of which a sensor is off from hour 7 of day 50 on."""
    days = fault_free(8, DAYS).copy()
    days[sensor, 7:, BROKEN] += size
    days[sensor, :, BROKEN + 1 :] += size
    return days


def through(days: Floats, model: NetworkModel, first: int = 0, last: int = DAYS) -> list[Recovery]:
    return [model.update(days[..., day]) for day in range(first, last)]


def accepting(days: Floats, sensor: int = 3, at_day: int = ACCEPTED) -> tuple[list[Recovery], NetworkModel]:
    model = NetworkModel()
    results = through(days, model, 0, at_day)
    model.accept(sensor)
    return results + through(days, model, at_day), model


@pytest.mark.parametrize("size", [5.0, -5.0])
def test_an_offset_that_is_accepted_is_right_from_then_on(size: float) -> None:
    days = with_offset(size)
    results, _ = accepting(days)
    before, after = results[BROKEN + 1 : ACCEPTED], results[ACCEPTED:]
    assert all(result.wrong[3].all() for result in before)
    flagged = np.mean([(result.wrong | result.doubtful)[3].mean() for result in after])
    assert flagged < 0.01
    fault = next(fault for fault in after[0].faults if fault.sensor == 3)
    assert fault.end == ACCEPTED * 24 - 1
    assert fault.id in {other.id for other in before[-1].faults}
    assert not any(other.sensor == 3 for other in after[1].faults)

    def error(first: int, last: int) -> float:
        squares = [np.mean((results[day].expected[3] - days[3, :, day]) ** 2) for day in range(first, last)]
        return float(np.sqrt(np.mean(squares)))

    assert error(ACCEPTED, ACCEPTED + 10) < 1.3 * error(BROKEN - 20, BROKEN), "its estimates are as good as before"


def test_a_level_that_is_accepted_before_it_changes_is_taken_from_the_next_readings() -> None:
    """As when a sensor was set right: nothing has come since."""
    days = fault_free(8, DAYS).copy()
    days[3, :, ACCEPTED:] += 8.0
    results, _ = accepting(days)
    assert np.mean([(result.wrong | result.doubtful)[3].mean() for result in results[ACCEPTED:]]) < 0.01
    days[3, :6, ACCEPTED] = np.nan
    days[3, :, ACCEPTED + 1 : ACCEPTED + 4] = np.nan
    days[3, :, ACCEPTED] = np.nan
    results, _ = accepting(days)
    assert np.mean([(result.wrong | result.doubtful)[3].mean() for result in results[ACCEPTED:]]) < 0.01
    others = np.delete(np.arange(8), 3)
    plain = through(days, NetworkModel())
    for ours, theirs in zip(results[: ACCEPTED + 4], plain[: ACCEPTED + 4], strict=True):
        np.testing.assert_array_equal(ours.wrong[others], theirs.wrong[others])


def whole_state(model: NetworkModel, path: Path) -> dict[str, Any]:
    """Return the arrays of the file that a model is saved to, which must be a whole one."""
    model.save(path)
    NetworkModel.load(path)
    with np.load(path) as file:
        return dict(file)


def test_how_it_moves_with_the_others_stays_known(tmp_path: Path) -> None:
    model = NetworkModel()
    through(with_offset(5.0), model, 0, ACCEPTED)
    before = whole_state(model, tmp_path / "before.npz")
    model.accept(3)
    after = whole_state(model, tmp_path / "after.npz")
    np.testing.assert_array_equal(after["moments"], before["moments"])
    of_level = {"distance", "onset", "lasting", "has_ended", "fault_size", "own_distance", "is_distant"}
    changed = {*of_level, "level_age", "judgement", "open_kind"}
    for field in set(CHANNEL.names or ()) - changed:
        np.testing.assert_array_equal(after["stats"][field], before["stats"][field], err_msg=field)
    others = np.arange(8) != 3
    assert_same_array(after["stats"][others], before["stats"][others], "stats")
    np.testing.assert_array_equal(after["mean"][others], before["mean"][others])
    width = float(after["variable_stats"]["width"][0])
    np.testing.assert_allclose((after["mean"][3] - before["mean"][3]) * width, 5.0, atol=0.5)
    assert after["count"][3] == 0


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sensor=st.integers(0, 7), day=st.integers(20, 80))
def test_accepting_a_sound_sensor_changes_nothing_to_speak_of(sensor: int, day: int) -> None:
    days, model = fault_free(8, DAYS), NetworkModel()
    through(days, model, 0, day)
    twin = model.copy()
    twin.accept(sensor)
    plain, ours = through(days, model, day), through(days, twin, day)
    if not any(fault.sensor == sensor for fault in plain[0].faults):
        assert np.mean([a.wrong != b.wrong for a, b in zip(plain, ours, strict=True)]) < 0.05
        more = [(b.wrong | b.doubtful) & ~(a.wrong | a.doubtful) for a, b in zip(plain, ours, strict=True)]
        # A channel whose level starts over is young, and a fault of a young one is doubtful.
        assert np.mean(more) < 0.1, "what is doubtful hangs on the levels before, which are found anew"
        moved = [np.abs(a.expected - b.expected).mean() for a, b in zip(plain, ours, strict=True)]
        assert np.mean(moved) < 0.05


@pytest.mark.parametrize("later", [0, 1])
def test_an_accepted_level_survives_a_state_file(tmp_path: Path, later: int) -> None:
    days, model = with_offset(5.0), NetworkModel()
    through(days, model, 0, ACCEPTED)
    model.accept(3)
    through(days, model, ACCEPTED, ACCEPTED + later)
    model.save(tmp_path / "model.npz")
    loaded, copied = NetworkModel.load(tmp_path / "model.npz"), model.copy()
    for result, *others in zip(*(through(days, each, ACCEPTED + later, 70) for each in (model, loaded, copied)),
                               strict=True):  # fmt: skip
        for other in others:
            assert_same_recovery(other, result)


def test_an_answer_about_the_day_so_far_places_the_level_and_keeps_nothing() -> None:
    days, model = with_offset(5.0), NetworkModel()
    through(days, model, 0, ACCEPTED)
    model.accept(3)
    today = days[..., ACCEPTED].copy()
    so_far = np.where(np.arange(24) < 8, today, np.nan)
    assert not model.estimate(so_far).wrong[3].any()
    twin = model.copy()
    assert_same_recovery(model.estimate(today), twin.update(today))
    assert not model.update(today).wrong[3].any()


def test_one_variable_of_a_sensor_with_a_label() -> None:
    days = np.stack([fault_free(8, DAYS), 2 * fault_free(8, DAYS)], axis=1)
    days[3, :, :, BROKEN:] += 9.0
    names = [f"s{number}" for number in range(8)]
    model = NetworkModel(fiber_axis=2)
    for day in range(ACCEPTED):
        result = model.update(days[..., day], sensors=names)
    assert result.wrong[3].all()
    model.accept("s3", 1)
    result = model.update(days[..., ACCEPTED], sensors=names)
    assert result.wrong[3, 0].all()
    assert not result.wrong[3, 1].any()
    model.accept("s3")
    result = model.update(days[..., ACCEPTED + 1], sensors=names)
    assert not result.wrong[3].any()


def test_a_sensor_that_is_not_known_cannot_be_accepted() -> None:
    model = NetworkModel()
    with pytest.raises(InputError, match="no sensor 'a' to accept: the model knows 0 sensors"):
        model.accept("a")
    days = fault_free(8, DAYS)
    named = NetworkModel()
    through(days, model, 0, 3)
    named.update(days[..., 0], sensors=list("abcdefgh"))
    for wrong in (8, -1, "a", None, 1.5, True):
        with pytest.raises(InputError, match=r"no sensor .* to accept: the model knows 8 sensors"):
            model.accept(wrong)
    with pytest.raises(InputError, match="no sensor 0 to accept"):
        named.accept(0)
    with pytest.raises(InputError, match="no variable 1: they have the numbers 0 to 0"):
        named.accept("a", 1)
    with pytest.raises(InputError, match="a variable is its number"):
        named.accept("a", "temp")  # type: ignore[arg-type]
    named.accept("h", 0)
    model.accept(np.int64(7))


def test_hypotheses_of_others_stay_after_some_were_dropped(tmp_path: Path) -> None:
    days = fault_free(8, DAYS).copy()
    broken = (1, 3, 6)
    for number, sensor in enumerate(broken):
        # Not all the same way: a third of a network that does so is weather.
        days[sensor, :, BROKEN - 5 * number :] += 12.0 * (-1) ** number
    model = NetworkModel()
    through(days, model, 0, BROKEN + 2)
    followed = hypotheses_of(whole_state(model, tmp_path / "before.npz"))
    assert all(len(followed[sensor]) for sensor in broken)
    model.accept(3)
    remaining = hypotheses_of(whole_state(model, tmp_path / "after.npz"))
    assert len(remaining[3]) == 0
    for c in set(range(8)) - {3}:
        assert_same_array(remaining[c], followed[c], str(c))


def hypotheses_of(arrays: dict[str, Any]) -> list[Any]:
    """Return what is followed for each of the channels."""
    parts = zip(arrays["first"], arrays["count"], strict=True)
    return [arrays["hypotheses"][first : first + count] for first, count in parts]
