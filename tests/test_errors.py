from __future__ import annotations

import pytest

from sensormend import errors


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name[0].isupper()])
def test_every_error_is_in_the_tree_and_in_its_drawing(name: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.SensormendError)
    assert errors.__doc__ is not None
    line = next(line for line in errors.__doc__.splitlines() if f"{name} " in line)
    for base in error.__bases__:
        if base.__module__ == "builtins" and base is not Exception:
            assert f"({base.__name__})" in line


def test_bad_input_can_be_caught_as_a_value_error() -> None:
    for error in (errors.ShapeError, errors.ValueRangeError, errors.ConfigError, errors.StateError):
        assert issubclass(error, ValueError)


def test_a_message_of_several_lines_becomes_one() -> None:
    assert errors.one_line(ValueError("the first\n   and the second ")) == "the first and the second"
    assert errors.one_line(ValueError()) == "ValueError"
