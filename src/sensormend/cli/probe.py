"""`sensormend probe` prints what a feed or a file is taken for, without writing anything."""

from __future__ import annotations

import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from sensormend.cli.app import STDIN
from sensormend.cli.arguments import GROUPS, Arguments, declared_options
from sensormend.errors import ConfigError, InputError
from sensormend.pipeline.options import Options, declarations
from sensormend.stream.settings import Settings

if TYPE_CHECKING:
    from sensormend.readings import Readings
    from sensormend.stream.arrivals import Rejected
    from sensormend.stream.feed_summary import FeedSummary
    from sensormend.stream.formats.decoding import Decoder

__all__ = ["ProbeArguments", "probe"]

MOST_READINGS = 100_000
"""The number of readings after which a feed is not read any further."""


@declared_options(
    "probe",
    Settings,
    Options,
    without=(
        "output",
        "alerts",
        "networks",
        "method",
        "start_from",
        "grace",
        "late_for",
        "speed",
        "maintenance",
        "gone_after",
    ),
)
class ProbeArguments(Arguments):
    """The options of `probe`: those of `watch` that say how readings are decoded."""


def probe(
    source: str,
    /,
    *,
    seconds: Annotated[float, Parameter(group=GROUPS["feed"])] = 10.0,
    arguments: ProbeArguments | None = None,
) -> None:
    """Print what a feed or a file is taken for: format, sensors, variables, units, step, and five readings.

    SOURCE is what `watch` or `clean` reads: mqtt://host/topic, `-` for messages on standard input, or files. Nothing is
    written, and a broker keeps nothing of it. Beside each choice is the option that changes it.

    Parameters
    ----------
    source
        The feed, the file or the folder.
    seconds
        How long a feed is read.
    arguments
        Options for the feed and its readings.
    """
    from sensormend.stream.addresses import INFLUX, KAFKA, MQTT, REPLAY, plain

    if not 0 < seconds < float("inf"):
        raise ConfigError(f"seconds is a number above 0; got {seconds}")
    address = "-" if source == STDIN else source
    values = (arguments or ProbeArguments()).to_dict()
    with tempfile.TemporaryDirectory() as folder:
        if address == "-" or address.startswith((*MQTT, *KAFKA, INFLUX[0])):
            settings = Settings.of(source=address, out=Path(folder) / "out", **values)
            summary = _of_feed(settings, seconds)
        else:
            known = declarations(Options)
            for name in values:
                if name not in known:
                    raise ConfigError(f"{name} is for messages, from mqtt://, kafka:// or -")
            summary = _of_files(address.removeprefix(REPLAY), Options.of(**values), Path(folder))
    console = Console(highlight=False, soft_wrap=True)
    console.print(plain(address), markup=False)
    for what, choice, hint in summary.lines():
        console.print(f"{what:<12}{escape(choice)}{f'  [dim]({escape(hint)})[/]' if hint else ''}")


def _of_feed(settings: Settings, seconds: float) -> FeedSummary:
    """Read a feed for some seconds, or to its end."""
    from sensormend.readings import Readings
    from sensormend.stream.addresses import plain
    from sensormend.stream.feed_summary import FeedSummary
    from sensormend.stream.sources import open_source

    # A session and a group of its own, so that no message is missing for another one.
    mqtt = replace(settings.mqtt, client_id=f"sensormend-probe-{uuid.uuid4().hex[:12]}")
    source: Any = open_source(
        settings.source, settings.options, work=settings.out, mqtt=mqtt, form=settings.format, lasting=False
    )
    decoder: Decoder = source.decoder
    parts: list[Readings] = []
    rejected: list[Rejected] = []
    count, end = 0, time.monotonic() + seconds
    with source:
        while count < MOST_READINGS and (wait := end - time.monotonic()) > 0:
            arrived = source.read(min(wait, 0.25))
            if arrived is None:
                break
            arrived.acknowledge()
            rejected += arrived.rejected[: 1_000 - len(rejected)]
            if len(arrived.readings):
                parts.append(arrived.readings)
                count += len(arrived.readings)
    if not parts and not rejected:
        raise InputError(
            f"nothing came from {plain(settings.source)} within {seconds:g} s; read longer with --seconds, or look at "
            "the topics"
        )
    return FeedSummary.of(
        Readings.concatenate(parts),
        settings.options,
        live=True,
        formats=tuple(decoder.formats.values()),
        units=decoder.units,
        passed=tuple(decoder.passed),
        rejected=rejected,
    )


def _of_files(source: str, options: Options, folder: Path) -> FeedSummary:
    """Read files as `clean` does."""
    from sensormend.io.staging import Staging
    from sensormend.pipeline.options import EVERY
    from sensormend.stream.feed_summary import FeedSummary
    from sensormend.stream.sources.replay_source import list_rejected

    with Staging(folder / "staging") as staging:
        staging.load(source, options)
        sample = staging.sample()
        return FeedSummary.of(
            sample,
            options,
            live=False,
            formats=staging.layouts,
            units={EVERY: staging.unit} if staging.unit else None,
            rejected=list_rejected(staging),
            notes=staging.notes,
        )
