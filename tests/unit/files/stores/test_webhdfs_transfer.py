"""Reading over connections that break, with a client that has no network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hdfs import HdfsError

from trainfeed.errors import FileReplacedError, NotFoundError, StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores.webhdfs import Download, Upload, connect

CONTENT = bytes(range(256)) * 4


class Answer:
    def __init__(self, data: bytes, *, breaks_after: int | None = None) -> None:
        self.data = data
        self.breaks_after = breaks_after
        self.closed = False

    def iter_content(self, _chunk_size: int) -> Iterator[bytes]:
        for start in range(0, len(self.data), 100):
            if self.breaks_after is not None and start >= self.breaks_after:
                raise requests.exceptions.ChunkedEncodingError("connection broken")
            yield self.data[start : start + 100]

    def close(self) -> None:
        self.closed = True


class Client:
    """The parts of the package's client that a download needs."""

    def __init__(self, answers: list[Any], file_ids: list[int] | None = None) -> None:
        self.answers = answers
        self.file_ids = file_ids or [7] * len(answers)
        self.opened: list[int] = []
        self.given: list[Answer] = []

    def _open(self, _path: str, offset: int) -> Answer:
        self.opened.append(offset)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        given = Answer(CONTENT[offset:], **answer)
        self.given.append(given)
        return given

    def status(self, _path: str) -> dict[str, int]:
        return {"fileId": self.file_ids.pop(0)}


def download(client: Client) -> Download:
    return Download(client, "webhdfs://h:1/x", path="/x", file_id=7)


def test_reading_on_uses_one_connection() -> None:
    client = Client([{}])
    reader = download(client)
    assert [reader.read_at(start, 150) for start in (0, 150, 300)] == [
        CONTENT[:150],
        CONTENT[150:300],
        CONTENT[300:450],
    ]
    reader.release()
    assert client.opened == [0]
    assert client.given[0].closed


def test_a_seek_hangs_up_and_asks_again() -> None:
    client = Client([{}, {}])
    reader = download(client)
    reader.read_at(0, 10)
    assert reader.read_at(500, 10) == CONTENT[500:510]
    assert client.opened == [0, 500]
    assert [answer.closed for answer in client.given] == [True, False]


@pytest.mark.parametrize("breaks_after", [0, 100, 200])
def test_a_broken_connection_is_asked_again_once(breaks_after: int) -> None:
    """HD-11."""
    client = Client([{}, {"breaks_after": breaks_after}, {}])
    reader = download(client)
    assert reader.read_at(0, 50) == CONTENT[:50]
    assert reader.read_at(300, 250) == CONTENT[300:550]
    assert client.opened == [0, 300, 300]


def test_a_server_that_has_just_come_back_is_asked_again_once() -> None:
    client = Client([HdfsError("", exception="EOFException"), {}])
    assert download(client).read_at(0, 10) == CONTENT[:10]


def test_a_connection_that_breaks_twice_is_an_error_that_says_where() -> None:
    client = Client([{"breaks_after": 100}, {"breaks_after": 100}])
    with pytest.raises(StorageError, match="webhdfs://h:1/x at byte 100") as caught:
        download(client).read_at(0, 200)
    assert type(caught.value) is StorageError


def test_an_answer_that_ends_early_is_an_error() -> None:
    """HD-11: cut with status 200."""
    client = Client([{}, {}])
    with pytest.raises(StorageError, match="ended too early"):
        download(client).read_at(0, len(CONTENT) + 1)


def test_a_definite_refusal_is_not_asked_again() -> None:
    client = Client([HdfsError("gone", exception="FileNotFoundException")])
    with pytest.raises(NotFoundError):
        download(client).read_at(0, 10)
    assert client.opened == [0]


def test_another_file_of_the_name_is_not_read_on() -> None:
    """HD-17."""
    client = Client([{}, {}], file_ids=[7, 8])
    reader = download(client)
    reader.read_at(0, 10)
    with pytest.raises(FileReplacedError, match="replaced while it was read"):
        reader.read_at(500, 10)


class Redirecting:
    def __init__(self, location: str) -> None:
        self.location = location

    def _create(self, _path: str, **_options: str) -> Any:
        response = requests.Response()
        response.headers["location"] = self.location
        return response


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "https://host:1/x", "ftp://host/x", "/relative", ""]
)
def test_a_redirect_to_anything_but_http_is_refused(location: str) -> None:
    """SE-15."""
    with pytest.raises(StorageError, match="expected a redirect to http"):
        Upload(Redirecting(location), "webhdfs://h:1/x", path="/x", mode=0o640)


def test_a_redirect_to_a_host_that_is_not_known_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HD-10."""

    def unknown(*arguments: object, **options: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(StorageError, match=r"webhdfs://h:1/x via DataNode nowhere\.invalid:9864"):
        Upload(
            Redirecting("http://nowhere.invalid:9864/webhdfs/v1/x?op=CREATE"),
            "webhdfs://h:1/x",
            path="/x",
            mode=0o640,
        )


def test_the_client_takes_paths_and_hosts_as_they_are() -> None:
    client = connect("h:1", "me")
    try:
        assert client.resolve("/a/#LATEST") == "/a/#LATEST"
        assert client._session.trust_env is False
        assert connect("h:1", "me") is client
        assert connect("h:1", "other") is not client
    finally:
        connect.cache_clear()
    assert Location.parse("webhdfs://me@h:1/x").uri == "webhdfs://me@h:1/x"
