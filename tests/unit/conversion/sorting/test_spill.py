"""Spill files: sorted, verified, and read in parts that fit the memory."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from trainfeed.conversion.record_files import ConvertOptions
from trainfeed.conversion.sorting import RunBuilder, iter_sorted, sort_keys
from trainfeed.conversion.spill import Spill
from trainfeed.errors import FormatError


def records(count, size=None):
    return [b"%d" % n + b"." * (n % 7 if size is None else size) for n in range(count)]


def fill(spill, items, runs):
    """Append the items in that many runs."""
    bounds = [len(items) * i // runs for i in range(runs + 1)]
    for start, stop in itertools.pairwise(bounds):
        spill.append(sort_keys(0, np.arange(start, stop)), items[start:stop])


def in_order(items):
    return [items[i] for i in np.argsort(sort_keys(0, np.arange(len(items))))]


def read(spills, start, stop, **options):
    found = []
    for samples, low, high in iter_sorted(spills, start, stop, **options):
        found += [bytes(row) for row in samples.rows(low, high)]
    return found


@pytest.mark.parametrize("memory_bytes", [1 << 30, 20_000, 300])
@pytest.mark.parametrize("size", [None, 9, 0])
def test_samples_come_in_order_whatever_fits_the_memory(tmp_path, memory_bytes, size):
    items = records(1500, size)
    with Spill.anonymous(tmp_path) as spill:
        fill(spill, items, 4)
        assert read([spill], 0, 1500, memory_bytes=memory_bytes) == in_order(items)


@pytest.mark.parametrize("memory_bytes", [1 << 30, 5_000])
def test_a_range_of_ranks_is_a_slice_of_all(tmp_path, memory_bytes):
    items = records(500)
    with Spill.anonymous(tmp_path) as first, Spill.anonymous(tmp_path) as second:
        first.append(sort_keys(0, np.arange(200)), items[:200])
        second.append(sort_keys(0, np.arange(200, 500)), items[200:])
        expected = in_order(items)
        for start, stop in [(0, 500), (0, 0), (499, 500), (123, 321), (250, 250), (10, 11)]:
            found = read([first, second], start, stop, memory_bytes=memory_bytes)
            assert found == expected[start:stop]


@pytest.mark.parametrize("memory_bytes", [1 << 20, 1 << 16])
def test_arrays_and_single_records_keep_the_order_in_which_they_come(tmp_path, memory_bytes):
    items = records(300, 6)
    items = [item[:9].ljust(9, b".") for item in items]
    rows = np.array(items).view("V9")
    with Spill.anonymous(tmp_path) as spill:
        builder = RunBuilder(spill, 0, 0, ConvertOptions(memory_bytes=memory_bytes))
        for start in range(0, 300, 30):
            stop = start + 30
            builder.add_all(rows[start:stop] if start % 60 else items[start:stop])
        builder.flush()
        assert read([spill], 0, 300, memory_bytes=1 << 20) == in_order(items)


def test_what_is_consumed_gives_its_disk_back(tmp_path):
    items = [bytes([n % 251]) * 4096 for n in range(2000)]
    with Spill.anonymous(tmp_path) as spill:
        fill(spill, items, 3)
        os.fsync(spill._fd)
        full = os.fstat(spill._fd).st_blocks
        seen, blocks = [], []
        parts = iter_sorted([spill], 0, 2000, memory_bytes=1 << 20, consume=True)
        for samples, low, high in parts:
            seen += [bytes(row) for row in samples.rows(low, high)]
            blocks.append(os.fstat(spill._fd).st_blocks)
        assert seen == in_order(items)
        assert blocks == sorted(blocks, reverse=True)
        if spill._can_discard:
            assert blocks[-1] < full / 5


def blocks_left(spill, count, memory_bytes):
    """Consume all samples; return what share of the blocks on disk is still taken."""
    os.fsync(spill._fd)
    full = os.fstat(spill._fd).st_blocks
    for _ in iter_sorted([spill], 0, count, memory_bytes=memory_bytes, consume=True):
        pass
    return os.fstat(spill._fd).st_blocks / full


def test_what_is_consumed_gives_the_disk_of_its_keys_and_lengths_back(tmp_path):
    with Spill.anonymous(tmp_path) as spill:
        fill(spill, records(60_000), 2)
        left = blocks_left(spill, 60_000, 1 << 30)
        assert left < 0.2 or not spill._can_discard


def test_a_bucket_that_is_loaded_in_parts_gives_its_disk_back(tmp_path):
    # All keys are in one of the 1024 buckets.
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 54, 1000, np.uint64))
    with Spill.anonymous(tmp_path) as spill:
        spill.append(keys, records(1000, 4096))
        left = blocks_left(spill, 1000, 100_000)
        assert left < 0.2 or not spill._can_discard


def test_empty_records_do_not_keep_those_after_them_on_disk(tmp_path):
    # The first load has empty records only.
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 63, 4300, np.uint64) * 2)
    with Spill.anonymous(tmp_path) as spill:
        spill.append(keys, [b""] * 4000 + records(300, 16_384))
        left = blocks_left(spill, 4300, 100_000)
        assert spill._can_discard == spill_can_discard(tmp_path)
        assert left < 0.2 or not spill._can_discard


def spill_can_discard(folder):
    """Say whether this file system gives back what a file has a hole in."""
    with Spill.anonymous(folder) as spill:
        spill.append(np.arange(9, dtype=np.uint64), records(9, 4096))
        for part in spill.slices(0, 1024):
            spill.discard(part)
        return spill._can_discard


def test_one_bucket_that_does_not_fit_is_loaded_in_parts(tmp_path):
    # All keys are in one of the 1024 buckets.
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 54, 1000, np.uint64))
    items = records(1000)
    with Spill.anonymous(tmp_path) as spill:
        spill.append(keys[::2], items[::2])
        spill.append(keys[1::2], items[1::2])
        sizes = []
        for samples, low, high in iter_sorted([spill], 0, 1000, memory_bytes=4000):
            sizes += [bytes(row) for row in samples.rows(low, high)]
            assert len(samples) < 200
        assert sizes == items


def test_an_empty_spill_has_no_samples(tmp_path):
    with Spill.anonymous(tmp_path) as spill:
        assert read([spill], 0, 0, memory_bytes=100) == []


def test_every_byte_of_a_file_is_guarded(tmp_path):
    path = tmp_path / "spill"
    with path.open("xb", buffering=0) as file:
        fill(Spill(file, str(path)), records(40), 1)
    whole = path.read_bytes()
    # The tables of 1024 buckets are mostly alike: some places of each suffice.
    places = [*range(40), *range(40, 24_616, 801), *range(24_608, len(whole))]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(FormatError) as caught, Spill.open(path) as spill:
            read([spill], 0, 40, memory_bytes=1 << 20)
        assert caught.value.path == str(path)
    for length in range(1, len(whole), 997):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError), Spill.open(path) as spill:
            read([spill], 0, 40, memory_bytes=1 << 20)
