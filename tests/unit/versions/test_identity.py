"""The vectors of the data set format: identity of records."""

import numpy as np
import pytest

from trainfeed.versions.order import kafka_source, position_hash, source_hash

VECTORS = [
    ("kafka:flights/0", 0, 0, 0, 0x9D3B6D300D45EBB2),
    ("kafka:flights/0", 7, 0, 0, 0xE48DF865EF027EB4),
    ("kafka:flights/0", 7, 1, 0, 0x14BBF4C11B53D9C0),
    ("kafka:flights/0", 7, 1, 1, 0xFE3C80BEBBAF1BDA),
    ("kafka:flights/0", 7, 12345678901, 0, 0x3A88AA37AA61F857),
    ("kafka:flights/3", 7, 0, 0, 0x91749AF8873B40E7),
    ("logs:dt=2013-01-01/part-00000.txt", 7, 1, 1, 0xD9B546DEE9648B78),
]


@pytest.mark.parametrize(("source", "seed", "offset", "ordinal", "expected"), VECTORS)
def test_position_hashes_equal_the_vectors(source, seed, offset, ordinal, expected):
    hashes = position_hash(seed, source_hash(source), np.array([offset]), np.array([ordinal]))
    assert int(hashes[0]) == expected


def test_source_hashes_equal_the_vectors():
    assert source_hash(kafka_source("flights", 0)) == 0x79E08A47561DAF77
    assert source_hash("logs:dt=2013-01-01/part-00000.txt") == 0x6577A81766648A0A


def test_many_sources_hash_as_each_alone():
    sources = np.array([source_hash("kafka:a/0"), source_hash("kafka:b/1")], dtype=np.uint64)
    together = position_hash(7, sources, np.array([5, 6]), np.array([0, 1]))
    alone = [
        int(position_hash(7, int(sources[0]), np.array([5]), 0)[0]),
        int(position_hash(7, int(sources[1]), np.array([6]), 1)[0]),
    ]
    assert together.tolist() == alone


def test_a_seed_above_64_bits_wraps():
    one = position_hash(7, 1, np.array([1]))
    other = position_hash(7 + (1 << 64), 1, np.array([1]))
    assert one == other
