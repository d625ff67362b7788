"""Bytes and back: every bit of it, and nothing that was not there."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from row_tables import network
from sensormend.errors import StateError
from sensormend.pipeline.health import Health
from sensormend.pipeline.places import Position
from sensormend.readings import NOTHING, Readings, Rows
from sensormend.stream.arrivals import Arrived, Rejected
from sensormend.stream.codec import (
    delivery_from_bytes,
    delivery_to_bytes,
    input_from_bytes,
    input_to_bytes,
    pack,
    readings_from_bytes,
    readings_to_bytes,
    unpack,
)
from sensormend.stream.deliveries import Alert, AlertedChannel, Delivery

TEXT = st.text(max_size=6) | st.text("a\0é\ud800", max_size=4)


@st.composite
def readings(draw: st.DrawFn) -> Readings:
    sensors = tuple(draw(st.lists(TEXT, min_size=1, max_size=6, unique=True)))
    variables = tuple(draw(st.lists(TEXT, min_size=1, max_size=3, unique=True)))
    count = draw(st.integers(0, 12))
    return Readings(
        sensors,
        variables,
        draw(hnp.arrays(np.int32, count, elements=st.integers(0, len(sensors) - 1))),
        draw(hnp.arrays(np.int16, count, elements=st.integers(0, len(variables) - 1))),
        draw(hnp.arrays(np.int64, count)),
        draw(hnp.arrays(np.float64, count)),
    )


def same_readings(one: Readings | Rows, other: Readings | Rows) -> None:
    for name in ("sensor", "variable"):
        for mine in (one, other):
            assert len(set(getattr(mine, f"{name}s"))) == len(getattr(mine, f"{name}s"))
        assert [getattr(one, f"{name}s")[code] for code in getattr(one, name)] == [
            getattr(other, f"{name}s")[code] for code in getattr(other, name)
        ]
    for field in fields(one):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == its.dtype
            assert field.name in ("sensor", "variable") or mine.tobytes() == its.tobytes()
        elif field.name not in ("sensors", "variables"):
            # Only an archive has flags of its owners.
            assert mine == its


@given(readings())
def test_readings_come_back_to_the_bit(given: Readings) -> None:
    back = readings_from_bytes(readings_to_bytes(given))
    same_readings(back, given)
    assert set(back.sensors) == {given.sensors[code] for code in given.sensor}


@given(
    readings(),
    st.lists(st.builds(Rejected, TEXT, TEXT, TEXT), max_size=2),
    st.lists(st.builds(Position, TEXT, st.integers(), st.floats(allow_nan=False), st.floats(-90, 90)), max_size=2),
    st.none() | st.dictionaries(TEXT, st.integers() | st.lists(TEXT), max_size=2),
)
def test_what_arrived_comes_back(
    given: Readings, rejected: list[Rejected], positions: list[Position], mark: Any
) -> None:
    arrived = Arrived(given, 1_700_000_000_000_001, rejected, positions, mark)
    back = input_from_bytes(input_to_bytes(arrived))
    assert isinstance(back, Arrived)
    same_readings(back.readings, given)
    assert (back.received, list(back.rejected), list(back.positions), back.mark) == (
        arrived.received,
        rejected,
        positions,
        mark,
    )
    assert back.empty == arrived.empty


def test_nothing_comes_back_as_nothing() -> None:
    nothing = input_from_bytes(input_to_bytes(Arrived(NOTHING, 5)))
    assert isinstance(nothing, Arrived)
    assert nothing.empty


@pytest.mark.parametrize("variables", [("",), ("pm2.5", "t\0"), ("Temperatur °C",)])
def test_deliveries_come_back(variables: tuple[str, ...]) -> None:
    rows = network(variables=variables)
    health = [Health("s0", variables[0], "faulty", "stuck", 17, None), Health("s1", "", "healthy", "", 3, 4)]
    channels = (AlertedChannel("s0", "t", "stuck", 1, 2.5), AlertedChannel("s1", "", "", 1))
    sentence = "s0 has been stuck since ü"
    alerts = [Alert("s0", "", "healthy", "faulty", "stuck", 1, 2, sentence, "ab", channels, ("- a line",))]
    back = delivery_from_bytes(delivery_to_bytes(Delivery("final", 3, 4, rows, health, alerts)))
    assert (back.kind, back.start, back.end) == ("final", 3, 4)
    assert back.rows is not None
    same_readings(back.rows, rows)
    assert (list(back.health), list(back.alerts)) == (health, alerts)
    few = rows.taken(slice(30, 33))
    one = delivery_from_bytes(delivery_to_bytes(Delivery("late", 3, 4, few)))
    assert one.rows is not None
    assert list(one.rows.sensors) == [rows.sensors[few.sensor[0]]]
    none = delivery_from_bytes(delivery_to_bytes(Delivery("alert", 3, 4, None, (), alerts)))
    assert none.rows is None


def test_no_rows_and_an_empty_table_are_different() -> None:
    back = delivery_from_bytes(delivery_to_bytes(Delivery("final", 3, 4, network().taken(slice(0, 0)))))
    assert back.rows is not None
    assert len(back.rows) == 0


def test_arrays_of_any_shape_and_order() -> None:
    arrays = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10, dtype=np.int16)[::3],
        "flags": np.array([True, False]),
        "none": np.empty((0, 4)),
        "one": np.array(7.5),
    }
    header, back = unpack(pack({"x": [1, None, "é"]}, arrays))
    assert header == {"x": [1, None, "é"]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)
        assert back[name].flags.aligned


@given(st.binary(max_size=40), st.integers(0, 300))
def test_other_bytes_are_a_state_error(noise: bytes, cut: int) -> None:
    whole = pack({"a": 1}, {"b": np.arange(20)})
    for content in (noise, whole[: min(cut, len(whole) - 1)], b"\x02" + whole[1:]):
        with pytest.raises(StateError):
            unpack(content)


def test_many_readings_are_not_written_one_by_one() -> None:
    count = 5000
    names = tuple(f"sensor-{k:05d}" for k in range(20_000))
    codes = np.random.default_rng(0).permutation(len(names))[:count].astype(np.int32)
    arrived = Arrived(Readings(names, ("",), codes, np.zeros(count, np.int16), np.arange(count), np.ones(count)), 1)
    together, one_by_one = [], []
    for _ in range(15):
        start = time.process_time()
        content = input_to_bytes(arrived)
        between = time.process_time()
        json.dumps([(names[code], number, 1.0) for number, code in enumerate(codes.tolist())])
        together.append(between - start)
        one_by_one.append(time.process_time() - between)
    assert len(content) < 40 * count
    # A tenth, on a quiet machine.
    assert min(together) < 0.5 * min(one_by_one)
