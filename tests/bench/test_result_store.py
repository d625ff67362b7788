import json
import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sensormend.bench import result_store
from sensormend.bench.result_store import SCHEMA, ResultStore, code_version
from sensormend.errors import SensormendError
from sensormend.files import surroundings

NAN = float("nan")


def row(**values: object) -> dict[str, object]:
    return {"experiment": "toy", "method": "OLRTR", "kind": "online", "trial": 0, "status": "done", **values}


def test_rows_are_read_back_in_the_order_of_the_keys(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1") as store:
        store.append("a", [row(re=0.5, f1=NAN), row(re=0.25, minibatch=2)])
        store.append("b", [row(status="diverged")])
    with ResultStore(tmp_path, "1") as again:
        assert again.has("a")
        assert not again.has("c")
        rows = again.rows(["b", "a", "c"])
    assert rows["status"].tolist() == ["diverged", "done", "done"]
    assert rows["re"].iloc[1] == 0.5
    assert np.isnan(rows["f1"].iloc[1])
    assert rows["minibatch"].isna().tolist() == [True, True, False]
    assert rows["minibatch"].iloc[2] == 2


def test_a_line_cut_short_is_a_run_to_do_again(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1") as store:
        store.append("a", [row(re=0.5)])
        store.append("b", [row(re=0.7)])
    text = store.lines.read_text()
    store.lines.write_text(text[: len(text) - 30])
    with ResultStore(tmp_path, "1") as again:
        assert again.has("a")
        assert not again.has("b")
        again.append("b", [row(re=0.7)])
    assert store.lines.read_text() == text


def test_rows_of_another_version_are_not_counted_as_done(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1") as store:
        store.append("a", [row(re=0.5)])
    with ResultStore(tmp_path, "2") as later:
        assert not later.has("a")
        assert later.rows(["a"])["re"].tolist() == [0.5]
        later.append("a", [row(re=0.6)])
        later.append("b", [row(re=0.6)])
        later.forget(["b"])
        path = later.seal()
    assert duckdb.read_parquet(str(path)).project("version, re").fetchall() == [("2", 0.6)]


def test_parquet_has_every_column_with_its_type(tmp_path: Path) -> None:
    folder = tmp_path / "a [b]* c"
    with ResultStore(folder, "1") as store:
        empty = store.seal()
        assert duckdb.read_parquet(_plain(empty)).count("*").fetchall() == [(0,)]
        store.append("a", [row(re=0.5, setting="it's"), row(re=NAN, trial=3)])
        path = store.seal()
    table = duckdb.read_parquet(_plain(path))
    types = dict(zip(table.columns, map(str, table.types), strict=True))
    names = {"string": "VARCHAR", "Int64": "BIGINT", "float64": "DOUBLE"}
    assert {name: types[name] for name in SCHEMA} == {name: names[kind] for name, kind in SCHEMA.items()}
    assert table.project("setting, re, trial").fetchall() == [("it's", 0.5, 0), (None, None, 3)]
    assert {file.name for file in folder.iterdir()} == {".lock", "results.jsonl", "results.parquet"}


def _plain(path: Path) -> str:
    return re.sub(r"([*?[])", r"[\1]", str(path))


def test_a_column_without_a_type_is_refused(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1") as store, pytest.raises(KeyError, match="colour"):
        store.append("a", [row(colour=3)])


@pytest.mark.skipif(os.name == "nt", reason="no flock")
def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1"), pytest.raises(SensormendError, match="another run"), ResultStore(tmp_path, "1"):
        pass
    with ResultStore(tmp_path, "1"):
        pass


def test_surroundings_name_neither_host_nor_path() -> None:
    record = surroundings()
    assert record["cores"] >= 1
    text = json.dumps(record)
    assert "/" not in text.replace("\\/", "")
    assert os.uname().nodename not in text if hasattr(os, "uname") else True


def test_records_of_experiments_stand_side_by_side(tmp_path: Path) -> None:
    with ResultStore(tmp_path, "1") as store:
        store.record("size", {"runs": 3})
        store.record("noaa", {"runs": 4})
        store.record("size", {"runs": 5})
        assert store.records() == {"size": {"runs": 5}, "noaa": {"runs": 4}}
        (tmp_path / "run.json").write_text("{")
        assert store.records() == {}


def test_the_version_changes_with_the_code_and_not_with_its_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("methods", "bench"):
        (tmp_path / name).mkdir()
    for name in result_store.MEASURED:
        if name.endswith(".py"):
            (tmp_path / name).write_text("x = 1\n")
    method = tmp_path / "methods" / "olrtr.py"
    shown = tmp_path / "bench" / "runner.py"
    monkeypatch.setattr(result_store, "__file__", str(tmp_path / "bench" / "store.py"))
    method.write_text("x = 1\n")
    shown.write_text("x = 1\n")
    first = code_version()
    method.write_text("# why\nx = 1\n")
    shown.write_text("x = 2\n")
    assert code_version() == first
    method.write_text("x = 2\n")
    assert code_version() != first
