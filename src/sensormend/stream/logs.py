"""`setup` configures the log, `say` writes a line, `ConditionLog` logs the begin and the end of a condition."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import IO, Any

from sensormend.errors import ConfigError

__all__ = ["ConditionLog", "make_handler", "say", "setup"]

_ROOT = "sensormend"
# Values that need no quotes after a key: no blanks, no `=` or quotes, no control characters.
_PLAIN = re.compile(r"[\w.:/@%+*\-,;()\[\]#?&~<>]+")


def setup(form: str = "text", level: str = "info", stream: IO[str] | None = None) -> None:
    """Send all log lines of this level or above to a stream, standard error by default, as text or JSON."""
    if level not in ("debug", "info", "warning", "error"):
        raise ConfigError(f"the log level is debug, info, warning or error; got {level!r}")
    log, handler = logging.getLogger(_ROOT), make_handler(form, sys.stderr if stream is None else stream)
    for former in [entry for entry in log.handlers if isinstance(entry, _LogHandler)]:
        log.removeHandler(former)
    log.addHandler(handler)
    log.setLevel(level.upper())


def make_handler(form: str, stream: IO[str]) -> logging.Handler:
    """Return a handler that writes one line for each record.

    Examples
    --------
    >>> log = logging.Logger("example")
    >>> log.addHandler(make_handler("json", sys.stdout))
    >>> say(log, logging.INFO, "period final", period="2019-01-01", rows=240)
    {"time": "...Z", "level": "info", "message": "period final", "period": "2019-01-01", "rows": 240}
    """
    if form not in ("text", "json"):
        raise ConfigError(f"logs are text or json; got {form!r}")
    handler = _LogHandler(stream)
    handler.setFormatter(_Text() if form == "text" else _Json())
    return handler


def say(log: logging.Logger, level: int, text: str, /, **fields: object) -> None:
    """Log a text with fields at a level of `logging`."""
    log.log(level, "%s", text, extra={"fields": fields})


class ConditionLog:
    """Logs the begin and the end of a condition, as a warning and an info, and nothing in between.

    Examples
    --------
    >>> log = logging.Logger("example")
    >>> log.addHandler(make_handler("json", sys.stdout))
    >>> lost = ConditionLog(log, "broker lost", "broker is back", steady=iter((0.0, 7.0)).__next__)
    >>> for act in (lost.begin, lost.begin, lost.end, lost.end):
    ...     act()
    {"time": "...Z", "level": "warning", "message": "broker lost"}
    {"time": "...Z", "level": "info", "message": "broker is back", "seconds": 7.0, "times": 2}
    """

    def __init__(
        self, log: logging.Logger, begin_text: str, end_text: str, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._begin_text, self._end_text, self._steady = log, begin_text, end_text, steady
        self._since: float | None = None
        self._times = 0

    @property
    def active(self) -> bool:
        """Whether the condition holds."""
        return self._since is not None

    def begin(self, **fields: object) -> None:
        """Record that the condition holds; log it if that is new."""
        self._times += 1
        if self._since is None:
            self._since, self._times = self._steady(), 1
            say(self._log, logging.WARNING, self._begin_text, **fields)

    def end(self) -> None:
        """Record that the condition does not hold; log it if that is new."""
        if self._since is not None:
            seconds, self._since = round(self._steady() - self._since, 1), None
            say(self._log, logging.INFO, self._end_text, seconds=seconds, times=self._times)


class _LogHandler(logging.StreamHandler[IO[str]]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore the error: the service must not end because its log is closed or the disk of the log is full."""


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = "".join(f" {key}={_value(value)}" for key, value in _fields(record).items())
        line = f"{moment} {record.levelname.lower():<7}  {_printable(record.getMessage())}{' ' * bool(fields)}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {key: value for key, value in _fields(record).items() if key not in line}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=not text.isprintable())


def _printable(text: str) -> str:
    """Return a text in one line with control characters escaped: names of sensors come from outside."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
