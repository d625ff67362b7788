import json
from dataclasses import fields
from pathlib import Path

import pytest

from sensormend.errors import ConfigError
from sensormend.live.settings import LIVE, OPTIONS, PASSWORD, TABLES, Settings
from sensormend.readings import DAY, HOUR, MINUTE

WHOLE = """
source = "mqtts://me@broker.example.org/city/{sensor}/{variable}"
out = "mended"
from = "archive"
step = "15min"
maintenance = "notes.csv"
grace = "30min"
keep = "365d"
late_for = "7d"
compact = false
sinks = ["postgresql://writer:hush@db/air?table=rows", "mqtt://broker/clean"]
metrics = 9000
log = "json"
backlog = "2GB"

[valid]
temp = [-40, 50]

[alerts]
after = 3
well_after = 1
to = ["https://hooks.example.org/T0/hush", "command: notify --key hush", ["say", "it is broken"]]

[mqtt]
password = "hush"
ca = "ca.pem"
in_flight = 500
"""


@pytest.fixture(autouse=True)
def _no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)


def test_a_file_says_it_all(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(WHOLE)
    found = Settings.of(file)
    assert found.out == tmp_path / "mended"
    assert found.start_from == tmp_path / "archive"
    assert found.options.maintenance == tmp_path / "notes.csv"
    assert (found.options.step, found.options.valid) == (15 * MINUTE, {"temp": (-40.0, 50.0)})
    assert (found.grace, found.keep, found.late_for, found.compact) == (30 * MINUTE, 365 * DAY, 7 * DAY, False)
    assert (found.metrics, found.log, found.backlog) == (("127.0.0.1", 9000), "json", 2 * 10**9)
    assert (found.alerts.after, found.alerts.well_after, found.alerts.to[2]) == (3, 1, "command: say 'it is broken'")
    mqtt = found.mqtt
    assert (mqtt.user, mqtt.password, mqtt.ca, mqtt.in_flight) == ("me", "hush", tmp_path / "ca.pem", 500)
    assert mqtt.pattern == ("city/{sensor}/{variable}",)
    assert mqtt.topics == ("city/+/+",)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(WHOLE)
    found = Settings.of(file, source="mqtt://me:hush@broker/city/#")
    assert "hush" not in repr(found)
    told = json.dumps(found.told())
    assert "hush" not in told
    for word in ("mqtt://me@broker/city/#", "hooks.example.org", "command: notify", "postgresql://writer@db", '"step"'):
        assert word in told


def test_what_is_typed_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(WHOLE)
    found = Settings.of(file, out=Path("here"), step="1h", after=5, grace=None, start_from=Path("older"))
    assert (found.out, found.options.step, found.alerts.after) == (Path("here"), HOUR, 5)
    assert (found.grace, found.start_from) == (30 * MINUTE, Path("older"))


def test_little_has_to_be_said() -> None:
    found = Settings.of(source="incoming", out="mended")
    assert found == Settings("incoming", Path("mended"))
    assert (found.late_for, found.keep, found.grace, found.metrics) == (30 * DAY, None, None, ("127.0.0.1", 9464))
    assert found.told() == {"source": "incoming", "out": "mended"}
    assert Settings.of(source="incoming", out="mended", metrics="off").metrics is None
    assert Settings.of(source="incoming", out="mended", keep="5d").late_for == 5 * DAY


@pytest.mark.parametrize(
    ("address", "topics"),
    [
        ("mqtt://host", ("#",)),
        ("mqtt://host/", ("#",)),
        ("mqtt://host:1884/city/+/temp", ("city/+/temp",)),
        ("mqtts://me:a%2Fb@host/city/#", ("city/#",)),
        ("mqtt://host/city/{sensor}", ("city/+",)),
    ],
)
def test_the_address_says_what_to_subscribe_to(address: str, topics: tuple[str, ...]) -> None:
    assert Settings.of(source=address, out="mended").mqtt.topics == topics


def test_topics_and_patterns_can_be_said_apart() -> None:
    mqtt = Settings.of(source="mqtt://host", out="mended", pattern="a/{sensor}/b").mqtt
    assert (mqtt.topics, mqtt.pattern) == (("a/+/b",), ("a/{sensor}/b",))
    mqtt = Settings.of(source="mqtt://host", out="mended", pattern="a/{sensor}/b", topics=["a/#"]).mqtt
    assert mqtt.topics == ("a/#",)


def test_where_the_password_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "mqtt://me:inside@host"
    assert Settings.of(source=source, out="mended").mqtt.password == "inside"
    monkeypatch.setenv(PASSWORD, "around")
    assert Settings.of(source=source, out="mended").mqtt.password == "around"
    (tmp_path / "word").write_text("filed\n")
    (tmp_path / "network.toml").write_text('[mqtt]\npassword_file = "word"\n')
    found = Settings.of(tmp_path / "network.toml", source=source, out="mended")
    assert found.mqtt.password == "filed"


def test_a_broker_of_the_file_does_not_stand_in_the_way_of_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text('source = "mqtt://host"\nout = "mended"\n[mqtt]\ntopics = ["a/#"]\npassword = "a"\n')
    found = Settings.of(file, source="replay:old.csv", out="tried", speed=60)
    assert (found.source, found.speed, found.mqtt.topics) == ("replay:old.csv", 60.0, ())
    (tmp_path / "word").write_text("other")
    assert Settings.of(file, password_file=tmp_path / "word").mqtt.password == "other"


def test_paths_are_meant_from_where_the_file_lies(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    for said, meant in [("incoming", str(tmp_path / "incoming")), ("-", "-"), ("replay:old", f"replay:{tmp_path}/old"),
                        ("replay:postgresql://h/d?table=t", "replay:postgresql://h/d?table=t")]:  # fmt: skip
        file.write_text(f'source = "{said}"\nout = "mended"\n')
        assert Settings.of(file).source == meant
    assert Settings.of(file, source="incoming").source == "incoming"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grace = 5", "grace is a number and a unit"),
        ('grace = "soon"', "grace: a duration"),
        ('colour = "red"', "no key 'colour'; there are alerts"),
        ("[mqtt]\ncolour = 1", "no key 'colour' in \\[mqtt\\]"),
        ("after = 2", "after belongs into the table \\[alerts\\]"),
        ("[alerts]\nafter = 0", "after is a whole number, 1 or more"),
        ("[alerts]\nto = ['ftp://x']", "alerts go to"),
        ("[alerts]\nto = ['https://']", "alerts go to"),
        ("alerts = 3", "alerts is a table"),
        ("sinks = ['nowhere']", "a sink is"),
        ("sinks = 'influx://me:hush@h'", "a sink is .*influx://me@h"),
        ("sinks = [3]", "sinks is a list of texts"),
        ("log = 'loud'", "log is text or json"),
        ("metrics = 'everywhere'", "metrics is a host and a port"),
        ("metrics = 70000", "metrics is a host and a port"),
        ("backlog = 'much'", "backlog is a size"),
        ("compact = 'yes'", "compact is true or false"),
        ("speed = 10", "speed is for a replay"),
        ("speed = -1", "speed is a number above 0"),
        ("keep = '5d'\nlate_for = '10d'", "keep is shorter than late_for"),
        ("from = 'mended'", "the same folder"),
        ("per_reading = true", "per_reading is for clean"),
        ("step = '7h'\nperiod = '1d'", "whole number of steps"),
        ("valid = [5, 1]", "lowest and a highest"),
        ("[mqtt]\ntopics = ['a']", "topics is for an mqtt:// source"),
        ("[mqtt]\nin_flight = 70000", "in_flight is 1 to 65535"),
        ("[mqtt]\npassword = 'a'\npassword_file = 'b'", "say one of them"),
        ("[mqtt]\npassword_file = 'b'", "password_file cannot be read"),
        ("[mqtt]\npassword = 4711", "password is a text$"),
        ("grace = ", "Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(f'source = "incoming"\nout = "mended"\n{text}\n')
    with pytest.raises(ConfigError, match=said) as caught:
        Settings.of(file)
    assert "network.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"source": "incoming"}, "needs SOURCE and OUT"),
        ({"source": "mqtt:///a", "out": "o"}, "address of a broker"),
        ({"source": "mqtt://h", "out": "o", "pattern": "a/{who}"}, "topic pattern"),
        ({"source": "incoming", "out": "mended.csv"}, "a folder"),
        ({"source": "incoming", "out": "o", "nonsense": 1}, "no key 'nonsense'"),
    ],
)
def test_what_is_wrongly_typed_is_named_in_one_line(told: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings.of(**told)  # type: ignore[arg-type]


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        Settings.of(tmp_path / "network.toml", source="a", out="b")


def test_every_setting_can_be_said() -> None:
    own = {entry.name for entry in fields(Settings)} - {"options", "alerts", "mqtt"}
    assert own == {"start_from" if key == "from" else key for key in LIVE}
    names = [*LIVE, *TABLES["alerts"], *TABLES["mqtt"]]
    assert len({*names, *OPTIONS}) == len(names) + len(OPTIONS), "no name means two things"
