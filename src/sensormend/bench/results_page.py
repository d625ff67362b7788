"""`write_page` writes a page with every table and picture in a folder of results; it refers to nothing outside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from sensormend.bench.experiment import Experiment, RunPlan
from sensormend.bench.registry import EXPERIMENTS
from sensormend.bench.store import Store
from sensormend.bench.tables import ResultTable, pandas_module
from sensormend.files import write_beside

__all__ = ["write_page"]

STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 1rem/1.5 system-ui, sans-serif; }
h2 { margin-top: 3rem; border-top: 1px solid #8888; padding-top: 1.5rem; } code { overflow-wrap: anywhere; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: .86rem; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #8888; white-space: nowrap; }
summary h3 { display: inline; font-size: 1rem; } p, figcaption { max-width: 60rem; }
figure > a { display: block; background: #fff; } img { max-width: 100%; height: auto; display: block; margin: auto; }
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
    title = f"<h3>{escape(table.title)}</h3>"
    if table.aside:
        return f"<details><summary>{title}</summary>\n{table.html()}</details>\n"
    return f"{title}\n{table.html()}"


def _machine(records: Mapping[str, Mapping[str, Any]]) -> str:
    frame = pandas_module().DataFrame(records.values(), index=list(records)).reindex(columns=list(MACHINE))
    table = frame.rename(columns=MACHINE).astype(object).to_html(border=0, na_rep="-")
    return f'<section id="machine">\n<h2>How this was made</h2>\n{table}\n</section>\n'


def _link(file: str) -> str:
    return f'<a href="{escape(file)}">{escape(file)}</a>'
