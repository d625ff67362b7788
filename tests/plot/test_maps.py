"""The cells of a network tile its map, and each holds its sensor."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sensormend.errors import InputError, ShapeError
from sensormend.plot import maps
from sensormend.plot.canvas import MAP_COLOURS
from sensormend.plot.maps import VoronoiCells, chosen_days, city_map, voronoi_cells
from sensormend.simulate.network import city

Floats = NDArray[np.float64]

coordinates = st.one_of(
    st.floats(-100, 100), st.integers(-3, 3).map(float), st.floats(-1e-7, 1e-7), st.floats(4e5, 4.01e5)
)
networks = st.integers(1, 40).flatmap(lambda sensors: arrays(float, (sensors, 2), elements=coordinates))


def area(polygon: Floats) -> float:
    x, y = polygon.T
    return float(0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


def reach(polygon: Floats, point: Floats) -> float:
    """How far a point is outside of a convex polygon (0 inside), its corners in order, counter-clockwise."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    length = np.hypot(*edges.T)
    to_point = point - polygon
    cross = edges[:, 0] * to_point[:, 1] - edges[:, 1] * to_point[:, 0]
    positive = length > 0
    return float(max(0.0, np.max(-cross[positive] / length[positive])))


def check(positions: Floats, cells: VoronoiCells) -> None:
    left, lower, right, upper = cells.box
    size = max(right - left, upper - lower)
    assert sum(map(area, cells.polygons)) == pytest.approx((right - left) * (upper - lower), rel=1e-6)
    for polygon in cells.polygons:
        assert (polygon >= np.array([left, lower]) - 1e-9 * size).all()
        assert (polygon <= np.array([right, upper]) + 1e-9 * size).all()
    for position, place in zip(positions, cells.place, strict=True):
        assert reach(cells.polygons[place], position) <= 2e-6 * size


@given(networks)
def test_cells_tile_the_box_and_hold_their_sensors(positions: Floats) -> None:
    check(positions, voronoi_cells(positions))


@given(networks, st.data())
def test_every_spot_belongs_to_its_nearest_sensor(positions: Floats, data: st.DataObject) -> None:
    cells = voronoi_cells(positions)
    left, lower, right, upper = cells.box
    spot = np.array([
        left + data.draw(st.floats(0, 1)) * (right - left), lower + data.draw(st.floats(0, 1)) * (upper - lower)
    ])  # fmt: skip
    size = max(right - left, upper - lower)
    away = np.hypot(*(positions - spot).T)
    outside = np.array([reach(polygon, spot) for polygon in cells.polygons])
    nearest = cells.place[int(np.argmin(away))]
    second = np.sort(away[cells.place != nearest])[:1]
    assume(second.size == 0 or second[0] - away.min() > 1e-4 * size)
    assert outside[nearest] <= 1e-5 * size
    assert int(np.argmin(outside)) == nearest or outside[nearest] == 0


@pytest.mark.parametrize(
    "positions",
    [
        [[3, 4]],
        [[0, 0], [1, 1]],
        [[0, 0], [0, 1], [0, 2]],
        [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]],
        [[5, 5]] * 6,
        [[0, 0], [0, 0], [1, 0], [1, 1e-12]],
        [[-87.62, 41.88], [-87.62, 41.88 + 1e-13], [-87.6, 41.9]],
    ],
    ids=["one", "two", "a line", "a slanted line", "one place", "pairs", "nearly one place"],
)
def test_few_collinear_and_doubled_positions(positions: list[list[float]]) -> None:
    points = np.array(positions, dtype=float)
    cells = voronoi_cells(points)
    check(points, cells)
    assert len(cells.polygons) <= len(points)


def test_positions_of_another_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(sensor, 2\)"):
        voronoi_cells([1.0, 2.0])


def test_a_sensor_without_a_position_has_no_cell() -> None:
    cells = voronoi_cells(np.array([[0, 0], [np.nan, 1], [1, 1]]))
    assert cells.place.tolist() == [0, -1, 1]
    with pytest.raises(InputError, match="at least one"):
        voronoi_cells([[np.nan, np.nan]])


def test_dates_are_one_a_month_or_evenly_spaced() -> None:
    year = np.datetime64("2018-09-01T15:00") + np.arange(181) * np.timedelta64(1, "D")
    chosen = year[chosen_days(year)]
    assert [str(moment)[:7] for moment in chosen] == [
        "2018-09", "2018-10", "2018-11", "2018-12", "2019-01", "2019-02",
    ]  # fmt: skip
    assert all(14 <= int(str(moment)[8:10]) <= 16 for moment in chosen)
    assert chosen_days(year[:60]) == [10, 20, 30, 39, 49, 59]
    assert chosen_days(year[:4]) == [0, 1, 2, 3]


def drawn(monkeypatch: pytest.MonkeyPatch, **call: Any) -> Any:
    saved: list[Any] = []
    monkeypatch.setattr(maps, "save_both", lambda figure, folder, name: saved.append(figure) or [])  # type: ignore[func-returns-value]
    city_map("nowhere", **call)
    return saved[0]


def test_the_map_shows_raw_above_mended_with_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    network = city(12, 30, seed=3)
    readings, truth = network.readings.copy(), network.truth
    readings[4] = np.nan
    readings[5] = 500.0
    faulty = np.zeros((12, 30), dtype=bool)
    faulty[5] = True
    positions = np.stack([network.stations.x, network.stations.y], axis=1)
    figure = drawn(monkeypatch, positions=positions, readings=readings, cleaned=truth, times=network.times,
                   faulty=faulty, quantity="temperature", unit="°C")  # fmt: skip
    panels = figure.axes[:12]
    place = voronoi_cells(positions).place
    days = chosen_days(network.times[15])
    shown = truth[:, 15, days]
    for number, axes in enumerate(panels):
        cells = axes.collections[0]
        assert len(cells.get_paths()) == 12
        assert cells.get_clim() == (shown.min(), shown.max()), "fitted to the mended values"
        values = cells.get_array()
        source = (readings if number < 6 else truth)[:, 15, days[number % 6]]
        np.testing.assert_allclose(np.ma.filled(values, np.nan)[place], source)
        assert np.ma.getmaskarray(values)[place[4]] == (number < 6), "missing above, filled below"
        assert cells.get_cmap().get_bad()[:3] == pytest.approx([0, 0, 0]), "black"
        rings = axes.get_lines()[-1]
        np.testing.assert_allclose(rings.get_xydata(), positions[[5]])
        dots = np.concatenate([line.get_xydata() for line in axes.get_lines()[:2]])
        assert len(dots) == 12
    assert figure.axes[12].get_xlabel() == "temperature at 15:00, °C"
    assert [axes.get_ylabel() for axes in (panels[0], panels[6])] == ["raw", "mended"]


def test_small_and_strange_networks_have_a_map(tmp_path: Path) -> None:
    network = city(2, 3, seed=1)
    positions = np.array([[1.0, 1.0], [1.0, 1.0]])
    written = city_map(tmp_path, positions=positions, readings=np.full_like(network.readings, np.nan),
                       cleaned=np.full_like(network.readings, np.nan), times=network.times,
                       faulty=np.zeros((2, 3), dtype=bool), quantity="temperature", unit="")  # fmt: skip
    assert [path.name for path in written] == ["map.png", "map.svg"]
    assert all(path.stat().st_size > 3000 for path in written)


def test_the_page_has_the_colours_of_the_other_maps() -> None:
    script = (files("sensormend") / "web" / "static" / "map-scale.js").read_text(encoding="utf-8")
    assert tuple(re.findall(r"#[0-9a-f]{6}", script)) == MAP_COLOURS
