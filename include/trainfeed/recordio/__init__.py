"""RecordIO files: bytes to records and back, without a cluster and without a schema."""

from trainfeed.damage import DamagePolicy, DamageReport, DroppedRange
from trainfeed.recordio.chunk import (
    ChunkBuffers,
    MappedFile,
    ReadableFile,
    ReusedMemory,
    decode_payload,
    read_chunk,
)
from trainfeed.recordio.format import MAX_RAW_BYTES, ChunkInfo, Codec, record_bounds, split_records
from trainfeed.recordio.read import (
    BufferPool,
    ChunkPlace,
    RandomAccess,
    RangeScanner,
    RecordIndex,
    RecordScanner,
    decode_chunks,
    iter_chunks,
    read_chunks,
    verify_shard,
)
from trainfeed.recordio.salvage import FluidScanner
from trainfeed.recordio.write import ChunkFraming, ChunkLimits, RecordAppender, RecordWriter

__all__ = [
    "MAX_RAW_BYTES",
    "BufferPool",
    "ChunkBuffers",
    "ChunkFraming",
    "ChunkInfo",
    "ChunkLimits",
    "ChunkPlace",
    "Codec",
    "DamagePolicy",
    "DamageReport",
    "DroppedRange",
    "FluidScanner",
    "MappedFile",
    "RandomAccess",
    "RangeScanner",
    "ReadableFile",
    "RecordAppender",
    "RecordIndex",
    "RecordScanner",
    "RecordWriter",
    "ReusedMemory",
    "decode_chunks",
    "decode_payload",
    "iter_chunks",
    "read_chunk",
    "read_chunks",
    "record_bounds",
    "split_records",
    "verify_shard",
]
