"""`sensormend watch` in processes of their own, as many as it takes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import post
from servers import require_mark

__all__ = ["GRID", "Nursery", "Watch", "until"]

GRID = ("--step", "1h", "--period", "1d")

STARTED = (
    "import sys; from sensormend.stream import retrying, service; from sensormend.cli import main; "
    "service.CHECKPOINT, retrying.GONE = map(float, sys.argv[1:3]); sys.exit(main(sys.argv[3:]))"
)


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something to become true, on a machine that is busy; fail when it does not."""
    post.until(true, seconds)


class Watch:
    """`sensormend watch` in a process of its own.

    Parameters
    ----------
    words
        What is typed after `watch`.
    checkpoint
        Seconds between two checkpoints, where they should be more frequent than anybody would have them.
    gone
        Seconds for which a folder that is gone is waited for, where that should be shorter than it is.
    given
        What is on its standard input; nothing by default.

    Attributes
    ----------
    said
        The lines that it has said on standard error.
    """

    def __init__(
        self,
        *words: str | Path,
        checkpoint: float | None = None,
        gone: float | None = None,
        given: int = subprocess.DEVNULL,
    ) -> None:
        require_mark("processes")
        program = [str(Path(sys.executable).with_name("sensormend"))]
        if checkpoint is not None or gone is not None:
            program = [sys.executable, "-c", STARTED, str(checkpoint or 20.0), str(gone or 60.0)]
        self.said: list[str] = []
        # A pipe: a file would be as full as the disk is where a test says that it is.
        self.process = subprocess.Popen(
            [*program, "watch", *map(str, words), "--metrics", "127.0.0.1:0"],
            stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        if error is not None:
            sys.stderr.write("".join(f"watch: {line}\n" for line in self.said))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def saying(self, text: str) -> list[str]:
        """Return the lines that say this."""
        return [line for line in self.said if text in line]

    def wait(self, seconds: float = 30) -> int:
        """Return its exit code when it has ended."""
        code = self.process.wait(seconds)
        self._listener.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def stop(self) -> int:
        """Ask it to end as an operator does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it with no warning."""
        self.process.kill()
        self.wait()

    @property
    def page(self) -> str:
        """Where its figures are, when it has said so."""
        until(lambda: bool(self.saying("metrics at")) or self.process.poll() is not None)
        found = re.search(r"http://[\d.:]+", self.saying("metrics at")[0])
        assert found
        return found[0]

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return what it says of itself: the status, and why."""
        try:
            with urllib.request.urlopen(f"{self.page}/healthz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def figures(self) -> dict[str, float]:
        """Return its figures by name and labels."""
        with urllib.request.urlopen(f"{self.page}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def connected(self) -> None:
        """Wait until it is in touch with its source: from then on a broker keeps for it whatever comes."""
        until(lambda: self.process.poll() is None and self.figures()["sensormend_connected"] == 1.0)

    def delivered(self) -> None:
        """Wait until every sink has all that is for it."""
        until(lambda: not any(n for name, n in self.figures().items() if name.startswith("sensormend_backlog{")))

    @property
    def resident(self) -> int:
        """How many bytes of it are in memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


NURSERY = """
import json, os, signal, sys
import sensormend.cli
import sensormend.stream.service as service, sensormend.stream.sources.mqtt_source
import sensormend.stream.sinks.mqtt_sink, sensormend.stream.sinks.alert_sinks, sensormend.stream.sinks.postgres_sink
import psycopg, prometheus_client.exposition
import numpy, sensormend
sensormend.AutoOLRTR(fiber_axis=2).update(numpy.arange(48.0).reshape(2, 1, 24))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    words, log, checkpoint = json.loads(line)
    born = os.fork()
    if not born:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        service.CHECKPOINT = checkpoint
        code = sensormend.cli.main(words)
        os.write(2, b"ended with %d\\n" % code)
        os._exit(code)
    print(born, flush=True)
"""


class Nursery:
    """Makes processes of `sensormend watch` that have done their imports: a second in which a kill hits nothing."""

    def __init__(self) -> None:
        require_mark("processes")
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=20)

    def watch(self, *words: str | Path, log: Path, checkpoint: float = 20.0) -> int:
        """Start one, and return its number; what it says, and how it ends, is in the log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [["watch", *map(str, words), "--metrics", "off"], str(log), checkpoint]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    @staticmethod
    def kill(number: int) -> bool:
        """Kill one, and return when it is gone; say whether it was there."""
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            return False
        until(lambda: not Path(f"/proc/{number}").exists())
        return True
