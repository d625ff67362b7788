"""Whatever is damaged in an output folder at rest is noticed, or does no harm; the service goes on from the rest."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from list_source import ListSource, assert_same_rows, hourly, read_rows, run_service, settings
from sensormend.cli import main
from sensormend.errors import StorageError
from sensormend.files import locked
from sensormend.io.metadata import read_json
from sensormend.readings import DAY, HOUR, Readings, Rows
from sensormend.stream.arrivals import Arrived, Source, clock
from sensormend.stream.deliveries import DAMAGE, Alert, Delivery, Sink
from sensormend.stream.delivery_worker import DeliveryWorker
from sensormend.stream.integrity import inspect
from sensormend.stream.service import Service
from sensormend.stream.service_state import STORE
from sensormend.stream.store import Acknowledged, copied
from sensormend.stream.stream import AlertsRaised, Event
from simulated_city import START, city_readings

SENSORS, DAYS = 4, 6

DERIVED = {"sensors.csv", "run.json", "state/provisional.parquet", "state/alerts.json", "state/lock"}
"""Files that are made anew from the state."""


class Once(Source):
    """Arrivals that nobody sends again, as those of a broker; after the last it breaks off, or ends."""

    live = False

    def __init__(self, parts: Sequence[Readings], break_off: Callable[[], object] | None) -> None:
        self._parts, self._break_off = iter(parts), break_off

    def read(self, wait: float) -> Arrived | None:
        part = next(self._parts, None)
        if part is None and self._break_off is not None:
            self._break_off()
            raise RecursionError
        return None if part is None else Arrived(part, clock())


class Down(Sink):
    """Takes nothing, so that deliveries wait."""

    def write(self, delivery: Delivery) -> None:
        raise StorageError("away")


@dataclass
class Outcome:
    """What a run ends with: its rows, the alerts of damage, and how many readings it has taken in all."""

    rows: Rows
    alerts: list[Alert]
    readings: int
    damaged: int


def run(out: Path, parts: Sequence[Readings], break_off: Callable[[], object] | None = None) -> Outcome:
    alerts: list[Alert] = []

    def look(event: Event | None) -> None:
        if isinstance(event, AlertsRaised):
            alerts.extend(alert for alert in event.alerts if alert.state == DAMAGE)

    service = Service(
        settings(out, period="6h", late_for="2d", compact=False),
        lambda mark, memory: Once(parts, break_off),
        workers={"down": lambda store: DeliveryWorker("down", Down(), store)},
        on_event=look,
    )
    try:
        service.run()
    except RecursionError:
        return Outcome(read_rows(out), alerts, service.stream.readings, 0)
    return Outcome(read_rows(out), alerts, service.stream.readings, service.metrics.damaged)


def parts() -> tuple[list[Readings], list[Readings]]:
    """Return the arrivals before and after the break, with late ones in both."""
    readings = city_readings(SENSORS, DAYS)
    late = (readings.time >= START + DAY + 8 * HOUR) & (readings.time < START + DAY + 10 * HOUR)
    later = (readings.time >= START + 2 * DAY + 3 * HOUR) & (readings.time < START + 2 * DAY + 4 * HOUR)
    arrivals = hourly(readings.taken(~late & ~later), 2)
    arrivals.insert(24, readings.taken(late))
    arrivals.insert(45, readings.taken(later))
    zero = np.zeros(1, dtype=np.int64)
    arrivals.insert(9, Readings(readings.sensors, readings.variables, zero, zero, zero + 200 * 365 * DAY, np.ones(1)))
    return arrivals[:-8], arrivals[-8:]


@dataclass
class AtRest:
    """A folder in which a service was broken off, one of before, and what it ends with when nothing is damaged."""

    out: Path
    earlier: Path
    rest: list[Readings]
    undisturbed: Outcome

    def files(self) -> dict[str, str]:
        """Return one file of each kind."""
        kinds: dict[str, str] = {}
        for path in sorted(self.out.rglob("*")):
            name = path.relative_to(self.out).as_posix()
            if path.is_file() and path.stat().st_size:
                # The newest rows may not be in a checkpoint yet, and are made anew.
                kinds.setdefault(re.sub(r"\d+", "#", name), name)
        return kinds


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> AtRest:
    folder = tmp_path_factory.mktemp("damage")
    first, rest = parts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sensormend.stream.service.CHECKPOINT_INTERVAL", 0.0)
        run(folder / "running", first[:-14], partial(shutil.copytree, folder / "running", folder / "earlier"))
        run(folder / "running", first[-14:-6], lambda: None)
        patch.setattr("sensormend.stream.service.CHECKPOINT_INTERVAL", 1e9)
        # As a kill would leave it: nothing is closed.
        run(folder / "running", first[-6:], partial(shutil.copytree, folder / "running", folder / "out"))
    with copied(folder / "out" / "state" / STORE) as store:
        assert list(store.inputs())
        assert store.checkpoint is not None
    shutil.copytree(folder / "out", folder / "whole")
    return AtRest(folder / "out", folder / "earlier", rest, run(folder / "whole", rest))


def flipped(share: float) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[int(share * len(content))] ^= 0x10
        return bytes(changed)

    return flip


PAGE = 4096


def without_page(content: bytes) -> bytes:
    start = len(content) // 2 // PAGE * PAGE
    return content[:start] + bytes(len(content[start : start + PAGE])) + content[start + PAGE :]


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "flipped early": flipped(0.1),
    "flipped late": flipped(0.6),
    "truncated": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-1],
    "zeroed": lambda content: bytes(len(content)),
    "emptied": lambda content: b"",
    "deleted": None,
    "a page zeroed": without_page,
    "two pages in turn": lambda content: (
        content[:PAGE] + content[2 * PAGE : 3 * PAGE] + content[PAGE : 2 * PAGE] + content[3 * PAGE :]
    ),
    "longer": lambda content: content + np.random.default_rng(1).bytes(777),
    "garbage": lambda content: np.random.default_rng(0).bytes(len(content)),
}


def acknowledged(out: Path) -> dict[str, Any]:
    return Acknowledged.read(out / "state" / "acknowledged")


def test_an_undamaged_folder_is_sound(at_rest: AtRest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(at_rest.out)]) == 0
    assert "is sound" in capsys.readouterr().out
    assert at_rest.undisturbed.alerts == []
    kinds = set(at_rest.files())
    assert kinds >= {
        "data/date=#-#-#/part-#T#.parquet", "state/kept/#.kept", "state/acknowledged", "state/watch.json",
        "state/store.sqlite", "state/store.sqlite-wal",
    }  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_noticed_or_does_no_harm(
    at_rest: AtRest, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unnoticed = set()
    for kind, name in at_rest.files().items():
        out, spoil = tmp_path / "out", DAMAGES[how]
        shutil.copytree(at_rest.out, out)
        path = out / name
        if spoil is None:
            path.unlink()
        else:
            path.write_bytes(spoil(path.read_bytes()))
        if not _goes_on(at_rest, out, f"{kind} {how}", capsys):
            unnoticed.add(kind)
        shutil.rmtree(out)
    assert unnoticed >= DERIVED & set(at_rest.files())
    if how in ("deleted", "garbage", "zeroed", "emptied"):
        # Whether a line of faults.csv is settled depends on when it was written.
        assert unnoticed <= {*DERIVED, "faults.csv", "state/rewritten"}


def _goes_on(at_rest: AtRest, out: Path, what: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Hold a start on a damaged folder to say and to do what `check` says; return whether that was anything."""
    code = main(["check", str(out), "--json"])
    noticed = json.loads(capsys.readouterr().out)
    assert code == (1 if noticed else 0), what
    outcome = run(out, at_rest.rest)
    entries = read_json(out / "run.json").get("damage", [])
    where = f"{what}: {entries}"
    # The service says the same as the command, once, by an alert, a metric and in run.json.
    assert [{**entry, "noticed": None} for entry in entries] == [{**entry, "noticed": None} for entry in noticed]
    assert (len(outcome.alerts), outcome.damaged) == (1 if entries else 0, len(entries)), where
    _same_or_counted(at_rest, outcome, entries, where)
    # What was damaged is not damaged any more, and is not reported again.
    assert [damage.sentence for damage in inspect(out).damage] == [], where
    assert not entries or not run(out, []).alerts, where
    return bool(entries)


def _same_or_counted(at_rest: AtRest, outcome: Outcome, entries: list[dict[str, object]], where: str) -> None:
    """Hold a run to have the rows of an undisturbed one, or to say what is gone."""
    gone = at_rest.undisturbed.readings - outcome.readings
    if not entries:
        assert gone == 0, where
        assert_same_rows(outcome.rows, at_rest.undisturbed.rows)
        return
    if any("checkpoint" in str(entry["problem"]) for entry in entries):
        # What was learned is gone, and the readings of open periods with it; what was final is as it was.
        final = acknowledged(at_rest.out)["checkpoint"]["final"]
        one, other = outcome.rows, at_rest.undisturbed.rows
        assert_same_rows(one.taken(one.time < final), other.taken(other.time < final))
        assert one.time.max() == other.time.max(), where
        return
    assert sum(int(str(entry["readings"])) for entry in entries) == gone, where


def test_files_of_an_earlier_time_or_of_another_name_are_noticed_or_do_no_harm(
    at_rest: AtRest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a backup of which only some files were put back."""
    noticed = dict[str, bool]()
    for name in at_rest.files().values():
        path = at_rest.out / name
        others = [other for other in sorted(path.parent.iterdir()) if other.suffix == path.suffix and other != path]
        for how, other in (("of before", at_rest.earlier / name), ("of another", others[0] if others else path)):
            if not other.is_file() or other.read_bytes() == path.read_bytes():
                continue
            out = tmp_path / "out"
            shutil.copytree(at_rest.out, out)
            shutil.copy(other, out / name)
            noticed[f"{name} {how}"] = _goes_on(at_rest, out, f"{name} {how}", capsys)
            shutil.rmtree(out)
    assert noticed["state/store.sqlite of before"]
    assert noticed["state/acknowledged of before"] is False
    assert any(name.startswith("state/kept") and seen for name, seen in noticed.items())


def test_an_unacknowledged_torn_record_is_dropped_without_a_word(at_rest: AtRest, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(at_rest.out, out)
    log = out / "state" / "store.sqlite-wal"
    with log.open("ab") as file:
        file.write(log.read_bytes()[-4000:])
    outcome = run(out, at_rest.rest)
    assert outcome.alerts == []
    assert_same_rows(outcome.rows, at_rest.undisturbed.rows)


def test_the_log_cut_off_says_how_many_readings_of_which_span_are_gone(
    at_rest: AtRest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(at_rest.out, out)
    (out / "state" / "store.sqlite-wal").unlink()
    known = acknowledged(at_rest.out)
    gone = concatenated_times(parts()[0])[-(known["readings"] - known["checkpoint"]["readings"]) :]
    assert gone.size > 20
    assert main(["check", str(out)]) == 1
    printed = capsys.readouterr()
    assert f"{gone.size} acknowledged readings are gone" in printed.out
    # What waited for sinks is in the same log.
    assert len(printed.out.splitlines()) == 2
    damage, deliveries = inspect(out).damage
    assert (deliveries.readings, "waited for sinks" in deliveries.problem) == (0, True)
    assert (damage.readings, damage.end) == (gone.size, gone.max())
    assert damage.start is not None
    assert damage.start <= gone.min()


def test_a_store_that_is_gone_or_damaged_is_named(
    at_rest: AtRest, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    shutil.copytree(at_rest.out, out)
    store = out / "state" / STORE
    content = store.read_bytes()
    store.unlink()
    assert main(["check", str(out)]) == 1
    assert capsys.readouterr().out.startswith(f"state/{STORE} is gone")
    assert not store.exists()
    store.write_bytes(content[:100] + bytes(len(content) - 100))
    assert main(["check", str(out)]) == 1
    assert capsys.readouterr().out.startswith(f"state/{STORE} is damaged")
    assert not caplog.records, "nothing was done that could be logged"


def test_a_span_that_would_go_backward_is_left_out(tmp_path: Path) -> None:
    """After a checkpoint in which everything is final, the newest reading is before the end of what is final."""
    (tmp_path / "state").mkdir()
    with Acknowledged(tmp_path / "state" / "acknowledged") as file:
        file.write({"number": 1, "checkpoint": {"number": 1, "final": START + DAY, "newest": START, "readings": 1}})
    (damage,) = inspect(tmp_path).damage
    assert (damage.start, damage.end) == (None, None)


def test_what_the_source_can_send_again_is_read_again(tmp_path: Path) -> None:
    """Files have a mark, from which they are read again: nothing is gone."""
    arrivals, out, running = hourly(city_readings(SENSORS, DAYS), 4), tmp_path / "out", tmp_path / "running"
    run_service(tmp_path / "undisturbed", arrivals)

    def stop(number: int) -> None:
        if number == 20:
            shutil.copytree(running, out)
            raise RecursionError

    service = Service(settings(running), lambda mark, memory: ListSource(arrivals, mark, stop=stop))
    with pytest.raises(RecursionError):
        service.run()
    log = out / "state" / "store.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-1])
    (damage,) = inspect(out).damage
    assert (damage.readings, "read again" in damage.sentence) == (0, True)
    run_service(out, arrivals)
    assert_same_rows(read_rows(out), read_rows(tmp_path / "undisturbed"))
    assert len(read_json(out / "run.json")["damage"]) == 1


def test_many_files_with_the_same_problem_are_one_line(at_rest: AtRest, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(at_rest.out, out)
    rows = read_rows(out)
    shutil.rmtree(out / "data")
    (damage,) = inspect(out).damage
    final = acknowledged(out)["checkpoint"]["final"]
    assert damage.file == "data"
    assert f"{(rows.time < final).sum():,} rows in" in damage.problem
    assert damage.start == START
    outcome = run(out, at_rest.rest)
    assert len(outcome.alerts) == 1
    assert outcome.readings == at_rest.undisturbed.readings


def concatenated_times(arrivals: Sequence[Readings]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([part.time for part in arrivals])


def test_a_running_service_and_another_folder_are_refused(
    at_rest: AtRest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "nothing")]) == 2
    (tmp_path / "a.csv").write_text("sensor,time,value\n")
    assert main(["check", str(tmp_path / "a.csv")]) == 2
    assert "a.csv is a file" in (message := capsys.readouterr().err)
    assert "there is no folder" in message
    (tmp_path / "archive" / "state").mkdir(parents=True)
    (tmp_path / "archive" / "run.json").write_text('{"command": "clean"}')
    assert main(["check", str(tmp_path / "archive")]) == 2
    # Without its state a service cannot go on at all.
    shutil.copytree(at_rest.out, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "state")
    assert main(["check", str(tmp_path / "out")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    with locked(at_rest.out / "state" / "lock", "it is locked"):
        assert main(["check", str(at_rest.out)]) == 2
