"""What no reading of a variable can be is wrong, whatever the others say."""

from math import inf
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sensormend import clean
from sensormend.pipeline.physical import physical_limits
from sensormend.readings import Flag


@pytest.mark.parametrize(
    ("name", "impossible", "possible"),
    [
        ("RH", (-60.0, 230.0), (-2.0, 0.5, 104.0)),
        ("rel_humidity", (158.0,), (99.0,)),
        ("pH", (15.2, -1.0), (7.0, 14.0)),
        ("wind_speed", (-600.0,), (0.0, 60.0, 300.0)),
        ("rain", (-3.0,), (0.0, 120.0)),
        ("do_mgl", (-40.0,), (0.0, 14.0, 130.0)),
    ],
)
def test_limits_hold_in_any_usual_unit(name: str, impossible: tuple[float, ...], possible: tuple[float, ...]) -> None:
    low, high = physical_limits(name)
    assert all(not low <= value <= high for value in impossible)
    assert all(low <= value <= high for value in possible)


@pytest.mark.parametrize("name", ["", "temperature", "phosphate", "dogs", "rho", "winding", "pressure", "turbidity"])
def test_other_names_have_no_limits(name: str) -> None:
    assert physical_limits(name) == (-inf, inf)


def network(name: str) -> pl.DataFrame:
    """Return 20 days of six hygrometers, of which the last is at -60 from the tenth on."""
    random = np.random.default_rng(0)
    hours = np.arange(480)
    common = 70 + 15 * np.sin(hours / 24 * 2 * np.pi) + np.cumsum(random.normal(size=480)) * 0.3
    value = common + random.normal(size=(6, 1)) + 0.5 * random.normal(size=(6, 480))
    value[5, 216:] = -60 + 0.1 * random.normal(size=264)
    time = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 20, 23), "1h", eager=True)
    return pl.concat(
        pl.DataFrame({"time": time, "sensor": f"s{row}", "variable": name, "value": value[row]}) for row in range(6)
    )


def test_an_impossible_humidity_is_wrong_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    rows = clean(network("rh")).data.filter(pl.col("sensor") == "s5").sort("time")
    after = rows[216:]
    assert set(after["flag"]) == {int(Flag.FAIL)}
    assert set(after["reason"]) == {"implausible"}
    assert after["value"].max() < -59
    assert after["cleaned"].drop_nulls().is_between(20, 100).all()
    assert (rows[120:216]["flag"] == Flag.GOOD).mean() > 0.95


def test_limits_that_are_given_count_instead() -> None:
    rows = clean(network("rh"), valid=[-100, 80]).data.filter(pl.col("sensor") == "s0")
    above = rows.filter(pl.col("value") > 80)
    assert above.height > 10
    assert set(above["flag"]) == {int(Flag.FAIL)}
    assert set(above["reason"]) == {"implausible"}
