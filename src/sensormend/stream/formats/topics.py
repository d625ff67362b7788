"""`Topics` reads sensor and variable from topics, by patterns with `{sensor}` and `{variable}` in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sensormend.errors import ConfigError

__all__ = ["TopicFields", "Topics", "make_filter", "overlap"]

MOST_TOPICS = 20_000
"""The maximum number of parsed topics that are cached; beyond that the cache is cleared, which bounds the memory."""

LONGEST = 200
"""The maximum number of letters of a cached topic."""

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_NAMES = ("sensor", "variable")


class TopicFields(NamedTuple):
    """The names in a topic; `sure` if a pattern has the sensor, and not just the convention of naming it last."""

    sensor: str | None = None
    variable: str | None = None
    sure: bool = False


class Topics:
    """Parses topics by patterns; without patterns the last level of a topic is the sensor.

    Parameters
    ----------
    patterns
        Like `city/{sensor}/{variable}` or `+/{sensor}/temp/#`: `+` stands for any level, `#` at the end for any more.
        The first that matches counts.
    variable
        The variable of topics that name none.

    Attributes
    ----------
    default
        The fields where there is no topic, or no pattern matches.

    Examples
    --------
    >>> Topics(["city/{sensor}/{variable}"]).fields("city/7/temp")
    TopicFields(sensor='7', variable='temp', sure=True)
    >>> Topics().fields("city/north/7").sensor
    '7'
    """

    def __init__(self, patterns: Sequence[str] = (), variable: str | None = None) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self.default = TopicFields(variable=variable)
        self._parsed: dict[str, TopicFields] = {}

    def fields(self, topic: str) -> TopicFields:
        """Return the names in a topic."""
        fields = self._parsed.get(topic)
        if fields is None:
            fields = self._parse(topic)
            if len(self._parsed) >= MOST_TOPICS:
                self._parsed.clear()
            if len(topic) <= LONGEST:
                self._parsed[topic] = fields
        return fields

    def _parse(self, topic: str) -> TopicFields:
        if not self._patterns:
            return self.default._replace(sensor=topic.rpartition("/")[2] or None)
        for pattern in self._patterns:
            match = pattern.fullmatch(topic)
            if match:
                names = match.groupdict()
                sensor = names.get("sensor") or None
                return TopicFields(sensor, names.get("variable") or self.default.variable, sensor is not None)
        return self.default


def make_filter(pattern: str) -> str:
    """Return the topic filter of a pattern.

    Examples
    --------
    >>> make_filter("city/{sensor}/{variable}")
    'city/+/+'
    """
    _compiled(pattern)
    return _PLACEHOLDER.sub("+", pattern)


def overlap(one: str, other: str) -> bool:
    """Return whether there are topics that match both filters.

    Examples
    --------
    >>> overlap("city/#", "city/+/temp"), overlap("+/temp", "city/cleaned/#"), overlap("#", "$SYS/load")
    (True, False, False)
    """
    first, second = (_without_share(each).split("/") for each in (one, other))
    if any(a in ("+", "#") and b.startswith("$") for a, b in ((first[0], second[0]), (second[0], first[0]))):
        return False  # wildcards do not match topics of the broker itself
    for a, b in zip(first, second, strict=False):
        if "#" in (a, b):
            return True
        if a != b and "+" not in (a, b):
            return False
    longer, common = max(first, second, key=len), min(len(first), len(second))
    return len(first) == len(second) or longer[common:] == ["#"]


def _without_share(pattern: str) -> str:
    """Return a filter without the prefix of a shared subscription."""
    return pattern.split("/", 2)[-1] if pattern.startswith("$share/") else pattern


def _compiled(pattern: str) -> re.Pattern[str]:
    levels = pattern.split("/")
    names = _PLACEHOLDER.findall(pattern)
    wrong = (
        not pattern
        or any(name not in _NAMES for name in names)
        or len(set(names)) < len(names)
        or any("#" in level for level in levels[:-1])
        or any(level != mark for level in levels for mark in "+#" if mark in level)
        or any(_PLACEHOLDER.fullmatch(level) is None for level in levels if "{" in level or "}" in level)
    )
    if wrong:
        raise ConfigError(
            f"a topic pattern is like city/{{sensor}}/{{variable}}, + for any level, # at the end; got {pattern!r}"
        )
    parts = [f"(?P<{level[1:-1]}>[^/]*)" if level.startswith("{") else "[^/]*" if level == "+" else re.escape(level)
             for level in levels]  # fmt: skip
    if levels[-1] == "#":
        # The levels below, and the one above itself, as the protocol has it.
        return re.compile("/".join(parts[:-1]) + "(?:/.*)?" if len(parts) > 1 else ".*", re.DOTALL)
    return re.compile("/".join(parts), re.DOTALL)
