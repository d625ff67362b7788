"""`split` writes the readings of many networks to one file per network, so that cleaning one reads no other."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sensormend.files import replacing
from sensormend.io.metadata import read_json, write_json
from sensormend.io.sources import SourcePaths
from sensormend.io.sql import literal
from sensormend.io.staging import Staging
from sensormend.pipeline.options import COLUMNS, EVERY, Options

__all__ = ["NetworkPart", "NetworkParts", "Stages", "name_folders", "split"]

Stages = Callable[[str, int], Callable[..., None]]
"""Called at the start of a stage with its name and its number of readings; returns a callback for the completed share,
0 to 1, and a text beside it."""

LONGEST = 80
"""The longest name of a folder, in characters: endings are appended, and file systems allow 255 bytes."""

RESERVED = {"data", "state", "staging", "meta", "partial"}
RESERVED |= {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""Names that have a meaning in an output folder, or are reserved by Windows."""


def name_folders(networks: Iterable[str]) -> dict[str, str]:
    """Return a folder's name for every network.

    It is the network's name where that is safe: ASCII letters, digits, `_` and `-`, and no other name that differs in
    case only. Otherwise it is the safe part of the name and a fingerprint, so that it does not depend on the order of
    the networks.

    Examples
    --------
    >>> name_folders(["river", "../x", "A", "a"])
    {'river': 'river', '../x': 'x-d6b96a97', 'A': 'A-559aead0', 'a': 'a-ca978112'}
    """
    networks = list(dict.fromkeys(networks))
    counts = Counter(name.casefold() for name in networks)
    for length in (8, 16, 64):
        folders = {
            name: name if counts[name.casefold()] == 1 and _is_safe(name) else _encoded(name, length)
            for name in networks
        }
        if len({folder.casefold() for folder in folders.values()}) == len(folders):
            break
    return folders if networks else {}


def _is_safe(name: str) -> bool:
    characters = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name)
    return characters is not None and len(name) <= LONGEST and name.casefold() not in RESERVED


def _encoded(name: str, length: int) -> str:
    # Accents are dropped, their letters stay.
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    word = re.sub(r"[^A-Za-z0-9]+", "_", ascii_name).strip("_")[: LONGEST - 1 - length] or "network"
    return f"{word}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:length]}"


@dataclass(frozen=True)
class NetworkPart:
    """The readings of one network: its name, its folder, their number, and the variables."""

    network: str
    folder: str
    readings: int
    variables: tuple[str, ...]


@dataclass(frozen=True)
class NetworkParts:
    """All networks by name, the number of unreadable rows, and the columns beside sensor, time and value."""

    parts: tuple[NetworkPart, ...]
    rejected: int
    columns: tuple[str, ...]

    @property
    def readings(self) -> int:
        """The number of readings."""
        return sum(part.readings for part in self.parts)

    def options(self, options: Options, part: NetworkPart) -> Options:
        """Return options for one part: its columns have fixed names, and it may lack variables of other networks."""

        def own(values: Any) -> Any:
            return values and {name: value for name, value in values.items() if name in (EVERY, *part.variables)}

        written = ("sensor", "time", "value", *self.columns)
        names: dict[str, Any] = {name: name if name in written else None for name in COLUMNS}
        return replace(
            options, **names, sensor_from_file=False, variables=(), sensors=(), fill=own(options.fill),
            valid=own(options.valid), tolerance=own(options.tolerance), units=own(options.units),
            names=own(options.names),
        )  # fmt: skip


def split(folder: Path, source: SourcePaths, options: Options, stages: Stages) -> NetworkParts:
    """Read a source and write `<folder>/parts/<network>.parquet` for every network, unless that is done.

    `options.networks` is the column of networks. What cannot be read goes into `rejected.csv` beside the folder.
    """
    path = folder / "networks.json"
    if path.exists():
        record = read_json(path)
        saved = tuple(NetworkPart(**{**part, "variables": tuple(part["variables"])}) for part in record["parts"])
        return NetworkParts(saved, record["rejected"], tuple(record["columns"]))
    with Staging(folder) as staging:
        staging.load(source, options, stages("reading", 0))
        if staging.rejected:
            staging.write_rejected(folder.with_name("rejected.csv"))
        options.refuse_unknown(staging.variables)
        parts = _split(staging, folder / "parts", stages("sorting", staging.readings))
    write_json(path, asdict(parts))
    staging.path.unlink()
    return parts


def _split(staging: Staging, folder: Path, progress: Callable[[float], None]) -> NetworkParts:
    ask = staging.ask
    ask("""
        CREATE TABLE networks AS SELECT network, (row_number() OVER (ORDER BY network) - 1)::INTEGER AS code, n, kinds
        FROM (SELECT network, count(*) AS n, list_sort(list(DISTINCT variable)) AS kinds
              FROM raw WHERE reason IS NULL GROUP BY network) ORDER BY network""")
    networks = ask("SELECT network, n, kinds FROM networks ORDER BY code")
    folders = name_folders([network for network, *_ in networks])
    columns = ["variable"] if staging.variables != (EVERY,) else []
    columns += ["latitude", "longitude"] if staging.has_positions else []
    columns += ["owner_flag"] if staging.owner_flags else []
    selected = ", ".join(["sensor", "make_timestamp(time) AS time", "value", *columns])
    ask(f"""
        CREATE TABLE apart AS SELECT code, {selected} FROM raw JOIN networks USING (network) WHERE reason IS NULL
        ORDER BY code, raw.rowid""")
    ask("DROP TABLE raw")
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for code, (network, count, kinds) in enumerate(networks):
        part = NetworkPart(network, folders[network], count, tuple(kinds))
        with replacing(folder / f"{part.folder}.parquet") as new:
            ask(f"COPY (SELECT * EXCLUDE (code) FROM apart WHERE code = {code}) TO {literal(new)} (FORMAT parquet)")
        parts.append(part)
        progress((code + 1) / len(networks))
    return NetworkParts(tuple(parts), staging.rejected, tuple(columns))
