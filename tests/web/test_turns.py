from __future__ import annotations

import os
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from outs import small_out
from post import until
from sensormend.views.matrix import matrix
from sensormend.web import api
from sensormend.web.server import Server


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads of a process are counted in /proc")
def test_a_server_that_has_ended_leaves_no_thread(tmp_path: Path) -> None:
    small_out(tmp_path / "city", days=3)

    def threads_after_one() -> int:
        with Server(tmp_path / "city", port=0) as server:
            server.start()
            for name in ("network", "moment", "series?sensor=S00"):
                urllib.request.urlopen(f"{server.address}/api/{name}", timeout=30).read()
        return len(os.listdir("/proc/self/task"))

    before = threads_after_one()
    after = [threads_after_one() for _ in range(3)]
    assert max(after) <= before


def test_what_is_quick_does_not_wait_for_all_that_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_out(tmp_path / "city", days=3)
    go, running = threading.Event(), []

    def waiting(*given: Any, **named: Any) -> Any:
        running.append(1)
        go.wait(30)
        return matrix(*given, **named)

    monkeypatch.setattr(api, "matrix", waiting)
    with Server(tmp_path / "city", port=0) as server:
        server.start()

        def ask(name: str) -> int:
            with urllib.request.urlopen(f"{server.address}/api/{name}", timeout=30) as answer:
                return int(answer.status)

        answers: list[int] = []
        # More than there are threads.
        asking = [threading.Thread(target=lambda: answers.append(ask("matrix"))) for _ in range(50)]
        for one in asking:
            one.start()
        until(lambda: len(running) == api.SLOW)
        assert ask("network") == 200
        assert len(running) == api.SLOW
        go.set()
        for one in asking:
            one.join(30)
    assert answers == [200] * 50
