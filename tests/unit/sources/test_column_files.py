"""Files of columns: every row once for any ranges, only wanted columns, and no row of damage."""

import io
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from tests.support.avro_files import CODECS, container
from trainfeed.errors import FormatError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.sources.column_files import ColumnRange, column_layout, iter_columns
from trainfeed.sources.column_footers import RowGroup, arrow_groups, orc_groups

FORMATS = ("parquet", "orc", "arrow", "avro")
NAMES = {
    "parquet": "a Parquet file",
    "orc": "an ORC file",
    "arrow": "an Arrow file",
    "avro": "an Avro file",
}
AVRO = {
    "id": "int",
    "text": ["null", "string"],
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "parts": {"type": "array", "items": "long"},
}


def table_of(count, first=0):
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "text": pa.array(["é" * (n % 5) if n % 7 else None for n in numbers], pa.utf8()),
            "at": pa.array([datetime(2024, 3, 1, 0, 0, n % 60, tzinfo=UTC) for n in numbers], pa.timestamp("us", "UTC")),  # noqa: E501
            "parts": pa.array([[n] * (n % 3) for n in numbers], pa.list_(pa.int64())),
        }
    )  # fmt: skip


def write(path, file_format, table, group_rows, **options):
    if file_format == "parquet":
        pq.write_table(table, path, row_group_size=max(1, group_rows), **options)
    elif file_format == "orc":
        orc.write_table(table, path, stripe_size=1, batch_size=max(1, group_rows), **options)
    elif file_format == "arrow":
        with pa.ipc.new_file(path, table.schema, **options) as writer:
            writer.write_table(table, max_chunksize=max(1, group_rows))
    else:
        fields = [{"name": name, "type": AVRO[name]} for name in table.schema.names]
        schema = {"type": "record", "name": "Row", "fields": fields}
        values = table.to_pylist()
        for value in values:
            if "at" in value:
                value["at"] = (value["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
                    microseconds=1
                )
        path.write_bytes(container(schema, values, max(1, group_rows), **options))
    return Location.parse(str(path))


def layout(location, file_format):
    return column_layout(location, file_format, location.stat().size_bytes)


def read(location, file_format, start=0, end=None, *, names=None, groups=None):
    """The batches of a range."""
    size = location.stat().size_bytes
    types = layout(location, file_format).types
    span = ColumnRange(
        location=location,
        file_format=file_format,
        size_bytes=size,
        start=start,
        end=size if end is None else end,
        timestamp_ms=7,
        types={name: types[name] for name in names or types},
        groups=groups,
    )
    return list(iter_columns(span))


def rows_of(batches):
    return [row for batch in batches for row in batch.column("fields").to_pylist()]


def offsets_of(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_have_their_number_their_fields_and_the_time_of_the_file(tmp_path, file_format):
    location = write(tmp_path / "a", file_format, table_of(100), 16)
    batches = read(location, file_format)
    assert rows_of(batches) == table_of(100).to_pylist()
    assert offsets_of(batches) == list(range(100))
    for batch in batches:
        assert batch.column("value").null_count == batch.column("key").null_count == len(batch)
        assert set(batch.column("timestamp").to_pylist()) == {7}


@pytest.mark.parametrize("file_format", FORMATS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(count=st.integers(0, 60), group_rows=st.integers(1, 70), split=st.integers(1, 3000))
def test_each_row_is_in_exactly_one_range(tmp_path, file_format, count, group_rows, split):
    location = write(tmp_path / "a", file_format, table_of(count), group_rows)
    size = location.stat().size_bytes
    found = [
        offsets_of(read(location, file_format, start, min(size, start + split)))
        for start in range(0, size, max(split, size // 40))
        if split >= size // 40 or start == 0
    ]
    if split >= size // 40:
        assert list(chain(*found)) == list(range(count))
        assert all(part == sorted(part) for part in found)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_group_is_read_with_the_range_of_its_first_byte(tmp_path, file_format):
    location = write(tmp_path / "a", file_format, table_of(50), 10)
    groups = layout(location, file_format).groups
    assert groups[-1].first_row + groups[-1].num_rows == 50
    assert len(groups) == {"parquet": 5, "arrow": 5}.get(file_format, len(groups))
    for group in groups:
        rows = list(range(group.first_row, group.first_row + group.num_rows))
        place = group.first_byte
        assert offsets_of(read(location, file_format, place, place + 1)) == rows
        assert offsets_of(read(location, file_format, place - 1, place)) == []
        assert offsets_of(read(location, file_format, place + 1, place + 2)) == []
        assert 0 < place < location.stat().size_bytes


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_orc_of_every_compression_has_its_stripes(tmp_path, compression):
    # More than fits into the smallest buffers of the writer, which hold a stripe until then.
    texts = [sha256(str(n).encode()).hexdigest() for n in range(6000)]
    table = pa.table({"id": pa.array(range(6000), pa.int32()), "text": texts})
    location = write(tmp_path / "a", "orc", table, 500, compression=compression)
    assert rows_of(read(location, "orc")) == table.to_pylist()
    assert len(layout(location, "orc").groups) > 1


@pytest.mark.parametrize("codec", CODECS)
def test_avro_of_every_codec_is_read(tmp_path, codec):
    location = write(tmp_path / "a", "avro", table_of(3000), 500, codec=codec)
    assert rows_of(read(location, "avro")) == table_of(3000).to_pylist()
    data = bytearray((tmp_path / "a").read_bytes())
    data[-30] ^= 1
    (tmp_path / "a").write_bytes(data)
    if codec != "null":
        with pytest.raises(FormatError):
            read(location, "avro")


def test_blocks_of_avro_are_read_in_runs_of_a_mebibyte(tmp_path):
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}]}
    values = [{"id": "x" * 100_000} for _ in range(25)]
    (tmp_path / "a").write_bytes(container(schema, values, 1))
    location = Location.parse(str(tmp_path / "a"))
    groups = layout(location, "avro").groups
    assert [group.num_rows for group in groups] == [11, 11, 3]
    places = [(group.first_byte, group.first_byte + 1) for group in groups]
    found = [offsets_of(read(location, "avro", *place)) for place in places]
    assert list(chain(*found)) == list(range(25))


@pytest.mark.parametrize("wrong", [b"\x03", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_datums_of_avro_that_do_not_fill_their_block_are_refused(tmp_path, wrong):
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}]}
    data = container(schema, [{"id": "ab"}, {"id": "cd"}], 2)
    at = data.index(b"\x04ab")
    for place in (at, at + 3):
        changed = data[:place] + wrong + data[place + len(wrong) :]
        (tmp_path / "a").write_bytes(changed)
        with pytest.raises(FormatError):
            read(Location.parse(str(tmp_path / "a")), "avro")


def test_fields_of_avro_that_another_field_defines_are_read_alone(tmp_path):
    kind = {"type": "record", "name": "Kind", "fields": [{"name": "z", "type": "int"}]}
    fields = [{"name": "one", "type": kind}, {"name": "two", "type": "Kind"}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    (tmp_path / "a").write_bytes(container(schema, [{"one": {"z": 1}, "two": {"z": 2}}] * 3, 2))
    location = Location.parse(str(tmp_path / "a"))
    assert rows_of(read(location, "avro", names=["two"])) == [{"two": {"z": 2}}] * 3


def test_arrow_with_compression_dictionaries_and_empty_batches_is_read(tmp_path):
    table = table_of(40)
    place = table.schema.get_field_index("text")
    table = table.set_column(place, "text", table["text"].dictionary_encode())
    options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    with pa.ipc.new_file(tmp_path / "a", table.schema, options=options) as writer:
        for start in (0, 20):
            writer.write_batch(table.to_batches()[0].slice(0, 0))
            writer.write_table(table.slice(start, 20))
    location = Location.parse(str(tmp_path / "a"))
    assert [group.num_rows for group in layout(location, "arrow").groups] == [0, 20, 0, 20]
    assert rows_of(read(location, "arrow")) == table_of(40).to_pylist()


class Counting(io.RawIOBase):
    """A file that knows how many of its bytes were read."""

    def __init__(self, path):
        self._file = path.open("rb")
        self.num_bytes = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, *place):
        return self._file.seek(*place)

    def tell(self):
        return self._file.tell()

    def read(self, size=-1):
        found = self._file.read(size)
        self.num_bytes += len(found)
        return found

    def close(self):
        self._file.close()
        super().close()

    def readinto(self, room):
        found = self.read(len(room))
        room[: len(found)] = found
        return len(found)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "arrow"])
def test_only_the_wanted_columns_are_read(tmp_path, file_format, monkeypatch):
    wide = pa.table(
        {"id": pa.array(range(2000), pa.int32()), "text": [f"{n:05000}" for n in range(2000)]}
    )
    location = write(tmp_path / "a", file_format, wide, 500)
    opened = []

    def open_read(place):
        opened.append(Counting(tmp_path / place.name))
        return opened[-1]

    monkeypatch.setattr(Location, "open_read", open_read)
    batches = read(location, file_format, names=["id"])
    assert rows_of(batches) == [{"id": n} for n in range(2000)]
    # The footer is read several times, in pieces of up to 64 KiB.
    assert sum(file.num_bytes for file in opened) < location.stat().size_bytes / 2


def test_the_columns_come_in_the_order_that_was_asked_for(tmp_path):
    location = write(tmp_path / "a", "parquet", table_of(3), 10)
    (batch,) = read(location, "parquet", names=["text", "id"])
    assert batch.column("fields").type.names == ["text", "id"]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_that_was_cut_anywhere_is_refused_by_its_name(tmp_path, file_format):
    location = write(tmp_path / "whole", file_format, table_of(30), 10)
    data = (tmp_path / "whole").read_bytes()
    cut = Location.parse(str(tmp_path / "cut"))
    for length in [*range(0, len(data), 61), len(data) - 1]:
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(FormatError, match="that is whole") as caught:
            read(cut, file_format)
        assert caught.value.path == cut.uri
    assert rows_of(read(location, file_format)) == table_of(30).to_pylist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_of_another_format_is_refused_with_the_setting_for_it(tmp_path, file_format):
    for other in FORMATS:
        location = write(tmp_path / other, other, table_of(30), 10)
        if other != file_format:
            with pytest.raises(FormatError, match=f"got {NAMES[other]}.*say format: {other}"):
                layout(location, file_format)
    (tmp_path / "text").write_bytes(b'{"id": 1}\n')
    with pytest.raises(FormatError, match="that is whole"):
        layout(Location.parse(str(tmp_path / "text")), file_format)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_with_other_groups_than_were_planned_is_refused(tmp_path, file_format):
    location = write(tmp_path / "a", file_format, table_of(30), 10)
    groups = layout(location, file_format).groups
    assert len(read(location, file_format, groups=groups))
    with pytest.raises(SourceReplacedError, match="other groups of rows"):
        read(location, file_format, groups=[*groups, RowGroup(9, 30, 1)])


def test_damage_in_a_page_with_a_checksum_is_refused(tmp_path):
    location = write(tmp_path / "a", "parquet", table_of(1000), 1000, write_page_checksum=True)
    data = bytearray((tmp_path / "a").read_bytes())
    for place in range(60, 2000, 97):
        data[place] ^= 1
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(FormatError):
            read(location, "parquet")
        data[place] ^= 1


def test_a_value_that_would_be_lost_is_an_error_with_column_and_file(tmp_path):
    table = pa.table({"at": pa.array([1_000_000_001], pa.timestamp("ns"))})
    location = write(tmp_path / "a", "parquet", table, 10, version="2.6")
    with pytest.raises(FormatError, match=r"'at' of timestamp\[ns\].*leave it out") as caught:
        read(location, "parquet")
    assert caught.value.path == location.uri


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    location = write(tmp_path / "a", "arrow", pa.Table.from_batches([batch]), 10)
    with pytest.raises(FormatError, match=r"each column once, got \['a'\]"):
        layout(location, "arrow")


def test_large_groups_come_in_batches_of_bounded_size(tmp_path):
    wide = pa.table({"text": ["x" * 10_000] * 5000})
    location = write(tmp_path / "a", "parquet", wide, 5000, use_dictionary=False)
    sizes = [batch.nbytes for batch in read(location, "parquet")]
    assert len(sizes) > 3
    assert max(sizes) < 20 << 20


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_a_footer_of_orc_with_any_byte_changed_is_read_or_refused(tmp_path, compression):
    write(tmp_path / "a", "orc", table_of(50), 50, compression=compression)
    data = (tmp_path / "a").read_bytes()
    whole = orc_groups(io.BytesIO(data), len(data))
    refused = 0
    for place in range(len(data) - 1, len(data) - 200, -1):
        changed = bytearray(data)
        changed[place] ^= 0x55
        try:
            assert sum(each.num_rows for each in orc_groups(io.BytesIO(changed), len(data))) >= 0
        except FormatError:
            refused += 1
    assert whole == [RowGroup(3, 0, 50)]
    assert refused > 20


def test_a_footer_of_arrow_with_any_byte_changed_is_read_or_refused(tmp_path):
    write(tmp_path / "a", "arrow", table_of(50), 25)
    data = (tmp_path / "a").read_bytes()
    refused = 0
    for place in range(len(data) - 1, len(data) - 400, -1):
        changed = bytearray(data)
        changed[place] ^= 0x55
        try:
            arrow_groups(io.BytesIO(changed), len(data))
        except FormatError:
            refused += 1
    assert refused > 20
