"""Reads landing files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.sources.landing._content_digest import CONTENT, Digest, digest_of
from trainfeed.sources.landing._landing_format import LANDING_SCHEMA
from trainfeed.storage import Location

__all__ = ["LandingFile"]

_MAGIC: Final = b"ARROW1"


class LandingFile:
    """One complete landing file, open for reading.

    Attributes:
        metadata: The texts given to ``close`` of the writer, with number and digest of the trailer.
    """

    def __init__(self, file: BinaryIO, *, path: str | None, owned: bool) -> None:
        self._file = file
        self._path = path
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
            FormatError: The file is damaged in a way that shows without a digest.
        """
        digest = digest_of(self.metadata, self._path) if verifies else None
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
        with _map_errors(self._path):
            batch = self._reader.get_batch(index)
            # The buffers come from a file: without validation, an offset that points outside of its
            # buffer would crash the process.
            batch.validate(full=True)
            return batch

    def iter_stamps(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield offsets and timestamps of each batch, without reading the other columns."""
        with _map_errors(self._path):
            options = pa.ipc.IpcReadOptions(included_fields=[0, 1])
            reader = pa.ipc.open_file(self._file, options=options)
        for index in range(self.num_batches):
            with _map_errors(self._path):
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

    def _compare(self, digest: Digest) -> None:
        expected, actual = self.metadata[CONTENT], digest.hexdigest()
        if actual != expected:
            raise ChecksumError(f"expected content {expected}, got {actual}", path=self._path)

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
