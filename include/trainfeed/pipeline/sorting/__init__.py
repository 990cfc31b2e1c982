"""The external sort of a build: spill files of sorted runs, merged within a bound of memory."""

from trainfeed.pipeline.sorting._collector import SampleBlock, SampleSorter
from trainfeed.pipeline.sorting._merge_runs import Merge, held_batch_bytes
from trainfeed.pipeline.sorting._sample_order import RecordColumn
from trainfeed.pipeline.sorting._sorted_pieces import PieceSorter
from trainfeed.pipeline.sorting._sorted_run import SpillRun
from trainfeed.pipeline.sorting._spill_file import ArrowWithTrailer
from trainfeed.pipeline.sorting._spill_writer import (
    QUARANTINE_SCHEMA,
    RECORD,
    SPILL_SCHEMA,
    TrailerWriter,
    edges_of,
    first_shards,
)

__all__ = [
    "QUARANTINE_SCHEMA",
    "RECORD",
    "SPILL_SCHEMA",
    "ArrowWithTrailer",
    "Merge",
    "PieceSorter",
    "RecordColumn",
    "SampleBlock",
    "SampleSorter",
    "SpillRun",
    "TrailerWriter",
    "edges_of",
    "first_shards",
    "held_batch_bytes",
]
