"""`sensormend report` writes a report as one HTML file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

__all__ = ["report"]

SHOW_AFTER = 1.0
"""Seconds after which the progress is shown."""


def report(out: Path, /, *, to: Path | None = None) -> None:
    """Write a report on a network as one HTML file, to mail or to print.

    It has the repair list, the health of every sensor by day, a map, the worst sensors with pictures, what was filled
    with what accuracy, and the limits of the data. The file has the views of the dashboard with their data inside: it
    needs no server, no network and no other file.

    Parameters
    ----------
    out
        The OUT of `clean` or `watch`: a folder, or a single file.
    to
        The file to write; report.html in OUT by default, in OUT.meta for a single file.
    """
    from sensormend.report.document import write_report

    with _progress() as done:
        written = write_report(out, to, done)
    count = written.stat().st_size
    size = f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(count // 1000, 1)} kB"
    Console(highlight=False, soft_wrap=True).print(f"The report is in {written} ({size}).", markup=False)


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Show the progress on stderr, unless the work is done within `SHOW_AFTER` seconds."""
    console = Console(stderr=True)
    bars = Progress(TextColumn("reading"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), console=console,
                    disable=not console.is_terminal, transient=True)  # fmt: skip
    task = bars.add_task("reading", total=1.0)
    start = perf_counter()

    def done(share: float) -> None:
        if perf_counter() - start > SHOW_AFTER and not bars.live.is_started:
            bars.start()
        bars.update(task, completed=share)

    try:
        yield done
    finally:
        if bars.live.is_started:
            bars.stop()
    seconds = perf_counter() - start
    if seconds > SHOW_AFTER and not console.is_terminal:
        print(f"reading  {seconds:.1f} s", file=sys.stderr)
