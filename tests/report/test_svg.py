"""What pictures are made of: paths, ticks, images, and which stretch is shown."""

import struct
import zlib

import numpy as np
import pytest

from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import counted, percent
from sensormend.readings import DAY, HOUR, MINUTE
from sensormend.report.markup import channel_name, concat, enumeration, escape, html_table, span, tag
from sensormend.report.repairs import telling_span
from sensormend.report.svg import Scale, band, line, palette_png, time_ticks, value_ticks

NAN = float("nan")


def points(path: str) -> list[list[tuple[float, float]]]:
    """Follow a path of relative lines."""
    lines: list[list[tuple[float, float]]] = []
    for part in path.replace("z", "").split("M")[1:]:
        first, *steps = part.replace("h0", "").split("l")
        x, y = map(float, first.split())
        run = [(x, y)]
        for step in steps:
            across, down = map(float, step.split())
            x, y = round(x + across, 1), round(y + down, 1)
            run.append((x, y))
        lines.append(run)
    return lines


def test_a_line_has_a_hole_where_nothing_is_known() -> None:
    path = line(np.arange(6.0), np.array([0.0, 1.0, NAN, 5.0, NAN, 7.0]))
    assert points(path) == [[(0, 0), (1, 1)], [(3, 5)], [(5, 7)]]


def test_points_on_a_straight_way_are_left_out_but_never_a_peak() -> None:
    x = np.arange(9.0)
    assert points(line(x, np.array([0, 1, 2, 3, 3, 3, 9, 3, 3.0]))) == [
        [(0, 0), (3, 3), (5, 3), (6, 9), (7, 3), (8, 3)]
    ]
    up_and_down = line(np.zeros(3), np.array([0.0, 5.0, 0.0]))
    assert points(up_and_down) == [[(0, 0), (0, 5), (0, 0)]]


def test_a_path_does_not_run_away_from_its_points() -> None:
    random = np.random.default_rng(0)
    x, y = np.linspace(0, 900, 5000), random.uniform(0, 200, 5000)
    [*_, end] = points(line(x, y))[0]
    assert end == pytest.approx((round(x[-1], 1), round(y[-1], 1)), abs=0.051)


def test_a_band_is_closed() -> None:
    [outline] = points(band(np.array([1.0, 2.0]), np.array([5.0, 5.0]), np.array([1.0, 2.0]), 0.5))
    assert outline[:1] == [(0.5, 5.0)]
    assert set(outline) >= {(2.5, 5), (2.5, 2), (1, 1), (0.5, 1)}


def test_a_scale_turns_values_into_places() -> None:
    scale = Scale(0, 10, 100, 0)
    assert scale.place(2.5) == 75
    assert scale.at(np.array([0.0, 10.0])).tolist() == [100, 0]


@pytest.mark.parametrize(("low", "high"), [(-3, 17), (0.001, 0.0013), (1e6, 1e6 + 1), (-1e-9, 1e-9), (0, 1e12)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    ticks = value_ticks(low, high)
    assert 2 <= len(ticks) <= 11
    assert all(low <= tick <= high for tick in ticks)


@pytest.mark.parametrize("length", [MINUTE, HOUR, 5 * HOUR, DAY, 9 * DAY, 40 * DAY, 365 * DAY, 4000 * DAY])
def test_times_have_a_few_marks(length: int) -> None:
    begin = 19723 * DAY
    ticks = time_ticks(begin, begin + length)
    assert 1 <= len(ticks) <= 9
    assert all(begin <= time < begin + length for time, _ in ticks)
    assert "202" in ticks[0][1]
    assert len({word for _, word in ticks}) == len(ticks)


def test_an_image_has_its_cells_and_its_colours() -> None:
    cells = np.array([[0, 1, 2], [2, 2, 0]])
    png = palette_png(cells, ["#000000", "#ff0000", "#00ff00"])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (3, 2, 8, 3, 0, 0, 0)
    assert chunks[b"PLTE"] == bytes([0, 0, 0, 255, 0, 0, 0, 255, 0])
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 1, 2, 0, 2, 2, 0])


def fault(begin: int, end: int, reason: str = "stuck") -> FaultInterval:
    return FaultInterval("a", "", begin * DAY, end * DAY, reason, 2.0, "")


def test_the_stretch_shown_has_what_went_wrong_and_what_was_before() -> None:
    begin, end = telling_span([fault(50, 60)], 0, 100 * DAY, 28 * DAY)
    assert end - begin == 28 * DAY
    assert begin < 50 * DAY < 60 * DAY < end
    assert telling_span([fault(0, 100)], 0, 100 * DAY, 28 * DAY) == (0, 28 * DAY)
    assert telling_span([fault(9, 10)], 0, 10 * DAY, 28 * DAY) == (0, 10 * DAY)


def test_of_two_stretches_the_one_with_more_reasons_is_shown() -> None:
    faults = [fault(10, 14), fault(60, 62), fault(64, 66, "offset")]
    begin, end = telling_span(faults, 0, 100 * DAY, 20 * DAY)
    assert begin < 60 * DAY < 66 * DAY <= end


def test_text_is_escaped_once_whatever_it_goes_through() -> None:
    cell = concat(["<a>", tag("b", "&")])
    assert html_table(["<h>"], [[cell]]) == (
        "<table><thead><tr><th scope=\"col\">&lt;h&gt;</th></tr></thead><tbody><tr><td data-is=\"&lt;h&gt;\"><div>"
        "&lt;a&gt;<b>&amp;</b></div></td></tr></tbody></table>"
    )  # fmt: skip
    assert tag("p", title='"') == '<p title="&quot;"></p>'
    assert escape("a\ud800\x00b") == "a\ufffd\ufffdb"
    assert "y" * 79 + "…" in channel_name("y" * 100)


def test_spans_and_shares_are_formatted_for_people() -> None:
    day = 19723 * DAY
    assert span(day, day + DAY) == "1 January 2024"
    assert span(day, day + 40 * DAY) == "1 January to 9 February 2024"
    assert span(day - DAY, day + DAY) == "31 December 2023 to 1 January 2024"
    assert span(day + HOUR, day + 3 * DAY) == "1 January 2024, 01:00 to 4 January 2024, 00:00"
    assert [percent(share) for share in (0.0004, 0.015, 0.5, 0.996, 1.0)] == [
        "under 0.1 %", "1.5 %", "50 %", "99.6 %", "100 %",
    ]  # fmt: skip
    assert percent(1, 0) == "0 %"
    assert counted(1, "stretch", "stretches") == "1 stretch"
    assert enumeration([]) == ""
