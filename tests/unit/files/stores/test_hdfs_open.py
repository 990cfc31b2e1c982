"""Whether a file of HDFS is still written, by the space that the NameNode counts for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.files.stores import FileInfo
from trainfeed.files.stores.hdfs import HdfsFileSystem, _closed, _is_open

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


def info(name, size, replicas=3, **more):
    known = {"is_dir": False, "replicas": replicas, "block_bytes": BLOCK, **more}
    return FileInfo(name, f"/{name}", size, 0, **known)


@st.composite
def files(draw):
    """A file as it is listed, and the space that the NameNode counts for it."""
    size = draw(st.sampled_from([0, 1, 8, MIB, BLOCK - 1, BLOCK, BLOCK + 8, 2 * BLOCK, 300 * MIB]))
    replicas = draw(st.integers(1, 3))
    space = size * replicas
    state = draw(st.sampled_from(["closed", "closed", "closed", "open", "in a snapshot"]))
    if state == "open":
        space = (size // BLOCK + 1) * BLOCK * replicas
    elif state == "in a snapshot":
        space += draw(st.sampled_from([0, 4, size, BLOCK]))
    return size, replicas, space


@given(st.lists(files(), max_size=6), st.integers(0, 1))
def test_a_folder_shows_files_as_closed_only_if_each_would_be(found, removed):
    entries = [info(str(n), size, replicas) for n, (size, replicas, _) in enumerate(found)]
    alone = {
        each.name
        for each, (size, replicas, space) in zip(entries, found, strict=True)
        if _is_open(size, replicas, BLOCK, space) is False
    }
    consumed = sum(space for _, _, space in found)
    closed = _closed(entries, len(entries) + removed, consumed)
    assert closed <= alone
    # Without a file that only a snapshot has, and with no space but that of the files.
    if not removed and all(space == size * replicas for size, replicas, space in found):
        assert closed == alone


@pytest.mark.parametrize("other", [{"replicas": None}, {"block_bytes": None}, {"replicas": 0}])
def test_a_folder_with_a_link_or_an_erasure_coded_file_shows_nothing(other):
    entries = [info("a", 8), info("b", 8, **other)]
    assert not _closed(entries, 2, 8 * 3 + 8 * (other.get("replicas", 3) or 0))


def test_of_a_folder_with_folders_nothing_is_asked():
    entries = [info("a", 8), info("b", 0, is_dir=True)]
    # No NameNode answers at this address.
    assert not HdfsFileSystem("127.0.0.1:1").closed_files("/", entries)
    assert not HdfsFileSystem("127.0.0.1:1").closed_files("/", [])
