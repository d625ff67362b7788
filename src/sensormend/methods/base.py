"""The two protocols that every method keeps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from sensormend.recovery import Recovery

__all__ = ["Method", "OnlineMethod"]


@runtime_checkable
class Method(Protocol):
    """Recovers a whole tensor; online ones walk its last axis, `passes` times."""

    def recover(self, tensor: ArrayLike) -> Recovery:
        """Recover the whole tensor, NaN where nothing was observed."""
        ...


@runtime_checkable
class OnlineMethod(Method, Protocol):
    """Learns from one minibatch after the other, in bounded memory."""

    def update(self, minibatch: ArrayLike, sensors: Sequence[Hashable] | None = None) -> Recovery:
        """Recover one minibatch and learn from it."""
        ...
