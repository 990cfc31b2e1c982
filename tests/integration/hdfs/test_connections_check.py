"""What ``trainfeed connections check`` says of a real HDFS, of a standby, and of no server."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.log_project import LogProject, make_log_project
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.look.connections import DEADLINE_S, Answer, check_connections

STANDBY = {
    "RemoteException": {
        "exception": "StandbyException",
        "javaClassName": "org.apache.hadoop.ipc.StandbyException",
        "message": "Operation category READ is not supported in state standby",
    }
}


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.fixture
def project(tmp_path: Path) -> LogProject:
    return make_log_project(tmp_path)


def logs_answer(project: LogProject, place: str) -> Answer:
    env = replace(project.env, logs={"hdfs_default": place})
    started = time.monotonic()
    (found,) = (each for each in check_connections(env) if each.connection.kind == "log files")
    assert time.monotonic() - started < DEADLINE_S + 5
    return found


@pytest.mark.parametrize("variable", ["TEST_WEBHDFS_URI", "TEST_HDFS_URI"])
def test_a_folder_is_found_by_both_protocols_and_a_missing_one_is_named(
    project: LogProject, variable: str
) -> None:
    place = f"{os.environ[variable]}/trainfeed-test-{uuid.uuid4()}"
    found = logs_answer(project, place)
    assert not found.is_ok
    assert f"it answers, but has no {place}/logs/clicks; make the folder" in found.message
    Location.parse(f"{place}/logs/clicks").fs.make_dir(Location.parse(f"{place}/logs/clicks").path)
    try:
        found = logs_answer(project, place)
        assert found.is_ok, found.message
        assert found.message == f"has {place}/logs/clicks"
    finally:
        Location.parse(place).delete(recursive=True)


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_where_nothing_listens_the_answer_comes_in_time(project: LogProject, scheme: str) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        address = f"127.0.0.1:{server.server_port}"
    found = logs_answer(project, f"{scheme}://{address}/data")
    assert (found.is_ok, address in found.message) == (False, True)


@contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"webhdfs://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_name_node_on_standby_is_told_as_one(project: LogProject) -> None:
    class Standby(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(STANDBY).encode()
            self.send_response(403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with served(Standby) as place:
        found = logs_answer(project, f"{place}/data")
    assert not found.is_ok
    assert "on standby: name the active one" in found.message


def test_a_server_that_is_silent_is_given_up(project: LogProject) -> None:
    may_end = threading.Event()

    class Silent(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            may_end.wait(60)

        def log_message(self, *_: object) -> None: ...

    with served(Silent) as place:
        found = logs_answer(project, f"{place}/data")
        may_end.set()
    assert not found.is_ok
    assert "no answer within 10 s" in found.message
