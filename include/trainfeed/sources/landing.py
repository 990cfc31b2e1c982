"""Landing files: the records of one planned range, unchanged, with the digest in their trailer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.files.stores import Location
from trainfeed.sources.topic import check_topic_name

# --- The digest in a landing file's trailer: which records, in which order, with all they hold

CONTENT: Final = "content"
# The key of the number, and the number of trailers that are written now.
TRAILER: Final = "trailer"
KIND: Final = "2"
_NUMBERS: Final = ("offset", "timestamp", "timestamp_type")
_KEYS: Final = 3
_VALUES: Final = 5
_HEADERS: Final = 7
_HEADER_KEYS: Final = 8
_HEADER_VALUES: Final = 10
_NUM_STREAMS: Final = 12


class ContentDigest:
    """The running digest of a trailer of kind 2."""

    def __init__(self) -> None:
        self._streams = [xxhash.xxh3_128() for _ in range(_NUM_STREAMS)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the records of a batch of ``LANDING_SCHEMA``."""
        for stream, name in enumerate(_NUMBERS):
            self._streams[stream].update(_numbers(batch, name).data)
        self._update_texts(_KEYS, batch.column("key"))
        self._update_texts(_VALUES, batch.column("value"))
        headers = batch.column("headers")
        self._streams[_HEADERS].update(_counts(headers, _ends(headers)).data)
        items = headers.flatten()
        self._update_texts(_HEADER_KEYS, pc.struct_field(items, "key"))
        self._update_texts(_HEADER_VALUES, pc.struct_field(items, "value"))

    def hexdigest(self) -> str:
        """Return the digest of everything so far as 32 hex digits."""
        digests = b"".join(stream.digest() for stream in self._streams)
        return str(xxhash.xxh3_128_hexdigest(digests))

    def _update_texts(self, stream: int, column: pa.Array) -> None:
        """Take in a column of texts: lengths in one stream, bytes in the next."""
        ends = _ends(column)
        lengths = _counts(column, ends)
        if column.null_count and int(lengths[lengths > 0].sum()) != int(ends[-1] - ends[0]):
            # Arrow allows bytes behind a null, which belong to no record.
            column = pc.fill_null(column, pa.scalar(b"", column.type))
            ends = _ends(column)
        self._streams[stream].update(lengths.data)
        _, _, data = column.buffers()
        if data is not None:
            self._streams[stream + 1].update(memoryview(data)[ends[0] : ends[-1]])


def require_kind(metadata: Mapping[str, str], path: str | None) -> None:
    """Raise unless the digest of a trailer is a ``ContentDigest``.

    Args:
        metadata: The metadata of the trailer.
        path: The file, for messages.

    Raises:
        FormatError: A later release wrote the file, or a writer of another kind.
    """
    if (kind := metadata.get(TRAILER)) != KIND:
        raise FormatError(
            f"expected a trailer of kind {KIND}, got {kind!r}; if a later release wrote the file,"
            " read it with that release",
            path=path,
        )


def _ends(column: pa.Array) -> NDArray[Any]:
    """Return the boundaries of the items of a column: one more than it has items."""
    _, ends, *_ = column.buffers()
    if ends is None or not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(ends, "<i4", len(column) + 1, column.offset * 4)


def _counts(column: pa.Array, ends: NDArray[Any]) -> NDArray[np.int32]:
    """Return the lengths of the items of a column, -1 for null."""
    lengths = np.diff(ends)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.ascontiguousarray(batch.column(name).to_numpy())


# --- Landing files: the records of one planned range, unchanged from the source

LANDING_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # milliseconds since 1970 UTC
        ("timestamp_type", pa.int8()),  # 0 none, 1 set by the producer, 2 set by the broker
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
    ]
)
BATCH_ROWS: Final = 16_384


def landing_name(start: int, end: int) -> str:
    """Return the file name of the records of offsets ``[start, end)``."""
    return f"{start:020d}-{end:020d}.arrow"


def landing_folder(topic: str, uuid: str, partition: int) -> str:
    """Return the folder of a partition's landing files, relative to the landing area.

    Raises:
        ConfigError: ``topic`` or ``uuid`` could lead out of that area.
    """
    return f"{check_topic_name(topic)}/{check_topic_name(uuid)}/{partition_folder(partition)}"


def partition_folder(partition: int) -> str:
    """Return the name of the folder that holds a partition's files."""
    return f"p={partition}"


class LandingWriter:
    """Writes one landing file; without ``close`` the file is torn, and readers refuse it.

    Args:
        file: The file to write. The caller closes it, after ``close``.
    """

    def __init__(self, file: BinaryIO) -> None:
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        self._writer = pa.ipc.new_file(file, LANDING_SCHEMA, options=options)
        self._digest = ContentDigest()

    @property
    def content(self) -> str:
        """Digest of the records written so far, as 32 hex digits."""
        return self._digest.hexdigest()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records; ``batch`` has ``LANDING_SCHEMA``.

        Raises:
            ValueError: The batch has another schema.
        """
        if not batch.schema.equals(LANDING_SCHEMA):
            raise ValueError(f"expected the schema of landing files, got {batch.schema}")
        for start in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            self._digest.update(piece)
            self._writer.write_batch(piece)

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the trailer and Arrow's footer; the caller then closes its file.

        Args:
            metadata: Texts known only at the end, such as the ledger; number and digest are added.
        """
        trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
        entries = {**metadata, TRAILER: KIND, CONTENT: self.content}
        self._writer.write_batch(trailer, custom_metadata=entries)
        self._writer.close()


# --- Reads landing files

_MAGIC: Final = b"ARROW1"


class LandingFile:
    """One complete landing file, open for reading.

    Attributes:
        metadata: The texts given to ``close`` of the writer, with number and digest of the trailer.
        path: Its URI; None of a file that the caller has opened.
    """

    def __init__(self, file: BinaryIO, *, path: str | None, owned: bool) -> None:
        self._file = file
        self.path = path
        self._owned = owned
        with _map_errors(path):
            self._reader = _open_reader(file, path)
            self.metadata = _read_trailer(self._reader, path)

    @classmethod
    def open(cls, source: BinaryIO | Location) -> LandingFile:
        """Open a landing file.

        Args:
            source: Location of the file, or a seekable file, which the caller must keep open and
                close.

        Raises:
            TruncatedError: The writer did not finish the file.
            FormatError: The file is no landing file.
            NotFoundError: The file is not there.
        """
        if not isinstance(source, Location):
            return cls(source, path=None, owned=False)
        file = source.open_read()
        try:
            return cls(file, path=source.uri, owned=True)
        except BaseException:
            file.close()
            raise

    def iter_batches(self, *, verifies: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the records in order, as batches of ``LANDING_SCHEMA``; they stay valid.

        Args:
            verifies: Whether to compare the records with the digest in the trailer, after the last
                batch. The batches are then valid only after the iterator has ended.

        Raises:
            ChecksumError: The records are not the ones that were written.
            FormatError: The file is damaged in a way that shows without a digest, or has one of
                another kind.
        """
        digest = ContentDigest() if verifies else None
        if verifies:
            require_kind(self.metadata, self.path)
        for index in range(self.num_batches):
            batch = self.read_batch(index)
            if digest is not None:
                digest.update(batch)
            yield batch
        if digest is not None:
            self._compare(digest)

    @property
    def num_batches(self) -> int:
        """Number of batches with records."""
        return int(self._reader.num_record_batches) - 1

    def read_batch(self, index: int) -> pa.RecordBatch:
        """Return batch ``index``, counted from 0."""
        with _map_errors(self.path):
            batch = self._reader.get_batch(index)
            # The buffers come from a file: without validation, an offset that points outside of its
            # buffer would crash the process.
            batch.validate(full=True)
            return batch

    def iter_stamps(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield offsets and timestamps of each batch, without reading the other columns."""
        with _map_errors(self.path):
            options = pa.ipc.IpcReadOptions(included_fields=[0, 1])
            reader = pa.ipc.open_file(self._file, options=options)
        for index in range(self.num_batches):
            with _map_errors(self.path):
                batch = reader.get_batch(index)
                columns = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            yield columns

    def verify(self) -> None:
        """Read everything and compare it with the digest in the trailer.

        Raises:
            ChecksumError: The records are not the ones that were written.
            FormatError: The records cannot be decoded.
        """
        for _ in self.iter_batches(verifies=True):
            pass

    def _compare(self, digest: ContentDigest) -> None:
        expected, actual = self.metadata[CONTENT], digest.hexdigest()
        if actual != expected:
            raise ChecksumError(f"expected content {expected}, got {actual}", path=self.path)

    def close(self) -> None:
        """Release the file, if it was opened here."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _open_reader(file: BinaryIO, path: str | None) -> Any:
    file.seek(0)
    head = file.read(len(_MAGIC))
    if not _MAGIC.startswith(head):
        raise FormatError(f"expected {_MAGIC!r} at the beginning, got {head!r}", path=path)
    file.seek(0, 2)
    num_bytes = file.tell()
    file.seek(max(0, num_bytes - len(_MAGIC)))
    if file.read(len(_MAGIC)) != _MAGIC or num_bytes <= 2 * len(_MAGIC):
        raise TruncatedError(f"expected Arrow's footer at the end of {num_bytes} bytes", path=path)
    return pa.ipc.open_file(file)


def _read_trailer(reader: Any, path: str | None) -> dict[str, str]:
    if not reader.schema.equals(LANDING_SCHEMA):
        raise FormatError(f"expected the schema of landing files, got {reader.schema}", path=path)
    if reader.num_record_batches == 0:
        raise TruncatedError("expected a trailer, got no batch at all", path=path)
    # ``close`` of the writer adds a batch of 0 rows with the metadata, and then Arrow's footer.
    last = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    entries = last.custom_metadata or {}
    metadata = {key.decode(): value.decode() for key, value in entries.items()}
    if last.batch.num_rows or CONTENT not in metadata:
        raise TruncatedError(
            f"expected a last batch of 0 rows with {CONTENT!r} in its metadata, got"
            f" {last.batch.num_rows} rows and {sorted(metadata)}",
            path=path,
        )
    return metadata


@contextmanager
def _map_errors(path: str | None) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow reports a payload that does not decompress as an OSError without errno. One with
        # errno comes from the file system, and does not mean damaged bytes.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FormatError(f"damaged Arrow file: {error}", path=path) from error
