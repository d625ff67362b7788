"""The stream of readings: who gets rows, and what is said in them."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from sensormend import NetworkModel
from sensormend.archive.frames import make_columns
from sensormend.errors import ConfigError, InputError, StateError
from sensormend.pipeline.cleaner import Cleaner, InMemory, walk
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.readings import COLUMNS, DAY, HOUR, ORIGINS, REASONS, Flag, Readings, Rows
from sensormend.recovery import Recovery
from simulated_city import HOURLY, START, all_rows, city_readings, mend, small_city, tensor_readings, with_value

FIRST = int(HOURLY.find_period(np.array([START]))[0])


def cell(rows: Rows, sensor: str, day: int, hour: int) -> dict[str, object]:
    """One row, as a person reads it."""
    matching = np.flatnonzero(
        (rows.sensor == rows.sensors.index(sensor)) & (rows.time == START + day * DAY + hour * HOUR)
    )
    assert matching.size == 1
    columns: dict[str, object] = {name: getattr(rows, name)[matching[0]].item() for name in COLUMNS}
    return columns | {"reason": REASONS[int(rows.reason[matching[0]])]}


def with_more(readings: Readings, sensor: int, time: int, value: float) -> Readings:
    """The same with one more reading at the end."""
    return Readings(
        readings.sensors,
        readings.variables,
        np.append(readings.sensor, sensor),
        np.append(readings.variable, 0),
        np.append(readings.time, time),
        np.append(readings.value, value),
    )


def fault_free(days: int = 12) -> Readings:
    from networks import fault_free as network

    return tensor_readings(network(8, 90)[..., :days])


def test_rows_say_what_the_model_says() -> None:
    network = small_city()
    model, rows, shown = NetworkModel(fiber_axis=2), all_rows(city_readings()), np.zeros(0)
    names = [f"s{number:02d}" for number in range(8)]
    for day in range(network.readings.shape[2]):
        reporting = np.flatnonzero(np.isfinite(network.readings[..., : day + 1]).any(axis=(1, 2)))
        minibatch = network.readings[reporting][:, None, :, day]
        recovery = model.update(minibatch, sensors=[names[row] for row in reporting])
        today = (rows.time >= START + day * DAY) & (rows.time < START + (day + 1) * DAY)
        order = np.lexsort((rows.time[today], np.array(rows.sensors, dtype=object)[rows.sensor[today]]))
        flag = rows.flag[today][order].reshape(minibatch.shape)
        present = np.isfinite(minibatch)
        wrong, doubtful = recovery.wrong, recovery.doubtful
        shown = np.concatenate([shown, minibatch[present & ~wrong]])
        for name in ("cleaned", "lower", "upper"):
            given, written = getattr(recovery, name).ravel(), getattr(rows, name)[today][order]
            # Bounds, of which tests/pipeline/test_bounds.py has the values, leave all but single estimates as they are.
            bounded = given != written
            assert not (bounded & (present & ~wrong & ~doubtful).ravel()).any()
            assert bounded.sum() <= 0.05 * given.size
            assert shown.min() <= np.nanmin(written) <= np.nanmax(written) <= shown.max()
        # A correction that would move a reading out of what the variable can be makes it doubtful.
        returned = wrong & (flag == Flag.SUSPECT)
        assert returned.sum() <= 2
        wrong, doubtful = wrong & ~returned, doubtful | returned
        np.testing.assert_array_equal(flag == Flag.FAIL, wrong)
        np.testing.assert_array_equal(flag == Flag.SUSPECT, doubtful)
        np.testing.assert_array_equal(flag == Flag.MISSING, ~present)
        np.testing.assert_array_equal(
            flag == Flag.NOT_EVALUATED, present & ~recovery.evaluated[..., None] & ~wrong & ~doubtful
        )
        origin = rows.origin[today][order].reshape(minibatch.shape)
        np.testing.assert_array_equal(origin == 1, present & ~wrong)


class Correcting(NetworkModel):
    """A model that takes 6 out of every wrong reading, and is sure of that to 0.5."""

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        return self._corrected(super().update(minibatch, sensors), np.asarray(minibatch))

    def estimate(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        return self._corrected(super().estimate(minibatch, sensors), np.asarray(minibatch))

    def _corrected(self, result: Recovery, readings: NDArray[np.float64]) -> Recovery:
        assert result.lower is not None
        assert result.upper is not None
        corrected = result.wrong & ~result.spikes
        cleaned, lower, upper = (
            np.where(corrected, readings - 6.0 + reach, values)
            for values, reach in ((result.cleaned, 0.0), (result.lower, -0.5), (result.upper, 0.5))
        )
        return replace(result, corrected=corrected, cleaned=cleaned, lower=lower, upper=upper)


@pytest.mark.parametrize("per_reading", [False, True])
def test_corrections_come_out_in_rows_final_and_provisional(per_reading: bool) -> None:
    readings = fault_free(days=14)
    off = (readings.sensor == 3) & (readings.time >= START + 12 * DAY + 5 * HOUR)
    readings = replace(readings, value=readings.value + np.where(off, 6.0, 0.0))
    cleaner = Cleaner(HOURLY, model=Correcting(fiber_axis=2), per_reading=per_reading)
    source = InMemory(readings, HOURLY)
    for period in source.periods[:12]:
        cleaner.push(source.read(period))
    peek = cleaner.peek(source.read(source.periods[12]), int(source.periods[12]))
    (final,) = cleaner.push(source.read(source.periods[12]))
    for mended in (peek, final):
        rows = mended.output
        corrected = rows.origin == ORIGINS.index("corrected")
        expected = (rows.sensor == rows.sensors.index("s03")) & (rows.time >= START + 12 * DAY + 5 * HOUR)
        np.testing.assert_array_equal(corrected, expected)
        assert set(rows.flag[corrected]) == {Flag.FAIL}
        np.testing.assert_array_equal(rows.cleaned[corrected], rows.value[corrected] - 6.0)
        np.testing.assert_allclose(rows.upper[corrected] - rows.lower[corrected], 1.0)
    assert set(make_columns(final.output)["origin"]) == {"observed", "corrected"}


def test_a_killed_cleaner_goes_on_where_it_was(tmp_path: Path) -> None:
    readings = city_readings()
    whole = [mended.rows for mended in mend(readings, Cleaner(HOURLY))]
    source = InMemory(readings, HOURLY)
    first = Cleaner(HOURLY)
    for period in source.periods[:17]:
        first.push(source.read(period))
    first.save(tmp_path / "cleaner.npz")
    first.model.save(tmp_path / "model.npz")
    second = Cleaner(HOURLY, model=NetworkModel.load(tmp_path / "model.npz"))
    second.restore(tmp_path / "cleaner.npz")
    for rows, period in zip(whole[17:], source.periods[17:], strict=True):
        (mended,) = second.push(source.read(period))
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(mended.rows, name), getattr(rows, name))
    with pytest.raises(StateError, match="another grid"):
        Cleaner(HOURLY, ("temp",)).restore(tmp_path / "cleaner.npz")


def test_the_order_of_a_period_s_readings_does_not_matter() -> None:
    readings = city_readings(days=12)
    mixed = readings.taken(np.random.default_rng(0).permutation(len(readings)))
    one, other = all_rows(readings), all_rows(mixed)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_sensor_has_rows_from_its_first_period_until_it_is_gone() -> None:
    readings = fault_free(30)
    sensor, day = readings.sensor, (readings.time - START) // DAY
    rows = all_rows(readings.taken((sensor != 2) | ((day >= 4) & (day < 9))), Cleaner(HOURLY, gone_after=10 * DAY))
    chosen = rows.sensor == rows.sensors.index("s02")
    days = np.unique((rows.time[chosen] - START) // DAY)
    assert days.tolist() == list(range(4, 19))
    silent = chosen & (rows.time >= START + 9 * DAY)
    assert set(rows.flag[silent]) == {Flag.MISSING}
    assert {REASONS[code] for code in rows.reason[silent]} == {"silent"}
    assert set(rows.origin[silent]) == {2}
    young = chosen & (rows.time < START + 9 * DAY)
    assert set(rows.flag[young]) == {Flag.NOT_EVALUATED}


def test_periods_in_which_nothing_came_have_rows_and_a_long_silence_is_skipped() -> None:
    readings = fault_free(14)
    cleaner = Cleaner(HOURLY, gone_after=5 * DAY)
    source = InMemory(readings, HOURLY)
    for period in source.periods[:10]:
        cleaner.push(source.read(period))
    later = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable,
                     readings.time + 4 * DAY, readings.value)  # fmt: skip
    mended = cleaner.push(InMemory(later, HOURLY).read(source.periods[10] + 4))
    assert [entry.period - source.periods[0] for entry in mended] == [10, 11, 12, 13, 14]
    assert [len(entry.rows) for entry in mended] == [8 * 24] * 5
    far = Readings(readings.sensors, readings.variables, readings.sensor, readings.variable,
                   readings.time + 3000 * DAY, readings.value)  # fmt: skip
    mended = cleaner.push(InMemory(far, HOURLY).read(source.periods[10] + 3000))
    assert len(mended) == 6
    assert sum(len(entry.rows) > 0 for entry in mended) == 6


def test_fill_values_and_repeated_readings() -> None:
    time = START + 9 * DAY + 5 * HOUR
    readings = with_value(fault_free(), 3, 9, 7, -999.0)
    readings = with_value(readings, 3, 9, 8, np.nan)
    twice = float(readings.value[(readings.sensor == 1) & (readings.time == time)][0])
    readings = with_more(with_more(readings, 1, time, twice), 2, time, 16.25)
    rows = all_rows(readings, Cleaner(HOURLY, fill={"": [-999.0]}))
    coded, empty = cell(rows, "s03", 9, 7), cell(rows, "s03", 9, 8)
    assert (coded["flag"], coded["reason"], coded["n"], coded["origin"]) == (4, "fill", 1, 2)
    assert coded["value"] == -999
    assert (empty["flag"], empty["reason"], empty["n"], empty["origin"]) == (9, "fill", 0, 2)
    assert np.isnan(float(str(empty["value"])))
    for fill in (coded, empty):
        assert 0 < abs(float(str(fill["cleaned"]))) < 60
    assert cell(rows, "s01", 9, 5)["n"] == 1
    clash = cell(rows, "s02", 9, 5)
    assert (clash["value"], clash["n"]) == (16.25, 1)
    assert (clash["flag"], clash["reason"]) in {(3, "duplicate"), (4, "spike")}


def test_readings_beyond_the_limits_are_implausible_and_hidden_from_the_model() -> None:
    readings = with_value(fault_free(), 3, 9, 7, 70.0)
    limited, plain = all_rows(readings, Cleaner(HOURLY, valid={"": (-40, 50)})), all_rows(fault_free())
    row = cell(limited, "s03", 9, 7)
    assert (row["value"], row["flag"], row["reason"], row["origin"]) == (70.0, 4, "implausible", 2)
    assert abs(float(str(row["cleaned"])) - float(str(cell(plain, "s03", 9, 7)["value"]))) < 3
    others = (limited.sensor != 3) & (limited.time == START + 9 * DAY + 7 * HOUR)
    np.testing.assert_array_equal(limited.value[others], plain.value[others])


def test_notes_are_obeyed() -> None:
    readings = fault_free()
    day = (readings.sensor == 3) & ((readings.time - START) // DAY == 9)
    readings.value[day] += 15
    start, end = START + 9 * DAY, START + 10 * DAY
    plain = cell(all_rows(readings), "s03", 9, 4)
    assert plain["flag"] == Flag.FAIL
    assert plain["origin"] in [ORIGINS.index("corrected"), ORIGINS.index("estimated")]
    real = cell(all_rows(readings, with_note("real", start, end)), "s03", 9, 4)
    assert (real["flag"], real["reason"], real["origin"]) == (1, "", 1)
    assert real["cleaned"] == real["value"] == real["upper"]
    ignored = cell(all_rows(readings, with_note("ignore", start, end)), "s03", 9, 4)
    assert (ignored["flag"], ignored["reason"], ignored["origin"]) == (2, "", 2)
    assert ignored["value"] == real["value"]
    assert abs(float(str(ignored["cleaned"])) - float(str(ignored["value"])) + 15) < 3


def with_note(action: str, start: int, end: int, model: NetworkModel | None = None) -> Cleaner:
    return Cleaner(HOURLY, maintenance=Maintenance((Note("s03", start, end, action),)), model=model)


@pytest.mark.parametrize(("action", "expected"), [("real", (1, "", 70.0)), ("ignore", (2, "", None))])
def test_a_note_goes_before_limits_also_where_every_reading_has_a_row(
    action: str, expected: tuple[int, str, float | None]
) -> None:
    readings = with_value(fault_free(), 3, 9, 7, 70.0)
    notes = Maintenance((Note("s03", START + 9 * DAY, START + 10 * DAY, action),))
    cleaner = Cleaner(HOURLY, valid={"": (-40, 50)}, maintenance=notes, per_reading=True)
    mended = next(entry for entry in mend(readings, cleaner) if entry.period == FIRST + 9)
    for rows in (mended.rows, mended.output):
        row = cell(rows, "s03", 9, 7)
        assert (row["flag"], row["reason"], row["value"]) == (*expected[:2], 70.0)
        assert expected[2] is None or row["cleaned"] == expected[2]


NEVER = np.iinfo(np.int64).max // 4


def another_level(days: int = 25, hour: int = 0) -> Readings:
    """Sound readings of which the fourth sensor's are 15 higher from an hour of the 16th day on."""
    readings = fault_free(days)
    readings.value[(readings.sensor == 3) & (readings.time >= START + 15 * DAY + hour * HOUR)] += 15
    return readings


@pytest.mark.parametrize("hour", [0, 10])
def test_the_level_of_a_recalibrated_sensor_is_right_from_then_on(hour: int) -> None:
    readings, since = another_level(hour=hour), START + 15 * DAY + hour * HOUR
    rows = all_rows(readings, with_note("recalibrated", since, NEVER))
    chosen = (rows.sensor == 3) & (rows.time >= since)
    assert set(rows.flag[chosen].tolist()) <= {1, 3}, "it is known, and judged at once"
    assert np.mean(rows.flag[chosen] == Flag.GOOD) > 0.98
    without = all_rows(readings)
    assert np.mean(without.flag[chosen] == Flag.FAIL) > 0.9


@pytest.mark.parametrize("saved", [15, 16])
def test_a_recalibration_is_in_the_state_file(tmp_path: Path, saved: int) -> None:
    readings, note = another_level(hour=10), ("recalibrated", START + 15 * DAY + 10 * HOUR, NEVER)
    whole = [mended.rows for mended in mend(readings, with_note(*note))]
    source, first = InMemory(readings, HOURLY), with_note(*note)
    for period in source.periods[:saved]:
        first.push(source.read(period))
    first.save(tmp_path / "cleaner.npz")
    first.model.save(tmp_path / "model.npz")
    second = with_note(*note, model=NetworkModel.load(tmp_path / "model.npz"))
    second.restore(tmp_path / "cleaner.npz")
    for period, expected in zip(source.periods[saved:], whole[saved:], strict=True):
        (mended,) = second.push(source.read(period))
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(mended.rows, name), getattr(expected, name))


def test_a_recalibration_in_the_first_weeks_has_its_place() -> None:
    readings, since = another_level(days=40), START + 15 * DAY
    cleaner = with_note("recalibrated", since, NEVER)
    rows = Rows.concatenate([mended.rows for mended in walk(InMemory(readings, HOURLY), cleaner)])
    chosen = rows.sensor == 3
    assert np.mean(rows.flag[chosen] == Flag.GOOD) > 0.98, "the first weeks are learned from twice"


def test_a_recalibration_may_be_written_down_later() -> None:
    readings, cleaner = another_level(), Cleaner(HOURLY)
    source = InMemory(readings, HOURLY)
    for period in source.periods[:20]:
        cleaner.push(source.read(period))
    cleaner.maintenance = Maintenance((Note("s03", START + 15 * DAY, NEVER, "recalibrated"),))
    period = int(source.periods[20])
    before = (
        cleaner.model.copy(),
        cleaner.peek(source.read(period), period),
        cleaner.peek(source.read(period), period),
    )
    (mended,) = cleaner.push(source.read(period))
    assert before[0].sensors == cleaner.model.sensors
    for name in COLUMNS:
        for peek in before[1:]:
            np.testing.assert_array_equal(getattr(peek.rows, name), getattr(mended.rows, name))
    assert set(mended.rows.flag[mended.rows.sensor == 3].tolist()) <= {1, 3}
    (ended,) = [episode for episode in mended.faults if episode.sensor == 3]
    assert ended.end == START + 20 * DAY
    (later,) = cleaner.push(source.read(source.periods[21]))
    assert set(later.rows.flag[later.rows.sensor == 3].tolist()) <= {1, 3}
    cleaner.maintenance = Maintenance()
    (later,) = cleaner.push(source.read(source.periods[22]))
    assert set(later.rows.flag[later.rows.sensor == 3].tolist()) <= {1, 3}, "to take it back changes nothing"


def test_every_reading_can_have_a_row() -> None:
    base = fault_free(10)
    time = START + 8 * DAY + 5 * HOUR
    readings = with_more(with_more(base, 2, time + 60_000_000, 1000.0), 2, time + 120_000_000, np.nan)
    readings = readings.taken((readings.sensor != 1) | (readings.time != time))
    cleaner = Cleaner(HOURLY, valid={"": (-90, 90)}, per_reading=True)
    (*_, mended) = [entry for entry in mend(readings, cleaner) if entry.period == FIRST + 8]
    rows = mended.output
    assert mended.readings is rows
    assert len(rows) == 8 * 24 + 2
    chosen = (rows.sensor == 2) & (rows.time >= time) & (rows.time < time + HOUR)
    assert rows.flag[chosen].tolist() == [1, 4, 9]
    assert [REASONS[code] for code in rows.reason[chosen]] == ["", "implausible", "fill"]
    empty = (rows.sensor == 1) & (rows.time == time)
    assert (rows.flag[empty].item(), rows.n[empty].item(), rows.origin[empty].item()) == (9, 0, 2)
    assert np.sum(np.isfinite(rows.value)) == np.sum(
        np.isfinite(readings.value) & (HOURLY.find_period(readings.time) == FIRST + 8)
    )


def test_variables_are_separate_and_a_sensor_lists_only_its_own() -> None:
    one = fault_free(10)
    two = one.taken(one.sensor != 5)
    both = Readings(
        one.sensors,
        ("dew", "temp"),
        np.concatenate([one.sensor, two.sensor]),
        np.repeat([1, 0], [len(one), len(two)]),
        np.concatenate([one.time, two.time]),
        np.concatenate([one.value, 1000 + 2 * two.value]),
    )
    rows = all_rows(both, Cleaner(HOURLY, ("dew", "temp")))
    assert len(rows) == (8 + 7) * 24 * 10
    assert rows.value[rows.variable == 0].min() > 900
    assert rows.value[rows.variable == 1].max() < 100
    with pytest.raises(InputError, match="'dew' was not there from the start"):
        Cleaner(HOURLY, ("temp",)).push(InMemory(both, HOURLY).read(FIRST))


def test_wrong_pushes_are_refused_and_change_nothing() -> None:
    readings = fault_free(3)
    source, cleaner = InMemory(readings, HOURLY), Cleaner(HOURLY)
    cleaner.push(source.read(FIRST + 1))
    for wrong, match in (
        (source.read(FIRST), "period that is over"),
        (source.read(FIRST + 1), "period that is over"),
        (readings, "several periods"),
        (readings.taken(slice(0, 0)), "there is none"),
    ):
        with pytest.raises(InputError, match=match):
            cleaner.push(wrong)
    assert cleaner.period == FIRST + 1
    with pytest.raises(ConfigError, match="different names"):
        Cleaner(HOURLY, ("a", "a"))


def test_an_archive_can_be_left_after_any_period(tmp_path: Path) -> None:
    readings = fault_free(34)
    day = (readings.time - START) // DAY
    # The scout gets used to this one and back; what it knows of the two levels must not outlast the first period.
    readings.value[(readings.sensor == 2) & (day >= 10) & (day < 18)] += 15
    source, cleaner = InMemory(readings, HOURLY), Cleaner(HOURLY)
    whole = []
    for number, mended in enumerate(walk(source, cleaner)):
        whole.append(mended.rows)
        if number in (0, 1, 20):
            cleaner.save(tmp_path / f"cleaner-{number}.npz")
            cleaner.model.save(tmp_path / f"model-{number}.npz")
    for number in (0, 1, 20):
        later = Cleaner(HOURLY, model=NetworkModel.load(tmp_path / f"model-{number}.npz"))
        later.restore(tmp_path / f"cleaner-{number}.npz")
        for rows, mended in zip(whole[number + 1 :], walk(source, later), strict=True):
            for name in COLUMNS:
                np.testing.assert_array_equal(getattr(mended.rows, name), getattr(rows, name))


def test_a_look_at_an_unfinished_period_changes_nothing() -> None:
    readings = city_readings(8, 12)
    source = InMemory(readings, HOURLY)
    looked, plain = Cleaner(HOURLY), Cleaner(HOURLY)
    for period in source.periods:
        whole = source.read(period)
        early = whole.taken(whole.time < HOURLY.period_start(period) + 15 * HOUR)
        peeked = looked.peek(early, period)
        assert peeked.period == period
        assert len(peeked.rows) >= 24 * np.unique(early.sensor).size
        (one,), (other,) = looked.push(whole), plain.push(whole)
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(one.rows, name), getattr(other.rows, name))
    # After eleven days it is judged as the whole day will be: what was seen is there, the rest is estimated.
    assert np.isfinite(peeked.rows.cleaned).all()
    late = peeked.rows.time >= HOURLY.period_start(period) + 15 * HOUR
    assert (peeked.rows.flag[late] == Flag.MISSING).all()


def test_a_silent_period_can_be_pushed_on_its_own() -> None:
    source = InMemory(city_readings(8, 8), HOURLY)
    one, other = Cleaner(HOURLY), Cleaner(HOURLY)
    first, *_, last = source.periods
    nothing = source.read(first).taken(slice(0, 0))
    one.push(source.read(first))
    apart = [mended for period in range(first + 1, last) for mended in one.push(nothing, period)]
    apart += one.push(source.read(last))
    other.push(source.read(first))
    together = other.push(source.read(last))
    assert [mended.period for mended in apart] == [mended.period for mended in together]
    for left, right in zip(apart, together, strict=True):
        np.testing.assert_array_equal(left.rows.cleaned, right.rows.cleaned)


class Refusing(NetworkModel):
    """A model that refuses every period in which a reading is above 900."""

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        if (np.asarray(minibatch) > 900).any():
            raise FloatingPointError("overflow")
        return super().update(minibatch, sensors)


@pytest.mark.parametrize("variables", [("",), ("a", "b")])
def test_what_the_model_cannot_take_passes_through_and_the_rest_is_judged(variables: tuple[str, ...]) -> None:
    readings = fault_free(8)
    count = len(variables)
    many = Readings(
        readings.sensors,
        variables,
        np.tile(readings.sensor, count),
        np.repeat(np.arange(count), len(readings)),
        np.tile(readings.time, count),
        np.tile(readings.value, count),
    )
    guilty = (many.variable == 1) if count > 1 else many.sensor == 3
    wrong = guilty & (many.time >= START + 6 * DAY) & (many.time < START + 7 * DAY)
    many.value[wrong] += 1000
    cleaner = Cleaner(HOURLY, variables, model=Refusing(fiber_axis=2))
    rows = all_rows(many, cleaner)
    today = (rows.time >= START + 6 * DAY) & (rows.time < START + 7 * DAY)
    refused = today & ((rows.variable == 1) if count > 1 else rows.sensor == rows.sensors.index(many.sensors[3]))
    assert set(rows.flag[refused]) == {Flag.NOT_EVALUATED}
    np.testing.assert_array_equal(rows.cleaned[refused], rows.value[refused])
    assert (rows.flag[today & ~refused] == Flag.GOOD).mean() > 0.95
    assert (rows.flag[rows.time >= START + 7 * DAY] == Flag.GOOD).mean() > 0.95
    (remark,) = cleaner.remarks()
    assert remark.startswith(f"{'b' if count > 1 else many.sensors[3]} is not judged in a period")
