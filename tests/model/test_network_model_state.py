"""NetworkModel's state: estimate leaves it alone, files bring it back, bad input does not change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import assert_same_recovery, assert_same_state, state
from networks import LEARNED, Floats, fault_free, observed_mask, partition_small_networks, trained, update_all
from sensormend import OLRTR, ConfigError, NetworkModel, SensormendError, ShapeError, StateError, ValueRangeError
from sensormend.recovery import Recovery
from sensormend.simulate.degrade import Case, degrade
from sensormend.simulate.network import city

TODAY = LEARNED


def spoilt(days: int, sensors: int = 10, climate: str = "city") -> Floats:
    """A network with faults, gaps and outages."""
    return degrade(fault_free(sensors, 90, climate=climate)[..., :days], Case("mix", share=0.1), seed=4).readings


@pytest.mark.parametrize("days", [0, 1, 4, 7, 12, LEARNED])
def test_estimate_answers_like_update_and_learns_nothing(days: int, tmp_path: Path) -> None:
    readings = spoilt(LEARNED + 1, climate="skewed" if days == 7 else "city")
    model = NetworkModel()
    if days:
        update_all(model, readings[..., :days])
    before = state(model, tmp_path)
    peek = model.estimate(readings[..., days])
    assert_same_state(before, state(model, tmp_path))
    assert model.periods == days
    assert_same_recovery(peek, model.update(readings[..., days]))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([24, 72]))
def test_estimates_of_a_growing_period_are_those_of_a_model_that_begins_with_it(seed: int, slots: int) -> None:
    random = np.random.default_rng(seed)
    days = degrade(city(9, 14, slots=slots, seed=seed % 1000).readings, Case("mix", share=0.25), seed=seed).readings
    labels = [*map(str, range(9))]
    model = NetworkModel()
    for day in range(12):
        model.update(days[:8, ..., day], labels[:8])
    for day in (12, 13):
        whole = days[..., day].copy()
        whole[random.random(whole.shape) < 0.1] = np.nan
        whole[random.random(whole.shape) < 0.02] += 10 * random.choice([-1, 1])
        # Some readings come some slots late, and a sensor may join in the middle of the period.
        late = np.where(random.random(whole.shape) < 0.1, random.integers(1, slots, whole.shape), 0)
        joins = int(random.integers(0, 2 * slots))
        for until in range(1, slots + 1, slots // 24):
            here = labels if until > joins else labels[:8]
            part = np.where(np.arange(slots) + late < until, whole, np.nan)[: len(here)]
            # A copy has not estimated anything.
            assert_same_recovery(model.estimate(part, here), model.copy().estimate(part, here))
        model.update(whole[:8], labels[:8])


def test_estimate_of_several_periods_takes_each_from_the_same_state(tmp_path: Path) -> None:
    model = trained()
    before = state(model, tmp_path)
    both = model.estimate(fault_free()[..., TODAY : TODAY + 2])
    assert_same_state(before, state(model, tmp_path))
    for day in range(2):
        assert_same_recovery(
            Recovery.stack([model.estimate(fault_free()[..., TODAY + day])]),
            Recovery(**{name: _part(value, day) for name, value in vars(both).items()}),
        )


def _part(value: Any, day: int) -> Any:
    """Keep one period; the iterations are one round each where nothing is wrong."""
    if isinstance(value, tuple):
        return value
    return value[..., day : day + 1] if isinstance(value, np.ndarray) else 1


@pytest.mark.parametrize("hours", [1, 6, 13])
def test_a_day_that_is_not_over_yet(hours: int) -> None:
    truth = fault_free()[..., TODAY]
    so_far = np.where(np.arange(24) < hours, truth, np.nan)
    so_far[5] = np.where(np.isfinite(so_far[5]), so_far[5] + 12, np.nan)
    result = trained().estimate(so_far)
    assert np.isfinite(result.cleaned).all()
    sound_ones = np.arange(16) != 5
    assert not result.faulty[sound_ones].any()
    assert result.lower is not None
    assert result.upper is not None
    to_come = np.isnan(so_far)
    assert (result.lower < result.upper)[to_come].all()
    if hours >= 6:
        assert result.faulty[5]
        assert np.abs(result.cleaned - truth)[5, :hours].max() < 4
    # What comes next follows from what was read just now, the farther the less surely.
    width = (result.upper - result.lower)[sound_ones]
    assert (width[:, -1] > width[:, hours]).all()


def test_periods_in_one_call_are_calls_one_by_one(tmp_path: Path) -> None:
    readings = spoilt(35)
    together, apart = NetworkModel(), NetworkModel()
    joined = Recovery.concatenate([together.update(readings[..., :9]), together.update(readings[..., 9:])])
    assert_same_recovery(joined, update_all(apart, readings))
    assert_same_state(state(together, tmp_path), state(apart, tmp_path))


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_resumed_run_gives_the_same_bits(partitioned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if partitioned:
        partition_small_networks(monkeypatch)
    readings = spoilt(24, sensors=60 if partitioned else 10)
    labels = [f"s{number}" for number in range(len(readings))]
    straight, broken = NetworkModel(), NetworkModel()
    for day in range(readings.shape[-1]):
        if day in (0, 1, 6, 7, 8, 20):
            broken.save(tmp_path / "state.npz")
            broken = NetworkModel.load(tmp_path / "state.npz")
        count = len(readings) - (day < 6)
        # Backwards on every second day.
        step = -1 if day % 2 else 1
        assert_same_recovery(
            straight.update(readings[:count, :, day][::step], labels[:count][::step]),
            broken.update(readings[:count, :, day][::step], labels[:count][::step]),
        )
    assert_same_state(state(straight, tmp_path), state(broken, tmp_path))
    assert broken.sensors == straight.sensors
    assert broken.periods == straight.periods == 24


def test_settings_come_back(tmp_path: Path) -> None:
    NetworkModel(fiber_axis=2, interval=0.8, seed=3).save(tmp_path / "new.npz")
    model = NetworkModel.load(tmp_path / "new.npz")
    assert (model.fiber_axis, model.interval, model.seed) == (2, 0.8, 3)
    assert model.periods == 0
    assert model.sensors == ()


def test_a_copy_goes_its_own_way(tmp_path: Path) -> None:
    model = trained()
    before = state(model, tmp_path)
    twin = model.copy()
    update_all(twin, fault_free()[..., TODAY : TODAY + 3] * 2)
    assert_same_state(before, state(model, tmp_path))
    assert twin.periods == LEARNED + 3


def test_memory_is_flat(tmp_path: Path) -> None:
    readings = spoilt(60)
    model = NetworkModel()
    sizes = []
    for day in range(160):
        model.update(readings[..., day % 60])
        if day + 1 in (35, 80, 160):
            sizes.append({name: value.nbytes for name, value in state(model, tmp_path).items() if name != "header"})
            # What is followed of a fault goes with it.
            assert sizes[-1].pop("hypotheses") < 100_000
    assert sizes[0] == sizes[1] == sizes[2]


def test_memory_at_the_start_is_not_larger_than_later_but_for_the_sample(tmp_path: Path) -> None:
    readings = spoilt(40)
    model = NetworkModel()
    update_all(model, readings[..., :20])
    early = {name: value.nbytes for name, value in state(model, tmp_path).items()}
    update_all(model, readings[..., 20:])
    late = {name: value.nbytes for name, value in state(model, tmp_path).items()}
    del early["header"], late["header"]
    assert early.pop("sample") < 100_000
    assert late.pop("sample") == 0
    # What is followed of a fault goes with it.
    assert early.pop("hypotheses") < 100_000
    assert late.pop("hypotheses") < 100_000
    assert early == late


def damaged(folder: Path) -> dict[str, Path]:
    """State files with which something is wrong."""
    good = folder / "good.npz"
    trained().save(good)
    with np.load(good, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"]))
    files = {
        name: folder / f"{name}.npz" for name in ("short", "half", "garbage", "empty", "later", "other", "foreign")
    }
    files["short"].write_bytes(good.read_bytes()[:-200])
    files["half"].write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    files["garbage"].write_bytes(np.random.default_rng(0).bytes(5000))
    files["empty"].write_bytes(b"")
    np.savez(files["later"], **{**arrays, "header": np.array(json.dumps({**header, "version": 99}))})
    OLRTR(rank=2, alpha=10, seed=0).save(files["other"])
    np.savez(files["foreign"], values=np.ones(3))
    for version in (1, 2):
        files[f"version {version}"] = folder / f"version_{version}.npz"
        np.savez(
            files[f"version {version}"], **{**arrays, "header": np.array(json.dumps({**header, "version": version}))}
        )
    for name in arrays.keys() - {"header"}:
        files[name] = folder / f"no_{name}.npz"
        np.savez(files[name], **{key: value for key, value in arrays.items() if key != name})
    return files


def test_a_file_that_is_no_state_of_this_method_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name, path in damaged(tmp_path).items():
        before = path.read_bytes()
        with pytest.raises(StateError) as caught:
            NetworkModel.load(path)
        assert path.name in str(caught.value), name
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == before
    with pytest.raises(StateError, match="absent"):
        NetworkModel.load(tmp_path / "absent.npz")


def test_a_state_whose_parts_do_not_fit_is_refused(tmp_path: Path) -> None:
    arrays = state(trained(), tmp_path)
    for name, value in arrays.items():
        if name != "header" and value.size:
            np.savez(tmp_path / "state.npz", **{**arrays, name: value[:-1]})
            with pytest.raises(StateError) as caught:
                NetworkModel.load(tmp_path / "state.npz")
            assert "\n" not in str(caught.value), name


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.npz"
    model = trained()
    model.save(path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def with_value(value: float) -> Floats:
    readings = fault_free()[..., TODAY].copy()
    readings[3, 7] = value
    return readings


BAD_PERIODS: dict[str, tuple[Any, Any, type[SensormendError]]] = {
    "one axis": (np.zeros(24), None, ShapeError),
    "four axes": (np.zeros((16, 24, 1, 1)), None, ShapeError),
    "no sensors": (np.zeros((0, 24)), None, ShapeError),
    "no slots": (np.zeros((16, 0)), None, ShapeError),
    "no periods": (np.zeros((16, 24, 0)), None, ShapeError),
    "a sensor less": (np.zeros((15, 24)), None, ShapeError),
    "a sensor more": (np.zeros((17, 24)), None, ShapeError),
    "other slots": (np.zeros((16, 23)), None, ShapeError),
    "ragged rows": ([[1.0, 2.0], [3.0]], None, ShapeError),
    "labels all of a sudden": (np.zeros((16, 24)), [f"s{number}" for number in range(16)], ShapeError),
    "complex numbers": (np.zeros((16, 24)) + 1j, None, ValueRangeError),
    "text": (np.full((16, 24), "warm"), None, ValueRangeError),
    "objects": (np.full((16, 24), None), None, ValueRangeError),
    "truth values": (np.ones((16, 24), dtype=bool), None, ValueRangeError),
    "dates": (np.zeros((16, 24), dtype="datetime64[s]"), None, ValueRangeError),
    "inf": (with_value(np.inf), None, ValueRangeError),
    "minus inf": (with_value(-np.inf), None, ValueRangeError),
    "too large": (with_value(1e200), None, ValueRangeError),
}


@pytest.mark.parametrize("name", BAD_PERIODS)
def test_bad_input_is_refused_in_one_line_and_changes_nothing(name: str, tmp_path: Path) -> None:
    minibatch, labels, error = BAD_PERIODS[name]
    model = trained()
    before = state(model, tmp_path)
    for call in (model.update, model.estimate):
        with pytest.raises(error) as caught:
            call(minibatch, labels)
        assert str(caught.value)
        assert "\n" not in str(caught.value)
        assert_same_state(before, state(model, tmp_path))
    assert_same_recovery(model.update(fault_free()[..., TODAY]), trained().update(fault_free()[..., TODAY]))


def test_bad_labels_are_refused_and_change_nothing(tmp_path: Path) -> None:
    readings = fault_free()[:4]
    model = NetworkModel()
    update_all(model, readings[..., :6], sensors=["a", "b", "c", "d"])
    before = state(model, tmp_path)
    bad: list[tuple[Any, type[SensormendError]]] = [
        (None, ShapeError),
        (["a", "b", "c"], ShapeError),
        (["a", "b", "c", "d", "e"], ShapeError),
        (["a", "b", "c", "c"], ShapeError),
        (["a", "b", "c", 1.5], ValueRangeError),
        (["a", "b", "c", None], ValueRangeError),
        (["a", "b", "c", ("d", 1)], ValueRangeError),
    ]
    for labels, error in bad:
        with pytest.raises(error) as caught:
            model.update(readings[..., 6], labels)
        assert "\n" not in str(caught.value)
        assert_same_state(before, state(model, tmp_path))
    with pytest.raises(ShapeError):
        model.update(readings[:, :12, 6], ["a", "b", "c", "d"])
    with pytest.raises(ShapeError):
        model.update(readings[..., 6], ["a", "b", "b", "e"])
    assert model.sensors == ("a", "b", "c", "d")
    assert_same_state(before, state(model, tmp_path))


def test_a_bad_first_minibatch_leaves_nothing_behind(tmp_path: Path) -> None:
    model = NetworkModel()
    before = state(model, tmp_path)
    for minibatch in (np.zeros(24), with_value(np.inf), wind()):
        with pytest.raises(SensormendError):
            model.update(minibatch)
        assert_same_state(before, state(model, tmp_path))
    assert_same_recovery(model.update(fault_free()[..., 0]), NetworkModel().update(fault_free()[..., 0]))


def test_variables_and_slots_must_stay(tmp_path: Path) -> None:
    model = NetworkModel(fiber_axis=2)
    readings = np.stack([fault_free()[:4, :, 0], fault_free(seed=3)[:4, :, 0]], axis=1)
    model.update(readings)
    before = state(model, tmp_path)
    for minibatch in (readings[:, :1], readings[:, :, :12], readings[:, 0], readings[..., None, None]):
        with pytest.raises(ShapeError) as caught:
            model.update(minibatch)
        assert "\n" not in str(caught.value)
        assert_same_state(before, state(model, tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"fiber_axis": 0},
        {"fiber_axis": -1},
        {"fiber_axis": 1.0},
        {"fiber_axis": True},
        {"interval": 0},
        {"interval": 1},
        {"interval": 1.5},
        {"interval": -0.1},
        {"interval": float("nan")},
        {"interval": "wide"},
        {"interval": True},
        {"seed": -1},
        {"seed": 0.5},
        {"seed": True},
        {"seed": None},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        NetworkModel(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("passes", [0, -1, 1.5, True, None])
def test_passes_must_be_a_whole_number(passes: Any) -> None:
    model = NetworkModel()
    with pytest.raises(ConfigError):
        model.recover(fault_free()[..., :3], passes=passes)
    assert model.periods == 0


def test_several_passes_go_on_from_where_the_last_one_ended() -> None:
    readings = spoilt(12)
    model, by_hand = NetworkModel(), NetworkModel()
    by_hand.recover(readings)
    assert_same_recovery(model.recover(readings, passes=2), by_hand.recover(readings))


def wind(turning_from: float = 200.0) -> Floats:
    """A day of wind that turns once round, (sensor, slot), in degrees."""
    random = np.random.default_rng(0)
    return np.asarray((turning_from + np.linspace(0, 400, 24) + random.normal(0, 10, (6, 24))) % 360)


def test_wind_direction_is_refused_in_one_line(tmp_path: Path) -> None:
    model = NetworkModel()
    before = state(model, tmp_path)
    for call in (model.update, model.estimate, model.recover):
        with pytest.raises(ValueRangeError, match="directions") as caught:
            call(wind())
        assert "\n" not in str(caught.value)
        assert_same_state(before, state(model, tmp_path))


def test_wind_direction_among_other_variables_is_named(tmp_path: Path) -> None:
    model = NetworkModel(fiber_axis=2)
    readings = np.stack([fault_free()[:6, :, 0], wind()], axis=1)
    with pytest.raises(ValueRangeError, match="variable 1"):
        model.update(readings)
    turned = np.deg2rad(wind())
    model.update(np.stack([fault_free()[:6, :, 0], np.sin(turned), np.cos(turned)], axis=1))
    assert model.periods == 1


def test_a_wind_that_turns_later_is_refused_then(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    model = NetworkModel()
    for _ in range(4):
        model.update(random.normal(200, 20, (1, 24)) + random.normal(0, 10, (6, 24)))
    before = state(model, tmp_path)
    with pytest.raises(ValueRangeError, match="directions"):
        model.update(wind())
    assert_same_state(before, state(model, tmp_path))


def test_whole_numbers_masks_and_float32_are_readings() -> None:
    readings = fault_free()[..., 0].round()
    one = NetworkModel().update(readings)
    assert_same_recovery(one, NetworkModel().update(readings.astype(int)))
    assert_same_recovery(one, NetworkModel().update(readings.astype(np.float32)))
    assert_same_recovery(one, NetworkModel().update(readings.tolist()))
    hidden = ~observed_mask(0.8, readings.shape)
    masked = np.ma.MaskedArray(np.where(hidden, -999.0, readings), hidden)
    assert_same_recovery(NetworkModel().update(np.where(hidden, np.nan, readings)), NetworkModel().update(masked))


def test_the_axes_may_be_laid_out_in_memory_as_they_like() -> None:
    readings = spoilt(8)
    one = NetworkModel().recover(readings)
    assert_same_recovery(one, NetworkModel().recover(np.asfortranarray(readings)))
    backwards = readings[::-1].copy()[::-1]
    assert_same_recovery(one, NetworkModel().recover(backwards))
