"""The engine is compiled once: who imports sensormend does not wait for it, and who waits is told why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sensormend.model import compiling

LINE = "compiling the engine, once; this takes about a minute\n"

MODULE = """
from sensormend.model.compiling import announce_compilation, entry
@entry
def double(x):
    return 2.0 * x
announce_compilation(double)
print(double(3.0))
announce_compilation(double)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("statement", ["import sensormend", "from sensormend import *", "import sensormend.cli"])
def test_importing_the_package_does_not_import_numba(statement: str) -> None:
    unwanted = "{'numba', 'llvmlite', 'torch', 'matplotlib', 'fastapi', 'dask'}"
    assert run(f"{statement}; import sys; print({unwanted} & set(sys.modules))").stdout == "set()\n"


def test_the_package_and_its_version_need_no_scipy() -> None:
    assert run("import sensormend.cli, sys; print('scipy' in sys.modules)").stdout == "False\n"


def test_compiling_is_announced_until_there_is_a_cache(tmp_path: Path) -> None:
    file = tmp_path / "doubling.py"
    file.write_text(MODULE)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import doubling"
    first, again = run(program), run(program)
    assert (first.stdout, first.stderr) == ("6.0\n", LINE)
    assert (again.stdout, again.stderr) == ("6.0\n", "")
    elsewhere = run(program, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert elsewhere.stderr == LINE
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stderr == ""


def test_it_compiles_where_no_cache_can_be_written(tmp_path: Path) -> None:
    refusing = f"import numba.core.caching as c; c.FunctionCache._impl_class._locator_classes = []\n{MODULE}"
    assert run(refusing).stdout == "6.0\n"
    assert run(MODULE, NUMBA_DISABLE_JIT="1").stdout == "6.0\n"


def test_a_change_of_any_compiled_module_makes_the_cache_obsolete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    (tmp_path / "covariance.py").write_text("@compiled\ndef invert(): ...\n")
    (tmp_path / "plain.py").write_text("def nothing(): ...\n")
    before = compiling._fingerprint()
    (tmp_path / "plain.py").write_text("def nothing(x): ...\n")
    assert compiling._fingerprint() == before
    (tmp_path / "covariance.py").write_text("@compiled\ndef invert(x): ...\n")
    assert compiling._fingerprint() != before
