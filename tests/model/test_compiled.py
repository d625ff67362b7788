"""What is compiled computes what its Python says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oracles import small_run

CLOSE = 1e-6
"""Compiled sums may be reordered, and what is known is kept in single precision: a bit may tip, 1e-7 of a mean."""


FILLS = ("0", "7")


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


def test_nothing_depends_on_memory_that_nobody_has_written_to(plain: dict[str, Path]) -> None:
    one, other = (np.load(plain[fill]) for fill in FILLS)
    with one, other:
        for key in one.files:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)
