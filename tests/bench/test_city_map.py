"""The map of a network at several dates, raw above and mended below."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sensormend.bench import city_map as maps
from sensormend.bench.city_map import MAP_COLOURS, chosen_days, city_map
from sensormend.simulate.network import city
from sensormend.views.voronoi import voronoi_cells


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
