"""`Points` runs a service in processes that list what they write, or are killed at one of these points.

The points are not known here: a library that is loaded before libc sees every write, fsync, rename, truncation and
removal below a folder, whoever makes it. A new write is a new point on the day on which it is written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from servers import lacking, require_mark

__all__ = ["MODES", "Points"]

MODES = {"list": 1, "before": 2, "after": 3, "torn": 4}
"""What happens at a point: it is written down, or the process is killed before, after, or in the middle of it."""

SERVER = """
import ctypes, json, os, sys, traceback
sys.path[:0] = json.loads(sys.argv[2])
import numpy, psycopg, duckdb, polars
import sensormend, sensormend.cli, sensormend.stream.service
from fault_points_run import run
sensormend.AutoOLRTR(fiber_axis=2).update(numpy.arange(48.0).reshape(2, 1, 24))
arm = ctypes.CDLL(sys.argv[1]).arm
for line in sys.stdin:
    order = json.loads(line)
    born = os.fork()
    if not born:
        code = 70
        try:
            os.dup2(os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), 2)
            listed = os.open(order["list"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if order["list"] else -1
            arm(order["out"].encode(), order["mode"], order["point"].encode(), order["which"], listed)
            code = run(order["out"], order["told"])
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(born, 0)
    print(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
"""


class Points:
    """Processes in which `fault_points_run.run` is called.

    Parameters
    ----------
    folder
        For the library and the logs.

    Attributes
    ----------
    log
        What the processes have said.
    """

    def __init__(self, folder: Path) -> None:
        require_mark("processes")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or not sys.platform.startswith("linux"):
            lacking("points of failure are found on Linux, with a C compiler; there is none")
        here, library = Path(__file__).parent, folder / "fault_points.so"
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", library, here / "fault_points.c", "-ldl"], check=True
        )
        self.folder, self.log = folder, folder / "log"
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(library), json.dumps([str(here)])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "LD_PRELOAD": str(library)}
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def run(self, out: Path, told: Path, mode: str | None = None, point: str = "", which: int = 1) -> int:
        """Run a service to its end, or to a point; return its exit code, or -9 where it was killed.

        Parameters
        ----------
        out, told
            Where it writes; and where what it delivers is noted, one line for each.
        mode, point, which
            What happens at which of the points of a name; nothing by default.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "out": str(out), "told": str(told), "log": str(self.log), "point": point, "which": which,
            "mode": 0 if mode is None else MODES[mode], "list": str(out) + ".points" if mode == "list" else "",
        }  # fmt: skip
        # A process that neither ends nor dies would let a test wait for ever.
        late = threading.Timer(120, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        finally:
            late.cancel()

    def listed(self, out: Path, told: Path) -> list[str]:
        """Run it to its end, and return the points that it has passed."""
        assert self.run(out, told, "list") == 0, self.log.read_text()
        return Path(f"{out}.points").read_text().splitlines()
