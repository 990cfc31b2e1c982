"""Logs while the NameNode is in safe mode: reading goes on, landing is refused and tried again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.hdfs import Hdfs
from tests.unit.pipeline.log_project import DAY, LogProject, make_log_project
from trainfeed.errors import Outcome, StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.pipeline import run_stage as _stage


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.mark.parametrize("protocol", ["TEST_WEBHDFS_URI", "TEST_HDFS_URI"])
def test_logs_are_read_in_safe_mode_and_land_after_it(
    own_cluster: Hdfs, tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case HD-03."""
    monkeypatch.setattr(_stage, "PATIENCE", replace(_stage.PATIENCE, calls=1))
    local = make_log_project(tmp_path)
    store = Location.parse(f"{own_cluster.exports()[protocol]}/{uuid.uuid4()}")
    for file in sorted(local.logs.iterdir(), key=lambda file: file.name == "_SUCCESS"):
        with (store / f"logs/clicks/dt={DAY}" / file.name).open_write() as target:
            target.write(file.read_bytes())
    logs = {"hdfs_default": store.uri}
    project = LogProject(tmp_path, replace(local.env, logs=logs, landing=f"{store.uri}/landing"))
    own_cluster.admin("-safemode", "enter")
    try:
        read = LogProject(tmp_path, replace(local.elsewhere("read").env, logs=logs))
        assert read.build()["verdict"] == "built"
        project.edit("split_bytes: 64MiB", "land: true")
        with pytest.raises(StorageError, match=r"(?i)safe mode") as caught:
            project.build()
        assert caught.value.outcome is Outcome.RETRY
        assert not project.folder.interval(DAY).exists()
    finally:
        own_cluster.admin("-safemode", "leave")
    assert project.build()["verdict"] == "built"
    assert project.version().manifest.ledger == read.version().manifest.ledger
