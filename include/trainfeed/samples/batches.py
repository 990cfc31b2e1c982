"""Record files as batches of arrays, decoded a chunk at a time, without a step per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from numpy.typing import NDArray

from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.errors import ConfigError
from trainfeed.files import FilePath, SetWatch, expand_paths
from trainfeed.recordio import (
    MAX_RAW_BYTES,
    BufferPool,
    ChunkPlace,
    MappedFile,
    ReadableFile,
    RecordIndex,
    decode_chunks,
    iter_chunks,
    read_chunks,
)
from trainfeed.samples.layout import ColumnMemory
from trainfeed.samples.schema import Schema, joined_columns
from trainfeed.samples.typed import TypedCodec

# Bytes that are copied at once. Larger blocks exceed the cache; smaller ones cost more calls.
_BLOCK_BYTES: Final = 1 << 18
# The same for several threads: during a longer copy, without the interpreter lock, others run.
_SHARED_BLOCK_BYTES: Final = 1 << 20

_STRICT: Final = DamagePolicy.strict()

_Columns = dict[str, NDArray[Any]]


class SampleReader:
    """The samples of record files as batches of arrays, in order; can be iterated again.

    Without ``on_damage`` the first damage of a file ends the iteration with an error. The headers
    of all files are read once, when they are first needed.

    Args:
        paths: Files, in the forms that ``trainfeed.recordio.RecordScanner`` takes.
        schema: The schema of the samples.
        threads: Number of chunks that are read and decompressed at once.
        mapped: Map the files instead of reading them; see ``trainfeed.recordio.MappedFile`` for
            when that is wise.
        copy: False gives values of bytes as memoryviews of a chunk's memory, or of the map, which
            they keep alive.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Attributes:
        paths: The files, in the order in which they are read.
        schema: As above.

    Raises:
        NotFoundError: A part of ``paths`` matches no file; the message names the part.
        ConfigError: ``threads`` is below 1.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        schema: Schema,
        *,
        threads: int = 1,
        mapped: bool = False,
        copy: bool = True,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        if threads < 1:
            raise ConfigError(f"expected at least 1 thread, got {threads}")
        self.paths = expand_paths(paths)
        # A pass that may drop damage counts a shard of another size as damage.
        self._sets = SetWatch(self.paths, sizes=False)
        self.schema = schema
        self._codec = TypedCodec(schema)
        self._threads = threads
        self._mapped = mapped
        self._copy = copy
        self._max_raw_bytes = max_raw_bytes
        self._pool = BufferPool()
        self._memory: ColumnMemory | None = None

    @property
    def num_samples(self) -> int:
        """Number of samples in the files, by their headers; a damaged header is an error."""
        return sum(place.info.num_records for place in self._places)

    def iter_batches(
        self,
        num_samples: int,
        *,
        on_damage: DamagePolicy = _STRICT,
        report: DamageReport | None = None,
    ) -> Iterator[_Columns]:
        """Read all files in batches of ``num_samples``, the last one smaller.

        Batches continue across chunks and files. Reading is fastest if every chunk holds a
        multiple of ``num_samples``.

        Args:
            num_samples: Samples of a batch.
            on_damage: Policy for damaged chunks. Unless it is strict, one thread reads the files
                from the first byte to the last. An intact chunk whose records are not samples of
                the schema is always an error.
            report: Account of dropped chunks; needed unless ``on_damage`` is strict. Earlier
                entries count towards the limits of the policy.

        Yields:
            Field → array of shape ``(num_samples, *field.shape)``, contiguous, which the caller
            may keep and change; see ``TypedCodec.decode_columns``. Batches may be views of one
            block of memory, so a kept batch may keep the memory of its neighbours.

        Raises:
            TruncatedError: A file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: This version does not know the codec of a chunk.
            FormatError: The content of a chunk differs from its header or the schema, or the chunk
                is too large.
            ConflictError: The set of shards was converted again since the files were looked up.
            ConfigError: ``on_damage`` is not strict, and there is no ``report``.
        """
        if num_samples < 1:
            raise ValueError(f"expected batches of at least 1 sample, got {num_samples}")
        left: list[_Columns] = []
        num_left = 0
        strict = on_damage == _STRICT
        pieces = self._pieces(num_samples) if strict else self._whole_pieces(on_damage, report)
        for columns, num_rows in self._explained(pieces):
            # The usual case: a piece is exactly a batch, and is passed on without a copy.
            if num_rows == num_samples and not left:
                yield columns
                continue
            start = 0
            while start < num_rows:
                # As many rows as the batch still needs, or all rows of the piece.
                end = min(start + num_samples - num_left, num_rows)
                left.append(_rows(columns, start, end))
                num_left, start = num_left + end - start, end
                if num_left == num_samples:
                    yield _joined(left)
                    left, num_left = [], 0
        if left:
            yield _joined(left)

    def _explained(self, pieces: Iterator[tuple[_Columns, int]]) -> Iterator[tuple[_Columns, int]]:
        with self._sets.explains():
            yield from pieces

    @cached_property
    def _files(self) -> list[ReadableFile]:
        return [MappedFile(path) if self._mapped else path for path in self.paths]

    @cached_property
    def _places(self) -> list[ChunkPlace]:
        self._sets.require_sizes()
        places = [
            ChunkPlace(file, info, number)
            for file in self._files
            for number, info in enumerate(RecordIndex.load(file).chunks)
        ]
        # After all headers were read: they must belong to one version of the set.
        self._sets.require_unchanged()
        return places

    def _pieces(self, batch_size: int) -> Iterator[tuple[_Columns, int]]:
        """Yield columns with their number of samples; all chunks, strictly."""
        self._sets.require_sizes()
        memory = self._memory_for(batch_size) if self.schema.is_fixed else None
        if self._threads == 1:
            chunks = read_chunks(
                self._places,
                lend=self._lends,
                max_raw_bytes=self._max_raw_bytes,
                pool=self._pool,
            )
            for number, (_, framing) in enumerate(chunks):
                yield from self._decode(number, framing, batch_size, memory)
            return
        # The list makes each thread decode its whole chunk; the pieces are yielded in file order.
        for pieces in decode_chunks(
            self._places,
            lambda number, framing: list(self._decode(number, framing, batch_size, memory)),
            threads=self._threads,
            max_raw_bytes=self._max_raw_bytes,
            pool=self._pool if self._lends else None,
        ):
            yield from pieces

    def _whole_pieces(
        self, on_damage: DamagePolicy, report: DamageReport | None
    ) -> Iterator[tuple[_Columns, int]]:
        """Yield columns of the chunks that ``on_damage`` does not drop."""
        limit, copy = self._max_raw_bytes, self._copy
        for file in self._files:
            size = self._sets.size_of(file)
            chunks = iter_chunks(
                file, max_raw_bytes=limit, on_damage=on_damage, report=report, size=size
            )
            for number, (info, framing) in enumerate(self._sets.over(chunks)):
                with ChunkPlace(file, info, number).located():
                    columns = self._codec.decode_columns(framing, info.num_records, copy=copy)
                yield columns, info.num_records

    def _decode(
        self, number: int, framing: memoryview, batch_size: int, memory: ColumnMemory | None
    ) -> Iterator[tuple[_Columns, int]]:
        """Yield the columns of chunk ``number``, cut at multiples of the batch size if possible."""
        place = self._places[number]
        num_records = place.info.num_records
        with place.located():
            if memory is None:
                yield self._codec.decode_columns(framing, num_records, copy=self._copy), num_records
                return
            records = self._codec.view_records(framing, num_records)
            # Samples up to the next multiple of the batch size: they complete the batch that the
            # chunk before began.
            num_missing = -self._starts[number] % batch_size
            yield from self._codec.iter_batches(
                records, batch_size, memory, num_missing=num_missing
            )

    @property
    def _lends(self) -> bool:
        """Whether no column is a view of a framing, so that its memory may be used again."""
        return self._copy or self.schema.is_fixed

    @cached_property
    def _starts(self) -> list[int]:
        """Numbers of the first samples of the chunks."""
        return list(accumulate((place.info.num_records for place in self._places), initial=0))

    def _memory_for(self, batch_size: int) -> ColumnMemory:
        """Return memory for blocks of some batches; later passes get the same memory."""
        record_bytes = self.schema.record_dtype.itemsize
        block_bytes = _BLOCK_BYTES if self._threads == 1 else _SHARED_BLOCK_BYTES
        num_samples = max(block_bytes // (batch_size * record_bytes), 1) * batch_size
        # Never more than an accepted chunk can hold: the batch size may be larger, and a header
        # may lie.
        longest = max((place.info.num_records for place in self._places), default=0)
        num_samples = max(min(num_samples, longest, self._max_raw_bytes // record_bytes), 1)
        if self._memory is None or self._memory.num_samples != num_samples:
            self._memory = ColumnMemory(list(self.schema), num_samples)
        return self._memory


def _rows(columns: _Columns, start: int, end: int) -> _Columns:
    return {name: column[start:end] for name, column in columns.items()}


def _joined(parts: list[_Columns]) -> _Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: joined_columns([part[name] for part in parts]) for name in parts[0]}
