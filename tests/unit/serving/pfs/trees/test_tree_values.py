"""Values of trees: names of unfinished copies, and digests of files."""

import hashlib

from trainfeed.files import is_unfinished
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    FileDigests,
    SourceState,
    chunk_count,
    chunk_size,
    unfinished_file_name,
)

STATE = SourceState(10, 20, "0" * 32)


def test_the_name_of_an_unfinished_copy_depends_on_target_and_source_only():
    name = unfinished_file_name("a", STATE)
    assert name == unfinished_file_name("a", SourceState(10, 20, "0" * 32))
    others = [
        unfinished_file_name("b", STATE),
        unfinished_file_name("a", SourceState(11, 20, "0" * 32)),
        unfinished_file_name("a", SourceState(10, 21, "0" * 32)),
        unfinished_file_name("a", SourceState(10, 20, "1" * 32)),
    ]
    assert len({name, *others}) == 5


def test_the_name_of_an_unfinished_copy_fits_beside_every_name():
    name = unfinished_file_name("\udcff" * 255, STATE)
    assert is_unfinished(name)
    assert len(name.encode()) < 64


def test_chunks_cover_a_file_and_its_digest_is_that_of_their_digests():
    assert [chunk_count(size) for size in (0, 1, CHUNK_BYTES, CHUNK_BYTES + 1)] == [0, 1, 1, 2]
    assert [chunk_size(CHUNK_BYTES + 3, index) for index in range(2)] == [CHUNK_BYTES, 3]
    chunks = (hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest())
    whole = hashlib.sha256(chunks[0] + chunks[1]).hexdigest()
    assert FileDigests(2, chunks).sha256_of_chunks == whole
