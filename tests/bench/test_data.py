"""Real data comes from a folder, or once over the network, and never as something else than it was."""

import hashlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from sensormend.bench import data as module
from sensormend.bench.data import NETWORKS, PUBLIC, Public, load_network, load_reference, real_data
from sensormend.errors import SensormendError

FILE = "noaa_TEM.mat"


def test_a_network_with_copies_has_sensors_that_nearly_always_equal_others() -> None:
    truth = load_network("copies", days=20, seed=4)
    assert truth.shape == (12, 24, 20)
    equal = truth[:5] == truth[7:]
    assert 0.93 < equal.mean() < 0.97
    np.testing.assert_allclose(np.abs(truth[:5] - truth[7:])[~equal], 0.1)
    np.testing.assert_array_equal(truth, load_network("copies", days=20, seed=4))
    assert load_network("copies", days=3, sensors=24).shape == (24, 24, 3)
    assert "copies" in NETWORKS


@pytest.mark.parametrize("name", ["city", "dense", "copies", "skewed", "zeros", "pressure", "sparse"])
def test_every_simulated_network_can_be_loaded(name: str) -> None:
    truth = load_network(name, days=4)
    assert truth.shape[1:] == (24, 4)
    assert np.isfinite(truth).all()


class Mirror:
    """A web server on this machine that serves one folder and remembers what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()
        asked = self.asked

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                asked.append(self.path)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    folder = tmp_path / "public"
    folder.mkdir()
    running = Mirror(folder)
    thread = threading.Thread(target=running.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.server.shutdown()
    thread.join()
    running.server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on a machine that has no data, and no proxy between it and itself."""
    pytest.importorskip("pooch")
    folder = tmp_path / "cache"
    monkeypatch.delenv("SENSORMEND_DATA", raising=False)
    monkeypatch.delenv("SENSORMEND_DATA_URL", raising=False)
    monkeypatch.setenv("SENSORMEND_CACHE", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(module, "_beside_project", lambda: tmp_path / "nowhere")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def published(monkeypatch: pytest.MonkeyPatch, folder: Path, file: str = FILE, places: tuple[str, ...] = ()) -> Path:
    """Publish a small file under a name we know, with its checksum."""
    variable, sensors = ("noaa", 1) if file == "noaa_chi_12M.mat" else ("Obs2", 2)
    folder.mkdir(parents=True, exist_ok=True)
    savemat(folder / file, {variable: np.arange(sensors * 48.0).reshape(sensors, 48)})
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    monkeypatch.setitem(PUBLIC, file, Public(digest, places or (f"commit/data/{file}",)))
    return folder / file


def left_in(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*")) if cache.exists() else []


def test_a_file_is_fetched_once_and_then_read_from_the_cache(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = published(monkeypatch, mirror.folder)
    first = real_data(FILE, url=mirror.url)
    assert first == cache / FILE
    assert first.read_bytes() == source.read_bytes()
    assert mirror.asked == [f"/{FILE}"]
    source.unlink()
    assert real_data(FILE, url=mirror.url) == first
    assert len(mirror.asked) == 1, "the second time nobody is asked"
    assert left_in(cache) == [first]


def test_networks_and_the_reference_load_from_a_mirror(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(monkeypatch, mirror.folder)
    published(monkeypatch, mirror.folder, "noaa_chi_12M.mat")
    monkeypatch.setenv("SENSORMEND_DATA_URL", f"{mirror.url}/")
    assert load_network("noaa").shape == (2, 24, 2)
    assert load_reference()[3, 1] == 24 + 3


def test_a_wrong_checksum_is_one_line_and_leaves_nothing(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(monkeypatch, mirror.folder).write_bytes(b"something else")
    with pytest.raises(SensormendError, match="SHA-256 differs") as caught:
        real_data(FILE, url=mirror.url)
    message = str(caught.value)
    assert "\n" not in message
    assert "SENSORMEND_DATA" in message
    assert module.REPOSITORY in message
    assert left_in(cache) == []


def test_a_damaged_copy_in_the_cache_is_fetched_again(
    mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = published(monkeypatch, mirror.folder)
    cache.mkdir()
    (cache / FILE).write_bytes(b"half of it")
    assert real_data(FILE, url=mirror.url).read_bytes() == source.read_bytes()


def test_the_authors_names_are_tried_in_turn(mirror: Mirror, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = published(monkeypatch, mirror.folder / "b" / "data", places=(f"a/data/{FILE}", f"b/data/{FILE}"))
    monkeypatch.setattr(module, "RAW_FILES", mirror.url)
    assert real_data(FILE).read_bytes() == source.read_bytes()
    assert [path for path in mirror.asked if path == f"/b/data/{FILE}"]


@pytest.mark.parametrize("present", [True, False])
def test_without_a_network_one_line_says_what_to_do(mirror: Mirror, cache: Path, present: bool) -> None:
    url = f"{mirror.url}/absent" if present else "http://127.0.0.1:9"
    with pytest.raises(SensormendError, match="could not be fetched") as caught:
        real_data(FILE, url=url)
    message = str(caught.value)
    assert "\n" not in message
    assert "set SENSORMEND_DATA" in message
    assert module.REPOSITORY in message
    assert left_in(cache) == []


def test_without_pooch_one_line_says_what_to_install(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(SensormendError, match=r"pip install 'sensormend\[bench\]'") as caught:
        real_data(FILE)
    assert "\n" not in str(caught.value)
    assert "set SENSORMEND_DATA" in str(caught.value)


def test_a_folder_that_is_named_is_the_only_one_asked(
    mirror: Mirror, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(monkeypatch, mirror.folder)
    monkeypatch.setenv("SENSORMEND_DATA", str(tmp_path))
    with pytest.raises(SensormendError, match="set SENSORMEND_DATA"):
        real_data(FILE, url=mirror.url)
    assert mirror.asked == []
    (tmp_path / FILE).write_bytes(b"")
    assert real_data(FILE, url=mirror.url) == tmp_path / FILE


def test_an_unpublished_file_is_not_downloaded(mirror: Mirror, cache: Path) -> None:
    with pytest.raises(SensormendError, match="set SENSORMEND_DATA"):
        real_data("mine.mat", url=mirror.url)
    assert mirror.asked == []


@pytest.mark.parametrize("file", list(PUBLIC))
def test_the_checksums_are_those_of_the_files_measured_with(data: Path, file: str) -> None:
    assert hashlib.sha256((data / file).read_bytes()).hexdigest() == PUBLIC[file].sha256
