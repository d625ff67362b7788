"""Real servers for the tests, started for one session and thrown away."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["running_postgres"]


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start PostgreSQL on a free port of this machine and give its address; skip where it is not installed."""
    programs = _programs()
    if programs is None:
        said = "PostgreSQL is not installed: its initdb and pg_ctl are needed"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    folder = Path(tempfile.mkdtemp(prefix="sensormend-postgres-"))
    user = _ordinary_user()
    # The server refuses to run as root, whose files nobody else could read.
    as_user = [] if user == getpass.getuser() else ["runuser", "-u", user, "--"]
    if as_user:
        shutil.chown(folder, user)
    port = _free_port()

    def run(program: str, *words: str) -> None:
        command = [*as_user, str(programs / program), "-D", str(folder / "data"), *words]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    try:
        run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = f"-F -p {port} -k {folder} -c listen_addresses=127.0.0.1 -c TimeZone=America/New_York"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them off the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    named = shutil.which("pg_ctl")
    folders = [*reversed(debian), *([Path(named).parent] if named else [])]
    return next((path for path in folders if (path / "initdb").exists() and (path / "pg_ctl").exists()), None)


def _ordinary_user() -> str:
    if os.geteuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
