"""Catalogues in databases: what a database, its driver and its URL can do wrong.

A server of the tests speaks as much of the protocol of PostgreSQL as a refused client hears.
"""

import os
import shutil
import socket
import sqlite3
import struct
from contextlib import closing
from threading import Thread

import pytest
import sqlalchemy

from tests.unit.pipeline.inputs.table_project import NAME, make_table_project
from trainfeed.errors import ConfigError, SourceUnreachableError
from trainfeed.sources import sql_catalogs
from trainfeed.sources.sql_catalogs import metadata_place

SECRET = "canary-5d1e"
# A client asks with these whether the server encrypts.
_ASKS_FOR_ENCRYPTION = {80877103, 80877104}


def place_of(url, account=None, password=None):
    return metadata_place(url, account, password, "default", NAME)


class Postgres:
    """A server on the loopback that refuses every client with a message; without one it is silent.

    Attributes:
        url: Its URL.
    """

    def __init__(self, code="", message=""):
        fields = f"SFATAL\0VFATAL\0C{code}\0M{message}\0\0".encode()
        self._answer = b"E" + struct.pack("!i", 4 + len(fields)) + fields if message else None
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.url = f"postgresql+psycopg2://127.0.0.1:{port}/iceberg"
        if self._answer is not None:
            Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                while len(head := client.recv(8)) == 8:
                    length, number = struct.unpack("!ii", head)
                    if number in _ASKS_FOR_ENCRYPTION:
                        client.sendall(b"N")
                        continue
                    client.recv(length - 8)
                    client.sendall(self._answer)
                    break

    def close(self):
        self._socket.close()


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        ("28P01", 'password authentication failed for user "me"', ConfigError),
        ("28000", 'no pg_hba.conf entry for host "127.0.0.1", user "me"', ConfigError),
        ("28000", 'role "me" does not exist', ConfigError),
        ("3D000", 'database "iceberg" does not exist', ConfigError),
        ("57P03", "the database system is starting up", SourceUnreachableError),
        ("53300", "sorry, too many clients already", SourceUnreachableError),
    ],
)
def test_what_a_database_refuses_is_a_setting_and_what_passes_is_another_try(
    socket_enabled, code, message, error
):
    with closing(Postgres(code, message)) as server:
        with pytest.raises(error) as caught:
            place_of(f"{server.url}?application_name={SECRET}", "me", SECRET)
        assert message in str(caught.value)
        assert server.url in str(caught.value)
        assert SECRET not in str(caught.value)


def test_a_database_that_accepts_and_is_silent_is_left(socket_enabled, monkeypatch):
    monkeypatch.setattr(sql_catalogs, "_ANSWER_SECONDS", 0.3)
    with (
        closing(Postgres()) as server,
        pytest.raises(SourceUnreachableError, match=r"no answer within 0\.3 s"),
    ):
        place_of(server.url, "me", SECRET)


def test_a_database_that_is_away_is_another_try_and_its_query_is_not_shown(socket_enabled):
    with closing(Postgres()) as server:
        url = server.url
    with pytest.raises(SourceUnreachableError, match="refused") as caught:
        place_of(f"{url}?sslpassword={SECRET}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h:54x2/db",
        f"postgresql://h/db?{SECRET}=1",
        f"nonsense:///x?{SECRET}",
        f"postgresql+asyncpg://127.0.0.1:1/db?ssl={SECRET}",
    ],
)
def test_a_url_that_no_driver_takes_is_a_setting(url):
    with pytest.raises(ConfigError, match=r"correct") as caught:
        place_of(url)
    assert f"={SECRET}" not in str(caught.value)
    assert f"?{SECRET}" not in str(caught.value)


def test_an_option_or_a_host_that_sqlite_has_not_is_a_setting(tmp_path):
    make_table_project(tmp_path, counts=())
    path = f"{tmp_path}/catalog.db"
    for url in (f"sqlite:///{path}?timeout=soon&password={SECRET}", f"sqlite://h/{path}?{SECRET}"):
        with pytest.raises(ConfigError, match="SQLAlchemy opens") as caught:
            place_of(url)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("folder", ["a#b", "a%b", "a b", "ü"])
def test_the_path_of_a_file_of_sqlite_may_have_any_character(tmp_path, folder):
    project = make_table_project(tmp_path, counts=())
    (tmp_path / folder).mkdir()
    shutil.copy(tmp_path / "catalog.db", tmp_path / folder)
    found = place_of(f"sqlite:///{tmp_path}/{folder}/catalog.db")
    assert found == project.table().metadata_location


def test_files_that_are_no_database_or_cannot_be_looked_at_are_named(tmp_path):
    other = tmp_path / "other.db"
    other.write_bytes(b"no database " * 1000)
    with pytest.raises(ConfigError, match="file is not a database"):
        place_of(f"sqlite:///{other}")
    with pytest.raises(SourceUnreachableError, match="File name too long"):
        place_of(f"sqlite:///{tmp_path}/{'x' * 300}")
    (tmp_path / "closed").mkdir(mode=0)
    if os.geteuid():
        with pytest.raises(SourceUnreachableError, match="Permission denied"):
            place_of(f"sqlite:///{tmp_path}/closed/catalog.db")


def test_a_table_that_the_account_may_not_read_is_a_setting(tmp_path, monkeypatch):
    """As PostgreSQL says it: no fault of a connection, so another try does not help."""
    make_table_project(tmp_path, counts=())

    def denied(*_):
        cause = sqlite3.ProgrammingError("permission denied for table iceberg_tables")
        raise sqlalchemy.exc.ProgrammingError("SELECT …", {}, cause)

    monkeypatch.setattr(sql_catalogs, "_asked", denied)
    with pytest.raises(ConfigError, match=r"permission denied .* rights of the account"):
        place_of(f"sqlite:///{tmp_path}/catalog.db")
