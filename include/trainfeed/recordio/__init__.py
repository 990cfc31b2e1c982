"""Record files: bytes to bytes, no cluster, no schema."""

from trainfeed.recordio._access import RandomAccess
from trainfeed.recordio._append import RecordAppender
from trainfeed.recordio._chunk import ChunkBuffers, read_chunk
from trainfeed.recordio._damage import DamagePolicy, DamageReport, DroppedRange
from trainfeed.recordio._fluid import FluidScanner
from trainfeed.recordio._format import MAX_RAW_BYTES, ChunkInfo, Codec
from trainfeed.recordio._framing import split_records
from trainfeed.recordio._index import RangeScanner, RecordIndex
from trainfeed.recordio._scanner import RecordScanner
from trainfeed.recordio._verify import verify_shard
from trainfeed.recordio._walk import iter_chunks
from trainfeed.recordio._writer import RecordWriter

__all__ = [
    "MAX_RAW_BYTES",
    "ChunkBuffers",
    "ChunkInfo",
    "Codec",
    "DamagePolicy",
    "DamageReport",
    "DroppedRange",
    "FluidScanner",
    "RandomAccess",
    "RangeScanner",
    "RecordAppender",
    "RecordIndex",
    "RecordScanner",
    "RecordWriter",
    "iter_chunks",
    "read_chunk",
    "split_records",
    "verify_shard",
]
