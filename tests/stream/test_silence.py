from time import perf_counter

import numpy as np
import pytest
from numpy.typing import NDArray

from sensormend.errors import StateError
from sensormend.pipeline.cleaner import NEVER
from sensormend.readings import DAY, HOUR, MINUTE
from sensormend.stream.monitor import REMEMBERED_PERIODS, Silence

Times = NDArray[np.int64]
START = 20_000 * DAY


def channels(count: int, channel: int = 0) -> Times:
    return np.full(count, channel, dtype=np.int64)


def live(silence: Silence, sent: list[Times], days: int) -> NDArray[np.int64]:
    """Let sensors send, ask every hour, close every day; return how often each was reported."""
    reports = np.zeros(len(sent), dtype=np.int64)
    before = np.zeros(len(sent), dtype=bool)
    channel = np.repeat(np.arange(len(sent)), [times.size for times in sent])
    time = np.concatenate(sent)
    order = np.argsort(time, kind="stable")
    channel, time = channel[order], time[order]
    for now in range(START + HOUR, START + days * DAY + 1, HOUR):
        came = slice(*np.searchsorted(time, [now - HOUR, now]))
        silence.record(channel[came], time[came])
        if now % DAY == 0:
            day = slice(*np.searchsorted(time, [now - DAY, now]))
            silence.close(channel[day], time[day])
        silent = np.append(silence.check(now), np.zeros(len(sent) - len(silence), dtype=bool))
        reports += silent & ~before
        before = silent
    return reports


def hourly(days: int, lost: float = 0.0, seed: int = 0) -> Times:
    time = START + HOUR * np.arange(24 * days, dtype=np.int64)
    return time[np.random.default_rng(seed).random(time.size) >= lost]


def test_each_sensor_has_its_own_idea_of_silence() -> None:
    random = np.random.default_rng(1)
    daily = START + DAY * np.arange(80, dtype=np.int64) + 9 * HOUR + random.integers(0, HOUR, 80)
    bursts = (START + 8 * HOUR * np.arange(240)[:, None] + 5 * MINUTE * np.arange(12)).ravel().astype(np.int64)
    silence = Silence(HOUR, DAY, 30 * DAY)
    reports = live(silence, [hourly(80), hourly(80, 0.3), daily, bursts], 80)
    assert reports.tolist() == [0, 0, 0, 0]
    usual = silence.usual / HOUR
    assert usual[0] == 1
    assert 3 <= usual[1] <= 6
    assert 23 <= usual[2] <= 25
    assert 7 <= usual[3] <= 8
    end = START + 80 * DAY
    result = [next(hour for hour in range(200) if silence.check(end + hour * HOUR)[channel]) for channel in range(4)]
    assert result[0] == 3
    assert 8 <= result[1] <= 16
    assert 30 <= result[2] <= 40, "49 hours after its reading at nine"
    assert 8 <= result[3] <= 11


def test_outages_on_a_few_days_do_not_make_the_next_one_usual() -> None:
    time = hourly(40)
    for day in (20, 25, 30, 35):
        time = time[(time < START + day * DAY) | (time >= START + day * DAY + 30 * HOUR)]
    silence = Silence(HOUR, DAY, 30 * DAY)
    assert live(silence, [time], 40)[0] == 4
    assert silence.usual[0] == HOUR


def test_a_logger_that_sends_what_it_has_every_six_hours_is_not_silent_in_between() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    reports, before = 0, False
    for hour in range(1, 24 * 40 + 1):
        now = START + hour * HOUR
        if hour % 6 == 0:
            silence.record(channels(6), now - HOUR * np.arange(1, 7))
        if hour % 24 == 0:
            silence.close(channels(24), now - HOUR * np.arange(1, 25))
        (silent,) = silence.check(now) if len(silence) else (False,)
        reports += bool(silent and not before and hour > 24 * 5)
        before = bool(silent)
    assert reports == 0
    assert silence.usual[0] >= 6 * HOUR


def test_before_it_is_known_a_sensor_is_as_the_others_are() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    silence.record(channels(1), np.array([START]))
    assert not silence.check(START + 2 * DAY).any(), "nothing is known of anybody"
    assert silence.check(START + 2 * DAY + 2 * HOUR).all()
    silence = Silence(HOUR, DAY, 30 * DAY)
    live(silence, [hourly(10)], 10)
    silence.record(channels(1, 2), np.array([START + 10 * DAY]))
    assert silence.check(START + 10 * DAY + 3 * HOUR).tolist() == [True, False, False]
    assert silence.check(START + 10 * DAY + 4 * HOUR).tolist() == [True, False, True], "channel 1 was never heard"
    assert silence.last[1] == NEVER


def test_the_gone_stay_silent_until_they_are_heard() -> None:
    silence = Silence(HOUR, DAY, 5 * DAY)
    live(silence, [hourly(10)], 10)
    last = int(silence.last[0])
    assert silence.check(last + 5 * DAY).all()
    assert not silence.gone(last + 5 * DAY).any()
    assert silence.gone(last + 5 * DAY + 1).all()
    assert silence.check(START + 400 * DAY).all()
    silence.record(channels(1, 2), np.array([START + 400 * DAY]))
    assert silence.gone(START + 400 * DAY).tolist() == [True, False, False], "channel 1 was never heard"
    silence.record(channels(1), np.array([START + 400 * DAY]))
    assert not silence.check(START + 400 * DAY).any()
    assert not silence.gone(START + 400 * DAY).any()


def test_no_silence_of_gone_after_is_usual() -> None:
    weekly = START + 7 * DAY * np.arange(12, dtype=np.int64)
    silence = Silence(HOUR, DAY, 10 * DAY)
    live(silence, [weekly], 84)
    last = int(weekly[-1])
    assert not silence.check(last + 10 * DAY).any()
    assert silence.check(last + 10 * DAY + 1).all()


def test_a_clock_in_the_future_does_not_hide_a_silence() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    live(silence, [hourly(10)], 10)
    now = START + 10 * DAY
    silence.record(channels(1), np.array([now + 20 * DAY]))
    assert not silence.check(now).any()
    assert not silence.check(now + 3 * HOUR).any()
    assert silence.check(now + 5 * HOUR).all()
    silence.record(channels(1), np.array([now + 5 * HOUR]))
    assert not silence.check(now + 6 * HOUR).any(), "its right readings count again"


def test_a_check_of_the_future_changes_nothing() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    live(silence, [hourly(10)], 10)
    before = silence.state()[1]
    assert silence.is_silent(START + 12 * DAY).all()
    for name, array in silence.state()[1].items():
        np.testing.assert_array_equal(array, before[name])


def test_order_and_repetition_do_not_matter() -> None:
    random = np.random.default_rng(3)
    sent = [hourly(6, 0.2, seed) for seed in range(5)]
    channel = np.repeat(np.arange(5), [times.size for times in sent])
    time = np.concatenate(sent)
    states = []
    for shuffle in (False, True):
        silence = Silence(HOUR, DAY, 30 * DAY)
        for day in range(6):
            mine = np.flatnonzero((time - START) // DAY == day)
            mine = random.permutation(np.repeat(mine, 2)) if shuffle else mine
            silence.record(channel[mine], time[mine])
            silence.close(channel[mine], time[mine])
        states.append(silence.state()[1])
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])


def test_it_goes_on_as_if_it_had_never_stopped() -> None:
    sent = [hourly(60, 0.3, seed) for seed in range(4)]
    whole = Silence(HOUR, DAY, 30 * DAY)
    live(whole, sent, 60)
    first, second = Silence(HOUR, DAY, 30 * DAY), Silence(HOUR, DAY, 30 * DAY)
    live(first, [times[times < START + 30 * DAY] for times in sent], 30)
    second.restore(*first.state())
    channel, time = np.repeat(np.arange(4), [t.size for t in sent]), np.concatenate(sent)
    for now in range(START + 30 * DAY + HOUR, START + 60 * DAY + 1, HOUR):
        came = (time >= now - HOUR) & (time < now)
        second.record(channel[came], time[came])
        if now % DAY == 0:
            day = (time >= now - DAY) & (time < now)
            second.close(channel[day], time[day])
        second.check(now)
    for name, array in whole.state()[1].items():
        np.testing.assert_array_equal(array, second.state()[1][name], err_msg=name)
    assert whole.state()[1]["history"].shape == (4, REMEMBERED_PERIODS), "what is remembered does not grow"
    with pytest.raises(StateError, match="another grid"):
        Silence(MINUTE, DAY, 30 * DAY).restore(*first.state())


def test_a_hundred_thousand_channels_are_asked_in_no_time() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    every = np.arange(100_000)
    for day in range(4):
        silence.record(every, np.full(every.size, START + day * DAY))
        silence.close(every, np.full(every.size, START + day * DAY))
    took = []
    for hour in range(5):
        began = perf_counter()
        silence.check(START + 4 * DAY + hour * HOUR)
        took.append(perf_counter() - began)
    assert min(took) < 0.01


def test_nothing_changes_nothing() -> None:
    silence = Silence(HOUR, DAY, 30 * DAY)
    silence.record(channels(0), channels(0))
    silence.close(channels(0), channels(0))
    assert silence.check(START).tolist() == []
