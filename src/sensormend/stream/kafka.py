"""`KafkaCluster` is what an address says of a Kafka cluster: its brokers, the login, and the topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from sensormend.errors import ConfigError, SensormendError
from sensormend.stream.addresses import parse_host, parse_login, plain

__all__ = ["KafkaCluster", "import_kafka"]

PARAMETERS = ("group", "mechanism", "password_file", "ca")
"""The parameters of an address."""


def import_kafka() -> Any:
    """Return the module confluent_kafka, or raise an error that says how to install it."""
    try:
        import confluent_kafka
    except ImportError:
        raise SensormendError("Kafka needs confluent-kafka: install it with pip install 'sensormend[kafka]'") from None
    return confluent_kafka


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster and its topics.

    Attributes
    ----------
    topics
        The names in the path.
    group
        The consumer group; None if the address has none.
    settings
        The settings of librdkafka for the connection.
    """

    topics: tuple[str, ...]
    group: str | None
    settings: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, address: str) -> KafkaCluster:
        """Return what an address says: `kafka://host:9092,host:9092/topic,topic?group=name`, or `kafkas://`.

        Examples
        --------
        >>> cluster = KafkaCluster.of("kafkas://me:hush@one:9093,two/weather?mechanism=SCRAM-SHA-512")
        >>> cluster.topics, cluster.settings["bootstrap.servers"], cluster.settings["security.protocol"]
        (('weather',), 'one:9093,two:9092', 'SASL_SSL')
        """
        shown, parts = plain(address), urlsplit(address)
        topics = tuple(name.strip() for name in unquote(parts.path.strip("/")).split(",") if name.strip())
        brokers = [host if ":" in host else f"{host}:9092" for host in parse_host(address).split(",") if host]
        query = dict(parse_qsl(parts.query))
        unknown = [name for name in query if name not in PARAMETERS]
        if unknown:
            raise ConfigError(f"{shown}: there is no {unknown[0]!r}; there are {', '.join(PARAMETERS)}")
        if not topics or not brokers or any("/" in name for name in topics):
            raise ConfigError(f"{shown}: topics of Kafka are like kafka://host:9092/weather,water")
        user, password = parse_login(address)
        if "password_file" in query:
            try:
                password = Path(query["password_file"]).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"password_file cannot be read: {error}") from None
        encrypted = parts.scheme == "kafkas"
        kind = "SASL_" if user is not None else ""
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(brokers),
            "security.protocol": f"{kind}{'SSL' if encrypted else 'PLAINTEXT'}",
            "client.id": "sensormend",
            # Its errors come by callbacks.
            "log_level": 0,
        }
        if user is not None:
            mechanism = query.get("mechanism", "PLAIN")
            settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password or ""}
        if "ca" in query:
            settings["ssl.ca.location"] = query["ca"]
        return cls(topics, query.get("group"), settings)
