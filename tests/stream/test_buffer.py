"""Readings of open periods."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from list_source import readings_in_turn
from sensormend.stream.arrivals import PeriodBuffer


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 2**32 - 1))
def test_the_buffer_has_what_was_added_and_not_dropped(sizes: list[int], seed: int) -> None:
    random, buffer = np.random.default_rng(seed), PeriodBuffer()
    values: list[float] = []
    for size in sizes:
        part = readings_in_turn(size)
        buffer.add(part)
        values += part.value.tolist()
        assert buffer.column("value").tolist() == values
        if random.random() < 0.3 and values:
            chosen = random.random(len(values)) < 0.5
            buffer.keep(chosen)
            values = [value for value, stays in zip(values, chosen, strict=True) if stays]
    twin = PeriodBuffer()
    twin.restore(buffer.state())
    assert twin.column("value").tolist() == values
