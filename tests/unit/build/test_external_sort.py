"""Samples beyond the memory go through sorted runs on disk, and come out the same."""

import itertools
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.build.clicks import START_MS, batch, event
from tests.unit.build.test_kill import EXTERNAL_POINTS, command
from trainfeed.build import PlanRef
from trainfeed.build._merge import MERGED_SCHEMA, Merge, Run
from trainfeed.build._plan_file import load_plan
from trainfeed.build._spill import ArrowWithTrailer, TrailerWriter, edges_of
from trainfeed.build.ingest import ingest
from trainfeed.build.plan import plan
from trainfeed.build.preprocess import preprocess
from trainfeed.errors import ChecksumError, FormatError
from trainfeed.storage import Location

SMALL = "seed: 7\nresources: {memory_bytes: 1MiB}"


def large(project):
    """About 6 MiB of samples while they are sorted, in three partitions."""
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [50]}")
    project.edit('"value": row["value"]', '"value": [row["value"]] * 50', "preprocess.py")
    rows = {
        p: [batch([event(i, START_MS + i, copies=25) for i in range(100 + p)])] for p in range(3)
    }
    project.record(rows)
    return project


def shards(version):
    return [s for split in version.manifest.splits.values() for s in split.shards]


def planned(project):
    made = plan(project.spec, project.interval(), project.env)
    where = project.spec, project.env, PlanRef.from_json(made)
    ingest(*where, 0)
    return where


def test_many_runs_give_the_bytes_of_one(project):
    large(project).build()
    small = project.elsewhere("small")
    small.edit("seed: 7", SMALL)
    where = planned(small)
    assert preprocess(*where, 0)["runs"] > 4
    small.build()
    assert shards(small.version()) == shards(project.version())
    assert small.version().manifest.ledger == project.version().manifest.ledger


def test_runs_of_several_processes_give_the_bytes_of_one(project):
    large(project).build()
    small = project.elsewhere("small")
    small.edit("seed: 7", SMALL.replace("1MiB", "2MiB, processes: 3"))
    where = planned(small)
    assert preprocess(*where, 0)["runs"] > 3
    small.build()
    assert shards(small.version()) == shards(project.version())


def test_a_shard_beyond_the_memory_is_merged_block_by_block(project):
    large(project).edit("samples_per_shard: 50", "shards: 1")
    project.build()
    small = project.elsewhere("small")
    small.edit("seed: 7", SMALL)
    small.build()
    assert shards(small.version()) == shards(project.version())


def test_nothing_of_the_runs_stays_behind(project):
    small = large(project)
    small.edit("seed: 7", SMALL)
    where = planned(small)
    preprocess(*where, 0)
    plan_id = where[2].plan_id
    names = sorted(p.name for p in (small.path / "work" / "spill" / plan_id).iterdir())
    assert names == ["00000.arrow", "00000.quarantine.arrow"]


@pytest.mark.parametrize("point", EXTERNAL_POINTS)
def test_a_merge_that_was_killed_and_run_again_has_equal_bytes(project, point):
    large(project).edit("seed: 7", SMALL)
    killed = command(project, point)
    assert killed.returncode == -9, killed.stderr
    retried = command(project)
    assert retried.returncode == 0, retried.stderr
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert project.version().manifest == undisturbed.version().manifest


def test_a_damaged_run_is_found_while_it_is_merged(project, monkeypatch):
    large(project).edit("seed: 7", SMALL)
    where = planned(project)
    from trainfeed.build import preprocess as module

    settle = module._settle_spill

    def damaged(stage, unit, parts, ledger):
        run = project.path / "work" / "spill" / stage.plan.plan_id / parts[0]["runs"][1]
        data = bytearray(run.read_bytes())
        data[len(data) // 2] ^= 1
        run.write_bytes(data)
        settle(stage, unit, parts, ledger)

    monkeypatch.setattr(module, "_settle_spill", damaged)
    with pytest.raises((ChecksumError, FormatError), match="clear the run from preprocess on"):
        preprocess(*where, 0)


@pytest.fixture
def merge(project, tmp_path):
    """Merge lists of (key, source, offset, ordinal), each sorted, and return what comes out."""
    where = planned(project)
    found = load_plan(project.folder, where[2])
    numbers = itertools.count()

    def merge(runs, limit_bytes):
        files = []
        for rows in runs:
            location = Location.parse(str(tmp_path / f"{next(numbers)}.run"))
            columns = [np.array(c) for c in zip(*rows, strict=True)] or [np.empty(0)] * 4
            record = pa.array(
                [np.array(row[:1], "<u8").tobytes()[:4] + b"12345678" for row in rows], pa.binary()
            )
            arrays = [
                pa.array(c.astype(t))
                for c, t in zip(columns, ("u8", "i4", "i8", "i4"), strict=True)
            ]
            table = pa.Table.from_arrays([*arrays, record], schema=MERGED_SCHEMA)
            location.write_atomic(lambda file, table=table: write_small(file, table))
            files.append(ArrowWithTrailer(location))
        parts = [Run(file, 0, file.trailer["num_rows"]) for file in files]
        blocks = list(Merge(found, limit_bytes).blocks(parts))
        for file in files:
            file.close()
        rows = [tuple(row.values()) for block in blocks for row in block.to_pylist()]
        return [row[:4] for row in rows], len(blocks)

    return merge


def write_small(file, table):
    writer = TrailerWriter(file, table.schema, batch_bytes=4000)
    writer.write(table)
    writer.close({})


@pytest.mark.parametrize("limit_bytes", [1, 20_000, 1 << 30])
@pytest.mark.parametrize("spread", [1 << 63, 300, 3, 1])
def test_blocks_are_the_sorted_whole_whatever_the_keys(merge, limit_bytes, spread):
    rng = np.random.default_rng(spread % 1000)
    runs, expected = [], []
    for number in range(5):
        count = int(rng.integers(0, 900)) if number else 0
        rows = [(int(rng.integers(0, spread)), 0, number * 1000 + i, 0) for i in range(count)]
        runs.append(sorted(rows))
        expected += rows
    found, num_blocks = merge(runs, limit_bytes)
    assert found == sorted(expected)
    if spread > 1000:
        assert (num_blocks > 1) == (limit_bytes < 1 << 30)


def test_equal_keys_are_ordered_by_position(merge):
    runs = [[(7, 0, 5, 0), (7, 0, 5, 1)], [(7, 0, 4, 0)], [(7, 0, 6, 0), (8, 0, 1, 0)]]
    found, _ = merge(runs, 1)
    assert [row[2:] for row in found] == [(4, 0), (5, 0), (5, 1), (6, 0), (1, 0)]


def test_rows_come_in_batches_of_one_size_however_they_are_written(tmp_path):
    table = pa.table({"offset": pa.array(range(5000)), "raw": [b"x" * 100] * 5000})
    location = Location.parse(str(tmp_path / "file"))

    def write(file):
        writer = TrailerWriter(file, table.schema, batch_bytes=20_000)
        for start, count in ((0, 3), (3, 0), (3, 997), (1000, 1), (1001, 3999)):
            writer.write(table.slice(start, count))
        writer.close({"x": 1})

    location.write_atomic(write)
    reader = ArrowWithTrailer(location)
    assert reader.read_all().equals(table)
    assert (reader.trailer["num_rows"], reader.trailer["x"]) == (5000, 1)
    for start, end in ((0, 5000), (170, 180), (999, 1002), (4999, 5000), (7, 7)):
        for keeps_batch in (False, True):
            rows = reader.rows(start, end, keeps_batch=keeps_batch)
            assert rows.equals(table.slice(start, end - start))
    reader.close()


def test_a_shard_is_read_in_batches_of_its_own(tmp_path):
    table = pa.table({"offset": pa.array(range(5000)), "raw": [b"x" * 100] * 5000})
    rows = {"eval": [0, 90, 100], "train": [100, 150, 160, 600, 600, 4500, 5000]}
    location = Location.parse(str(tmp_path / "file"))

    def write(file):
        writer = TrailerWriter(file, table.schema, batch_bytes=20_000, edges=edges_of(rows))
        for start in range(0, 5000, 333):
            writer.write(table.slice(start, 333))
        writer.close({})

    location.write_atomic(write)
    with closing(ArrowWithTrailer(location)) as reader:
        most, starts = reader.trailer["batch_rows"], reader.trailer["starts"]
        lengths = np.diff([*starts, 5000])
        assert 160 < most < 300
        assert lengths.min() > 0
        assert lengths.max() <= most
        # Small shards share a batch, large ones begin and end with one.
        assert starts[:2] == [0, 160]
        assert {600, 4500} <= set(starts)
        for start, end in ((0, 90), (90, 100), (150, 160), (160, 600), (600, 4500), (4999, 5000)):
            assert reader.rows(start, end).equals(table.slice(start, end - start))
