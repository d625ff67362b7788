"""`ThingsServer` asks a server of the OGC SensorThings API, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from sensormend.errors import ConfigError, SensormendError
from sensormend.stream.addresses import parse_host, parse_login, plain
from sensormend.stream.web_client import WebClient, basic

__all__ = ["PAGE", "ThingsServer"]

PAGE = 1_000
"""Entities of one request; a server may give fewer."""

TIMEOUT = 30.0
"""Seconds to wait for an answer."""


class ThingsServer:
    """A server at `sensorthings://host/v1.1`, or `sensorthingss://` with encryption.

    Attributes
    ----------
    shown
        The address without secrets.
    query
        The parameters of the address.
    """

    def __init__(self, address: str, parameters: tuple[str, ...] = ()) -> None:
        self.shown, parts = plain(address), urlsplit(address)
        self.query = dict(parse_qsl(parts.query))
        unknown = [name for name in self.query if name not in parameters]
        if unknown:
            known = f"there are {' and '.join(parameters)}" if parameters else "a sink has no parameters"
            raise ConfigError(f"{self.shown}: there is no {unknown[0]!r}; {known}")
        if not parse_host(address) or not parts.path.strip("/"):
            raise ConfigError(f"{self.shown}: a server is like sensorthings://host:8080/FROST-Server/v1.1")
        scheme = "https" if parts.scheme == "sensorthingss" else "http"
        self._root = f"{scheme}://{parse_host(address)}{parts.path.rstrip('/')}"
        user, password = parse_login(address)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if password is not None:
            headers["Authorization"] = basic(user, password) if user else f"Bearer {password}"
        self._client = WebClient(self.shown, headers, TIMEOUT)

    def pages(self, path: str, **query: str | int) -> Iterator[list[dict[str, Any]]]:
        """Yield the entities below a path, page by page; the names of parameters are written without their `$`."""
        words = urlencode({f"${name}": value for name, value in query.items()}, quote_via=quote, safe="$")
        address: str | None = f"{self._root}/{path}?{words}"
        while address is not None:
            answer = self._parsed(self._client.request("GET", address))
            entities = answer.get("value")
            if not isinstance(entities, list):
                raise SensormendError(f"{self.shown} does not answer like a SensorThings server")
            yield [entity for entity in entities if isinstance(entity, dict)]
            link = answer.get("@iot.nextLink")
            # Only its query: behind a proxy a server may know itself by another address, and the login is for this one.
            address = f"{self._root}/{path}?{urlsplit(link).query}" if isinstance(link, str) and entities else None

    def patch(self, path: str, changes: Mapping[str, Any]) -> None:
        """Change an entity."""
        self._client.request("PATCH", f"{self._root}/{path}", json.dumps(changes).encode())

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SensormendError(f"{self.shown} does not answer with JSON")
        return answer

    @staticmethod
    def key(identity: Any) -> str:
        """Return an id as a key of a path.

        Examples
        --------
        >>> ThingsServer.key(7), ThingsServer.key("a'b")
        ('(7)', "('a%27%27b')")
        """
        if isinstance(identity, int):
            return f"({identity})"
        doubled = str(identity).replace("'", "''")
        return f"('{quote(doubled, safe='')}')"
