"""Many networks at once give what each gives alone: here, on a cluster, and with whatever dies on the way."""

import csv
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from clusters import Cluster
from list_source import assert_same_rows, read_rows
from network_tables import (
    NAMES,
    assert_same_as_alone,
    read_networks_csv,
    rows_of,
    simulated_networks,
    write_networks,
    write_one,
)
from sensormend.archive.cleaning import clean_archive
from sensormend.cli import main
from sensormend.cluster import clean_networks
from sensormend.cluster.networks import NetworkTask, clean_network
from sensormend.cluster.splitting import NetworkPart
from sensormend.errors import ConfigError, SensormendError
from sensormend.pipeline.options import Options
from sensormend.readings import Readings
from simulated_city import city_readings


def test_on_this_machine_each_network_is_as_if_it_were_alone(
    table: Path, alone: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    progress: dict[str, list[Any]] = {}

    def stages(name: str, readings: int) -> Any:
        progress[name] = []
        return lambda done, beside="": progress[name].append((done, beside))

    report = clean_networks(table, tmp_path / "out", "network", stages=stages)
    assert not report.failed
    assert_same_as_alone(tmp_path / "out", alone)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*NAMES, "networks.csv", "run.json"}
    assert list(progress) == ["reading", "sorting", "cleaning"]
    assert progress["cleaning"][-1] == (1.0, "4 of 4 networks")
    assert [done for done, _ in progress["cleaning"]] == sorted(done for done, _ in progress["cleaning"])
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["networks"], record["failed"], record["readings"]) == (4, 0, report.readings)
    one = json.loads((tmp_path / "out" / "east" / "run.json").read_text())
    assert (one["network"], one["options"], one["source"]) == ("east", {"networks": "network"}, record["source"])
    with pytest.raises(ConfigError, match="--overwrite replaces it"):
        clean_networks(table, tmp_path / "out", "network")
    east = str(tmp_path / "out" / "east")
    assert main(["explain", east, "s01", "2020-01-05T12:00"]) == 0
    assert main(["report", east]) == 0
    assert "s01" in capfd.readouterr().out
    assert main(["report", str(tmp_path / "out")]) == 2
    assert "holds many networks: give one of the folders" in capfd.readouterr().err


def test_a_cluster_gives_the_same(cluster: Cluster, table: Path, alone: Path, tmp_path: Path) -> None:
    counts = []

    def stages(name: str, readings: int) -> Any:
        return lambda done, beside="": counts.append(beside)

    clean_networks(table, tmp_path / "out", "network", cluster.address, stages=stages)
    assert_same_as_alone(tmp_path / "out", alone)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert counts[-1] == "4 of 4 networks"


def test_options_reach_every_network(cluster: Cluster, networks: dict[str, Readings], tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("sensor,from,to,action\ns02,2020-01-20,2020-01-22,ignore\nx,,,ignore\n")
    options = Options.of(one_pass=True, maintenance=tmp_path / "notes.csv", valid=[-60, 60], per_reading=True)
    for name in NAMES[:2]:
        clean_archive(write_one(tmp_path / f"{name}.csv", networks[name]), tmp_path / "alone" / name, options)
    table = write_networks(tmp_path / "all.csv", {name: networks[name] for name in NAMES[:2]}, column="Node")
    clean_networks(table, tmp_path / "out", "node", cluster.address, options)
    for name in NAMES[:2]:
        assert_same_rows(read_rows(tmp_path / "out" / name), read_rows(tmp_path / "alone" / name))


HOSTILE = {
    "../x": "up", "a/b": "slash", "A": "large", "a": "small", "con": "device", "staging": "ours", "x.csv": "a file",
    "x.partial": "half", "Köln": "letters", "Ko\u0308ln": "the same, otherwise", "long" * 60: "long",
    "\u202e*?": "signs", "'; DROP TABLE raw; --": "sql", "-": "hyphen", "a\nb": "two lines", "NA": "Namibia",
}  # fmt: skip


def test_no_name_of_a_network_is_too_strange(tmp_path: Path) -> None:
    networks = simulated_networks(list(HOSTILE), sensors=3, days=4)
    rows: list[list[str | None]] = [[name, *row] for name, readings in networks.items() for row in rows_of(readings)]
    rows += [[None, "s00", "2020-01-01T00:00:00", "1.0"], ["  ", "s00", "2020-01-01T00:00:00", "1.0"]]
    table = tmp_path / "readings.parquet"
    pl.DataFrame(rows, schema=["network", "sensor", "time", "value"], orient="row").write_parquet(table)
    report = clean_networks(
        table, tmp_path / "deep" / "out", "network", options=Options.of(step="1h", period="1d", one_pass=True)
    )
    out = tmp_path / "deep" / "out"
    assert not report.failed
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    lines = read_networks_csv(out)
    assert set(lines) == set(HOSTILE)
    folders = [line["folder"] for line in lines.values()]
    assert len({folder.casefold() for folder in folders}) == len(HOSTILE)
    assert {path.name for path in out.iterdir() if path.is_dir()} == set(folders)
    for folder in folders:
        assert folder.isascii()
        assert folder.replace("-", "").replace("_", "").isalnum()
        assert len(folder) <= 80
    assert lines["NA"]["folder"] == "NA"
    one = json.loads((out / lines["a/b"]["folder"] / "run.json").read_text())
    assert (one["network"], one["readings"]) == ("a/b", len(networks["a/b"]))
    assert report.rejected == 2
    with (out / "rejected.csv").open() as file:
        rejected = list(csv.DictReader(file))
    assert [row["reason"] for row in rejected] == ["no network"] * 2
    assert [Path(row["file"]).name for row in rejected] == ["readings.parquet"] * 2


def test_a_network_that_cannot_be_mended_fails_alone(
    cluster: Cluster, networks: dict[str, Readings], alone: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [["bad", "s00", f"2020-01-{day:02d}T{hour:02d}:00:00", str(number)]
           for day in range(1, 20) for hour in range(24) for number in (1, 50)]  # fmt: skip
    table = write_networks(tmp_path / "readings.csv", {name: networks[name] for name in NAMES[:2]}, bad)
    words = ["clean", str(table), str(tmp_path / "out"), "--networks", "network"]
    for more in ([], ["--cluster", cluster.address, "--overwrite"]):
        assert main([*words, *more]) == 1
        printed = capfd.readouterr()
        assert printed.err.splitlines()[-1] == (
            f"sensormend: 1 of 3 networks were not cleaned: see {tmp_path / 'out'}/networks.csv"
        )
        assert "3, 2 of them cleaned" in printed.out
        assert_same_as_alone(tmp_path / "out", alone, NAMES[:2])
        line = read_networks_csv(tmp_path / "out")["bad"]
        assert "differ from it" in line["outcome"]
        assert "\n" not in line["outcome"]
        assert {path.name for path in (tmp_path / "out").iterdir()} == {*NAMES[:2], "networks.csv", "run.json"}


def test_two_runs_do_not_write_one_out_and_the_readings_are_kept(table: Path, tmp_path: Path) -> None:
    from sensormend.files import locked

    work = tmp_path / "out.partial"
    work.mkdir()
    with (
        locked(work / ".lock", "x"),
        pytest.raises(SensormendError, match="another run is writing"),
    ):
        clean_networks(table, tmp_path / "out", "network", resume=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "run.json").write_text("{}")
    shutil.copy(table, mine / "readings.csv")
    with pytest.raises(ConfigError, match="would be replaced"):
        clean_networks(mine / "readings.csv", mine, "network", overwrite=True)
    assert (mine / "readings.csv").exists()


@pytest.mark.parametrize(
    ("content", "column", "match"),
    [
        ("sensor,time,value\na,2020-01-01,1\n", "network", "no column 'network', as --networks says"),
        ("network,time,value\na,2020-01-01,1\n", "network", "which sensor a reading is from"),
        ("network,sensor,time,value\n,a,2020-01-01,1\n", "network", "none of 1 rows can be read.*no network"),
        ("", "network", r"bad\.csv"),
    ],
)
def test_a_bad_file_is_one_line_and_leaves_nothing(tmp_path: Path, content: str, column: str, match: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(SensormendError, match=match) as caught:
        clean_networks(tmp_path / "bad.csv", tmp_path / "out", column)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"bad.csv"}


def test_wrong_calls_are_one_line(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    out = str(tmp_path / "out")
    for words, code, message in (
        (
            [out, "--cluster", "tcp://127.0.0.1:1"],
            2,
            "--cluster spreads many networks, kept apart by --networks COLUMN",
        ),
        ([out, "--networks", "network", "--cluster", "127.0.0.1:1"], 2, "like tcp://10.0.0.1:8786"),
        (
            [out, "--networks", "network", "--cluster", "tcp://127.0.0.1:1"],
            1,
            "no cluster answers at tcp://127.0.0.1:1",
        ),
        ([f"{out}.csv", "--networks", "network"], 2, "go into a folder"),
        ([".", "--networks", "network"], 2, "does not exist yet, not '.'"),
        ([out, "--networks", "sensor", "--sensor", "sensor"], 2, "both name the column 'sensor'"),
    ):
        assert main(["clean", str(table), *words]) == code, message
        printed = capfd.readouterr()
        assert message in printed.err
        assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []


def test_workers_that_do_not_see_out_are_named(fresh_cluster: Cluster, table: Path, tmp_path: Path) -> None:
    import distributed

    def blind(folder: str) -> None:
        # As on a machine that does not have this file system: nothing is there.
        import builtins
        import io

        real = builtins.open

        def elsewhere(file: Any, *given: Any, **more: Any) -> Any:
            if str(file).startswith(folder):
                raise FileNotFoundError(2, "No such file or directory", str(file))
            return real(file, *given, **more)

        builtins.open = io.open = elsewhere

    made: Any = distributed.Client
    first, _ = fresh_cluster.wait_for_workers(2).values()
    with made(fresh_cluster.address, set_as_default=False) as client:
        client.run(blind, str(tmp_path), workers=[first])
        with pytest.raises(
            SensormendError, match=f"worker {first} cannot take part: .* on a shared file system"
        ) as caught:
            clean_networks(table, tmp_path / "out", "network", client)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [], "nothing was done, and nothing is left to go on with"


def test_an_error_of_the_cluster_is_one_line(
    cluster: Cluster, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(task: Any) -> None:
        raise RuntimeError("the scheduler\nhas another environment")

    monkeypatch.setattr("sensormend.cluster.networks.clean_network", fail)
    with pytest.raises(SensormendError, match=r"^network '\w+': the scheduler has another environment; what is done"):
        clean_networks(table, tmp_path / "out", "network", cluster.address)


def test_a_worker_that_came_later_is_looked_at_too(tmp_path: Path) -> None:
    task = NetworkTask(tmp_path, NetworkPart("a", "a", 1, ("",)), Options(), {})
    with pytest.raises(SensormendError, match="is not visible on every worker"):
        clean_network(task)
    task.source.parent.mkdir(parents=True)
    task.source.touch()
    with pytest.raises(SensormendError, match=r"a worker with sensormend .* has joined, and 0\.0\.1 here"):
        clean_network(replace(task, version="0.0.1"))


def test_files_of_the_same_name_are_kept_apart(table: Path, tmp_path: Path) -> None:
    for folder, text in (("notes", "sensor,from,to,action\ns02,2020-01-02,,ignore\n"),
                         ("places", "sensor,latitude,longitude\ns02,53.5,10.1\n")):  # fmt: skip
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "known.csv").write_text(text)
    known = {"maintenance": tmp_path / "notes" / "known.csv", "coordinates": tmp_path / "places" / "known.csv"}
    report = clean_networks(table, tmp_path / "out", "network", options=Options.of(one_pass=True, **known))
    assert not report.failed
    sensors = pl.read_csv(tmp_path / "out" / "east" / "sensors.csv")
    assert sensors.filter(pl.col("sensor") == "s02")["latitude"].to_list() == [53.5]


@pytest.mark.parametrize("option", ["maintenance", "coordinates"])
def test_what_people_know_wrongly_is_no_network_s_fault(table: Path, tmp_path: Path, option: str) -> None:
    file = tmp_path / "known.csv"
    for text in (None, "sensor,when\na,b\n"):
        if text:
            file.write_text(text)
        with pytest.raises(ConfigError, match=r"known\.csv"):
            clean_networks(table, tmp_path / "out", "network", options=Options.of(**{option: file}))
    assert list(tmp_path.iterdir()) == [file]


def write_part(task: NetworkTask, readings: Readings) -> None:
    """Write the readings of a task to its source."""
    task.source.parent.mkdir(parents=True)
    pl.DataFrame(rows_of(readings), schema=["sensor", "time", "value"], orient="row").with_columns(
        pl.col("time").str.to_datetime(), pl.col("value").cast(float)
    ).sort("time", maintain_order=True).write_parquet(task.source)


def test_of_two_workers_at_one_network_the_first_counts(
    networks: dict[str, Readings], alone: Path, tmp_path: Path
) -> None:
    readings = networks["east"]
    task = NetworkTask(tmp_path / "staging", NetworkPart("east", "east", len(readings), ("",)), Options(), {})
    write_part(task, readings)
    begun, waited = threading.Event(), threading.Event()

    def hold(done: float) -> None:
        begun.set()
        assert waited.wait(30)

    with ThreadPoolExecutor(1) as worker:
        slow = worker.submit(clean_network, task, hold)
        assert begun.wait(30)
        first = clean_network(task)
        written = (tmp_path / "east" / "run.json").stat()
        waited.set()
        assert slow.result() == first
    assert (tmp_path / "east" / "run.json").stat() == written
    assert_same_rows(read_rows(tmp_path / "east"), read_rows(alone / "east"))
    assert {path.name for path in task.staging.iterdir()} == {"parts"}


def test_a_worker_stops_where_the_run_has_ended(networks: dict[str, Readings], tmp_path: Path) -> None:
    readings = networks["east"]
    task = NetworkTask(tmp_path / "staging", NetworkPart("east", "east", len(readings), ("",)), Options(), {})
    write_part(task, readings)

    def end(done: float) -> None:
        if done > 0:
            task.source.unlink(missing_ok=True)

    with pytest.raises(SensormendError, match="is not visible"):
        clean_network(task, end)
    assert [path.name for path in tmp_path.rglob("*")] == ["staging", "parts"]


@pytest.mark.parametrize(("error", "stops"), [(OSError("disk"), True), (MemoryError("much"), True),
                                              (ZeroDivisionError("0"), False)])  # fmt: skip
def test_what_is_not_the_fault_of_the_readings_stops_the_run(
    table: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, stops: bool
) -> None:
    def fail(source: Path, out: Path, *given: Any, **more: Any) -> None:
        if out.name == "north":
            raise error
        clean_archive(source, out, *given, **more)

    monkeypatch.setattr("sensormend.cluster.networks.clean_archive", fail)
    if stops:
        with pytest.raises(SensormendError, match=r"network 'north': (disk|much); what is done is kept"):
            clean_networks(table, tmp_path / "out", "network")
        monkeypatch.undo()
        assert clean_networks(table, tmp_path / "out", "network", resume=True).failed == ()
        assert_same_as_alone(tmp_path / "out", alone)
    else:
        report = clean_networks(table, tmp_path / "out", "network")
        assert [(one.network, one.outcome) for one in report.failed] == [("north", "ZeroDivisionError: 0")]


def test_a_run_killed_at_its_very_end_goes_on(
    networks: dict[str, Readings], alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NAMES[:1]
    table = write_networks(
        tmp_path / "in.csv", {name: networks[name] for name in names}, [["", "s", "2020-01-01", "1"]]
    )
    for killed in ("write_json", "surroundings"):
        with monkeypatch.context() as patched:
            patched.setattr(f"sensormend.cluster.networks.{killed}", _ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                clean_networks(table, tmp_path / "out", "network", resume=(tmp_path / "out.partial").exists())
    clean_networks(table, tmp_path / "out", "network", resume=True)
    assert_same_as_alone(tmp_path / "out", alone, names)
    assert len((tmp_path / "out" / "rejected.csv").read_text().splitlines()) == 2


def _ctrl_c(*given: object, **more: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_was_moved_goes_on_where_it_is(table: Path, alone: Path, tmp_path: Path) -> None:
    def stages(name: str, readings: int) -> Any:
        return lambda done, beside="": _ctrl_c() if name == "cleaning" and done > 0.4 else None

    with pytest.raises(KeyboardInterrupt):
        clean_networks(table, tmp_path / "here" / "out", "network", stages=stages)
    (tmp_path / "here").rename(tmp_path / "there")
    work = tmp_path / "there" / "out.partial"
    finished = {path.parent.name: path.stat() for path in work.glob("*/run.json")}
    assert len(finished) == 1
    report = clean_networks(table, tmp_path / "there" / "out", "network", resume=True)
    assert not report.failed
    assert_same_as_alone(tmp_path / "there" / "out", alone)
    for name, written in finished.items():
        assert (tmp_path / "there" / "out" / name / "run.json").stat() == written, "what is done is not done again"


def test_many_files_are_named_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(25):
        write_networks(tmp_path / "in" / f"{number:02d}.csv", {"one": city_readings(3, 1)})
    (tmp_path / "network.toml").write_text('networks = "network"\nstep = "1h"\nperiod = "1d"\n')
    words = ["clean", str(tmp_path / "in"), str(tmp_path / "out"), "--config", str(tmp_path / "network.toml")]
    assert main(words) == 0
    sources = [json.loads((tmp_path / "out" / name / "run.json").read_text())["source"] for name in ("", "one")]
    assert [len(source) for source in sources] == [25, 20]


def test_names_of_folders_do_not_depend_on_the_order() -> None:
    from sensormend.cluster.splitting import name_folders

    names = [*HOSTILE, "x-d6b96a97", "X", "x"]
    folders = name_folders(names)
    assert folders == name_folders(reversed(names))
    assert len({folder.casefold() for folder in folders.values()}) == len(names)
    assert name_folders([]) == {}
    assert os.sep not in "".join(folders.values())
