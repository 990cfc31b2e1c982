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
from urllib.parse import quote, unquote, urlencode

import pytest
import xxhash

from tests.unit.serving.pfs.service.file_servers import Storage, asked, running
from tests.unit.serving.server.test_serve import certified
from trainfeed.errors import AccessDeniedError, NotFoundError
from trainfeed.serving.pfs.tree import SmallFile, SourceState
from trainfeed.serving.pfs.wire import (
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
from trainfeed.serving.server import new_token

pytestmark = pytest.mark.usefixtures("socket_enabled")

SECRET = b"nobody else may read this"
THIEF, VICTIM = "alice", "bob"
OF_VICTIM = f"/pfs/dc/home/{VICTIM}"
OWN = f"/pfs/dc/home/{THIEF}"
# As they stand in the query of a request, so encodings are those of an attacker; and the statuses
# with which routes refuse them.
PATHS = {
    "another's file": (f"{OF_VICTIM}/secret", {403}),
    "another's home": (OF_VICTIM, {403}),
    "..": (f"{OWN}/../{VICTIM}/secret", {400}),
    ".. at the end": (f"{OWN}/..", {400}),
    ".. encoded": (f"{OWN}/%2e%2e/{VICTIM}/secret", {400}),
    ".. with an encoded slash": (f"{OWN}/..%2f{VICTIM}%2fsecret", {400}),
    ".. out of the public folder": (f"/pfs/dc/public/../home/{VICTIM}/secret", {400}),
    "a NUL": (f"{OWN}%00/../{VICTIM}/secret", {400}),
    "a NUL in a name": (f"{OWN}/a%00b", {400}),
    "a newline": (f"/pfs/dc/home/{VICTIM}%0a/secret", {400}),
    "a newline in a name": (f"{OWN}/a%0ab", {400}),
    "an escape of a terminal": (f"{OWN}/a%1b[2Jb", {400}),
    "a backslash": (f"{OWN}%5c..%5c{VICTIM}%5csecret", {400, 403}),
    "an absolute path": ("/etc/passwd", {400}),
    "no path": ("", {400}),
    "a short path": ("pfs://home/x", {400}),
    "a short path with ..": (f"pfs://home/../{VICTIM}/secret", {400}),
    "the folder of homes": ("/pfs/dc/home", {400, 403}),
    "another area": ("/pfs/dc/common/x", {400}),
    "another data centre": ("/pfs/dc2/home/alice/x", {404}),
    "another data centre, another's home": (f"/pfs/dc2/home/{VICTIM}/secret", {404}),
    "a link to a file": (f"{OWN}/link-to-file", {403, 409}),
    "a link to a folder": (f"{OWN}/link-to-folder/secret", {403, 409}),
    "an absolute link": (f"{OWN}/absolute-link/secret", {403, 409}),
    "a link in the public folder": ("/pfs/dc/public/link/secret", {403}),
    "a name of 256 bytes": (f"{OWN}/{'n' * 256}", {400}),
}
# Names of the thief's own home, of which nothing is decoded once more.
INSIDE = {
    ".. encoded twice": f"{OWN}/%252e%252e/{VICTIM}/secret",
    ".. encoded three times": f"{OWN}/%25252e%25252e/{VICTIM}/secret",
    ".. with a slash encoded twice": f"{OWN}/..%252f{VICTIM}%252fsecret",
    ".. as overlong UTF-8": f"{OWN}/%c0%ae%c0%ae/{VICTIM}/secret",
    "an absolute name": f"{OWN}//etc/passwd",
    "an absolute name of another's": f"{OWN}/{OF_VICTIM}/secret",
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


def requests_of(path):
    """All requests of the server that name a path, each as method, target and body."""
    query, plain = f"path={path}", plain_of(path)

    def changed(**words):
        return "POST", FILES, json.dumps(words).encode()

    return [
        ("GET", f"{FILES}?{query}", b""),
        ("GET", f"{FILES}?method=stat&{query}", b""),
        ("GET", f"{DATA}?{query}", b""),
        ("GET", f"{CHUNKS}?{query}", b""),
        ("GET", f"{CHUNKS}?kind=xxh3-128&{query}", b""),
        ("DELETE", f"{FILES}?recursive=true&{query}", b""),
        changed(method="mkdir", path=f"{plain}/new", parents=True),
        changed(method="touch", path=plain),
        changed(method="sync", path=plain),
        changed(method="mv", path=plain, target=f"{OWN}/stolen"),
        changed(method="mv", path=f"{OWN}/own", target=plain, replace=True),
        ("POST", UPLOADS, json.dumps({"path": plain, "replace": True, **STATE}).encode()),
        ("POST", SMALL, one_small(plain)),
        ("POST", SMALL_READ, json.dumps({"paths": [plain]}).encode()),
        ("POST", SMALL_DIGESTS, json.dumps({"paths": [plain]}).encode()),
    ]


def requests_below(path):
    """All requests that make or remove something below a path."""
    query, below = f"path={path}/x", f"{plain_of(path)}/x"

    def changed(**words):
        return "POST", FILES, json.dumps(words).encode()

    return [
        ("DELETE", f"{FILES}?{query}", b""),
        changed(method="mkdir", path=below),
        changed(method="touch", path=below),
        changed(method="sync", path=below, recursive=False),
        changed(method="mv", path=f"{OWN}/own", target=below),
        ("POST", UPLOADS, json.dumps({"path": below, "replace": True, **STATE}).encode()),
        ("POST", SMALL, one_small(below)),
    ]


def one_small(path):
    digest = hashlib.sha256(b"x").hexdigest()
    return Bundle([{"path": path, "sha256": digest}], [b"x"], {"replace": True}).pack()


def plain_of(path):
    """A path in a body of JSON, where nothing is decoded once more."""
    return unquote(path)


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


@pytest.mark.parametrize(("path", "statuses"), PATHS.values(), ids=PATHS)
@pytest.mark.usefixtures("unchanged")
def test_a_path_to_what_is_anothers_is_refused_by_every_route(server, storage, path, statuses):
    token = storage.token_file(THIEF).read_text()
    is_own_link = path.endswith("link-to-file")
    below = requests_below(path)
    for method, target, body in (*requests_of(path), *below):
        is_below = (method, target, body) in below
        changes_link = b'"touch"' in body or b'"mv"' in body or method == "DELETE"
        if is_own_link and changes_link and not is_below:
            continue  # the link is the thief's own, and may be renamed and removed
        status, said = asked(server, token, method, target, body)
        is_look = "method=stat" in target and is_own_link
        assert refused(status, said) or is_look, (method, target, body, status, said)
        # Something below a file, or below what is not there, is refused for that.
        allowed = statuses | {200} | ({404, 409} if is_below else set())
        assert status in allowed, (method, target, body, status, said)
        assert SECRET not in said
        assert hashlib.sha256(SECRET).hexdigest().encode() not in said
        assert xxhash.xxh3_128(SECRET).hexdigest().encode() not in said


@pytest.mark.parametrize("path", INSIDE.values(), ids=INSIDE)
@pytest.mark.usefixtures("unchanged")
def test_a_path_that_resembles_an_escape_stays_in_the_own_home(server, storage, path):
    token = storage.token_file(THIEF).read_text()
    for method, target, body in (*requests_of(path), *requests_below(path)):
        status, said = asked(server, token, method, target, body)
        assert status < 500
        assert SECRET not in said
        assert b"root:" not in said


def prepare(place, number):
    """Make what request ``number`` of ``requests_of`` is about: a folder, nothing, or a file."""
    if number in (0, 6, 8):
        place.mkdir()
    elif number != 7:
        place.write_bytes(SECRET)


def test_the_owner_makes_the_same_requests(server, storage):
    token = storage.token_file(VICTIM).read_text()
    place = storage.home(VICTIM) / "control"
    for number, (method, target, body) in enumerate(requests_of(f"{OF_VICTIM}/control")):
        prepare(place, number)
        if f"home/{THIEF}/".encode() not in body:
            status, said = asked(server, token, method, target, body)
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
    status, said = asked(server, storage.token_file(THIEF).read_text(), method, target, body)
    assert refused(status, said), (status, said)


def test_the_public_folder_is_read(server, storage):
    token = storage.token_file(THIEF).read_text()
    status, said = asked(server, token, "GET", f"{DATA}?path=/pfs/dc/public/shared")
    assert (status, said) == (200, b"for all")


@pytest.mark.usefixtures("unchanged")
def test_a_folder_that_becomes_a_link_while_it_is_used_reaches_nothing_else(server, storage):
    """Reads and writes run while another thread exchanges a folder and a link, again and again."""
    folder, aside = storage.home(THIEF) / "race", storage.home(THIEF) / "race-aside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"own")
    over = threading.Event()

    def race():
        while not over.is_set():
            folder.rename(aside)
            folder.symlink_to(f"../{VICTIM}")
            folder.unlink()
            aside.rename(folder)

    racer = threading.Thread(target=race)
    racer.start()
    try:
        with closing(server.tree()) as tree:
            for turn in range(100):
                (found,) = tree.get_small([("race", "secret")])
                assert found == b"own" or isinstance(found, AccessDeniedError | NotFoundError)
                (error,) = tree.put_small(
                    [SmallFile(("race", f"new-{turn}"), b"x")], replace=True, is_hidden=False
                )
                assert error is None or isinstance(error, AccessDeniedError | NotFoundError)
                with suppress(AccessDeniedError, NotFoundError):
                    tree.make_folder(("race", f"folder-{turn}"))
                with suppress(AccessDeniedError, NotFoundError):
                    tree.remove(("race", f"new-{turn}"))
    finally:
        over.set()
        racer.join()


def test_the_number_of_anothers_upload_is_of_no_use(server, storage):
    with closing(server.tree(VICTIM)) as of_victim:
        target = of_victim.open_target(("upload",), SourceState(1, 1, "f" * 32), replace=False)
        token = storage.token_file(VICTIM).read_text()
        uploads = json.loads(asked(server, token, "GET", UPLOADS)[1])["uploads"]
        (number,) = (each["upload"] for each in uploads if each["path"].endswith("/upload"))
        stolen = storage.token_file(THIEF).read_text()
        assert number.encode() not in asked(server, stolen, "GET", UPLOADS)[1]
        query = urlencode({"upload": number})
        digest = hashlib.sha256(b"x")
        for method, route, body in (
            ("POST", f"{DATA}?{query}&offset=0", b"x"),
            ("GET", f"{PRESENT}?{query}", b""),
            ("POST", f"{FINISH}?{query}", digest.digest()),
            ("DELETE", f"{UPLOADS}?{query}", b""),
        ):
            headers = {"x-chunk-sha256": digest.hexdigest()}
            status, said = asked(server, stolen, method, route, body, headers)
            assert status == 404, (method, route, said)
            assert b"UploadUnknown" in said
        headers = {"x-chunk-sha256": digest.hexdigest()}
        own = asked(server, token, "POST", f"{DATA}?{query}&offset=0", b"x", headers)
        assert own[0] == 200
        assert asked(server, token, "DELETE", f"{UPLOADS}?{query}")[0] == 200
        with suppress(Exception):
            target.close()


def test_tokens_that_are_wrong_expired_weak_or_revoked_are_refused(server, storage, tmp_path):
    mine = f"{FILES}?path={quote(f'/pfs/dc/home/{VICTIM}')}"
    weak = new_token(storage.tokens, VICTIM, scopes="predict")
    expired = new_token(storage.tokens, VICTIM, scopes="pfs")
    lines = storage.tokens.read_text().splitlines()
    storage.tokens.write_text("\n".join([*lines[:-1], f"{lines[-1]} 2020-01-01"]) + "\n")
    revoked = storage.give_token(VICTIM)
    assert asked(server, revoked, "GET", mine)[0] == 200
    lines = storage.tokens.read_text().splitlines()
    storage.tokens.write_text("\n".join(lines[:-1]) + "\n")
    statuses = {
        name: asked(server, token, "GET", mine)[0]
        for name, token in {
            "no header": None,
            "none": "",
            "wrong": "x" * 43,
            "weak": weak,
            "expired": expired,
            "revoked": revoked,
        }.items()
    }
    assert statuses.pop("weak") == 403
    assert set(statuses.values()) == {401}
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
        found["none"] = looked_at(server, ca)
    assert found == {THIEF: 403, VICTIM: 200, "stranger": 401, "false": None, "none": 401}


def looked_at(server, ca, *pair):
    """The status of a look at the victim's file; None if the connection is refused."""
    context = ssl.create_default_context(cafile=str(ca))
    if pair:
        context.load_cert_chain(*pair)
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


def test_the_audit_names_caller_path_and_bytes_of_each_request(tmp_path):
    storage = Storage(tmp_path)
    (storage.home(VICTIM) / "secret").write_bytes(SECRET)
    token = storage.token_file(THIEF).read_text()
    (storage.home(THIEF) / "own").write_bytes(b"mine")
    with running(storage) as server:
        assert asked(server, token, "GET", f"{DATA}?path={OF_VICTIM}/secret")[0] == 403
        assert asked(server, token, "GET", f"{DATA}?path={OWN}/own")[0] == 200
    refusal, answer = storage.audit()
    assert (refusal["who"], refusal["status"]) == (THIEF, 403)
    assert os.fsdecode(SECRET) not in json.dumps(refusal)
    assert (answer["who"], answer["status"], answer["bytes_out"]) == (THIEF, 200, 4)
    assert (answer["what"], answer["about"]) == (f"GET {DATA}", f"{OWN}/own")
