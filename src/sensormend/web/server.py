"""The dashboard, served: what there is to see of an OUT, to whom it is shown, and where."""

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
from sensormend.web.passes import Passes, is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sensormend.views.look import Look

__all__ = ["Server", "application"]


ABOUT = """What a sensor network is like, sensor by sensor and day by day: what was measured, what was mended, how sure
that is, and what to repair. It comes in pages, and is read-only but for notes, where the server was started to take
them. Times are ISO 8601 in UTC. Where the server asks for a token, send it as `Authorization: Bearer`."""

START = 10.0
"""Seconds in which a thread that only has to listen is listening."""


def application(look: Look, *, token: str | None = None, edit: Path | None = None) -> FastAPI:
    """Return the dashboard of an OUT, as anything that speaks ASGI serves it.

    Parameters
    ----------
    look
        The OUT; it stays open.
    token
        What opens it; without one only requests for this machine's own names are answered.
    edit
        The maintenance.csv that the page may add notes to; None where it may write nothing.
    """
    from fastapi import FastAPI
    from starlette.middleware.gzip import GZipMiddleware

    from sensormend import __version__
    from sensormend.web.access import Access
    from sensormend.web.api import routes
    from sensormend.web.failures import PROBLEMS, tell_failures
    from sensormend.web.guard import Guard, Streams
    from sensormend.web.pages import Pages

    app = FastAPI(
        title="sensormend",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    pages, streams = Pages(), Streams()
    app.state.streams = streams
    app.router.routes.extend(pages.routes())
    app.include_router(routes(look, edit), responses=PROBLEMS)
    tell_failures(app, look.folder, look.path, *([] if edit is None else [edit.parent]))
    # The last one is the outermost.
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(Access, passes=None if token is None else Passes(token), page=pages.text("login.html"),
                       edit=edit is not None)  # fmt: skip
    app.add_middleware(Guard, streams=streams)
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
        self._look: Look | None = None
        self._wire: Any = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where the page is, as a browser takes it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._name, self._name)
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}"

    def start(self) -> None:
        """Open the OUT, and answer from now on."""
        from sensormend.views.look import Look

        try:
            from sensormend.web.wire import Wire
        except ImportError:
            raise SensormendError("the dashboard needs fastapi and uvicorn: pip install 'sensormend[web]'") from None
        self._look = Look(self._out)
        app = application(self._look, token=self._token, edit=self._edit)
        self._wire = Wire(app, app.state.streams)
        self._thread = threading.Thread(target=self._wire.run, args=([self._socket],), name="dashboard", daemon=True)
        self._thread.start()
        waited = time.monotonic()
        while not self._wire.started:
            if not self._thread.is_alive() or time.monotonic() - waited > START:
                raise SensormendError(f"the dashboard did not start at {self.address}")
            time.sleep(0.005)
        # Counting a year of thousands of sensors takes a second, which nobody has to wait for.
        threading.Thread(target=_count_ahead, args=(self._look,), name="counting", daemon=True).start()

    def wait(self, until: threading.Event) -> None:
        """Serve until somebody wants it to end."""
        while self._thread is not None and self._thread.is_alive() and not until.wait(0.5):
            pass

    def close(self) -> None:
        """End it; pages that are open say that the connection is lost."""
        if self._thread is not None and self._wire is not None:
            self._wire.should_exit = True
            self._thread.join()
        self._socket.close()
        if self._look is not None:
            self._look.close()
            self._look = None


def _writable(path: Path) -> Path:
    """Return where notes go, or refuse it before anybody writes one."""
    path = path.absolute()
    if path.exists():
        Maintenance.read(path)
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"no note can be written to {path}: there is no such folder, or it cannot be written to")
    return path


def _count_ahead(look: Look) -> None:
    from sensormend.views.matrix import matrix

    # Whatever is wrong with the files is told to whoever asks for them.
    with suppress(Exception):
        matrix(look, limit=1)


def _listening(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket at a place that nobody else has, and that may be shown without a token or has one."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: a port is 0 to 65535")
    try:
        places = socket.getaddrinfo(
            host.strip("[]") or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # Where a name has an address of either kind, the older kind is what people type.
        family, kind, protocol, _, place = sorted(places, key=lambda found: found[0] != socket.AF_INET)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        told = getattr(error, "strerror", None) or error
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {told}; choose another place") from None
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
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        told = getattr(error, "strerror", None) or error
        what = "address" if getattr(error, "errno", None) == errno.EADDRNOTAVAIL else "port"
        raise ConfigError(f"the dashboard cannot be shown at {host}:{port}: {told}; choose another {what}") from None
    return made
