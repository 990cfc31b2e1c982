"""Reader creators: files, arrays, topics and published data sets as functions without arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.readers.blocks import (
        Block,
        BlockReader,
        BlockSource,
        Reader,
        ReaderLike,
        RowForm,
        Sample,
        SampleSource,
        SeekableReader,
        ended,
        leave_out,
        leave_out_rows,
        num_rows,
        open_reader,
        rows,
    )
    from trainfeed.readers.files import (
        IdxFile,
        IdxHeader,
        idx,
        np_array,
        open_idx,
        recordio,
        text_file,
        tfrecord,
    )
    from trainfeed.readers.lent_tasks import DispatchedReader, dispatched
    from trainfeed.readers.published import DatasetReader, data_at, leased, open_dataset
    from trainfeed.readers.topics import kafka_range

__all__ = [
    "Block",
    "BlockReader",
    "BlockSource",
    "DatasetReader",
    "DispatchedReader",
    "IdxFile",
    "IdxHeader",
    "Reader",
    "ReaderLike",
    "RowForm",
    "Sample",
    "SampleSource",
    "SeekableReader",
    "data_at",
    "dispatched",
    "ended",
    "idx",
    "kafka_range",
    "leased",
    "leave_out",
    "leave_out_rows",
    "np_array",
    "num_rows",
    "open_dataset",
    "open_idx",
    "open_reader",
    "recordio",
    "rows",
    "text_file",
    "tfrecord",
]

__getattr__ = on_demand(__name__)
