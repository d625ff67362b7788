"""`Server` serves the dashboard of an OUT over HTTP; `application` is the same for any ASGI server."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensormend.errors import ConfigError, SensormendError
from sensormend.files import Closing
from sensormend.io.options import DASHBOARD
from sensormend.pipeline.maintenance import Maintenance
from sensormend.web.sessions import Sessions, is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sensormend.views.reader import OutReader

__all__ = ["Server", "application"]


ABOUT = """What a sensor network is like, sensor by sensor and day by day: what was measured, what was mended, how sure
that is, and what to repair. It comes in pages, and is read-only but for notes, where the server was started to take
them. Times are ISO 8601 in UTC. Where the server asks for a token, send it as `Authorization: Bearer`."""

START_TIMEOUT = 10.0
"""Seconds in which a thread that only has to listen is listening."""

MAX_CONNECTIONS, BACKLOG, MAX_HEAD = 512, 128, 32_768
"""Connections on which requests are answered, with 503 on more; those waiting to be accepted; and bytes of the head of
a request. A page needs up to six connections."""

KEEP_ALIVE, SHUTDOWN = 5, 3
"""Seconds that a connection may be idle after an answer, and that answers which have begun may take when the server
ends."""


def application(reader: OutReader, *, token: str | None = None, edit: Path | None = None) -> FastAPI:
    """Return the dashboard of an OUT, as anything that speaks ASGI serves it.

    Parameters
    ----------
    reader
        The OUT; it stays open.
    token
        What opens it; without one only requests for this machine's own names are answered.
    edit
        The maintenance.csv that the page may add notes to; None where it may write nothing.
    """
    from fastapi import FastAPI
    from starlette.middleware.gzip import GZipMiddleware

    from sensormend import __version__
    from sensormend.web.api import PROBLEMS, handle_errors, routes
    from sensormend.web.pages import Pages
    from sensormend.web.security import AccessMiddleware, SecurityMiddleware

    app = FastAPI(
        title="sensormend",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    pages, app.state.ending = Pages(), threading.Event()
    app.router.routes.extend(pages.routes())
    app.include_router(routes(reader, edit, app.state.ending), responses=PROBLEMS)
    handle_errors(app, reader.folder, reader.path, *([] if edit is None else [edit.parent]))
    # The last one is the outermost.
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(AccessMiddleware, sessions=None if token is None else Sessions(token),
                       page=pages.text("login.html"), edit=edit is not None)  # fmt: skip
    app.add_middleware(SecurityMiddleware)
    return app


class Server(Closing):
    """Serves the dashboard of an OUT, beside whatever else the process does.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote; it has to be there when the server starts.
    host, port
        Where; port 0 takes a free one.
    token
        What opens the page. Needed everywhere but on an address that only this machine has.
    edit
        The maintenance.csv that the page may add notes to, made with the first of them; None where it may write
        nothing.

    Raises
    ------
    ConfigError
        It cannot be shown there, or `edit` is no file that notes can be added to.
    """

    def __init__(
        self, out: str | os.PathLike[str], host: str = DASHBOARD[0], port: int = DASHBOARD[1], token: str | None = None,
        edit: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        self._out, self._token, self._name = out, token, host
        self._edit = None if edit is None else _writable(Path(edit))
        self._socket = _listening(host, port, token)
        self.port = int(self._socket.getsockname()[1])
        self._reader: OutReader | None = None
        self._uvicorn: Any = None
        self._app: FastAPI | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where the page is, as a browser takes it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._name, self._name)
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}"

    def start(self) -> None:
        """Open the OUT, and answer from now on."""
        from sensormend.views.reader import OutReader

        try:
            import uvicorn

            self._reader = OutReader(self._out)
            self._app = application(self._reader, token=self._token, edit=self._edit)
        except ImportError:
            raise SensormendError("the dashboard needs fastapi and uvicorn: pip install 'sensormend[web]'") from None
        # h11 has the limit on the size of a request's head; access_log would have names of sensors in it.
        config = uvicorn.Config(
            self._app, http="h11", ws="none", loop="asyncio", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, proxy_headers=True, forwarded_allow_ips="127.0.0.1,::1",
            limit_concurrency=MAX_CONNECTIONS + 1, backlog=BACKLOG, timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=SHUTDOWN, h11_max_incomplete_event_size=MAX_HEAD,
        )  # fmt: skip
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._uvicorn.run, args=([self._socket],), name="dashboard", daemon=True)
        self._thread.start()
        began = time.monotonic()
        while not self._uvicorn.started:
            if not self._thread.is_alive() or time.monotonic() - began > START_TIMEOUT:
                raise SensormendError(f"the dashboard did not start at {self.address}")
            time.sleep(0.005)
        # Counting a year of thousands of sensors takes a second, which nobody has to wait for.
        threading.Thread(target=_count_ahead, args=(self._reader,), name="counting", daemon=True).start()

    def wait(self, until: threading.Event) -> None:
        """Serve until somebody wants it to end."""
        while self._thread is not None and self._thread.is_alive() and not until.wait(0.5):
            pass

    def close(self) -> None:
        """End it; pages that are open say that the connection is lost."""
        if self._thread is not None and self._app is not None:
            self._app.state.ending.set()
            self._uvicorn.should_exit = True
            self._thread.join()
        self._socket.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _writable(path: Path) -> Path:
    """Return where notes go, or refuse it before anybody writes one."""
    path = path.absolute()
    if path.exists():
        Maintenance.read(path)
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"no note can be written to {path}: there is no such folder, or it cannot be written to")
    return path


def _count_ahead(reader: OutReader) -> None:
    from sensormend.views.matrix import matrix

    # Whatever is wrong with the files is told to whoever asks for them.
    with suppress(Exception):
        matrix(reader, limit=1)


def _listening(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket at a place that nobody else has, and that may be shown without a token or has one."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: a port is 0 to 65535")
    try:
        places = socket.getaddrinfo(
            host.strip("[]") or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # Where a name has an address of either kind, the older kind is what people type.
        family, kind, protocol, _, place = sorted(places, key=lambda one: one[0] != socket.AF_INET)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {reason}; choose another place") from None
    if token is None and not is_loopback(str(place[0]).partition("%")[0]):
        raise ConfigError(
            f"{host or place[0]} can be reached from elsewhere, so the dashboard needs a token there: "
            "openssl rand -hex 24 > token, and --token-file token (of watch: --serve-token-file), or SENSORMEND_TOKEN"
        )
    made = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Else a restart would have to wait for connections that are long over.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or error
        what = "address" if getattr(error, "errno", None) == errno.EADDRNOTAVAIL else "port"
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {reason}; choose another {what}") from None
    return made
