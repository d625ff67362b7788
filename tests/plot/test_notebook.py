import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from sensormend import ConfigError, InputError, Result, clean
from sensormend.archive.frames import make_columns, read_rows
from sensormend.errors import SensormendError
from sensormend.io.metadata import write_csv
from sensormend.io.writing import RowWriter
from sensormend.plot import beside, course, health
from sensormend.plot.style import save
from sensormend.simulate.network import city

matplotlib = pytest.importorskip("matplotlib")

SENSORS, DAYS = 8, 40


@pytest.fixture(scope="module")
def mended() -> Result:
    """A network whose sensor S3 is 9 degrees off for six days, S5 silent for four, and S7 joins late."""
    network = city(SENSORS, DAYS, seed=1, faults=False)
    readings = network.readings.copy()
    readings[2, :, 25:31] += 9
    readings[4, :, 12:16] = np.nan
    readings[6, :, :10] = np.nan
    value = np.moveaxis(readings, 1, 2).reshape(SENSORS, -1)
    wide = dict(zip(network.sensors, value, strict=True))
    time = network.times.T.reshape(-1).astype("datetime64[us]")
    cleaned: Result = clean(polars.DataFrame({"time": time, **wide}), sensors=list(network.sensors))
    return cleaned


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def pixels(figure: Any) -> np.ndarray:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] / 255


def has_colour(image: np.ndarray, colour: str) -> bool:
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return bool((np.abs(image - wanted).max(axis=-1) < 0.02).any())


def test_a_course_has_its_fault_and_its_silence(mended: Result) -> None:
    wrong = course(mended.data, "S3")
    assert "offset" in texts(wrong)
    assert has_colour(pixels(wrong), "#d55e00")
    assert {"raw", "cleaned", "its interval", "Sensor S3"} <= set(texts(wrong))
    assert any(text.startswith("2024") for text in texts(wrong)), "the year, beside the axis"
    assert "silent" in texts(course(mended, "S5")), "a result is taken too"
    assert "offset" not in texts(course(mended.data, "S3", "2024-01-02", "2024-01-10"))


def test_readings_out_of_view_and_single_wrong_ones_are_marked(mended: Result) -> None:
    rows = mended.data.with_row_index().with_columns(
        pl_value(mended, "value", 900.0), pl_value(mended, "flag", 4), pl_value(mended, "reason", "spike")
    )
    axes = course(rows.drop("index"), "S1").axes[0]
    arrows = [line for line in axes.lines if line.get_marker() == "^" and len(line.get_xdata())]
    assert [line.get_ydata()[0] for line in arrows] == [axes.get_ylim()[1]]
    assert "single wrong reading" in texts(axes)


def pl_value(mended: Result, column: str, value: object) -> polars.Expr:
    """Replace a column in one row of S1, in the middle of the time."""
    row = mended.data.with_row_index().filter(polars.col("sensor") == "S1")["index"][480]
    return polars.when(polars.col("index") == row).then(polars.lit(value)).otherwise(polars.col(column)).alias(column)


def test_axes_of_ones_own_are_drawn_on(mended: Result) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    above, below = figure.subplots(2)
    assert course(mended, "S3", ax=above) is figure
    assert health(mended, ax=below) is figure
    assert {"raw", "cleaned"} <= {line.get_label() for line in above.lines}
    assert "Every sensor, day by day" in texts(below)
    assert "Sensor S3" not in texts(figure), "no heading over the figure of someone else"
    figure.set_layout_engine("constrained")
    pixels(figure)
    assert min(axes.get_position().height for axes in figure.axes) > 0.2, "nothing takes the space of the axes"


def test_the_same_rows_give_the_same_bytes(mended: Result, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "a.svg", "b.svg"):
        save(health(mended, dark=False), tmp_path / name)
    for ending in ("png", "svg"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert b"Software" not in (tmp_path / "a.png").read_bytes()


def test_a_sensor_without_any_reading_can_be_drawn(mended: Result) -> None:
    nothing = mended.data.with_columns(
        value=polars.lit(None, polars.Float64), cleaned=polars.lit(None, polars.Float64),
        lower=polars.lit(None, polars.Float64), upper=polars.lit(None, polars.Float64), flag=polars.lit(9),
        reason=polars.lit("silent"),
    )  # fmt: skip
    assert "silent" in texts(course(nothing, "S1"))
    assert "silent" in texts(health(nothing))


def test_without_matplotlib_one_line_says_what_to_install(mended: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, None)
            with pytest.raises(SensormendError, match=r"pip install 'sensormend\[plot\]'") as caught:
                health(mended)
            assert "\n" not in str(caught.value)


def test_gaps_stay_gaps(mended: Result) -> None:
    rows = mended.data.filter(~polars.col("time").dt.day().is_between(5, 7))
    lines = {line.get_label(): line for line in course(rows, "S1", end="2024-01-20").axes[0].lines}
    for name in ("raw", "cleaned"):
        days = lines[name].get_xdata().astype("datetime64[D]")
        known = np.isfinite(lines[name].get_ydata())
        assert known.any()
        assert not (known & (days >= np.datetime64("2024-01-05")) & (days <= np.datetime64("2024-01-07"))).any()
        assert (~known).any(), "no line is drawn over the hole"


def test_health_has_the_worst_on_top_and_a_colour_for_all(mended: Result) -> None:
    figure = health(mended.data)
    image = pixels(figure)
    for colour in ("#edf3ef", "#d55e00", "#3b4252"):
        assert has_colour(image, colour)
    assert {"healthy", "faulty", "silent"} <= set(texts(figure))
    assert figure.axes[0].get_yticklabels()[0].get_text() == "S3"
    state = figure.axes[0].images[0].get_array()
    assert (state == -1).sum() == 10, "the days before S7 joined are blank"
    assert any(text.startswith("8 sensors, 40 days: ") for text in texts(figure))


def test_two_variables_are_two_panels(mended: Result) -> None:
    named = [mended.data.with_columns(variable=polars.lit(name)) for name in ("humidity", "temperature")]
    rows = polars.concat(named)
    titles = [axes.get_title(loc="left") for axes in health(rows).axes]
    assert titles == ["Humidity: every sensor, day by day", "Temperature: every sensor, day by day"]
    assert course(rows, "S3", variable="humidity").axes[0].get_ylabel() == "humidity"
    with pytest.raises(ConfigError, match="humidity, temperature"):
        course(rows, "S3")
    with pytest.raises(InputError, match="no variable 'wind'"):
        beside(rows, "S3", "2024-01-28", "wind")


def test_beside_shows_three_relatives_and_how_far_they_are(mended: Result) -> None:
    figure = beside(mended.data, "S3", "2024-01-28T12:30")
    above, below = figure.axes
    assert "Sensor S3 at 2024-01-28 12:00: flag 4 (fail, offset)" in texts(figure)
    relatives = [line for line in above.lines if str(line.get_label()).startswith("S")]
    assert len(relatives) == 3
    day = np.datetime64("2024-01-28")
    for line in below.lines[:6]:
        clock, distance = np.asarray(line.get_xdata()), np.asarray(line.get_ydata(), dtype=float)
        if clock.size > 20:
            inside = clock.astype("datetime64[D]") == day
            assert np.nanmedian(distance[inside]) == pytest.approx(9, abs=1.5)
    assert above.lines[0].get_xdata()[0] <= np.datetime64("2024-01-24"), "the fault's beginning is in view"


def test_no_correlated_sensor_is_reported(mended: Result) -> None:
    figure = beside(mended.data.filter(polars.col("sensor") == "S3"), "S3", "2024-01-28T12:00")
    assert len(figure.axes) == 1
    assert any("no other sensor" in text for text in texts(figure))


def test_pandas_an_out_and_rows_read_back_give_the_same_picture(mended: Result, tmp_path: Path) -> None:
    image = pixels(course(mended.data, "S3"))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: mended.data[name].to_list() for name in mended.data.columns})
    np.testing.assert_array_equal(pixels(course(frame, "S3")), image)
    with RowWriter(tmp_path) as writer:
        writer.write(read_rows(mended.data))
    write_csv(tmp_path / "faults.csv", ["sensor"], [])
    np.testing.assert_array_equal(pixels(course(tmp_path, "S3")), image)
    for name, column in make_columns(read_rows(mended.data)).items():
        before = mended.data[name].to_numpy()
        np.testing.assert_array_equal(column, before if column.dtype.kind in "if" else before.astype(column.dtype))


def test_dark_is_as_requested_or_as_matplotlib_is(mended: Result) -> None:
    dark = pixels(health(mended.data, dark=True))
    assert has_colour(dark, "#14181d")
    assert not has_colour(dark, "#ffffff")
    with matplotlib.style.context("dark_background"):
        np.testing.assert_array_equal(pixels(health(mended.data)), dark)
        assert has_colour(pixels(health(mended.data, dark=False)), "#ffffff")


def test_a_notebook_can_show_and_save_it(mended: Result) -> None:
    figure = course(mended.data, "S3", "2024-01-20", "2024-01-30")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure)).axes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: course(rows, "S33"), "for example S3"),
        (lambda rows: course(rows, "S3", "2031-01-01"), "no rows in that time"),
        (lambda rows: beside(rows, "S3", "2031-01-01"), "no row at 2031-01-01"),
        (lambda rows: course(rows.drop("flag"), "S3"), "no column 'flag'"),
        (lambda rows: health([1, 2]), "not of list"),
        (lambda rows: health(rows.clear()), "no rows"),
    ],
)
def test_wrong_calls_are_reported_in_one_line(mended: Result, call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call(mended.data)
    assert "\n" not in str(caught.value)
