"""`Server` serves the dashboard of an output folder over HTTP; `application` returns it for any ASGI server."""

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
from sensormend.pipeline.maintenance import Maintenance
from sensormend.pipeline.options import DASHBOARD
from sensormend.web.sessions import Sessions, is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sensormend.views.reader import OutReader

__all__ = ["Server", "application"]


ABOUT = """The state of a sensor network by sensor and day: readings, cleaned values, intervals, and what to repair.
Lists come in pages. The API is read-only, except for notes where the server was started to accept them. Times are ISO
8601 in UTC. Where the server needs a token, send it as `Authorization: Bearer`."""

START_TIMEOUT = 10.0
"""Seconds in which the server thread has to start."""

MAX_CONNECTIONS, BACKLOG, MAX_HEAD = 512, 128, 32_768
"""The maximum number of connections, beyond which the response is 503; of connections waiting to be accepted; and of
bytes in the head of a request. A page needs up to six connections."""

KEEP_ALIVE, SHUTDOWN = 5, 3
"""Seconds for which a connection may be idle after a response, and seconds that open responses may take when the server
ends."""


def application(reader: OutReader, *, token: str | None = None, edit: Path | None = None) -> FastAPI:
    """Return the dashboard of an output folder, which stays open, as an ASGI application.

    Without a token only requests for this machine's own names are answered. Notes are added to the maintenance.csv
    `edit`; without one the page is read-only.
    """
    from fastapi import FastAPI
    from starlette.middleware.gzip import GZipMiddleware

    from sensormend import __version__
    from sensormend.web.api import PROBLEMS, handle_errors, routes
    from sensormend.web.pages import STATIC, page_routes
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
    app.state.ending = threading.Event()
    app.router.routes.extend(page_routes())
    app.include_router(routes(reader, edit, app.state.ending), responses=PROBLEMS)
    handle_errors(app, reader.folder, reader.path, *([] if edit is None else [edit.parent]))
    # The one added last is the outermost.
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(AccessMiddleware, sessions=None if token is None else Sessions(token),
                       page=(STATIC / "login.html").read_text(encoding="utf-8"), edit=edit is not None)  # fmt: skip
    app.add_middleware(SecurityMiddleware)
    return app


class Server(Closing):
    """Serves the dashboard of an output folder in a thread.

    Parameters
    ----------
    out
        What `clean` or `watch` wrote; it has to exist when the server starts.
    host, port
        The address to listen on; port 0 chooses a free one.
    token
        The access token; required on any address but those of the loopback interface.
    edit
        The maintenance.csv that the page may add notes to, created with the first of them; None for a read-only page.

    Raises
    ------
    ConfigError
        The address is not available, or `edit` is not a file that notes can be added to.
    """

    def __init__(
        self, out: str | os.PathLike[str], host: str = DASHBOARD[0], port: int = DASHBOARD[1], token: str | None = None,
        edit: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        self._out, self._token, self._name = out, token, host
        self._edit = None if edit is None else _writable(Path(edit))
        self._socket = _listen(host, port, token)
        self.port = int(self._socket.getsockname()[1])
        self._reader: OutReader | None = None
        self._uvicorn: Any = None
        self._app: FastAPI | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The URL of the page."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._name, self._name)
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}"

    def start(self) -> None:
        """Open the output folder and start to serve it."""
        from sensormend.views.reader import OutReader

        try:
            import uvicorn

            from sensormend.web.connections import BoundedProtocol

            self._reader = OutReader(self._out)
            self._app = application(self._reader, token=self._token, edit=self._edit)
        except ImportError:
            raise SensormendError("the dashboard needs fastapi and uvicorn: pip install 'sensormend[web]'") from None
        # h11 limits the size of a request's head; access_log would contain names of sensors.
        config = uvicorn.Config(
            self._app, http=BoundedProtocol, ws="none", loop="asyncio", lifespan="off", log_config=None,
            log_level="error", access_log=False, server_header=False, proxy_headers=True,
            forwarded_allow_ips="127.0.0.1,::1", limit_concurrency=MAX_CONNECTIONS + 1, backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=SHUTDOWN, h11_max_incomplete_event_size=MAX_HEAD,
        )  # fmt: skip
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._uvicorn.run, args=([self._socket],), name="dashboard", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT
        while not self._uvicorn.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise SensormendError(f"the dashboard did not start at {self.address}")
            time.sleep(0.005)
        # Counting a year of thousands of sensors takes a second; it is done before the first request.
        threading.Thread(target=_count_rows, args=(self._reader,), name="counting", daemon=True).start()

    def wait(self, until: threading.Event) -> None:
        """Serve until the event is set."""
        while self._thread is not None and self._thread.is_alive() and not until.wait(0.5):
            pass

    def close(self) -> None:
        """Stop the server; open pages show that the connection is lost."""
        if self._thread is not None and self._app is not None:
            self._app.state.ending.set()
            self._uvicorn.should_exit = True
            self._thread.join()
        self._socket.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _writable(path: Path) -> Path:
    """Return the file for notes; raise ConfigError at the start where it cannot be written."""
    path = path.absolute()
    if path.exists():
        Maintenance.read(path)
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"no note can be written to {path}: there is no such folder, or it cannot be written to")
    return path


def _count_rows(reader: OutReader) -> None:
    from sensormend.views.matrix import matrix

    # An error in the files is reported by the request that reads them.
    with suppress(Exception):
        matrix(reader, limit=1)


def _listen(host: str, port: int, token: str | None) -> socket.socket:
    """Return a listening socket; raise ConfigError where the address is in use, or needs a token and has none."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: a port is 0 to 65535")
    try:
        addresses = socket.getaddrinfo(
            host.strip("[]") or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # Where a name has both kinds of address, IPv4 is what users type.
        family, kind, protocol, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {reason}; choose another place") from None
    if token is None and not is_loopback(str(address[0]).partition("%")[0]):
        raise ConfigError(
            f"{host or address[0]} can be reached from elsewhere, so the dashboard needs a token there: "
            "openssl rand -hex 24 > token, and --token-file token (of watch: --serve-token-file), or SENSORMEND_TOKEN"
        )
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Otherwise a restart would have to wait for closed connections to time out.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        what = "address" if getattr(error, "errno", None) == errno.EADDRNOTAVAIL else "port"
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {reason}; choose another {what}") from None
    return listener
