"""Every option is declared once: the command line has those that dataclasses declare for it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sensormend.cli import main
from sensormend.cli.arguments import GROUPS
from sensormend.cli.clean import CleanArguments
from sensormend.cli.watch import WatchArguments
from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options, declarations
from sensormend.stream.settings import AlertSettings, MqttSettings, Settings


def names(kind: Any) -> set[str]:
    return {entry.name for entry in fields(kind)}


@pytest.mark.parametrize("declaring", [Options, Settings, AlertSettings, MqttSettings])
def test_every_field_is_an_option_that_says_what_it_is(declaring: type) -> None:
    known = declarations(declaring)
    assert set(known) == names(declaring) - {"options", "alerts", "mqtt"}
    for name, declaration in known.items():
        assert declaration.help, name
        assert not declaration.group or declaration.group in GROUPS, name


def test_each_command_has_its_own() -> None:
    only = {"flags", "networks", "one_pass", "owner_flag", "owner_wrong", "passes", "per_reading", "wide"}
    assert names(CleanArguments) - names(WatchArguments) == only
    assert names(CleanArguments) == set(declarations(Options)) - {"seed", "units", "names"}
    live = {name for kind in (Settings, AlertSettings, MqttSettings) for name in declarations(kind)}
    assert live - names(WatchArguments) == {"source", "out", "compact", "password", "client_id", "in_flight"}


def test_nothing_typed_is_nothing_given() -> None:
    assert WatchArguments().to_dict() == CleanArguments().to_dict() == {}


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ({"fill": "-999,85"}, {"fill": [-999.0, 85.0]}),
        ({"fill": "none"}, {"fill": []}),
        ({"valid": ["-40,50", "hum=0,100"]}, {"valid": {"": [-40.0, 50.0], "hum": [0.0, 100.0]}}),
        ({"tolerance": ["0.5", "hum=2"]}, {"tolerance": {"": 0.5, "hum": 2.0}}),
        ({"variables": "temp, humidity", "wide": True}, {"variables": ["temp", "humidity"], "wide": True}),
        ({"maintenance": Path("notes.csv")}, {"maintenance": Path("notes.csv")}),
    ],
)
def test_values_are_read_as_typed(typed: dict[str, Any], given: dict[str, Any]) -> None:
    assert CleanArguments(**typed).to_dict() == given


def test_what_has_another_name_in_a_file_is_given_by_that() -> None:
    typed = {"start_from": Path("a"), "to": ["https://x.org"], "sinks": ["mqtt://h/x"], "topics": "a/#,b"}
    assert WatchArguments(**typed).to_dict() == {
        "from": Path("a"), "alerts": ["https://x.org"], "sinks": ["mqtt://h/x"], "topics": ["a/#", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"fill": "many"}, "--fill takes numbers"),
        ({"valid": ["a=b"]}, "--valid takes"),
        ({"tolerance": ["x"]}, "--tol"),
    ],
)
def test_what_is_no_number_is_said_with_its_flag(typed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CleanArguments(**typed).to_dict()


@pytest.mark.parametrize("command", ["clean", "watch"])
def test_help_has_every_option_under_its_heading(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    kind = CleanArguments if command == "clean" else WatchArguments
    for name, declaration in kind.declared.items():
        flag = declaration.flag or f"--{(declaration.key or name).replace('_', '-')}"
        assert f" {flag} " in page, name
        assert GROUPS[declaration.group].name[:40] in page
        assert declaration.help.split()[0] in page


def test_all_of_it_is_typed_as_it_is_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the words of a command to its options, through the parser."""
    opened_with: list[Settings] = []

    def opened(settings: Settings, dashboard: object) -> None:
        opened_with.append(settings)
        raise ConfigError("enough")

    monkeypatch.setattr("sensormend.stream.service.open_service", opened)
    (tmp_path / "secret").write_text("word")
    words = f"""watch mqtt://host/{{sensor}} out --from old --grace 2h --keep 90d --sink mqtt://other/x
        --sink postgresql://h/d?table=t --alert https://x.org/y --after 3 --stood 2h --backlog 5MB --metrics off --serve
        --password-file {tmp_path}/secret --maintenance notes.csv --serve-edit --log json --valid -40,50 --fill -9
        --interval 0.8 --sensor-from-file"""
    assert main(words.split()) == 2
    (settings,) = opened_with
    assert settings == Settings.of(
        source="mqtt://host/{sensor}", out="out", start_from="old", grace="2h", keep="90d",
        sinks=["mqtt://other/x", "postgresql://h/d?table=t"], alerts="https://x.org/y", after=3, stood="2h",
        password_file=tmp_path / "secret", backlog="5MB", metrics="off", serve="on", maintenance="notes.csv",
        serve_edit=True, log="json", valid=[-40, 50], fill=-9, interval=0.8, sensor_from_file=True,
    )  # fmt: skip
