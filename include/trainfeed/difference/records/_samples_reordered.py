"""The samples of a version in the order of another seed: sorted through temporary files.

Versions of different seeds have their samples in different orders. One of them is then written to
files by ranges of its new keys, each of which fits into memory, and read back range by range; a
range that is larger is divided again. The files have no names, so a process that is killed leaves
none behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.difference.records._merged_samples import Blocks
from trainfeed.difference.records._sample_rows import SampleRows, objects
from trainfeed.paths import os_errors

__all__ = ["reordered"]

_PREFIX: Final = "trainfeed-diff-"
_FILE_BYTES: Final = 64 << 20
_MOST_FILES: Final = 256
_SCHEMA: Final = pa.schema(
    {
        "keys": pa.uint64(),
        "sources": pa.uint64(),
        "offsets": pa.int64(),
        "ordinals": pa.int32(),
        "splits": pa.int16(),
        "records": pa.large_binary(),
    }
)


def reordered(
    streams: Sequence[Blocks], num_bytes: int, keys: tuple[int, int] = (0, 1 << 64)
) -> Iterator[SampleRows]:
    """Yield the samples of streams in ascending order of their keys.

    The samples lie in files of ``TMPDIR`` meanwhile, which have no names, and which take about
    ``num_bytes`` of space.

    Args:
        streams: Streams in any order.
        num_bytes: Size of all records.
        keys: Range of their keys, half-open.

    Raises:
        StorageError: ``TMPDIR`` refused or failed.
    """
    num_files = min(max(num_bytes // _FILE_BYTES, 1), _MOST_FILES)
    first, end = keys
    edges = [first + (end - first) * n // num_files for n in range(num_files + 1)]
    with ExitStack() as stack:
        with os_errors(tempfile.gettempdir()):
            files = [
                stack.enter_context(tempfile.TemporaryFile(prefix=_PREFIX))
                for _ in range(num_files)
            ]
            _scatter(streams, files, np.array(edges[1:-1], np.uint64))
        for file, span in zip(files, pairwise(edges), strict=True):
            size = file.tell()
            # Samples of one key cannot be divided.
            if size > 2 * _FILE_BYTES and span[1] - span[0] > 1:
                yield from reordered([_blocks(file)], size, span)
            else:
                yield _sorted(file)


def _scatter(
    streams: Sequence[Blocks], files: Sequence[BinaryIO], starts: NDArray[np.uint64]
) -> None:
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_stream(file, _SCHEMA)) for file in files]
        for block in (block for stream in streams for block in stream):
            numbers = starts.searchsorted(block.keys, side="right")
            for number in np.unique(numbers).tolist():
                writers[number].write_batch(_batch(block.taken(numbers == number)))


def _batch(rows: SampleRows) -> pa.RecordBatch:
    columns = [pa.array(getattr(rows, field.name), field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _blocks(file: BinaryIO) -> Iterator[SampleRows]:
    file.seek(0)
    for batch in pa.ipc.open_stream(file):
        yield _rows(pa.Table.from_batches([batch]))


def _sorted(file: BinaryIO) -> SampleRows:
    file.seek(0)
    rows = _rows(pa.ipc.open_stream(file).read_all())
    return rows.taken(np.argsort(rows.keys, kind="stable"))


def _rows(table: pa.Table) -> SampleRows:
    records = objects(table["records"].to_pylist())
    columns = {name: table[name].to_numpy() for name in _SCHEMA.names if name != "records"}
    return SampleRows(**columns, records=records)
