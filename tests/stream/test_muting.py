"""Alerts of muted channels are held back; those of what lasts are raised when the mute ends."""

import numpy as np

from list_source import hourly
from sensormend.pipeline.maintenance import EVER, Maintenance, Note
from sensormend.pipeline.options import Options
from sensormend.readings import DAY, HOUR, SECOND
from sensormend.simulate.network import city
from sensormend.stream.alerts import Muting
from sensormend.stream.arrivals import Arrived
from sensormend.stream.deliveries import Alert, AlertedChannel
from sensormend.stream.stream import AlertsRaised, Stream
from simulated_city import START, tensor_readings

UNTIL = 24 * HOUR
NOTES = Maintenance((Note("S4", -EVER, UNTIL, "muted"), Note("S5", 0, UNTIL, "muted", "temp")))


def alert(sensor: str, state: str = "faulty", at: int = HOUR, incident: str = "", variable: str = "temp") -> Alert:
    before = "healthy" if state != "healthy" else "faulty"
    return Alert(sensor, variable, before, state, "offset", at, at, f"{sensor} is {state}.", incident or f"{sensor}-1")


def test_only_alerts_of_muted_channels_are_held_back() -> None:
    muting = Muting()
    loud = [alert("S6"), alert("S5", variable="rh"), alert("S4", at=UNTIL), alert("S6", "healthy", incident="S6-0")]
    assert muting.raised([alert("S4"), *loud[:2], alert("S5"), *loud[2:]], NOTES) == loud
    assert muting.released(UNTIL - 1, NOTES) == []


def test_what_lasts_is_raised_when_the_mute_ends_once() -> None:
    muting = Muting()
    held = alert("S4")
    assert muting.raised([held], NOTES) == []
    again = Muting()
    again.restore(muting.state())
    assert again.released(UNTIL, NOTES) == [held]
    assert again.released(UNTIL, NOTES) == []
    assert again.raised([alert("S4", "healthy", UNTIL + HOUR)], NOTES) != [], "its end is heard of too"


def test_what_is_over_by_then_is_never_heard_of() -> None:
    muting = Muting()
    assert muting.raised([alert("S4")], NOTES) == []
    assert muting.raised([alert("S4", "healthy", 5 * HOUR)], NOTES) == []
    assert muting.released(UNTIL, NOTES) == []


def test_the_note_can_be_taken_back() -> None:
    muting = Muting()
    held = alert("S4")
    muting.raised([held], NOTES)
    assert muting.released(2 * HOUR, Maintenance()) == [held]


def test_the_end_of_what_was_reported_before_is_heard_of_in_a_mute() -> None:
    over = alert("S4", "healthy")
    assert Muting().raised([over], NOTES) == [over]


def test_an_incident_of_several_sensors_is_held_back_only_where_all_are_muted() -> None:
    channels = tuple(AlertedChannel(name, "temp", "offset", HOUR) for name in ("S4", "S6"))
    both = Alert("S4", "", "healthy", "faulty", "offset", HOUR, HOUR, "two", "x", channels)
    assert Muting().raised([both], NOTES) == [both]


def test_a_stream_reports_a_muted_fault_when_the_mute_ends_unless_it_is_over() -> None:
    readings = city(8, 30, seed=4, faults=False).truth.copy()
    line = np.moveaxis(readings, 1, 2).reshape(8, -1)
    line[2, 20 * 24 :] = 44.0
    line[5, 21 * 24 : 21 * 24 + 30] = 44.0
    line[6, 22 * 24 :] = 44.0
    readings = np.moveaxis(line.reshape(8, -1, 24), 1, 2)
    until = START + 26 * DAY
    notes = Maintenance(tuple(Note(name, -EVER, until, "muted") for name in ("s02", "s05")))
    stream = Stream(Options.of(step="1h", period="1d"))
    stream.set_maintenance(notes)
    raised: list[Alert] = []
    for number, part in enumerate(hourly(tensor_readings(readings))):
        if number == 24 * 24:
            assert [entry[0] for entry in stream.state()[0]["muted"]] == ["s02", "s05"], "kept over a restart"
        events = stream.take(Arrived(part, int(part.time.max()) + SECOND))
        raised += [one for event in events if isinstance(event, AlertsRaised) for one in event.alerts]
    first = {alert.sensors: alert for alert in raised if alert.state == "faulty"}
    assert START + 22 * DAY < first["s06",].at < START + 23 * DAY
    assert not [alert for alert in raised if "s05" in alert.sensors]
    late = [alert for alert in raised if "s02" in alert.sensors]
    assert [alert.state for alert in late] == ["faulty"]
    assert late[0].since < START + 21 * DAY, "the fault has the start that it had"
    assert raised.index(late[0]) > raised.index(first["s06",])
