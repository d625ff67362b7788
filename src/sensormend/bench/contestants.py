"""The methods that the benches compare, with the settings that their authors gave them."""

from __future__ import annotations

from collections.abc import Callable

from sensormend.errors import ConfigError
from sensormend.methods.auto import AutoOLRTR
from sensormend.methods.base import Method
from sensormend.methods.olrtr import OLRTR
from sensormend.methods.rtr import RTR

__all__ = ["CONTESTANTS", "auto", "chosen"]


def auto(seed: int = 0, *, large: bool = False) -> AutoOLRTR:
    """Make an AutoOLRTR; `large` forces the path that it takes by itself in large networks only."""
    if not large:
        return AutoOLRTR(seed=seed)

    class LargePath(AutoOLRTR):
        # Small enough that 37 sensors make several neighbourhoods, each of which sees no more than 28 of them.
        _neighbourhood = (12, 16)

    return LargePath(seed=seed)


CONTESTANTS: dict[str, Callable[[int], Method]] = {
    "AutoOLRTR": auto,
    "AutoOLRTR large path": lambda seed: auto(seed, large=True),
    # Rank 3 is what the authors' code runs, rank 20 what their paper says.
    "OLRTR r3": lambda seed: OLRTR(3, 330, tol=1e-3, max_iter=10, seed=seed),
    "OLRTR r20": lambda seed: OLRTR(20, 70, seed=seed),
    "RTR": lambda seed: RTR(),
}


def chosen(names: str) -> list[str]:
    """Return the contestants that a comma-separated list names; `OLRTR` stands for both of its settings."""
    found: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        matches = [known for known in CONTESTANTS if known == name or known.startswith(f"{name} r")]
        if not matches:
            raise ConfigError(f"no method {name!r}; known: {', '.join(CONTESTANTS)}")
        found += [known for known in matches if known not in found]
    return found
