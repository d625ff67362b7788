"""What installs sensormend: wheel and source distribution, the image of a container, and a recipe for conda-forge."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sensormend.pipeline.options import DASHBOARD
from sensormend.stream.settings import Settings
from servers import free_port, lacking, require_mark

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docs" / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CONDA = {
    "duckdb": "python-duckdb",
    "prometheus-client": "prometheus_client",
    "confluent-kafka": "python-confluent-kafka",
    "matplotlib": "matplotlib-base",
}
"""Packages that conda-forge calls otherwise."""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both."""
    builder = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    before = Path.cwd()
    os.chdir(ROOT)  # a build backend builds the project in the current folder
    try:
        return {
            "wheel": folder / builder.build_wheel(str(folder)),
            "sdist": folder / builder.build_sdist(str(folder)),
        }
    finally:
        os.chdir(before)


def test_the_wheel_has_all_files_of_the_package(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as archive:
        packed = set(archive.namelist())
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= packed
    assert {name.partition("/")[0] for name in packed if ".dist-info" not in name} == {"sensormend"}


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_each_installs_into_an_empty_environment(distributions: dict[str, Path], kind: str, tmp_path: Path) -> None:
    require_mark("processes")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    # Nothing of this environment may be seen.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return done.stdout

    install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, str(distributions[kind])], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=900
    )
    if done.returncode and "connection" in done.stderr.lower():
        lacking("there is no package index to install the dependencies from")
    assert done.returncode == 0, done.stderr
    program = str(programs / "sensormend")
    assert run(program, "--version").strip() == PROJECT["version"]
    run(program, "example", "readings.csv", "--sensors", "3", "--days", "2")
    assert "sensors" in run(program, "probe", "readings.csv")
    where = run(str(programs / "python"), "-c", "import sensormend; print(sensormend.__file__)")
    assert Path(where.strip()).is_relative_to(environment)
    # What is optional is not there, and one line says how to get it.
    done = subprocess.run(
        [program, "watch", "mqtt://localhost/x", "out"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert re.search(r"pip install 'sensormend\[live\]'", done.stderr)


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, and what stands behind each."""
    text = re.sub(r"\\\n\s*", "", file.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_image(tmp_path: Path) -> None:
    lines = instructions(ROOT / "Dockerfile")
    last = max(place for place, (word, _) in enumerate(lines) if word == "FROM")
    final = dict(lines[last:])
    known = "FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"
    assert {word for word, _ in lines} <= set(known.split())
    assert final["USER"] == "sensormend"
    assert json.loads(final["ENTRYPOINT"]) == ["sensormend"]
    assert json.loads(final["CMD"]) == ["--help"]
    port = Settings("-", Path("out")).metrics
    assert port is not None
    assert final["EXPOSE"].split() == [str(DASHBOARD[1]), str(port[1])]
    # The health is that of the metrics' place.
    health = json.loads(final["HEALTHCHECK"].partition("CMD ")[2])
    compile(health[2], "healthcheck", "exec")
    assert f"http://127.0.0.1:{port[1]}/healthz" in health[2]
    # What is copied is there, and passes .dockerignore.
    included = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name for word, rest in lines if word == "COPY" and "--from" not in rest for name in shlex.split(rest)[:-1]
    }
    assert copied == included
    assert all((ROOT / name).exists() for name in copied)
    # The wheel needs what is copied: readme and license.
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= copied
    (extras,) = (re.findall(r"'\.\[(.*?)\]'", rest)[0] for word, rest in lines if word == "RUN" and "pip" in rest)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    versions = {re.findall(r"python:3\.(\d+)-slim", rest)[0] for word, rest in lines if word == "FROM"}
    assert len(versions) == 1
    assert f"Programming Language :: Python :: 3.{versions.pop()}" in PROJECT["classifiers"]
    # The wheel is built from what is copied, with a compiler, and it is checked that the engine is in it.
    for name in copied:
        source, target = ROOT / name, tmp_path / "source" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    build = "import hatchling.build, sys; hatchling.build.build_wheel(sys.argv[1])"
    environment = os.environ | {"SENSORMEND_COMPILE": "0"}
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tmp_path / "source", env=environment, check=True)
    assert len(list(tmp_path.glob("sensormend-*.whl"))) == 1
    runs = [rest for word, rest in lines[:last] if word == "RUN"]
    assert "gcc" in shlex.split(runs[0])
    check = shlex.split(runs[-1])[2]
    assert check.endswith("assert done()")
    exec(compile(check.replace("assert done()", "assert callable(done)"), "check", "exec"), {})


def test_the_composition(tmp_path: Path) -> None:
    composed: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    services = composed["services"]
    assert set(services) == {"broker", "watch", "page"}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DOCKER / source).is_file() if source.startswith("./") else source in composed["volumes"]
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service.get("secrets", ())) <= set(composed["secrets"])
    assert (DOCKER / services["watch"]["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    settings = Settings.of(DOCKER / "network.toml")
    assert settings.source.startswith("mqtt://broker/")
    assert "data:/data" in services["watch"]["volumes"]
    assert settings.out.is_relative_to("/data")
    command = services["page"]["command"]
    assert command[:2] == ["serve", str(settings.out)]
    assert command[command.index("--token-file") + 1] == "/run/secrets/token"
    compile(services["page"]["healthcheck"]["test"][3], "healthcheck", "exec")


@pytest.mark.server
def test_the_broker_of_the_composition_starts(tmp_path: Path) -> None:
    require_mark("server")
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        lacking("Mosquitto is not installed")
    port = free_port()
    text = (DOCKER / "mosquitto.conf").read_text().replace("listener 1883", f"listener {port} 127.0.0.1")
    text = text.replace("/mosquitto/data/", f"{tmp_path}/")
    if os.geteuid() == 0:
        text += "user root\n"
    (tmp_path / "mosquitto.conf").write_text(text)
    process = subprocess.Popen([program, "-c", str(tmp_path / "mosquitto.conf")], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
    finally:
        process.terminate()
        process.wait(20)


def test_the_recipe_has_the_same_requirements() -> None:
    recipe = yaml.safe_load((ROOT / "packaging" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == PROJECT["version"]
    run = recipe["requirements"]["run"]
    assert run[0] == f"python {PROJECT['requires-python']}"
    assert run[1:] == [_conda(requirement) for requirement in PROJECT["dependencies"]]
    optional = {_conda(requirement) for extra in PROJECT["optional-dependencies"].values() for requirement in extra}
    assert set(recipe["requirements"]["run_constraints"]) <= optional
    # What is for every architecture has no machine code, and its host no numba to make it with.
    assert (recipe["build"]["noarch"], recipe["build"]["script"]["env"]) == ("python", {"SENSORMEND_COMPILE": "0"})
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == "sensormend = " + PROJECT["scripts"]["sensormend"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()


def _conda(requirement: str) -> str:
    """Return a requirement as conda-forge writes it."""
    match = re.match(r"([\w.-]+)(?:\[\w+\])?\s*([<>=][^;\s]*)?", requirement)
    assert match
    return f"{CONDA.get(match[1], match[1])} {match[2] or ''}".strip()
