"""Pieces of samples in any order, put in the order of samples within a bound of memory."""

from __future__ import annotations

import random
import weakref

import pyarrow as pa
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.sorting.merge import PieceSorter
from trainfeed.pipeline.sorting.spill_files import SPILL_SCHEMA
from trainfeed.versions.order import source_hash

RECORD_BYTES = 12


@pytest.fixture
def plans(project):
    """A plan with three sources."""
    project.record({p: [batch([event(p, START_MS + p)])] for p in range(3)})
    made = plan(project.spec, project.interval(), project.env)
    found = load_plan(project.folder, Build(project.spec, project.env, made.ref).ref)
    assert len(found.sources) == 3
    return found


def table(rows):
    records = [f"{key % 10**6:06}{offset % 10**6:06}".encode() for key, _, offset, _ in rows]
    columns = [*zip(*rows, strict=True)] or [()] * 4
    arrays = [pa.array(c, t) for c, t in zip(columns, SPILL_SCHEMA.types, strict=False)]
    sizes = pa.array([RECORD_BYTES] * len(rows), pa.int32())
    return pa.table([*arrays, sizes, pa.array(records, pa.binary())], schema=SPILL_SCHEMA)


def rows_of(blocks):
    return [tuple(row.values()) for block in blocks for row in block.to_pylist()]


@pytest.mark.parametrize("limit_bytes", [1, 3000, 100_000, 1 << 30])
@pytest.mark.parametrize("spread", [1 << 64, 300, 2])
def test_pieces_come_out_as_the_sorted_whole(plans, tmp_path, limit_bytes, spread):
    draw = random.Random(limit_bytes + spread)
    rows = [(draw.randrange(spread), draw.randrange(3), n, draw.randrange(2)) for n in range(2000)]
    draw.shuffle(rows)
    pieces, left = [], rows
    while left:
        count = draw.randrange(0, 200)
        pieces.append(table(left[:count]))
        left = left[count:]
    sorter = PieceSorter(plans, limit_bytes, Location.parse(str(tmp_path / "shard")))
    found = rows_of(sorter.blocks(iter(pieces)))
    hashes = [source_hash(source) for source in plans.sources]
    ordered = sorted(rows, key=lambda row: (row[0], hashes[row[1]], *row[2:]))
    assert found == rows_of([table(ordered)])
    assert not list(tmp_path.glob("shard*"))
    assert (sorter.spilled_bytes > 0) is (limit_bytes < 1 << 30)


def test_no_more_is_held_than_the_memory_has_room_for(plans, tmp_path):
    """With room for two of twenty pieces, the third one sends the two before it to a file."""
    made, held, files = [], [], []

    def given():
        for number in range(20):
            piece = table([(number, 0, number, 0)] * 100)
            made.append(weakref.ref(piece))
            yield piece
            del piece
            held.append(sum(each() is not None for each in made))
            files.append(len(list(tmp_path.glob("shard*"))))

    limit = 4 * 2 * table([(1, 0, 1, 0)] * 100).nbytes
    blocks = PieceSorter(plans, limit, Location.parse(str(tmp_path / "shard"))).blocks(given())
    next(blocks)
    assert files == [n // 2 for n in range(20)]
    assert max(held) <= 2
    assert sum(each() is not None for each in made) == 0


def test_nothing_gives_nothing(plans, tmp_path):
    sorter = PieceSorter(plans, 1, Location.parse(str(tmp_path / "shard")))
    assert list(sorter.blocks(iter(()))) == []


def test_files_are_deleted_when_the_samples_are_not_taken(plans, tmp_path):
    pieces = [table([(n, 0, n, 0)]) for n in range(9)]
    blocks = PieceSorter(plans, 1, Location.parse(str(tmp_path / "shard"))).blocks(iter(pieces))
    next(blocks)
    assert list(tmp_path.glob("shard*"))
    blocks.close()
    assert not list(tmp_path.glob("shard*"))
