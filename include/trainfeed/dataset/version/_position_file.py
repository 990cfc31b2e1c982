"""The positions of a version's samples, read batch by batch in bounded memory.

``Version.positions`` returns them as one table, which takes 20 bytes a sample and more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.dataset._intact import compare_file
from trainfeed.dataset.version._opened_version import Version
from trainfeed.dataset.version._version_parts import POSITIONS, POSITIONS_SCHEMA
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import open_plain

__all__ = ["PositionFile", "PositionRows", "has_positions"]

_COLUMNS: Final = ("source", "offset", "ordinal")


class PositionRows(NamedTuple):
    """Positions of neighbouring samples of one split; arrays of shape (n,).

    Attributes:
        sources: Indices into ``sources`` of the manifest, int32.
        offsets: Offsets of the records, int64.
        ordinals: Ordinals of the samples among those of their records, int32.
    """

    sources: NDArray[Any]
    offsets: NDArray[Any]
    ordinals: NDArray[Any]


def has_positions(version: Version) -> bool:
    """Return whether a version was published with the positions of its samples."""
    return POSITIONS in version.manifest.file_digests()


class PositionFile:
    """The file of positions of one version; its digest is compared once, when it is opened.

    Args:
        version: The version.

    Raises:
        NotFoundError: The version was published without positions, or the file is missing.
        ChecksumError: The file is not the one that was published.
        FormatError: The file has other content.
        StorageError: The file system refused or failed.
    """

    def __init__(self, version: Version) -> None:
        self._version = version
        self._path = version.path / POSITIONS
        entry = version.manifest.file_digests().get(POSITIONS)
        if entry is None:
            raise NotFoundError(f"version {version.path} was published without {POSITIONS}")
        for problem in compare_file(self._path, *entry):
            raise problem
        self._batches: dict[str, list[int]] = defaultdict(list)
        counts = dict.fromkeys(version.manifest.splits, 0)
        for number, batch in enumerate(self._read(None)):
            for split in batch["split"].unique().to_pylist():
                self._batches[split].append(number)
                counts[split] = counts.get(split, 0) + batch.num_rows
        expected = {name: split.samples for name, split in version.manifest.splits.items()}
        if counts != expected:
            raise self._damaged(f"samples of the splits {expected}, got {counts}")

    def rows(self, split: str) -> Iterator[PositionRows]:
        """Yield the positions of the samples of a split, in their order; one shard at most."""
        num_sources = len(self._version.manifest.sources)
        for batch in self._read(self._batches.get(split, [])):
            rows = PositionRows(*(batch[name].to_numpy() for name in _COLUMNS))
            if ((rows.sources < 0) | (rows.sources >= num_sources)).any():
                raise self._damaged(f"indices of {num_sources} sources, got others")
            yield rows

    def _read(self, numbers: list[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield batches by their numbers, or all."""
        with open_plain(self._path, follow=False) as file, self._arrow_errors():
            reader = pa.ipc.open_file(file)
            if not reader.schema.equals(POSITIONS_SCHEMA):
                raise self._damaged(f"columns {POSITIONS_SCHEMA.names}, got {reader.schema.names}")
            for number in range(reader.num_record_batches) if numbers is None else numbers:
                batch = reader.get_batch(number)
                # Without validation, an offset outside of a buffer would crash the process.
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise self._damaged("positions without nulls")
                yield batch

    @contextmanager
    def _arrow_errors(self) -> Iterator[None]:
        try:
            yield
        # pyarrow raises some errors about damaged bytes as OSError without errno.
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self._damaged(f"an Arrow file: {error}") from error

    def _damaged(self, problem: str) -> FormatError:
        return FormatError(
            f"expected {problem}; compare the version: trainfeed verify", path=str(self._path)
        )
