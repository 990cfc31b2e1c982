"""dataset.common.download and md5file, mnist.reader_creator: files that are fetched once."""

import gzip
import hashlib
import http.server
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from trainfeed.compat.paddle import dataset
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
)

DATA = bytes(range(256)) * 20_000
MD5 = hashlib.md5(DATA, usedforsecurity=False).hexdigest()
OTHER = "0" * 32


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/data.bin")
            self.end_headers()
            return
        if not self.path.startswith(("/data.bin", "/short")):
            self.send_error(404 if self.path == "/nothing" else 503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA[: 1000 if self.path == "/short" else None])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(socket_enabled):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.asked = []
        served.url = f"http://127.0.0.1:{served.server_port}"
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "given data.bin"
    path.write_bytes(DATA)
    return path


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_md5_of_a_file_is_that_of_its_bytes(source, tmp_path):
    assert dataset.common.md5file(source) == dataset.common.md5file(str(source)) == MD5
    (tmp_path / "empty").touch()
    assert dataset.common.md5file(tmp_path / "empty") == "d41d8cd98f00b204e9800998ecf8427e"
    with pytest.raises(NotFoundError):
        dataset.common.md5file(tmp_path / "none")


def test_a_file_is_fetched_once_and_then_found(server, home):
    for _ in range(2):
        path = dataset.common.download(f"{server.url}/data.bin?key=1", "digits", MD5)
        assert path == str(home / "digits" / "data.bin")
        assert Path(path).read_bytes() == DATA
    assert server.asked == ["/data.bin?key=1"]
    assert files_below(home) == ["digits/data.bin"]
    moved = dataset.common.download(f"{server.url}/moved", "digits", MD5, "renamed")
    assert Path(moved).name == "renamed"


def test_files_and_paths_are_addresses_too(source, home):
    for url in (str(source), source.as_uri()):
        path = dataset.common.download(url, "digits", MD5, "data")
        assert Path(path).read_bytes() == DATA
        Path(path).unlink()
    assert dataset.common.download(str(source), "digits", MD5) == str(home / "digits" / source.name)


def test_a_file_that_is_there_is_never_replaced(server, home):
    (home / "digits").mkdir(parents=True)
    (home / "digits" / "data.bin").write_bytes(b"mine")
    with pytest.raises(ChecksumError, match=r"was kept; delete it, or give a save_name.*data\.bin"):
        dataset.common.download(f"{server.url}/data.bin", "digits", MD5)
    assert (home / "digits" / "data.bin").read_bytes() == b"mine"
    assert server.asked == []


@pytest.mark.parametrize(
    ("path", "md5sum", "error", "text"),
    [
        ("/data.bin", OTHER, ChecksumError, f"the MD5 {OTHER} at http.*got one with {MD5}"),
        ("/short", MD5, ChecksumError, "nothing was kept"),
        ("/nothing", MD5, NotFoundError, "answers 404"),
        ("/broken", MD5, StorageError, "answers 503"),
    ],
)
def test_what_is_not_right_leaves_no_file(server, home, path, md5sum, error, text):
    with pytest.raises(error, match=text):
        dataset.common.download(f"{server.url}{path}", "digits", md5sum)
    assert files_below(home) == []


def test_an_address_that_nobody_serves_is_told_without_its_secrets(home, socket_enabled):
    with pytest.raises(StorageError, match=r"cannot read http://127\.0\.0\.1:9/x") as caught:
        dataset.common.download("http://me:secret@127.0.0.1:9/x?token=secret", "digits", MD5)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="expected an address with a host") as refused:
        dataset.common.download("http://me:secret/secret@127.0.0.1:9/x", "digits", MD5)
    assert "secret" not in str(refused.value)
    assert files_below(home) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("ftp://127.0.0.1/x", "digits", MD5),
        ("file://elsewhere/x", "digits", MD5),
        ("/x", "..", MD5),
        ("/x", "a/b", MD5),
        ("/x/", "digits", MD5),
        ("/x", "digits", MD5, "../x"),
        ("/x", "digits", "abc"),
        ("/x", "digits", None),
    ],
)
def test_names_sums_and_addresses_are_checked(home, arguments):
    with pytest.raises(ConfigError, match="expected"):
        dataset.common.download(*arguments)
    assert files_below(home) == []


def test_a_file_that_another_process_has_made_meanwhile_is_looked_at(source, home, monkeypatch):
    def fetch_late(url, path, md5sum):
        path.parent.mkdir(parents=True)
        path.write_bytes(DATA)
        return fetch(url, path, md5sum)

    fetch = dataset.common.fetch
    monkeypatch.setattr(dataset.common, "fetch", fetch_late)
    assert dataset.common.download(str(source), "digits", MD5, "x") == str(home / "digits" / "x")
    with pytest.raises(ChecksumError, match="was kept"):
        dataset.common.download(str(source), "others", OTHER, "x")


def test_digits_are_read_from_files_that_are_named(tmp_path):
    images, labels = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28), bytes([7, 8, 9])
    with gzip.open(tmp_path / "images.gz", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, 3, 28, 28) + images.tobytes())
    (tmp_path / "labels").write_bytes(struct.pack(">II", 0x801, 3) + labels)
    reader = dataset.mnist.reader_creator(str(tmp_path / "images.gz"), tmp_path / "labels", 2)
    for _ in range(2):
        got = list(reader())
        assert [int(label) for _, label in got] == [7, 8, 9]
        expected = images.reshape(3, 784).astype(np.float32) / 255.0 * 2.0 - 1.0
        assert np.array_equal(np.stack([image for image, _ in got]), expected)
    with pytest.raises(NotFoundError, match="none is not there"):
        dataset.mnist.reader_creator(tmp_path / "none", tmp_path / "labels", 2)
    with pytest.raises(ValueError, match="buffer_size"):
        dataset.mnist.reader_creator(tmp_path / "images.gz", tmp_path / "labels", 0)
    (tmp_path / "two").write_bytes(struct.pack(">II", 0x801, 2) + labels[:2])
    with pytest.raises(FormatError):
        list(dataset.mnist.reader_creator(tmp_path / "images.gz", tmp_path / "two", 2)())
