"""Results that cannot be true stop a run, and those of sound data never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile
from list_source import hourly, read_rows, run_service
from sensormend import AutoOLRTR, clean
from sensormend.cli import main
from sensormend.errors import ResultError
from sensormend.io.options import Options
from sensormend.model import arrays as at
from sensormend.pipeline import archive
from sensormend.pipeline.archive import clean_archive
from sensormend.pipeline.checkpoint import Checkpoint
from sensormend.pipeline.mender import Mender
from sensormend.pipeline.verdicts import MOST_OUTSIDE
from sensormend.readings import DAY, HOUR, NO_ORIGIN, NOTHING, OBSERVED, REASONS, Readings, Rows
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
def test_it_never_fires_on_networks_whose_state_is_right(name: str, seed: int) -> None:
    """How far estimates lie outside is counted once more here, row by row."""
    tensor = spoilt(NETWORKS[name](seed), seed)
    mender, seen = Mender(HOURLY, tuple(map(str, range(tensor.shape[1])))), dict[int, list[float]]()
    first, farthest = int(HOURLY.period_of(np.array([START]))[0]), -np.inf
    for day, readings in enumerate(days_of(tensor)):
        for hours in (1, 2, 3, 7, 15) if day < 8 else (7,):
            mender.peek(readings.taken(readings.time < START + day * DAY + hours * HOUR), first + day)
        for mended in mender.push(readings, first + day):
            farthest = max(farthest, _outside(mended.rows, seen))
    assert -np.inf < farthest < 0.1 < MOST_OUTSIDE


def _outside(rows: Rows, seen: dict[int, list[float]]) -> float:
    """Return by how many widths of what was seen a row lies outside of it at most; `seen` is added to."""
    spike = REASONS.index("spike")
    columns = (rows.variable, rows.value, rows.cleaned, rows.n, rows.reason, rows.origin)
    table = list(zip(*(column.tolist() for column in columns), strict=True))
    for variable, value, _, n, reason, _ in table:
        if n and reason != spike:
            low, high = seen.get(variable, [value, value])
            seen[variable] = [min(low, value), max(high, value)]
    farthest = -np.inf
    for variable, _, cleaned, _, _, origin in table:
        low, high = seen.get(variable, [0.0, 0.0])
        assert np.isfinite(cleaned) or origin == NO_ORIGIN
        if origin not in (OBSERVED, NO_ORIGIN) and high > low:
            farthest = max(farthest, max(low - cleaned, cleaned - high) / (high - low))
    return farthest


def test_what_has_shown_one_value_or_hardly_anything_is_left_alone() -> None:
    """Constants, a variable that begins late, and one reading of a thousand times the usual size."""
    tensor = np.full((4, 2, 24, 12), 20.0)
    tensor[:, 1, :, :5] = np.nan
    tensor[:, 1, :, 5:] = 0.0
    tensor[0, :, 3:9] = np.nan
    tensor[1, 0, 5, 8] = 2e4
    mender, first = Mender(HOURLY, ("a", "b")), int(HOURLY.period_of(np.array([START]))[0])
    for day, readings in enumerate(days_of(tensor)):
        mender.peek(NOTHING, first + day)
        mender.push(
            Readings(readings.sensors, ("a", "b"), readings.sensor, readings.variable, readings.time, readings.value)
        )
    assert mender.period is not None


def too_high(variable: Floats) -> None:
    """Let the engine believe that the variable lies, and may lie, far above."""
    variable[at.CENTRE] += 1e7
    variable[at.HIGH] = 1e9


def no_number(variable: Floats) -> None:
    """Let what the engine knows of the variable be no number."""
    variable[at.LOW], variable[at.HIGH] = -np.inf, np.inf
    variable[at.CENTRE] = np.inf


Way = Callable[[Floats], None]


def spoil(model: Path, way: Way) -> None:
    """Make what a model's file says of its variable wrong."""
    with np.load(model) as file:
        arrays = dict(file)
    way(arrays["of_variable"][0])
    np.savez(model, **arrays)


def spoiled(mender: Mender, way: Way, folder: Path) -> Mender:
    """Return the mender as it is when the file of its model was made wrong; what it was saved as is in the folder."""
    mender.model.save(folder / "model.npz")
    mender.save(folder / "mender.npz")
    spoil(folder / "model.npz", way)
    twin = Mender(HOURLY, model=AutoOLRTR.load(folder / "model.npz"))
    twin.restore(folder / "mender.npz")
    return twin


WAYS = pytest.mark.parametrize("way", [too_high, no_number])


def with_a_gap(days: int = 12) -> Readings:
    """Return readings of which one sensor has none on the last day but one."""
    tensor = small_city(8, 40).truth[..., :days].copy()
    tensor[2, 4:20, -2] = np.nan
    return tensor_readings(tensor)


@WAYS
@pytest.mark.parametrize("learning", [True, False])
def test_a_model_whose_state_is_wrong_is_refused(way: Way, learning: bool, tmp_path: Path) -> None:
    parts, mender = hourly(with_a_gap(), 24), Mender(HOURLY)
    for part in parts[:-2]:
        mender.push(part)
    mender = spoiled(mender, way, tmp_path)
    period = mender.period
    assert period is not None
    with pytest.raises(ResultError, match=r"^s\d\d at 2020-01-11T\d\d:00:00: a result that cannot be true .*report it"):
        mender.push(parts[-2]) if learning else mender.peek(parts[-2], period + 1)
    assert mender.period == period


def test_the_range_is_in_the_state_and_an_earlier_state_has_none(tmp_path: Path) -> None:
    parts, mender = hourly(with_a_gap(), 24), Mender(HOURLY)
    for part in parts[:-2]:
        mender.push(part)
    spoiled(mender, too_high, tmp_path)
    for old in (False, True):
        if old:
            with np.load(tmp_path / "mender.npz") as file:
                arrays = {name: file[name] for name in file.files if not name.startswith("seen_")}
            np.savez(tmp_path / "mender.npz", **arrays)
        twin = Mender(HOURLY, model=AutoOLRTR.load(tmp_path / "model.npz"))
        twin.restore(tmp_path / "mender.npz")
        if old:
            twin.push(parts[-2])
        else:
            with pytest.raises(ResultError):
                twin.push(parts[-2])


def _spoil(state: Path, way: Way) -> dict[str, bytes]:
    """Make the model of a checkpoint wrong, and return what the checkpoint has then."""
    place = Checkpoint(state).place
    assert place is not None
    spoil(place / "model.npz", way)
    return _content(state)


def _content(state: Path) -> dict[str, bytes]:
    place = Checkpoint(state).place
    assert place is not None
    files = [state / "checkpoint.json", *sorted(place.iterdir())]
    return {str(file.relative_to(state)): file.read_bytes() for file in files}


@WAYS
def test_clean_stops_and_keeps_its_last_checkpoint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: Way,
) -> None:
    table, out = write_csv(tmp_path / "readings.csv", with_a_gap()), tmp_path / "out"
    monkeypatch.setattr(archive, "CHECKPOINT", 0.0)

    def stop(name: str, readings: int) -> Callable[[float], None]:
        def tell(done: float) -> None:
            if name == "mending" and done > 0.7:
                raise KeyboardInterrupt

        return tell

    with pytest.raises(KeyboardInterrupt):
        clean_archive(table, out, Options.of(one_pass=True), stages=stop)
    state = tmp_path / "out.partial" / "state"
    # The next checkpoint would be that of the day before the gap: none, so that what is there stays as it is.
    monkeypatch.setattr(archive, "CHECKPOINT", 1e9)
    before = _spoil(state, way)
    assert main(["clean", str(table), str(out), "--one-pass", "--resume"]) == 1
    message = capsys.readouterr().err
    assert "a result that cannot be true" in message
    assert "report it" in message
    assert message.count("\n") == 1
    assert not out.exists()
    assert _content(state) == before


@WAYS
def test_watch_stops_and_keeps_its_last_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: Way
) -> None:
    parts, out = hourly(with_a_gap(), 24), tmp_path / "out"
    run_service(out, parts[:-2])
    rows = read_rows(out)
    before = _spoil(out / "state", way)
    with pytest.raises(ResultError, match="a result that cannot be true"):
        run_service(out, parts)
    assert _content(out / "state") == before
    assert len(read_rows(out)) == len(rows)
    # As a person calls it: the journal has what came, and it ends the same way.
    words = ["watch", f"replay:{write_csv(tmp_path / 'readings.csv', with_a_gap())}", str(out), "--metrics", "off"]
    assert main([*words, "--step", "1h", "--period", "1d"]) == 1
    assert "a result that cannot be true" in capsys.readouterr().err.splitlines()[-1]
    assert _content(out / "state") == before


def test_a_frame_is_cleaned_as_before() -> None:
    import polars

    readings = city_readings(8, 12)
    frame = polars.DataFrame({
        "sensor": [readings.sensors[code] for code in readings.sensor.tolist()],
        "time": readings.time.astype("datetime64[us]"),
        "value": readings.value,
    })  # fmt: skip
    assert clean(frame)["cleaned"].is_finite().all()


def test_a_silent_day_of_variables_that_have_names_is_made_up_for() -> None:
    tensor = hostile.one_sensor(9)[:, None]
    tensor[..., 4:7] = np.nan
    parts = [part for part in days_of(tensor) if len(part)]
    mender = Mender(HOURLY, ("temp",))
    count = [len(mender.push(Readings(part.sensors, ("temp",), part.sensor, part.variable, part.time, part.value)))
             for part in parts]  # fmt: skip
    assert count == [1, 1, 1, 1, 4, 1]
