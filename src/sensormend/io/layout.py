"""Which column of a table is what: found by names and kinds, or as the user says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sensormend.errors import ConfigError
from sensormend.io.times import time_format
from sensormend.options import Options

__all__ = ["MISSING", "Kind", "Layout", "any_known", "called", "kind_of", "recognise"]

Kind = Literal["time", "clock", "number", "text", "other"]
"""What a column holds; `clock` is the hour beside a date, `other` what can be none of them, or nothing at all."""

MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "nd", "missing", "-", "--", "---", ".", "?", "#n/a", "\\n")
"""What people write where there is no number; in small letters."""

# In the order of preference: the first that a table has is taken. "id" and "name" are last since they may be a row's.
_NAMES = {
    "time": """time timestamp datetime dateandtime datetimeutc timestamputc timeutc utctime utcdatetime utctimestamp
        utc dateutc ts observedat recordedat measuredat sampledat receivedat createdat observationtime obstime
        obsdatetime sampletime samplingtime measurementtime eventtime phenomenontime resulttime validtime valid when
        unixtime unix epoch localtime datetimelocal timelocal dtm zeit zeitpunkt zeitstempel datumzeit datum uhrzeit
        fechahora fecha tiempo hora horodatage dateheure tijdstip tijd dataora date day""",
    "sensor": """sensor sensorid sensorname sensorcode sensornumber station stationid stationname stationcode stationno
        stid site siteid sitename sitecode siteno node nodeid nodename device deviceid devicename deveui mote moteid
        logger loggerid location locationid locationname locationcode platform platformid platformcode instrument
        instrumentid thing thingid gauge gaugeid buoy buoyid well wellid wmo wmoid wigosid usaf icao stn stnid
        serial serialnumber messstelle standort estacion estacao stazione capteur meetpunt code name id""",
    "value": """value values reading measurement measuredvalue measurementvalue observation observedvalue obs val
        rawvalue valueraw datavalue resultvalue result sensorvalue raw wert messwert valor valeur valore waarde data""",
    "variable": """variable variablename variablecode var parameter parametername parametercode param quantity property
        observedproperty measurand metric datatype element pollutant phenomenon channel type kind""",
    "latitude": "latitude lat latdeg latitudedeg breite latitud",
    "longitude": "longitude lon long lng londeg longitudedeg laenge longitud",
}
_KNOWN = {role: tuple(names.split()) for role, names in _NAMES.items()}
# Numbers that are no readings, where the columns of values have to be guessed.
_ASIDE = re.compile(
    r"(^|[^a-z])(qc|qual|quality|flags?|status|cor|corr|corrected|index|row|rownum|rownumber|elev|elevation|alt|altitude|"
    r"year|month|day|hour|minute|second|doy|unnamed|record|recno|objectid|fid)($|[^a-z])"
)
# Of one site rather than the names of several; with numbers or units behind them too.
_QUANTITIES = re.compile(
    r"(air|water|soil|mean|avg|max|min|sea|surface)?_?(temp|temperature|t2m|humidity|hum|rh|pressure|press|pres|wind|"
    r"windspeed|winddir|gust|rain|rainfall|precip|precipitation|snow|radiation|solar|par|co2?|no2?|nox|so2|o3|ozone|"
    r"pm1|pm10|pm25|pm2_5|pm2|voc|ph|do|oxygen|dissolved|cond|conductivity|ec|salinity|turb|turbidity|stage|level|"
    r"depth|flow|discharge|orp|chl|chlorophyll|nitrate|noise|voltage|volt|battery|current|power|dewpoint|dew|vis|visibility|"
    r"light|lux|moisture)([^a-z].*)?"
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s?[AaPp][Mm])?")


@dataclass(frozen=True)
class Layout:
    """How a table is to be read.

    Attributes
    ----------
    time
        The column of times.
    clock
        The column with the hour, where `time` has the date only and this one the rest.
    sensor
        The column that says whose reading it is; None where each sensor has a column, or the file's name says it.
    across
        What the names of `columns` are: `value` for a long table's one, `variable` or `sensor` for a wide one's.
    columns
        The columns with the readings.
    variable
        The column that says of what a reading is; only beside one of `across="value"`.
    latitude, longitude
        The columns of the sensor's place.
    network
        The column that says which network a reading is from, where they are to be kept apart.
    """

    time: str
    sensor: str | None
    across: Literal["value", "variable", "sensor"]
    columns: tuple[str, ...]
    variable: str | None = None
    latitude: str | None = None
    longitude: str | None = None
    clock: str | None = None
    network: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """Return every column that is read, each once."""
        beside = (self.sensor, self.time, self.clock, self.variable, *self.columns, self.latitude, self.longitude,
                  self.network)  # fmt: skip
        return tuple(dict.fromkeys(name for name in beside if name is not None))


def recognise(columns: Sequence[tuple[str, Kind]], options: Options, where: str) -> Layout:
    """Find out how a table is to be read.

    Parameters
    ----------
    columns
        Their names and kinds, in order.
    options
        What the user says about them goes before every guess.
    where
        The table's name, for a message.

    Raises
    ------
    ConfigError
        Where it cannot be found out: one line with the columns as they were seen, and what to say.

    Examples
    --------
    >>> layout = recognise([("Station ID", "text"), ("Date_Time", "time"), ("pm25", "number")], Options(), "a.csv")
    >>> layout.sensor, layout.time, layout.columns
    ('Station ID', 'Date_Time', ('pm25',))
    """
    if options.networks is None:
        return _Table(columns, options, where).layout()
    # A network's name is neither a sensor's nor a reading, whatever its column is called.
    network = _Table(columns, options, where).exactly("networks", options.networks)
    said = {role: getattr(options, role) for role in _KNOWN if getattr(options, role) is not None}
    twice = next((role for role, name in said.items() if _plain(name) == _plain(network)), None)
    if twice:
        raise ConfigError(f"{where}: --networks and --{twice} both name the column {network!r}; it can be one of them")
    others = [column for column in columns if column[0] != network]
    return replace(_Table(others, options, where).layout(), network=network)


def called(role: str, name: str) -> bool:
    """Say whether this is a name that people have for a role: `time`, `sensor`, `value`, `variable` ...

    Examples
    --------
    >>> called("sensor", "Station ID"), called("value", "pm25")
    (True, False)
    """
    return _plain(name) in _KNOWN[role]


def any_known(names: Sequence[str], options: Options) -> bool:
    """Say whether some texts may be names of columns: one of them is known for a role, or the user says it.

    Examples
    --------
    >>> any_known(["box", "time", "pm10"], Options()), any_known(["a", "2020-01-01", "3"], Options())
    (True, False)
    """
    said = {*options.variables, *options.sensors, *(getattr(options, role) for role in _KNOWN)} - {None}
    plain = {_plain(name) for name in names}
    return any(called(role, name) for role in _KNOWN for name in names) or not plain.isdisjoint(map(_plain, said))


def kind_of(texts: Sequence[str]) -> Kind:
    """Return what most of some texts are; `other` where all of them are empty.

    Examples
    --------
    >>> kind_of(["1.5", "NA", "-3"]), kind_of(["2020-01-01 00:00", ""]), kind_of(["a", "7"]), kind_of([""])
    ('number', 'time', 'text', 'other')
    """
    told = [text for text in texts if text.strip().lower() not in MISSING]
    if not told:
        return "other"
    if 2 * sum(map(_is_number, told)) > len(told):
        return "number"
    if 2 * sum(bool(_CLOCK.fullmatch(text.strip())) for text in told) > len(told):
        return "clock"
    return "text" if time_format(told) is None else "time"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Table:
    """One table while it is looked at."""

    def __init__(self, columns: Sequence[tuple[str, Kind]], options: Options, where: str) -> None:
        self.kinds = dict(columns)
        self.options = options
        self.where = where
        self.plain = {name: _plain(name) for name in self.kinds}

    def layout(self) -> Layout:
        said = self.options
        if said.variables and said.sensors:
            raise ConfigError("the columns are either variables or sensors: give --variables or --sensors, not both")
        if said.value and (said.variables or said.sensors):
            raise ConfigError("--value names the one column of readings; with --variables or --sensors leave it out")
        time = self.named("time") or self.found("time", ("time", "number")) or self.only("time")
        if time is None:
            raise self.unknown("time", "the time")
        latitude = self.named("latitude") or self.found("latitude", ("number",))
        longitude = self.named("longitude") or self.found("longitude", ("number",))
        if (latitude is None) != (longitude is None):
            latitude = longitude = None
        clock = self.only("clock") if self.kinds[time] == "time" else None
        place = {"latitude": latitude, "longitude": longitude, "clock": clock}
        taken = {time, clock, latitude, longitude, None}
        if said.sensors:
            return Layout(time, None, "sensor", self.listed("sensors", said.sensors), **place)
        sensor = self.sensor(taken)
        taken.add(sensor)
        if said.variables:
            self.have_a_sensor(sensor)
            return Layout(time, sensor, "variable", self.listed("variables", said.variables), **place)
        variable = self.named("variable") or self.found("variable", ("text",), taken)
        value = self.named("value") or self.found("value", ("number",), taken | {variable})
        numbers = [name for name, kind in self.kinds.items() if kind == "number" and name not in taken | {variable}]
        numbers = [name for name in numbers if not _ASIDE.search(_spaced(name))] or numbers
        if value is None and len(numbers) == 1 and (sensor is not None or said.sensor_from_file):
            value = numbers[0]
        if value is not None:
            self.have_a_sensor(sensor)
            return Layout(time, sensor, "value", (value,), variable, **place)
        if not numbers:
            raise self.unknown("value", "the readings")
        if sensor is not None or said.sensor_from_file:
            return Layout(time, sensor, "variable", tuple(numbers), **place)
        if said.variable is not None or len(numbers) == 1 or any(_QUANTITIES.fullmatch(_spaced(n)) for n in numbers):
            self.have_a_sensor(None)
        return Layout(time, None, "sensor", tuple(numbers), **place)

    def sensor(self, taken: set[str | None]) -> str | None:
        if self.options.sensor_from_file:
            if self.options.sensor:
                raise ConfigError("the sensor is either a column or the file's name: give one of --sensor and "
                                  "--sensor-from-file")  # fmt: skip
            return None
        named = self.named("sensor") or self.found("sensor", ("text", "number"), taken)
        if named is not None:
            return named
        # Nobody's name for it, but the one text beside a time and one number can be nothing else.
        if sum(kind == "number" and name not in taken for name, kind in self.kinds.items()) > 1:
            return None
        texts = [name for name, kind in self.kinds.items() if kind == "text" and name not in taken]
        texts = [
            name for name in texts if self.plain[name] not in _KNOWN["variable"] and not _ASIDE.search(_spaced(name))
        ]
        return texts[0] if len(texts) == 1 else None

    def have_a_sensor(self, sensor: str | None) -> None:
        if sensor is None and not self.options.sensor_from_file:
            raise ConfigError(
                f"{self.where}: no column says which sensor a reading is from, among {self.seen()}; name it with "
                "--sensor, or say --sensor-from-file where each sensor has its own file, or --sensors for a column "
                "per sensor (sensor, sensor_from_file, sensors in the TOML file)"
            )

    def named(self, role: str) -> str | None:
        """Return the column that the user says it is."""
        said: str | None = getattr(self.options, role)
        return None if said is None else self.exactly(role, said)

    def exactly(self, role: str, said: str) -> str:
        if said in self.kinds:
            return said
        alike = [name for name, plain in self.plain.items() if plain == _plain(said) and plain]
        if len(alike) == 1:
            return alike[0]
        raise ConfigError(
            f"{self.where}: there is no column {said!r}, as --{role} says ({role} in the TOML file); "
            f"there are {self.seen()}"
        )

    def listed(self, role: str, said: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.exactly(role, name) for name in said))

    def found(self, role: str, kinds: Sequence[Kind], taken: set[str | None] | None = None) -> str | None:
        """Return the column whose name is the best known one for a role, of the first of the kinds that has any."""
        for kind in kinds if role == "time" else (None,):
            for known in _KNOWN[role]:
                for name, plain in self.plain.items():
                    fits = self.kinds[name] == kind if kind else self.kinds[name] in kinds
                    if plain == known and fits and name not in (taken or ()):
                        return name
        return None

    def only(self, kind: Kind) -> str | None:
        alike = [name for name, other in self.kinds.items() if other == kind]
        return alike[0] if len(alike) == 1 else None

    def unknown(self, role: str, what: str) -> ConfigError:
        more = ", or --variables or --sensors where there are several" if role == "value" else ""
        return ConfigError(
            f"{self.where}: found no column for {what} among {self.seen()}; name it with --{role}{more} "
            f"({role} in the TOML file)"
        )

    def seen(self) -> str:
        shown = [f"{name!r} ({kind})" for name, kind in self.kinds.items()]
        more = f" and {len(shown) - 12} more" if len(shown) > 13 else ""
        return ", ".join(shown[: 12 if more else 13]) + more


def _spaced(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _plain(name: str) -> str:
    """Return a name without case, units, spaces and marks."""
    return re.sub(r"[\W_]+", "", re.sub(r"\(.*?\)|\[.*?\]", "", name).lower()) or re.sub(r"[\W_]+", "", name.lower())
