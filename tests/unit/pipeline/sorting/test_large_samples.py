"""Samples of any size are sorted within ``memory_bytes``; no work file is read more than once."""

import itertools
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.errors import MemoryLimitError, PreprocessError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build, local
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.functions import account as _sample_limits
from trainfeed.pipeline.functions.account import BatchSize, SampleLimits, fitting_processes
from trainfeed.pipeline.functions.modes import RecordMode
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.local import run_units
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.sorting.merge import Merge, SpillRun, held_batch_bytes
from trainfeed.pipeline.sorting.spill_files import SPILL_SCHEMA, ArrowWithTrailer, TrailerWriter
from trainfeed.samples import Schema, Statistics

MIB = 1 << 20
PY = "preprocess.py"
CODE = """
import numpy as np


def clicks(record, lookups):
    row = record.json()
    return [
        {"value": b"x" * int(row["value"]), "label": n} for n in range(row.get("copies", 1))
    ]
"""
BATCH_CODE = """
import json

import pyarrow as pa


def clicks(batch, lookups):
    rows = [json.loads(value) for value in batch.column("value").to_pylist()]
    print("rows", len(rows))
    return pa.RecordBatch.from_pydict({
        "value": pa.array([b"x" * int(row["value"]) for row in rows], pa.binary()),
        "label": pa.array(range(len(rows)), pa.int64()),
        "_row": batch.column("_row"),
    })
"""


def sized(project, sizes, *, memory="1MiB", code=CODE, **more):
    """Let record i become samples of ``sizes[i]`` bytes."""
    project.edit("{dtype: float32}", "{dtype: bytes}")
    project.edit("seed: 7", f"seed: 7\nresources: {{memory_bytes: {memory}}}")
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    rows = [event(size, START_MS + i, **more) for i, size in enumerate(sizes)]
    project.record({0: [batch(rows)]})
    return project


def planned(project):
    where = Build(
        project.spec,
        project.env,
        plan(project.spec, project.interval(), project.env).ref,
    )
    for unit in range(len(load_plan(project.folder, where.ref).ingest)):
        ingest(where, unit)
    return where


def shards(version):
    return [s for split in version.manifest.splits.values() for s in split.shards]


def test_a_few_large_samples_among_small_ones_are_bounded_and_have_equal_bytes(project):
    sizes = [100_000 if i % 7 == 0 else 10 for i in range(100)]
    sized(project, sizes).build()
    roomy = project.elsewhere("roomy")
    roomy.edit("1MiB", "512MiB")
    roomy.build()
    assert shards(project.version()) == shards(roomy.version())


@pytest.mark.parametrize("code", [CODE, BATCH_CODE])
def test_a_sample_that_the_memory_has_no_room_for_is_named_with_its_record(project, code):
    sized(project, [10, 10, 200_000, 10], code=code)
    if code is BATCH_CODE:
        project.edit("input: record", "input: batch")
    where = planned(project)
    with pytest.raises(MemoryLimitError) as caught:
        preprocess(where, 0)
    message = str(caught.value)
    assert "at kafka:clicks/0 offset 2" in message
    assert "made a sample of 200" in message
    assert "expected at most 104857" in message
    assert "raise resources.memory_bytes to 20" in message


def test_a_sample_that_no_chunk_has_room_for_is_named_with_its_record(project):
    sized(project, [10, 65 << 20], memory="1GiB")
    where = planned(project)
    with pytest.raises(PreprocessError, match=r"a record takes 67108860 at most, at .* offset 1"):
        preprocess(where, 0)


@pytest.mark.parametrize("code", [CODE, BATCH_CODE])
def test_a_worker_keeps_to_its_memory_whatever_small_records_become(project, no_worker, code):
    """150 MB of samples, of records of some bytes each, in 64 MiB besides what it starts with."""
    memory = "64MiB, worker_memory_bytes: 256MiB"
    sized(project, [100_000] * 1500, memory=memory, code=code)
    if code is BATCH_CODE:
        project.edit("input: record", "input: batch")
    assert preprocess(planned(project), 0).runs > 5


def test_processes_are_as_many_as_have_room_for_a_sample(project):
    """Samples of 100,000 bytes take a tenth of 1 MiB: one process, though two are asked for."""
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [25000]}")
    project.edit('"value": row["value"]', '"value": [row["value"]] * 25000', "preprocess.py")
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB, processes: 2}")
    project.record({0: [batch([event(i, START_MS + i) for i in range(30)])]})
    project.build()
    assert sum(split.samples for split in project.version().manifest.splits.values()) == 30


@pytest.mark.parametrize(("size", "most"), [(1, 2), (100_000, 1)])
def test_what_runs_at_once_has_no_more_memory_than_the_setting(project, monkeypatch, size, most):
    project.edit("value: {dtype: float32}", f"value: {{dtype: float32, shape: [{size}]}}")
    project.edit('"value": row["value"]', f'"value": [row["value"]] * {size}', "preprocess.py")
    resources = "{memory_bytes: 4MiB, processes: 2, records_per_task: 10}"
    project.edit("seed: 7", f"seed: 7\nresources: {resources}")
    project.record({0: [batch([event(i, START_MS + i) for i in range(30)])]})
    seen = []

    def noted(run, units, num_tasks):
        (build,) = (arg for arg in run.args if isinstance(arg, Build))
        memory_bytes = build.spec.resources.memory_bytes
        seen.append((len(units), num_tasks, num_tasks * memory_bytes))
        return run_units(run, units, num_tasks)

    monkeypatch.setattr(local, "run_units", noted)
    project.build()
    assert max(num_units for num_units, _, _ in seen) == 3
    assert max(num_tasks for _, num_tasks, _ in seen) == most
    assert max(num_bytes for _, _, num_bytes in seen) <= 4 * MIB


@pytest.mark.parametrize("code", [CODE, BATCH_CODE])
def test_samples_of_a_tenth_of_the_memory_are_built(project, code):
    """The least memory that holds samples is ten times the largest of them."""
    sized(project, [MIB // 10 - 16] * 12, code=code)
    if code is BATCH_CODE:
        project.edit("input: record", "input: batch")
    project.build()
    assert sum(split.samples for split in project.version().manifest.splits.values()) == 12


def test_fields_that_the_memory_has_no_room_for_are_refused_before_anything_is_read(project):
    names = [f"f{number}" for number in range(60)]
    fields = "\n".join(f"  {name}: {{dtype: int64}}" for name in names)
    project.edit("  value: {dtype: float32}", fields + "\n  value: {dtype: float32}")
    project.edit('"value": row["value"]', '"value": 1.0, **{f"f{n}": n for n in range(60)}', PY)
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB}")
    with pytest.raises(
        MemoryLimitError, match=r"62 fields.* raise resources.memory_bytes to 25395"
    ):
        plan(project.spec, project.interval(), project.env)
    assert not list(Path(project.env.landing).glob("**/*.*"))
    project.edit("memory_bytes: 1MiB", "memory_bytes: 2539520")
    project.build()


def test_processes_are_as_many_as_have_room_for_the_fields(project):
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB, processes: 64}")
    assert fitting_processes(project.spec) == (1 << 20) // (2 * 40 << 10)


def test_many_samples_of_one_record_are_sorted_in_runs(project):
    sized(project, [50_000], copies=100)
    assert preprocess(planned(project), 0).runs > 20


def test_a_run_takes_a_sixth_of_the_memory(project):
    """Of 1 MiB that is three samples of 50,000 bytes, which come in blocks of two."""
    sized(project, [50_000], copies=100)
    assert preprocess(planned(project), 0).runs == 50


HOLES = """
import os, sys

if len(sys.argv) > 1:
    from trainfeed.pipeline.heap import return_large_blocks

    return_large_blocks()
for _ in range(3):
    # What is freed raises the size from which blocks are the system's own.
    b"x" * (20 << 20)
between = []
held = [(b"x" * (20 << 20), between.append(b"x" * 200_000)) for _ in range(10)]
del held
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
"""


def test_large_blocks_go_back_by_themselves():
    """Without that 200 MiB stay, of 10 blocks of 20 MiB between which something else lives."""
    mib = [
        int(subprocess.run([sys.executable, "-c", HOLES, *more], stdout=-1, check=True).stdout)
        for more in ([], ["return"])
    ]
    assert mib[0] > 200
    assert mib[1] < 150


def test_a_function_of_batches_gets_as_many_records_as_its_samples_leave_room_for():
    size = BatchSize(None, MIB)
    rows = []
    for _ in range(12):
        rows.append(size.rows)
        size.learn(size.rows, size.rows * 10)
    assert rows == [1, 4, 16, 64, 256, 1024, 4096, 16384, 16384, 16384, 16384, 16384]
    size.learn(1000, 1000 * 100_000)
    assert size.rows == 10
    size.learn(10, 10 * 2 * MIB)
    assert size.rows == 1
    assert BatchSize(100_000, 32 * MIB).rows == 20


def test_a_limit_says_what_a_process_has():
    limits = SampleLimits(memory_bytes=512 * MIB, limit_bytes=128 * MIB, block_bytes=8 * MIB)
    assert limits.sample_bytes == 128 * MIB // 10
    error = limits.refusal(20 * MIB, lambda what, remedy: PreprocessError(f"{what} {remedy}"))
    assert f"to {800 * MIB}," in str(error)


def test_a_sample_that_no_record_can_hold_is_refused_with_its_place_for_any_memory(
    monkeypatch,
):
    monkeypatch.setattr(_sample_limits, "_MAX_SAMPLE_BYTES", 1000)

    class Function:
        def call(self, record):
            return [{"value": b"x" * (2000 if record.offset == 5 else 1)}]

        def mistake(self, record, message, remedy):
            return PreprocessError(f"{message} at offset {record.offset}; {remedy}")

    schema = Schema.from_json([{"name": "value", "dtype": "bytes", "shape": []}])
    limits = SampleLimits(memory_bytes=2 * MIB, limit_bytes=2 * MIB, block_bytes=MIB)
    told = SimpleNamespace(record=lambda _: None)
    mode = RecordMode(Function(), schema, None, None, told=told, limits=limits)
    landed = batch([event(1, START_MS)] * 10)
    with pytest.raises(PreprocessError, match="a record takes 1000 at most, at offset 5"):
        list(mode.blocks(landed, "kafka:clicks/0"))


@pytest.fixture
def spills(project, tmp_path):
    """Runs of random keys and sizes, with the batches that were read of them."""
    project.edit("{dtype: float32}", "{dtype: bytes}")
    found = load_plan(project.folder, planned(project).ref)
    numbers = itertools.count()
    rng = np.random.default_rng(5)
    runs = []

    def make(num_runs, num_rows, size_of, *, batch_bytes):
        for number in range(num_runs):
            keys = np.sort(rng.integers(0, 1 << 63, num_rows).astype(np.uint64))
            sizes = [size_of(rng) for _ in range(num_rows)]
            columns = [
                pa.array(keys),
                pa.array(np.zeros(num_rows, np.int32)),
                pa.array(np.arange(num_rows) + number * num_rows),
                pa.array(np.zeros(num_rows, np.int32)),
                pa.array(sizes, pa.int32()),
                pa.array([bytes([number % 256]) * size for size in sizes], pa.binary()),
            ]
            table = pa.table(columns, schema=SPILL_SCHEMA)
            location = Location.parse(str(tmp_path / f"{next(numbers)}.run"))

            def write(file, table=table):
                writer = TrailerWriter(file, table.schema, batch_bytes=batch_bytes)
                writer.write(table)
                writer.close({})

            location.write_atomic(write)
            runs.append(SpillRun(ArrowWithTrailer(location), 0, num_rows))
        return found, runs

    yield make
    for run in runs:
        run.file.close()


@pytest.mark.parametrize("num_runs", [3, 40, 200])
def test_every_batch_is_read_once_whatever_the_number_of_runs(
    spills, monkeypatch, tmp_path, num_runs
):
    limit = 8 * MIB
    size = held_batch_bytes(limit, num_runs)
    found, runs = spills(num_runs, 400, lambda _: 200, batch_bytes=size)
    read = counted(monkeypatch)
    merge = Merge(found, limit, Location.parse(str(tmp_path / "scratch")))
    with closing(merge.blocks(runs)) as blocks:
        keys = np.concatenate([block["key"].to_numpy() for block in blocks])
    assert len(keys) == num_runs * 400
    assert (np.diff(keys) >= 0).all()
    num_batches = sum(len(run.file.trailer["starts"]) for run in runs)
    assert set(read.values()) == {1}
    assert len(read) == 2 * num_batches


def test_convert_reads_every_batch_once_however_many_shards_there_are(project, monkeypatch):
    """Hundreds of shards of a few samples share their batches: nothing is unpacked for each."""
    project.edit("samples_per_shard: 50", "samples_per_shard: 2")
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB, records_per_task: 20}")
    where = planned(project)
    found = load_plan(project.folder, where.ref)
    for unit in range(len(found.preprocess)):
        preprocess(where, unit)
    read = counted(monkeypatch)
    for unit in range(len(found.convert)):
        convert(where, unit)
    assert len(found.preprocess) > 5
    assert sum(found.shards.values()) > 60
    assert set(read.values()) == {1}


def test_convert_merges_in_one_pass_although_statistics_take_memory(project, monkeypatch):
    """Batches are cut for the memory that ``convert`` has for samples, not for all memory."""
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [64]}")
    project.edit('"value": row["value"]', '"value": [row["value"]] * 64', "preprocess.py")
    project.edit("samples_per_shard: 50", "samples_per_shard: 3000")
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 4MiB, records_per_task: 150}")
    project.record({0: [batch([event(i, START_MS + i) for i in range(3000)])]})
    where = planned(project)
    found = load_plan(project.folder, where.ref)
    for unit in range(len(found.preprocess)):
        preprocess(where, unit)
    read = counted(monkeypatch)
    for unit in range(len(found.convert)):
        convert(where, unit)
    assert len(found.preprocess) == 20
    assert len({uri for uri, *_ in read}) == 20
    assert set(read.values()) == {1}


@pytest.mark.parametrize("num_runs", [2, 3, 36, 64, 200])
def test_a_merge_has_room_for_the_batches_that_were_cut_for_it(spills, num_runs, tmp_path):
    limit = 16 * MIB
    size = held_batch_bytes(limit, num_runs)
    # Two rows of 32 bytes beside the record are a whole batch.
    found, runs = spills(num_runs, 2, lambda _: size // 2 - 32, batch_bytes=size)
    assert all(run.held_bytes > size for run in runs)
    merge = Merge(found, limit, Location.parse(str(tmp_path / "scratch")))
    assert merge._fan_in(runs) >= num_runs


def test_large_records_of_one_size_are_counted_many_at_once(project, monkeypatch):
    """A step for each field of each record is most of what a build of many fields takes."""
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [25000]}")
    project.edit('"value": row["value"]', '"value": [row["value"]] * 25000', "preprocess.py")
    project.record({0: [batch([event(i, START_MS + i) for i in range(60)])]})
    where = planned(project)
    preprocess(where, 0)
    lengths = []
    update = Statistics.update_columns

    def counting(statistics, columns):
        lengths.append(len(columns["value"]))
        update(statistics, columns)

    monkeypatch.setattr(Statistics, "update_columns", counting)
    for unit in range(len(load_plan(project.folder, where.ref).convert)):
        convert(where, unit)
    assert sum(lengths) == 60
    assert max(lengths) == 10


def counted(monkeypatch):
    """Count how often each part of each batch is unpacked."""
    read = Counter()
    valid = ArrowWithTrailer._valid

    def counting(file, index, is_record):
        read[file._location.uri, index, is_record] += 1
        return valid(file, index, is_record)

    monkeypatch.setattr(ArrowWithTrailer, "_valid", counting)
    return read


def test_what_is_loaded_at_once_is_bounded_whatever_the_sizes(spills, tmp_path):
    """Blocks hold no more records than the memory has room for, or one."""
    limit = 4 * MIB
    found, runs = spills(
        30,
        60,
        lambda rng: int(rng.choice([10, 1000, 300_000], p=[0.6, 0.3, 0.1])),
        batch_bytes=held_batch_bytes(limit, 30),
    )
    most = limit // 8
    merge = Merge(found, limit, Location.parse(str(tmp_path / "scratch")))
    total = 0
    for block in merge.blocks(runs):
        total += len(block)
        assert sum(block["size"].to_pylist()) <= most
    assert total == 30 * 60


def test_runs_that_are_too_many_are_merged_in_passes(spills, tmp_path):
    """With room for two batches, 9 runs become one in four passes, and no file stays."""
    found, runs = spills(9, 500, lambda _: 1000, batch_bytes=200_000)
    merge = Merge(found, MIB, Location.parse(str(tmp_path / "scratch")))
    rows = pa.concat_tables(list(merge.blocks(runs)))
    assert len(rows) == 4500
    assert (np.diff(rows["key"].to_numpy()) >= 0).all()
    offsets, records = rows["offset"].to_pylist(), rows["record"].to_pylist()
    assert all(r == bytes([o // 500]) * 1000 for o, r in zip(offsets, records, strict=True))
    assert sorted(offsets) == list(range(4500))
    assert not list(tmp_path.glob("scratch*"))


def test_no_file_stays_when_a_merge_is_left(spills, tmp_path):
    found, runs = spills(9, 500, lambda _: 1000, batch_bytes=200_000)
    merge = Merge(found, MIB, Location.parse(str(tmp_path / "scratch")))
    with closing(merge.blocks(runs)) as blocks:
        next(blocks)
        assert list(tmp_path.glob("scratch*"))
    assert not list(tmp_path.glob("scratch*"))
