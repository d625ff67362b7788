"""Run docs/tutorial.md: put what its blocks print below them, make its pictures, and make the notebook of the same.

    python benchmarks/build_tutorial.py        needs pandas, matplotlib, nbclient and ipykernel

The page is the source: a block of code, and below it a block of text with what it prints, or a picture. The cells of
the notebook are the blocks of the page; tests/test_readme.py compares the two.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(
    r"```(?P<language>python|sh)\n(?P<code>.*?)```\n(?:\n```text\n(?P<text>.*?)```\n|\n!\[[^\]]*\]\((?P<picture>[^)]+)\)\n)?",
    flags=re.DOTALL,
)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    page = DOCS / "tutorial.md"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["COLUMNS"] = "100"
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        page.write_text(with_outputs(page.read_text(encoding="utf-8")), encoding="utf-8")
        os.chdir(before)
    with tempfile.TemporaryDirectory() as folder:
        (DOCS / "tutorial.ipynb").write_text(notebook(page.read_text(encoding="utf-8"), folder), encoding="utf-8")
    for made in sorted(DOCS.glob("tutorial*")):
        print(f"{made.name:24}{made.stat().st_size / 1000:8.0f} kB")
    return 0


def with_outputs(page: str) -> str:
    """Return the page with what its blocks print."""
    names: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        if block["language"] == "sh":
            output = subprocess.run(["sh", "-c", block["code"]], check=True, capture_output=True, text=True).stdout
        else:
            output, last = evaluated(block["code"], names)
            if block["picture"]:
                last.savefig(DOCS / block["picture"], dpi=100, metadata={"Software": None})
        if block["text"] is None:
            return block[0]
        lines = "\n".join(line.rstrip() for line in output.rstrip().splitlines())
        return f"```{block['language']}\n{block['code']}```\n\n```text\n{lines}\n```\n"

    return BLOCK.sub(run, page)


def evaluated(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a block as a notebook would: what it printed, and the value of its last line."""
    tree, last = ast.parse(code), None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ending = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "tutorial.md", "exec"), names)
        if isinstance(ending, ast.Expr):
            last = eval(compile(ast.Expression(ending.value), "tutorial.md", "eval"), names)
    return out.getvalue(), last


def cells(page: str) -> list[tuple[str, str]]:
    """Return the page as the cells of a notebook: their kinds and sources."""
    cells, place = [], 0
    for block in BLOCK.finditer(page):
        cells.append(("markdown", page[place : block.start()].strip()))
        cells.append(("code", ("%%sh\n" if block["language"] == "sh" else "") + block["code"].rstrip()))
        place = block.end()
    cells.append(("markdown", page[place:].strip()))
    return [(kind, source) for kind, source in cells if source]


def notebook(page: str, folder: str) -> str:
    """Return the notebook, executed."""
    nbformat: Any = import_module("nbformat")
    client: Any = import_module("nbclient").NotebookClient
    book = nbformat.v4.new_notebook()
    book.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, (kind, source) in enumerate(cells(page)):
        make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        book.cells.append(make(source, id=f"cell-{number}"))
    client(book, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    for cell in book.cells:
        if cell.cell_type == "code":
            # Progress bars are left out.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata["language_info"] = {"name": "python"}
    return str(nbformat.writes(book)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
