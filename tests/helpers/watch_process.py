"""`sensormend watch` in processes of their own."""

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
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers import require_mark
from waiting import wait_until

__all__ = ["GRID", "ForkServer", "WatchProcess"]

GRID = ("--step", "1h", "--period", "1d")

STARTED = (
    "import sys; from sensormend.stream import retrying, service; from sensormend.cli import main; "
    "service.CHECKPOINT_INTERVAL, retrying.GONE_WAIT = map(float, sys.argv[1:3]); sys.exit(main(sys.argv[3:]))"
)


class WatchProcess:
    """`sensormend watch` in a process of its own.

    Parameters
    ----------
    words
        Arguments after `watch`.
    checkpoint
        Seconds between two checkpoints; 20 by default.
    gone
        Seconds to wait for a folder that is gone; 60 by default.
    stdin
        The file descriptor of its standard input; empty by default.

    Attributes
    ----------
    lines
        What it has written on standard error.
    """

    def __init__(
        self,
        *words: str | Path,
        checkpoint: float | None = None,
        gone: float | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        require_mark("processes")
        program = [str(Path(sys.executable).with_name("sensormend"))]
        if checkpoint is not None or gone is not None:
            program = [sys.executable, "-c", STARTED, str(checkpoint or 20.0), str(gone or 60.0)]
        self.lines: list[str] = []
        # A pipe: a file could not be written where a test fills the disk.
        self.process = subprocess.Popen(
            [*program, "watch", *map(str, words), "--metrics", "127.0.0.1:0"],
            stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
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
            sys.stderr.write("".join(f"watch: {line}\n" for line in self.lines))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def lines_with(self, text: str) -> list[str]:
        """Return the lines that contain a text."""
        return [line for line in self.lines if text in line]

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
    def address(self) -> str:
        """Where its metrics are, when it has logged that."""
        wait_until(lambda: bool(self.lines_with("metrics at")) or self.process.poll() is not None)
        match = re.search(r"http://[\d.:]+", self.lines_with("metrics at")[0])
        assert match
        return match[0]

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of /healthz."""
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def metrics(self) -> dict[str, float]:
        """Return its metrics by name and labels."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def connected(self) -> None:
        """Wait until it is connected to its source: from then on a broker keeps all messages for it."""
        wait_until(lambda: self.process.poll() is None and self.metrics()["sensormend_connected"] == 1.0)

    def delivered(self) -> None:
        """Wait until the delivery queues of all sinks are empty."""
        wait_until(lambda: not any(n for name, n in self.metrics().items() if name.startswith("sensormend_backlog{")))

    @property
    def resident_bytes(self) -> int:
        """Its memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


FORK_SERVER = """
import json, os, signal, sys
import sensormend.cli
import sensormend.stream.service as service, sensormend.stream.sources.mqtt_source
import sensormend.stream.sinks.mqtt_sink, sensormend.stream.sinks.alert_sinks, sensormend.stream.sinks.postgres_sink
import psycopg, prometheus_client.exposition
import numpy, sensormend
sensormend.NetworkModel(fiber_axis=2).update(numpy.arange(48.0).reshape(2, 1, 24))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    words, log, checkpoint = json.loads(line)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
        service.CHECKPOINT_INTERVAL = checkpoint
        code = sensormend.cli.main(words)
        os.write(2, b"ended with %d\\n" % code)
        os._exit(code)
    print(child, flush=True)
"""


class ForkServer:
    """Forks processes of `sensormend watch` that have done their imports, so that a kill hits their work."""

    def __init__(self) -> None:
        require_mark("processes")
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORK_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=20)

    def watch(self, *words: str | Path, log: Path, checkpoint: float = 20.0) -> int:
        """Start one, and return its process id; its messages and its exit code are in the log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [["watch", *map(str, words), "--metrics", "off"], str(log), checkpoint]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    @staticmethod
    def kill(pid: int) -> bool:
        """Kill one, and wait until it is gone; return whether it was running."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        return True
