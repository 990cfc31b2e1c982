"""Samples on their way through the shuffle, without Spark: they become the local shards."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.pipeline.spark.conftest import mapped, pieces_of, written
from trainfeed.errors import EngineError, FormatError
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.spark.shuffle import decoded_pieces


@pytest.mark.parametrize("records", [20, 1000])
def test_check_and_publish_find_what_the_local_engine_makes(project, landed, tmp_path, records):
    project.build()
    build, stage = landed("there", records)
    assert len(stage.plan.preprocess) == (1 if records == 1000 else 11)
    written(stage, mapped(stage, tmp_path / "scratch"), tmp_path / "scratch")
    check(build)
    published = publish(build)
    digest = (project.version().path / "MANIFEST.sha256").read_text().strip()
    assert published.summary.manifest_sha256 == digest


def test_samples_that_take_more_than_the_memory_are_the_same(project, landed, tmp_path):
    project.build()
    build, stage = landed("there", 20)
    rows = mapped(stage, tmp_path / "scratch")
    written(stage, rows, tmp_path, limit_bytes=4 << 10)
    check(build)
    digest = (project.version().path / "MANIFEST.sha256").read_text().strip()
    assert publish(build).summary.manifest_sha256 == digest


def test_samples_of_another_shard_are_refused(landed, tmp_path):
    _, stage = landed("there")
    mine = pieces_of(mapped(stage, tmp_path / "scratch"), 0)
    with pytest.raises(EngineError, match=r"expected the rows of shard 1 .*, got one of"):
        list(decoded_pieces(1, iter(mine)))


@pytest.mark.parametrize("at", [0, 500, -1])
def test_samples_that_are_damaged_on_the_way_are_refused(landed, tmp_path, at):
    _, stage = landed("there")
    batch = pieces_of(mapped(stage, tmp_path / "scratch"), 0)[0]
    (row,) = batch.to_pylist()
    data = bytearray(row["samples"])
    data[at] ^= 1
    batch = pa.RecordBatch.from_pylist([{**row, "samples": bytes(data)}], schema=batch.schema)
    with pytest.raises(EngineError, match="expected the samples of shard 0 as they were sent"):
        list(decoded_pieces(0, iter([batch])))


def test_the_local_engine_makes_no_empty_shards_of_accounts_alone(landed, tmp_path):
    build, stage = landed("there", 1000)
    mapped(stage, tmp_path / "scratch")
    with pytest.raises(FormatError, match=r"got its account alone.*clear the run from preprocess"):
        convert(build, 0)
    preprocess(build, 0)
    assert convert(build, 0).samples > 0


def test_the_engine_is_no_part_of_the_fingerprint(project):
    project.build()
    project.edit("input: record}", "input: record, engine: spark}")
    assert project.build()["verdict"] == "identical"
