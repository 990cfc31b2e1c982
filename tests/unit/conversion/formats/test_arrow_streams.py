"""Arrow IPC in its stream format: read as the file format is, and never cut in silence."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trainfeed.conversion import (
    Format,
    SinkOptions,
    SourceOptions,
    format_of,
    open_sample_file,
    transcode,
)
from trainfeed.errors import FormatError, TruncatedError

# The data of the second one look like the mark at the end of a stream.
KINDS = pa.array([7, -1], pa.int32())
COLUMNS = pa.schema(
    {"id": pa.int64(), "text": pa.string(), "kind": pa.dictionary(pa.int32(), pa.int32())},
    metadata={"huggingface": '{"info": {}}'},
)


def batch(first, rows=3):
    ids = list(range(first, first + rows))
    kinds = pa.DictionaryArray.from_arrays(pa.array([i % 2 for i in ids], pa.int32()), KINDS)
    texts = [None if i % 4 == 1 else f"é{i}" for i in ids]
    return pa.record_batch([pa.array(ids), pa.array(texts), kinds], schema=COLUMNS)


def write(path, kind, num_batches=3):
    """Write batches of ``COLUMNS``; gives the place behind each of them."""
    ends = []
    with path.open("wb") as file, kind(file, COLUMNS) as writer:
        for number in range(num_batches):
            writer.write_batch(batch(3 * number))
            ends.append(file.tell())
    return ends


def samples(path):
    return list(open_sample_file(path, SourceOptions()).samples())


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "data-00000-of-00001.arrow"
    write(path, pa.ipc.new_stream)
    return path


def test_a_stream_gives_the_samples_of_the_file_format(tmp_path, stream):
    write(tmp_path / "file.arrow", pa.ipc.new_file)
    assert samples(stream) == samples(tmp_path / "file.arrow")
    assert [each["id"] for each in samples(stream)] == list(range(9))


def test_content_tells_a_stream_whatever_its_name(tmp_path, stream):
    assert format_of(stream.rename(tmp_path / "no-suffix")) is Format.ARROW


def test_a_stream_is_counted_and_converted(tmp_path, stream):
    source = open_sample_file(stream, SourceOptions())
    assert source.num_samples() == 9
    assert transcode(source, tmp_path / "x.recordio", SinkOptions()) == 9


def test_a_stream_without_batches_is_whole_and_empty(tmp_path):
    write(tmp_path / "a.arrow", pa.ipc.new_stream, num_batches=0)
    assert samples(tmp_path / "a.arrow") == []


def test_a_stream_of_the_old_layout_is_told_by_its_name(tmp_path):
    path = tmp_path / "old.arrow"
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.ipc.new_stream(path, COLUMNS, options=options) as writer:
        writer.write_batch(batch(0))
    assert [each["id"] for each in samples(path)] == [0, 1, 2]
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(TruncatedError, match="expected the mark at the end"):
        samples(path)


def test_a_stream_cut_anywhere_is_an_error_that_says_where(stream):
    whole = stream.read_bytes()
    # Messages are padded to 8 bytes: every place where one may end, and places within.
    for num_bytes in {*range(8, len(whole), 8), *range(8, len(whole), 13)}:
        stream.write_bytes(whole[:num_bytes])
        with pytest.raises(TruncatedError) as error:
            samples(stream)
        assert error.value.path == str(stream)
        assert 0 <= error.value.offset_bytes <= num_bytes


def test_a_stream_cut_between_batches_is_not_taken_for_a_whole_one(tmp_path):
    path = tmp_path / "a.arrow"
    ends = write(path, pa.ipc.new_stream)
    whole = path.read_bytes()
    for end in ends:
        path.write_bytes(whole[:end])
        with pytest.raises(TruncatedError, match="expected the mark at the end") as error:
            open_sample_file(path, SourceOptions()).num_samples()
        assert error.value.offset_bytes == end


def test_what_follows_the_end_of_a_stream_is_an_error(stream):
    whole = stream.read_bytes()
    stream.write_bytes(whole + whole)
    with pytest.raises(FormatError, match="one file holds one stream") as error:
        samples(stream)
    assert error.value.offset_bytes == len(whole)


def test_a_length_that_no_file_has_costs_no_memory(stream):
    data = bytearray(stream.read_bytes())
    data[4:8] = (64 << 20).to_bytes(4, "little")
    stream.write_bytes(data)
    with pytest.raises(TruncatedError, match="the message that begins here"):
        samples(stream)


def test_damage_within_a_stream_says_where_the_batch_begins(tmp_path):
    path = tmp_path / "a.arrow"
    ends = write(path, pa.ipc.new_stream)
    data = bytearray(path.read_bytes())
    data[ends[0] + 8 : ends[0] + 16] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(FormatError, match="is damaged in") as error:
        samples(path)
    assert error.value.offset_bytes == ends[0]
