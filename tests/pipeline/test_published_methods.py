"""The published methods on archives and live feeds: what they flag, how they resume, and what they refuse."""

from __future__ import annotations

import random
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from list_source import assert_same_rows, by_time, hourly, read_rows, run_service
from sensormend import OLRTR, clean
from sensormend.archive.cleaning import clean_archive
from sensormend.cli import main
from sensormend.errors import ConfigError, StateError
from sensormend.explain.paragraph import explain
from sensormend.files import read_state, write_state
from sensormend.methods import BATCH, ONLINE, method_class
from sensormend.pipeline.options import Options
from sensormend.pipeline.published import COLD_START, BatchModel, PublishedModel, _alpha, method_sentence
from sensormend.readings import Readings
from sensormend.recovery import FloatArray
from sensormend.report.document import write_report
from sensormend.stream.settings import Settings
from sensormend.views.fault_list import fault_page
from sensormend.views.reader import OutReader
from simulated_city import tensor_readings, write_csv
from watch_process import GRID, WatchProcess

SENSORS, DAYS, FAULT = 8, 30, (5, 20)


@lru_cache
def network(scale: float = 1.0) -> FloatArray:
    """Return (sensor, slot, day) of low rank with gaps, and one fiber that is noise."""
    generator = np.random.default_rng(0)
    cycle = 20 + 5 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    readings = cycle[:, None] * generator.uniform(0.9, 1.1, (SENSORS, 1, DAYS))
    readings[FAULT[0], :, FAULT[1]] = generator.uniform(0, 90, 24)
    readings[generator.random(readings.shape) < 0.05] = np.nan
    return scale * readings


def frame_of(tensor: FloatArray) -> polars.DataFrame:
    readings = tensor_readings(tensor)
    times = readings.time.astype("datetime64[us]")
    names = np.array(readings.sensors)[readings.sensor]
    return polars.DataFrame({"sensor": names, "time": times, "value": readings.value})


def on_grid(rows: polars.DataFrame, column: str) -> Any:
    return rows[column].to_numpy().reshape(SENSORS, DAYS, 24).transpose(0, 2, 1)


def test_the_rows_are_those_of_the_class() -> None:
    rows = clean(frame_of(network()), method="olrtr", rank=2, alpha=50).data
    # The threshold of |E| follows from the readings here; that of the class is 0.01, and both are far below the fault.
    expected = OLRTR(rank=2, alpha=50, seed=0).recover(network())
    judged = np.arange(DAYS) >= COLD_START
    observed = np.isfinite(network())
    flag, cleaned = on_grid(rows, "flag"), on_grid(rows, "cleaned")
    assert (flag[observed & ~judged] == 2).all()
    assert np.isnan(cleaned[~observed & ~judged]).all(), "no estimates before the method is warm"
    faulty = np.broadcast_to(expected.faulty[:, None], flag.shape)
    assert (flag[observed & judged] == np.where(faulty, 4, 1)[observed & judged]).all()
    assert (flag[FAULT[0], :, FAULT[1]] != 1).all()
    filled = judged & (~observed | faulty)
    # Nothing is estimated before the first reading of a channel or after its last one.
    times = observed.transpose(0, 2, 1).reshape(len(observed), -1)
    within = np.logical_or.accumulate(times, axis=1) & np.logical_or.accumulate(times[:, ::-1], axis=1)[:, ::-1]
    within = within.reshape(len(observed), DAYS, -1).transpose(0, 2, 1)
    assert np.isnan(cleaned[~within]).all()
    filled &= within
    # Estimates are the low-rank part, bounded by the readings of the channel that were accepted.
    estimate, ours = expected.expected[filled], cleaned[filled]
    same = np.isclose(ours, estimate, rtol=1e-12, atol=0)
    assert same.mean() > 0.8
    assert (np.abs(ours - 20) <= np.abs(estimate - 20) + 1e-9)[~same].all()
    np.testing.assert_array_equal(cleaned[observed & ~(faulty & judged)], network()[observed & ~(faulty & judged)])
    wrong = rows.filter(polars.col("flag") == 4)
    assert set(wrong["reason"]) == {"outlier"}
    assert set(wrong["origin"]) == {"estimated"}
    assert wrong["lower"].is_nan().all(), "the method has no intervals"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_defaults_follow_the_readings(scale: float) -> None:
    result = clean(frame_of(network(scale)), method="olrtr")
    rows, faults = result.data, result.faults
    assert {FAULT} == set(map(tuple, np.argwhere((on_grid(rows, "flag") == 4).any(axis=1)).tolist()))
    assert faults.filter(polars.col("reason") == "outlier")["sensor"].to_list() == ["s05"]


def test_the_defaults_are_near_those_of_the_authors() -> None:
    # The root mean squares of the NOAA temperatures and of the Array of Things, as the model measures them.
    assert _alpha((37, 24), 14.86) == pytest.approx(330, rel=0.1)
    assert _alpha((52, 24), 17.94) == pytest.approx(370, rel=0.1)


@pytest.mark.parametrize("name", [*ONLINE, *BATCH])
def test_every_method_runs(name: str) -> None:
    result = clean(frame_of(network()), method=name)
    rows, faults, sensors = result.data, result.faults, result.sensors
    assert len(rows) == SENSORS * DAYS * 24
    flag = on_grid(rows, "flag")
    assert set(flag[FAULT[0], :, FAULT[1]].tolist()) == {4, 9}
    assert set(rows["reason"]) <= {"", "outlier"}
    assert len(sensors) == SENSORS
    assert len(faults) >= 1
    np.testing.assert_array_equal(on_grid(rows, "value"), network())


def test_more_passes_judge_the_first_days_too() -> None:
    once, twice = (clean(frame_of(network()), method="olrtr", passes=passes).data for passes in (1, 2))
    assert (on_grid(once, "flag")[..., 0] == 2).any()
    assert not (on_grid(twice, "flag") == 2).any()


def minibatches() -> list[FloatArray]:
    return [network()[:, None, :, day] for day in range(DAYS)]


@pytest.mark.parametrize("name", ONLINE)
def test_it_continues_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    labels = [f"s{number}" for number in range(SENSORS)]
    model = PublishedModel(name, 1, rank=2)
    for day in minibatches()[:15]:
        model.update(day, labels)
    model.save(tmp_path / "model.npz")
    other = PublishedModel.load(tmp_path / "model.npz")
    for number, day in enumerate(minibatches()[15:20]):
        peek = model.estimate(day[::-1], labels[::-1])
        one, two = model.update(day, labels), other.update(day, labels)
        np.testing.assert_array_equal(one.expected, two.expected)
        np.testing.assert_array_equal(one.faulty, two.faulty)
        np.testing.assert_array_equal(peek.expected[::-1], one.expected)
        assert model.periods == other.periods == 16 + number


@pytest.mark.parametrize("name", ONLINE)
def test_sensors_may_join_and_leave(name: str) -> None:
    model = PublishedModel(name, 1, rank=2)
    for number, day in enumerate(minibatches()):
        here = [row for row in range(SENSORS) if (row != 6 or number >= 5) and (row != 0 or number < 25)]
        recovery = model.update(day[here], [f"s{row}" for row in here])
        assert recovery.wrong.shape == day[here].shape
        late = here.index(6) if 6 in here else None
        if late is not None:
            assert recovery.evaluated[late, 0] == (number >= 5 + COLD_START)
        if number >= COLD_START:
            assert np.isfinite(recovery.cleaned[0]).all()
    assert len(model.sensors) == SENSORS
    assert model.diverged == 0


def test_a_sensor_that_joins_leaves_the_others_as_they_are() -> None:
    """A method has learned of seven sensors; the eighth has no reading yet: nothing changes for the seven."""
    method = OLRTR(2, 50, seed=0)
    for day in range(12):
        method.update(network()[:7, :, day])
    before = method.dictionaries
    method.add_sensors(1)
    after = method.dictionaries
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(after[0][:7], before[0])
    np.testing.assert_array_equal(after[1], before[1])
    assert after[0].shape == (8, 2)


def test_a_period_without_readings_has_no_estimates() -> None:
    model = PublishedModel("olrtr", 1, rank=2)
    for day in minibatches()[:15]:
        model.update(day)
    recovery = model.update(np.full((SENSORS, 1, 24), np.nan))
    assert np.isnan(recovery.cleaned).all(), "nor one of 0"


def test_a_period_that_diverges_is_not_judged(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    model = PublishedModel("olrtr", 1, rank=20, alpha=70)
    model.update(15 + generator.normal(size=(37, 1, 24)))
    model.save(tmp_path / "model.npz")
    # The sweep of the authors' code, which diverges at this rank.
    settings, arrays = read_state(tmp_path / "model.npz", method="PublishedModel", version=1)
    settings["methods"][0]["settings"]["dictionary_update"] = "jacobi"
    write_state(tmp_path / "model.npz", method="PublishedModel", version=1, settings=settings, arrays=arrays)
    model = PublishedModel.load(tmp_path / "model.npz")
    for _ in range(60):
        recovery = model.update(15 + generator.normal(size=(37, 1, 24)))
    assert model.diverged
    assert model.periods == 61
    assert not recovery.evaluated.any()
    assert "diverged" in model.remarks([""])[0]


def test_variables_have_methods_of_their_own() -> None:
    temperature = minibatches()
    both = PublishedModel("olrtr", 2, rank=2)
    alone = PublishedModel("olrtr", 1, rank=2)
    for day in temperature:
        joined = both.update(np.concatenate([day, 1e5 + 50 * day], axis=1))
        single = alone.update(day)
    np.testing.assert_array_equal(joined.expected[:, 0], single.expected[:, 0])


def archive_options(**more: Any) -> Options:
    return Options.of(step="1h", period="1d", **more)


@pytest.mark.parametrize(("name", "more"), [("olrtr", {}), ("olrtr", {"passes": 2}), ("rtr", {})])
def test_an_archive_is_the_same_as_a_frame_and_as_a_resumed_run(
    name: str, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "readings.csv", tensor_readings(network()))
    options = archive_options(method=name, **more)
    report = clean_archive(path, tmp_path / "whole", options)
    assert any(note.startswith(f"method {name}") for note in report.notes)
    frame = clean(frame_of(network()), method=name, step="1h", period="1d", **more).data
    rows = read_rows(tmp_path / "whole")
    flag = rows.flag[np.lexsort((rows.time, rows.sensor))]
    np.testing.assert_array_equal(flag, frame["flag"].to_numpy())
    # Stopped after each of the first 20 periods that are written, and resumed.
    from sensormend.archive import cleaning
    from sensormend.io import writing

    monkeypatch.setattr(cleaning, "CHECKPOINT", 0.0)
    write, count = writing.RowSpool.write, iter(range(1, 1000))

    def stopping(self: Any, *arguments: Any) -> Any:
        if next(count) % 7 == 0:
            raise KeyboardInterrupt
        return write(self, *arguments)

    monkeypatch.setattr(writing.RowSpool, "write", stopping)
    for attempt in range(30):
        try:
            clean_archive(path, tmp_path / "resumed", options, resume=attempt > 0)
            break
        except KeyboardInterrupt:
            continue
    assert attempt > 2
    assert_same_rows(read_rows(tmp_path / "resumed"), rows)


def test_page_report_and_explanation_know_the_reason(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "readings.csv", tensor_readings(network()))
    clean_archive(path, tmp_path / "out", archive_options(method="olrtr"))
    text = explain(tmp_path / "out", "s05", "2020-01-21T12:00", None)
    assert "flag 4 (fail, outlier)" in text
    assert "knows no kinds" in text
    assert "outlier" in write_report(tmp_path / "out").read_text(encoding="utf-8")
    with OutReader(tmp_path / "out") as reader:
        assert fault_page(reader).reasons == {"outlier": 1}


def live_parts() -> list[Readings]:
    return hourly(by_time(tensor_readings(network())))


def test_live_rows_are_those_of_the_archive(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "readings.csv", tensor_readings(network()))
    clean_archive(path, tmp_path / "archive", archive_options(method="olrtr", one_pass=True))
    run_service(tmp_path / "live", live_parts(), method="olrtr")
    assert_same_rows(read_rows(tmp_path / "live"), read_rows(tmp_path / "archive"))


@pytest.mark.processes
def test_killed_and_resumed(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "readings.csv", tensor_readings(network()))
    clean_archive(path, tmp_path / "archive", archive_options(method="olrtr", one_pass=True))
    words = (f"replay:{path}", tmp_path / "live", *GRID, "--method", "olrtr")
    chance = random.Random(5)
    for _ in range(6):
        with WatchProcess(*words, "--speed", str(DAYS * 86400 / 8), checkpoint=0.1) as service:
            time.sleep(chance.uniform(1.5, 4.0))
            service.kill()
    with WatchProcess(*words, checkpoint=0.1) as service:
        assert service.wait() == 0, service.lines
        assert service.lines_with("method olrtr: rank 3")
    assert_same_rows(read_rows(tmp_path / "live"), read_rows(tmp_path / "archive"))


def test_another_method_needs_another_out(tmp_path: Path) -> None:
    run_service(tmp_path / "out", live_parts()[:200], method="olrtr")
    for more in ({}, {"method": "ostd"}, {"method": "olrtr", "rank": 2}, {"method": "olrtr", "alpha": 9.0}):
        with pytest.raises(ConfigError, match="needs another OUT"):
            run_service(tmp_path / "out", live_parts()[:200], **more)
    run_service(tmp_path / "out", live_parts(), method="olrtr")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "pca"}, "method is network, olrtr, "),
        ({"rank": 3}, "rank is a setting of online methods"),
        ({"method": "rtr", "rank": 3}, "rank is a setting of online methods"),
        ({"method": "trpca", "passes": 2}, "passes is a setting of online methods"),
        ({"method": "ostd", "alpha": 3.0}, "alpha is a setting of olrtr"),
        ({"method": "rtr", "one_pass": True}, "one_pass sees every period once"),
        ({"method": "olrtr", "one_pass": True, "passes": 2}, "one_pass sees every period once"),
    ],
)
def test_settings_that_a_method_does_not_have(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Options.of(**given)


@pytest.mark.parametrize("given", [{"method": "rtr"}, {"method": "olrtr", "passes": 2}])
def test_watch_meets_every_period_once(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="are for clean"):
        Settings.of(source="-", out=tmp_path / "out", **given)


def test_the_command_line_has_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "readings.csv", tensor_readings(network()))
    words = [
        "clean",
        str(path),
        str(tmp_path / "out"),
        "--method",
        "olrtr",
        "--rank",
        "2",
        "--alpha",
        "50",
        "--passes",
        "2",
    ]
    assert main(words) == 0
    assert "method olrtr: rank 2, alpha 50, 2 passes" in capsys.readouterr().out.replace("\n", " ")
    assert method_sentence(Options()) == ""
    assert method_sentence(Options.of(method="grasta")) == "method grasta: rank 5"


def test_broken_states_are_refused(tmp_path: Path) -> None:
    model = PublishedModel("olrtr", 1)
    model.update(minibatches()[0])
    model.save(tmp_path / "model.npz")
    settings, arrays = read_state(tmp_path / "model.npz", method="PublishedModel", version=1)
    for broken in ({"seen": arrays["seen"][:3]}, {"0_L0": arrays["0_L0"][:3]}):
        parts = {**arrays, **broken}
        write_state(tmp_path / "broken.npz", method="PublishedModel", version=1, settings=settings, arrays=parts)
        with pytest.raises(StateError, match="not a whole state"):
            PublishedModel.load(tmp_path / "broken.npz")
    with pytest.raises(StateError, match="holds the state of"):
        BatchModel.load(tmp_path / "model.npz")


def test_names_are_those_of_the_classes() -> None:
    assert [method_class(name).__name__.lower() for name in (*ONLINE, *BATCH)] == [*ONLINE, *BATCH]
