"""Chunks of a data set's shards, in either format; keeps TFRecord out of readers of RecordIO.

Only ``examples``, the half for TFRecord, needs ``trainfeed.tfrecord``. It is imported for data sets
in that format only.
"""

from trainfeed.dataset.chunks._chunk_decoder import ChunkDecoder, RecordIOChunks, decoder_of
from trainfeed.dataset.chunks._chunk_kinds import EXAMPLES, Chunk, ExampleRun, chunk_of

__all__ = [
    "EXAMPLES",
    "Chunk",
    "ChunkDecoder",
    "ExampleRun",
    "RecordIOChunks",
    "chunk_of",
    "decoder_of",
]
