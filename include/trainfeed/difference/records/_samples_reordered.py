"""The samples of a version in the order of another seed: sorted through temporary files.

Versions of different seeds have their samples in different orders. One of them is then written to
files by ranges of its new keys, each of which fits into memory, and read back range by range. The
files have no names, so a process that is killed leaves none behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

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


def reordered(streams: Sequence[Blocks], num_bytes: int) -> Iterator[SampleRows]:
    """Yield the samples of streams in ascending order of their keys.

    The samples lie in files of ``TMPDIR`` meanwhile, which have no names, and which take about
    ``num_bytes`` of space.

    Args:
        streams: Streams in any order.
        num_bytes: Size of all records.

    Raises:
        StorageError: ``TMPDIR`` refused or failed.
    """
    num_files = min(max(num_bytes // _FILE_BYTES, 1), _MOST_FILES)
    with ExitStack() as stack:
        with os_errors(tempfile.gettempdir()):
            files = [
                stack.enter_context(tempfile.TemporaryFile(prefix=_PREFIX))
                for _ in range(num_files)
            ]
            _scatter(streams, files)
        for file in files:
            yield _sorted(file)


def _scatter(streams: Sequence[Blocks], files: Sequence[BinaryIO]) -> None:
    starts = np.array([(n << 64) // len(files) for n in range(1, len(files))], np.uint64)
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_stream(file, _SCHEMA)) for file in files]
        for block in (block for stream in streams for block in stream):
            numbers = starts.searchsorted(block.keys, side="right")
            for number in np.unique(numbers).tolist():
                writers[number].write_batch(_batch(block.taken(numbers == number)))


def _batch(rows: SampleRows) -> pa.RecordBatch:
    columns = [pa.array(getattr(rows, field.name), field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _sorted(file: BinaryIO) -> SampleRows:
    file.seek(0)
    table = pa.ipc.open_stream(file).read_all()
    records = objects(table["records"].to_pylist())
    columns = {name: table[name].to_numpy() for name in _SCHEMA.names if name != "records"}
    rows = SampleRows(**columns, records=records)
    return rows.taken(np.argsort(rows.keys, kind="stable"))
