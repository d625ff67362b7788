"""`Points` runs a service in processes that list what they write, or are killed at one of these points.

The points are not known here: a library that is loaded before libc sees every write, fsync, rename, truncation and
removal below a folder, in any module. A new write is a new point without a change here.
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
"""What happens at a point: it is listed, or the process is killed before, after, or in the middle of it."""

SERVER = """
import ctypes, json, os, sys, traceback
sys.path[:0] = json.loads(sys.argv[2])
import numpy, psycopg, duckdb, polars
import sensormend, sensormend.cli, sensormend.stream.service
from fault_points_run import run
sensormend.NetworkModel(fiber_axis=2).update(numpy.arange(48.0).reshape(2, 1, 24))
arm = ctypes.CDLL(sys.argv[1]).arm
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        code = 70
        try:
            os.dup2(os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), 2)
            listed = os.open(order["list"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if order["list"] else -1
            arm(order["out"].encode(), order["mode"], order["point"].encode(), order["which"], listed)
            code = run(order["out"], order["deliveries"])
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
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
        The messages of the processes.
    """

    def __init__(self, folder: Path) -> None:
        require_mark("processes")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or not sys.platform.startswith("linux"):
            lacking("points of failure need Linux and a C compiler")
        helpers, library = Path(__file__).parent, folder / "fault_points.so"
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", library, helpers / "fault_points.c", "-ldl"], check=True
        )
        self.folder, self.log = folder, folder / "log"
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(library), json.dumps([str(helpers)])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "LD_PRELOAD": str(library)}
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def run(self, out: Path, deliveries: Path, mode: str | None = None, point: str = "", which: int = 1) -> int:
        """Run a service to its end, or to a point; return its exit code, or -9 where it was killed.

        Parameters
        ----------
        out, deliveries
            Where it writes; and the file in which its deliveries are recorded, one line for each.
        mode, point, which
            What happens at which of the points of a name; nothing by default.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "out": str(out), "deliveries": str(deliveries), "log": str(self.log), "point": point, "which": which,
            "mode": 0 if mode is None else MODES[mode], "list": str(out) + ".points" if mode == "list" else "",
        }  # fmt: skip
        # A process that hangs would let a test wait for ever.
        timer = threading.Timer(120, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        finally:
            timer.cancel()

    def listed(self, out: Path, deliveries: Path) -> list[str]:
        """Run it to its end, and return the points that it has passed."""
        assert self.run(out, deliveries, "list") == 0, self.log.read_text()
        return Path(f"{out}.points").read_text().splitlines()
