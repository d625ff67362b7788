"""Making the parts of a large network, and keeping them when sensors join or go; see `founding`."""

from __future__ import annotations

import numpy as np

from sensormend.arrays import Array, as_like, is_tensor, namespace, on_host
from sensormend.auto.memory import SKETCH, Model
from sensormend.auto.wide import parts as cutting
from sensormend.auto.wide.learning import turn
from sensormend.auto.wide.parts import Parts, visits
from sensormend.auto.wide.sight import Common, forward
from sensormend.auto.wide.tools import alike, single

__all__ = ["PRECISE", "drop", "due", "found", "move", "refound"]

REFOUND = 7
"""Periods after which a large network is cut anew, once: its sensors are better known then, and a first day may have
been short. A later cut loses more than it gains, as pairs that never met are known by their likeness alone."""

PRECISE = 20_000
"""Channels up to which all is computed in double precision: single precision makes a period a third faster and takes
half of the memory, and lets rounding decide now and then who is whose neighbour."""


def move(model: Model, readings: Array, channels: int) -> None:
    """Bring what a model remembers to where the readings are, and to the precision for so many channels."""
    mean = model.channels.mean
    same_place = is_tensor(mean) == is_tensor(readings) and getattr(mean, "device", None) == getattr(
        readings, "device", None
    )
    if model.parts is None and model.hood is not None:
        model.parts, model.hood = cutting.of_hoods([model.hood]), None
        same_place = False
    rough = channels > PRECISE
    if not (same_place and rough == str(mean.dtype).endswith("float32")):
        model.channels = model.channels.moved(readings, single=rough)
        if model.parts is not None:
            arrays = {name: as_like(on_host(array), readings) for name, array in vars(model.parts).items()}
            model.parts = Parts(**arrays)
    _in_precision(model)


def _in_precision(model: Model) -> None:
    """Keep moments and dictionaries in the precision of the channels."""
    parts, mean = model.parts, model.channels.mean
    if parts is not None:
        parts.moments, parts.dictionary = alike(parts.moments, mean), alike(parts.dictionary, mean)


def found(model: Model, readings: Array) -> None:
    """Make or mend the parts so that every channel has one before a period, (channel, slot), goes through."""
    count = len(model.channels.days)
    parts = model.parts
    if parts is None:
        model.parts = cutting.cut(_profiles(model, readings), model.core, model.halo)
        _in_precision(model)
        return
    xp = namespace(parts.core)
    placed = int(xp.sum(parts.core))
    if count == placed:
        return
    if placed <= model.core + model.halo:
        known = as_like(np.arange(count) < placed, readings)
        model.parts = cutting.recut(parts, _profiles(model, readings), known, model.core, model.halo)
    else:
        newcomers = as_like(np.arange(placed, count), readings)
        model.parts = cutting.joined(parts, newcomers, _profiles(model, readings), model.core, model.halo)
    _in_precision(model)
    _find_patterns(model)


def due(model: Model) -> bool:
    """Say whether the next period begins with cutting the network anew."""
    return model.pools.period == REFOUND and model.parts is not None


def refound(model: Model) -> None:
    """Cut the network anew when its sensors are better known; whoever joins just now is placed by `found`."""
    if due(model):
        assert model.parts is not None
        placed, channels = int(namespace(model.parts.core).sum(model.parts.core)), model.channels
        sketch, known = channels.sketch[:placed], channels.days[:placed] > 0
        model.parts = cutting.recut(model.parts, sketch, known, model.core, model.halo)
        _in_precision(model)
        _find_patterns(model)


def _find_patterns(model: Model) -> None:
    """Look for the patterns of parts that were cut just now; without any they would not know each other for a day."""
    parts = model.parts
    assert parts is not None
    xp, count = namespace(parts.moments), parts.members.shape[0]
    if bool(xp.any(xp.any((parts.dictionary != 0).reshape(count, -1), axis=1))):
        return
    for which in visits(parts):
        turn(model, parts, which, parts.moments[which])


def drop(model: Model, kept: Array) -> None:
    """Forget channels for good."""
    assert model.parts is not None
    stays = as_like(kept, model.channels.days)
    model.parts = cutting.kept(model.parts, stays)
    model.channels = model.channels.taken(as_like(np.flatnonzero(kept), model.channels.days))


def _profiles(model: Model, readings: Array) -> Array:
    """Describe channels by what of their first period is not common to all, in few numbers."""
    xp = namespace(readings)
    variable = None if model.variables == 1 else as_like(model.variable, readings)
    scaled = forward(readings, Common.of(model), variable)
    seen = xp.isfinite(scaled)
    filled = xp.where(seen, scaled, 0.0)
    common = xp.sum(filled, axis=0) / xp.clip(xp.sum(seen, axis=0, dtype=xp.float32), 1.0, None)
    centred = xp.where(seen, xp.clip(filled - common, -8.0, 8.0), 0.0)
    # On the host, so that the axes are the same wherever the readings are.
    _, vectors = np.linalg.eigh(on_host(centred.mT @ centred).astype(float))
    return single(centred @ alike(as_like(vectors[:, -SKETCH:], readings), centred))
