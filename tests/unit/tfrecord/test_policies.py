"""Damage policies: returned records are verified, and the report accounts for all others."""

from __future__ import annotations

import io
import random
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.tfrecord import TFRecordReader, TFRecordWriter, iter_records
from trainfeed.tfrecord.format import masked
from trainfeed.tfrecord.read import _length_of

TAIL = DamagePolicy.tolerate_truncated_tail()
HEADER_BYTES = 12


def file_of(records, compression=""):
    file = io.BytesIO()
    with TFRecordWriter(file, compression) as writer:
        for record in records:
            writer.write(record)
    return file.getvalue()


def cut(records):
    """Return a file, and where its records start and the last one ends."""
    return file_of(records), [len(file_of(records[:i])) for i in range(len(records) + 1)]


# A record that holds a whole one, which a search for checksums would take for one of the file.
EMBEDDED = b"in front" + file_of([b"not a record of this file"]) + b"behind"
RECORDS = [b"Hello", b"", EMBEDDED, b"x" * 30, b"x" * 30, b"World!"]
PLAIN = [record for record in RECORDS if record != EMBEDDED]


def read(data, policy, report=None, **options):
    """Return the records that came out, and the report."""
    report = DamageReport() if report is None else report
    return list(iter_records(io.BytesIO(data), on_damage=policy, report=report, **options)), report


def skipping(number):
    return DamagePolicy.skip_chunk(max=number)


def ranges(report):
    return [(part.start_bytes, part.end_bytes) for part in report.dropped]


@pytest.mark.parametrize("compression", [None, ""])
def test_skipping_loses_the_record_of_a_flipped_bit_and_no_other(compression):
    """Exhaustive: header, length, data, both checksums; first, middle and last record."""
    data, ends = cut(RECORDS)
    for bit in range(8 * len(data)):
        number = next(n for n, end in enumerate(ends[1:]) if bit // 8 < end)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found, report = read(flipped, skipping(1), compression=compression)
        assert found == RECORDS[:number] + RECORDS[number + 1 :], f"bit {bit}"
        assert ranges(report) == [(ends[number], ends[number + 1])]
        assert (report.num_records, report.num_chunks) == (1, 1)
        assert report.dropped[0].reason.startswith(f"record {number}: expected masked CRC-32C")


def test_every_prefix_gives_its_whole_records():
    """Exhaustive, for both policies; no torn record holds a whole one here."""
    data, ends = cut(PLAIN)
    for size in range(len(data) + 1):
        number = max(n for n, end in enumerate(ends) if end <= size)
        for policy in (TAIL, skipping(1)):
            found, report = read(data[:size], policy)
            assert found == PLAIN[:number]
            if size == ends[number]:
                assert report == DamageReport()
                continue
            assert ranges(report) == [(ends[number], size)]
            assert report.num_records == (1 if size - ends[number] >= HEADER_BYTES else None)


def test_tail_policy_raises_at_every_flipped_bit():
    data, _ = cut(RECORDS)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        report = DamageReport()
        with pytest.raises(FormatError):
            read(flipped, TAIL, report)
        assert not report.dropped, f"bit {bit}"


@given(
    st.lists(st.binary(max_size=20), max_size=8),
    st.lists(st.tuples(st.integers(0, 300), st.binary(min_size=1, max_size=40)), max_size=4),
    st.integers(0, 300),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_whatever_is_overwritten_the_records_that_are_whole_come_out_and_no_other(
    records, writes, cut_bytes, batched
):
    data, ends = cut(records)
    damaged = bytearray(data)
    for offset, garbage in writes:
        damaged[offset : offset + len(garbage)] = garbage[: max(len(damaged) - offset, 0)]
    damaged = damaged[: len(damaged) - cut_bytes] if cut_bytes < len(damaged) else damaged
    intact = [
        record
        for (start, end), record in zip(pairwise(ends), records, strict=True)
        if damaged[start:end] == data[start:end]
    ]
    found, report = read(damaged, skipping(99))
    assert found == intact
    lost = sum(end - start for start, end in ranges(report))
    assert lost + len(file_of(found)) == len(damaged)
    assert report.num_records in {None, len(records) - len(intact)} or cut_bytes


@pytest.mark.parametrize("length", [1, 4, 11, 12, 16, 17, 4096])
@pytest.mark.parametrize("kind", ["zeros", "ones", "text"])
@pytest.mark.parametrize("where", range(len(RECORDS) + 1))
def test_foreign_bytes_between_records_are_one_range(length, kind, where):
    unit = {"zeros": b"\0", "ones": b"\xff", "text": b"HTTP/1.1 "}[kind]
    garbage = (unit * length)[:length]
    data, ends = cut(RECORDS)
    place = ends[where]
    found, report = read(data[:place] + garbage + data[place:], skipping(1))
    assert found == RECORDS
    assert ranges(report) == [(place, place + length)]


@pytest.mark.parametrize("place", [0, 4096, 8192, 12288])
def test_zeroed_page_loses_the_records_that_it_touches(place):
    records = [bytes([i]) * (37 * i % 900 + 1) for i in range(1, 60)]
    data, ends = cut(records)
    zeroed = data[:place] + bytes(4096) + data[place + 4096 :]
    assert len(data) == len(zeroed)
    whole = [
        record
        for (start, end), record in zip(pairwise(ends), records, strict=True)
        if end <= place or start >= place + 4096
    ]
    found, report = read(zeroed, skipping(2))
    assert found == whole
    assert report.num_bytes == len(data) - len(file_of(whole))


def test_damaged_neighbours_are_ranges_of_their_own():
    data, ends = cut(RECORDS)
    damaged = bytearray(data)
    # A checksum of data, a length, a checksum of a length, and data.
    for place in (ends[1] - 1, ends[2] + 1, ends[3] + 9, ends[5] + HEADER_BYTES):
        damaged[place] ^= 4
    found, report = read(damaged, skipping(4))
    assert found == [RECORDS[1], RECORDS[4]]
    assert ranges(report) == [(ends[i], ends[i + 1]) for i in (0, 2, 3, 5)]
    assert report.num_records == 4
    assert [part.reason[:9] for part in report.dropped] == [f"record {i}:" for i in (0, 2, 3, 5)]
    with pytest.raises(ChecksumError, match="3 ranges were dropped before, 3 may be"):
        read(damaged, skipping(3))


def test_torn_file_with_another_one_joined_to_it():
    """The torn record ends nowhere; only a search finds what was appended without a look."""
    first, ends = cut([b"a", b"y" * 50])
    second, second_ends = cut(PLAIN)
    for size in range(ends[1] + 1, len(first)):
        data = first[:size] + second
        # Where the torn record would end exactly with another one, that may be part of it.
        resumed = ends[2] - size if ends[2] - size in second_ends and size >= ends[1] + 12 else 0
        found, report = read(data, skipping(1))
        assert found == [b"a", *PLAIN[second_ends.index(resumed) :]]
        assert ranges(report) == [(ends[1], size + resumed)]
        with pytest.raises(FormatError):
            read(data, TAIL)


def test_length_that_points_behind_the_file_is_no_torn_tail_if_whole_records_follow(header):
    data = header(10_000) + b"some of it" + file_of(PLAIN)
    with pytest.raises(TruncatedError):
        read(data, TAIL)
    found, report = read(data, skipping(1))
    assert (found, report.num_records) == (PLAIN, None)


def test_record_across_two_windows_of_the_search_is_found():
    good = file_of([b"good"])
    for length in [*range(4080, 4100), *range(4096 + (1 << 14) - 30, 4096 + (1 << 14) + 3)]:
        found, report = read(bytes(length) + good, skipping(1))
        assert (found, report.num_bytes) == ([b"good"], length)


def test_reading_goes_on_in_the_same_block_and_behind_it():
    """Blocks have 256 KiB; damage lies in and across them."""
    choose = random.Random(5)
    records = [choose.randbytes(choose.choice([3, 700, 90_000])) for _ in range(60)]
    data, ends = cut(records)
    damaged = bytearray(data)
    lost = [0, 7, 8, 30, 59]
    for number in lost:
        damaged[ends[number + 1] - 2] ^= 1
    found, report = read(damaged, skipping(5))
    assert found == [record for i, record in enumerate(records) if i not in lost]
    assert ranges(report) == [(ends[i], ends[i + 1]) for i in lost]


def test_record_beyond_the_limit_is_dropped_and_not_read():
    data, ends = cut([b"a", bytes(5000), b"b"])
    found, report = read(data, skipping(1), max_record_bytes=3000)
    assert (found, ranges(report)) == ([b"a", b"b"], [(ends[1], ends[2])])
    assert "raise max_record_bytes" in report.dropped[0].reason


def test_records_are_counted_from_where_an_open_file_stands():
    data, ends = cut(RECORDS)
    damaged = bytearray(data)
    damaged[ends[4] - 1] ^= 1
    file = io.BytesIO(b"a header of somebody else" + damaged)
    file.seek(25)
    report = DamageReport()
    found = list(iter_records(file, on_damage=skipping(1), report=report))
    assert found == RECORDS[:3] + RECORDS[4:]
    assert ranges(report) == [(ends[3], ends[4])]


def test_reader_counts_over_all_files_and_anew_each_time(tmp_path):
    data, ends = cut(RECORDS)
    for number in range(3):
        damaged = bytearray(data)
        damaged[ends[number + 1] - 1] ^= 1
        (tmp_path / f"part-{number}").write_bytes(damaged)
    expected = [record for lost in range(3) for i, record in enumerate(RECORDS) if i != lost]
    reader = TFRecordReader(f"{tmp_path}/*", on_damage=skipping(3))
    for _ in range(2):
        assert list(reader) == expected
        dropped = [(part.path, part.start_bytes) for part in reader.report.dropped]
        assert dropped == [(str(tmp_path / f"part-{number}"), ends[number]) for number in range(3)]
    assert [len(batch) for batch in reader.iter_batches(4)] == [4, 4, 4, 3]
    few = TFRecordReader(f"{tmp_path}/*", on_damage=skipping(2))
    with pytest.raises(ChecksumError, match="2 ranges were dropped before"):
        list(few)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_file_is_lost_from_its_first_damage_on(compression):
    data = file_of(RECORDS, compression)
    plain, ends = cut(RECORDS)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found, report = read(flipped, skipping(1), compression=compression)
        assert found == RECORDS[: len(found)], f"bit {bit}"
        for part in report.dropped:
            assert part.start_bytes == ends[len(found)]
            assert part.start_bytes <= part.end_bytes
            assert part.num_records is None
        assert len(found) == len(RECORDS) or report.num_chunks == 1
    whole = zlib.compress(plain[:-1], 6, 31 if compression == "GZIP" else 15)
    assert read(whole, TAIL)[0] == RECORDS[:-1]


def test_intact_file_reports_nothing():
    data, _ = cut(RECORDS)
    for policy in (TAIL, skipping(0)):
        assert read(data, policy) == (RECORDS, DamageReport())
        assert read(b"", policy) == ([], DamageReport())


def test_lenient_policies_need_a_report():
    with pytest.raises(ConfigError, match="pass report="):
        next(iter_records(io.BytesIO(), on_damage=TAIL))


def test_both_checksums_are_needed_to_go_on():
    """A length whose checksum is wrong is none, nor one behind which the data are wrong."""
    record = file_of([b"data"])
    other_length = record[:8] + bytes([record[8] ^ 1]) + record[9:]
    other_data = record[:-1] + bytes([record[-1] ^ 1])
    for garbage in (b"?" * 20 + other_length, b"?" * 20 + other_data):
        found, report = read(garbage + file_of([b"good"]), skipping(1))
        assert (found, report.num_bytes) == ([b"good"], len(garbage))


def test_damage_everywhere_is_no_attack():
    """Every second header is lost, which has to be searched for 10,000 times."""
    records = [b"%019d" % n for n in range(20_000)]
    data = np.frombuffer(bytearray(file_of(records)), np.uint8).reshape(20_000, -1)
    data[::2, :HEADER_BYTES] = 0xFF
    found, report = read(data.tobytes(), skipping(10_000))
    assert (found, report.num_chunks) == (records[1::2], 10_000)


def test_random_bytes_never_give_a_record():
    choose = random.Random(3)
    for _ in range(50):
        data = choose.randbytes(choose.randrange(1, 3000))
        found, report = read(data, skipping(1), compression="")
        assert (found, report.num_bytes, report.num_records) == ([], len(data), None)


def test_file_of_lengths_ends_in_an_error_and_not_in_hours():
    """Each of them announces data that almost reach the end, with a wrong checksum."""
    rows = 40_000
    headers = bytearray(HEADER_BYTES * rows)
    for row in range(rows):
        length = struct.pack("<Q", HEADER_BYTES * (rows - row) - 17 if row < rows - 1 else 0)
        headers[HEADER_BYTES * row : HEADER_BYTES * (row + 1)] = length + struct.pack(
            "<I", masked(crc32c(length))
        )
    headers[0] ^= 1
    with pytest.raises(FormatError, match="more places that look like a record"):
        read(bytes(headers), skipping(rows))


@pytest.mark.parametrize("length", [0, 1, 255, 784, 2**16, 2**26 + 3, 2**31, 2**32 - 1])
def test_checksum_of_a_length_tells_the_length(length):
    assert _length_of(masked(crc32c(struct.pack("<Q", length)))) == length


def test_checksums_tell_all_lengths_apart():
    choose = np.random.default_rng(1)
    for length in choose.integers(0, 1 << 32, 200).tolist():
        assert _length_of(masked(crc32c(struct.pack("<Q", length)))) == length
