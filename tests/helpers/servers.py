"""Real servers for the tests, started for one session and thrown away."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

__all__ = [
    "Mosquitto", "Postgres", "free_port", "lacking", "marks", "require_mark", "restartable_postgres",
    "running_influxdb", "running_mosquitto", "running_postgres",
]  # fmt: skip

marks = {"server", "browser", "processes"}
"""The marks of the test that runs, kept by `conftest`; a program that is no test may start everything."""


class Postgres:
    """A PostgreSQL server on a free port of this machine, in a folder of its own; it can be stopped and started."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        user = _ordinary_user()
        # The server refuses to run as root, and no other user can read files of root.
        self._as_user = [] if user == getpass.getuser() else ["runuser", "-u", user, "--"]
        if self._as_user:
            shutil.chown(folder, user)
        self._port = free_port()
        self._up = False
        self.address = f"postgresql://tester@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        """Start it, on the same port and with the same data."""
        where = f"-F -p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        settings = f"{where} -c TimeZone=America/New_York"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", settings, "start")
        self._up = True

    def stop(self, mode: str = "immediate") -> None:
        """Stop it at once; whoever is connected loses the connection."""
        if self._up:
            self._run("pg_ctl", "-m", mode, "stop")
            self._up = False

    def _run(self, program: str, *words: str) -> None:
        command = [*self._as_user, str(self._programs / program), "-D", str(self._folder / "data"), *words]
        subprocess.run(command, check=True, cwd=self._folder, stdout=subprocess.DEVNULL, timeout=60)


@contextmanager
def restartable_postgres() -> Iterator[Postgres]:
    """Start PostgreSQL and give the server itself; skip where it is not installed."""
    require_mark("server")
    programs = _programs()
    if programs is None:
        lacking("PostgreSQL is not installed: its initdb and pg_ctl are needed")
    folder = Path(tempfile.mkdtemp(prefix="sensormend-postgres-"))
    try:
        server = Postgres(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start PostgreSQL and give its address; skip where it is not installed."""
    with restartable_postgres() as server:
        yield server.address


class Mosquitto:
    """A broker on a port of its own, which can be stopped and started again with what it had.

    Attributes
    ----------
    port
        Where it listens, on this machine only.
    ca
        The certificate to trust, of a broker with TLS.
    """

    def __init__(self, program: str, folder: Path, settings: str, ca: Path | None) -> None:
        self.port, self.ca = free_port(), ca
        self._command = [program, "-c", str(folder / "mosquitto.conf")]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "mosquitto.conf").write_text(f"listener {self.port} 127.0.0.1\n{settings}")

    @property
    def address(self) -> str:
        """Return where it is, as a source has it; `localhost` is what its certificate says."""
        return f"mqtts://localhost:{self.port}" if self.ca else f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self._folder / "log").read_text()) from None
                time.sleep(0.02)

    def pause(self) -> None:
        """Let it do nothing, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, in peace or with no warning."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            self._process.wait(20)
            self._process = None


@contextmanager
def running_mosquitto(
    users: dict[str, str] | None = None, *, tls: bool = False, persistent: bool = False, allowed: str = ""
) -> Iterator[Mosquitto]:
    """Start Mosquitto on a free port of this machine; skip where it is not installed.

    Parameters
    ----------
    users
        Names and passwords of those who are let in; anybody by default.
    tls
        With a certificate of its own making.
    persistent
        It writes its messages to disk every second, and when it is stopped. Not `autosave_on_changes`: to version
        2.0.11 a message on its way to somebody who is connected is no change, and killed it would lose that.
    allowed
        Where anybody may write and read, as an ACL file has it; everywhere by default.
    """
    require_mark("server")
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        lacking("Mosquitto is not installed")
    folder = Path(tempfile.mkdtemp(prefix="sensormend-mosquitto-"))
    lines = [
        "max_queued_messages 0",
        "max_inflight_messages 0",
        "log_type error",
        "set_tcp_nodelay true",
        "sys_interval 1",
    ]
    if os.geteuid() == 0:
        lines.append("user root")  # as another user it could not read its folder
    if allowed:
        (folder / "acl").write_text(f"topic readwrite {allowed}\n")
        lines.append(f"acl_file {folder / 'acl'}")
    if users is None:
        lines.append("allow_anonymous true")
    else:
        (folder / "users").touch()
        for name, password in users.items():
            subprocess.run(["mosquitto_passwd", "-b", str(folder / "users"), name, password], check=True, timeout=20)
        lines += ["allow_anonymous false", f"password_file {folder / 'users'}"]
    if tls:
        _certify(folder)
        lines += [f"certfile {folder / 'server.crt'}", f"keyfile {folder / 'server.key'}"]
    if persistent:
        lines += ["persistence true", f"persistence_location {folder}/", "autosave_interval 1"]
    broker = Mosquitto(program, folder, "\n".join([*lines, ""]), folder / "ca.crt" if tls else None)
    try:
        broker.start()
        try:
            yield broker
        finally:
            broker.stop(kill=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_influxdb(user: str = "", password: str = "") -> Iterator[str]:
    """Start InfluxDB 1 and give its host and port, with a login if one is given; skip where it is not installed."""
    require_mark("server")
    program = shutil.which("influxd")
    if program is None:
        pytest.skip("InfluxDB is not installed")  # also in CI: not every system has a package of it
    folder = Path(tempfile.mkdtemp(prefix="sensormend-influxdb-"))
    port = free_port()
    (folder / "influxdb.conf").write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{free_port()}"\n[meta]\ndir = "{folder}/meta"\n'
        f'[data]\ndir = "{folder}/data"\nwal-dir = "{folder}/wal"\n'
        f'[http]\nbind-address = "127.0.0.1:{port}"\nauth-enabled = {"true" if user else "false"}\n'
    )
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([program, "run", "-config", str(folder / "influxdb.conf")], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((folder / "log").read_text()) from None
                time.sleep(0.05)
        queries = [f"CREATE USER {user} WITH PASSWORD '{password}' WITH ALL PRIVILEGES"] if user else []
        for query in [*queries, "CREATE DATABASE sensors"]:
            login = {"u": user, "p": password} if user and query not in queries else {}
            words = urlencode({"q": query, **login})
            with urlopen(Request(f"http://127.0.0.1:{port}/query?{words}", b""), timeout=10) as answer:
                answer.read()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _certify(folder: Path) -> None:
    """Make a certificate for `localhost`, and the authority that signs it."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, cwd=folder, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=Tests",
            "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "server.crt")  # fmt: skip


def require_mark(mark: str) -> None:
    """Fail where the test that runs is not marked so: `make test` would not leave it out."""
    if mark not in marks:
        pytest.fail(f"this test needs @pytest.mark.{mark}, or a fixture that `conftest` knows to bring it")


def lacking(reason: str) -> NoReturn:
    """Skip the test that runs, for a reason; fail with `CI=true`."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _programs() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them off the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    named = shutil.which("pg_ctl")
    folders = [*reversed(debian), *([Path(named).parent] if named else [])]
    return next((path for path in folders if (path / "initdb").exists() and (path / "pg_ctl").exists()), None)


def _ordinary_user() -> str:
    if os.geteuid() != 0:
        return getpass.getuser()
    import pwd  # not on Windows, where `conftest` imports this module as well

    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
