"""Categories as numbers: each is hashed, with its place among the indices as the seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = ["NUM_BUCKETS", "NUM_CATEGORIES", "buckets_of", "packed"]

NUM_BUCKETS: Final = 1 << 16
NUM_CATEGORIES: Final = 20

# Per place and category its bucket: the same ones come with every batch.
_BUCKETS: Final[list[dict[Any, int]]] = [{} for _ in range(NUM_CATEGORIES)]
_MAX_BUCKETS: Final = 1 << 18
_PAIRS: Final = {
    3: "{}>{}",
    4: "{}@{}",
    5: "{}>{}",
    7: "{}@{}",
    8: "{}@{}",
    12: "{}{}",
    17: "{}@{}",
}


def buckets_of(seed: int, names: Iterable[Any]) -> NDArray[np.int32]:
    """Return the bucket of every category, given as text, number or pair."""
    known = _BUCKETS[seed]
    if len(known) > _MAX_BUCKETS:
        known.clear()
    try:
        buckets = [known[name] for name in names]
    except KeyError:
        known.update((name, _bucket(seed, name)) for name in names if name not in known)
        buckets = [known[name] for name in names]
    return np.array(buckets, dtype=np.int32)


def _bucket(seed: int, name: Any) -> int:
    text = _PAIRS[seed].format(*name) if seed in _PAIRS else "" if name is None else str(name)
    return xxhash.xxh3_64_intdigest(text.encode(), seed) % NUM_BUCKETS


def packed(first: int, *categories: Any) -> bytes:
    """Return the buckets of categories at neighbouring places, as little-endian int32.

    Args:
        first: Place of the first one.
        categories: Texts, numbers or pairs.
    """
    places = enumerate(categories, start=first)
    return b"".join(_bucket(seed, name).to_bytes(4, "little") for seed, name in places)
