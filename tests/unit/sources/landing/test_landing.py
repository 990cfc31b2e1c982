"""Landing files, byte by byte where the format says so."""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pytest
import xxhash

from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.files.stores import Location
from trainfeed.sources import (
    LANDING_SCHEMA,
    LandingFile,
    LandingWriter,
    landing_folder,
    landing_name,
)

ROWS = [
    (3, 1_356_998_400_000, b"UA1545", b'{"flight": 1545}', [("trace", b"1"), ("empty", None)]),
    (4, -1, None, b"", []),
    (9, 4_070_908_800_000, b"", None, []),
    (10, 0, b"\xff\x00", b"\x00" * 1000, [("trace", b"")]),
]


def batch_of(rows):
    offsets, stamps, keys, values, headers = zip(*rows, strict=True)
    kinds = [1] * len(rows)
    columns = [offsets, stamps, kinds, keys, values, headers]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, LANDING_SCHEMA, strict=True)],
        schema=LANDING_SCHEMA,
    )


def lengths_of(texts):
    return b"".join(struct.pack("<i", -1 if each is None else len(each)) for each in texts)


def content_of(rows):
    """The digest as the format describes it, one stream after the other."""
    offsets, stamps, keys, values, headers = zip(*rows, strict=True) if rows else [[]] * 5
    names = [name.encode() for each in headers for name, _ in each]
    contents = [value for each in headers for _, value in each]
    streams = [
        b"".join(struct.pack("<q", each) for each in offsets),
        b"".join(struct.pack("<q", each) for each in stamps),
        b"\x01" * len(rows),
    ]
    for texts in (keys, values):
        streams += [lengths_of(texts), b"".join(each or b"" for each in texts)]
    streams.append(b"".join(struct.pack("<i", len(each)) for each in headers))
    for texts in (names, contents):
        streams += [lengths_of(texts), b"".join(each or b"" for each in texts)]
    return xxhash.xxh3_128_hexdigest(b"".join(map(xxhash.xxh3_128_digest, streams)))


def trailer_of(content, **more):
    entries = {"trailer": "2", **more, "content": content}
    return {key: each for key, each in entries.items() if each is not None}


def forged_bytes(batches, metadata):
    """A landing file with a trailer that its writer did not make."""
    file = io.BytesIO()
    trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
    with pa.ipc.new_file(file, LANDING_SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
        writer.write_batch(trailer, custom_metadata=metadata)
    return file.getvalue()


def landing_bytes(*batches, metadata=None):
    file = io.BytesIO()
    writer = LandingWriter(file)
    for batch in batches:
        writer.write(batch)
    writer.close(metadata or {})
    return file.getvalue()


def reopen(data):
    return LandingFile.open(io.BytesIO(data))


def test_names_are_the_planned_half_open_range():
    assert landing_name(0, 336776) == "00000000000000000000-00000000000000336776.arrow"
    assert landing_folder("flights", "YF--op_ZTWKWgzAUSQ9qIA", 3) == (
        "flights/YF--op_ZTWKWgzAUSQ9qIA/p=3"
    )


@pytest.mark.parametrize(("topic", "uuid"), [("..", "id"), ("a/b", "id"), ("flights", "../x")])
def test_a_name_that_leads_out_of_the_landing_area_is_refused(topic, uuid):
    with pytest.raises(ConfigError, match="topic name"):
        landing_folder(topic, uuid, 0)


def test_records_come_back_as_they_were_written():
    batch = batch_of(ROWS)
    landing = reopen(landing_bytes(batch, batch_of([(11, 5, b"k", b"v", [])])))
    first, second = landing.iter_batches()
    assert first.equals(batch)
    assert second.column("offset").to_pylist() == [11]
    landing.verify()


def test_the_trailer_holds_the_given_metadata_and_the_digest_of_the_format():
    landing = reopen(landing_bytes(batch_of(ROWS), metadata={"ledger": '{"records":4}'}))
    assert landing.metadata == trailer_of(content_of(ROWS), ledger='{"records":4}')


def test_the_digest_does_not_depend_on_how_records_are_batched():
    batch = batch_of(ROWS)
    pieces = [batch.slice(0, 1), batch.slice(1, 2), batch.slice(3, 1), batch.slice(0, 0)]
    landing = reopen(landing_bytes(*pieces))
    assert landing.metadata["content"] == content_of(ROWS)
    assert landing.num_batches == 3
    landing.verify()


def test_a_file_is_arrow_with_a_last_batch_of_no_rows():
    reader = pa.ipc.open_file(io.BytesIO(landing_bytes(batch_of(ROWS))))
    last = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    assert reader.schema.equals(LANDING_SCHEMA)
    assert last.batch.num_rows == 0
    assert dict(last.custom_metadata) == {
        b"trailer": b"2",
        b"content": content_of(ROWS).encode(),
    }


def test_a_range_without_records_is_a_valid_file():
    landing = reopen(landing_bytes())
    assert list(landing.iter_batches()) == []
    assert landing.metadata["content"] == content_of([])
    landing.verify()


def test_large_batches_are_cut():
    rows = [(i, i, b"k%d" % i, b"v" * (i % 7), []) for i in range(40_000)]
    landing = reopen(landing_bytes(batch_of(rows)))
    assert [b.num_rows for b in landing.iter_batches()] == [16_384, 16_384, 7_232]
    assert landing.metadata["content"] == content_of(rows)


def test_stamps_are_read_without_the_other_columns():
    landing = reopen(landing_bytes(batch_of(ROWS)))
    ((offsets, stamps),) = landing.iter_stamps()
    assert offsets.tolist() == [3, 4, 9, 10]
    assert stamps.tolist() == [row[1] for row in ROWS]


def test_a_batch_of_another_schema_is_refused():
    with pytest.raises(ValueError, match="expected the schema of landing files"):
        LandingWriter(io.BytesIO()).write(pa.RecordBatch.from_pydict({"offset": [1]}))


def test_every_prefix_is_truncated():
    data = landing_bytes(batch_of(ROWS))
    for length in range(len(data)):
        with pytest.raises(TruncatedError):
            reopen(data[:length])


def test_a_file_without_a_trailer_is_truncated():
    file = io.BytesIO()
    with pa.ipc.new_file(file, LANDING_SCHEMA) as writer:
        writer.write_batch(batch_of(ROWS))
    with pytest.raises(TruncatedError, match="expected a last batch of 0 rows with 'content'"):
        reopen(file.getvalue())
    empty = io.BytesIO()
    pa.ipc.new_file(empty, LANDING_SCHEMA).close()
    with pytest.raises(TruncatedError, match="no batch at all"):
        reopen(empty.getvalue())


def test_another_file_is_no_landing_file():
    with pytest.raises(FormatError, match="expected b'ARROW1' at the beginning"):
        reopen(b"PAR1" * 10)
    other = io.BytesIO()
    with pa.ipc.new_file(other, pa.schema([("offset", pa.int64())])) as writer:
        writer.write_batch(pa.RecordBatch.from_pydict({"offset": [1]}))
    with pytest.raises(FormatError, match="expected the schema of landing files"):
        reopen(other.getvalue())


def test_other_records_under_the_same_trailer_fail_the_check():
    with pytest.raises(ChecksumError, match=content_of(ROWS[:3])):
        reopen(forged_bytes([batch_of(ROWS[:3])], trailer_of(content_of(ROWS)))).verify()


@pytest.mark.parametrize("kind", ["3", None])
def test_a_trailer_of_another_kind_is_named(kind):
    data = forged_bytes([batch_of(ROWS)], trailer_of(content_of(ROWS), trailer=kind))
    with pytest.raises(FormatError, match=f"kind 2, got {kind!r}; if a later release"):
        reopen(data).verify()


def test_bytes_behind_a_null_belong_to_no_record():
    batch = batch_of(ROWS)
    ends = pa.py_buffer(struct.pack("<5i", 0, 6, 9, 9, 11))
    bits = pa.py_buffer(b"\x0d")
    keys = pa.Array.from_buffers(pa.binary(), 4, [bits, ends, pa.py_buffer(b"UA1545???\xff\x00")])
    assert keys.to_pylist() == [row[2] for row in ROWS]
    hiding = batch.set_column(3, LANDING_SCHEMA.field("key"), keys)
    landing = reopen(landing_bytes(hiding))
    assert landing.metadata["content"] == content_of(ROWS)
    landing.verify()


@pytest.mark.parametrize("column", range(6))
def test_every_column_is_covered(column):
    changed = [list(row) for row in ROWS]
    other = [5, -2, b"", None, [("trace", None)]]
    batch = batch_of(ROWS)
    if column == 2:
        kinds = pa.array([1, 1, 2, 1], pa.int8())
        batch = batch.set_column(2, LANDING_SCHEMA.field(2), kinds)
    else:
        place = column - (column > 2)
        changed[1][place] = other[place]
        batch = batch_of(changed)
    data = forged_bytes([batch], trailer_of(content_of(ROWS)))
    with pytest.raises(ChecksumError):
        reopen(data).verify()


def test_no_damaged_byte_changes_a_record_unnoticed():
    """Every 5th byte, flipped: an error of the format, or the same records."""
    data = landing_bytes(batch_of(ROWS))
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        try:
            landing = reopen(bytes(damaged))
            landing.verify()
        except FormatError:
            continue
        (batch,) = landing.iter_batches()
        assert batch.equals(batch_of(ROWS)), place


def test_a_location_is_opened_and_closed_and_named_in_errors(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(landing_bytes(batch_of(ROWS)))
    location = Location.parse(str(path))
    with LandingFile.open(location) as landing:
        landing.verify()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TruncatedError, match=str(path)):
        LandingFile.open(location)


def test_a_failing_disk_is_not_taken_for_damage():
    class FailingFile(io.BytesIO):
        failing = False

        def read(self, size=-1):
            if self.failing:
                raise OSError(5, "Input/output error")
            return super().read(size)

    file = FailingFile(landing_bytes(batch_of(ROWS)))
    landing = LandingFile.open(file)
    file.failing = True
    with pytest.raises(OSError, match="Input/output error"):
        landing.verify()
