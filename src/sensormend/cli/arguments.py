"""`declared_options` builds the arguments of a command from the options that dataclasses declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar

from cyclopts import Group, Parameter

from sensormend.pipeline.options import Declaration, declarations

__all__ = ["FLAG", "GROUPS", "Arguments", "declared_options"]

FLAG: dict[str, Any] = {"negative": (), "show_default": False}

GROUPS = {
    "feed": Group("The feed", sort_key=0),
    "columns": Group("Columns", help="They are recognised by their names; name them where that fails.", sort_key=1),
    "data": Group("What you know about the data", sort_key=2),
    "method": Group("The method (network needs no settings)", sort_key=3),
    "output": Group("Output", sort_key=3),
    "networks": Group("Many networks at once", sort_key=4),
    "alerts": Group("Alerts", sort_key=4),
}
"""The headings of `--help`, by `Declaration.group`."""

_Class = TypeVar("_Class")


class Arguments:
    """The arguments of a command: a field for each option, None if it is not given."""

    declared: dict[str, Declaration]

    def to_dict(self) -> dict[str, Any]:
        """Return the given arguments as values of options, by key."""
        return {
            declaration.key or name: value if declaration.parse is None else declaration.parse(value)
            for name, declaration in self.declared.items()
            if (value := getattr(self, name)) is not None
        }


def declared_options(
    command: str, *declaring: type, without: Collection[str] = ()
) -> Callable[[type[_Class]], type[_Class]]:
    """Return a decorator that adds a field to a class for each option of these dataclasses that a command takes.

    `without` names groups and options that the command does not take.
    """

    def decorated(kind: type[_Class]) -> type[_Class]:
        options = {
            name: declaration
            for declared in declaring
            for name, declaration in _nested(declared)
            if declaration.group and declaration.command in (None, command)
            if name not in without and declaration.group not in without
        }
        kind.declared = options  # type: ignore[attr-defined]
        kind.__annotations__ = {name: _annotation(declaration) for name, declaration in options.items()}
        for name in options:
            setattr(kind, name, None)
        return Parameter(name="*")(dataclass(frozen=True)(kind))

    return decorated


def _nested(declared: type) -> Iterator[tuple[str, Declaration]]:
    """Yield the options of a dataclass, including those of nested dataclasses in their place."""
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
