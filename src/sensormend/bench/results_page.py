"""`write_page` writes a page with every table and picture in a folder of results; it refers to nothing outside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from sensormend.bench.experiment import Experiment, RunPlan
from sensormend.bench.registry import EXPERIMENTS
from sensormend.bench.store import Store
from sensormend.bench.tables import Cell, ResultTable
from sensormend.files import write_beside

__all__ = ["write_page"]

STYLE = """
:root { color-scheme: light dark; --ink: #26303b; --soft: #5d6874; --line: #d5dbe1; --back: #fff; --good: #00734f;
  --bad: #b3261e; --head: #f2f5f7; --link: #005b92; }
@media (prefers-color-scheme: dark) { :root { --ink: #dde3ea; --soft: #9aa6b2; --line: #39424d; --back: #14191f;
  --good: #4cc38a; --bad: #ff8a80; --head: #1d242c; --link: #6db8f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--back); }
h1, h2, h3 { line-height: 1.25; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
a { color: var(--link); } nav ul { columns: 16rem; padding-left: 1.2rem; } code { overflow-wrap: anywhere; }
.table { overflow-x: auto; margin: 1rem 0 .4rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { background: var(--head); vertical-align: bottom; } th.label, td.label { text-align: left; }
tr.group td { border-top: 2px solid var(--soft); }
small { display: block; color: var(--soft); } .met { color: var(--good); } .missed { color: var(--bad);
  font-weight: 600; } p.note { color: var(--soft); font-size: .86rem; max-width: 60rem; margin-top: 0; }
summary h3 { display: inline; font-size: 1rem; } details { margin: .6rem 0; }
figure { margin: 1.5rem 0; } figcaption { color: var(--soft); font-size: .86rem; }
figure > a { display: block; background: #fff; border-radius: .4rem; padding: .3rem; }
img { max-width: 100%; height: auto; display: block; margin: auto; }
"""
MACHINE = {
    "command": "command", "trials": "trials", "runs": "runs", "started": "started", "ended": "ended",
    "sensormend": "sensormend", "commit": "commit", "python": "Python", "numpy": "NumPy", "scipy": "SciPy",
    "system": "system", "machine": "machine", "cores": "cores", "memory_gb": "memory, GB",
}  # fmt: skip


def write_page(store: Store) -> Path:
    """Write `index.html` beside the results: every experiment that `run.json` names, in the usual order."""
    records = store.records()
    parts = [
        (name, EXPERIMENTS[record["experiment"]], record)
        for experiment_name in EXPERIMENTS
        for name, record in records.items()
        if record.get("experiment") == experiment_name
    ]
    content = [_section(store, *part) for part in parts]
    links = [
        f'<li><a href="#{escape(name)}">{escape(experiment.heading(RunPlan.from_dict(record["plan"])))}</a></li>\n'
        for name, experiment, record in parts
    ]
    links.append('<li><a href="#machine">How this was made</a></li>\n')
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>sensormend bench</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>sensormend bench</h1>\n"
        "<p>Every method on the same readings. All results are in "
        f"{_link('results.parquet')}, one row per run; {_link('run.json')} says how they were made.</p>\n"
        f'<nav aria-label="Contents"><ul>\n{"".join(links)}</ul></nav>\n'
        f"{''.join(content)}{_machine(records)}</body>\n</html>\n"
    )
    path = store.folder / "index.html"
    with write_beside(path) as file:
        file.write(text)
    return path


def _section(store: Store, name: str, experiment: Experiment, record: Mapping[str, Any]) -> str:
    plan = RunPlan.from_dict(record["plan"])
    keys = [job.key for job in experiment.jobs(plan)]
    rows, versions = store.rows(keys), store.versions(keys)
    tables = experiment.tables(rows, plan)
    lines = [f'<section id="{escape(name)}">\n<h2>{escape(experiment.heading(plan))}</h2>\n']
    if record["done"] < record["runs"]:
        lines.append(f"<p><strong>Unfinished: {record['done']} of {record['runs']} runs are done.</strong></p>\n")
    if len(versions) > 1:
        lines.append(
            f"<p><strong>Made by more than one version of the code: {escape(', '.join(versions))}.</strong></p>\n"
        )
    lines.append(f"<p>Made by <code>{escape(record['command'])}</code>.")
    if tables:
        lines.append(f" The tables: {_link(f'{name}.md')}, {_link(f'{name}.csv')}.")
    lines.append("</p>\n")
    lines += [_picture(store.folder, file, experiment) for file in record["pictures"] if file.endswith(".png")]
    lines += [_table(table) for table in tables]
    return "".join([*lines, "</section>\n"])


def _picture(folder: Path, file: str, experiment: Experiment) -> str:
    sharp = file.removesuffix(".png") + ".svg"
    target = sharp if (folder / sharp).is_file() else file
    alt = f"{experiment.title}: {experiment.caption}" if experiment.caption else experiment.title
    return (
        f'<figure><a href="{escape(target)}"><img src="{escape(file)}" alt="{escape(alt)}" loading="lazy"></a>'
        f"<figcaption>{escape(experiment.caption)} {_link(target)}</figcaption></figure>\n"
    )


def _table(table: ResultTable) -> str:
    labels = len(table.labels)
    head = "".join(
        f'<th scope="col"{" class=label" if number < labels else ""}>{escape(name)}</th>'
        for number, name in enumerate(table.headers)
    )
    if table.axis:
        wide = len(table.headers) - labels
        head = f'<th colspan="{labels}"></th><th colspan="{wide}">{escape(table.axis)}</th></tr>\n<tr>{head}'
    body = []
    for number, row in enumerate(table.rows):
        cells = [f"<td class=label>{escape(label)}</td>" for label in row]
        cells += [_cell(cell) for cell in table.line(number)]
        body.append(f"<tr{' class=group' if table.starts_group(number) else ''}>{''.join(cells)}</tr>\n")
    title = f"<h3>{escape(table.title)}</h3>"
    content = (
        f'<div class="table" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f'<tbody>\n{"".join(body)}</tbody></table></div>\n<p class="note">{escape(table.note)}</p>\n'
    )
    if table.aside:
        return f"<details><summary>{title}</summary>\n{content}</details>\n"
    return f"{title}\n{content}"


def _cell(cell: Cell) -> str:
    kind, beside = "", [cell.beside] if cell.beside else []
    if cell.bar is not None and cell.mean == cell.mean:
        met = cell.bar.met(cell.mean)
        kind = f' class="{"met" if met else "missed"}"'
        beside.append(str(cell.bar) if met else f"misses {cell.bar}")
    return f"<td{kind}>{escape(cell.value)}{''.join(f'<small>{escape(text)}</small>' for text in beside)}</td>"


def _machine(records: Mapping[str, Mapping[str, Any]]) -> str:
    head = "".join(f"<th class=label>{escape(name)}</th>" for name in ("", *MACHINE.values()))
    lines = []
    for name, record in records.items():
        cells = [name, *("-" if record.get(field) is None else str(record[field]) for field in MACHINE)]
        lines.append("<tr>" + "".join(f"<td class=label>{escape(cell)}</td>" for cell in cells) + "</tr>\n")
    return (
        '<section id="machine">\n<h2>How this was made</h2>\n<div class="table" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody></table></div>\n</section>\n"
    )


def _link(file: str) -> str:
    return f'<a href="{escape(file)}">{escape(file)}</a>'
