"""`sensormend serve` shows an OUT in a browser."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sensormend.cli.arguments import FLAG
from sensormend.cli.watch import stop_on_signals
from sensormend.pipeline.options import DASHBOARD

__all__ = ["serve"]


def serve(
    out: Path,
    /,
    *,
    host: str = DASHBOARD[0],
    port: int = DASHBOARD[1],
    token_file: Path | None = None,
    edit: Path | None = None,
    open_page: Annotated[bool, Parameter(name="--open", **FLAG)] = False,
) -> None:
    """Show an OUT in a browser: the health of the network, sensor by sensor, and what to repair.

    OUT is the result of `clean` or `watch`; while `watch` writes to it, the page is updated. Only this machine can
    reach the page, unless --host is given; then it asks for a token. Ctrl-C ends it.

    Parameters
    ----------
    out
        The folder with the results, or the single file.
    host
        The address to listen on; any but this machine's own needs a token.
    port
        The port; 0 takes a free one.
    token_file
        A file with the token that opens the page: openssl rand -hex 24 > token. It may be in SENSORMEND_TOKEN instead.
    edit
        Let the page add notes to this maintenance.csv: a level is right, readings were real, or are to be ignored.
    open_page
        Open the page in the browser.
    """
    from sensormend.stream.logs import setup
    from sensormend.web.server import Server
    from sensormend.web.sessions import read_token

    setup("text", "warning")
    token, stopped = read_token(token_file), threading.Event()
    with stop_on_signals(stopped.set), Server(out, host, port, token, edit) as server:
        server.start()
        with_token = ", with the token" if token else ""
        notes = f", notes go to {edit}" if edit else ""
        print(f"{out} is shown at {server.address}{with_token}{notes}; Ctrl-C ends it", flush=True)
        if open_page:
            import webbrowser

            webbrowser.open(server.address)
        server.wait(stopped)
