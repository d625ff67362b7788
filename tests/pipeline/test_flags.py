"""Of all that is known about a cell the strongest decides its flag, in whatever order it is given."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sensormend
from sensormend.pipeline.verdicts import Mark, flag_cells
from sensormend.readings import REASONS

DRIFT = REASONS.index("drift")
STRENGTH = {mark: number for number, mark in enumerate(Mark)}


@given(st.permutations(list(Mark)), st.sets(st.sampled_from(list(Mark))))
def test_the_strongest_mark_holds(order: list[Mark], chosen: set[Mark]) -> None:
    marks = {mark: np.array([mark in chosen, False]) for mark in order}
    flag, reason = flag_cells([1, 3], [0, 4], marks, kind=DRIFT)
    assert (flag[1], reason[1]) == (3, 4), "a cell without a mark stays"
    code, word = max(chosen, key=STRENGTH.__getitem__).value if chosen else (1, "")
    assert (flag[0], REASONS[reason[0]]) == (code, "drift" if word is None else word)


def test_what_is_given_is_not_changed() -> None:
    flag, reason = np.ones(2, dtype=np.int8), np.zeros(2, dtype=np.int8)
    flag_cells(flag, reason, {Mark.WRONG: np.array([True, False]), Mark.REAL: None}, kind=DRIFT)
    assert flag.tolist() == [1, 1]
    assert reason.tolist() == [0, 0]


def names_a_flag(target: ast.expr) -> bool:
    """Return whether something is called `flag`: a name, an attribute, or a column by that key, or a part of one."""
    match target:
        case ast.Name(id="flag" | "flags") | ast.Attribute(attr="flag" | "flags") | ast.Constant(value="flag"):
            return True
        case ast.Subscript(value=value, slice=key):
            return names_a_flag(value) or names_a_flag(key)
    return False


def computed_flags(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which something called `flag` gets what is computed from members of `Flag`."""
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=True))
            case ast.Assign(targets=[name], value=value):
                pairs = [(name, value)]
            case ast.Call(keywords=keywords):
                pairs = [(ast.Name(word.arg or ""), word.value) for word in keywords]
            case ast.Dict(keys=keys, values=values):
                pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
        for name, value in pairs:
            members = (part for part in ast.walk(value) if isinstance(part, ast.Attribute))
            compared = any(isinstance(part, ast.Compare) for part in ast.walk(value))
            if names_a_flag(name) and not compared and any(ast.unparse(part.value) == "Flag" for part in members):
                yield node.lineno  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("flag[bad], reason[bad] = Flag.FAIL, 3", 1),
        ("columns['flag'][own] = Flag.FAIL", 1),
        ("Rows(flag=np.where(bad, Flag.FAIL, old))", 1),
        ("{'flag': np.where(bad, Flag.FAIL, old)}", 1),
        ("flag, reason = flag_cells(old, reason, {Mark.WRONG: bad})", 0),
        ("wrong = rows.flag == Flag.FAIL", 0),
    ],
)
def test_every_way_to_set_a_flag_is_seen(code: str, count: int) -> None:
    assert len(list(computed_flags(ast.parse(code)))) == count


def test_no_other_module_sets_a_flag() -> None:
    source = Path(sensormend.__file__).parent
    files = [file for package in ("pipeline", "archive", "stream") for file in (source / package).rglob("*.py")]
    setting = {f"{file.name}:{line}" for file in files for line in computed_flags(ast.parse(file.read_bytes()))}
    assert setting == set()
