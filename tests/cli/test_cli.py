import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sensormend import cli
from sensormend.bench.experiment import RunPlan
from sensormend.cli import bench as commands
from sensormend.cli import demo as demo_command
from sensormend.cli import main
from sensormend.cli.app import app
from sensormend.errors import ConfigError, SensormendError

TINY = ["demo", "--sensors", "12", "--days", "30", "--seed", "1"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from sensormend.cli import main; sys.exit(main())", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_demo_runs_without_a_terminal_and_says_where_the_picture_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = run(*TINY, "--out", "shown", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "shown" / "demo.png").stat().st_size > 50_000
    assert "shown/demo.png" in ended.stdout.replace("\\", "/")
    for word in (
        "put in",
        "found",
        "missed",
        "false alarms",
        "missing",
        "repaired",
        "a straight line",
    ):
        assert word in ended.stdout
    assert "sensormend explain shown S" in ended.stdout
    for command in ("watch mqtt", "serve shown", "report shown"):
        assert f"sensormend {command}" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert len(list((tmp_path / "shown" / "data").glob("date=*"))) == 30
    (tmp_path / "shown" / "faults.csv").write_text("replaced")
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--out", "shown"]) == 0, "an earlier demo is replaced"
    again = capsys.readouterr().out
    assert without_address(again) == without_address(ended.stdout), "the same city, the same figures"


def without_address(printed: str) -> str:
    """Return what was said without the line that has the page's port, which may be another one."""
    lines = printed.splitlines()
    others = [line for line in lines if "http://127.0.0.1:" not in line]
    assert len(others) == len(lines) - 1
    return "\n".join(others)


def test_the_demo_ends_by_itself_after_so_many_seconds(tmp_path: Path) -> None:
    ended = run("demo", "--sensors", "8", "--seconds", "1.5", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "temperature for 1.5 seconds" in ended.stdout
    assert "put in" in ended.stdout or "It ended after" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_where_nobody_can_press_ctrl_c_the_demo_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_command, "DEFAULT_SECONDS", 2.0)
    monkeypatch.setattr(demo_command, "FIRST_DAYS", 12)
    # What a build server sets so that logs have colours makes no terminal of a pipe.
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["demo", "--sensors", "8", "--pace", "20", "--out", str(tmp_path / "demo")]) == 0
    assert "temperature for" in capsys.readouterr().out
    dates = sorted(path.name for path in (tmp_path / "demo" / "data").glob("date=*"))
    assert 0 < len(dates) <= 15, "after the first days an hour takes a twentieth of a second"


@pytest.mark.parametrize(("words", "times"), [([], 1), (["--no-open"], 0)])
def test_where_there_is_a_screen_the_page_is_opened(
    words: list[str], times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(demo_command, "FIRST_DAYS", 2)
    monkeypatch.setattr("sensormend.cli.demo.has_screen", lambda: True)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["demo", "--sensors", "8", "--seconds", "2", "--out", str(tmp_path / "demo"), *words]) == 0
    assert len(opened) == times
    assert all(f"browser: {address}\n" in capsys.readouterr().out for address in opened)


def test_the_demo_goes_on_without_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["demo", "--sensors", "8", "--days", "12", "--out", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    assert "pip install 'sensormend[web]'" in printed
    assert "http://" not in printed


def test_a_port_that_somebody_chose_is_the_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["--sensors", "8", "--days", "12", "--port", port, "--out", str(tmp_path / "demo")]
        assert main(["demo", *words]) in (1, 2)
    error = capsys.readouterr().err
    assert port in error
    assert "Traceback" not in error


def test_the_demo_never_touches_a_folder_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work")
    assert main(TINY) == 2
    assert "did not write" in capsys.readouterr().err
    assert (tmp_path / "demo" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    assert main([*TINY, "--out", "file"]) == 2
    assert "is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["demo", "--days", "3"], 2, "--days"),
        (["demo", "--days", "many"], 2, "many"),
        (["demo", "--seconds", "0"], 2, "--seconds"),
        (["demo", "--nonsense"], 2, "nonsense"),
        (["demo", "--climate", "mars"], 2, "mars"),
        (["demo", "--sensors", "0"], 2, "at least one sensor"),
        (["watch", "incoming", "o", "--serve", "localhost"], 2, "serve is a host and a port like 127.0.0.1:8464"),
        (["watch", "--serve", "127.0.0.1:http", "incoming", "o"], 2, "got '127.0.0.1:http'"),
        (["serve", "mended", "--edit", "nowhere/notes.csv"], 2, "no note can be written to"),
        (["watch", "incoming", "o", "--serve", "--serve-edit"], 2, "serve_edit needs maintenance: the file"),
        (["serve", "mended", "two"], 2, "serve does not know what to do with 'two' (see sensormend serve --help)"),
        (["mend"], 2, "mend"),
        (["probe"], 2, "probe needs SOURCE (see sensormend probe --help)"),
        (["explain"], 2, "explain needs OUT (see sensormend explain --help)"),
        (["clean", "--methd", "olrtr", "a", "b"], 2, "Did you mean --method? (see sensormend clean --help)"),
        (["bench", "faults", "--cases", "gremlins"], 2, "gremlins"),
        (["bench", "faults", "--methods", "Magic"], 2, "Magic"),
        (["bench", "faults", "--unscored", "north"], 2, "--unscored"),
        (["bench", "faults", "--data", "nowhere.npy"], 2, "nowhere.npy"),
        (["bench", "faults", "--trials", "0"], 2, "--trials"),
        (["bench", "faults", "--data", "city", "--days", "10"], 2, "--days"),
        (["bench", "faults", "--data", "city", "--unscored", "50"], 2, "--unscored"),
        (["bench", "size", "--jobs", "0"], 2, "--jobs"),
        (["bench", "size", "--minibatches", "10"], 2, "--minibatches"),
        (["bench", "size", "--methods", "Magic"], 2, "Magic"),
        (["bench", "size", "--trials", "many"], 2, "many"),
        (["bench", "size", "--seed", "-1"], 2, "--seed"),
        (["bench", "size", "--large"], 2, "large"),
        (["bench", "nothing"], 2, "nothing"),
    ],
)
def test_a_failure_is_one_line_on_stderr_and_a_code(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if line.startswith("sensormend: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in error


MISSING = {
    "clean": ["clean nowhere.csv out", "clean nowhere out", "clean nowhere/*.csv out", "clean nothing out",
              "clean readings.csv out --config nowhere.toml", "clean readings.csv out --maintenance nowhere.csv",
              "clean nowhere.nc out"],
    "watch": ["watch nowhere out", "watch replay:nowhere.csv out", "watch --config nowhere.toml"],
    "serve": ["serve nowhere", "serve nothing"],
    "report": ["report nowhere", "report nothing"],
    "explain": ["explain nowhere", "explain nothing S1", "explain nothing S1 2024-01-01"],
    "check": ["check nowhere", "check nothing"],
    "compare": ["compare nowhere labels.csv", "compare nothing nowhere.csv"],
    "notes": ["notes nowhere.csv notes.csv"],
    "probe": ["probe nowhere.csv", "probe nothing"],
    "bench": ["bench faults --data nowhere.npy"],
}  # fmt: skip
"""Calls of every command that reads something, with paths at which there is nothing that it reads."""


@pytest.mark.parametrize("call", [call for calls in MISSING.values() for call in calls])
def test_a_path_with_nothing_there_is_a_wrong_call_in_every_command(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "readings.csv").write_text("sensor,time,value\na,2024-01-01,1\na,2024-01-02,1\n")
    (tmp_path / "labels.csv").write_text("sensor,from,to\n")
    before = set(tmp_path.iterdir())
    assert main(call.split()) == 2
    error = capsys.readouterr().err
    assert len([line for line in error.splitlines() if line.startswith("sensormend: ")]) == 1
    assert "nowhere" in error or "nothing" in error
    assert set(tmp_path.iterdir()) - {tmp_path / "out"} == before
    assert not list(tmp_path.glob("out/data"))


def test_no_command_that_reads_is_left_out() -> None:
    reading_nothing = {"demo", "example"}
    assert {name for name in app if not name.startswith("-")} == {*MISSING, *reading_nothing}


def test_data_that_is_not_here_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SENSORMEND_DATA", str(tmp_path))
    assert main(["bench", "aot"]) == 1
    assert "set SENSORMEND_DATA" in capsys.readouterr().err


def test_bench_alone_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    shown = capsys.readouterr().out
    for name in ("size", "corruption", "magnitude", "observation", "convergence", "noaa", "aot", "faults", "all"):
        assert name in shown


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    heavy = {"duckdb", "matplotlib", "numpy", "pandas"}
    program = f"import sys, sensormend.cli; print(*sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == ""


def test_help_and_version_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("bench", "check", "clean", "demo", "example", "explain", "report", "serve", "watch"):
        assert re.search(rf"{command} +[A-Z]\w+ ", shown), "each command has a line that says what it does"
    assert main([]) == 0
    assert capsys.readouterr().out == shown
    assert main(["--version"]) == 0
    assert "0." in capsys.readouterr().out


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    for word, code in (("--version", 0), ("nonsense", 2)):
        call = [sys.executable, "-m", "sensormend", word]
        ended = subprocess.run(call, cwd=tmp_path, capture_output=True, timeout=60)
        assert ended.returncode == code


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SensormendError("give it\nmore"), "sensormend: give it more\n"),
        (OSError(28, "No space left on device", "demo/demo.png"), "No space left on device"),
        (KeyboardInterrupt(), "stopped"),
        (RuntimeError("odd"), "SENSORMEND_DEBUG"),
    ],
)
def test_whatever_goes_wrong_inside_becomes_one_line(
    raised: BaseException, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.delenv("SENSORMEND_DEBUG", raising=False)
    monkeypatch.setattr("sensormend.simulate.network.stream", fail)
    assert cli.main(["demo", "--days", "12"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize(
    ("words", "duration"), [(["--days", "3000"], "3000 days"), (["--seconds", "3000"], "3000 seconds")]
)
def test_ctrl_c_ends_it_cleanly(words: list[str], duration: str, tmp_path: Path) -> None:
    command = "import sys; from sensormend.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", command, "demo", "--sensors", "60", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first_line = process.stdout.readline()
        address = process.stdout.readline().split()[-1]
        page = urllib.request.urlopen(address, timeout=20)
        events = urllib.request.urlopen(f"{address}/api/events", timeout=20)
        with page, events:
            assert page.status == 200
            assert events.readline()
            process.send_signal(signal.SIGINT)
            shown, error = process.communicate(timeout=60)
    assert duration in first_line
    assert process.returncode == 0
    assert "It ended after" in shown or "put in" in shown, "what is known so far is said"
    assert "Traceback" not in error


def test_all_leaves_out_experiments_that_a_chosen_method_is_not_in() -> None:
    names = ["size", "noaa", "aot", "faults"]
    assert commands._runnable(names, RunPlan(methods="OLRTR r3")) == ["noaa", "faults"]
    assert commands._runnable(names, RunPlan()) == names
    with pytest.raises(ConfigError, match="no method 'nobody'"):
        commands._runnable(names, RunPlan(methods="nobody"))


def test_a_wrong_call_of_a_bench_gets_one_line(tmp_path: Path) -> None:
    call = [str(Path(sys.executable).with_name("sensormend")), "bench"]
    for words in (["faults", "--data", "nofile.npy"], ["all", "--methods", "nobody"]):
        ran = subprocess.run([*call, *words, "--out", str(tmp_path)], capture_output=True, text=True, timeout=60)
        assert ran.returncode != 0
        assert ran.stdout == ""
        assert len(ran.stderr.splitlines()) == 1, ran.stderr


def test_what_to_install_is_printed_with_its_brackets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--sensors", "8", "--days", "12", "--out", str(tmp_path / "demo")]) == 0
    assert "pip install 'sensormend[plot]'" in capsys.readouterr().out
