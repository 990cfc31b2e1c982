"""Writes one shard from blocks of samples, and keeps an account of the samples and chunks.

The account of a written shard is the trailer of its file of positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from trainfeed.dataset.chunk_index import Chunk
from trainfeed.dataset.manifest import ShardEntry
from trainfeed.dataset.publication import StagedFile
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.sorting import RecordColumn
from trainfeed.pipeline.stage import Stage
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Schema, Statistics, TypedCodec, frame_records
from trainfeed.specification import OutputSpec

if TYPE_CHECKING:
    from trainfeed.dataset.examples import ExampleRunWriter

__all__ = [
    "ShardPart",
    "ShardWriter",
    "shard_entry",
]

# Records are framed, hashed and counted in pieces that stay in the processor's cache. With many
# fields the pieces are larger, because then the fixed cost per field and piece counts more.
_PIECE_BYTES: Final = 1 << 20
_PIECE_BYTES_PER_FIELD: Final = 512


@dataclass(frozen=True)
class ShardPart:
    """A shard in the staging folder.

    Attributes:
        entry: Name, size and digests of its file, as the manifest will have them.
        chunks: Rows of the chunk index, without split, shard and first ordinal.
        statistics: Statistics of its samples, as JSON.
    """

    entry: ShardEntry
    chunks: Sequence[Mapping[str, int]]
    statistics: Mapping[str, object]

    def to_json(self) -> JsonObject:
        """Return the JSON for the trailer."""
        return {
            "shard": self.entry.model_dump(),
            "chunks": list(self.chunks),
            "statistics": self.statistics,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ShardPart:
        """Read the JSON of ``to_json``, from a trailer that may hold further keys.

        Raises:
            FormatError: The trailer is not that of a shard.
        """
        try:
            return cls(
                shard_entry(value["shard"]),
                list(cast("Sequence[Mapping[str, int]]", value["chunks"])),
                cast("Mapping[str, object]", value["statistics"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected the account of a shard in the trailer of its positions: {error};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " convert on)"
            ) from error


def shard_entry(value: object) -> ShardEntry:
    """Read the entry of a shard's file.

    Raises:
        ValueError: ``value`` is no such entry; the message names the first wrong key.
    """
    try:
        return ShardEntry.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error


class ShardWriter:
    """Writes the samples of one shard, in their order.

    Args:
        stage: The stage, for output and schema.
        file: The staged shard.
    """

    def __init__(self, stage: Stage, file: StagedFile) -> None:
        schema = Schema.from_json(stage.plan.fields)
        self._writer = _record_writer(stage.spec.output, schema, cast("BinaryIO", file))
        self._codec = TypedCodec(schema)
        self._column: RecordColumn | None = None
        if schema.is_fixed:
            self._column = RecordColumn(schema.record_dtype.itemsize)
        self._statistics = Statistics(schema)
        self._digest = hashlib.sha256()
        self._piece_bytes = max(_PIECE_BYTES, _PIECE_BYTES_PER_FIELD * len(schema.names))

    def write(self, records: pa.ChunkedArray) -> None:
        """Append records, a binary column."""
        if self._column is None:
            for chunk in records.chunks:
                self._write_each(chunk)
            return
        # ``joined`` copies: large records are in chunks of one record each.
        step = max(1, self._piece_bytes // self._column.size_bytes)
        for start in range(0, len(records), step):
            self._write_rows(self._column.joined(records.slice(start, step)))

    def close(self) -> None:
        """Write the last chunk; the owner of the file closes it."""
        self._writer.close()

    def part(self, entry: ShardEntry) -> ShardPart:
        """Return the account of the shard; call it after ``close``.

        Args:
            entry: Name, size and digests of the file.
        """
        chunks = [_chunk_json(chunk) for chunk in self._writer.chunks]
        return ShardPart(entry, chunks, self._statistics.to_json())

    @property
    def num_samples(self) -> int:
        """Number of samples written."""
        return self._writer.num_records

    @property
    def records_sha256(self) -> str:
        """SHA-256 over length (4 bytes, little-endian) and bytes of every record, in hex."""
        return self._digest.hexdigest()

    def _write_rows(self, rows: NDArray[np.void]) -> None:
        # Length and bytes of every record: the form that digest and decoder read.
        framing = frame_records(rows)
        self._digest.update(framing)
        self._statistics.update_columns(self._codec.decode_records(framing, len(rows)))
        self._writer.write_array(rows)

    def _write_each(self, records: pa.Array) -> None:
        for record in records.to_pylist():
            self._digest.update(len(record).to_bytes(4, "little"))
            self._digest.update(record)
            self._statistics.update(self._codec.decode(record))
            self._writer.write(record)


def _record_writer(
    output: OutputSpec, schema: Schema, file: BinaryIO
) -> RecordWriter | ExampleRunWriter:
    if output.format == "tfrecord":
        from trainfeed.dataset.examples import ExampleRunWriter

        return ExampleRunWriter(file, schema, max_chunk_bytes=output.chunk_bytes)
    return RecordWriter(
        file,
        codec=Codec[output.codec.upper()],
        level=output.level,
        max_chunk_bytes=output.chunk_bytes,
    )


def _chunk_json(chunk: Chunk) -> dict[str, int]:
    return {
        "offset_bytes": chunk.offset_bytes,
        "stored_bytes": chunk.stored_bytes,
        "raw_bytes": chunk.raw_bytes,
        "num_records": chunk.num_records,
        "crc32": chunk.crc32,
        "codec": int(chunk.codec),
    }
