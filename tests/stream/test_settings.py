import json
from dataclasses import fields
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.errors import ConfigError
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, MINUTE
from sensormend.stream.addresses import plain
from sensormend.stream.settings import LIVE, PASSWORD, TABLES, Settings

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
    result = Settings.of(file)
    assert result.out == tmp_path / "mended"
    assert result.start_from == tmp_path / "archive"
    assert result.options.maintenance == tmp_path / "notes.csv"
    assert (result.options.step, result.options.valid) == (15 * MINUTE, {"temp": (-40.0, 50.0)})
    assert (result.grace, result.keep, result.late_for, result.compact) == (30 * MINUTE, 365 * DAY, 7 * DAY, False)
    assert (result.metrics, result.log, result.backlog) == (("127.0.0.1", 9000), "json", 2 * 10**9)
    assert (result.alerts.after, result.alerts.well_after, result.alerts.to[2]) == (3, 1, "command: say 'it is broken'")
    mqtt = result.mqtt
    assert (mqtt.user, mqtt.password, mqtt.ca, mqtt.in_flight) == ("me", "hush", tmp_path / "ca.pem", 500)
    assert mqtt.pattern == ("city/{sensor}/{variable}",)
    assert mqtt.topics == ("city/+/+",)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(WHOLE)
    result = Settings.of(file, source="mqtt://me:hush@broker/city/#")
    assert "hush" not in repr(result)
    written = json.dumps(result.to_dict())
    assert "hush" not in written
    for word in ("mqtt://me@broker/city/#", "hooks.example.org", "command: notify", "postgresql://writer@db", '"step"'):
        assert word in written


SECRETS = (
    st.lists(st.text("/?#@:&=%+[] \\\"'<>;é\n", max_size=3), min_size=1, max_size=4)
    .map("hush".join)
    .map(lambda text: f"hush{text}hush")
)
PLACES = [
    ("source", "mqtt://me:{}@broker:1883/city/#"),
    ("source", "replay:postgresql://me:{}@host/air?table=rows"),
    ("sinks", "mqtts://me:{}@broker/mended"),
    ("sinks", "postgresql://me:{}@host/air?table=rows"),
    ("alerts", "https://me:{}@hooks.example.org/hook"),
    ("alerts", "mqtt://me:{}@broker"),
    ("alerts", "ntfys://me:{}@ntfy.example.org/topic"),
    ("alerts", "smtp://me:{}@mail.example.org/?to=me@example.org"),
]


@given(secret=SECRETS, place=st.sampled_from(PLACES))
def test_no_password_is_shown_whatever_is_in_it(secret: str, place: tuple[str, str]) -> None:
    key, address = place[0], place[1].format(quote(secret, safe=""))
    result = Settings.of(**{"source": "incoming", "out": "mended", key: address})
    for text in (plain(address), repr(result), json.dumps(result.to_dict())):
        assert "hush" not in text
    assert key != "source" or "replay" in address or result.mqtt.password == secret


@given(secret=SECRETS, place=st.sampled_from(PLACES))
def test_no_password_that_should_be_encoded_is_shown_either(secret: str, place: tuple[str, str]) -> None:
    key, address = place[0], place[1].format(secret)
    assert "hush" not in plain(address)
    try:
        result = Settings.of(**{"source": "incoming", "out": "mended", key: address})
        text = repr(result) + json.dumps(result.to_dict())
    except ConfigError as error:
        text = str(error)
    assert "hush" not in text
    assert "\n" not in text


@pytest.mark.parametrize("key", ["source", "sinks", "alerts"])
@pytest.mark.parametrize("address", ["mqtt://me:hu/sh@broker/city", "mqtt://me:hu?sh@broker", "mqtt://me:12/sh@broker"])
def test_a_password_whose_end_is_ambiguous_is_refused(key: str, address: str) -> None:
    with pytest.raises(ConfigError, match="write %2F for a /") as error:
        Settings.of(**{"source": "incoming", "out": "mended", key: address})
    assert "sh" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://u:p/w@host/x", "http://..."),
        ("https://me:hush@host/T0/hush?key=hush", "https://host/..."),
        ("https://host:8443/", "https://host:8443"),
        ("postgresql://u:p@h/db?sslpassword=zz&table=t", "postgresql://u@h/db?sslpassword=...&table=t"),
        ("postgresql://u@h/db?user=a&PASSWORD=q", "postgresql://u@h/db?user=a&PASSWORD=..."),
        ("postgresql://u@h/db?%70assword=q#t", "postgresql://u@h/db?%70assword=...#t"),
        ("command:", "command:"),
        ("command: curl", "command: curl"),
    ],
)
def test_what_is_shown_of_an_address(address: str, shown: str) -> None:
    assert plain(address) == shown


@pytest.mark.parametrize(
    ("source", "topics", "key", "address"),
    [
        ("mqtt://localhost", None, "sinks", "mqtt://localhost/mended"),
        ("mqtt://localhost", None, "sinks", "mqtt://localhost:1883"),
        ("mqtt://broker:1884/#", None, "sinks", "mqtt://me@BROKER:1884"),
        ("mqtts://broker/mended/#", None, "sinks", "mqtt://broker/mended"),
        ("mqtt://127.0.0.1", ["city/#", "+/health/+"], "sinks", "mqtt://localhost/mended"),
        ("mqtt://broker", ["$share/us/mended/+/+/+"], "sinks", "mqtt://broker/mended"),
        ("mqtt://broker/{sensor}/{variable}", None, "alerts", "mqtt://broker"),
        ("mqtt://broker/city/#", None, "alerts", "mqtt://broker/city/alerts"),
    ],
)
def test_results_that_would_come_back_as_readings_are_refused(
    source: str, topics: list[str] | None, key: str, address: str
) -> None:
    with pytest.raises(ConfigError, match="the source would read what is published to mqtt://") as error:
        Settings.of(source=source, topics=topics, out="mended", **{key: address})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "key", "address"),
    [
        ("mqtt://broker/city/#", "sinks", "mqtt://broker/mended"),
        ("mqtt://broker/city/#", "sinks", "mqtt://broker/cityscape"),
        ("mqtt://broker/{sensor}/{variable}", "sinks", "mqtt://broker/a/b"),
        ("mqtt://broker/city/{sensor}/temp", "alerts", "mqtt://broker/city/alerts"),
        ("mqtt://broker:1884", "sinks", "mqtt://broker:1885"),
        ("mqtt://broker", "sinks", "mqtt://elsewhere"),
        ("mqtt://broker", "sinks", "postgresql://broker/air?table=rows"),
    ],
)
def test_results_that_do_not_come_back_are_fine(source: str, key: str, address: str) -> None:
    assert Settings.of(source=source, out="mended", **{key: address}).source == source


def test_the_folder_that_is_watched_is_not_for_results(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for out in ("in", "link", "in/../in", "."):
        with pytest.raises(ConfigError, match="OUT must be another folder"):
            Settings.of(source=str(tmp_path / "in"), out=tmp_path / out)
    for out in ("in/out", "inside", "out"):
        assert Settings.of(source=str(tmp_path / "in"), out=tmp_path / out).out == tmp_path / out


def test_what_is_typed_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(WHOLE)
    result = Settings.of(file, out=Path("here"), step="1h", after=5, grace=None, start_from=Path("older"))
    assert (result.out, result.options.step, result.alerts.after) == (Path("here"), HOUR, 5)
    assert (result.grace, result.start_from) == (30 * MINUTE, Path("older"))


def test_most_options_have_defaults() -> None:
    result = Settings.of(source="incoming", out="mended")
    assert result == Settings("incoming", Path("mended"))
    assert (result.late_for, result.keep, result.grace, result.metrics) == (30 * DAY, None, None, ("127.0.0.1", 9464))
    assert result.to_dict() == {"source": "incoming", "out": "mended"}
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


def test_topics_and_patterns_are_independent() -> None:
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
    result = Settings.of(tmp_path / "network.toml", source=source, out="mended")
    assert result.mqtt.password == "filed"


def test_a_broker_of_the_file_does_not_stand_in_the_way_of_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text('source = "mqtt://host"\nout = "mended"\n[mqtt]\ntopics = ["a/#"]\npassword = "a"\n')
    result = Settings.of(file, source="replay:old.csv", out="tried", speed=60)
    assert (result.source, result.speed, result.mqtt.topics) == ("replay:old.csv", 60.0, ())
    (tmp_path / "word").write_text("other")
    assert Settings.of(file, password_file=tmp_path / "word").mqtt.password == "other"


def test_paths_are_meant_from_where_the_file_lies(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    for source, meant in (
        ("incoming", str(tmp_path / "incoming")),
        ("-", "-"),
        ("replay:old", f"replay:{tmp_path}/old"),
        ("replay:postgresql://h/d?table=t", "replay:postgresql://h/d?table=t"),
    ):
        file.write_text(f'source = "{source}"\nout = "mended"\n')
        assert Settings.of(file).source == meant
    assert Settings.of(file, source="incoming").source == "incoming"


@pytest.mark.parametrize(
    ("text", "message"),
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
        ("[alerts]\nurl = 'sensors.example.org'", "url is a web address"),
        ("[alerts]\ndigest = '25:00'", "digest is a time of day"),
        ("[alerts]\nto = ['smtp://mail.example.org']", "e-mail goes to"),
        ("sinks = ['nowhere']", "a sink is"),
        ("sinks = 'redis://me:hush@h'", "a sink is .*redis://me@h"),
        ("sinks = [3]", "sinks is a list of texts"),
        ("log = 'loud'", "log is text or json"),
        ("metrics = 'everywhere'", "metrics is a host and a port"),
        ("metrics = 70000", "metrics is a host and a port"),
        ("serve = 'everywhere'", "serve is a host and a port like 127.0.0.1:8464, or off"),
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
        ("[mqtt]\npassword = 'a'\npassword_file = 'b'", "give one of them"),
        ("[mqtt]\npassword_file = 'b'", "password_file cannot be read"),
        ("[mqtt]\npassword = 4711", "password is a text$"),
        ("grace = ", "Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(f'source = "incoming"\nout = "mended"\n{text}\n')
    with pytest.raises(ConfigError, match=message) as caught:
        Settings.of(file)
    assert "network.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "incoming"}, "needs SOURCE and OUT"),
        ({"source": "mqtt:///a", "out": "o"}, "address of a broker"),
        ({"source": "mqtt://h", "out": "o", "pattern": "a/{who}"}, "topic pattern"),
        ({"source": "incoming", "out": "mended.csv"}, "a folder"),
        ({"source": "incoming", "out": "o", "nonsense": 1}, "no key 'nonsense'"),
    ],
)
def test_what_is_wrongly_typed_is_named_in_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.of(**options)  # type: ignore[arg-type]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        Settings.of(tmp_path / "network.toml", source="a", out="b")


def test_no_name_means_two_things() -> None:
    names = [*LIVE, *TABLES["alerts"], *TABLES["mqtt"], *(entry.name for entry in fields(Options))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("1.5GB", 1_500_000_000), ("2 MiB", 2 << 20), (100, 100), ("1k", 1000)],
)
def test_sizes_are_read_as_people_write_them(given: str | int, meant: int) -> None:
    assert Settings.of(source="-", out="mended", backlog=given).backlog == meant
