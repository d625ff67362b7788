"""A service as its settings say: with the source, the sinks and the figures that they name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from sensormend.errors import SensormendError
from sensormend.stream.arrivals import Source
from sensormend.stream.logs import say
from sensormend.stream.memory import Memory
from sensormend.stream.metrics import Metrics, NoMetrics
from sensormend.stream.service import Service
from sensormend.stream.settings import Settings
from sensormend.stream.sinks import couriers
from sensormend.stream.sources import check_source, open_source

__all__ = ["open_service"]

_log = logging.getLogger("sensormend.stream")


@contextmanager
def open_service(
    settings: Settings, dashboard: Callable[[Settings], AbstractContextManager[None]] | None = None
) -> Iterator[Service]:
    """Give a service that is ready to run.

    Parameters
    ----------
    settings
        What it is to do.
    dashboard
        Opens the dashboard that the settings ask for, when all that can be wrong with the call has been checked.
    """
    check_source(settings.source)
    Memory(settings.out).look()
    opened = couriers(settings)
    with ExitStack() as stack:
        metrics = _metrics(settings, stack)
        if dashboard is not None:
            stack.enter_context(dashboard(settings))
        yield Service(settings, lambda mark, memory: _source(settings, mark, memory), couriers=opened, metrics=metrics)


def _source(settings: Settings, mark: Any, memory: Memory) -> Source:
    # By a name of its own the broker knows it again, also on another machine; two OUTs never share one.
    mqtt = replace(settings.mqtt, client_id=settings.mqtt.client_id or memory.name)
    source = open_source(
        settings.source,
        settings.options,
        work=memory.folder,
        mark=mark,
        mqtt=mqtt,
        former=memory.topics,
        speed=settings.speed,
        without=settings.out,
    )
    memory.topics = list(dict.fromkeys([*memory.topics, *mqtt.topics]))
    return source


def _metrics(settings: Settings, stack: ExitStack) -> NoMetrics:
    """Show figures where that is wanted; the place that nobody chose may be taken, and the library missing."""
    if settings.metrics is None:
        return NoMetrics()
    chosen = settings.metrics != Settings.metrics
    try:
        metrics = Metrics(settings.out)
        metrics.connected(False)  # until the source says otherwise
        page = metrics.serve(*settings.metrics)
    except SensormendError as error:
        if chosen:
            raise
        say(_log, logging.WARNING, f"no figures are shown: {error}")
        return NoMetrics()
    stack.callback(page.close)
    host, _ = settings.metrics
    say(_log, logging.INFO, "figures are shown", address=f"http://{host}:{page.port}/metrics")
    return metrics
