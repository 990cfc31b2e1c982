"""Spark and the local engine publish the same bytes."""

from __future__ import annotations

import os

import pytest

from tests.integration.spark.conftest import LOCAL, Case
from tests.unit.pipeline.inputs.row_project import make_row_project
from tests.unit.pipeline.log_project import DAY


def test_an_application_publishes_what_the_local_engine_does(clicks, tmp_path):
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.in_groups(3).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    report = there.build()
    assert there.digest == here.digest
    assert list(report.seconds) == ["plan", "ingest", "spark", "check", "publish"]
    assert not list((tmp_path / "there" / "work" / "spill").glob("*/spark-*"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [1, 2, 7])
def test_engine_and_number_of_groups_do_not_change_the_manifest(real, tmp_path, number):
    case = real.in_groups(number)
    digests = {}
    for name, engine, master in (
        ("local", "local", LOCAL),
        ("spark local[2]", "spark", LOCAL),
        ("spark standalone", "spark", os.environ["TEST_SPARK_MASTER"]),
    ):
        built = case.at(tmp_path / name.replace(" ", "-"), engine, master)
        built.build()
        digests[name] = built.digest
    whole = real.at(tmp_path / "whole", "local")
    whole.build()
    assert digests == dict.fromkeys(digests, whole.digest)


@pytest.mark.nightly
@pytest.mark.parametrize("file_format", ["parquet", "recordio"])
def test_rows_of_files_are_the_same(tmp_path, file_format):
    project = make_row_project(tmp_path / "files", file_format, group_rows=9)
    project.edit("64MiB", "300B")
    case = Case(project.spec, DAY, project.env, 140 * 16).in_groups(3)
    here, there = (case.at(tmp_path / name, name) for name in ("local", "spark"))
    here.build()
    there.build()
    assert there.digest == here.digest


@pytest.mark.nightly
def test_tfrecord_files_are_the_same(project, clicks, tmp_path):
    project.edit("codec: zstd", "format: tfrecord")
    case = clicks.read_again().in_groups(2)
    here, there = (case.at(tmp_path / name, name) for name in ("local", "spark"))
    here.build()
    there.build()
    assert there.digest == here.digest


@pytest.mark.nightly
def test_shards_without_samples_are_written_too(project, clicks, tmp_path):
    project.edit("samples_per_shard: 50", "shards: 90")
    case = clicks.read_again()
    here, there = (case.at(tmp_path / name, name) for name in ("local", "spark"))
    here.build()
    there.build()
    assert there.digest == here.digest
