"""What the API's own description says of it holds, whatever it is asked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

EXAMPLES = 20
"""Requests of each kind for each part of the API, the same ones every time."""

EVENTS = "/api/events"
PARTS = (
    "/api/attention", "/api/calibration", "/api/explain", "/api/faults", "/api/faults.csv", "/api/matrix",
    "/api/moment", "/api/neighbours", "/api/network", "/api/notes", "/api/owners", "/api/places", "/api/rows.csv",
    "/api/sensor", "/api/sensors", "/api/series",
)  # fmt: skip


@pytest.fixture(scope="module")
def described(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/api/openapi.json")


def test_all_of_it_is_tried(described: Any) -> None:
    assert set(described.raw_schema["paths"]) == {*PARTS, EVENTS}
    assert all(set(methods) == {"get"} for methods in described.raw_schema["paths"].values())


def tried(operation: Any, mode: schemathesis.GenerationMode, **known: str) -> None:
    """Ask many things, with some parameters that are known, and hold each answer to its description."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def holds(case: Any) -> None:
        if known:
            case.query = {**{name: value for name, value in case.query.items() if name != "variable"}, **known}
        case.call_and_validate()

    holds()


@pytest.mark.parametrize("part", PARTS)
def test_what_may_be_asked_is_answered_as_described(described: Any, part: str) -> None:
    tried(described[part]["GET"], schemathesis.GenerationMode.POSITIVE)


@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("/api/network", "/api/places")])
def test_what_may_not_be_asked_is_refused_as_described(described: Any, part: str) -> None:
    tried(described[part]["GET"], schemathesis.GenerationMode.NEGATIVE)


@pytest.mark.parametrize(
    "part", ["/api/explain", "/api/neighbours", "/api/rows.csv", "/api/sensor", "/api/series", "/api/faults"]
)
def test_the_schema_holds_for_known_sensors(described: Any, part: str, address: str) -> None:
    name = httpx.get(f"{address}/api/sensors?limit=1").json()["items"][0]["sensor"]
    tried(described[part]["GET"], schemathesis.GenerationMode.POSITIVE, sensor=name)


def test_the_description_has_one_shape_for_all_that_is_wrong(described: Any) -> None:
    schema = described.raw_schema
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    for part in PARTS:
        answers = schema["paths"][part]["get"]["responses"]
        assert "content" in answers["200"], part
        for status in ("401", "404", "421", "422"):
            shape = answers[status]["content"]["application/json"]["schema"]
            assert shape == {"$ref": "#/components/schemas/ErrorDetail"}, (part, status)
