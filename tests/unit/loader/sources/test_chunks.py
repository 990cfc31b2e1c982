"""Chunks and samples that are picked from them: mapped, or decoded once for two lanes."""

import gc

import numpy as np
import pytest

from tests.unit.loader.conftest import NOTES, labels, note, write_images
from trainfeed.errors import ChecksumError, SampleShapeError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.loader import chunk_samples as _ragged
from trainfeed.loader import chunks as _kept
from trainfeed.loader import columns as _scatter
from trainfeed.loader import passes as _pass
from trainfeed.loader.chunk_samples import RowDecoder
from trainfeed.loader.columns import (
    Dense,
    Ragged,
    Scattered,
    addresses_in,
    array_targets,
    joined,
    targets_for,
)
from trainfeed.loader.memory import FreshMemory
from trainfeed.loader.passes import Cursor
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.versions.chunks import RecordIOChunks

ODD = Schema(
    (
        Field("flag", "bool", (), True),
        Field("small", "int16"),
        Field("grid", "float64", (2, 3)),
        Field("late", "uint8", (5,), True),
    )
)


def odd(i):
    return {
        "flag": None if i % 3 else np.bool_(i % 2),
        "small": np.int16(i),
        "grid": np.full((2, 3), i / 7),
        "late": None if i % 2 else np.full(5, i, np.uint8),
    }


def framings(sizes):
    """Return samples of ODD one after another, in buffers of so many."""
    codec, start, found = TypedCodec(ODD), 0, []
    for size in sizes:
        records = [codec.encode(odd(i)) for i in range(start, start + size)]
        framing = b"".join(len(record).to_bytes(4, "little") + record for record in records)
        found.append(np.frombuffer(bytearray(framing), np.uint8))
        start += size
    return found


def scattered(sizes, order):
    decoder, parts = RowDecoder(ODD), framings(sizes)
    places = np.concatenate([addresses_in(part, decoder.stride_bytes) for part in parts])
    return Scattered(decoder.layout, places[order], parts)


def assert_odd(columns, numbers):
    arrays = {name: column.array(0, len(numbers)) for name, column in columns.items()}
    for row, i in enumerate(numbers):
        for name, value in odd(i).items():
            got = arrays[name][row]
            if value is None:
                assert np.ma.getmaskarray(arrays[name])[row].all()
            else:
                assert np.array_equal(np.asarray(got), value)
                assert np.asarray(got).dtype == value.dtype


def test_samples_are_picked_from_several_buffers():
    order = np.random.default_rng(0).permutation(60)
    columns = scattered([20, 1, 39], order)
    assert_odd(columns, order)
    targets = targets_for(columns, 60, FreshMemory())
    targets.put(columns, slice(0, 60, 2), slice(0, 30))
    targets.put(columns, np.arange(1, 60, 2), np.arange(30, 60))
    expected = np.empty(60, np.int64)
    expected[0::2], expected[1::2] = order[:30], order[30:]
    assert_odd(targets.columns(60), expected)


class Reserved(FreshMemory):
    """Counts the bytes that are reserved in it, and the arrays."""

    num_bytes = num_arrays = 0

    def reserve(self, num_bytes):
        self.num_bytes += num_bytes

    def array(self, shape, dtype):
        self.num_arrays += 1
        return super().array(shape, dtype)


# A field of 30 samples: flag 30 bytes, small 60, grid 1,440, late 150.
@pytest.mark.parametrize(
    ("largest", "reserved", "arrays"),
    [(0, 1680 + 4 * 64, 4), (150, 1440 + 64, 1), (1440, 0, 0)],
)
def test_only_large_fields_are_copied_into_lent_memory(monkeypatch, largest, reserved, arrays):
    monkeypatch.setattr(_scatter, "_MAX_NEW_BYTES", largest)
    columns, memory = scattered([30], np.arange(30)[::-1]), Reserved()
    targets = targets_for(columns, 30, memory)
    targets.put(columns, slice(None), slice(None))
    assert_odd(targets.columns(30), range(29, -1, -1))
    assert (memory.num_bytes, memory.num_arrays) == (reserved, arrays)


def test_no_sample_is_picked_from_nowhere():
    columns = scattered([5], np.arange(5))
    targets = targets_for(columns, 5, FreshMemory())
    targets.put(columns, slice(0, 3), slice(0, 3))
    assert_odd(targets.columns(3), range(3))
    with pytest.raises(ValueError, match="a sample has no address"):
        targets.columns(5)
    assert_odd(targets.columns(0), [])


def test_targets_keep_the_memory_that_samples_are_in():
    columns = scattered([50], np.arange(50)[::-1])
    targets = targets_for(columns, 50, FreshMemory())
    targets.put(columns, slice(None), slice(None))
    del columns
    gc.collect()
    scattered([50], np.arange(50))
    assert_odd(targets.columns(50), range(49, -1, -1))


def test_a_batch_that_is_kept_keeps_no_other_batch_of_its_block():
    columns = scattered([50], np.arange(50)[::-1])
    targets = targets_for(columns, 50, FreshMemory())
    targets.put(columns, slice(None), slice(None))
    block = targets.columns(50)
    for name in ("small", "grid"):
        kept = owner = block[name].array(10, 20)
        while owner.base is not None:
            owner = owner.base
        assert owner.nbytes == kept.nbytes
        assert not np.shares_memory(kept, block[name].array(10, 20))


def test_samples_of_several_layouts_are_copied_at_once():
    some, others = scattered([3], np.arange(3)), scattered([6], np.arange(6))
    targets = array_targets(some, 5, FreshMemory())
    targets.put(some, slice(0, 3), slice(0, 3))
    targets.put(others, slice(3, 5), slice(3, 5))
    assert_odd(targets.columns(5), range(5))


def test_scattered_and_other_samples_are_joined():
    first = scattered([10], np.arange(10))
    rest = joined([(first, slice(4, 8), 4)])
    assert_odd(rest, range(4, 8))
    both = joined([(first, slice(0, 2), 2), (rest, slice(None), 4)])
    assert_odd(both, [0, 1, 4, 5, 6, 7])


def test_other_layouts_and_kinds_are_refused():
    some, others = scattered([3], np.arange(3)), scattered([3], np.arange(3))
    targets = targets_for(some, 6, FreshMemory())
    with pytest.raises(SampleShapeError, match="another layout"):
        targets.put(others, slice(0, 3), slice(0, 3))
    runs = Ragged([memoryview(b"abc")], np.array([[0, 0, 3]]), "bytes")
    texts = Ragged([memoryview(b"abc")], np.array([[0, 0, 3]]), "str")
    numbers = Dense(np.arange(1))
    for one, other in ((runs, texts), (runs, numbers), (numbers, runs)):
        targets = targets_for({"x": one}, 1, FreshMemory())
        with pytest.raises(SampleShapeError, match="field 'x' is "):
            targets.put({"x": other}, slice(0, 1), slice(0, 1))
    with pytest.raises(SampleShapeError, match=r"the fields \['y'\], others \['x'\]"):
        targets.put({"y": numbers}, slice(0, 1), slice(0, 1))


def immutable(files):
    return RecordFiles(files.paths, files.schema, immutable=True)


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"copy": True}])
def test_mapped_files_give_the_same_samples(tmp_path, images, options):
    def read(files):
        with DataLoader(files, 7, shuffle=True, **options) as loader:
            return [{name: array.copy() for name, array in batch.items()} for batch in loader]

    for batch, expected in zip(read(immutable(images)), read(images), strict=True):
        assert np.array_equal(batch["image"], expected["image"])
        assert np.array_equal(batch["label"], expected["label"])


def test_blocks_are_larger_while_runs_are_mapped_and_hold_no_memory(notes, monkeypatch):
    monkeypatch.setattr(_pass, "_RUNS_BYTES", 1)
    fetched, fetch = [], Cursor.fetch

    def noting(self, positions):
        fetched.append(len(positions))
        return fetch(self, positions)

    monkeypatch.setattr(Cursor, "fetch", noting)

    def read(files):
        fetched.clear()
        with DataLoader(files, 5, shuffle=True) as loader:
            texts = [batch["note"].tolist() for batch in loader]
        return texts, max(fetched)

    expected, most = read(notes)
    assert most == 5
    texts, most = read(immutable(notes))
    assert texts == expected
    assert most > 5


def test_runs_of_which_some_take_memory_are_not_all_mapped():
    mapped, read = (
        Ragged([memoryview(b"abcde")], np.array([[0, 0, 3], [0, 3, 5]]), "bytes", is_mapped=flag)
        for flag in (True, False)
    )
    for columns, are_mapped in (([mapped, mapped], True), ([mapped, read], False)):
        both = joined([({"x": column}, slice(0, 2), 2) for column in columns])["x"]
        assert both.is_mapped is are_mapped
        assert both.array(1, 4).tolist() == [b"de", b"abc", b"de"]
        assert [both.num_bytes(1, 4), both.num_bytes(4, 4), both.num_bytes(0, 4)] == [7, 0, 10]


@pytest.mark.parametrize("verify", ["always", "first", "never"])
def test_mapped_chunks_are_verified_when_asked_for(tmp_path, verify):
    files = immutable(write_images(tmp_path, [6]))
    with DataLoader(files, 3, shuffle=True, verify=verify) as loader:
        if verify != "never":
            assert sorted(labels(loader)) == list(range(6))
        path = tmp_path / "images-0"
        with path.open("r+b") as file:
            file.seek(RecordIndex.load(path).chunks[1].offset_bytes + 100)
            file.write(b"\xff\xfe")
        if verify == "always":
            with pytest.raises(ChecksumError, match="images-0"):
                list(loader)
        else:
            assert len(labels(loader)) == 6


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_chunk_that_two_lanes_share_is_decoded_once(tmp_path, monkeypatch, codec):
    decoded = []
    real = RecordIOChunks.decode

    def counted(self, info, *args, **options):
        decoded.append(info.offset_bytes)
        return real(self, info, *args, **options)

    monkeypatch.setattr(RecordIOChunks, "decode", counted)
    files = write_images(tmp_path, [100], codec)
    with DataLoader(files, 8, shuffle=True) as loader:
        assert sorted(labels(loader)) == list(range(100))
        assert sorted(decoded) == sorted(set(decoded))
        decoded.clear()
        assert sorted(labels(loader)) == list(range(100))
        assert sorted(decoded) == sorted(set(decoded))
        monkeypatch.setattr(_kept, "_MAX_KEPT_BYTES", 0)
        decoded.clear()
        assert sorted(labels(loader)) == list(range(100))
        assert len(decoded) > len(set(decoded))


def test_what_is_kept_of_chunks_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(_kept, "_MAX_KEPT_BYTES", 30_000)
    with DataLoader(write_images(tmp_path, [100], Codec.LZ4), 8, shuffle=True) as loader:
        kept = loader._runner._engine.children[0][0]._chunks._kept
        for _ in loader:
            assert sum(framing.nbytes for framing, _ in kept._chunks.values()) <= 30_000
        assert not kept._chunks
        assert kept._num_bytes == 0


@pytest.mark.parametrize("is_immutable", [False, True])
@pytest.mark.parametrize("verify", ["always", "first"])
def test_records_are_found_once_unless_always_verified(
    tmp_path, notes, monkeypatch, is_immutable, verify
):
    found, real = [], _ragged.record_places
    monkeypatch.setattr(_ragged, "record_places", lambda *args: found.append(args) or real(*args))
    files = RecordFiles(notes.paths, NOTES, immutable=is_immutable)
    with DataLoader(files, 7, shuffle=True, verify=verify) as loader:
        for _ in range(2):
            rows = {
                int(label): blob
                for batch in loader
                for label, blob in zip(batch["label"], batch["blob"], strict=True)
            }
            assert rows == {i: note(i)["blob"] for i in range(60)}
            num_found, found[:] = len(found), []
    assert num_found if verify == "always" else not num_found


def test_a_schema_without_fixed_fields_is_read(tmp_path):
    schema = Schema((Field("a", "bytes"), Field("b", "str")))
    codec = TypedCodec(schema)
    with RecordWriter(tmp_path / "x") as writer:
        for i in range(50):
            writer.write(codec.encode({"a": b"a" * i, "b": str(i)}))
    with DataLoader(RecordFiles(tmp_path / "x", schema), 9, shuffle=True) as loader:
        rows = {b: a for batch in loader for a, b in zip(batch["a"], batch["b"], strict=True)}
    assert rows == {str(i): b"a" * i for i in range(50)}
