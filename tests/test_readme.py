"""What the README shows runs, and what it links to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sensormend.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_python_blocks_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said, "the example should find a faulty sensor"
    assert all(line.endswith("times the limit") for line in said)
    assert (tmp_path / "state.npz").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith("http"):
            assert (page.parent / link.split("#")[0]).exists(), link


def test_the_picture_is_small_enough_to_load_at_once() -> None:
    assert (ROOT / "docs" / "demo.png").stat().st_size < 300_000


def test_the_table_is_filled_from_what_the_bench_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["bench", "faults", "--data", "city", "--sensors", "8", "--days", "20", "--trials", "1", "--cases", "mix-90",
            "--methods", "AutoOLRTR"]  # fmt: skip
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
