"""Names in the source are the field's words: no metaphors, and no participles that could mean anything."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sensormend

SOURCE, ROOT = Path(sensormend.__file__).parent, Path(__file__).resolve().parents[1]

METAPHORS = {
    "clockwork", "company", "courier", "couriers", "door", "doors", "echo", "echoes", "fence", "fences", "founding",
    "guard", "guards", "hood", "hoods", "house", "houses", "insist", "insisting", "kin", "ledger", "ledgers", "lesson",
    "lessons", "morning", "newborn", "newborns", "outbox", "patience", "room", "rooms", "rung", "rungs", "sight",
    "stranger", "strangers", "vouch", "vouching", "wire", "witness", "witnesses",
}  # fmt: skip
"""Words for things that have names: a partition, a halo, a cold start, a delivery queue, a rate limit."""

VAGUE = {"evidence", "figures", "found", "kept", "said", "there", "told"}
"""Words that say nothing about what a value is: metrics, options, correlated sensors."""


def words_of(name: str) -> list[str]:
    """Return the parts of an identifier: `_as_found`, `asFound` and `AsFound` have `found`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().split("_")


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each class, function, argument, assigned variable and attribute."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("class Clockwork: ...", ["Clockwork"]),
        ("def as_found(told, *said, kin=1, **there): ...", ["as_found", "told", "said", "kin", "there"]),
        ("async def door(): ...", ["door"]),
        ("self._rungs = 1", ["_rungs"]),
        ("for room, house in []: ...", ["room", "house"]),
        ("with a as hood: fences: int = (sight := 2)", ["hood", "fences", "sight"]),
        ("from a import b as courier", ["courier"]),
        ("try: ...\nexcept E as newborn: ...", ["newborn"]),
        ("match a:\n  case [company, *echoes]: ...", ["company", "echoes"]),
        ("self.door.open(told, said=1); foundation = therefore", []),
    ],
)
def test_every_kind_of_definition_is_seen(code: str, names: list[str]) -> None:
    banned = [name for _, name in defined_names(ast.parse(code)) if not (METAPHORS | VAGUE).isdisjoint(words_of(name))]
    assert sorted(banned) == sorted(names)


@pytest.mark.parametrize("folder", [SOURCE, ROOT / "benchmarks", ROOT / "tests"], ids=["source", "benchmarks", "tests"])
def test_names_are_the_words_of_the_field(folder: Path) -> None:
    banned = METAPHORS | VAGUE
    wrong = [
        f"{file.relative_to(folder.parent).as_posix()}:{line}: {name}"
        for file in sorted(folder.rglob("*.py"))
        for line, name in sorted({(1, file.stem), *defined_names(ast.parse(file.read_bytes()))})
        # The name of a test is a sentence.
        if not name.startswith("test_") and not banned.isdisjoint(words_of(name))
    ]
    assert not wrong, "names with words that say nothing to a newcomer:\n" + "\n".join(wrong)
