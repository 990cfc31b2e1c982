"""Uploads to the file server: wrong chunks, bodies and tokens, two at once, limits, idle ones."""

import contextlib
import json
import os
import socket
import threading
from hashlib import sha256
from urllib.parse import quote

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, asked, running
from trainfeed.errors import (
    ConflictError,
    NotFoundError,
    ServiceDeniedError,
    TrainFeedError,
)
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.tree import CHUNK_BYTES, DigestKind, SourceState
from trainfeed.serving.pfs.wire import CHUNKS, DATA, FILES, FINISH, PRESENT, SMALL, UPLOADS, Bundle

pytestmark = pytest.mark.usefixtures("socket_enabled")

OWN = "/pfs/dc/home/alice"


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return Storage(tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="module")
def server(storage):
    with running(storage) as server:
        yield server


def json_body(value):
    return json.dumps(value).encode()


def begin(path):
    return {"path": path, "num_bytes": 1, "replace": True}


def token_of(storage, user="alice"):
    return storage.token_file(user).read_text()


def test_a_name_of_255_bytes_is_uploaded_and_read(server, storage):
    tree = server.tree()
    name = "é" * 127 + "n"
    target = tree.open_target((name,), SourceState(2, 1, "c" * 32), replace=False)
    target.write(0, memoryview(b"ok"))
    target.commit([sha256(b"ok").digest()])
    assert tree.get_small([(name,)]) == [b"ok"]
    tree.close()


def test_a_refused_chunk_is_answered_although_its_body_still_comes(server, storage):
    body = bytes(CHUNK_BYTES)
    path = f"{DATA}?upload=unknown&offset=0"
    status, answer = asked(server, token_of(storage), "POST", path, body, {"x-chunk-crc32c": "0"})
    assert (status, json.loads(answer)["error"]) == (404, "UploadUnknown")


@pytest.mark.parametrize(
    ("headers", "offset", "body", "status"),
    [
        ({"x-chunk-sha256": "0" * 64}, 0, b"x", 422),
        ({"x-chunk-crc32c": "00000000"}, 0, b"x", 422),
        ({}, 0, b"x", 422),
        ({"x-chunk-sha256": sha256(b"x").hexdigest()}, 1, b"x", 422),
        ({"x-chunk-sha256": sha256(b"x").hexdigest()}, -CHUNK_BYTES, b"x", 422),
        ({"x-chunk-sha256": sha256(b"x").hexdigest()}, 10 * CHUNK_BYTES, b"x", 422),
        ({"x-chunk-sha256": sha256(b"xx").hexdigest()}, 0, b"xx", 422),
        ({"x-chunk-sha256": "0" * 64}, 0, bytes(CHUNK_BYTES + 1), 413),
    ],
)
def test_a_chunk_with_a_wrong_digest_place_or_size_writes_nothing(
    server, storage, headers, offset, body, status
):
    token = token_of(storage)
    made = asked(server, token, "POST", UPLOADS, json_body(begin(f"{OWN}/wrong")))
    number = json.loads(made[1])["upload"]
    path = f"{DATA}?upload={number}&offset={offset}"
    assert asked(server, token, "POST", path, body, headers)[0] == status
    status, answer = asked(server, token, "GET", f"{UPLOADS}/chunks?upload={number}")
    assert json.loads(answer)["chunks"] == []
    assert asked(server, token, "DELETE", f"{UPLOADS}?upload={number}")[0] == 200


@pytest.mark.parametrize("kind", DigestKind)
def test_both_kinds_of_digests_finish_an_upload_and_wrong_ones_do_not(server, storage, kind):
    token, path, data = token_of(storage), f"{OWN}/{kind.value}", b"x"
    made = asked(server, token, "POST", UPLOADS, json_body(begin(path)))
    query = f"upload={json.loads(made[1])['upload']}"
    headers = {"x-chunk-sha256": sha256(data).hexdigest()}
    assert asked(server, token, "POST", f"{DATA}?{query}&offset=0", data, headers)[0] == 200
    query += f"&kind={kind.value}"
    found = json.loads(asked(server, token, "GET", f"{PRESENT}?{query}")[1])
    assert found["chunks"] == [kind.of(data).hex()]
    for digest in (kind.of(b"y"), kind.of(data)[:-1], b""):
        assert asked(server, token, "POST", f"{FINISH}?{query}", digest)[0] == 422
        assert not (storage.home() / kind.value).exists()
    assert asked(server, token, "POST", f"{FINISH}?{query}", kind.of(data))[0] == 200
    answer = asked(server, token, "GET", f"{CHUNKS}?path={quote(path)}&kind={kind.value}")[1]
    assert json.loads(answer)["chunks"] == [kind.of(data).hex()]
    assert asked(server, token, "GET", f"{CHUNKS}?path={quote(path)}&kind=md5")[0] == 422


@pytest.mark.parametrize("kind", DigestKind)
def test_a_small_file_with_a_wrong_digest_is_not_written(server, storage, kind):
    about = {"path": f"{OWN}/small-{kind.value}", kind.value: kind.of(b"other").hex()}
    body = Bundle([about], [b"x"], {"replace": True}).pack()
    assert asked(server, token_of(storage), "POST", SMALL, body)[0] == 422
    assert not (storage.home() / f"small-{kind.value}").exists()
    about[kind.value] = kind.of(b"x").hex()
    body = Bundle([about], [b"x"], {"replace": True}).pack()
    assert asked(server, token_of(storage), "POST", SMALL, body)[0] == 200
    assert (storage.home() / f"small-{kind.value}").read_bytes() == b"x"


def test_an_upload_with_missing_chunks_gets_no_name(server, storage):
    tree = server.tree()
    data = os.urandom(CHUNK_BYTES + 1)
    target = tree.open_target(("holes",), SourceState(len(data), 1, "d" * 32), replace=False)
    target.write(CHUNK_BYTES, memoryview(data)[CHUNK_BYTES:])
    digests = [sha256(data[:CHUNK_BYTES]).digest(), sha256(data[CHUNK_BYTES:]).digest()]
    with pytest.raises(TrainFeedError, match="read back"):
        target.commit(digests)
    with pytest.raises(NotFoundError):
        tree.stat(("holes",))
    tree.close()


def test_a_body_that_is_shorter_than_announced_writes_nothing(server, storage):
    token = token_of(storage)
    made = asked(server, token, "POST", UPLOADS, json_body(begin(f"{OWN}/short")))
    number = json.loads(made[1])["upload"]
    head = (
        f"POST {DATA}?upload={number}&offset=0 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n"
        f"authorization: Bearer {token}\r\nx-chunk-crc32c: 0\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode())
        connection.shutdown(socket.SHUT_WR)
        assert not connection.recv(1 << 16).startswith(b"HTTP/1.1 2")
    _, answer = asked(server, token, "GET", f"{UPLOADS}/chunks?upload={number}")
    assert json.loads(answer)["chunks"] == []


def test_a_body_without_a_size_and_large_headers_are_refused(server, storage):
    token = token_of(storage)
    chunked, path = {"transfer-encoding": "chunked"}, f"{DATA}?upload=x&offset=0"
    assert asked(server, token, "POST", path, b"0\r\n\r\n", chunked)[0] == 411
    # The connection ends with the answer, while headers still come.
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        assert asked(server, token, "GET", FILES, headers={"x-large": "y" * 40_000})[0] == 400
    assert asked(server, token, "GET", f"{FILES}?path={quote(OWN)}")[0] == 200


def test_an_upload_goes_on_after_its_expired_token_was_exchanged(server, storage):
    tree = server.tree()
    data = os.urandom(2 * CHUNK_BYTES)
    target = tree.open_target(("long",), SourceState(len(data), 1, "e" * 32), replace=False)
    target.write(0, memoryview(data)[:CHUNK_BYTES])
    lines = storage.tokens.read_text().splitlines(keepends=True)
    digest = sha256(token_of(storage).encode()).hexdigest()
    storage.tokens.write_text(
        "".join(line.replace("pfs", "pfs 2020-01-01") if digest in line else line for line in lines)
    )
    with pytest.raises(ServiceDeniedError):
        target.write(CHUNK_BYTES, memoryview(data)[CHUNK_BYTES:])
    storage.give_token("alice")
    target.write(CHUNK_BYTES, memoryview(data)[CHUNK_BYTES:])
    target.commit([sha256(data[at : at + CHUNK_BYTES]).digest() for at in (0, CHUNK_BYTES)])
    assert (storage.home() / "long").read_bytes() == data
    tree.close()


def test_two_uploads_of_one_name_end_with_one_of_them_complete(server, storage):
    tree, results = server.tree(), []
    sources = [bytes([number]) * (CHUNK_BYTES + 7) for number in range(4)]

    def send(number):
        data = sources[number]
        state = SourceState(len(data), number, f"{number:032x}")
        try:
            target = tree.open_target(("both",), state, replace=False)
            for start in (0, CHUNK_BYTES):
                target.write(start, memoryview(data)[start : start + CHUNK_BYTES])
            target.commit([sha256(data[at : at + CHUNK_BYTES]).digest() for at in (0, CHUNK_BYTES)])
            results.append(number)
        except ConflictError:
            results.append(None)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for number in results if number is not None]
    assert len(results) == 4
    assert (storage.home() / "both").read_bytes() == sources[winner]
    tree.close()


def test_one_upload_begun_twice_is_one_upload_and_both_ends_succeed(server, storage):
    first, second = server.tree(), server.tree()
    data = os.urandom(CHUNK_BYTES + 3)
    state = SourceState(len(data), 1, "f" * 32)
    digests = [sha256(data[at : at + CHUNK_BYTES]).digest() for at in (0, CHUNK_BYTES)]
    one = first.open_target(("twice",), state, replace=False)
    two = second.open_target(("twice",), state, replace=False)
    one.write(0, memoryview(data)[:CHUNK_BYTES])
    two.write(CHUNK_BYTES, memoryview(data)[CHUNK_BYTES:])
    one.commit(digests)
    two.commit(digests)
    assert (storage.home() / "twice").read_bytes() == data
    first.close()
    second.close()


def test_times_of_sources_that_no_clock_agrees_with_are_only_names(server, storage):
    tree = server.tree()
    for number, at in enumerate((-(10**18), 0, 4 * 10**18)):
        data = bytes([number]) * 10
        target = tree.open_target(("skewed",), SourceState(10, at, "a" * 32), replace=True)
        target.write(0, memoryview(data))
        target.commit([sha256(data).digest()])
        assert tree.get_small([("skewed",)]) == [data]
    tree.close()


def test_a_user_has_a_bounded_number_of_uploads(tmp_path):
    storage = Storage(tmp_path)
    with running(storage, limits=FileLimits(uploads=2)) as server:
        begins = [json_body(begin(f"{OWN}/u{number}")) for number in range(3)]
        found = [asked(server, token_of(storage), "POST", UPLOADS, body)[0] for body in begins]
        assert found == [200, 200, 429]
        bobs = json_body(begin("/pfs/dc/home/bob/u"))
        assert asked(server, token_of(storage, "bob"), "POST", UPLOADS, bobs)[0] == 200


def test_an_idle_upload_is_closed_and_goes_on_when_it_is_named_again(tmp_path):
    storage = Storage(tmp_path)
    with running(storage, limits=FileLimits(upload_idle_seconds=0.1)) as server:
        tree = server.tree()
        data = os.urandom(CHUNK_BYTES + 1)
        target = tree.open_target(("idle",), SourceState(len(data), 1, "a" * 32), replace=False)
        target.write(0, memoryview(data)[:CHUNK_BYTES])
        while json.loads(asked(server, token_of(storage), "GET", UPLOADS)[1])["uploads"]:
            pass
        target.write(CHUNK_BYTES, memoryview(data)[CHUNK_BYTES:])
        target.commit([sha256(data[at : at + CHUNK_BYTES]).digest() for at in (0, CHUNK_BYTES)])
        tree.close()
    assert (storage.home() / "idle").read_bytes() == data
