from pathlib import Path

import numpy as np
import pytest

from sensormend.errors import ConfigError
from sensormend.pipeline.places import MOVED, Places, Position
from sensormend.readings import DAY, HOUR, Readings


def test_distances_are_metres_also_across_the_date_line() -> None:
    west = Position("a", 0, 0.0, 179.999)
    assert Position("a", 0, 0.0, -179.999).metres_from(west) == pytest.approx(222.4, rel=0.01)
    assert Position("a", 0, 60.0, 10.001).metres_from(Position("a", 0, 60.0, 10.0)) == pytest.approx(55.6, rel=0.01)


def test_a_sensor_that_wanders_a_little_stays_and_one_that_moves_is_a_new_one() -> None:
    places = Places.of(
        [
            Position("a", 0, 41.0, -111.0),
            Position("a", DAY, 41.0004, -111.0),
            Position("a", 2 * DAY, 41.01, -111.0),
            Position("a", 3 * DAY, 41.0, -111.0),
            Position("b", 0, 41.5, -111.0),
            Position("c", 0, 0.0, 999.0),
        ]
    )
    assert places.moved == ["a"]
    assert places.stays["a"] == [(0, "a"), (2 * DAY, "a@2"), (3 * DAY, "a")]
    assert set(places.coordinates) == {"a", "a@2", "b"}
    assert MOVED > 44


def test_a_receiver_without_a_fix_moves_no_sensor() -> None:
    course = [Position("a", 0, 50.0, 10.0)]
    for day in range(1, 20):
        wrong = (0.0, 0.0) if day % 2 else (53.0, 12.0)
        course += [Position("a", day * DAY, *wrong), Position("a", day * DAY + HOUR, 50.0, 10.0)]
    places = Places.of(course)
    assert not places.moved
    assert places.coordinates == {"a": (50.0, 10.0)}


def test_the_name_of_another_sensor_is_not_taken() -> None:
    moves = [Position("a", 0, 41.0, -111.0), Position("a", 5 * DAY, 42.0, -111.0)]
    assert Places.of(moves, ["a", "a@2"]).stays["a"][1][1] == "a@3"


def test_readings_go_to_what_the_sensor_became() -> None:
    places = Places.of([Position("a", 0, 41.0, -111.0), Position("a", 5, 42.0, -111.0)])
    sensor = np.array([0, 1, 0, 1])
    readings = Readings(("a", "b"), ("",), sensor, sensor * 0, np.array([4, 4, 5, 6]), np.ones(4))
    settled = places.rename_moved(readings)
    assert [settled.sensors[code] for code in settled.sensor] == ["a", "b", "a@2", "b"]
    assert settled.sensors is places.rename_moved(readings).sensors, (
        "names are the same object, so that nobody maps them anew"
    )
    assert Places().rename_moved(readings) is readings


def test_coordinates_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    path.write_text("Station,Lat,Lon,from\na,41.0,-111.0,\na,42.0,-111.0,2020-01-01\n")
    assert list(Places.read(path).coordinates) == ["a", "a@2"]
    path.write_text("sensor,latitude,longitude\na,north,-111.0\n")
    with pytest.raises(ConfigError, match=r"places\.csv, row 2: latitude and longitude are degrees; got 'north'"):
        Places.read(path)
    path.write_text("sensor,x,y\n")
    with pytest.raises(ConfigError, match="latitude and longitude are lacking"):
        Places.read(path)
