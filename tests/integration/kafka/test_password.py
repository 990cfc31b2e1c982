"""A wrong password is reported at once, as a wrong password, and the message does not show it.

The broker here is a few lines that know SASL and nothing else: it refuses every password with the
bytes of a real broker.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from trainfeed.errors import ConfigError
from trainfeed.sources import KafkaTopic

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
KNOWN = ((3, 0, 1), (HANDSHAKE, 0, 1), (API_VERSIONS, 0, 0), (AUTHENTICATE, 0, 0))
UNSUPPORTED_VERSION, AUTHENTICATION_FAILED = 35, 58
PASSWORD = "canary-7ac3"


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def answer(api, version):
    """The body of the answer to a request."""
    if api == API_VERSIONS:
        error = UNSUPPORTED_VERSION if version else 0
        known = b"".join(struct.pack(">hhh", *entry) for entry in KNOWN)
        return struct.pack(">hi", error, len(KNOWN)) + known
    if api == HANDSHAKE:
        return struct.pack(">hi", 0, 1) + text("PLAIN")
    return (
        struct.pack(">h", AUTHENTICATION_FAILED)
        + text("Invalid username or password")
        + (struct.pack(">i", 0))
    )


def serve(connection):
    with connection, connection.makefile("rb") as requests:
        while head := requests.read(4):
            request = requests.read(struct.unpack(">i", head)[0])
            api, version, correlation = struct.unpack(">hhi", request[:8])
            body = struct.pack(">i", correlation) + answer(api, version)
            connection.sendall(struct.pack(">i", len(body)) + body)
            if api == AUTHENTICATE:
                return


@pytest.fixture
def strict_broker():
    """Address of a broker that lets nobody in."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_wrong_password_is_an_error_of_the_connection(strict_broker):
    settings = {
        "bootstrap.servers": strict_broker,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ingest",
        "sasl.password": PASSWORD,
    }
    started = time.monotonic()
    with pytest.raises(ConfigError) as caught, KafkaTopic(settings, "clicks") as topic:
        topic.partitions()
    message = str(caught.value)
    assert "Invalid username or password" in message
    assert strict_broker in message
    assert "change the settings of the connection" in message
    assert PASSWORD not in message
    assert time.monotonic() - started < 30  # a call ends within 20 s
