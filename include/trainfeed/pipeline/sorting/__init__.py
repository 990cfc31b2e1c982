"""The external sort of a build: spill files of sorted runs, merged within a bound of memory.

``collector`` sorts runs in memory, ``merge`` merges spilled ones; its ``PieceSorter`` is for Spark.
"""

from trainfeed.pipeline.sorting.collector import SampleBlock, SampleSorter
from trainfeed.pipeline.sorting.merge import Merge, PieceSorter, SpillRun, held_batch_bytes
from trainfeed.pipeline.sorting.spill_files import (
    QUARANTINE_SCHEMA,
    RECORD,
    SPILL_SCHEMA,
    ArrowWithTrailer,
    RecordColumn,
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
