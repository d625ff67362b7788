"""A model as plain arrays and back, for state files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sensormend.arrays import on_host
from sensormend.auto.memory import Channels, Hood, Model, Pools
from sensormend.auto.network import refresh
from sensormend.auto.scales import Scales
from sensormend.auto.wide.parts import Parts, kept, of_hoods
from sensormend.errors import StateError

__all__ = ["apart", "checked", "pack", "unpack"]

PARTS: dict[str, type] = {"channels": Channels, "pools": Pools, "scales": Scales}


def pack(model: Model) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a model's numbers and its arrays; the arrays are copies."""
    numbers: dict[str, Any] = {
        name: getattr(model, name) for name in ("variables", "slots", "interval", "seed", "core", "halo")
    }
    arrays: dict[str, NDArray[Any]] = {}
    for part in PARTS:
        for field in fields(PARTS[part]):
            value = getattr(getattr(model, part), field.name)
            if isinstance(value, int):
                numbers[f"{part}.{field.name}"] = value
            else:
                arrays[f"{part}.{field.name}"] = np.array(on_host(value))
    hood = model.hood
    # A list, since files of earlier versions have the neighbourhoods of large networks here.
    numbers["hoods"] = [[hood.members.size, hood.core, hood.dictionary.shape[1]]] if hood else []
    for name in ("members", "moments", "dictionary"):
        arrays[f"hoods.{name}"] = np.array(getattr(hood, name)).ravel() if hood else np.empty(0)
    if model.parts is not None:
        arrays |= {f"parts.{name}": np.array(on_host(array)) for name, array in vars(model.parts).items()}
    return numbers, arrays


def unpack(numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    """Make the model again that `pack` took apart; a ValueError where the parts do not fit each other.

    Several neighbourhoods, as earlier versions had them, become those of a large network.
    """
    parts: dict[str, Any] = {}
    for part, kind in PARTS.items():
        values = {}
        for field in fields(kind):
            name = f"{part}.{field.name}"
            if name == "pools.shown" and name not in arrays:
                # Earlier versions did not remember it.
                values[field.name] = np.full((numbers["variables"], 4), np.nan)
                continue
            values[field.name] = arrays[name] if name in arrays else numbers[name]
        parts[part] = kind(**values)
    hoods = []
    at = {"members": 0, "moments": 0, "dictionary": 0}
    for size, core, columns in numbers["hoods"]:
        taken = {}
        for name, count in (("members", size), ("moments", size * size), ("dictionary", size * columns)):
            taken[name] = arrays[f"hoods.{name}"][at[name] : at[name] + count]
            at[name] += count
        members = taken["members"].astype(np.intp)
        hoods.append(
            Hood(
                members,
                core,
                taken["moments"].reshape(size, size),
                taken["dictionary"].reshape(size, columns),
            )
        )
    wide = {field.name: arrays[f"parts.{field.name}"] for field in fields(Parts) if "parts.members" in arrays}
    many = Parts(**wide) if wide else None
    _check(parts, hoods, many, numbers, {name: arrays[f"hoods.{name}"].size - at[name] for name in at})
    rest = {name: numbers[name] for name in ("variables", "slots", "interval", "seed", "core", "halo")}
    hood = None
    if len(hoods) == 1 and np.array_equal(hoods[0].members, np.arange(parts["channels"].days.size)):
        hood = hoods[0]
    elif hoods:
        many = of_hoods(hoods)
    return Model(**parts, hood=hood, parts=many, **rest)


def apart(model: Model) -> list[Model]:
    """Return a model of several variables, as earlier versions had them, as a model of each; arrays are copies."""
    return [_of_variable(model, which) for which in range(model.variables)]


def _of_variable(model: Model, which: int) -> Model:
    mine = model.variable == which
    rows, own = np.flatnonzero(mine), slice(which, which + 1)
    pools = replace(model.pools, trials=model.pools.trials.copy(), stay=model.pools.stay.copy())
    for name in ("products", "pairs", "daily", "ripple", "width", "calibrated", "shown"):
        setattr(pools, name, getattr(model.pools, name)[own].copy())
    scales = Scales(*(getattr(model.scales, field.name)[own].copy() for field in fields(Scales)))
    hood = model.hood
    if hood is not None:
        blank = hood.dictionary[rows][:, :0]
        hood = Hood(np.arange(rows.size), rows.size, hood.moments[np.ix_(rows, rows)].copy(), blank)
        refresh(hood, model.channels.days[rows] > 0)
    parts = None if model.parts is None else kept(model.parts, mine)
    return replace(
        model, channels=model.channels.taken(rows), pools=pools, scales=scales, hood=hood, parts=parts, variables=1
    )


def _check(
    parts: dict[str, Any], hoods: list[Hood], many: Parts | None, numbers: dict[str, Any], left: dict[str, int]
) -> None:
    count, variables, slots = parts["channels"].days.size, numbers["variables"], numbers["slots"]
    wanted = {
        "channels": Channels.new(count, slots),
        "pools": Pools.new(variables, slots),
        "scales": Scales.unknown(variables),
    }
    for part, blank in wanted.items():
        for field in fields(PARTS[part]):
            found, right = (np.shape(getattr(which, field.name)) for which in (parts[part], blank))
            if found != right and field.name != "sample":
                raise ValueError(f"{part}.{field.name} has shape {found}, not {right}")
    placed = sum(hood.core for hood in hoods)
    if many is not None:
        pieces, width = many.members.shape
        right_shapes = {
            "core": (pieces,), "size": (pieces,), "moments": (pieces, width, width),
            "dictionary": (pieces, width, many.dictionary.shape[-1]),
        }  # fmt: skip
        if any(getattr(many, name).shape != shape for name, shape in right_shapes.items()):
            raise ValueError("the parts do not fit each other")
        if pieces and not 0 <= int(many.members.min()) <= int(many.members.max()) < count:
            raise ValueError("the parts do not fit the channels")
        placed += int(many.core.sum())
    if any(left.values()) or placed != count or any(hood.members.max(initial=-1) >= count for hood in hoods):
        raise ValueError("the neighbourhoods do not fit the channels")


@contextmanager
def checked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a broken state runs into to one clear line."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StateError(f"{Path(path).name} is not a whole state of AutoOLRTR: {error}") from None
