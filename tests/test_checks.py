"""Every check over every method."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import EXEMPT, Check, Partitioned, all_checks, all_methods, exempt, maker
from networks import partition_small_networks
from sensormend.methods.base import Method

METHODS, CHECKS = all_methods(), all_checks()
PAIRS = [
    pytest.param(method, check, id=f"{method.__name__}-{check.__name__.removeprefix('check_')}")
    for method in METHODS
    for check in CHECKS
    if not exempt(method, check)
]


@pytest.mark.parametrize(("method", "check"), PAIRS)
def test_check(method: type, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if method is Partitioned:
        partition_small_networks(monkeypatch, owned=4, halo=3)
    check(maker(method), tmp_path)


def test_methods_keep_the_protocol() -> None:
    assert len(METHODS) >= 2
    assert all(isinstance(maker(method)(), Method) for method in METHODS)


def test_exemptions_name_real_methods_and_checks() -> None:
    names = {check.__name__ for check in CHECKS}
    assert set(EXEMPT) <= {method.__name__ for method in METHODS}
    assert all(set(checks) <= names for checks in EXEMPT.values())
