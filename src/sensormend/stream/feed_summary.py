"""`FeedSummary` says what a feed or a file is taken for, and which option changes each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sensormend.errors import SensormendError
from sensormend.pipeline.options import Options
from sensormend.pipeline.survey import survey_readings, survey_start
from sensormend.pipeline.times import in_words, iso
from sensormend.pipeline.units import UsualRange, collect_units, described, sent, split_unit
from sensormend.readings import Readings
from sensormend.stream.arrivals import Rejected

__all__ = ["FeedSummary"]

SHOWN = 5
"""The numbers of decoded readings, sensors, variables and names that are shown."""


@dataclass(frozen=True, eq=False)
class FeedSummary:
    """What some readings were taken for.

    Attributes
    ----------
    formats
        A sentence for each format or layout: where it has the sensor, the time and the numbers.
    readings
        The readings, in any order.
    step, period
        The grid, microseconds; None if there are too few readings to tell.
    units
        The units of variables, as far as they are known.
    passed
        Names of numbers that are not readings.
    rejected
        Inputs that are not readings.
    notes
        Remarks on how files were read.
    live
        Whether they are of a feed, the format of whose messages can be named.
    """

    formats: tuple[str, ...]
    readings: Readings
    step: int | None = None
    period: int | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    rejected: Sequence[Rejected] = ()
    notes: tuple[str, ...] = ()
    live: bool = True

    @classmethod
    def of(
        cls,
        readings: Readings,
        options: Options,
        *,
        live: bool,
        formats: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
        passed: Sequence[str] = (),
        rejected: Sequence[Rejected] = (),
        notes: Sequence[str] = (),
    ) -> FeedSummary:
        """Summarise readings of a live feed, or of an archive, whose grid is derived differently."""
        step = period = None
        usual: Mapping[str, UsualRange] = {}
        extra: tuple[str, ...] = ()
        if _repeats(readings):
            try:
                survey = (survey_start if live else survey_readings)(readings, options)
                step, period, extra, usual = survey.grid.step, survey.grid.period, survey.notes, survey.usual
            except SensormendError as error:
                extra = (str(error),)
        known = collect_units(described(readings.variables, options, sent(units or {}), usual)).get("units", {})
        return cls(
            tuple(formats), readings, step, period, known, tuple(sorted(passed)), rejected, (*notes, *extra), live
        )  # fmt: skip

    def lines(self) -> list[tuple[str, str, str]]:
        """Return (what, the choice, the option that changes it) for each choice."""
        readings = self.readings
        sensors = [readings.sensors[code] for code in np.unique(readings.sensor).tolist()]
        variables = [readings.variables[code] for code in np.unique(readings.variable).tolist()]
        shown = [_with_unit(name, self.units.get(name, "")) for name in variables]
        grid = f"{in_words(self.step)} in a period of {in_words(self.period)}" if self.step and self.period else ""
        columns = "--sensor, --time, --value"
        lines = [("format", sentence, f"--format, {columns}" if self.live else columns) for sentence in self.formats]
        lines += [
            ("sensors", _counted(sensors), "--sensor; {sensor} in the pattern of topics"),
            ("variables", _counted(shown), "--variables, --variable"),
            ("step", grid or "not known yet: too few readings", "--step, --period"),
        ]
        lines += [("reading", text, "") for text in self._decoded()]
        if self.passed:
            lines.append(("passed over", _counted(list(self.passed)), "--variables names all that are readings"))
        for reason, count in Counter(entry.reason for entry in self.rejected).most_common(SHOWN):
            first = next(entry for entry in self.rejected if entry.reason == reason)
            lines.append(("refused", f"{count:,}: {reason}; the first: {first.where} {first.text[:80]}".rstrip(), ""))
        lines += [("note", note, "") for note in self.notes]
        return lines

    def _decoded(self) -> list[str]:
        """Return the first readings as texts, of as many channels as there are."""
        readings = self.readings
        channel = readings.sensor.astype(np.int64) * len(readings.variables) + readings.variable
        _, first = np.unique(channel, return_index=True)
        rest = np.setdiff1d(np.arange(min(len(readings), SHOWN)), first)
        chosen = sorted([*np.sort(first)[:SHOWN].tolist(), *rest.tolist()][:SHOWN])
        texts = []
        for index in chosen:
            variable = readings.variables[int(readings.variable[index])]
            value = float(readings.value[index])
            texts.append(
                f"{iso(int(readings.time[index]))[:19]} {readings.sensors[int(readings.sensor[index])]} "
                f"{variable or 'value'} {'no number' if np.isnan(value) else f'{value:g}'}"
            )
        return texts


def _repeats(readings: Readings) -> bool:
    """Return whether some channel has readings at three times or more, from which a step can be derived."""
    if not len(readings):
        return False
    channel = readings.sensor.astype(np.int64) * len(readings.variables) + readings.variable
    distinct = np.unique(np.stack([channel, readings.time]), axis=1)
    return bool(np.unique(distinct[0], return_counts=True)[1].max() >= 3)


def _with_unit(name: str, unit: str) -> str:
    plain = split_unit(name)[0] or "one without a name"
    return f"{plain} ({unit})" if unit else plain


def _counted(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:SHOWN])}{more}" if names else "none"
