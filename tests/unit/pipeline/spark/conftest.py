"""Builds whose groups have landed, and the way of their samples to shards, without Spark."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.convert import write_shard
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.sorting.merge import PieceSorter
from trainfeed.pipeline.spark.executor_tasks import pieces_of_group
from trainfeed.pipeline.spark.shuffle import decoded_pieces
from trainfeed.pipeline.stage import Stage


@pytest.fixture
def landed(project):
    """Return a plan that has landed, in some groups, and its stage."""

    def land(name, records=70):
        place = project.elsewhere(name)
        resources = place.spec.resources.model_copy(update={"records_per_task": records})
        spec = place.spec.model_copy(update={"resources": resources})
        planned = plan(spec, project.interval(), place.env)
        build = Build(spec, place.env, planned.ref)
        for unit in range(planned.tasks["ingest"]):
            ingest(build, unit)
        stage = Stage.open(build)
        stage.spill.make_dir()
        stage.staged.mkdir(parents=True)
        return build, stage

    return land


def mapped(stage, folder, kept=()):
    """The pieces of all groups, but those of kept shards, in the reverse order of groups."""
    folder.mkdir()
    groups = range(len(stage.plan.preprocess))
    return [
        batch
        for group in reversed(groups)
        for batch in pieces_of_group(stage, group, Location.parse(str(folder)), kept)
    ]


def pieces_of(rows, number):
    """The rows that Spark gives to a partition: in no order, one at a time."""
    table = pa.Table.from_batches(rows)
    mine = table.filter(pa.compute.equal(table["shard"], number)).to_batches(max_chunksize=1)
    random.Random(number).shuffle(mine)
    return mine


def written(stage, rows, scratch, numbers=None, limit_bytes=1 << 30):
    """Write all shards, or those with the given numbers, as tasks of Spark do."""
    for number, shard in enumerate(stage.plan.all_shards()):
        if numbers is not None and number not in numbers:
            continue
        sorter = PieceSorter(stage.plan, limit_bytes, Location.parse(str(scratch)) / "shard")
        write_shard(
            stage, shard, sorter.blocks(decoded_pieces(number, iter(pieces_of(rows, number))))
        )
