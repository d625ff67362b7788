"""What is published about a version agrees, and a source distribution can run its own tests."""

import re
import tarfile
import tomllib
from pathlib import Path

import pytest

import sensormend

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert sensormend.__version__ == version
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [version]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", changes, flags=re.MULTILINE)
    assert headings[0].partition(", ")[0] == version


def test_every_release_has_its_date() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *older = re.findall(r"^## (.+)$", changes, flags=re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+, (\d{4}-\d\d-\d\d|not released yet)", newest)
    for heading in older:
        assert re.fullmatch(r"\d+\.\d+\.\d+, \d{4}-\d\d-\d\d", heading), heading


def test_the_extra_all_has_every_other_one() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"sensormend[{','.join(sorted(extras.keys() - {'all'}))}]"


def test_the_source_distribution_has_all_that_the_tests_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    # A build backend builds the project in the current folder.
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / builder.build_sdist(str(tmp_path))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    names = ("Makefile", "pyproject.toml", "zensical.toml", "hatch_build.py", "Dockerfile", ".dockerignore")
    wanted = [*(ROOT / name for name in names), *ROOT.glob("*.md")]
    for folder in ("src", "tests", "benchmarks", "docs", "packaging", ".ci"):
        wanted += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(ROOT).as_posix() for path in wanted} <= packed
