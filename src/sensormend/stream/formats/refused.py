"""Why something that came is no reading: a few fixed phrases, since they are counted by them."""

from __future__ import annotations

__all__ = [
    "BAD_NAME",
    "NOT_A_NUMBER",
    "NOT_A_READING",
    "NOT_A_TIME",
    "NOT_JSON",
    "NOT_UTF8",
    "NO_READING",
    "NO_SENSOR",
    "OUT_OF_TIME",
    "REASONS",
    "RETAINED_OLD",
    "RETAINED_TIMELESS",
    "TOO_DEEP",
    "TOO_LARGE",
    "TOO_MANY_NAMES",
    "UNKNOWN_SENML",
    "UNREADABLE",
    "Refused",
]

NOT_UTF8 = "not UTF-8"
NOT_JSON = "neither JSON nor a number"
TOO_DEEP = "nested too deep"
TOO_LARGE = "too large"
NOT_A_READING = "not an object"
NO_READING = "no reading in it"
NO_SENSOR = "no sensor"
NOT_A_TIME = "not a time"
OUT_OF_TIME = "a time before 1678 or after 2261"
NOT_A_NUMBER = "not a number"
BAD_NAME = "a name that is too long or has control characters"
TOO_MANY_NAMES = "more names than there can be sensors"
UNKNOWN_SENML = "SenML of a later version"
RETAINED_OLD = "retained and old"
RETAINED_TIMELESS = "retained and without a time"
UNREADABLE = "a file that cannot be read"

REASONS = (
    NOT_UTF8, NOT_JSON, TOO_DEEP, TOO_LARGE, NOT_A_READING, NO_READING, NO_SENSOR, NOT_A_TIME, OUT_OF_TIME,
    NOT_A_NUMBER, BAD_NAME, TOO_MANY_NAMES, UNKNOWN_SENML, RETAINED_OLD, RETAINED_TIMELESS, UNREADABLE,
)  # fmt: skip
"""All of them; files have those of `sensormend.io.loading` too."""


class Refused(Exception):  # noqa: N818
    """No reading; `reason` says why. It does not leave the room: what is refused is counted, not raised."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
