"""Attempts of a user to reach what is another's through the file server.

Row S02 of the features; ``tests/integration/cephfs/test_borders.py`` has the attempts past the
server, on CephFS itself. Each attempt is a request with the thief's own token; the answer is a
refusal, has no byte of the victim, and the victim's files stay as they were.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.unit.pfs.service.file_servers import Storage, running
from tests.unit.server.test_serve import certified
from trainfeed.pfs.trees import SmallFile, SourceState
from trainfeed.pfs.wire import (
    CHUNKS,
    DATA,
    FILES,
    FINISH,
    PRESENT,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Bundle,
)
from trainfeed.server import new_token

pytestmark = pytest.mark.usefixtures("socket_enabled")

SECRET = b"nobody else may read this"
THIEF, VICTIM = "alice", "bob"
OF_VICTIM = f"/pfs/dc/home/{VICTIM}"
# As they stand in the query of a request, so encodings are those of an attacker.
PATHS = {
    "another's file": f"{OF_VICTIM}/secret",
    "another's home": OF_VICTIM,
    "..": f"/pfs/dc/home/{THIEF}/../{VICTIM}/secret",
    ".. encoded": f"/pfs/dc/home/{THIEF}/%2e%2e/{VICTIM}/secret",
    ".. with an encoded slash": f"/pfs/dc/home/{THIEF}/..%2f{VICTIM}%2fsecret",
    ".. out of the public folder": f"/pfs/dc/public/../home/{VICTIM}/secret",
    "a NUL": f"/pfs/dc/home/{THIEF}%00/../{VICTIM}/secret",
    "a newline": f"/pfs/dc/home/{VICTIM}%0a/secret",
    "an absolute path": "/etc/passwd",
    "a short path": f"pfs://home/../{VICTIM}/secret",
    "the folder of homes": "/pfs/dc/home",
    "another data centre": f"/pfs/dc2/home/{VICTIM}/secret",
    "a link to a file": f"/pfs/dc/home/{THIEF}/link-to-file",
    "a link to a folder": f"/pfs/dc/home/{THIEF}/link-to-folder/secret",
    "an absolute link": f"/pfs/dc/home/{THIEF}/absolute-link/secret",
    "a link in the public folder": "/pfs/dc/public/link/secret",
    "a name of 256 bytes": f"/pfs/dc/home/{THIEF}/{'n' * 256}",
}
# Names of the thief's own home, of which nothing is decoded once more.
INSIDE = {
    ".. encoded twice": f"/pfs/dc/home/{THIEF}/%252e%252e/{VICTIM}/secret",
    ".. as overlong UTF-8": f"/pfs/dc/home/{THIEF}/%c0%ae%c0%ae/{VICTIM}/secret",
    "an absolute name": f"/pfs/dc/home/{THIEF}//etc/passwd",
}
STATE = {"num_bytes": 1, "modified_ns": 1, "identity": "0" * 32}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    storage = Storage(tmp_path_factory.mktemp("storage"))
    victim, thief = storage.home(VICTIM), storage.home(THIEF)
    for name in ("secret", "other"):
        (victim / name).write_bytes(SECRET)
    (storage.mount / "public" / "shared").write_bytes(b"for all")
    (thief / "own").write_bytes(b"own")
    (thief / "link-to-file").symlink_to(f"../{VICTIM}/secret")
    (thief / "link-to-folder").symlink_to(f"../{VICTIM}")
    (thief / "absolute-link").symlink_to(victim)
    (storage.mount / "public" / "link").symlink_to(f"../home/{VICTIM}")
    return storage


@pytest.fixture(scope="module")
def server(storage):
    with running(storage) as server:
        yield server


@pytest.fixture
def unchanged(storage):
    """Fails a test that changes anything but files of the thief."""
    before = state_of(storage)
    yield
    assert state_of(storage) == before


def state_of(storage):
    tops = (storage.home(VICTIM), storage.mount / "public")
    return {path: facts(path) for top in tops for path in (top, *sorted(top.rglob("*")))}


def facts(path: Path) -> tuple[object, ...]:
    """Everything about a file but the time of its last access."""
    found = path.lstat()
    content = path.read_bytes() if path.is_file() else b""
    return found.st_mode, found.st_uid, found.st_ino, found.st_nlink, found.st_mtime_ns, content


def ask(server, token, method, target, body=b"", headers=None):
    """Send one request as it stands, without any correction by a client library."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    kind = "application/json" if body[:1] == b"{" else "application/octet-stream"
    sent = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    connection.request(method, target, body, {**sent, **(headers or {})})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, said


def requests_of(path):
    """All requests of the server that name a path, each as method, target and body."""
    query, plain = f"path={path}", plain_of(path)
    digest = hashlib.sha256(b"x").hexdigest()
    small = Bundle([{"path": plain, "sha256": digest}], [b"x"], {"replace": True}).pack()
    own = f"/pfs/dc/home/{THIEF}/own"

    def changed(**words):
        return "POST", FILES, json.dumps(words).encode()

    return [
        ("GET", f"{FILES}?{query}", b""),
        ("GET", f"{FILES}?method=stat&{query}", b""),
        ("GET", f"{DATA}?{query}", b""),
        ("GET", f"{CHUNKS}?{query}", b""),
        ("DELETE", f"{FILES}?recursive=true&{query}", b""),
        changed(method="mkdir", path=f"{plain}/new", parents=True),
        changed(method="touch", path=plain),
        changed(method="mv", path=plain, target=f"/pfs/dc/home/{THIEF}/stolen"),
        changed(method="mv", path=own, target=plain, replace=True),
        ("POST", UPLOADS, json.dumps({"path": plain, "replace": True, **STATE}).encode()),
        ("POST", SMALL, small),
        ("POST", SMALL_READ, json.dumps({"paths": [plain]}).encode()),
        ("POST", SMALL_DIGESTS, json.dumps({"paths": [plain]}).encode()),
    ]


def plain_of(path):
    """A path in a body of JSON, where nothing is decoded once more."""
    return path.replace("%00", "\0").replace("%0a", "\n").replace("%2e", ".").replace("%2f", "/")


def refused(status, said):
    """Whether an answer refuses; requests about several files name an error for each."""
    if status == 200:
        answer = json.loads(said) if said[:1] == b"{" else {}
        if "errors" in answer:
            return all(answer["errors"])
        if "digests" in answer:
            return answer["digests"] == [None]
        return b'"error"' in said
    return 400 <= status < 500


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.usefixtures("unchanged")
def test_a_path_to_what_is_anothers_is_refused_by_every_route(server, storage, path):
    token = storage.token_file(THIEF).read_text()
    is_own_link = path.endswith("link-to-file")
    for method, target, body in requests_of(path):
        if is_own_link and (b'"touch"' in body or b'"mv"' in body or method == "DELETE"):
            continue  # the link is the thief's own, and may be renamed and removed
        status, said = ask(server, token, method, target, body)
        is_look = "method=stat" in target and is_own_link
        assert refused(status, said) or is_look, (method, target, body, status, said)
        assert SECRET not in said
        assert hashlib.sha256(SECRET).hexdigest().encode() not in said


@pytest.mark.parametrize("path", INSIDE.values(), ids=INSIDE)
@pytest.mark.usefixtures("unchanged")
def test_a_path_that_resembles_an_escape_stays_in_the_own_home(server, storage, path):
    token = storage.token_file(THIEF).read_text()
    for method, target, body in requests_of(path):
        status, said = ask(server, token, method, target, body)
        assert status < 500
        assert SECRET not in said
        assert b"root:" not in said


def prepare(place, number):
    """Make what request ``number`` of ``requests_of`` is about: a folder, nothing, or a file."""
    if number in (0, 5):
        place.mkdir()
    elif number != 6:
        place.write_bytes(SECRET)


def test_the_owner_makes_the_same_requests(server, storage):
    token = storage.token_file(VICTIM).read_text()
    place = storage.home(VICTIM) / "control"
    for number, (method, target, body) in enumerate(requests_of(f"{OF_VICTIM}/control")):
        prepare(place, number)
        if f"home/{THIEF}/".encode() not in body:
            status, said = ask(server, token, method, target, body)
            assert status == 200, (method, target, body, status, said)
            assert not refused(status, said)
        if place.is_dir():
            for below in place.iterdir():
                below.rmdir()
            place.rmdir()
        place.unlink(missing_ok=True)
    for left in storage.home(VICTIM).glob(".pfs.*"):
        left.unlink()


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("DELETE", f"{FILES}?path=/pfs/dc/public/shared", b""),
        ("POST", FILES, b'{"method": "mkdir", "path": "/pfs/dc/public/new"}'),
        ("POST", FILES, b'{"method": "touch", "path": "/pfs/dc/public/new"}'),
        ("POST", UPLOADS, json.dumps({"path": "/pfs/dc/public/new", **STATE}).encode()),
        (
            "POST",
            FILES,
            b'{"method": "mv", "path": "/pfs/dc/public/shared", "target": "/pfs/dc/public/moved"}',
        ),
        (
            "POST",
            SMALL,
            Bundle(
                [{"path": "/pfs/dc/public/new", "sha256": hashlib.sha256(b"x").hexdigest()}],
                [b"x"],
            ).pack(),
        ),
    ],
    ids=["remove", "make a folder", "touch", "upload", "rename", "write small files"],
)
@pytest.mark.usefixtures("unchanged")
def test_a_change_of_the_public_folder_is_refused(server, storage, method, target, body):
    status, said = ask(server, storage.token_file(THIEF).read_text(), method, target, body)
    assert refused(status, said), (status, said)


def test_the_public_folder_is_read(server, storage):
    token = storage.token_file(THIEF).read_text()
    status, said = ask(server, token, "GET", f"{DATA}?path=/pfs/dc/public/shared")
    assert (status, said) == (200, b"for all")


@pytest.mark.usefixtures("unchanged")
def test_a_folder_that_becomes_a_link_while_it_is_used_reaches_nothing_else(server, storage):
    """Reads and writes run while another thread exchanges a folder and a link, again and again."""
    home = storage.home(THIEF)
    (home / "real").mkdir()
    (home / "real" / "secret").write_bytes(b"own")
    (home / "trap").symlink_to(f"../{VICTIM}")
    place, spare, ended = home / "place", home / "spare", threading.Event()

    def exchange():
        while not ended.is_set():
            for kind in ("real", "trap"):
                (home / kind).rename(place)
                place.rename(home / kind)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        with closing(server.tree()) as tree:
            seen = set()
            for number in range(100):
                with suppress(Exception):
                    seen.add(bytes(tree.get_small([("place", "secret")])[0]))
                with suppress(Exception):
                    tree.put_small([SmallFile(("place", f"new-{number}"), b"x")], replace=True)
    finally:
        ended.set()
        thread.join()
        spare.unlink(missing_ok=True)
    assert SECRET not in seen
    assert b"own" in seen


def test_the_number_of_anothers_upload_is_of_no_use(server, storage):
    with closing(server.tree(VICTIM)) as of_victim:
        target = of_victim.open_target(("upload",), SourceState(1, 1, "f" * 32), replace=False)
        token = storage.token_file(VICTIM).read_text()
        uploads = json.loads(ask(server, token, "GET", UPLOADS)[1])["uploads"]
        (number,) = (each["upload"] for each in uploads if each["path"].endswith("/upload"))
        stolen = storage.token_file(THIEF).read_text()
        assert number.encode() not in ask(server, stolen, "GET", UPLOADS)[1]
        query = urlencode({"upload": number})
        digest = hashlib.sha256(b"x")
        for method, route, body in (
            ("POST", f"{DATA}?{query}&offset=0", b"x"),
            ("GET", f"{PRESENT}?{query}", b""),
            ("POST", f"{FINISH}?{query}", digest.digest()),
            ("DELETE", f"{UPLOADS}?{query}", b""),
        ):
            headers = {"x-chunk-sha256": digest.hexdigest()}
            status, said = ask(server, stolen, method, route, body, headers)
            assert status == 404, (method, route, said)
            assert b"UploadUnknown" in said
        status, _ = ask(server, token, "DELETE", f"{UPLOADS}?{query}")
        assert status == 200
        with suppress(Exception):
            target.close()


def test_tokens_that_are_wrong_expired_weak_or_revoked_are_refused(server, storage, tmp_path):
    mine = f"{FILES}?path={quote(f'/pfs/dc/home/{VICTIM}')}"
    weak = new_token(storage.tokens, VICTIM, scopes="predict")
    expired = new_token(storage.tokens, VICTIM, scopes="pfs")
    lines = storage.tokens.read_text().splitlines()
    storage.tokens.write_text("\n".join([*lines[:-1], f"{lines[-1]} 2020-01-01"]) + "\n")
    revoked = storage.give_token(VICTIM)
    assert ask(server, revoked, "GET", mine)[0] == 200
    lines = storage.tokens.read_text().splitlines()
    storage.tokens.write_text("\n".join(lines[:-1]) + "\n")
    statuses = {
        name: ask(server, token, "GET", mine)[0]
        for name, token in {
            "none": "",
            "wrong": "x" * 43,
            "weak": weak,
            "expired": expired,
            "revoked": revoked,
        }.items()
    }
    assert statuses == {"none": 401, "wrong": 401, "weak": 403, "expired": 401, "revoked": 401}
    storage.give_token(VICTIM)


def test_a_certificate_opens_the_home_of_its_own_name_only(tmp_path):
    storage = Storage(tmp_path / "storage")
    (storage.home(VICTIM) / "secret").write_bytes(SECRET)
    pair, ca, _ = certified(tmp_path, "authority")
    _, certificate, key = certified(tmp_path, "server", by=pair)
    storage.tokens.write_text(
        f"{storage.tokens.read_text()}{THIEF} certificate pfs\n{VICTIM} certificate pfs\n"
    )
    shown = {name: certified(tmp_path, name, by=pair)[1:] for name in (THIEF, VICTIM, "stranger")}
    # Another authority has signed the name of the victim.
    (tmp_path / "false").mkdir()
    shown["false"] = certified(tmp_path / "false", VICTIM)[1:]
    with running(storage, certificate=certificate, key=key, client_ca=ca) as server:
        found = {name: looked_at(server, ca, *files) for name, files in shown.items()}
    assert found == {THIEF: 403, VICTIM: 200, "stranger": 401, "false": None}


def looked_at(server, ca, certificate, key):
    """The status of a look at the victim's file; None if the connection is refused."""
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(certificate, key)
    connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=30)
    try:
        connection.request("GET", f"{DATA}?path={OF_VICTIM}/secret")
        answer = connection.getresponse()
        assert (answer.read() == SECRET) == (answer.status == 200)
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        connection.close()
    return answer.status


def test_the_audit_names_the_caller_of_each_attempt(tmp_path):
    storage = Storage(tmp_path)
    (storage.home(VICTIM) / "secret").write_bytes(SECRET)
    token = storage.token_file(THIEF).read_text()
    with running(storage) as server:
        assert ask(server, token, "GET", f"{DATA}?path={OF_VICTIM}/secret")[0] == 403
    (line,) = (each for each in storage.audit() if each["status"] == 403)
    assert THIEF in json.dumps(line)
    assert os.fsdecode(SECRET) not in json.dumps(line)
