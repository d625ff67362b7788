"""Figures out of rows: everything that was measured is drawn, and what was not is said."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sensormend.bench.charts import (
    Panel,
    Rows,
    bar_chart,
    convergence_chart,
    diverged,
    faults_chart,
    frame_of,
    gather,
    growth_chart,
    line_charts,
)
from sensormend.bench.decomposition import decomposition, most_telling
from sensormend.bench.styles import STYLES, in_order, style_of
from sensormend.recovery import Recovery

METHODS = [
    "NetworkModel", "OLRTR", "OLRTR r3", "OLRTR r20", "OLRTR r20 Jacobi", "OLRTR r3 Jacobi",
    "ORLTM (reconstruction)", "StocRPCA", "OSTD", "OLRSC", "GRASTA r5", "GRASTA r20", "GRASTA", "RTR", "RTR 0.75",
    "TRPCA", "rolling median", "buddy check",
]  # fmt: skip
LOST = "OLRTR r20 Jacobi"
PANELS = [
    Panel("re", "RE", log=True),
    Panel("f1", "F1 score", top=1.0),
    Panel("seconds", "computation time (s)", log=True),
]


def made_up(methods: list[str] = METHODS, settings: tuple[Any, ...] = (10, 20, 30), trials: int = 2) -> Rows:
    random = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for method in methods:
        for x in settings:
            for trial in range(trials):
                metrics = {name: float(random.uniform(0.1, 1)) for name in
                           ("re", "f1", "f1_best", "missing", "faulty", "seconds", "peak_mb")}  # fmt: skip
                lost = method == LOST
                if lost:
                    metrics |= dict.fromkeys(metrics, float("nan"))
                status = "diverged" if lost else "done"
                rows.append({"method": method, "setting": f"{x}", "x": x if isinstance(x, int) else 0,
                             "trial": trial, "status": status, **metrics})  # fmt: skip
    return rows


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect figures on their way to the files, which would take longer than all the rest."""
    drawn: list[Any] = []

    def save(figure: Any, folder: Path, name: str) -> list[Path]:
        drawn.append(figure)
        return [Path(folder) / f"{name}.{ending}" for ending in ("png", "svg")]

    for name in (
        "sensormend.bench.charts",
        "sensormend.bench.charts",
        "sensormend.bench.charts",
        "sensormend.bench.decomposition",
    ):
        monkeypatch.setattr(import_module(name), "save_both", save)
    return drawn


def words(figure: Any) -> str:
    """Everything that stands in a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


def looks(line: Any) -> tuple[object, ...]:
    return (
        line.get_color(), line.get_marker(), str(line.get_linestyle()), line.get_linewidth(), line.get_zorder(),
        line.get_markerfacecolor(),
    )  # fmt: skip


def inside(figure: Any) -> bool:
    """Say whether all text lies within the figure and the legend does not cover a panel."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    frame = figure.bbox.padded(2)
    legends = [text for legend in figure.legends for text in (*legend.get_texts(), legend.get_title())]
    for text in [*figure.texts, *legends]:
        box = text.get_window_extent(renderer)
        if not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1):
            return False
    panels = [axes.get_tightbbox(renderer) for axes in figure.axes if axes.get_visible()]
    return not any(legend.get_window_extent(renderer).overlaps(panel) for legend in figure.legends for panel in panels)


def test_every_method_is_drawn_in_every_panel(tmp_path: Path, seen: list[Any]) -> None:
    rows = made_up()
    line_charts(rows, tmp_path, "size", panels=PANELS, x_label="tensor size I", title="Size")
    figure = seen[0]
    assert len(figure.axes) == len(PANELS)
    for axes, panel in zip(figure.axes, PANELS, strict=True):
        drawn = {line.get_label(): line for line in axes.get_lines()}
        assert set(drawn) == set(METHODS)
        assert axes.get_ylabel() == panel.label
        assert axes.get_xlabel() == "tensor size I"
        for method in set(METHODS) - {LOST}:
            own = [row for row in rows if row["method"] == method]
            np.testing.assert_allclose(drawn[method].get_ydata(), gather(frame_of(own), panel.column, "x")["mean"])
        assert np.isnan(drawn[LOST].get_ydata()).all(), "what diverged is a gap"
    assert f"Diverged, not drawn: {LOST} (6 of 6 runs)." in words(figure)
    assert {text.get_text() for text in figure.legends[0].get_texts()} >= set(METHODS)
    assert inside(figure)


def test_a_method_looks_the_same_in_every_figure(tmp_path: Path, seen: list[Any]) -> None:
    line_charts(made_up(), tmp_path, "all", panels=PANELS[:1], x_label="I")
    line_charts(made_up(METHODS[::-3]), tmp_path, "few", panels=PANELS[1:], x_label="I")
    growth_chart([{**row, "days": row["x"]} for row in made_up(["RTR", "OLRTR", "NetworkModel"])], tmp_path)
    styles: dict[str, set[tuple[object, ...]]] = {}
    for figure in seen:
        for axes in figure.axes:
            for line in axes.get_lines():
                styles.setdefault(line.get_label(), set()).add(looks(line))
    assert set(styles) == set(METHODS)
    assert all(len(look) == 1 for look in styles.values())
    assert len({next(iter(look)) for look in styles.values()}) == len(METHODS), "and like no other"


def test_styles_stay_apart_in_grey_and_say_what_kind_a_method_is() -> None:
    seen_in_grey = {(style.kind, style.marker, style.hollow) for style in STYLES.values()}
    assert len(seen_in_grey) == len(STYLES)
    assert style_of("NetworkModel").line["linewidth"] > 1.5 * style_of("RTR").line["linewidth"]
    assert style_of("NetworkModel").line["zorder"] > max(
        style_of(m).line["zorder"] for m in METHODS if m != "NetworkModel"
    )
    lines = {kind: {str(style.line["linestyle"]) for style in STYLES.values() if style.kind == kind}
             for kind in ("online", "batch", "plain")}  # fmt: skip
    assert all(len(styles) == 1 for styles in lines.values())
    assert len({next(iter(styles)) for styles in lines.values()}) == 3


def test_an_unknown_method_gets_a_style_of_its_own_that_stays() -> None:
    assert style_of("Newcomer") == style_of("Newcomer")
    assert style_of("Newcomer") not in STYLES.values()
    assert style_of("NetworkModel of tomorrow").kind == "ours"
    assert in_order(["zebra", "RTR", "OSTD", "NetworkModel", "OSTD"]) == ["NetworkModel", "OSTD", "zebra", "RTR"]


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


def test_means_leave_out_what_failed_and_keep_its_place() -> None:
    rows = [
        {"method": "A", "x": 1, "trial": 0, "status": "done", "re": 1.0},
        {"method": "A", "x": 1, "trial": 1, "status": "done", "re": 3.0},
        {"method": "A", "x": 2, "trial": 0, "status": "diverged", "re": 1e30},
        {"method": "A", "x": 3, "trial": 0, "status": "done", "re": None},
        {"method": "A", "x": 4, "trial": 0, "status": "done", "re": 5.0},
    ]
    line = gather(frame_of(rows), "re", "x")
    np.testing.assert_array_equal(line.index, [1, 2, 3, 4])
    np.testing.assert_array_equal(line["mean"], [2, np.nan, np.nan, 5])
    np.testing.assert_allclose(line["std"], [2**0.5, np.nan, np.nan, np.nan])
    assert diverged(frame_of(rows)) == {"A": (1, 5)}
    assert diverged(frame_of([*rows, {**rows[0], "re": 7.0}])) == {"A": (1, 5)}, "two rows of one run"


def test_points_past_the_edge_are_named(tmp_path: Path, seen: list[Any]) -> None:
    rows = [{"method": method, "x": x, "trial": 0, "re": re} for method, re in (("OSTD", 7.0), ("RTR", 0.1))
            for x in (1, 2)]  # fmt: skip
    line_charts(rows, tmp_path, "edge", panels=[Panel("re", "RE", top=1.0)], x_label="ratio")
    assert "Past the upper edge: OSTD." in words(seen[0])
    assert seen[0].axes[0].get_ylim()[1] < 1.1


def test_four_panels_and_rows_that_say_nothing_can_be_drawn(tmp_path: Path, seen: list[Any]) -> None:
    empty = [{"method": "OSTD", "x": 1, "trial": 0, "status": "done"}]
    panels = [Panel(name, name, log=name == "re") for name in ("re", "f1", "seconds", "peak_mb")]
    line_charts(empty, tmp_path, "nothing", panels=panels, x_label="I")
    assert len(seen[0].axes) == 4


def test_convergence_has_a_panel_per_method_and_a_line_per_minibatch_size(tmp_path: Path, seen: list[Any]) -> None:
    rows = [
        {"method": method, "setting": f"I3 = {size}", "x": size, "minibatch": number, "trial": trial,
         "status": "done", "re": 1 / number + trial}
        for method in ("OLRTR", "NetworkModel") for size in (50, 1, 10) for number in range(1, 6) for trial in range(2)
    ]  # fmt: skip
    rows.append({"method": "OLRTR", "setting": "I3 = 10", "x": 10, "trial": 9, "status": "diverged", "re": 9e9})
    written = convergence_chart(rows, tmp_path)
    assert [path.name for path in written] == ["convergence.png", "convergence.svg"]
    figure = seen[0]
    assert [axes.get_title() for axes in figure.axes] == ["NetworkModel", "OLRTR"]
    for axes in figure.axes:
        assert [line.get_label() for line in axes.get_lines()] == ["I3 = 1", "I3 = 10", "I3 = 50"]
        assert axes.get_yscale() == "log"
        assert len({line.get_linewidth() for line in axes.get_lines()}) == 3
        np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [1 / n + 0.5 for n in range(1, 6)])
    assert "OLRTR (1 of 7 runs)" in words(figure)
    assert inside(figure)


def test_growth_tells_what_one_more_day_costs(tmp_path: Path, seen: list[Any]) -> None:
    rows = [{"method": method, "days": days, "trial": 0, "status": "done", "seconds": 2.0 * days, "peak_mb": 5.0}
            for method in ("RTR", "NetworkModel") for days in (10, 100, 10_000)]  # fmt: skip
    growth_chart(rows, tmp_path, title="Growth")
    total, one_more, memory = seen[0].axes
    at = {line.get_label(): line.get_ydata() for line in one_more.get_lines()}
    np.testing.assert_allclose(at["NetworkModel"], 2.0)
    np.testing.assert_allclose(at["RTR"], [20, 200, 20_000])
    assert (total.get_ylabel(), memory.get_ylabel()) == ("computation time (s)", "peak memory (MB)")
    for axes in seen[0].axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert {text.get_text() for text in seen[0].legends[0].get_texts()} == {"RTR", "NetworkModel"}
    assert inside(seen[0])
    growth_chart([{**row, "peak_mb": None} for row in rows], tmp_path, "short")
    assert len(seen[1].axes) == 2, "without memory, no panel for it"


def test_bars_show_every_method_the_oracle_and_the_paper(tmp_path: Path, seen: list[Any]) -> None:
    rows = made_up(settings=("100 %", "90 %"))
    published = {("RTR", "90 %"): 0.984}
    assert len(bar_chart(rows, tmp_path, published=published, title="NOAA")) == 2
    figure = seen[0]
    f1, missing, faulty = figure.axes
    assert [label.get_text() for label in f1.get_yticklabels()] == in_order(METHODS)
    assert len(f1.patches) == len(missing.patches) == len(faulty.patches) == 2 * len(METHODS)
    own = [row["f1"] for row in rows if row["method"] == "OSTD" and row["setting"] == "90 %"]
    place = in_order(METHODS).index("OSTD")
    widths = {round(bar.get_y() + bar.get_height() / 2, 2): bar.get_width() for bar in f1.patches}
    assert widths[place + 0.18] == pytest.approx(np.mean(own))
    assert any(line.get_marker() == "D" and 0.984 in line.get_xdata() for line in f1.get_lines())
    assert words(figure).count("diverged") == 6
    assert f"Diverged, not drawn: {LOST} (4 of 4 runs)." in words(figure)
    assert "(an oracle)" in words(figure)
    assert inside(figure)


def test_the_worst_method_does_not_squeeze_the_rest(tmp_path: Path, seen: list[Any]) -> None:
    rows = [{**row, "faulty": 1e6 if row["method"] == "OSTD" else 1.0} for row in made_up(settings=("90 %",))]
    bar_chart(rows, tmp_path)
    faulty = seen[0].axes[2]
    assert faulty.get_xlim()[1] < 4
    assert "▸ 1e+06" in words(seen[0])


@pytest.mark.parametrize("cases", [("uniform-90", "none-90"), tuple(f"kind{n}-90" for n in range(8))])
def test_faults_are_a_table_in_colours(tmp_path: Path, seen: list[Any], cases: tuple[str, ...]) -> None:
    rows = [{**row, "f1": None if row["setting"] == "none-90" else row["f1"]} for row in made_up(settings=cases)]
    assert len(faults_chart(rows, tmp_path, title="Faults")) == 2
    figure = seen[0]
    assert len(figure.axes) == 3
    for axes in figure.axes:
        assert axes.images[0].get_array().shape == (len(METHODS), len(cases))
        assert [text.get_text().replace("\n", "-") for text in axes.get_xticklabels()] == list(cases)
    best = max(np.mean([row["f1"] for row in rows if (row["method"], row["setting"]) == (method, cases[0])])
               for method in METHODS if method != LOST)  # fmt: skip
    bold = [text for text in figure.axes[0].texts if text.get_fontweight() == "bold" and text.get_position()[0] == 0]
    assert {text.get_text() for text in bold} == {f"{best:.2f}"}
    assert "div." in words(figure)
    assert f"{LOST} ({2 * len(cases)} of {2 * len(cases)} runs)." in words(figure).replace("\n", " ")


def recovered(days: int = 12) -> tuple[np.ndarray[Any, np.dtype[np.float64]], Recovery]:
    """A network of which someone knows the truth: two sensors lie, late."""
    truth = np.add.outer(np.arange(6.0), np.sin(np.arange(24) / 4))[..., None] + np.arange(days)
    faulty = np.zeros((6, days), dtype=bool)
    faulty[1, 6:8] = faulty[4, 7:9] = True
    outliers = np.where(faulty[:, None, :], 9.0, 0.0) * np.ones_like(truth)
    nothing = np.zeros_like(truth, dtype=bool)
    readings = truth + outliers
    readings[2, 5, 7] = np.nan
    wrong = np.isfinite(readings) & faulty[:, None, :]
    return readings, Recovery(truth, outliers, wrong, nothing, nothing, nothing, truth, None, None, faulty,
                              faulty & False, ~(faulty & False), faulty * 2.0, np.where(faulty, "offset", ""), (),
                              1)  # fmt: skip


def test_the_decomposition_adds_up(tmp_path: Path, seen: list[Any]) -> None:
    readings, recovery = recovered()
    window = most_telling(recovery)
    assert recovery.faulty[:, window].sum() == 4
    written = decomposition(tmp_path, readings=readings, recovery=recovery)
    assert [path.name for path in written] == ["decomposition.png", "decomposition.svg"]
    meshes = [mesh.get_array() for mesh in seen[0].axes[0].collections]
    observed, expected, fibers = meshes[:5], meshes[5:10], meshes[10:]
    assert len(fibers) == 5
    for one, two, three in zip(observed, expected, fibers, strict=True):
        np.testing.assert_allclose(one, two + three)
    assert sum(np.ma.getmaskarray(day).sum() for day in observed) == 1, "the missing reading"
    assert sum(int((day != 0).any(axis=1).sum()) for day in fibers) == 4
    for word in ("observed", "low rank", "outlier fibers", "=", "+", "missing", "sensors", "hours", "days"):
        assert word in words(seen[0])


def test_a_decomposition_of_one_day_of_nothing_can_be_drawn(tmp_path: Path) -> None:
    readings, recovery = recovered(1 + 9)
    flat = Recovery(**{**recovery.__dict__, "expected": np.zeros_like(readings), "outliers": np.zeros_like(readings)})
    decomposition(tmp_path, readings=np.full_like(readings, np.nan), recovery=flat, days=slice(0, 1), unit="")
    assert (tmp_path / "decomposition.svg").stat().st_size > 1000


def test_charts_leave_no_trace_in_pyplot(tmp_path: Path) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    line_charts(made_up(METHODS[:2]), tmp_path, "x", panels=PANELS[:1], x_label="I")
    assert pyplot.get_fignums() == before
    assert isinstance(Figure(), Figure)
    assert to_hex(style_of("NetworkModel").colour) == "#0072b2"
