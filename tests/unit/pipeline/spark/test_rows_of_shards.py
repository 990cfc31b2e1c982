"""Rows on their way through the shuffle, without Spark: sorted by it, they are the local shards."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.pipeline.spark.conftest import ORDER, mapped, written
from trainfeed.errors import EngineError, FormatError
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.spark._shard_rows import blocks_of


@pytest.mark.parametrize("records", [20, 1000])
def test_check_and_publish_find_what_the_local_engine_makes(project, landed, tmp_path, records):
    project.build()
    build, stage = landed("there", records)
    assert len(stage.plan.preprocess) == (1 if records == 1000 else 11)
    written(stage, mapped(stage, tmp_path / "scratch"))
    check(build)
    published = publish(build)
    digest = (project.version().path / "MANIFEST.sha256").read_text().strip()
    assert published.summary.manifest_sha256 == digest


@pytest.mark.parametrize("fault", ["other shard", "order"])
def test_rows_that_a_shuffle_has_mixed_up_are_refused(landed, tmp_path, fault):
    _, stage = landed("there")
    rows = mapped(stage, tmp_path / "scratch")
    table = pa.Table.from_batches(rows).sort_by(ORDER)
    mine = table.filter(pa.compute.equal(table["shard"], 0))
    number = 1 if fault == "other shard" else 0
    if fault == "order":
        mine = mine.sort_by([("key", "descending")])
    with pytest.raises(EngineError, match=f"expected the sorted rows of shard {number}"):
        list(blocks_of(stage, number, iter(mine.to_batches())))


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
