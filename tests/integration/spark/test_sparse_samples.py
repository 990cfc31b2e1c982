"""The data set ctr: lines of libFM, joined, as sparse samples in TFRecord files."""

from __future__ import annotations

import os
import uuid

import pytest

from tests.integration.spark.conftest import ctr
from tests.unit.ctr.conftest import data
from trainfeed.storage import Location

__all__ = ["data"]


def test_an_application_joins_and_writes_what_the_local_engine_does(data, tmp_path):
    case = ctr(tmp_path, data, tmp_path, 1, positions=670)
    here = case.at(tmp_path / "here", "local")
    here.build()
    there = case.in_groups(2).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    there.build()
    assert there.digest == here.digest


@pytest.mark.nightly
@pytest.mark.skipif("TEST_WEBHDFS_URI" not in os.environ, reason="needs spark and hdfs")
def test_logs_landing_and_work_lie_on_hdfs(data, tmp_path):
    place = Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}/trainfeed-test/{uuid.uuid4()}")
    case = ctr(tmp_path, data, place.uri, 3, positions=670)
    here = case.at(tmp_path / "here", "local")
    here.build()
    there = case.in_groups(7).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    there = there.on(f"{place.uri}/landing", f"{place.uri}/work")
    there.build()
    assert there.digest == here.digest
