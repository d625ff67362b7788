"""The dashboard for Grafana: its queries run on the tables of the PostgreSQL sink, and its metrics exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from row_tables import YEAR_2019, network
from sensormend.pipeline.health import Health
from sensormend.readings import DAY, REASONS
from sensormend.stream.deliveries import Delivery, SinkState
from sensormend.stream.metrics import Metrics
from sensormend.stream.sinks import open_sink
from servers import running_postgres

psycopg = pytest.importorskip("psycopg")
exposition = pytest.importorskip("prometheus_client.exposition")
text_string_to_metric_families = pytest.importorskip("prometheus_client.parser").text_string_to_metric_families

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "grafana" / "sensormend.json").read_text(encoding="utf-8")
)
PANELS = {panel["title"]: panel for panel in BOARD["panels"]}
QUERIES = {
    title: target["rawSql"] for title, panel in PANELS.items() for target in panel["targets"] if "rawSql" in target
}


def as_sent(query: str, sensor: str = "s'1", variable: str = "temp") -> str:
    """Return a query as Grafana sends it, with its variables and the chosen span."""
    for name, value in (("sensor", sensor), ("variable", variable)):
        quoted = value.replace("'", "''")
        query = query.replace(f"${{{name}:sqlstring}}", f"'{quoted}'")
    query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '2018-12-31T00:00:00Z' AND '2019-01-31T00:00:00Z'", query)
    assert "$" not in query
    return query


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Give a server with a day of two sensors: one reading in six is wrong, one is missing."""
    with running_postgres() as address:
        rows = network(1, 2, ("temp",))
        flag = np.resize(np.array([1, 4, 3, 2, 1, 9], rows.flag.dtype), len(rows))
        reason = np.where(flag == 4, REASONS.index("stuck"), 0).astype(rows.reason.dtype)
        rows = replace(rows, sensors=("s'1", "s2"), flag=flag, reason=reason)
        health = [
            Health("s'1", "temp", "faulty", "stuck", YEAR_2019, YEAR_2019),
            Health("s2", "temp", "healthy", "", 0, 0),
        ]
        with open_sink(f"{address}") as sink:
            sink.write(Delivery("final", YEAR_2019, YEAR_2019 + DAY, rows, health))
        yield address


def ask(server: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    with psycopg.connect(server) as connection:
        cursor = connection.execute(query)
        return [column.name for column in cursor.description], cursor.fetchall()


def test_the_queries_of_panels(server: str) -> None:
    results = {title: ask(server, as_sent(query)) for title, query in QUERIES.items()}
    assert len(results) == 5
    assert sorted(results["Channels by state"][1]) == [("faulty", 1), ("healthy", 1)]
    assert [row[:4] for row in results["What to repair"][1]] == [("s'1", "temp", "faulty", "stuck")]
    names, rows = results["$sensor $variable"]
    assert (names, len(rows)) == (["time", "raw", "cleaned", "lower", "upper"], 24)
    assert [(row[1], row[2]) for row in results["Wrong readings a day, by reason"][1]] == [("stuck", 8)]
    ((_, _, wrong, doubtful, missing), _) = results["Sensors with most wrong, doubtful and missing readings"][1]
    assert [float(share) for share in (wrong, doubtful, missing)] == pytest.approx([1 / 6] * 3)


def test_series_over_time_have_a_time(server: str) -> None:
    for title, query in QUERIES.items():
        (target,) = PANELS[title]["targets"]
        if target["format"] == "time_series":
            names, rows = ask(server, as_sent(query))
            assert names[0] == "time"
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)


def test_the_queries_of_variables(server: str) -> None:
    queries = {entry["name"]: entry["query"] for entry in BOARD["templating"]["list"] if entry["type"] == "query"}
    assert ask(server, as_sent(queries["sensor"]))[1] == [("s'1",), ("s2",)]
    assert ask(server, as_sent(queries["variable"]))[1] == [("temp",)]


def test_every_metric_exists() -> None:
    metrics = Metrics()
    metrics.reject("x", 1)
    metrics.sinks = {"s": SinkState("s", True, 0, 0)}
    states = ("faulty", "silent", "ended", "suspect", "recovering", "learning", "healthy")
    metrics.sensors = dict.fromkeys(("known", "unknown_sensors", *states), 0)
    metrics.newest = metrics.watermark = YEAR_2019
    metrics.channels = [Health("roof", "temp", "faulty", "stuck", YEAR_2019, YEAR_2019)]
    text = exposition.generate_latest(metrics.registry()).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    names = {sample.name for sample in samples}
    expressions = [target["expr"] for panel in PANELS.values() for target in panel["targets"] if "expr" in target]
    used = {name for expression in expressions for name in re.findall(r"sensormend_\w+", expression)}
    assert len(used) >= 11
    assert used <= names
    labels = {sample.name: set(sample.labels) for sample in samples}
    assert labels["sensormend_channel_state"] == {"sensor", "variable", "state"}
    for panel in PANELS.values():
        for target in (target for target in panel["targets"] if "expr" in target):
            (*_, last) = re.findall(r"sensormend_\w+", target["expr"])
            # What a legend or a join refers to is a label of the series, or that of the scraped service.
            asked = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            asked |= {name.strip() for on in re.findall(r"on\(([^)]*)\)", target["expr"]) for name in on.split(",")}
            asked |= set(re.findall(r"(\w+)=~", target["expr"]))
            assert asked <= labels[last] | {"instance"}


def test_panels_have_their_places() -> None:
    cells = [
        (x, y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    declared = {entry["name"] for entry in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(postgres|prometheus|sensor|variable)\b", json.dumps(BOARD)))
    assert used == declared
