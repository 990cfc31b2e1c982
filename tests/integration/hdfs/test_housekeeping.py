"""Leftovers of builds on a real HDFS, over both protocols: the NameNode's clock gives their age."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.pipeline.leftovers import sweep
from trainfeed.versions import init_root

PLAN = "0123456789abcdef-g0001"


@pytest.fixture(params=["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    folder = Location.parse(os.environ[request.param]) / "trainfeed-test" / str(uuid.uuid4())
    yield folder
    folder.delete(recursive=True)
    _hdfs._connect.cache_clear()


def put(place: Location) -> Location:
    place.write_atomic(lambda file: file.write(b"12345"))
    return place


def test_work_and_unfinished_landing_files_are_removed(folder: Location, tmp_path: Path) -> None:
    init_root(tmp_path)
    env = Environment(
        root=str(tmp_path),
        landing=(folder / "landing").uri,
        work=(folder / "work").uri,
        kafka={},
        datasets=tmp_path,
    )
    assert sweep(env) == []
    partition = folder / "landing/clicks/11111111-1111-4111-8111-111111111111/p=0"
    landed = put(partition / "00000000000000000000-00000000000000000005.arrow")
    torn = put(partition / f".{landed.name}.{uuid.uuid4().hex}.tmp")
    spilled = put(folder / "work" / "spill" / PLAN / "00000.arrow")
    trashed = put(folder / "work" / "_trash" / uuid.uuid4().hex / "00000.arrow")
    assert sweep(env) == []
    removed = sweep(env, older_than=timedelta(0))
    assert [(each.place, each.bytes) for each in removed] == [
        (place.uri, 5) for place in (spilled.parent, trashed.parent, torn)
    ]
    assert landed.exists()
    for place in (torn, spilled.parent, trashed.parent):
        assert not place.exists()
    assert (folder / "work" / "_trash").list() == []
