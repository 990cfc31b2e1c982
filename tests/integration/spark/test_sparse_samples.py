"""The data set ctr: lines of libFM, joined, as sparse samples in TFRecord files."""

from __future__ import annotations

import os

from tests.integration.spark.conftest import ctr
from tests.unit.ctr.conftest import data

__all__ = ["data"]


def test_an_application_joins_and_writes_what_the_local_engine_does(data, tmp_path):
    case = ctr(tmp_path, data, tmp_path, 1, positions=670)
    here = case.at(tmp_path / "here", "local")
    here.build()
    there = case.in_groups(2).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    there.build()
    assert there.digest == here.digest
