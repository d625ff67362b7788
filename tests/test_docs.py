"""What docs/auto.md says of the constants, and docs/clean.md of options, flags and columns, is what the code has."""

import importlib
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import sensormend.auto
from sensormend.flags import REASONS
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER
from sensormend.io.sources import _ENDINGS
from sensormend.io.writing import COLUMNS
from sensormend.options import Options

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "auto.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w.]+)\.([A-Z_]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
STRUCTURE = {
    "memory.FEATURES",
    # Next to nothing, beyond everything, and the factors of a polynomial.
    "wide.inheritance.LEAST", "wide.inheritance.SIGN", "wide.sight.HUGE", "wide.timeline.NONE",
}  # fmt: skip


@pytest.mark.parametrize(("room", "name", "told"), ROWS, ids=[f"{room}.{name}" for room, name, _ in ROWS])
def test_the_table_of_constants_is_true(room: str, name: str, told: str) -> None:
    value = getattr(importlib.import_module(f"sensormend.auto.{room}"), name)
    written = [float(number) for number in told.split(",")]
    np.testing.assert_allclose(written, np.ravel(value), err_msg=f"docs/auto.md says {told} of {room}.{name}")


def test_no_constant_is_left_out() -> None:
    told = {f"{room}.{name}" for room, name, _ in ROWS}
    here = set()
    rooms = Path(sensormend.auto.__path__[0])
    for file in rooms.rglob("*.py"):
        room = ".".join(file.relative_to(rooms).with_suffix("").parts)
        source = file.read_text(encoding="utf-8")
        here |= {f"{room}.{name}" for name in re.findall(r"^([A-Z_]+) = [\d(n]", source, flags=re.MULTILINE)}
    assert here - told - STRUCTURE == set()


def test_the_reference_of_clean_leaves_nothing_out() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "clean.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`([^`\n]+)`", page))
    options = {entry.name for entry in fields(Options)}
    rows = {*COLUMNS, *FAULTS_HEADER, *SENSORS_HEADER}
    # Nothing is late in an archive.
    for word in (options | rows | set(REASONS) | set(_ENDINGS)) - {"", "late"}:
        assert word in said, f"docs/clean.md does not say what {word} is"
