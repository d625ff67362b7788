"""The readings of many networks, sorted apart once: a file for each, so that whoever mends one reads no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sensormend.files import beside
from sensormend.io.metadata import read_json, write_json
from sensormend.io.options import COLUMNS, EVERY, Options
from sensormend.io.sources import SourcePaths
from sensormend.io.sql import literal
from sensormend.io.staging import Progress, Staging

__all__ = ["Part", "Parts", "split"]


@dataclass(frozen=True)
class Part:
    """The readings of one network.

    Attributes
    ----------
    network
        Its name, as the readings have it.
    folder
        Its name as a folder.
    readings
        How many there are.
    variables
        What it measures.
    """

    network: str
    folder: str
    readings: int
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Parts:
    """All of them, and what is known of the whole.

    Attributes
    ----------
    parts
        By the name of the network.
    rejected
        Rows that could not be read.
    columns
        The columns that every part has beside sensor, time and value.
    """

    parts: tuple[Part, ...]
    rejected: int
    columns: tuple[str, ...]

    @property
    def readings(self) -> int:
        """How many readings there are."""
        return sum(part.readings for part in self.parts)

    def options(self, options: Options, part: Part) -> Options:
        """Return options for one part: its columns have names of ours, and it may lack variables that others have."""

        def kept(said: Any) -> Any:
            return said and {name: given for name, given in said.items() if name == EVERY or name in part.variables}

        ours = ("sensor", "time", "value", *self.columns)
        names: dict[str, Any] = {name: name if name in ours else None for name in COLUMNS}
        return replace(
            options, **names, sensor_from_file=False, variables=(), sensors=(), fill=kept(options.fill),
            valid=kept(options.valid), tolerance=kept(options.tolerance), units=kept(options.units),
            names=kept(options.names),
        )  # fmt: skip


def split(
    folder: Path,
    source: SourcePaths,
    options: Options,
    named: Callable[[list[str]], dict[str, str]],
    reading: Progress,
    sorting: Callable[[int], Progress],
) -> Parts:
    """Read a source and write `<folder>/parts/<network>.parquet` for every network, if that is not done yet.

    Parameters
    ----------
    folder
        Where the parts go, and all that is written down on the way.
    source, options
        As for `clean`; `options.networks` is the column to go by.
    named
        Gives the folders of networks.
    reading, sorting
        Told how much of it is done; `sorting` first how many readings there are.
    """
    done = folder / "networks.json"
    if done.exists():
        told = read_json(done)
        parts = tuple(Part(**{**part, "variables": tuple(part["variables"])}) for part in told["parts"])
        return Parts(parts, told["rejected"], tuple(told["columns"]))
    with Staging(folder) as staging:
        staging.load(source, options, reading)
        if staging.rejected:
            staging.write_rejected(folder / "rejected.csv")
        options.refuse_unknown(staging.variables)
        found = _split(staging, folder / "parts", named, sorting(staging.readings))
    write_json(done, asdict(found))
    staging.path.unlink()
    return found


def _split(staging: Staging, folder: Path, named: Callable[[list[str]], dict[str, str]], progress: Progress) -> Parts:
    ask = staging.ask
    ask("""
        CREATE TABLE networks AS SELECT network, (row_number() OVER (ORDER BY network) - 1)::INTEGER AS code, n, kinds
        FROM (SELECT network, count(*) AS n, list_sort(list(DISTINCT variable)) AS kinds
              FROM raw WHERE reason IS NULL GROUP BY network) ORDER BY network""")
    listed = ask("SELECT network, n, kinds FROM networks ORDER BY code")
    folders = named([network for network, *_ in listed])
    placed = ask("SELECT count(latitude) > 0 AND count(longitude) > 0 FROM raw WHERE reason IS NULL")[0][0]
    columns = [*(["variable"] if staging.variables != (EVERY,) else []), *(["latitude", "longitude"] if placed else [])]
    wanted = ", ".join(["sensor", "make_timestamp(time) AS time", "value", *columns])
    ask(f"""
        CREATE TABLE apart AS SELECT code, {wanted} FROM raw JOIN networks USING (network) WHERE reason IS NULL
        ORDER BY code, raw.rowid""")
    ask("DROP TABLE raw")
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for code, (network, count, kinds) in enumerate(listed):
        part = Part(network, folders[network], count, tuple(kinds))
        with beside(folder / f"{part.folder}.parquet") as new:
            ask(f"COPY (SELECT * EXCLUDE (code) FROM apart WHERE code = {code}) TO {literal(new)} (FORMAT parquet)")
        parts.append(part)
        progress((code + 1) / len(listed))
    return Parts(tuple(parts), staging.rejected, tuple(columns))
