"""`main` runs a command and reports its errors.

Exit codes: 0 done; 2 a wrong call, also one with a path that does not exist; 1 anything else. A failure is one line on
stderr that says what to do.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import cyclopts

from sensormend import __version__
from sensormend.errors import ConfigError, MissingError, SensormendError, one_line

__all__ = ["STDIN", "app", "main"]

app = cyclopts.App(
    name="sensormend",
    help="Find the sensors of a network that report wrong values, and clean their data.",
    version=__version__,
)
# Commands are given by name: only the one that is called is imported. They are listed in the order of their use.
COMMANDS = {
    "demo": None,
    "example": None,
    "probe": "SOURCE [OPTIONS]",
    "clean": "READINGS... OUT [OPTIONS]",
    "watch": "SOURCE OUT [OPTIONS]",
    "serve": "OUT [OPTIONS]",
    "report": None,
    "explain": "OUT [SENSOR [TIME]] [OPTIONS]",
    "compare": "OUT [LABELS] [OPTIONS]",
    "notes": "TABLE MAINTENANCE [OPTIONS]",
    "check": None,
    "bench": None,
}
"""The commands, and their usage where that of cyclopts is not good enough."""

for place, (name, call) in enumerate(COMMANDS.items()):
    usage = {} if call is None else {"usage": f"Usage: sensormend {name} {call}\n"}
    app.command(f"sensormend.cli.{name}:{name}", sort_key=place, **usage)

STDIN = "standard input"
"""What the commands get for a lone `-`."""

STOPPED = {
    "bench": "what is done is kept, the same call continues",
    "clean": "what is done is kept, the same call with --resume continues",
}
"""The state of each command's work after Ctrl-C."""

SERVE_VALUE = r"on|off|(\S*:)?\d+|(localhost|\d+(\.\d+){3}|\[[\da-fA-F:.]+\])(:\S*)?"
"""The value of `--serve`: an address, or a malformed one, which is then reported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = _for_parser(sys.argv[1:] if argv is None else argv)
    # Matrices in here are small: fifty eigenvalue problems took thirteen times as long with two threads as with one.
    # It is read when numpy is imported, which the commands do.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if words in ([], ["-h"], ["--help"]):
            tuple(app.subapps)  # Imports all: the list of commands has the first line of each.
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        command(*bound.args, **bound.kwargs)
    except cyclopts.UnusedCliTokensError as error:
        unused = " ".join(error.unused_tokens or ())
        return _fail(2, f"{words[0]} does not know what to do with {unused!r} (see sensormend {words[0]} --help)")
    except cyclopts.MissingArgumentError as error:
        wanted = error.argument.name if error.argument is not None else "an argument"
        return _fail(2, f"{words[0]} needs {wanted} (see sensormend {words[0]} --help)")
    except cyclopts.CycloptsError as error:
        whose = f" {words[0]}" if words and words[0] in COMMANDS else ""
        return _fail(2, f"{one_line(error)} (see sensormend{whose} --help)")
    except (ConfigError, MissingError) as error:
        return _fail(2, one_line(error))
    except SensormendError as error:
        return _fail(1, one_line(error))
    except KeyboardInterrupt:
        return _fail(1, f"stopped; {STOPPED.get(words[0] if words else '', 'nothing more was written')}")
    except BrokenPipeError:
        # The reader of the output has closed it; Python would report that again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(1, one_line(error))
    except Exception as error:
        if os.environ.get("SENSORMEND_DEBUG"):
            raise
        kind = type(error).__name__
        return _fail(1, f"{kind}: {one_line(error)} (set SENSORMEND_DEBUG=1 for the details, and report it)")
    return 0


def _for_parser(typed: Sequence[str]) -> list[str]:
    """Return the arguments for the parser, which knows neither a lone `-` nor an option with an optional value."""
    words: list[str] = []
    for word, following in zip(typed, [*typed[1:], ""], strict=False):
        words.append(STDIN if word == "-" else word)
        if word == "--serve" and not re.fullmatch(SERVE_VALUE, following):
            words.append("on")
    return words


def _fail(code: int, message: str) -> int:
    sys.stderr.write(f"sensormend: {message}\n")
    return code
