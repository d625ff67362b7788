"""What docs/operations.md tells an operator is what there is."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from sensormend.stream.deliveries import SinkState
from sensormend.stream.formats.decoding import Decoder
from sensormend.stream.metrics import Metrics
from sensormend.stream.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
UNIT = DOCS / "sensormend.service"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_example_of_a_network_is_taken_as_it_stands(tmp_path: Path) -> None:
    settings = example(tmp_path)
    assert settings.mqtt.pattern == ("city/{sensor}/{variable}",)
    assert settings.mqtt.topics == ("city/+/+",)
    assert settings.mqtt.password == "secret"
    assert len(settings.sinks) == 2
    assert len(settings.alerts.to) == 3
    assert settings.options.valid["humidity"] == (0, 100)


def example(folder: Path) -> Settings:
    """Return what the printed network.toml says."""
    (written,) = blocks("toml")
    (folder / "secret").write_text("secret\n", encoding="utf-8")
    written = re.sub(r'password_file = ".*"', 'password_file = "secret"', written)
    (folder / "network.toml").write_text(written, encoding="utf-8")
    return Settings.of(folder / "network.toml")


def test_every_printed_message_is_a_reading_of_the_printed_network(tmp_path: Path) -> None:
    settings = example(tmp_path)
    table = PAGE[PAGE.index("| a message | is |") :].partition("\n\n")[0]
    cells = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    messages = [message for cell in cells for message in re.findall(r"`([\[{\d].*?)`", cell)]
    assert len(messages) >= 5
    one = '{"sensor": "S1", "value": 20.5}'
    for message in messages:
        decoder = Decoder(settings.options, settings.mqtt.pattern)
        decoder.add(message.replace("{...}", one).encode(), 1_772_366_400_000_000, "city/S1/temp")
        readings, rejected, _ = decoder.take()
        assert (message, rejected) == (message, [])
        assert readings.sensors == ("S1",)
        assert readings.value[0] == 20.5
        # What else is in there would be refused as a variable that was not there from the start.
        assert {readings.variables[code] for code in readings.variable} <= set(settings.options.variables), message


def test_exactly_the_metrics_are_described() -> None:
    metrics = Metrics(DOCS)
    metrics.reject("why", 1)
    metrics.sinks["x"] = SinkState("x", True, 0, 0)
    names = set(
        re.findall(r"^# TYPE (sensormend_\w+)", generate_latest(metrics.registry()).decode(), flags=re.MULTILINE)
    )
    names = {name for name in names if not name.endswith("_created")}
    assert set(re.findall(r"\bsensormend_\w+", PAGE)) == names


def test_the_reasons_of_refusals_are_as_described() -> None:
    from sensormend.stream import admission
    from sensormend.stream.formats import values as refused

    for reason in (
        admission.FUTURE,
        admission.OLD,
        admission.UNKNOWN,
        admission.RARE,
        admission.TOO_MANY,
        admission.TOO_MANY_LATE,
        refused.TOO_MANY_NAMES,
    ):
        assert f"`{reason}`" in PAGE


def test_the_unit_runs_the_command_without_a_shell() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT, encoding="utf-8")
    service = unit["Service"]
    assert service["ExecStart"].startswith("/opt/sensormend/bin/sensormend watch --config ")
    assert (service["User"], service["Restart"], service["RestartPreventExitStatus"]) == (
        "sensormend",
        "on-failure",
        "2",
    )
    assert service["StateDirectory"] == "sensormend"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/sensormend/bin/sensormend", "/bin/true")
    unit = tmp_path / "sensormend.service"
    unit.write_text(text, encoding="utf-8")
    result = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert [line for line in result.stderr.splitlines() if "sensormend.service" in line] == []
