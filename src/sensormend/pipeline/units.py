"""`described` returns the names and units of variables: of options, NetCDF, columns, or by their names and readings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sensormend.pipeline.options import EVERY, Options

__all__ = [
    "UsualRange",
    "axis_label",
    "collect_units",
    "described",
    "likely_unit",
    "sent",
    "spelled",
    "split_unit",
    "without_unit",
]


@dataclass(frozen=True)
class UsualRange:
    """What a variable usually reads.

    Attributes
    ----------
    low, middle, high
        The quantiles .01, .5 and .99 of its readings.
    days
        The days from its first reading to its last.
    turns
        Whether it is a direction in degrees.
    """

    low: float
    middle: float
    high: float
    days: float
    turns: bool = False


IN_NAMES = (
    (r"(deg[ _.-]?c|celsius|centigrade)", "°C"),
    (r"(deg[ _.-]?f|fahrenheit)", "°F"),
    (r"kelvin", "K"),
    (r"(hpa|mbar|kpa|ppm|ppb|ntu|fnu)", ""),
    (r"(pct|percent)", "%"),
    (r"(mgl|mg_l)", "mg/L"),
    (r"(ugm3|ug_m3)", "µg/m³"),
    (r"(us_cm|uscm)", "µS/cm"),
)
"""The endings of names that give the unit, in lower case and after a separator; empty if the ending is the unit."""

_SPELLED = {"hpa": "hPa", "kpa": "kPa", "ntu": "NTU", "fnu": "FNU"}
_IN_NAMES = tuple((re.compile(rf"(.*)[ _.-]{end}"), unit) for end, unit in IN_NAMES)
_SPELLINGS = {
    **dict.fromkeys(("c", "cel", "degc", "celsius", "degreecelsius", "degreescelsius"), "°C"),
    **dict.fromkeys(("f", "[degf]", "degf", "fahrenheit", "degreefahrenheit", "degreesfahrenheit"), "°F"),
    **dict.fromkeys(("ug/m3", "μg/m3", "µg/m3", "µg/m³", "ugm-3"), "µg/m³"),
    **dict.fromkeys(("us/cm", "μs/cm"), "µS/cm"),
    **dict.fromkeys(("%rh", "percent", "pct"), "%"),
    "hpa": "hPa",
}
"""Spellings of units in messages, lower case and without spaces, points and degree signs."""

_TEMPERATURE = re.compile(r"(\w+[ _.-])?(temp|temperature|tair|airtemp|dew ?p(t|oint)?)\d*|t(air|water|soil)")
_PRESSURE = re.compile(r"((air|atm\w*|baro\w*)[ _.-]?)?pres(s|sure)?|baro\w*|slp")
_HUMIDITY = re.compile(r"rh\d*|rel\w*[ _.-]?hum\w*|hum(idity)?")
_PARTICLES = re.compile(r"pm[ _]?(1|2[._,]?5|4|10)")


def likely_unit(variable: str, usual: UsualRange | None = None) -> str:
    """Return the unit that follows from a variable's name and readings; empty where it could be another one.

    Temperatures need a year: in degrees Fahrenheit the same numbers would be those of an ice cap. A river's 68 is left.

    Examples
    --------
    >>> year = UsualRange(-7.2, 14.4, 34.2, 729)
    >>> likely_unit("TEMP", year), likely_unit("temp", UsualRange(60, 68, 75, 400)), likely_unit("temp_degF")
    ('°C', '', '°F')
    >>> likely_unit("PRES", UsualRange(990, 1010, 1031, 20)), likely_unit("pressure", UsualRange(11, 14, 17, 900))
    ('hPa', '')
    >>> likely_unit("RH", UsualRange(20, 67, 100, 9)), likely_unit("RH", UsualRange(0.2, 0.67, 1, 9))
    ('%', '')
    >>> likely_unit("PM2.5")
    'µg/m³'
    """
    name = variable.strip().lower()
    for pattern, unit in _IN_NAMES:
        if match := pattern.fullmatch(name):
            return unit or _SPELLED.get(match[2], match[2])
    if _PARTICLES.fullmatch(name):
        return "µg/m³"
    if usual is None:
        return ""
    low, middle, high = usual.low, usual.middle, usual.high
    if usual.turns:
        return "°"
    if _TEMPERATURE.fullmatch(name):
        ordinary = low >= -45 and 0 < middle <= 27 and 24 <= high <= 45 and high - low >= 20
        return "°C" if ordinary and usual.days >= 300 else ""
    if _PRESSURE.fullmatch(name):
        return "hPa" if low >= 870 and high <= 1085 else "Pa" if low >= 87_000 and high <= 108_500 else ""
    if _HUMIDITY.fullmatch(name):
        # Absolute humidity stays below 45 g/m³.
        return "%" if 45 < high <= 115 else ""
    return "ppm" if name == "co2" and 350 <= low < 600 and high <= 10_000 else ""


def spelled(unit: str) -> str:
    """Return a unit as people write it; one that is not known as it is.

    Examples
    --------
    >>> [spelled(unit) for unit in ("C", "Deg C", "Cel", "ug/m3", "uS/cm", "mbar", "FNU")]
    ['°C', '°C', '°C', 'µg/m³', 'µS/cm', 'mbar', 'FNU']
    """
    return _SPELLINGS.get(re.sub(r"[\s_.°^]+", "", unit).lower(), unit)


def split_unit(name: str) -> tuple[str, str]:
    """Return the name of a column without its unit, and the unit in brackets at its end.

    Examples
    --------
    >>> split_unit("temp (°C)"), split_unit("Wert [hPa]"), split_unit("PM2.5")
    (('temp', '°C'), ('Wert', 'hPa'), ('PM2.5', ''))
    """
    match = re.fullmatch(r"\s*(.*?\S)\s*[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*", name)
    return (match[1], match[2]) if match else (name.strip(), "")


def without_unit(name: str) -> str:
    """Return the name of a column without a unit in brackets or at the end of the name.

    Examples
    --------
    >>> without_unit("Temp_degC"), without_unit("Wert [hPa]"), without_unit("PM2.5")
    ('Temp', 'Wert', 'PM2.5')
    """
    name, _ = split_unit(name)
    ends = (pattern.fullmatch(name.lower()) for pattern, _ in _IN_NAMES)
    return next((name[: match.end(1)] for match in ends if match), "") or name


def sent(units: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return units of messages or files as `described` takes them."""
    return {variable: {"units": unit} for variable, unit in units.items()}


def described(
    variables: Sequence[str],
    options: Options,
    known: Mapping[str, Mapping[str, Any]] | None = None,
    usual: Mapping[str, UsualRange] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the attributes of variables: `units`, `long_name`, and others of `known`.

    The user's units and names come first, then `known`, from a NetCDF file or from the column of a single variable,
    then units in the names, and last those that follow from the names and what is `usual`.
    """
    attributes = {}
    for variable in variables:
        name, unit = split_unit(variable)
        merged = {"units": unit, "long_name": name} if unit else {}
        merged |= (known or {}).get(variable, {})
        for key, texts in (("units", options.units), ("long_name", options.names)):
            text = texts.get(variable, texts.get(EVERY, ""))
            merged |= {key: text} if text else {}
        likely = (
            "" if merged.get("units") or EVERY in (known or {}) else likely_unit(variable, (usual or {}).get(variable))
        )
        merged |= {"units": likely} if likely else {}
        if merged:
            attributes[variable] = merged
    return attributes


def collect_units(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return units and names by variable, for run.json and for frames, without empty entries.

    Examples
    --------
    >>> collect_units({"temp": {"units": "K"}, "ph": {}})
    {'units': {'temp': 'K'}}
    """
    keys = {"units": "units", "names": "long_name"}
    record = {name: {variable: str(known[key]) for variable, known in attributes.items() if key in known}
            for name, key in keys.items()}  # fmt: skip
    return {name: entry for name, entry in record.items() if entry}


def axis_label(variable: str, record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label and the unit of an axis, from a record of `collect_units` or else from the variable's name.

    Examples
    --------
    >>> axis_label("temp (°C)", {}), axis_label("", {"units": {"": "K"}})
    (('temp', '°C'), ('value', 'K'))
    """
    name, unit = split_unit(variable)
    units, names = record.get("units") or {}, record.get("names") or {}
    return str(names.get(variable) or name or "value"), str(units.get(variable) or unit)
