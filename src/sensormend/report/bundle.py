"""`bundle` joins modules of the page into one script, which a file opened without a server can run."""

from __future__ import annotations

import re
from pathlib import Path

import sensormend

__all__ = ["STATIC", "bundle"]

STATIC = Path(sensormend.__file__).parent / "web" / "static"
"""The files of the page."""

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def bundle(entry: str) -> str:
    """Return a module of the page with all that it imports as one script; each module is a function in it.

    A browser loads no modules from files. The page's modules import names from each other, and export functions,
    classes and constants; any other form is refused.
    """
    parts: dict[str, str] = {}
    _add(entry, parts, ())
    script = "".join(parts.values())
    return f'"use strict";\n(() => {{\nconst modules = {{}};\n{script}}})();\n'


def _add(name: str, parts: dict[str, str], importing: tuple[str, ...]) -> None:
    """Add a module after those that it imports."""
    if name in parts:
        return
    if name in importing:
        raise ValueError(f"{name}.js imports itself by way of {' and '.join(importing)}")
    text = (STATIC / f"{name}.js").read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        _add(other, parts, (*importing, name))
    names = EXPORT.findall(text)
    text = IMPORT.sub(lambda match: f"const {{{match[1].replace(' as ', ': ')}}} = modules[{match[2]!r}];\n", text)
    text = EXPORT.sub("", text).replace("import.meta.url", "document.baseURI")
    if re.search(r"^(?:import|export)\b|\bimport\(|</script", text, re.MULTILINE):
        raise ValueError(f"{name}.js imports or exports in a form that cannot be joined")
    parts[name] = f"modules[{name!r}] = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n"
