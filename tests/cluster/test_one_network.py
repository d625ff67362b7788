"""One network on many workers gives what it gives on one machine, whatever dies on the way."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from checks import same
from clusters import Cluster, running_cluster
from sensormend import OLRTR, ConfigError, DivergenceError, Recovery, ShapeError, StateError
from sensormend.cluster import ClusterOLRTR
from sensormend.cluster.holding import Parts
from sensormend.errors import SensormendError, ValueRangeError
from sensormend.simulate import paper_tensor, stream

Floats = NDArray[np.float64]

DAYS = [day.readings for day in islice(stream(90, seed=3), 4)]
CUBES = [part.readings for part in paper_tensor(10, 3, minibatches=2, share=0.1, seed=0)]

SLOW = """
import os, time
from sensormend.cluster import row_parts
if row_parts.Part.step.__name__ != "slow":  # a preload may be run twice
    step = row_parts.Part.step
def slow(self, *given):
    while os.path.exists(os.environ["SENSORMEND_HOLD"]):
        time.sleep(0.02)
    return step(self, *given)
row_parts.Part.step = slow
"""
"""What makes a worker hold on in the middle of an iteration, to be killed there."""


def near(found: Recovery, expected: Recovery) -> None:
    """Assert what is promised: 1e-9, the same verdicts, the same iterations."""
    for field in fields(Recovery):
        mine, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=field.name)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)


@pytest.mark.parametrize(
    ("minibatches", "settings"),
    [
        (DAYS, {"rank": 6, "alpha": 60.0}),
        (DAYS, {"rank": 6, "alpha": 60.0, "solver": "accelerated"}),
        (CUBES, {"rank": 3, "alpha": 3.0}),
        (CUBES, {"rank": 3, "alpha": 3.0, "fiber_axis": 2, "dictionary_update": "jacobi"}),
    ],
)
def test_equals_one_machine(cluster: Cluster, minibatches: list[Floats], settings: dict[str, Any]) -> None:
    alone = OLRTR(seed=5, **settings)
    with ClusterOLRTR(cluster.address, seed=5, parts=3, **settings) as model:
        for minibatch in minibatches:
            near(model.update(minibatch), alone.update(minibatch))
        assert (model.periods, model.restored) == (len(minibatches), 0)


def test_single_precision_and_given_dictionaries(cluster: Cluster) -> None:
    random = np.random.default_rng(0)
    start = [random.random((length, 4)) for length in DAYS[0].shape]
    settings: dict[str, Any] = {"rank": 4, "alpha": 60.0, "dictionaries": start, "precision": "single"}
    alone = OLRTR(**settings)
    with ClusterOLRTR(cluster.address, **settings) as model:
        for day in DAYS[:2]:
            found, expected = model.update(day), alone.update(day)
            assert found.low_rank.dtype == np.float32
            np.testing.assert_allclose(found.low_rank, expected.low_rank, rtol=0, atol=1e-4)


def test_days_that_teach_nothing(cluster: Cluster) -> None:
    empty, zeros = np.full(DAYS[0].shape, np.nan), np.zeros(DAYS[0].shape)
    alone = OLRTR(3, 60.0, seed=5)
    with ClusterOLRTR(cluster.address, 3, 60.0, seed=5) as model:
        for day in (empty, zeros, DAYS[0], empty, DAYS[1]):
            near(model.update(day), alone.update(day))


def test_readings_of_a_dask_array_stay_with_the_workers(cluster: Cluster, tmp_path: Path) -> None:
    import dask
    from dask import array

    lazily: Any = dask
    whole: Any = array

    for number, day in enumerate(DAYS):
        np.save(tmp_path / f"{number}.npy", day)

    def load(number: int, first: int, last: int) -> Floats:
        readings: Floats = np.load(tmp_path / f"{number}.npy")[first:last]
        return readings

    alone = OLRTR(6, 60.0, seed=5)
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5) as model:
        for number in range(2):
            chunks = [
                whole.from_delayed(lazily.delayed(load)(number, first, last), (last - first, 24), dtype=float)
                for first, last in ((0, 20), (20, 60), (60, 90))
            ]
            found, expected = model.update(whole.concatenate(chunks)), alone.update(DAYS[number])
            assert found.cleaned.chunks == ((20, 40, 30), (24,))  # type: ignore[attr-defined]
            for name in ("low_rank", "outliers", "cleaned", "faulty", "score", "reason", "spikes", "evaluated"):
                lazy: Any = getattr(found, name)
                fetched = model.client.compute(lazy).result()
                assert fetched.dtype == lazy.dtype, name
                if fetched.dtype.kind == "f":
                    np.testing.assert_allclose(fetched, getattr(expected, name), rtol=1e-9, atol=1e-9)
                else:
                    np.testing.assert_array_equal(fetched, getattr(expected, name))
            assert found.iterations == expected.iterations
        # NumPy may follow, and comes back as NumPy.
        near(model.update(DAYS[2]), alone.update(DAYS[2]))


def test_state_goes_to_one_machine_and_back(cluster: Cluster, tmp_path: Path) -> None:
    alone = OLRTR(6, 60.0, seed=5)
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5) as model:
        near(model.update(DAYS[0]), alone.update(DAYS[0]))
        model.save(tmp_path / "state.npz")
    near(OLRTR.load(tmp_path / "state.npz").update(DAYS[1]), alone.update(DAYS[1]))
    alone.save(tmp_path / "alone.npz")
    with ClusterOLRTR.load(cluster.address, tmp_path / "alone.npz", parts=4) as model:
        near(model.update(DAYS[2]), alone.update(DAYS[2]))
    alone.update(DAYS[3], sensors=list(range(90)))
    alone.save(tmp_path / "alone.npz")
    with pytest.raises(StateError, match="names its sensors"):
        ClusterOLRTR.load(cluster.address, tmp_path / "alone.npz")


def test_a_checkpoint_goes_on_as_if_it_had_never_stopped(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5, parts=3, checkpoint=folder, every=2) as model:
        straight = [model.update(day) for day in DAYS]
    assert (folder / "model.npz").exists()
    assert len(list(folder.glob("rows-4-????????-[012].npz"))) == 3
    assert len(list(folder.iterdir())) == 4
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5, parts=3, checkpoint=folder, every=3) as model:
        for day in DAYS[:3]:
            model.update(day)
    with ClusterOLRTR.load(cluster.address, folder, checkpoint=folder) as model:
        assert model.periods == 3
        same(model.update(DAYS[3]), straight[3])
        assert model.periods == 4
    with pytest.raises(StateError, match="no state file"):
        ClusterOLRTR.load(cluster.address, tmp_path)


def test_a_checkpoint_takes_the_place_of_another_run_s_as_a_whole(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows-of-mine.npz").write_text("not ours")
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5, checkpoint=tmp_path) as model:
        model.update(DAYS[0])
        expected = model.update(DAYS[1])
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=8, checkpoint=tmp_path, every=2) as model:
        model.update(DAYS[2])

        def full(*given: Any, **more: Any) -> None:
            raise SensormendError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr("sensormend.cluster.one_network.write_state", full)
            with pytest.raises(SensormendError, match="no space left"):
                model.update(DAYS[3])
    with ClusterOLRTR.load(cluster.address, tmp_path, checkpoint=tmp_path) as model:
        model.save(tmp_path / "kept.npz")
        model.update(DAYS[2])
    alone = OLRTR(6, 60.0, seed=5)
    alone.update(DAYS[0])
    near(expected, alone.update(DAYS[1]))
    alone.save(tmp_path / "alone.npz")
    with np.load(tmp_path / "kept.npz") as one, np.load(tmp_path / "alone.npz") as other:
        np.testing.assert_allclose(one["L0"], other["L0"], rtol=1e-9, atol=1e-9)
    assert (tmp_path / "rows-of-mine.npz").read_text() == "not ours"
    assert len(list(tmp_path.glob("rows-3-*.npz"))) == len(list(tmp_path.glob("rows-[0-9]*.npz"))) == 2


def test_a_closed_model_does_not_begin_anew(cluster: Cluster) -> None:
    import distributed

    made: Any = distributed.Client
    with made(cluster.address, set_as_default=False) as client:
        model = ClusterOLRTR(client, 6, 60.0, seed=5)
        model.update(DAYS[0])
        model.close()
        with pytest.raises(ConfigError, match="was closed"):
            model.update(DAYS[1])


def test_what_comes_too_late_for_its_minibatch_is_refused() -> None:
    from sensormend.cluster.row_parts import Drawn, LostPartError, Terms, call, drop, hold
    from sensormend.methods._olrtr_modes import Solver

    shape = DAYS[0].shape
    hold("token", 0, Terms(1, 0.01, 1.0, False, False, shape), Drawn(5, 0, shape[0], 3))
    solvers = [Solver.of(np.random.default_rng(0).random((24, 3)), 0.01, 2)]
    try:
        call("token", 0, "first", "begin", DAYS[0], solvers, 0)
        call("token", 0, "second", "begin", DAYS[1], solvers, 0)
        for late in ("step", "finish", "tell"):
            with pytest.raises(LostPartError, match="not at this minibatch"):
                call("token", 0, "first", late, 0)
        L, _ = call("token", 0, None, "rows")
        assert L.shape == (shape[0], 3)
    finally:
        drop("token")


def killed_at(made: Cluster, call: str, after: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the worker of part 1 killed right before the parts are called by this name once more than `after` times."""
    seen = [0]
    original = Parts.call_each

    def counted(self: Parts, name: str, given: Any) -> Any:
        if name == call:
            seen[0] += 1
            if seen[0] == after + 1:
                kill_home(made, self.home(1))
        return original(self, name, given)

    monkeypatch.setattr(Parts, "call_each", counted)
    return monkeypatch.undo


def kill_home(made: Cluster, address: str) -> None:
    names = {found: name for name, found in made.wait_for_workers(1).items()}
    made.kill_worker(names[address])


def test_a_worker_killed_in_the_middle_of_a_day_changes_no_bit(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"rank": 6, "alpha": 60.0, "seed": 5, "parts": 3}
    with ClusterOLRTR(cluster.address, **settings) as model:
        expected = [model.update(day) for day in (*DAYS, DAYS[0])]
    hold = tmp_path / "hold"
    with running_cluster(3, SLOW, SENSORMEND_HOLD=str(hold)) as made:
        with ClusterOLRTR(made.address, checkpoint=tmp_path / "kept", every=2, **settings) as model:
            same(model.update(DAYS[0]), expected[0])
            assert not (tmp_path / "kept" / "model.npz").exists()

            # In the middle of an iteration of the second day, before there is any checkpoint.
            assert model._parts is not None
            home = model._parts.home(1)
            hold.touch()

            def kill_and_let_go() -> None:
                kill_home(made, home)
                hold.unlink()

            timer = threading.Timer(0.5, kill_and_let_go)
            timer.start()
            same(model.update(DAYS[1]), expected[1])
            timer.join()
            assert model.restored >= 1
            assert home not in {model._parts.home(part) for part in range(3)}

            # When it has been sent its readings and not yet begun.
            made.start_worker(SLOW)
            made.wait_for_workers(3)
            before, sent = model.restored, Parts._sent

            def deadly(self: Parts, number: int, data: Any) -> Any:
                found = sent(self, number, data)
                if number == 1 and self.restored == before:
                    kill_home(made, self.home(1))
                return found

            with monkeypatch.context() as patched:
                patched.setattr(Parts, "_sent", deadly)
                same(model.update(DAYS[2]), expected[2])
            assert model.restored > before
            made.start_worker(SLOW)
            made.wait_for_workers(3)

            # Between two iterations, and where the result is told; the last checkpoint is one day old then.
            before = model.restored
            undo = killed_at(made, "step", 3, monkeypatch)
            same(model.update(DAYS[3]), expected[3])
            undo()
            assert model.restored > before
            made.start_worker(SLOW)
            made.wait_for_workers(2)
            before = model.restored
            undo = killed_at(made, "tell", 0, monkeypatch)
            same(model.update(DAYS[0]), expected[4])
            undo()
            assert model.restored > before
            model.save(tmp_path / "killed.npz")
        with ClusterOLRTR.load(made.address, tmp_path / "kept") as model:
            assert model.periods == 4
            same(model.update(DAYS[0]), expected[4])
            model.save(tmp_path / "loaded.npz")
    with np.load(tmp_path / "killed.npz") as one, np.load(tmp_path / "loaded.npz") as other:
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])


def test_what_is_lost_is_said_in_one_line(fresh_cluster: Cluster) -> None:
    with ClusterOLRTR(fresh_cluster.address, 6, 60.0, seed=5) as model:
        model.update(DAYS[0])
        assert model._parts is not None
        kill_home(fresh_cluster, model._parts.home(1))
        with pytest.raises(SensormendError, match=r"gone.*checkpoint=FOLDER") as told:
            model.update(DAYS[1])
        assert "\n" not in str(told.value)
    with ClusterOLRTR(fresh_cluster.address, 6, 60.0, seed=5) as model:
        model.update(DAYS[0])
        fresh_cluster.kill_scheduler()
        with pytest.raises(SensormendError, match="scheduler") as told:
            model.update(DAYS[1])
        assert "\n" not in str(told.value)
        # As it is a few seconds later; the end of the block must not hide what was said.
        model.client.scheduler = None


def test_readings_that_are_lost_with_a_worker_are_said_in_one_line(fresh_cluster: Cluster, tmp_path: Path) -> None:
    from dask import array

    whole: Any = array
    with ClusterOLRTR(fresh_cluster.address, 6, 60.0, seed=5, checkpoint=tmp_path) as model:
        model.update(DAYS[0])
        assert model._parts is not None
        home = model._parts.home(0)
        sent = model.client.scatter([DAYS[1][:45], DAYS[1][45:]], workers=[home], hash=False)
        day = whole.concatenate([whole.from_delayed(future, (45, 24), float) for future in sent])
        kill_home(fresh_cluster, home)
        with pytest.raises(SensormendError, match="cannot be computed again") as told:
            model.update(day)
        assert "\n" not in str(told.value)
        near(model.update(DAYS[1]), _second_day())


def _second_day() -> Recovery:
    alone = OLRTR(6, 60.0, seed=5)
    alone.update(DAYS[0])
    return alone.update(DAYS[1])


def test_wrong_calls_are_refused_and_leave_the_model_as_it_was(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="axis 0"):
        ClusterOLRTR(cluster.address, 3, 60.0, fiber_axis=0)
    with pytest.raises(ConfigError, match="alpha"):
        ClusterOLRTR(cluster.address, 3)
    with pytest.raises(ConfigError, match="every"):
        ClusterOLRTR(cluster.address, 3, 60.0, every=0)
    alone = OLRTR(6, 60.0, seed=5)
    with ClusterOLRTR(cluster.address, 6, 60.0, seed=5) as model:
        for wrong in (np.ones(4), np.ones((0, 24))):
            with pytest.raises(ShapeError):
                model.update(wrong)
        with pytest.raises(ConfigError, match="nothing to write"):
            model.checkpoint(tmp_path)
        near(model.update(DAYS[0]), alone.update(DAYS[0]))
        with pytest.raises(ShapeError, match="cannot add sensors"):
            model.update(DAYS[0][:-1])
        broken = DAYS[1].copy()
        broken[70, 3] = np.inf
        with pytest.raises(ValueRangeError, match="inf"):
            model.update(broken)
        with pytest.raises(ConfigError, match="name a folder"):
            model.checkpoint()
        near(model.update(DAYS[1]), alone.update(DAYS[1]))


def test_divergence_leaves_the_model_as_it_was(cluster: Cluster, noaa: Floats) -> None:
    with ClusterOLRTR(cluster.address, 20, 70.0, dictionary_update="jacobi", max_iter=3, seed=0) as model:
        days = (noaa[..., day % noaa.shape[2]] for day in range(1000))
        with pytest.raises(DivergenceError, match="infinity"):
            deque(map(model.update, days), maxlen=0)
        assert all(np.isfinite(part).all() for mode in model._others for part in (mode.L, mode.A, mode.D))


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'sensormend\[cluster\]'"):
        ClusterOLRTR("tcp://127.0.0.1:1", 3, 60.0)
