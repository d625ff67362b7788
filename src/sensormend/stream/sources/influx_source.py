"""`InfluxSource` takes InfluxDB's line protocol over HTTP, as Telegraf and other clients send it to InfluxDB."""

from __future__ import annotations

import hmac
import json
import queue
import threading
import time
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.readings import NOTHING
from sensormend.stream.addresses import is_loopback, parse_host, parse_login, plain
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.formats.decoding import LARGEST, Decoder
from sensormend.stream.http_server import MOST_CONNECTIONS, HttpServer, RequestHandler

__all__ = ["InfluxSource"]

PORT = 8086
"""The port of InfluxDB."""

ANSWER_WITHIN = 10.0
"""Seconds for a batch to be on disk; after that the sender is asked to send it again."""

MOST_AT_ONCE = 4 << 20
"""Bytes of batches that are decoded at once."""

PRECISIONS = ("", "ns", "n", "us", "u", "ms", "s")
"""The precisions of timestamps that can be told apart by their size; minutes and hours would be taken for seconds."""

WRITES = ("/write", "/api/v2/write", "/api/v3/write_lp")


class _Batch:
    """A body, and the answer to its sender when there is one."""

    def __init__(self, body: bytes) -> None:
        self.body, self.answered = body, threading.Event()
        self.answer = 503


class InfluxSource(Source):
    """Listens for line protocol at `influx://host:port`, as InfluxDB does at `/write` and `/api/v2/write`.

    A batch is answered with 204 when it is on disk; until then the sender keeps it. A sender that gets 503 or no
    answer sends it again, and readings that come twice count once. Invalid lines are refused alone. A token or
    a login in the address, `influx://:TOKEN@host:port`, is required of every sender. One that is not `lasting` answers
    503 to all, so that they keep their batches.
    """

    def __init__(self, address: str, options: Options | None = None, *, lasting: bool = True) -> None:
        self._lasting = lasting
        shown = plain(address)
        try:
            parts = urlsplit(f"//{parse_host(address)}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or urlsplit(address).path.strip("/"):
            raise ConfigError(f"{shown}: a place to listen at is like influx://127.0.0.1:{PORT}")
        user, password = parse_login(address)
        if password is None and not is_loopback(host):
            raise ConfigError(
                f"{shown}: other machines can send to it; ask for a token, like influx://:TOKEN@{host}:{port or PORT}"
            )
        self.decoder = Decoder(options, form="influx")
        self.units = self.decoder.units
        self._batches: queue.Queue[_Batch] = queue.Queue(MOST_CONNECTIONS)
        attributes = {"batches": self._batches, "user": user or "", "password": password}
        try:
            self._server = HttpServer(host, PORT if port is None else port, _InfluxHandler, "influx", **attributes)
        except OSError as error:
            raise ConfigError(f"{shown}: cannot listen there: {error}") from None
        self.port = self._server.port

    def read(self, wait: float) -> Arrived:
        """Return the new inputs; see `Source.read`."""
        batches: list[_Batch] = []
        end, size = time.monotonic() + wait, 0
        while size < MOST_AT_ONCE:
            remaining = 0.0 if batches else end - time.monotonic()
            try:
                batches.append(self._batches.get(timeout=remaining) if remaining > 0 else self._batches.get_nowait())
            except queue.Empty:
                break
            size += len(batches[-1].body)
        received = clock()
        for batch in batches:
            for number, line in enumerate(batch.body.splitlines(), 1):
                if line.strip() and not line.startswith(b"#"):
                    self.decoder.add(line, received, None, f"line {number} of a batch")
        if not batches:
            return Arrived(NOTHING, received)
        readings, rejected, positions = self.decoder.take()

        def acknowledge() -> None:
            for batch in batches:
                batch.answer = 204 if self._lasting else 503
                batch.answered.set()

        return Arrived(readings, received, rejected, positions, None, acknowledge)

    def close(self) -> None:
        """Stop listening; senders of batches that are not on disk get no answer, and send them again."""
        self._server.close()


class _InfluxHandler(RequestHandler):
    batches: queue.Queue[_Batch]
    user: str
    password: str | None

    def do_GET(self) -> None:  # noqa: N802
        path = self.path.partition("?")[0]
        if path == "/ping":
            self._answer(204)
        elif path == "/health":
            self._answer(200, {"name": "sensormend", "status": "pass"})
        elif path == "/query":
            self._answer(200, {"results": [{"statement_id": 0}]})
        else:
            self._answer(404, {"error": f"there is POST {', '.join(WRITES)}"})

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:  # noqa: N802
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        body = self._body()
        if body is None:
            return
        if address.path == "/query":  # Telegraf asks for the database to be created
            self._answer(200, {"results": [{"statement_id": 0}]})
        elif address.path not in WRITES:
            self._answer(404, {"error": f"there is POST {', '.join(WRITES)}"})
        elif not self._may_write(query):
            self._answer(401, {"error": "a token or a login is needed"})
        elif query.get("precision", "") not in (*PRECISIONS, "nanosecond", "microsecond", "millisecond", "second"):
            self._answer(400, {"error": "precision is ns, us, ms or s"})
        else:
            self._store(body)

    def _store(self, body: bytes) -> None:
        """Answer when the batch is on disk."""
        end, batch = time.monotonic() + ANSWER_WITHIN, _Batch(body)
        try:
            self.batches.put(batch, timeout=ANSWER_WITHIN)
        except queue.Full:
            self._answer(503, {"error": "batches wait to be written"})
            return
        batch.answered.wait(max(end - time.monotonic(), 0.0))
        if batch.answer == 204:
            self._answer(204)
        else:
            self._answer(batch.answer, {"error": "it cannot be written now"})

    def _body(self) -> bytes | None:
        """Return the body; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._answer(411, {"error": "Content-Length is needed"})
            return None
        if int(length) > LARGEST:
            self._answer(413, {"error": f"a batch has at most {LARGEST} bytes"})
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return None
        if self.headers.get("Content-Encoding", "identity") == "identity":
            return body
        try:
            # A small body may hold gigabytes.
            unpacker = zlib.decompressobj(wbits=47)
            body = unpacker.decompress(body, LARGEST)
        except zlib.error:
            self._answer(400, {"error": "the body is not gzip"})
            return None
        if unpacker.unconsumed_tail or not unpacker.eof:
            self._answer(413, {"error": f"a batch has at most {LARGEST} bytes, and is complete"})
            return None
        return body

    def _may_write(self, query: Mapping[str, str]) -> bool:
        if self.password is None:
            return True
        kind, _, content = self.headers.get("Authorization", "").partition(" ")
        user, password = query.get("u", ""), query.get("p", "")
        if kind.lower() in ("token", "bearer"):
            user, password = self.user, content.strip()
        elif kind.lower() == "basic":
            try:
                user, _, password = b64decode(content).decode().partition(":")
            except ValueError:
                return False
        expected = f"{self.user}:{self.password}".encode()
        return hmac.compare_digest(f"{user}:{password}".encode("utf-8", "replace"), expected)

    def _answer(self, status: int, content: Mapping[str, Any] | None = None) -> None:
        # By the version clients know whom they talk to.
        headers = {"X-Influxdb-Version": "1.8-sensormend"}
        if content is None:
            self.answer(status, headers)
        else:
            self.answer(status, {**headers, "Content-Type": "application/json"}, json.dumps(content).encode() + b"\n")
