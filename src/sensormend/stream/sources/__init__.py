"""`open_source` opens the source of an address; there is one kind per module."""

from __future__ import annotations

from collections.abc import Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

from sensormend.errors import ConfigError
from sensormend.io.postgres import SCHEMES
from sensormend.pipeline.options import Options
from sensormend.stream.addresses import INFLUX, KAFKA, MQTT, REPLAY, SENSORTHINGS, is_address, plain
from sensormend.stream.arrivals import Source
from sensormend.stream.settings import MqttSettings

__all__ = ["check_source", "open_source"]


def open_source(
    address: str,
    options: Options | None = None,
    *,
    work: Path,
    mark: Any = None,
    mqtt: MqttSettings | None = None,
    former: Sequence[str] = (),
    speed: float | None = None,
    without: Path | None = None,
    form: str | None = None,
    lasting: bool = True,
) -> Source:
    """Open the source of an address.

    Parameters
    ----------
    address
        `mqtt://` or `mqtts://`; `postgresql://` with a table; `influx://` to listen at; `kafka://` with topics;
        `sensorthings://`; `-` for newline JSON on standard input; `replay:` and anything that `clean` reads; or a
        folder in which files appear.
    work
        A folder for the state and the temporary files of a source.
    mark
        The mark of the last `Arrived` that is on disk.
    former
        Topics of earlier subscriptions.
    without
        A folder that is not read even if it is in the watched one: OUT.
    form
        The format of the messages; by default it is recognised.
    lasting
        False for a look at a feed: a broker, a cluster or a sender of line protocol keeps all messages.
    """
    # Each kind has dependencies of its own, and is imported only when it is used.
    if address.startswith(MQTT):
        from sensormend.stream.sources.mqtt_source import MqttSource

        return MqttSource(address, mqtt, options, former=former, form=form, lasting=lasting)
    if address.startswith(SCHEMES):
        from sensormend.stream.sources.postgres_source import PostgresSource

        return PostgresSource(address, options, mark=mark)
    if address.startswith(INFLUX[0]):
        from sensormend.stream.sources.influx_source import InfluxSource

        return InfluxSource(address, options, lasting=lasting)
    if address.startswith(KAFKA):
        from sensormend.stream.sources.kafka_source import KafkaSource

        # The name by which a broker knows this output folder.
        group = mqtt.client_id if mqtt else None
        return KafkaSource(address, options, mark=mark, group=group, form=form, lasting=lasting)
    if address.startswith(SENSORTHINGS):
        from sensormend.stream.sources.sensorthings_source import SensorThingsSource

        return SensorThingsSource(address, options, mark=mark)
    if address.startswith(REPLAY):
        from sensormend.stream.sources.replay_source import ReplaySource

        return ReplaySource(address.removeprefix(REPLAY), options, work / "replay", mark=mark, speed=speed)
    if address == "-":
        from sensormend.stream.sources.pipe_source import PipeSource

        return PipeSource(options, form=form)
    check_source(address)
    from sensormend.stream.sources.folder_source import FolderSource

    return FolderSource(Path(address), options, work / "folder", mark=mark, without=without)


def check_source(address: str) -> None:
    """Refuse an address that is not a source, before any file is written for it."""
    if address == "-" or address.startswith((*MQTT, *SCHEMES, *KAFKA, *SENSORTHINGS, INFLUX[0])):
        return
    if address.startswith(REPLAY):
        readings = address.removeprefix(REPLAY)
        if not (is_address(readings) or readings == "-" or has_magic(readings) or Path(readings).exists()):
            raise ConfigError(f"there is no file or folder {readings}")
    elif is_address(address):
        raise ConfigError(
            "a source is mqtt://host/topic, mqtts://, postgresql://host/database?table=name, influx://host:port, "
            f"kafka://host/topic, sensorthings://host/v1.1, a folder, - or replay:READINGS; got {plain(address)!r}"
        )
    elif Path(address).is_file():
        raise ConfigError(f"{address} is a file; watch a folder, or replay:{address}")
    elif not Path(address).is_dir():
        raise ConfigError(f"there is no folder {address}")
