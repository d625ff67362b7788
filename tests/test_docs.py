"""What docs/auto.md says of the constants, and docs/clean.md of options, flags and columns, is what the code has."""

import importlib
import pkgutil
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import sensormend.model
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER
from sensormend.io.options import Options
from sensormend.io.sources import _ENDINGS
from sensormend.io.writing import COLUMNS
from sensormend.readings import REASONS

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "auto.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w.]+)\.([A-Z_]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
MODULES = {module.name for module in pkgutil.iter_modules(sensormend.model.__path__)}


@pytest.mark.parametrize(("module", "name", "told"), ROWS, ids=[f"{module}.{name}" for module, name, _ in ROWS])
def test_the_table_of_constants_is_true(module: str, name: str, told: str) -> None:
    assert module in MODULES, f"docs/auto.md names {module}.{name}; there is no sensormend.model.{module}"
    value = getattr(importlib.import_module(f"sensormend.model.{module}"), name)
    written = [float(number) for number in told.split(",")]
    np.testing.assert_allclose(written, np.ravel(value), err_msg=f"docs/auto.md says {told} of {module}.{name}")


def test_the_reference_of_clean_leaves_nothing_out() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "clean.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`([^`\n]+)`", page))
    options = {entry.name for entry in fields(Options)}
    rows = {*COLUMNS, *FAULTS_HEADER, *SENSORS_HEADER}
    # Nothing is late in an archive.
    for word in (options | rows | set(REASONS) | set(_ENDINGS)) - {"", "late"}:
        assert word in said, f"docs/clean.md does not say what {word} is"
