"""`sensormend report`: one file to mail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

__all__ = ["report"]

PATIENCE = 1.0
"""Seconds without a sign of life that nobody minds."""


def report(out: Path, /, *, to: Path | None = None) -> None:
    """Write what there is to say about a network as one HTML file, to mail or to print.

    What to repair, how every sensor was on every day, a map, the worst sensors with pictures, what was filled and how
    sure that is, and what not to use the data for. The file needs nothing else: no network, no other file, no script.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote: a folder, or a single file.
    to
        The file to write; report.html in OUT by default, in OUT.meta for a single file.
    """
    from sensormend.report.document import write_report

    with _progress() as done:
        written = write_report(out, to, done)
    size = written.stat().st_size
    written_size = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"
    Console(highlight=False, soft_wrap=True).print(f"The report is in {written} ({written_size}).", markup=False)


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Show on stderr how far the work is, where it takes longer than a moment."""
    console = Console(stderr=True)
    bars = Progress(TextColumn("reading"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), console=console,
                    disable=not console.is_terminal, transient=True)  # fmt: skip
    task = bars.add_task("reading", total=1.0)
    began = perf_counter()

    def done(share: float) -> None:
        if perf_counter() - began > PATIENCE and not bars.live.is_started:
            bars.start()
        bars.update(task, completed=share)

    try:
        yield done
    finally:
        if bars.live.is_started:
            bars.stop()
    seconds = perf_counter() - began
    if seconds > PATIENCE and not console.is_terminal:
        print(f"reading  {seconds:.1f} s", file=sys.stderr)
