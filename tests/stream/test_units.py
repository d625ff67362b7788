"""Units of messages, and those that follow from readings, are in run.json and in alerts, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from list_source import ListSource, hourly, settings
from sensormend.readings import Readings
from sensormend.simulate.network import city
from sensormend.stream.deliveries import Alert
from sensormend.stream.service import Service
from sensormend.stream.sinks import open_alert
from sensormend.stream.sinks.alert_sinks import CommandAlerts
from sensormend.stream.sinks.messages import alert_message
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader
from simulated_city import tensor_readings


class WithUnits(ListSource):
    """A feed whose messages have a unit."""

    units: Mapping[str, str] = MappingProxyType({"temp": "°C"})


def two_variables(days: int) -> list[Readings]:
    temp = tensor_readings(city(4, days, seed=6, faults=False).truth)
    double = {name: np.concatenate([getattr(temp, name)] * 2) for name in ("sensor", "time")}
    variable = np.repeat(np.arange(2, dtype=np.int32), len(temp))
    value = np.concatenate([temp.value, np.clip(70 + 2 * temp.value, 20, 99)])
    return hourly(Readings(temp.sensors, ("temp", "rh"), double["sensor"], variable, double["time"], value))


def run(out: Path, parts: list[Readings], kind: type[ListSource], **options: Any) -> Service:
    service = Service(settings(out, **options), lambda mark, memory: kind(parts, mark))
    service.run()
    return service


def test_units_of_messages_and_readings_are_kept(tmp_path: Path) -> None:
    parts, out = two_variables(4), tmp_path / "out"
    units = {"temp": "°C", "rh": "%"}
    assert run(out, parts[: len(parts) // 2], WithUnits).units == units
    assert json.loads((out / "run.json").read_text())["units"] == units
    # Started again, with no message that has a unit yet.
    again = run(out, parts, ListSource)
    assert again.units == units
    assert json.loads((out / "run.json").read_text())["units"] == units
    with OutReader(out) as reader:
        assert network_overview(reader).units == units


def test_an_alert_has_the_unit_that_messages_have(tmp_path: Path) -> None:
    alert = Alert("a", "temp", "healthy", "faulty", "stuck", 0, 1, "a temp is stuck", "1")
    units: dict[str, str] = {}

    def unit_in_alert(**options: Any) -> object:
        with open_alert("command: cat", settings(tmp_path / "out", **options), units) as sink:
            assert isinstance(sink, CommandAlerts)
            return alert_message(alert, sink.details)["unit"]

    assert unit_in_alert() is None
    units["temp"] = "°C"
    assert unit_in_alert() == "°C"
    assert unit_in_alert(units={"temp": "K"}) == "K", "what the user says comes first"
