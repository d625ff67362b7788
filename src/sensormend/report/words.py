"""How figures and times are said on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sensormend.pipeline.health import PLAIN_REASONS
from sensormend.pipeline.sentences import how_long
from sensormend.readings import DAY, REASONS

__all__ = ["ADVICE", "date", "lasting", "listed", "moment", "reason_words", "span", "spread"]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

ADVICE = {
    "stuck": "Look whether it is frozen, blocked or no longer connected, then restart or replace it.",
    "noisy": "Check the cable, the supply and the mounting; a loose contact looks like this.",
    "drifting": "Clean it and compare it with a reference; then calibrate or replace it.",
    "offset": "Compare it with a reference on the spot: it needs a calibration, or it was moved.",
    "gain": "Check its range and scaling, then calibrate it.",
    "implausible": "Check the wiring and what the logger takes for its unit.",
    "spike": "Single wrong values: check the contact and the transmission if they become more.",
    "silent": "Check the supply and the connection.",
    "gone": "Look whether it is still there; if it was taken away, maintenance.csv says so with removed.",
}
"""What to do about each reason."""


def reason_words(reason: str) -> str:
    """Return a reason as a person says it."""
    return PLAIN_REASONS.get(reason, reason) if reason and reason in (*REASONS, "gone") else "faulty"


def date(time: int, *, year: bool = True) -> str:
    """Return the date of a time.

    Examples
    --------
    >>> date(1_709_251_200_000_000)
    '1 March 2024'
    """
    whole, month, day = str(np.datetime64(time, "us").astype("datetime64[D]")).rsplit("-", 2)
    return f"{int(day)} {MONTHS[int(month) - 1]}{f' {whole}' if year else ''}"


def moment(time: int) -> str:
    """Return a time to the minute.

    Examples
    --------
    >>> moment(1_709_269_200_000_000)
    '1 March 2024, 05:00'
    """
    return f"{date(time)}, {str(np.datetime64(time, 'us').astype('datetime64[m]'))[-5:]}"


def span(start: int, end: int) -> str:
    """Return from when to when; `end` itself is left out.

    Examples
    --------
    >>> span(1_709_251_200_000_000, 1_709_251_200_000_000 + 3 * DAY)
    '1 to 3 March 2024'
    >>> span(1_709_251_200_000_000, 1_709_251_200_000_000 + 5 * 3_600_000_000)
    '1 March 2024, 00:00 to 05:00'
    >>> span(1_709_251_200_000_000 + 3_600_000_000, 1_709_251_200_000_000 + DAY)
    '1 March 2024, 01:00 to 24:00'
    """
    if start % DAY or end % DAY:
        same = start // DAY == (end - 1) // DAY
        # The end of a day is not its beginning.
        clock = moment(end)[-5:] if end % DAY else "24:00"
        return f"{moment(start)} to {clock if same else moment(end)}"
    last = end - DAY
    if last <= start:
        return date(start)
    first, second = date(start).split(" "), date(last).split(" ")
    kept = 1 if first[1:] == second[1:] else 2 if first[2] == second[2] else 3
    return f"{' '.join(first[:kept])} to {' '.join(second)}"


def lasting(slots: int, step: int) -> str:
    """Say how long so many slots are."""
    return how_long(slots * step) if slots else "nothing"


def spread(value: float) -> str:
    """Write a width with the two or three digits that a person reads.

    Examples
    --------
    >>> spread(1.2345), spread(0.0123), spread(1234.5)
    ('1.2', '0.012', '1234')
    >>> spread(7.5e-9)
    '7.5e-09'
    """
    if not math.isfinite(value) or not value:
        return "0" if value == 0 else "unknown"
    if abs(value) < 1e-5:
        return f"{value:.2g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(abs(value))))}f}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """Return words in a row.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most:,} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
