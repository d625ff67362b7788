"""The examples of the README, of three pages of docs and of the tutorial run, and the notebook is the tutorial."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sensormend.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
METHODS = (ROOT / "docs" / "published-methods.md").read_text(encoding="utf-8")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the blocks of code of a page, with their languages."""
    return re.findall(r"^```(python|sh)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def outputs_of(page: str) -> list[tuple[str, str]]:
    """Return the blocks of code of a page that print something, with what they print."""
    lines = r"((?:(?!```).*\n)*)"
    return re.findall(rf"^```(?:python|sh)\n{lines}```\n\n```text\n{lines}```$", page, flags=re.MULTILINE)


def plain(text: str) -> str:
    """Return text without colours, spaces, and how long something took."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    text = re.sub(r"^.*(?:readings/s|seconds ).*\n", "", text, flags=re.MULTILINE)
    return "".join(text.split())


def run(page: str, name: str) -> dict[str, object]:
    """Run the blocks of a page one after the other, where one is, and return the names that they leave."""
    names: dict[str, object] = {}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, name, "exec"), names)
            continue
        for line in code.splitlines():
            command, *words = shlex.split(line)
            if command == "sensormend":
                assert main(words) == 0, line
            else:
                program = sys.executable if command == "python" else command
                subprocess.run([program, *words], check=True, timeout=300)
    return names


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    run(README, "README.md")
    printed = capsys.readouterr().out.splitlines()
    assert any(line.endswith("times the limit") for line in printed), "the example should find a faulty sensor"
    assert any(line.startswith("S03 read ") for line in printed), "explain should print a paragraph"
    assert (tmp_path / "state.npz").is_file()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_the_page_about_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = run(PYTHON, "python.md")
    assert len(names["cleaned"]) == 10 * 40 * 24  # type: ignore[arg-type]
    assert names["model"].periods == 60  # type: ignore[attr-defined]
    assert (tmp_path / "mended" / "faults.csv").is_file()


def test_the_paper_s_three_experiments_run_on_readings_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (labels,) = re.findall(r"^```csv\n(.*?)^```$", METHODS, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "labels.csv").write_text(labels)
    run(METHODS, "published-methods.md")
    printed = capsys.readouterr().out
    assert len(re.findall(r"^  value  ", printed, flags=re.MULTILINE)) == 2, "a line of each comparison"
    scatter = {name: float(number) for name, number in re.findall(r"^(olrtr|network) (\S+)$", printed, re.MULTILINE)}
    assert scatter["network"] < scatter["olrtr"]


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = run(TUTORIAL, "tutorial.md")
    cleaned, faults = names["cleaned"], names["faults"]
    assert len(cleaned) == 20 * 90 * 24  # type: ignore[arg-type]
    assert len(faults) > 5  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    everything = plain(printed)
    for code, text in outputs_of(TUTORIAL):
        # What other programs print is not captured.
        assert code.startswith("head ") or plain(text) in everything, "run benchmarks/build_tutorial.py"
    assert "The worst of them" in printed
    assert (tmp_path / "mended" / "faults.csv").is_file()


def test_the_notebook_is_the_tutorial() -> None:
    path = ROOT / "docs" / "tutorial.ipynb"
    assert path.stat().st_size < 600_000
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text("utf-8"))["cells"]]
    wanted = [("%%sh\n" if language == "sh" else "") + code.rstrip() for language, code in blocks(TUTORIAL)]
    assert [source for kind, source in cells if kind == "code"] == wanted, "run benchmarks/build_tutorial.py"
    for kind, source in cells:
        assert kind == "code" or source in TUTORIAL, "run benchmarks/build_tutorial.py"


def test_the_notebook_has_its_outputs() -> None:
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert all(output["output_type"] != "error" for output in outputs)
    shown = {
        "".join(cell["source"]).removeprefix("%%sh\n"): plain(
            "".join("".join(one.get("text", "")) for one in cell["outputs"])
        )
        for cell in cells
        if cell["cell_type"] == "code"
    }
    for code, text in outputs_of(TUTORIAL):
        assert shown[code.rstrip()] == plain(text), "run benchmarks/build_tutorial.py"
    assert sum("image/png" in output.get("data", ()) for output in outputs) == 3
    assert str(ROOT) not in json.dumps(cells)


@pytest.mark.parametrize("name", ["demo", "tutorial-health", "tutorial-course", "tutorial-beside"])
def test_the_pictures_are_small_enough_to_load_at_once(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.png").stat().st_size < 300_000


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (["| method | x |", "|---|---:|", "| A | 0.100 |", "| B | 0.200 |"],
         ["| method | x |", "|---|---:|", "| A | 0.500 |", "| B | 0.200 |", "| C | 0.700 |"]),
        (["| method | z |", "|---|---:|", "| A | 0.100 |"],
         ["| method | x | y |", "|---|---:|---:|", "| A | 0.500 | 0.600 |", "| C | 0.700 | - |"]),
    ],
)  # fmt: skip
def test_rows_of_methods_that_were_not_run_again_stay(tmp_path: Path, known: list[str], expected: list[str]) -> None:
    page, mark = tmp_path / "page.md", "<!-- table a.csv | figure=F1 | by case -->"
    page.write_text("\n".join([mark, *known, "<!-- /table -->", ""]))
    lines = ["method,case,figure,mean", "A,x,F1,0.5", "A,y,F1,0.6", "C,x,F1,0.7"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    filler = [sys.executable, str(ROOT / "benchmarks" / "fill_docs.py"), str(tmp_path), str(page)]
    subprocess.run(filler, check=True, timeout=60)
    assert page.read_text().splitlines() == [mark, *expected, "<!-- /table -->"]


def test_the_table_is_filled_from_what_the_bench_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["bench", "faults", "--data", "city", "--sensors", "8", "--days", "20", "--trials", "1", "--cases", "mix-90",
            "--methods", "NetworkModel"]  # fmt: skip
    assert main([*call, "--out", str(tmp_path)]) == 0
    page = tmp_path / "page.md"
    page.write_text(README, encoding="utf-8")
    filler = [sys.executable, str(ROOT / "benchmarks" / "fill_docs.py"), str(tmp_path), str(page)]
    (tmp_path / "faults_city.csv").rename(tmp_path / "faults_noaa.csv")
    subprocess.run(filler, check=True, timeout=60)
    after = page.read_text(encoding="utf-8")
    inside = after.split("rows=case")[1].split("<!-- /table -->")[0]
    assert "gain; 90 % observed | 0." in inside or "gain; 90 % observed | 1." in inside
    assert "no faults put in" not in inside, "what was not run is not made up"
    assert after.split("<!-- /table -->")[-1] == README.split("<!-- /table -->")[-1]
