"""Reader creators: files, arrays, topics and published data sets as functions without arguments."""

from trainfeed.readers._arrays import np_array, text_file
from trainfeed.readers._blocks import BlockSource, SampleSource
from trainfeed.readers._dataset import DatasetReader
from trainfeed.readers._dispatched import DispatchedReader, dispatched
from trainfeed.readers._idx_file import IdxFile, IdxHeader, open_idx
from trainfeed.readers._idx_reader import idx
from trainfeed.readers._kafka_reader import kafka_range
from trainfeed.readers._open_dataset import open_dataset
from trainfeed.readers._position import SeekableReader, ended, leave_out, leave_out_rows
from trainfeed.readers._reader_lease import leased
from trainfeed.readers._record_readers import recordio, tfrecord
from trainfeed.readers._types import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    num_rows,
    open_reader,
    rows,
)

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
