"""The numbers of the names in readings and rows."""

from __future__ import annotations

import numpy as np
import pytest

from sensormend.readings import NameIndex, Readings, recoded


def test_names_keep_their_numbers() -> None:
    names = NameIndex(["b"])
    assert names.codes(("a", "b"), np.array([1, 0, 1])).tolist() == [0, 1, 0]
    before = names.all
    assert names.codes(("a", "c"), np.array([0])).tolist() == [1]
    # `c` was offered and not used: it is not one of ours.
    assert names.all is before
    assert names.codes(["c", "a"], np.array([0, 0, 1])).tolist() == [2, 2, 1]
    assert names.all == ("b", "a", "c")
    assert (names["a"], names.code("a"), names.code("x")) == (1, 1, -1)
    with pytest.raises(KeyError):
        names["x"]


def test_a_copy_does_not_change_the_index() -> None:
    names = NameIndex(["a"])
    twin = names.copy()
    twin.add(["b", "a"])
    assert twin.all == ("a", "b")
    assert names.all == ("a",)
    assert names.codes(["b", "a"], np.array([1])).tolist() == [0]
    assert "b" not in names


def test_a_table_takes_the_names_of_another() -> None:
    nothing = np.zeros(0, np.int64)
    known = Readings(("a", "b"), ("t", "h"), nothing, nothing, nothing, np.zeros(0))
    table = Readings(("c", "b"), ("h",), np.array([0, 1, 0]), np.array([0, 0, 0]), np.arange(3), np.ones(3))
    renamed = recoded(table, known)
    assert (renamed.sensors, renamed.variables) == (("a", "b", "c"), ("t", "h"))
    assert renamed.sensor.tolist() == [2, 1, 2]
    assert renamed.variable.tolist() == [1, 1, 1]
    assert table.sensors == ("c", "b")
