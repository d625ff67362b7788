"""`ServiceState` loads and saves the state in OUT/state from which a restarted service continues."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sensormend.archive.checkpoint import Checkpoint, fetch, put
from sensormend.errors import ConfigError, StateError
from sensormend.files import StateFiles, read_state, write_state
from sensormend.io.folder import find_meta
from sensormend.io.metadata import read_json, write_json
from sensormend.pipeline.cleaner import STATE_VERSION as CLEANER_VERSION
from sensormend.pipeline.cleaner import Cleaner, cleaner_for
from sensormend.pipeline.grid import Grid
from sensormend.pipeline.survey import Survey
from sensormend.pipeline.times import in_words
from sensormend.stream.alerts import Alerts
from sensormend.stream.codec import pack, unpack
from sensormend.stream.digest import Digest
from sensormend.stream.settings import Settings
from sensormend.stream.store import Acknowledged, Store, copied
from sensormend.stream.stream import Stream

__all__ = ["STORE", "ServiceState"]

STATE_VERSION = 3

STORE = "store.sqlite"
"""The file in OUT/state that has the inputs, deliveries and the checkpoint."""


class ServiceState:
    """The name of a `watch`, and what a checkpoint has of it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / "state"
        self._watch_file = self.folder / "watch.json"

    def claim(self) -> None:
        """Create the output if it is missing; refuse one that another program wrote, or that cannot be written."""
        self.check()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write to {self.out}: {error.strerror}") from error
        if not os.access(self.folder, os.W_OK):
            raise ConfigError(f"cannot write to {self.folder}: it belongs to another user")

    def check(self) -> None:
        """Refuse an output folder that `watch` did not write."""
        if self.out.exists() and not self.is_begun:
            if not self.out.is_dir():
                raise ConfigError(f"OUT is a folder; {self.out} is a file")
            command = read_json(self.out / "run.json").get("command")
            if command == "clean":
                raise ConfigError(
                    f"{self.out} was written by clean; watch into another folder, and continue from it with --from"
                )
            if command == "watch":
                raise ConfigError(f"{self.out} has lost its state and cannot continue; watch into another OUT")
            if any(entry.name != "state" for entry in self.out.iterdir()):
                raise ConfigError(f"{self.out} is a folder that sensormend did not write; choose another OUT")

    @property
    def is_begun(self) -> bool:
        """Whether a `watch` has written here, and its name is known."""
        return self._watch_file.exists() or "name" in self._acknowledged

    @property
    def _acknowledged(self) -> dict[str, Any]:
        return Acknowledged.read(self.folder / "acknowledged")

    def begin(self, *, again: bool = False) -> None:
        """Mark the folder as the output folder of a `watch`, if it is not or the mark is damaged."""
        if again or not self._watch_file.exists():
            name = self._acknowledged.get("name") or f"sensormend-{uuid.uuid4().hex[:12]}"
            write_json(self._watch_file, {"watch": STATE_VERSION, "name": name})

    @property
    def name(self) -> str:
        """Its unique name, the same after every restart: brokers store messages for this name."""
        return str(read_json(self._watch_file)["name"])

    @property
    def topics(self) -> list[str]:
        """All topics to which the source was ever subscribed; a session at a broker may still be."""
        return list(read_json(self._watch_file).get("topics", ()))

    @topics.setter
    def topics(self, topics: Sequence[str]) -> None:
        if list(topics) != self.topics:
            write_json(self._watch_file, {**read_json(self._watch_file), "topics": list(topics)})

    @staticmethod
    def new_stream(settings: Settings, cleaner: Cleaner | None = None, survey: Survey | None = None) -> Stream:
        """Return a new stream; settings that no stream can have are refused."""
        # Notes on maintenance come with the inputs: a replay must use the notes of the run before it.
        options, rules = replace(settings.options, maintenance=None), settings.alerts
        alerts = Alerts(
            after=rules.after,
            well_after=rules.well_after,
            min_duration=rules.stood,
            min_readings=rules.stood_readings,
        )
        return Stream(
            options,
            grace=settings.grace,
            late_for=settings.late_for,
            alerts=alerts,
            digest=Digest(rules.digest),
            cleaner=cleaner,
            survey=survey,
        )

    def load(self, settings: Settings, store: Store) -> tuple[Stream, dict[str, Any]]:
        """Return the stream of the checkpoint, or a new one, and what the service saved with it.

        Where a checkpoint is lost, the new stream refuses readings of the periods that are final.
        """
        if store.checkpoint is None:
            archive = () if settings.start_from is None else _from_archive(settings)
            stream, last = self.new_stream(settings, *archive), store.acknowledged.record.get("checkpoint")
            if last is None:
                return stream, {}
            stream.refuse_before(last["final"])
            return stream, {"next_input": last["number"], "lost": last["readings"]}
        number, content = store.checkpoint
        service, place = _state_files(store.path, content)
        stream = self.new_stream(settings)
        saved, arrays = read_state(place / "stream.npz", method="Stream", version=STATE_VERSION)
        _refuse_another_grid(saved.get("grid"), settings, self.out)
        _refuse_more_variables(saved, settings, self.out)
        try:
            stream.restore(saved, arrays)
        except ConfigError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"{store.path} is broken ({error}); watch into another OUT") from error
        if stream.cleaner is not None:
            fetch(place, stream.cleaner, stream.tally)
        return stream, {**service, "next_input": number}

    def save(self, stream: Stream, service: Mapping[str, Any], store: Store, **acknowledged: Any) -> None:
        """Save a checkpoint of all inputs so far."""
        place = StateFiles(str(store.path))
        if stream.cleaner is not None:
            put(place, stream.cleaner, stream.tally)
        settings, arrays = stream.state()
        write_state(place / "stream.npz", method="Stream", version=STATE_VERSION, settings=settings, arrays=arrays)
        files = {name: np.frombuffer(own.file.getbuffer(), np.uint8) for name, own in place.items()}
        store.save(pack(service, files), store.next_input, **acknowledged)


def _state_files(path: Path, content: bytes) -> tuple[dict[str, Any], StateFiles]:
    service, files = unpack(content)
    return service, StateFiles(str(path), {name: file.tobytes() for name, file in files.items()})


def _refuse_another_grid(stored: list[int] | None, settings: Settings, out: Path) -> None:
    if stored is None:
        return
    grid, options = Grid(*stored), settings.options
    for name, wanted, length in (("step", options.step, grid.step), ("period", options.period, grid.period)):
        if wanted is not None and wanted != length:
            raise ConfigError(
                f"{out} has a {name} of {in_words(length)}, not {in_words(wanted)}; another {name} needs another OUT"
            )


def _refuse_more_variables(saved: Mapping[str, Any], settings: Settings, out: Path) -> None:
    unknown = [name for name in settings.options.variables if name not in saved["variables"]]
    if unknown and "grid" in saved and saved["only"] is None:
        known = ", ".join(name or "one without a name" for name in saved["variables"])
        raise ConfigError(f"{out} knows {known}, and not {unknown[0]}; more variables need another OUT")


def _from_archive(settings: Settings) -> tuple[Cleaner, Survey]:
    """Return the cleaner, with its model, and the survey of an archive that `clean` or `watch` wrote."""
    assert settings.start_from is not None
    archive = find_meta(settings.start_from)
    place: Path | StateFiles = Checkpoint(archive / "state").place or archive / "state"
    has_model = (archive / "state" / "model.npz").exists()
    if (path := archive / "state" / STORE).exists():
        with copied(path) as store:
            _, place = _state_files(path, pack({}, {}) if store.checkpoint is None else store.checkpoint[1])
        has_model = "model.npz" in place
    if not has_model:
        raise ConfigError(f"there is no model in {settings.start_from}: --from takes the OUT of clean or watch")
    header, _ = read_state(place / "cleaner.npz", method="Cleaner", version=CLEANER_VERSION)
    run = read_json(archive / "run.json")
    try:
        grid, variables, circular = Grid(*header["grid"]), tuple(header["variables"]), header["circular"]
        fill = {name: tuple(values) for name, values in run.get("fill", {}).items()}
    except (KeyError, TypeError) as error:
        raise StateError(f"{place / 'cleaner.npz'} is broken") from error
    _refuse_another_grid(header["grid"], settings, settings.start_from)
    fill |= {name: values for name in variables if (values := settings.options.find_fill(name)) is not None}
    survey = Survey(grid, fill, circular=circular)
    cleaner = cleaner_for(survey, variables, replace(settings.options, maintenance=None))
    cleaner.load_model(place / "model.npz")
    cleaner.restore(place / "cleaner.npz")
    return cleaner, survey
