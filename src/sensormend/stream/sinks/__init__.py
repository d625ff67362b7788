"""`open_sink` and `open_alert` open the sink that an address means; adding a kind is a module and a line here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sensormend.errors import ConfigError
from sensormend.io.postgres import SCHEMES
from sensormend.stream.addresses import COMMAND, MQTT, WEB, host_of, login_of, plain
from sensormend.stream.deliveries import Sink
from sensormend.stream.delivery_queue import DeliveryQueue, DeliveryWorker
from sensormend.stream.settings import Settings

if TYPE_CHECKING:
    from sensormend.stream.mqtt import Broker

__all__ = ["open_alert", "open_sink", "open_workers"]


def open_sink(address: str, settings: Settings | None = None) -> Sink:
    """Return the sink of an address; it is not connected yet.

    Parameters
    ----------
    address
        `mqtt://host/prefix`, `mqtts://...`, or `postgresql://host/database?table=name`.
    settings
        Whose certificates are trusted, and whose user and password are used where it is the broker of the source.
    """
    if address.startswith(SCHEMES):
        from sensormend.stream.sinks.postgres_sink import PostgresSink

        return PostgresSink(address)
    if address.startswith(MQTT):
        from sensormend.stream.sinks.mqtt_sink import MqttSink

        return MqttSink(_broker(address, settings))
    raise ConfigError(f"a sink is mqtt://host/prefix or postgresql://host/database?table=name; got {plain(address)!r}")


def open_alert(address: str | Sequence[str], settings: Settings | None = None) -> Sink:
    """Return the sink of an address for alerts; it is not connected yet.

    Parameters
    ----------
    address
        `mqtt://host/topic`, `https://...`, `command: words`, or the words of a command as a list.
    settings
        As for `open_sink`.
    """
    from sensormend.stream.sinks.alert_sinks import CommandAlerts

    if not isinstance(address, str):
        return CommandAlerts(address)
    if address.startswith(COMMAND):
        return CommandAlerts(address.removeprefix(COMMAND))
    if address.startswith(WEB):
        from sensormend.stream.sinks.alert_sinks import WebhookAlerts

        return WebhookAlerts(address)
    if address.startswith(MQTT):
        from sensormend.stream.sinks.mqtt_sink import MqttAlerts

        return MqttAlerts(_broker(address, settings))
    raise ConfigError(f"alerts go to mqtt://host/topic, https://... or command: words; got {plain(address)!r}")


def open_workers(settings: Settings) -> dict[str, Callable[[DeliveryQueue], DeliveryWorker]]:
    """Return what opens a worker for each sink and each place for alerts, by names that may be shown.

    A name is the same after a restart, whatever else is in the list, as long as the address but for its password is.
    """
    workers: dict[str, Callable[[DeliveryQueue], DeliveryWorker]] = {}
    kinds: tuple[tuple[str, Sequence[str], Callable[[str, Settings], Sink]], ...] = (
        ("", settings.sinks, open_sink),
        ("alerts to ", settings.alerts.to, open_alert),
    )
    for before, addresses, opened in kinds:
        shown = Counter(plain(address) for address in dict.fromkeys(addresses))
        for address in dict.fromkeys(addresses):
            name = f"{before}{plain(address)}"
            if shown[plain(address)] > 1:
                # Two webhooks of one host, for example: their paths are secret, so a hash distinguishes them.
                name += f" ({hashlib.sha256(address.encode()).hexdigest()[:6]})"
            workers[name] = partial(DeliveryWorker, name, opened(address, settings))
    return workers


def _broker(address: str, settings: Settings | None) -> Broker:
    from sensormend.stream.mqtt import Broker

    user, password = login_of(address)
    if settings is None:
        return Broker(address, user, password)
    mqtt, source = settings.mqtt, settings.source
    # The password of the source is sent only to the broker of the source.
    if source.startswith(MQTT) and host_of(address) == host_of(source):
        if user is None:
            user, password = mqtt.user, mqtt.password
        elif password is None and user == mqtt.user:
            password = mqtt.password
    return Broker(address, user, password, mqtt.ca)
