"""Faults of HDFS, of the network and of other processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
import requests

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs

MIB = 1 << 20


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.fixture(params=["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def folder(request: pytest.FixtureRequest) -> Iterator[Location]:
    folder = Location.parse(os.environ[request.param]) / "trainfeed-test" / str(uuid.uuid4())
    folder.make_dir()
    yield folder
    folder.delete(recursive=True)


def names(folder: Location) -> list[str]:
    return [info.name for info in folder.list()]


def put(location: Location, data: bytes) -> Location:
    location.write_atomic(lambda file: file.write(data))
    return location


def web(folder: Location, operation: str, **parameters: str) -> None:
    """Ask the NameNode for something that no file system of ours offers."""
    uri = urlsplit(os.environ["TEST_WEBHDFS_URI"])
    answer = requests.put(
        f"http://{uri.hostname}:{uri.port}/webhdfs/v1{folder.path}",
        params={"op": operation, "user.name": "hdfs", **parameters},
        timeout=10,
    )
    answer.raise_for_status()


def as_user(user: str, uri: str) -> Location:
    """The same place, seen by another user."""
    if uri.startswith("hdfs://"):
        os.environ["HADOOP_USER_NAME"] = user
        _hdfs._connect.cache_clear()
        return Location.parse(uri)
    return Location.parse(uri.replace("//hdfs@", f"//{user}@"))


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_both_protocols_see_the_same_files() -> None:
    native, over_http = (
        Location.parse(os.environ[variable]) / "trainfeed-test" / str(uuid.uuid4())
        for variable in ("TEST_HDFS_URI", "TEST_WEBHDFS_URI")
    )
    over_http = Location(over_http.fs, native.path)
    data = os.urandom(3 * MIB + 1)
    put(native / "a", data)
    put(over_http / "b", data)
    try:
        assert native.list() == over_http.list()
        assert (native / "b").read_bytes() == (over_http / "a").read_bytes() == data
    finally:
        native.delete(recursive=True)


def test_clients_work_on_both_sides_of_a_fork(folder: Location) -> None:
    """R20: the parent's client would block the child for ever, at its exit at the latest."""
    code = """
import os, sys
from trainfeed.files.stores import Location
folder = Location.parse(sys.argv[1])
assert folder.exists()
child = os.fork()
if child == 0:
    assert (folder / "child").create_exclusive(b"child")
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (folder / "child").read_bytes() == b"child"
print("done")
"""
    assert run_python(code, folder.uri) == "done"


def test_of_racing_processes_one_claims_the_name(folder: Location) -> None:
    code = """
import sys, time
from trainfeed.files.stores import Location
folder = Location.parse(sys.argv[1])
folder.exists()
while time.time() < float(sys.argv[3]):
    pass
print((folder / "plan").create_exclusive(sys.argv[2].encode() * 1000))
"""
    start = str(time.time() + 2)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, folder.uri, str(index), start],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(3)
    ]
    answers = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert sorted(answers) == ["False", "False", "True"]
    assert (folder / "plan").read_bytes() == str(answers.index("True")).encode() * 1000
    assert names(folder) == ["plan"]


def test_another_user_is_denied_and_told_so(folder: Location) -> None:
    """HD-16."""
    web(folder, "SETPERMISSION", permission="700")
    other = as_user("mallory", folder.uri)
    for attempt in (
        lambda: (other / "new").create_exclusive(b"data"),
        lambda: (other / "new").write_atomic(lambda file: file.write(b"data")),
        (other / "folder").make_dir,
        other.list,
        (other / "below").exists,
    ):
        with pytest.raises(AccessDeniedError, match="mallory"):
            attempt()
    as_user("hdfs", folder.uri)
    assert names(folder) == []


def test_a_full_quota_is_told_and_leaves_nothing(folder: Location) -> None:
    """HD-14."""
    put(folder / "old", b"old")
    web(folder, "SETQUOTA", namespacequota="-1", storagespacequota=str(MIB))
    with pytest.raises(QuotaExceededError, match="free space or raise the quota"):
        put(folder / "new", b"x" * 2 * MIB)
    web(folder, "SETQUOTA", namespacequota="2", storagespacequota="-1")
    with pytest.raises(QuotaExceededError):
        (folder / "a").make_dir()
    web(folder, "SETQUOTA", namespacequota="-1", storagespacequota="-1")
    assert names(folder) == ["old"]


@pytest.mark.parametrize("name", ["with:colon", "x" * 256])
def test_a_name_that_hdfs_cannot_hold_is_refused_for_good(folder: Location, name: str) -> None:
    """HD-09."""
    for attempt in ((folder / name).make_dir, lambda: put(folder / name, b"data")):
        with pytest.raises(UnsuitableStoreError):
            attempt()
    assert names(folder) == []


def test_a_file_replaced_while_it_is_read_is_old_or_an_error(folder: Location) -> None:
    """HD-17: old and new bytes are never mixed."""
    old, new = b"o" * 6 * MIB, b"n" * 6 * MIB
    put(folder / "file", old)
    with (folder / "file").open_read() as file:
        assert file.read(MIB) == old[:MIB]
        put(folder / "file", new)
        try:
            file.seek(4 * MIB)
            rest = file.read()
        except (ConflictError, NotFoundError, StorageError):
            rest = b""
        assert not rest.strip(b"o")
    assert (folder / "file").read_bytes() == new


def test_a_file_that_ends_early_is_found_out(folder: Location) -> None:
    put(folder / "file", b"x" * 1000)
    with (folder / "file").open_read() as file:
        (folder / "file").delete()
        put(folder / "file", b"x" * 10)
        try:
            data = file.read()
        except StorageError:
            data = b"x" * 1000
        assert data == b"x" * 1000


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_server_that_is_down_is_told_soon(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    location = Location.parse(f"{scheme}://127.0.0.1:{port}/x")
    started_s = time.monotonic()
    for attempt in (location.exists, lambda: put(location, b"data"), location.open_read):
        with pytest.raises(StorageError, match=rf"127\.0\.0\.1:{port}.*retry") as caught:
            attempt()
        assert type(caught.value) is StorageError
    assert time.monotonic() - started_s < 10


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_server_that_says_nothing_is_given_up(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R19."""
    monkeypatch.setattr(_hdfs, "_DEADLINE_S", 0.5)
    monkeypatch.setattr("trainfeed.files.stores.webhdfs.READ_TIMEOUT_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        location = Location.parse(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(StorageError, match=r"no answer|timed out"):
            location.exists()


class Misleading(BaseHTTPRequestHandler):
    """A NameNode that sends everybody on to a host that nobody knows."""

    def do_GET(self) -> None:
        if "op=GETFILESTATUS" in self.path:
            body = b'{"FileStatus": {"type": "FILE", "length": 5, "fileId": 1}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self._send_on()

    def do_PUT(self) -> None:
        self._send_on()

    def _send_on(self) -> None:
        self.send_response(307)
        self.send_header("Location", f"http://datanode.invalid:9864{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Be quiet."""


def test_a_redirect_to_an_unknown_host_names_it() -> None:
    """HD-10."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Misleading)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        location = Location.parse(f"webhdfs://127.0.0.1:{server.server_port}/x")
        with location.open_read() as file, pytest.raises(StorageError, match=r"datanode\.invalid"):
            file.read()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
