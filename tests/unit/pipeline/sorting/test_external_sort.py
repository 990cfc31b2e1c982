"""Samples beyond the memory go through sorted runs on disk, and come out the same."""

import itertools
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.test_kill import EXTERNAL_POINTS
from tests.unit.pipeline.test_kill import warm_command as command
from trainfeed.core import canonical_json
from trainfeed.errors import ChecksumError, FormatError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import PlannedShard, load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.sorting.merge import Merge, SpillRun
from trainfeed.pipeline.sorting.spill_files import (
    QUARANTINE_SCHEMA,
    SPILL_SCHEMA,
    ArrowWithTrailer,
    TrailerWriter,
    edges_of,
)

SMALL = "seed: 7\nresources: {memory_bytes: 1MiB}"


def large(project):
    """About 6 MiB of samples while they are sorted, in three partitions."""
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [65]}")
    project.edit('"value": row["value"]', '"value": [row["value"]] * 65', "preprocess.py")
    rows = {
        p: [batch([event(i, START_MS + i, copies=25) for i in range(100 + p)])] for p in range(3)
    }
    project.record(rows)
    return project


def shards(version):
    return [s for split in version.manifest.splits.values() for s in split.shards]


def planned(project):
    made = plan(project.spec, project.interval(), project.env)
    where = Build(project.spec, project.env, made.ref)
    ingest(where, 0)
    return where


def test_many_runs_give_the_bytes_of_one(project):
    large(project).build()
    small = project.elsewhere("small")
    small.edit("seed: 7", SMALL)
    where = planned(small)
    assert preprocess(where, 0).runs > 4
    small.build()
    assert shards(small.version()) == shards(project.version())
    assert small.version().manifest.ledger == project.version().manifest.ledger


def test_runs_of_several_processes_give_the_bytes_of_one(project):
    large(project).build()
    small = project.elsewhere("small")
    small.edit("seed: 7", SMALL.replace("1MiB", "2MiB, processes: 3"))
    where = planned(small)
    assert preprocess(where, 0).runs > 3
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
    preprocess(where, 0)
    plan_id = where.ref.plan_id
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
    from trainfeed.pipeline import preprocess as module

    settle = module._settle_spill

    def damaged(stage, unit, parts, account, scratch):
        run = project.path / "work" / "spill" / stage.plan.plan_id / parts[0].runs[1]
        data = bytearray(run.read_bytes())
        data[len(data) // 2] ^= 1
        run.write_bytes(data)
        settle(stage, unit, parts, account, scratch)

    monkeypatch.setattr(module, "_settle_spill", damaged)
    with pytest.raises((ChecksumError, FormatError), match="clear the run from preprocess on"):
        preprocess(where, 0)


@pytest.fixture
def merge(project, tmp_path):
    """Merge lists of (key, source, offset, ordinal), each sorted, and return what comes out."""
    where = planned(project)
    found = load_plan(project.folder, where.ref)
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
            sizes = pa.array([12] * len(rows), pa.int32())
            table = pa.Table.from_arrays([*arrays, sizes, record], schema=SPILL_SCHEMA)
            location.write_atomic(lambda file, table=table: write_small(file, table))
            files.append(ArrowWithTrailer(location))
        parts = [SpillRun(file, 0, file.trailer["num_rows"]) for file in files]
        scratch = Location.parse(str(tmp_path / "scratch"))
        blocks = list(Merge(found, limit_bytes, scratch).blocks(parts))
        assert not list(tmp_path.glob("scratch*"))
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
    assert np.diff(reader.trailer["starts"]).max() == 178
    assert np.diff(reader.trailer["starts"]).min() == 178
    reader.close()


def test_a_batch_of_several_rows_is_bounded_whatever_their_sizes(tmp_path):
    sizes = [3, 50_000, 4, 5, 9_000, 9_000, 9_000, 30_000, 0, 0]
    table = pa.table({"offset": pa.array(range(10)), "record": [b"x" * size for size in sizes]})
    location = Location.parse(str(tmp_path / "file"))

    def write(file):
        writer = TrailerWriter(file, table.schema, batch_bytes=20_000)
        writer.write(table.slice(0, 3))
        writer.write(table.slice(3))
        writer.close({})

    location.write_atomic(write)
    with closing(ArrowWithTrailer(location)) as reader:
        assert reader.trailer["starts"] == [0, 1, 2, 6, 7, 8]
        assert reader.trailer["held_bytes"] < 20_000
        assert reader.read_all().equals(table)


def test_a_file_that_was_closed_opens_when_it_is_read(tmp_path):
    table = pa.table({"offset": pa.array(range(10)), "record": [b"x"] * 10})
    location = Location.parse(str(tmp_path / "file"))
    location.write_atomic(lambda file: write_small(file, table))
    reader = ArrowWithTrailer(location)
    for _ in range(2):
        reader.close()
        assert reader.head(0)["offset"].to_pylist() == list(range(10))
        assert reader.records(0).to_pylist() == [b"x"] * 10
    reader.close()


def test_a_task_is_read_in_batches_of_its_own(tmp_path):
    table = pa.table({"offset": pa.array(range(5000)), "raw": [b"x" * 100] * 5000})
    rows = {"eval": [0, 90, 100], "train": [100, 150, 160, 600, 600, 4500, 5000]}
    places = [("eval", 0), ("eval", 1), *(("train", number) for number in range(6))]
    shards = [PlannedShard(split=split, index=index) for split, index in places]
    edges = edges_of(rows, [shards[:1], shards[1:4], shards[4:7], shards[7:]])
    assert edges == [0, 90, 100, 160, 4500]
    location = Location.parse(str(tmp_path / "file"))

    def write(file):
        writer = TrailerWriter(file, table.schema, batch_bytes=20_000, edges=edges)
        for start in range(0, 5000, 333):
            writer.write(table.slice(start, 333))
        writer.close({})

    location.write_atomic(write)
    with closing(ArrowWithTrailer(location)) as reader:
        assert set(edges) <= set(reader.trailer["starts"])
        assert np.diff(reader.trailer["starts"]).max() < 200
        assert reader.batches(90, 100) == range(1, 2)
        assert reader.read_all().equals(table)


def test_a_changed_byte_is_found_or_changes_nothing_also_one_of_a_column(tmp_path):
    rows = [
        {"source": 0, "offset": n, "reason": "bad", "message": f"no {n}", "raw": b"x" * n}
        for n in range(5)
    ]
    table = pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA)
    path = tmp_path / "file"
    location = Location.parse(str(path))
    location.write_atomic(lambda file: write_small(file, table))
    good = path.read_bytes()
    refused = 0
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        try:
            with closing(ArrowWithTrailer(location)) as reader:
                assert reader.read_all().select(table.schema.names).to_pylist() == rows, place
        except FormatError:
            refused += 1
    assert refused > len(good) // 2


def test_a_file_of_before_whose_trailer_has_no_columns_is_read(tmp_path, monkeypatch):
    table = pa.table({"offset": pa.array(range(10)), "record": [b"x"] * 10})
    location = Location.parse(str(tmp_path / "file"))
    dumps = canonical_json.dumps

    def of_before(value):
        return dumps({name: each for name, each in value.items() if name != "columns"})

    monkeypatch.setattr(canonical_json, "dumps", of_before)
    location.write_atomic(lambda file: write_small(file, table))
    with closing(ArrowWithTrailer(location)) as reader:
        assert "columns" not in reader.trailer
        assert reader.read_all().equals(table)
