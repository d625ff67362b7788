"""Records are the same to compiled functions, to plain Python and in files."""

from __future__ import annotations

import typing
from pathlib import Path

import numpy as np
import pytest

from networks import trained
from oracles import kernels
from sensormend import NetworkModel, StateError
from sensormend.model import records
from sensormend.model.records import CHANNEL, HYPOTHESIS, REPORT, WORKING_CHANNEL
from sensormend.model.state import EpisodeRow

DTYPES = [value for value in vars(records).values() if isinstance(value, np.dtype)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.type.__name__)
def test_every_field_is_declared_and_an_attribute(dtype: np.dtype[np.void]) -> None:
    assert dtype.names is not None
    assert list(dtype.names) == list(typing.get_type_hints(dtype.type))
    assert not set(dtype.names) & set(dir(np.void)), "plain Python would read NumPy's own attribute"
    row = np.zeros(2, dtype)[1]
    assert isinstance(row, records.Record)
    with pytest.raises(AttributeError, match="has no field missing"):
        _ = row.missing


@pytest.mark.parametrize("dtype", [CHANNEL, HYPOTHESIS], ids=["channel", "hypothesis"])
def test_no_byte_of_a_file_is_left_unwritten(dtype: np.dtype[np.void]) -> None:
    """Compiled functions write field by field into memory that nothing was written to."""
    assert sum(dtype[name].itemsize for name in dtype.names or ()) == dtype.itemsize


def test_a_channel_is_copied_with_all_its_fields_to_the_other_precision() -> None:
    channel, working = np.zeros(1, CHANNEL), np.zeros(1, WORKING_CHANNEL)
    back = channel.copy()
    for number, name in enumerate(CHANNEL.names or (), start=1):
        channel[name] = number
    kernels.copy_channel(channel[0], working[0])
    kernels.copy_channel(working[0], back[0])
    assert working.tolist() == channel.tolist()
    assert back.tolist() == channel.tolist()


def test_a_row_of_a_report_has_the_fields_of_an_episode_in_their_order() -> None:
    names = [name.replace("fault_size", "size") for name in REPORT.names or ()]
    assert names == list(EpisodeRow._fields)
    (row,) = np.ones(1, REPORT).tolist()
    types = typing.get_type_hints(EpisodeRow)
    assert {name: type(value) for name, value in zip(types, row, strict=True)} == types


def test_a_state_with_other_fields_is_refused(tmp_path: Path) -> None:
    trained().save(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as archive:
        arrays = dict(archive)
    old = np.dtype([(name if name != "variance" else "other", CHANNEL[name]) for name in CHANNEL.names or ()])
    np.savez(tmp_path / "state.npz", **{**arrays, "stats": arrays["stats"].astype(old)})
    with pytest.raises(StateError, match="is not a whole NetworkModel state"):
        NetworkModel.load(tmp_path / "state.npz")
