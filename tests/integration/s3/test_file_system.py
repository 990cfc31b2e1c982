"""The shared cases against a real object store, and what is its own."""

from __future__ import annotations

import os
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.files.stores.file_system_behaviour import (
    MIB,
    FileSystemBehaviour,
    names,
    put,
    race,
)
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import Location, require_store_clock
from trainfeed.files.stores import s3 as _s3


class TestS3FileSystem(FileSystemBehaviour):
    @pytest.fixture
    def folder(self, folder: Location) -> Location:
        return folder


# --- creation --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 6 * MIB, 20 * MIB])
def test_of_eight_creations_one_wins_whatever_the_size(folder: Location, size: int) -> None:
    """Above 5 MiB a client turns to parts by itself, whose condition servers ignore."""
    for number in range(3):
        place = folder / str(number)
        contents = [bytes([65 + index]) * size for index in range(8)]
        won = race(
            [lambda data=data, place=place: place.create_exclusive(data) for data in contents]
        )
        assert sorted(won) == [False] * 7 + [True]
        assert place.read_bytes() == contents[won.index(True)]


class Proxy:
    """A server between client and store: it drops answers, or requests, of chosen methods."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition("/")[2].partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.drop_answers = 0
        self.drop_requests = 0
        self.puts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            client.settimeout(10)
            server.settimeout(10)
            while request := _message(client):
                is_put = request.startswith(b"PUT")
                self.puts += is_put
                if is_put and self.drop_requests:
                    self.drop_requests -= 1
                    return
                server.sendall(request)
                answer = _message(server, is_head=request.startswith(b"HEAD"))
                if is_put and self.drop_answers:
                    self.drop_answers -= 1
                    return
                client.sendall(answer)


def _message(peer: socket.socket, *, is_head: bool = False) -> bytes:
    """Return one request or answer of HTTP/1.1."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            piece = peer.recv(65536)
        except OSError:
            return b""
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    ]
    wanted = 0 if is_head else (lengths or [0])[0]
    while len(body) < wanted:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def proxy(folder: Location, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    proxy = Proxy(os.environ["TEST_S3_ENDPOINT"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setattr(_s3, "_PAUSES_S", (0.0, 0.0))
    _s3._connect.cache_clear()
    yield proxy
    monkeypatch.setenv("AWS_ENDPOINT_URL", os.environ["TEST_S3_ENDPOINT"])
    _s3._connect.cache_clear()
    proxy.close()


@pytest.mark.parametrize("lost", ["drop_answers", "drop_requests"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_creation_whose_answer_was_lost_is_ours(
    folder: Location, proxy: Proxy, lost: str, times: int
) -> None:
    setattr(proxy, lost, times)
    assert (folder / "file").create_exclusive(b"mine") is True
    assert (folder / "file").read_bytes() == b"mine"
    assert (folder / "file").create_exclusive(b"mine") is False


def test_a_creation_that_never_gets_an_answer_is_not_said_to_be_done(
    folder: Location, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_s3.S3FileSystem, "_attempt_of", lambda *_: None)
    proxy.drop_answers = 1000
    with pytest.raises(CommitUnknownError, match="run the same again"):
        (folder / "file").create_exclusive(b"mine")


# --- large files, errors in between ----------------------------------------------------------


def test_a_file_of_many_parts_appears_when_it_is_complete(folder: Location) -> None:
    data = os.urandom(21 * MIB + 5)
    seen: list[list[str]] = []

    def write(file):
        for start in range(0, len(data), 3 * MIB):
            file.write(data[start : start + 3 * MIB])
            seen.append(names(folder))

    (folder / "large").write_atomic(write)
    assert seen == [[]] * 8
    assert (folder / "large").read_bytes() == data


def test_a_write_of_many_parts_that_fails_leaves_nothing(folder: Location) -> None:
    def fail(file):
        file.write(bytes(20 * MIB))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        (folder / "large").write_atomic(fail)
    assert names(folder) == []


def test_a_new_large_file_takes_no_name_that_came_meanwhile(folder: Location) -> None:
    file = (folder / "large").open_write()
    file.write(bytes(20 * MIB))
    put(folder / "large", b"other")
    with pytest.raises(ConflictError):
        file.close()
    assert (folder / "large").read_bytes() == b"other"


def test_bytes_of_two_objects_are_never_mixed(folder: Location) -> None:
    put(folder / "file", b"a" * (3 * MIB))
    with (folder / "file").open_read() as file:
        assert file.read(1) == b"a"
        (folder / "file").write_atomic(lambda new: new.write(b"b" * (3 * MIB)))
        with pytest.raises((FileReplacedError, NotFoundError)):
            file.read()


def test_an_entity_tag_tells_another_content(folder: Location) -> None:
    first = put(folder / "file", b"one").checksum()
    (folder / "file").write_atomic(lambda new: new.write(b"two"))
    assert first
    assert (folder / "file").checksum() not in {None, first}


# --- what an object store cannot do, and what it refuses --------------------------------------


def test_what_needs_a_rename_is_refused_with_one_clear_error(folder: Location) -> None:
    put(folder / "file")
    assert not folder.has_rename
    with pytest.raises(UnsuitableStoreError, match="a transfer renames files, and s3:// has no"):
        (folder / "file").renaming("a transfer")
    assert names(folder) == ["file"]


def test_the_clock_of_the_store_is_compared(folder: Location) -> None:
    require_store_clock(folder, "nothing was removed")
    assert names(folder) == []


@contextmanager
def _client(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        _s3._connect.cache_clear()
        yield
    _s3._connect.cache_clear()


def test_wrong_credentials_are_denied_and_shown_nowhere(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "not-the-secret-of-this-store"
    with (
        _client(monkeypatch, AWS_SECRET_ACCESS_KEY=secret),
        pytest.raises(AccessDeniedError) as caught,
    ):
        folder.list()
    shown = [repr(folder), *traceback.format_exception(caught.value)]
    for hidden in (secret, os.environ["TEST_S3_SECRET_KEY"], "Signature>", "AWS4"):
        assert hidden not in "".join(shown)
    assert "(SignatureDoesNotMatch)" in str(caught.value)


def test_a_missing_bucket_and_a_server_that_is_away_are_told_apart(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Location.parse("s3://no-such-bucket-at-all")
    with pytest.raises(NotFoundError):
        (missing / "file").read_bytes()
    place = missing / "file"
    for call in (missing.list, place.exists, place.stat, lambda: place.create_exclusive(b"")):
        with pytest.raises(UnsuitableStoreError, match="NoSuchBucket"):
            call()
    with (
        _client(monkeypatch, AWS_ENDPOINT_URL="http://127.0.0.1:9"),
        pytest.raises(StorageError) as caught,
    ):
        (folder / "file").stat()
    assert caught.value.is_outage


def test_plain_http_to_another_machine_is_refused(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _client(monkeypatch, AWS_ENDPOINT_URL="http://store.example:80"),
        pytest.raises(ConfigError, match="expected https:// for store"),
    ):
        folder.list()
