"""The front door of the three servers over TLS: what one caller takes, another one still has.

Every test is a way to keep others out, or to lose the account of it, that once worked.
"""

import json
import re
import socket
import ssl
from contextlib import ExitStack, suppress
from urllib.parse import quote

import pytest

from benchmarks.server.three_servers import KINDS, served
from tests.unit.processes import until
from trainfeed.serving.server import new_token

pytestmark = pytest.mark.usefixtures("socket_enabled")

# Descriptors of a server beside its connections.
OTHER_DESCRIPTORS = 40
# A head of a body in JSON that does not come.
JSON = ("content-type: application/json",)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def is_refused(raw):
    """Whether the server closed a connection, or answered that it would not read on."""
    raw.settimeout(0.001)
    try:
        return raw.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def audit_of(door):
    """All lines of the requests that were answered up to now: a line follows its answer."""
    asked = sum(line["who"] == "carla" for line in door.audit())
    assert door.look("carla") == 200
    until(lambda: sum(line["who"] == "carla" for line in door.audit()) > asked)
    return door.audit()


def lines_of(door, **wanted):
    return [
        line
        for line in audit_of(door)
        if all(line.get(name) == value for name, value in wanted.items())
    ]


# --- connections ------------------------------------------------------------------------------


def silent(door, stack):
    stack.enter_context(door.plain())


def half_a_hello(door, stack):
    stack.enter_context(door.plain()).sendall(b"\x16\x03\x01\x02\x00\x01")


def after_the_handshake(door, stack):
    stack.enter_context(door.tls())


def half_a_head(door, stack):
    stack.enter_context(door.tls()).sendall(b"GET /healthz HTTP/1.1\r\nhost:")


def after_an_answer(door, stack):
    raw = stack.enter_context(door.tls())
    raw.sendall(door.head("GET", "/healthz", None))
    raw.recv(100)


def half_a_refused_body(door, stack):
    head = door.head("POST", door.kind.post, "nobody", "content-length: 1000", *JSON)
    stack.enter_context(door.tls()).sendall(head)


@pytest.mark.parametrize(
    ("way", "times"),
    [(silent, 100), (half_a_hello, 100), (after_the_handshake, 30), (half_a_head, 30),
     (after_an_answer, 30), (half_a_refused_body, 30)],
)  # fmt: skip
def test_connections_of_nobody_keep_nobody_out(kind, way, times, tmp_path):
    with served(kind, tmp_path, nofile=90, connections=20) as door, ExitStack() as stack:
        for _ in range(times):
            # The server may close the oldest ones meanwhile, and this one before it is ready.
            try:
                way(door, stack)
            except (OSError, ssl.SSLError):
                continue
        assert door.answered("anna") < float("inf")
        assert door.descriptors() < 20 + OTHER_DESCRIPTORS


def test_a_handshake_that_does_not_end_is_not_awaited(kind, tmp_path):
    with served(kind, tmp_path, handshake_seconds=0.1) as door, door.plain() as raw:
        until(lambda: is_refused(raw))


def test_an_answer_that_nobody_reads_holds_no_connection(tmp_path):
    with (
        served("files", tmp_path, request_seconds=0.5, idle_seconds=0.5) as door,
        door.tls() as raw,
    ):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        (tmp_path / "dc" / "home" / "anna" / "f").write_bytes(bytes(8 << 20))
        path = "/api/v1/pfs/storage/chunks?path=/pfs/dc/home/anna/f"
        before = door.descriptors()
        raw.sendall(door.head("GET", path, "anna"))
        until(lambda: door.descriptors() < before)


# --- bodies -----------------------------------------------------------------------------------


def begun(door, stack, who, num_bytes, sent=b"{"):
    """A request whose body is announced, and comes only in part."""
    raw = stack.enter_context(door.tls())
    raw.sendall(door.head("POST", door.kind.post, who, f"content-length: {num_bytes}", *JSON))
    raw.sendall(sent)
    return raw


def test_bodies_of_one_caller_that_do_not_come_keep_no_other_caller_out(kind, tmp_path):
    limits = {"requests": 16, "caller_requests": 16, "body_seconds": 200, "request_seconds": 200}
    with served(kind, tmp_path, **limits) as door, ExitStack() as stack:
        for _ in range(16):
            begun(door, stack, "anna", 1000)
        until(lambda: door.look("anna") == 429)
        for _ in range(5):
            assert door.look("bert") == 200
            assert door.post("bert") != 503


def test_a_body_that_comes_byte_after_byte_ends_and_its_caller_is_told(kind, tmp_path):
    with served(kind, tmp_path, body_seconds=0.3) as door, ExitStack() as stack:
        raw = begun(door, stack, "anna", 1000)
        answer = raw.recv(1000)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"BodyTooSlow" in answer + raw.recv(1000)
        (line,) = lines_of(door, outcome="BodyTooSlow")
        assert (line["who"], line["status"]) == ("anna", 408)


def test_a_chunk_that_stands_still_ends_too(tmp_path):
    with served("files", tmp_path, body_seconds=0.3) as door, ExitStack() as stack:
        asked = {"path": "/pfs/dc/home/anna/big", "num_bytes": 4 << 20}
        status, body = door.ask("POST", "/api/v1/pfs/uploads", "anna", json.dumps(asked).encode())
        assert status == 200
        path = f"/api/v1/pfs/storage/chunks?upload={json.loads(body)['upload']}&offset=0"
        raw = stack.enter_context(door.tls())
        raw.sendall(door.head("POST", path, "anna", f"content-length: {4 << 20}") + bytes(20_000))
        assert raw.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("framing", [f"content-length: {9 << 20}", "transfer-encoding: chunked"])
def test_large_bodies_of_json_take_no_memory(kind, framing, tmp_path):
    with served(kind, tmp_path, body_seconds=200) as door, ExitStack() as stack:
        before, raws, answers = door.rss_bytes(), [], []
        part = b" " * (256 << 10)
        if "chunked" in framing:
            part = b"%x\r\n%b\r\n" % (len(part), part)
        for _ in range(12):
            raws.append(stack.enter_context(door.tls()))
            raws[-1].sendall(door.head("POST", door.kind.post, "anna", framing, *JSON))
        for raw in raws:
            # The server may have read enough of it, and closed.
            with suppress(OSError):
                for _ in range(12):
                    raw.sendall(part)
        most = door.rss_bytes()
        for raw in raws:
            with suppress(OSError):
                answers.append(raw.recv(20))
        # All together are 36 MiB.
        assert most - before < 18 << 20
        assert {answer[:12] for answer in answers if answer} <= {b"HTTP/1.1 413"}
        assert len(lines_of(door, outcome="BodyTooLarge")) >= 1
        assert door.look("bert") == 200


def test_64_kib_of_json_are_read_and_one_byte_more_is_not(kind, tmp_path):
    body = json.dumps(KINDS[kind].body).replace("{who}", "anna").encode()
    with served(kind, tmp_path) as door:
        whole = door.ask("POST", door.kind.post, "anna", body.ljust(64 << 10))[0]
        more = door.ask("POST", door.kind.post, "anna", body.ljust((64 << 10) + 1))[0]
    assert whole in (200, 409)
    assert more == 413


TWO_ENDS = (
    ("content-length: 4", "transfer-encoding: chunked"),
    ("transfer-encoding: chunked", "content-length: 4"),
    ("transfer-encoding: chunked", "transfer-encoding: chunked"),
    ("content-length: 4", "content-length: 5"),
    ("content-length: 4, 5",),
    ("content-length: +4",),
    ("transfer-encoding: gzip, chunked",),
    ("transfer-encoding: identity", "content-length: 4"),
    ("transfer-encoding : chunked", "content-length: 4"),
)


def all_of(raw):
    answer = b""
    while part := raw.recv(10_000):
        answer += part
    return answer


def test_a_body_with_two_ends_is_refused_and_the_rest_is_no_request(kind, tmp_path):
    with served(kind, tmp_path) as door:
        hidden = door.head("GET", door.kind.look, "anna")
        for headers in TWO_ENDS:
            for who in ("anna", None):
                with door.tls() as raw:
                    head = door.head("POST", door.kind.post, who, *headers)
                    raw.sendall(head + b"0\r\n\r\n" + hidden)
                    answer = all_of(raw)
                assert answer.startswith(b"HTTP/1.1 400 "), headers
                assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1, headers
        assert lines_of(door, who="anna", status=200) == []


def test_chunks_in_a_version_of_http_without_them_are_refused(kind, tmp_path):
    with served(kind, tmp_path) as door, door.tls() as raw:
        head = door.head("POST", door.kind.post, "anna", "transfer-encoding: chunked")
        raw.sendall(head.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n")
        answer = all_of(raw)
        assert b" 400 " in answer.splitlines()[0]
        assert b"FramingRefused" in answer


def test_a_body_that_is_no_json_is_said_to_be_none(kind, tmp_path):
    bodies = (b"{", b"\xff\xfe", b"[" * 60_000, b"1" * 60_000, b'{"a": NaN', b"\x00")
    with served(kind, tmp_path) as door:
        for body in bodies:
            status, answer = door.ask("POST", door.kind.post, "anna", body)
            assert status in (400, 422), body[:10]
            assert "route and a method" not in answer.decode()


# --- the audit --------------------------------------------------------------------------------


def test_refused_requests_of_nobody_lose_no_line_of_a_caller(kind, tmp_path):
    limits = {"audit_bytes": 10_000, "audit_files": 2, "denials_per_second": 1e6}
    with served(kind, tmp_path, **limits) as door:
        assert door.look("anna") == 200
        with door.tls() as raw:
            for _ in range(300):
                raw.sendall(door.head("GET", f"/{'x' * 150}", "nobody"))
                while b"\r\n\r\n" not in (got := raw.recv(4096)) and got:
                    pass
        assert len(lines_of(door, who="anna", status=200)) == 1
        assert len(audit_of(door)) < 100


def test_a_caller_cannot_push_its_own_lines_or_those_of_others_out(kind, tmp_path):
    limits = {"audit_bytes": 10_000, "audit_files": 2, "audit_share_bytes": 30_000}
    limits["audit_share_per_day"] = 1
    with served(kind, tmp_path, **limits, requests_per_second=1e6, burst=10**6) as door:
        assert door.look("bert") == 200
        assert door.ask("GET", door.kind.refused, "anna")[0] == door.kind.status
        with door.tls() as raw:
            raw.settimeout(60)
            for number in range(250):
                raw.sendall(
                    door.head("GET", f"/{number}/{'ä' * 90}".replace("ä", "%C3%A4"), "anna")
                )
                while b"\r\n\r\n" not in raw.recv(4096):
                    pass
        assert len(lines_of(door, who="bert", status=200)) == 1
        assert len(lines_of(door, who="anna", status=door.kind.status)) >= 1
        size = sum(each.stat().st_size for each in tmp_path.glob("audit.jsonl*"))
        assert size < 60_000
        assert door.look("bert") == 200


def test_one_who_has_filled_a_share_with_paths_waits_and_nothing_is_lost(tmp_path):
    limits = {"audit_bytes": 20_000, "audit_files": 1, "audit_share_bytes": 20_000}
    limits["audit_share_per_day"] = 1
    with served("files", tmp_path, **limits) as door:
        statuses = []
        for number in range(40):
            path = f"/api/v1/pfs/files?method=stat&path=/pfs/dc/home/anna/{number}{'%C3%A4' * 100}"
            statuses.append(door.ask("GET", path, "anna")[0])
        assert set(statuses) == {404, 429}
        found = [line for line in audit_of(door) if line["who"] == "anna" and "about" in line]
        assert len(found) == statuses.count(404)
        assert door.look("bert") == 200


def test_a_line_of_the_audit_has_a_bound_in_bytes(tmp_path):
    with served("files", tmp_path) as door:
        for about in ("a", "ä", "\U0001f600"):
            text = quote(f"/pfs/dc/home/anna/{'/'.join([about * 60] * 15)}")
            door.ask("GET", f"/api/v1/pfs/files?method=stat&path={text}", "anna")
        assert len(lines_of(door, who="anna")) == 3
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) < 5500


def test_the_audit_has_the_outcome_of_what_routes_refuse(kind, tmp_path):
    with served(kind, tmp_path) as door:
        door.look("anna")
        door.ask("GET", door.kind.refused, "anna")
        door.ask("GET", "/nowhere", "anna")
        door.ask("POST", door.kind.post, "anna", b"{")
        door.ask("POST", door.kind.post, "anna", b"{}")
        lines = lines_of(door, who="anna")
    assert [line["status"] < 400 for line in lines] == [line["outcome"] == "done" for line in lines]
    assert len({line["outcome"] for line in lines}) >= 4


def test_files_that_are_refused_in_a_request_that_succeeds_are_in_the_outcome(tmp_path):
    with served("files", tmp_path) as door:
        body = json.dumps({"paths": ["/pfs/dc/home/anna/none"]}).encode()
        assert door.ask("POST", "/api/v1/pfs/storage/files/read", "anna", body)[0] == 200
        (line,) = lines_of(door, who="anna")
    assert line["outcome"] == "1 of 1 refused: NotFoundError"


def test_bytes_that_are_no_http_are_counted_and_fill_no_log(kind, tmp_path, capfd):
    with served(kind, tmp_path) as door:
        for _ in range(30):
            with door.tls() as raw:
                raw.sendall(b"no http\r\n\r\n")
                assert b" 400 " in raw.recv(1000).splitlines()[0]
        assert len(lines_of(door, outcome="NoHttp")) == 1
        status, text = door.ask("GET", "/metrics", "anna")
    assert status == 200
    assert b"trainfeed_no_http_total 30" in text
    assert "Invalid HTTP" not in capfd.readouterr().err


# --- health -----------------------------------------------------------------------------------


def fails(door, part):
    status, found = door.health()
    return status == 503 and part in found["failed"]


def test_a_token_file_that_cannot_be_used_fails_the_health(kind, tmp_path):
    with served(kind, tmp_path) as door:
        assert door.health()[0] == 200
        good = (tmp_path / "tokens.txt").read_bytes()
        (tmp_path / "tokens.txt").write_text("half a li")
        assert fails(door, "tokens")
        (tmp_path / "tokens.txt").write_bytes(good)
        assert door.health() == (200, {"status": "ok"})


def test_storage_that_goes_fails_the_health_until_it_is_back(tmp_path):
    with served("files", tmp_path) as door:
        assert door.health()[0] == 200
        (tmp_path / "dc" / "public").rename(tmp_path / "away")
        until(lambda: fails(door, "storage"))
        (tmp_path / "away").rename(tmp_path / "dc" / "public")
        until(lambda: door.health()[0] == 200)


def test_a_model_whose_process_is_dead_fails_the_health(tmp_path):
    with served("predictions", tmp_path) as door:
        assert door.health()[0] == 200
        (tmp_path / "dead").touch()
        assert fails(door, "model")


def stop_task(name):
    """Let a task of the server end with an error as soon as it has begun."""
    from trainfeed.serving.server import metrics as _parts

    real = _parts.Parts.start

    def start(self, given, work):
        async def broken():
            raise ZeroDivisionError(given)

        if given != name:
            return real(self, given, work)
        work.close()
        return real(self, given, broken())

    _parts.Parts.start = start


@pytest.mark.parametrize(
    ("kind", "task"),
    [("files", "uploads"), ("predictions", "batches"), ("predictions", "process"),
     ("chunks", "watch")],
)  # fmt: skip
def test_a_task_that_ended_fails_the_health(kind, task, tmp_path):
    with served(kind, tmp_path, before=lambda: stop_task(task)) as door:
        until(lambda: fails(door, task))


# --- what callers learn -----------------------------------------------------------------------


def test_no_path_of_the_server_is_told_to_callers(kind, tmp_path):
    with served(kind, tmp_path) as door:
        answers = [
            door.ask("GET", door.kind.refused, "anna")[1],
            door.ask("GET", door.kind.look, "nobody")[1],
            door.ask("POST", door.kind.post, "anna", b"{}")[1],
        ]
        if kind == "files":
            (tmp_path / "dc" / "home" / "anna").rename(tmp_path / "elsewhere")
            answers += [door.ask("GET", door.kind.look, "anna")[1]]
            answers += [
                door.ask("POST", door.kind.post, "anna", b'{"method":"touch","path":"x"}')[1]
            ]
    for answer in answers:
        assert str(tmp_path).encode() not in answer
        assert b"token new" not in answer


@pytest.mark.parametrize("first", ["-1", str(1 << 70)])
def test_a_number_of_a_chunk_that_no_file_has_is_refused(first, tmp_path):
    with served("files", tmp_path) as door:
        (tmp_path / "dc" / "home" / "anna" / "f").write_bytes(b"abc")
        for path in ("chunks?first={}&path=", "storage/chunks?offset={}&path="):
            target = f"/api/v1/pfs/{path.format(first)}/pfs/dc/home/anna/f"
            assert door.ask("GET", target, "anna")[0] in (416, 422), target


def test_a_line_without_scopes_still_opens_the_door(kind, tmp_path):
    with served(kind, tmp_path) as door:
        token = new_token(tmp_path / "old.txt", "anna", scopes="*")
        line = (tmp_path / "old.txt").read_text().removesuffix(" *\n")
        (tmp_path / "tokens.txt").write_text(line + "\n")
        door.tokens["anna"] = token
        assert door.look("anna") == 200
