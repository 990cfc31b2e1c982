"""Readers without an end, through every decorator but ``cache``: requested samples arrive."""

import itertools

import numpy as np
import pytest

from trainfeed.decorators import (
    Fake,
    as_batches,
    batch,
    buffered,
    chain,
    compose,
    feed,
    firstn,
    map_blocks,
    map_readers,
    multiprocess_reader,
    resumable,
    shuffle,
    strict_batches,
    xmap_readers,
)
from trainfeed.readers import BlockSource, RowForm


def numbers():
    return itertools.count()


def endless_blocks():
    return ({"x": np.arange(start, start + 3)} for start in itertools.count(0, 3))


BLOCKS = BlockSource(endless_blocks, form=RowForm.VALUE)

DECORATORS = {
    "map_readers": lambda r: map_readers(abs, r),
    "chain": lambda r: chain(r, r),
    "compose": lambda r: compose(r, r),
    "shuffle": lambda r: shuffle(r, 1),
    "batch": lambda r: batch(r, 1),
    "as_batches": lambda r: as_batches(r, 1),
    "firstn": lambda r: firstn(r, 1 << 60),
    "buffered": lambda r: buffered(r, 5),
    "xmap_readers": lambda r: xmap_readers(abs, r, 2, 2, order=True),
    "xmap_readers, processes": lambda r: xmap_readers(abs, r, 2, 2, True, use_processes=True),
    "multiprocess_reader": lambda r: multiprocess_reader([r]),
    "Fake": lambda r: map_readers(sum, Fake()(batch(r, 1), 1 << 60), r),
    "feed": lambda r: feed(batch(r, 1), {"x": 0}),
    "strict_batches": lambda r: strict_batches(batch(map_readers(lambda x: (x,), r), 1)),
    "resumable": resumable,
    "all of it": lambda r: resumable(buffered(batch(shuffle(chain(r), 1), 1), 2)),
}


@pytest.mark.parametrize("source", [numbers, BLOCKS], ids=["samples", "blocks"])
@pytest.mark.parametrize("name", DECORATORS)
def test_a_reader_without_an_end_is_read_as_far_as_asked(name, source):
    samples = DECORATORS[name](source)()
    assert [int(np.ravel(flat(sample))[0]) for sample in itertools.islice(samples, 7)] == list(
        range(7)
    )
    samples.close()


def flat(sample):
    return sample["x"] if isinstance(sample, dict) else sample


def test_blocks_without_an_end_are_mapped_as_far_as_asked():
    blocks = map_blocks(lambda block: block, BLOCKS).blocks()
    assert [block["x"].tolist() for block in itertools.islice(blocks, 2)] == [[0, 1, 2], [3, 4, 5]]
    blocks.close()
