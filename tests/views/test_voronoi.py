"""The cells of a network tile its map, and each holds its sensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sensormend.errors import InputError, ShapeError
from sensormend.views.voronoi import VoronoiCells, voronoi_cells

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
