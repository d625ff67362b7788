"""`with_ctrl_c` prepares a child process for `send_signal(SIGINT)`, as `preexec_fn`."""

from __future__ import annotations

import signal

__all__ = ["with_ctrl_c"]


def with_ctrl_c() -> None:
    """Let Ctrl-C interrupt this process: in the background of a shell it is ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
