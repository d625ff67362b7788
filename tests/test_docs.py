"""What docs/auto.md says of the constants is what the code has."""

import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import sensormend.auto

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "auto.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)\.([A-Z_]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
STRUCTURE = {"memory.FEATURES"}


@pytest.mark.parametrize(("room", "name", "told"), ROWS, ids=[f"{room}.{name}" for room, name, _ in ROWS])
def test_the_table_of_constants_is_true(room: str, name: str, told: str) -> None:
    value = getattr(importlib.import_module(f"sensormend.auto.{room}"), name)
    written = [float(number) for number in told.split(",")]
    np.testing.assert_allclose(written, np.ravel(value), err_msg=f"docs/auto.md says {told} of {room}.{name}")


def test_no_constant_is_left_out() -> None:
    told = {f"{room}.{name}" for room, name, _ in ROWS}
    here = set()
    for found in pkgutil.iter_modules(sensormend.auto.__path__):
        source = (Path(sensormend.auto.__path__[0]) / f"{found.name}.py").read_text(encoding="utf-8")
        here |= {f"{found.name}.{name}" for name in re.findall(r"^([A-Z_]+) = [\d(n]", source, flags=re.MULTILINE)}
    assert here - told - STRUCTURE == set()
