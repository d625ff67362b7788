"""The engine is compiled once, on first use and with a notice; compiled and plain Python agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oracles import small_run
from sensormend.model import compiling

CLOSE = 1e-6
"""Compiled sums may be reordered, and what is known is kept in single precision: a bit may tip, 1e-7 of a mean."""
FILLS = ("0", "7")
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
    (tmp_path / "loops.py").write_text("@compiled\ndef invert(): ...\n")
    (tmp_path / "plain.py").write_text("def nothing(): ...\n")
    before = compiling.fingerprint()
    (tmp_path / "plain.py").write_text("def nothing(x): ...\n")
    assert compiling.fingerprint() == before
    (tmp_path / "loops.py").write_text("@compiled\ndef invert(x): ...\n")
    assert compiling.fingerprint() != before


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return files with what an engine that is not compiled makes of the small networks, by what memory is full of."""
    folder = tmp_path_factory.mktemp("plain")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    paths = {fill: folder / f"{fill}.npz" for fill in FILLS}
    for fill, path in paths.items():
        command = [sys.executable, "-m", "oracles.small_run", str(path), fill]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return paths


@pytest.mark.parametrize("name", ["single", "partitioned"])
def test_compiled_and_plain_python_agree(name: str, plain: dict[str, Path]) -> None:
    ours = small_run.written(small_run.recovered(partitioned=name == "partitioned"))
    # There is something to agree on.
    assert ours["wrong"].sum() > 10
    assert len(ours["kinds"]) > 0
    with np.load(plain[FILLS[0]]) as archive:
        for key, value in ours.items():
            other = archive[f"{name}_{key}"]
            if value.dtype.kind == "f":
                np.testing.assert_allclose(value, other, rtol=CLOSE, atol=CLOSE, err_msg=key)
            else:
                np.testing.assert_array_equal(value, other, err_msg=key)


def test_nothing_depends_on_memory_that_was_not_written_to(plain: dict[str, Path]) -> None:
    one, other = (np.load(plain[fill]) for fill in FILLS)
    with one, other:
        for key in one.files:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)
