"""Catalogues of tables: a database, and a server with the REST interface; small ones of the tests.

The server answers as the specification of the interface says; no catalogue of others has been
asked.
"""

import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.pipeline.inputs.table_project import NAME, make_table_project, with_catalog
from trainfeed.errors import (
    ConfigError,
    SourceUnreachableError,
    TableNotFoundError,
)
from trainfeed.look.connections import check_connections
from trainfeed.pipeline.inputs.catalogs import catalog_of, open_table

SECRET = "canary-7ac3"


class Server:
    """A catalogue on the loopback, with one warehouse, one account and the tables of a project."""

    def __init__(self, project):
        self.asked = []
        self.status = 200
        self.pause_s = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self, "")

            def do_POST(self):
                outer.answer(self, self.rfile.read(int(self.headers["Content-Length"])).decode())

            def log_message(self, *_):
                pass

        self._project = project
        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/api"
        Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, request, body):
        path = request.path
        self.asked.append((request.command, path, request.headers.get("Authorization"), body))
        status, found = self._found(urlsplit(path), body, request.headers.get("Authorization"))
        data = json.dumps(found).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if not self.pause_s:
            request.wfile.write(data)
            return
        with suppress(OSError):
            for byte in data:
                request.wfile.write(bytes([byte]))
                Event().wait(self.pause_s)

    def _found(self, path, body, account):
        if self.status != 200:
            return self.status, {"error": {"message": "not now"}}
        if path.path == "/api/v1/oauth/tokens":
            form = parse_qs(body)
            is_known = form["client_id"] + form["client_secret"] == ["trainfeed", SECRET]
            return (200, {"access_token": "t0ken"}) if is_known else (401, {"error": "no"})
        if account != "Bearer t0ken":
            return 401, {"error": {"message": "who?"}}
        if path.path == "/api/v1/config":
            return 200, {
                "defaults": {},
                "overrides": {"prefix": parse_qs(path.query)["warehouse"][0]},
            }
        name = path.path.removeprefix("/api/v1/lake/namespaces/shop/tables/")
        if name != "clicks":
            return 404, {"error": {"type": "NoSuchTableException"}}
        metadata = Path(self._project.table().metadata_location.removeprefix("file://"))
        config = {"py-io-impl": "os.system"}
        return 200, {"metadata": json.loads(metadata.read_text()), "config": config}

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(tmp_path, socket_enabled):
    project = make_table_project(tmp_path)
    with closing(Server(project)) as found:
        found.project = project
        yield found


def rest(server, **settings):
    given = {"url": server.url, "warehouse": "lake", "credential": f"trainfeed:{SECRET}"}
    return with_catalog(server.project, **{**given, **settings})


def test_a_table_of_a_server_is_read_as_that_of_a_database(server):
    report = rest(server).build()
    same = server.project.elsewhere("same").build()
    assert report["manifest_sha256"] == same["manifest_sha256"]
    assert [(method, path) for method, path, *_ in server.asked[:3]] == [
        ("POST", "/api/v1/oauth/tokens"),
        ("GET", "/api/v1/config?warehouse=lake"),
        ("GET", "/api/v1/lake/namespaces/shop/tables/clicks"),
    ]
    assert SECRET not in str([each for each in server.asked if each[0] == "GET"])


def test_a_token_of_the_settings_is_shown_as_it_is(server):
    given = {"url": server.url, "warehouse": "lake", "token": "t0ken"}
    with_catalog(server.project, **given).build()
    assert {account for _, _, account, _ in server.asked} == {"Bearer t0ken"}


def test_a_table_or_account_that_the_server_does_not_know_is_named(server):
    project = rest(server)
    catalogs = project.env.catalogs
    with pytest.raises(TableNotFoundError, match=r"'shop.other' in catalogue 'catalog_default'"):
        open_table(catalogs, "catalog_default", "shop.other")
    wrong = rest(server, credential="trainfeed:other").env.catalogs
    with pytest.raises(ConfigError, match=r"refuses this account \(401\)") as caught:
        open_table(wrong, "catalog_default", NAME)
    assert "other" not in str(caught.value)


def test_a_server_that_is_away_is_another_try_and_published_versions_stay(server):
    project = rest(server)
    project.build()
    server.status = 503
    assert project.build()["verdict"] == "identical"
    with pytest.raises(SourceUnreachableError, match="fails requests now"):
        project.build(rebuild="again")
    server.close()
    with pytest.raises(SourceUnreachableError, match="gives no answer"):
        project.build(rebuild="again")


def test_an_answer_that_trickles_ends_in_time(server):
    """Each byte comes within the time of a request, all of them together do not."""
    catalogs = rest(server, timeout_s=0.3).env.catalogs
    server.pause_s = 0.05
    with pytest.raises(SourceUnreachableError, match="did not end in time"):
        open_table(catalogs, "catalog_default", NAME)


def test_another_server_is_told_as_one(server):
    project = rest(server, url=server.url.removesuffix("/api"))
    server.status = 418
    with pytest.raises(ConfigError, match=r"expected the answer of a catalogue"):
        open_table(project.env.catalogs, "catalog_default", NAME)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "http://catalog.example", "token": SECRET}, "https://"),
        ({"url": "http://catalog.example", "credential": f"a:{SECRET}"}, "https://"),
        ({"url": "https://c.example", "credential": SECRET}, "id:secret"),
        ({"url": "https://c.example", "credential": f"a:{SECRET}", "token": "x"}, "or token"),
        ({"url": "https://c.example", "py-catalog-impl": "os.system"}, "only url"),
        ({"url": "https://c.example", "warehouse": 3}, "warehouse as a text"),
        ({"warehouse": "w"}, "url as http"),
        ({"url": "https://[c.example"}, "url as http"),
        ({"url": "https://c.example:54x2"}, "url as http"),
        ({"url": f"postgresql://u:{SECRET}@h/db"}, "without credentials"),
        ({"url": f"postgresql://u:a/{SECRET}@h/db"}, "without credentials"),
        ({"url": f"postgresql://u:a#?{SECRET}@h/db"}, "without credentials"),
        ({"url": f"postgresql://[{SECRET}@h/db"}, "without credentials"),
        ({"url": f"postgresql://h/db?user=u&password={SECRET}"}, "without credentials"),
        ({"url": f"mysql+pymysql://h/db?charset=utf8&Passwd={SECRET}"}, "without credentials"),
        ({"url": "postgresql://h/db", "password": SECRET}, "username with password"),
        ({"url": "sqlite:////c.db", "warehouse": "w"}, "only url, catalog"),
        ({"url": "sqlite:////c.db", "copied": "/etc"}, "only url, catalog"),
    ],
)
def test_wrong_settings_are_named_without_their_values(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        catalog_of({"lake": settings}, "lake")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["postgresql://h:5432/db?host=/tmp/a%40b", "sqlite:////lake/a@b/c.db", "sqlite:///c.db"]
)
def test_what_only_looks_like_credentials_is_taken(url):
    assert catalog_of({"lake": {"url": url}}, "lake").url == url


def test_a_catalogue_that_no_settings_name_says_where_they_belong():
    with pytest.raises(ConfigError, match="TRAINFEED_CATALOGS: lake: "):
        catalog_of({"other": {}}, "lake")


def test_a_database_is_only_read_and_its_faults_are_named(tmp_path):
    project = make_table_project(tmp_path, counts=())
    database = tmp_path / "catalog.db"
    before = database.read_bytes()
    open_table(project.env.catalogs, "catalog_default", NAME)
    assert database.read_bytes() == before
    catalogs = {"lake": {"url": f"sqlite:///{database}", "catalog": "other"}}
    with pytest.raises(TableNotFoundError, match="catalogue 'other'"):
        open_table(catalogs, "lake", NAME)
    away = tmp_path / "away.db"
    with pytest.raises(SourceUnreachableError, match="expected the file of a catalogue"):
        open_table({"lake": {"url": f"sqlite:///{away}"}}, "lake", NAME)
    assert not away.exists()
    with closing(sqlite3.connect(away)) as empty:
        empty.execute("CREATE TABLE other (a)")
        empty.commit()
    with pytest.raises(ConfigError, match="iceberg_tables"):
        open_table({"lake": {"url": f"sqlite:///{away}"}}, "lake", NAME)
    with pytest.raises(ConfigError, match="SQLAlchemy"):
        open_table({"lake": {"url": "nonsense:///x"}}, "lake", NAME)


def test_files_where_no_file_system_reaches_are_named(tmp_path):
    project = make_table_project(tmp_path, counts=())
    metadata = project.table().metadata_location
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
        place = metadata.replace("file://", "s3://")
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (place,))
        database.commit()
    with pytest.raises(ConfigError, match=r"s3://.*trainfeed cannot open"):
        open_table(project.env.catalogs, "catalog_default", NAME)


def test_the_check_of_connections_has_a_line_for_a_catalogue(tmp_path):
    project = make_table_project(tmp_path)

    def line(env):
        (found,) = (a for a in check_connections(env) if a.connection.kind.startswith("catal"))
        return found

    found = line(project.env)
    assert (found.is_ok, found.connection.used_by) == (True, ("clicks",))
    assert found.message == f"has tables {NAME} (2 snapshots)"
    project.catalog().drop_table(NAME)
    found = line(project.env)
    assert (found.is_ok, NAME in found.message) == (False, True)
    wrong = {"url": f"postgresql://u:{SECRET}@h/db?sslpassword={SECRET}"}
    found = line(replace(project.env, catalogs={"catalog_default": wrong}))
    assert (found.is_ok, found.connection.place) == (False, "postgresql://u:***@h/db")
    assert SECRET not in str(found.to_json())
    found = line(replace(project.env, catalogs={}))
    assert (found.is_ok, "TRAINFEED_CATALOG " in found.message) == (False, True)
