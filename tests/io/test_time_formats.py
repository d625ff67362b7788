from datetime import UTC, datetime, timedelta, timezone

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.io.time_formats import TimeFormat, time_format, typed_time

MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def microseconds(texts: list[str], written: TimeFormat | None = None, zone: str = "UTC") -> list[int | None]:
    written = written or time_format(texts)
    assert written is not None
    with duckdb.connect() as engine:
        engine.execute(f"SET TimeZone = '{zone}'")
        rows = engine.execute(
            f"SELECT {written.sql('text')} FROM (SELECT unnest(?::VARCHAR[]) AS text)", [texts]
        ).fetchall()
    return [row[0] for row in rows]


def since_1970(moment: datetime) -> int:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(st.lists(st.tuples(MOMENTS, st.none() | OFFSETS), min_size=1), st.sampled_from(["T", " "]), st.booleans())
def test_any_offset_in_any_row_goes_to_utc_and_none_stays_as_it_is(
    rows: list[tuple[datetime, timezone | None]], between: str, whole: bool
) -> None:
    moments = [moment.replace(tzinfo=zone, microsecond=0 if whole else moment.microsecond) for moment, zone in rows]
    assert microseconds([moment.isoformat(between) for moment in moments]) == [since_1970(moment) for moment in moments]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2020-03-29T01:30:00Z", "2020-03-29 01:30"),
        ("2020-03-29 03:30:00 +0200", "2020-03-29 01:30"),
        ("2020-03-29T03:30+02", "2020-03-29 01:30"),
        ("2020-03-28T23:30-02", "2020-03-29 01:30"),
        ("2020-03-29 02:30:00 Europe/Berlin", "2020-03-29 01:30"),
        ("2020-03-29 01:30:00 UTC", "2020-03-29 01:30"),
        ("2020-03-29T01:30:00,000", "2020-03-29 01:30"),
        ("  2020-03-29 01:30  ", "2020-03-29 01:30"),
        ("2020/3/29 1:30", "2020-03-29 01:30"),
        ("2020-03-29T02", "2020-03-29 02:00"),
        ("2020-03-29T02Z", "2020-03-29 02:00"),
        ("2020-03-29 1:30 AM", "2020-03-29 01:30"),
        ("2020/3/29 1:30:00pm", "2020-03-29 13:30"),
        ("2020-03-29", "2020-03-29 00:00"),
        ("20200329", "2020-03-29 00:00"),
        ("2020032901", "2020-03-29 01:00"),
        ("20200329 01:30", "2020-03-29 01:30"),
        ("20200329 01:30:00", "2020-03-29 01:30"),
        ("202003290130", "2020-03-29 01:30"),
        ("20200329013000", "2020-03-29 01:30"),
        ("20200329T013000Z", "2020-03-29 01:30"),
        ("29.3.2020 01:30", "2020-03-29 01:30"),
        ("29.03.2020", "2020-03-29 00:00"),
        ("29.03.20 01:30:00", "2020-03-29 01:30"),
        ("29-Mar-2020 01:30", "2020-03-29 01:30"),
        ("29 mar 2020 01:30:00", "2020-03-29 01:30"),
        ("1585445400", "2020-03-29 01:30"),
        ("1585445400.0", "2020-03-29 01:30"),
        ("1585445400000", "2020-03-29 01:30"),
        ("1585445400000000", "2020-03-29 01:30"),
        ("1585445400000000999", "2020-03-29 01:30"),
    ],
)
def test_ways_to_write_a_time(text: str, same: str) -> None:
    for zone in ("UTC",):
        assert microseconds([text], zone=zone) == [since_1970(datetime.fromisoformat(same))]


@pytest.mark.parametrize(
    "text", ["2020-02-30", "2020-01-01 25:00", "soon", "2020-13-01 00:00:00", "2020-01-01 3:04:05 PM"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert microseconds([text], TimeFormat("iso")) == [None]


@pytest.mark.parametrize(
    "texts", [["a", "b"], ["1", "2", "3"], ["12.5"], ["2020"], [], ["12:30"], ["2020-01-01", "x", "y"], ["-9999"]]
)
def test_texts_that_are_no_times(texts: list[str]) -> None:
    assert time_format(texts) is None


def test_slashes_stay_open_until_it_is_known_what_comes_first() -> None:
    written = time_format(["01/02/2020 03:04", "01/02/2020 03:05 "])
    assert written is not None
    assert (written.name, written.mark) == ("ambiguous", "/")
    texts = ["01/02/2020 03:04", "01/02/2020 03:04:05", "01/02/2020", "2020-01-02", ""]
    day, month = since_1970(datetime(2020, 2, 1, 3, 4)), since_1970(datetime(2020, 1, 2, 3, 4))
    midnight = since_1970(datetime(2020, 2, 1))
    assert microseconds(texts, written.with_order(day_first=True)) == [day, day + 5_000_000, midnight, None, None]
    assert microseconds(texts, written.with_order(day_first=False))[0] == month


def test_twelve_hours() -> None:
    written = time_format(["12/31/2020 12:30 AM", "1/2/2020 12:30 pm"])
    assert written is not None
    times = microseconds(["12/31/2020 12:30 AM", "1/2/2020 12:30 pm"], written.with_order(day_first=False))
    assert times == [since_1970(datetime(2020, 12, 31, 0, 30)), since_1970(datetime(2020, 1, 2, 12, 30))]


def test_numbers_are_epochs_or_dates_by_their_size() -> None:
    assert typed_time(1.6e9) == TimeFormat("epoch", scale=1_000_000)
    assert typed_time(1.6e12) == TimeFormat("epoch", scale=1_000)
    assert typed_time(1.6e18) == TimeFormat("epoch", scale=0)
    assert typed_time(20200329) == TimeFormat("strptime", ("%Y%m%d",))
    assert typed_time(17.0) is None


@given(st.lists(st.integers(100_000_000_000, 9_000_000_000_000), min_size=1))
def test_milliseconds_are_exact(numbers: list[int]) -> None:
    assert microseconds([str(number) for number in numbers], TimeFormat("epoch", scale=1000)) == [
        number * 1000 for number in numbers
    ]
