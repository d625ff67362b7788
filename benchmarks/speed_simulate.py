"""Writes the days of a simulated city to files: `python benchmarks/speed_simulate.py FOLDER SENSORS PERIODS`."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np

from sensormend.simulate.network import stream

__all__ = ["simulate_in_a_process"]

# A day of a million sensors is made of arrays that the C library would give back to the system one by one, only to have
# them zeroed and mapped again: a third of the time.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**36), "MALLOC_TOP_PAD_": str(2**26)}


def simulate_in_a_process(folder: Path, sensors: int, periods: int) -> float:
    """Write `periods` days to the folder; return the seconds of processor time that one took."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = subprocess.run(
        [sys.executable, __file__, str(folder), str(sensors), str(periods)],
        env={**os.environ, **KEEP_MEMORY}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return float(ended.stdout) / periods


def main(folder: Path, sensors: int, periods: int) -> None:
    start = process_time()
    for number, day in enumerate(islice(stream(sensors, seed=0), periods)):
        unfinished = folder / "unfinished"
        with unfinished.open("wb") as file:
            np.save(file, day.readings)
        unfinished.rename(folder / f"{number:02d}.npy")
    sys.stdout.write(str(process_time() - start))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
