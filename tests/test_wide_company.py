"""What members of parts say about each other, beside the exact answers of the small engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from networks import Floats
from sensormend.arrays import Array, namespace, on_host
from sensormend.auto.conditioning import Conditioned, bridge, condition
from sensormend.auto.memory import Hood, Model
from sensormend.auto.network import Outlook
from sensormend.auto.stack import Stack
from sensormend.auto.wide.company import Company, View, _precision, left_open, look, meet, relook, set_aside
from sensormend.auto.wide.kin import relate
from sensormend.auto.wide.parts import of_hoods
from tensors import KINDS, Put

SEEDS = st.integers(0, 2**32 - 1)
Bools = NDArray[np.bool_]
NEAR = 2e-4
"""Single precision, in units of a member's spread."""


@pytest.fixture(scope="module", params=KINDS)
def put(request: pytest.FixtureRequest) -> Put:
    return Put(request.param)


@dataclass
class Drawn:
    """Parts of several sizes padded to one, (part, member, ...), their covariance and a day of them."""

    covariance: Floats
    deviation: Floats
    real: Bools
    unit: Floats

    @classmethod
    def of(cls, seed: int, parts: int = 3, width: int = 12, slots: int = 10) -> Drawn:
        random = np.random.default_rng(seed)
        factors = random.normal(size=(parts, width, 3))
        covariance = factors @ factors.transpose(0, 2, 1)
        covariance += random.uniform(0.3, 1, (parts, width, 1)) * np.eye(width)
        real = np.arange(width) < random.integers(max(3, width // 2), width + 1, (parts, 1))
        unit = 10 ** random.uniform(-1, 1, (parts, width)) * real
        covariance *= unit[:, :, None] * unit[:, None, :]
        covariance += 1e-12 * ~real[:, :, None] * np.eye(width)
        deviation = random.normal(size=(parts, width, slots)) * unit[..., None]
        return cls(covariance, deviation.astype(np.float32).astype(float), real, np.where(real, unit, 1.0))

    def trusted(self, seed: int, gaps: int, absent: int = 1) -> Bools:
        """Trust all but `absent` members of each part, and in each slot at most so many of the others."""
        random = np.random.default_rng(seed)
        there = np.repeat(self.real[..., None], self.deviation.shape[2], axis=2)
        for part in range(len(there)):
            there[part, random.permutation(int(self.real[part].sum()))[:absent]] = False
            present = np.flatnonzero(there[part].any(axis=1))
            for slot in range(there.shape[2]):
                there[part, random.permutation(present)[: random.integers(0, gaps + 1)], slot] = False
        return there

    def company(self, put: Put, absent: Bools | None = None) -> Company:
        spread = np.sqrt(self.covariance.diagonal(axis1=1, axis2=2))
        left_out = put(~self.real if absent is None else absent)
        covariance, spread = put(self.covariance), put(spread)
        return Company(covariance, spread, left_out, left_out, _precision(covariance, spread, left_out))

    def exact(self, trusted: Bools) -> Conditioned:
        return condition(self.covariance, self.deviation, trusted, self.real)

    def close(self, found: Array, wanted: Floats, where: Bools | None = None, near: float = NEAR) -> None:
        """Compare what is said of members who are more than padding."""
        off = np.abs(on_host(found) - wanted) / self.unit[..., None]
        rows = np.broadcast_to(self.real[..., None], off.shape) & (True if where is None else where)
        assert off[rows].max(initial=0.0) < near


def few(trusted: Bools, gaps: int) -> Bools:
    """Say in which slots at most so many of those who were there at all are missing."""
    missing = trusted.any(axis=2, keepdims=True) & ~trusted
    return np.asarray(missing.sum(axis=1, keepdims=True) <= gaps)


@given(SEEDS, st.sampled_from([0, 1, 2]), st.sampled_from([0, 2]))
def test_a_look_with_few_gaps_is_exact(put: Put, seed: int, gaps: int, absent: int) -> None:
    drawn = Drawn.of(seed)
    trusted = drawn.trusted(seed, gaps, absent)
    found, wanted = look(drawn.company(put), None, put(drawn.deviation), put(trusted)), drawn.exact(trusted)
    drawn.close(found.completed, wanted.completed)
    # What several gaps have in common is left out of how sure the others are.
    drawn.close(found.expected, wanted.expected, few(trusted, 1))
    np.testing.assert_array_equal(on_host(found.absent), ~trusted.any(axis=2))
    seen = trusted.any(axis=2, keepdims=True) & few(trusted, 1)
    variance = 1 / on_host(found.sharpness)
    drawn.close(variance / drawn.unit[..., None], wanted.variance() / drawn.unit[..., None], seen)
    drawn.close(found.precision, wanted.precision * 1.0, near=1e-2 * float(np.abs(wanted.precision).max()))


@given(SEEDS, st.sampled_from([4, 12, 20]))
def test_a_look_with_many_gaps_is_near(put: Put, seed: int, gaps: int) -> None:
    drawn = Drawn.of(seed, width=40, slots=24)
    trusted = drawn.trusted(seed, gaps)
    found, wanted = look(drawn.company(put), None, put(drawn.deviation), put(trusted)), drawn.exact(trusted)
    bridge(wanted.expected, trusted)
    off = (on_host(found.completed) - wanted.completed) / drawn.unit[..., None]
    assert np.sqrt(np.mean(off[~trusted & drawn.real[..., None]] ** 2)) < 0.05
    # Residuals keep their direction; how large they are rests on each gap for itself.
    off, residual = on_host(found.expected) - wanted.expected, drawn.deviation - wanted.expected
    assert np.abs(off[trusted]).mean() < 0.1 * np.abs(residual[trusted]).mean()


def test_slots_in_which_nobody_reads_are_led_across(put: Put) -> None:
    drawn = Drawn.of(3)
    trusted = drawn.trusted(3, 0)
    trusted[0, :, 3:6] = trusted[1, :, :2] = trusted[2, :, 8:] = False
    found, wanted = look(drawn.company(put), None, put(drawn.deviation), put(trusted)), drawn.exact(trusted)
    bridge(wanted.expected, trusted)
    drawn.close(found.expected, wanted.expected)
    assert np.abs(wanted.expected[0, :, 3:6]).max() > 0.1


def test_nobody_is_there(put: Put) -> None:
    drawn = Drawn.of(4)
    trusted = drawn.trusted(4, 0)
    trusted[1] = False
    company = drawn.company(put)
    found, wanted = look(company, None, put(drawn.deviation), put(trusted)), drawn.exact(trusted)
    drawn.close(found.expected, wanted.expected)
    assert not on_host(found.precision)[1].any()
    wide = drawn.covariance[1].diagonal()
    np.testing.assert_allclose(on_host(left_open(company, found))[1][drawn.real[1]], wide[drawn.real[1]], rtol=1e-5)


@given(SEEDS, st.booleans())
def test_some_parts_are_looked_at_as_all_are(put: Put, seed: int, before: bool) -> None:
    """Whether the absent were left out of the inverse or are taken out of it, the answer is the same."""
    drawn = Drawn.of(seed)
    trusted = drawn.trusted(seed, 1, absent=3)
    whole = look(drawn.company(put), None, put(drawn.deviation), put(trusted))
    company = drawn.company(put, np.asarray(~trusted.any(axis=2)) if before else None)
    which = np.array([2, 0])
    part = look(company, put(which), put(drawn.deviation[which]), put(trusted[which]))
    for name in ("expected", "completed"):
        off = (on_host(getattr(part, name)) - on_host(getattr(whole, name))[which]) / drawn.unit[which][..., None]
        assert np.abs(off[drawn.real[which]]).max() < NEAR


def copied(view: View) -> View:
    return View(**{name: namespace(array).asarray(array, copy=True) for name, array in vars(view).items()})


@given(SEEDS, st.sampled_from([0, 1]))
def test_setting_one_aside_is_a_look_without_it(put: Put, seed: int, gaps: int) -> None:
    drawn = Drawn.of(seed)
    trusted = drawn.trusted(seed, gaps)
    company = drawn.company(put)
    view = look(company, None, put(drawn.deviation), put(trusted))
    fewer = trusted.copy()
    which, member = np.array([0, 2]), np.array([int(np.flatnonzero(trusted[part].any(axis=1))[0]) for part in (0, 2)])
    fewer[which, member] = False
    set_aside(company, view, put(which), put(member))
    anew = look(company, None, put(drawn.deviation), put(fewer))
    np.testing.assert_array_equal(on_host(view.absent), on_host(anew.absent))
    for name in ("expected", "completed"):
        drawn.close(getattr(view, name), on_host(getattr(anew, name)).astype(float), few(fewer, 1))
    wanted = drawn.exact(fewer)
    drawn.close(view.completed, wanted.completed, few(fewer, 1))


@given(SEEDS)
def test_looking_at_slots_again_is_looking_at_all(put: Put, seed: int) -> None:
    drawn = Drawn.of(seed)
    trusted = drawn.trusted(seed, 1)
    company = drawn.company(put)
    view = look(company, None, put(drawn.deviation), put(trusted))
    untouched = copied(view)
    fewer = trusted.copy()
    part, slot = np.array([0, 0, 2]), np.array([4, 7, 1])
    for home, column in zip(part, slot, strict=True):
        fewer[home, np.flatnonzero(fewer[home, :, column])[0], column] = False
    relook(company, view, put(drawn.deviation), put(fewer), put(part), put(slot))
    anew = look(company, None, put(drawn.deviation), put(fewer))
    for name in ("expected", "completed"):
        drawn.close(getattr(view, name), on_host(getattr(anew, name)).astype(float))
    elsewhere = np.ones((3, 10), dtype=bool)
    elsewhere[part, slot] = False
    rest = np.broadcast_to(elsewhere[:, None, :], trusted.shape)
    np.testing.assert_array_equal(on_host(view.expected)[rest], on_host(untouched.expected)[rest])


@given(SEEDS, st.sampled_from([1, 2, 5, 9]))
def test_what_is_left_open_of_the_absent(put: Put, seed: int, absent: int) -> None:
    drawn = Drawn.of(seed, width=20)
    trusted = drawn.trusted(seed, 0, absent)
    company = drawn.company(put)
    view = look(company, None, put(drawn.deviation), put(trusted))
    found = on_host(left_open(company, view))
    wanted = drawn.exact(trusted).variance()[..., 0]
    gone = drawn.real & ~trusted.any(axis=2)
    np.testing.assert_allclose((found / drawn.unit**2)[gone], (wanted / drawn.unit**2)[gone], rtol=1e-3, atol=1e-4)
    assert not found[trusted.any(axis=2)].any()


def hoods(seed: int, days: Floats) -> list[Hood]:
    """Two neighbourhoods that have learned something, whose members are so many days old."""
    random = np.random.default_rng(seed)
    found, first = [], 0
    for size, old in zip((9, 6), np.split(days, [9]), strict=True):
        courses = random.normal(size=(size, 3)) @ random.normal(size=(3, 200)) + random.normal(size=(size, 200))
        courses[old == 0] = 0.0
        moments = (courses @ courses.T / 200).astype(np.float32)
        unit = np.sqrt(np.maximum(moments.diagonal(), 1e-24))
        _, vectors = np.linalg.eigh(moments / unit[:, None] / unit)
        dictionary = np.where((old > 0)[:, None], vectors, 0.0).astype(np.float32)
        found.append(Hood(np.arange(first, first + size), size, moments, dictionary))
        first += size
    return found


@given(SEEDS, st.integers(0, 3), st.integers(0, 6), st.sampled_from([0.0, 0.2]))
def test_the_covariance_is_that_of_the_small_engine(put: Put, seed: int, rank: int, rung: int, new: float) -> None:
    """The same moments, patterns, newcomers and young ones make the same covariance, and the same inverse."""
    random = np.random.default_rng(seed)
    days = random.choice([3.0, 40.0, 60.0], 15)
    days[random.random(15) < new] = 0.0
    days[[0, 1, 9, 10]] = 60.0
    drawn = hoods(seed, days)
    stack = Stack.of(drawn)
    old = np.zeros(stack.real.shape)
    old[stack.real] = days[np.concatenate([one.members for one in drawn])]
    wanted = Outlook.of(stack, old).covariance(rank, rung)
    parts: Any = of_hoods(drawn)
    for name, array in vars(parts).items():
        setattr(parts, name, put(array))
    model = Model.new(1, 24, 0.9, 0, (40, 24))
    model.channels = model.channels.grown(15).moved(put(days), single=put.dtype == np.float32)
    model.pools.rank, model.pools.shrinkage = rank, rung
    company = meet(relate(model, parts, slice(0, 2), put(stack.real), put(old)), put(~stack.real))
    found = on_host(company.covariance)
    for index, hood in enumerate(drawn):
        size = hood.members.size
        unit = np.sqrt(wanted[index].diagonal()[:size])
        scaled = unit[:, None] * unit
        np.testing.assert_allclose(found[index, :size, :size] / scaled, wanted[index, :size, :size] / scaled, atol=2e-3)
