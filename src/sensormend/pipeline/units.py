"""`described` returns the names and units of variables, from their columns, from NetCDF, or from the user's options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sensormend.pipeline.options import EVERY, Options

__all__ = ["axis_label", "described", "record_of", "unit_of"]


def unit_of(name: str) -> tuple[str, str]:
    """Return the name of a column without its unit, and the unit in brackets at its end.

    Examples
    --------
    >>> unit_of("temp (°C)"), unit_of("Wert [hPa]"), unit_of("PM2.5")
    (('temp', '°C'), ('Wert', 'hPa'), ('PM2.5', ''))
    """
    match = re.fullmatch(r"\s*(.*?\S)\s*[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*", name)
    return (match[1], match[2]) if match else (name.strip(), "")


def described(
    variables: Sequence[str], options: Options, known: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the attributes of variables: `units`, `long_name`, and others of `known`.

    The user's units and names come first, then `known`, from a NetCDF file or from the column of a single variable,
    then units in the names.
    """
    attributes = {}
    for variable in variables:
        name, unit = unit_of(variable)
        merged = {"units": unit, "long_name": name} if unit else {}
        merged |= (known or {}).get(variable, {})
        for key, texts in (("units", options.units), ("long_name", options.names)):
            text = texts.get(variable, texts.get(EVERY, ""))
            merged |= {key: text} if text else {}
        if merged:
            attributes[variable] = merged
    return attributes


def record_of(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return units and names by variable, for run.json and for frames, without empty entries.

    Examples
    --------
    >>> record_of({"temp": {"units": "K"}, "ph": {}})
    {'units': {'temp': 'K'}}
    """
    keys = {"units": "units", "names": "long_name"}
    record = {name: {variable: str(known[key]) for variable, known in attributes.items() if key in known}
            for name, key in keys.items()}  # fmt: skip
    return {name: entry for name, entry in record.items() if entry}


def axis_label(variable: str, record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label and the unit of an axis, from a record of `record_of` or else from the variable's name.

    Examples
    --------
    >>> axis_label("temp (°C)", {}), axis_label("", {"units": {"": "K"}})
    (('temp', '°C'), ('value', 'K'))
    """
    name, unit = unit_of(variable)
    units, names = record.get("units") or {}, record.get("names") or {}
    return str(names.get(variable) or name or "value"), str(units.get(variable) or unit)
