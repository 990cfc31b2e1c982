"""The seam between both formats: which decoder a set gets, and what each refuses."""

import io

import numpy as np
import pytest

from trainfeed.errors import FormatError
from trainfeed.recordio import ChunkInfo, Codec, RecordIndex, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.versions.chunk_index import EXAMPLES, ExampleRun, chunk_of
from trainfeed.versions.chunks import RecordIOChunks, decoder_of
from trainfeed.versions.examples import ExampleRunDecoder, ExampleRunWriter

SCHEMA = Schema((Field("label", "int64"),))
PLACE = {"offset_bytes": 3, "stored_bytes": 5, "raw_bytes": 8, "num_records": 1, "crc32": 9}


def shard(writer_of):
    """A file of one chunk with three samples, and their framing."""
    file, codec = io.BytesIO(), TypedCodec(SCHEMA)
    records = [codec.encode({"label": i}) for i in range(3)]
    writer = writer_of(file)
    for record in records:
        writer.write(record)
    writer.close()
    framing = b"".join(len(record).to_bytes(4, "little") + record for record in records)
    return file, writer, framing


def recordio_shard(codec=Codec.ZSTD):
    file, _, framing = shard(lambda file: RecordWriter(file, codec=codec))
    return file, RecordIndex.load(file).chunks[0], framing


def example_shard():
    file, writer, framing = shard(lambda file: ExampleRunWriter(file, SCHEMA, max_chunk_bytes=999))
    return file, writer.chunks[0], framing


@pytest.mark.parametrize("codecs", [(), (0, 17), {Codec.LZ4}, np.array([17, 17], np.int32)])
def test_chunks_of_recordio_alone_need_no_schema(codecs):
    assert type(decoder_of(None, codecs)) is RecordIOChunks
    assert type(decoder_of(SCHEMA, codecs)) is RecordIOChunks


@pytest.mark.parametrize("codecs", [(EXAMPLES,), {17, EXAMPLES}, np.array([17, 64], np.int32)])
def test_one_run_of_examples_decides_for_the_set_and_needs_a_schema(codecs):
    assert type(decoder_of(SCHEMA, codecs)) is ExampleRunDecoder
    with pytest.raises(FormatError, match="expected a schema beside runs of Examples, got none"):
        decoder_of(None, codecs)


@pytest.mark.parametrize("make", [recordio_shard, example_shard])
def test_a_chunk_is_read_or_decoded_to_its_framing(make):
    file, chunk, framing = make()
    decoder = decoder_of(SCHEMA, {chunk.codec})
    assert bytes(decoder.read(file, chunk)) == framing
    stored = memoryview(file.getvalue())
    head, payload = stored[: chunk.head_bytes], stored[chunk.head_bytes :]
    assert len(payload) == chunk.stored_bytes
    out = memoryview(bytearray(chunk.raw_bytes))
    decoder.decode(chunk, head, payload, out, verify=True)
    assert bytes(out) == framing


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_decoder_of_both_formats_decodes_chunks_of_recordio(codec):
    file, chunk, framing = recordio_shard(codec)
    decoder = ExampleRunDecoder(SCHEMA)
    assert bytes(decoder.read(file, chunk)) == framing
    stored = memoryview(file.getvalue())
    out = memoryview(bytearray(framing if codec is Codec.NONE else len(framing)))
    decoder.decode(chunk, stored[:20], stored[20:], out, verify=True)
    assert bytes(out) == framing
    with pytest.raises(FormatError, match="CRC-32"):
        decoder.decode(chunk, stored[:20], stored[19:-1], out, verify=True)


def test_the_decoder_of_recordio_takes_no_run():
    file, run, _ = example_shard()
    with pytest.raises(TypeError, match="expected a chunk of RecordIO, got ExampleRun"):
        RecordIOChunks().read(file, run)


def test_a_row_of_the_index_is_a_chunk_of_the_format_that_its_codec_names():
    assert chunk_of(17, PLACE) == ChunkInfo(**PLACE, codec=Codec.ZSTD)
    assert chunk_of(64, PLACE) == ExampleRun(**PLACE)
    assert (chunk_of(0, PLACE).head_bytes, chunk_of(64, PLACE).head_bytes) == (20, 0)
    with pytest.raises(ValueError, match="65"):
        chunk_of(65, PLACE)
