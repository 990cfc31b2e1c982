"""Published data sets: opened by name, tag or path, leased, and read by split and rank."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from numpy.typing import NDArray

from trainfeed.core.config import environment_from_environ, is_remote
from trainfeed.core.datacenters import local_source
from trainfeed.core.whole_numbers import rank_of
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.readers.blocks import Block, BlockSource, Reader, Sample, SampleSource, ended
from trainfeed.readers.split_chunks import SplitChunks, root_at_store
from trainfeed.recordio import split_records
from trainfeed.samples import Schema, TypedCodec
from trainfeed.versions import (
    AcceptedHole,
    Coverage,
    DatasetFolder,
    Skip,
    Version,
    published_root,
)
from trainfeed.versions.job_versions import cover_job, data_set_of_job
from trainfeed.versions.layout import check_name, is_generation, is_name, parse_generation
from trainfeed.versions.lease import USUAL, HeldLease, hold_versions
from trainfeed.versions.tag import TaggedData
from trainfeed.versions.version import ShardChunk
from trainfeed.versions.withdraw import look_for_withdrawal

if TYPE_CHECKING:
    from trainfeed.remote import RemoteRoot

# --- The samples of published versions: one split of one or more versions, striped over ranks


class _Span(NamedTuple):
    """One chunk of a version, and the ordinal of its first sample in the data set."""

    version: Version
    chunk: ShardChunk
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
        remote: The root at a store that the shards are read from; None for files of this machine,
            or the bucket that the root of the versions follows.

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
        remote: The root at a store that the shards are read from; None for files of this machine.
    """

    def __init__(  # noqa: PLR0913 - what open_dataset found
        self,
        versions: Sequence[Version],
        split: str,
        *,
        missing: Sequence[str] = (),
        skipped: Sequence[Skip] = (),
        accepted: Sequence[AcceptedHole] = (),
        lease: HeldLease | None = None,
        remote: RemoteRoot | None = None,
    ) -> None:
        if not versions:
            raise ConfigError("expected at least one published version, found none")
        self.versions = list(versions)
        self.split = split
        self.missing = tuple(missing)
        self.skipped = tuple(skipped)
        self.accepted = tuple(accepted)
        self.lease = lease
        self.remote = root_at_store(versions[0].path) if remote is None else remote
        self.schema: Schema = versions[0].schema
        fields = versions[0].manifest.fields
        for version in versions:
            version.num_samples(split)
            # Equal JSON is an equal schema; other JSON may be one, too.
            if version.manifest.fields != fields and version.schema != self.schema:
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
            columns = codec.decode_records(framing, span.chunk.info.num_records)
            yield {name: column[mine] for name, column in columns.items()}

    def _samples(self, rank: int, world_size: int, position: int) -> Iterator[Sample]:
        codec = TypedCodec(self.schema)
        for span, framing, mine in self._chunks(rank, world_size, position):
            for record in split_records(framing, span.chunk.info.num_records)[mine]:
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
        with closing(SplitChunks(self.versions, self.split, self.remote)) as chunks:
            chunks.begin(next_ordinal)
            for span in self._spans(chunks):
                first, num_records = next_ordinal - span.first_ordinal, span.chunk.info.num_records
                if first < num_records:
                    framing = chunks.framing(span.version, span.chunk)
                    yield span, framing, slice(first, None, world_size)
                    next_ordinal += len(range(first, num_records, world_size)) * world_size

    def _spans(self, chunks: SplitChunks) -> Iterator[_Span]:
        base = 0
        for version in self.versions:
            for chunk in chunks.of(version):
                yield _Span(version, chunk, base + chunk.first_ordinal)
            base += version.num_samples(self.split)


def _combine(digests: Sequence[str]) -> str:
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


# --- The lease of an opened data set: retention removes none of its versions while it is open


def leased(reader: DatasetReader, lease: timedelta | bool) -> DatasetReader:
    """Give an opened data set a lease of its versions; return it.

    Args:
        reader: The data set.
        lease: How long the lease holds without a renewal, True for the usual hour; False changes
            nothing.

    Raises:
        AccessDeniedError: This account may not write leases.
        ConfigError: A version is in no publication root, or the length is out of range.
        NotFoundError: Retention has removed a version meanwhile.
        StorageError: The publication root refused or failed.
    """
    if lease is False:
        return reader
    length = lease if isinstance(lease, timedelta) else USUAL
    folder = _folder_of(reader.versions)
    versions = [_named(version) for version in reader.versions]
    what = f"open_dataset, split {reader.split}"
    bucket = None if reader.remote is None else reader.remote.bucket
    reader.lease = hold_versions(folder, versions, what, length=length, bucket=bucket)
    return reader


def _named(version: Version) -> tuple[str, int]:
    path = version.path.absolute()
    return path.parent.name, parse_generation(path.name)


def _folder_of(versions: Sequence[Version]) -> DatasetFolder:
    """Return the data set with these versions, from the places of their folders.

    Raises:
        ConfigError: A folder has another place than those of versions below a publication root.
    """
    folders = {_folder(version.path.absolute()) for version in versions}
    if len(folders) > 1:
        raise ConfigError("expected versions of one data set for a lease; lease each by itself")
    return folders.pop()


def _folder(path: Path) -> DatasetFolder:
    home = path.parents[2] if len(path.parents) > 3 else path
    if not (is_generation(path.name) and path.parents[1].name == "versions" and is_name(home.name)):
        raise ConfigError(
            f"expected the path of a version below a publication root for a lease, got {path};"
            " nothing was leased; open it without a lease, for retention removes nothing there"
        )
    return DatasetFolder(home.parent, home.name)


# --- Opens published data sets: by name and interval, range or tag, or by the path of one version


def open_dataset(  # noqa: PLR0913 - one call for all ways to name versions
    name: str | Path | None = None,
    *,
    interval: str | date | None = None,
    split: str,
    job: str | None = None,
    generation: str | None = None,
    missing: str = "fail",
    root: str | Path | None = None,
    lease: timedelta | bool = False,
    withdrawn: str = "fail",
    cache: str | Path | None = None,
    cache_bytes: int | None = None,
) -> DatasetReader:
    """Open a split of a published data set.

    Args:
        name: Name of a data set below the publication root, ``NAME@TAG`` for the versions that a
            tag names now (``NAME@TAG#3``: that its third change named), or the path of one version;
            one with ``@`` in it begins with ``./`` or ``/``. A tag is resolved once. May be left
            out beside ``job``.
        interval: Name of an interval, a day, or a range: ``2026-01`` for a month, ``2026-01-01``,
            ``2026-01-01T05``, ``first/last`` with both ends included. The text stands for all
            intervals that start in this time; ``version`` of the result names them. None for all
            of a tag, and if ``name`` is the path of a version.
        split: Name of the split.
        job: Name of a training job, as ``trainfeed jobs ls`` and ``train`` print it: the versions
            that it read, and no others. An interval of its window that was left out is in
            ``skipped`` or ``missing`` of the result.
        generation: Generation of a single interval, such as ``g0002``; None takes the current one.
        missing: ``fail`` refuses a range with missing intervals; ``skip`` reads the others, and
            ``missing`` of the result names the missing ones. An interval that was left out on
            purpose is not missing; ``skipped`` of the result names it, and ``accepted`` the holes
            between versions that a person accepted.
        root: The publication root; ``TRAINFEED_ROOT`` or its default when None. A root at a store,
            ``hdfs://…``, ``webhdfs://…`` or ``https://…``, is read through a cache on local disk;
            it takes neither a lease nor a job.
        lease: Whether to keep retention from removing the versions, until ``close`` of the result
            or the end of a ``with`` block. A thread renews the lease; after a kill of this process
            it ends within the time given here, by default an hour, and ten minutes.
        withdrawn: ``fail`` refuses a withdrawn version that ``generation`` or the path names; with
            ``warn`` a job that began with it goes on, and a warning says who withdrew it and why.
        cache: Folder of the cache for a root at a store, on a disk of this machine; all processes
            that name it share it. ``TRAINFEED_CACHE`` or ``~/.cache/trainfeed`` when None.
        cache_bytes: Most bytes of chunks in the cache; ``TRAINFEED_CACHE_BYTES`` or 16 GiB when
            None.

    Raises:
        WithdrawnError: A person withdrew the version; the message has who, why, and the commands.
        NotFoundError: No requested interval is published, or the path does not exist.
        WindowIncompleteError: Intervals of the range are not published, and ``missing`` is
            ``fail``.
        WindowError: ``interval`` is not an interval or range, or the schedule has no interval
            there.
        ConfigError: There is no such split or policy, the versions of a range have different
            schemas or overlap, ``generation`` or ``root`` comes with a path, ``interval`` or
            ``generation`` with a job, or there is neither a name nor a job.
        RootError: The publication root is missing, or the folder is not a publication root.
        AccessDeniedError: This account may not write the lease; the message has the remedy.
        ConflictError: A version of the tag is withdrawn or removed, or one of the job is removed;
            none is read in its place.
        ChecksumError: A manifest differs from the published one, or from that of the tag or job.
        FormatError: The file of the tag or of the job is damaged.
    """
    root = _private_root() if root is None else root
    if not is_remote(root):
        _refuse_cache(root, cache, cache_bytes)
    elif job is not None or not isinstance(name, str) or "/" in name:
        raise ConfigError(
            "expected the name of a data set or a tag beside a root at a store, got"
            f" {name if job is None else job!r}; a job is opened where the root is mounted"
        )
    if job is not None:
        if interval is not None or generation is not None:
            raise ConfigError(
                f"expected no interval and no generation beside job={job!r}, which names all of its"
                " versions itself; leave them out"
            )
        place = published_root(root)
        data_set = data_set_of_job(place, job) if name is None else _folder_named(place, name)
        return leased(_covered(cover_job(data_set, job, withdrawn=withdrawn), split), lease)
    if name is None:
        raise ConfigError("expected the name of a data set, or job=, got neither; nothing was read")
    if interval is None and not _is_tag(name):
        if generation is not None or root is not None:
            raise ConfigError(
                f"expected an interval beside generation and root, got only {str(name)!r}; name an"
                " interval, or give the path of a version alone"
            )
        return leased(
            DatasetReader([_version_at(Path(local_source(name)), withdrawn)], split), lease
        )
    asked = None if interval is None else str(interval)
    with data_at(root, str(name), asked, cache=cache, cache_bytes=cache_bytes, lease=lease) as (
        data,
        remote,
    ):
        if generation is not None:
            version = _pinned(data, asked, generation, withdrawn)
            return leased(DatasetReader([version], split, remote=remote), lease)
        _refuse_generation(asked)
        found = data.cover(asked)
        found.require(missing)
        return leased(_covered(found, split, remote), lease)


@contextmanager
def data_at(
    root: str | Path | None,
    name: str,
    *asked: str | None,
    cache: str | Path | None = None,
    cache_bytes: int | None = None,
    lease: timedelta | bool = False,
) -> Iterator[tuple[TaggedData, RemoteRoot | None]]:
    """Return a data set or a tag of it, and its root if that is at a store.

    Args:
        root: The publication root; see ``open_dataset``.
        name: The data set, or ``NAME@TAG``.
        *asked: The ranges that will be asked for, which a store is asked for at once.
        cache: See ``open_dataset``.
        cache_bytes: See ``open_dataset``.
        lease: See ``open_dataset``; there is none at a store.

    Raises:
        ConfigError: A name or a setting is not valid, or does not suit the root.
        NotFoundError: There is no such tag.
        RootError: The root is missing, or no root.
        StorageError: The root refused or failed.
    """
    root = _private_root() if root is None else root
    if not is_remote(root):
        _refuse_cache(root, cache, cache_bytes)
        yield TaggedData(published_root(root), name), None
        return
    if lease is not False and not str(root).startswith("s3://"):
        raise ConfigError(
            "expected no lease beside a root at such a store, which is only read; open it where the"
            " root is mounted, or keep the versions with a tag"
        )
    # The clients of stores are imported where a root is at one.
    from trainfeed.remote import RemoteRoot

    remote = RemoteRoot.open(str(root), cache=cache, cache_bytes=cache_bytes)
    with remote.held() as folder_of:
        data = TaggedData(remote.copies, name, folder_of=folder_of)
        for each in asked if data.tag is None else ():
            remote.look_at(data.folder, each)
        yield data, remote


def _private_root() -> str | None:
    """Return the root in a bucket that this account has no folder of its own for, or None.

    It is read as one that is named: what is asked for is copied, and not all data sets.
    """
    env = environment_from_environ()
    return env.bucket if env.is_root_private else None


def _refuse_cache(root: object, cache: object, cache_bytes: object) -> None:
    if cache is not None or cache_bytes is not None:
        raise ConfigError(
            "expected a cache beside a root at a store only, as root='hdfs://…', 'webhdfs://…' or"
            f" 'https://…', got one beside {'none' if root is None else repr(str(root))}; leave"
            " cache and cache_bytes out"
        )


def _covered(found: Coverage, split: str, remote: RemoteRoot | None = None) -> DatasetReader:
    return DatasetReader(
        found.versions,
        split,
        missing=found.missing,
        skipped=found.skipped,
        accepted=found.accepted,
        remote=remote,
    )


def _folder_named(root: Path, name: str | Path) -> DatasetFolder:
    return DatasetFolder(root, check_name(str(name)))


def _is_tag(name: str | Path) -> bool:
    return isinstance(name, str) and "@" in name and "/" not in name


def _pinned(data: TaggedData, asked: str | None, generation: str, withdrawn: str) -> Version:
    number = parse_generation(generation)
    if data.tag is not None or asked is None:
        raise ConfigError(
            f"a tag names generations itself, {data.folder.name} was asked for with a tag and with"
            f" {generation}; leave one out"
        )
    if "/" in asked:
        raise ConfigError(f"a generation pins one interval, {asked!r} is a range; name one")
    look_for_withdrawal(data.folder, asked, number, withdrawn=withdrawn)
    return Version.resolve(data.folder, asked, number)


def _refuse_generation(asked: str | None) -> None:
    first, _, last = (asked or "").partition("/")
    if is_generation(last):
        raise ConfigError(
            f"expected interval={first!r} and generation={last!r}, got interval={asked!r}"
        )


def _version_at(path: Path, withdrawn: str) -> Version:
    if not path.exists():
        raise NotFoundError(
            f"expected the path of a version, nothing is at {path}; to open a data set by its name,"
            f" name an interval too: open_dataset({path.name!r}, interval=…, split=…)"
        )
    place = path.resolve()
    if is_generation(place.name) and place.parent.parent.name == "versions":
        data_set = place.parents[2]
        folder = DatasetFolder(data_set.parent, data_set.name)
        number = parse_generation(place.name)
        look_for_withdrawal(folder, place.parent.name, number, withdrawn=withdrawn)
    return Version.open(path)
