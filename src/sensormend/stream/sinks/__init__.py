"""`open_sink` and `open_alert` open the sink that an address means; adding a kind is a module and a line here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from sensormend.errors import ConfigError
from sensormend.io.postgres import SCHEMES
from sensormend.stream.addresses import (
    ALERT_ADDRESSES,
    COMMAND,
    INFLUX,
    KAFKA,
    MAIL,
    MQTT,
    NTFY,
    SENSORTHINGS,
    SINK_ADDRESSES,
    WEB,
    parse_host,
    parse_login,
    plain,
)
from sensormend.stream.deliveries import Sink
from sensormend.stream.delivery_worker import DeliveryWorker
from sensormend.stream.settings import Settings
from sensormend.stream.store import Store

if TYPE_CHECKING:
    from sensormend.stream.mqtt import Broker

__all__ = ["open_alert", "open_sink", "open_workers"]

NO_UNITS: Mapping[str, str] = MappingProxyType({})


def open_sink(address: str, settings: Settings | None = None, units: Mapping[str, str] = NO_UNITS) -> Sink:
    """Return the sink of an address, not connected yet; see `SINK_ADDRESSES`.

    The settings have the trusted certificates, the login where it is the broker of the source, and whether Home
    Assistant is to discover the sensors; `units` has those of variables, also such as become known later.
    """
    if address.startswith(SCHEMES):
        from sensormend.stream.sinks.postgres_sink import PostgresSink

        return PostgresSink(address)
    if address.startswith(MQTT):
        from sensormend.stream.sinks.messages import NO_DETAILS, AlertDetails
        from sensormend.stream.sinks.mqtt_sink import MqttSink

        details = NO_DETAILS if settings is None else AlertDetails(settings.alerts.url, settings.options, units)
        home_assistant = settings is not None and settings.home_assistant
        return MqttSink(_broker(address, settings), home_assistant=home_assistant, details=details)
    if address.startswith(INFLUX):
        from sensormend.stream.sinks.influx_sink import InfluxSink

        return InfluxSink(address)
    if address.startswith(KAFKA):
        from sensormend.stream.sinks.kafka_sink import KafkaSink

        return KafkaSink(address)
    if address.startswith(SENSORTHINGS):
        from sensormend.stream.sinks.sensorthings_sink import SensorThingsSink

        return SensorThingsSink(address)
    raise ConfigError(f"{SINK_ADDRESSES}; got {plain(address)!r}")


def open_alert(
    address: str | Sequence[str], settings: Settings | None = None, units: Mapping[str, str] = NO_UNITS
) -> Sink:
    """Return the sink of an address for alerts, of `ALERT_ADDRESSES`; a command is a text or a list.

    The settings have the address of the dashboard and units of variables, too; `units` are as for `open_sink`.
    """
    from sensormend.stream.sinks.alert_sinks import CommandAlerts, NtfyAlerts, WebhookAlerts
    from sensormend.stream.sinks.messages import AlertDetails

    details = AlertDetails() if settings is None else AlertDetails(settings.alerts.url, settings.options, units)
    if not isinstance(address, str):
        return CommandAlerts(address, details=details)
    if address.startswith(COMMAND):
        return CommandAlerts(address.removeprefix(COMMAND), details=details)
    if address.startswith(WEB):
        return WebhookAlerts(address, details=details)
    if address.startswith(NTFY):
        return NtfyAlerts(address, details=details)
    if address.startswith(MAIL):
        from sensormend.stream.sinks.email_alerts import EmailAlerts

        return EmailAlerts(address, details=details)
    if address.startswith(MQTT):
        from sensormend.stream.sinks.mqtt_sink import MqttAlerts

        return MqttAlerts(_broker(address, settings), details=details)
    raise ConfigError(f"{ALERT_ADDRESSES}; got {plain(address)!r}")


def open_workers(
    settings: Settings, units: Mapping[str, str] = NO_UNITS
) -> dict[str, Callable[[Store], DeliveryWorker]]:
    """Return a function that opens a worker for each sink, by names without secrets.

    The name depends on the address only, so that a sink has the same one after a restart.
    """
    workers: dict[str, Callable[[Store], DeliveryWorker]] = {}
    kinds: tuple[tuple[str, Sequence[str], Callable[[str, Settings, Mapping[str, str]], Sink]], ...] = (
        ("", settings.sinks, open_sink),
        ("alerts to ", settings.alerts.to, open_alert),
    )
    for prefix, addresses, open_kind in kinds:
        counts = Counter(plain(address) for address in dict.fromkeys(addresses))
        for address in dict.fromkeys(addresses):
            name = f"{prefix}{plain(address)}"
            if counts[plain(address)] > 1:
                # Two webhooks of one host, for example: their paths are secret, so a hash distinguishes them.
                name += f" ({hashlib.sha256(address.encode()).hexdigest()[:6]})"
            workers[name] = partial(DeliveryWorker, name, open_kind(address, settings, units))
    return workers


def _broker(address: str, settings: Settings | None) -> Broker:
    from sensormend.stream.mqtt import Broker

    user, password = parse_login(address)
    if settings is None:
        return Broker(address, user, password)
    mqtt, source = settings.mqtt, settings.source
    # The password of the source is sent only to the broker of the source.
    if source.startswith(MQTT) and parse_host(address) == parse_host(source):
        if user is None:
            user, password = mqtt.user, mqtt.password
        elif password is None and user == mqtt.user:
            password = mqtt.password
    return Broker(address, user, password, mqtt.ca)
