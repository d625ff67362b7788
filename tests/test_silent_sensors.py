"""Rows without a number are silence; a sensor that leaves a live network is on the repair list until it is removed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars
import pytest

from list_source import hourly, run_service
from sensormend import clean
from sensormend.cli import main
from sensormend.io.folder import Archive
from sensormend.readings import DAY, HOUR, Readings
from sensormend.simulate.network import city
from sensormend.stream.deliveries import Alert
from sensormend.stream.stream import AlertsRaised
from sensormend.views.fault_list import fault_page
from sensormend.views.overview import network_overview
from sensormend.views.reader import OutReader
from sensormend.views.sensors import sensor_view
from simulated_city import START, tensor_readings

SENSORS, DAYS = 12, 20


def with_empty_values() -> Readings:
    """Return a city in which two sensors never send a number, and one none from day 12 on; all of them send rows."""
    healthy = tensor_readings(city(SENSORS, DAYS, seed=6, faults=False).truth)
    value = healthy.value.copy()
    value[healthy.sensor < 2] = np.nan
    value[(healthy.sensor == 2) & (healthy.time >= START + 12 * DAY)] = -999.0
    return Readings(healthy.sensors, healthy.variables, healthy.sensor, healthy.variable, healthy.time, value)


def written(path: Path, readings: Readings) -> Path:
    times = readings.time.astype("datetime64[us]").astype("datetime64[s]")
    lines = [
        f"{readings.sensors[row]},{time},{'' if math.isnan(value) else value}\n"
        for row, time, value in zip(readings.sensor.tolist(), times, readings.value.tolist(), strict=True)
    ]
    path.write_text("sensor,time,value\n" + "".join(lines))
    return path


def test_clean_reports_rows_without_a_number_as_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, file = tmp_path / "out", written(tmp_path / "readings.csv", with_empty_values())
    grid = ["--step", "1h", "--period", "1d", "--fill", "-999"]
    assert main(["clean", str(file), str(out), *grid]) == 0
    summary = " ".join(capsys.readouterr().out.split())
    assert summary.startswith("All readings were judged; from 2 of 12 sensors no number came.")
    silent = {fault.sensor: fault for fault in Archive(out).faults()}
    assert {name: fault.reason for name, fault in silent.items()} == {"s00": "silent", "s01": "silent", "s02": "fill"}
    assert (silent["s00"].start, silent["s00"].end) == (START, START + DAYS * DAY)
    assert (silent["s02"].start, silent["s02"].end) == (START + 12 * DAY, START + DAYS * DAY)
    rows = Archive(out).rows("s00")
    assert len(rows) == 24 * DAYS
    with OutReader(out) as reader:
        page = network_overview(reader)
        assert page.sentence.startswith(summary.split(" There are ")[0])
        assert page.states["silent"] == 3
        assert sensor_view(reader, "s00").state == "silent"
    assert main(["report", str(out)]) == 0
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "from 2 of 12 sensors no number came. 9 of 12 sensors are healthy. 3 are silent." in text


def test_a_frame_without_numbers_is_silent() -> None:
    readings = with_empty_values()
    frame = polars.DataFrame(
        {
            "sensor": [readings.sensors[row] for row in readings.sensor],
            "time": readings.time.astype("datetime64[us]"),
            "value": readings.value,
        }
    )
    result = clean(frame, step="1h", period="1d", fill=[-999.0])
    rows = result.data.filter(polars.col("sensor") == "s01")
    assert set(rows["reason"]) == {"silent"}
    reasons = dict(result.faults.select("sensor", "reason").iter_rows())
    assert reasons == {"s00": "silent", "s01": "silent", "s02": "fill"}


def test_watch_reports_rows_without_a_number_as_silence(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    service = run_service(
        tmp_path / "out",
        hourly(with_empty_values()),
        lambda event: alerts.extend(event.alerts if isinstance(event, AlertsRaised) else ()),
        fill=[-999.0],
    )
    assert service.status().silent == 3
    silent = [alert for alert in alerts if alert.state == "silent"]
    assert {name for alert in silent for name in alert.sensors} == {"s00", "s01", "s02"}
    (last,) = (alert for alert in silent if "s02" in alert.sensors)
    assert (last.since, last.sensors) == (START + 12 * DAY - HOUR, ("s02",))
    assert last.at <= START + 12 * DAY + 5 * HOUR
    assert {fault.sensor: fault.reason for fault in Archive(tmp_path / "out").faults()} == {
        "s00": "silent", "s01": "silent", "s02": "fill",
    }  # fmt: skip
    with OutReader(tmp_path / "out") as reader:
        assert network_overview(reader).states["silent"] == 3


def leaving(path: Path) -> Path:
    """Write a city of 15 days that one sensor leaves on day 5."""
    readings = tensor_readings(city(SENSORS, 15, seed=6, faults=False).truth)
    return written(path, readings.taken((readings.sensor != 3) | (readings.time < START + 5 * DAY)))


def test_in_an_archive_a_series_that_ends_has_ended(tmp_path: Path) -> None:
    file, out = leaving(tmp_path / "readings.csv"), tmp_path / "out"
    assert main(["clean", str(file), str(out), "--step", "1h", "--period", "1d"]) == 0
    with OutReader(out) as reader:
        one = sensor_view(reader, "s03")
        assert (one.state, one.heard) == ("ended", "2020-01-05T23:00:00Z")
        assert fault_page(reader, sensor="s03", state="open").items == []
        assert network_overview(reader).states["ended"] == 1
        assert not [fault for fault in reader.faults if fault.sensor == "s03"]
    rows = Archive(out).rows("s03")
    assert rows.time.max() == START + 5 * DAY - HOUR


def test_a_sensor_that_is_gone_stays_on_the_list_until_it_is_removed(tmp_path: Path) -> None:
    file, out = leaving(tmp_path / "readings.csv"), tmp_path / "out"
    arguments = ["--step", "1h", "--period", "1d", "--gone-after", "4d", "--metrics", "off"]
    source = f"replay:{file}"
    assert main(["watch", source, str(out), *arguments]) == 0
    with OutReader(out) as reader:
        one = sensor_view(reader, "s03")
        assert one.heard == "2020-01-05T23:00:00Z"
        value = next(entry.last_value for entry in reader.summaries if entry.sensor == "s03")
        assert math.isfinite(value)
        listed = fault_page(reader, sensor="s03", state="open").items
        assert (one.state, [entry.reason for entry in listed]) == ("ended", ["silent"])
        assert f"its last reading was at 2020-01-05 23:00, when it read {value:.3g}" in listed[0].sentence
        assert network_overview(reader).states[one.state] == 1
    health = json.loads((out / "state" / "alerts.json").read_text())["sensors"]
    assert [one["state"] for one in health if one["sensor"] == "s03"] == ["ended"]
    notes = tmp_path / "maintenance.csv"
    notes.write_text("sensor,from,to,action\ns03,2020-01-06,,removed\n")
    out = tmp_path / "again"
    assert main(["watch", source, str(out), *arguments, "--maintenance", str(notes)]) == 0
    with OutReader(out) as reader:
        assert sensor_view(reader, "s03").state == "ended"
        assert fault_page(reader, sensor="s03", state="open").items == []
        assert network_overview(reader).states["ended"] == 1
        assert not [fault for fault in reader.faults if fault.sensor == "s03" and fault.reason == "silent"]
