"""Checks for the settings of a method, each with one clear line."""

from __future__ import annotations

import math

import numpy as np

from sensormend.errors import ConfigError

__all__ = ["check_choice", "check_count", "check_positive", "check_seed"]


def check_count(name: str, value: object) -> int:
    """Return a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigError(f"{name} must be a whole number of 1 or more; got {value!r}")
    return int(value)


def check_positive(name: str, value: object) -> float:
    """Return a finite number above 0."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise ConfigError(f"{name} must be a finite number above 0; got {value!r}")
    return float(value)  # type: ignore[arg-type]


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def check_seed(seed: object) -> int:
    """Return a seed; a fresh one for None, so that a model can always be saved and repeated."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a whole number of 0 or more, or None; got {seed!r}")
    return int(seed)
