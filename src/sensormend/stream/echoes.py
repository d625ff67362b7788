"""What `watch` would hear of itself: results that come back as readings, and are mended again, for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sensormend.errors import ConfigError
from sensormend.stream.addresses import ALERTS, MQTT, PREFIX, REPLAY, broker_of, is_address, plain, topic_of
from sensormend.stream.formats.topics import meet

__all__ = ["refuse_echoes"]


def refuse_echoes(source: str, topics: Sequence[str], out: Path, sinks: Sequence[str], alerts: Sequence[str]) -> None:
    """Refuse a source that would take in results.

    Parameters
    ----------
    source, topics
        The address of the source, and what it is subscribed to.
    out
        Where results are written.
    sinks, alerts
        Where else they go.
    """
    if source.startswith(MQTT):
        for address, published in _published(sinks, alerts):
            if broker_of(address) == broker_of(source) and any(meet(topic, published) for topic in topics):
                raise ConfigError(
                    f"the source would take in what goes to {plain(address)} as {published}: say which topics are "
                    "readings, like mqtt://host/city/#"
                )
    elif source != "-" and not source.startswith(REPLAY) and not is_address(source):
        folder, results = (Path(os.path.realpath(path)) for path in (source, out))
        if folder.is_relative_to(results):
            raise ConfigError(f"OUT must be another folder than the one that is watched, and not above it; got {out}")


def _published(sinks: Sequence[str], alerts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give whatever is published anywhere: the address and a filter for its topics."""
    for address in sinks:
        if address.startswith(MQTT):
            prefix = topic_of(address).strip("/") or PREFIX
            yield from ((address, f"{prefix}/{room}/#") for room in ("cleaned", "health"))
    for address in alerts:
        if address.startswith(MQTT):
            yield address, topic_of(address).strip("/") or ALERTS
