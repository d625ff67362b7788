"""The text of the report, and which span of a sensor it shows."""

from sensormend.pipeline.faults import FaultInterval
from sensormend.pipeline.sentences import counted, percent
from sensormend.readings import DAY, HOUR
from sensormend.report.embedded import telling_span
from sensormend.report.markup import channel_name, concat, escape, html_table, span, tag


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
        "<table class=\"listing\"><thead><tr><th scope=\"col\">&lt;h&gt;</th></tr></thead><tbody><tr>"
        "<td data-is=\"&lt;h&gt;\"><div>&lt;a&gt;<b>&amp;</b></div></td></tr></tbody></table>"
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
