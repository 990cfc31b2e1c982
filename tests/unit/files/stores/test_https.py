"""Files behind https, over a small TLS server of the tests on the loopback."""

import pytest

from tests.support.tls_files import tls_files
from trainfeed.errors import (
    AccessDeniedError,
    FileReplacedError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import https
from trainfeed.files.stores.https import HttpsFiles

pytestmark = pytest.mark.usefixtures("socket_enabled")

DATA = bytes(range(256)) * 16


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "files/a").mkdir(parents=True)
    (tmp_path / "files/a/b c.bin").write_bytes(DATA)
    (tmp_path / "files/a/plus+percent.bin").write_bytes(b"x")
    with tls_files(tmp_path / "files", tmp_path / "tls") as server:
        monkeypatch.setenv("TRAINFEED_CA_FILE", str(server.certificate))
        https._context.cache_clear()
        server.folder = tmp_path / "files"
        yield server
    https._context.cache_clear()


def files(server):
    return HttpsFiles(server.uri.removeprefix("https://"))


def test_ranges_are_asked_for_exactly(server):
    (server.folder / "plain").write_bytes(DATA)
    with files(server).open_read("/plain") as file:
        raw = file.raw
        raw.seek(100)
        buffer = bytearray(50)
        assert raw.readinto(buffer) == 50
    assert bytes(buffer) == DATA[100:150]
    assert [found for _, _, found in server.asked] == [None, "bytes=100-149"]


def test_a_file_is_read_through_over_one_connection(server):
    (server.folder / "plain").write_bytes(DATA)
    with files(server).open_read("/plain") as file:
        assert file.read() == DATA
        file.seek(5)
        assert file.read(3) == DATA[5:8]


def test_a_name_with_signs_is_quoted(server):
    files(server).open_read("/a/plus+percent.bin").close()
    assert server.asked[-1][1] == "/a/plus%2Bpercent.bin"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, NotFoundError),
        (410, NotFoundError),
        (401, AccessDeniedError),
        (403, AccessDeniedError),
        (429, StorageError),
        (503, StorageError),
        (302, UnsuitableStoreError),
        (405, UnsuitableStoreError),
    ],
)
def test_an_answer_that_is_no_file_is_the_error_of_its_kind(server, status, error):
    server.answers.append(lambda _: status)
    with pytest.raises(error) as caught:
        files(server).open_read("/plain")
    assert type(caught.value) is error
    assert str(status) in str(caught.value)


def test_what_is_missing_does_not_exist(server):
    assert not files(server).exists("/plain")
    (server.folder / "plain").touch()
    assert files(server).exists("/plain")


def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed(server):
    (server.folder / "plain").write_bytes(DATA)
    with files(server).open_read("/plain") as file:
        file.raw.seek(0)
        file.raw.readinto(bytearray(10))
        (server.folder / "plain").write_bytes(b"other" * 1000)
        with pytest.raises(FileReplacedError, match="replaced while it was read"):
            file.raw.readinto(bytearray(10))


def test_a_server_that_gives_no_ranges_is_refused(server):
    (server.folder / "plain").write_bytes(DATA)

    server.answers.append(lambda handler: 200 if handler.command == "GET" else None)
    with (
        files(server).open_read("/plain") as file,
        pytest.raises(UnsuitableStoreError, match="must give ranges"),
    ):
        file.raw.readinto(bytearray(10))


def test_a_certificate_that_nobody_vouches_for_is_refused(server, monkeypatch):
    monkeypatch.delenv("TRAINFEED_CA_FILE")
    with pytest.raises(AccessDeniedError, match="TRAINFEED_CA_FILE"):
        files(server).open_read("/plain")


def test_a_server_that_is_away_is_an_outage(server):
    address = server.uri.removeprefix("https://")
    server.shutdown()
    server.server_close()
    with pytest.raises(StorageError) as caught:
        HttpsFiles(address).open_read("/plain")
    assert type(caught.value) is StorageError
