"""`declared_options` makes the arguments of a command from the options that dataclasses declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar

from cyclopts import Group, Parameter

from sensormend.io.options import Declaration, declarations

__all__ = ["FLAG", "GROUPS", "STDIN", "Arguments", "declared_options"]

STDIN = "standard input"
"""What stands for a lone `-`, which the parser of the command line would take for an option."""

FLAG: dict[str, Any] = {"negative": (), "show_default": False}

GROUPS = {
    "feed": Group("The feed", sort_key=0),
    "columns": Group("Which column is what (recognised by their names; say it where that fails)", sort_key=1),
    "data": Group("What you know about the data", sort_key=2),
    "output": Group("Output", sort_key=3),
    "networks": Group("Many networks at once", sort_key=4),
    "alerts": Group("Who is told", sort_key=4),
}
"""The headings of `--help`, by the names that options have for them."""

_Class = TypeVar("_Class")


class Arguments:
    """What is typed for a command; a field for each option, None where it is not typed."""

    declared: dict[str, Declaration]

    def given(self) -> dict[str, Any]:
        """Return what is typed as options take it, by their keys."""
        typed = {name: getattr(self, name) for name in self.declared}
        return {
            self.declared[name].key or name: value if (parse := self.declared[name].parse) is None else parse(value)
            for name, value in typed.items()
            if value is not None
        }


def declared_options(command: str, *declaring: type) -> Callable[[type[_Class]], type[_Class]]:
    """Return what gives a class a field for each option of these dataclasses that a command takes."""

    def decorated(kind: type[_Class]) -> type[_Class]:
        known = {
            name: declaration
            for declared in declaring
            for name, declaration in _nested(declared)
            if declaration.group and declaration.command in (None, command)
        }
        kind.declared = known  # type: ignore[attr-defined]
        kind.__annotations__ = {name: _annotation(declaration) for name, declaration in known.items()}
        for name in known:
            setattr(kind, name, None)
        return Parameter(name="*")(dataclass(frozen=True)(kind))

    return decorated


def _nested(declared: type) -> Iterator[tuple[str, Declaration]]:
    """Yield the options of a dataclass, those of the dataclasses in it where these stand."""
    own = declarations(declared)
    for entry in fields(declared):
        if entry.name in own:
            yield entry.name, own[entry.name]
        elif is_dataclass(entry.default):
            yield from _nested(type(entry.default))


def _annotation(declaration: Declaration) -> Any:
    name = declaration.flag or (f"--{declaration.key}" if declaration.key else None)
    parameter = Parameter(
        name=name,
        group=GROUPS[declaration.group],
        help=declaration.help,
        allow_leading_hyphen=declaration.leading_hyphen,
        **FLAG,
    )
    return Annotated[declaration.kind | None, parameter]
