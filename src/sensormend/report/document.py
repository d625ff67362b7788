"""`write_report` writes the sections as one file, which appears only when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sensormend.errors import ConfigError
from sensormend.files import now, write_beside
from sensormend.io.folder import meta_of
from sensormend.report.about import header_section, provenance_section
from sensormend.report.coverage import coverage_section, matrix_section
from sensormend.report.limits import limits_section
from sensormend.report.map import map_section
from sensormend.report.markup import Html, style_sheet, tag
from sensormend.report.repairs import calibration_section, repairs_section, worst_section
from sensormend.report.report_data import ReportData, read_report_data
from sensormend.views.reader import OutReader

__all__ = ["SECTIONS", "page", "write_report"]

SECTIONS: tuple[tuple[str, str, Callable[[ReportData], Html | None]], ...] = (
    ("repair", "What to repair", repairs_section),
    ("health", "Every day", matrix_section),
    ("map", "Map", map_section),
    ("worst", "The worst", worst_section),
    ("calibration", "Calibration", calibration_section),
    ("filled", "What was filled", coverage_section),
    ("limits", "What not to use it for", limits_section),
    ("made", "How it was made", provenance_section),
)
"""In the order in which a reader wants them."""

DOCTYPE = "<!doctype html>"
PAGES = (".html", ".htm")


def write_report(
    out: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    done: Callable[[float], None] | None = None,
) -> Path:
    """Write the report on an OUT as one HTML file, and return its path.

    The file refers to nothing outside of itself: it can be mailed, opened without a network, and printed.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote: a folder, or a single file.
    to
        The file to write; `report.html` in OUT, or in the `.meta` folder beside a single file, by default. An
        existing page is replaced, any other file is not.
    done
        Called with the progress, from 0 to 1.

    Examples
    --------
    >>> from sensormend.report import write_report
    >>> write_report("mended", "city.html")  # doctest: +SKIP
    PosixPath('city.html')
    """
    beside = meta_of(Path(out).absolute())
    target = Path(to) if to is not None else beside / "report.html"
    if target.is_dir():
        raise ConfigError(f"{target} is a folder: name a file to write, like {target / 'report.html'}")
    place, ours = target.resolve(), {beside.resolve(), Path(out).resolve()}
    if place in ours or (not ours.isdisjoint(place.parents) and place.suffix.lower() not in PAGES):
        raise ConfigError(f"{target} is part of what is reported on: name another file, like report.html")
    if not _replaceable(place):
        raise ConfigError(f"{target} exists and is not an HTML page: name another file, like report.html")
    with OutReader(out) as reader:
        text = page(read_report_data(reader, done))
    # A symbolic link is followed, not replaced.
    with write_beside(place) as file:
        file.write(text)
    return target


def _replaceable(target: Path) -> bool:
    """Return whether only a page would be overwritten, not READINGS that were given by mistake."""
    if not target.exists():
        return True
    # A pipe or a device would be replaced by a file.
    if not target.is_file():
        return False
    if target.suffix.lower() in PAGES:
        return True
    try:
        with target.open("rb") as file:
            return file.read(len(DOCTYPE)).lower() in (b"", DOCTYPE.encode())
    except OSError:
        return False


def page(data: ReportData) -> str:
    """Return the page."""
    parts = [(name, title, part) for name, title, make in SECTIONS if (part := make(data)) is not None]
    head = header_section(data, [(name, title) for name, title, _ in parts])
    footer = tag("footer", f"Written by sensormend on {now().replace('T', ' ').removesuffix('Z')[:16]} UTC.")
    head_of_page = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{data.network.name[:120]}: report"),
        tag("style", Html(style_sheet())),
    )
    body = tag("body", head, tag("main", *(part for _, _, part in parts)), footer)
    return f"{DOCTYPE}\n{tag('html', head_of_page, body, lang='en')}\n"
