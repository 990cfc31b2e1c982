"""cache: lazy, whole passes only, bounded, and gone with its reader."""

import errno
import os

import numpy as np
import pytest

from trainfeed.decorators import batch, cache, chain
from trainfeed.errors import MemoryLimitError, QuotaExceededError
from trainfeed.readers import np_array


class Counted:
    def __init__(self, samples):
        self.samples = samples
        self.passes = 0

    def __call__(self):
        self.passes += 1
        yield from self.samples


def test_nothing_is_read_before_the_first_pass_and_only_once():
    source = Counted([None, (1, 2), "x"])
    reader = cache(source)
    assert source.passes == 0
    assert list(reader()) == list(reader()) == [None, (1, 2), "x"]
    assert source.passes == 1


def test_a_pass_that_was_left_does_not_count():
    source = Counted(range(10))
    reader = cache(source)
    for sample in reader():
        if sample == 5:
            break
    assert list(reader()) == list(reader()) == list(range(10))
    assert source.passes == 2


def test_a_pass_that_failed_does_not_count():
    def read():
        yield 1
        if fail:
            raise OSError("once")
        yield 2

    reader, fail = cache(read), [True]
    with pytest.raises(OSError, match="once"):
        list(reader())
    fail.clear()
    assert list(reader()) == list(reader()) == [1, 2]


def test_no_sample_is_a_whole_pass():
    source = Counted([])
    reader = cache(source)
    assert list(reader()) == list(reader()) == []
    assert source.passes == 1


@pytest.mark.parametrize("max_bytes", [0, 1000, 40_000, 1 << 30])
def test_what_has_no_room_in_memory_goes_to_a_file(tmp_path, max_bytes):
    samples = [(i, np.full(100, i), str(i)) for i in range(100)]
    source = Counted(samples)
    reader = cache(source, max_bytes=max_bytes, spill_dir=tmp_path)
    for _ in range(3):
        for got, expected in zip(reader(), samples, strict=True):
            assert got[0] == expected[0]
            assert np.array_equal(got[1], expected[1])
            assert got[2] == expected[2]
    assert source.passes == 1
    assert list(tmp_path.iterdir()) == []


def test_memory_holds_what_it_may_and_no_more(tmp_path):
    samples = [np.zeros(1000) for _ in range(10)]
    reader = cache(lambda: iter(samples), max_bytes=45_000, spill_dir=tmp_path)
    list(reader())
    kept = [got is sample for got, sample in zip(reader(), samples, strict=True)]
    assert kept == [True] * 5 + [False] * 5


def test_two_passes_over_a_file_do_not_disturb_each_other(tmp_path):
    reader = cache(lambda: iter(range(5000)), max_bytes=0, spill_dir=tmp_path)
    list(reader())
    assert list(zip(reader(), reader(), strict=True)) == [(i, i) for i in range(5000)]


def test_a_file_that_grows_too_large_is_told(tmp_path):
    big = (np.zeros(100_000) for _ in range(100))
    reader = cache(lambda: big, max_bytes=0, spill_dir=tmp_path, max_spill_bytes=3 << 20)
    with pytest.raises(MemoryLimitError, match="max_spill_bytes of cache"):
        list(reader())


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    reader = cache(lambda: iter(range(10)), max_bytes=0, spill_dir=tmp_path)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(QuotaExceededError):
        list(reader())


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match="max_bytes"):
        cache(lambda: iter([]), max_bytes=-1)


def test_blocks_are_kept_as_blocks(tmp_path):
    source = chain(np_array(np.arange(5)), np_array(np.arange(3)))
    for max_bytes in (0, 1 << 20):
        reader = cache(source, max_bytes=max_bytes, spill_dir=tmp_path)
        for _ in range(2):
            assert list(reader()) == [0, 1, 2, 3, 4, 0, 1, 2]
            assert [len(block["value"]) for block in reader.blocks()] == [5, 3]
    assert list(cache(batch(source, 6))()) == [[0, 1, 2, 3, 4, 0], [1, 2]]
