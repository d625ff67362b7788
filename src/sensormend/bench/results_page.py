"""`write_page` writes a page with every table and picture in a folder of results; it refers to nothing outside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from sensormend.bench.experiment import Experiment, RunPlan
from sensormend.bench.store import Store
from sensormend.bench.tables import pandas_module
from sensormend.files import write_beside

__all__ = ["write_page"]

HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sensormend bench</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 1rem/1.5 system-ui, sans-serif; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: .86rem; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #8888; white-space: nowrap; }
img { max-width: 100%; background: #fff; }
</style>
<h1>sensormend bench</h1>
<p>Every method on the same readings. All results are in <a href="results.parquet">results.parquet</a>, one row per run;
<a href="run.json">run.json</a> says how they were made.</p>
"""


def write_page(store: Store, experiments: Mapping[str, Experiment]) -> Path:
    """Write `index.html` beside the results: every experiment that `run.json` names, in the usual order."""
    records = store.records()
    order = [name for kind in experiments for name in records if records[name].get("experiment") == kind]
    sections = [_section(store, name, experiments[records[name]["experiment"]], records[name]) for name in order]
    machine = pandas_module().DataFrame(records).drop(index=["plan", "pictures", "seeds"], errors="ignore").T
    path = store.folder / "index.html"
    with write_beside(path) as file:
        file.write(f"{HEAD}{''.join(sections)}<h2>How this was made</h2>\n{machine.to_html(border=0)}\n</html>\n")
    return path


def _section(store: Store, name: str, experiment: Experiment, record: Mapping[str, Any]) -> str:
    plan = RunPlan.from_dict(record["plan"])
    keys = [job.key for job in experiment.jobs(plan)]
    versions = store.versions(keys)
    lines = [f'<h2 id="{escape(name)}">{escape(experiment.heading(plan))}</h2>']
    if record["done"] < record["runs"]:
        lines.append(f"<p><strong>Unfinished: {record['done']} of {record['runs']} runs are done.</strong></p>")
    if len(versions) > 1:
        lines.append(
            f"<p><strong>Made by more than one version of the code: {escape(', '.join(versions))}.</strong></p>"
        )
    lines.append(f"<p>Made by <code>{escape(record['command'])}</code>.</p>")
    alt = escape(f"{experiment.title}: {experiment.caption}")
    lines += [f'<img src="{escape(file)}" alt="{alt}">' for file in record["pictures"] if file.endswith(".png")]
    for table in experiment.tables(store.rows(keys), plan):
        lines.append(f"<details{'' if table.aside else ' open'}><summary>{escape(table.title)}</summary>")
        lines.append(f"{table.html()}</details>")
    return "\n".join([*lines, ""])
