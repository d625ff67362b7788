import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from sensormend.errors import ConfigError
from sensormend.stream.logs import ConditionLog, say, setup

LOG = logging.getLogger("sensormend.stream")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger("sensormend")
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_is_a_line_with_what_belongs_to_it() -> None:
    out = io.StringIO()
    setup("text", "info", out)
    say(LOG, logging.WARNING, "broker lost", host="127.0.0.1:1883", error="connection refused", tries=3, seconds=0.25)
    say(LOG, logging.INFO, "ready")
    say(LOG, logging.DEBUG, "not said")
    LOG.warning("%s: as others say it", "postgres")
    lines = out.getvalue().splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", "", line) for line in lines] == [
        'warning  broker lost  host=127.0.0.1:1883 error="connection refused" tries=3 seconds=0.25',
        "info     ready",
        "warning  postgres: as others say it",
    ]


def test_json_is_an_object_per_line() -> None:
    out = io.StringIO()
    setup("json", "debug", out)
    say(LOG, logging.INFO, "x", level="high", time="now")
    assert json.loads(out.getvalue())["level"] == "info"
    out.truncate(out.seek(0))
    say(LOG, logging.DEBUG, "wetter in\nZürich", sensor='a "b"', at=1.5, none=None, odd=float)
    (line,) = out.getvalue().splitlines()
    reported = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", reported.pop("time"))
    assert reported == {
        "level": "debug", "message": "wetter in\nZürich", "sensor": 'a "b"', "at": 1.5, "none": None,
        "odd": "<class 'float'>",
    }  # fmt: skip


def test_text_from_outside_cannot_make_a_line() -> None:
    out = io.StringIO()
    setup("text", "info", out)
    nasty = "x\n2026-01-01T00:00:00Z error  all is lost\x1b[2J\u2028 a=1"
    say(LOG, logging.INFO, f"refused {nasty}", topic=nasty, sensor="Zürich", quoted='say "hi"', empty="")
    LOG.info("%s", nasty)
    lines = out.getvalue().split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert lines[0].endswith('sensor=Zürich quoted="say \\"hi\\"" empty=""')


def test_a_failure_comes_with_its_trace() -> None:
    for form in ("text", "json"):
        out = io.StringIO()
        setup(form, "info", out)
        try:
            raise ValueError("why")
        except ValueError:
            LOG.exception("that went wrong")
        assert "ValueError: why" in out.getvalue()
    assert len(out.getvalue().splitlines()) == 1


def test_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    setup("text", "info", first)
    setup("json", "info", second)
    say(LOG, logging.INFO, "hello")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_a_wrong_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="text or json"):
        setup("xml")
    with pytest.raises(ConfigError, match="debug, info, warning or error"):
        setup("text", "loud")


def test_a_log_that_cannot_be_written_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    setup("text", "info", Full())
    say(LOG, logging.INFO, "hello")
    assert capfd.readouterr() == ("", "")


def test_a_condition_is_logged_when_it_begins_and_when_it_is_over() -> None:
    out, now = io.StringIO(), [0.0]
    setup("json", "info", out)
    full = ConditionLog(LOG, "the disk is full", "the disk has space again", steady=lambda: now[0])
    for holds in (False, True, True, True, False, False, True):
        if holds:
            full.begin(folder="OUT")
        else:
            full.end()
        assert full.active == holds
        now[0] += 60
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    for line in lines:
        del line["time"]
    begin = {"level": "warning", "message": "the disk is full", "folder": "OUT"}
    end = {"level": "info", "message": "the disk has space again", "seconds": 180.0, "times": 3}
    assert lines == [begin, end, begin]
