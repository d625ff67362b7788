"""Every module says what it exports, and exports what it says."""

import importlib
import pkgutil

import pytest

import sensormend

MODULES = ["sensormend", *(m.name for m in pkgutil.walk_packages(sensormend.__path__, "sensormend."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_all_matches_what_the_module_defines(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    own = {key for key, value in vars(module).items()
           if not key.startswith("_") and getattr(value, "__module__", None) == name}  # fmt: skip
    assert own <= set(exported), f"{name} defines names that __all__ lacks"
    assert all(hasattr(module, key) for key in exported)
    assert len(set(exported)) == len(exported)
