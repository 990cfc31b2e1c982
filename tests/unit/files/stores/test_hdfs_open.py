"""Whether a file of HDFS is still written, by the space that the NameNode counts for it."""

import pytest

from trainfeed.files.stores.hdfs import _is_open

BLOCK = 1 << 27
MIB = 1 << 20

# length, replicas, space counted → whether it is open
CASES = {
    "closed": (8, 3, 24, False),
    "closed, several blocks": (3 * BLOCK + 7, 3, 3 * (3 * BLOCK + 7), False),
    "open before its first byte shows": (0, 3, 3 * BLOCK, True),
    "open, some bytes show": (8, 3, 3 * BLOCK, True),
    "open in its second block": (BLOCK + 8, 2, 2 * 2 * BLOCK, True),
    "open in a new block": (BLOCK, 2, 2 * 2 * BLOCK, True),
    "empty": (0, 3, 0, None),
    "whole blocks": (2 * BLOCK, 3, 6 * BLOCK, None),
    "erasure-coded": (8, None, 24, None),
    "more replicas in a snapshot": (8, 2, 24, False),
    "more replicas in a snapshot, several blocks": (300 * MIB + 1, 2, 3 * (300 * MIB + 1), False),
    "more replicas in a snapshot, whole blocks": (BLOCK, 2, 3 * BLOCK, None),
    "open, more replicas in a snapshot": (8, 2, 3 * BLOCK, True),
    "truncated since a snapshot": (4, 3, 3 * 12, False),
    "truncated since a snapshot, to another length": (5, 3, 3 * 13, None),
    "truncated to nothing since a snapshot": (0, 3, 3 * 8, None),
}


@pytest.mark.parametrize(("length", "replicas", "space", "is_open"), CASES.values(), ids=CASES)
def test_space_tells_whether_a_file_is_open(length, replicas, space, is_open):
    assert _is_open(length, replicas, BLOCK, space) is is_open
