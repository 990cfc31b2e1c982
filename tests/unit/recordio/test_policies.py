"""Damage policies: returned records are verified, and the report accounts for all others."""

from __future__ import annotations

import io
import os
import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConfigError,
    FormatError,
    TruncatedError,
)
from trainfeed.recordio import (
    Codec,
    DamagePolicy,
    DamageReport,
    RecordIndex,
    RecordScanner,
    RecordWriter,
    iter_chunks,
    split_records,
)

HEADER_BYTES = 20
TAIL = DamagePolicy.tolerate_truncated_tail()


def chunk_of(records, codec):
    file = io.BytesIO()
    with RecordWriter(file, codec=codec) as writer:
        for record in records:
            writer.write(record)
    return file.getvalue()


# A record that holds a whole chunk, which a search by magic alone would take for one of the file.
EMBEDDED = chunk_of([b"not a record of this file"], Codec.NONE)
CHUNKS = [
    [b"Hello", b""],
    [b"\x04\x03\x02\x01" * 3, EMBEDDED, b"World!"],
    [b"x" * 30],
    [b"end", b"of file"],
]


def shard(codec, chunks=CHUNKS):
    """Return a file, and where its chunks start and the last one ends."""
    parts = [chunk_of(records, codec) for records in chunks]
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return b"".join(parts), ends


def read(data, policy, report=None):
    """Return the records of every chunk that came out, and the report."""
    report = DamageReport() if report is None else report
    found = [
        [bytes(record) for record in split_records(framing, info.num_records)]
        for info, framing in iter_chunks(io.BytesIO(data), on_damage=policy, report=report)
    ]
    return found, report


def assert_accounts_for(report, size, given_out):
    """Dropped ranges and chunks given out cover the file, each byte once."""
    taken = [(part.start_bytes, part.end_bytes) for part in report.dropped] + given_out
    taken.sort()
    assert [0, *(end for _, end in taken)] == [*(start for start, _ in taken), size]


@pytest.mark.parametrize("codec", Codec)
def test_skipping_loses_the_chunk_of_a_flipped_bit_and_no_other(codec):
    """RD-01 and RD-02, exhaustive."""
    data, ends = shard(codec)
    for bit in range(8 * len(data)):
        number = next(n for n, end in enumerate(ends[1:]) if bit // 8 < end)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found, report = read(flipped, DamagePolicy.skip_chunk(max=1))
        assert found == CHUNKS[:number] + CHUNKS[number + 1 :], f"bit {bit}"
        (dropped,) = report.dropped
        assert (dropped.start_bytes, dropped.end_bytes) == (ends[number], ends[number + 1])
        assert report.num_bytes == ends[number + 1] - ends[number]
        assert (report.num_chunks, dropped.path) == (1, None)
        in_header = bit // 8 - ends[number] < HEADER_BYTES
        assert report.num_records == len(CHUNKS[number]) or (in_header and not report.num_records)
        assert dropped.reason.startswith(f"chunk {number}: expected") or in_header


@pytest.mark.parametrize("codec", Codec)
def test_every_prefix_gives_its_whole_chunks(codec):
    """RD-03, exhaustive, for both policies; no torn chunk holds a whole one here."""
    chunks = [[record for record in records if record != EMBEDDED] for records in CHUNKS]
    data, ends = shard(codec, chunks)
    for size in range(len(data) + 1):
        whole = max(end for end in ends if end <= size)
        for policy in (TAIL, DamagePolicy.skip_chunk(max=1)):
            found, report = read(data[:size], policy)
            number = ends.index(whole)
            assert found == chunks[:number]
            assert_accounts_for(report, size, list(pairwise(ends[: number + 1])))
            if size > whole:
                assert report.num_chunks == 1
                known = size - whole >= HEADER_BYTES
                assert report.num_records == (len(chunks[number]) if known else None)


@pytest.mark.parametrize("codec", Codec)
def test_tail_policy_raises_at_every_flipped_bit(codec):
    """A damaged length looks like a torn chunk; the checksum tells."""
    data, _ = shard(codec)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        report = DamageReport()
        with pytest.raises(FormatError):
            read(flipped, TAIL, report)
        assert not report.dropped, f"bit {bit}"


@given(
    st.lists(st.lists(st.binary(max_size=12), min_size=1, max_size=4), max_size=5),
    st.sampled_from(Codec),
    st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=24)), max_size=4),
    st.integers(0, 400),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_whatever_is_overwritten_only_true_chunks_come_out_and_the_rest_is_accounted_for(
    chunks, codec, writes, cut
):
    data, ends = shard(codec, chunks)
    damaged = bytearray(data)
    for offset, garbage in writes:
        damaged[offset : offset + len(garbage)] = garbage[: max(len(damaged) - offset, 0)]
    damaged = damaged[: max(len(damaged) - cut, 0)] if cut < len(damaged) else damaged
    intact = {
        (start, end): records
        for (start, end), records in zip(pairwise(ends), chunks, strict=True)
        if damaged[start:end] == data[start:end]
    }
    report, given_out = DamageReport(), []
    policy = DamagePolicy.skip_chunk(max=99)
    for info, framing in iter_chunks(io.BytesIO(damaged), on_damage=policy, report=report):
        place = (info.offset_bytes, info.end_bytes)
        given_out.append(place)
        # A magic before zeros is a chunk without records, also if damage made the zeros.
        if info.num_records:
            assert list(map(bytes, split_records(framing, info.num_records))) == intact[place]
    assert_accounts_for(report, len(damaged), given_out)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 19, 20, 21, 4096])
@pytest.mark.parametrize("kind", ["zeros", "ones", "text", "magics"])
@pytest.mark.parametrize("where", range(5))
def test_foreign_bytes_between_chunks_are_one_range(length, kind, where):
    """RD-07: holes, stale tails."""
    unit = {"zeros": b"\0", "ones": b"\xff", "text": b"HTTP/1.1 ", "magics": b"\4\3\2\1"}[kind]
    garbage = (unit * length)[:length]
    data, ends = shard(Codec.ZSTD)
    cut = ends[where]
    found, report = read(data[:cut] + garbage + data[cut:], DamagePolicy.skip_chunk(max=1))
    assert found == CHUNKS
    assert [(part.start_bytes, part.end_bytes) for part in report.dropped] == [(cut, cut + length)]


@pytest.mark.parametrize("policy", [TAIL, DamagePolicy.skip_chunk(max=1)])
def test_torn_file_with_another_one_joined_to_it(policy):
    """The torn chunk ends nowhere; only a search finds what was appended without a look."""
    first, ends = shard(Codec.NONE, CHUNKS[2:])
    second, _ = shard(Codec.GZIP, CHUNKS[:1])
    for size in range(ends[1] + 1, len(first)):
        data = first[:size] + second
        if policy is TAIL:
            with pytest.raises(FormatError):
                read(data, policy)
            continue
        found, report = read(data, policy)
        assert found == [CHUNKS[2], CHUNKS[0]]
        assert [(part.start_bytes, part.end_bytes) for part in report.dropped] == [(ends[1], size)]


def test_damaged_neighbours_with_good_headers_are_ranges_of_their_own():
    data, ends = shard(Codec.NONE)
    damaged = bytearray(data)
    for number in (0, 1, 3):
        damaged[ends[number + 1] - 1] ^= 1
    found, report = read(damaged, DamagePolicy.skip_chunk(max=3))
    assert found == [CHUNKS[2]]
    assert report.num_chunks == 3
    assert report.num_records == sum(len(CHUNKS[number]) for number in (0, 1, 3))


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_more_damage_than_allowed_is_an_error(allowed):
    data, ends = shard(Codec.NONE)
    damaged = bytearray(data)
    for end in ends[1:4]:
        damaged[end - 1] ^= 1
    message = f"chunk {allowed}: .*; {allowed} ranges were dropped before, {allowed} may be"
    with pytest.raises(ChecksumError, match=message) as caught:
        read(damaged, DamagePolicy.skip_chunk(max=allowed))
    assert caught.value.offset_bytes == ends[allowed]


def test_scanner_counts_over_all_files_and_anew_each_time(tmp_path):
    data, ends = shard(Codec.LZ4)
    for number in range(3):
        damaged = bytearray(data)
        damaged[ends[number + 1] - 1] ^= 1
        (tmp_path / f"part-{number}").write_bytes(damaged)
    scanner = RecordScanner(f"{tmp_path}/*", on_damage=DamagePolicy.skip_chunk(max=3))
    expected = [
        record
        for lost in range(3)
        for number, records in enumerate(CHUNKS)
        for record in records
        if number != lost
    ]
    for _ in range(2):
        assert list(scanner) == expected
        dropped = [(part.path, part.start_bytes) for part in scanner.report.dropped]
        assert dropped == [(str(tmp_path / f"part-{number}"), ends[number]) for number in range(3)]
    strict = RecordScanner(f"{tmp_path}/*", on_damage=DamagePolicy.skip_chunk(max=2))
    with pytest.raises(ChecksumError, match="2 ranges were dropped before"):
        list(strict)
    assert strict.report.num_chunks == 2


def test_scanner_goes_on_with_the_file_behind_a_torn_one(tmp_path):
    data, ends = shard(Codec.ZSTD)
    (tmp_path / "a").write_bytes(data[: ends[2] + 30])
    (tmp_path / "b").write_bytes(data)
    scanner = RecordScanner(f"{tmp_path}/*", on_damage=TAIL)
    assert list(scanner) == [
        record for part in (CHUNKS[:2], CHUNKS) for records in part for record in records
    ]
    assert scanner.report.num_bytes == 30


def test_intact_file_reports_nothing():
    data, _ = shard(Codec.SNAPPY)
    for policy in (TAIL, DamagePolicy.skip_chunk(max=0)):
        assert read(data, policy) == (CHUNKS, DamageReport())
        assert read(b"", policy) == ([], DamageReport())


def test_empty_chunks_are_kept_and_dropped_like_others(chunk):
    data = chunk(b"", 0) + chunk_of([b"a"], Codec.NONE) + chunk(b"", 0)
    assert read(data, TAIL)[0] == [[], [b"a"], []]
    for bit in range(8 * HEADER_BYTES):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found, report = read(flipped, DamagePolicy.skip_chunk(max=1))
        assert found == [[b"a"], []]
        assert [part.end_bytes for part in report.dropped] == [HEADER_BYTES], f"bit {bit}"


def test_magic_before_zeros_is_no_chunk_to_go_on_with():
    """A hole behind a record that holds a magic looks like a chunk without records."""
    good = chunk_of([b"good"], Codec.NONE)
    hole = bytes(30) + b"\4\3\2\1" + bytes(30)
    found, report = read(hole + good, DamagePolicy.skip_chunk(max=1))
    assert (found, report.num_bytes) == ([[b"good"]], len(hole))


def test_unwritten_policies_are_refused():
    with pytest.raises(ConfigError, match="expected max from 0, got -1"):
        DamagePolicy.skip_chunk(max=-1)
    with pytest.raises(ConfigError, match="pass report="):
        next(iter_chunks(io.BytesIO(), on_damage=TAIL))


def test_other_layout_is_an_error_under_every_policy(frame):
    import zlib

    payload = frame(b"Hello")
    words = (0x01020304, 1, zlib.crc32(payload), 0, len(payload))
    data = b"".join(word.to_bytes(4, "little") for word in words) + payload
    with pytest.raises(FormatError, match="Fluid layout, not Go layout; read its records with"):
        read(data, DamagePolicy.skip_chunk(max=9))


def test_magic_across_two_windows_of_the_search_is_found():
    """The search reads a mebibyte at a time."""
    good = chunk_of([b"good"], Codec.NONE)
    for length in range((1 << 20) - 4, (1 << 20) + 3):
        found, report = read(bytes(length) + good, DamagePolicy.skip_chunk(max=1))
        assert (found, report.num_bytes) == ([[b"good"]], length)


def test_chunk_beyond_the_limit_is_dropped_and_not_decoded():
    large = chunk_of([bytes(5000)], Codec.ZSTD)
    data = large + chunk_of([b"small"], Codec.NONE)
    report = DamageReport()
    options = {"on_damage": DamagePolicy.skip_chunk(max=1), "report": report}
    infos = [info for info, _ in iter_chunks(io.BytesIO(data), max_raw_bytes=3000, **options)]
    assert [info.offset_bytes for info in infos] == [len(large)]
    assert "raise max_raw_bytes" in report.dropped[0].reason


def test_file_of_magics_ends_in_an_error_and_not_in_hours():
    """Each of them announces a payload that almost reaches the end, with a wrong checksum."""
    rows = 40_000
    headers = [
        b"\4\3\2\1\1\0\0\0\0\0\0\0"
        + (20 * (rows - row) - 21).to_bytes(4, "little", signed=True)
        + b"\1\0\0\0"
        for row in range(rows)
    ]
    started = time.monotonic()
    with pytest.raises(FormatError, match="more places that look like a chunk"):
        read(b"".join(headers), DamagePolicy.skip_chunk(max=rows))
    assert time.monotonic() - started < 60


def test_random_bytes_never_give_a_record():
    choose = random.Random(3)
    for _ in range(50):
        data = choose.randbytes(choose.randrange(1, 3000))
        found, report = read(data, DamagePolicy.skip_chunk(max=1))
        assert (found, report.num_bytes, report.num_records) == ([], len(data), None)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    for open_it in (RecordIndex.load, lambda path: list(RecordScanner(path))):
        with pytest.raises(FormatError, match=r"expected a plain file, got .*odd"):
            open_it(path)


def test_default_stays_strict():
    data, ends = shard(Codec.NONE)
    with pytest.raises(TruncatedError):
        list(iter_chunks(io.BytesIO(data[:-1])))
    with pytest.raises(BadMagicError):
        list(iter_chunks(io.BytesIO(data[: ends[1]] + bytes(40) + data[ends[1] :])))
