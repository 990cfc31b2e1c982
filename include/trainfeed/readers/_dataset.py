"""Published versions as one data set: opened by name, interval or range, striped over ranks.

Samples are read in the order of their versions, splits and shards. The sample with ordinal ``i``
belongs to rank ``i % world_size``, so one shard serves any number of ranks. Intervals resolve
through CURRENT and files through the manifest; only opening a range lists a folder, that of the
data set's intervals, once, and that of an interval whose CURRENT leads nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trainfeed.config import environment_from_environ
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.examples import Chunk, ExampleRun, ExampleRunDecoder
from trainfeed.dataset.files import open_plain_file
from trainfeed.dataset.layout import is_generation, parse_generation
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.readers._blocks import BlockSource
from trainfeed.readers._types import Reader, Sample
from trainfeed.recordio import read_chunk, split_records
from trainfeed.samples import Schema, TypedCodec

__all__ = ["DatasetReader", "open_dataset"]


def open_dataset(
    name: str | Path,
    *,
    interval: str | None = None,
    split: str,
    generation: str | None = None,
    root: str | Path | None = None,
) -> DatasetReader:
    """Open a split of a published data set.

    Args:
        name: Name of a data set below the publication root, or the path of one version.
        interval: Name of an interval, or ``first/last`` for all published intervals from first to
            last. ``version`` of the result names them: one that is not published is not read.
            Left out when ``name`` is the path of a version.
        split: Name of the split.
        generation: ``g0002`` pins one; needs a single interval. The current one otherwise.
        root: The publication root; ``TRAINFEED_ROOT`` or its default when None.

    Raises:
        NotFoundError: An interval is not published.
        ConfigError: There is no such split, or the versions of a range have different schemas.
        ChecksumError: A manifest is not the one that was published.
    """
    if interval is None:
        return DatasetReader([Version.open(Path(name))], split)
    folder = DatasetFolder(Path(root or environment_from_environ().root), str(name))
    number = None if generation is None else parse_generation(generation)
    first, _, last = interval.partition("/")
    if not last:
        return DatasetReader([Version.resolve(folder, first, number)], split)
    if number is not None:
        raise ConfigError(f"a generation pins one interval, {interval!r} is a range; name one")
    return DatasetReader(_range(folder, first, last), split)


def _range(folder: DatasetFolder, first: str, last: str) -> list[Version]:
    if is_generation(last):
        raise ConfigError(
            f"expected interval={first!r} and generation={last!r}, got interval='{first}/{last}'"
        )
    if first > last:
        raise ConfigError(f"expected a range from earlier to later, got {first} to {last}")
    names = [name for name in folder.intervals() if first <= name <= last]
    generations = {name: folder.readable_generation(name) for name in names}
    versions = [
        Version.resolve(folder, name, generation)
        for name, generation in generations.items()
        if generation is not None
    ]
    if not versions:
        raise NotFoundError(
            f"data set {folder.name!r} has no published version of an interval from {first} to"
            f" {last} in {folder.path}; build one, or name another range"
        )
    return versions


@dataclass(frozen=True)
class _Span:
    """One chunk of one shard, and the ordinal of its first sample in the whole data set."""

    path: Path
    info: Chunk
    first_ordinal: int


class DatasetReader:
    """A split of one or more versions with equal schemas.

    Args:
        versions: In the order in which they are read; at least one.
        split: Name of the split.

    Attributes:
        versions: What is read.
        split: Name of the split.
        schema: Schema of the samples.
    """

    def __init__(self, versions: Sequence[Version], split: str) -> None:
        if not versions:
            raise ConfigError("expected at least one published version, found none")
        self.versions = list(versions)
        self.split = split
        self.schema: Schema = versions[0].schema
        for version in versions:
            version.num_samples(split)
            if version.schema != self.schema:
                raise ConfigError(
                    f"{version.name} has another schema than {versions[0].name}; rebuild one of"
                    " them, or read them one by one"
                )

    @property
    def num_samples(self) -> int:
        """Samples of the split, over all versions and ranks."""
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
        """Return a reader over this rank's samples; every call of it starts anew.

        Samples hold arrays of their own, valid as long as they are held, and None where an
        optional field is absent. The reader gives blocks where no field varies in size.
        """
        _check_rank(rank, world_size)
        if self.schema.is_fixed:
            return BlockSource(lambda: self.iter_arrays(rank=rank, world_size=world_size))
        return lambda: self._iter_variable(rank, world_size)

    def iter_arrays(
        self, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield this rank's samples chunk by chunk, as field → array of shape (n, *shape).

        The arrays are the caller's own. That of an optional field is a masked array, in which the
        rows are masked where the field is absent. Chunks may give no sample to a rank; those are
        left out.

        Raises:
            ConfigError: The schema has fields of variable size.
            FormatError: A shard is not the published one.
            NotFoundError: A shard is missing.
        """
        _check_rank(rank, world_size)
        if not self.schema.is_fixed:
            raise ConfigError("fields of variable size do not stack; use reader()")
        codec = TypedCodec(self.schema)
        for span, framing in self._chunks():
            columns = codec.decode_records(framing, span.info.num_records)
            first = (rank - span.first_ordinal) % world_size
            mine = {name: column[first::world_size] for name, column in columns.items()}
            if first < span.info.num_records:
                yield mine

    def _iter_variable(self, rank: int, world_size: int) -> Iterator[Sample]:
        codec = TypedCodec(self.schema)
        for span, framing in self._chunks():
            records = split_records(framing, span.info.num_records)
            first = (rank - span.first_ordinal) % world_size
            for record in records[first::world_size]:
                yield codec.decode(record)

    def _chunks(self) -> Iterator[tuple[_Span, memoryview]]:
        runs = ExampleRunDecoder(self.schema)
        for span in self._spans():
            yield span, _framing(span, runs)

    def _spans(self) -> Iterator[_Span]:
        base = 0
        for version in self.versions:
            paths = version.shard_paths(self.split)
            for chunk in version.chunks(self.split):
                yield _Span(paths[chunk.shard], chunk.info, base + chunk.first_ordinal)
            base += version.num_samples(self.split)


def _framing(span: _Span, runs: ExampleRunDecoder) -> memoryview:
    with open_plain_file(span.path) as file:
        try:
            if isinstance(span.info, ExampleRun):
                return runs.read(file, span.info)
            return read_chunk(file, span.info)
        except FormatError as error:
            error.path = error.path or str(span.path)
            raise


def _check_rank(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ConfigError(f"expected a rank from 0 to {world_size - 1}, got {rank}")


def _combine(digests: Sequence[str]) -> str:
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
