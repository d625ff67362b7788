import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensormend.errors import ConfigError
from sensormend.io.table_layout import Kind, TableLayout, find_kind, recognise
from sensormend.pipeline.options import Options


def columns(table: str) -> list[tuple[str, Kind]]:
    """Return columns from `name:t name:n`: time, number, clock, words, other."""
    kinds: dict[str, Kind] = {"t": "time", "n": "number", "c": "clock", "w": "text", "o": "other", "d": "date"}
    return [(part[:-2].replace("+", " "), kinds[part[-1]]) for part in table.split()]


def read(table: str, **options: object) -> TableLayout:
    return recognise(columns(table), Options.of(**options), "readings.csv")


@pytest.mark.parametrize(
    ("table", "layout"),
    [
        ("sensor:w time:t value:n", TableLayout("time", "sensor", "value", ("value",))),
        ("Station+ID:n Date_Time:t Reading:n", TableLayout("Date_Time", "Station ID", "value", ("Reading",))),
        ("id:n node-id:w ts:n val:n", TableLayout("ts", "node-id", "value", ("val",))),
        ("site:w time:t parameter:w value:n", TableLayout("time", "site", "value", ("value",), "parameter")),
        ("Messstelle:w Datum:t Wert+[°C]:n", TableLayout("Datum", "Messstelle", "value", ("Wert [°C]",))),
        ("where:w observed:t pm25:n", TableLayout("observed", "where", "value", ("pm25",), name="pm25")),
        (
            "site:w time:t lat:n lon:n temp:n",
            TableLayout("time", "site", "value", ("temp",), None, "lat", "lon", name="temp"),
        ),
        ("site:w time:t temp:n rh:n note:w", TableLayout("time", "site", "variable", ("temp", "rh"))),
        (
            "site:w time:t temp:n temp_qc:n elevation:n",
            TableLayout("time", "site", "value", ("temp",), name="temp", owner_flags=("temp_qc",)),
        ),
        ("time:t north:n south:n", TableLayout("time", None, "sensor", ("north", "south"))),
        ("time:t 101:n 102:n empty:o", TableLayout("time", None, "sensor", ("101", "102"))),
        ("date:d time:c site:w value:n", TableLayout("date", "site", "value", ("value",), clock="time")),
        ("updated:t time:t sensor:w value:n", TableLayout("time", "sensor", "value", ("value",))),
        ("time:w timestamp:t sensor:w value:n", TableLayout("timestamp", "sensor", "value", ("value",))),
        # FLUXNET, London's smart meters, a wind farm; TS is a temperature there, not a time stamp.
        (
            "plot_id:w TIMESTAMP_START:n TIMESTAMP_END:n TA:n TS:n",
            TableLayout("TIMESTAMP_START", "plot_id", "variable", ("TA", "TS")),
        ),
        (
            "LCLid:w stdorToU:w DateTime:t KWH:n",
            TableLayout("DateTime", "LCLid", "value", ("KWH",), name="KWH"),
        ),
        (
            "Wind_turbine_name:w Date_time:t Ba_avg:n P_avg:n",
            TableLayout("Date_time", "Wind_turbine_name", "variable", ("Ba_avg", "P_avg")),
        ),
        ("Time:t soil_probe:w vwc:n st:n", TableLayout("Time", "soil_probe", "variable", ("vwc", "st"))),
        ("time:t grid:w humid:w north:n south:n", TableLayout("time", None, "sensor", ("north", "south"))),
        # Columns with one unit, or with what is none in brackets, are sensors.
        ("time:t Hall+[C]:n Loft+[C]:n", TableLayout("time", None, "sensor", ("Hall [C]", "Loft [C]"))),
        (
            "time:t Bay+(A):n Bay+(B):n Bay+(C):n",
            TableLayout("time", None, "sensor", ("Bay (A)", "Bay (B)", "Bay (C)")),
        ),
        ("time:t Wall+(N):n Wall+(W):n", TableLayout("time", None, "sensor", ("Wall (N)", "Wall (W)"))),
        # The German weather service, Meteo-France, the European Environment Agency, PurpleAir.
        (
            "STATIONS_ID:n MESS_DATUM:n QN_9:n TT_TU:n RF_TU:n",
            TableLayout("MESS_DATUM", "STATIONS_ID", "variable", ("TT_TU", "RF_TU")),
        ),
        (
            "NUM_POSTE:n NOM_USUEL:w ALTI:n AAAAMMJJHH:n T:n QT:n FF:n QFF:n",
            TableLayout("AAAAMMJJHH", "NUM_POSTE", "variable", ("T", "FF"), owner_flags=("QT", "QFF")),
        ),
        (
            "SamplingPoint:w AirPollutant:w Concentration:n DatetimeBegin:t DatetimeEnd:t Validity:n Verification:n",
            TableLayout("DatetimeBegin", "SamplingPoint", "value", ("Concentration",), "AirPollutant"),
        ),
        ("time_stamp:t sensor_index:n rh:n", TableLayout("time_stamp", "sensor_index", "value", ("rh",), name="rh")),
        ("YYYYMMDDHH:n stn:n T:n", TableLayout("YYYYMMDDHH", "stn", "value", ("T",), name="T")),
        (
            "YYYYMMDD:d HH:n stn:n T:n",
            TableLayout("YYYYMMDD", "stn", "value", ("T",), parts=(("hour", "HH"),), name="T"),
        ),
        (
            "Site+Num:n Parameter+Name:w Date+Local:d Time+Local:c Date+GMT:d Time+GMT:c Sample+Measurement:n MDL:n",
            TableLayout("Date GMT", "Site Num", "value", ("Sample Measurement",), "Parameter Name", clock="Time GMT"),
        ),
        # Of a day, with the times of its extremes.
        ("date:d TX:n TX+at:c TN:n TN+at:c stn:n", TableLayout("date", "stn", "variable", ("TX", "TN"))),
        # Codes are sensors by their names, and no readings; a column without a title numbers the rows.
        ("time:t meter_no:n kWh:n", TableLayout("time", "meter_no", "value", ("kWh",), name="kWh")),
        ("time:t ArrayID:n Loft:n Hall:n", TableLayout("time", None, "sensor", ("Loft", "Hall"))),
        ("column1:n site:w time:t kWh:n", TableLayout("time", "site", "value", ("kWh",), name="kWh")),
    ],
)
def test_tables_as_people_write_them(table: str, layout: TableLayout) -> None:
    assert read(table) == layout


@pytest.mark.parametrize(
    ("table", "columns", "owner_flags"),
    [
        ("sensor:w time:t value:n flag:n", ("value",), ("flag",)),
        ("sensor:w time:t value:n Quality+Code:w", ("value",), ("Quality Code",)),
        ("StationCode:w DateTimeStamp:t Temp:n F_Temp:w Sal:n F_Sal:w", ("Temp", "Sal"), ("F_Temp", "F_Sal")),
        ("StationCode:w DateTimeStamp:t Temp:n F_Temp:n Sal:n F_Sal:n", ("Temp", "Sal"), ("F_Temp", "F_Sal")),
        ("site:w time:t temp:n Flag_Temp:n rh:n qc:n", ("temp", "rh"), ("Flag_Temp", "qc")),
        ("time:t north:n south:n north_qc:w", ("north", "south"), ("north_qc", None)),
        ("site:w time:t temp_degC:n temp_qc:w rh:n", ("temp_degC", "rh"), ("temp_qc", None)),
        ("site:w time:t Temp_degC:n F_Temp:w Temp_degC_qc:n rh:n", ("Temp_degC", "rh"), ("Temp_degC_qc", None)),
        ("site:w time:t lux:n flux:n air:n", ("lux", "flux", "air"), ()),
        ("site:w time:t par:n fPAR:n", ("par", "fPAR"), ()),
    ],
)
def test_flags_of_the_owners_belong_to_their_columns(
    table: str, columns: tuple[str, ...], owner_flags: tuple[str | None, ...]
) -> None:
    layout = read(table)
    assert (layout.columns, layout.owner_flags) == (columns, owner_flags)
    assert {name for name in owner_flags if name} <= set(layout.used)


def test_the_column_of_flags_is_named() -> None:
    assert read("sensor:w time:t value:n approved:w", owner_flag="Approved").owner_flags == ("approved",)
    with pytest.raises(ConfigError, match="there is no column 'checked'"):
        read("sensor:w time:t value:n", owner_flag="checked")


def test_what_the_user_says_goes_first() -> None:
    table = "sensor:w time:t value:n mac:w seen:t raw:n"
    assert read(table, sensor="mac", time="seen", value="raw") == TableLayout("seen", "mac", "value", ("raw",))
    assert read(table, sensor="MAC ", value="value").sensor == "mac", "case and spaces do not matter"


@pytest.mark.parametrize(
    "table",
    [
        "time:t Supply+temp+[C]:n Pump+[W]:n DHW+flow+[l/min]:n Burner+[%]:n",
        "time:t AC+(kW):n DC+(V):n Module+(C):n Irradiance+(W/m²):n",
        "TIMESTAMP_START:n TIMESTAMP_END:n H_1_1_1:n LE_1_1_1:n SWC_1_2_1:n",
        "TIMESTAMP_START:n TIMESTAMP_END:n TA:n SW_IN:n VPD:n",
        "TIMESTAMP:t AirTC_Avg:n WS_ms:n",
    ],
)
def test_columns_of_different_units_are_variables_of_one_site(table: str) -> None:
    layout = recognise(columns(table), Options(), "boiler.csv", or_file=True)
    readings = tuple(name for name, kind in columns(table) if kind == "number" and not name.startswith("TIME"))
    assert (layout.sensor, layout.across, layout.columns) == (None, "variable", readings)


def test_one_file_per_site() -> None:
    table = "datetime:t temp:n temp_cor:n temp_qual:o ph:n"
    layout = read(table, sensor_from_file=True, variables=["temp", "ph"])
    assert layout == TableLayout("datetime", None, "variable", ("temp", "ph"), owner_flags=("temp_qual", None))
    assert read("time:t level:n", sensor_from_file=True) == TableLayout("time", None, "value", ("level",), name="level")
    assert read("time:t value:n id:n", sensor_from_file=True) == TableLayout("time", None, "value", ("value",))


def test_named_columns_are_taken_whatever_they_hold() -> None:
    assert read("time:t a:o b:w", sensors=["a", "b", "a"]) == TableLayout("time", None, "sensor", ("a", "b"))
    assert read("site:w time:t a:o b:w", variables="a") == TableLayout("time", "site", "variable", ("a",))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            "sensor:w when_it_was:w value:n",
            {},
            r"readings.csv: found no column for the time .*'value' \(number\).*--time",
        ),
        ("a:t b:t sensor:w value:n", {}, "found no column for the time"),
        ("sensor:w time:t note:w", {}, "found no column for the readings .*--value, or --variables or --sensors"),
        ("time:t temp:n ph:n", {}, "which sensor a reading is from, .*--sensor-from-file.*sensor_from_file"),
        ("time:t value:n", {}, "which sensor"),
        ("sensor:w time:t value:n", {"value": "val"}, r"no column 'val', as --value says \(value in the TOML file\)"),
        ("sensor:w time:t value:n", {"variables": ["a"]}, "no column 'a', as --variables says"),
        ("sensor:w time:t value:n", {"owner_flag": "a"}, r"as --owner-flag says \(owner_flag in the TOML file\)"),
        ("sensor:w time:t a:n", {"variables": ["a"], "sensors": ["a"]}, "not both"),
        ("sensor:w time:t a:n", {"value": "a", "sensors": ["a"]}, "leave it out"),
        (
            "sensor:w time:t a:n",
            {"sensor": "sensor", "sensor_from_file": True},
            "one of --sensor and --sensor-from-file",
        ),
        ("time:t temp:n ph:n", {"variables": ["temp"]}, "which sensor"),
        (
            "sensor:w time:t value:n n:n cleaned:n lower:n upper:n flag:n reason:w origin:w",
            {"value": "value"},
            "^readings.csv was written by sensormend; give the original readings$",
        ),
    ],
)
def test_where_it_fails_the_columns_are_shown_and_the_flag_is_named(
    table: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(table, **options)
    assert "\n" not in str(caught.value)


def test_a_table_of_many_columns_is_shown_in_part() -> None:
    with pytest.raises(ConfigError, match="and 488 more") as caught:
        recognise([(f"c{n}", "number") for n in range(500)], Options(), "wide.csv")
    assert len(str(caught.value)) < 500


@given(st.permutations(columns("node:w time:t value:n lat:n lon:n quantity:w note:w flag:n")))
def test_the_order_of_the_columns_does_not_matter(shuffled: list[tuple[str, Kind]]) -> None:
    expected = TableLayout("time", "node", "value", ("value",), "quantity", "lat", "lon", owner_flags=("flag",))
    assert recognise(shuffled, Options(), "readings.csv") == expected


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "NA", "-2.5e3", "NULL"], "number"),
        (["1", "2", "x"], "number"),
        (["2020-01-01 00:00", "?"], "time"),
        (["31/12/2020"], "date"),
        (["12:30", "1:05:07 pm"], "clock"),
        (["a", "b", "3"], "text"),
        (["", " ", "NaN"], "other"),
        ([], "other"),
    ],
)
def test_kinds(texts: list[str], kind: Kind) -> None:
    assert find_kind(texts) == kind
