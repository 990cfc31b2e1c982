"""Readers over files of records, text and IDX, and over arrays in memory."""

from __future__ import annotations

import bisect
import functools
import gzip
import itertools
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainfeed.core.whole_numbers import rank_of
from trainfeed.errors import BadMagicError, ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath, SetWatch, expand_paths, open_plain, os_errors
from trainfeed.readers.blocks import (
    Block,
    BlockReader,
    BlockSource,
    Reader,
    RowForm,
    Sample,
    SampleSource,
    ended,
)
from trainfeed.recordio import (
    ChunkBuffers,
    ChunkInfo,
    RecordIndex,
    iter_chunks,
    read_chunk,
    split_records,
)
from trainfeed.samples import Schema, TypedCodec, ValueCodec
from trainfeed.versions.shards import Encoding, manifests_of

if TYPE_CHECKING:
    from trainfeed.tfrecord import Compression, ExampleCodec, TFRecordReader


# --- Readers over arrays in memory, and over text files

_BLOCK_BYTES: Final = 1 << 20


def np_array(array: ArrayLike) -> BlockReader:
    """Return a reader over the rows of an array.

    Args:
        array: Shape ``(n, *S)``. Samples and blocks are views of the array. An array without
            dimensions gives its value as one sample.
    """
    values = np.atleast_1d(np.asarray(array))
    row_bytes = max(1, values.nbytes // max(1, len(values)))
    step = max(1, _BLOCK_BYTES // row_bytes)

    def blocks_from(position: int) -> Iterator[Block]:
        if position > len(values):
            raise ended(position, len(values))
        for start in range(position, len(values), step):
            yield {"value": values[start : start + step]}

    return BlockSource(lambda: blocks_from(0), form=RowForm.VALUE, blocks_from=blocks_from)


def text_file(path: FilePath) -> Reader:
    r"""Return a reader over the lines of a UTF-8 file, without the ``\n`` at their end.

    Raises:
        NotFoundError: The file does not exist. All three errors are raised by a pass.
        FormatError: The path is not a plain file, or the file is not UTF-8.
        StorageError: The file cannot be read.
    """

    def read() -> Iterator[str]:
        with open_plain(path, follow=True) as file:
            for number, line in enumerate(file, 1):
                yield _text(line, number, path).removesuffix("\n")

    return read


def _text(line: bytes, number: int, path: FilePath) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"line {number}: expected UTF-8: {error}", path=str(path)) from error


# --- IDX files, the format of MNIST, plain or compressed with gzip

_START: Final = struct.Struct(">HBB")
_DTYPES: Final = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_TYPES: Final = {np.dtype(name).newbyteorder("="): code for code, name in _DTYPES.items()}
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Limits for headers: a damaged one may announce any size, and a hostile compressed file may even
# contain it.
_MAX_DIMENSIONS: Final = 8
_MAX_ITEM_BYTES: Final = 1 << 24


class IdxHeader(NamedTuple):
    """Number, shape and type of the items of an IDX file.

    Attributes:
        num_items: Number of items.
        item_shape: Shape of an item.
        dtype: Dtype of the values, in the byte order of this machine.
    """

    num_items: int
    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def item_bytes(self) -> int:
        """Bytes of an item."""
        return math.prod(self.item_shape) * self.dtype.itemsize

    @property
    def block_items(self) -> int:
        """Number of items in about 1 MiB, at least 1."""
        return max(1, _BLOCK_BYTES // max(1, self.item_bytes))

    def dump(self) -> bytes:
        """Return the bytes of the header.

        Raises:
            ConfigError: IDX does not have the type or shape.
        """
        code = _TYPES.get(self.dtype.newbyteorder("="))
        lengths = (self.num_items, *self.item_shape)
        if code is None or max(lengths) >= 1 << 32 or len(lengths) > _MAX_DIMENSIONS:
            raise ConfigError(
                f"expected {', '.join(str(each) for each in _TYPES)} in up to {_MAX_DIMENSIONS}"
                f" dimensions for IDX, got {self.dtype} {lengths}"
            )
        return _START.pack(0, code, len(lengths)) + struct.pack(f">{len(lengths)}I", *lengths)


class IdxFile:
    """An open IDX file; see ``open_idx``.

    Attributes:
        header: The header of the file.
    """

    def __init__(self, file: BinaryIO, path: str, file_bytes: int | None) -> None:
        self._file = file
        self._path = path
        self.header = self._read_header(file_bytes)

    def iter_blocks(self, block_items: int, *, position: int = 0) -> Iterator[NDArray[Any]]:
        """Yield the items in blocks, once.

        Args:
            block_items: Items per block, fewer in the last one.
            position: Number of items to skip.

        Yields:
            Arrays of shape ``(n, *item_shape)``, in the byte order of this machine, with memory of
            their own.

        Raises:
            ReaderEndedError: There are fewer items than ``position``.
            TruncatedError: The file ends before its last item.
            FormatError: The file cannot be decompressed, or continues after its last item.
        """
        header, stored = self.header, self.header.dtype.newbyteorder(">")
        if position > header.num_items:
            raise ended(position, header.num_items)
        with _damage_told(self._path):
            self._file.seek(position * header.item_bytes, os.SEEK_CUR)
        for start in range(position, header.num_items, block_items):
            count = min(block_items, header.num_items - start)
            data = self._exactly(count * header.item_bytes)
            values = np.frombuffer(data, stored).reshape(count, *header.item_shape)
            yield values.astype(header.dtype, copy=False)
        if self._at_most(1):
            raise FormatError(
                f"expected the end of the file after the last of {header.num_items} items",
                path=self._path,
            )

    def _read_header(self, file_bytes: int | None) -> IdxHeader:
        zeros, code, num_dimensions = _START.unpack(self._exactly(_START.size))
        if zeros or code not in _DTYPES or not 0 < num_dimensions <= _MAX_DIMENSIONS:
            raise BadMagicError(
                f"expected the header of an IDX file, got {zeros:#06x} type {code:#04x} with"
                f" {num_dimensions} dimensions",
                path=self._path,
                offset_bytes=0,
            )
        lengths = struct.unpack(f">{num_dimensions}I", self._exactly(4 * num_dimensions))
        dtype = np.dtype(_DTYPES[code]).newbyteorder("=")
        header = IdxHeader(lengths[0], lengths[1:], dtype)
        # Checked before memory of this size is allocated.
        if not 0 < header.item_bytes <= _MAX_ITEM_BYTES:
            raise FormatError(
                f"expected items of 1 to {_MAX_ITEM_BYTES} bytes, got shape {header.item_shape}",
                path=self._path,
                offset_bytes=_START.size,
            )
        expected = _START.size + 4 * num_dimensions + header.num_items * header.item_bytes
        if file_bytes is not None and file_bytes < expected:
            raise TruncatedError(
                f"expected {expected} bytes for {header.num_items} items of {header.item_shape},"
                f" got {file_bytes}",
                path=self._path,
            )
        return header

    def _exactly(self, num_bytes: int) -> bytearray:
        data = self._at_most(num_bytes)
        if len(data) < num_bytes:
            raise TruncatedError(
                f"expected {num_bytes} more bytes, got {len(data)}", path=self._path
            )
        return data

    def _at_most(self, num_bytes: int) -> bytearray:
        """Return the next bytes, fewer at the end; allocates memory only for existing bytes."""
        data = bytearray()
        with _damage_told(self._path):
            while piece := self._file.read(min(num_bytes - len(data), _BLOCK_BYTES)):
                data += piece
        return data


@contextmanager
def open_idx(path: FilePath) -> Iterator[IdxFile]:
    """Open an IDX file, plain or compressed, and close it at the end.

    Raises:
        NotFoundError: The file does not exist.
        BadMagicError: The file is not an IDX file.
        TruncatedError: The file ends inside its header; an uncompressed file also if it ends
            before its last item.
        FormatError: The path is not a plain file, or the file cannot be decompressed, or items
            have 0 bytes or more than 16 MiB.
        StorageError: The file cannot be read.
    """
    with open_plain(path, follow=True) as raw:
        with os_errors(str(path)):
            is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
        if not is_gzip:
            yield IdxFile(raw, str(path), os.fstat(raw.fileno()).st_size)
            return
        with gzip.GzipFile(fileobj=raw) as inflated:
            yield IdxFile(cast("BinaryIO", inflated), str(path), None)


@contextmanager
def _damage_told(path: str) -> Iterator[None]:
    with os_errors(path):
        try:
            yield
        except EOFError as error:
            raise TruncatedError(f"the gzip stream ends early: {error}", path=path) from error
        # Inside os_errors, because BadGzipFile is a subclass of OSError.
        except (zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"the gzip stream is damaged: {error}", path=path) from error


# --- Readers over IDX files, the format of MNIST


def idx(images: FilePath, labels: FilePath | None = None) -> BlockReader:
    """Return a reader over the items of an IDX file, or over pairs from two files.

    Args:
        images: The file of the first column; items have the shape and type of its header, in the
            byte order of this machine.
        labels: The file of the second column; None for samples of one value.

    Raises:
        NotFoundError: A file does not exist. All errors are raised by a pass.
        BadMagicError: A file is not an IDX file.
        TruncatedError: A file is shorter than its header announces; for an uncompressed file this
            is raised before the first item.
        FormatError: A file is longer than its header announces, or is not a plain file, or cannot
            be decompressed, or has items of 0 bytes or more than 16 MiB, or the files differ in
            length.
    """
    form = RowForm.VALUE if labels is None else RowForm.TUPLE
    read = functools.partial(_read, images, labels)
    return BlockSource(lambda: read(0), form=form, blocks_from=read)


def _read(images: FilePath, labels: FilePath | None, position: int) -> Iterator[Block]:
    with open_idx(images) as file:
        step = file.header.block_items
        values = file.iter_blocks(step, position=position)
        if labels is None:
            yield from ({"value": items} for items in values)
            return
        with open_idx(labels) as label_file:
            num_images, num_labels = file.header.num_items, label_file.header.num_items
            if num_images != num_labels:
                raise FormatError(
                    f"expected as many labels as images, got {num_labels} labels for {num_images}"
                    f" images in {images}",
                    path=str(labels),
                )
            label_values = label_file.iter_blocks(step, position=position)
            for image_items, label_items in zip(values, label_values, strict=True):
                yield {"image": image_items, "label": label_items}


# --- Readers over record files

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
