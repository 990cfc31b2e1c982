"""Attempts across borders of the file server: each is refused, and nothing of others is seen.

The table has each attempt with each route that takes a path; a control shows that the same request
works with a path of one's own.
"""

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import quote, urlencode

import pytest

from tests.unit.pfs.service.file_servers import Storage, running
from tests.unit.server.test_serve import certified
from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    ServiceDeniedError,
    TrainFeedError,
)
from trainfeed.pfs.service import FileLimits
from trainfeed.pfs.trees import CHUNK_BYTES, SmallFile, SourceState
from trainfeed.pfs.wire import (
    CHUNKS,
    DATA,
    FILES,
    FINISH,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Bundle,
)
from trainfeed.server import Access, ByteClient

pytestmark = pytest.mark.usefixtures("socket_enabled")

SECRET = b"bob's alone"
OWN = "/pfs/dc/home/alice"
# Texts of a path → the statuses with which each route may refuse them.
PATHS = {
    "the home of another": ("/pfs/dc/home/bob/secret", {403}),
    "the folder of all homes": ("/pfs/dc/home", {400, 403}),
    "dots out of the home": (f"{OWN}/../bob/secret", {400}),
    "dots at the end": (f"{OWN}/..", {400}),
    "dots that the address encodes": (f"{OWN}/%2e%2e/bob/secret", {404}),
    "slashes that the address encodes": (f"{OWN}/..%2fbob%2fsecret", {404}),
    "dots that are encoded twice": (f"{OWN}/%252e%252e/bob/secret", {404}),
    "an absolute path in the middle": (f"{OWN}//pfs/dc/home/bob/secret", {404}),
    "a backslash": (f"{OWN}\\..\\bob\\secret", {400, 403, 404}),
    "a path of the machine": ("/etc/passwd", {400}),
    "no path": ("", {400}),
    "the short form": ("pfs://home/x", {400}),
    "another area": ("/pfs/dc/common/x", {400}),
    "another data centre": ("/pfs/dc2/home/alice/x", {404}),
    "a NUL": (f"{OWN}/a\0b", {400}),
    "a newline": (f"{OWN}/a\nb", {400}),
    "an escape of a terminal": (f"{OWN}/a\x1b[2Jb", {400}),
    "256 bytes": (f"{OWN}/{'n' * 256}", {400}),
    "a link to another's file": (f"{OWN}/link", {403, 409}),
    "a link to another's home": (f"{OWN}/folder/secret", {403}),
}


def json_body(value):
    return json.dumps(value).encode()


def bundle(path):
    about = [{"path": path, "sha256": sha256(b"x").hexdigest()}]
    return Bundle(about, [b"x"], {"replace": True}).pack()


def begin(path):
    return {"path": path, "num_bytes": 1, "replace": True}


# Name → method, path and body of a request about a path.
REQUESTS = {
    "ls": lambda path: ("GET", f"{FILES}?{urlencode({'path': path})}", b""),
    "read": lambda path: ("GET", f"{DATA}?{urlencode({'path': path})}", b""),
    "digests": lambda path: ("GET", f"{CHUNKS}?{urlencode({'path': path})}", b""),
    "rm": lambda path: ("DELETE", f"{FILES}?{urlencode({'path': path + '/x'})}", b""),
    "mkdir": lambda path: ("POST", FILES, json_body({"method": "mkdir", "path": path + "/x"})),
    "touch": lambda path: ("POST", FILES, json_body({"method": "touch", "path": path + "/x"})),
    "mv from": lambda path: (
        "POST",
        FILES,
        json_body({"method": "mv", "path": path, "target": f"{OWN}/taken"}),
    ),
    "mv to": lambda path: (
        "POST",
        FILES,
        json_body({"method": "mv", "path": f"{OWN}/own", "target": path + "/x"}),
    ),
    "upload": lambda path: ("POST", UPLOADS, json_body(begin(path + "/x"))),
}
# Routes of many files answer each of them.
MANY = {
    "get small": lambda path: ("POST", SMALL_READ, json_body({"paths": [path]})),
    "small digests": lambda path: ("POST", SMALL_DIGESTS, json_body({"paths": [path]})),
    "put small": lambda path: ("POST", SMALL, bundle(path + "/x")),
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    storage = Storage(tmp_path_factory.mktemp("storage"))
    (storage.home("bob") / "secret").write_bytes(SECRET)
    (storage.home() / "own").write_bytes(b"mine")
    (storage.home() / "link").symlink_to(storage.home("bob") / "secret")
    (storage.home() / "folder").symlink_to(storage.home("bob"))
    return storage


@pytest.fixture(scope="module")
def server(storage):
    with running(storage) as server:
        yield server


def asked(server, token, method, path, body=b"", headers=None):
    """Status and body of one request, sent as it stands."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    form = {} if path == SMALL else {"content-type": "application/json"}
    shown = {} if token is None else {"authorization": f"Bearer {token}"}
    connection.request(method, path, body, {**form, **shown, **(headers or {})})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def token_of(storage, user="alice"):
    return storage.token_file(user).read_text()


def tree_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


# A link of one's own may be renamed: that does not touch what the link points to.
ALLOWED = {("a link to another's file", "mv from")}
ATTEMPTS = [
    (attempt, name)
    for attempt in PATHS
    for name in (*REQUESTS, *MANY)
    if (attempt, name) not in ALLOWED
]


@pytest.mark.parametrize(("attempt", "request_name"), ATTEMPTS)
def test_an_attempt_across_a_border_is_refused(server, storage, attempt, request_name):
    path, statuses = PATHS[attempt]
    before = tree_of(storage.home("bob"))
    make = {**REQUESTS, **MANY}[request_name]
    status, body = asked(server, token_of(storage), *make(path))
    if request_name in MANY and status == 200:
        answer = body if request_name == "get small" else json.loads(body)
        assert b'"error"' in body or answer.get("digests") == [None]
    else:
        assert status in statuses | ({404, 409} if "/x" in str(make(path)) else set()), body
    assert SECRET not in body
    assert tree_of(storage.home("bob")) == before


@pytest.mark.parametrize("request_name", ["ls", "read", "digests", "mkdir", "upload"])
def test_the_same_request_works_with_a_path_of_ones_own(server, storage, request_name):
    folder = storage.home() / f"control-{request_name}"
    folder.mkdir()
    path = f"{OWN}/own" if request_name in ("read", "digests") else f"{OWN}/{folder.name}"
    assert asked(server, token_of(storage), *REQUESTS[request_name](path))[0] == 200


def test_a_name_of_255_bytes_is_uploaded_and_read(server, storage):
    tree = server.tree()
    name = "é" * 127 + "n"
    target = tree.open_target((name,), SourceState(2, 1, "c" * 32), replace=False)
    target.write(0, memoryview(b"ok"))
    target.commit([sha256(b"ok").digest()])
    assert tree.get_small([(name,)]) == [b"ok"]
    tree.close()


def test_the_number_of_anothers_upload_is_unknown_to_every_route(server, storage):
    made = asked(server, token_of(storage), "POST", UPLOADS, json_body(begin(f"{OWN}/up")))
    number = json.loads(made[1])["upload"]
    thief = token_of(storage, "bob")
    one = {"x-chunk-sha256": sha256(b"x").hexdigest()}
    for method, path, body, headers in (
        ("POST", f"{DATA}?upload={number}&offset=0", b"x", one),
        ("GET", f"{UPLOADS}/chunks?upload={number}", b"", {}),
        ("POST", f"{FINISH}?upload={number}", sha256(b"x").digest(), {}),
        ("DELETE", f"{UPLOADS}?upload={number}", b"", {}),
    ):
        status, answer = asked(server, thief, method, path, body, headers)
        assert (status, json.loads(answer)["error"]) == (404, "UploadUnknown")
    assert json.loads(asked(server, thief, "GET", UPLOADS)[1]) == {"uploads": []}
    own = token_of(storage)
    assert asked(server, own, "POST", f"{DATA}?upload={number}&offset=0", b"x", one)[0] == 200
    assert asked(server, own, "DELETE", f"{UPLOADS}?upload={number}")[0] == 200


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


def test_tokens_that_expired_were_revoked_or_lack_the_scope_are_refused(server, storage):
    look = f"{FILES}?path={quote(OWN)}"
    past = datetime.now(UTC) - timedelta(seconds=1)
    with_past = Storage.give_token
    own = token_of(storage)
    expired = with_past(storage, "alice", expires=past)
    weak = with_past(storage, "alice", scopes="read")
    stolen = with_past(storage, "alice")
    lines = storage.tokens.read_text().splitlines(keepends=True)
    digest = sha256(stolen.encode()).hexdigest()
    storage.tokens.write_text("".join(line for line in lines if digest not in line))
    storage.token_file("alice").write_text(own)
    assert asked(server, None, "GET", look)[0] == 401
    assert asked(server, "guessed", "GET", look)[0] == 401
    assert asked(server, expired, "GET", look)[0] == 401
    assert asked(server, stolen, "GET", look)[0] == 401
    assert asked(server, weak, "GET", look)[0] == 403
    assert asked(server, own, "GET", look)[0] == 200


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


def test_a_folder_that_becomes_a_link_again_and_again_never_leads_into_another_home(
    server, storage
):
    folder, aside = storage.home() / "race", storage.home() / "race-aside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"alice's")
    over = threading.Event()

    def race():
        while not over.is_set():
            folder.rename(aside)
            folder.symlink_to(storage.home("bob"))
            folder.unlink()
            aside.rename(folder)

    before = tree_of(storage.home("bob"))
    racer = threading.Thread(target=race)
    racer.start()
    tree = server.tree()
    try:
        for turn in range(150):
            (found,) = tree.get_small([("race", "secret")])
            assert found == b"alice's" or isinstance(found, AccessDeniedError | NotFoundError)
            file = SmallFile(("race", f"new-{turn}"), b"x")
            tree.put_small([file], replace=True, is_hidden=False)
            try:
                tree.make_folder(("race", f"folder-{turn}"))
                tree.remove(("race", "secret")) if turn == 149 else None
            except (AccessDeniedError, NotFoundError):
                pass
    finally:
        over.set()
        racer.join()
        tree.close()
    assert tree_of(storage.home("bob")) == before


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


def test_the_audit_has_every_request_with_its_path_and_bytes(server, storage):
    asked(server, token_of(storage), "GET", f"{DATA}?{urlencode({'path': OWN + '/own'})}")
    # A line is written after the answer, and before the answer to the next request.
    asked(server, token_of(storage), "GET", UPLOADS)
    lines = [line for line in storage.audit() if line["what"] == f"GET {DATA}"]
    line = lines[-1]
    assert (line["who"], line["status"], line["bytes_out"]) == ("alice", 200, 4)
    assert line["about"] == f"{OWN}/own"


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


def test_a_certificate_opens_only_the_home_of_its_own_name(tmp_path):
    storage = Storage(tmp_path)
    pair, ca, _ = certified(tmp_path, "authority")
    _, certificate, key = certified(tmp_path, "server", by=pair)
    other, _, _ = certified(tmp_path, "other-authority")
    people = {name: certified(tmp_path, name, by=pair)[1:] for name in ("bob", "carol")}
    forged = certified(tmp_path, "alice", by=other)[1:]
    with storage.tokens.open("a") as file:
        file.write("alice certificate pfs\nbob certificate pfs\n")
    tls = {"certificate": certificate, "key": key, "client_ca": ca}
    (storage.home("bob") / "secret").write_bytes(SECRET)

    def ask(shown, user):
        access = Access(ca_file=ca, certificate=shown[0], key=shown[1])
        url = f"https://localhost:{server.port}"
        client = ByteClient(url, access, patience_seconds=1.0)
        try:
            path = f"{DATA}?{urlencode({'path': f'/pfs/dc/home/{user}/secret'})}"
            return client.ask("GET", path)
        finally:
            client.close()

    with running(storage, **tls) as server:
        assert ask(people["bob"], "bob").body == SECRET
        assert ask(people["bob"], "alice").status == 403
        assert ask(people["carol"], "bob").status == 401
        with pytest.raises(TrainFeedError):
            ask(forged, "alice")
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection("localhost", server.port, context=context)
        connection.request("GET", f"{FILES}?path={quote('/pfs/dc/home/bob')}")
        assert connection.getresponse().status == 401
        connection.close()
