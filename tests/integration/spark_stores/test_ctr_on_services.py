"""The data set ctr on a Spark cluster: logs, landing and work on HDFS, the root on CephFS."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

from tests.integration.spark.conftest import ROOT, ctr
from trainfeed.files.stores import Location
from trainfeed.versions import DatasetFolder, Version

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
COPIES = 3


@pytest.fixture
def name():
    return f"trainfeed-test-{uuid.uuid4()}"


@pytest.fixture
def hdfs(name):
    place = Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}/{name}")
    yield place.uri
    place.delete(recursive=True)


@pytest.fixture
def ceph(name):
    place = Path(os.environ["TEST_CEPHFS_PATH"]) / name
    place.mkdir()
    yield place
    shutil.rmtree(place)


def test_a_cluster_publishes_on_cephfs_what_lies_on_hdfs(hdfs, ceph, tmp_path):
    case = ctr(tmp_path, ROOT / "data" / "obp", hdfs, COPIES)
    here = case.at(tmp_path / "here", "local")
    here.build()
    there = case.in_groups(7).at(ceph, "spark", os.environ["TEST_SPARK_MASTER"])
    there = there.on(f"{hdfs}/landing", f"{hdfs}/work")
    report = there.build()
    assert there.version.is_relative_to(ceph)
    assert there.digest == here.digest
    assert report.verdict == "built"
    version = Version.resolve(DatasetFolder(ceph / "root", "ctr"), there.interval)
    version.verify()
    (day,) = json.loads((tmp_path / "ledger.json").read_text()).values()
    assert sum(version.num_samples(split) for split in ("train", "eval")) == day["samples"]
