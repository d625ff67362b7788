"""A wheel has the engine as machine code, which does what numba's does, without numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from array import array
from pathlib import Path

import numpy as np
import pytest

from oracles import small_run
from sensormend.model import compiling, library

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-9
"""Other processors sum in another order."""

PROGRAM = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
from sensormend.model import library
if sys.argv[2] == "generic":
    library._flags = frozenset
import numpy as np
from sensormend.model import compiling
assert compiling.LIBRARY is not None
from oracles import small_run
runs = {name: small_run.written(small_run.recovered(partitioned=name == "partitioned"))
        for name in ("single", "partitioned")}
np.savez(sys.argv[1], **{f"{name}_{key}": value for name, run in runs.items() for key, value in run.items()})
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an unpacked wheel."""
    builder = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    if sys.platform != "linux" or os.environ.get("SENSORMEND_COMPILE") == "0":
        pytest.skip("only wheels for Linux have the engine")
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        # A build backend builds the project in the current folder.
        patch.chdir(ROOT)
        name = builder.build_wheel(str(folder))
    assert name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    with zipfile.ZipFile(folder / name) as packed:
        packed.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.processes
@pytest.mark.parametrize("processor", library.PROCESSORS)
def test_the_library_and_numba_agree(wheel: Path, processor: str, tmp_path: Path) -> None:
    if not library.PROCESSORS[processor] <= library._flags():
        pytest.skip(f"this processor is not an {processor}")
    path = os.pathsep.join(map(str, [wheel, ROOT / "tests", ROOT / "tests" / "helpers"]))
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "runs.npz"), processor]
    subprocess.run(program, check=True, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path)
    with np.load(tmp_path / "runs.npz") as archive:
        # Which sensors are alike depends on single precision, where other processors may round otherwise.
        for name in ("single", "partitioned")[: 1 if processor == "generic" else 2]:
            ours = small_run.written(small_run.recovered(partitioned=name == "partitioned"))
            for key, value in ours.items():
                if value.dtype.kind == "f":
                    np.testing.assert_allclose(archive[f"{name}_{key}"], value, rtol=CLOSE, atol=CLOSE, err_msg=key)
                else:
                    np.testing.assert_array_equal(archive[f"{name}_{key}"], value, err_msg=key)


@pytest.mark.processes
def test_a_wrong_argument_does_not_reach_the_library(wheel: Path) -> None:
    built = wheel / "sensormend" / "model" / "built"
    signatures = json.loads((built / "engine.json").read_text(encoding="utf-8"))["signatures"]
    test = library.Library(built / "engine-generic.so", signatures).function("_test_positive_definite")
    definite = np.ones(2, np.bool_)
    test(np.array([[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]), definite)
    assert definite.tolist() == [True, False]
    with pytest.raises(TypeError, match=r"takes d3\?1; got f3\?1"):
        test(np.ones((2, 2, 2), np.float32), definite)
    with pytest.raises(TypeError, match="not contiguous"):
        test(np.ones((2, 2, 4))[:, :, ::2], definite)


def test_arguments_are_flattened_in_their_order() -> None:
    readings = np.zeros((2, 3))
    table, types = array("q"), list[str]()
    library.flatten((7, True, (readings, (1.0,)), np.zeros(1, np.float32)), table, types)
    assert types == ["i", "b", "d2", "f", "f1"]
    assert (table[0], table[1], table[2]) == (7, 1, id(readings))
    assert np.array(table[3:4]).view(float) == [1.0]


def test_a_library_of_other_sources_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "BUILT", tmp_path)
    assert library.load_library(compiling.SOURCES) is None
    (tmp_path / "engine.json").write_text('{"sources": "others", "signatures": {}}')
    assert library.load_library(compiling.SOURCES) is None
    (tmp_path / "engine.json").write_text(json.dumps({"sources": compiling.SOURCES, "signatures": {}}))
    assert library.load_library(compiling.SOURCES) is None


def test_the_kinds_of_processors_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library._flags() or sys.platform != "linux"
    assert list(library.PROCESSORS)[-1] == "generic"
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert library.load_library(compiling.SOURCES) is None
