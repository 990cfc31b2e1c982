"""RecordIO files: bytes to records and back, without a cluster and without a schema."""

from trainfeed.damage import DamagePolicy, DamageReport, DroppedRange
from trainfeed.recordio._access import RandomAccess
from trainfeed.recordio._append import RecordAppender
from trainfeed.recordio._byte_source import MappedFile, ReadableFile
from trainfeed.recordio._chunk import ChunkBuffers, ReusedMemory, decode_payload, read_chunk
from trainfeed.recordio._chunk_index import RangeScanner, RecordIndex
from trainfeed.recordio._chunk_walk import iter_chunks, verify_shard
from trainfeed.recordio._chunks_ahead import BufferPool, ChunkPlace, decode_chunks, read_chunks
from trainfeed.recordio._filling import ChunkFraming, ChunkLimits
from trainfeed.recordio._fluid import FluidScanner
from trainfeed.recordio._framing import record_bounds, split_records
from trainfeed.recordio._record_writer import RecordWriter
from trainfeed.recordio._recordio_format import MAX_RAW_BYTES, ChunkInfo, Codec
from trainfeed.recordio._scanner import RecordScanner

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
