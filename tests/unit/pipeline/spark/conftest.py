"""Builds whose groups have landed, and the way of their rows to shards, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trainfeed.pipeline import Build
from trainfeed.pipeline.convert import write_shard
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.spark._group_rows import rows_of_group
from trainfeed.pipeline.spark._shard_rows import blocks_of
from trainfeed.pipeline.stage import Stage
from trainfeed.storage import Location

ORDER = [(name, "ascending") for name in ("shard", "key", "rank", "offset", "ordinal")]


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
    """The rows of all groups, but those of kept shards, in the reverse order of groups."""
    folder.mkdir()
    groups = range(len(stage.plan.preprocess))
    return [
        batch
        for group in reversed(groups)
        for batch in rows_of_group(stage, group, Location.parse(str(folder)), kept)
    ]


def written(stage, rows, numbers=None):
    """Sort rows as Spark does, and write all shards, or those with the given numbers."""
    table = pa.Table.from_batches(rows).sort_by(ORDER)
    for number, shard in enumerate(stage.plan.all_shards()):
        if numbers is not None and number not in numbers:
            continue
        mine = table.filter(pa.compute.equal(table["shard"], number))
        batches = iter(mine.to_batches(max_chunksize=7))
        write_shard(stage, shard, blocks_of(stage, number, batches))
