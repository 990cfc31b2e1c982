"""Files by the original library are read here, and files from here are read by it.

All files are made in each run. The original is the package ``recordio`` 0.1.7, which writes
snappy and reads none, snappy and gzip; ``TEST_RECORDIO_ORIGINAL`` is the folder it lies in.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from trainfeed.recordio import (
    Codec,
    RandomAccess,
    RecordAppender,
    RecordIndex,
    RecordScanner,
    RecordWriter,
    verify_shard,
)

SCRIPT = Path(__file__).with_name("original.py")
CODECS = [Codec.NONE, Codec.SNAPPY, Codec.GZIP]
LISTS = {
    "none": [],
    "one": [b"hello"],
    "empty": [b""],
    "empties": [b""] * 300,
    "mixed": [b"", b"a", b"", b"b" * 70_000, b"", bytes(range(256)) * 300],
    "like a chunk": [bytes.fromhex("0403020100000000000000000000000000000000") * 3],
}


def run(command, paths, lines=""):
    home = os.environ["TEST_RECORDIO_ORIGINAL"]
    done = subprocess.run(
        [sys.executable, SCRIPT, command, *map(str, paths)],
        input=lines,
        env={"PYTHONPATH": home},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_by_original(files):
    lines = "".join("".join(r.hex() + "\n" for r in records) + "-\n" for records in files.values())
    run("write", files, lines)


def read_by_original(paths):
    files, records = [], []
    for line in run("read", paths).splitlines():
        if line == "-":
            files.append(records)
            records = []
        else:
            records.append(bytes.fromhex(line))
    return files


def random_lists(seed, number):
    generator = random.Random(seed)
    for _ in range(number):
        largest = generator.choice([0, 5, 300, 70_000])
        size = generator.randrange(40 if largest > 300 else 400)
        letters = generator.choice([2, 256])
        yield [
            bytes(generator.choices(range(letters), k=generator.randint(0, largest)))
            for _ in range(size)
        ]


def all_lists():
    return {**LISTS, **{f"random {i}": one for i, one in enumerate(random_lists(5, 12))}}


def test_what_the_original_writes_is_read_here(tmp_path):
    files = {tmp_path / name: records for name, records in all_lists().items()}
    write_by_original(files)
    for path, records in files.items():
        assert list(RecordScanner(path)) == records
        index = verify_shard(path)
        assert index == RecordIndex.load(path)
        with RandomAccess(path) as access:
            assert access.get_many(range(len(records))) == records


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("max_chunk_bytes", [0, 100, 1 << 20])
def test_what_is_written_here_is_read_by_the_original(tmp_path, codec, max_chunk_bytes):
    lists = all_lists()
    for name, records in lists.items():
        with RecordWriter(tmp_path / name, codec=codec, max_chunk_bytes=max_chunk_bytes) as writer:
            for record in records:
                writer.write(record)
    assert read_by_original(tmp_path / name for name in lists) == list(lists.values())


def test_chunks_of_the_originals_size_go_both_ways(tmp_path):
    """Its chunks hold 32 MiB of records; ours of that size are cut at the same places."""
    records = [bytes([i]) * (11 << 20) for i in range(7)]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    write_by_original({theirs: records})
    with RecordWriter(ours, codec=Codec.SNAPPY, max_chunk_bytes=32 << 20) as writer:
        for record in records:
            writer.write(record)
    assert list(RecordScanner(theirs)) == records
    counts = [[c.num_records for c in RecordIndex.load(path).chunks] for path in (theirs, ours)]
    assert counts == [[2, 2, 2, 1]] * 2
    assert read_by_original([ours]) == [records]


def test_joined_files_of_several_codecs_are_read_alike(tmp_path):
    write_by_original({tmp_path / "a": [b"original"]})
    data = (tmp_path / "a").read_bytes() + bytes.fromhex("04030201" + "00" * 16)
    for codec in CODECS:
        with RecordWriter(tmp_path / codec.name, codec=codec) as writer:
            writer.write(codec.name.encode())
        data += (tmp_path / codec.name).read_bytes()
    (tmp_path / "joined").write_bytes(data)
    expected = [b"original", b"NONE", b"SNAPPY", b"GZIP"]
    assert list(RecordScanner(tmp_path / "joined")) == expected
    assert read_by_original([tmp_path / "joined"]) == [expected]


def test_what_is_appended_to_a_file_of_the_original_is_read_by_it(tmp_path):
    path = tmp_path / "a"
    write_by_original({path: [b"original"]})
    path.write_bytes(path.read_bytes() + b"\x04\x03\x02\x01 torn")
    with RecordAppender(path, codec=Codec.GZIP) as writer:
        assert writer.num_cut_bytes == 9
        writer.write(b"appended")
    assert read_by_original([path]) == [[b"original", b"appended"]]
    assert list(RecordScanner(path)) == [b"original", b"appended"]


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_the_original_ends_without_a_word_at_a_codec_of_ours(tmp_path, codec):
    """Why files with these codecs must not leave the project."""
    path = tmp_path / "a"
    with path.open("wb") as file:
        for kind in (Codec.NONE, codec):
            with RecordWriter(file, codec=kind) as writer:
                writer.write(kind.name.encode())
    assert read_by_original([path]) == [[b"NONE"]]
    assert list(RecordScanner(path)) == [b"NONE", codec.name.encode()]
