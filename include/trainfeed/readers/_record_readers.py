"""Readers over record files."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trainfeed.dataset.shards import Encoding, manifests_of
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath, SetWatch, expand_paths, open_plain
from trainfeed.readers._blocks import BlockSource, SampleSource
from trainfeed.readers._position import ended
from trainfeed.readers._types import Block, Reader, Sample
from trainfeed.recordio import (
    ChunkBuffers,
    ChunkInfo,
    RecordIndex,
    iter_chunks,
    read_chunk,
    split_records,
)
from trainfeed.samples import Schema, TypedCodec, ValueCodec
from trainfeed.whole_numbers import rank_of

if TYPE_CHECKING:
    from trainfeed.tfrecord import Compression, ExampleCodec, TFRecordReader

__all__ = ["recordio", "tfrecord"]

# Function from a record to a sample.
Decoder: TypeAlias = Callable[[bytes], Any]

_ROWS_PER_BLOCK: Final = 1024


def recordio(
    paths: FilePath | Sequence[FilePath],
    decode: Schema | Decoder | None = None,
    *,
    rank: int = 0,
    world_size: int = 1,
) -> Reader:
    """Return a reader over the records of RecordIO files, in order.

    Args:
        paths: A path, several paths separated by commas, or a list of these. Each part of a text
            may be a glob, whose matches are sorted by name; path objects are taken literally.
        decode: The schema of the records, or a function from a record to a sample; ``bytes``
            leaves records unchanged. None takes the encoding in the manifest beside converted
            shards, and leaves records unchanged if there is no manifest. With a schema of fixed
            size the reader gives blocks.
        rank: Number of the part to read. Part i has the chunks i, i + ``world_size`` and so on,
            counted over all files. Together the parts have every record once, whatever the sizes
            of the files.
        world_size: Number of parts.

    Raises:
        NotFoundError: A part of ``paths`` matches no file; the message names the part.
        ConfigError: The rank is not below ``world_size``, or the manifests of the files differ.
            Raised by a pass: there are fewer chunks than ranks.
        FormatError: A manifest is damaged, or a shard has another size than its manifest says.
            Raised by a pass: a file is damaged.
    """
    rank, world_size = rank_of(rank, world_size)
    files = expand_paths(paths)
    chunks = _Chunks(files, rank, world_size)
    how = _decoder_of(files) if decode is None else decode
    if isinstance(how, Schema) and how.is_fixed:
        blocks_from = functools.partial(_blocks, chunks, TypedCodec(how))
        return BlockSource(lambda: blocks_from(0), blocks_from=blocks_from)
    make = TypedCodec(how).decode if isinstance(how, Schema) else how or bytes
    return SampleSource(functools.partial(_samples, chunks, make))


def _decoder_of(files: Sequence[str]) -> Schema | Decoder | None:
    """Return the schema or the decoder of the files' records; None without a manifest."""
    kinds = {
        (Encoding.BYTES, None) if manifest is None else (manifest.encoding, manifest.schema)
        for manifest in manifests_of(files)
    }
    if len(kinds) != 1:
        raise ConfigError(
            f"expected files whose records are of one kind, got {len(kinds)} kinds; read them one"
            " by one, or say how to decode them"
        )
    encoding, schema = kinds.pop()
    return ValueCodec().decode if encoding is Encoding.VALUE else schema


def tfrecord(
    paths: FilePath | Sequence[FilePath],
    decode: Schema | Decoder | None = None,
    *,
    compression: Compression | str | None = None,
) -> Reader:
    """Return a reader over the records of TFRecord files, in order.

    Args:
        paths: See ``recordio``.
        decode: The schema of the Examples, or a function from a record to a sample; None leaves
            records unchanged. With a schema the reader gives blocks, in which fields of variable
            size are arrays of objects.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None recognises it for each file.

    Raises:
        NotFoundError: A part of ``paths`` matches no file; the message names the part.
        ConfigError: The compression is unknown.
        FormatError: A file is damaged, or a record is not an Example; raised by a pass.
    """
    # Imported here: readers of RecordIO do not need it.
    from trainfeed.tfrecord import ExampleCodec, TFRecordReader

    records = TFRecordReader(paths, compression=compression)
    if isinstance(decode, Schema):
        codec = ExampleCodec(decode)

        def blocks_from(position: int) -> Iterator[Block]:
            first = position
            for batch in _batches(records, position):
                block = None
                with suppress(FormatError):
                    block = codec.decode_records(batch)
                yield block or _located_block(codec, batch, first, records)
                first += len(batch)

        return BlockSource(lambda: blocks_from(0), blocks_from=blocks_from)

    def samples_from(position: int) -> Iterator[Sample]:
        for batch in _batches(records, position):
            yield from batch if decode is None else map(decode, batch)

    return SampleSource(samples_from)


def _batches(records: TFRecordReader, position: int) -> Iterator[list[bytes]]:
    """Yield the records from a position on; the ones before are read, for lack of an index."""
    left = position
    for batch in records.iter_batches(_ROWS_PER_BLOCK):
        if left < len(batch):
            yield batch[left:]
        left -= min(left, len(batch))
    if left:
        raise ended(position, position - left)


def _located_block(
    codec: ExampleCodec, batch: Sequence[bytes], first: int, records: TFRecordReader
) -> Block:
    """Decode a batch that does not match; the error has file and number of the first bad record."""
    for number, record in enumerate(batch, first):
        try:
            codec.decode(record)
        except FormatError as error:
            file = bisect.bisect_right(records.starts, number) - 1
            in_record = (
                "" if error.offset_bytes is None else f", at byte {error.offset_bytes} of it"
            )
            error.args = (f"record {number - records.starts[file]}: {error.args[0]}{in_record}",)
            error.path, error.offset_bytes = records.paths[file], None
            raise
    return codec.decode_records(batch)


class _Chunks:
    """The chunks of files that belong to one rank."""

    def __init__(self, paths: Sequence[str], rank: int, world_size: int) -> None:
        self._paths = paths
        self._sets = SetWatch(paths)
        self._rank = rank
        self._world_size = world_size

    def read(self, position: int) -> Iterator[tuple[str, ChunkInfo, memoryview, int]]:
        """Yield path, place and framing of each chunk, and the number of its records to skip.

        The framing is valid until the next one is requested.
        """
        buffers = ChunkBuffers()
        if self._world_size == 1 and not position:
            for path in self._paths:
                size = self._sets.size_of(path)
                chunks = iter_chunks(path, buffers=buffers, size=size)
                for info, framing in self._sets.over(chunks):
                    yield path, info, framing, 0
            return
        mine = self._mine()
        numbers = (info.num_records for _, info in mine)
        *starts, total = itertools.accumulate(numbers, initial=0)
        if position > total:
            raise ended(position, total)
        for start, (path, info) in zip(starts, mine, strict=True):
            if start + info.num_records > position:
                with open_plain(path, follow=False) as file, self._sets.explains():
                    self._sets.require_unchanged()
                    yield path, info, read_chunk(file, info), max(0, position - start)

    def _mine(self) -> list[tuple[str, ChunkInfo]]:
        self._sets.require_sizes()
        chunks = [(path, info) for path in self._paths for info in RecordIndex.load(path).chunks]
        if len(chunks) < self._world_size > 1:
            raise ConfigError(
                f"expected a chunk for each of {self._world_size} ranks, {len(self._paths)} files"
                f" have {len(chunks)}; use fewer ranks, or write smaller chunks (max_chunk_bytes)"
            )
        return chunks[self._rank :: self._world_size]


def _samples(chunks: _Chunks, decode: Decoder, position: int) -> Iterator[Sample]:
    for path, info, framing, num_left_out in chunks.read(position):
        with _located(path, info):
            records = split_records(framing, info.num_records)[num_left_out:]
            owned = [bytes(record) for record in records]
        yield from map(decode, owned)


def _blocks(chunks: _Chunks, codec: TypedCodec, position: int) -> Iterator[Block]:
    for path, info, framing, num_left_out in chunks.read(position):
        with _located(path, info):
            block = codec.decode_records(framing, info.num_records)
        if num_left_out:
            block = {name: column[num_left_out:] for name, column in block.items()}
        if info.num_records:
            yield block


@contextmanager
def _located(path: str, info: ChunkInfo) -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        error.path, error.offset_bytes = error.path or path, info.offset_bytes
        raise
