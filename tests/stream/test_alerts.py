import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sensormend.errors import ConfigError
from sensormend.pipeline.channel_states import STATES, ChannelName, ChannelState
from sensormend.pipeline.cleaner import NEVER, CleanedPeriod
from sensormend.pipeline.faults import ReadingSums
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.health import Health
from sensormend.pipeline.maintenance import Maintenance, Note
from sensormend.pipeline.sentences import ADVICE, DEVICE_ADVICE
from sensormend.readings import DAY, HOUR, MINUTE, REASONS, Flag, NameIndex, Readings, Rows
from sensormend.stream.alert_messages import WITHDRAWN, OpenFault, one_per_incident
from sensormend.stream.alerts import Alerts, PeriodVerdict
from sensormend.stream.deliveries import Alert
from sensormend.stream.monitor import ChannelMonitor, Silence
from sensormend.stream.sinks.messages import find_advice

START = 19_844 * DAY
"""1 May 2024."""

GRID = Grid(HOUR, DAY)

KINDS = {"good": Flag.GOOD, "suspect": Flag.SUSPECT, "unknown": Flag.NOT_EVALUATED, "gone": Flag.MISSING}


def a_day(*kinds: str, names: Sequence[str] = (), variables: Sequence[str] = ("",), wrong: int = 24) -> Rows:
    """Return a day's rows of channels that are good, suspect, unknown, gone, or wrong for a reason."""
    per_sensor = len(variables)
    names = names or [f"S{number + 1}" for number in range(len(kinds) // per_sensor)]
    flag, reason = np.zeros((len(kinds), 24), np.int8), np.zeros((len(kinds), 24), np.int8)
    value, cleaned = np.full((len(kinds), 24), 10.0), np.full((len(kinds), 24), 10.0)
    for row, kind in enumerate(kinds):
        flag[row] = KINDS.get(kind, Flag.GOOD)
        if kind not in KINDS:
            flag[row, :wrong], reason[row, :wrong] = Flag.FAIL, REASONS.index(kind)
            value[row, :wrong] += 4.1
    value[flag == Flag.MISSING] = np.nan
    channel = np.repeat(np.arange(len(kinds)), 24)
    return Rows(
        tuple(names), tuple(variables), (channel // per_sensor).astype(np.int32),
        (channel % per_sensor).astype(np.int32), np.tile(HOUR * np.arange(24, dtype=np.int64), len(kinds)),
        value.ravel(), np.isfinite(value).ravel().astype(np.int32), cleaned.ravel(), cleaned.ravel(), cleaned.ravel(),
        flag.ravel(), reason.ravel(), np.ones(value.size, np.int8),
    )  # fmt: skip


def close(alerts: Alerts, rows: Rows, start: int, questionable: frozenset[ChannelName] = frozenset()) -> list[Alert]:
    return alerts.close_period(rows, GRID, start, PeriodVerdict({}, questionable))


def days(alerts: Alerts, *kinds: str, first: int = 0, wrong: int = 24) -> list[tuple[int, Alert]]:
    """Let one sensor have one day after the other; return the alerts, and after which day each was raised."""
    raised = []
    for day, kind in enumerate(kinds, start=first):
        start = START + day * DAY
        raised += [(day, alert) for alert in close(alerts, a_day(kind, wrong=wrong), start)]
    return raised


def test_a_sensor_turns_faulty_after_two_days_in_a_row_and_says_it_once() -> None:
    ((day, alert),) = days(Alerts(), "good", "offset", "good", "offset", "offset", "offset", "offset")
    assert day == 4
    assert (alert.before, alert.state, alert.reason) == ("healthy", "faulty", "offset")
    assert (alert.since, alert.at) == (START + 3 * DAY, START + 5 * DAY)
    assert alert.sentence == ("S1 turned faulty: it reads 4.1 high since 2024-05-04 00:00 (offset)")


@given(st.lists(st.sampled_from(["good", "suspect", "offset", "stuck", "unknown"]), min_size=1, max_size=12),
       st.integers(0, 14), st.randoms())  # fmt: skip
def test_of_more_channels_than_are_asked_for_the_worst_are_told(kinds: list[str], most: int, random: Any) -> None:
    alerts = Alerts()
    for day in range(3):
        rows = a_day(*kinds)
        names = [(f"S{number + 1}", "") for number in range(len(kinds))]
        doubtful = frozenset(name for name, kind in zip(names, kinds, strict=True) if kind == "suspect")
        close(alerts, rows, START + day * DAY, doubtful)
    size = len(kinds)
    last = np.array([random.choice([NEVER, START]) for _ in kinds])
    removed, judged = (np.array([random.random() < 0.2 for _ in range(size)]) for _ in range(2))
    everything = alerts.health(names, last, removed, judged)
    worst = sorted(everything, key=lambda entry: STATES.index(ChannelState(entry.state)))
    assert alerts.health(names, last, removed, judged, most) == worst[:most]


def test_it_is_well_again_after_two_sound_days_in_a_row() -> None:
    raised = days(Alerts(), "stuck", "stuck", "good", "stuck", "good", "suspect", "good")
    assert [(day, alert.state) for day, alert in raised] == [(1, "faulty"), (6, "healthy")], "doubtful is not sound"
    assert raised[1][1].since == START + 4 * DAY
    assert raised[1][1].sentence == (
        "S1 is healthy again: it has agreed with the network since 2024-05-05 00:00, after 4 days of a fault (stuck)"
    )


def test_days_that_say_nothing_neither_count_nor_break() -> None:
    raised = days(Alerts(), "gone", "noise", "gone", "unknown", "noise", "unknown", "good", "gone", "good")
    assert [(day, alert.state) for day, alert in raised] == [(4, "faulty"), (8, "healthy")]
    assert raised[0][1].since == START + DAY


def test_spikes_and_a_few_bad_hours_are_no_fault() -> None:
    assert days(Alerts(after=1), "spike", "spike", "spike") == []
    assert days(Alerts(after=1), "offset", "offset", wrong=11) == []
    assert len(days(Alerts(after=1), "offset", wrong=12)) == 1


def test_how_many_periods_it_takes_can_be_set() -> None:
    raised = days(Alerts(after=3, well_after=1), "gain", "gain", "gain", "good")
    assert [(day, alert.state) for day, alert in raised] == [(2, "faulty"), (3, "healthy")]
    with pytest.raises(ConfigError, match="at least 1"):
        Alerts(after=0)


def test_the_reason_is_the_one_that_most_of_the_readings_had() -> None:
    ((_, alert),) = days(Alerts(after=3), "noise", "drift", "drift")
    assert alert.reason == "drift"
    assert "reads 4.1 high" in alert.sentence


def test_the_reason_is_that_of_the_whole_fault() -> None:
    alerts = Alerts(after=1, well_after=1)
    raised = days(alerts, "stuck", "stuck", "drift", "good")
    assert "(stuck)" in raised[-1][1].sentence


@pytest.mark.parametrize("reason", ["stuck", "noise", "drift", "offset", "gain", "implausible"])
def test_every_reason_has_its_sentence(reason: str) -> None:
    ((_, alert),) = days(Alerts(after=1), reason)
    assert alert.sentence.startswith("S1 turned faulty: it ")
    assert alert.sentence.endswith(f"({reason})") or f"({reason})" in alert.sentence
    assert "since 2024-05-01 00:00" in alert.sentence
    assert "{" not in alert.sentence


ONE = [("S1", "")]


def check(
    alerts: Alerts,
    names: Sequence[ChannelName],
    silent: Sequence[bool],
    last: Sequence[int],
    now: int,
    *,
    usual: int = HOUR,
    gone: Sequence[bool] | None = None,
) -> list[Alert]:
    """Check the silence of channels of which none is removed."""
    none = np.zeros(len(names), bool)
    missing = none if gone is None else np.array(gone)
    lengths = np.full(len(names), usual)
    return alerts.check_silence(names, np.array(silent), np.array(last), now, lengths, missing, none, HOUR)


def health(alerts: Alerts, names: Sequence[ChannelName], last: Sequence[int]) -> list[Health]:
    return alerts.health(names, np.array(last), np.zeros(len(names), bool), np.ones(len(names), bool))


def state(alerts: Alerts) -> str:
    """Return the state of S1."""
    return health(alerts, ONE, [START])[0].state


def ask(alerts: Alerts, silent: bool, last: int, now: int) -> list[Alert]:
    return check(alerts, ONE, [silent], [START + last * HOUR], START + now * HOUR)


def test_a_silent_sensor_is_reported_at_once_and_back_after_two_checks() -> None:
    alerts = Alerts()
    assert ask(alerts, False, 9, 10) == []
    (alert,) = ask(alerts, True, 9, 13)
    assert (alert.before, alert.state, alert.since, alert.at) == (
        "healthy",
        "silent",
        START + 9 * HOUR,
        START + 13 * HOUR,
    )
    assert alert.sentence == (
        "S1 turned silent: no reading since 2024-05-01 09:00; it usually reports at least every hour"
    )
    assert ask(alerts, True, 9, 14) == []
    assert state(alerts) == "silent"
    assert ask(alerts, False, 20, 21) == []
    assert ask(alerts, False, 20, 22) == [], "the same reading once more is no other"
    assert state(alerts) == "silent"
    assert ask(alerts, False, 22, 23) == [], "that it reports counts at once, the alert follows after a day"
    assert state(alerts) == "recovering"
    assert all(ask(alerts, False, hour, hour + 1) == [] for hour in range(23, 43))
    (alert,) = ask(alerts, False, 43, 44)
    assert (alert.before, alert.state, alert.since) == ("silent", "healthy", START + 20 * HOUR)
    assert alert.sentence == "S1 is healthy again: it has reported since 2024-05-01 20:00, after 11 hours of silence"


def test_a_long_silence_is_over_after_two_days_of_hearing() -> None:
    alerts = Alerts()
    ask(alerts, True, 0, 4)
    well = [
        hour for hour in range(100, 200) for alert in ask(alerts, False, hour, hour + 1) if alert.state == "healthy"
    ]
    assert well == [147]


def test_the_last_breaths_of_a_dying_sensor_do_not_flap() -> None:
    alerts, raised = Alerts(), []
    ask(alerts, False, 0, 1)
    for day in range(60):
        for hour in range(24):
            # Two readings a day, the rest is silence.
            last = 24 * day + min(hour, 1)
            raised += ask(alerts, hour > 4, last, 24 * day + hour + 1)
    assert [alert.state for alert in raised] == ["silent"]
    for hour in range(40):
        raised += ask(alerts, False, 1440 + hour, 1441 + hour)
    assert [alert.state for alert in raised] == ["silent", "healthy"], "one that is repaired is well again all the same"


def test_one_that_comes_and_goes_is_reported_so_once_and_has_to_be_well_for_a_week() -> None:
    alerts, raised = Alerts(), list[Alert]()
    for day in range(40):
        for hour in range(24):
            # Every third day is silent, for 30 days.
            reporting = day % 3 < 2 or day >= 30
            last = 24 * day + hour if reporting else 24 * day - 1
            raised += ask(alerts, not reporting and hour > 4, last, 24 * day + hour + 1)
    assert [alert.state for alert in raised] == ["silent", "healthy", "silent", "healthy"]
    assert (
        "; it comes and goes, and counts as healthy again after 7 days without a fault or silence" in raised[2].sentence
    )
    assert raised[3].at - raised[3].since >= 7 * DAY


def test_a_fault_outlasts_a_silence() -> None:
    alerts = Alerts()
    assert len(days(alerts, "offset", "offset")) == 1
    assert ask(alerts, True, 47, 51) == [], "it is one incident, which was raised"
    assert state(alerts) == "silent"
    assert days(alerts, "gone", "offset", first=2) == []
    ask(alerts, False, 80, 81)
    assert ask(alerts, False, 82, 83) == []
    assert state(alerts) == "faulty"
    assert [raised.state for _, raised in days(alerts, "good", "good", first=4)] == ["healthy"]


def test_a_fault_that_appears_while_a_sensor_is_silent_is_reported_when_it_is_back() -> None:
    alerts = Alerts()
    ask(alerts, True, 40, 44)
    assert days(alerts, "offset", "offset") == []
    ask(alerts, False, 50, 51)
    (alert,) = ask(alerts, False, 51, 52)
    assert (alert.before, alert.state) == ("silent", "faulty")
    assert alert.sentence.startswith("S1 reports again, but is faulty: it reads 4.1 high since")


def test_a_sensor_all_of_whose_variables_fall_silent_is_reported_once() -> None:
    names = [("A", "pm"), ("A", "temp"), ("A", "never"), ("B", "pm"), ("B", "temp")]
    last = [START, START + HOUR, NEVER, START, START + 9 * HOUR]
    alerts = Alerts()
    raised = check(alerts, names, [True, True, False, True, False], last, START + 9 * HOUR)
    assert [(alert.sensor, alert.variable, alert.since) for alert in raised] == [
        ("A", "", START + HOUR), ("B", "pm", START),
    ]  # fmt: skip
    assert raised[0].sentence.startswith("A turned silent: no reading since 2024-05-01 01:00; it usually reports")
    assert raised[1].sentence.startswith("B pm turned silent")
    assert [(entry.variable, entry.state) for entry in health(alerts, names, last)] == [
        ("pm", "silent"), ("temp", "silent"), ("pm", "silent"), ("temp", "healthy"),
    ]  # fmt: skip


def test_health_says_how_everybody_is() -> None:
    alerts = Alerts(after=1)
    close(alerts, a_day("good", "offset", "good"), START)
    names = [("S1", ""), ("S2", ""), ("S3", "")]
    last = [START + DAY, START + DAY, START + 5 * HOUR]
    check(alerts, names, [False, False, True], last, START + DAY)
    first, second, third = health(alerts, names, last)
    assert (first.state, first.reason, first.since, first.heard) == ("healthy", "", START, START + DAY)
    assert (second.state, second.reason, second.since) == ("faulty", "offset", START)
    assert (third.state, third.reason, third.since, third.heard) == (
        "silent", "", START + 5 * HOUR, START + 5 * HOUR,
    )  # fmt: skip


def test_who_is_not_in_the_network_any_more_is_forgotten() -> None:
    alerts = Alerts(after=1)
    for number in range(50):
        start = START + number * DAY
        close(alerts, a_day("offset", names=[f"T{number}"]), start)
        check(alerts, [(f"T{number}", "")], [False], [start], start + DAY)
    assert len(alerts.state()["channels"]) == 1


class Town:
    """Sensors that report every hour, of which some stop."""

    def __init__(self, *names: str, gone_after: int = 5 * DAY) -> None:
        self.names, self.gone_after, self.hour, self.raised = names, gone_after, 0, list[Alert]()
        self.maintenance = Maintenance()
        self.monitor = self.begin(Alerts())

    def begin(self, alerts: Alerts) -> ChannelMonitor:
        return ChannelMonitor(GRID, self.gone_after, NameIndex(self.names), NameIndex([""]), alerts, {})

    def live(self, days: int, *reporting: str, late: int = 0) -> list[Alert]:
        """Let days pass in which only these report; return the alerts raised in them."""
        before = len(self.raised)
        sensor = np.array([self.names.index(name) for name in reporting], np.int64)
        none = np.zeros(sensor.size, np.int64)
        for _ in range(24 * days):
            time = np.full(sensor.size, START + (self.hour - late) * HOUR)
            readings = Readings(self.names, ("",), sensor, none, time, none.astype(np.float64))
            self.monitor.record(readings)
            if not late:
                self.monitor.learn(readings)
            self.hour += 1
            self.raised += self.monitor.check_silence(START + self.hour * HOUR, self.maintenance)
        return self.raised[before:]

    def restart(self) -> None:
        """Go on from a state."""
        state = json.loads(json.dumps(self.monitor.alerts.state()))
        alerts = Alerts()
        alerts.restore(state)
        after = self.begin(alerts)
        after.restore(*self.monitor.state())
        self.monitor = after

    def health(self) -> list[tuple[str, str]]:
        return [(entry.sensor, entry.state) for entry in self.monitor.health()]

    @property
    def counts(self) -> dict[str, int]:
        return self.monitor.counts


def test_a_sensor_that_is_gone_stays_listed_without_another_alert() -> None:
    town = Town("A", "B")
    assert town.live(6, "A", "B") == []
    (alert,) = town.live(4, "A")
    assert (alert.sensor, alert.state) == ("B", "silent")
    assert town.health() == [("A", "learning"), ("B", "silent")]
    assert town.live(2, "A") == []
    assert town.health() == [("A", "learning"), ("B", "ended")]
    assert (town.counts["silent"], town.counts["ended"]) == (0, 1)
    town.restart()
    assert town.live(100, "A") == []
    assert town.health() == [("A", "learning"), ("B", "ended")]
    assert town.monitor.health()[1].heard == START + 6 * DAY - HOUR
    back = START + town.hour * HOUR
    (alert,) = town.live(3, "A", "B")
    assert (alert.sensor, alert.before, alert.state, alert.since) == ("B", "silent", "healthy", back)
    assert town.health() == [("A", "learning"), ("B", "learning")]


def test_a_removed_sensor_is_not_listed() -> None:
    town = Town("A", "B")
    town.live(6, "A", "B")
    town.live(10, "A")
    assert town.health() == [("A", "learning"), ("B", "ended")]
    town.maintenance = Maintenance((Note("B", START + 8 * DAY, START + 400 * DAY, "removed"),))
    assert town.live(2, "A") == []
    assert town.health() == [("A", "learning")]
    assert sum(town.counts.values()) == 1, "the other one"
    town.restart()
    assert town.health() == [("A", "learning")]


def test_who_is_usually_silent_for_long_is_silent_before_it_is_gone() -> None:
    alerts, last = Alerts(), [START]
    assert check(alerts, ONE, [False], last, START + 5 * DAY, gone=[False]) == []
    (alert,) = check(alerts, ONE, [True], last, START + 5 * DAY + HOUR, gone=[True])
    assert (alert.before, alert.state) == ("healthy", "silent")
    assert [entry.state for entry in health(alerts, ONE, last)] == ["silent"]
    assert check(alerts, ONE, [True], last, START + 5 * DAY + 2 * HOUR, gone=[True]) == []
    assert [entry.state for entry in health(alerts, ONE, last)] == ["ended"]


def test_old_readings_do_not_end_a_silence() -> None:
    town = Town("A", "B")
    town.live(6, "A", "B")
    assert len(town.live(10, "A")) == 1
    # Both send what they measured three days before.
    town.live(1, "A", "B", late=72)
    assert [(alert.sensor, alert.state) for alert in town.raised] == [("B", "silent"), ("A", "silent")]
    assert town.health() == [("A", "silent"), ("B", "ended")]


def test_of_one_that_people_do_not_want_to_hear_of_nothing_is_reported() -> None:
    town = Town("A", "B")
    town.live(6, "A", "B")
    town.maintenance = Maintenance((Note("B", START, START + 400 * DAY, "ignore"),))
    assert town.live(30, "A") == []
    assert town.health() == [("A", "learning"), ("B", "learning")]


def test_a_variable_that_is_gone_does_not_keep_a_sensor_from_being_reported_once() -> None:
    names, alerts = [("A", "pm"), ("A", "temp"), ("A", "old")], Alerts()
    last = [START + 90 * DAY, START + 90 * DAY, START]
    for hours, silent in ((1, [False, False, True]), (2, [False, False, True]), (9, [True, True, True])):
        now = START + 90 * DAY + hours * HOUR
        raised = check(alerts, names, silent, last, now, gone=[False, False, True])
    assert [(alert.sensor, alert.variable) for alert in raised] == [("A", "")]


def test_a_fault_of_one_that_is_gone_is_not_reported() -> None:
    alerts = Alerts(after=1)
    for hours in (1, 2):
        check(alerts, ONE, [True], [START], START + hours * HOUR, gone=[True])
    assert days(alerts, "offset") == []
    assert state(alerts) == "ended"


@pytest.mark.parametrize(
    ("usual", "words"),
    [(61 * MINUTE, "every hour"), (119 * MINUTE, "every 2 hours"), (121 * MINUTE, "every 2 hours"),
     (14 * MINUTE + 1, "every 15 minutes"), (MINUTE, "every minute"), (25 * HOUR, "every day"),
     (1, "every second"), (9_999 * DAY, "every 365 days")],
)  # fmt: skip
def test_what_is_usual_is_in_plain_words(usual: int, words: str) -> None:
    (alert,) = check(Alerts(), ONE, [True], [START], START + DAY, usual=usual)
    assert alert.sentence.endswith(f"; it usually reports at least {words}")


def test_a_channel_that_is_simply_well_costs_nothing() -> None:
    alerts = Alerts()
    days(alerts, "good", "offset", "good")
    assert alerts.state()["channels"] == []


@given(st.lists(st.tuples(st.sampled_from(["good", "gone", "offset", "unknown"]), st.integers(0, 24)), max_size=25),
       st.integers(0, 25))  # fmt: skip
def test_a_restart_changes_nothing_and_every_alert_is_a_change(story: list[tuple[str, int]], cut: int) -> None:
    def replay(restarted: bool) -> list[Alert]:
        alerts, raised = Alerts(), []
        for day, (kind, reporting) in enumerate(story):
            if restarted and day == cut:
                saved = json.loads(json.dumps(alerts.state()))
                alerts = Alerts()
                alerts.restore(saved)
            for hour in range(0, 24, 3):
                raised += ask(alerts, hour > reporting, 24 * day + min(hour, reporting), 24 * day + hour)
            start = START + day * DAY
            raised += close(alerts, a_day(kind), start)
        return raised

    raised = replay(restarted=False)
    assert raised == replay(restarted=True)
    state = "healthy"
    for alert in raised:
        assert alert.before == state
        assert alert.state != alert.before
        assert alert.state in STATES
        assert alert.since <= alert.at
        state = alert.state


def test_a_large_network_costs_little() -> None:
    names = [(f"S{number}", "") for number in range(20_000)]
    silence, alerts = Silence(HOUR, DAY, 30 * DAY), Alerts()
    every: NDArray[np.int64] = np.arange(len(names))
    for day in range(4):
        silence.record(every, np.full(every.size, START + day * DAY))
        silence.close(every, np.full(every.size, START + day * DAY))
        now = START + day * DAY
        assert check(alerts, names, silence.check(now).tolist(), silence.last.tolist(), now) == []
    now = START + 9 * DAY
    raised = check(alerts, names, silence.check(now).tolist(), silence.last.tolist(), now)
    assert len(raised) == 20_000
    (alert,) = one_per_incident(raised, 2 * HOUR)
    assert len(alert.sensors) == 20_000
    assert alert.sentence.startswith(
        "S0, S1, S10, S100, S1000, S10000, S10001, S10002 and 19,992 others turned silent tog"
    )


def sure(start: int, readings: int, confidence: float = 0.99) -> OpenFault:
    """Return an offset of 4.1 that began at an hour."""
    sums = ReadingSums(readings, 14.1 * readings, 4.1 * readings, 16.81 * readings, 4.1, 14.1, 14.1)
    return OpenFault(START + start * HOUR, readings, confidence, {"offset": readings}, sums=sums)


def hours(alerts: Alerts, *verdicts: tuple[int, dict[str, OpenFault]]) -> list[tuple[int, Alert]]:
    """Take in verdicts at the ends of hours; return what was raised, and at which hour."""
    raised = []
    for hour, faults in verdicts:
        named = {(sensor, ""): fault for sensor, fault in faults.items()}
        verdict = PeriodVerdict(named, frozenset(named))
        alerts_now = one_per_incident(alerts.apply_verdict(verdict, START + hour * HOUR, HOUR), 2 * HOUR)
        raised += [(hour, alert) for alert in alerts_now]
    return raised


def test_a_sure_fault_is_reported_when_it_has_stood_for_three_readings_and_an_hour() -> None:
    alerts = Alerts()
    ((hour, alert),) = hours(alerts, *((2 + n, {"S1": sure(2, n)}) for n in range(1, 9)))
    assert hour == 5
    assert (alert.before, alert.state, alert.reason, alert.since) == ("healthy", "faulty", "offset", START + 2 * HOUR)
    assert state(alerts) == "faulty"
    assert hours(Alerts(), *((2 + n, {"S1": sure(2, n, 0.94)}) for n in range(1, 20))) == [], "a doubtful one waits"
    ((hour, _),) = hours(Alerts(min_duration=6 * HOUR), *((2 + n, {"S1": sure(2, n)}) for n in range(1, 9)))
    assert hour == 8
    ((hour, _),) = hours(Alerts(min_readings=7), *((2 + n, {"S1": sure(2, n)}) for n in range(1, 9)))
    assert hour == 9


def test_a_fault_that_turns_out_to_be_none_is_taken_back_once_in_words() -> None:
    alerts = Alerts()
    assert len(hours(alerts, (6, {"S1": sure(2, 4)}))) == 1
    ((_, alert),) = days(alerts, "good")
    assert (alert.before, alert.state, alert.reason) == ("faulty", "healthy", WITHDRAWN)
    assert alert.sentence == (
        "False alarm withdrawn: S1 was fine; with the readings of the whole period there is no fault since "
        "2024-05-01 02:00 (offset)"
    )
    assert state(alerts) == "healthy"
    assert days(alerts, "good", "good", "good", first=1) == []


def test_nothing_is_taken_back_while_it_is_doubtful() -> None:
    alerts, questionable = Alerts(), frozenset({("S1", "")})
    assert len(hours(alerts, (22, {"S1": sure(18, 4)}))) == 1
    assert close(alerts, a_day("suspect"), START, questionable) == []
    assert hours(alerts, (28, {"S1": sure(18, 10)})) == [], "it is the one that was raised"
    assert close(alerts, a_day("offset"), START + DAY, questionable) == []
    assert [alert.state for _, alert in days(alerts, "good", "good", first=2)] == ["healthy"]


def test_a_fault_that_is_one_in_the_end_stays_until_it_is_over() -> None:
    alerts = Alerts()
    assert len(hours(alerts, (6, {"S1": sure(2, 4)}))) == 1
    assert days(alerts, "offset", wrong=4) == [], "a few wrong hours are what was raised"
    assert state(alerts) == "faulty"
    raised = days(alerts, "good", "good", first=1)
    assert [(day, alert.state, alert.reason) for day, alert in raised] == [(2, "healthy", "")]


def test_sensors_that_fail_together_are_one_alert_that_names_them() -> None:
    raised = hours(
        Alerts(),
        (5, {"S1": sure(2, 3), "S2": sure(3, 2), "S3": sure(2, 3), "S9": sure(4, 1)}),
        (6, {"S1": sure(2, 4), "S2": sure(3, 3), "S3": sure(2, 4)}),
    )
    ((_, alert),) = raised
    assert alert.sensors == ("S1", "S2", "S3")
    assert alert.sentence == "S1, S2 and S3 turned faulty together, since 2024-05-01 02:00 (offset)"


def test_variables_of_a_device_that_fail_together_are_one_incident_of_the_device() -> None:
    named = {("S1", "ph"): sure(2, 3), ("S1", "temp"): sure(3, 3)}
    verdict = PeriodVerdict(named, frozenset(named))
    (alert,) = one_per_incident(Alerts().apply_verdict(verdict, START + 7 * HOUR, HOUR), 2 * HOUR)
    assert (alert.sensor, alert.variable, alert.sensors) == ("S1", "", ("S1",))
    assert [channel.variable for channel in alert.channels] == ["ph", "temp"]
    assert alert.sentence == "ph and temp of S1 turned faulty together, since 2024-05-01 02:00 (offset)"
    assert find_advice(alert) == DEVICE_ADVICE
    assert find_advice(replace(alert, channels=alert.channels[:1])) == ADVICE["offset"]


def test_sensors_that_fall_silent_together_are_one_alert_that_names_them() -> None:
    town = Town(*"ABCDE")
    # What is usual differs: E reports every four hours.
    for day in range(8):
        for hour in range(24):
            town.hour = 24 * day + hour
            now = town.names if hour % 4 == 0 else town.names[:4]
            readings = [town.names.index(name) for name in now]
            sensor, none = np.array(readings), np.zeros(len(readings), np.int64)
            time, value = np.full(sensor.size, START + town.hour * HOUR), np.ones(sensor.size)
            part = Readings(town.names, ("",), sensor, none, time, value)
            town.monitor.record(part)
            town.monitor.learn(part)
            raised = town.monitor.check_silence(START + (town.hour + 1) * HOUR, town.maintenance)
            assert raised == [] or day < 5, "until then it is not known"
    town.hour += 1
    raised = town.live(1, "A", "E")
    (alert,) = raised
    assert (alert.state, alert.sensors) == ("silent", ("B", "C", "D"))
    assert alert.sentence == "B, C and D turned silent together: no reading since 2024-05-08 23:00"
    assert town.counts["silent"] == 3


def test_one_that_comes_back_wrong_is_not_well() -> None:
    alerts = Alerts()
    assert [alert.state for alert in ask(alerts, True, 0, 4)] == ["silent"]
    raised: list[Alert] = []
    for hour in range(30, 100):
        raised += ask(alerts, False, hour, hour + 1)
        raised += [alert for _, alert in hours(alerts, (hour + 1, {"S1": sure(30, hour - 29, 0.5 + hour / 70)}))]
        assert state(alerts) in ("silent", "suspect", "faulty")
    (alert,) = raised
    assert (alert.before, alert.state) == ("silent", "faulty")
    assert alert.sentence.startswith("S1 reports again, but is faulty")


def test_every_channel_has_one_state_at_a_time() -> None:
    names = [(f"S{number}", "") for number in range(1, 8)]
    last, alerts = [START + DAY] * 7, Alerts(after=1)
    close(alerts, a_day("good", "offset", "good", "offset", "suspect", "good", "good"), START, frozenset({("S5", "")}))
    check(alerts, names, [False] * 5 + [True, True], last, START + DAY, gone=[False] * 7)
    check(alerts, names, [False] * 5 + [True, True], last, START + DAY + HOUR, gone=[False] * 6 + [True])
    close(alerts, a_day("good", "offset", "unknown", "good", "suspect", "good", "good"), START + DAY)
    judged = np.array([True, True, False, True, True, True, True])
    entries = alerts.health(names, np.array(last), np.zeros(7, bool), judged)
    assert [entry.state for entry in entries] == [
        "healthy", "faulty", "learning", "recovering", "healthy", "silent", "ended",
    ]  # fmt: skip
    close(alerts, a_day(*["good"] * 7), START + 2 * DAY, frozenset({("S1", "")}))
    assert STATES[alerts.states(names, judged)[0]] == "suspect"
    states = health(alerts, names, last)
    assert [states[place].since for place in (0, 3)] == [START + 3 * DAY, START + DAY], "doubtful; sound after a fault"


def test_a_fault_that_turns_doubtful_is_suspect_and_not_well() -> None:
    alerts = Alerts()
    assert [alert.state for _, alert in days(alerts, "offset", "offset")] == ["faulty"]
    assert days(alerts, "suspect", "suspect", "suspect", "suspect", first=2) == []
    assert state(alerts) == "suspect"
    assert [alert.state for _, alert in days(alerts, "good", "good", first=6)] == ["healthy"]


def test_the_monitor_counts_sensors_by_the_worst_of_their_variables() -> None:
    variables = ("pm", "temp")
    monitor = ChannelMonitor(GRID, 5 * DAY, NameIndex("AB"), NameIndex(variables), Alerts(after=1), {})
    codes = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    readings = Readings(("A", "B"), variables, *codes, np.full(4, START), np.ones(4))
    monitor.record(readings)
    monitor.check_silence(START + HOUR, Maintenance())
    assert monitor.counts["learning"] == 2
    rows = a_day("good", "offset", "good", "unknown", names="AB", variables=variables)
    empty = np.zeros(0)
    monitor.close(CleanedPeriod(START // DAY, rows, empty, empty, empty))
    assert {state: count for state, count in monitor.counts.items() if count} == {"faulty": 1, "learning": 1}


def test_a_short_fault_ends_with_its_last_wrong_reading() -> None:
    alerts = Alerts()
    assert len(hours(alerts, (4, {"S1": sure(0, 2)}), (5, {"S1": sure(0, 4)}))) == 1
    assert days(alerts, "offset", wrong=4) == []
    ((_, alert),) = days(alerts, "good", "good", first=1)
    assert (alert.since, alert.at) == (START + 4 * HOUR, START + 3 * DAY)
    assert "after 4 hours of a fault (offset)" in alert.sentence


def test_a_run_of_short_faults_is_one_incident_that_says_how_often() -> None:
    alerts = Alerts()

    def raised(first: int, *numbers: int | None) -> list[Alert]:
        """Let S1 have a short fault with this number, or none, on one day after the other."""
        alerted = []
        for day, number in enumerate(numbers, start=first):
            name = ("S1", "")
            verdict = PeriodVerdict()
            if number is not None:
                verdict = PeriodVerdict({name: sure(24 * day, 6)}, frozenset(), {name: [number]})
            rows = a_day("good" if number is None else "offset", wrong=6)
            alerted += alerts.close_period(rows, GRID, START + day * DAY, verdict)
        return alerted

    first, healthy = raised(0, 7, 8, None, 9, 9, None, None)
    assert (first.state, healthy.state) == ("faulty", "healthy")
    assert healthy.sentence.endswith("after 3 faults in 4.2 days (offset)")
    (again,) = raised(8, 12)
    assert "it comes and goes (4 faults since 2024-05-01 00:00)" in again.sentence
    *_, over = raised(9, *[None] * 7)
    assert over.sentence.endswith("after 4 faults in 8.2 days (offset)"), "of all its relapses"


def test_all_alerts_of_an_incident_have_its_id() -> None:
    town = Town("A", "B", "C")
    town.live(6, "A", "B", "C")
    (silent,) = town.live(1, "A")
    assert [(entry.sensor, entry.since) for entry in silent.channels] == [(name, silent.since) for name in "BC"]
    town.restart()
    (first,) = town.live(3, "A", "B")
    assert (first.sensors, first.state, first.id) == (("B",), "healthy", silent.id)
    (second,) = town.live(5, "A", "B", "C")
    assert (second.sensors, second.id) == (("C",), silent.id)
    (again,) = town.live(1, "B", "C")
    assert again.id not in ("", silent.id)
