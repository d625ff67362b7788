"""`voronoi_cells` divides a map among sensors, and `group_means` averages the values of each cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import Voronoi

from sensormend.errors import InputError, ShapeError
from sensormend.recovery import FloatArray

__all__ = ["VoronoiCells", "group_means", "voronoi_cells"]

# Sensors closer than this share of the map are at one place: neither Qhull nor a reader can separate them.
SAME_PLACE = 1e-6
MARGIN = 0.06

Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class VoronoiCells:
    """The Voronoi cells of a network, clipped to a box; sensors at one place share a cell.

    Attributes
    ----------
    polygons
        One per place, corners (k, 2) in order around it.
    place
        The index of the polygon of each sensor; -1 where its position is unknown.
    box
        Left, lower, right, upper edge.
    """

    polygons: list[FloatArray]
    place: NDArray[np.intp]
    box: Box


def voronoi_cells(positions: ArrayLike) -> VoronoiCells:
    """Divide the box around positions (sensor, 2) among sensors: each gets the part that is nearest to it.

    The position of a sensor is NaN where it is not known; sensors may lie on a line or at one place.

    Examples
    --------
    >>> cells = voronoi_cells([[0, 0], [1, 0], [1, 0]])
    >>> len(cells.polygons), cells.place.tolist()
    (2, [0, 1, 1])
    """
    points = np.asarray(positions, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ShapeError(f"positions must be (sensor, 2), not {points.shape}")
    known = np.isfinite(points).all(axis=1)
    if not known.any():
        raise InputError("a map needs the position of at least one sensor")
    left, lower, right, upper = _around(points[known])
    size = np.array([right - left, upper - lower])
    corner = np.array([left, lower])
    # In units of the longer side, on a grid: places then are equal, or far enough apart for Qhull.
    scale = float(size.max())
    grid = np.round((points[known] - corner) / scale / SAME_PLACE)
    sites, of_sensor = np.unique(grid, axis=0, return_inverse=True)
    sites = sites * SAME_PLACE
    wide, high = size / scale
    # With the network mirrored at the four edges every cell ends exactly at the edge, and the cells tile the box.
    inside = np.clip(sites, SAME_PLACE / 2, np.array([wide, high]) - SAME_PLACE / 2)
    mirrored = [inside * sign + shift for sign, shift in (
        ((-1, 1), (0, 0)), ((-1, 1), (2 * wide, 0)), ((1, -1), (0, 0)), ((1, -1), (0, 2 * high)),
    )]  # fmt: skip
    diagram = Voronoi(np.concatenate([inside, *mirrored]))
    polygons = []
    for number in range(len(inside)):
        corners = diagram.vertices[diagram.regions[diagram.point_region[number]]]
        middle = corners.mean(axis=0)
        turn = np.argsort(np.arctan2(corners[:, 1] - middle[1], corners[:, 0] - middle[0]))
        polygons.append(np.clip(corners[turn], 0, (wide, high)) * scale + corner)
    place = np.full(len(points), -1, dtype=np.intp)
    place[known] = of_sensor.reshape(-1)
    return VoronoiCells(polygons, place, (left, lower, right, upper))


def _around(points: FloatArray) -> Box:
    low, high = points.min(axis=0), points.max(axis=0)
    longest, farthest = float((high - low).max()), float(np.abs(points).max())
    # Sensors on a line get a strip around it, a single place a box.
    smallest = 0.3 * longest if longest > 1e-9 * farthest else max(1.0, 1e-3 * farthest)
    half = np.maximum(high - low, smallest) / 2 + MARGIN * max(longest, smallest)
    middle = (low + high) / 2
    return (float(middle[0] - half[0]), float(middle[1] - half[1]),
            float(middle[0] + half[0]), float(middle[1] + half[1]))  # fmt: skip


def group_means(group: NDArray[np.integer], groups: int, values: FloatArray) -> FloatArray:
    """Return the mean of the values in each group, NaN for an empty one; a value in group -1 is in none."""
    known = np.isfinite(values) & (group >= 0)
    count = np.bincount(group[known], minlength=groups)
    total = np.bincount(group[known], weights=values[known], minlength=groups)
    return np.asarray(np.divide(total, count, out=np.full(groups, np.nan), where=count > 0))
