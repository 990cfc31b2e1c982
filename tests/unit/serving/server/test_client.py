"""The client against servers that answer what no server of trainfeed does."""

import socket
import threading
from contextlib import contextmanager

import pytest

from trainfeed.errors import ConfigError, ServiceError, ServiceUnreachableError
from trainfeed.serving.server import Access, Client, Connections, NoAnswerError

pytestmark = pytest.mark.usefixtures("socket_enabled")

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def access(tmp_path, monkeypatch):
    monkeypatch.delenv("TRAINFEED_TOKEN_FILE", raising=False)
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("a-secret")
    return Access(token_file=tmp_path / "token")


@contextmanager
def answering(*answers):
    """Answer each connection with the next bytes, and close it; yield address and requests."""
    asked = []

    def run(server):
        for answer in answers:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(60)
                asked.append(connection.recv(1 << 16))
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        thread = threading.Thread(target=run, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        thread.join()


def sized(body, announced=None, status=OK):
    size = len(body) if announced is None else announced
    return status + f"content-length: {size}\r\n\r\n".encode() + body


def chunked(*parts):
    body = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (*parts, b""))
    return OK + b"transfer-encoding: chunked\r\n\r\n" + body


@pytest.mark.parametrize("user", ["me", "me:canary", "me:can/canary", "me:1/canary"])
def test_an_address_with_a_user_is_refused_and_not_shown(access, user):
    with pytest.raises(ConfigError, match="expected the address of a server") as refused:
        Client(f"https://{user}@127.0.0.1:9", access)
    assert "can" not in str(refused.value)


@pytest.mark.parametrize("address", ["https://[::1", "https://127.0.0.1:54x2", "https://h:99999"])
def test_an_address_that_is_none_is_refused(access, address):
    with pytest.raises(ConfigError, match="expected the address of a server"):
        Client(address, access)


@pytest.mark.parametrize(
    "answer", [sized(b"x" * 9), chunked(b"x" * 4, b"x" * 5), OK + b"\r\n" + b"x" * 9]
)
@pytest.mark.parametrize("room", [8, 9, 10])
def test_a_body_is_taken_into_lent_memory_if_it_has_room(access, answer, room):
    lent = memoryview(bytearray(room))
    with answering(answer) as (url, _), Client(url, access) as client:
        if room < 9:
            with pytest.raises(ServiceError, match="at most 8 bytes"):
                client.ask("GET", "/data", into=lent)
        else:
            reply = client.ask("GET", "/data", into=lent)
            assert (reply.num_bytes, bytes(lent[:9]), reply.body) == (9, b"x" * 9, b"")


@pytest.mark.parametrize("into", [None, memoryview(bytearray(100))])
def test_a_body_that_ends_too_early_is_asked_for_again(access, into):
    with (
        answering(sized(b"xxx", 9), sized(b"y" * 9)) as (url, _),
        Client(url, access) as client,
    ):
        reply = client.ask("GET", "/data", into=into)
    assert reply.num_bytes == 9
    assert reply.may_repeat


def test_an_answer_without_bound_is_not_read_on(access, monkeypatch):
    monkeypatch.setattr("trainfeed.serving.server.client._MAX_ANSWER_BYTES", 1000)
    for answer in (sized(b"x" * 1001), chunked(b"x" * 600, b"x" * 600), OK + b"\r\n" + b"x" * 1001):
        with (
            answering(answer) as (url, _),
            Client(url, access) as client,
            pytest.raises(ServiceError, match="at most 1000 bytes"),
        ):
            client.get_text("/")


def test_a_refusal_does_not_go_into_lent_memory(access):
    lent = memoryview(bytearray(100))
    said = b'{"error": "NotFoundError", "got": "none"}'
    with (
        answering(sized(said, status=b"HTTP/1.1 404 Not Found\r\n")) as (url, _),
        Client(url, access) as client,
    ):
        reply = client.ask("GET", "/data", into=lent)
    assert reply.refusal == ("NotFoundError", "none")
    assert not any(lent)


def test_a_redirect_is_an_answer_that_nobody_follows(access):
    answer = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/x\r\ncontent-length: 0\r\n\r\n"
    with (
        answering(answer) as (url, asked),
        Client(url, access) as client,
        pytest.raises(ServiceError, match="status 302"),
    ):
        client.get("/")
    assert len(asked) == 1


def test_a_proxy_of_the_environment_is_not_used(access, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with answering(sized(b"{}")) as (url, asked), Client(url, access) as client:
        assert client.get("/") == {}
    assert b"authorization: Bearer a-secret" in asked[0]


def test_a_server_is_asked_again_after_the_time_that_it_names(access):
    later = (
        b"HTTP/1.1 503 Later\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
    with answering(later, sized(b"{}")) as (url, asked), Client(url, access) as client:
        assert not client.ask("GET", "/").may_repeat
    assert len(asked) == 2
    with (
        answering(later) as (url, _),
        Client(url, access, patience_seconds=0.5) as client,
        pytest.raises(ServiceUnreachableError, match=r"within 0\.5 s, got status 503"),
    ):
        client.get("/")


def test_a_closed_client_stops_waiting(access):
    later = b"HTTP/1.1 503 Later\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n"
    client = Client("http://127.0.0.1:9", access, patience_seconds=600)
    client.close()
    with pytest.raises(ServiceUnreachableError):
        client.get("/")
    with answering(later) as (url, _):
        client = Client(url, access, patience_seconds=600)
        threading.Timer(0.2, client.close).start()
        with pytest.raises(ServiceUnreachableError):
            client.get("/")


def test_one_request_of_connections_has_an_end(access):
    with answering(OK + b"content-length: 9\r\n\r\nx") as (url, _):
        server = Connections(url, None)
        with pytest.raises(NoAnswerError):
            server.ask("GET", "/", headers={}, until=0.0)
        server.close()
