"""How it goes, for whoever looks on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Status"]


@dataclass(frozen=True)
class Status:
    """What a service has seen so far; `reached` is the time of the network, None before the first reading."""

    sensors: int
    readings: int
    rejected: int
    late: int
    periods: int
    reached: int | None
    faulty: int
    silent: int
    gone: int = 0
