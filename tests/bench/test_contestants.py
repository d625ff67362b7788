from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from checks import assert_same_recovery, network, with_gaps
from sensormend import OLRTR, ConfigError, DivergenceError
from sensormend.bench.contestants import Contestant, chosen, line_up, run_contestant
from sensormend.bench.tables import AOT, NOAA
from sensormend.methods import OLRSC
from sensormend.methods.base import Method, OnlineMethod
from sensormend.recovery import Recovery
from sensormend.simulate.network import paper_tensor

LINE_UPS = ("noaa", "aot", "faults", "simulated")
DAYS = with_gaps(network(14), 0.1)
DAYS.flags.writeable = False
MINIBATCHES = [DAYS[..., day] for day in range(14)]
SHORT, FEW = DAYS[..., :5], MINIBATCHES[:5]
EVERYBODY = [(where, name) for where in LINE_UPS for name in line_up(where)]


def runs() -> list[tuple[str, str]]:
    """Everybody once per setting: `faults` has nobody whom `noaa` does not have."""
    return [(where, name) for where, name in EVERYBODY if where != "faults"]


@pytest.mark.parametrize(("where", "name"), runs())
def test_everybody_runs(where: str, name: str) -> None:
    contestant = line_up(where, rank=2)[name]
    if where == "simulated":
        cases = list(paper_tensor(8, 2, minibatches=3, periods=4, seed=1))
        minibatches = [case.readings for case in cases]
    else:
        minibatches = MINIBATCHES
    whole = (np.stack if minibatches[0].ndim == 2 else np.concatenate)(minibatches, axis=-1)
    try:
        result = run_contestant(contestant, minibatches, 3)
    except DivergenceError:
        assert "Jacobi" in name, "only the authors' sweep is known to run off"
        return
    for part in (result.expected, result.outliers, result.cleaned, result.spikes):
        assert part.shape == whole.shape
    assert result.faulty.shape == (whole.shape[0], whole.shape[2])
    trusted = np.isfinite(whole) & ~result.wrong
    np.testing.assert_array_equal(result.cleaned[trusted], whole[trusted])
    # The published ones know nothing before the first reading, and here everybody reads on the first day.
    assert np.isfinite(result.cleaned).all()
    assert np.isfinite(result.score).all()


def test_the_line_up_of_faults_is_within_that_of_noaa() -> None:
    noaa, faults = line_up("noaa"), line_up("faults")
    assert faults.keys() < noaa.keys()
    for name, contestant in faults.items():
        one, other = contestant.make(1), noaa[name].make(1)
        assert type(one).__name__ == type(other).__name__
        settings, others = (
            {key: value for key, value in vars(model).items() if isinstance(value, int | float | str)}
            for model in (one, other)
        )
        assert settings == others


@pytest.mark.parametrize("where", LINE_UPS)
def test_what_a_contestant_says_of_itself_is_true(where: str) -> None:
    for name, contestant in line_up(where).items():
        model = contestant.make(4)
        assert contestant.name == name
        assert isinstance(model, Method)
        assert contestant.online == isinstance(model, OnlineMethod)
        assert contestant.kind in ("ours", "online", "batch", "plain")
        assert contestant.cost > 0
        assert getattr(model, "seed", 4) == 4, "the seed reaches the model"
        assert contestant.make(4) is not model
        if "ORLTM" in name:
            assert "reconstruction" in contestant.note
        if type(model).__name__ in ("StocRPCA", "OSTD", "OLRSC", "ORLTM", "TRPCA") and not contestant.zeros:
            assert "straight lines" in contestant.note
        threshold = getattr(model, "threshold", None)
        if threshold is not None and contestant.kind != "ours":
            assert threshold == (1.0 if where == "simulated" else 0.01)
    kinds = [contestant.kind for contestant in line_up(where).values()]
    assert set(kinds) == {"ours", "online", "batch", "plain"}


def test_the_rank_of_a_simulation_is_that_of_its_methods() -> None:
    for rank in (2, 7):
        for name, contestant in line_up("simulated", rank=rank).items():
            if contestant.kind == "online":
                assert contestant.make(0).rank == rank, name  # type: ignore[attr-defined]
    assert line_up("simulated")["OLRTR"].make(0).rank == 3  # type: ignore[attr-defined]


def test_the_methods_of_the_paper_are_in_the_line_up() -> None:
    assert {method for method, _ in NOAA} <= line_up("noaa").keys()
    assert set(AOT) - {"raw"} <= line_up("aot").keys()
    assert {setting for _, setting in NOAA} == {"100 %", "90 %"}


def test_three_passes_on_the_array_of_things_for_the_published_ones() -> None:
    for contestant in line_up("aot").values():
        assert contestant.passes == (3 if contestant.kind == "online" else 1)
    assert {name for name, one in line_up("noaa").items() if one.passes == 2} == {"OLRSC 2 epochs"}


@pytest.mark.parametrize("name", ["NetworkModel", "OLRTR", "GRASTA", "OLRSC"])
def test_one_pass_is_recover(name: str) -> None:
    contestant = line_up("aot")[name]
    walked = run_contestant(contestant, FEW, 3, passes=1)
    assert_same_recovery(walked, contestant.make(3).recover(SHORT))


def test_the_seed_matters() -> None:
    contestant = line_up("aot")["OLRTR"]
    one, other = (run_contestant(contestant, FEW, seed, passes=1) for seed in (3, 4))
    assert np.abs(one.expected - other.expected).max() > 0


def test_minibatches_of_several_periods_go_in_as_they_are() -> None:
    parts = [case.readings for case in paper_tensor(8, 2, minibatches=3, periods=4, seed=1)]
    contestant = line_up("simulated", rank=2)["OLRTR"]
    model = OLRTR(2, 3, threshold=1.0, seed=5)
    assert_same_recovery(
        run_contestant(contestant, parts, 5), Recovery.concatenate([model.update(part) for part in parts])
    )


def test_a_batch_method_sees_everything_at_once() -> None:
    contestant = line_up("aot")["TRPCA"]
    assert_same_recovery(run_contestant(contestant, FEW, 3), contestant.make(3).recover(SHORT))
    parts = [SHORT[..., :2], SHORT[..., 2:3], SHORT[..., 3:]]
    assert_same_recovery(run_contestant(contestant, parts, 3), contestant.make(3).recover(SHORT))
    assert_same_recovery(run_contestant(contestant, FEW, 3, passes=3), contestant.make(3).recover(SHORT))


@pytest.mark.parametrize("name", ["OLRTR", "OLRSC", "StocRPCA"])
def test_three_passes_go_forward_backward_and_forward(name: str) -> None:
    contestant = line_up("aot")[name]
    model = contestant.make(3)
    model.recover(SHORT)
    model.recover(SHORT[:, ::-1, ::-1])
    expected = model.recover(SHORT)
    assert_same_recovery(run_contestant(contestant, FEW, 3, passes=3), expected)
    if contestant.passes == 3:
        assert_same_recovery(run_contestant(contestant, FEW, 3), expected)


def test_ours_always_goes_forward() -> None:
    contestant = line_up("aot")["NetworkModel"]
    assert_same_recovery(run_contestant(contestant, FEW, 3, passes=3), contestant.make(3).recover(SHORT, passes=3))  # type: ignore[call-arg]


def test_two_passes_go_forward_twice() -> None:
    contestant = line_up("noaa")["OLRSC 2 epochs"]
    assert_same_recovery(run_contestant(contestant, FEW, 3), OLRSC(20, seed=3).recover(SHORT, passes=2))


def test_gaps_as_zero() -> None:
    zeros = [contestant for contestant in line_up("noaa").values() if contestant.zeros]
    assert zeros
    for contestant in zeros:
        expected = contestant.make(3).recover(np.nan_to_num(DAYS))
        assert_same_recovery(run_contestant(contestant, MINIBATCHES, 3), expected)
    assert np.isnan(MINIBATCHES[0]).any(), "what was handed in stays as it is"


def test_chosen_names_and_groups() -> None:
    assert chosen("NetworkModel", "noaa") == ["NetworkModel"]
    assert chosen("OLRTR", "faults") == ["OLRTR r20", "OLRTR r3"]
    assert chosen("OLRTR r3", "faults") == ["OLRTR r3"]
    assert set(chosen("OLRTR", "noaa")) == {"OLRTR r20", "OLRTR r3", "OLRTR r20 Jacobi", "OLRTR r3 Jacobi"}
    assert chosen("RTR", "noaa") == ["RTR", "RTR 0.75"]
    assert chosen(" RTR , NetworkModel,RTR", "aot") == ["RTR", "NetworkModel"]
    assert chosen("rolling median,buddy check", "aot") == ["rolling median", "buddy check"]


@pytest.mark.parametrize("where", LINE_UPS)
def test_all_is_everybody(where: str) -> None:
    assert chosen("all", where) == list(line_up(where))
    assert chosen("TRPCA,all", where)[0] == "TRPCA"
    assert len(chosen("TRPCA,all", where)) == len(line_up(where))


@pytest.mark.parametrize("names", ["", "nobody", "NetworkModel,", "olrtr", "RTR,nobody", "roll", "OLRT"])
def test_an_unknown_name_is_refused(names: str) -> None:
    with pytest.raises(ConfigError, match="no method") as caught:
        chosen(names, "noaa")
    assert "NetworkModel" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_line_up_of_that_name() -> None:
    with pytest.raises(ValueError, match="no line-up for 'nowhere'"):
        line_up("nowhere")


def test_a_contestant_of_ones_own() -> None:
    def model(seed: int) -> OLRTR:
        return OLRTR(2, alpha=3, seed=seed)

    make: Callable[[int], Method] = model
    assert_same_recovery(run_contestant(Contestant("mine", make, "online", 1.0), FEW, 2), model(2).recover(SHORT))
