"""Measure the structure of the source: its size, names that occur twice, and the files that one reading passes through.

    python benchmarks/structure.py                      # this checkout
    python benchmarks/structure.py --against OTHER/src  # beside another one
    python benchmarks/structure.py --names              # what occurs twice, and functions with many arrays

The files of `clean` are those of sensormend with a function that runs while `sensormend clean` takes one CSV. The hops
of a message are the calls from one file of sensormend into another from the moment at which one MQTT message with one
reading is read until the service reads the next. Both are counted by `sys.setprofile`: they do not depend on the
machine's speed.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from servers import running_mosquitto

HERE = Path(__file__).resolve().parents[1] / "src"
ARRAYS = re.compile(r"\b(\w*Array|NDArray|ndarray)\b")

CLEAN = """
import sys, threading
from pathlib import Path
from sensormend.cli import main
ROOT = sys.argv[1]
main(["clean", *sys.argv[2:4]])  # Imports and compiles what the command uses: that is not the work.
files = set()
def called(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>":
        files.add(frame.f_code.co_filename)
threading.setprofile(called)
sys.setprofile(called)
code = main(["clean", sys.argv[2], sys.argv[4]])
sys.setprofile(None)
assert code == 0, code
print("RESULT", len(files))
"""

MESSAGE = """
import importlib.util, json, statistics, sys, threading, time
ROOT, OUT, ADDRESS, PUBLISHER = sys.argv[1:5]
name = "stream" if importlib.util.find_spec("sensormend.stream") else "live"
Settings = importlib.import_module(f"sensormend.{name}.settings").Settings
open_service = importlib.import_module(f"sensormend.{name}.{sys.argv[5]}").open_service
turns, hops, functions, readings = [], 0, set(), 0
def called(frame, event, result):
    global hops, functions, readings
    code = frame.f_code
    if not code.co_filename.startswith(ROOT) or code.co_name == "<module>" or event not in ("call", "return"):
        return
    reads = code.co_name == "read" and "/sources/mqtt" in code.co_filename
    if event == "return":
        readings += len(result.readings) if reads and result is not None else 0
        return
    if reads:
        turns.append((readings, hops, len(functions)))
        hops, functions, readings = 0, set(), 0
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(ROOT):
        caller = caller.f_back
    functions.add((code.co_filename, code.co_name))
    hops += caller is not None and caller.f_code.co_filename != code.co_filename
settings = Settings.of(source=ADDRESS, out=OUT, metrics="off", step="1h", period="1d")
with open_service(settings) as service:
    exec(PUBLISHER)
    threading.Thread(target=publish, args=(ADDRESS, service.stop), daemon=True).start()
    sys.setprofile(called)
    service.run()
    sys.setprofile(None)
single = [turn[1:] for turn in turns if turn[0] == 1][-10:]
print("RESULT", *(int(statistics.median(column)) for column in zip(*single)))
"""

PUBLISHER = """
def publish(address, stop):
    import paho.mqtt.client as paho
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", int(address.split(":")[2].split("/")[0]))
    client.loop_start()
    time.sleep(1.0)
    for number in range(60):
        message = {"sensor": f"s{number % 4}", "time": 1_577_836_800 + 60 * number, "value": 20.0 + number % 7}
        client.publish("city/x", json.dumps(message), qos=1).wait_for_publish(10)
        time.sleep(0.05)
    time.sleep(0.5)
    stop()
"""


def modules_of(source: Path) -> list[Path]:
    """Return the files of the package."""
    return sorted((source / "sensormend").rglob("*.py"))


def size(source: Path) -> dict[str, int]:
    """Count lines, modules, and modules at the top level; package files with nothing but names count too."""
    files = modules_of(source)
    return {
        "lines": sum(len(file.read_bytes().splitlines()) for file in files),
        "modules": len(files),
        "at the top level": len(list((source / "sensormend").glob("*.py"))),
    }


def doubles(source: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the names of classes and of modules that occur more than once, with where they are."""
    classes, modules = defaultdict(list), defaultdict(list)
    for file in modules_of(source):
        where = file.relative_to(source / "sensormend").as_posix()
        if file.stem != "__init__":
            modules[file.stem].append(where)
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(where)
    return tuple({name: at for name, at in table.items() if len(at) > 1} for table in (classes, modules))  # type: ignore[return-value]


def wide(source: Path) -> list[str]:
    """Return the functions that take more than six arrays: positional parameters annotated so, or indexed."""
    functions = []
    for file in modules_of(source):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.FunctionDef):
                continue
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            arrays = {
                argument.arg
                for argument in (*node.args.posonlyargs, *node.args.args)
                if argument.annotation is not None and ARRAYS.search(ast.unparse(argument.annotation))
            }
            arrays |= {
                inner.value.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and inner.value.id in names
            }
            if len(arrays) > 6:
                functions.append(f"{file.relative_to(source / 'sensormend').as_posix()}:{node.name} ({len(arrays)})")
    return functions


def run(source: Path, program: str, *arguments: str) -> list[str]:
    """Run a program over a copy of sensormend, and return the words of its result."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(source / "sensormend") + os.sep, *arguments],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(done.stderr[-2000:])
    return lines[-1].split()[1:]


def files_of_clean(source: Path) -> int:
    """Count the files that one CSV of a small network passes through in `sensormend clean`."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "city.csv"
        days = [
            f"s{sensor},2020-01-{1 + hour // 24:02d}T{hour % 24:02d}:00,{20 + sensor % 3 + 5 * math.sin(hour / 4):.2f}"
            for hour in range(24 * 30)
            for sensor in range(6)
        ]
        table.write_text("\n".join(["sensor,time,value", *days]) + "\n", encoding="utf-8")
        return int(run(source, CLEAN, str(table), str(Path(folder) / "first"), str(Path(folder) / "out"))[0])


def hops_of_message(source: Path) -> tuple[int, int]:
    """Count the calls between files, and the functions, that one MQTT message with one reading takes."""
    with tempfile.TemporaryDirectory() as folder, running_mosquitto() as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/city/#"
        opening = next(
            file.stem for file in modules_of(source) if "def open_service(" in file.read_text(encoding="utf-8")
        )
        hops, functions = run(source, MESSAGE, str(Path(folder) / "out"), address, PUBLISHER, opening)
        return int(hops), int(functions)


def measured(source: Path) -> dict[str, str]:
    """Return all the figures of one source tree."""
    sizes, (classes, modules) = size(source), doubles(source)
    hops, functions = hops_of_message(source)
    return {
        **{name: f"{count:,}" for name, count in sizes.items()},
        "class names that occur twice": str(len(classes)),
        "module names that occur twice": str(len(modules)),
        "functions with more than six positional arrays": str(len(wide(source))),
        "files that one CSV through `clean` touches": str(files_of_clean(source)),
        "hops of one MQTT message; functions": f"{hops}; {functions}",
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout, measured too")
    parser.add_argument("--names", action="store_true", help="list what occurs twice, and what takes many arrays")
    args = parser.parse_args()
    if args.names:
        for title, table in zip(("classes", "modules"), doubles(HERE), strict=True):
            print(f"{title}:", *(f"\n  {name}: {', '.join(at)}" for name, at in sorted(table.items())))
        print("many arrays:", *(f"\n  {name}" for name in wide(HERE)))
        return
    trees = [args.against.resolve(), HERE] if args.against else [HERE]
    columns = [measured(source) for source in trees]
    print("|  |" + "".join(f" {name} |" for name in (["before", "now"] if args.against else ["now"])))
    print("|---|" + "---|" * len(columns))
    for name in columns[0]:
        print(f"| {name} |" + "".join(f" {column[name]} |" for column in columns))


if __name__ == "__main__":
    main()
