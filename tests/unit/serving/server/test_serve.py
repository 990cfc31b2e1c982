"""Servers as processes on the loopback: TLS, certificates, slow clients, the end."""

import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.serving.server.guarded import made, running
from trainfeed.errors import (
    ConfigError,
    ServiceDeniedError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnreachableError,
)
from trainfeed.serving.server import Access, Client, ServerSettings, new_token, serve

pytestmark = pytest.mark.usefixtures("socket_enabled")


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def certified(folder, name, *, by=None, days=1):
    """Key and certificate of a name, signed by another pair or by itself, as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signer = (subject, key) if by is None else by
    now = datetime.now(UTC)
    alternatives = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .sign(signer, hashes.SHA256())
    )
    places = folder / f"{name}.pem", folder / f"{name}.key"
    places[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    places[1].touch(mode=0o600)
    places[1].write_bytes(pem(key))
    return (subject, key), *places


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token.txt"
    path.touch(mode=0o600)
    path.write_text(new_token(tmp_path / "tokens.txt", "anna", scopes="*") + "\n")
    return path


@pytest.fixture
def tls(tmp_path):
    pair, ca, _ = certified(tmp_path, "authority")
    _, certificate, key = certified(tmp_path, "server", by=pair)
    return {"pair": pair, "ca": ca, "certificate": certificate, "key": key}


def test_a_client_talks_to_a_server_and_gets_clear_errors(tmp_path, token_file):
    with running(tmp_path, body_bytes=1000) as (process, port):
        access = Access(token_file=token_file)
        with Client(f"http://127.0.0.1:{port}", access, patience_seconds=20) as client:
            assert client.post("/echo", b"x" * 1000) == {"who": "anna", "bytes": 1000}
            with pytest.raises(ServiceRefusedError, match="BodyTooLarge") as refused:
                client.post("/echo", b"x" * (8 << 20))
            assert refused.value.kind == "BodyTooLarge"
            with pytest.raises(ServiceError, match="InternalError"):
                client.get("/broken")
            with pytest.raises(ServiceError, match="expected JSON"):
                client.get("/metrics")
            assert "trainfeed_requests_total" in client.get_text("/metrics")
        token_file.write_text("wrong")
        with (
            Client(f"http://127.0.0.1:{port}", access) as client,
            pytest.raises(ServiceDeniedError, match="TokenRefused"),
        ):
            client.get("/wrong")
        process.terminate()
        process.join(60)
        assert process.exitcode == 0


def test_a_client_reads_a_token_that_was_replaced(tmp_path, token_file):
    with (
        running(tmp_path) as (_, port),
        Client(f"http://127.0.0.1:{port}", Access(token_file=token_file)) as client,
    ):
        assert client.post("/echo", {})["who"] == "anna"
        other = new_token(tmp_path / "others.txt", "bert", scopes="*")
        (tmp_path / "tokens.txt").write_bytes((tmp_path / "others.txt").read_bytes())
        token_file.write_text(other)
        assert client.post("/echo", {})["who"] == "bert"


def test_a_server_that_is_away_is_one_clear_error(token_file):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with (
        Client(url, Access(token_file=token_file), patience_seconds=0.2) as client,
        pytest.raises(ServiceUnreachableError, match=r"within 0\.2 s, got ConnectionRefusedError"),
    ):
        client.get("/healthz")


def test_tls_is_verified_by_both_sides(tmp_path, token_file, tls):
    with running(tmp_path, certificate=tls["certificate"], key=tls["key"]) as (_, port):
        url = f"https://localhost:{port}"
        with Client(url, Access(token_file, tls["ca"])) as client:
            assert client.post("/echo", {})["who"] == "anna"
        with (
            Client(url, Access(token_file), patience_seconds=0.2) as client,
            pytest.raises(ServiceUnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            client.post("/echo", {})
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises(ssl.SSLError):
            old.wrap_socket(raw)


def test_a_client_certificate_stands_for_a_token(tmp_path, tls):
    (tmp_path / "tokens.txt").touch(mode=0o600)
    (tmp_path / "tokens.txt").write_text("carla certificate talk\n")
    _, known, known_key = certified(tmp_path, "carla", by=tls["pair"])
    _, other, other_key = certified(tmp_path, "dora", by=tls["pair"])
    _, own, own_key = certified(tmp_path, "carla2")
    files = {"certificate": tls["certificate"], "key": tls["key"], "client_ca": tls["ca"]}
    with running(tmp_path, **files) as (_, port):
        url = f"https://localhost:{port}"
        with Client(url, Access(None, tls["ca"], known, known_key)) as client:
            assert client.post("/echo", {})["who"] == "carla"
            with pytest.raises(ServiceDeniedError, match="ScopeMissing"):
                client.get_text("/metrics")
        for shown in ((None, None), (other, other_key)):
            with (
                Client(url, Access(None, tls["ca"], *shown)) as client,
                pytest.raises(ServiceDeniedError, match="TokenRefused"),
            ):
                client.post("/echo", {})
        with (
            Client(url, Access(None, tls["ca"], own, own_key), patience_seconds=0.2) as client,
            pytest.raises(ServiceUnreachableError),
        ):
            client.post("/echo", {})


def test_headers_that_do_not_end_are_not_awaited_for_ever(tmp_path, token_file):
    with (
        running(tmp_path, header_seconds=0.2) as (_, port),
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(b"POST /echo HTTP/1.1\r\nhost: x\r\n")
        assert slow.recv(100) == b""


def test_headers_above_the_limit_are_refused(tmp_path, token_file):
    with (
        running(tmp_path) as (_, port),
        socket.create_connection(("127.0.0.1", port)) as raw,
    ):
        raw.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 40000)
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def sent(port, text, *, token=None):
    """A connection on which a request was begun."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=60)
    header = "" if token is None else f"authorization: Bearer {token}\r\n"
    raw.sendall(f"{text} HTTP/1.1\r\nhost: x\r\n{header}\r\n".encode())
    return raw


def test_one_connection_too_many_is_told_to_come_later(tmp_path, token_file):
    token = token_file.read_text().strip()
    with running(tmp_path, connections=2) as (_, port):
        metrics = {"headers": {"authorization": f"Bearer {token}"}, "trust_env": False}
        with sent(port, "GET /slow", token=token):
            while "in_work 2" not in httpx.get(f"http://127.0.0.1:{port}/metrics", **metrics).text:
                pass
            with sent(port, "GET /slow", token=token):
                answers = set()
                while 503 not in answers:
                    answer = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
                    answers.add(answer.status_code)
                assert answer.headers["retry-after"] == "1"
                assert answer.json()["error"] == "Overloaded"


def test_a_connection_without_a_request_gives_way_to_the_next_one(tmp_path, token_file):
    with running(tmp_path, connections=1) as (_, port), sent(port, "GET /healthz") as first:
        assert first.recv(100).startswith(b"HTTP/1.1 200 ")
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        assert answer.status_code == 200
        first.settimeout(60)
        while first.recv(1000):
            pass


def test_a_request_in_work_is_given_time_at_the_end_and_no_more(tmp_path, token_file):
    audit = tmp_path / "audit.jsonl"
    with (
        running(tmp_path, grace_seconds=0.2, audit_log=audit) as (process, port),
        socket.create_connection(("127.0.0.1", port)) as raw,
    ):
        token = token_file.read_text().strip()
        head = f"GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        raw.sendall(head.encode())
        metrics = f"http://127.0.0.1:{port}/metrics"
        headers = {"authorization": f"Bearer {token}"}
        while "in_work 2" not in httpx.get(metrics, headers=headers, trust_env=False).text:
            pass
        process.terminate()
        process.join(60)
        assert process.exitcode == 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    (slow,) = [line for line in lines if line["what"] == "GET /slow"]
    assert slow["outcome"] == "no answer"


def test_other_machines_are_not_served_without_tls(tmp_path):
    for host in ("0.0.0.0", "192.168.1.5", "::", "trainer.example"):
        with pytest.raises(ConfigError, match="expected a certificate and a key"):
            ServerSettings(tmp_path / "tokens.txt", host=host)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        ServerSettings(tmp_path / "tokens.txt", host=host)


def test_a_token_is_not_sent_to_another_machine_without_tls(token_file):
    for url in ("http://10.0.0.1:80", "http://trainer.example", "ftp://127.0.0.1", "http://a:b@c"):
        with pytest.raises(ConfigError):
            Client(url, Access(token_file=token_file))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", "cannot read a private key"),
        ("open", r"closed to other accounts, got mode 0644"),
        ("other", "KEY_VALUES_MISMATCH"),
        ("encrypted", "expected a key without a password"),
        ("text", "both PEM, got"),
        ("no certificate", "cannot read the certificate"),
        ("no authorities", "cannot read the authorities"),
    ],
)
def test_a_fault_of_certificate_or_key_is_named(tmp_path, tls, fault, message):
    key, certificate, authorities = tls["key"], tls["certificate"], None
    if fault == "missing":
        key = tmp_path / "none.key"
    if fault == "open":
        key.chmod(0o644)
    if fault == "other":
        key = certified(tmp_path, "other")[2]
    if fault == "encrypted":
        key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    if fault == "text":
        certificate.write_text("no certificate")
    if fault == "no certificate":
        certificate = Path("none.pem")
    if fault == "no authorities":
        authorities = Path("none.pem")
    app, _, _ = made(tmp_path)
    settings = ServerSettings(
        tmp_path / "tokens.txt", certificate=certificate, key=key, client_ca=authorities
    )
    with pytest.raises(ConfigError, match=message):
        serve(app, settings)


def test_a_port_that_is_taken_is_named(tmp_path):
    app, _, _ = made(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = ServerSettings(tmp_path / "tokens.txt", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="choose another address or port"):
            serve(app, settings)
