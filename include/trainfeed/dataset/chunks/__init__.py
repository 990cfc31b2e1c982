"""Chunks of a data set's shards, in either format; the seam that keeps RecordIO off TFRecord.

``examples`` is the half for TFRecord. It alone needs ``trainfeed.tfrecord``, and is imported for
data sets in that format only.
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
