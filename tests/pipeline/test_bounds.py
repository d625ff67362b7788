"""Estimates and corrections stay within what their variable has shown; nothing stops a run for a cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import hostile
from list_source import hourly, read_rows, run_service
from sensormend import NetworkModel, clean
from sensormend.cli import main
from sensormend.pipeline.bounds import JUDGED, YOUNG, AcceptedRange
from sensormend.pipeline.cleaner import Cleaner, InMemory, walk
from sensormend.pipeline.verdicts import Verdicts
from sensormend.readings import (
    CORRECTED,
    DAY,
    ESTIMATED,
    HOUR,
    NO_ORIGIN,
    NOTHING,
    OBSERVED,
    REASONS,
    Flag,
    Readings,
    Rows,
)
from sensormend.recovery import Recovery
from simulated_city import HOURLY, START, city_readings, small_city, tensor_readings, write_csv

Floats = NDArray[np.float64]

NETWORKS: dict[str, Callable[[int], Floats]] = {
    "city": lambda seed: small_city(12, 24, seed).readings,
    "city_archive": lambda seed: hostile.city_archive(14, seed),
    "copies": lambda seed: hostile.copies(24, seed),
    "coarse": lambda seed: hostile.coarse(20, seed),
    "zeros": lambda seed: hostile.zeros(24, seed),
    "seasons": lambda seed: hostile.seasons(120, seed),
    "heavy_tails": lambda seed: hostile.heavy_tails(24, seed),
    "barometers": lambda seed: hostile.barometers(16, seed),
    "motes": lambda seed: hostile.motes(24, seed),
    "one_sensor": lambda seed: hostile.one_sensor(40, seed),
}


def spoilt(truth: Floats, seed: int) -> Floats:
    """Return readings, (sensor, variable, slot, day), with gaps, days of silence, offsets, late joiners and spikes."""
    truth = truth[:, None] if truth.ndim == 3 else truth
    random, readings = np.random.default_rng(seed), truth.copy()
    sensors, days = truth.shape[0], truth.shape[3]
    readings[random.random(readings.shape) < 0.1] = np.nan
    spread = np.nanstd(truth, axis=(0, 2, 3))[:, None, None]
    for _ in range(-(-sensors // 5)):
        day = int(random.integers(4, days - 4))
        readings[random.integers(sensors), ..., day : day + 4] = np.nan
        readings[random.integers(sensors), ..., day:] += 6 * spread
        readings[random.integers(1, max(sensors, 2)) % sensors, ..., : day // 2] = np.nan
    wild = random.random(readings.shape) < 0.001
    readings[wild] *= 1000
    return readings


def days_of(tensor: Floats) -> list[Readings]:
    sensors, variables, _, days = tensor.shape
    names = tuple(f"s{number:02d}" for number in range(sensors))
    parts = []
    for day in range(days):
        sensor, variable, slot = np.nonzero(np.isfinite(tensor[..., day]))
        time = START + day * DAY + slot * HOUR
        value = tensor[sensor, variable, slot, day]
        parts.append(Readings(names, tuple(map(str, range(variables))), sensor, variable, time, value))
    return parts


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_no_result_lies_outside_the_accepted_readings(name: str, seed: int) -> None:
    """What was accepted is counted once more here, row by row; hardly anything is withheld."""
    tensor = spoilt(NETWORKS[name](seed), seed)
    cleaner, accepted = Cleaner(HOURLY, tuple(map(str, range(tensor.shape[1])))), dict[int, list[float]]()
    first = int(HOURLY.find_period(np.array([START]))[0])
    for day, readings in enumerate(days_of(tensor)):
        for hours in (1, 2, 3, 7, 15) if day < 8 else (7,):
            cleaner.peek(readings.taken(readings.time < START + day * DAY + hours * HOUR), first + day)
        for mended in cleaner.push(readings, first + day):
            check_inside(mended.rows, accepted)
    assert sum(cleaner.withheld.values()) < 30


def check_inside(rows: Rows, accepted: dict[int, list[float]]) -> None:
    """Check the rows of a period against all readings that were accepted, which are added to."""
    columns = (rows.variable, rows.value, rows.cleaned, rows.lower, rows.upper, rows.flag, rows.origin)
    table = list(zip(*(column.tolist() for column in columns), strict=True))
    for variable, value, _, _, _, flag, origin in table:
        if flag in (1, 2, 3) and origin == OBSERVED:
            low, high = accepted.get(variable, [value, value])
            accepted[variable] = [min(low, value), max(high, value)]
    for variable, value, cleaned, lower, upper, _, origin in table:
        low, high = accepted.get(variable, [-np.inf, np.inf])
        if origin == OBSERVED:
            assert cleaned == value
        elif origin == NO_ORIGIN:
            assert np.isnan([cleaned, lower, upper]).all()
        else:
            assert low <= lower <= cleaned <= upper <= high


def test_what_has_shown_one_value_or_hardly_anything_is_left_alone() -> None:
    """Constants, a variable that begins late, and one reading of a thousand times the usual size."""
    tensor = np.full((4, 2, 24, 12), 20.0)
    tensor[:, 1, :, :5] = np.nan
    tensor[:, 1, :, 5:] = 0.0
    tensor[0, :, 3:9] = np.nan
    tensor[1, 0, 5, 8] = 2e4
    cleaner, first = Cleaner(HOURLY, ("a", "b")), int(HOURLY.find_period(np.array([START]))[0])
    for day, readings in enumerate(days_of(tensor)):
        cleaner.peek(NOTHING, first + day)
        cleaner.push(
            Readings(readings.sensors, ("a", "b"), readings.sensor, readings.variable, readings.time, readings.value)
        )
    assert cleaner.period is not None


class Inventing(NetworkModel):
    """A model whose estimates from the twentieth period on are `by` too high; inf for one that knows none."""

    by, since = 1e7, 20

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        return self._invented(super().update(minibatch, sensors), np.asarray(minibatch))

    def estimate(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        return self._invented(super().estimate(minibatch, sensors), np.asarray(minibatch))

    def _invented(self, result: Recovery, readings: Floats) -> Recovery:
        if self.periods <= self.since:
            return result
        assert result.lower is not None
        assert result.upper is not None
        estimated = np.isnan(readings) | result.wrong
        cleaned, lower, upper = (
            np.where(estimated, values + self.by, values) for values in (result.cleaned, result.lower, result.upper)
        )
        return replace(result, cleaned=cleaned, lower=lower, upper=upper, expected=result.expected + self.by)


def with_a_gap(days: int = 24) -> Readings:
    """Return readings of which one sensor has none for some hours of the last day but one, and one is 9 too high."""
    tensor = small_city(8, 40).truth[..., :days].copy()
    tensor[2, 4:20, -2] = np.nan
    tensor[5, 6:, -2] += 9
    return tensor_readings(tensor)


@pytest.fixture(params=[1e7, -1e7, np.inf])
def inventing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every model be one that invents."""
    monkeypatch.setattr(Inventing, "by", request.param)
    for name in ("update", "estimate"):
        monkeypatch.setattr(NetworkModel, f"plain_{name}", getattr(NetworkModel, name), raising=False)
    monkeypatch.setattr(NetworkModel, "by", request.param, raising=False)
    monkeypatch.setattr(NetworkModel, "since", Inventing.since, raising=False)
    monkeypatch.setattr(NetworkModel, "_invented", Inventing._invented, raising=False)

    def patched(name: str) -> Callable[..., Recovery]:
        def call(self: Inventing, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
            return self._invented(getattr(self, f"plain_{name}")(minibatch, sensors), np.asarray(minibatch))

        return call

    for name in ("update", "estimate"):
        monkeypatch.setattr(NetworkModel, name, patched(name))


@pytest.mark.usefixtures("inventing")
def test_what_lies_far_outside_is_withheld_and_the_reading_stays_in_doubt() -> None:
    parts, cleaner = hourly(with_a_gap(), 24), Cleaner(HOURLY)
    for part in parts[:-2]:
        cleaner.push(part)
    assert cleaner.withheld == {}
    assert cleaner.period is not None
    period = cleaner.period + 1
    assert cleaner.peek(parts[-2], period).rows.origin.min() == NO_ORIGIN
    (mended,) = cleaner.push(parts[-2])
    rows, (low, high) = mended.rows, cleaner.find_limits("s05", "")
    gap = np.isnan(rows.value)
    assert gap.sum() == 16
    assert set(rows.flag[gap]) == {Flag.MISSING}
    assert set(rows.origin[gap]) == {NO_ORIGIN}
    for column in (rows.cleaned, rows.lower, rows.upper):
        assert np.isnan(column[gap]).all()
    off = (rows.sensor == rows.sensors.index("s05")) & (rows.time >= START + 22 * DAY + 6 * HOUR)
    inside = off & (rows.value >= low) & (rows.value <= high)
    assert inside.any()
    np.testing.assert_array_equal(rows.flag[off], np.where(inside[off], Flag.SUSPECT, Flag.FAIL))
    np.testing.assert_array_equal(rows.origin[off], np.where(inside[off], OBSERVED, NO_ORIGIN))
    np.testing.assert_array_equal(rows.cleaned[off], np.where(inside[off], rows.value[off], np.nan))
    assert (rows.reason[off] > 0).all()
    assert cleaner.withheld == {"": 16 + int(off.sum())}
    assert cleaner.remarks() == [f"estimates withheld, since they lay far outside all readings: {16 + int(off.sum())}"]
    for name, network in zip(rows.sensors, mended.network, strict=True):
        least, most = cleaner.find_limits(name, "")
        assert least <= np.nanmin(network) <= np.nanmax(network) <= most


@pytest.mark.usefixtures("inventing")
def test_clean_goes_on_and_says_what_it_withheld(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = write_csv(tmp_path / "readings.csv", with_a_gap()), tmp_path / "out"
    assert main(["clean", str(table), str(out), "--one-pass"]) == 0
    run = json.loads((out / "run.json").read_text())
    (count,) = run["withheld"].values()
    assert count > 16
    (note,) = [note for note in run["notes"] if "withheld" in note]
    assert " ".join(capsys.readouterr().out.split()).count(note) == 1
    rows = read_rows(out)
    assert np.nanmax(np.abs(rows.cleaned)) < 100
    # What reads an OUT can do with cells that have no value.
    assert main(["report", str(out)]) == 0
    capsys.readouterr()
    for sensor, hour in (("s02", 6), ("s05", 12)):
        assert main(["explain", str(out), sensor, f"2020-01-23T{hour:02d}:00"]) == 0
        paragraph = " ".join(capsys.readouterr().out.split())
        assert "it was withheld" in paragraph or "nothing surer is known" in paragraph


@pytest.mark.usefixtures("inventing")
def test_watch_goes_on_and_a_restart_changes_no_row(tmp_path: Path) -> None:
    parts = hourly(with_a_gap(), 24)
    run_service(tmp_path / "whole", parts)
    run_service(tmp_path / "broken", parts[:-2])
    run_service(tmp_path / "broken", parts)
    whole, broken = read_rows(tmp_path / "whole"), read_rows(tmp_path / "broken")
    for name in ("flag", "origin", "cleaned", "lower", "upper"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(broken, name))
    runs = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "broken")]
    assert runs[0]["withheld"] == runs[1]["withheld"] != {}
    assert runs[0]["notes"] == runs[1]["notes"]


def test_the_range_is_in_the_state(tmp_path: Path) -> None:
    parts, cleaner = hourly(with_a_gap(), 24), Cleaner(HOURLY)
    for part in parts[:-2]:
        cleaner.push(part)
    cleaner.save(tmp_path / "cleaner.npz")
    twin = Cleaner(HOURLY, model=cleaner.model.copy())
    twin.restore(tmp_path / "cleaner.npz")
    assert twin.limits == cleaner.limits
    for one in (cleaner, twin):
        (mended,) = one.push(parts[-2])
        assert np.isfinite(mended.rows.cleaned).all()
    assert twin.limits == cleaner.limits


def test_the_range_begins_with_what_the_model_has_learned_from() -> None:
    """The first day is much colder than the days that its gaps are estimated from."""
    tensor = small_city(8, 40).truth[..., :30].copy()
    tensor[..., 0] -= 30
    tensor[..., 1] += 30
    tensor[3, :, 0] = np.nan
    source, cleaner = InMemory(tensor_readings(tensor), HOURLY), Cleaner(HOURLY)
    mended = next(iter(walk(source, cleaner)))
    low, high = cleaner.limits[""]
    assert low < np.nanmin(tensor[..., 0]) + 2
    assert high > np.quantile(tensor[..., 2:], 0.95)
    assert np.isfinite(mended.rows.cleaned).all()


def cells_of(value: Floats, flag: int = Flag.GOOD) -> tuple[Floats, Verdicts]:
    """Return readings of one variable, (sensor, slot) or those of one sensor, that all have this flag."""
    value = np.atleast_2d(np.asarray(value, dtype=float))[:, None]
    codes = np.full(value.shape, flag, dtype=np.int8)
    return value, Verdicts(codes, 0 * codes, np.full_like(codes, OBSERVED), value, value, value)


def after(accepted: AcceptedRange, *days: Floats, flag: int = Flag.GOOD) -> AcceptedRange:
    """Return the range after days of readings."""
    for day in days:
        value, cells = cells_of(day, flag)
        accepted = accepted.extended(value, cells, np.arange(len(value)))
    return accepted


def ends(accepted: AcceptedRange, sensor: int = 0) -> tuple[float, float]:
    low, high = accepted.limits
    return float(low[sensor, 0]), float(high[sensor, 0])


USUAL = np.linspace(0, 10, 11)
"""The readings of a usual day."""


def usual(sensors: int = 1, days: int = YOUNG) -> AcceptedRange:
    return after(AcceptedRange.of(1), *[np.tile(USUAL, (sensors, 1))] * days)


def test_what_one_or_two_days_reached_moves_no_bound() -> None:
    assert ends(usual()) == (0.0, 10.0)
    garbage = np.full(11, 1e6)
    assert ends(after(usual(), garbage, garbage, USUAL)) == (0.0, 10.0)
    assert ends(after(usual(), garbage, garbage, USUAL, np.full(11, 12.0), USUAL)) == (0.0, 12.0)
    single = np.where(USUAL == 5, -1e6, USUAL)
    assert ends(after(usual(), single, single)) == (0.0, 10.0)
    assert ends(after(usual(), single, single, single)) == (-1e6, 10.0)


def test_a_young_channel_has_all_its_days() -> None:
    assert ends(after(usual(days=2), USUAL - 30, USUAL)) == (-30.0, 10.0)


def test_what_three_channels_show_at_once_is_no_freak() -> None:
    day = np.tile(USUAL, (5, 1))
    day[:2] -= 30
    assert ends(after(usual(5), day), 4) == (0.0, 10.0)
    day[2] -= 20
    assert ends(after(usual(5), day), 4) == (-20.0, 10.0)


def test_a_channel_that_varies_much_more_than_the_others_stretches_no_range() -> None:
    days = np.tile(USUAL, (8, 1))
    days[0] = 500 + USUAL / 2
    days[1] = np.linspace(-900, 900, 11)
    accepted = after(AcceptedRange.of(1), *[days] * YOUNG)
    low, high = accepted.variable_limits
    # The first channel is on a mountain; the second one varies too much to be believed.
    assert (low[0], high[0]) == (0.0, 505.0)
    for sensor in range(8):
        assert ends(accepted, sensor) == (0.0, 505.0)


def test_a_storm_that_a_few_gauges_saw_is_believed() -> None:
    rain = np.zeros((12, 24))
    rain[:, 3] = 9.0
    storm = rain.copy()
    storm[:3, 8] = 35.0
    accepted = after(AcceptedRange.of(1), *[rain] * YOUNG, storm)
    assert ends(accepted, 11) == (0.0, 35.0)


def test_a_sensor_that_joins_is_bounded_by_the_others() -> None:
    accepted = usual(3)
    value, cells = cells_of(np.full((1, 11), np.nan), Flag.MISSING)
    assert ends(accepted.extended(value, cells, np.array([5])), 5) == (0.0, 10.0)


def test_wrong_and_doubtful_readings_do_not_count_and_those_not_evaluated_only_before_others() -> None:
    far = [np.full(11, 11.0)] * 5
    for flag in (Flag.FAIL, Flag.MISSING, Flag.NOT_EVALUATED, Flag.SUSPECT):
        assert ends(after(usual(), *far, flag=flag)) == (0.0, 10.0)
    new = after(AcceptedRange.of(1), *[USUAL] * YOUNG, flag=Flag.NOT_EVALUATED)
    assert ends(new) == (0.0, 10.0)
    assert ends(new.for_second_pass()) == (-np.inf, np.inf)
    assert ends(usual().for_second_pass()) == (0.0, 10.0)


ONE = np.zeros(1, dtype=np.intp)


def test_a_few_readings_bound_by_all_of_them_and_withhold_nothing() -> None:
    accepted = after(AcceptedRange.of(1), np.array([3.0, 4.0]))
    estimate, cells = cells_of(np.array([900.0, 3.5]), Flag.MISSING)
    cells = replace(cells, origin=np.full_like(cells.origin, ESTIMATED))
    missing = np.full(estimate.shape, np.nan)
    bounded, counted = accepted.applied(cells, missing, np.isfinite(missing), np.ones((1, 1), bool), 7, ONE)
    assert bounded.cleaned.ravel().tolist() == [4.0, 3.5]
    assert (counted.needed.tolist(), counted.withheld.tolist()) == ([2], [0])


def test_an_estimate_clearly_outside_the_range_is_withheld_and_not_counted_before_it_is_a_range_away() -> None:
    estimate, cells = cells_of(np.array([10.4, 10.6, 21.1, 0.1, -0.4]), Flag.MISSING)
    cells = replace(cells, origin=np.full_like(cells.origin, ESTIMATED))
    missing = np.full(estimate.shape, np.nan)
    bounded, counted = usual().applied(cells, missing, np.isfinite(missing), np.ones((1, 1), bool), 7, ONE)
    np.testing.assert_array_equal(bounded.cleaned.ravel(), [10.0, np.nan, np.nan, 0.1, 0.0])
    assert (counted.needed.tolist(), counted.withheld.tolist()) == ([5], [1])


def test_of_few_channels_five_bad_days_in_three_years_widen_no_range() -> None:
    """The third most extreme day of any channel bounds the variable, but none of three goes as far after years."""
    long = usual(3, days=800)
    bad = np.stack([np.full(11, 14.0), USUAL, USUAL])
    assert ends(after(long, *[bad] * 5), 1) == (0.0, 10.0)
    assert ends(after(long, *[bad] * 9), 1) == (0.0, 14.0)
    assert ends(after(usual(3), *[bad] * 5), 1) == (0.0, 14.0)


def test_a_reading_at_the_bound_that_its_correction_would_cross_is_inside_in_doubt() -> None:
    low, high = ends(usual())
    value, cells = cells_of(np.array([low, low + 1, low - 1, high]), Flag.FAIL)
    cells = replace(cells, origin=np.full_like(cells.origin, CORRECTED), cleaned=value - 2.0, lower=value - 3.0)
    bounded, counted = usual().applied(cells, value, np.isfinite(value), np.ones((1, 1), bool), 7, ONE)
    assert bounded.cleaned.ravel() == pytest.approx([low, low, low, high - 2.0])
    assert bounded.flag.ravel().tolist() == [3, 4, 4, 4]
    assert bounded.origin.ravel().tolist() == [OBSERVED, CORRECTED, CORRECTED, CORRECTED]
    assert (counted.needed.tolist(), counted.withheld.tolist()) == ([4], [0])


def test_a_variable_most_of_whose_estimates_are_withheld_is_not_judged_any_more() -> None:
    """One of two variables has estimates that cannot be; the other one is judged as before."""
    tensor = np.stack([small_city(8, 40).truth, small_city(8, 40, 4).truth], axis=1)
    tensor[:3, :, ::2, 8:] = np.nan
    tensor[4, :, 12:, 38] += 30

    class HalfInventing(Inventing):
        def _invented(self, result: Recovery, readings: Floats) -> Recovery:
            invented = super()._invented(result, readings)
            columns: dict[str, Any] = {}
            for name in ("cleaned", "lower", "upper"):
                columns[name] = np.array(getattr(result, name))
                columns[name][:, 0] = getattr(invented, name)[:, 0]
            return replace(result, **columns)

    cleaner = Cleaner(HOURLY, ("0", "1"), model=HalfInventing(fiber_axis=2))
    cleaner.model.since = 8  # type: ignore[attr-defined]
    flags = []
    for readings in days_of(tensor):
        (mended,) = cleaner.push(readings)
        present = np.isfinite(mended.rows.value)
        first = mended.rows.variable == 0
        flags.append(
            (set(mended.rows.flag[first & present].tolist()), set(mended.rows.flag[~first & present].tolist()))
        )
        if flags[-1][0] == {Flag.NOT_EVALUATED} and len(flags) > 10:
            own = first & present
            np.testing.assert_array_equal(mended.rows.cleaned[own], mended.rows.value[own])
            assert np.isnan(mended.rows.cleaned[first & ~present]).all()
            assert not any(fault.variable == 0 for fault in mended.faults)
    assert flags[10] == ({1}, {1})
    assert flags[38][0] == {Flag.NOT_EVALUATED}
    assert Flag.FAIL in flags[38][1]
    assert set(cleaner.withheld) == {"0"}
    assert cleaner.withheld["0"] >= 1000
    assert len(cleaner.remarks()) == 2
    assert cleaner.remarks()[1].startswith("0 is not judged from 2020-0")
    assert cleaner._accepted.unjudged_from[1] == JUDGED


def test_a_frame_is_cleaned_as_before() -> None:
    import polars

    readings = city_readings(8, 12)
    frame = polars.DataFrame({
        "sensor": [readings.sensors[code] for code in readings.sensor.tolist()],
        "time": readings.time.astype("datetime64[us]"),
        "value": readings.value,
    })  # fmt: skip
    assert clean(frame).data["cleaned"].is_finite().all()


def test_a_silent_day_of_variables_that_have_names_is_made_up_for() -> None:
    tensor = hostile.one_sensor(9)[:, None]
    tensor[..., 4:7] = np.nan
    parts = [part for part in days_of(tensor) if len(part)]
    cleaner = Cleaner(HOURLY, ("temp",))
    count = [len(cleaner.push(Readings(part.sensors, ("temp",), part.sensor, part.variable, part.time, part.value)))
             for part in parts]  # fmt: skip
    assert count == [1, 1, 1, 1, 4, 1]


def ranges_of(periods: list[Floats]) -> tuple[AcceptedRange, list[NDArray[np.bool_]]]:
    """Return the range after periods of one variable, (sensor, slot), and which of their readings are impossible."""
    accepted, masks = AcceptedRange.of(1), []
    for period in periods:
        value = period[:, None, :]
        sensors = np.arange(len(value))
        outside = accepted.impossible(value, sensors)
        masks.append(outside[:, 0])
        flag = np.where(np.isnan(value), Flag.MISSING, np.where(outside, Flag.FAIL, Flag.GOOD)).astype(np.int8)
        origin = np.where(flag == Flag.GOOD, OBSERVED, NO_ORIGIN).astype(np.int8)
        cells = Verdicts(flag, np.zeros_like(flag), origin, value, value, value)
        accepted = accepted.extended(value, cells, sensors)
    return accepted, masks


def days_like(sensors: int, days: int) -> list[Floats]:
    """Return days of readings between about 10 and 20."""
    random = np.random.default_rng(3)
    course = 15 + 4 * np.sin(np.arange(24) / 24 * 2 * np.pi)
    return [course + random.normal(0, 0.5, (sensors, 24)) for _ in range(days)]


def test_what_lies_far_outside_of_all_that_many_channels_showed_is_impossible() -> None:
    days = days_like(10, 40)
    days[35][4, 6:9] = 60.0
    days[35][5, 6:9] = 22.0
    days[5][4, 6:9] = 60.0
    _, masks = ranges_of(days)
    expected = np.zeros((10, 24), dtype=bool)
    expected[4, 6:9] = True
    np.testing.assert_array_equal(masks[35], expected)
    assert not any(mask.any() for number, mask in enumerate(masks) if number != 35)


def test_a_thunderstorm_is_possible_before_many_wet_days_were_seen() -> None:
    """Ten gauges, every fifth day of a half-year wet at all of them."""
    random = np.random.default_rng(5)
    days = [np.zeros((10, 24)) for _ in range(180)]
    for day in days[::5]:
        day[:, 8:12] = random.exponential(1.0, (10, 4)).round(1)
    days[102][3, 14] = 60.0
    days[177][3, 14] = 600.0
    _, masks = ranges_of(days)
    assert [number for number, mask in enumerate(masks) if mask.any()] == [177]


@pytest.mark.parametrize(
    ("estimate", "low", "high", "is_withheld"),
    [
        pytest.param(19.9, 10.0, 40.0, True, id="vague, and cut at the end"),
        pytest.param(17.0, 10.0, 40.0, False, id="vague, and not cut"),
        pytest.param(19.9, 18.0, 40.0, False, id="cut, and not vague"),
        pytest.param(12.0, 4.0, 40.0, True, id="nearly anything"),
    ],
)
def test_an_estimate_that_says_little_is_withheld(estimate: float, low: float, high: float, is_withheld: bool) -> None:
    day = np.tile(np.linspace(0.0, 20.0, 24), (8, 1))
    accepted = after(AcceptedRange.of(1), *(day + 0.01 * number for number in range(4 * YOUNG)))
    assert 20.0 < ends(accepted)[1] < 20.5
    value, cells = cells_of(np.full((1, 24), np.nan), Flag.MISSING)
    cells = replace(cells, origin=np.full_like(cells.origin, ESTIMATED), cleaned=np.full(value.shape, estimate),
                    lower=np.full(value.shape, low), upper=np.full(value.shape, high))  # fmt: skip
    listed = np.ones((1, 1), np.bool_)
    result, _ = accepted.applied(cells, value, np.zeros(value.shape, np.bool_), listed, 99, np.zeros(1, np.intp))
    assert np.isnan(result.cleaned).all() == is_withheld


@pytest.mark.parametrize(("correction", "is_corrected"), [(32.0, True), (36.0, False)])
def test_a_reading_above_what_most_channels_show_is_not_corrected_upwards(
    correction: float, is_corrected: bool
) -> None:
    """Five channels are between 0 and 20, and three have shown up to 38."""
    day = np.tile(np.linspace(0.0, 20.0, 24), (8, 1))
    day[5:, -8:] = np.linspace(22.0, 38.0, 8)
    accepted = after(AcceptedRange.of(1), *(day + 0.01 * number for number in range(4 * YOUNG)))
    value, cells = cells_of(np.full((1, 24), 34.0), Flag.FAIL)
    cells = replace(cells, origin=np.full_like(cells.origin, CORRECTED), cleaned=np.full(value.shape, correction),
                    lower=np.full(value.shape, correction - 1), upper=np.full(value.shape, correction + 1))  # fmt: skip
    listed = np.ones((1, 1), np.bool_)
    result, _ = accepted.applied(cells, value, np.ones(value.shape, np.bool_), listed, 99, np.full(1, 7))
    assert (result.origin == CORRECTED).all() == is_corrected
    assert (result.flag == (Flag.FAIL if is_corrected else Flag.SUSPECT)).all()


def test_gauges_of_brooks_and_of_rivers_have_their_own_ranges() -> None:
    random = np.random.default_rng(0)
    flow = np.exp(np.cumsum(random.normal(0, 0.3, 24 * 60)) * 0.1).reshape(60, 24).T
    scale = np.geomspace(1, 1000, 24)
    tensor = flow * scale[:, None, None] * np.exp(random.normal(0, 0.02, (24, 24, 60)))
    tensor[:, :, 55:] *= np.linspace(3, 6, 24)[:, None, None]
    cleaner = Cleaner(HOURLY, ("discharge",))
    flags, raw, made = [], 0.0, 0.0
    for readings in days_of(tensor[:, None]):
        (period,) = cleaner.push(Readings(readings.sensors, ("discharge",), *_columns(readings)))
        flags.append(period.rows.reason[period.rows.flag == Flag.FAIL])
        raw, made = raw + np.nansum(period.rows.value), made + np.nansum(period.rows.cleaned)
    assert not (np.concatenate(flags) == REASONS.index("implausible")).any()
    assert made == pytest.approx(raw, rel=0.05)


def _columns(readings: Readings) -> tuple[Any, ...]:
    return readings.sensor, readings.variable, readings.time, readings.value
