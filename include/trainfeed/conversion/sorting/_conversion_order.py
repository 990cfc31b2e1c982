"""The order of a conversion: a pure function of the seed and of where a sample stood.

Every sample has a key, the hash of the seed and of its ordinal in the input; shards hold the
samples by ascending key. Memory, blocks, workers and retries therefore change nothing.
"""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from trainfeed.dataset.identity import Uint64s, position_hash, source_hash

__all__ = ["sort_keys"]

_SOURCE: Final = source_hash("convert")


def sort_keys(seed: int, ordinals: NDArray[Any]) -> Uint64s:
    """Return the keys of samples, uint64 of shape ``(n,)``; no two samples of a set share one.

    Args:
        seed: Any integer; taken modulo 2^64.
        ordinals: Numbers of the samples in the input, from 0, shape ``(n,)``.
    """
    return position_hash(seed, _SOURCE, ordinals)
