"""Each package imports only those that stand above it: data goes one way."""

import ast
import re
from pathlib import Path

import pytest

import sensormend

SOURCE = Path(sensormend.__file__).parent

TOP = ("errors", "recovery", "tensor", "readings", "files")
"""Modules at the top level, which every package may import."""

PUBLIC = ("result",)
"""Modules at the top level that are for users alone: they may import every package, and none imports them."""

LAYERS = (
    "model",
    "methods",
    "simulate",
    "pipeline",
    "io",
    "archive",
    "stream",
    "explain",
    "plot",
    "views",
    "web",
    "report",
    "cluster",
    "bench",
    "cli",
)

NEVER = {("views", "stream"), ("web", "stream"), ("report", "stream"), ("report", "web"), ("cluster", "stream")}
"""Further pairs that do not know of each other: views read what a stream wrote, on disk."""


def imported(file: Path) -> set[str]:
    """Return the packages and top-level modules of sensormend that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sensormend":
            parts = node.module.split(".")
            names.update([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            names.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sensormend."))
    return names & {*TOP, *PUBLIC, *LAYERS}


def test_every_module_has_its_layer() -> None:
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert packages == set(LAYERS)
    assert {path.stem for path in SOURCE.glob("*.py")} == {"__init__", "__main__", *TOP, *PUBLIC}


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_only_what_stands_above_it(package: str) -> None:
    allowed = {*TOP, *LAYERS[: LAYERS.index(package) + 1]} - {below for above, below in NEVER if above == package}
    wrong = {
        f"{file.relative_to(SOURCE).as_posix()} imports {name}"
        for file in sorted((SOURCE / package).rglob("*.py"))
        for name in imported(file) - allowed
    }
    assert wrong == set()


@pytest.mark.parametrize("module", TOP)
def test_a_top_level_module_imports_no_package(module: str) -> None:
    assert imported(SOURCE / f"{module}.py") <= set(TOP)


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_programs_in_strings_import_modules_that_exist(folder: str) -> None:
    """What a child process is given to run is seen by no linter, and by no tool that moves a module."""
    missing = set()
    for file in (Path(__file__).parents[1] / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for name in re.findall(r"\b(?:from|import) (sensormend(?:\.\w+)+)", node.value):
                    path = SOURCE.joinpath(*name.split(".")[1:])
                    if not (path.is_dir() or path.with_suffix(".py").is_file()):
                        missing.add(f"{file.name}: {name}")
    assert missing == set()


def test_no_test_reaches_into_a_model() -> None:
    """What a model knows is in the file that it saves; how it computes is in functions that can be called."""
    tests = Path(__file__).parents[1] / "tests"
    reaching = {file.name for file in tests.rglob("*.py") if re.search(r"\bmodel\._[a-z]", file.read_text("utf-8"))}
    assert reaching == set()
