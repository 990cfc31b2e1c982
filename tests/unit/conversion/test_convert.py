"""``convert``: exactly that many files, every sample once, in an order of nothing but the seed."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import statistics
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.conversion.conftest import (
    FIXED,
    VARIABLE,
    contents,
    fixed_block,
    fixed_samples,
    labels_of,
    names_in,
    variable_samples,
)
from trainfeed.conversion import (
    ConvertOptions,
    Encoding,
    FileFormat,
    ShardManifest,
    convert,
    convert_arrays,
)
from trainfeed.errors import ConfigError, QuotaExceededError, SampleShapeError
from trainfeed.readers import BlockSource, RowForm, np_array
from trainfeed.recordio import Codec, RecordScanner
from trainfeed.samples import Field, Schema, TypedCodec, ValueCodec
from trainfeed.tfrecord import Compression, ExampleCodec, TFRecordReader

SMALL = ConvertOptions(memory_bytes=1 << 16)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.integers())
def test_every_sample_is_in_one_of_exactly_that_many_files_once(tmp_path_factory, n, shards, seed):
    out = tmp_path_factory.mktemp("out")
    manifest = convert(out, fixed_samples(n), shards, "p", seed=seed, schema=FIXED)
    found = labels_of(out)
    assert list(found) == [f"p-{i:05d}-of-{shards - 1:05d}" for i in range(shards)]
    assert Counter(itertools.chain(*found.values())) == Counter(range(n))
    sizes = [len(labels) for labels in found.values()]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == [shard.num_records for shard in manifest.shards]
    assert manifest.problems(out, deep=True) == []
    assert ShardManifest.load(out, "p") == manifest


@pytest.mark.parametrize("reader", [fixed_samples, variable_samples])
def test_memory_changes_no_byte(tmp_path, reader):
    schema = FIXED if reader is fixed_samples else VARIABLE
    for number, memory_bytes in enumerate((1 << 16, 1 << 18, 1 << 26)):
        options = ConvertOptions(memory_bytes=memory_bytes)
        convert(tmp_path / str(number), reader(9000), 4, "p", schema=schema, options=options)
    assert contents(tmp_path / "0") == contents(tmp_path / "1") == contents(tmp_path / "2")


def test_arrays_make_the_same_files_as_samples(tmp_path):
    def in_blocks_of(size):
        return lambda: (fixed_block(i, min(i + size, 5000)) for i in range(0, 5000, size))

    def as_columns():
        for block in in_blocks_of(999)():
            yield {"image": block["image"], "label": block["label"]}

    convert(tmp_path / "samples", fixed_samples(5000), 3, "p", schema=FIXED)
    expected = contents(tmp_path / "samples")
    readers = [in_blocks_of(5000), in_blocks_of(7), in_blocks_of(1024), as_columns]
    for number, reader in enumerate(readers):
        folder = tmp_path / str(number)
        options = ConvertOptions(memory_bytes=1 << (16 + number))
        convert_arrays(folder, reader, 3, "p", schema=FIXED, options=options)
        assert contents(folder) == expected


def test_the_order_is_shuffled_over_all_shards(tmp_path):
    convert(tmp_path / "a", fixed_samples(2000), 10, "p", schema=FIXED, seed=1)
    found = labels_of(tmp_path / "a")
    for labels in found.values():
        # 200 of 2000 at random have a mean near 1000, with a standard deviation of about 40.
        assert 800 < statistics.fmean(labels) < 1200
        ascents = sum(a < b for a, b in itertools.pairwise(labels))
        assert 60 < ascents < 140
    convert(tmp_path / "b", fixed_samples(2000), 10, "p", schema=FIXED, seed=2)
    assert labels_of(tmp_path / "b") != found


def test_samples_may_be_tuples_in_the_order_of_the_fields(tmp_path):
    def tuples():
        return (([n] * 5, n) for n in range(9))

    convert(tmp_path / "a", tuples, 2, "p", schema=FIXED)
    convert(tmp_path / "b", fixed_samples(9), 2, "p", schema=FIXED)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("sample", [(1, 2, 3), [1, 2], 7, {"label": 1}, {"label": 1, "image": [1]}])
def test_a_sample_of_another_schema_is_refused(out, sample):
    with pytest.raises(SampleShapeError):
        convert(out, lambda: [sample], 2, "p", schema=FIXED)
    assert names_in(out) == []


@pytest.mark.parametrize("codec", [Codec.ZSTD, "lz4", "gzip", "snappy"])
def test_compressed_shards_hold_the_same_records(tmp_path, codec):
    convert(tmp_path / "plain", fixed_samples(500), 2, "p", schema=FIXED)
    manifest = convert(tmp_path / "c", fixed_samples(500), 2, "p", schema=FIXED, codec=codec)
    assert labels_of(tmp_path / "c") == labels_of(tmp_path / "plain")
    assert manifest.num_bytes < 500 * 13


@pytest.mark.parametrize("codec", [Compression.NONE, "gzip", "zlib", "none"])
def test_tfrecord_shards_hold_the_samples_as_examples_in_the_same_order(tmp_path, codec):
    options = ConvertOptions(file_format=FileFormat.TFRECORD)
    convert(
        tmp_path / "t", variable_samples(300), 3, "p", schema=VARIABLE, codec=codec, options=options
    )
    convert(tmp_path / "r", variable_samples(300), 3, "p", schema=VARIABLE)
    examples = ExampleCodec(VARIABLE)
    found = {
        path.name: [examples.decode(r)["label"].item() for r in TFRecordReader(path)]
        for path in sorted((tmp_path / "t").glob("p-*"))
    }
    assert found == labels_of(tmp_path / "r", schema=VARIABLE)


def test_arrays_become_examples_too(tmp_path):
    options = ConvertOptions(file_format="tfrecord")
    convert_arrays(
        tmp_path / "a", lambda: [fixed_block(0, 50)], 2, "p", schema=FIXED, options=options
    )
    convert(tmp_path / "b", fixed_samples(50), 2, "p", schema=FIXED, options=options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


REFUSED = {
    "no shard": {"num_shards": 0},
    "a negative number of shards": {"num_shards": -1},
    "more shards than names": {"num_shards": 100_001},
    "true": {"num_shards": True},
    "a fraction": {"num_shards": 2.0},
    "an empty prefix": {"name_prefix": ""},
    "a path": {"name_prefix": "a/b"},
    "a hidden name": {"name_prefix": ".p"},
    "a glob": {"name_prefix": "p*"},
    "a list": {"name_prefix": "p,q"},
    "a newline": {"name_prefix": "p\n"},
    "a seed that is none": {"seed": "7"},
    "an unknown codec": {"codec": "brotli"},
    "a codec of the other format": {"codec": "zlib"},
    "a level that is none": {"codec": "zstd", "options": ConvertOptions(level=99)},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_read(out, change):
    def reader():
        raise AssertionError("it was read")

    arguments = {"num_shards": 2, "name_prefix": "p", "schema": FIXED} | change
    with pytest.raises(ConfigError):
        convert(out, reader, **arguments)
    assert names_in(out) == []


def test_a_schema_that_varies_is_no_case_for_arrays(out):
    with pytest.raises(ConfigError, match="fixed size"):
        convert_arrays(out, list, 2, "p", schema=VARIABLE)


def test_blocks_of_another_dtype_are_refused(out):
    with pytest.raises(SampleShapeError, match="expected blocks"):
        convert_arrays(out, lambda: [np.zeros(3, "i8")], 2, "p", schema=FIXED)


def test_an_error_of_the_reader_passes_and_leaves_the_old_files(out):
    convert(out, fixed_samples(10), 3, "p", schema=FIXED)
    (out / "other-00000-of-00001").write_bytes(b"mine")
    before = contents(out)

    def broken():
        yield from fixed_samples(5)()
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        convert(out, broken, 3, "p", schema=FIXED, options=SMALL)
    assert contents(out) == before
    assert names_in(out) == sorted(before)


@pytest.mark.parametrize("name", ["pwrite", "fsync"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_leaves_the_old_files(out, monkeypatch, name, after):
    convert(out, fixed_samples(10), 3, "p", schema=FIXED)
    before = contents(out)
    calls, real = itertools.count(), getattr(os, name)

    def full(*arguments):
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, name, full)
    with pytest.raises(QuotaExceededError):
        convert(out, fixed_samples(9000), 5, "p", schema=FIXED, options=SMALL)
    monkeypatch.undo()
    assert contents(out) == before


def test_the_reader_is_called_once(out):
    calls = []

    def reader():
        calls.append(1)
        return fixed_samples(10)()

    convert(out, reader, 3, "p", schema=FIXED)
    assert calls == [1]


def test_progress_is_told_and_ends_with_all_samples(out):
    told = []
    options = ConvertOptions(memory_bytes=1 << 16, on_progress=lambda *n: told.append(n))
    convert(out, fixed_samples(3000), 3, "p", schema=FIXED, options=options)
    assert told[-1] == (3000, 3000)
    assert told == sorted(told)


def test_temporary_samples_may_lie_elsewhere(out, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    convert(out, fixed_samples(3000), 3, "p", schema=FIXED, options=ConvertOptions(work_dir=work))
    assert names_in(work) == []
    assert sum(map(len, labels_of(out).values())) == 3000


def test_memory_is_bounded_whatever_the_number_of_samples(tmp_path):
    def blocks():
        return (fixed_block(i, i + 1000) for i in range(0, 200_000, 1000))

    def peak(function, *arguments):
        gc.collect()
        tracemalloc.start()
        options = ConvertOptions(memory_bytes=1 << 20, max_chunk_bytes=1 << 16)
        function(tmp_path / function.__name__, *arguments, schema=FIXED, options=options)
        (_, most), _ = tracemalloc.get_traced_memory(), tracemalloc.stop()
        return most

    assert peak(convert_arrays, blocks, 4, "p") < 4 << 20
    assert peak(convert, fixed_samples(20_000), 4, "p") < 6 << 20


def test_a_record_that_is_larger_than_the_memory_passes(tmp_path):
    def reader():
        for label in range(30):
            size = 200_000 if label % 10 == 3 else 10
            yield {"label": label, "text": "", "more": bytes(size)}

    convert(tmp_path / "a", reader, 2, "p", schema=VARIABLE, options=SMALL)
    convert(tmp_path / "b", reader, 2, "p", schema=VARIABLE)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_promise_of_one_sample_is_kept_to_the_byte(out):
    sample = {"label": -1, "text": "ü\0", "more": b"\x00\xff"}
    convert(out, lambda: [sample], 1, "p", schema=VARIABLE)
    assert (out / "p-00000-of-00000").read_bytes().endswith(TypedCodec(VARIABLE).encode(sample))


def test_value_samples_come_back_with_type_dtype_and_shape(out):
    """The example of the design: float64 arrays of 784 with an int, in 100 shards."""
    rng = np.random.default_rng(0)
    images = [(rng.random(784), n) for n in range(1000)]
    convert(out, lambda: images, 100, "random_images")
    assert len(list(out.glob("random_images-*-of-00099"))) == 100
    found = {}
    for record in RecordScanner(f"{out}/random_images-*"):
        image, number = ValueCodec().decode(record)
        assert (type(number), image.dtype, image.shape) == (int, np.float64, (784,))
        found[number] = image
    assert sorted(found) == list(range(1000))
    assert all(found[number].tobytes() == image.tobytes() for image, number in images)


def test_a_scalar_and_a_tuple_of_one_are_different_samples(out):
    samples = [1, (1,), [1], (1, 2), "1", b"1", 1.0, None, np.float32(1), np.ones(()), True]
    manifest = convert(out, lambda: samples, 1, "p")
    assert manifest.encoding is Encoding.VALUE
    found = [ValueCodec().decode(record) for record in RecordScanner(f"{out}/p-*")]
    assert sorted(map(repr, found)) == sorted(map(repr, samples))
    assert sorted(str(type(each)) for each in found) == sorted(str(type(each)) for each in samples)


def test_a_value_of_a_type_that_is_not_stored_is_refused(out):
    with pytest.raises(SampleShapeError):
        convert(out, lambda: [object()], 1, "p")
    assert names_in(out) == []


def block_columns():
    yield {"image": np.full((3, 5), 7, "u1"), "label": np.arange(3)}
    yield {"image": np.full((2, 5), 9, "u1"), "label": np.arange(3, 5)}


@pytest.mark.parametrize("form", list(RowForm))
def test_a_reader_that_has_blocks_gives_convert_arrays_its_blocks(tmp_path, form):
    # A BlockSource that is called gives samples, which are no blocks.
    source = BlockSource(block_columns, form=form)
    convert_arrays(tmp_path / "of-reader", source, 2, "p", schema=FIXED)
    convert_arrays(tmp_path / "of-function", block_columns, 2, "p", schema=FIXED)
    assert contents(tmp_path / "of-reader") == contents(tmp_path / "of-function")


def test_an_array_read_as_blocks_is_a_field_called_value(tmp_path):
    schema = Schema((Field("value", "int64", (2,)),))
    convert_arrays(tmp_path, np_array(np.arange(6).reshape(3, 2)), 1, "p", schema=schema)
    values = [
        TypedCodec(schema).decode(record)["value"].tolist()
        for record in RecordScanner([tmp_path / "p-00000-of-00000"])
    ]
    assert sorted(values) == [[0, 1], [2, 3], [4, 5]]
