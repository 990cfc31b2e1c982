"""Requests to a NameNode about one path: their form, and the meaning of the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from trainfeed.errors import AccessDeniedError, NotFoundError, StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores.webhdfs import WebHdfsFileSystem, connect

STATUS = {"type": "FILE", "length": 5, "modificationTime": 6, "fileId": 7}


class NameNode(ThreadingHTTPServer):
    """Gives one prepared answer: status, headers, body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def refuse(self, status: int, exception: str, message: str) -> None:
        problem = {"exception": exception, "message": message}
        self.answer = (status, {}, json.dumps({"RemoteException": problem}).encode())


class Handler(BaseHTTPRequestHandler):
    server: NameNode

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def namenode() -> Iterator[NameNode]:
    server = NameNode()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    for user in ("me", "a&b"):
        connect(server.address, user)._session.close()
    connect.cache_clear()
    server.shutdown()
    thread.join()
    server.server_close()


def file_at(namenode: NameNode, path: str = "/x", user: str = "me") -> Location:
    return Location.parse(f"webhdfs://{user}@{namenode.address}/") / path.lstrip("/")


@pytest.mark.parametrize("path", ["/a b/c", "/100%", "/#LATEST", "/x?op=DELETE&y=1", "/é", "/a+b"])
def test_a_path_is_sent_as_it_is(namenode: NameNode, path: str) -> None:
    namenode.answer = (200, {}, json.dumps({"FileStatus": STATUS}).encode())
    info = file_at(namenode, path).stat()
    assert (info.path, info.size_bytes, info.file_id) == (path, 5, 7)
    (asked,) = map(urlsplit, namenode.asked)
    assert unquote(asked.path) == f"/webhdfs/v1{path}"
    assert parse_qs(asked.query) == {"op": ["GETFILESTATUS"], "user.name": ["me"]}


def test_a_checksum_is_fetched_from_the_data_node(namenode: NameNode) -> None:
    checksum = {"FileChecksum": {"algorithm": "MD5", "bytes": "00ff"}}
    other = NameNode()
    other.answer = (200, {}, json.dumps(checksum).encode())
    thread = threading.Thread(target=other.handle_request)
    thread.start()
    namenode.answer = (307, {"Location": f"http://{other.address}/there?op=x"}, b"")
    assert file_at(namenode).checksum() == "MD5:00ff"
    thread.join()
    other.server_close()
    assert other.asked == ["/there?op=x"]


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "/again", ""]
)
def test_a_redirect_that_leads_nowhere_is_an_error(namenode: NameNode, location: str) -> None:
    """SE-15."""
    namenode.answer = (307, {"Location": location}, b"")
    with pytest.raises(StorageError, match=namenode.address) as caught:
        file_at(namenode).checksum()
    assert type(caught.value) is StorageError
    assert len(namenode.asked) <= 2


def test_a_refusal_is_the_error_that_it_means(namenode: NameNode) -> None:
    namenode.refuse(404, "FileNotFoundException", "File does not exist: /x\n\tat java.lang.Thread")
    with pytest.raises(NotFoundError, match=r"File does not exist: /x \(FileNotFoundException\)$"):
        file_at(namenode).stat()
    assert not file_at(namenode).exists()
    namenode.refuse(403, "AccessControlException", "Permission denied: user=me")
    with pytest.raises(AccessDeniedError, match="user=me"):
        file_at(namenode).is_open()
    namenode.answer = (401, {}, b"<html>who are you?</html>")
    with pytest.raises(AccessDeniedError, match="Authentication failure"):
        file_at(namenode).checksum()


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"<html>"), (404, b""), (200, b"<html>"), (200, b"[]"), (200, b"{}"), (503, b"{}")],
)
def test_what_is_no_answer_of_webhdfs_may_be_tried_again(
    namenode: NameNode, status: int, body: bytes
) -> None:
    namenode.answer = (status, {}, body)
    with pytest.raises(StorageError, match=namenode.address) as caught:
        file_at(namenode).stat()
    assert type(caught.value) is StorageError


def test_the_user_is_no_part_of_the_question(namenode: NameNode) -> None:
    namenode.answer = (200, {}, json.dumps({"FileStatus": STATUS}).encode())
    WebHdfsFileSystem(namenode.address, "a&b").stat("/x")
    assert parse_qs(urlsplit(namenode.asked[0]).query)["user.name"] == ["a&b"]
