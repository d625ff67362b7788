"""What the published online methods share: labels, state files, passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from against import readings
from checks import same
from sensormend import GRASTA, OLRSC, OLRTR, ORLTM, OSTD, ConfigError, ShapeError, StateError, StocRPCA
from sensormend.methods.base import PublishedOnline

Floats = NDArray[np.float64]
Make = Callable[[], PublishedOnline]
MAKERS: dict[str, Make] = {
    "OLRTR": lambda: OLRTR(2, alpha=2, seed=0),
    "GRASTA": lambda: GRASTA(2, seed=0),
    "OLRSC": lambda: OLRSC(2, seed=0),
    "ORLTM": lambda: ORLTM(2, seed=0),
    "OSTD": lambda: OSTD(2, seed=0),
    "StocRPCA": lambda: StocRPCA(2, seed=0),
}
TENSOR = readings((6, 5, 7), 1)


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def contents(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    return json.loads(str(arrays.pop("header"))), arrays


def write(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    np.savez(path, allow_pickle=False, **{"header": np.array(json.dumps(header)), **arrays})


@pytest.fixture
def saved(make: Make, tmp_path: Path) -> tuple[type[PublishedOnline], Path]:
    model = make()
    model.recover(TENSOR)
    model.save(tmp_path / "state.npz")
    return type(model), tmp_path / "state.npz"


def test_a_rows_place_follows_its_label(make: Make) -> None:
    names, turned = list("abcdef"), list("dafbec")
    order = [names.index(name) for name in turned]
    plain, labelled = make(), make()
    plain.update(TENSOR[..., 0])
    labelled.update(TENSOR[..., 0], sensors=names)
    for day in range(1, 5):
        expected = plain.update(TENSOR[..., day]).of_sensors(np.array(order))
        same(labelled.update(TENSOR[order, :, day], sensors=turned), expected)
    same(labelled.update(TENSOR[..., 5]), plain.update(TENSOR[..., 5]))
    with pytest.raises(ShapeError, match="other sensors"):
        labelled.update(TENSOR[..., 6], sensors=list("abcdex"))


def test_labels_may_come_later(make: Make) -> None:
    names, turned = list("abcdef"), list("fedcba")
    plain, labelled = make(), make()
    for day in range(2):
        same(labelled.update(TENSOR[..., day]), plain.update(TENSOR[..., day]))
    same(labelled.update(TENSOR[..., 2], sensors=names), plain.update(TENSOR[..., 2]))
    expected = plain.update(TENSOR[..., 3]).of_sensors(np.arange(6)[::-1])
    same(labelled.update(TENSOR[::-1, :, 3], sensors=turned), expected)


def test_a_state_with_a_broken_array_is_refused(saved: tuple[type[PublishedOnline], Path], tmp_path: Path) -> None:
    method, path = saved
    header, arrays = contents(path)
    changed = tmp_path / "changed.npz"
    for key, array in arrays.items():
        whole = np.atleast_1d(array)
        nan, inf = array.copy(), array.copy()
        nan[...], inf[...] = np.nan, np.inf
        broken: list[NDArray[Any]] = [np.concatenate([whole, whole[:1]]), array[None], inf]
        broken += [array.astype(np.float32), np.full(array.shape, "x")]
        # Only the values that are carried on may be unknown.
        for part in broken if key == "last" else [*broken, nan]:
            write(changed, header, arrays | {key: part})
            with pytest.raises(StateError, match="not a whole"):
                method.load(changed)
        write(changed, header, {name: part for name, part in arrays.items() if name != key})
        with pytest.raises(StateError, match="not a whole"):
            method.load(changed)
    write(changed, header, arrays | {"extra": np.zeros(3)})
    with pytest.raises(StateError, match="not a whole"):
        method.load(changed)
    write(changed, header, arrays)
    method.load(changed)


def test_a_state_with_a_broken_header_is_refused(saved: tuple[type[PublishedOnline], Path], tmp_path: Path) -> None:
    method, path = saved
    header, arrays = contents(path)
    settings = header["settings"]
    changed = tmp_path / "changed.npz"
    for spoilt in (
        settings | {"shape": [7, 5]},
        settings | {"shape": []},
        settings | {"shape": [6, -5]},
        settings | {"shape": "six"},
        settings | {"labels": ["a", "b"]},
        settings | {"settings": {**settings["settings"], "rank": 4}},
        settings | {"settings": {**settings["settings"], "rank": "two"}},
        settings | {"settings": {**settings["settings"], "unknown": 2}},
        {"settings": {}, "shape": [6, 5]},
        {},
    ):
        write(changed, header | {"settings": spoilt}, arrays)
        with pytest.raises((StateError, ConfigError)) as caught:
            method.load(changed)
        assert "\n" not in str(caught.value)


def test_the_state_of_another_method_is_refused(saved: tuple[type[PublishedOnline], Path]) -> None:
    method, path = saved
    for other in (GRASTA, OLRSC, OLRTR, ORLTM, OSTD, StocRPCA):
        if other is not method:
            with pytest.raises(StateError, match=f"{method.__name__}, not of {other.__name__}"):
                other.load(path)


def test_every_setting_survives_the_file(tmp_path: Path) -> None:
    models: list[PublishedOnline] = [
        StocRPCA(4, columns=77, lambda1=0.3, lambda2=0.2, fiber_axis=2, tol=1e-4, max_iter=9, threshold=3.0, seed=5),
        OSTD(4, lambda1=0.3, lambda2=0.2, fiber_axis=2, tol=1e-4, max_iter=9, threshold=3.0, seed=5),
        OLRSC(4, lambda1=2.0, lambda2=0.3, lambda3=0.2, fiber_axis=2, tol=1e-4, max_iter=9, threshold=3.0, seed=5),
        ORLTM(4, lambda1=2.0, lambda2=0.3, lambda3=0.2, fiber_axis=2, tol=1e-4, max_iter=9, threshold=3.0, seed=5),
        GRASTA(4, fiber_axis=2, tol=1e-4, threshold=3.0, seed=5),
    ]
    for model in models:
        model.save(tmp_path / "fresh.npz")
        public = {name: value for name, value in vars(model).items() if not name.startswith("_")}
        loaded = type(model).load(tmp_path / "fresh.npz")
        assert {name: getattr(loaded, name) for name in public} == public
        tensor = readings((4, 2, 5, 6), 3)
        same(loaded.recover(tensor), model.recover(tensor))


WRONG: list[dict[str, Any]] = [
    {"rank": 0}, {"rank": 2.0}, {"fiber_axis": -1}, {"fiber_axis": 0}, {"threshold": 0}, {"tol": 0}, {"seed": -1},
    {"max_iter": 0}, {"lambda1": 0}, {"lambda2": -1.0}, {"lambda3": np.nan}, {"columns": 0},
]  # fmt: skip


@pytest.mark.parametrize("method", [StocRPCA, OSTD, OLRSC, ORLTM, GRASTA])
def test_wrong_settings_get_one_clear_line(method: Callable[..., PublishedOnline]) -> None:
    model = method()
    for settings in WRONG:
        name = next(iter(settings))
        if hasattr(model, name):
            with pytest.raises(ConfigError, match=name) as caught:
                method(**settings)
            assert "\n" not in str(caught.value)


def test_a_failed_walk_leaves_the_model_as_it_was(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model, twin = make(), make()
    for each in (model, twin):
        each.recover(TENSOR[..., :3])
    calls = 0
    solve = type(model)._solve

    def fails_at_last(self: PublishedOnline, day: Floats, known: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise MemoryError
        return solve(self, day, known)

    monkeypatch.setattr(type(model), "_solve", fails_at_last)
    with pytest.raises(MemoryError):
        model.recover(TENSOR, passes=2)
    monkeypatch.undo()
    same(model.update(TENSOR[..., 3]), twin.update(TENSOR[..., 3]))


def test_what_one_day_lacks_is_carried_from_the_day_before() -> None:
    """A silent day after a warm one is warm to the methods that know no gaps."""
    days = np.full((4, 6, 3), 20.0)
    days[1, :, 1] = np.nan
    for model in (StocRPCA(2, seed=0), OLRSC(2, seed=0), ORLTM(2, seed=0), OSTD(2)):
        full = np.full((4, 6, 3), 20.0)
        gap, whole = model.recover(days), type(model)(2, seed=0).recover(full)
        np.testing.assert_allclose(gap.low_rank, whole.low_rank, rtol=0, atol=1e-9)
        assert not gap.outliers[1, :, 1].any(), "nothing was read there"


def test_the_best_guess_before_anything_was_read_is_none(make: Make) -> None:
    model = make()
    assert np.isnan(model.update(np.full((6, 5), np.nan)).cleaned).all()
    same(model.update(TENSOR[..., 0]), make().update(TENSOR[..., 0]))
