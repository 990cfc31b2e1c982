"""The identity of a record: its source string and offset, and the 64-bit hashes of them.

The position of a record is ``(source, offset)``, that of a sample ``(source, offset, ordinal)``.
Source strings have logical names only, so the same data in another cluster is the same data set.
All arithmetic is unsigned 64-bit and wraps::

    hash(seed, source_hash, offset, ordinal)
        = mix( mix( mix( mix(seed + G) ^ source_hash ) + offset * G ) ^ ordinal )
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = ["Uint64s", "kafka_source", "logs_source", "position_hash", "source_hash"]

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
