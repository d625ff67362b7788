"""What is said about a reading: QARTOD's codes, the reasons, and their CF attributes."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FAULTS", "MEANINGS", "REASONS", "Flag"]


class Flag(IntEnum):
    """QARTOD's primary flags."""

    GOOD = 1
    NOT_EVALUATED = 2
    SUSPECT = 3
    FAIL = 4
    MISSING = 9


MEANINGS = {
    Flag.GOOD: "good",
    Flag.NOT_EVALUATED: "not_evaluated",
    Flag.SUSPECT: "suspect",
    Flag.FAIL: "fail",
    Flag.MISSING: "missing",
}
"""As CF's `flag_meanings` has them."""

REASONS = (
    "",
    "stuck",
    "noisy",
    "drifting",
    "offset",
    "gain",
    "implausible",
    "spike",
    "fill",
    "duplicate",
    "late",
    "silent",
    "alone",
)
"""Why, in one word; rows count in here. New ones go to the end, since files keep the word but states the number."""

FAULTS = ("stuck", "noisy", "drifting", "offset", "gain", "implausible", "spike", "silent")
"""The reasons that go on the list of what to repair."""
