"""The identity of a record, and what follows from it: split, shard, and the order of samples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed import files as paths
from trainfeed.core import canonical_json
from trainfeed.errors import ConfigError

# --- The identity of a record: its source string and offset, and the 64-bit hashes of them

Uint64s: TypeAlias = NDArray[np.uint64]

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MULTIPLIER_1: Final = 0xBF58476D1CE4E5B9
_MULTIPLIER_2: Final = 0x94D049BB133111EB
_MASK: Final = (1 << 64) - 1


def kafka_source(topic: str, partition: int) -> str:
    """Return the canonical source string of a topic partition, recorded or real."""
    return f"kafka:{topic}/{partition}"


def logs_source(name: str) -> str:
    """Return the canonical source string of a log file; ``name`` is relative to the logs' root."""
    return f"logs:{name}"


def iceberg_source(table: str, name: str) -> str:
    """Return the canonical source string of a data file of a table.

    Args:
        table: Namespace and name of the table.
        name: Path of the file below the table's location, or its URI if it is elsewhere.
    """
    return f"iceberg:{table}/{name}"


def member_source(member: str, source: str) -> str:
    """Return the canonical source string of a member of a union.

    Args:
        member: Name of the member: letters, digits and ``_``.
        source: The source string that it has alone.
    """
    return f"{member}/{source}"


def split_member(source: str) -> tuple[str | None, str]:
    """Return the member that a source string names, and the string that this has alone.

    The member is None for a source that is no member of a union: there, a ``:`` is before any
    ``/``.
    """
    head, _, rest = source.partition("/")
    return (None, source) if not rest or ":" in head else (head, rest)


def source_hash(source: str) -> int:
    """Return the XXH3-64 of the source string, seed 0."""
    return xxhash.xxh3_64_intdigest(source.encode())


def position_hash(
    seed: int,
    source: int | Uint64s,
    offsets: NDArray[Any],
    ordinals: NDArray[Any] | int = 0,
) -> Uint64s:
    """Hash positions, vectorised.

    Args:
        seed: Any integer; taken modulo 2^64.
        source: One ``source_hash`` for all positions, or one per position, uint64 of shape (n,).
        offsets: Shape (n,), any integer dtype, not negative.
        ordinals: Shape (n,), or one ordinal for all.

    Returns:
        Hashes, uint64 of shape (n,).
    """
    start = np.uint64(_mix_int((seed + _GOLDEN) & _MASK))
    by_source = _mix(np.atleast_1d(np.asarray(source, dtype=np.uint64)) ^ start)
    by_offset = _mix(by_source + np.asarray(offsets).astype(np.uint64) * np.uint64(_GOLDEN))
    return _mix(by_offset ^ np.asarray(ordinals).astype(np.uint64))


def _mix(z: Uint64s) -> Uint64s:
    """Apply the finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
    return z ^ (z >> np.uint64(31))


def _mix_int(z: int) -> int:
    # The same as ``_mix`` for one Python integer, which does not wrap by itself.
    z = (z ^ (z >> 30)) * _MULTIPLIER_1 & _MASK
    z = (z ^ (z >> 27)) * _MULTIPLIER_2 & _MASK
    return z ^ (z >> 31)


# --- The split and shard of a sample, and the order of samples

MILLION: Final = 1_000_000
LATE_SPLIT: Final = "late"
# Most bytes of a manifest for its shards, so that everything else has room beside them.
_MAX_ENTRIES_BYTES: Final = canonical_json.MAX_BYTES * 7 // 8
_SHARD_NAME: Final = re.compile(r"[a-z][a-z0-9_]*-[a-z][a-z0-9_]*-[0-9]{5}-of-[0-9]{5}")


def split_seed(dataset: str) -> int:
    """Return the seed of the split hash: equal in all intervals, so a key keeps its split."""
    return xxhash.xxh3_64_intdigest(f"split:{dataset}".encode())


@dataclass(frozen=True)
class SplitBounds:
    """The splits of a data set in name order, with the upper bounds of their split hashes.

    Attributes:
        names: Split names, sorted.
        bounds: ``bounds[i]`` is above every split hash of ``names[i]``; the last bound is 2^64.
    """

    names: tuple[str, ...]
    bounds: tuple[int, ...]

    @classmethod
    def from_shares(cls, millionths: Mapping[str, int]) -> SplitBounds:
        """Cumulate shares, given in millionths that sum to 1,000,000."""
        names = tuple(sorted(millionths))
        sums = tuple(accumulate(millionths[name] for name in names))
        if not sums or sums[-1] != MILLION or min(millionths.values()) < 0:
            raise ConfigError(
                f"expected split shares that sum to {MILLION}, got {dict(millionths)}"
            )
        return cls(names, tuple((total << 64) // MILLION for total in sums))

    def assign(self, hashes: Uint64s) -> NDArray[np.intp]:
        """Return the index into ``names`` of every split hash, shape (n,)."""
        # The last bound, 2^64, does not fit a uint64. It is left out: hashes that are not below
        # any other bound get the last index.
        inner = np.array(self.bounds[:-1], dtype=np.uint64)
        return np.searchsorted(inner, hashes, side="right")


def num_shards(planned: int, millionths: int, samples_per_shard: int) -> int:
    """Return the number of shards of a split, from the plan alone.

    Args:
        planned: Records that the plan expects (offset span, or bytes // bytes_per_record).
        millionths: The split's share.
        samples_per_shard: The intended number of samples of a shard.
    """
    count = max(1, -(-planned * millionths // (MILLION * samples_per_shard)))
    if count > paths.MAX_SHARDS:
        raise ConfigError(
            f"{planned} planned records give {count} shards, at most {paths.MAX_SHARDS} have a"
            " name; raise output.samples_per_shard"
        )
    return count


def check_shards(dataset: str, shards: Mapping[str, int]) -> None:
    """Refuse more shards than a manifest can list, before anything is read.

    Args:
        dataset: Name of the data set.
        shards: Split → number of shards.

    Raises:
        ConfigError: The entries would take more bytes than a manifest has for them.
    """
    num_bytes = sum(
        count * _entry_bytes(shard_name(dataset, split, 0, count))
        for split, count in shards.items()
    )
    if num_bytes > _MAX_ENTRIES_BYTES:
        raise ConfigError(
            f"{sum(shards.values())} shards ({', '.join(f'{k} {n}' for k, n in shards.items())})"
            f" take up to {num_bytes} bytes of the manifest, {_MAX_ENTRIES_BYTES} are allowed;"
            " nothing was read; lower output.shards, or raise output.samples_per_shard, in"
            " dataset.yaml"
        )


def _entry_bytes(name: str) -> int:
    """Return the most bytes of a shard's entry: with a size of 1 TiB, and 10 digits of samples."""
    entry = {"name": name, "bytes": 1 << 40, "samples": 10**9}
    digests = dict.fromkeys(("sha256", "records_sha256"), "0" * 64)
    return len(canonical_json.dumps({**entry, **digests})) + 1


def key_order(
    keys: Uint64s, source_hashes: Uint64s, offsets: NDArray[Any], ordinals: NDArray[Any]
) -> NDArray[np.intp]:
    """Return the permutation that sorts samples by (key, source_hash, offset, ordinal)."""
    # ``lexsort`` sorts by its last key first.
    return np.lexsort((ordinals, offsets, source_hashes, keys))


def shard_name(dataset: str, split: str, index: int, shards: int) -> str:
    """Return ``<dataset>-<split>-aaaaa-of-bbbbb``; bbbbb is the largest index."""
    name = paths.shard_name(f"{dataset}-{split}", index, shards)
    if not _SHARD_NAME.fullmatch(name) or not 0 <= index < shards:
        raise ConfigError(f"{name!r} is no shard name")
    return name


def shard_starts(keys: Uint64s, shards: int) -> Sequence[int]:
    """Return the first row of every one of ``shards`` shards, for sorted ``keys``."""
    # Shard ``i`` has the keys from ceil(i * 2^64 / shards) on: equal ranges of all 64-bit keys.
    first_keys = [((index << 64) + shards - 1) // shards for index in range(shards)]
    return [int(np.searchsorted(keys, np.uint64(key), side="left")) for key in first_keys]
