"""Alerts to a program of the operator's own: run once for each."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from sensormend.errors import ConfigError, RefusedError, SensormendError
from sensormend.stream.deliveries import Alert
from sensormend.stream.sinks.alerts import AlertSink
from sensormend.stream.sinks.messages import alert_message, text_of, whole

__all__ = ["Command"]

TIMEOUT = 60.0
"""Seconds after which a program and all that it started is ended."""


class Command(AlertSink):
    """Runs a program for each alert, without a shell.

    The alert is on standard input as JSON, and in `SENSORMEND_SENSOR`, `_VARIABLE`, `_STATE`, `_REASON`, `_SINCE` and
    `_SENTENCE`. A program that ends with anything but 0 refuses the alert; one that cannot be run, or takes longer than
    a minute, fails. It is run again later in both cases.

    Parameters
    ----------
    words
        The program and its arguments; a text is taken apart as a shell would, and nothing in it is expanded.
    """

    def __init__(self, words: str | Sequence[str], timeout: float = TIMEOUT) -> None:
        super().__init__()
        try:
            self._words = shlex.split(words) if isinstance(words, str) else list(words)
        except ValueError as error:
            raise ConfigError(f"a command for alerts cannot be taken apart: {error}") from None
        if not self._words:
            raise ConfigError("a command for alerts has no words: say which program to run")
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"a command for alerts cannot be run: there is no program {self._words[0]!r}")
        self._timeout = timeout

    def send(self, alert: Alert) -> None:
        """Run it."""
        message = alert_message(alert)
        names = ("sensor", "variable", "state", "reason", "since", "sentence")
        environment = {**os.environ, **{f"SENSORMEND_{name.upper()}": whole(str(message[name])) for name in names}}
        program = self._words[0]
        # Files, no pipes: a pipe that a grandchild keeps open would be waited for without end.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
            given.write(text_of(message))
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    env=environment,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                raise SensormendError(f"{program} cannot be run: {error.strerror}") from None
            try:
                status = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                raise SensormendError(f"{program} did not end within {self._timeout:g} s") from None
            finally:
                if process.returncode is None:
                    _end(process)
            if status:
                said.seek(0)
                last = said.read(10_000).decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
                raise RefusedError(f"{program} ended with {status}{': ' if last else ''}{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
