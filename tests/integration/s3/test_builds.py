"""Builds with landing and work files in a bucket: the same version, and no file stays."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.s3.bucket_projects import make_bucket_root
from tests.unit.files.stores.file_system_behaviour import names, put
from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.log_project import DAY, make_log_project
from tests.unit.processes import LIMIT_S
from tests.unit.upkeep.retention.landing.landings import prune
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import (
    ConfigError,
    NotFoundError,
    SourceReplacedError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores.folder_transfer import download, upload
from trainfeed.pipeline import Build
from trainfeed.pipeline.leftovers import sweep
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.versions import Version


def digests(project, number):
    version = Version.open(project.folder.version(DAY, number))
    version.verify()
    return version.manifest.content_digest, version.manifest.file_digests()


@pytest.fixture
def projects(tmp_path, folder):
    """The same project with local files, and with landing and work files in a bucket."""
    local = make_project(tmp_path / "local")
    remote = make_project(tmp_path / "remote")
    env = replace(remote.env, landing=(folder / "landing").uri, work=(folder / "work").uri)
    return local, replace(remote, env=env)


def test_a_build_over_a_bucket_has_the_bytes_of_a_local_one(projects, folder):
    for project in projects:
        assert project.build()["verdict"] == "built"
    local, remote = (digests(project, 1) for project in projects)
    assert local == remote
    landed = [info.name for info in (folder / "landing").list()]
    assert landed
    assert not (folder / "work/spill").exists() or (folder / "work/spill").list() == []


def test_a_second_build_adopts_what_was_landed(projects):
    _, remote = projects
    remote.build()
    report = remote.build(rebuild="to see")
    assert report["generation"] == "g0002"
    assert digests(remote, 1)[0] == digests(remote, 2)[0]


def test_what_a_killed_build_left_in_a_bucket_is_swept(projects, folder):
    _, remote = projects
    remote.build()
    left = folder / "work/spill/0123456789abcdef-g0001"
    (left / "part").create_exclusive(b"left")
    swept = sweep(remote.env, older_than=timedelta(seconds=-60))
    assert left.uri in [each.place for each in swept]
    assert not left.exists()


@pytest.mark.parametrize(
    "point",
    [
        "ingest.after_rename",
        "preprocess.after_range",
        "convert.after_shard",
        "publish.after_rename",
    ],
)
def test_a_build_that_is_killed_and_tried_again_has_equal_bytes(projects, tmp_path, point):
    local, remote = projects
    (fired := tmp_path / "fired").mkdir()
    command = [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", DAY]
    environ = {
        **os.environ,
        "TRAINFEED_ROOT": remote.env.root,
        "TRAINFEED_LANDING": remote.env.landing,
        "TRAINFEED_WORK": remote.env.work,
        "TRAINFEED_KAFKA": f"recorded:{remote.env.kafka['kafka_default'].recorded}",
        "TRAINFEED_DATASETS": str(remote.env.datasets),
    }
    fault = {"TRAINFEED_FAULTS": f"{point}:kill:{fired}"}
    for found in (fault, {}):
        done = subprocess.run(
            command, env={**environ, **found}, capture_output=True, timeout=LIMIT_S, check=False
        )
        for secret in (os.environ["TEST_S3_SECRET_KEY"], os.environ["TEST_S3_ACCESS_KEY"]):
            assert secret.encode() not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    local.build()
    assert digests(local, 1) == digests(remote, 1)
    found = b"".join(path.read_bytes() for path in Path(remote.env.root).rglob("*.json"))
    assert os.environ["TEST_S3_SECRET_KEY"].encode() not in found


def test_logs_in_a_bucket_give_the_bytes_of_a_local_folder(tmp_path, folder):
    local = make_log_project(tmp_path)
    logs = folder / "logs/clicks" / f"dt={DAY}"
    for file in sorted(local.logs.iterdir()):
        put(logs / file.name, file.read_bytes())
    elsewhere = local.elsewhere("elsewhere")
    remote = replace(elsewhere, env=replace(elsewhere.env, logs={"hdfs_default": folder.uri}))
    assert local.build()["source_reads"] == remote.build()["source_reads"] == 220
    manifests = [project.version().manifest for project in (local, remote)]
    assert manifests[0].content_digest == manifests[1].content_digest
    assert manifests[0].ledger == manifests[1].ledger


def test_a_log_file_that_was_written_again_stops_a_build(tmp_path, folder):
    local = make_log_project(tmp_path)
    logs = folder / "logs/clicks" / f"dt={DAY}"
    for file in sorted(local.logs.iterdir()):
        put(logs / file.name, file.read_bytes())
    remote = replace(local, env=replace(local.env, logs={"hdfs_default": folder.uri}))
    report = plan(remote.spec, remote.interval(), remote.env)
    data = (logs / "part-0.txt").read_bytes()
    (logs / "part-0.txt").write_atomic(lambda file: file.write(data.replace(b"1", b"2", 1)))
    build = Build(remote.spec, remote.env, report.ref)
    with pytest.raises(SourceReplacedError):
        preprocess(build, 0)


def test_a_model_comes_from_a_bucket_and_does_not_go_there(tmp_path, folder):
    for name in ("weights", "vocabulary/words"):
        put(folder / "model" / name, name.encode() * 1000)
    download(folder / "model", tmp_path / "model")
    assert (tmp_path / "model/vocabulary/words").read_bytes() == b"vocabulary/words" * 1000
    with pytest.raises(UnsuitableStoreError, match="a transfer of a folder renames files"):
        upload(tmp_path / "model", folder / "other")
    assert names(folder) == ["model"]


def landed(place):
    """The files below a folder of a bucket."""
    try:
        entries = place.list()
    except NotFoundError:
        return []
    inner = [landed(place / each.name) if each.is_dir else [place / each.name] for each in entries]
    return [each for found in inner for each in found]


@pytest.mark.parametrize("killed", [False, True])
def test_retention_deletes_landing_files_where_they_are(projects, folder, monkeypatch, killed):
    _, remote = projects
    remote.edit("seed: 7", "seed: 7\nretention: {landing: {keep_days: 30}}")
    for name in (DAY, "2024-03-02"):
        remote.build(name)
    before, later = landed(folder / "landing"), datetime.now(UTC) + timedelta(days=40)
    assert len(before) == 6
    if killed:
        delete = type(folder.fs).delete
        monkeypatch.setattr(type(folder.fs), "delete", _second_fails(delete))
        with pytest.raises(StorageError):
            prune(remote, later)
        monkeypatch.setattr(type(folder.fs), "delete", delete)
        assert 0 < len(landed(folder / "landing")) < len(before)
    prune(remote, later)
    assert landed(folder / "landing") == []
    for name in (DAY, "2024-03-02"):
        Version.open(remote.folder.version(name, 1)).verify()


def _second_fails(delete):
    calls = []

    def fails(fs, path, *, recursive=False):
        calls.append(path)
        if len(calls) > 1:
            raise StorageError("killed")
        delete(fs, path, recursive=recursive)

    return fails


def test_a_build_into_a_bucket_needs_a_folder_for_its_plans(projects, folder, monkeypatch):
    _, remote = projects
    make_bucket_root(folder / "root")
    monkeypatch.setenv("TRAINFEED_ROOT", (folder / "root").uri)
    monkeypatch.setenv("TRAINFEED_CACHE", str(remote.path / "cache"))
    env = environment_from_environ()
    assert env.is_root_private
    with pytest.raises(ConfigError, match="expected TRAINFEED_STATE beside TRAINFEED_ROOT"):
        plan(remote.spec, remote.interval(), env)
