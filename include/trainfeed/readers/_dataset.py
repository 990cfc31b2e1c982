"""The samples of published versions: one split of one or more versions, striped over ranks.

Samples are read in the order of their versions, splits and shards. The sample with ordinal ``i``
belongs to rank ``i % world_size``, so one shard serves any number of ranks. The files of a version
are found through its manifest; no folder is listed.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from trainfeed.dataset import AcceptedHole, Skip, Version
from trainfeed.dataset.chunks import Chunk, ChunkDecoder, decoder_of
from trainfeed.dataset.leases import HeldLease
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import open_plain
from trainfeed.readers._blocks import BlockSource, SampleSource
from trainfeed.readers._position import ended
from trainfeed.readers._types import Block, Reader, Sample
from trainfeed.recordio import split_records
from trainfeed.samples import Schema, TypedCodec
from trainfeed.whole_numbers import rank_of

__all__ = ["DatasetReader"]


@dataclass(frozen=True)
class _Span:
    """One chunk of one shard, its decoder, and the ordinal of its first sample in the data set."""

    path: Path
    info: Chunk
    decoder: ChunkDecoder
    first_ordinal: int


class DatasetReader:
    """A split of one or more versions with equal schemas.

    Args:
        versions: The versions in reading order; at least one.
        split: Name of the split.
        missing: Requested intervals that are not published.
        skipped: Requested intervals that were left out on purpose.
        accepted: Holes between the versions that a person accepted.
        lease: The lease of the versions, which ``close`` releases; None without a lease.

    Attributes:
        versions: The versions in reading order.
        split: Name of the split.
        missing: Names of the requested intervals that are not read because they are not published;
            without a recorded schedule, the ranges without a version.
        skipped: Requested intervals that were left out on purpose, with reason and time.
        accepted: Holes between the versions that a person accepted, with who and why.
        schema: Schema of the samples.
        lease: The lease that keeps the versions from removal; None without one, and in a worker
            process, which relies on the lease of its parent.
    """

    def __init__(
        self,
        versions: Sequence[Version],
        split: str,
        *,
        missing: Sequence[str] = (),
        skipped: Sequence[Skip] = (),
        accepted: Sequence[AcceptedHole] = (),
        lease: HeldLease | None = None,
    ) -> None:
        if not versions:
            raise ConfigError("expected at least one published version, found none")
        self.versions = list(versions)
        self.split = split
        self.missing = tuple(missing)
        self.skipped = tuple(skipped)
        self.accepted = tuple(accepted)
        self.lease = lease
        self.schema: Schema = versions[0].schema
        for version in versions:
            version.num_samples(split)
            if version.schema != self.schema:
                raise ConfigError(
                    f"{version.name} has another schema than {versions[0].name}; rebuild one of"
                    " them, or read them one by one"
                )

    def close(self) -> None:
        """Release the lease; does nothing without one. The data set may still be read."""
        if self.lease is not None:
            self.lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "lease": None}

    @property
    def num_samples(self) -> int:
        """Number of samples of the split, over all versions and ranks."""
        return sum(version.num_samples(self.split) for version in self.versions)

    @property
    def version(self) -> str:
        """``2013-01-01/g0001``; the names of a range are joined by commas."""
        return ",".join(version.name for version in self.versions)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the version; of a range, a digest over those of its versions."""
        return _combine([version.manifest.fingerprint for version in self.versions])

    @property
    def content_digest(self) -> str:
        """Content digest of the version; of a range, a digest over those of its versions."""
        return _combine([version.manifest.content_digest for version in self.versions])

    def reader(self, *, rank: int = 0, world_size: int = 1) -> Reader:
        """Return a reader over the samples of a rank; every call starts a pass from the beginning.

        The arrays of a sample have memory of their own; an absent optional field is None. The
        reader is a ``BlockReader`` if all fields have a fixed size.
        """
        rank, world_size = rank_of(rank, world_size)
        if not self.schema.is_fixed:
            return SampleSource(functools.partial(self._samples, rank, world_size))
        blocks_from = functools.partial(self._blocks, rank, world_size)
        return BlockSource(lambda: blocks_from(0), blocks_from=blocks_from)

    def iter_arrays(
        self, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield this rank's samples chunk by chunk, as field → array of shape (n, *shape).

        The arrays have memory of their own. An optional field is a masked array, whose rows are
        masked where the field is absent. Chunks without a sample for the rank are skipped.

        Raises:
            ConfigError: The schema has fields of variable size.
            FormatError: A shard differs from the published one.
            NotFoundError: A shard is missing.
        """
        rank, world_size = rank_of(rank, world_size)
        if not self.schema.is_fixed:
            raise ConfigError("fields of variable size do not stack; use reader()")
        yield from self._blocks(rank, world_size, 0)

    def _blocks(self, rank: int, world_size: int, position: int) -> Iterator[Block]:
        codec = TypedCodec(self.schema)
        for span, framing, mine in self._chunks(rank, world_size, position):
            columns = codec.decode_records(framing, span.info.num_records)
            yield {name: column[mine] for name, column in columns.items()}

    def _samples(self, rank: int, world_size: int, position: int) -> Iterator[Sample]:
        codec = TypedCodec(self.schema)
        for span, framing, mine in self._chunks(rank, world_size, position):
            for record in split_records(framing, span.info.num_records)[mine]:
                yield codec.decode(record)

    def _chunks(
        self, rank: int, world_size: int, position: int
    ) -> Iterator[tuple[_Span, memoryview, slice]]:
        """Yield the chunks with samples of a rank from a position on, and the samples' slice."""
        if self.lease is not None:
            self.lease.require()
        num_samples = len(range(rank, self.num_samples, world_size))
        if position > num_samples:
            raise ended(position, num_samples)
        # The samples of the rank have the ordinals rank, rank + world_size, and so on.
        next_ordinal = rank + position * world_size
        for span in self._spans():
            first = next_ordinal - span.first_ordinal
            if first < span.info.num_records:
                yield span, _framing(span), slice(first, None, world_size)
                num_mine = len(range(first, span.info.num_records, world_size))
                next_ordinal += num_mine * world_size

    def _spans(self) -> Iterator[_Span]:
        base = 0
        for version in self.versions:
            paths = version.shard_paths(self.split)
            chunks = version.chunks(self.split)
            decoder = decoder_of(self.schema, {chunk.info.codec for chunk in chunks})
            for chunk in chunks:
                yield _Span(paths[chunk.shard], chunk.info, decoder, base + chunk.first_ordinal)
            base += version.num_samples(self.split)


def _framing(span: _Span) -> memoryview:
    with open_plain(span.path, follow=False) as file:
        try:
            return span.decoder.read(file, span.info)
        except FormatError as error:
            error.path = error.path or str(span.path)
            raise


def _combine(digests: Sequence[str]) -> str:
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
