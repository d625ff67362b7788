from datetime import timedelta
from pathlib import Path

import pytest

from sensormend.errors import ConfigError
from sensormend.pipeline.options import EVERY, Options
from sensormend.pipeline.times import duration, in_words
from sensormend.readings import DAY, HOUR, MINUTE


@pytest.mark.parametrize(
    ("value", "length"),
    [("15min", 15 * MINUTE), ("1h", HOUR), ("1 d", DAY), ("7 days", 7 * DAY), ("1.5h", 90 * MINUTE), ("2w", 14 * DAY),
     ("hour", HOUR), ("30S", 30_000_000), (timedelta(hours=6), 6 * HOUR)],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(value: str | timedelta, length: int) -> None:
    assert duration(value) == length
    assert duration(in_words(length)) == length


@pytest.mark.parametrize("value", ["", "15", "1 fortnight", "-1h", "0h", 0, -5, 3600, True, None, 1.5])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="15min, 1h or 1d"):
        duration(value)  # type: ignore[arg-type]


def test_limits_and_fill_values_are_for_all_variables_or_for_each() -> None:
    options = Options.of(fill=[-999], valid={"temp": [-40, 50]})
    assert options.fill == {EVERY: (-999.0,)}
    assert options.find_fill("anything") == (-999.0,)
    assert options.find_valid("temp") == (-40.0, 50.0)
    assert options.find_valid("other")[0] == -float("inf")
    assert Options.of(fill=[]).find_fill("temp") == ()
    assert Options().find_fill("temp") is None


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"valid": [50, -40]}, "lowest and a highest"),
        ({"valid": [1, 2, 3]}, "lowest and a highest"),
        ({"tolerance": -1}, "tolerance is a number, 0 or more"),
        ({"tolerance": {"temp": "half"}}, "tolerance is a number, 0 or more"),
        ({"fill": "none"}, "list of numbers"),
        ({"step": "soon"}, "step: a duration"),
        ({"sensor": 3}, "name of a column"),
        ({"networks": ["city"]}, "name of a column"),
        ({"colour": "red"}, "no option 'colour'; there are .*coordinates"),
        ({"one_pass": "yes"}, "true or false"),
        ({"variables": 3}, "list of column names"),
        ({"step": "7h", "period": "1d"}, "whole number of steps"),
        ({"maintenance": 7}, "path"),
        ({"seed": 0.5}, "whole number"),
        ({"interval": "wide"}, "a number"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(value: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        Options.of(**value)
    assert "\n" not in str(caught.value)


def test_a_toml_file_has_the_same_names_and_what_is_typed_goes_before_it(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text('sensor = "node"\nstep = "15min"\nmaintenance = "notes.csv"\n[valid]\ntemp = [-5, 40]\n')
    options = Options.from_toml(file, step="1h", sensor=None)
    assert (options.sensor, options.step, options.valid) == ("node", HOUR, {"temp": (-5.0, 40.0)})
    assert options.maintenance == tmp_path / "notes.csv"


@pytest.mark.parametrize("text", ["sensor = ", "sensor = 3", "sensr = 'a'"])
def test_a_wrong_toml_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"network\.toml: "):
        Options.from_toml(file)
    with pytest.raises(ConfigError, match="there is no file"):
        Options.from_toml(tmp_path / "other.toml")
