"""`write_report` writes text and the views of the dashboard with their data as one file; `bundle` joins its script."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.files import atomic_write, now
from sensormend.io.folder import find_meta
from sensormend.pipeline.sentences import fault_sentence, how_far_judged
from sensormend.readings import Flag
from sensormend.report.about import header_section, provenance_section
from sensormend.report.coverage import coverage_section
from sensormend.report.embedded import embedded_data
from sensormend.report.limits import limits_section
from sensormend.report.markup import Html, channel_name, concat, date, minute, quotation, tag
from sensormend.report.report_data import ReportData, read_report_data
from sensormend.views.attention import Attention
from sensormend.views.channel_status import last_heard
from sensormend.views.encoding import as_json
from sensormend.views.fault_list import (
    CERTAIN_CONFIDENCE,
    CERTAIN_SCORE,
    LIKELY_CONFIDENCE,
    LIKELY_SCORE,
    FaultPage,
)
from sensormend.views.reader import OutReader

__all__ = ["STATIC", "bundle", "page", "write_report"]

STATIC = Path(__file__).parents[1] / "web" / "static"
"""The files of the page."""

MAX_ENDED = 10
"""The maximum number of sensors that are listed because they ended."""

DOCTYPE = "<!doctype html>"
PAGES = (".html", ".htm")
STYLES = (
    STATIC / "vendor" / "uPlot.min.css",
    STATIC / "app.css",
    STATIC / "views.css",
    Path(__file__).with_name("style.css"),
)


IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def write_report(
    out: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    done: Callable[[float], None] | None = None,
) -> Path:
    """Write the report on an output folder as one HTML file, and return its path.

    The file has the views of the dashboard with their data inside and refers to nothing outside of itself: it can be
    mailed, opened without a server, and printed.

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
    beside = find_meta(Path(out).absolute())
    target = Path(to) if to is not None else beside / "report.html"
    if target.is_dir():
        raise ConfigError(f"{target} is a folder: name a file to write, like {target / 'report.html'}")
    place, ours = target.resolve(), {beside.resolve(), Path(out).resolve()}
    if place in ours or (not ours.isdisjoint(place.parents) and place.suffix.lower() not in PAGES):
        raise ConfigError(f"{target} is part of what is reported on: name another file, like report.html")
    if not _replaceable(place):
        raise ConfigError(f"{target} exists and is not an HTML page: name another file, like report.html")
    if to is not None and not place.parent.is_dir():
        raise ConfigError(f"{target} cannot be written: there is no folder {target.parent}")
    with OutReader(out) as reader:
        text = page(read_report_data(reader, done))
    # A symbolic link is followed, not replaced.
    with atomic_write(place) as file:
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
    """Return the page: text, and the parts in which its script shows the views of the dashboard."""
    shown = embedded_data(data)
    parts = [(name, title, part) for name, title, part in _sections(data, shown) if part is not None]
    head = header_section(data, [(name, title) for name, title, _ in parts])
    footer = tag("footer", f"Written by sensormend on {now().replace('T', ' ').removesuffix('Z')[:16]} UTC.")
    # The data is not a script; what could end the element is written as JSON can write it.
    text = as_json(shown).decode("utf-8").replace("<", "\\u003c").replace("\u2028", "\\u2028")
    style, theme, plotter, views = (
        "\n".join(path.read_text(encoding="utf-8") for path in STYLES),
        (STATIC / "theme.js").read_text(encoding="utf-8"),
        (STATIC / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8"),
        bundle("report"),
    )
    scripts = " ".join(map(_hash, (theme, plotter, views)))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head_of_page = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{data.network.name[:120]}: report"),
        tag("style", Html(style)),
        tag("script", Html(theme)),
    )
    note = tag(
        "noscript", tag("p", "The tables, the matrix, the map and the charts need JavaScript; the text does not.")
    )
    body = tag(
        "body",
        head,
        note,
        tag("main", *(part for _, _, part in parts), id="main"),
        footer,
        tag("script", Html(text), type="application/json", id="data"),
        tag("script", Html(plotter)),
        tag("script", Html(views)),
        class_="report",
    )
    return f"{DOCTYPE}\n{tag('html', head_of_page, body, lang='en')}\n"


def _sections(data: ReportData, shown: Mapping[str, Any]) -> list[tuple[str, str, Html | None]]:
    """Return the parts, each with its name and title, in the order in which a reader wants them; None for none."""
    answers, sensors = shown["answers"], shown["sensors"]
    count = "The sensor that was" if len(sensors) == 1 else f"The {len(sensors)} sensors that were"
    worst = tag(
        "section",
        tag("h2", "The worst of them"),
        tag("p", f"{count} wrong for longest, each in the weeks that show most."),
        *(tag("div", class_="view view-sensor worst", id=f"sensor-{number}") for number in range(1, len(sensors) + 1)),
        id="worst",
    )
    return [
        (
            "repair",
            "What to repair",
            _repairs_section(data, answers["attention"][0]["answer"], answers["faults"][0]["answer"]),
        ),
        ("stations", "Stations", _view("stations", "grid") if "sensors" in answers else None),
        ("health", "Day by day", _view("health", "matrix") if "matrix" in answers else None),
        ("map", "Map", _view("map", "on-map") if "moment" in answers else None),
        ("worst", "The worst", worst if sensors else None),
        ("calibration", "Calibration", _view("calibration", "far") if "calibration" in answers else None),
        ("filled", "What was filled", coverage_section(data)),
        ("limits", "What not to use it for", limits_section(data)),
        ("made", "How it was made", provenance_section(data)),
    ]


def _repairs_section(data: ReportData, attention: Attention, faults: FaultPage) -> Html:
    """Return the part on what to repair; without JavaScript it has the sentences of the page's two lists."""
    flags = data.counts.flags
    judged = flags[Flag.GOOD] + flags[Flag.SUSPECT] + flags[Flag.FAIL]
    sentences = dict.fromkeys([*(one.sentence for one in attention.items), *(one.sentence for one in faults.items)])
    return tag(
        "section",
        tag("h2", "What to repair"),
        tag("h3", f"Wrong at the end, {minute(_end(data))}"),
        tag("div", id="attention"),
        _ended(data.ended()),
        tag("p", fault_sentence(data.faults) if judged else how_far_judged(flags)),
        tag("div", class_="view view-faults", id="longest"),
        tag("p", "How sure: ", tag("b", "certain"), f" is a probability of {CERTAIN_CONFIDENCE:g} and more, "
            f"or, where there is none, {CERTAIN_SCORE:g} times past the limit and more, ", tag("b", "likely"),
            f" {LIKELY_CONFIDENCE:g}, or {LIKELY_SCORE:g} times, and more, ", tag("b", "borderline"),
            " less. Silence needs no judgement.", class_="note"),
        tag("noscript", tag("ul", *(tag("li", quotation(sentence)) for sentence in sentences))),
        id="repair",
    )  # fmt: skip


def _end(data: ReportData) -> int:
    """Return the end of the last reading; rows without one may follow it until the period is over."""
    heard = last_heard(data.reader)
    return data.end if heard is None else min(data.end, data.reader.slot(heard) + data.reader.step)


def _ended(ended: Sequence[tuple[str, int]]) -> Html:
    if not ended:
        return Html("")
    entries = [concat([channel_name(sensor), f" on {date(last)}"]) for sensor, last in ended[:MAX_ENDED]]
    rest = f" and {len(ended) - MAX_ENDED:,} more" if len(ended) > MAX_ENDED else ""
    return tag("p", "Ended before the others, with the last reading: ", concat(entries, ", "), f"{rest}.")


def _view(name: str, root: str) -> Html:
    """Return the part in which the script shows a view, which has a title of its own."""
    return tag("section", tag("div", class_="section", id=root), id=name)


def _hash(text: str) -> str:
    """Return a text's hash as a content security policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def bundle(entry: str) -> str:
    """Return a module of the page with all that it imports as one script; each module is a function in it.

    A browser loads no modules from files. The page's modules import names from each other, and export functions,
    classes and constants; any other form is refused.
    """
    parts: dict[str, str] = {}
    _add(entry, parts, ())
    script = "".join(parts.values())
    return f'"use strict";\n(() => {{\nconst modules = {{}};\n{script}}})();\n'


def _add(name: str, parts: dict[str, str], importing: tuple[str, ...]) -> None:
    """Add a module after those that it imports."""
    if name in parts:
        return
    if name in importing:
        raise ValueError(f"{name}.js imports itself by way of {' and '.join(importing)}")
    text = (STATIC / f"{name}.js").read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        _add(other, parts, (*importing, name))
    names = EXPORT.findall(text)
    text = IMPORT.sub(lambda match: f"const {{{match[1].replace(' as ', ': ')}}} = modules[{match[2]!r}];\n", text)
    text = EXPORT.sub("", text).replace("import.meta.url", "document.baseURI")
    if re.search(r"^(?:import|export)\b|\bimport\(|</script", text, re.MULTILINE):
        raise ValueError(f"{name}.js imports or exports in a form that cannot be joined")
    parts[name] = f"modules[{name!r}] = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n"
