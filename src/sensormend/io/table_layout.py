"""`recognise` returns the role of every column of a table, by its name and kind or by the user's options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sensormend.errors import ConfigError
from sensormend.io.sources import listed
from sensormend.io.time_formats import has_clock, time_format
from sensormend.pipeline.options import Options
from sensormend.pipeline.units import split_unit, without_unit

__all__ = [
    "CLOCK_UNITS",
    "MISSING",
    "Kind",
    "OpenColumns",
    "TableLayout",
    "called",
    "find_kind",
    "holds_readings",
    "is_missing",
    "is_part",
    "is_quantity",
    "may_be_header",
    "open_columns",
    "place_columns",
    "recognise",
]

Kind = Literal["time", "date", "clock", "number", "text", "other"]
"""The kind of a column; `date` is a time without an hour, `clock` a time of day beside a date, `other` anything else,
or an empty column."""

MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "nd", "missing", "-", "--", "---", ".", "?", "#n/a", "\\n")
"""Texts for a missing number, in lower case."""

# In order of preference: the first that a table has is taken. "id" and "name" are last, since they may number a row.
_NAMES = {
    "time": """time timestamp datetime dateandtime datetimeutc timestamputc timeutc utctime utcdatetime utctimestamp
        utc dateutc timestampstart timestart starttime timestampbegin begintime timestampend timeend endtime
        datetimebegin datetimeend readingdatetime lastupdated messdatum aaaammjjhh aaaammjj
        yyyymmddhhmm yyyymmddhh yyyymmdd ts observedat
        recordedat measuredat sampledat receivedat createdat observationtime obstime obsdatetime sampletime
        samplingtime measurementtime eventtime phenomenontime resulttime validtime valid when
        unixtime unix unixtimestamp unixms epoch epochs epochms epochseconds timestampms timems tsms
        localtime datetimelocal timelocal dtm dategmt datelocal zeit zeitpunkt zeitstempel datumzeit datum uhrzeit
        fechahora fecha tiempo hora horodatage dateheure tijdstip tijd dataora date day""",
    "sensor": """sensor sensorid sensorname sensorcode sensornumber station stationid stationname stationcode stationno
        stid site siteid sitename sitecode siteno node nodeid nodename device deviceid devicename deveui mote moteid
        logger loggerid location locationid locationname locationcode platform platformid platformcode instrument
        instrumentid thing thingid gauge gaugeid buoy buoyid well wellid wmo wmoid wigosid usaf icao stn stnid
        serial serialnumber
        samplingpoint airqualitystationeoicode airqualitystation stationsid numposte sensorindex
        messstelle standort estacion estacao stazione capteur meetpunt code name id""",
    "value": """value values reading measurement measuredvalue measurementvalue observation observedvalue obs val
        rawvalue valueraw datavalue resultvalue result sensorvalue samplemeasurement raw
        wert messwert valor valeur valore waarde data""",
    "variable": """variable variablename variablecode var parameter parametername parametercode param quantity property
        observedproperty measurand metric datatype element pollutant species phenomenon airpollutant
        field channel type kind""",
    "latitude": "latitude lat latdeg latitudedeg breite latitud",
    "longitude": "longitude lon long lng londeg longitudedeg laenge longitud",
}
_KNOWN = {role: tuple(names.split()) for role, names in _NAMES.items()}
# Names of numeric columns that compose a time. Not "min" and "mm": they mean minimum and millimetres more often.
_PARTS = {
    unit: tuple(names.split())
    for unit, names in {
        "year": "year yr yyyy jahr ano año anno annee année jaar",
        "month": "month mon mo monat mes mois mese maand",
        "day": "day dy dd dayofmonth tag dia día jour giorno dag",
        "day of year": "doy dayofyear yday jday julianday julian",
        "hour": "hour hours hr hrs hh hourofday stunde hora heure ora uur hhmm time uhrzeit",
        "minute": "minute minutes mins minuten minuto",
        "second": "second seconds secs sekunde segundo",
    }.items()
}
CLOCK_UNITS = ("hour", "hour and minute", "minute", "second")
"""Units of `TableLayout.parts` that are added to a date; `hour and minute` are numbers like 1330."""

# Numbers with such a name are epochs even beside columns of year and month.
_EPOCHS = re.compile(r"(unix|epoch|timestamp|ts).*")
# Names of numbers that are not readings, for tables whose columns of values are not named by the user.
_NO_READINGS = re.compile(
    r"(^|[^a-z])(qc|qual|quality|qn|kvalitet|calidad|flags?|status|validity|verification|cor|corr|corrected|index|row|rownum|"
    r"rownumber|elev|elevation|alt|alti|altitud|altitude|year|month|day|hour|minute|second|doy|unnamed|record|recno|objectid|fid)($|[^a-z])"
)
# Names of columns with the owners' flags: alone for a whole row, or beside the name of a column of readings.
_OWNER_FLAG = re.compile(
    r"(owners?|data|quality|qc|qartod|q)?flags?(code)?|qc(code|status)?|(data)?quality(code|control)?|qartod"
)
# Columns that occur together only in files that sensormend wrote.
_WRITTEN = {"cleaned", "lower", "upper", "flag", "reason", "origin"}
_FLAG_AFFIXES = ("flag", "flags", "qc", "qcflag", "qflag", "qual", "quality", "qualityflag", "qartod")
# The number of a row; not NO and no, which are nitrogen monoxide.
_ROW_NUMBER = re.compile(r"No|[Nn]o\.|[Nn]r\.?|#")
# Quantities, which are columns of one site rather than names of several; also with numbers or units appended.
_QUANTITIES = re.compile(
    r"(air|water|soil|mean|avg|max|min|sea|surface)?_?(temp|temperature|t2m|humidity|hum|rh|pressure|press|pres|wind|"
    r"windspeed|winddir|gust|rain|rainfall|precip|precipitation|snow|radiation|solar|par|co2?|no2?|nox|so2|o3|ozone|"
    r"pm1|pm10|pm25|pm2_5|pm2|voc|ph|do|oxygen|dissolved|cond|conductivity|ec|salinity|turb|turbidity|stage|level|"
    r"depth|flow|discharge|orp|chl|chlorophyll|nitrate|noise|voltage|volt|battery|current|power|dewpoint|dew|vis|visibility|"
    r"light|lux|moisture|airtc?|relh)([^a-z].*)?"
    # AmeriFlux: the quantity, its place across, its depth or height, and its copy.
    r"|(h|le|g|p|pa|ta|ts|rh|ws|wd|fc)(_pi)?(_f)?(_\d+){3}|(vpd|swc|ustar|t_sonic|netrad|ppfd_in|[sl]w_(in|out))(_.*)?"
)
# What sensors stand at, or are: alone, or as the last words of the name of a column with texts.
_PLACES = (
    r"(.*_)?(sensor|station|site|node|device|mote|logger|location|platform|instrument|thing|gauge|buoy|well|borehole|"
    r"piezometer|probe|turbine|inverter|meter|household|building|room|zone|plot|tower|mast|machine)"
)
_SENSOR_WORDS = re.compile(_PLACES + r"(_?(id|name|code|label))?")
# The same with numbers, which are codes only where the name says so: building_id, MeterNo.
_NUMBERED = re.compile(_PLACES + r"_?(id|no|nr|num|number|code|index)")
# household_id, LCLid; not grid or humid.
_ENDS_WITH_ID = re.compile(r".*([^A-Za-z][Ii][Dd]|[a-z]I[Dd]|[A-Z]{2}id)")
_BASE_UNIT = (
    r"((°|deg )?[CFK]|degC|degF|%|‰|[kMGmµu]?(Wh?|VAr?h?|V|A|Hz|Pa|bar|J|S|g|mol|l|L|m|s)|hPa|[cdk]m|mm|min|h|d|psi|"
    r"pp[mb]|rpm|lu?x|dB|NTU|FNU|cfs|cfm|gpm|ft|in|mph)"
)
# W, l/min, m³/h, µg/m3, W m-2; not a place.
_UNIT = re.compile(rf"{_BASE_UNIT}[-^]*[123²³]?([ /·*]{_BASE_UNIT}[-^]*[123²³]?)*")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s?[AaPp][Mm])?")


@dataclass(frozen=True)
class TableLayout:
    """The roles of a table's columns.

    Attributes
    ----------
    time
        The column of times; of several, the first one.
    clock
        The column with the time of day as text, where `time` has only the date.
    parts
        The numeric columns that compose the time, with their units: the whole time if there is a year among them, else
        added to the date in `time`.
    name
        The variable of a long table's single column of readings, from its name; empty if it is only called value,
        or where `variable` names it.
    owner_flags
        For each of `columns` the column with the owners' flags of its readings, or None; empty if there is none.
    sensor
        The column of sensors; None where each sensor has a column, or the file's name is the sensor.
    across
        The meaning of the names of `columns`: `value` for a long table's one, `variable` or `sensor` in a wide one.
    columns
        The columns with the readings.
    variable
        The column of variables; only with `across="value"`.
    latitude, longitude
        The columns of the sensor's coordinates.
    network
        The column of networks, with the option `networks`.
    beside
        The columns whose entries follow that of `sensor` in the name of a sensor, like a depth after a plot.
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
    parts: tuple[tuple[str, str], ...] = ()
    name: str = ""
    owner_flags: tuple[str | None, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Return the unit of a long table's single column without a variable's name: `value (°C)`."""
        return split_unit(self.columns[0])[1] if self.across == "value" and not self.name else ""

    @property
    def time_names(self) -> str:
        """Return the names of the columns that compose the time."""
        return " and ".join(dict.fromkeys([self.time, *filter(None, [self.clock]), *(name for _, name in self.parts)]))

    @property
    def sentence(self) -> str:
        """Return the roles of the columns as a sentence."""
        sensor = (
            "as columns"
            if self.across == "sensor"
            else " and ".join([self.sensor or "the name of the file", *self.beside])
        )
        variable = f", the variable {self.variable}" if self.variable else ""
        return f"a table: the sensor is {sensor}, the time {self.time_names}{variable}, numbers: {listed(self.columns)}"

    @property
    def used(self) -> tuple[str, ...]:
        """Return every column that is read, each once."""
        parts = (name for _, name in self.parts)
        roles = (self.sensor, *self.beside, self.time, self.clock, *parts, self.variable, *self.columns, self.latitude,
                  self.longitude, self.network, *self.owner_flags)  # fmt: skip
        return tuple(dict.fromkeys(name for name in roles if name is not None))


@dataclass(frozen=True)
class OpenColumns:
    """What names and options say of the sensor of a reading, and what they leave open.

    Attributes
    ----------
    times
        The columns that compose the time; none where the user says what the sensor is.
    sensor, variable
        Their columns, or None.
    texts, numbers
        The columns that may tell sensors apart.
    readings
        The columns of numbers that may be readings.
    """

    times: tuple[str, ...] = ()
    sensor: str | None = None
    variable: str | None = None
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()


class _NoSensorError(ConfigError):
    """No column names the sensor of a reading."""


def recognise(
    columns: Sequence[tuple[str, Kind]], options: Options, shown: str, *, or_file: bool = False
) -> TableLayout:
    """Return the layout of a table.

    Parameters
    ----------
    columns
        Their names and kinds, in order.
    options
        The user's options take precedence over names and kinds.
    shown
        The table's name in messages.
    or_file
        Where no column names the sensor, the file's name is the sensor, as with `options.sensor_from_file`.

    Raises
    ------
    ConfigError
        A role cannot be assigned: one line with the columns and the option to give. Or sensormend wrote the table.

    Examples
    --------
    >>> layout = recognise([("Station ID", "text"), ("Date_Time", "time"), ("pm25", "number")], Options(), "a.csv")
    >>> layout.sensor, layout.time, layout.columns
    ('Station ID', 'Date_Time', ('pm25',))
    """
    if _WRITTEN.issubset(name for name, _ in columns):
        raise ConfigError(f"{shown} was written by sensormend; give the original readings")
    if or_file:
        try:
            return recognise(columns, options, shown)
        except _NoSensorError:
            return recognise(columns, replace(options, sensor_from_file=True), shown)
    if options.networks is None:
        return _Recogniser(columns, options, shown).with_owner_flags()
    # The column of networks has no other role, whatever it is called.
    network = _Recogniser(columns, options, shown).column_named("networks", options.networks)
    named = {role: getattr(options, role) for role in _KNOWN if getattr(options, role) is not None}
    twice = next((role for role, name in named.items() if _plain(name) == _plain(network)), None)
    if twice:
        raise ConfigError(f"{shown}: --networks and --{twice} both name the column {network!r}; it can be one of them")
    columns_left = [column for column in columns if column[0] != network]
    return replace(_Recogniser(columns_left, options, shown).with_owner_flags(), network=network)


def open_columns(columns: Sequence[tuple[str, Kind]], options: Options) -> OpenColumns:
    """Return what names and options leave open of the sensor of a reading.

    Examples
    --------
    >>> found = open_columns([("time", "time"), ("plot", "text"), ("depth", "number"), ("t", "number")], Options())
    >>> found.sensor, found.texts, found.numbers
    ('plot', (), ('depth', 't'))
    """
    return _Recogniser(columns, options, "").open_columns()


def called(role: str, name: str) -> bool:
    """Return whether a name is a known one for a role: `time`, `sensor`, `value`, `variable` ...

    Examples
    --------
    >>> called("sensor", "Station ID"), called("value", "pm25")
    (True, False)
    """
    return _plain(name) in _KNOWN[role]


def may_be_header(names: Sequence[str], options: Options) -> bool:
    """Return whether some texts may be a header: one of them is known for a role, or is in the user's options.

    Examples
    --------
    >>> may_be_header(["box", "time", "pm10"], Options()), may_be_header(["a", "2020-01-01", "3"], Options())
    (True, False)
    """
    named = {*options.variables, *options.sensors, *(getattr(options, role) for role in _KNOWN)} - {None}
    plain = {_plain(name) for name in names}
    return any(called(role, name) for role in _KNOWN for name in names) or not plain.isdisjoint(map(_plain, named))


def is_part(unit: str, name: str) -> bool:
    """Return whether a name is a known one for a part of a time: `year`, `hour` ...

    Examples
    --------
    >>> is_part("hour", "Hour (UTC)"), is_part("minute", "min")
    (True, False)
    """
    return _plain(name) in _PARTS[unit]


def is_quantity(name: str) -> bool:
    """Return whether a name is that of a measured quantity rather than of a sensor.

    Examples
    --------
    >>> is_quantity("PM2.5"), is_quantity("Temp (°C)"), is_quantity("Hilltop")
    (True, True, False)
    """
    return bool(_QUANTITIES.fullmatch(_spaced(name)))


def holds_readings(columns: Sequence[tuple[str, Kind]], options: Options) -> bool:
    """Return whether a table may hold readings: it has a time, and numbers other than coordinates and row numbers.

    Where the user names columns, it must have that of the time and one of those with readings.

    Examples
    --------
    >>> holds_readings([("date", "date"), ("remark", "text")], Options())
    False
    """
    table = _Recogniser(columns, options, "")
    if options.time is not None and not table.has(options.time):
        return False
    named = [name for name in (options.value, *options.variables, *options.sensors) if name]
    if named:
        return any(map(table.has, named))
    time, clock, parts = table.times()
    taken = {time, clock, *(name for _, name in parts), *(place_columns(columns) or ())}
    numbers = [name for name, kind in table.kinds.items() if kind == "number" and name not in taken]
    return time is not None and any(not table.is_no_reading(name) for name in numbers)


def place_columns(columns: Sequence[tuple[str, Kind]]) -> tuple[str, str] | None:
    """Return the columns of latitude and longitude; None if there are not both."""
    table = _Recogniser(columns, Options(), "")
    latitude, longitude = (table.column_for(role, ("number",)) for role in ("latitude", "longitude"))
    return None if latitude is None or longitude is None else (latitude, longitude)


def is_missing(text: str) -> bool:
    """Return whether a text stands for a missing number."""
    return text.strip().lower() in MISSING


def find_kind(texts: Sequence[str]) -> Kind:
    """Return the kind of most of some texts; `other` where all of them are empty.

    Examples
    --------
    >>> find_kind(["1.5", "NA", "-3"]), find_kind(["2020-01-01 00:00", ""]), find_kind(["a", "7"]), find_kind([""])
    ('number', 'time', 'text', 'other')
    >>> find_kind(["2020-01-01", "2020-01-02"])
    'date'
    """
    full = [text for text in texts if not is_missing(text)]
    if not full:
        return "other"
    if 2 * sum(map(_is_number, full)) > len(full):
        return "number"
    if 2 * sum(bool(_CLOCK.fullmatch(text.strip())) for text in full) > len(full):
        return "clock"
    if time_format(full) is None:
        return "text"
    return "date" if not any(":" in text or has_clock(text) for text in full) else "time"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Recogniser:
    """Assigns the roles of one table's columns."""

    def __init__(self, columns: Sequence[tuple[str, Kind]], options: Options, shown: str) -> None:
        self.kinds = dict(columns)
        self.options = options
        self.shown = shown
        self.plain = {name: _plain(name) for name in self.kinds}

    def with_owner_flags(self) -> TableLayout:
        """Return the layout with the columns of the owners' flags."""
        layout = self.layout()
        own = {name: self.find_flags(name, layout.columns) for name in layout.columns}
        used = {*layout.used, *own.values()}
        general = self.options.owner_flag and self.column_named("owner_flag", self.options.owner_flag)
        general = general or next((name for name, plain in self.plain.items()
                                   if _OWNER_FLAG.fullmatch(plain) and name not in used), None)  # fmt: skip
        flags = tuple(own[name] or general for name in layout.columns)
        return replace(layout, owner_flags=flags) if any(flags) else layout

    def find_flags(self, name: str, columns: Sequence[str] = ()) -> str | None:
        """Return the column with the owners' flags of a column of readings, by its name: `temp_qc`, `F_Temp`."""
        for title in dict.fromkeys((name, without_unit(name))):
            own = _plain(title)
            spelt = {spelling for word in _FLAG_AFFIXES for spelling in (f"{own}{word}", f"{word}{own}")}
            # NERRS; not flux, which is not a flag of lux.
            prefixed = f"f_{title.strip()}".lower()
            for other, plain in self.plain.items():
                if other not in columns and (plain in spelt or other.strip().lower() == prefixed):
                    return other
        # Meteo-France: QT follows T. Elsewhere, as in QH, the flow of heat, the Q is another quantity.
        names = list(self.kinds)
        after = names[names.index(name) + 1 : names.index(name) + 2]
        return next((other for other in after if other.strip() == f"Q{name.strip()}"), None)

    def layout(self) -> TableLayout:
        options = self.options
        if options.variables and options.sensors:
            raise ConfigError("the columns are either variables or sensors: give --variables or --sensors, not both")
        if options.value and (options.variables or options.sensors):
            raise ConfigError("--value names the one column of readings; with --variables or --sensors leave it out")
        time, clock, parts = self.times()
        if time is None:
            raise self.no_column_error("time", "the time")
        latitude = self.column_for("latitude", ("number",))
        longitude = self.column_for("longitude", ("number",))
        if (latitude is None) != (longitude is None):
            latitude = longitude = None
        shared: dict[str, Any] = {"latitude": latitude, "longitude": longitude, "clock": clock, "parts": parts}
        taken = {time, clock, latitude, longitude, *(name for _, name in parts), None}
        if options.sensors:
            return TableLayout(time, None, "sensor", self.columns_named("sensors", options.sensors), **shared)
        sensor = self.sensor(taken)
        taken.add(sensor)
        if options.variables:
            self.require_sensor(sensor)
            return TableLayout(time, sensor, "variable", self.columns_named("variables", options.variables), **shared)
        variable = self.column_for("variable", ("text",), taken)
        value = self.column_for("value", ("number",), taken | {variable})
        numbers = [name for name, kind in self.kinds.items() if kind == "number" and name not in taken | {variable}]
        numbers = [name for name in numbers if not self.is_no_reading(name)] or numbers
        # A column without a title beside others with one numbers the rows.
        numbers = [name for name in numbers if not re.fullmatch(r"column\d+", name)] or numbers
        flags = {self.find_flags(name) for name in numbers}
        numbers = [name for name in numbers if name not in flags]
        if value is None and len(numbers) == 1 and (sensor is not None or options.sensor_from_file):
            value = numbers[0]
        if value is not None:
            self.require_sensor(sensor)
            unnamed = variable is not None or options.value is not None or called("value", value) or _has_no_name(value)
            return TableLayout(time, sensor, "value", (value,), variable, name="" if unnamed else value, **shared)
        if not numbers:
            raise self.no_column_error("value", "the readings")
        if sensor is not None or options.sensor_from_file:
            return TableLayout(time, sensor, "variable", tuple(numbers), **shared)
        if options.variable is not None or len(numbers) == 1 or any(map(is_quantity, numbers)) or _have_units(numbers):
            self.require_sensor(None)
        return TableLayout(time, None, "sensor", tuple(numbers), **shared)

    def times(self) -> tuple[str | None, str | None, tuple[tuple[str, str], ...]]:
        """Return the column of times, that of the time of day, and the numeric columns that compose or add to it."""
        time = None if self.options.time is None else self.column_named("time", self.options.time)
        parts = self.date_parts() if time is None else ()
        if time is None:
            time = self.column_for("time", ("time", "date")) or self.only_column("time", "date")
        if time is None and parts:
            epoch = self.column_for("time", ("number",))
            if epoch is None or not _EPOCHS.fullmatch(self.plain[epoch]):
                return parts[0][1], self.only_column("clock") if parts[-1][0] not in CLOCK_UNITS else None, parts
            return epoch, None, ()
        time = time or self.column_for("time", ("number",))
        if time is None or self.kinds[time] != "date":
            return time, None, ()
        clock = self.clock_of(time)
        return time, clock, self.number_columns(CLOCK_UNITS, time) if clock is None else ()

    def clock_of(self, date: str) -> str | None:
        """Return the column with the time of day of a date; of several the one with a name like it, or of a time.

        Others may say when the highest reading of a day was.
        """
        clocks = [name for name, kind in self.kinds.items() if kind == "clock"]
        alike = [name for name in clocks if self.plain[name] == self.plain[date].replace("date", "time")]
        known = [name for word in _KNOWN["time"] for name in clocks if self.plain[name] == word]
        return next(iter(alike + known), clocks[0] if len(clocks) == 1 else None)

    def date_parts(self) -> tuple[tuple[str, str], ...]:
        """Return the numeric columns that compose a date: a year, and at least a month or a day."""
        dates = dict(self.number_columns(("year", "month", "day", "day of year")))
        if "year" not in dates or len(dates) == 1:
            return ()
        if "month" in dates:
            dates.pop("day of year", None)
        elif "day" in dates:
            # Without a column of months, the day is that of the year.
            dates = {"year": dates["year"], "day of year": dates.get("day of year", dates["day"])}
        return (*dates.items(), *self.number_columns(CLOCK_UNITS))

    def number_columns(self, units: Sequence[str], besides: str | None = None) -> tuple[tuple[str, str], ...]:
        """Return units with the numeric columns of that name, up to the first clock unit without one."""
        columns = []
        names = [name for name, kind in self.kinds.items() if kind == "number" and name != besides]
        for unit in units:
            matching = [name for word in _PARTS.get(unit, ()) for name in names if self.plain[name] == word]
            if matching:
                columns.append((unit, matching[0]))
            elif unit == "hour":
                break
        return tuple(columns)

    def is_no_reading(self, name: str) -> bool:
        """Return whether a numeric column is not a reading by its name: a code, a part of a time, a row number."""
        plain = self.plain[name]
        return bool(
            _NO_READINGS.search(_spaced(name))
            or (self.kinds[name] == "number" and _ENDS_WITH_ID.fullmatch(name.strip()))
            or _ROW_NUMBER.fullmatch(name.strip())
            # TIMESTAMP_END beside TIMESTAMP_START; not TS, the temperature of soil.
            or ("time" in plain and plain in _KNOWN["time"])
        )

    def has(self, name: str) -> bool:
        """Return whether there is a column of this name."""
        return name in self.kinds or _plain(name) in self.plain.values()

    def sensor(self, taken: set[str | None]) -> str | None:
        if self.options.sensor_from_file:
            if self.options.sensor:
                raise ConfigError("the sensor is either a column or the file's name: give one of --sensor and "
                                  "--sensor-from-file")  # fmt: skip
            return None
        named = self.column_for("sensor", ("text", "number"), taken)
        if named is not None:
            return named
        texts = [name for name, kind in self.kinds.items() if kind == "text" and name not in taken]
        texts = [name for name in texts if self.plain[name] not in _KNOWN["variable"] and not self.is_no_reading(name)]
        for pattern, names in ((_SENSOR_WORDS, map(_spaced, texts)), (_ENDS_WITH_ID, texts)):
            matching = [name for name, written in zip(texts, names, strict=True) if pattern.fullmatch(written)]
            if matching:
                return matching[0]
        numbered = [name for name, kind in self.kinds.items() if kind == "number" and name not in taken]
        numbered = [name for name in numbered if _NUMBERED.fullmatch(_spaced(name))]
        if numbered:
            return numbered[0]
        # The only text column beside a time and one number is the sensor, whatever its name.
        if sum(kind == "number" and name not in taken for name, kind in self.kinds.items()) > 1:
            return None
        return texts[0] if len(texts) == 1 else None

    def open_columns(self) -> OpenColumns:
        options, (time, clock, parts) = self.options, self.times()
        if (
            time is None
            or options.sensor
            or options.sensors
            or options.sensor_from_file
            or options.networks is not None
        ):
            return OpenColumns()
        times: set[str | None] = {time, clock, *(name for _, name in parts)}
        sensor = self.sensor(set(times))
        variable = self.column_for("variable", ("text",), times | {sensor})
        taken = {*times, sensor, variable, *(place_columns([*self.kinds.items()]) or ())}
        free = [(name, kind) for name, kind in self.kinds.items() if name not in taken]
        free = [(name, kind) for name, kind in free if not _OWNER_FLAG.fullmatch(self.plain[name])]
        numbers = [name for name, kind in free if kind == "number"]
        readings = [name for name in numbers if not self.is_no_reading(name)]
        codes = [name for name in numbers if name in readings or _ENDS_WITH_ID.fullmatch(name.strip())]
        named = {options.value, *options.variables}
        return OpenColumns(
            tuple(name for name in self.kinds if name in times),
            sensor,
            variable,
            tuple(name for name, kind in free if kind == "text"),
            tuple(name for name in codes if name not in named and not (called("value", name) or _has_no_name(name))),
            tuple(readings),
        )

    def require_sensor(self, sensor: str | None) -> None:
        if sensor is None and not self.options.sensor_from_file:
            raise _NoSensorError(
                f"{self.shown}: no column says which sensor a reading is from, among {self.kinds_shown()}; name it "
                "with --sensor, or give --sensor-from-file where each sensor has its own file, or --sensors for a "
                "column per sensor (sensor, sensor_from_file, sensors in the TOML file)"
            )

    def column_named(self, role: str, name: str) -> str:
        if name in self.kinds:
            return name
        matching = [column for column, plain in self.plain.items() if plain == _plain(name) and plain]
        if len(matching) == 1:
            return matching[0]
        raise ConfigError(
            f"{self.shown}: there is no column {name!r}, as --{role.replace('_', '-')} says ({role} in the TOML file); "
            f"there are {self.kinds_shown()}"
        )

    def columns_named(self, role: str, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.column_named(role, name) for name in names))

    def column_for(self, role: str, kinds: Sequence[Kind], taken: set[str | None] | None = None) -> str | None:
        """Return the user's column for a role; else the one of these kinds with the most preferred name."""
        option: str | None = getattr(self.options, role)
        if option is not None:
            return self.column_named(role, option)
        names = [name for name, kind in self.kinds.items() if kind in kinds and name not in (taken or ())]
        matching = (name for preferred in _KNOWN[role] for name in names if self.plain[name] == preferred)
        return next(matching, None)

    def only_column(self, *kinds: Kind) -> str | None:
        matching = [name for name, kind in self.kinds.items() if kind in kinds]
        return matching[0] if len(matching) == 1 else None

    def no_column_error(self, role: str, content: str) -> ConfigError:
        hint = ", or --variables or --sensors where there are several" if role == "value" else ""
        return ConfigError(
            f"{self.shown}: found no column for {content} among {self.kinds_shown()}; name it with --{role}{hint} "
            f"({role} in the TOML file)"
        )

    def kinds_shown(self) -> str:
        return listed(f"{name!r} ({kind})" for name, kind in self.kinds.items())


def _have_units(names: Sequence[str]) -> bool:
    """Return whether columns are quantities of one place: their names have units in brackets, and not all the same."""
    titles, units = zip(*map(split_unit, names), strict=True)
    return (
        all(_UNIT.fullmatch(unit) for unit in units if unit)
        and len({*units} - {""}) > 1
        and len({*titles}) == len(names)
    )


def _has_no_name(name: str) -> bool:
    """Return whether a column was unnamed and is named by its position."""
    return re.fullmatch(r"column\d+|Unnamed: \d+|\d+", name) is not None


def _spaced(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _plain(name: str) -> str:
    """Return a name in lower case, without units, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", re.sub(r"\(.*?\)|\[.*?\]", "", name).lower()) or re.sub(r"[\W_]+", "", name.lower())
