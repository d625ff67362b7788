"""The documentation agrees with the code: constants, options, columns, names that are imported, links and anchors."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import sensormend.cluster
import sensormend.errors
import sensormend.model
import sensormend.plot
import sensormend.report
import sensormend.simulate
from sensormend.cli.app import app
from sensormend.io.metadata import FAULTS_HEADER, SENSORS_HEADER
from sensormend.io.sources import _ENDINGS
from sensormend.io.writing import COLUMNS
from sensormend.pipeline.options import Options
from sensormend.readings import REASONS
from sensormend.stream.settings import AlertSettings, MqttSettings, Settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
CLEAN_ONLY = {"one_pass", "per_reading", "wide", "networks", "passes", "flags", "owner_flag", "owner_wrong"}


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


CONSTANTS = re.findall(r"^\| `([\w.]+)\.([A-Z_]+)` \| ([^|]+) \|", text_of("auto.md"), flags=re.MULTILINE)
MODULES = {module.name for module in pkgutil.iter_modules(sensormend.model.__path__)}


@pytest.mark.parametrize(
    ("module", "name", "written"), CONSTANTS, ids=[f"{module}.{name}" for module, name, _ in CONSTANTS]
)
def test_the_table_of_constants_is_true(module: str, name: str, written: str) -> None:
    assert module in MODULES, f"docs/auto.md names {module}.{name}; there is no sensormend.model.{module}"
    value = getattr(importlib.import_module(f"sensormend.model.{module}"), name)
    numbers = [float(number) for number in written.split(",")]
    np.testing.assert_allclose(numbers, np.ravel(value), err_msg=f"docs/auto.md has {written} for {module}.{name}")


def section(page: str, heading: str) -> str:
    """Return the text of a section, without those of the same level after it."""
    match = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", page, flags=re.DOTALL | re.MULTILINE)
    assert match, heading
    return match[2]


def names_of(text: str, column: int = 1) -> list[str]:
    """Return what stands in backquotes in a column of the tables of a text, without their headers."""
    rows = [
        row.split(" | ") for row in re.findall(r"^\| (.*) \|$", re.sub(r"^\|.*\n\|---.*\n", "", text, flags=re.M), re.M)
    ]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[column - 1])]


def test_every_column_and_reason_is_described_once() -> None:
    page = text_of("flags.md")
    assert Counter(names_of(section(page, "Rows"))) == Counter([*COLUMNS])
    assert Counter(names_of(section(page, "faults.csv"))) == Counter(FAULTS_HEADER)
    assert Counter(names_of(section(page, "sensors.csv"))) == Counter(SENSORS_HEADER)
    assert Counter(names_of(section(page, "Reasons"))) == Counter(set(REASONS) - {""})


def test_every_file_ending_is_described() -> None:
    assert set(re.findall(r"`(\.\w+)`", section(text_of("clean.md"), "What goes in"))) >= set(_ENDINGS)


def test_every_option_is_described_once() -> None:
    page = text_of("options.md")
    options = {entry.name for entry in fields(Options)}
    assert Counter(names_of(section(page, "Readings"))) == Counter(options - CLEAN_ONLY)
    assert Counter(names_of(section(page, "clean"))) == Counter(CLEAN_ONLY | {"--cluster", "--overwrite", "--resume"})
    live, _, rest = section(page, "watch").partition("| `[alerts]`")
    alerts, _, mqtt = rest.partition("| `[mqtt]`")
    settings = {entry.name for entry in fields(Settings)} - {"options", "alerts", "mqtt", "start_from"}
    assert Counter(names_of(live)) == Counter(settings | {"from", "--verbose"})
    assert Counter(names_of(f"| `[alerts]`{alerts}")) == Counter({entry.name for entry in fields(AlertSettings)})
    known = {entry.name for entry in fields(MqttSettings)} | {"password_file"}
    assert Counter(names_of(f"| `[mqtt]`{mqtt}")) == Counter(known)


def flags_of(command: str) -> set[str]:
    """Return the flags that a command takes."""
    return {argument.name for argument in app[command].assemble_argument_collection() if argument.name[:2] == "--"}


def test_every_flag_is_described() -> None:
    page = text_of("options.md")
    readings, clean, watch = (names_of(section(page, name)) for name in ("Readings", "clean", "watch"))

    def as_flags(names: list[str]) -> set[str]:
        return {name if name[:2] == "--" else f"--{name.replace('_', '-')}" for name in names}

    assert flags_of("clean") - {"--config"} <= as_flags([*readings, *clean])
    assert flags_of("watch") - {"--config", "--sink", "--alert"} <= as_flags([*readings, *watch])
    assert all(f"`{flag}" in page for flag in ("--config", "--sink", "--alert"))
    assert set(names_of(section(page, "serve"))) == flags_of("serve")
    others = section(page, "Other commands")
    for command in ("report", "check", "explain", "compare", "example", "demo"):
        rows = "".join(row for row in others.splitlines(keepends=True) if row.startswith(f"| `{command}` "))
        assert Counter(names_of(rows, 2)) == Counter(flags_of(command))


def test_no_other_page_has_a_table_of_options() -> None:
    page = text_of("options.md")
    names = {*names_of(section(page, "Readings")), *names_of(section(page, "clean")), *names_of(section(page, "watch"))}
    # Columns and reasons have the same names.
    names -= {*COLUMNS, *FAULTS_HEADER, *SENSORS_HEADER, *REASONS}
    for path in PAGES:
        if path.name != "options.md":
            first = re.findall(r"^\| `(\w+)` \|", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert names.isdisjoint(first), f"{path.name} describes {names.intersection(first)}"


def test_the_reference_has_every_public_name() -> None:
    names = re.findall(r"^::: ([\w.]+)$", text_of("api.md"), flags=re.MULTILINE)
    assert len(names) == len(set(names))
    public = {f"sensormend.{name}" for name in sensormend.__all__ if name not in sensormend.errors.__all__}
    for package in (sensormend.simulate, sensormend.plot, sensormend.report, sensormend.cluster):
        public |= {f"{package.__name__}.{name}" for name in package.__all__}
    assert public <= set(names)
    assert "sensormend.errors" in names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_page_imports_can_be_imported(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    for module, names in re.findall(r"\bfrom (sensormend[\w.]*) import ([\w, ]+)", page):
        for name in names.split(","):
            assert hasattr(importlib.import_module(module), name.strip()), f"{module} has no {name}"
    for name in re.findall(r"^::: ([\w.]+)$", page, flags=re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, and the names that the reference describes."""
    page = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    slugs = [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]
    assert len(slugs) == len(set(slugs)), f"{path.name}: two headings with one anchor"
    return {*slugs, *re.findall(r"^::: ([\w.]+)$", page, flags=re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_and_anchors_exist(path: Path) -> None:
    page = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", page):
        if link.startswith(("http:", "https:")):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.is_file(), link
        if path.parent == DOCS:
            assert target.parent == DOCS or target.is_relative_to(DOCS), f"{link} is not part of the site"
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_in_the_navigation() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    pages: list[str] = []
    left = [*site["nav"]]
    while left:
        for target in left.pop().values():
            if isinstance(target, str):
                pages.append(target)
            else:
                left.extend(target)
    assert Counter(pages) == Counter(path.name for path in DOCS.glob("*.md"))


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="make docs installs zensical")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("zensical.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    program = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    # It aborts on broken links and anchors, and only mentions docstrings that do not fit what they describe.
    assert "griffe" not in built.stdout + built.stderr, built.stdout + built.stderr
    assert "NetworkModel" in (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    for page in sorted((tmp_path / "site").glob("*.html")):
        loaded = re.findall(r"<(?:link|script|img|iframe)[^>]+(?:src|href)=\"?(https?:)", page.read_text("utf-8"))
        assert loaded == [], f"{page.name} loads from another host"
