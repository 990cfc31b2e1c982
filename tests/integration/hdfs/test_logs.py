"""Logs on a real HDFS, by both protocols: the same set, and only from files that are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from tests.unit.pipeline.log_project import DAY, LogProject, make_log_project
from trainfeed.errors import (
    AccessDeniedError,
    FormatError,
    Outcome,
    SourceReplacedError,
    WindowOpenError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs import find_interval_logs
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.sources import CompleteRule, FolderTree, LineRange, find_logs, iter_lines

ROOT = Path(__file__).parents[3]
PROTOCOLS = ["TEST_WEBHDFS_URI", "TEST_HDFS_URI"]
PLAIN = f"/logs/clicks/dt={DAY}/part-0.txt"


@dataclass(frozen=True)
class Store:
    """A folder of HDFS that holds the logs of a project."""

    project: LogProject
    path: str

    def by(self, variable: str, name: str = "") -> LogProject:
        """The project with its logs read by a protocol, in places of its own if it has a name."""
        uri = f"{os.environ[variable]}{self.path}"
        project = self.project.elsewhere(name) if name else self.project
        return LogProject(project.path, replace(project.env, logs={"hdfs_default": uri}))

    def file(self, path: str = PLAIN) -> Location:
        return Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}{self.path}{path}")

    def web(self, method: str, operation: str, path: str = "", **parameters: str) -> None:
        """Ask the NameNode for what no file system of ours offers."""
        uri = urlsplit(os.environ["TEST_WEBHDFS_URI"])
        answer = requests.request(
            method,
            f"http://{uri.hostname}:{uri.port}/webhdfs/v1{self.path}{path}",
            params={"op": operation, "user.name": "hdfs", **parameters},
            timeout=10,
        )
        answer.raise_for_status()

    def rewrite(self, data: bytes, path: str = PLAIN) -> None:
        self.file(path).delete()
        put(self.file(path), data)


def put(location: Location, data: bytes) -> None:
    with location.open_write() as file:
        file.write(data)


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(make_log_project(tmp_path), f"/trainfeed-test-{uuid.uuid4()}")
    folder = made.file(f"/logs/clicks/dt={DAY}")
    for file in sorted(made.project.logs.iterdir(), key=lambda file: file.name == "_SUCCESS"):
        put(folder / file.name, file.read_bytes())
    yield made
    made.file("").delete(recursive=True)


def planned(project: LogProject) -> Build:
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


def open_for_writing(path: str) -> subprocess.Popen[bytes]:
    """A process that has written to a file and has not closed it."""
    code = """
import sys
import hdfs_native
client = hdfs_native.Client(sys.argv[1])
options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)
writer = client.create(sys.argv[2], options)
writer.write(b'{"value": 1}\\n' * 100)
writer.hsync()
print("written", flush=True)
sys.stdin.read()
writer.close()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, os.environ["TEST_HDFS_URI"], path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"written\n"
    return process


def test_both_protocols_and_a_local_folder_give_the_same_bytes(store: Store) -> None:
    store.project.build()
    local = store.project.version().manifest
    for variable in PROTOCOLS:
        project = store.by(variable, variable)
        assert project.build()["source_reads"] == 220
        manifest = project.version().manifest
        assert manifest.content_digest == local.content_digest
        assert manifest.ledger == local.ledger


def test_what_was_built_by_one_protocol_is_found_by_the_other(store: Store) -> None:
    for variable, other in (PROTOCOLS, reversed(PROTOCOLS)):
        project = store.by(variable, f"from_{variable}")
        project.build()
        uri = f"{os.environ[other]}{store.path}"
        again = LogProject(project.path, replace(project.env, logs={"hdfs_default": uri}))
        assert again.build()["verdict"] == "identical"


def test_the_same_bytes_uploaded_again_give_the_same_set_by_either_protocol(store: Store) -> None:
    web, native = (store.by(variable, variable) for variable in PROTOCOLS)
    for project in (web, native):
        project.build()
    store.rewrite(store.file().read_bytes())
    assert web.build()["verdict"] == "identical"
    # Without checksums nobody can tell.
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: modification time"):
        native.build()
    assert native.build(rebuild="uploaded again")["generation"] == "g0002"
    digests = {project.version().manifest.content_digest for project in (web, native)}
    assert len(digests) == 1


def test_webhdfs_tells_file_id_and_checksum(store: Store) -> None:
    project = store.by("TEST_WEBHDFS_URI")
    project.build()
    inputs = project.version().manifest.inputs[f"logs:dt={DAY}/part-0.txt"]
    assert inputs["file_id"] > 16384
    assert inputs["checksum"].startswith("MD5-of-0MD5-of-512CRC32C:")


@pytest.mark.parametrize("variable", PROTOCOLS)
@pytest.mark.parametrize("land", ["false", "true"])
def test_logs_rewritten_between_plan_and_read_are_named(
    store: Store, variable: str, land: str
) -> None:
    """Case HD-05."""
    project = store.by(variable)
    project.edit("split_bytes: 64MiB", f"land: {land}")
    where = planned(project)
    data = store.file().read_bytes()
    store.rewrite(data.replace(b'"value": 7', b'"value": 9', 1))
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: .*modification time") as caught:
        ingest(where, 0)
    assert caught.value.outcome is Outcome.FAIL
    assert project.build()["verdict"] == "built"


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_logs_rewritten_between_ingest_and_preprocess_are_named(
    store: Store, variable: str
) -> None:
    where = planned(project := store.by(variable))
    ingest(where, 0)
    store.rewrite(store.file().read_bytes() + b"\n{}")
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: .*length \d+ → \d+"):
        preprocess(where, 0)
    assert not project.folder.interval(DAY).exists()


def test_a_file_with_the_time_and_length_of_another_is_told_by_webhdfs(store: Store) -> None:
    where = planned(store.by("TEST_WEBHDFS_URI"))
    modified = store.file().stat().modified_ms
    store.rewrite(store.file().read_bytes())
    store.web("PUT", "SETTIMES", PLAIN, modificationtime=str(modified))
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: file id \d+ → \d+"):
        ingest(where, 0)


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_a_folder_without_its_marker_is_waited_for(store: Store, variable: str) -> None:
    project = store.by(variable)
    store.file(f"/logs/clicks/dt={DAY}/_SUCCESS").delete()
    with pytest.raises(WindowOpenError, match="it has no _SUCCESS") as caught:
        project.build()
    assert caught.value.outcome is Outcome.RETRY
    put(store.file(f"/logs/clicks/dt={DAY}/_SUCCESS"), b"")
    assert project.build()["verdict"] == "built"


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_a_missing_folder_is_waited_for(store: Store, variable: str) -> None:
    store.file(f"/logs/clicks/dt={DAY}").delete(recursive=True)
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        store.by(variable).build()


@pytest.mark.parametrize("variable", PROTOCOLS)
@pytest.mark.parametrize("rule", ["done: _SUCCESS", "stable: 1s"])
def test_a_file_that_is_still_written_is_waited_for(store: Store, variable: str, rule: str) -> None:
    """Case HD-04: also when its length and time do not move."""
    project = store.by(variable)
    if rule.startswith("stable"):
        # The native client cannot tell whether a writer has an empty file open.
        store.file(f"/logs/clicks/dt={DAY}/part-3.txt").delete()
    path = f"/logs/clicks/dt={DAY}/part-9.txt"
    with open_for_writing(f"{store.path}{path}") as writer:
        project.edit("split_bytes: 64MiB", rule)
        store.web("PUT", "SETTIMES", path, modificationtime="1000000000000")
        age_folder(store)
        with pytest.raises(WindowOpenError, match=r"part-9\.txt is not closed"):
            project.build()
        writer.communicate(b"")
    age_folder(store)
    project.build()
    ledger = project.version().manifest.ledger[f"logs:dt={DAY}/part-9.txt"]
    assert ledger["read"]["records"] == 100


def test_a_folder_of_closed_files_is_asked_about_once_over_native_rpc(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = store.by("TEST_HDFS_URI")
    for number in range(40):
        put(store.file(f"/logs/clicks/dt={DAY}/more-{number}"), b'{"value": 1}\n')
    call, asked = _hdfs._call, list[str]()

    def counted(function: Any, *arguments: Any) -> Any:
        asked.append(function.__name__)
        return call(function, *arguments)

    monkeypatch.setattr(_hdfs, "_call", counted)
    assert len(find_interval_logs(project.spec, project.env, project.interval()).files) == 44
    # One of them is empty, so that a request for it alone has to tell.
    assert asked.count("get_content_summary") == 2
    assert len(asked) < 12
    path = f"/logs/clicks/dt={DAY}/part-9.txt"
    with open_for_writing(f"{store.path}{path}") as writer:
        with pytest.raises(WindowOpenError, match=r"part-9\.txt is not closed"):
            find_interval_logs(project.spec, project.env, project.interval())
        writer.communicate(b"")
    assert len(find_interval_logs(project.spec, project.env, project.interval()).files) == 45


def age_folder(store: Store) -> None:
    folder = f"/logs/clicks/dt={DAY}"
    names = [info.name for info in store.file(folder).list()]
    for path in [folder, *(f"{folder}/{name}" for name in names)]:
        store.web("PUT", "SETTIMES", path, modificationtime="1000000000000")


def test_an_empty_file_is_settled_by_a_marker_but_not_by_time_over_native_rpc(
    store: Store,
) -> None:
    project = store.by("TEST_HDFS_URI")
    project.edit("split_bytes: 64MiB", "stable: 1s")
    age_folder(store)
    with pytest.raises(WindowOpenError, match=r"does not show whether .*part-3\.txt.*webhdfs://"):
        project.build()
    assert store.by("TEST_WEBHDFS_URI", "web").build()["verdict"] == "built"


def test_logs_of_somebody_else_are_told_with_the_account(store: Store) -> None:
    """Case HD-16."""
    store.web("PUT", "SETPERMISSION", PLAIN, permission="600")
    store.web("PUT", "SETPERMISSION", permission="755")
    for path in ("/logs", "/logs/clicks", f"/logs/clicks/dt={DAY}"):
        store.web("PUT", "SETPERMISSION", path, permission="755")
    uri = f"{os.environ['TEST_WEBHDFS_URI']}{store.path}".replace("//hdfs@", "//mallory@")
    env = replace(store.project.env, logs={"hdfs_default": uri})
    project = LogProject(store.project.path, env)
    with pytest.raises(AccessDeniedError, match="mallory") as caught:
        project.build()
    assert caught.value.outcome is Outcome.FAIL
    assert not project.folder.interval(DAY).exists()
    store.web("PUT", "SETPERMISSION", PLAIN, permission="644")
    for name in ("part-1.txt.gz", "part-2.txt.zst", "part-3.txt"):
        store.web("PUT", "SETPERMISSION", f"/logs/clicks/dt={DAY}/{name}", permission="644")
    assert project.build()["verdict"] == "built"


@pytest.fixture
def snapshots(store: Store) -> Iterator[Store]:
    """A store whose files a snapshot may hold; it goes before the store does."""
    store.web("PUT", "ALLOWSNAPSHOT")
    yield store
    store.web("DELETE", "DELETESNAPSHOT", snapshotname="nightly")
    store.web("PUT", "DISALLOWSNAPSHOT")


@pytest.mark.parametrize("variable", PROTOCOLS)
@pytest.mark.parametrize("rule", ["done: _SUCCESS", "stable: 1s"])
def test_a_file_of_a_snapshot_with_more_replicas_is_closed(
    snapshots: Store, variable: str, rule: str
) -> None:
    # Of an empty file, hdfs:// cannot tell whether it is closed.
    snapshots.file(f"/logs/clicks/dt={DAY}/part-3.txt").delete()
    snapshots.web("PUT", "SETREPLICATION", PLAIN, replication="3")
    snapshots.web("PUT", "CREATESNAPSHOT", snapshotname="nightly")
    snapshots.web("PUT", "SETREPLICATION", PLAIN, replication="2")
    project = built_by(snapshots, variable, rule)
    assert project.build()["source_reads"] == 220


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_a_file_that_was_truncated_since_a_snapshot_is_not_open_for_ever(
    snapshots: Store, variable: str
) -> None:
    snapshots.web("PUT", "CREATESNAPSHOT", snapshotname="nightly")
    data = snapshots.file().open_read().read()
    snapshots.web("POST", "TRUNCATE", PLAIN, newlength=str(data.index(b"\n") + 1))
    wait_until_closed(snapshots.file())
    project = built_by(snapshots, variable, "done: _SUCCESS")
    assert project.build()["source_reads"] == 121


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_a_file_of_a_snapshot_that_is_written_again_is_waited_for(
    snapshots: Store, variable: str
) -> None:
    snapshots.web("PUT", "CREATESNAPSHOT", snapshotname="nightly")
    path = f"{snapshots.path}/logs/clicks/dt={DAY}/part-9.txt"
    project = built_by(snapshots, variable, "done: _SUCCESS")
    process = open_for_writing(path)
    try:
        with pytest.raises(WindowOpenError, match=r"part-9\.txt is not closed"):
            planned(project)
    finally:
        process.communicate(timeout=60)
    assert planned(project)


def built_by(store: Store, variable: str, rule: str) -> LogProject:
    store.project.edit(" wait:", f" {rule}, wait:")
    time.sleep(1.5)  # a folder that is stable for a second
    return store.by(variable, "by")


def wait_until_closed(location: Location) -> None:
    deadline = time.monotonic() + 60
    while location.is_open():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_the_rules_for_names_are_those_of_a_local_folder(store: Store, variable: str) -> None:
    names = ("part-9.txt.inprogress.7", "READY", "part-0.txt.md5", "part-0.txt~", ".x")
    for name in names:
        (store.project.logs / name).write_bytes(b"{}\n")
        put(store.file(f"/logs/clicks/dt={DAY}/{name}"), b"{}\n")
    store.project.build()
    project = store.by(variable, "names")
    project.build()
    found = project.version().manifest.passed_over
    assert found == store.project.version().manifest.passed_over
    assert found.keys() == {*names, "_SUCCESS"}
    put(store.file(f"/logs/clicks/dt={DAY}/part-0.txt.gz"), b"{}\n")
    with pytest.raises(FormatError, match="count twice"):
        planned(store.by(variable, "twins"))


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_names_are_what_they_are(store: Store, variable: str) -> None:
    """Case HD-09."""
    folder = Location.parse(f"{os.environ[variable]}{store.path}/names")
    names = ["a b.txt", "a%2Fb.txt", "a+b#c?d.txt", "é🙂.txt", "x" * 255]
    for number, name in enumerate(names):
        put(store.file("/names") / name, b"line\n" * number)
    put(store.file("/names/_SUCCESS"), b"")
    files = find_logs(FolderTree(folder), CompleteRule("_SUCCESS", None), datetime.now(UTC)).files
    assert {file.info.name: file.info.size_bytes for file in files} == {
        name: 5 * number for number, name in enumerate(names)
    }
    for file in files:
        size = file.info.size_bytes
        span = LineRange(folder / file.info.name, "none", size, 0, size, 0, 1 << 20)
        assert sum(map(len, iter_lines(span))) == size // 5


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_pieces_of_a_file_on_hdfs_are_its_lines(store: Store, variable: str) -> None:
    project = store.by(variable)
    project.edit("split_bytes: 64MiB", "split_bytes: 333B")
    project.build()
    local = store.project.elsewhere("local")
    local.build()
    assert project.version().manifest.content_digest == local.version().manifest.content_digest


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_folders_by_the_hour_and_by_region_are_one_interval(store: Store, variable: str) -> None:
    store.file(f"/logs/clicks/dt={DAY}").delete(recursive=True)
    names = [f"{hour:02}/region={region}" for hour in range(24) for region in ("eu", "us")]
    for name in names:
        put(store.file(f"/logs/clicks/dt={DAY}/{name}/part-0"), b'{"value": 1}\n')
    for hour in range(24):
        put(store.file(f"/logs/clicks/dt={DAY}/{hour:02}/_SUCCESS"), b"")
    project = store.by(variable)
    project.edit("dt={start:%Y-%m-%d}", "dt={start:%Y-%m-%d}/{hour:%H}/region=*")
    project.build()
    sources = [f"logs:dt={DAY}/{name}/part-0" for name in names]
    assert project.version().manifest.sources == sources
    store.file(f"/logs/clicks/dt={DAY}/17/_SUCCESS").delete()
    with pytest.raises(WindowOpenError, match=r"1 of its 24 folders .*17: it has no _SUCCESS"):
        planned(store.by(variable, "again"))


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_parquet_files_are_read_by_both_protocols(
    store: Store, variable: str, tmp_path: Path
) -> None:
    store.file(f"/logs/clicks/dt={DAY}").delete(recursive=True)
    local = tmp_path / "rows"
    for number in range(3):
        rows = pa.table({"value": [float(number), None, 2.5], "note": ["x" * 1000] * 3})
        local.mkdir(exist_ok=True)
        pq.write_table(rows, local / f"part-{number}.parquet", row_group_size=2)
        data = (local / f"part-{number}.parquet").read_bytes()
        put(store.file(f"/logs/clicks/dt={DAY}/part-{number}.parquet"), data)
    put(store.file(f"/logs/clicks/dt={DAY}/_SUCCESS"), b"")
    project = store.by(variable)
    project.edit("split_bytes: 64MiB", "split_bytes: 64B, format: parquet, columns: [value]")
    code = """
from trainfeed.preprocessing import Filtered


def clicks(record, lookups):
    value = record.fields["value"]
    return Filtered("none") if value is None else {"value": value, "label": record.offset}
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    report = project.build()
    assert (report["samples"], report["filtered"], report["quarantined"]) == (6, 3, 0)
    cut = data[:-9]
    store.rewrite(cut, f"/logs/clicks/dt={DAY}/part-2.parquet")
    with pytest.raises(FormatError, match=r"part-2\.parquet"):
        store.by(variable, "again").build()


@pytest.mark.parametrize("land", ["false", "true"])
def test_a_build_that_is_killed_and_tried_again_has_equal_bytes(store: Store, land: str) -> None:
    project = store.by("TEST_WEBHDFS_URI")
    project.edit("split_bytes: 64MiB", f"land: {land}")
    point = "preprocess.after_range" if land == "false" else "ingest.after_rename"
    killed = subprocess.run(
        [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", DAY],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "include"),
            "TRAINFEED_ROOT": project.env.root,
            "TRAINFEED_LANDING": project.env.landing,
            "TRAINFEED_WORK": project.env.work,
            "TRAINFEED_LOGS": project.env.logs["hdfs_default"],
            "TRAINFEED_DATASETS": str(project.env.datasets),
            "TRAINFEED_FAULTS": f"{point}:kill",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert killed.returncode != 0, killed.stdout
    assert not project.folder.interval(DAY).exists()
    project.build()
    undisturbed = store.by("TEST_WEBHDFS_URI", "undisturbed")
    undisturbed.build()
    manifests = [p.version().manifest.to_bytes() for p in (project, undisturbed)]
    assert json.loads(manifests[0]) == json.loads(manifests[1])
