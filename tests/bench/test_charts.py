"""Figures of rows: everything that was measured is drawn, and what was not is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sensormend.bench import charts
from sensormend.bench.charts import (
    STYLES,
    Panel,
    convergence_chart,
    diverged,
    in_order,
    line_charts,
    line_style,
    score_chart,
)

KINDS = {"NetworkModel": "ours", "RTR": "batch", "RTR 0.75": "batch", "TRPCA": "batch", "rolling median": "plain",
         "buddy check": "plain"}  # fmt: skip
METHODS = [*STYLES, "ORLTM (reconstruction)"]
LOST = "OLRTR r20 Jacobi"
PANELS = [
    Panel("re", "RE", log=True),
    Panel("f1", "F1 score", top=1.0),
    Panel("seconds", "computation time (s)", log=True),
]


def made_up(methods: list[str] = METHODS, settings: tuple[Any, ...] = (10, 20, 30), trials: int = 2) -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = []
    for method in methods:
        for x in settings:
            for trial in range(trials):
                metrics = {name: np.nan if method == LOST else float(random.uniform(0.1, 1))
                           for name in ("re", "f1", "missing", "faulty", "seconds", "peak_mb")}  # fmt: skip
                rows.append({"method": method, "kind": KINDS.get(method, "online"), "setting": f"{x}",
                             "x": x if isinstance(x, int) else 0, "trial": trial,
                             "status": "diverged" if method == LOST else "done", **metrics})  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect figures on their way to the files, which would take longer than all the rest."""
    drawn: list[Any] = []

    def save(figure: Any, folder: Path, name: str) -> list[Path]:
        drawn.append(figure)
        return [Path(folder) / f"{name}.{ending}" for ending in ("png", "svg")]

    monkeypatch.setattr(charts, "save_both", save)
    return drawn


def words(figure: Any) -> str:
    """Everything that stands in a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def test_every_method_is_drawn_in_every_panel(tmp_path: Path, seen: list[Any]) -> None:
    rows = made_up()
    line_charts(rows, tmp_path, "size", panels=PANELS, x_label="tensor size I", title="Size")
    figure = seen[0]
    assert len(figure.axes) == len(PANELS)
    for axes, panel in zip(figure.axes, PANELS, strict=True):
        drawn = {container.get_label(): container.lines[0] for container in axes.containers}
        assert set(drawn) == set(METHODS) - {LOST}
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("tensor size I", panel.label)
        assert axes.get_yscale() == ("log" if panel.log else "linear")
        for method, line in drawn.items():
            own = rows[rows["method"] == method].groupby("x")[panel.column].mean()
            np.testing.assert_allclose(line.get_ydata(), own)
    assert f"Diverged, not drawn: {LOST} (6 of 6 runs)." in words(figure)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(METHODS) - {LOST}


def test_a_panel_without_values_is_left_out(tmp_path: Path, seen: list[Any]) -> None:
    line_charts(made_up().assign(f1=np.nan), tmp_path, "size", panels=PANELS, x_label="I")
    assert [axes.get_ylabel() for axes in seen[0].axes] == ["RE", "computation time (s)"]


def test_every_method_has_a_style_of_its_own_that_says_its_kind() -> None:
    assert len(set(STYLES.values())) == len(STYLES)
    assert len({marker for _, marker in STYLES.values()}) == len(STYLES), "can be read in grey"
    assert line_style("ORLTM (reconstruction)", "online") == line_style("ORLTM", "online")
    assert line_style("NetworkModel", "ours")["linewidth"] > 1.5 * line_style("RTR", "batch")["linewidth"]
    assert len({line_style("RTR", kind)["linestyle"] for kind in ("online", "batch", "plain")}) == 3
    assert line_style("Newcomer", "online")["color"] not in {colour for colour, _ in STYLES.values()}


def test_methods_are_in_order_of_kind_and_unknown_ones_last() -> None:
    rows = pd.DataFrame({"method": ["zebra", "RTR", "OSTD", "NetworkModel", "OSTD"],
                         "kind": ["online", "batch", "online", "ours", "online"]})  # fmt: skip
    assert list(in_order(rows)) == ["NetworkModel", "OSTD", "zebra", "RTR"]


def test_the_same_rows_give_the_same_bytes_in_both_formats(tmp_path: Path) -> None:
    first, second = (
        line_charts(made_up(METHODS[:5]), tmp_path / name, "x", panels=PANELS[:2], x_label="I") for name in "ab"
    )
    assert [path.name for path in first] == ["x.png", "x.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    png, svg = (path.read_bytes() for path in first)
    assert b"Software" not in png
    assert b"<dc:date>" not in svg


def test_diverged_runs_are_counted_once_each() -> None:
    rows = pd.DataFrame({"method": "A", "setting": "", "x": [1, 1, 2, 2, 3], "trial": [0, 1, 0, 0, 0],
                         "status": ["done", "done", "diverged", "diverged", "done"]})  # fmt: skip
    assert diverged(rows) == {"A": (1, 4)}, "two rows of one run"
    assert diverged(rows[rows["status"] == "done"]) == {}


def test_convergence_has_a_panel_per_method_and_a_line_per_minibatch_size(tmp_path: Path, seen: list[Any]) -> None:
    rows = pd.DataFrame([
        {"method": method, "kind": kind, "setting": f"I3 = {size}", "x": size, "minibatch": number, "trial": trial,
         "status": "done", "re": 1 / number + trial}
        for method, kind in (("OLRTR", "online"), ("NetworkModel", "ours"))
        for size in (50, 1, 10) for number in range(1, 6) for trial in range(2)
    ])  # fmt: skip
    lost = {"method": "OLRTR", "kind": "online", "setting": "I3 = 10", "x": 10, "trial": 9, "status": "diverged"}
    written = convergence_chart(pd.concat([rows, pd.DataFrame([lost])]), tmp_path)
    assert [path.name for path in written] == ["convergence.png", "convergence.svg"]
    figure = seen[0]
    assert [axes.get_title() for axes in figure.axes] == ["NetworkModel", "OLRTR"]
    for axes in figure.axes:
        assert [line.get_label() for line in axes.get_lines()] == ["I3 = 1", "I3 = 10", "I3 = 50"]
        assert axes.get_yscale() == "log"
        np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [1 / n + 0.5 for n in range(1, 6)])
    assert "OLRTR (1 of 7 runs)" in words(figure)


@pytest.mark.parametrize("cases", [("uniform-90", "none-90"), tuple(f"kind{n}-90" for n in range(8))])
def test_scores_are_tables_in_colours(tmp_path: Path, seen: list[Any], cases: tuple[str, ...]) -> None:
    rows = made_up(settings=cases)
    rows.loc[rows["setting"] == "none-90", "f1"] = np.nan
    assert len(score_chart(rows, tmp_path, "faults", title="Faults")) == 2
    figure = seen[0]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["F1", "missing", "faulty"]
    for axes in figure.axes:
        assert axes.images[0].get_array().shape == (len(METHODS), len(cases))
        assert [text.get_text().replace("\n", "-") for text in axes.get_xticklabels()] == list(cases)
    mean = rows[(rows["method"] == "OSTD") & (rows["setting"] == cases[0])]["faulty"].mean()
    place = list(in_order(rows)).index("OSTD")
    assert next(text for text in figure.axes[2].texts if text.get_position() == (0, place)).get_text() == f"{mean:.2f}"
    goodness = figure.axes[2].images[0].get_array()
    assert np.nanmax(goodness[:, 0]) == 1
    assert goodness[place, 0] <= 1
    assert f"{LOST} ({2 * len(cases)} of {2 * len(cases)} runs)." in words(figure).replace("\n", " ")


def test_charts_leave_no_trace_in_pyplot(tmp_path: Path) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    line_charts(made_up(METHODS[:2]), tmp_path, "x", panels=PANELS[:1], x_label="I")
    convergence_chart(made_up(METHODS[:2]).assign(minibatch=1), tmp_path)
    assert pyplot.get_fignums() == before
